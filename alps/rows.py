"""Rows of a run folder: its manifest and its summary, as they are written and read.

Whoever reads an older folder finds in it what a field has by default where the folder lacks it.
What a folder may lack is written only where it was set, so that its files keep their bytes.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict

Json = dict[str, Any]
PEOPLE = "people"
"""Who audited where no judge did."""


class Figure(Protocol):
    """A number with its 95 % interval; None where there is none."""

    @property
    def value(self) -> float | None:
        """The number."""

    @property
    def low(self) -> float | None:
        """The lower end."""

    @property
    def high(self) -> float | None:
        """The upper end."""


class Fields(BaseModel):
    """A frozen part of a file of a run."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    def row(self) -> Json:
        """Return the fields that were set, as JSON has them."""
        # A folder of an older version lacks fields: read and written again it keeps its bytes.
        return self.model_dump(exclude_unset=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the fields that were set: a notebook shows a score in one line."""
        return ((name, field) for name, field in self if name in self.model_fields_set)


class Interval(Fields):
    """A figure with its 95 % interval.

    `reason` says why there is none, and `method` how it was made where that is not the usual way.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int = 0
    reason: str | None = None
    method: str | None = None


class Corrected(Fields):
    """A score corrected for the judge's known errors, and the calibrations it rests on.

    Attributes:
        n: How many answers are scored, those that failed among them.
        outside: Whether the value or a bound is off the scale; `impossible`: the value itself.
        calibration: The hashes of the calibrations, by their names.
        youden: The judge's sensitivity + specificity − 1.
        reason: Why there is no value.
    """

    method: Literal["ppi", "rogan_gladen"]
    status: Literal["corrected", "not_correctable"]
    value: float | None
    low: float | None
    high: float | None
    labelled: int
    judged: int
    n: int
    outside: bool
    impossible: bool = False
    calibration: dict[str, str]
    notes: list[str] = []
    youden: Interval | None = None
    reason: str | None = None


class Score(Fields):
    """A score with its 95 % interval.

    Attributes:
        n: How many records, or answers, it is of.
        reason: Why there is no interval.
        method: How the interval was made, where that is not the usual way.
        worst_case: What it would be if every unscored record had scored worst; None where all are
            scored.
        best_case: The same for best.
        unscored: Why there is no score, where judge or system can give none.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    reason: str | None = None
    method: str | None = None
    worst_case: float | None = None
    best_case: float | None = None
    unscored: str | None = None
    corrected: Corrected | None = None

    def __repr__(self) -> str:
        if self.value is None:
            return f"<Score –: {self.unscored or self.reason or 'no score'}>"
        between = "" if self.low is None else f" [{self.low:.3f}, {self.high:.3f}]"
        return f"<Score {self.value:.3f}{between}, n {self.n:,}>"

    @property
    def known(self) -> float:
        """The value of a score that has one."""
        assert self.value is not None
        return self.value


class Floor(Fields):
    """A trivial baseline on the same records.

    Attributes:
        lead: The metric that stands for it.
        above: How far the run is above it by that; None where their judges differ.
        differences: How far the run is above it by each metric that says so.
    """

    judge: str
    lead: str = "f1"
    scores: dict[str, Score]
    above: Interval | None = None
    differences: dict[str, Interval] = {}


class GroupRow(Fields):
    """One group of a breakdown.

    Attributes:
        also: Another name of the group, or what it means.
        standardised: The figure with the mix of all records.
        lacking: The strata of which the group has no record: that figure is without them.
    """

    group: str
    also: str = ""
    figure: Interval
    standardised: Interval | None = None
    lacking: list[str] = []


class BreakdownRow(Fields):
    """A figure by groups of records, with what tables call it.

    Attributes:
        metric: The title of the metric; `share` for the share of each group.
        standardised: Over what the second figure is standardised; None where there is none.
    """

    title: str
    metric: str
    standardised: str | None = None
    warning: str = ""
    groups: list[GroupRow]


class Pools(Fields):
    """Pools that were built for a run: the seed, and the share of generated distractors."""

    seed: int
    generated: float = 0.0


class CurvePoint(Fields):
    """What a run found on a track at one size of the context; n = scored + unscored.

    Attributes:
        max_context_tokens: The most tokens of a history that a reader was shown.
        score: The headline.
        tokens: How many it was shown on average.
        seconds: That a question took, the median: search and answer.
        cost: US dollars a question: that of the answer, and its share of what the memory used.
        errors: The first error of each kind of failure.
    """

    max_context_tokens: int
    score: Interval
    tokens: float | None = None
    seconds: float | None = None
    cost: float | None = None
    n: int
    failed_predictions: dict[str, int] = {}
    failed_judgements: dict[str, int] = {}
    errors: dict[str, str] = {}


class Curve(Fields):
    """A score at several sizes of the context, the smallest first.

    Attributes:
        area: The area under it over log2 of the size, from 0 at the smallest to 1 at the largest.
    """

    metric: str
    points: list[CurvePoint]
    area: Interval


class TokensShown(Fields):
    """Tokens of a history that a reader was shown for an answer, as they were measured."""

    median: int
    p95: int
    most: int


class TrackSummary(Fields):
    """What a run found on one track; n = scored + unscored.

    Attributes:
        task: The name of the task; None in runs of early versions.
        judge_fingerprint: Of the judge under the rubrics of this track.
        by_repeat: The mean of the leading metric in each repeat.
        seconds_per_query: How long an embedded retriever took.
        rejected_gold: How many gold items their annotators had rejected.
        unchecked: How many answers were not checked beside the score, as the judge failed.
        notes: How often answers were repaired, by what was done.
        errors: The first error of each kind of failure.
        curve: The headline at several sizes of the context; None where there is one.
        distinct: How many different questions were scored, where a task counts duplicates.
        tokens_shown: What a reader was shown through a memory; None where there is none.
        pools: How the pools were built, where the data has none of this size.
        shown_by: What shows a task of the user's own without its code.
    """

    # The conditions of a user's own task stand beside ours, under any name.
    model_config = ConfigDict(extra="allow", defer_build=True)

    task: str | None = None
    condition: Any = None
    window: Any = None
    memory: Any = None
    max_context_tokens: Any = None
    k: Any = None
    prompt: Any = None
    scoring: Any = None
    judge_fingerprint: str | None = None
    n: int
    scored: int
    unscored: int
    failed_predictions: dict[str, int]
    failed_judgements: dict[str, int]
    scores: dict[str, Score]
    repeats: int = 1
    by_repeat: dict[str, list[float | None]] = {}
    seconds_per_query: float | None = None
    repaired: int = 0
    truncated: int = 0
    empty_vs_empty: int = 0
    rejected_gold: int = 0
    unchecked: int = 0
    counts: dict[str, int] = {}
    notes: dict[str, int] = {}
    errors: dict[str, str] = {}
    floors: dict[str, Floor]
    pools: Pools | None = None
    shown_by: Any = None
    distinct: int | None = None
    tokens_shown: TokensShown | None = None
    breakdowns: dict[str, BreakdownRow] = {}
    curve: Curve | None = None

    def row(self) -> Json:
        """Return the row; all conditions stand behind the task."""
        # Where those of a user's own task always stood: files keep their bytes.
        row = super().row()
        for name in reversed(self.model_extra or {}):
            row = {"task": row.pop("task"), name: row.pop(name), **row}
        return row


class CallCounts(Fields):
    """How often models were asked, and what that took.

    Attributes:
        http: How many requests were sent.
        cached: How many replies came from the cache instead.
        cost: In US dollars; None where one call has no price.
        unpriced: How many calls have none.
    """

    http: int
    cached: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    unpriced: int = 0


class Calls(CallCounts):
    """What the calls of a run came to.

    Attributes:
        cached_tokens: Of the prompt tokens, those that providers had in their caches.
        reasoning_tokens: A part of the completion tokens.
    """

    without_price: list[str] = []
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class ServedBy(Fields):
    """A model that answered, and its build, as the provider named them."""

    model: str | None
    fingerprint: str | None


class Check(Fields):
    """A check of a memory system's admission: why it failed (empty: it passed), and its seconds."""

    name: str
    fault: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        return not self.fault


class MemoryUsage(Fields):
    """What a memory system used of the models that the run gives it.

    Attributes:
        cached: How many of those a kept reply answered; their tokens and cost count all the same.
        cost: US dollars; None where the price of one is not known.
    """

    requests: int
    cached: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None


class Phase(Fields):
    """Seconds that calls of one phase of a memory system took; `used` is None without a model."""

    calls: int
    seconds: float
    p50: float
    p95: float
    p99: float
    used: MemoryUsage | None = None


class RubricCheck(Fields):
    """How many of the known items of a rubric a judge got right, of `n` that it answered."""

    right: int
    n: int


class AuditedScore(Fields):
    """A score that audits of some records correct, over all records.

    Attributes:
        value: The corrected score; None where there is none, and `reason` says why.
        cheap: The score of the run's own judge on the same records.
        alone: What the audited records alone say.
        weight: How much the cheap scores count (lambda of PPI++).
        needed: How many audits in all would give ± .03; None where no number would.
        outside: Whether the value or a bound is off the scale.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    audited: int
    cheap: Interval
    alone: Interval | None = None
    weight: float | None = None
    needed: int | None = None
    outside: bool = False
    reason: str | None = None


class BentRow(Fields):
    """How the audit judge less the cheap one changes with a trait of a record.

    Attributes:
        value: The change for one standard deviation of it, all others held.
        p_holm: Of all traits of a track together.
    """

    by: str
    value: float
    low: float
    high: float
    p: float
    p_holm: float


class AuditedTrack(Fields):
    """What an audit found on a track.

    Attributes:
        slices: The headline by groups of records.
        bent: With what the cheap judge's error of the headline goes along.
    """

    scores: dict[str, AuditedScore]
    slices: dict[str, dict[str, AuditedScore]] = {}
    bent: list[BentRow] = []


class AuditSummary(Fields):
    """What an audit found: the corrected scores by track and metric, and what it cost.

    Attributes:
        judge: Who audited: the name of a judge, or `people`.
        fingerprint: Of that judge, or of the labels.
        share: Of the sessions.
        calls: What the audit alone took: that of the run stands in its own `calls`.
        judge_check: Known items that the judge got right, by rubric; empty or None if not checked.
        judge_check_before: The same of a check that `judge_check=no` sets aside.
    """

    judge: str
    fingerprint: str
    share: float
    calls: Calls
    tracks: dict[str, AuditedTrack]
    judge_check: dict[str, RubricCheck] | None = None
    judge_check_before: dict[str, RubricCheck] | None = None

    @property
    def by_people(self) -> bool:
        """Whether people audited."""
        return self.judge == PEOPLE

    @property
    def auditor(self) -> str:
        """What audits of several runs must share: one judge, or any people."""
        return self.judge if self.by_people else self.fingerprint


class Summary(Fields):
    """What a run found.

    Attributes:
        admission: The checks of a memory system, those before the run and those after it.
        phases: How long it took to ingest, settle and search, by the name of the phase.
        answers: How long the reader behind a memory system took; kept replies take no part in it.
        bytes_per_1000_turns: What its folder holds, for each 1,000 turns that it was told.
        judge_fingerprint: Of the judge under all rubrics of the run.
        comparable: Whether the scores may stand beside those of LLM judges.
        served: What answered, by the purpose of the calls, as far as providers told.
        left_out: Why tracks were left out, by their names.
        not_calibrated: The calibrations that could not be used, and why.
        calibrated_otherwise: Where another model judged than in the calibration.
        judge_check_before: The same of a check that `judge_check=no` sets aside.
        judge_check: Known items an LLM judge got right, by rubric; empty or None if not checked.
        parts: What extensions of strangers found.
    """

    judge: str
    judge_fingerprint: str
    comparable: bool
    model: str
    tracks: dict[str, TrackSummary]
    calls: Calls
    served: dict[str, list[ServedBy]] = {}
    left_out: dict[str, str] = {}
    not_calibrated: list[str] = []
    calibrated_otherwise: list[str] = []
    admission: list[Check] = []
    phases: dict[str, Phase] = {}
    answers: Phase | None = None
    bytes_per_1000_turns: float | None = None
    audit: AuditSummary | None = None
    judge_check: dict[str, RubricCheck] | None = None
    judge_check_before: dict[str, RubricCheck] | None = None
    parts: dict[str, Any] = {}

    @property
    def stopped_by_budget(self) -> bool:
        """Whether some records were not asked, or not judged, as the budget was spent."""
        for track in self.tracks.values():
            less = [] if track.curve is None else track.curve.points
            parts: list[TrackSummary | CurvePoint] = [track, *less]
            for part in parts:
                if "budget" in part.failed_predictions or "budget" in part.failed_judgements:
                    return True
        return False

    def row(self) -> Json:
        """Return the row of `summary.json`."""
        tracks = {name: track.row() for name, track in self.tracks.items()}
        return super().row() | {"tracks": tracks}


class TrackRow(Fields):
    """The data of a track: how many records, and their hash.

    `conditions` are the settings that the data decided; tasks with files of their own say more.
    """

    model_config = ConfigDict(extra="allow", defer_build=True)

    n: int
    sha256: str | None = None
    pools: Pools | None = None
    conditions: dict[str, Any] = {}


class DataRow(Fields):
    """The data of a run."""

    split: str = ""
    tracks: dict[str, TrackRow] = {}
    left_out: dict[str, str] | None = None
    commit: str | None = None


class Manifest(Fields):
    """What a run measures; nothing in it depends on when or where it runs.

    Attributes:
        alps: The version that wrote it.
        settings: As they took effect; `RunSettings` has their names and meanings.
        system: Its name, and every setting that can change its answers.
        prompts: The hashes of what models are asked, by the prompts' names.
        versions: Of Python, and of the libraries that can change a result.
        predictions: The sha256 of those of another run that are judged again.
        data_asked: What `data=` said before a branch became the commit it was at.
        code: Hashes of the user's own code by setting and file; None where there is none.
    """

    alps: str = "?"
    settings: Json
    system: Json = {}
    data: DataRow
    prompts: dict[str, str] = {}
    judge: Json = {}
    versions: Mapping[str, str] = {}
    predictions: str | None = None
    data_asked: str | None = None
    structured: Any = None
    code: dict[str, dict[str, str]] | None = None
