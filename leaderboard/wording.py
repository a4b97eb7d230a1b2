"""What a text that strangers will read on a page may hold: words, and nothing that steers the page
or the reader.
"""

import re
import unicodedata

import regex

_STEERING = re.compile(
    r"<\s*[A-Za-z/!?]|&#|&[A-Za-z][A-Za-z0-9]{1,30};|\{\{|\{%|\b(?:javascript|vbscript|livescript)\s*:|\bdata\s*:\s*text/"
    r"|\bon[a-z]{3,20}\s*=",
    re.IGNORECASE,
)
INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{C}\u2800\U0001D159]")
"""A character that shows nothing: by its properties, and the two symbols whose glyph is blank.

Not every one is of category C: the Hangul fillers are letters, variation selectors are marks.
"""
_MOST_MARKS = 3
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
_LETTERS = re.compile(r"[^\W\d_]+")


def fault_of(text: str, *, lines: bool = False) -> str | None:
    """Say why `text` must not be shown as it is; None where it may.

    Args:
        text: What somebody wants to have shown.
        lines: Whether it may have several lines.
    """
    for character in text:
        kind = unicodedata.category(character)
        if character == "\n" and lines:
            continue
        if (
            INVISIBLE.match(character)
            or kind in ("Zl", "Zp")
            or (kind == "Zs" and character != " ")
        ):
            return f"holds the invisible character U+{ord(character):04X}"
    if text != unicodedata.normalize("NFC", text):
        return "is not in Unicode's composed form (NFC)"
    if _longest_stack(text) > _MOST_MARKS:
        return "piles up combining marks"
    if found := _STEERING.search(text):
        return f"holds markup or script ({found[0].strip()!r})"
    if text != text.strip() or not text:
        return "is empty, or begins or ends with white space"
    return None


def mixed_scripts(text: str) -> str | None:
    """Return the first word whose letters come from two alphabets that look alike.

    None where there is none.
    """
    for word in _LETTERS.findall(text):
        scripts = {
            name.split()[0] for character in word if (name := unicodedata.name(character, ""))
        }
        if len(scripts & set(_SCRIPTS)) > 1:
            return str(word)
    return None


def shown(text: str, most: int = 60) -> str:
    """Return a stranger's text so that it can stand in a message: one line, short, every odd
    character escaped.
    """
    flat = "".join(
        c if c.isprintable() and ord(c) < 0x2000 else f"\\u{ord(c):04x}" for c in text[: most + 1]
    )
    return flat if len(text) <= most else flat[: most - 1] + "…"


def _longest_stack(text: str) -> int:
    longest = current = 0
    for character in text:
        current = current + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        longest = max(longest, current)
    return longest
