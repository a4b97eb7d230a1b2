"""What the retrievers share: how a text is cut into terms, and how scores become an order.

A term is a stemmed English-like word, a number, or, in scripts written without spaces, a pair of
neighbouring characters. Stop words and stemming earn their place: on the 85 real pools of 100
distractors (`bench/retrieval.py`) BM25 with neither finds .07 of the golds at rank 1 and .38 in the
first ten; with stop words alone .19 and .49; with stemming alone .09 and .45; with both .20 and
.59. The queries are long questions addressed to an assistant, so that their "your" and "which"
outweigh what they ask for.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from alps.text import fold

TOKENS_VERSION = 1
"""Raised whenever the same text may give other terms; part of every retriever's settings."""

# Thai, Lao, Burmese, Khmer, kana, Han and Hangul: words are not delimited, or carry their
# particles.
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
# Vowel signs and points are parts of a word, though `\w` leaves them out.
_MARKS = r"\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_WORD = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)|\d+(?:[.,]\d+)+|(?:(?![{_UNSPACED}])(?:[^\W_]|[{_MARKS}]))+"
)
_ASCII_WORD = re.compile(r"\d+(?:[.,]\d+)+|[a-z0-9]+")
"""What `_WORD` finds in lower-case ASCII, in a third of the time: most values are such."""
_VOWEL = re.compile("[aeiouy]")
_SHORTEST_STEMMED, _SHORTEST_STEM = 4, 3

# Function words, and what an apostrophe leaves behind ("don't" is read as "don" and "t").
STOP_WORDS = frozenset(
    """
    a about again all also am an and any are as at be because been being but by can could d did didn do does doesn
    doing don down each for from had has have having he her him his how i if in into is isn it its just ll m may me
    might mine more most must my no not of on one or other our out over re s shall she should so some such t than
    that the their them then there these they this those to too under up us ve very was we what when where which
    while who why will with would you your
    """.split()  # noqa: SIM905 - a list of quoted words hides what is in it
)
_U64 = np.uint64


def stem(word: str) -> str:
    """Return `word` without an English plural, -ing, -ed, or final e.

    Words of other alphabets unchanged.

    It is light on purpose: derived words ("organise", "organisation") stay apart.
    """
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
    """Return the terms of `text` in their order, repeated ones included.

    Case, white space and compatibility forms (full-width letters, ligatures) make no difference.
    """
    return list(filter(None, map(term_of, cut(text))))


def cut(text: str) -> list[str]:
    """Return the words, numbers and pairs of characters of `text` that `term_of` makes terms of, in
    their order.
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    found: list[str] = []
    for match in _WORD.finditer(fold(text)):
        word = match.group()
        if match.lastgroup == "unspaced":
            found += [word[start : start + 2] for start in range(max(1, len(word) - 1))]
        else:
            found.append(word)
    return found


@lru_cache(maxsize=65_536)
def term_of(word: str) -> str:
    """Return the term that one word of `cut` stands for; empty for a stop word."""
    if "," in word or "." in word:
        return word.replace(",", "")
    return "" if word in STOP_WORDS else stem(word)


def digest(text: str) -> int:
    """Return a 64-bit number that depends on nothing but `text`."""
    return int.from_bytes(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )


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
