"""Lexical similarity of two memory values: deterministic, offline, for any script.

A value is reduced to a weighted bag of pieces. A word gives its prefixes, so that inflected
forms overlap without a stemmer; scripts written without spaces give character bigrams, and
Hebrew and Arabic, which inflect at the front too, character trigrams. The words in which every
memory is phrased ("the user prefers ...") weigh a tenth of a content word, and two values that
share nothing else have similarity 0. The similarity is the weighted Dice coefficient of the two
bags, halved where only one of the values is negated, or where both give numbers and share none:
a halved value lies below `THRESHOLD`. Characters that nobody sees count for nothing.

Agreement with people is measured by `bench/lexical_judge.py` on the pair reviews that the
AlpsBench authors' judge left (362 pairs of real predictions with gold, 216 of them not identical).
"""

import math
import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import NamedTuple

from alps.text import fold_loosely, fold_value, loosen

# Raised with every change of a figure: it stands in the fingerprint of the lexical judge.
VERSION = 1

# Similarity from which two values count as the same memory, chosen by grouped cross-validation.
THRESHOLD = 0.63

BOILERPLATE_WEIGHT = 0.1
CONFLICT_FACTOR = 0.5
SHORTEST_PREFIX = 3
LONGEST_PREFIX = 6
UNSPACED_CHARACTERS_PER_WORD = 2

_UNSPACED = (
    r"\u0e00-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    r"\U00020000-\U0003ffff"
)
_SEMITIC = r"\u0590-\u077f\u08a0-\u08ff"
_INDIC = r"\u0900-\u0963\u0970-\u0dff"
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_TOKEN = re.compile(
    rf"(?P<number>{_NUMBER.pattern})|(?P<unspaced>[{_UNSPACED}]+)"
    rf"|(?P<semitic>(?:(?!\d)[{_SEMITIC}])+)"
    rf"|(?P<word>(?:[{_INDIC}]|(?![{_UNSPACED}{_SEMITIC}])[^\W\d_])+)"
)

_NEGATING_WORDS = """
dislike dislikes disliked disliking hate hates hated hating
no not never none neither nor without cannot cant dont doesnt didnt isnt wasnt wont
nunca jamás ni sin tampoco não nem sem ne pas jamais sans aucun aucune mai senza
nicht kein keine keinen keiner nie niemals ohne не нет ни без никогда nie bez nigdy değil yok
لا ليس ليست لم لن غير بدون לא אין אינו אינה בלי מעולם नहीं नही không chưa bukan tidak
"""
_NEGATING_PARTS = "不|没|沒|未|無|无|ない|なかった|ません|않|없|못하|아니"
_NOT_NEGATING = "不过|不過|不同|不错|不錯|不仅|不僅|不断|不斷|不少|無料|未来|未來"

_BOILERPLATE_WORDS = """
a an the and or but of to in on at by for from with within into onto over under about as than
then that this these those it its is are was were be been being am do does did done doing has
have had having will would can could should shall might must i me my mine we us our you your
he him his she her they them their who whom whose which what when where why how
if so such also both either while during toward towards through between more most very other
others etc via per up out there here some any all each just too
user users person people someone individual prefer prefers preferred preferring preference
preferences like likes liked liking love loves loved enjoy enjoys enjoyed enjoying interest
interests interested interesting want wants wanted wanting wish wishes need needs needed seek
seeks seeking ask asks asked asking request requests requested requesting curious curiosity
sustained repeated repeatedly ongoing recurring strong strongly deep deeply particular
particularly specific specifically general generally various different show shows showing
showed express expresses expressed state states stated say says said mention mentions mentioned
report reports reported talk talks talked know knows use uses used using thing things stuff
something anything question questions answer answers response responses topic topics assistant
chatbot chatgpt help helps helped helpful useful good information inquiry inquiries inquire
inquires focus focused focuses explore explores exploring look looks looking get gets make makes
related regarding conversation conversations chat
el la los las un una unos unas y o de del al en con por para que se su sus es está ser tiene
le lo me mi como más muy usuario usuaria prefiere gusta gustan quiere interesa interesado
interesada interés le les des du et ou au aux dans avec pour par est sont sur qui il elle sa
ses utilisateur utilisatrice préfère aime veut souhaite intéresse intéressé intérêt
der die das den dem ein eine einen einer einem und oder von zu im mit für auf ist sind er sie
sein ihr nutzer nutzerin benutzer bevorzugt mag möchte will gern gerne interessiert sich interesse
um uma e do da dos das no na nos nas em com seu sua usuário usuária prefere gosta quer tem
il gli i uno della delle dei nel nella con che utente preferisce piace vuole ha
и в во на с со к у о об по за из от до для что это как он она его ее их пользователь
пользователя пользователю предпочитает любит нравится хочет интересуется интерес
في من على إلى عن مع و أن هو هي المستخدم المستخدمة يفضل تفضل يحب تحب يريد مهتم يهتم
של את על עם הוא היא זה המשתמש המשתמשת משתמש מעדיף מעדיפה אוהב אוהבת רוצה מתעניין מתעניינת
में का की के को से है हैं और उपयोगकर्ता पसंद
"""
_BOILERPLATE_PARTS = (
    "用户|用戶|使用者|喜欢|喜歡|偏好|感兴趣|感興趣|兴趣|興趣|想要|希望|的|了|是|在|和|与|對|对|有|很|他|她|也"
    "|ユーザー|好き|興味|です|ます|する|した|して|いる|ある|は|が|を|に|の|と|で|も"
    "|사용자|좋아|선호|관심|합니다|입니다|한다|하는|은|는|이|가|을|를|의|에서|에"
)

