"""Statements of users about themselves, found by pattern, without a model or a network.

The extractor is the honest lower bound of the suite: it reads user turns only, cuts them into
clauses, and keeps the clauses that open like a statement about the speaker («I live in …»,
«我喜欢…», «mi esposa …»). English clauses become telegraphic third person; other languages are kept
as the user wrote them, but for relatives and pets, which have one English value whatever they are
called. One request of the dialogue, the one that shares most with the others, is reported as a
curiosity.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from alps.schema import (
    Evidence,
    ExtractionSample,
    Memory,
    UpdatedMemory,
    UpdateSample,
    UtilizationSample,
    memory_fields,
)
from alps.similarity import THRESHOLD, similarity
from alps.systems.retrievers import BM25, terms
from alps.systems.rules_patterns import (
    BY_SCRIPT,
    CURIOSITY,
    INTERACTION,
    MINE,
    NAMED_OWN,
    OWN,
    REQUEST,
    TOPICS,
    VERB,
)

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
_THEIR_WORDS = "|".join(f"(?P<r{n}>{words})" for n, (_, _, words) in enumerate(_RELATIVES))
RELATIVES = re.compile(f"{_MY}(?:{_THEIR_WORDS})", re.IGNORECASE)
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
    r"(?:\b(?:answers?|reply|replies|respond|responses?|speak|talk|explain|responde|antworte"
    rf"|réponds)(?: \w+){{0,3}} (?:in|en|auf|em) |[用以])(?:{_IN})(?:\b|回答|回复)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Statement:
    """One statement of the user about themselves.

    Attributes:
        value: What to remember; third person for English, else in the user's language.
        label: Canonical label path.
        type: `direct` if stated, `indirect` if implied.
        confidence: One of .95, .80, .65, .50.
        turn: 0-based index of the turn in the dialogue.
        quote: Exact substring of that turn.
    """

    value: str
    label: str
    type: Literal["direct", "indirect"]
    confidence: float
    turn: int
    quote: str


_LONG_TURN, _KEPT_END, _LONGEST_CLAUSE, _LONGEST_VALUE = 1_500, 500, 300, 120
_FEWEST, _MOST = 4, 9
_FOREIGN = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|\"[^\"]{20,}\"|“[^“”]{20,}”|«[^«»]{20,}»|「"
    r"[^「」]{10,}」|^>[^\n]*",
    re.DOTALL | re.MULTILINE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？؟；;])|\n+|\x00+")
_SUBJECT = (
    r"(?:i|i'\w+|im|my|we|you|can|could|please|what|how|why|is|are|do|would|should"
    r"|it|they|he|she)\b"
)
_CLAUSE_END = re.compile(
    rf"\s*[,:(،;]\s*(?=(?:(?:and|but|so|because|since|also) )?{_SUBJECT}"
    r"|(?:y|e|et|und|pero|mais|aber|mas|ma|но|а|что|как)\b)"
    rf"|\s+(?:and|but|so|because|since|which|while|though|if)\s+(?={_SUBJECT})"
    r"|\s+(?:that|how|as|where|when)\s+(?=i\b|i'|my\b|we\b)|\s[-–—]+\s|[，：（]",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"(?:(?:and|but|so|because|since|well|yes|yeah|no(?=,)|ok|okay|hi|hello|hey|actually|honestly"
    r"|also|then|though|btw|y|e|et|und|pero|aber|mais|mas|и|а|но|да)[\s,]+)*(?:因为|但是?|所以|不过|其实)?",
    re.IGNORECASE,
)
# An afterthought makes a value longer than a memory is.
_TAIL = re.compile(
    r"\s*(?:\b(?:because|but|since|although|unless|porque|pero|mas|parce que|mais|weil|aber|perché"
    r"|потому что|но)\b.*|[(;].*|(?<=.{30}),(?! (?:and|or)\b).*|[\s.,;:!?-]+$)",
    re.IGNORECASE | re.DOTALL,
)
# Stories, scripts and personas speak in the first person, too.
_FICTION = re.compile(
    r"\b(?:write|generate|create|continue)\b.{0,60}\b(?:story|script|scene|episode|screenplay|poem"
    r"|song|lyrics|novel|fan ?fic\w*|dialogue)\b|\b(?:act as|you are (?:an?|my|now|the)|actúa como"
    r"|agis comme|du bist ein)\b|扮演|你是一|写一[个篇](?:故事|小说)|представь"
    r"|\A(?:.*\n)*?[A-Z]\w{1,20}: .+\n+[A-Z]\w{1,20}: ",
    re.IGNORECASE,
)
_ROLE_PLAY = re.compile(
    r"\brole-?\s?play|\bpretend (?:to be|you|i|we) |juego de rol|角色扮演|ролев", re.IGNORECASE
)
_SAME_SUBJECT = re.compile(
    r"(?<=\w)(?:,? and|,? but|,) (?=(?:have|am|was|work|live|like|love|enjoy|want|prefer|use|own"
    r"|play|study|studied|hate|plan|got|went|spent|[a-z]+ed)\b)",
    re.IGNORECASE,
)
_PERSONAL = re.compile(
    r"\b(?:i|you|your|it|this|that|these|those|them|she|he|her|him|they|above|me)\b", re.IGNORECASE
)
_SEVERAL = re.compile(r"\d|\w+s\b|children\b|(?:two|three|four) ", re.IGNORECASE)
_VAGUE = re.compile(
    r"(?:(?:to )?\w+ )?(?:it|this|that|these|those|them|you|your|him)\b|(?:lo|el|la) que\b",
    re.IGNORECASE,
)
_PERSON = {
    "i am": "they are",
    "i'm": "they are",
    "i was": "they were",
    "i've": "they have",
    "i": "they",
    "me": "them",
    "my": "their",
    "mine": "theirs",
    "myself": "themselves",
    "am": "are",
    "we": "they",
    "us": "them",
    "our": "their",
}
_FIRST_PERSON = re.compile(rf"\b(?:{'|'.join(_PERSON)})\b", re.IGNORECASE)
_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[^\W_]+(?:'\w+)?")
_STOP_WORDS = """
    a about after all also an and any are as at be been but by can could do does don't for from get
    give good had has have he her his how i i'm if in into is it its just like make me more most my
    need new no not of on one or other our please same should so some than that the their them then
    there these they this to too use used using very was we what when where which who why will with
    would you your de la el los las un una que en y con por para es se lo del mi le les des et une
    pour est der die das und ist ein eine mit von zu o e da do um uma il di non и в на не что как с
    по это для или 的 了 是 什 么 怎 如 何 请 问 我 你 吗 有 在 和 与 这 那 个 不 な い の に は を
    が て か で と し 何
