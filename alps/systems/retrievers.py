"""Retrievers by terms and by meaning: each ranks a query's own pool.

By meaning it is the cosine of embeddings, by a model of an extra (`alps.embeddings`); by terms
BM25 and TF-IDF.

BM25 is that of Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond"
(Foundations and Trends in Information Retrieval 3(4), 2009), with its usual k1 = 1.2 and b = .75,
and every occurrence of a term in the query counted. The idf is ln(1 + (N - n + .5) / (n + .5)) for
a term in n of N values: the Robertson-Sparck Jones weight plus one inside the logarithm, as Lucene
has it, so that a term in more than half of a small pool does not count against a value. No setting
was tuned on evaluation data.

A term is a stemmed English-like word, a number, or, in scripts written without spaces, a pair of
neighbouring characters. Stop words and stemming earn their place: on the 85 real pools of 100
distractors (`bench/retrieval.py`) BM25 with neither finds .07 of the golds at rank 1 and .38 in the
first ten; with stop words alone .19 and .49; with stemming alone .09 and .45; with both .20 and
.59. The queries are long questions addressed to an assistant, so that their "your" and "which"
outweigh what they ask for.
"""

import re
import sys
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alps.embeddings import DECIMALS, E5, MINILM, Embedder
from alps.text import digest, fold

TOKENS_VERSION = 1
"""Raised whenever the same text may give other terms; part of every retriever's settings."""

# Thai, Lao, Burmese, Khmer, kana, Han and Hangul: words are not delimited, or carry their
# particles.
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    r"\U00020000-\U0003ffff"
)
# Vowel signs and points are parts of a word, though `\w` leaves them out.
_MARKS = r"\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_WORD = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)|\d+(?:[.,]\d+)+|(?:(?![{_UNSPACED}])(?:[^\W_]|[{_MARKS}]))+"
)
# What `_WORD` finds in lower-case ASCII, in a third of the time: most values are such
_ASCII_WORD = re.compile(r"\d+(?:[.,]\d+)+|[a-z0-9]+")
_VOWEL = re.compile("[aeiouy]")
_SHORTEST_STEMMED, _SHORTEST_STEM = 4, 3

# Function words, and what an apostrophe leaves behind ("don't" is read as "don" and "t").
STOP_WORDS = frozenset(
    """
    a about again all also am an and any are as at be because been being but by can could d did
    didn do does doesn doing don down each for from had has have having he her him his how i if in
    into is isn it its just ll m may me might mine more most must my no not of on one or other our
    out over re s shall she should so some such t than that the their them then there these they
    this those to too under up us ve very was we what when where which while who why will with
    would you your
    """.split()  # noqa: SIM905 - a list of quoted words hides what is in it
)
_U64 = np.uint64


def stem(word: str) -> str:
    """Return `word` without an English plural, -ing, -ed, or final e; derived words stay apart."""
    if len(word) < _SHORTEST_STEMMED or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and word[-4] not in "ae":
        word = word[:-3] + "y"
    elif word.endswith("s") and word[-2] not in "us":
        word = word[:-1]
    for ending in ("ing", "ed"):
        left = word.removesuffix(ending)
        if left != word and len(left) >= _SHORTEST_STEM and _VOWEL.search(left):
            doubled = left[-1] == left[-2] and left[-1] not in "lsz"
            word = left[:-1] if doubled else left
            break
    if word[-1] == "e" and len(word) > _SHORTEST_STEM:
        word = word[:-1]
    return word[:-1] + "i" if word[-1] == "y" and len(word) > _SHORTEST_STEM else word


def terms(text: str) -> list[str]:
    """Return the terms of `text` in order, repeated ones, too; case and letter forms are one."""
    return list(filter(None, map(term_of, cut(text))))


