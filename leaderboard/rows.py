"""The rows of a submission's files: what each may say, whatever task it is of."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from alps.judges.matching import Relation
from alps.llm.types import Structured
from alps.schema import MemoryList, Outcome, UpdatedMemoryList

LONGEST_ANSWER = 200_000
"""Characters; what a system says beyond that is no answer, and would only slow down whoever reads
it.
"""
MOST_ITEMS = 1_000
"""Memories of one answer: 32 times as many as any of seven real models gave to any of 654 dialogues
(31).
"""
MOST_PAIRS = 20_000
MOST_COMPARED = 10_000_000
"""Characters of gold times characters of predicted values, where every one meets every other
(`authors-v1`).

Real outputs need at most 2.1 million. A million takes up to 1 s (`abba` repeated), and a row of one
mebibyte could ask for hundreds of millions.
"""

Id = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Repeat = Annotated[int, Field(ge=0, lt=100)]
Number = Annotated[float, Field(ge=-1e9, le=1e9)]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, StringConstraints(max_length=LONGEST_ANSWER)]
Texts = Annotated[list[Text], Field(max_length=1_000)]
ScoreName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]{1,60}$")]
FingerprintId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]


Marks = dict[
    Literal["met", "resonation", "expression", "reception"], Annotated[int, Field(ge=0, le=5)]
]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class _About(_Row):
    benchmark_id: Id
    track: Id
    repeat: Repeat = 0


class PredictionRow(_About):
    """An answer, as `alps.schema.Prediction` has it; what `prediction` holds is up to its task."""

    outcome: Outcome
    repaired: bool = False
    truncated: bool = False
    strict: bool | None = None
    prediction: dict[str, Any] | None = None
    raw: str | None = None
    thought: str | None = None
    notes: Texts = []
    error: Text | None = None


class Pair(_Row):
    """A relation that a judge named, by the ids it was shown."""

    gold: Annotated[str, StringConstraints(pattern=r"^g[1-9][0-9]{0,4}$")]
    predicted: Annotated[str, StringConstraints(pattern=r"^p[1-9][0-9]{0,4}$")]
    relation: Relation
    reason: Text
    strength: Share


class SupportedItem(_Row):
    """What the dialogue says of a prediction, in the eyes of a judge."""

    id: Annotated[str, StringConstraints(pattern=r"^p[1-9][0-9]{0,4}$")]
    support: Literal["supported", "unsupported", "not_about_user"]
    reason: Text


class Support(_Row):
    """What a judge says of all of them; `extras`: also of those that match nothing."""

    outcome: Outcome
    items: Annotated[list[SupportedItem], Field(max_length=MOST_ITEMS)]
    error: Text | None
    raw: Text | None
    extras: bool = False


class Rating(_Row):
    """The marks of an answer."""

    outcome: Outcome
    marks: Marks
    reason: Text
    agreement: Share | None = None
    enforced: Text | None
    error: Text | None
    raw: Texts


class VerdictRow(_About):
    """A verdict: pairs, marks or reviews, as the task asks for them."""

    outcome: Outcome
    judge: FingerprintId
    error: Text | None
    pairs: Annotated[list[Pair], Field(max_length=MOST_PAIRS)] | None = None
    notes: Texts | None = None
    raw: Texts | None = None
    agreement: Share | None = None
    support: Support | None = None
    used: Rating | None = None
    rubric: ScoreName | None = None
    marks: Marks | None = None
    reason: Text | None = None
    enforced: Text | None = None
    reviews: dict[str, Any] | None = None


class ScoreRow(_About):
    """The scores of one answer."""

    outcome: Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,30}$")]
    stage: Literal["generate", "judge", "score"]
    scores: Annotated[dict[ScoreName, Number], Field(max_length=60)]
    counts: Annotated[dict[ScoreName, Number], Field(max_length=100)] = {}


class CallRow(_Row):
    """One call: what it was for and what it cost; never what it was keyed by."""

    purpose: Id
    about: Id
    model: Id
    ask: int
    attempt: int
    outcome: Id
    status: int | None
    prompt_tokens: Annotated[int, Field(ge=0)] | None
    completion_tokens: Annotated[int, Field(ge=0)] | None
    cost: Annotated[float, Field(ge=0)] | None
    seconds: Annotated[float, Field(ge=0)]
    assumed_tokens: Annotated[int, Field(ge=0)]
    assumed_cost: Annotated[float, Field(ge=0)]
    finish_reason: Id | None = None
    cached_tokens: Annotated[int, Field(ge=0)] | None = None
    reasoning_tokens: Annotated[int, Field(ge=0)] | None = None
    structured: Structured | None = None
    strict: bool | None = None


class Choice(_Row):
    """An answer of retrieval."""

    selected_memory_id: Id
    answer: Text
    reason: Text
    ranking: Annotated[list[Id], Field(max_length=2_000)]


class Response(_Row):
    """An answer of utilization."""

    answer: Text


ROWS: dict[str, type[BaseModel]] = {
    "predictions": PredictionRow,
    "verdicts": VerdictRow,
    "scores": ScoreRow,
    "calls": CallRow,
}
"""By stage."""

ANSWERS: dict[str, type[BaseModel]] = {
    "extraction": MemoryList,
    "update": UpdatedMemoryList,
    "retrieval": Choice,
    "utilization": Response,
}
"""By task: what `prediction` holds where the outcome is ok."""
