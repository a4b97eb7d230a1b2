"""Submissions that give the answers of another: forty copies of a system are one system, in ranks
and in tests.

Answers are compared by the words in them, record by record, with MinHash: words are hashed into a
few bins, and the share of bins with the same least hash estimates the Jaccard index of two sets
(Li, Owen and Zhang, «One Permutation Hashing», NIPS 2012).
"""

import re
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alps.text import fold

ALIKE = 0.6
"""Mean likeness of two submissions' answers from which they are copies.

Of 21 pairs of seven real models on 654 dialogues the most alike have .29 (AlpsBench's recorded
outputs).
"""
FEWEST = 3
"""Fewer records with words than these are copies only where every answer is the same."""
MOST_RECORDS = 24
"""Of a longer track so many records are compared, the same of all submissions: a site has hundreds
of them.
"""
_BINS = 8
_EMPTY = 0xFFFFFFFF
_WORD = re.compile(r"[^\W\d_]+")
_ASCII_WORD = re.compile("[a-z]+")
_LONGEST_WORD = 30
_WORDS_A_RECORD = 2_000


@dataclass(frozen=True)
class Answers:
    """What a submission says on one track: a hash of each answer, and the minima of its words."""

    records: tuple[tuple[str, int], ...]
    whole: NDArray[np.uint32]
    minima: NDArray[np.uint32]


def answers_of(rows: Iterable[Mapping[str, Any]], task: str) -> Answers:
    """Sketch the predictions of a track; rows that have not the form of an answer have no words.

    Args:
        rows: Rows of `predictions.jsonl`, of anybody.
        task: The task, which says where the words are.
    """
    found: dict[tuple[str, int], tuple[int, list[int]]] = {}
    for key, answer in _sampled(rows).items():
        words = _words(answer, task)
        found[key] = (
            zlib.crc32("\0".join(sorted(words)).encode("utf-8", "replace")),
            _minima(words, task),
        )
    records = tuple(sorted(found))
    whole = np.array([found[key][0] for key in records], dtype=np.uint32)
    minima = np.array([found[key][1] for key in records], dtype=np.uint32).reshape(
        len(records), _BINS
    )
    return Answers(records, whole, minima)


def likeness(one: Answers, other: Answers) -> float:
    """Return how alike the answers of two submissions are, in [0, 1]; 1 where all are the same."""
    return float(_likeness(one, [other])[0])


def originals(answers: Sequence[Answers]) -> list[int]:
    """Return, for each of several submissions, the place of the first that it is a copy of: its own
    where of none.
    """
    firsts: list[int] = []
    found = []
    for place, mine in enumerate(answers):
        alike = _likeness(mine, [answers[first] for first in firsts]) >= ALIKE
        original = firsts[int(alike.argmax())] if alike.any() else place
        firsts += [place] if original == place else []
        found.append(original)
    return found


def _likeness(one: Answers, others: Sequence[Answers]) -> NDArray[np.float64]:
    """Return how alike the answers of one submission and of each of others are.

    0 where they are on other records.
    """
    found = np.zeros(len(others))
    same = [
        place for place, other in enumerate(others) if other.records == one.records and one.records
    ]
    if not same:
        return found
    minima = np.stack([others[place].minima for place in same])
    filled = (minima != _EMPTY) | (one.minima != _EMPTY)
    shared = ((minima == one.minima) & filled).sum(axis=(1, 2)) / np.maximum(
        filled.sum(axis=(1, 2)), 1
    )
    shared[filled.any(axis=2).sum(axis=1) < FEWEST] = 0.0
    shared[[np.array_equal(others[place].whole, one.whole) for place in same]] = 1.0
    found[same] = shared
    return found


def _sampled(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], object]:
    """Return the answers to the records whose ids have the least hashes, by their keys."""
    answers: dict[tuple[str, int], object] = {}
    for row in rows:
        repeat = row.get("repeat")
        answers[str(row.get("benchmark_id")), repeat if isinstance(repeat, int) else 0] = row.get(
            "prediction"
        )
    kept = sorted(answers, key=lambda key: (zlib.crc32(key[0].encode("utf-8", "replace")), key))[
        :MOST_RECORDS
    ]
    return {key: answers[key] for key in kept}


def _words(answer: object, task: str) -> list[str]:
    """Return what an answer says, in words: the values of memories, the order of a ranking, the
    text of a reply.
    """
    if not isinstance(answer, dict):
        return []
    if task == "retrieval":
        ranking = answer.get("ranking")
        order = [str(name) for name in ranking] if isinstance(ranking, list) else []
        pairs = [f"{first}>{second}" for first, second in pairwise(order)]
        said = [str(answer.get(name) or "") for name in ("answer", "reason")]
        return [*pairs, *_cut(" ".join(said)), f"={answer.get('selected_memory_id')}"]
    if "memory_items" not in answer:
        return _cut(str(answer.get("answer") or ""))
    items = answer["memory_items"] if isinstance(answer["memory_items"], list) else []
    values = (item.get("value") for item in items if isinstance(item, dict))
    return _cut(" ".join(value for value in values if isinstance(value, str)))


def _cut(text: str) -> list[str]:
    """Return the words of a text without what can't be seen.

    Runs of a script without spaces give character pairs.
    """
    if text.isascii():
        return [word[:_LONGEST_WORD] for word in _ASCII_WORD.findall(text.lower())][
            :_WORDS_A_RECORD
        ]
    visible = "".join(character for character in text if unicodedata.category(character) != "Cf")
    words = _WORD.findall(fold(visible))
    return [piece for word in words for piece in _pieces(word)][:_WORDS_A_RECORD]


def _pieces(word: str) -> list[str]:
    if word.isascii() and len(word) <= _LONGEST_WORD:
        return [word]
    return [word[start : start + 2] for start in range(max(1, len(word) - 1))]


def _minima(words: Iterable[str], task: str) -> list[int]:
    """Return the least hash in each bin; a choice alone, which the best systems share, is no word."""
    least = [_EMPTY] * _BINS
    distinct = {word for word in words if task != "retrieval" or not word.startswith("=")}
    for word in distinct:
        hashed = zlib.crc32(word.encode("utf-8", "replace"))
        least[hashed % _BINS] = min(least[hashed % _BINS], hashed)
    return least
