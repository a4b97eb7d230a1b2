"""Answers that know the gold: they hold words that only the gold has more often than real ones.

A system that reads a dialogue writes down what is in it, in its own words or in those of the
dialogue. Words that only the gold has can be met by chance, and the figures below say how often
seven real models meet them. Whatever else is written around a copied value, or however its words
are moved, they stay.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from math import log10
from typing import Any

from scipy.stats import binom

from alps.leaderboard.findings import Findings
from alps.leaderboard.site_data import read_published
from alps.similarity import features, similar_pairs
from alps.tasks import Task
from alps.tasks.base import Overlap
from alps.text import fold

# A larger share of answers that are the gold's very words is far beyond what models do.
COPIED = 0.9
# A similarity from which a text is the gold in nearly its words, and a share of such texts beyond
# what models do. Of 301 values that a model really predicted, 13 were that near, and of those of
# the embedded rules 3 of 26: REAL_NEAR is the model's share, rounded up.
NEAR, NEARLY_COPIED, REAL_NEAR = 0.8, 0.6, 0.05
# A record is close to the gold where so much of the weight of its own words is in the answer. The
# most of seven real models is .216, on 426 to 498 records of AlpsBench (the others .010 to .199).
# MOST_CLOSE leaves room for better models. Gold itself is close in all records, and with 30 % of
# its words left out in .71 to .86 of them.
CLOSE, REAL_CLOSE, MOST_CLOSE = 0.6, 0.22, 0.35
# The same for gold values that stand word for word in an answer, and not in the dialogue: at most
# 76 of 1,755.
REAL_VERBATIM, MOST_VERBATIM = 0.05, 0.2
# Odds of as many by chance, at the rate of the real model with the most, below which a person is
# told.
ODDS = 1e-3
# Fewer values say nothing about shares; up to so many choices may well all be right.
FEWEST, MOST_GUESSED = 10, 50
# Fewer words of the gold's own in a record, by their weight, say nothing.
_LEAST_WEIGHT = 2.0
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
# More than any similarity: the very words.
_SAME = 2.0


def check_gold_overlap(
    where: str,
    task: Task,
    pairs: Sequence[tuple[Any, Mapping[str, Any]]],
    findings: Findings,
) -> None:
    """Flag answers that know more of the gold than a dialogue tells.

    Args:
        where: The file, for what is found.
        task: The task of the track.
        pairs: Samples with gold, each with one answer to it.
        findings: Takes what is found.
    """
    what, public = "", task.public
    if public.choice is not None:
        right = [public.choice(answer)[0] == sample.gold for sample, answer in pairs]
        what = _too_often_right(task, right)
    elif public.overlap is not None:
        compared = [_without_given(public.overlap(sample, answer)) for sample, answer in pairs]
        what = _copied(public.unit, compared) or _verbatim(compared) or _close(compared)
    if what:
        mend = "say in notes how the answers came about"
        findings.warn("near_gold", where, f"{what}: was the gold seen?", mend)


def visible(text: str) -> str:
    """Return a text without format characters, fillers, variation selectors and overlays."""
    return text if text.isascii() else "".join(filter(_is_visible, text))


def _is_visible(character: str) -> bool:
    hidden = unicodedata.category(character) == "Cf" or unicodedata.combining(character) == 1
    return not hidden and character not in _FILLERS and not 0xFE00 <= ord(character) <= 0xFE0F


def _without_given(one: Overlap) -> Overlap:
    """Return what is compared as it can be seen: what was given to hand back is no find."""
    given = set(map(fold, one.given))
    values = [value for value in map(visible, one.values) if fold(value) not in given]
    return Overlap([*map(visible, one.golds)], values, [*map(visible, one.known)])


def _too_often_right(task: Task, right: Sequence[bool]) -> str:
    """Say that more choices are right than any model that the paper reports gets, where so."""
    best, total = _best_reported(task.track, task.headline.name), len(right)
    if total < MOST_GUESSED or sum(right) <= best * total:
        return ""
    odds = _odds(_chance(sum(right), total, best))
    reported = f"the best model that the paper reports has {best:.3f} {odds}"
    return f"{sum(right):,} of {total:,} choices are the gold; {reported}"


@cache
def _best_reported(track: str, metric: str) -> float:
    """Return the best score that the paper reports of any model on a track; 1 where of none."""
    rows = (row.scores.get(metric) for row in read_published().on(track))
    return max((float(score.value) for score in rows if score is not None), default=1.0)


def _copied(unit: str, compared: Sequence[Overlap]) -> str:
    """Say that most of what was answered is the gold, in its words or nearly."""
    strengths: list[float] = []
    for one in compared:
        strengths += _likeness(one)
    same, total = strengths.count(_SAME), len(strengths)
    near = sum(strength >= NEAR for strength in strengths)
    if total < FEWEST:
        return ""
    if same > COPIED * total:
        odds = _odds(_chance(same, total, REAL_NEAR))
        return f"{same:,} of {total:,} {unit} word for word {odds}"
    if near > NEARLY_COPIED * total:
        odds = _odds(_chance(near, total, REAL_NEAR))
        return f"{near:,} of {total:,} {unit} in nearly the same words {odds}"
    return ""


def _likeness(one: Overlap) -> list[float]:
    """Return how much each value of an answer is like the gold: `_SAME` for its very words."""
    exact = set(map(fold, one.golds))
    best = [_SAME if fold(value) in exact else 0.0 for value in one.values]
    for _, index, strength in similar_pairs(one.golds, one.values, NEAR):
        best[index] = max(best[index], strength)
    return best


def _verbatim(compared: Sequence[Overlap]) -> str:
    """Say that gold values stand word for word in the answers, whatever else does."""
    verbatim: list[bool] = []
    for one in compared:
        known, values = fold("\n".join(one.known)), [fold(value) for value in one.values]
        for gold in map(fold, one.golds):
            if gold not in known:
                verbatim.append(any(gold in value for value in values))
    count, total = sum(verbatim), len(verbatim)
    odds = _chance(count, total, REAL_VERBATIM)
    if odds > ODDS or count <= MOST_VERBATIM * total:
        return ""
    real = f"of seven real models' at most {REAL_VERBATIM:.0%} do"
    what = f"{count:,} of {total:,} gold values stand in the answers word for word"
    return f"{what}; {real} {_odds(odds)}"


def _close(compared: Sequence[Overlap]) -> str:
    """Say that the answers have words of the gold that are nowhere in what the system was shown."""
    shares = [share for one in compared if (share := own_share(one)) is not None]
    close = sum(share >= CLOSE for share in shares)
    odds = _chance(close, len(shares), REAL_CLOSE)
    if odds > ODDS or close <= MOST_CLOSE * len(shares):
        return ""
    what = f"{close:,} of {len(shares):,} answers have most of the words that the gold has and "
    what += "the dialogue has not"
    return f"{what}; of seven real models' at most {REAL_CLOSE:.0%} do {_odds(odds)}"


def own_share(one: Overlap) -> float | None:
    """Return the share, by weight, of the gold's own words that stand in an answer, in [0, 1].

    None where the gold has hardly any words of its own.
    """
    known = features("\n".join(one.known)).content
    own: dict[str, float] = {}
    for gold in one.golds:
        for piece, weight in features(gold).content.items():
            if piece not in known:
                own[piece] = max(weight, own.get(piece, 0.0))
    if (total := sum(own.values())) < _LEAST_WEIGHT:
        return None
    answered = features("\n".join(one.values)).content
    return sum(weight for piece, weight in own.items() if piece in answered) / total


def _chance(count: int, total: int, rate: float) -> float:
    """Return the chance of so many or more out of `total`, each at `rate`."""
    return float(binom.sf(count - 1, total, rate)) if total else 1.0


def _odds(chance: float) -> str:
    if chance <= 0:
        return "(odds below 1 in 10^300)"
    if chance > 1e-6:
        return f"(odds 1 in {1 / chance:,.0f})"
    return f"(odds 1 in 10^{-log10(chance):.0f})"
