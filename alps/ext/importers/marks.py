"""Verdicts as numbers: words, marks, draws, texts that begin with one, and scales that users name.

What can be read in two ways is not read: the user says what its values mean.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from alps.errors import UsageError, shown

_WORDS = {
    1.0: "correct right true yes y t pass passed met accurate success accepted exact ✓ ✔ ✅ ☑ 👍 "
    "richtig korrekt wahr ja vrai oui exact juste correcto verdadero sí si corretto vero sim "
    "正确 对 是 正しい 正解 はい верно да правильно",
    0.5: "partial partially_correct partly_correct half partially partly half_correct "
    "teilweise teilweise_richtig",
    0.0: "incorrect wrong false no n f fail failed not_met inaccurate failure rejected not_correct "
    "not_attempted ✗ ✘ ❌ ✖ ☒ 👎 falsch nicht_richtig unwahr nein faux non incorrecto falso "
    "sbagliato errato não 错误 错 否 不正解 いいえ неверно нет неправильно",
}
_MEANINGS = {word: score for score, words in _WORDS.items() for word in words.split()}
_LETTERS = {"a": 1.0, "b": 0.0, "c": 0.0}
_AS_LETTERS = "A means correct, B incorrect, C not attempted (as in SimpleQA)"
# Pictures of marks come in colours, or as texts.
_COLOURS = re.compile("[\N{VARIATION SELECTOR-15}\N{VARIATION SELECTOR-16}]")
_AROUND = "*_`'\"[](){}. "
_FIRST = re.compile(r"\W*([^\W_]+(?:[ _-][^\W_]+)?)\W*?(?:[:.;\n]|\s[-–—]|\Z)", re.S)
_SHARE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(?:(%)|/\s*(\d{1,9}))\Z")
_RANGE = re.compile(r"(-?\d{1,9}(?:\.\d{1,9})?)\.\.(-?\d{1,9}(?:\.\d{1,9})?)\Z")
_FENCED = re.compile(r"\A\s*```\w*\s*(.*?)\s*```\s*\Z", re.S)
_JUDGING = re.compile(r"correct|verdict|grade|score|judg|label|pass|right|accura|rating|mark", re.I)
_MAPPED = re.compile(r"[^\s,=:]{1,30}")
_MOST_STARS = 10
_SHOWN = 3


@dataclass(frozen=True)
class MarkScale:
    """Meaning of a field's values, as typed: `grade:A=1,B=0` or `rating:1..5`.

    Attributes:
        field: The field.
        values: The score of each value, by its text in small letters.
        ends: The values that are scores of 0 and 1, of which all others lie between.
    """

    field: str
    values: Mapping[str, float]
    ends: tuple[float, float] | None = None

    def of(self, value: object) -> float | None:
        """Return the score of a value; None where it has none."""
        if isinstance(value, list) and value:
            draws = [score for score in map(self.of, value) if score is not None]
            return fmean(draws) if len(draws) == len(value) else None
        if self.values and isinstance(value, str | int | float):
            return self.values.get(_word(str(value)))
        if self.ends is None:
            return score_of(value)
        number = as_number(value)
        low, high = self.ends
        if number is None or not min(low, high) <= number <= max(low, high):
            return None
        return (number - low) / (high - low)


def read_scale(verdict: str) -> MarkScale:
    """Read what `verdict=` takes: a field, and after a colon what its values mean.

    Raises:
        UsageError: If that is neither values with scores nor a range.
    """
    field, colon, meaning = verdict.rpartition(":")
    if not colon or not ("=" in meaning or ".." in meaning):
        return MarkScale(verdict, {})
    if (ends := _RANGE.match(meaning)) is not None and float(ends[1]) != float(ends[2]):
        return MarkScale(field, {}, (float(ends[1]), float(ends[2])))
    values = {}
    for pair in meaning.split(","):
        name, _, score = pair.rpartition("=")
        number = as_number(score)
        if not name.strip() or number is None or not 0 <= number <= 1:
            how = f"write {field}:A=1,B=0 (scores from 0 to 1), or {field}:1..5 for a range"
            raise UsageError(f"verdict={verdict}: {pair!r} gives no score; {how}")
        values[_word(name)] = number
    return MarkScale(field, values)


def with_letters(scale: MarkScale, values: Sequence[Any]) -> tuple[MarkScale, str]:
    """Return the scale of a field whose values are letters, and how it reads them.

    The letters of SimpleQA are A, B and C; where others stand beside them, or A alone, these may
    be marks of a school.
    """
    given = {_word(value) if isinstance(value, str) else None for value in values}
    given.discard("")
    if scale.values or scale.ends or not {"a", "b"} <= given <= set(_LETTERS):
        return scale, ""
    return MarkScale(scale.field, _LETTERS), f"{scale.field}: {_AS_LETTERS}"


def how_to_map(field: str, values: Sequence[Any]) -> str:
    """Say how the user gives the values of a field their meaning; empty where that is long."""
    flat = list(flattened(values))
    numbers = [number for number in map(as_number, flat) if number is not None]
    if numbers and len(numbers) == len(flat):
        low, high = min(0.0, *numbers), max(1.0, *numbers)
        # Stars begin at 1: on a scale from 0 the worst of five would get .2.
        if min(numbers) >= 1 and high <= _MOST_STARS:
            low = 1.0
        if low < high:
            return f"; for a scale, write verdict={field}:{low:g}..{high:g} (worst..best)"
    words = list(dict.fromkeys(value for value in flat if isinstance(value, str)))
    if 2 <= len(words) <= 12 and all(map(_MAPPED.fullmatch, words)):
        rest = ",…" if len(words) > 2 else ""
        return f"; to define the values, write verdict={field}:{words[0]}=1,{words[1]}=0{rest}"
    return ""


def flattened(values: Sequence[Any]) -> Iterator[Any]:
    """Yield values, and those in lists of any depth one by one."""
    for value in values:
        if isinstance(value, list):
            yield from flattened(value)
        else:
            yield value


def first_values(values: Sequence[Any]) -> str:
    """Return the first values that differ, as messages show them."""
    listed = list(dict.fromkeys(map(shown, values)))
    more = ", …" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more


def score_of(value: object) -> float | None:
    """Return a verdict as a number from 0 to 1, of several draws the mean; None where it is none.

    The empty text and null are no verdict: the judge failed.
    """
    # Judges that are asked for JSON leave it in the file as a text.
    if isinstance(value, str) and (inner := inside(value)) is not None:
        value = inner
    if isinstance(value, dict):
        value = _judged_in(value)
    if isinstance(value, list):
        draws = [score for score in map(score_of, value) if score is not None]
        # A mean of the draws that did not fail would be of fewer than the other rows have.
        return fmean(draws) if draws and len(draws) == len(value) else None
    if isinstance(value, str):
        return _score_of_text(value)
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return float(value)
    return None


def is_mark(value: object) -> bool:
    """Return whether a value is a verdict and nothing else: right, wrong, half, or draws of it."""
    if isinstance(value, str) and (inner := inside(value)) is not None:
        value = inner
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return bool(value) and all(map(is_mark, value))
    return score_of(value) in (0, 0.5, 1)


def as_number(value: object) -> float | None:
    """Return a finite number that is one, or that a text writes."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def inside(text: str) -> Any:
    """Return the object or list that a text holds as JSON; None where it holds none."""
    fenced = _FENCED.match(text)
    text = (text if fenced is None else fenced[1]).strip()
    if text[:1] not in ("{", "["):
        return None
    try:
        node = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return node if isinstance(node, dict | list) else None


def _judged_in(value: Mapping[str, Any]) -> list[Any]:
    """Return the draws in an object: of the one field that is called a verdict, else all."""
    called = {name: one for name, one in value.items() if _JUDGING.search(name)}
    own = {name: one for name, one in called.items() if score_of(one) is not None}
    stems = {re.sub(r"[\W\d_]+", "", name) for name in own}
    return list(own.values()) if len(stems) == 1 else list(value.values())


def _score_of_text(text: str) -> float | None:
    word = _word(text)
    if word in _MEANINGS:
        return _MEANINGS[word]
    number = as_number(word)
    if number is not None:
        # 4 may be of five or of ten: the user says which.
        return number if 0 <= number <= 1 else None
    if (share := _SHARE.match(text.strip())) is not None:
        whole = 100.0 if share[2] else float(share[3])
        return float(share[1]) / whole if float(share[1]) <= whole and whole else None
    # Some files hold the judge's whole reply, which begins with its verdict.
    first = _FIRST.match(text)
    return None if first is None else _MEANINGS.get(_word(first[1]))


def _word(text: str) -> str:
    plain = _COLOURS.sub("", text).strip().strip(_AROUND)
    return re.sub(r"[\s_-]+", "_", plain.casefold())