_OWN_RULES = re.compile(rf"[{_UNSPACED}{_SEMITIC}{_INDIC}]")
_GROUPED = re.compile(r"\d,\d")
_PLAIN_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_TWO_CAPITALS = re.compile("[A-Z][A-Z]")
_LENGTHS = tuple(range(SHORTEST_PREFIX, LONGEST_PREFIX + 1))
_DIGIT = "\0"
_LETTERS = {code: " " for code in range(1, 128) if not chr(code).isalpha()}
_LETTERS |= dict.fromkeys(map(ord, "0123456789"), _DIGIT)
_MAY_NEGATE = frozenset((*fold_loosely(_NEGATING_WORDS).split(), "non"))
# What a text has in which a negating word may stand and not negate, as in `non-technical`.
_GLUED = re.compile(r"[\d_]|\bnon-")
_ROUNDING = 1e-9


class Features(NamedTuple):
    """What `similarity` needs to know of one text.

    Attributes:
        folded: The text without case, accents and spare spaces.
        content: Weight of each piece of its content words.
        boilerplate: Its function words and memory phrasing.
        total: Weight of both.
        numbers: The numbers in the text.
        negated: Whether the text contains a negation.
    """

    folded: str
    content: dict[str, float]
    boilerplate: frozenset[str]
    total: float
    numbers: frozenset[str]
    negated: bool


def _any_of(parts: str) -> re.Pattern[str]:
    return re.compile("|".join(sorted(fold_loosely(parts).split("|"), key=len, reverse=True)))


# "non-technical" describes something; only the free-standing word negates.
_NEGATION = re.compile(
    rf"\b(?:\w+n't|non(?!-)|{'|'.join(fold_loosely(_NEGATING_WORDS).split())})(?!\w)"
    rf"|{_any_of(_NEGATING_PARTS).pattern}"
)
_ELISION = re.compile(r"(?<!\w)(?:[cdjlmns]|qu)'|'(?:s|re|ve|ll|d|m)(?!\w)")
# "US", "IT" and "LA" are names, "us", "it" and "la" are not.
_ACRONYM = re.compile(r"\b[A-Z]{2,}\b")
_NO_NEGATION = _any_of(_NOT_NEGATING)
_BOILERPLATE_PART = _any_of(_BOILERPLATE_PARTS)
_BOILERPLATE = frozenset(fold_loosely(_BOILERPLATE_WORDS).split())


def _ngrams(run: str, size: int) -> list[str]:
    return [run[start : start + size] for start in range(max(1, len(run) - size + 1))]


def _pieces(kind: str | None, token: str) -> tuple[list[str], float]:
    """Return the pieces that stand for a content token, and the weight they share."""
    if kind == "number":
        return [token.replace(",", "")], 1.0
    if kind == "unspaced":
        return _ngrams(token, 2), max(1.0, len(token) / UNSPACED_CHARACTERS_PER_WORD)
    if kind == "semitic":
        return _ngrams(token, 3), 1.0
    longest = min(LONGEST_PREFIX, len(token))
    return [token[:length] for length in range(min(SHORTEST_PREFIX, longest), longest + 1)], 1.0


# What is kept of texts serves one record, whose values its floors are compared with as well: eight
# times as many took 8 MB of a run of 1,000 records, to save 2 % of its time.
@lru_cache(maxsize=512)
def features(text: str) -> Features:
    """Return the features of `text`: of plain words by a shorter way to the same figures."""
    words = _words(text)
    return features_of_any_script(text) if words is None else _features_of(words)


