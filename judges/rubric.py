"""The rubric: instructions to a judge, the replies to them, and the rules that bind the judge.

A rubric is one Markdown file in `rubrics/`. Its hard rules marked «(enforced)» do not depend on the
judge's obedience: `enforce` applies them to the verdict. The two questions about one answer stand
here with their verdicts: how it is rated, and which option an answer in free words agrees with.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from alps.errors import DataError
from alps.judges.base import (
    POLICIES,
    RELATIONS,
    SUPPORTS,
    UNRELATED,
    Dialogue,
    Question,
    Relation,
    Support,
)
from alps.judges.copying import is_copied
from alps.llm.replies import ReplyModel, forgiving, read_tolerantly, refuse
from alps.llm.types import AnswerType, OutputBudget, Read
from alps.prompts import Prompt, load_prompt, read_prompt
from alps.schema import Outcome
from alps.slips import read_text
from alps.text import fold, letters

# Our rubrics by which memories are related, and checked against a dialogue, and by which an answer
# is told to agree with one of several options.
MATCHING, SUPPORT, OPTION = "matching", "support", "options"
OPTIONS, NO_OPTION = "abcd", "none"
# Our rubrics whose verdict is met or not met, and those that give several marks from 1 to 5.
BINARY = ("pa", "pf_general", "pf_interaction", "vra", "cf", "memory_used")
GRADED = ("ei",)


def _reason(value: object) -> str:
    return str(value or "")


def one_of(known: Sequence[str], value: object) -> str:
    """Return the word of `known` that a value of a reply is, in any case; refuse others."""
    folded = str(value).strip().casefold()
    if folded not in known:
        refuse(f"{value!r} is not one of {', '.join(known)}")
    return folded


def _related(pairs: object) -> object:
    """Leave out pairs that are called unrelated, as those are that are not named."""
    if not isinstance(pairs, list):
        refuse("expected a list")
    related = []
    for pair in pairs:
        relation = pair.get("relation") if isinstance(pair, dict) else None
        if str(relation).strip().casefold() != "unrelated":
            related.append(pair)
    return related


def _support(value: object) -> object:
    if value not in SUPPORTS:
        refuse(f"{value!r} is not one of {', '.join(SUPPORTS)}")
    return value


def _verdict(value: object) -> str:
    folded = str(value).strip().casefold().replace(" ", "_")
    if folded not in ("met", "not_met"):
        refuse(f"{value!r} is neither met nor not_met")
    return folded


def _mark(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in range(1, 6):
        refuse(f"{value!r} is not an integer from 1 to 5")
    return int(value)


def _option(value: object) -> str:
    folded = str(value).strip().casefold().strip("()")
    if folded not in (*OPTIONS, NO_OPTION):
        refuse(f"{value!r} must be a, b, c, d or none")
    return folded


# Lengths are sent and not checked: a small model on a server of one's own ends no reason by itself,
# and a long reason of a better model makes its verdict no worse.
Reason = Annotated[str, forgiving(_reason), Field(json_schema_extra={"maxLength": 1_000})]
"""Why a judge says what it says; missing ones are forgiven."""
Id = Annotated[str, Field(json_schema_extra={"maxLength": 80})]
"""The id of an item that the payload holds."""
Mark = Annotated[Literal[1, 2, 3, 4, 5], forgiving(_mark)]


class JudgedPair(ReplyModel):
    """One pair of the reply."""

    # The reason comes first, here and below, so that it is thought before the verdict is said.
    reason: Reason
    gold: Id
    predicted: Id
    relation: Annotated[Relation, forgiving(partial(one_of, RELATIONS))]


class MatchReply(ReplyModel):
    """The reply to a matching payload; pairs not named are unrelated."""

    pairs: Annotated[list[JudgedPair], forgiving(_related)]


class SupportedItem(ReplyModel):
    """One item of the reply."""

    reason: Reason
    id: Annotated[Id, forgiving(str)]
    support: Annotated[Support, forgiving(_support)]


class SupportReply(ReplyModel):
    """The reply to a support payload."""

    items: list[SupportedItem]


class OptionReply(ReplyModel):
    """The reply to a payload of options."""

    reason: Reason
    option: Annotated[Literal["a", "b", "c", "d", "none"], forgiving(_option)]


class RatingReply(ReplyModel):
    """The reply to a rubric."""

    reason: Reason

    def marks(self) -> dict[str, int]:
        """Return the marks that it gives, by their names: every field but the reason."""
        return self.model_dump(exclude={"reason"})


class BinaryReply(RatingReply):
    """The reply to a rubric that is met or not met."""

    verdict: Annotated[Literal["met", "not_met"], forgiving(_verdict)]

    def marks(self) -> dict[str, int]:
        """Return 1 for met, 0 for not met."""
        return {"met": int(self.verdict == "met")}


class EmotionalReply(RatingReply):
    """The reply to the rubric of emotional intelligence."""

    resonation: Mark
    expression: Mark
    reception: Mark


def read_match_reply(node: object) -> Read[tuple[JudgedPair, ...]]:
    """Read a matching reply.

    Raises:
        ValueError: If there is no list of pairs, or a pair lacks its ids or has an unknown
            relation: a verdict is never guessed.
    """
    reply = read_tolerantly(MatchReply, {"pairs": node} if isinstance(node, list) else node)
    notes = []
    for number, pair in enumerate(reply.pairs, start=1):
        if not pair.reason:
            notes.append(f"pair {number} has no reason")
    return Read(tuple(reply.pairs), tuple(notes))


def _relations_of(pairs: Sequence[JudgedPair]) -> set[tuple[str, str, Relation]]:
    return {(pair.gold, pair.predicted, pair.relation) for pair in pairs}


MATCH_ANSWER = AnswerType(
    schema=MatchReply, read=read_match_reply, partial=False, decision=_relations_of
)


def support_answer(ids: Sequence[str]) -> AnswerType[dict[str, tuple[Support, str]]]:
    """Return the answer type of a support call about `ids`: every one of them must be judged."""

    def read(node: object) -> Read[dict[str, tuple[Support, str]]]:
        reply = read_tolerantly(SupportReply, {"items": node} if isinstance(node, list) else node)
        judged: dict[str, tuple[Support, str]] = {}
        for item in reply.items:
            judged.setdefault(item.id, (item.support, item.reason))
        if missing := [name for name in ids if name not in judged]:
            raise ValueError(f"nothing about {', '.join(missing)}")
        return Read({name: judged[name] for name in ids})

    def decision(items: Mapping[str, tuple[Support, str]]) -> dict[str, Support]:
        return {name: support for name, (support, _) in items.items()}

    return AnswerType(schema=SupportReply, read=read, partial=False, decision=decision)


@dataclass(frozen=True)
class OptionVerdict:
    """Which option an answer agrees with, by its position; unless `ok`, nothing may be concluded.

    Attributes:
        option: None where it agrees with none, or with several.
        agreement: How often two draws of a judge that was asked several times name the same, in
            [0, 1].
    """

    outcome: Outcome
    option: int | None = None
    reason: str = ""
    error: str | None = None
    raw: tuple[str, ...] = ()
    agreement: float | None = None

    def row(self) -> dict[str, Any]:
        """Return the verdict as it is written to a file."""
        row: dict[str, Any] = {"outcome": self.outcome, "option": self.option}
        row["reason"] = self.reason
        if self.agreement is not None:
            row["agreement"] = self.agreement
        return {**row, "error": self.error, "raw": list(self.raw)}


@dataclass(frozen=True)
class OptionQuestion(Question[OptionVerdict]):
    """Which of at most four options does an answer agree with? Nothing tells the right one."""

    message: str
    answer: str
    options: Sequence[str]
    unanswered: ClassVar[str] = "this judge cannot match answers to options"
    verdict: ClassVar[type] = OptionVerdict

    def payload(self) -> dict[str, Any]:
        """Return the question as an LLM is shown it."""
        options = dict(zip(OPTIONS, self.options, strict=False))
        asked = {"kind": "options", "message": self.message, "answer": self.answer}
        return {**asked, "options": options}


def option_answer(count: int) -> AnswerType[tuple[int | None, str]]:
    """Return the answer type of a judge that is shown `count` options: a position, and why."""

    def read(node: object) -> Read[tuple[int | None, str]]:
        reply = read_tolerantly(OptionReply, node)
        if reply.option == NO_OPTION:
            return Read((None, reply.reason))
        position = OPTIONS.index(reply.option)
        if position >= count:
            raise ValueError(f"option {reply.option!r} is not one of the {count} shown")
        return Read((position, reply.reason))

    return AnswerType(
        schema=OptionReply, read=read, partial=False, decision=lambda verdict: verdict[0]
    )


def rating_answer(reply: type[ReplyModel]) -> AnswerType[tuple[dict[str, int], str]]:
    """Return the answer type of a rubric with this reply: marks, and the reason for them."""

    def read(node: object) -> Read[tuple[dict[str, int], str]]:
        rating = read_tolerantly(reply, node)
        assert isinstance(rating, RatingReply)
        return Read((rating.marks(), rating.reason))

    return AnswerType(schema=reply, read=read, partial=False, decision=lambda rating: rating[0])


@dataclass(frozen=True)
class Rating:
    """What a judge says of an answer; unless `ok`, nothing may be concluded.

    Attributes:
        marks: By the names of the rubric's marks.
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
        row: dict[str, Any] = {"outcome": self.outcome, "marks": dict(self.marks)}
        row["reason"] = self.reason
        if self.agreement is not None:
            row["agreement"] = self.agreement
        return {**row, "enforced": self.enforced, "error": self.error, "raw": list(self.raw)}


