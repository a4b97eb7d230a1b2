"""Folding of text before it is compared; its length, its script, and marks of rejection."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Accents, Hebrew points and Arabic vowel signs are optional spelling. The combining classes left
# out (nukta, kana voicing, virama, Thai and Lao vowels) tell words apart.
_OPTIONAL_MARK_CLASSES = frozenset((*range(10, 37), *range(200, 241)))


# Default_Ignorable_Code_Point of Unicode 16 (DerivedCoreProperties): nothing of them is seen.
# Fillers of Hangul are letters to Python, so a response of U+3164 alone counted as one that says
# something.
_INVISIBLE_RANGES = """
AD-AD 34F-34F 61C-61C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164-3164
FE00-FE0F FEFF-FEFF FFA0-FFA0 FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF
"""
_INVISIBLE: dict[int, None] = {}
for _range in _INVISIBLE_RANGES.split():
    _first, _, _last = _range.partition("-")
    _INVISIBLE |= dict.fromkeys(range(int(_first, 16), int(_last, 16) + 1))
# To translate a text takes 25 times as long as to see that nothing of it is to be dropped.
_INVISIBLE_CHARACTERS = frozenset(map(chr, _INVISIBLE))


# Letters of a text that tell its script.
_TELLING = 2_000
_CJK = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")


class _LooseFolding(dict[int, str | None]):
    """What becomes of each character in loose folding, looked up once: nothing, a digit, itself."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        digit = unicodedata.decimal(character, None)
        kept = character if digit is None else str(digit)
        self[code] = None if unicodedata.combining(character) in _OPTIONAL_MARK_CLASSES else kept
        return self[code]


_KEPT = _LooseFolding()


def invisible(character: str) -> bool:
    """Tell whether nothing of a character is seen."""
    return character in _INVISIBLE_CHARACTERS


def fold(text: str) -> str:
    """Fold `text` for comparison: NFKC, case, white space, characters that nobody sees.

    Two values that differ only in Unicode form, letter case, white space or invisible marks fold to
    the same string.
    """
    if text.isascii():
        return " ".join(text.lower().split())
    if not _INVISIBLE_CHARACTERS.isdisjoint(text):
        text = text.translate(_INVISIBLE)
    # Folding case can undo the normal form, so it is made twice.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


# `fold` for the values of memories, which are short and looked at more than once.
fold_value = lru_cache(maxsize=4096)(fold)


def fold_loosely(text: str) -> str:
    """Fold `text` further: accents, vowel points and the script of digits are dropped, too."""
    return loosen(fold(text))


def loosen(folded: str) -> str:
    """Return what `fold_loosely` does, of a text that `fold` has folded."""
    folded = folded.replace("’", "'")
    if folded.isascii():
        return folded
    kept = unicodedata.normalize("NFKD", folded).translate(_KEPT)
    return " ".join(unicodedata.normalize("NFC", kept).split())


class _Letters(dict[int, str | None]):
    """What becomes of each character in `letters`, looked up once.

    Letters that look alike differ by case («Ν» is an N, «ν» a v): `case_first` says which of both
    is folded first.
    """

    def __init__(self, *, case_first: bool) -> None:
        super().__init__()
        self._case_first = case_first

    def __missing__(self, code: int) -> str | None:
        form = unicodedata.normalize("NFKC", chr(code))
        parts = unicodedata.normalize("NFKD", form.casefold() if self._case_first else form)
        alike = "".join(map(_prototype, parts)).casefold()
        shown = "".join(c for c in alike if c.isalnum() and ord(c) not in _INVISIBLE)
        is_wide = len(shown) == 1 and unicodedata.east_asian_width(form[0]) in "WF"
        self[code] = shown * WIDE if is_wide else shown
        return self[code]


# How many letters a Chinese, Japanese or Korean character says as much as.
WIDE = 2
_BY_CASE, _BY_LOOK = _Letters(case_first=True), _Letters(case_first=False)
# Of ASCII, "I", "l", "1" and "|" are one to the eye, and so are "O" and "0".
_ASCII_PROTOTYPES = {"0": "o", "O": "o", "1": "l", "I": "l", "i": "l", "|": "l"}


def letters(text: str) -> tuple[str, str]:
    """Return the letters and digits of `text` as they look: no case, accent, space or sign.

    Letters that look alike are one (the confusables of UTS 39), and a wide character stands twice.
    Folded by case first, and by look first: two texts are alike if they are so in one of both.
    """
    return text.translate(_BY_CASE), text.translate(_BY_LOOK)


def length_in_letters(text: str) -> int:
    """Return the length of `text`, where a Chinese, Japanese or Korean sign counts as `WIDE`."""
    if text.isascii():
        return len(text)
    return len(text) + (WIDE - 1) * sum(
        unicodedata.east_asian_width(character) in "WF" for character in text
    )


