"""Scores of one row of a table in columns, and the figures with intervals made of them."""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alps.schema import FAILURES
from alps.stats.bootstrap import (
    Estimate,
    Floats,
    Statistic,
    clustered_difference,
    clustered_mean,
    clustered_ratio,
    excess_of_ratios,
    harmonic_of_ratios,
    mean_of_ratios,
    resampled_statistic,
)
from alps.tasks.base import Scored
from alps.tasks.metrics import HarmonicMean, LargestExcess, MacroRatio, Metric, MicroRatio

Integers = NDArray[np.int64]
Sums = MacroRatio | HarmonicMean | LargestExcess
_UNBOUNDED = MicroRatio | HarmonicMean | LargestExcess
NO_GROUPS: Mapping[str, str] = {}


class RecordScores:
    """Scores of every record of one system under one judge.

    Columns of numbers, so that memory stays small.

    Args:
        metrics: What is shown of them.
        sessions: The numbers that sessions have; boards on the same records share one, and add to
            it.

    Attributes:
        unscored: How many records could not be scored.
    """

    def __init__(self, metrics: Sequence[Metric], sessions: dict[str, int] | None = None) -> None:
        self.metrics = metrics
        self._place, self._cluster, self._repeat = array("I"), array("I"), RecordColumn()
        self._codes = {} if sessions is None else sessions
        self._columns: defaultdict[str, RecordColumn] = defaultdict(RecordColumn)
        self._counts: set[str] = set()
        self._questions: set[Hashable] = set()
        self._groups: dict[str, dict[str, int]] = {}
        self._members: defaultdict[str, RecordColumn] = defaultdict(RecordColumn)
        self.failed_predictions: Counter[str] = Counter()
        self.failed_judgements: Counter[str] = Counter()
        self.unscored = 0

    def add(
        self,
        place: int,
        session_id: str,
        scored: Scored,
        *,
        repeat: int = 0,
        groups: Mapping[str, str] = NO_GROUPS,
    ) -> None:
        """Add a scored record.

        Args:
            place: Its position in the data.
            session_id: Its session.
            scored: Its scores and counts.
            repeat: Which of its answers this is.
            groups: Its group in each breakdown of the task.
        """
        self._place.append(place)
        self._repeat.put(len(self._repeat), repeat)
        self._cluster.append(self._codes.setdefault(session_id, len(self._codes)))
        self._counts.update(scored.counts)
        row = len(self._place) - 1
        if scored.question is not None:
            self._questions.add(scored.question)
        for name, group in groups.items():
            codes = self._groups.setdefault(name, {})
            self._members[name].put(row, codes.setdefault(group, len(codes)))
        for name, value in {**scored.scores, **scored.counts}.items():
            self._columns[name].put(row, value)

    @property
    def scored(self) -> int:
        """How many records were scored."""
        return len(self._place)

    @property
    def distinct(self) -> int | None:
        """How many different questions were scored; None for a task that counts no duplicates."""
        return len(self._questions) or None

    def has(self, name: str) -> bool:
        """Tell whether any record has the metric or count `name`."""
        return name in self._columns

    def total(self, name: str) -> int:
        """Return the sum of a count over the scored records."""
        return int(np.nansum(self._column(name))) if name in self._columns else 0

    def total_once(self, name: str) -> int:
        """Return the sum of a count over the scored records, answered once or several times."""
        return int(np.nansum(self.by_place(name)[1])) if name in self._columns else 0

    def totals(self) -> dict[str, int]:
        """Return the sum of every count over the scored records, by name."""
        return {name: self.total(name) for name in sorted(self._counts)}

    def estimate(self, metric: Metric) -> Estimate:
        """Estimate one metric over the records for which it is defined."""
        value = metric.value
        if isinstance(value, MicroRatio):
            above, below = self._weighted(value.numerator), self._weighted(value.denominator)
            return clustered_ratio(
                above,
                below,
                self.clusters(),
                bounds=metric.bounds,
                resampled=metric.inference.resampled,
            )
        if isinstance(value, Sums):
            return self._of_sums(value)
        values = self._column(metric.name)
        defined = ~np.isnan(values)
        return clustered_mean(
            values[defined],
            self.clusters()[defined],
            bounds=metric.bounds,
            resampled=metric.inference.resampled,
        )

    def _of_sums(self, value: Sums) -> Estimate:
        """Estimate a statistic of sums of counts, by resampled clusters."""
        _, features, clusters = self._counts_by_place(value)
        estimate = resampled_statistic(features, clusters.tolist(), _statistic_of(value))
        return replace(estimate, n=self.scored)

    def _difference_of_sums(self, other: "RecordScores", value: Sums) -> Estimate:
        places, mine, clusters = self._counts_by_place(value)
        others, theirs, _ = other._counts_by_place(value)
        _, at, there = np.intersect1d(places, others, assume_unique=True, return_indices=True)
        statistic, width = _statistic_of(value), mine.shape[1]

        def apart(sums: Floats) -> Floats:
            first, second = sums[..., :width], sums[..., width:]
            return statistic(first) - statistic(second)

        both = np.concatenate([mine[at], theirs[there]], axis=1)
        return resampled_statistic(both, clusters[at].tolist(), apart)

    def _counts_by_place(self, value: Sums) -> tuple[Integers, Floats, Integers]:
        """Return places, the counts of a statistic summed over repeats, and clusters."""
        names = [name for pair in value.pairs for name in pair]
        order = self._order()
        columns = [np.nan_to_num(self._column(name)) for name in names]
        in_order = np.array(self._place, dtype=np.int64)[order]
        places, first, index = np.unique(in_order, return_index=True, return_inverse=True)
        sums = np.zeros((len(places), len(names)))
        np.add.at(sums, index, np.stack(columns, axis=1))
        return places, sums, self.clusters()[first]

    def difference(self, other: "RecordScores", metric: Metric) -> Estimate:
        """Estimate the paired difference of a mean metric to `other`, over shared records."""
        if isinstance(metric.value, Sums):
            return self._difference_of_sums(other, metric.value)
        places, mine, clusters = self.by_place(metric.name)
        others, theirs, _ = other.by_place(metric.name)
        _, at, there = np.intersect1d(places, others, assume_unique=True, return_indices=True)
        return clustered_difference(
            mine[at],
            theirs[there],
            clusters[at],
            bounds=metric.bounds,
            resampled=metric.inference.resampled,
        )

    def by_repeat(self, metric: Metric) -> list[float | None]:
        """Return the mean of a metric in each repeat, in order; None where no record has it."""
        values, repeats = self._column(metric.name), self._repeat.numbers()[self._order()]
        of_each = [values[repeats == repeat] for repeat in np.unique(repeats)]
        return [None if np.isnan(found).all() else float(np.nanmean(found)) for found in of_each]

    def members(self, breakdown: str) -> dict[str, NDArray[np.bool_]]:
        """Return which scored records each group of a breakdown has, in the order of `values`."""
        ordered = self._in_order(self._members.get(breakdown, RecordColumn()))
        return {group: ordered == code for group, code in self._groups.get(breakdown, {}).items()}

    def values(self, metric: Metric) -> Floats:
        """Return the values of a mean metric, NaN where a record has none."""
        return self._column(metric.name)

    def clusters(self) -> Integers:
        """Return the numbers of the records' sessions, in the order of `values`."""
        return np.array(self._cluster, dtype=np.int64)[self._order()]

    def bounds(self, metric: Metric, estimate: Estimate) -> tuple[float, float] | None:
        """Return the metric's value if every unscored record had scored worst, and best."""
        # What a record adds to a ratio is not limited.
        if estimate.value is None or isinstance(metric.value, _UNBOUNDED):
            return None
        heard, whole = estimate.value * estimate.n, estimate.n + self.unscored
        limits = metric.lowest, metric.highest
        worst, best = limits[::-1] if metric.lower_is_better else limits
        return (heard + worst * self.unscored) / whole, (heard + best * self.unscored) / whole

    def by_place(self, name: str) -> tuple[Integers, Floats, Integers]:
        """Return place, mean over repeats, and cluster of the records with a value, by place."""
        column = self._columns.get(name, RecordColumn()).numbers()
        rows = np.flatnonzero(~np.isnan(column))
        places = np.array(self._place, dtype=np.int64)[rows]
        order = np.argsort(places, kind="stable")
        found, first = np.unique(places[order], return_index=True)
        means = column[rows][order]
        if len(found) < len(rows):
            # Several repeats; one by one, as any other mean is taken, to the last digit.
            means = np.array([part.mean() for part in np.split(means, first[1:])])
        return found, means, np.array(self._cluster, dtype=np.int64)[rows[order[first]]]

    def _order(self) -> Integers:
        return np.lexsort((self._repeat.numbers(), np.array(self._place, dtype=np.int64)))

    def _column(self, name: str) -> Floats:
        return self._in_order(self._columns.get(name, RecordColumn()))

    def _in_order(self, column: "RecordColumn") -> Floats:
        values = np.full(len(self._place), np.nan)
        values[: len(column)] = column.numbers()
        ordered: Floats = values[self._order()]
        return ordered

    def _weighted(self, weights: Mapping[str, float]) -> Floats:
        total = np.zeros(len(self._place))
        for name, weight in weights.items():
            total += weight * np.nan_to_num(self._column(name))
        return total


