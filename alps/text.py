"""How text is folded before any two pieces of it are compared."""

import unicodedata
from functools import lru_cache

# Accents, Hebrew points and Arabic vowel signs are optional spelling. The combining classes left out (nukta, kana
# voicing, virama, Thai and Lao vowels) tell words apart.
_OPTIONAL_MARK_CLASSES = frozenset((*range(10, 37), *range(200, 241)))


class _Kept(dict[int, str | None]):
    """What becomes of each character in loose folding, looked up once: nothing, a digit, or itself."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        digit = unicodedata.decimal(character, None)
        kept = character if digit is None else str(digit)
        self[code] = None if unicodedata.combining(character) in _OPTIONAL_MARK_CLASSES else kept
        return self[code]


_KEPT = _Kept()


def fold(text: str) -> str:
    """Fold `text` for comparison: NFKC, case, white space.

    Two values that differ only in Unicode form, letter case or white space fold to the same string.
    """
    if text.isascii():
        return " ".join(text.lower().split())
    # Folding case can undo the normal form, so it is made twice.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


fold_value = lru_cache(maxsize=4096)(fold)
"""`fold` for the values of memories, which are short and looked at more than once."""


def fold_loosely(text: str) -> str:
    """Fold `text` further, for similarity: accents, vowel points and the script of digits are dropped too."""
    return loosen(fold(text))


def loosen(folded: str) -> str:
    """Return what `fold_loosely` does, of a text that `fold` has folded."""
    folded = folded.replace("’", "'")
    if folded.isascii():
        return folded
    kept = unicodedata.normalize("NFKD", folded).translate(_KEPT)
    return " ".join(unicodedata.normalize("NFC", kept).split())


def letters(text: str) -> int:
    """Return the length of `text`; a Chinese, Japanese or Korean character says as much as two letters."""
    if text.isascii():
        return len(text)
    return len(text) + sum(unicodedata.east_asian_width(character) in "WF" for character in text)
