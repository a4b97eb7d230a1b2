"""Porter's stemmer, with the departures of the one that published figures were computed by.

Porter 1980, «An algorithm for suffix stripping», Program 14(3). The departures are the extensions
of NLTK's default mode: some irregular words, `ies` and `ied` of short words, `y` after a consonant,
`fulli`, `alli`, `bli` and `logi`, and a vowel with a consonant as a whole word.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

_VOWELS = frozenset("aeiou")
_IRREGULAR = {
    form: stem
    for stem, forms in {
        "sky": ("sky", "skies"),
        "die": ("dying",),
        "lie": ("lying",),
        "tie": ("tying",),
        "news": ("news",),
        "inning": ("innings", "inning"),
        "outing": ("outings", "outing"),
        "canning": ("cannings", "canning"),
        "howe": ("howe",),
        "proceed": ("proceed",),
        "exceed": ("exceed",),
        "succeed": ("succeed",),
    }.items()
    for form in forms
}
Rule = tuple[str, str, Callable[[str], bool] | None]
"""An ending, what takes its place, and what must hold of the rest; the first ending that fits
decides, whether that holds or not."""


def _consonants(word: str) -> list[bool]:
    found: list[bool] = []
    for place, letter in enumerate(word):
        if letter in _VOWELS:
            found.append(False)
        elif letter == "y" and place:
            found.append(not found[-1])
        else:
            found.append(True)
    return found


def _measure(stem: str) -> int:
    """Count how often a vowel is followed by a consonant."""
    kinds = _consonants(stem)
    return sum(not one and other for one, other in pairwise(kinds))


def _has_vowel(stem: str) -> bool:
    return not all(_consonants(stem))


def _doubled(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _consonants(word)[-1]


def _ends_cvc(word: str) -> bool:
    kinds = _consonants(word)
    if len(word) == 2:
        return kinds == [False, True]
    return kinds[-3:] == [True, False, True] and word[-1] not in "wxy"


def _some(stem: str) -> bool:
    return _measure(stem) > 0


def _more(stem: str) -> bool:
    return _measure(stem) > 1


def _replaced(word: str, rules: Sequence[Rule]) -> str:
    for ending, new, holds in rules:
        if word.endswith(ending):
            stem = word[: len(word) - len(ending)]
            return stem + new if holds is None or holds(stem) else word
    return word


def _plural(word: str) -> str:
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]
    return _replaced(
        word, (("sses", "ss", None), ("ies", "i", None), ("ss", "ss", None), ("s", "", None))
    )


def _past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _some(word[:-3]) else word
    for ending in ("ed", "ing"):
        stem = word.removesuffix(ending)
        if stem != word and _has_vowel(stem):
            return _restored(stem)
    return word


def _restored(stem: str) -> str:
    """Give a word back what it had before `ed` or `ing`."""
    for ending in ("at", "bl", "iz"):
        if stem.endswith(ending):
            return f"{stem}e"
    if _doubled(stem):
        return stem if stem[-1] in "lsz" else stem[:-1]
    return f"{stem}e" if _measure(stem) == 1 and _ends_cvc(stem) else stem


def _y(word: str) -> str:
    stem = word[:-1]
    return f"{stem}i" if word[-1] == "y" and len(stem) > 1 and _consonants(stem)[-1] else word


_SECOND: tuple[Rule, ...] = (
    ("ational", "ate", _some),
    ("tional", "tion", _some),
    ("enci", "ence", _some),
    ("anci", "ance", _some),
    ("izer", "ize", _some),
    ("bli", "ble", _some),
    ("alli", "al", _some),
    ("entli", "ent", _some),
    ("eli", "e", _some),
    ("ousli", "ous", _some),
    ("ization", "ize", _some),
    ("ation", "ate", _some),
    ("ator", "ate", _some),
    ("alism", "al", _some),
    ("iveness", "ive", _some),
    ("fulness", "ful", _some),
    ("ousness", "ous", _some),
    ("aliti", "al", _some),
    ("iviti", "ive", _some),
    ("biliti", "ble", _some),
    ("fulli", "ful", _some),
    # The `l` counts with the stem, or `geologi` and `theologi` would stay while `archaeologi` is
    # cut.
    ("logi", "log", lambda stem: _some(f"{stem}l")),
)
_THIRD: tuple[Rule, ...] = (
    ("icate", "ic", _some),
    ("ative", "", _some),
    ("alize", "al", _some),
    ("iciti", "ic", _some),
    ("ical", "ic", _some),
    ("ful", "", _some),
    ("ness", "", _some),
)
_FOURTH: tuple[Rule, ...] = (
    *((ending, "", _more) for ending in ("al", "ance", "ence", "er", "ic", "able", "ible", "ant")),
    *((ending, "", _more) for ending in ("ement", "ment", "ent")),
    ("ion", "", lambda stem: _more(stem) and stem[-1:] in ("s", "t")),
    *((ending, "", _more) for ending in ("ou", "ism", "ate", "iti", "ous", "ive", "ize")),
)


def _second(word: str) -> str:
    # `alli` first becomes `al`, of which the other rules are then tried.
    if word.endswith("alli") and _some(word[:-4]):
        return _second(f"{word[:-4]}al")
    return _replaced(word, _SECOND)


def _last(word: str) -> str:
    if word.endswith("e"):
        stem = word[:-1]
        if _measure(stem) > 1 or (_measure(stem) == 1 and not _ends_cvc(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return the stem of a word in lower case."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    # Porter's own program leaves such words alone; his paper does not say so.
    if len(word) <= 2:
        return word
    word = _y(_past(_plural(word)))
    word = _replaced(_second(word), _THIRD)
    return _last(_replaced(word, _FOURTH))
