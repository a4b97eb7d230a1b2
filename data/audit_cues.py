"""Statistical tests of an audit: can the gold of a pool be told without reading it?

All of them use the same two bars: p < `ALPHA`, after a Bonferroni correction for the rules that are
tried together, and a practical effect, so that a large data set does not fail over something nobody
could use.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

ALPHA = 0.001
LEAST_GAIN = 0.05
"""A rule must find the gold in this share of the pools beyond chance."""
LEAST_DISTANCE = 0.2
"""The Kolmogorov-Smirnov distance from uniform that counts."""
LEAST_SHIFT = 0.15
"""The shift of the mean rank of the gold, from the middle (.5), that counts."""

Key = tuple[tuple[int, int, str], ...]


@lru_cache(maxsize=8192)
def natural(identifier: str) -> Key:
    """Return a key that sorts ids as people count: m2 before m10."""
    return tuple(_part(part) for part in re.split(r"(\d+)", identifier) if part)


def _part(part: str) -> tuple[int, int, str]:
    if not part.isdecimal():
        return 0, 0, part
    digits = "".join(str(int(digit)) for digit in part).lstrip(
        "0"
    )  # of any script, and too many for one number
    return 1, len(digits), digits


def _lowest_once(ids: Sequence[str], once: Sequence[str], session: str) -> str | None:
    return min(once, key=natural, default=None)


def _highest_once(ids: Sequence[str], once: Sequence[str], session: str) -> str | None:
    return max(once, key=natural, default=None)


def _only_once(ids: Sequence[str], once: Sequence[str], session: str) -> str | None:
    return once[0] if len(once) == 1 else None


def _lowest(ids: Sequence[str], once: Sequence[str], session: str) -> str | None:
    return min(set(ids), key=natural)


def _highest(ids: Sequence[str], once: Sequence[str], session: str) -> str | None:
    return max(set(ids), key=natural)


def _first_once(ids: Sequence[str], once: Sequence[str], session: str) -> str | None:
    # Where every id occurs once this is the first place, which is no matter of ids.
    return once[0] if once and len(once) < len(ids) else None


def _last_once(ids: Sequence[str], once: Sequence[str], session: str) -> str | None:
    return once[-1] if once and len(once) < len(ids) else None


def _own_form(ids: Sequence[str], once: Sequence[str], session: str) -> str | None:
    forms: dict[str, list[str]] = {}
    for identifier in ids:
        forms.setdefault(re.sub(r"\d+", "0", identifier), []).append(identifier)
    alone = [found[0] for found in forms.values() if len(found) == 1]
    return alone[0] if len(alone) == 1 and len(forms) > 1 else None


def _own_session(ids: Sequence[str], once: Sequence[str], session: str) -> str | None:
    named = [identifier for identifier in ids if session and session in identifier]
    return named[0] if len(named) == 1 else None


ID_RULES: dict[str, Callable[[Sequence[str], Sequence[str], str], str | None]] = {
    "the lowest id that occurs once": _lowest_once,
    "the highest id that occurs once": _highest_once,
    "the only id that occurs once": _only_once,
    "the first id that occurs once": _first_once,
    "the last id that occurs once": _last_once,
    "the lowest id": _lowest,
    "the highest id": _highest,
    "the only id of its form": _own_form,
    "the only id with the session in it": _own_session,
}
"""Rules that pick a candidate by ids alone; of two that do equally well the first is reported."""
SAME_ID = "always the same id"


def picks(ids: Sequence[str], session: str) -> dict[str, int]:
    """Return the place that each rule picks, for the rules that pick one."""
    counts = Counter(ids)
    once = [identifier for identifier in ids if counts[identifier] == 1]
    found = {}
    for name, rule in ID_RULES.items():
        chosen = rule(ids, once, session) if ids else None
        if chosen is not None and counts[chosen] == 1:
            found[name] = ids.index(chosen)
    return found


def above_chance(hits: int, sizes: Sequence[int], *, tried: int) -> float | None:
    """Return p where a rule that hit in `hits` pools is above chance, else None.

    Exact one-sided binomial test against the mean of 1/size over all pools (Hoeffding 1956: with
    unequal sizes its tail is never too small above the mean), times `tried`, the number of rules; p
    < `ALPHA` and a gain of `LEAST_GAIN`.
    """
    n = len(sizes)
    if not n:
        return None
    chance = math.fsum(1 / size for size in sizes) / n
    if hits / n - chance < LEAST_GAIN:
        return None
    from scipy.stats import binom

    p = min(1.0, tried * float(binom.sf(hits - 1, n, chance)))
    return p if p < ALPHA else None


def far_from_uniform(places: Sequence[float]) -> tuple[float, float] | None:
    """Return (distance, p) where relative places in (0, 1) are far from uniform, else None.

    Two-sided exact Kolmogorov-Smirnov test, p < `ALPHA` and a distance of `LEAST_DISTANCE`. That
    places are discrete moves the distance by half a place at most.
    """
    if len(places) < 2:
        return None
    from scipy.stats import kstest

    result = kstest(places, "uniform")
    distance, p = float(result.statistic), float(result.pvalue)
    return (distance, p) if p < ALPHA and distance >= LEAST_DISTANCE else None


def shifted(ranks: Sequence[float], sizes: Sequence[int]) -> tuple[float, float] | None:
    """Return (mean rank, p) where the mean of relative ranks in [0, 1] is far from .5, else None.

    Two-sided z test (the rank sum test over pools): under no cue a rank among n has variance (n+1)
    / (12 (n-1)), less with ties, so ties only make the test cautious. p < `ALPHA` and a shift of
    `LEAST_SHIFT`.
    """
    if len(ranks) < 2:
        return None
    mean = math.fsum(ranks) / len(ranks)
    variance = math.fsum((n + 1) / (12 * (n - 1)) for n in sizes) / len(ranks) ** 2
    p = math.erfc(abs(mean - 0.5) / math.sqrt(2 * variance))
    return (mean, p) if p < ALPHA and abs(mean - 0.5) >= LEAST_SHIFT else None
