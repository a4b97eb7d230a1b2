"""How text is folded before any two pieces of it are compared."""

import unicodedata

# Accents, Hebrew points and Arabic vowel signs are optional spelling. The combining classes left out (nukta, kana
# voicing, virama, Thai and Lao vowels) tell words apart.
_OPTIONAL_MARK_CLASSES = frozenset((*range(10, 37), *range(200, 241)))


def fold(text: str) -> str:
    """Fold `text` for comparison: NFKC, case, white space.

    Two values that differ only in Unicode form, letter case or white space fold to the same string.
    """
    if text.isascii():
        return " ".join(text.lower().split())
    # Folding case can undo the normal form, so it is made twice.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def fold_loosely(text: str) -> str:
    """Fold `text` further, for similarity: accents, vowel points and the script of digits are dropped too."""
    folded = fold(text).replace("’", "'")
    if folded.isascii():
        return folded
    kept: list[str] = []
    for character in unicodedata.normalize("NFKD", folded):
        if unicodedata.combining(character) not in _OPTIONAL_MARK_CLASSES:
            digit = unicodedata.decimal(character, None)
            kept.append(character if digit is None else str(digit))
    return " ".join(unicodedata.normalize("NFC", "".join(kept)).split())