def features_of_any_script(text: str) -> Features:
    """Return the features of `text` by the definition, which holds for every script."""
    folded = fold_loosely(text)
    affirmed, negations = _NEGATION.subn(" ", _NO_NEGATION.sub(" ", folded))
    wording = _BOILERPLATE_PART.sub(" ", _ELISION.sub(" ", affirmed))
    acronyms = set() if text.isupper() else {name.lower() for name in _ACRONYM.findall(text)}
    # A repeated word says nothing new: each distinct token counts once.
    tokens = {match.group(): match.lastgroup for match in _TOKEN.finditer(wording)}
    boilerplate = _BOILERPLATE.intersection(tokens) - acronyms
    content: dict[str, float] = {}
    for token, kind in tokens.items():
        if token not in boilerplate:
            pieces, weight = _pieces(kind, token)
            for piece in pieces:
                content[piece] = content.get(piece, 0.0) + weight / len(pieces)
    total = sum(content.values()) + BOILERPLATE_WEIGHT * len(boilerplate)
    numbers = frozenset(
        token.replace(",", "") for token, kind in tokens.items() if kind == "number"
    )
    return Features(folded, content, boilerplate, total, numbers, negations > 0)


def numbers_of(text: str) -> frozenset[str]:
    """Return the `numbers` of `features`, for texts as long as a dialogue; nothing is kept."""
    return frozenset(token.replace(",", "") for token in _NUMBER.findall(fold_loosely(text)))


def _compare(first: Features, second: Features) -> float:
    if first.folded == second.folded:
        return 1.0
    common = first.content.keys() & second.content.keys()
    if not common:
        return 0.0
    shared = BOILERPLATE_WEIGHT * len(first.boilerplate & second.boilerplate)
    # The order of a set differs from run to run; `fsum` does not depend on it.
    shared += math.fsum(min(first.content[piece], second.content[piece]) for piece in common)
    dice = min(1.0, 2.0 * shared / (first.total + second.total))
    # They conflict where one is negated, or both give numbers and share none.
    other_numbers = first.numbers and second.numbers and not first.numbers & second.numbers
    return CONFLICT_FACTOR * dice if first.negated != second.negated or other_numbers else dice


def similarity(first: str, second: str) -> float:
    """Return how far two memory values say the same, from 0 to 1; symmetric."""
    return _compare(features(first), features(second))


def similarity_matrix(golds: Sequence[str], predictions: Iterable[str]) -> list[list[float]]:
    """Return one row per gold value and one column per predicted value."""
    columns = [features(prediction) for prediction in predictions]
    return [[_compare(features(gold), column) for column in columns] for gold in golds]


@lru_cache(maxsize=256)
def _folded(text: str) -> str:
    return loosen(fold_value(text))


class _Words(NamedTuple):
    """The words of a value in their order, those of its content, and its phrasing."""

    folded: str
    tokens: dict[str, None]
    content: list[str]
    phrasing: int
    negated: bool


def similar_pairs(
    golds: Sequence[str], predictions: Sequence[str], threshold: float, *, later: bool = False
) -> list[tuple[int, int, float]]:
    """Return row, column and similarity of every pair that reaches the threshold, row by row.

    `threshold` is above 0; the figures are those of `similarity`, without comparing every pair.
    `later` compares each gold with the predictions behind its own place alone: within one list.
    """
    # Which stems of the gold words stand anywhere in a prediction bounds the similarity from
    # above: only the few pairs whose bound reaches the threshold are compared.
    columns = [_Column(prediction) for prediction in predictions]
    texts = "\n".join(column.text for column in columns)
    starts = list(accumulate((len(column.text) + 1 for column in columns), initial=0))
    pairs = []
    for row, gold in enumerate(golds):
        stems, heaviest, phrasing, total = _wanted(gold)
        # What is shared is part of the other's weight, so that 2 · shared / (total + shared) is the
        # most there can be.
        least = (threshold / (2 - threshold) * total - phrasing - _ROUNDING) / heaviest
        # Mostly none comes near: one look through the texts of all tells that.
        first = row + 1 if later else 0
        if sum(map(texts[starts[first] :].__contains__, stems)) < least:
            continue
        for place in range(first, len(columns)):
            column = columns[place]
            hits = sum(map(column.holds, stems))
            if hits < least:
                continue
            most = 2 * (hits * heaviest + phrasing + _ROUNDING)
            if most < threshold * (total + column.weight):
                continue
            strength = _compare(features(gold), column.features)
            if strength >= threshold:
                pairs.append((row, place, strength))
    return pairs


