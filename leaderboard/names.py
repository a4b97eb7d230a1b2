"""Names of systems and organisations: allowed claims and characters.

Boards say in columns of their own how far a system is confirmed, its rank, and which rows are
baselines or reported. A name that says so is read as if the board said it.
"""

import unicodedata
from collections.abc import Iterator, Sequence

import regex

from alps.leaderboard.untrusted import shown
from alps.text import fold_loosely, invisible, letters, prototypes

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
    officieel officiële geverifieerd bevestigd officiell verifierad bekräftad verificeret bekræftet
    offisiell verifisert virallinen vahvistettu oficjalny oficjalna oficjalne zweryfikowany
    zweryfikowane potwierdzony oficiální ověřeno ověřený hivatalos ellenőrzött resmi doğrulanmış
    doğrulandı onaylı επίσημο επίσημη επαληθευμένο terverifikasi chínhthức xácminh đãxácminh
    офіційний офіційна перевірено підтверджено unbeaten undefeated
"""
# What boards say by a rank.
_FIRST_OF_ALL = """
    beste bester bestes sieger gewinner testsieger ersterplatz meilleur meilleure gagnant vainqueur
    premièreplace premierrang mejor ganador ganadora campeón primerlugar primerpuesto migliore
    vincitore campione primoposto melhor vencedor campeão primeirolugar лучший лучшая лучшее
    победитель чемпион первоеместо найкращий найкраща переможець najlepszy najlepsza zwycięzca
    winnaar kampioen bästa vinnare nejlepší vítěz eniyi birinci şampiyon καλύτερο tốtnhất terbaik
    우승 최강 الأفضل أفضل الأول הטובביותר सर्वश्रेष्ठ
"""
_STATUS_SIGNS = """
    官方 验证 驗證 认证 認證 基线 基線 最佳 最强 最強 最优 最優 最好 榜首 金牌 银牌 銀牌
    铜牌 銅牌 优胜 優勝 首位 首席 検証済 認証済 認定 公認 最高の ยืนยันแล้ว อย่างเป็นทางการ
    ดีที่สุด
"""
_NO_NAME = """
    na none null unknown nothing nomemory withoutmemory refusal placebo oracle floor ceiling
    people human humans annotators humanannotators reference references upperbound
    人 人类 人類 人間 люди menschen mensch humains humain humanos umani 사람 인간 作者
    无 無 空 なし нет ninguno ninguna ohne keine keiner aucun aucune nessuno 없음
    system systems total average mean