def _statistic_of(value: Sums) -> Statistic:
    if isinstance(value, LargestExcess):
        return excess_of_ratios
    if isinstance(value, HarmonicMean):
        return harmonic_of_ratios
    sizes = [len(group) for group in value.groups]
    return lambda sums: mean_of_ratios(sums, sizes)


def count_failure(board: RecordScores, outcome: str) -> None:
    """Count a failed prediction by its kind; kinds without a response are unscored."""
    board.failed_predictions[outcome] += 1
    if outcome not in FAILURES:
        board.unscored += 1


_BYTES, _FLOATS = "B", "d"
# The byte of a record without a number.
_NOTHING = 255
# The byte of each number that fits into one, whether it comes as 3 or as 3.0.
_SMALL: dict[float, int] = {number: number for number in range(_NOTHING)}


class RecordColumn:
    """One number a record, or none; whole ones below 255 take a byte each until another comes."""

    def __init__(self) -> None:
        self._numbers: array[Any] = array(_BYTES)
        self._narrow = True

    def __len__(self) -> int:
        return len(self._numbers)

    def put(self, place: int, number: float) -> None:
        """Set the number at `place`, behind all that were set; those between have none."""
        gap = place - len(self._numbers)
        if gap:
            self._numbers.extend([_NOTHING if self._narrow else math.nan] * gap)
        if self._narrow:
            byte = _SMALL.get(number)
            if byte is not None:
                self._numbers.append(byte)
                return
            self._numbers, self._narrow = array(_FLOATS, self.numbers()), False
        self._numbers.append(number)

    def numbers(self) -> Floats:
        """Return what was set, shape (len(self),); NaN where a record has no number."""
        numbers = np.array(self._numbers, dtype=np.float64)
        if self._narrow:
            numbers[numbers == _NOTHING] = np.nan
        return numbers
