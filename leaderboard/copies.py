"""Submissions that copy the answers of another: in ranks and tests all copies are one system.

Answers are compared by the words in them, record by record, with MinHash: words are hashed into a
few bins, and the share of bins with the same least hash estimates the Jaccard index of two sets
(Li, Owen and Zhang, «One Permutation Hashing», NIPS 2012).
"""

import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alps.errors import AlpsError
from alps.leaderboard.findings import Findings, some_of
from alps.leaderboard.submission import CARD, Entry, Submission, read_entry
from alps.leaderboard.unsafe_text import shown
from alps.tasks import all_tracks
from alps.tasks.base import PublicAnswers
from alps.text import fold

# Mean likeness of two submissions' answers from which they are copies. Of 21 pairs of seven real
# models on 654 dialogues the most alike have .29 (AlpsBench's recorded outputs).
ALIKE = 0.6
# Fewer records with words than these are copies only where every answer is the same.
FEWEST = 3
# Of a longer track so many records are compared: a site has hundreds of submissions.
MOST_RECORDS, _MOST_BESIDE = 24, 1_000
_BINS, _EMPTY = 8, 0xFFFFFFFF
_WORD, _ASCII_WORD = re.compile(r"[^\W\d_]+"), re.compile("[a-z]+")
_LONGEST_WORD, _WORDS_A_RECORD = 30, 2_000

Key = tuple[str, int]


@dataclass(frozen=True)
class Answers:
    """The answers of a submission on one track: a hash of each, and the minima of its words."""

    records: tuple[Key, ...]
    whole: NDArray[np.uint32]
    minima: NDArray[np.uint32]


def check_copies(folder: Path, card: Submission, findings: Findings) -> None:
    """Flag every track whose answers are, nearly, those of another submission beside it."""
    others = list(_beside(folder))
    for name, track in card.tracks.items():
        rivals = []
        for entry in others:
            rival = entry.card.tracks.get(name)
            if rival is not None and rival.data_sha256 == track.data_sha256:
                rivals.append(entry)
        if not rivals or (mine := _answers(Entry(folder, card, None), name)) is None:
            continue
        same = []
        for entry in rivals:
            answers = _answers(entry, name)
            if answers is not None and likeness(mine, answers) >= ALIKE:
                same.append(shown(entry.card.slug))
        if same:
            what = f"the answers of {some_of(same)}, in the same words or nearly"
            mend = (
                "say in notes whose answers they are; copies count as one system in ranks and tests"
            )
            findings.warn("copy", f"{name}/predictions.jsonl", what, mend)


def _beside(folder: Path) -> Iterator[Entry]:
    """Yield the other submissions that can be read."""
    own = folder.resolve()
    try:
        paths = sorted(path for path in own.parent.iterdir() if path.name != own.name)
    except OSError:
        return
    for path in paths[:_MOST_BESIDE]:
        try:
            if not path.is_symlink() and (path / CARD).is_file():
                yield read_entry(path)
        except (AlpsError, OSError):
            continue


def _answers(entry: Entry, name: str) -> Answers | None:
    try:
        return answers_of(entry.rows(name, "predictions"), all_tracks()[name].public)
    except AlpsError:
        return None


def answers_of(rows: Iterable[Mapping[str, Any]], public: PublicAnswers) -> Answers:
    """Sketch the predictions of a track; rows that have not the form of an answer have no words.

    Args:
        rows: Rows of `predictions.jsonl`, of anybody.
        public: What the task says of its answers: where the words are.
    """
    whole, minima = [], []
    sampled = _sampled(rows)
    records = tuple(sorted(sampled))
    for key in records:
        words, chosen = _words(sampled[key], public)
        whole.append(zlib.crc32("\0".join(sorted([*words, *chosen])).encode("utf-8", "replace")))
        minima.append(_minima(words))
    shape = len(records), _BINS
    return Answers(
        records,
        np.array(whole, dtype=np.uint32),
        np.array(minima, dtype=np.uint32).reshape(shape),
    )


def likeness(one: Answers, other: Answers) -> float:
    """Return how alike the answers of two submissions are, in [0, 1]; 1 where all are the same."""
    return float(_likeness(one, [other])[0])


def originals(answers: Sequence[Answers]) -> list[int]:
    """Return, for each of several submissions, the index of the first that it is a copy of."""
    firsts: list[int] = []
    of_each = []
    for index, mine in enumerate(answers):
        alike = _likeness(mine, [answers[first] for first in firsts]) >= ALIKE
        original = firsts[int(alike.argmax())] if alike.any() else index
        if original == index:
            firsts.append(index)
        of_each.append(original)
    return of_each


def _likeness(one: Answers, others: Sequence[Answers]) -> NDArray[np.float64]:
    """Return how alike one submission's answers and others' are; 0 where on other records."""
    result = np.zeros(len(others))
    same = [n for n, other in enumerate(others) if other.records == one.records and one.records]
    if not same:
        return result
    minima = np.stack([others[n].minima for n in same])
    filled = (minima != _EMPTY) | (one.minima != _EMPTY)
    equal = ((minima == one.minima) & filled).sum(axis=(1, 2))
    shared = equal / np.maximum(filled.sum(axis=(1, 2)), 1)
    shared[filled.any(axis=2).sum(axis=1) < FEWEST] = 0.0
    shared[[np.array_equal(others[n].whole, one.whole) for n in same]] = 1.0
    result[same] = shared
    return result


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
