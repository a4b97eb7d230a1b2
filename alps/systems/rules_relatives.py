"""Words with one English value in every language: relatives, pets, and languages to answer in."""

import re

# «my» in the languages below; Arabic and Hebrew put it at the end of the word itself.
_MY = (
    r"(?:\b(?:my|mis?|minha|meus?|i miei|mi[ao]|m[ao]n?|mes|mein(?:e[mnr]?)?) |\bмо\w{1,3} "
    r"|我(?:的|家的?|养了?)?(?:一[只条])?|私の|(?=[\u0590-\u06ff]))"
)
# Gold values are English whatever the dialogue's language is, so these have one value in all.
_RELATIVES: tuple[tuple[str, str, str], ...] = (
    ("Has a wife", "Social_Relationships/Partners",
     r"(?:esposa|mujer|mulher|moglie|femme|frau)\b|жен[аоуы]\b|老婆|妻|太太|媳妇|زوجتي|אשתי"),
    ("Has a husband", "Social_Relationships/Partners",
     r"(?:esposo|marido|marito|mari|mann)\b|муж|老公|丈夫|زوجي|בעלי"),
    ("Has a girlfriend", "Social_Relationships/Partners",
     r"(?:novia|namorada|ragazza|copine|freundin)\b|девушк|女朋?友|彼女"),
    ("Has a boyfriend", "Social_Relationships/Partners",
     r"(?:novio|namorado|ragazzo|copain)\b|парень|男朋?友|彼氏"),
    ("Has a son", "Social_Relationships/Family",
     r"(?:hijo|filho|figlio|fils|sohn)\b|сын|儿子|息子|ابني"),
    ("Has a daughter", "Social_Relationships/Family",
     r"(?:hija|filha|figlia|fille|tochter)\b|доч|女儿|娘|ابنتي"),
    ("Has children", "Social_Relationships/Family",
     r"(?:kids|hijos|filhos|figli|enfants|kinder)\b|дет[иея]|孩子|小孩|子供|أطفالي"),
    ("Has a brother", "Social_Relationships/Family",
     r"(?:hermano|irmão|fratello|frère|bruder)\b|брат|哥|弟|兄|أخي\b"),
    ("Has a sister", "Social_Relationships/Family",
     r"(?:hermana|irmã|sorella|sœur|schwester)\b|сестр|姐|妹|姉|أختي"),
    ("Has a mother", "Social_Relationships/Family",
     r"(?:mom|mum|mommy|madre|mamá|mãe|mère|mutter)\b|мам|妈|母|أمي\b"),
    ("Has a father", "Social_Relationships/Family",
     r"(?:dad|daddy|padre|papá|pai|père|vater)\b|пап|отец|отц|爸|父|أبي\b"),
    ("Has a grandmother", "Social_Relationships/Family",
     r"(?:grandma|granny|abuela|avó|nonna|grand-mère|oma|großmutter)\b|бабушк|奶奶|外婆|姥姥|جدتي"),
    ("Has a dog", "Possessions/Pet",
     r"(?:perr[oa]|cachorro|cane|chien|hund)\b|собак|狗|犬|كلبي"),
    ("Has a cat", "Possessions/Pet",
     r"(?:gat[oa]|gatto|chat|katze)\b|ко[тш]к?\w\b|猫|قطتي"),
    ("Owns a car", "Possessions/Car",
     r"(?:coche|carro|macchina|voiture)\b|машин|汽车|车|سيارتي"),
)  # fmt: skip
RELATIVES = re.compile(
    _MY
    + "(?:"
    + "|".join(f"(?P<r{n}>{words})" for n, (_, _, words) in enumerate(_RELATIVES))
    + ")",
    re.IGNORECASE,
)
RELATIVE_VALUES = {f"r{n}": (value, label) for n, (value, label, _) in enumerate(_RELATIVES)}

_LANGUAGES = {
    "Arabic": r"arabic|العربية|بالعربي",
    "Chinese": r"chinese|中文",
    "English": r"english|英[文语]",
    "French": r"french|français|法语",
    "German": r"german|deutsch|德语",
    "Italian": r"italian",
    "Japanese": r"japanese|日[本]?语",
    "Korean": r"korean|韩语",
    "Portuguese": r"portuguese|português",
    "Russian": r"russian|俄语",
    "Spanish": r"spanish|español|西班牙语",
    "Turkish": r"turkish|türkçe",
}
_IN = "|".join(f"(?P<{name}>{words})" for name, words in _LANGUAGES.items())
ANSWER_LANGUAGE = re.compile(
    rf"(?:\b(?:answers?|reply|replies|respond|responses?|speak|talk|explain|responde|antworte|réponds)"
    rf"(?: \w+){{0,3}} (?:in|en|auf|em) |[用以])(?:{_IN})(?:\b|回答|回复)",
    re.IGNORECASE,
)
