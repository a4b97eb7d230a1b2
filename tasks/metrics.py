"""Metrics of tasks: definition, requirements, estimation and display."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from pydantic import TypeAdapter

Pair = tuple[str, str]
"""The names of two counts: the first over the second is a ratio."""


@dataclass(frozen=True)
class Mean:
    """The mean over the records that have the metric in `Scored.scores`."""


@dataclass(frozen=True)
class MicroRatio:
    """A ratio of sums over all records (micro); each sum is of weighted `Scored.counts`."""

    numerator: Mapping[str, float]
    denominator: Mapping[str, float]


@dataclass(frozen=True)
class MacroRatio:
    """The mean over groups of the mean ratio within each (macro); a group is pairs of counts."""

    groups: tuple[tuple[Pair, ...], ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs of all groups."""
        return tuple(pair for group in self.groups for pair in group)


@dataclass(frozen=True)
class HarmonicMean:
    """The harmonic mean of ratios of sums over all records, as F1 is of precision and recall."""

    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class LargestExcess:
    """The largest of k ratios less 1/k, of one pair of counts for each."""

    pairs: tuple[Pair, ...]


Value = Mean | MicroRatio | MacroRatio | HarmonicMean | LargestExcess


@dataclass(frozen=True)
class Needs:
    """What must be able to do something for a metric to have a value.

    Attributes:
        relations: The relations between two memories that the judge must tell apart.
        support: Whether the judge must say what a dialogue supports.
        rating: Whether the judge must rate answers by a rubric.
        ranking: Whether the system must rank.
        question: What the judge is asked for this metric alone, as in `alps did not check whether
            the memory was used`; empty where it is asked for nothing beyond the other metrics.
    """

    relations: frozenset[str] = frozenset()
    support: bool = False
    rating: bool = False
    ranking: bool = False
    question: str = ""


@dataclass(frozen=True)
class Inference:
    """How a metric is estimated and tested.

    Attributes:
        resampled: Whether a mean gets the interval of a bootstrap over sessions where few sessions
            hold many records; without it, such a mean has no interval.
        baseline_differences: Whether the paired difference to each trivial baseline is reported.
        sign_test: Whether a comparison of two runs has the exact sign test of single records, too,
            as published comparisons have it.
    """

    resampled: bool = False
    baseline_differences: bool = False
    sign_test: bool = False


@dataclass(frozen=True)
class OnBoards:
    """How tables and boards show a metric.

    Attributes:
        companions: The metrics that boards print next to it.
        own_board: Whether it has a board though it is not the headline.
        with_baselines: Whether the trivial baselines, which score high on it, are printed right
            below it.
        people: The figure of an agreement file that is people's on it, as `PART.FIGURE`: what one
            annotator scores against the gold of another.
    """

    companions: tuple[str, ...] = ()
    own_board: bool = False
    with_baselines: bool = False
    people: str = ""