# A reason of two sentences has 80 tokens, and a wordy judge's 300. Of 362 recorded reasons about
# one memory the longest has 237 tokens with all that stands around it; an item may be in two pairs.
A_REASON = OutputBudget(1_024)
A_REASON_EACH = OutputBudget(512, an_item=128)
BUDGETS = {"reply": A_REASON.row(), "list": A_REASON_EACH.row()}
"""Both as the fingerprint of a judge has them: a reply that is cut off gives no verdict."""


@dataclass(frozen=True)
class HardRule:
    """A hard rule of a rubric: what breaks it gets the worst marks, whatever the judge says."""

    why: str
    is_broken: Callable[["RubricQuestion"], bool]


@dataclass(frozen=True)
class Rubric(Prompt):
    """Instructions to a judge, the marks that it answers with, and the rules that bind it.

    Attributes:
        name: Name of its file, and of the rubric in the judge's request.
        marks: The names of its marks; several are its dimensions, which weigh the same.
        kind: Of the scale of its marks.
        scale: The values of a mark, the worst first.
        accepted: The values that count as accepted.
        reply: The schema of a judge's reply.
        rules: Those that are enforced.
        within: The output budget of a reply.
        checks: The file of its known items; one of ours has it in `checks/`, under its name.
    """

    name: str
    marks: tuple[str, ...] = ("met",)
    kind: Literal["nominal", "ordinal"] = "nominal"
    scale: tuple[int | str, ...] = (0, 1)
    accepted: frozenset[int | str] = frozenset({1})
    reply: type[ReplyModel] = BinaryReply
    rules: tuple[HardRule, ...] = ()
    within: OutputBudget = A_REASON
    checks: Path | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Its marks by the names under which people label them, each a rubric of its own."""
        if len(self.marks) == 1:
            return {self.name: self.marks[0]}
        return {f"{self.name}_{mark}": mark for mark in self.marks}

    def part(self, label: str) -> str:
        """Return what the id of an item labelled `label` ends with; nothing for a single mark."""
        return "" if len(self.marks) == 1 else f":{self.labels[label]}"

    @property
    def lowest(self) -> dict[str, Any]:
        """The worst marks."""
        return dict.fromkeys(self.marks, self.scale[0])

    def all_marks(self, marks: Mapping[str, int]) -> dict[str, float]:
        """Return every mark as a number; one that is missing is the worst."""
        return {name: float(marks.get(name, worst)) for name, worst in self.lowest.items()}

    def score(self, marks: Mapping[str, int]) -> float:
        """Return the plain mean of the marks, on their scale."""
        return fmean(self.all_marks(marks).values())


@dataclass(frozen=True)
class RubricQuestion(Question[Rating]):
    """One answer to be rated, and everything that the judge sees of it."""

    rubric: Rubric
    query: str
    response: str
    memory: str
    dialogue: Dialogue
    unanswered: ClassVar[str] = "this judge reads no rubrics"
    verdict: ClassVar[type] = Rating

    def payload(self) -> dict[str, Any]:
        """Return the question as the payload of a judge has it."""
        return {
            "kind": "rubric",
            "rubric": self.rubric.name,
            "query": self.query,
            "response": self.response,
            "memory": self.memory,
            "dialogue": [turn.model_dump() for turn in self.dialogue],
        }


def _repeats_the_query(question: RubricQuestion) -> bool:
    pairs = zip(letters(question.response), letters(question.query), strict=True)
    return any(response == query for response, query in pairs)


NOTHING = HardRule(
    "the response says nothing", lambda one: not any(map(str.isalnum, fold(one.response)))
)
REPEATED = HardRule("the answer only repeats the query", _repeats_the_query)
COPY = HardRule(
    "the response is copied from the dialogue", lambda one: is_copied(one.response, one.dialogue)
)
_RULES = (NOTHING, COPY)

_OURS: Mapping[str, Callable[..., Rubric]] = {
    **dict.fromkeys(BINARY, partial(Rubric, rules=_RULES)),
    "memory_used": partial(Rubric, rules=(NOTHING, REPEATED, COPY)),
    "ei": partial(
        Rubric,
        marks=tuple(EmotionalReply.model_fields)[1:],
        kind="ordinal",
        scale=(1, 2, 3, 4, 5),
        accepted=frozenset({4, 5}),
        reply=EmotionalReply,
        rules=_RULES,
    ),
    MATCHING: partial(
        Rubric,
        marks=(MATCHING,),
        scale=(*RELATIONS, UNRELATED),
        accepted=frozenset(POLICIES["lenient"]),
        reply=MatchReply,
        within=A_REASON_EACH,
    ),
    SUPPORT: partial(
        Rubric,
        marks=(SUPPORT,),
        scale=SUPPORTS,
        accepted=frozenset({"supported"}),
        reply=SupportReply,
        within=A_REASON_EACH,
    ),
    OPTION: partial(
        Rubric,
        marks=(OPTION,),
        scale=(NO_OPTION, *OPTIONS),
        accepted=frozenset(OPTIONS),
        reply=OptionReply,
    ),
}


@cache
def rubric(name: str) -> Rubric:
    """Return our rubric called `name`."""
    return _OURS[name](**vars(load_prompt("alps.judges", "rubrics", name)), name=name)


def labelled_as(name: str, own: Iterable[Rubric] = ()) -> Rubric | None:
    """Return the rubric of which people label `name`: one of `own`, or of ours; None if neither."""
    for known in (*own, *map(rubric, (MATCHING, *BINARY, *GRADED))):
        if name in known.labels:
            return known
    return None


def read_rubric(path: Path) -> Rubric:
    """Read a rubric of a Markdown file, which gives it its name; its verdict is met or not met.

    Raises:
        ValueError: If the file is not UTF-8 or has no id line, or one of ours has the name or the
            id.
        OSError: If it can't be read.
    """
    ours = files("alps.judges") / "rubrics"
    if labelled_as(path.stem) is not None or (ours / path.name).is_file():
        raise ValueError(f"{path}: a built-in rubric has this name; choose another name")
    try:
        prompt = read_prompt(read_text(path), str(path))
    except DataError as error:
        raise ValueError(str(error)) from error
    # A judge is bound to its instructions by the ids: of two that are the same one would be lost.
    for file in ours.iterdir():
        if read_prompt(file.read_text(encoding="utf-8"), file.name).id == prompt.id:
            what = f"the built-in rubric {file.name} has this id ({prompt.id})"
            raise ValueError(f"{path}: {what}; choose another id")
    return Rubric(**vars(prompt), name=path.stem, rules=_RULES)


def enforce(rating: Rating, question: RubricQuestion) -> Rating:
    """Apply the hard rules of the rubric to a verdict."""
    # They hold whatever the judge was talked into.
    lowest = question.rubric.lowest
    broken = broken_rule(question)
    if rating.outcome != "ok" or broken is None or dict(rating.marks) == lowest:
        return rating
    return replace(rating, marks=lowest, enforced=broken)


def broken_rule(question: RubricQuestion) -> str | None:
    """Return the enforced rule that the response breaks, if it breaks one."""
    broken = (rule.why for rule in question.rubric.rules if rule.is_broken(question))
    return next(broken, None)
