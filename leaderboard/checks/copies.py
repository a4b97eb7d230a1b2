"""Copied answers: from another submission, or from the gold.

Submissions are compared by the words of their answers, record by record, with MinHash: words are
hashed into a few bins, and the share of bins with the same least hash estimates the Jaccard index
of two sets (Li, Owen and Zhang, «One Permutation Hashing», NIPS 2012). In ranks and tests all
copies are one system.

A system that reads a dialogue writes down what is in it, in its own words or in those of the
dialogue. Words that only the gold has can be met by chance, and the figures below say how often
seven real models meet them. Whatever else is written around a copied value, or however its words
are moved, they stay.
"""

import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import log10
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from alps.errors import AlpsError
from alps.leaderboard.checks import Findings, some_of
from alps.leaderboard.gold_data import task_under
from alps.leaderboard.references import read_references
from alps.leaderboard.submission import CARD, Submission, SubmissionEntry, read_entry
from alps.leaderboard.untrusted import shown
from alps.similarity import features, similar_pairs
from alps.tasks import Task
from alps.tasks.base import Overlap, PublicAnswers
from alps.text import fold

# Mean likeness of two submissions' answers from which they are copies. Of 21 pairs of seven real
# models on 654 dialogues the most alike have .29 (AlpsBench's recorded outputs).
ALIKE = 0.6
# Fewer records with words than these are copies only where every answer is the same.
FEWEST_RECORDS = 3
# Of a longer track so many records are compared: a site has hundreds of submissions.
MOST_RECORDS, _MOST_BESIDE = 24, 1_000
_BINS, _EMPTY = 8, 0xFFFFFFFF
_WORD, _ASCII_WORD = re.compile(r"[^\W\d_]+"), re.compile("[a-z]+")
_LONGEST_WORD, _WORDS_A_RECORD = 30, 2_000
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
FEWEST_VALUES, MOST_GUESSED = 10, 50
# Fewer words of the gold's own in a record, by their weight, say nothing.
_LEAST_WEIGHT = 2.0
# More than any similarity: the very words.
_SAME = 2.0

Key = tuple[str, int]


@dataclass(frozen=True)
class AnswerHashes:
    """The answers of a submission on one track: a hash of each, and the minima of its words."""

    records: tuple[Key, ...]
    whole: NDArray[np.uint32]
    minima: NDArray[np.uint32]


def check_copies(folder: Path, card: Submission, findings: Findings) -> None:
    """Flag every track whose answers nearly equal those of another submission in the folder."""
    others = list(others_beside(folder))
    mine = SubmissionEntry(folder, card, None)
    for name, track in card.tracks.items():
        rivals = []
        for entry in others:
            rival = entry.card.tracks.get(name)
            if rival is not None and rival.data_sha256 == track.data_sha256:
                rivals.append(entry)
        if rivals and (same := _copied_by(mine, rivals, name)):
            submissions = "submission" if len(same) == 1 else "submissions"
            what = "the answers are identical or nearly identical to those of the "
            what += f"{submissions} {some_of(same)}"
            mend = "explain in notes= where the answers come from; ranks and tests count copies as "
            mend += "one system"
            findings.warn("copy", f"{name}/predictions.jsonl", what, mend)


def _copied_by(mine: SubmissionEntry, rivals: Iterable[SubmissionEntry], name: str) -> list[str]:
    """Name the submissions with the same answers on a track, or nearly."""
    same = []
    if (own := _answers(mine, name)) is not None:
        for entry in rivals:
            answers = _answers(entry, name)
            if answers is not None and likeness(own, answers) >= ALIKE:
                same.append(shown(entry.card.slug))
    return same


def others_beside(folder: Path) -> Iterator[SubmissionEntry]:
    """Yield the other submissions that can be read."""
    for path in _paths_beside(folder):
        with suppress(AlpsError, OSError):
            yield read_entry(path)


def unreadable_beside(folder: Path) -> dict[str, str]:
    """Return the other submissions that can't be read, and why, by the name of their folder."""
    faults = {}
    for path in _paths_beside(folder):
        try:
            read_entry(path)
        except (AlpsError, OSError) as error:
            faults[path.name] = str(error)
    return faults


def _paths_beside(folder: Path) -> list[Path]:
    own = folder.resolve()
    try:
        paths = sorted(path for path in own.parent.iterdir() if path.name != own.name)
        return [path for path in paths[:_MOST_BESIDE] if _is_submission(path)]
    except OSError:
        return []


def _is_submission(path: Path) -> bool:
    try:
        return not path.is_symlink() and (path / CARD).is_file()
    except OSError:
        return False


