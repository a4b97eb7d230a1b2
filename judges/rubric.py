"""Rating one answer by a rubric.

What a judge is asked, how its verdict is read, and the rules that bind it.

A rubric is one Markdown file in `rubrics/`. Its hard rules marked «(enforced)» do not depend on the
judge's obedience:
`enforce` applies them to the verdict.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel

from alps.judges.support import Dialogue
from alps.llm.schemas import ReplyModel, forgiving, read_tolerantly, refuse
from alps.llm.types import AnswerType, Read
from alps.prompts import Prompt, load_prompt, read_prompt
from alps.schema import Outcome
from alps.text import fold, letters

BINARY = ("pa", "pf_general", "pf_interaction", "vra", "cf", "memory_used")
"""Our rubrics whose verdict is met or not met, as that of any rubric but `EMOTIONAL` is."""
EMOTIONAL = "ei"
"""The rubric that gives three integers."""
DIMENSIONS = ("resonation", "expression", "reception")
"""What emotional intelligence is rated in, each with an integer from 1 to 5."""
COPIED = 0.9
"""A response of which so much is copied from the dialogue says nothing of its own."""

FROM_THE_DIALOGUE, _FEWEST_WORDS = 0.95, 30
"""A response of so many words, so much of them the dialogue's, is copied in whatever order they
stand.