def cut(text: str) -> list[str]:
    """Return the words, numbers and pairs of characters that `term_of` makes terms of, in order."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    words: list[str] = []
    for match in _WORD.finditer(fold(text)):
        word = match.group()
        if match.lastgroup == "unspaced":
            words += [word[start : start + 2] for start in range(max(1, len(word) - 1))]
        else:
            words.append(word)
    return words


@lru_cache(maxsize=65_536)
def term_of(word: str) -> str:
    """Return the term of one word of `cut`; empty for a stop word."""
    if "," in word or "." in word:
        return word.replace(",", "")
    return "" if word in STOP_WORDS else stem(word)


def best_first(
    scores: NDArray[np.float64],
    query: str,
    digests: Sequence[int] | NDArray[np.uint64],
    *,
    decimals: int = 9,
) -> list[int]:
    """Return all positions by falling score.

    Scores equal to `decimals` places are ordered by what value and query say, shuffled: neither the
    position in the pool nor the length or the alphabet decides. Values that are identical keep the
    order in which they were given.

    Args:
        scores: One finite score per value.
        query: The query.
        digests: `digest` of each value.
        decimals: Places that count; fewer where the arithmetic depends on what else was computed at
            once.
    """
    mixed = np.asarray(digests, dtype=_U64) ^ _U64(digest(query))
    # The finaliser of MurmurHash3: a value first for one query must not be first for the next.
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        mixed = (mixed ^ (mixed >> _U64(33))) * _U64(factor)
    mixed ^= mixed >> _U64(33)
    order: list[int] = np.lexsort((mixed, -np.round(scores, decimals))).tolist()
    return order


K1, B = 1.2, 0.75
"""How soon repeating a term stops helping, and how far a long value is held against it."""

CACHED_VALUES = 65_536
"""Values whose terms are kept, the least recently used forgotten first."""

MOST_MET = 131_072
"""Values whose hashes are remembered: only what is met a second time is kept."""

MOST_WORDS = 262_144
"""Distinct words after which the vocabulary is begun anew, so that endless new values cannot fill
the memory.
"""

# A value is packed into bytes: its digest, and then the ids of its terms
_ID, _KEY = np.dtype(np.intc), 8


class _Numbers(dict[str, int]):
    """The number of the term that each word stands for, when first looked up; -1: a stop word.

    Words are kept rather than terms: one look-up a word is what most of the time of a pool goes
    into.
    """

    def __init__(self) -> None:
        self.terms: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        term = term_of(word)
        self[word] = number = self.terms.setdefault(term, len(self.terms)) if term else -1
        return number

    def clear(self) -> None:
        """Forget every word and every term."""
        super().clear()
        self.terms.clear()


class BM25:
    """Rank values by Okapi BM25; statistics come from the query's own pool and nowhere else."""

    name = "bm25"

    def __init__(self) -> None:
        idf = "ln(1+(N-n+.5)/(n+.5))"
        self.settings: Mapping[str, Any] = {"k1": K1, "b": B, "idf": idf, "terms": TOKENS_VERSION}
        self._numbers = _Numbers()
        self._packed = lru_cache(maxsize=CACHED_VALUES)(self._pack)
        self._met: set[int] = set()
        self._lock = Lock()

    def _pack(self, value: str) -> bytes:
        """Return the digest of `value` that settles ties, and the ids of its terms, as bytes."""
        numbers = self._numbers
        ids = array(_ID.char, [number for word in cut(value) if (number := numbers[word]) >= 0])
        return digest(value).to_bytes(_KEY, sys.byteorder) + ids.tobytes()

    def _make_room(self) -> None:
        if len(self._numbers) > MOST_WORDS:
            self._packed.cache_clear()
            self._numbers.clear()
        if len(self._met) > MOST_MET:
            self._met.clear()

    def _pack_all(self, values: Sequence[str]) -> list[bytes]:
        self._make_room()
        packed = []
        for value in values:
            pack = self._packed if self._comes_back(value) else self._pack
            packed.append(pack(value))
        return packed

    def _comes_back(self, value: str) -> bool:
        """Tell whether `value` was met before: keeping what never comes back costs a tenth."""
        before = len(self._met)
        self._met.add(hash(value))
        return len(self._met) == before

    def rank(self, query: str, values: Sequence[str]) -> list[int]:
        """Return the positions of all `values`, the best first."""
        if not values:
            return []
        with self._lock:
            packed = self._pack_all(values)
            known = self._numbers.terms
            counts = Counter(terms(query))
            wanted = {known[term]: count for term, count in counts.items() if term in known}
            size = len(known)
        digests = np.frombuffer(b"".join([value[:_KEY] for value in packed]), dtype=np.uint64)
        scores = self._scores(wanted, [value[_KEY:] for value in packed], size)
        return best_first(scores, query, digests)

    def _scores(
        self, wanted: Mapping[int, int], packed: Sequence[bytes], size: int
    ) -> NDArray[np.float64]:
        """Return the score of each packed value for a query's term ids and their counts.

        There are `size` ids.

        The pool is read as one long array of ids. Of four ways that were measured this one is the
        fastest: counting dictionaries took seven times as long, concatenating an array per value
        two and a half times.
        """
        pool = np.frombuffer(b"".join(packed), dtype=_ID)
        ends = np.fromiter(accumulate(map(len, packed)), dtype=np.int64, count=len(packed))
        ends //= _ID.itemsize
        lengths = np.diff(ends, prepend=0)
        if not wanted or not len(pool):
            return np.zeros(len(packed))
        columns = np.full(size, -1, dtype=_ID)
        columns[list(wanted)] = np.arange(len(wanted))
        pool_columns = columns[pool]
        positions = np.flatnonzero(pool_columns >= 0)
        rows = np.searchsorted(ends, positions, side="right")
        flat = rows * len(wanted) + pool_columns[positions]
        cells, frequency = np.unique(flat, return_counts=True)
        row, column = np.divmod(cells, len(wanted))
        holding = np.bincount(column, minlength=len(wanted))
        idf = np.log1p((len(packed) - holding + 0.5) / (holding + 0.5))
        weight = idf * np.fromiter(wanted.values(), dtype=np.float64, count=len(wanted))
        norm = K1 * (1 - B + B * lengths / lengths.mean())
        gained = weight[column] * frequency * (K1 + 1) / (frequency + norm[row])
        return np.bincount(row, gained, minlength=len(packed)).astype(np.float64, copy=False)