def _answers(entry: SubmissionEntry, name: str) -> AnswerHashes | None:
    try:
        task = task_under(name, entry.card.tracks[name].conditions)
        return answers_of(entry.rows(name, "predictions"), task.public)
    except AlpsError:
        return None


def answers_of(rows: Iterable[Mapping[str, Any]], public: PublicAnswers) -> AnswerHashes:
    """Sketch the predictions of a track; rows that have not the form of an answer have no words."""
    whole, minima = [], []
    sampled = _sampled(rows)
    records = tuple(sorted(sampled))
    for key in records:
        words, chosen = _words(sampled[key], public)
        whole.append(zlib.crc32("\0".join(sorted([*words, *chosen])).encode("utf-8", "replace")))
        minima.append(_minima(words))
    shape = len(records), _BINS
    return AnswerHashes(
        records,
        np.array(whole, dtype=np.uint32),
        np.array(minima, dtype=np.uint32).reshape(shape),
    )


def likeness(one: AnswerHashes, other: AnswerHashes) -> float:
    """Return the similarity of the answers of two submissions, in [0, 1]; 1: all are equal."""
    if one.records != other.records or not one.records:
        return 0.0
    return float(_likeness(one, other.whole[None], other.minima[None])[0])


def originals(answers: Sequence[AnswerHashes]) -> list[int]:
    """Return, for each of several submissions, the index of the first that it is a copy of."""
    on_records: dict[tuple[Key, ...], list[int]] = {}
    for index, mine in enumerate(answers):
        on_records.setdefault(mine.records, []).append(index)
    of_each = list(range(len(answers)))
    for records, indices in on_records.items():
        # Without records there is nothing to be a copy of.
        if not records:
            continue
        group = [answers[index] for index in indices]
        # Stacked once: the pairs of a board are many.
        whole = np.stack([one.whole for one in group])
        minima = np.stack([one.minima for one in group])
        firsts: list[int] = []
        for place, index in enumerate(indices):
            alike = _likeness(group[place], whole[firsts], minima[firsts]) >= ALIKE
            if alike.any():
                of_each[index] = indices[firsts[int(alike.argmax())]]
            else:
                firsts.append(place)
    return of_each


def _likeness(
    one: AnswerHashes, whole: NDArray[np.uint32], minima: NDArray[np.uint32]
) -> NDArray[np.float64]:
    """Return how alike a submission's answers and those of others to the same records are."""
    filled = (minima != _EMPTY) | (one.minima != _EMPTY)
    equal = ((minima == one.minima) & filled).sum(axis=(1, 2))
    shared: NDArray[np.float64] = equal / np.maximum(filled.sum(axis=(1, 2)), 1)
    shared[filled.any(axis=2).sum(axis=1) < FEWEST_RECORDS] = 0.0
    shared[(whole == one.whole).all(axis=1)] = 1.0
    return shared


def _sampled(rows: Iterable[Mapping[str, Any]]) -> dict[Key, object]:
    """Return the answers to the records whose ids have the least hashes, by their keys."""
    answers: dict[Key, object] = {}
    for row in rows:
        repeat = row.get("repeat")
        key = str(row.get("benchmark_id")), repeat if isinstance(repeat, int) else 0
        answers[key] = row.get("prediction")
    order = sorted(answers, key=lambda key: (zlib.crc32(key[0].encode("utf-8", "replace")), key))
    return {key: answers[key] for key in order[:MOST_RECORDS]}


def _words(answer: object, public: PublicAnswers) -> tuple[list[str], list[str]]:
    """Return the words of an answer, with the order of its ranking, and what it chose.

    A choice alone, which the best systems share, is no word.
    """
    words: list[str] = []
    chosen: list[str] = []
    if not isinstance(answer, dict):
        return words, chosen
    # Rows of anybody: what has not the form of the task's answers has no words.
    with suppress(LookupError, TypeError, AttributeError):
        words += _cut(" ".join(public.texts(answer)))
        if public.choice is not None:
            choice, ranking = public.choice(answer)
            chosen.append(f"={choice}")
            words += [f"{first}>{second}" for first, second in pairwise(ranking)]
    return words, chosen


def _cut(text: str) -> list[str]:
    """Return the words of a text; runs of a script without spaces give character pairs."""
    words: list[str] = []
    if text.isascii():
        words = [word[:_LONGEST_WORD] for word in _ASCII_WORD.findall(text.lower())]
        return words[:_WORDS_A_RECORD]
    # Characters that can't be seen must not make another text of a copy.
    visible = "".join(character for character in text if unicodedata.category(character) != "Cf")
    for word in _WORD.findall(fold(visible)):
        if word.isascii() and len(word) <= _LONGEST_WORD:
            words.append(word)
        else:
            words += [word[start : start + 2] for start in range(max(1, len(word) - 1))]
    return words[:_WORDS_A_RECORD]