LENGTHS = ("short", "medium", "long")
"""Groups of records by how long their texts are, the same wherever they are shown."""


def length_thirds(lengths: "Sequence[int] | NDArray[np.float64]") -> list[str]:
    """Return the third that each length is in; one at a quantile is in the shorter third."""
    if not len(lengths):
        return []
    # Here, as most who fold a text need no numpy.
    import numpy as np

    edges = np.quantile(lengths, (1 / 3, 2 / 3))
    return [LENGTHS[third] for third in np.searchsorted(edges, lengths)]


@cache
def prototypes() -> dict[str, str]:
    """Return the prototype of every character that looks like another, by Unicode's table.

    UTS 39 (Unicode Security Mechanisms), 4. A character that is not there is its own prototype.
    """
    # Imported here: its table takes a tenth of a second to read.
    from confusable_homoglyphs.confusables import confusables_data

    # The library holds both directions of the table: a prototype lists all that look like it, and
    # each of these the prototype alone. Where two list only each other, the longer one, or the one
    # that sorts first, stands for both.
    def rank(text: str) -> tuple[int, int, list[int]]:
        return len(confusables_data.get(text, ())), len(text), [-ord(sign) for sign in text]

    targets: dict[str, str] = {}
    for source, rows in confusables_data.items():
        for row in rows:
            target = "".join(sign for sign in row["c"] if unicodedata.category(sign) != "Cf")
            if len(source) == 1 and rank(target) > rank(source):
                targets[source] = target
    closed = {}
    for source, target in targets.items():
        decomposed = unicodedata.normalize("NFD", target)
        closed[source] = "".join(targets.get(sign, sign) for sign in decomposed)
    return closed


def _prototype(character: str) -> str:
    """Return what stands for all that looks like `character`."""
    alike = character if character.isascii() else prototypes().get(character, character)
    return "".join(_ASCII_PROTOTYPES.get(letter, letter) for letter in alike)


def digest(text: str) -> int:
    """Return a 64-bit number that depends on nothing but `text`."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def whole_number(text: str) -> int | None:
    """Return a number of 0 or more, in at most 18 of the digits 0 to 9; None for other text."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def texts_of(node: Any) -> str:
    """Return the texts of what is asked, those of its parts among them."""
    if isinstance(node, Mapping):
        node = list(node.values())
    if isinstance(node, list | tuple):
        return "\n".join(filter(None, map(texts_of, node)))
    return node if isinstance(node, str) else ""


def script_of(text: str) -> str:
    """Return the script of most letters of a text: `Latin`, `CJK`, `Cyrillic` …; `none` without."""
    # A history may be a thousand times as long as what tells its script.
    letters = islice(filter(str.isalpha, text), _TELLING)
    counts: Counter[str] = Counter()
    for character, count in Counter(letters).items():
        name = unicodedata.name(character, "?").partition(" ")[0]
        counts["CJK" if name.startswith(_CJK) else name.capitalize()] += count
    return counts.most_common(1)[0][0] if counts else "none"


_REJECTED = "[ERROR:"
_BRACKET = re.compile(r"[\[\]]")


def shown_value(value: str) -> str:
    """Return `value` without the trailing `[ERROR: …]` that marks gold its annotators rejected."""
    shown = value[: _mark(value)] if _REJECTED in value else value  # nearly all have none
    return shown.rstrip() or value


def is_rejected(value: str) -> bool:
    """Tell whether a gold value carries the mark of rejection."""
    return _mark(value) < len(value)


def _mark(value: str) -> int:
    """Return where the mark of rejection begins; the length of the value where there is none.

    It is the `[ERROR:` whose bracket closes at the end, or never does; of several in a row at the
    end, the first.
    """
    if _REJECTED not in value:
        return len(value)
    starts = _starts_by_end(value)
    begin, end = len(value), len(value.rstrip())
    while (start := starts.get(end)) is not None:
        begin, end = start, len(value[:start].rstrip())
    return begin


def _starts_by_end(value: str) -> dict[int, int]:
    """Return where each `[ERROR: …]` begins by where it ends; one that is cut off, at the end."""
    starts: dict[int, int] = {}
    opened: list[int] = []
    for bracket in _BRACKET.finditer(value):
        if bracket[0] == "[":
            opened.append(bracket.start())
        elif opened:
            starts[bracket.end()] = opened.pop()
    cut_off = [start for start in opened if value.startswith(_REJECTED, start)]
    found = {end: start for end, start in starts.items() if value.startswith(_REJECTED, start)}
    return {**found, len(value.rstrip()): cut_off[0]} if cut_off else found
