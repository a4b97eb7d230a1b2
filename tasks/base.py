"""What a task is to the engine: plain functions over its own samples, predictions and verdicts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from alps.judges.base import Judge
from alps.llm.schemas import schema_of
from alps.llm.types import AnswerType, Read, Request
from alps.prompts import Prompt, asked_sha256
from alps.schema import Prediction

Row = Mapping[str, Any]


class SampleLike(Protocol):
    """What the engine needs to know of any sample.

    Its id, and the session whose samples are not independent.
    """

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

    A metric is the mean of its per-record values, or, with `numerator` and `denominator` given, the
    ratio of sums of per-record counts (micro). It needs a judge that tells `relations` apart, one
    that can say what a dialogue supports where `support` is set, one that rates answers by a rubric
    where `rates` is set, and a system that ranks where `ranking` is. `optional` metrics are left
    out where no record has them. Its values lie in [lowest, highest]. Where it is the mean of a
    judge's marks, `rubrics` names what it is the mean of, as people label it. Where trivial
    baselines score high on it, `with_floors` has theirs printed right below it.
    """

    name: str
    title: str
    numerator: Mapping[str, float] | None = None
    denominator: Mapping[str, float] | None = None
    headline: bool = False
    relations: frozenset[str] = frozenset()
    support: bool = False
    rates: bool = False
    ranking: bool = False
    optional: bool = False
    lower_is_better: bool = False
    lowest: float = 0.0
    highest: float = 1.0
    rubrics: tuple[str, ...] = ()
    with_floors: bool = False


@dataclass(frozen=True)
class JudgingOptions:
    """What is asked beyond the score.

    `extras` asks whether the dialogue supports what matched no gold.
    """

    extras: bool = False


JUST_THE_SCORE = JudgingOptions()


@dataclass(frozen=True)
class TaskOptions:
    """What a run chooses among the tracks of its tasks, and how they are asked and scored.

    Attributes:
        distractors: A pool size of retrieval, or `all`.
        ability: An ability of utilization, or `all`.
        condition: What utilization shows: the `history`, or the true memories with it
            (`gold_memory`).
        scoring: `alps`, or `authors-v1` for comparison with published figures.
        window: The most tokens of history that utilization shows; None for all of it.
        prompt: What extraction asks a model for: `precision`, or `recall`.
    """

    distractors: str = "100"
    ability: str = "all"
    condition: str = "history"
    scoring: str = "alps"
    window: int | None = None
    prompt: str = "precision"


DEFAULTS = TaskOptions()


def anything_fits(sample: Any, prediction: Row) -> None:
    """Accept any prediction: what most tasks make of the check against the sample."""


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
    """One task on one track: what is asked, how the answer is read, judged and scored.

    Attributes:
        name: The task; several tracks may belong to it.
        track: The track as it stands in files and tables; its folder is the same, unless `folder`
            says otherwise.
        read_sample: Builds a sample, or a list of samples, from an input row and a gold row; the
            latter may be None.
        messages: Renders what an LLM is asked.
        answer: The typed answer of a system.
        plain: Whether an LLM answers in plain text instead.
        fits: Raises a ValueError where a prediction can't be one for this very sample.
        rubrics: The judge's instructions that its scores depend on.
        conditions: What the track is run under beyond its name, printed and written with its
            scores.
        systems: Answers without a model, by the name that `model=` gives them; those called
            `floor/…` stand beside every score.
        pool_size: How many distractors a retrieval pool has; the pools are built where the data has
            none.
        input_row: The row that an external program is given: what a system may see, and nothing
            else.
        to_prediction: Turns the typed answer into the release's form of a prediction.
        has_gold: Whether the sample can be scored.
        judge: Asks the judge about one prediction; returns the verdict row without ids.
        judge_requests: The calls that judging a prediction takes; for one that does not exist yet,
            the calls that the likeliest one takes.
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
    judge_requests: Callable[
        [Any, Prediction | None, Judge, JudgingOptions], Sequence[Request[Any]]
    ]
    score: Callable[[Any, Prediction, Row | None, Judge], Scored]
    metrics: tuple[Metric, ...]
    prompts: tuple[Prompt, ...] = ()
    plain: bool = False
    fits: Callable[[Any, Row], None] = anything_fits
    rubrics: tuple[Prompt, ...] = ()
    conditions: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    pool_size: int | None = None
    systems: Mapping[str, Callable[[Any], dict[str, Any]]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The folder of its track in the release layout."""
        return self.folder or self.track

    @property
    def only_rated(self) -> bool:
        """Whether it has no figure but those of a judge that rates answers by a rubric."""
        figures = [metric for metric in self.metrics if not metric.optional]
        return bool(figures) and all(metric.rates for metric in figures)

    @property
    def headline(self) -> Metric:
        """The metric that stands for the track: the one marked so, else the first."""
        return next((metric for metric in self.metrics if metric.headline), self.metrics[0])

    @property
    def prompt_sha256(self) -> str:
        """The sha256 of its prompt and of the schema that an LLM's answer is held to."""
        return asked_sha256(self.prompt, None if self.plain else schema_of(self.answer.schema))

    def answer_to(self, sample: Any) -> AnswerType[Any] | None:
        """Return what an LLM is held to for `sample`; None for plain text."""
        if self.plain:
            return None

        def read(node: object) -> Read[Any]:
            found = self.answer.read(node)
            self.fits(sample, self.to_prediction(found.value))
            return found

        return self.answer if self.fits is anything_fits else replace(self.answer, read=read)
