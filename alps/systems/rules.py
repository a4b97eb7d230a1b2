"""Find what users say about themselves, by pattern, without a model or a network.

The extractor is the honest lower bound of the suite: it reads user turns only, cuts them into clauses, and keeps the
clauses that open like a statement about the speaker («I live in …», «我喜欢…», «mi esposa …»). English clauses become
telegraphic third person; other languages are kept as the user wrote them. A topic that comes back in several questions
is reported as a curiosity.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from alps.schema import Evidence, ExtractionSample, Memory
from alps.systems.rules_patterns import BY_SCRIPT, CURIOSITY, TOPICS


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


_LONG_TURN, _KEPT_END, _LONGEST_CLAUSE, _LONGEST_VALUE, _TIMES = 1_500, 500, 300, 120, 3
_FOREIGN = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|\"[^\"]{20,}\"|“[^“”]{20,}”|«[^«»]{20,}»|「[^「」]{10,}」|^>[^\n]*",
    re.DOTALL | re.MULTILINE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？؟；;])|\n+|\x00+")
_SUBJECT = r"(?:i|i'\w+|im|my|we|you|can|could|please|what|how|why|is|are|do|would|should|it|they|he|she)\b"
_CLAUSE_END = re.compile(
    rf"\s*[,:(،;]\s*(?=(?:(?:and|but|so|because|since|also) )?{_SUBJECT}"
    r"|(?:y|e|et|und|pero|mais|aber|mas|ma|но|а|что|как)\b)"
    rf"|\s+(?:and|but|so|because|since|which|while|though|if)\s+(?={_SUBJECT})|\s[-–—]+\s|[，：（]",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"(?:(?:and|but|so|because|since|well|yes|yeah|no(?=,)|ok|okay|hi|hello|hey|actually|honestly|also|then|though|btw"
    r"|y|e|et|und|pero|aber|mais|mas|и|а|но|да)[\s,]+)*(?:因为|但是?|所以|不过|其实)?",
    re.IGNORECASE,
)
# An afterthought makes a value longer than a memory is.
_TAIL = re.compile(
    r"\s*(?:\b(?:because|but|since|although|unless|porque|pero|mas|parce que|mais|weil|aber|perché|потому что|но)\b.*"
    r"|[(;].*|(?<=.{60}),.*|[\s.,;:!?-]+$)",
    re.IGNORECASE | re.DOTALL,
)
# Stories, scripts and personas speak in the first person, too.
_FICTION = re.compile(
    r"\b(?:write|generate|create|continue)\b.{0,60}\b(?:story|script|scene|episode|screenplay|poem|song|lyrics|novel"
    r"|fan ?fic\w*|dialogue)\b|\b(?:act as|you are (?:an?|my|now|the)|actúa como|agis comme|du bist ein)\b"
    r"|扮演|你是一|写一[个篇](?:故事|小说)|представь|\A(?:.*\n)*?[A-Z]\w{1,20}: .+\n+[A-Z]\w{1,20}: ",
    re.IGNORECASE,
)
_ROLE_PLAY = re.compile(r"\brole-?\s?play|\bpretend (?:to be|you|i|we) |juego de rol|角色扮演|ролев", re.IGNORECASE)
_VAGUE = re.compile(
    r"(?:(?:to )?\w+ )?(?:it|this|that|these|those|them|you|your|him|her|his)\b|(?:lo|el|la) que\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"[?？؟]|^\W*(?:what|how|why|when|where|who|which|is|are|can|could|does|do|qué|cómo|comment|wie|was|como|что|как)\b"
    r"|什么|如何|怎|吗",
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
_FIRST_PERSON = re.compile(r"\b(?:i am|i'm|i was|i've|i|me|my|mine|myself|am|we|us|our)\b", re.IGNORECASE)
_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[^\W_]+(?:'\w+)?")
_STOP_WORDS = """
    a about after all also an and any are as at be been but by can could do does don't for from get give good had has
    have he her his how i i'm if in into is it its just like make me more most my need new no not of on one or other our
    please same should so some than that the their them then there these they this to too use used using very was we
    what when where which who why will with would you your de la el los las un una que en y con por para es se lo del mi
    le les des et une pour est der die das und ist ein eine mit von zu o e da do um uma il di non и в на не что как с по
    это для или 的 了 是 什 么 怎 如 何 请 问 我 你 吗 有 在 和 与 这 那 个 不 な い の に は を が て か で と し 何
