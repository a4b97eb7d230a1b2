"""Answers of a judge that knows all known items, for scripted servers and judges."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from alps.ext.histories.judging import rubric_of
from alps.judges.admission import KnownItem, pool
from alps.judges.rubric import _OURS, OPTION, SUPPORT, rubric

OF_SETS = sorted(
    path.name.removesuffix(".md") for path in (files("alps.ext.histories") / "rubrics").iterdir()
)
"""The rubrics of sets of histories."""


GIVEN = {
    "verdict": ("not_met", "met"),
    "mark": (0, 2),
    "included": ("no", "yes"),
    "outcome": ("hallucination", "correct"),
}
"""What a reply gives a bad answer and a good one, by its field; marks from 1 to 5 else."""


@cache
def _items() -> dict[str, KnownItem]:
    rubrics = [*map(rubric, _OURS), *map(rubric_of, OF_SETS)]
    return {_key(item.question.payload()): item for one in rubrics for item in pool(one)}


def _key(payload: dict[str, Any]) -> str:
    # A judge is shown options in another order than the file's.
    options = sorted((payload.get("options") or {}).values())
    return json.dumps({**payload, "options": options}, sort_keys=True)


def known_item(body: dict[str, Any]) -> tuple[KnownItem, dict[str, Any]] | None:
    """Return the known item that a request asks about, and its payload; None for any other."""
    # One that is asked again stands before the reply that could not be read.
    for message in body.get("messages") or ():
        content = message.get("content")
        start = content.find('\n\n{"kind": ') if isinstance(content, str) else -1
        if start >= 0:
            payload = json.loads(content[start:])
            item = _items().get(_key(payload))
            return None if item is None else (item, payload)
    return None


def reply(item: KnownItem, payload: dict[str, Any], *, good: bool) -> str:
    """Return the reply of a judge that takes the answer of an item for good, or for bad."""
    kind = payload["kind"]
    if kind == "match":
        pair = {"reason": "r", "gold": "g1", "predicted": "p1", "relation": "same"}
        return json.dumps({"pairs": [pair] if good else []})
    if kind == SUPPORT:
        support = "supported" if good else "unsupported"
        return json.dumps({"items": [{"reason": "r", "id": "p1", "support": support}]})
    if kind == OPTION:
        letters = {text: letter for letter, text in payload["options"].items()}
        options = item.question.options
        letter = letters[options[item.option or 0]] if good else "none"
        return json.dumps({"reason": "r", "option": letter})
    fields = [name for name in item.question.rubric.reply.model_fields if name != "reason"]
    marks = {name: GIVEN.get(name, (1, 5))[good] for name in fields}
    return json.dumps({"reason": "r", **marks})


def right_reply(body: dict[str, Any]) -> str | None:
    """Return the right reply to a request about a known item; None for any other request."""
    asked = known_item(body)
    return None if asked is None else reply(*asked, good=asked[0].good)