NGRAMS = (3, 4, 5)
"""Lengths of the character n-grams; they reach inflected and compound words that stemming leaves
apart.
"""


def features(text: str) -> list[str]:
    """Return the terms of `text`, their neighbouring pairs, and their character n-grams."""
    words = terms(text)
    names = [f"w {word}" for word in words]
    names += [f"p {first} {second}" for first, second in pairwise(words)]
    for word in words:
        padded = f"^{word}$"
        for size in NGRAMS:
            names += [f"c {padded[at : at + size]}" for at in range(len(padded) - size + 1)]
    return names


MOST_FEATURES = 1 << 20
"""Distinct features, and four times as many counts of values, after which all are forgotten."""


class _Counted(NamedTuple):
    """The features of one text: their ids and how often each occurs, and its `digest`."""

    ids: NDArray[np.intc]
    counts: NDArray[np.intc]
    digest: int


class TfIdf:
    """Rank values by TF-IDF cosine; statistics come from the query's own pool and nowhere else.

    The weights are those of scikit-learn: (1 + ln tf) * (1 + ln((1 + N) / (1 + n))) for a feature
    in n of N values, over the length of the vector. Only the counts of a value are kept for the
    next query: cutting 200 turns takes 13 times as long as weighing them.
    """

    name = "tfidf"

    def __init__(self) -> None:
        self.settings: Mapping[str, Any] = {
            "features": "terms, pairs, characters",
            "ngrams": list(NGRAMS),
            "sublinear_tf": True,
            "terms": TOKENS_VERSION,
        }
        self._numbers: dict[str, int] = {}
        self._counted: dict[str, _Counted] = {}
        self._kept = 0
        self._lock = Lock()

    def _count(self, value: str) -> _Counted:
        if (counted := self._counted.get(value)) is None:
            counts: Counter[int] = Counter()
            for feature in features(value):
                counts[self._numbers.setdefault(feature, len(self._numbers))] += 1
            ids, times = _as_arrays(counts)
            counted = self._counted[value] = _Counted(ids, times, digest(value))
            self._kept += len(ids)
        return counted

    def _make_room(self) -> None:
        if len(self._numbers) > MOST_FEATURES or self._kept > 4 * MOST_FEATURES:
            self._numbers.clear()
            self._counted.clear()
            self._kept = 0

    def rank(self, query: str, values: Sequence[str]) -> list[int]:
        """Return the positions of all `values`, the best first."""
        if not values:
            return []
        with self._lock:
            self._make_room()
            counted = [self._count(value) for value in values]
            known = self._numbers
            wanted = Counter(known[name] for name in features(query) if name in known)
            size = len(known)
        scores = np.zeros(len(values))
        if wanted:
            scores = _cosines(_as_arrays(wanted), counted, size)
        return best_first(scores, query, [value.digest for value in counted])


def _as_arrays(counts: Counter[int]) -> tuple[NDArray[np.intc], NDArray[np.intc]]:
    ids = np.fromiter(counts.keys(), dtype=np.intc, count=len(counts))
    return ids, np.fromiter(counts.values(), dtype=np.intc, count=len(counts))


def _cosines(
    wanted: tuple[NDArray[np.intc], NDArray[np.intc]], values: Sequence[_Counted], size: int
) -> NDArray[np.float64]:
    """Return the cosine of a query's ids and counts with each value; there are `size` ids."""
    ids = np.concatenate([value.ids for value in values])
    rows = np.repeat(np.arange(len(values)), [len(value.ids) for value in values])
    holding = np.bincount(ids, minlength=size)
    idf = 1 + np.log((1 + len(values)) / (1 + holding))
    weights = (1 + np.log(np.concatenate([value.counts for value in values]))) * idf[ids]
    asked = np.zeros(size)
    asked[wanted[0]] = (1 + np.log(wanted[1])) * idf[wanted[0]]
    asked[holding == 0] = 0.0  # a feature of another pool is none of this one
    lengths = np.sqrt(np.bincount(rows, weights**2, minlength=len(values)))
    lengths *= np.linalg.norm(asked)
    shared = np.bincount(rows, weights * asked[ids], minlength=len(values))
    return np.divide(shared, lengths, out=np.zeros(len(values)), where=lengths > 0)


class EmbeddingRanker:
    """Rank values by the cosine of their embeddings with the query's.

    Raises:
        UsageError: If the extra is not installed.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.name = embedder.name
        self.settings: Mapping[str, Any] = {"model": embedder.model, "package": embedder.version()}
        self._embedder = embedder

    def rank(self, query: str, values: Sequence[str]) -> list[int]:
        """Return the positions of all `values`, the best first."""
        if not values:
            return []
        asked = self._embedder.embed([query], queries=True)[0]
        pool = self._embedder.embed(values)
        scores = pool.astype(np.float64) @ asked.astype(np.float64)
        return best_first(scores, query, [digest(value) for value in values], decimals=DECIMALS)


minilm = partial(EmbeddingRanker, MINILM)
e5 = partial(EmbeddingRanker, E5)