"""
_STOP = frozenset(_STOP_WORDS.split())


def extract(sample: ExtractionSample) -> dict[str, Any]:
    """Answer an extraction sample with what its user says about themselves."""
    found = find_statements([(turn.role, turn.text) for turn in sample.dialogue])
    items = [_as_memory(statement, sample.session_id, number) for number, statement in enumerate(found, start=1)]
    return {"memory_items": [item.model_dump() for item in items]}


def _as_memory(statement: Statement, session_id: str, number: int) -> Memory:
    return Memory(
        memory_id=f"m{number}",
        type=statement.type,
        label=statement.label,
        label_suggestion=None,
        value=statement.value,
        reasoning=None,
        evidence=Evidence(session_id=session_id, utterance_index=statement.turn, text=statement.quote),
        confidence=statement.confidence,
        time_scope=None,
        emotion=None,
        preference_attitude=None,
        updated_at=None,
    )


def find_statements(turns: Sequence[tuple[str, str]], *, limit: int = 8) -> list[Statement]:
    """Find what the user says about themselves in a dialogue.

    Args:
        turns: The dialogue as (role, text) pairs; only turns of the role `user` are read.
        limit: Most statements to return.

    Returns:
        Statements, the surest first, in dialogue order among equals, without near-duplicates.
    """
    found: list[Statement] = []
    questions: list[tuple[int, str]] = []
    for index, (role, text) in enumerate(turns):
        if role != "user":
            continue
        masked = _masked(text)
        if _ROLE_PLAY.search(masked):
            break  # whatever follows may be said by the character
        sentences = list(_pieces(masked, _SENTENCE_END, 0, len(masked)))
        questions += [(index, text[i:j]) for i, j in sentences if _QUESTION.search(masked[i:j])]
        if not _FICTION.search(masked):
            found += (s for i, j in sentences for s in _sentence_statements(index, text, masked, i, j))
    found += _curiosities(questions)
    found.sort(key=lambda statement: -statement.confidence)
    return _distinct(found)[:limit]


def _masked(text: str) -> str:
    """Blank out what the user did not say (code, quotations, links), keeping every offset."""
    if len(text) > _LONG_TURN:
        # A long turn is mostly pasted; the user's own words stand at its beginning or its end.
        text = text[:_KEPT_END] + "\x00" * (len(text) - 2 * _KEPT_END) + text[-_KEPT_END:]
    return _FOREIGN.sub(lambda match: "\x00" * len(match[0]), text.replace("’", "'"))


def _pieces(text: str, boundary: re.Pattern[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the trimmed, non-empty spans between the matches of a boundary."""
    cuts = [start, *(cut for match in boundary.finditer(text, start, end) for cut in match.span()), end]
    for left, right in zip(cuts[::2], cuts[1::2], strict=True):
        piece = text[left:right]
        if body := piece.strip(" \t\r.,;:!*-•。，；：！"):
            offset = left + piece.index(body)
            yield offset, offset + len(body)


def _sentence_statements(index: int, text: str, masked: str, start: int, end: int) -> Iterator[Statement]:
    for left, right in _pieces(masked, _CLAUSE_END, start, end):
        opening = _OPENING.match(masked, left, right)
        begin = opening.end() if opening else left
        if right - begin > _LONGEST_CLAUSE:
            continue
        if found := _statement(index, text[begin:right], masked[begin:right]):
            yield found


def _statement(index: int, quote: str, clause: str) -> Statement | None:
    for language, pattern, label, confidence, lead in BY_SCRIPT[clause[:1] < "\u0250"]:
        if not (match := pattern.match(clause)):
            continue
        if language != "en" and clause[-1] in "?？؟":
            return None  # where the subject is left out, the words of a question look like a statement
        rest = _TAIL.sub("", clause[match.end() :])
        if _VAGUE.match(rest) or not _content(rest):
            return None
        value = _TAIL.sub("", quote)
        if language == "en":
            value = lead + _FIRST_PERSON.sub(lambda person: _PERSON[person[0].lower()], rest)
        value = (value[:1].upper() + value[1:_LONGEST_VALUE]).rstrip()
        topics = TOPICS.get(label, ())
        member = next((member for topic, member in topics if re.search(topic, clause, re.IGNORECASE)), label)
        return Statement(value, member, "direct", confidence, index, quote)
    return None


def _content(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _STOP]


def _distinct(statements: Sequence[Statement]) -> list[Statement]:
    """Drop a statement whose words are mostly those of a surer one, or the reverse."""
    kept: list[tuple[Statement, set[str]]] = []
    for statement in statements:
        words = set(_content(statement.value))
        if all(len(words & other) < 0.7 * min(len(words), len(other)) for _, other in kept):
            kept.append((statement, words))
    return [statement for statement, _ in kept]


def _curiosities(questions: Sequence[tuple[int, str]]) -> list[Statement]:
    """Report what comes back in the questions of several turns, the most frequent phrases first."""
    asked: dict[str, dict[int, str]] = {}
    for index, quote in questions:
        words = _content(quote[:_LONGEST_CLAUSE])
        pairs = [("" if len(a) == 1 else " ").join((a, b)) for a, b in pairwise(words)]
        for phrase in (*pairs, *(word for word in words if len(word) > _TIMES)):
            asked.setdefault(phrase, {})[index] = quote
    chosen: list[str] = []
    for phrase in sorted(asked, key=lambda phrase: (-len(asked[phrase]), -len(phrase))):
        enough = len(asked[phrase]) >= (_TIMES - 1 if chosen else _TIMES)
        if enough and not set(_content(phrase)) & set(_content(" ".join(chosen))):
            chosen.append(phrase)
    if len(_content(" ".join(chosen))) < _TIMES - 1:
        return []  # a single word is too general to be a memory
    index, quote = next(iter(asked[chosen[0]].items()))
    return [Statement(f"Curious about {', '.join(chosen[:4])}", CURIOSITY, "indirect", 0.65, index, quote)]
