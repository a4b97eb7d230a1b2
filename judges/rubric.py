"""The rubric: instructions to rate an answer by, its marks, and the rules that bind the judge.

A rubric is one Markdown file in `rubrics/`. Its hard rules marked «(enforced)» do not depend on the
judge's obedience: `enforce` applies them to the verdict.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal

from alps.judges.base import Question
from alps.judges.copying import is_copied
from alps.judges.matching import POLICIES, RELATIONS, SUPPORTS, UNRELATED, Dialogue
from alps.judges.replies import (
    BinaryReply,
    EmotionalReply,
    MatchReply,
    SupportReply,
)
from alps.llm.schemas import ReplyModel
from alps.prompts import Prompt, load_prompt, read_prompt
from alps.schema import Outcome
from alps.text import fold, letters

# Our rubrics by which memories are related, and checked against a dialogue.
MATCHING, SUPPORT = "matching", "support"
# Our rubrics whose verdict is met or not met, and those that give several marks from 1 to 5.
BINARY = ("pa", "pf_general", "pf_interaction", "vra", "cf", "memory_used")
GRADED = ("ei",)


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


@dataclass(frozen=True)
class Rule:
    """A hard rule of a rubric: what breaks it gets the worst marks, whatever the judge says."""

    why: str
    is_broken: Callable[["RubricQuestion"], bool]


@dataclass(frozen=True)
class Rubric(Prompt):
    """Instructions to a judge, the marks that it answers with, and the rules that bind it.

    Attributes:
        name: The name of its file, and what a judge is told that it rates by.
        marks: The names of its marks; several are its dimensions, which weigh the same.
        kind: Of the scale of its marks.
        scale: The values of a mark, the worst first.
        accepted: The values that count as accepted.
        reply: The schema of a judge's reply.
        rules: Those that are enforced.
    """

    name: str
    marks: tuple[str, ...] = ("met",)
    kind: Literal["nominal", "ordinal"] = "nominal"
    scale: tuple[int | str, ...] = (0, 1)
    accepted: frozenset[int | str] = frozenset({1})
    reply: type[ReplyModel] = BinaryReply
    rules: tuple[Rule, ...] = ()

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

    def payload(self) -> dict[str, Any]:
        """Return the question as it stands in the payload of a judge."""
        return {
            "kind": "rubric",
            "rubric": self.rubric.name,
            "query": self.query,
            "response": self.response,
            "memory": self.memory,
            "dialogue": [turn.model_dump() for turn in self.dialogue],
        }

    def failed(self, outcome: Outcome, error: str | None, raw: tuple[str, ...] = ()) -> Rating:
        """Return the verdict where there is none."""
        return Rating(outcome, error=error, raw=raw)


def _says_nothing(question: RubricQuestion) -> bool:
    return not any(character.isalnum() for character in fold(question.response))


def _repeats_the_query(question: RubricQuestion) -> bool:
    pairs = zip(letters(question.response), letters(question.query), strict=True)
    return any(response == query for response, query in pairs)


def _is_copied(question: RubricQuestion) -> bool:
    return is_copied(question.response, question.dialogue)


NOTHING = Rule("the response says nothing", _says_nothing)
REPEATED = Rule("the answer only repeats the query", _repeats_the_query)
COPY = Rule("the response is copied from the dialogue", _is_copied)
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
    ),
    SUPPORT: partial(
        Rubric,
        marks=(SUPPORT,),
        scale=SUPPORTS,
        accepted=frozenset({"supported"}),
        reply=SupportReply,
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
        raise ValueError(f"{path}: there is a rubric of that name; choose another")
    try:
        prompt = read_prompt(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8; save it as UTF-8") from error
    # A judge is bound to its instructions by the ids: of two that are the same one would be lost.
    for file in ours.iterdir():
        if read_prompt(file.read_text(encoding="utf-8"), file.name).id == prompt.id:
            raise ValueError(
                f"{path}: its id {prompt.id} is that of our rubric {file.name}; choose another"
            )
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


def agreement_of(ratings: Sequence[Rating]) -> float:
    """Return the share of pairs of ratings with equal marks, in [0, 1]."""
    pairs = list(combinations(ratings, 2))
    return sum(one.marks == other.marks for one, other in pairs) / len(pairs) if pairs else 1.0