class _Column:
    """A prediction, whose weight and features are found once for all that it is compared with."""

    def __init__(self, prediction: str) -> None:
        self._prediction = prediction
        self.text = _text(prediction)
        self.holds = self.text.__contains__

    @cached_property
    def weight(self) -> float:
        return _weight(_words(self._prediction))

    @cached_property
    def features(self) -> Features:
        return features(self._prediction)


def _text(prediction: str) -> str:
    """Return a text in which every piece of the content of `prediction` can be found."""
    folded = _folded(prediction)
    return folded.replace(",", "") if "," in folded and _GROUPED.search(folded) else folded


# The gold memories of one record, which each of its floors is compared with.
@lru_cache(maxsize=64)
def _wanted(gold: str) -> tuple[list[str], float, float, float]:
    """Return the stems of `gold`, the most that one weighs, and the weights of phrasing and all."""
    # Two values share no more than those words whose stems both have, and the phrasing.
    words = _words(gold)
    if words is None:
        known = features(gold)
        phrasing = BOILERPLATE_WEIGHT * len(known.boilerplate)
        return list(known.content), max(known.content.values(), default=1.0), phrasing, known.total
    phrasing = BOILERPLATE_WEIGHT * words.phrasing
    return [word[:SHORTEST_PREFIX] for word in words.content], 1.0, phrasing, _weight(words)


def _weight(words: _Words | None) -> float:
    """Return what a value weighs, and 0 where its words are not known."""
    return 0.0 if words is None else len(words.content) + BOILERPLATE_WEIGHT * words.phrasing


def _features_of(words: _Words) -> Features:
    content: dict[str, float] = {}
    for word in words.content:
        pieces, weight = _cut(word)
        for piece in pieces:
            content[piece] = content[piece] + weight if piece in content else weight
    total = sum(content.values()) + BOILERPLATE_WEIGHT * words.phrasing
    numbers = frozenset([word for word in words.content if word[0].isdecimal()])
    frame = frozenset(words.tokens).difference(words.content)
    return Features(words.folded, content, frame, total, numbers, words.negated)


@lru_cache(maxsize=1024)
def _cut(word: str) -> tuple[list[str], float]:
    """Return the pieces of a word or number, and what each of them weighs."""
    if word[0].isdecimal():
        pieces, weight = _pieces("number", word)
        return pieces, weight / len(pieces)
    if len(word) >= LONGEST_PREFIX:  # nearly all of them
        return [word[:length] for length in _LENGTHS], 1.0 / len(_LENGTHS)
    pieces, weight = _pieces("word", word)
    return pieces, weight / len(pieces)


@lru_cache(maxsize=512)
def _words(text: str) -> _Words | None:
    """Return the words of a value; None if its script has own rules, or its numbers are grouped."""
    folded = _folded(text)
    if (not folded.isascii() and _OWN_RULES.search(folded)) or (
        "," in folded and _GROUPED.search(folded)
    ):
        return None
    tokens, negated = _affirmed(folded)
    content = [token for token in tokens if token not in _BOILERPLATE]
    if not text[1:].islower() and _TWO_CAPITALS.search(text) and not text.isupper():
        names = {name.lower() for name in _ACRONYM.findall(text)}
        content = [token for token in tokens if token not in _BOILERPLATE or token in names]
    return _Words(folded, tokens, content, len(tokens) - len(content), negated)


def _affirmed(folded: str) -> tuple[dict[str, None], bool]:
    """Return the words and numbers of a text, without negations, and whether it has one."""
    tokens = _tokens(folded)
    negating = not _MAY_NEGATE.isdisjoint(tokens)
    if "'" not in folded:
        if not negating:
            return tokens, False
        if folded.isascii() and not _GLUED.search(folded):
            return dict.fromkeys([token for token in tokens if token not in _MAY_NEGATE]), True
    may_negate = negating or "n't" in folded
    affirmed, negations = _NEGATION.subn(" ", folded) if may_negate else (folded, 0)
    return _tokens(_ELISION.sub(" ", affirmed)), negations > 0


def _tokens(folded: str) -> dict[str, None]:
    """Return the words and numbers of a text."""
    if folded.isascii():  # without numbers it is cut at whatever is no letter, which is faster
        letters = folded.translate(_LETTERS)
        if _DIGIT not in letters:
            return dict.fromkeys(letters.split())
    return dict.fromkeys(_PLAIN_TOKEN.findall(folded))
