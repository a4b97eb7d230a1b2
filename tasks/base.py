"""What a task is to the engine: plain functions over its own samples, predictions and verdicts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from alps.judges.base import Judge
from alps.llm.types import AnswerType, Request
from alps.prompts import Prompt
from alps.schema import Prediction

Row = Mapping[str, Any]


class SampleLike(Protocol):
    """What the engine needs to know of any sample: its id, and the session whose samples are not independent."""

    @property
    def benchmark_id(self) -> str:
        """The id that input, gold and prediction share."""
        ...

    @property
    def session_id(self) -> str:
        """The session it comes from; intervals are clustered by it."""
        ...


@dataclass(frozen=True)
class Metric:
    """One figure of a task.

    A metric is the mean of its per-record values, or, with `numerator` and `denominator` given, the ratio of sums of
    per-record counts (micro). It needs a judge that tells `relations` apart, and one that can say what a dialogue
    supports where `support` is set. `optional` metrics are left out where no record has them.
    """

    name: str
    title: str
    numerator: Mapping[str, float] | None = None
    denominator: Mapping[str, float] | None = None
    failed: float = 0.0
    headline: bool = False
    relations: frozenset[str] = frozenset()
    support: bool = False
    optional: bool = False
    lower_is_better: bool = False


@dataclass(frozen=True)
class JudgingOptions:
    """What is asked beyond the score: `extras` asks whether the dialogue supports what matched no gold."""

    extras: bool = False


JUST_THE_SCORE = JudgingOptions()


@dataclass(frozen=True)
class Scored:
    """The score of one record.

    Attributes:
        scores: By metric; a metric that is not defined for the record is absent.
        counts: What micro metrics sum up.
        details: What was matched, missed and extra, for whoever reads the record.
    """

    scores: Mapping[str, float]
    counts: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """One task: what is asked, how the answer is read, judged and scored.

    Attributes:
        track: Its folder in the release layout.
        read_sample: Builds a sample from an input row and a gold row; the gold row may be None.
        messages: Renders what an LLM is asked.
        answer: The typed answer of a system.
        input_row: The row that an external program is given: what a system may see, and nothing else.
        to_prediction: Turns the typed answer into the release's form of a prediction.
        has_gold: Whether the sample can be scored.
        judge: Asks the judge about one prediction; returns the verdict row without ids.
        judge_requests: The calls that judging a prediction takes; for one that does not exist yet, the calls that the
            likeliest one takes.
        score: Scores one prediction by its verdict; failed predictions come with a verdict of None.
        metrics: What is reported, in this order.
    """

    name: str
    track: str
    prompt: Prompt
    answer: AnswerType[Any]
    read_sample: Callable[[Row, Row | None], Any]
    messages: Callable[[Any], tuple[Mapping[str, str], ...]]
    input_row: Callable[[Any], dict[str, Any]]
    to_prediction: Callable[[Any], dict[str, Any]]
    has_gold: Callable[[Any], bool]
    judge: Callable[[Any, Prediction, Judge, JudgingOptions], Awaitable[dict[str, Any]]]
    judge_requests: Callable[[Any, Prediction | None, Judge, JudgingOptions], Sequence[Request[Any]]]
    score: Callable[[Any, Prediction, Row | None, Judge], Scored]
    metrics: tuple[Metric, ...]
    prompts: tuple[Prompt, ...] = ()