"""
_ONE_FIRST = "(?:[1l|一壱]|one|first)"
# Words of other things than a rank or a row, after which a name is honest.
_AFTER_FIRST = "(?:order|person|principles?|aid|token|class|party|hand|generation|gen)"
_AFTER_BEST = "(?:of|first|effort|fit|match|buy|on|practices?|response)"
_ROW = "(?:papers?|authors?|论文|論文|논문|статья|articulo)"
_ASIDE = "(?:originals?|gold|checked)"
_CLAIMS = (
    rf"(?<!\w)(?:#|№)\s*\d|\b(?:no|nr|rank|number|platz)\b[.:°º]?\s*#?\s*{_ONE_FIRST}\b",
    r"\b(?:1st|2nd|3rd|first|second|third|top)\s+(?:place|rank|spot)\b",
    rf"\b1\s*(?:st|er|re|ere)\b(?!\s*{_AFTER_FIRST})|\b1\s*[ийяе]\b|(?<![\d.])1[ºª]",
    r"\brank(?:\s*1(?!\d)|\s+l(?!\w))|\branked\s+(?:\d|one|first|top)",
    r"\bn[o°º]\.?\s*1(?!\d|se)|\b(?:rang|n°|numéro|numero|número)\s*1\b",
    r"\bplace\s+[1l](?!\w)|\b(?:1|first)\s*e?\s+(?:place|место)\b",
    r"^top$|\btop\s*(?:[1一](?![\do])|one\b)|\btop\s+[l|](?!\w)",
    r"\btop\s+(?:mem\w*|system|model|rank\w*|performer|score\w*)\b",
    r"\bwinner\b(?!\s+take)|\b(?:gold|silver|bronze)\s+medal|\bstate\s+of\s+the\s+art\b",
    rf"^(?:the\s+)?best(?:$|\s+(?!{_AFTER_BEST}\b))|\bbest(?:\s+mem)?$",
    r"\bbest\s+(?:system|memory|model|overall)\b|\bbest\s+on\s+(?:the\s+)?(?:alps|board)",
    r"\bworld\s*'?\s*s\s+(?:best|first|leading)",
    r"^leader$|\bboard\s+leader\b|\bleading\s+(?:system|memory|mem|model)\b",
    r"第[1一壱](?:名|位|(?=\s|$))|排名第|(?<!\p{Han})一位(?!\p{Han})|(?<!\d)1位|冠[军軍]",
    r"公式(?!\p{Han})|認証(?!\p{Han})|1[위등]|최고(?:의|(?!\p{Hangul}))|검증된",
    rf"^(?:{_ROW}|{_ASIDE})$|\s{_ROW}$|\boriginal\s+authors?\b|\bpeer\s+reviewed\b",
    r"\balps\s*(?:bench)?\s+(?:team|authors?|organi[sz]ers?)\b",
    r"\bself\s+reported\b|\bformat\s+checked\b|\bjudged\s+again\b",
    r"\bre\s+(?:scored|computed)\b",
    r"\b(?:the|this|their)\s+paper(?:\s+s)?\b",
    r"\bby\s+(?:the\s+)?(?:authors?|paper|organi[sz]ers)\b",
)
_CLAIM = regex.compile("|".join(_CLAIMS))
# Symbols of a trade name; any other may be read as a check mark, a medal or a star.
_MARKS = "©®™°²³ªº"
_CHECK = "√"
_ENCLOSED = regex.compile(
    r"[\p{InEnclosed_Alphanumerics}\p{InDingbats}\p{InEnclosed_Alphanumeric_Supplement}]"
)
_BRACKETED = regex.compile(rf"[(\[{{（【<,;:/|·–—]\s*(?:the\s+)?(?:{_ROW}|{_ASIDE})\W*$")
# A one that is an l or an I to the eye.
_LOOKS_FIRST = regex.compile(rf"(?<!\w)[1lI|]st(?!\w)(?!\W*(?i:{_AFTER_FIRST}))")
_ARROW = regex.compile(r"[↑⇑⤊↟⇡⇧↿↾]|\p{InArrows}\s*#?\s*\p{N}")
# Letters that are a dash to the eye.
_DASHES = dict.fromkeys(map(ord, "一ーᅳㅡ〡⼀ｰ丨"))
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_HUMP = regex.compile(r"(?<=\p{Ll})(?=\p{Lu})")
_MOST_JOINED = 16
"""Parts of a name that are read as one word; no word that claims a status has more letters."""
_JOINERS = "\u200c\u200d"
_JOINED = regex.compile(
    r"[\p{Arabic}\p{Devanagari}\p{Bengali}\p{Tamil}\p{Telugu}\p{Kannada}\p{Malayalam}\p{Sinhala}"
    r"\p{Gujarati}\p{Gurmukhi}\p{Oriya}\p{Khmer}\p{Myanmar}]{2}"
)
_FROM_RIGHT, _FROM_LEFT = {"R", "AL"}, {"L"}


# Digits and signs that are read as letters.
_READ_AS = str.maketrans("3457$@0", "eastsao")
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


_STATUS_KEYS, _NO_NAME_KEYS = _keys(_STATUS) | _keys(_FIRST_OF_ALL), _keys(_NO_NAME)


def fault_of_name(name: str) -> str | None:
    """Say why a system or its maker must not be called `name`; None where it may."""
    if not regex.search(r"[\p{Lu}\p{Ll}\p{Lt}\p{Lo}\p{Nd}]", name.translate(_DASHES)):
        return "has no letter and no digit"
    for place, character in enumerate(name):
        if _is_sign(character) or (invisible(character) and not _joins(name, place)):
            return f"contains the character U+{ord(character):04X}"
    words = _WORD.findall(name)
    for word in words:
        if _runs_both_ways(word):
            return f"mixes left-to-right and right-to-left letters in one word ({shown(word)})"
    if claim := _claim(name, words):
        return f"contains “{shown(claim)}”, which is reserved for boards"
    return None


def _runs_both_ways(word: str) -> bool:
    sides = set(map(unicodedata.bidirectional, word))
    return bool(sides & _FROM_RIGHT and sides & _FROM_LEFT)


def _is_sign(character: str) -> bool:
    """Tell whether a character is a picture, an enclosed or raised number, or a check mark."""
    if character in _MARKS:
        return False
    if unicodedata.decomposition(character).startswith("<super>"):
        return True  # a mark that leads to a note, or a word in small
    enclosed = _ENCLOSED.match(character) is not None
    return unicodedata.category(character) == "So" or enclosed or character == _CHECK


def _joins(name: str, place: int) -> bool:
    """Tell whether a character joins or parts the letters around it, as some scripts need it."""
    around = name[max(0, place - 1) : place] + name[place + 1 : place + 2]
    return name[place] in _JOINERS and _JOINED.fullmatch(around) is not None


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
    for sign in _STATUS_SIGNS.split():
        if sign in unicodedata.normalize("NFKC", name):
            return sign
    if not _NO_NAME_KEYS.isdisjoint(_looks("".join(words))):
        return name
    return _rank(name)


def _rank(name: str) -> str | None:
    """Return the words of a name that claim a rank, or that say which kind of row it is."""
    for pattern in (_LOOKS_FIRST, _ARROW):
        if claim := pattern.search(unicodedata.normalize("NFKC", name)):
            return str(claim[0])
    for read in _readings(name):
        if claim := _BRACKETED.search(read):
            return str(claim[0])
        plain = regex.sub(r"[\p{P}--[#.]]+", " ", read, flags=regex.V1).strip()
        if claim := _CLAIM.search(plain):
            return str(claim[0]).strip()
    return None


def _readings(name: str) -> Iterator[str]:
    """Yield a name as it is compared: as it is spelled, and as it looks."""
    yield name.casefold() if regex.search("[ºª]", name) else fold_loosely(name)
    yield fold_loosely(name)
    kept = "".join(map(_full_size, name))
    looks = "".join(sign if sign.isascii() else prototypes().get(sign, sign) for sign in kept)
    yield fold_loosely(looks)
    yield fold_loosely(looks).translate(_READ_AS)
