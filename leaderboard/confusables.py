"""Names that read alike: skeletons of UTS 39 (Unicode Security Mechanisms, 4: Confusable
Detection).
"""

import unicodedata
from functools import cache

import regex

from alps.confusables import prototypes
from alps.leaderboard.wording import INVISIBLE

_SPACE = regex.compile(r"[\p{Z}\s]+")


def alike(one: str, other: str) -> bool:
    """Tell whether two names read alike: equal, or equal by skeleton, whatever their case and
    invisible characters.
    """
    return not _keys(one).isdisjoint(_keys(other))


def skeleton(text: str) -> str:
    """Return the skeleton of `text`: two texts that look the same have the same one (UTS 39, 4)."""
    visible: str = INVISIBLE.sub("", _SPACE.sub(" ", unicodedata.normalize("NFD", text)))
    shown = "".join(prototypes().get(character, character) for character in visible)
    spaced: str = _SPACE.sub(" ", unicodedata.normalize("NFD", shown))
    return spaced.strip()


@cache
def _keys(text: str) -> frozenset[str]:
    """Return the skeletons of a name by both orders of folding case.

    `RuIes` with a capital I reads as `Rules`, which only its skeleton before folding tells; `RULEЅ`
    with a Cyrillic letter is `Rules` in capitals, which only the one after it tells. The capital of
    a letter outside ASCII may look like another one than the letter does (the palochka), and
    compatibility forms, such as superscripts, are the letters that they are forms of.
    """
    capitals = "".join(c if c.isascii() else c.upper() for c in text)
    forms = (text, capitals, unicodedata.normalize("NFKC", text))
    before = {skeleton(form).casefold() for form in forms}
    after = {skeleton(form.casefold()) for form in forms}
    return frozenset(before | after | {skeleton(key) for key in before})
