"""Rows of the samples, and checks that hold for each of them."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from alps.data.release import open_split
from alps.similarity import THRESHOLD, similarity

SPLIT = open_split("samples", "dev")


def rows(track: str, name: str) -> list[dict[str, Any]]:
    """Read a file of a track as it stands there."""
    return json_lines(SPLIT.track(track) / name)


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def for_each(
    items: Iterable[Any], name_of: Callable[[Any], object]
) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Make one test of a check: it looks at every item, and names the first that fails."""

    def decorate(check: Callable[[Any], None]) -> Callable[[], None]:
        def test() -> None:
            for item in items:
                try:
                    check(item)
                except AssertionError as error:
                    error.add_note(f"in {name_of(item)}")
                    raise

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate


def alike(values: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of texts that say nearly the same."""
    return [pair for pair in combinations(values, 2) if similarity(*pair) >= THRESHOLD]


def letters_of(text: str) -> list[str]:
    """Return the letters of a text without its code."""
    prose = re.sub(r"```.*?(```|\Z)", "", text, flags=re.DOTALL)
    return [character for character in prose if character.isalpha()]


def is_latin(text: str) -> bool:
    return all(unicodedata.name(letter).startswith("LATIN") for letter in text if letter.isalpha())


def is_right_to_left(text: str) -> bool:
    return sum(unicodedata.bidirectional(c) in ("R", "AL") for c in text) > len(text) / 2


def user_text(turns: Iterable[dict[str, Any]]) -> str:
    return "\n".join(turn["text"] for turn in turns if turn["role"] == "user")