def _minima(words: Iterable[str]) -> list[int]:
    least = [_EMPTY] * _BINS
    for word in set(words):
        hashed = zlib.crc32(word.encode("utf-8", "replace"))
        least[hashed % _BINS] = min(least[hashed % _BINS], hashed)
    return least


def check_gold_overlap(
    where: str,
    task: Task,
    pairs: Sequence[tuple[Any, Mapping[str, Any]]],
    findings: Findings,
) -> None:
    """Flag answers that know more of the gold than a dialogue tells.

    `pairs` are samples with gold, each with one answer to it.
    """
    what, public = "", task.public
    if public.choice is not None:
        right = [public.choice(answer)[0] == sample.gold for sample, answer in pairs]
        what = _too_often_right(task, right)
    elif public.overlap is not None:
        compared = [_without_given(public.overlap(sample, answer)) for sample, answer in pairs]
        what = _copied(public.unit, compared) or _verbatim(compared) or _close(compared)
    if what:
        mend = "explain in notes= how the answers were generated"
        findings.warn("near_gold", where, f"{what}: did the system see the gold?", mend)


def _foldable(text: str) -> str:
    """Return a text without the hidden characters that folding keeps: formats and overlays."""
    return text if text.isascii() else "".join(filter(_is_visible, text))


def _is_visible(character: str) -> bool:
    return unicodedata.category(character) != "Cf" and unicodedata.combining(character) != 1


def _without_given(one: Overlap) -> Overlap:
    """Return what is compared as it can be seen: what was given to hand back is no find."""
    given = set(map(fold, one.given))
    values = [value for value in map(_foldable, one.values) if fold(value) not in given]
    return Overlap([*map(_foldable, one.golds)], values, [*map(_foldable, one.known)])


def _too_often_right(task: Task, right: Sequence[bool]) -> str:
    """Say that more choices are right than any model that the paper reports gets, where so."""
    best, total = _best_reported(task.track, task.headline.name), len(right)
    if total < MOST_GUESSED or sum(right) <= best * total:
        return ""
    odds = _odds(_chance(sum(right), total, best))
    reported = f"the best score of a model in the paper is {best:.3f} {odds}"
    return f"{sum(right):,} of {total:,} choices match the gold; {reported}"


@cache
def _best_reported(track: str, metric: str) -> float:
    """Return the best score that the paper reports of any model on a track; 1 where of none."""
    best = 0.0
    for row in read_references().on(track):
        # What we scored or ran is of few systems, and no bound of what others may reach.
        if metric in row.scores and row.table.kind == "reported":
            best = max(best, float(row.scores[metric]["value"].value))
    return best or 1.0


def _copied(unit: str, compared: Sequence[Overlap]) -> str:
    """Say that most of what was answered is the gold, in its words or nearly."""
    strengths: list[float] = []
    for one in compared:
        strengths += _strengths(one)
    same, total = strengths.count(_SAME), len(strengths)
    near = sum(strength >= NEAR for strength in strengths)
    if total < FEWEST_VALUES:
        return ""
    for count, most, how in ((same, COPIED, "verbatim"), (near, NEARLY_COPIED, "nearly verbatim")):
        if count > most * total:
            odds = _odds(_chance(count, total, REAL_NEAR))
            return f"{count:,} of {total:,} {unit} match the gold {how} {odds}"
    return ""


def _strengths(one: Overlap) -> list[float]:
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
    real = f"among seven real models, the share is at most {REAL_VERBATIM:.0%}"
    what = f"the answers contain {count:,} of {total:,} gold values verbatim"
    return f"{what}; {real} {_odds(odds)}"


def _close(compared: Sequence[Overlap]) -> str:
    """Say that the answers have words of the gold that are nowhere in what the system was shown."""
    shares = [share for one in compared if (share := own_share(one)) is not None]
    close = sum(share >= CLOSE for share in shares)
    odds = _chance(close, len(shares), REAL_CLOSE)
    if odds > ODDS or close <= MOST_CLOSE * len(shares):
        return ""
    what = f"{close:,} of {len(shares):,} answers contain most of the words that occur in the gold "
    what += "but not in the dialogue"
    return f"{what}; among seven real models, the share is at most {REAL_CLOSE:.0%} {_odds(odds)}"


def own_share(one: Overlap) -> float | None:
    """Return the weighted share of the gold's own words that an answer contains, in [0, 1].

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
        return "(chance of this result: below 1 in 10^300)"
    if chance > 1e-6:
        return f"(chance of this result: 1 in {1 / chance:,.0f})"
    return f"(chance of this result: 1 in 10^{-log10(chance):.0f})"
