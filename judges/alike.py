"""The pairs of two lists of values that reach a lexical similarity, without comparing every pair.

What counts as similar is defined in `similarity`, whose bytes are part of the lexical judge's fingerprint; here stands
nothing but a faster way to the same figures. Of a prediction it is first asked only which stems of the gold words stand
anywhere in it. That bounds the similarity from above, and the few pairs whose bound reaches the threshold are compared.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from alps.similarity import (
    _ACRONYM,
    _BOILERPLATE,
    _ELISION,
    _INDIC,
    _NEGATING_WORDS,
    _NEGATION,
    _SEMITIC,
    _UNSPACED,
    BOILERPLATE_WEIGHT,
    LONGEST_PREFIX,
    SHORTEST_PREFIX,
    Features,
    _compare,
    _pieces,
    features,
)
from alps.text import fold_loosely, fold_value, loosen

_OWN_RULES = re.compile(rf"[{_UNSPACED}{_SEMITIC}{_INDIC}]")
_GROUPED = re.compile(r"\d,\d")
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_TWO_CAPITALS = re.compile("[A-Z][A-Z]")
_LENGTHS = tuple(range(SHORTEST_PREFIX, LONGEST_PREFIX + 1))
_DIGIT = "\0"
_LETTERS = {code: " " for code in range(1, 128) if not chr(code).isalpha()}
_LETTERS |= dict.fromkeys(map(ord, "0123456789"), _DIGIT)
_MAY_NEGATE = frozenset((*fold_loosely(_NEGATING_WORDS).split(), "non"))
_GLUED = re.compile(r"[\d_]|\bnon-")
"""What a text has in which a negating word may stand and not negate, as in `non-technical`."""
_ROUNDING = 1e-9


@lru_cache(maxsize=4096)
def _folded(text: str) -> str:
    return loosen(fold_value(text))


class _Words(NamedTuple):
    """The words and numbers of a value in their order, those of its content, and how many only phrase it."""

    folded: str
    tokens: dict[str, None]
    content: list[str]
    phrasing: int
    negated: bool


def alike(golds: Sequence[str], predictions: Sequence[str], threshold: float) -> list[tuple[int, int, float]]:
    """Return row, column and similarity of every pair whose similarity is at least `threshold`, row by row.

    `threshold` is above 0; the figures are those of `similarity.similarity`, to the last digit.
    """
    holds = [_text(prediction).__contains__ for prediction in predictions]
    found = []
    for row, gold in enumerate(golds):
        stems, heaviest, phrasing, total = _wanted(gold)
        # What is shared is part of the other's weight, so that 2 · shared / (total + shared) is the most there can be.
        least = (threshold / (2 - threshold) * total - phrasing - _ROUNDING) / heaviest
        for column, held in enumerate(holds):
            hits = sum(map(held, stems))
            if hits < least:
                continue
            prediction = predictions[column]
            if 2 * (hits * heaviest + phrasing + _ROUNDING) < threshold * (total + _weight(_words(prediction))):
                continue
            strength = _compare(_features(gold), _features(prediction))
            if strength >= threshold:
                found.append((row, column, strength))
    return found


def _text(prediction: str) -> str:
    """Return a text in which every piece of the content of `prediction` can be found."""
    folded = _folded(prediction)
    return folded.replace(",", "") if "," in folded and _GROUPED.search(folded) else folded


def _wanted(gold: str) -> tuple[list[str], float, float, float]:
    """Return the stems of the words of `gold`, the most that one weighs, the weight of its phrasing and of everything.

    Two values share no more than those words whose stems both have, and the phrasing.
    """
    words = _words(gold)
    if words is None:
        found = features(gold)
        phrasing = BOILERPLATE_WEIGHT * len(found.boilerplate)
        return list(found.content), max(found.content.values(), default=1.0), phrasing, found.total
    phrasing = BOILERPLATE_WEIGHT * words.phrasing
    return [word[:SHORTEST_PREFIX] for word in words.content], 1.0, phrasing, _weight(words)


def _weight(words: _Words | None) -> float:
    """Return what a value weighs, and 0 where its words are not known."""
    return 0.0 if words is None else len(words.content) + BOILERPLATE_WEIGHT * words.phrasing


@lru_cache(maxsize=4096)
def _features(text: str) -> Features:
    """Return what `similarity.features` returns."""
    words = _words(text)
    if words is None:
        return features(text)
    content: dict[str, float] = {}
    for word in words.content:
        pieces, weight = _cut(word)
        for piece in pieces:
            content[piece] = content[piece] + weight if piece in content else weight
    total = sum(content.values()) + BOILERPLATE_WEIGHT * words.phrasing
    numbers = frozenset([word for word in words.content if word[0].isdecimal()])
    frame = frozenset(words.tokens).difference(words.content)
    return Features(words.folded, content, frame, total, numbers, words.negated)


@lru_cache(maxsize=16384)
def _cut(word: str) -> tuple[list[str], float]:
    """Return the pieces of a word or number, and what each of them weighs."""
    if word[0].isdecimal():
        pieces, weight = _pieces("number", word)
        return pieces, weight / len(pieces)
    if len(word) >= LONGEST_PREFIX:  # nearly all of them
        return [word[:length] for length in _LENGTHS], 1.0 / len(_LENGTHS)
    pieces, weight = _pieces("word", word)
    return pieces, weight / len(pieces)


@lru_cache(maxsize=4096)
def _words(text: str) -> _Words | None:
    """Return the words of a value; None where its script has rules of its own, or its numbers are grouped."""
    folded = _folded(text)
    if (not folded.isascii() and _OWN_RULES.search(folded)) or ("," in folded and _GROUPED.search(folded)):
        return None
    tokens, negated = _affirmed(folded)
    content = [token for token in tokens if token not in _BOILERPLATE]
    if not text[1:].islower() and _TWO_CAPITALS.search(text) and not text.isupper():
        names = {name.lower() for name in _ACRONYM.findall(text)}
        content = [token for token in tokens if token not in _BOILERPLATE or token in names]
    return _Words(folded, tokens, content, len(tokens) - len(content), negated)


def _affirmed(folded: str) -> tuple[dict[str, None], bool]:
    """Return the words and numbers of a text without its negations and elisions, and whether it has a negation."""
    tokens = _tokens(folded)
    negating = not _MAY_NEGATE.isdisjoint(tokens)
    if "'" not in folded:
        if not negating:
            return tokens, False
        if folded.isascii() and not _GLUED.search(folded):
            return dict.fromkeys([token for token in tokens if token not in _MAY_NEGATE]), True
    affirmed, negations = _NEGATION.subn(" ", folded) if negating or "n't" in folded else (folded, 0)
    return _tokens(_ELISION.sub(" ", affirmed)), negations > 0


def _tokens(folded: str) -> dict[str, None]:
    """Return the words and numbers of a text; one without numbers is cut at whatever is no letter, which is faster."""
    if folded.isascii():
        letters = folded.translate(_LETTERS)
        if _DIGIT not in letters:
            return dict.fromkeys(letters.split())
    return dict.fromkeys(_TOKEN.findall(folded))
