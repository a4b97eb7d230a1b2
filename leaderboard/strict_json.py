"""JSON of strangers: no key twice, no NaN, no number beyond a float's range, no bottomless nesting."""

import json
import math
from typing import Any, NoReturn

DEEPEST = 20
"""How many lists and objects may stand inside one another."""
LONGEST_INTEGER = 16


def parse(data: bytes | str) -> Any:
    """Read one JSON value.

    Raises:
        ValueError: If it is not JSON in UTF-8, or JSON that readers would not agree about; one
            line, what is wrong.
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_integer,
        )
    except RecursionError as error:
        raise ValueError(_too_deep()) from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg.lower()} at character {error.pos})") from error
    if depth(value) > DEEPEST:
        raise ValueError(_too_deep())
    return value


def depth(value: Any) -> int:
    """Return how many lists and objects stand inside one another in `value`.

    Stops counting beyond `DEEPEST`.
    """
    level, here = 0, [value]
    while level <= DEEPEST:
        inner = [node for node in here if isinstance(node, dict | list)]
        if not inner:
            return level
        here = [
            child for node in inner for child in (node.values() if isinstance(node, dict) else node)
        ]
        level += 1
    return level


def _too_deep() -> str:
    return f"lists and objects stand inside one another more than {DEEPEST} deep"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the key {name[:40]!a} stands twice in one object")
            seen.add(name)
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is beyond the range of numbers")
    return value


def _integer(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise ValueError(f"the integer {text[:20]}… has more than {LONGEST_INTEGER} digits")
    return int(text)
