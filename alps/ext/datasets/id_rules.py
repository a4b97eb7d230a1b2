"""Rules that pick a candidate of a pool by ids alone: what they find is a cue, and no matter."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

Key = tuple[tuple[int, int, str], ...]


@lru_cache(maxsize=8192)
def natural(identifier: str) -> Key:
    """Return a key that sorts ids as people count: m2 before m10."""
    return tuple(_part(part) for part in re.split(r"(\d+)", identifier) if part)


def _part(part: str) -> tuple[int, int, str]:
    if not part.isdecimal():
        return 0, 0, part
    # Digits may be of any script, and too many for one number.
    digits = "".join(str(int(digit)) for digit in part).lstrip("0")
    return 1, len(digits), digits


def _own_form(ids: Sequence[str], once: Sequence[str], session: str) -> str | None:
    forms: dict[str, list[str]] = {}
    for identifier in ids:
        forms.setdefault(re.sub(r"\d+", "0", identifier), []).append(identifier)
    alone = [of_form[0] for of_form in forms.values() if len(of_form) == 1]
    return alone[0] if len(alone) == 1 and len(forms) > 1 else None


def _own_session(ids: Sequence[str], once: Sequence[str], session: str) -> str | None:
    named = [identifier for identifier in ids if session and session in identifier]
    return named[0] if len(named) == 1 else None


# Where every id occurs once, the first and the last of these are places, no matter of ids.
# Rules that pick a candidate by ids alone; of two that do equally well the first is reported.
ID_RULES: dict[str, Callable[[Sequence[str], Sequence[str], str], str | None]] = {
    "the lowest id that occurs once": lambda _, once, __: min(once, key=natural, default=None),
    "the highest id that occurs once": lambda _, once, __: max(once, key=natural, default=None),
    "the only id that occurs once": lambda _, once, __: once[0] if len(once) == 1 else None,
    "the first id that occurs once": lambda ids, once, _: (
        once[0] if 0 < len(once) < len(ids) else None
    ),
    "the last id that occurs once": lambda ids, once, _: (
        once[-1] if 0 < len(once) < len(ids) else None
    ),
    "the lowest id": lambda ids, _, __: min(set(ids), key=natural),
    "the highest id": lambda ids, _, __: max(set(ids), key=natural),
    "the only id of its form": _own_form,
    "the only id that contains the session id": _own_session,
}
SAME_ID = "always the same id"


def picks(ids: Sequence[str], session: str) -> dict[str, int]:
    """Return the place that each rule picks, for the rules that pick one."""
    counts = Counter(ids)
    once = [identifier for identifier in ids if counts[identifier] == 1]
    places = {}
    for name, rule in ID_RULES.items():
        chosen = rule(ids, once, session) if ids else None
        if chosen is not None and counts[chosen] == 1:
            places[name] = ids.index(chosen)
    return places