Of the recorded answers of real models with 20 words or more the highest share is .88.
"""

_SENTENCE = re.compile(r"[.!?。！？…\n]+")
_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r"[.!?。！？…;:,，；：\n]+")
_SHORTEST_PARROT = 60
# Letters, chosen on the 133 recorded answers of real models and on their dialogues: every parrot
# that says all user turns is found, plain, with commas, with «You said:» or in look-alikes, and 90
# % of those with seven prefixes in turn. Of the real answers one comes near the limit (.85, a line
# of code that the user had pasted); the next has .37.
_SHORTEST_COPY, _SHORTEST_PART, _SHORTEST_OWN, _PIECES_OF_A_LIST = 16, 6, 30, 3


_ADDED: dict[str, Prompt] = {}


def is_rated(name: str) -> bool:
    """Tell whether answers can be rated by the rubric called `name`.

    One of ours, or one that was added.
    """
    return name in _ADDED or name in (*BINARY, EMOTIONAL)


def rubric(name: str) -> Prompt:
    """Return the rubric called `name`: one that was added, or one of ours."""
    return _ADDED[name] if name in _ADDED else load_prompt("alps.judges", "rubrics", name)


def add_rubric(path: Path) -> Prompt:
    """Make a rubric of a Markdown file known under the file's name; its verdict is met or not met.

    Raises:
        ValueError: If the file is not UTF-8 or has no id line, or one of ours has the name or the
            id.
        OSError: If it can't be read.
    """
    ours = files("alps.judges") / "rubrics"
    dimensions = {f"{EMOTIONAL}_{name}" for name in DIMENSIONS}
    if path.stem in dimensions or (ours / path.name).is_file():
        raise ValueError(f"{path}: there is a rubric of that name; choose another")
    try:
        prompt = read_prompt(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8; save it as UTF-8") from error
    for file in ours.iterdir():
        if read_prompt(file.read_text(encoding="utf-8"), file.name).id == prompt.id:
            raise ValueError(
                f"{path}: its id {prompt.id} is that of our rubric {file.name}; choose another"
            )
    _ADDED[path.stem] = prompt
    return prompt


@dataclass(frozen=True)
class RubricQuestion:
    """One answer to be rated, and everything that the judge sees of it."""

    rubric: str
    query: str
    response: str
    memory: str
    dialogue: Dialogue

    def payload(self) -> dict[str, Any]:
        """Return the question as it stands in the payload of a judge."""
        dialogue = [turn.model_dump() for turn in self.dialogue]
        shown = {
            "kind": "rubric",
            "rubric": self.rubric,
            "query": self.query,
            "response": self.response,
        }
        return {**shown, "memory": self.memory, "dialogue": dialogue}


@dataclass(frozen=True)
class Rating:
    """What a judge says of an answer; unless `ok`, nothing may be concluded.

    Attributes:
        marks: `{"met": 0 or 1}`, or an integer from 1 to 5 for each of `DIMENSIONS`.
        enforced: The hard rule that overruled the judge, if one did.
        agreement: How often two draws of a judge that was asked several times give the same marks,
            in [0, 1].
        draws: The marks of each of them.
    """

    outcome: Outcome
    marks: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    enforced: str | None = None
    error: str | None = None
    raw: tuple[str, ...] = ()
    agreement: float | None = None
    draws: tuple[Mapping[str, int], ...] = ()

    def row(self) -> dict[str, Any]:
        """Return the rating as it is written to a file."""
        said = {"outcome": self.outcome, "marks": dict(self.marks), "reason": self.reason}
        more = {"agreement": self.agreement} if self.agreement is not None else {}
        return {
            **said,
            **more,
            "enforced": self.enforced,
            "error": self.error,
            "raw": list(self.raw),
        }


def _reason(value: object) -> str:
    return str(value or "")


def _verdict(value: object) -> str:
    folded = str(value).strip().casefold().replace(" ", "_")
    if folded not in ("met", "not_met"):
        refuse(f"{value!r} is neither met nor not_met")
    return folded


def _mark(value: object) -> int:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or value not in (1, 2, 3, 4, 5)
    ):
        refuse(f"{value!r} is no integer from 1 to 5")
    return int(value)


Reason = Annotated[str, forgiving(_reason)]
"""Why a judge says what it says; missing ones are forgiven."""
Mark = Annotated[Literal[1, 2, 3, 4, 5], forgiving(_mark)]


class BinaryReply(ReplyModel):
    """The reply to a binary rubric; the reason comes first."""

    reason: Reason
    verdict: Annotated[Literal["met", "not_met"], forgiving(_verdict)]


class EmotionalReply(ReplyModel):
    """The reply to the rubric of emotional intelligence; the reason comes first."""

    reason: Reason
    resonation: Mark
    expression: Mark
    reception: Mark


def reply_model(name: str) -> type[BaseModel]:
    """Return the model of the reply to the rubric called `name`."""
    return EmotionalReply if name == EMOTIONAL else BinaryReply


def rating_answer(name: str) -> AnswerType[tuple[dict[str, int], str]]:
    """Return the answer type of the rubric called `name`: marks, and the reason for them."""
    if name == EMOTIONAL:
        return AnswerType(
            schema=EmotionalReply, read=_read_emotional, partial=False, decision=_marks_of
        )
    return AnswerType(schema=BinaryReply, read=_read_binary, partial=False, decision=_marks_of)


def _marks_of(rating: tuple[dict[str, int], str]) -> dict[str, int]:
    return rating[0]


def lowest_marks(name: str) -> dict[str, int]:
    """Return the worst marks of the rubric called `name`."""
    return dict.fromkeys(DIMENSIONS, 1) if name == EMOTIONAL else {"met": 0}


def enforce(rating: Rating, question: RubricQuestion) -> Rating:
    """Apply the hard rules of the rubrics to a verdict.

    They hold whatever the judge was talked into.
    """
    lowest = lowest_marks(question.rubric)
    broken = broken_rule(question)
    if rating.outcome != "ok" or broken is None or dict(rating.marks) == lowest:
        return rating
    return replace(rating, marks=lowest, enforced=broken)


def broken_rule(question: RubricQuestion) -> str | None:
    """Return the enforced rule that the response breaks, if it breaks one."""
    response = fold(question.response)
    if not any(character.isalnum() for character in response):
        return "the response says nothing"
    if question.rubric == "memory_used" and _same_words(question.response, question.query):
        return "the answer only repeats the query"
    is_copied = copied_share(question.response, question.dialogue) >= COPIED
    if is_copied or _word_share(question.response, question.dialogue) >= FROM_THE_DIALOGUE:
        return "the response is copied from the dialogue"
    return None


def copied_share(response: str, dialogue: Dialogue) -> float:
    """Return how much of `response` is copied from `dialogue`, in [0, 1], in letters.

    Letters are compared as they look (`alps.text.letters`): case, signs, spaces, invisible marks
    and look-alikes change nothing. What stands between copied pieces counts once however often it
    is said, and not at all if it is short and the pieces are many: so do prefixes such as «You
    said:». A response in which fewer than 60 letters are copied counts as 0: a short recall may use
    the user's words.
    """
    texts = tuple(turn.text for turn in dialogue)
    return max(_share(stream, _source(texts, n)) for n, stream in enumerate(letters(response)))


def _word_share(response: str, dialogue: Dialogue) -> float:
    """Return how many of the words of a response stand in the dialogue, in [0, 1].

    0 for a short response.
    """
    words = _WORD.findall(fold(response))
    if len(words) < _FEWEST_WORDS:
        return 0.0
    said = {word for turn in dialogue for word in _WORD.findall(fold(turn.text))}
    return sum(word in said for word in words) / len(words)


def own_text(response: str, dialogue: Dialogue) -> str:
    """Return the sentences of `response` not copied from `dialogue`, joined by spaces."""
    texts = tuple(turn.text for turn in dialogue)
    sentences = [part.strip() for part in _SENTENCE.split(response)]
    return " ".join(s for s in sentences if s and not _is_copied(s, texts))


def agreement_of(ratings: Sequence[Rating]) -> float:
    """Return the share of pairs of ratings with equal marks, in [0, 1]."""
    pairs = [(one, other) for n, one in enumerate(ratings) for other in ratings[n + 1 :]]
    return sum(one.marks == other.marks for one, other in pairs) / len(pairs) if pairs else 1.0


class _Source(NamedTuple):
    """What can be copied: every piece of `_SHORTEST_COPY` letters, and short sentences."""

    pieces: frozenset[str]
    parts: frozenset[str]


@lru_cache(maxsize=16)
def _source(texts: tuple[str, ...], folding: int) -> _Source:
    streams = [letters(text)[folding] for text in texts]
    size = _SHORTEST_COPY
    pieces = frozenset(
        stream[n : n + size] for stream in streams for n in range(len(stream) - size + 1)
    )
    parts = {letters(part)[folding] for text in texts for part in _PART.split(text)}
    return _Source(pieces, frozenset(part for part in parts if _SHORTEST_PART <= len(part) < size))


def _share(stream: str, source: _Source) -> float:
    covered = _covered(stream, source)
    copied = sum(covered)
    if copied < _SHORTEST_PARROT:
        return 0.0
    own = list(_uncovered(stream, covered))
    is_list = len(own) >= _PIECES_OF_A_LIST
    counted = (len(run) for run in set(own) if len(run) >= _SHORTEST_OWN or not is_list)
    return copied / (copied + sum(counted))


def _is_copied(sentence: str, texts: tuple[str, ...]) -> bool:
    return any(
        sum(_covered(stream, _source(texts, n))) >= COPIED * len(stream) > 0
        for n, stream in enumerate(letters(sentence))
    )


def _covered(stream: str, source: _Source) -> bytearray:
    """Return 1 for each letter of `stream` that is part of something in `source`, else 0."""
    covered, size = bytearray(len(stream)), _SHORTEST_COPY
    for start in range(len(stream) - size + 1):
        if stream[start : start + size] in source.pieces:
            covered[start : start + size] = b"\x01" * size
    for part in source.parts:
        start = stream.find(part)
        while start >= 0:
            covered[start : start + len(part)] = b"\x01" * len(part)
            start = stream.find(part, start + len(part))
    return covered


def _uncovered(stream: str, covered: bytearray) -> Iterator[str]:
    """Yield the runs of letters that are not covered."""
    for is_copied, run in groupby(range(len(stream)), key=covered.__getitem__):
        if not is_copied:
            yield "".join(stream[place] for place in run)


def _same_words(one: str, other: str) -> bool:
    return any(first == second for first, second in zip(letters(one), letters(other), strict=True))


def _read_binary(node: object) -> Read[tuple[dict[str, int], str]]:
    reply = read_tolerantly(BinaryReply, node)
    return Read(({"met": int(reply.verdict == "met")}, reply.reason))


def _read_emotional(node: object) -> Read[tuple[dict[str, int], str]]:
    reply = read_tolerantly(EmotionalReply, node)
    return Read(({name: getattr(reply, name) for name in DIMENSIONS}, reply.reason))
