"""Names that read alike: skeletons of UTS 39 (Unicode Security Mechanisms, 4: Confusable Detection)."""

import unicodedata
from functools import cache

import regex
from confusable_homoglyphs.confusables import confusables_data

from alps.leaderboard.wording import INVISIBLE

_SPACE = regex.compile(r"[\p{Z}\s]+")


def alike(one: str, other: str) -> bool:
    """Tell whether two names read alike: equal, or equal by skeleton, whatever their case and invisible characters."""
    return not _keys(one).isdisjoint(_keys(other))


def skeleton(text: str) -> str:
    """Return the skeleton of `text`: two texts that look the same have the same one (UTS 39, 4)."""
    visible = INVISIBLE.sub("", _SPACE.sub(" ", unicodedata.normalize("NFD", text)))
    prototypes = "".join(_prototypes().get(character, character) for character in visible)
    return _SPACE.sub(" ", unicodedata.normalize("NFD", prototypes)).strip()


@cache
def _keys(text: str) -> frozenset[str]:
    """Return the skeletons of a name by both orders of folding case.

    `RuIes` with a capital I reads as `Rules`, which only its skeleton before folding tells; `RULEЅ` with a Cyrillic
    letter is `Rules` in capitals, which only the one after it tells. The capital of a letter outside ASCII may look
    like another one than the letter does (the palochka), and compatibility forms, such as superscripts, are the letters
    that they are forms of.
    """
    capitals = "".join(c if c.isascii() else c.upper() for c in text)
    forms = (text, capitals, unicodedata.normalize("NFKC", text))
    before = {skeleton(form).casefold() for form in forms}
    after = {skeleton(form.casefold()) for form in forms}
    return frozenset(before | after | {skeleton(key) for key in before})


@cache
def _prototypes() -> dict[str, str]:
    """Return the prototype of every confusable character.

    The library holds both directions of Unicode's table: a prototype lists all that look like it, and each of these the
    prototype alone. Where two list only each other, the longer one, or the one that sorts first, stands for both.
    """
    prototypes: dict[str, str] = {}
    for source, rows in confusables_data.items():
        for row in rows:
            target = "".join(c for c in row["c"] if unicodedata.category(c) != "Cf")
            if len(source) == 1 and _rank(target) > _rank(source):
                prototypes[source] = target
    decomposed = (unicodedata.normalize("NFD", target) for target in prototypes.values())
    closed = ("".join(prototypes.get(c, c) for c in target) for target in decomposed)
    return dict(zip(prototypes, closed, strict=True))


def _rank(text: str) -> tuple[int, int, list[int]]:
    """Order the two sides of a row of the table: the prototype is the greater one."""
    return len(confusables_data.get(text, ())), len(text), [-ord(character) for character in text]
