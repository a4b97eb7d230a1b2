"""The mark `[ERROR: …]` that annotators left at the end of a gold value which they rejected."""

import re

_REJECTED = "[ERROR:"
_BRACKET = re.compile(r"[\[\]]")


def shown_value(value: str) -> str:
    """Return `value` without the trailing `[ERROR: …]` that marks gold its annotators rejected."""
    shown = value[: _mark(value)] if _REJECTED in value else value  # nearly all have none
    return shown.rstrip() or value


def is_rejected(value: str) -> bool:
    """Tell whether a gold value carries the mark of rejection."""
    return _mark(value) < len(value)


def _mark(value: str) -> int:
    """Return where the mark of rejection begins; the length of the value where there is none.

    It is the `[ERROR:` whose bracket closes at the end, or never does; of several in a row at the
    end, the first.
    """
    if _REJECTED not in value:
        return len(value)
    starts = _starts_by_end(value)
    begin, end = len(value), len(value.rstrip())
    while (start := starts.get(end)) is not None:
        begin, end = start, len(value[:start].rstrip())
    return begin


def _starts_by_end(value: str) -> dict[int, int]:
    """Return where each `[ERROR: …]` begins by where it ends; one that is cut off, at the end."""
    starts: dict[int, int] = {}
    opened: list[int] = []
    for bracket in _BRACKET.finditer(value):
        if bracket[0] == "[":
            opened.append(bracket.start())
        elif opened:
            starts[bracket.end()] = opened.pop()
    cut_off = [start for start in opened if value.startswith(_REJECTED, start)]
    found = {end: start for end, start in starts.items() if value.startswith(_REJECTED, start)}
    return {**found, len(value.rstrip()): cut_off[0]} if cut_off else found
