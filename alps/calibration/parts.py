"""Parts of a report on a judge, and their form in `calibration.json`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from alps.calibration.rows import Value
from alps.stats.agreement import Scale
from alps.stats.annotators import Alignment, AlternativeAnnotator
from alps.stats.bootstrap import Estimate
from alps.stats.intervals import Threshold

Estimates = Mapping[str, Estimate]


def plain(part: Any) -> Any:
    """Return a part as JSON has it, without fields that are None and may be left out."""
    if isinstance(part, AlternativeAnnotator):
        return {name: plain(getattr(part, name)) for name in ("omega", "rho", "epsilon", "status")}
    if hasattr(part, "row"):
        return part.row
    if is_dataclass(part):
        row = {}
        for field in fields(part):
            value = getattr(part, field.name)
            if value is not None or field.default is not None:
                row[field.name] = plain(value)
        return row
    if isinstance(part, Mapping):
        return {name: plain(value) for name, value in part.items()}
    return [plain(value) for value in part] if isinstance(part, list | tuple) else part


@dataclass(frozen=True)
class Confusion:
    """How often people and the judge gave which two values; a row for each value of people's."""

    values: Sequence[Value]
    counts: Sequence[Sequence[int]]


@dataclass(frozen=True)
class RaterPair:
    """The kappa of two raters.

    Attributes:
        one: A rater.
        other: The other one.
        judge: Whether one of them is the judge.
        single: Whether both gave labels of their own, not derived from those of several people.
        kappa: Their agreement beyond chance.
    """

    one: str
    other: str
    judge: bool
    single: bool
    kappa: Estimate


@dataclass(frozen=True)
class Bin:
    """People's share, or mean, where the judge's probability or verdict is about `judge`."""

    judge: float
    people: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Reliability:
    """How often people agree to what the judge says, by its `probability` or its `verdict`."""

    by: str
    bins: Sequence[Bin]
    calibration_error: float | None = None


@dataclass(frozen=True)
class Acceptance:
    """What the judge accepts of items of one kind, made right or wrong on purpose.

    Attributes:
        n: Items with a verdict.
        right: Those that are right to accept.
        accepted: Those that the judge accepts.
        low: Lower end of the interval of the accepted share.
        high: Upper end.
        unparsed: Further items, whose verdict could not be parsed.
    """

    n: int
    right: int
    accepted: int
    low: float | None
    high: float | None
    unparsed: int


@dataclass(frozen=True)
class Reference:
    """Figures of a trivial judge, or of people, on `n` items; a `reason` where it has none."""

    n: int
    figures: Estimates
    reason: str | None = None

    @property
    def row(self) -> dict[str, Any]:
        """The reference as files have it."""
        if self.reason is not None:
            return {"n": self.n, "reason": self.reason}
        return {"n": self.n, **plain(self.figures)}


@dataclass(frozen=True)
class GroupTest:
    """A test of whether the judge agrees with people equally often in every group.

    Attributes:
        p: Of the hypothesis that it does.
        agreement: By group.
        rates: Sensitivity and specificity by group, of a binary rubric.
        bounds: Of lengths: the last one, in characters, of the first and the second group.
    """

    p: float
    agreement: Mapping[str, float]
    rates: Mapping[str, Estimates] | None = None
    bounds: Sequence[int] | None = None


@dataclass(frozen=True)
class AtThreshold:
    """Cells and rates of accepting or not, on a scale of more than two values."""

    accepted: Sequence[Value]
    tp: int
    fn: int
    fp: int
    tn: int
    sensitivity: Estimate
    specificity: Estimate


@dataclass(frozen=True)
class SystemRanking:
    """Rank correlations of the judge's means of `n` systems with people's; None if undefined."""

    n: int
    spearman: float | None
    kendall: float | None
    systems: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class LengthPreference:
    """How much more the judge likes long answers than people do.

    Attributes:
        by: `pairs` of outputs, or `halves` of the responses.
        net: The judge's preference less people's.
        sides: What it is the difference of.
        median: The length, in characters, at which the halves part.
    """

    by: str
    net: Estimate
    sides: Estimates
    median: float | None = None

    @property
    def row(self) -> dict[str, Any]:
        """The preference as files have it."""
        row = {"by": self.by, **self.net.row, **plain(self.sides)}
        return row if self.median is None else {**row, "median": self.median}


@dataclass(frozen=True)
class Selective:
    """From which confidence the judge may be believed; None where no threshold keeps the promise.

    The promise: a share of disagreements of at most `risk`, but for a probability of `failure`.
    """

    n: int
    risk: float
    failure: float
    threshold: Threshold | None

    @property
    def reason(self) -> str:
        """Why there is no threshold."""
        return f"no confidence keeps disagreements at or under {self.risk:g}"

    @property
    def row(self) -> dict[str, Any]:
        """The outcome as files have it."""
        promised = {"risk": self.risk, "failure": self.failure}
        if self.threshold is None:
            return {"n": self.n, **promised, "reason": self.reason}
        return {**vars(self.threshold), **promised}


@dataclass(frozen=True)
class Details:
    """What a report says beyond single figures; a part that is not defined is None.

    Attributes:
        clusters: How many clusters the items form.
        scale: Kind and values.
        confusion: Values and counts.
        pairs: Kappas of pairs of raters.
        labelled: A row an item: its id, its cluster, what people say, what the judge says, and the
            mean of the people's labels, which is there even where they don't settle the item.
        sample: How the items were drawn, where that is known; null in the file where it is not.
        reliability: How often people agree to what the judge says.
        acceptance: What it accepts of items made right or wrong on purpose, by kind.
        base_rates: How often people and the judge give each value.
        references: Trivial judges, and people, on the same items.
        aligned: Shares of items where the judge agrees with all, some or none of the people.
        leave_one_out: People, and the judge in a person's place, against all others.
        alternative_annotator: Outcome of the alternative-annotator test.
        heterogeneity: Tests by system, language and length.
        at_threshold: Cells and rates of accepting or not, on a scale of more than two values.
        known_wrong: The share of items made wrong on purpose that it accepts.
        system_ranking: Correlation with people's order of systems.
        length_preference: How much more it likes long answers than people do.
        selective: From which confidence the judge may be believed.
    """

    clusters: int
    scale: Scale
    confusion: Confusion
    pairs: Sequence[RaterPair]
    labelled: Sequence[Sequence[Any]]
    sample: Mapping[str, Any] | None
    reliability: Reliability | None = None
    acceptance: Mapping[str, Acceptance] | None = None
    base_rates: Mapping[str, Mapping[str, float]] | None = None
    references: Mapping[str, Reference] | None = None
    aligned: Alignment | None = None
    leave_one_out: Estimates | None = None
    alternative_annotator: AlternativeAnnotator | None = None
    heterogeneity: Mapping[str, GroupTest] | None = None
    at_threshold: AtThreshold | None = None
    known_wrong: Estimate | None = None
    system_ranking: SystemRanking | None = None
    length_preference: LengthPreference | None = None
    selective: Selective | None = None
