"""Rows of the samples that ask to use a memory, read once for the tests of what they hold."""

import json
from typing import Any

from alps.data.release import RowPair, open_split, read_track
from alps.schema import Turn

SPLIT = open_split("samples", "dev")


def pairs(ability: str) -> list[RowPair]:
    return list(read_track(SPLIT.track(f"task4_{ability}")))


def plain(ability: str, name: str) -> list[dict[str, Any]]:
    """Read a file of an ability as it stands there."""
    path = SPLIT.track(f"task4_{ability}") / name
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def dialogue(pair: RowPair) -> list[Turn]:
    return [
        Turn.model_validate(turn) for turn in pair.input["input"]["model_input"]["dialogue_history"]
    ]


def gold(pair: RowPair) -> dict[str, Any]:
    assert pair.gold is not None
    return dict(pair.gold["gold"])


def target(pair: RowPair) -> dict[str, Any]:
    return dict(gold(pair)["selected_memory"])


def user_text(pair: RowPair) -> str:
    return "\n".join(turn.text for turn in dialogue(pair) if turn.role == "user")