"""
_STOP = frozenset(_STOP_WORDS.split())


def extract(sample: ExtractionSample) -> dict[str, Any]:
    """Answer an extraction sample with what its user says about themselves."""
    statements = find_statements([(turn.role, turn.text) for turn in sample.dialogue])
    items = []
    for number, statement in enumerate(statements, start=1):
        items.append(_as_memory(statement, sample.session_id, number).model_dump())
    return {"memory_items": items}


def _as_memory(statement: Statement, session_id: str, number: int) -> Memory:
    said = Evidence(session_id=session_id, utterance_index=statement.turn, text=statement.quote)
    known = {"type": statement.type, "label": statement.label, "confidence": statement.confidence}
    name = f"m{number}"
    return Memory(**memory_fields(statement.value, memory_id=name, evidence=said, **known))


def find_statements(turns: Sequence[tuple[str, str]], *, limit: int = 8) -> list[Statement]:
    """Find what the user says about themselves in a dialogue.

    Args:
        turns: The dialogue as (role, text) pairs; only turns of the role `user` are read.
        limit: Most statements to return.

    Returns:
        Statements, the surest first, in dialogue order among equals, without near-duplicates.
    """
    statements: list[Statement] = []
    requests: list[tuple[int, str]] = []
    for index, (role, text) in enumerate(turns):
        if role != "user":
            continue
        masked = _masked(text)
        if _ROLE_PLAY.search(masked):
            break  # whatever follows may be said by the character
        sentences = list(_pieces(masked, _SENTENCE_END, 0, len(masked)))
        requests += [(index, text[i:j]) for i, j in sentences if REQUEST.match(masked, i, j)]
        if not _FICTION.search(masked):
            for i, j in sentences:
                statements += _sentence_statements(index, text, masked, i, j)
            statements += _own(index, text, masked)
            statements += _fixed(index, text, masked)
    statements += _curiosity(requests)
    statements.sort(key=lambda statement: -statement.confidence)
    return _distinct(statements)[:limit]


def _masked(text: str) -> str:
    """Blank out what the user did not say (code, quotations, links), keeping every offset."""
    if len(text) > _LONG_TURN:
        # A long turn is mostly pasted; the user's own words stand at its beginning or its end.
        text = text[:_KEPT_END] + "\x00" * (len(text) - 2 * _KEPT_END) + text[-_KEPT_END:]
    return _FOREIGN.sub(lambda match: "\x00" * len(match[0]), text.replace("’", "'"))


def _pieces(
    text: str, boundary: re.Pattern[str], start: int, end: int
) -> Iterator[tuple[int, int]]:
    """Yield the trimmed, non-empty spans between the matches of a boundary."""
    spans = [match.span() for match in boundary.finditer(text, start, end)]
    cuts = [start, *chain(*spans), end]
    for left, right in zip(cuts[::2], cuts[1::2], strict=True):
        piece = text[left:right]
        if body := piece.strip(" \t\r.,;:!*-•。，；：！"):
            offset = left + piece.index(body)
            yield offset, offset + len(body)


def _sentence_statements(
    index: int, text: str, masked: str, start: int, end: int
) -> Iterator[Statement]:
    for left, right in _pieces(masked, _CLAUSE_END, start, end):
        opening = _OPENING.match(masked, left, right)
        begin = opening.end() if opening else left
        if right - begin > _LONGEST_CLAUSE:
            continue
        # «I have a degree and spent three years abroad» states two things of one subject.
        parts = [(begin, right)]
        if masked[begin : begin + 2].lower() in ("i ", "i'"):
            parts = list(_pieces(masked, _SAME_SUBJECT, begin, right))
        for first, last in parts:
            subject = "I " if first > parts[0][0] else ""
            if statement := _statement(index, text[first:last], subject + masked[first:last]):
                yield statement


def _own(index: int, text: str, masked: str) -> Iterator[Statement]:
    """Yield whom and what a turn calls the user's own: «my wife and two sons»."""
    if "my " not in masked and "My " not in masked:
        return
    for match in (*OWN.finditer(masked), *NAMED_OWN.finditer(masked)):
        named = text[match.start(1) : match.end(1)].replace(" my ", " ")
        value = f"Has {named}" if _SEVERAL.match(named) else f"Has a {named}"
        quote = text[match.start() : match.end()]
        yield Statement(value, _member(MINE, match[1]), "direct", 0.65, index, quote)