@dataclass(frozen=True)
class Metric:
    """One metric of a task.

    Attributes:
        name: The key in `Scored.scores` and in files.
        title: What tables call it.
        value: How it is computed over records: their mean, or a statistic of their counts.
        headline: Whether it is the headline metric of its track.
        optional: Whether it is left out where no record has it.
        lower_is_better: Whether less of it is better.
        lowest: The least value that a record can have.
        highest: The greatest one.
        judged: Whether a judge has a part in it.
        rubrics: The rubrics, as people label them, whose marks it is the mean of.
        needs: What the judge and the system must be able to do.
        inference: How it is estimated and tested.
        on_boards: How tables and boards show it.
    """

    name: str
    title: str
    value: Value = Mean()
    headline: bool = False
    optional: bool = False
    lower_is_better: bool = False
    lowest: float = 0.0
    highest: float = 1.0
    judged: bool = True
    rubrics: tuple[str, ...] = ()
    needs: Needs = Needs()
    inference: Inference = Inference()
    on_boards: OnBoards = OnBoards()

    @property
    def is_mean(self) -> bool:
        """Whether each record has a value of its own, of which it is the mean."""
        return isinstance(self.value, Mean)

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest value that a record can have."""
        return self.lowest, self.highest

    @property
    def worst(self) -> float:
        """The worst value that a record can have."""
        return self.highest if self.lower_is_better else self.lowest


@dataclass(frozen=True)
class Breakdown:
    """A metric by groups of records; `Task.groups` says which group a record is in.

    Attributes:
        name: The key in files.
        title: What tables call it.
        metric: The name of the metric whose mean each group has; None for the share that each group
            has of the records that are in one.
        groups: The groups in the order of tables, each with another name or a meaning, or none.
            Others follow, the largest first.
        standardised: Another breakdown whose groups are mixed differently in each group of this
            one: a second figure gives each the mix of all records (direct standardisation).
        warning: What to know before the figures are read.
    """

    name: str
    title: str
    metric: str | None
    groups: Mapping[str, str] = field(default_factory=dict)
    standardised: str | None = None
    warning: str = ""


def headline_of(metrics: Sequence[Metric]) -> Metric:
    """Return the headline metric of a task: the marked one, else the first."""
    return next((metric for metric in metrics if metric.headline), metrics[0])


def only_rated(metrics: Sequence[Metric]) -> bool:
    """Tell whether there is no metric but those of a judge that rates answers by a rubric."""
    figures = [metric for metric in metrics if not metric.optional]
    return bool(figures) and all(metric.needs.rating for metric in figures)


# Summaries of tasks of users' own have a metric in one flat row: its keys, and where each is here.
_ROW = {
    "name": "name",
    "title": "title",
    "numerator": "value",
    "denominator": "value",
    "headline": "headline",
    "relations": "needs.relations",
    "support": "needs.support",
    "rates": "needs.rating",
    "ranking": "needs.ranking",
    "optional": "optional",
    "lower_is_better": "lower_is_better",
    "lowest": "lowest",
    "highest": "highest",
    "rubrics": "rubrics",
    "with_floors": "on_boards.with_baselines",
    "judged": "judged",
    "beside": "on_boards.companions",
    "own_board": "on_boards.own_board",
    "checked": "needs.question",
    "ratios": "value",
    "resampled": "inference.resampled",
    "paired_floors": "inference.baseline_differences",
    "sign_test": "inference.sign_test",
    "excess": "value",
    "harmonic": "value",
    "people": "on_boards.people",
}
_METRIC = TypeAdapter(Metric)
_VALUES: dict[str, TypeAdapter[Any]] = {
    "numerator": TypeAdapter(MicroRatio),
    "ratios": TypeAdapter(MacroRatio),
    "excess": TypeAdapter(LargestExcess),
    "harmonic": TypeAdapter(HarmonicMean),
}
PARTS_OF_METRIC = {
    **dict.fromkeys(("numerator", "denominator"), "value=MicroRatio(…)"),
    "ratios": "value=MacroRatio(…)",
    "excess": "value=LargestExcess(…)",
}
"""How what `Metric` took as a keyword of its own before is written now."""
for _key, _place in _ROW.items():
    _part, _, _name = _place.rpartition(".")
    if _part:
        _kind = type(getattr(Metric, _part)).__name__
        PARTS_OF_METRIC[_key] = f"{_part}={_kind}({_name}=…)"


def metric_row(metric: Metric) -> dict[str, Any]:
    """Return a metric as plain JSON, one flat row."""
    value = {"numerator": None, "denominator": None, "ratios": (), **_value_row(metric.value)}
    row: dict[str, Any] = {}
    for key, place in _ROW.items():
        if place != "value":
            row[key] = attrgetter(place)(metric)
        elif key in value:
            row[key] = value[key]
    return {**row, "relations": sorted(metric.needs.relations), "rubrics": list(metric.rubrics)}


def _value_row(value: Value) -> dict[str, Any]:
    match value:
        case MicroRatio(numerator, denominator):
            return {"numerator": dict(numerator), "denominator": dict(denominator)}
        case MacroRatio(groups):
            return {"ratios": groups}
        case LargestExcess(pairs):
            return {"excess": pairs}
        case HarmonicMean(pairs):
            return {"harmonic": pairs}
        case _:
            return {}


def read_metric(row: Mapping[str, Any]) -> Metric:
    """Read the row of a metric.

    Raises:
        ValueError: If it is none.
    """
    fields: dict[str, Any] = {}
    for key, place in _ROW.items():
        part, _, name = place.rpartition(".")
        if key in row and place != "value":
            (fields.setdefault(part, {}) if part else fields)[name] = row[key]
    pairs = row.get("excess") or row.get("harmonic")
    renamed = {"groups": row.get("ratios"), "pairs": pairs, **row}
    for key, value in _VALUES.items():
        if row.get(key):
            fields["value"] = value.validate_python(renamed)
    return _METRIC.validate_python(fields)
