"""Names of systems and organisations: what they may claim, and what may stand in them.

Boards say in columns of their own how far a system is confirmed, its rank, and which rows are
baselines or reported. A name that says so is read as if the board said it.
"""

import unicodedata
from collections.abc import Iterator, Sequence

import regex

from alps.leaderboard.untrusted import shown
from alps.text import fold_loosely, letters

# What boards, reviews and reference rows say, in the languages that systems are named in. Written
# apart or together, with or without accents and case, and in letters that look alike.
_STATUS = """
    official officially offiziell officiel officielle oficial ufficiale официальный официальная
    официально verified unverified verifiziert verifie verifiee verificado verificada verificato
    verificata проверено reproduced reproduziert reproduit reproducido reproducida riprodotto
    воспроизведено rescored recomputed recalculated refuted selfreported formatchecked reported
    certified certificado certifie zertifiziert сертифицировано approved endorsed accredited
    audited confirmed validated maintainer maintainers leaderboard baseline baselines unranked sota
    champion authorized authorised trusted geprüft bestätigt amtlich confirmé approuvé confirmado
    confermato проверенная проверенный подтверждено подтверждена 공식 검증 검증됨 인증됨
    رسمي رسمية موثق معتمد רשמי רשמית מאומת आधिकारिक सत्यापित
"""
_STATUS_SIGNS = (
    *("官方", "已验证", "已驗證", "已认证", "已認證", "基线"),
    *("検証済", "認証済", "認定", "公認"),
)
_NO_NAME = """
    na none null unknown nothing nomemory withoutmemory refusal placebo oracle floor ceiling
    people human humans annotators humanannotators reference references
    system systems total average mean
"""
_ONE_FIRST = "(?:1|one|first)"
_CLAIM = regex.compile(
    rf"(?<!\w)(?:#|№)\s*\d|\b(?:no|nr|rank|number|platz)\b[.:°º]?\s*#?\s*{_ONE_FIRST}\b"
    r"|\b(?:1st|2nd|3rd|first|second|third|top)\s+(?:place|rank|spot)\b"
    r"|\bwinner\b(?!\s+take)|\b(?:gold|silver|bronze)\s+medal|\bstate\s+of\s+the\s+art\b"
    r"|\bbest\s+(?:system|memory|model|overall)\b|\bbest\s+on\s+(?:the\s+)?(?:alps|board)"
    r"|\branked\s+(?:\d|one|first|top)"
    r"|第[1一]名|冠[军軍]|(?<!\d)1位|\b(?:rang|n°|numéro|numero|número)\s*1\b|\bpeer\s+reviewed\b"
    r"|\balps\s*(?:bench)?\s+(?:team|authors?|organi[sz]ers?)\b"
    r"|\bself\s+reported\b|\bformat\s+checked\b|\bre\s+(?:scored|computed)\b|\bjudged\s+again\b"
    r"|\b(?:the|this|their)\s+paper(?:\s+s)?\b|\bby\s+(?:the\s+)?(?:authors?|paper|organi[sz]ers)\b"
)
# Symbols of a trade name; any other may be read as a check mark, a medal or a star.
_MARKS = "©®™°"
_CHECK = "√"
_ENCLOSED = regex.compile(
    r"[\p{InEnclosed_Alphanumerics}\p{InDingbats}\p{InEnclosed_Alphanumeric_Supplement}]"
)
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_HUMP = regex.compile(r"(?<=\p{Ll})(?=\p{Lu})")
_MOST_JOINED = 16
"""Parts of a name that are read as one word; no word that claims a status has more letters."""
_FROM_RIGHT, _FROM_LEFT = {"R", "AL"}, {"L"}


# Digits and signs that are read as letters.
_READ_AS = str.maketrans("3457$@", "eastsa")
_SMALL_CAPITAL = "LATIN LETTER SMALL CAPITAL "


def _looks(word: str) -> tuple[str, ...]:
    """Return what a word reads as: two forms, and the same with digits read as letters."""
    capitals = "".join(map(_full_size, word))
    return (*letters(capitals), *letters(capitals.translate(_READ_AS)))


def _full_size(character: str) -> str:
    # Unicode's table of confusable characters has no small capitals.
    letter = unicodedata.name(character, "").removeprefix(_SMALL_CAPITAL)
    return letter if len(letter) == 1 else character


def _keys(words: str) -> frozenset[str]:
    return frozenset(key for word in words.split() for key in letters(word))


_STATUS_KEYS, _NO_NAME_KEYS = _keys(_STATUS), _keys(_NO_NAME)


def fault_of_name(name: str) -> str | None:
    """Say why a system or its maker must not be called `name`; None where it may."""
    if not regex.search(r"[\p{L}\p{Nd}]", name):
        return "has no letter and no digit"
    for character in name:
        if _is_sign(character):
            return f"holds the sign U+{ord(character):04X}"
    words = _WORD.findall(name)
    for word in words:
        sides = {unicodedata.bidirectional(character) for character in word}
        if sides & _FROM_RIGHT and sides & _FROM_LEFT:
            return f"mixes letters from the left and from the right in one word ({shown(word)})"
    if claim := _claim(name, words):
        return f"says «{shown(claim)}», which boards say in columns of their own"
    return None


def _is_sign(character: str) -> bool:
    """Tell whether a character is a picture, an enclosed number or a check mark."""
    if character in _MARKS:
        return False
    enclosed = _ENCLOSED.match(character) is not None
    return unicodedata.category(character) == "So" or enclosed or character == _CHECK


def _joined(parts: Sequence[str]) -> Iterator[str]:
    """Yield what neighbouring parts of a name read as together: a word may be written apart."""
    for start in range(len(parts)):
        for end in range(start + 1, min(len(parts), start + _MOST_JOINED) + 1):
            yield "".join(parts[start:end])


def _claim(name: str, words: list[str]) -> str | None:
    """Return the words of a name that claim a status, a rank, or that it is no system."""
    parts: list[str] = [part for word in words for part in _HUMP.split(word)]
    for word in (*words, *_joined(parts), "".join(words)):
        if not _STATUS_KEYS.isdisjoint(_looks(word)):
            return word
    for sign in _STATUS_SIGNS:
        if sign in unicodedata.normalize("NFKC", name):
            return sign
    if not _NO_NAME_KEYS.isdisjoint(_looks("".join(words))):
        return name
    plain = regex.sub(r"[\p{P}--[#.]]+", " ", fold_loosely(name), flags=regex.V1)
    claim = _CLAIM.search(plain)
    return str(claim[0]).strip() if claim else None