def _fixed(index: int, text: str, masked: str) -> Iterator[Statement]:
    """Yield what a turn says in words with one English value: «mi hermana», «我姐姐»."""
    for match in RELATIVES.finditer(masked):
        value, label = RELATIVE_VALUES[match.lastgroup or ""]
        yield Statement(value, label, "direct", 0.65, index, text[slice(*match.span())])
    for match in ANSWER_LANGUAGE.finditer(masked):
        value = f"Prefers answers in {match.lastgroup}"
        yield Statement(value, INTERACTION, "direct", 0.65, index, text[slice(*match.span())])


def _member(label: str, clause: str) -> str:
    """Return the label of a group that the words of a clause choose."""
    for topic, member in TOPICS.get(label, ()):
        if re.search(topic, clause, re.IGNORECASE):
            return member
    return label


def _statement(index: int, quote: str, clause: str) -> Statement | None:
    for pattern, label, confidence, lead in BY_SCRIPT[clause[:1] < "\u0250"]:
        if not (match := pattern.match(clause)):
            continue
        # where the subject is left out, the words of a question look like a statement
        if lead is None and clause[-1] in "?？؟":
            return None
        rest = _TAIL.sub("", clause[match.end() :])
        if _VAGUE.match(rest) or not _content(rest):
            return None
        value = _TAIL.sub("", quote)
        if lead is not None:
            rest = _FIRST_PERSON.sub(lambda person: _PERSON[person[0].lower()], rest)
            value = _third_person(rest) if lead == VERB else lead + rest
        value = (value[:1].upper() + value[1:_LONGEST_VALUE]).rstrip()
        return Statement(value, _member(label, clause), "direct", confidence, index, quote)
    return None


_PAST_FORMS = """
    became began bought broke brought built came chose did drove fell felt found flew gave got grew
    had heard held kept knew left lost made met moved paid ran said saw sent slept spent spoke
    stood taught took was went won wore wrote
"""
_PAST = frozenset(_PAST_FORMS.split())


def _third_person(clause: str) -> str:
    """Put the verb that a clause begins with into the third person, unless it is a past form."""
    verb, space, rest = clause.partition(" ")
    folded = verb.lower()
    if folded in _PAST or folded.endswith("ed"):
        return clause
    if folded.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es{space}{rest}"
    if folded.endswith("y") and folded[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies{space}{rest}"
    return f"{verb}s{space}{rest}"


def _content(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _STOP]


def _distinct(statements: Sequence[Statement]) -> list[Statement]:
    """Drop a statement whose words are mostly those of a surer one, or the reverse."""
    kept: list[tuple[Statement, set[str]]] = []
    for statement in statements:
        words = set(_content(statement.value))
        if all(
            len(words & words_before) < 0.7 * min(len(words), len(words_before))
            for _, words_before in kept
        ):
            kept.append((statement, words))
    return [statement for statement, _ in kept]


def _curiosity(requests: Sequence[tuple[int, str]]) -> list[Statement]:
    """Report, word for word, the request whose words the other turns ask about most."""
    turns_with: dict[str, set[int]] = {}
    for index, quote in requests:
        for word in _content(quote):
            turns_with.setdefault(word, set()).add(index)
    best, chosen = -1.0, []
    for index, quote in requests:
        opening = REQUEST.match(quote)
        subject = _TAIL.sub("", quote[opening.end() :]) if opening else ""
        words = set(_content(subject))
        if not _FEWEST <= len(words) <= _MOST or _PERSONAL.search(subject):
            continue
        shared = sum(len(turns_with.get(word, ())) for word in words) / len(words)
        if shared > best:
            value = f"Curious about {subject[:_LONGEST_VALUE]}"
            best, chosen = shared, [Statement(value, CURIOSITY, "indirect", 0.5, index, quote)]
    return chosen


def best_told_option(sample: Any) -> dict[str, Any]:
    """Choose the option of whose own words one message of the user holds the largest share.

    What a memory returns counts as a message. Own words are those that not all options have. Where
    shares are equal, the message that shares more words with the question decides, then the later
    one; without a history, the first option.
    """
    seen = sample.seen()
    texts = [*seen.memories, *(turn.text for turn in seen.turns if turn.role == "user")]
    told = list(map(set, map(terms, texts)))
    asked = set(terms(sample.question.message))
    options = [set(terms(option)) for option in sample.question.options]
    common = set.intersection(*options)

    def worth(option: set[str]) -> tuple[float, int, int]:
        own, best = option - common, (0.0, 0, -1)
        for position, words in enumerate(told):
            best = max(best, (len(own & words) / max(1, len(own)), len(asked & words), position))
        return best

    worths = [worth(option) for option in options]
    return {"choice": "abcd"[worths.index(max(worths))], "reason": ""}


def parrot(sample: UtilizationSample) -> dict[str, Any]:
    """Answer with every sentence of the user that says something about them, word for word."""
    turns = [(turn.role, turn.text) for turn in sample.dialogue]
    quotes = [statement.quote for statement in find_statements(turns, limit=1_000)]
    sentences = quotes or [turn.text for turn in sample.dialogue if turn.role == "user"]
    return {"answer": "\n".join(dict.fromkeys(sentences)) or sample.query}


# From this similarity up, and under the same label, a new statement replaces the old memory.
_ON_THE_SAME_MATTER = 0.35
# A weaker statement adds nothing to a list that stands: most of them match no gold memory
_SURE = 0.65


def update(sample: UpdateSample) -> dict[str, Any]:
    """Keep old memories that no new statement restates differently; add the other statements."""
    dialogue = ExtractionSample(
        benchmark_id=sample.benchmark_id,
        session_id=sample.session_id,
        dialogue=sample.new_dialogue,
        gold=None,
    )
    kept = {memory.memory_id: memory for memory in sample.memory}
    changed: list[UpdatedMemory] = []
    for number, item in enumerate(extract(dialogue)["memory_items"], start=1):
        statement = Memory.model_validate(item)
        if statement.confidence is None or statement.confidence < _SURE:
            continue
        likeness, near = 0.0, None
        for memory in kept.values():
            alike = similarity(memory.value, statement.value)
            if near is None or alike > likeness:
                likeness, near = alike, memory
        if near is None or likeness < _ON_THE_SAME_MATTER or near.label != statement.label:
            changed.append(_with(statement, f"m_new_{number}", "add", None))
        elif likeness < THRESHOLD:
            del kept[near.memory_id]
            changed.append(_with(statement, f"{near.memory_id}_updated", "modify", near.memory_id))
    retained = [_with(memory, memory.memory_id, "retain", None) for memory in kept.values()]
    return {"memory_items": [memory.model_dump() for memory in (*retained, *changed)]}


def quote(sample: UtilizationSample) -> dict[str, Any]:
    """Answer by recalling what the user once said that shares most words with the query."""
    turns = [(turn.role, turn.text) for turn in sample.dialogue]
    statements = [statement.value for statement in find_statements(turns, limit=50)]
    if not statements:
        return {"answer": f"Nothing that you told me before bears on this: {sample.query}"}
    best = statements[BM25().rank(sample.query, statements)[0]]
    recalled = f"Keeping in mind what you told me ({best}), here is how I would go about it"
    return {"answer": f"{recalled}: {sample.query}"}


def _with(memory: Memory, name: str, action: str, replaces: str | None) -> UpdatedMemory:
    fields = {**memory.model_dump(), "memory_id": name, "action": action, "replaces": replaces}
    return UpdatedMemory.model_validate(fields)
