"""Reports on a judge: its verdicts against people's labels, rubric by rubric, never pooled.

How far people agree with each other is reported, too, as what can be reached at all. A rubric is
binary where its scale has two values; the last one is the positive one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np

from alps.ext.audits.intervals import (
    Threshold,
    clustered_indices,
    clustered_rates,
    confusion,
    selective_threshold,
)
from alps.ext.calibration.agreement import (
    LabelScale,
    pair_estimates,
    pair_features,
    pair_table,
    rater_estimates,
)
from alps.ext.calibration.annotators import (
    Alignment,
    AlternativeAnnotator,
    alignment,
    alternative_annotator,
    leave_one_out,
    self_agreement,
)
from alps.ext.calibration.controls import (
    Acceptance,
    Estimates,
    GroupTest,
    LengthPreference,
    Reference,
    SystemRanking,
    acceptance,
    heterogeneity,
    known_wrong,
    length_preference,
    references,
    system_ranking,
)
from alps.ext.calibration.label_rows import Value
from alps.ext.calibration.labels import LabelSet, Verdicts
from alps.ext.calibration.matrix import (
    LabelMatrix,
    Labels,
    at,
    mean_kappa,
    most_shared,
    rate,
    table_figures,
)
from alps.judges.base import fingerprint_id
from alps.stats.bootstrap import Estimate, Floats, clustered_mean

PASS, LIMITS, FAIL = "pass", "limits", "fail"
BINS = 10
# Of selective use (Jung et al., 2407.18370): the highest acceptable share of disagreements, and the
# probability that the bound does not hold.
RISK, FAILURE = 0.15, 0.1

# Two raters by name; None is the judge.
_Pair = tuple[str | None, str]


@dataclass(frozen=True)
class ConfusionRow:
    """How often people and the judge gave which two values; a row for each value of people's."""

    values: Sequence[Value]
    counts: Sequence[Sequence[int]]


@dataclass(frozen=True)
class RaterPair:
    """The kappa of two raters, one of which may be the judge.

    `single` are two that gave labels of their own, not derived from those of several people.
    """

    one: str
    other: str
    judge: bool
    single: bool
    kappa: Estimate


@dataclass(frozen=True)
class ReliabilityBin:
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
    bins: Sequence[ReliabilityBin]
    calibration_error: float | None = None


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
        return f"no confidence threshold keeps the share of disagreements at {self.risk:g} or less"

    @property
    def row(self) -> dict[str, Any]:
        """The outcome as files have it."""
        promised = {"risk": self.risk, "failure": self.failure}
        if self.threshold is None:
            return {"n": self.n, **promised, "reason": self.reason}
        return {**vars(self.threshold), **promised}


@dataclass(frozen=True)
class ReportDetails:
    """What a report says beyond single figures; a part that is not defined is None.

    Attributes:
        clusters: How many clusters the items form.
        labelled: A row an item: its id, its cluster, what people say, what the judge says, and the
            mean of the people's labels, which is there even where they don't settle the item.
        sample: How the items were drawn, where that is known; null in the file where it is not.
        base_rates: How often people and the judge give each value.
        references: Trivial judges, and people, on the same items.
        leave_one_out: People, and the judge in a person's place, against all others.
        heterogeneity: Tests by system, language and length.
        known_wrong: The share of items made wrong on purpose that it accepts.
    """

    clusters: int
    scale: LabelScale
    confusion: ConfusionRow
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


@dataclass(frozen=True)
class RubricReport:
    """Metrics of a judge under one rubric; undefined ones are absent.

    Attributes:
        rubric: Its name.
        kind: Of its scale.
        counts: Items with a label and a verdict (`n`), `unparsed` ones, those that people do not
            settle (`unlabelled`; where nobody labelled some of them, `tied` are the others), and
            where the judge was asked those that could not be asked about (`unheard`); `tp`, `fn`,
            `fp`, `tn` of two values.
        figures: Estimates by name, over the `n` items unless they say otherwise.
        details: What is not one figure.
        verdict: `pass`, `limits` or `fail`; `pass` before the gates are applied.
        reasons: What keeps it from a pass.
    """

    rubric: str
    kind: str
    counts: Mapping[str, int]
    figures: Mapping[str, Estimate]
    details: ReportDetails
    verdict: str = PASS
    reasons: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """Return the report as it is in `calibration.json`."""
        outcome = {"verdict": self.verdict, "reasons": list(self.reasons)}
        parts = {**plain(self.figures), **plain(self.details)}
        return {"kind": self.kind, **self.counts, **parts, **outcome}

    def limited(self, *reasons: str) -> "RubricReport":
        """Return the report with further limits, with any of which it is no pass."""
        verdict = LIMITS if reasons and self.verdict == PASS else self.verdict
        return replace(self, verdict=verdict, reasons=(*self.reasons, *reasons))


def plain(part: Any) -> Any:
    """Return a part as JSON has it, without fields that are None and may be left out."""
    if isinstance(part, AlternativeAnnotator):
        # Powers and p-values of single people are too many to be read, and nothing reads them.
        part = {name: getattr(part, name) for name in ("omega", "rho", "epsilon", "status")}
    elif hasattr(part, "row"):
        return part.row
    elif is_dataclass(part):
        part = _fields(part)
    if isinstance(part, Mapping):
        return {name: plain(value) for name, value in part.items()}
    return [plain(value) for value in part] if isinstance(part, list | tuple) else part


def _fields(part: Any) -> dict[str, Any]:
    """Return the fields of a part; one that is None by default stands only where it is not."""
    values = {}
    for field in fields(part):
        value = getattr(part, field.name)
        if value is not None or field.default is not None:
            values[field.name] = value
    return values


def report_rows(
    reports: Sequence[RubricReport], verdicts: Verdicts, labels: LabelSet
) -> dict[str, Any]:
    """Return the rows of a calibration for `calibration.json`."""
    # A judge that was asked gets its own fingerprint later, see `bound`.
    fingerprint = {"judge": verdicts.judge, "verdicts": verdicts.sha256}
    return {
        "judge": verdicts.judge,
        "fingerprint": fingerprint_id(fingerprint),
        "labels": labels.sha256,
        "rubrics": {report.rubric: report.row() for report in reports},
    }


def report_on(rubric: str, matrix: LabelMatrix, *, epsilon: float, seed: int) -> RubricReport:
    """Report on a judge under one rubric, before any gate is applied.

    `epsilon` is that of the alternative-annotator test, `seed` that of the resampling.
    """
    counts = {
        "n": len(matrix.parsed),
        "unparsed": len(matrix.settled) - len(matrix.parsed),
        "unlabelled": len(matrix.items) - len(matrix.settled),
    }
    if len(matrix.tied) < counts["unlabelled"]:
        counts["tied"] = len(matrix.tied)
    details = ReportDetails(
        clusters=len(set(matrix.clusters)),
        scale=matrix.scale,
        confusion=_confusion(matrix),
        pairs=_pairs(matrix, seed=seed),
        labelled=_labelled(matrix),
        sample=None,
        reliability=reliability(matrix),
        acceptance=acceptance(matrix),
    )
    if not matrix.parsed:
        return RubricReport(rubric, matrix.scale.kind, counts, {}, details)
    figures = _agreement(matrix, seed=seed)
    if matrix.binary:
        rates, cells = _binary(matrix, seed=seed)
        figures, counts = {**figures, **rates}, {**counts, **cells}
    figures |= _people(matrix, seed=seed)
    same = agreement_with_itself(matrix)
    if same is not None:
        figures["self_agreement"] = same
    details = replace(
        details,
        base_rates=_base_rates(matrix),
        references=references(matrix, seed=seed),
        heterogeneity=heterogeneity(matrix, seed=seed),
        at_threshold=_at_threshold(matrix),
        known_wrong=known_wrong(matrix),
        system_ranking=system_ranking(matrix),
        length_preference=length_preference(matrix, seed=seed),
        selective=selective(matrix),
        **_against_people(matrix, epsilon, seed=seed),
    )
    return RubricReport(rubric, matrix.scale.kind, counts, figures, details)


def _labelled(matrix: LabelMatrix) -> list[list[Any]]:
    """Return the labelled items; none where any was made right or wrong on purpose."""
    # No score may be corrected by items that somebody made.
    rows: list[list[Any]] = []
    columns = (matrix.items, matrix.clusters, matrix.truth, matrix.judge, matrix.means)
    for item, *row in zip(*columns, strict=True):
        if item.kind is not None:
            return []
        rows.append([item.item_id, *row])
    return rows


def _confusion(matrix: LabelMatrix) -> ConfusionRow:
    table = pair_table(matrix.truth, matrix.judge, matrix.scale)
    return ConfusionRow(matrix.scale.values, table.astype(int).tolist())  # type: ignore[arg-type]


def _pairs(matrix: LabelMatrix, *, seed: int) -> list[RaterPair]:
    """Return the kappas of the judge with people, and of people with each other.

    First those of the pairs that share most items, then of labels that are no single person's.
    """
    judge: list[None] = [None]
    columns: dict[str | None, Labels] = {None: matrix.judge}
    # None stands for the judge: a person may have the same name.
    columns |= dict(zip(matrix.names, zip(*matrix.people, strict=True), strict=True))
    chosen = [
        *most_shared(product(judge, matrix.names), columns),
        *most_shared(combinations(matrix.names, 2), columns),
    ]
    for rater, labels in matrix.not_single.items():
        columns[rater] = labels
    names = list(matrix.not_single)
    pairs: list[_Pair] = [*chosen, *product(judge, names), *combinations(names, 2)]
    tables = [pair_features(columns[one], columns[other], matrix.scale) for one, other in pairs]
    figures = table_figures(tables, matrix.scale, ["kappa"], matrix.clusters, seed=seed)
    rows = []
    for n, ((one, other), estimates) in enumerate(zip(pairs, figures, strict=True)):
        name, single = matrix.judge_name if one is None else one, n < len(chosen)
        rows.append(RaterPair(name, other, one is None, single, estimates["kappa"]))
    return rows


def _agreement(matrix: LabelMatrix, *, seed: int) -> dict[str, Estimate]:
    parsed = matrix.parsed
    figures = pair_estimates(
        at(matrix.truth, parsed),
        at(matrix.judge, parsed),
        matrix.scale,
        at(matrix.clusters, parsed),
        seed=seed,
    )
    if matrix.scale.kind != "nominal":
        # On an ordered scale a near miss is no full disagreement.
        figures["kappa"] = figures.pop("kappa_quadratic")
        figures.pop("kappa_linear")
    if len(set(at(matrix.truth, parsed))) == 1:
        # It is 0 whatever the judge says: agreement is then all by chance.
        figures["kappa"] = Estimate(None, None, None, len(parsed))
    return figures


def _binary(matrix: LabelMatrix, *, seed: int) -> tuple[dict[str, Estimate], dict[str, int]]:
    """Return the figures of a binary rubric, clustered and not, and its confusion table."""
    settled, parsed, positive = matrix.settled, matrix.parsed, matrix.scale.values[-1]
    truth = (matrix.truth_codes[settled] == 1).tolist()
    judge = [value if value is None else value == positive for value in at(matrix.judge, settled)]
    # Papers print rates as if items were independent, and leaving out the unparsed ones flatters a
    # judge that often gives no verdict: both variants stand beside ours.
    table = confusion(truth, judge)
    alone, counted = table.rates(), table.unparsed_as_wrong().rates()
    rates = dict(alone)
    if len(set(matrix.clusters)) < len(matrix.clusters):
        rates = clustered_rates(truth, judge, at(matrix.clusters, settled))
    for name in ("sensitivity", "specificity"):
        rates |= {f"{name}_unclustered": alone[name], f"{name}_unparsed_wrong": counted[name]}
    people = (matrix.truth_codes[parsed] == 1).tolist()
    verdicts = (matrix.judge_codes[parsed] == 1).tolist()
    clusters = at(matrix.clusters, parsed)
    indices = clustered_indices(people, verdicts, clusters, seed=seed)
    cells = {"tp": table.tp, "fn": table.fn, "fp": table.fp, "tn": table.tn}
    return {**rates, **indices}, cells


def _at_threshold(matrix: LabelMatrix) -> AtThreshold | None:
    """Return cells and rates of accepting on more than two values, if a scale says what is."""
    if matrix.binary or not matrix.accepted:
        return None
    parsed = matrix.parsed
    truth, judge = (
        matrix.accepts(at(matrix.truth, parsed)),
        matrix.accepts(at(matrix.judge, parsed)),
    )
    table = confusion(truth, judge)
    accepted: list[Any] = [value for value in matrix.scale.values if value in matrix.accepted]
    rates = []
    for kind in (True, False):
        of_class = np.flatnonzero(np.array(truth) == kind)
        clusters = at(matrix.clusters, np.array(parsed)[of_class].tolist())
        rates.append(rate(np.array(judge)[of_class] == kind, clusters))
    return AtThreshold(accepted, table.tp, table.fn, table.fp, table.tn, *rates)


def _people(matrix: LabelMatrix, *, seed: int) -> dict[str, Estimate]:
    """Return how far people agree with each other, alone and with the judge among them."""
    figures = {}
    scale, clusters = matrix.scale, matrix.clusters
    together = [(*row, value) for row, value in zip(matrix.people, matrix.judge, strict=True)]
    if len(matrix.names) > 1:
        for name, ratings in (("alpha_people", matrix.people), ("alpha_with_judge", together)):
            alpha = rater_estimates(ratings, scale, clusters, seed=seed)["alpha"]
            if alpha.value is not None:  # a figure that is not defined is left out
                figures[name] = alpha
    mean = mean_kappa(matrix.people, scale, clusters, seed=seed)
    return figures if mean is None else {**figures, "people_kappa": mean}


def _against_people(matrix: LabelMatrix, epsilon: float, *, seed: int) -> dict[str, Any]:
    """Compare the judge with each annotator in turn, on the labels of the others."""
    if len(matrix.names) < 2:
        return {}
    columns = zip(*matrix.people, strict=True)
    people = np.column_stack([matrix.numbers(column) for column in columns])
    judge = matrix.numbers(matrix.judge)
    parts: dict[str, Any] = {
        "aligned": alignment(people, judge, matrix.clusters),
        "leave_one_out": leave_one_out(people, judge, matrix.clusters),
    }
    # Left out of two, an annotator would be compared with a single person.
    if len(matrix.names) > 2:
        parts["alternative_annotator"] = alternative_annotator(
            people,
            judge,
            matrix.clusters,
            epsilon=epsilon,
            score="accuracy" if matrix.scale.kind == "nominal" else "rmse",
            seed=seed,
        )
    return parts


def _base_rates(matrix: LabelMatrix) -> dict[str, dict[str, float]]:
    rates = {}
    parsed = matrix.parsed
    for who, labels in (("people", at(matrix.truth, parsed)), ("judge", at(matrix.judge, parsed))):
        counts = Counter(labels)
        shares = {}
        for value in matrix.scale.values:
            shares[str(value)] = counts[value] / len(parsed)  # type: ignore[index]
        rates[who] = shares
    return rates


def reliability(matrix: LabelMatrix) -> Reliability:
    """Return people's agreement with the judge, in bins of its probability or verdict.

    Probabilities count where most labelled items of a binary rubric have one; `calibration_error`
    is then the mean distance of probability and people's share over the bins, weighted by their
    items. Labels without a mean (three names or more) leave no bins.
    """
    likely = _with_probability(matrix, matrix.settled)
    # Probabilities of a minority would leave most items out of the diagram.
    if matrix.binary and len(likely) > len(matrix.settled) / 2:
        return _by_probability(matrix, likely)
    bins = []
    for value in matrix.scale.values if matrix.measured else ():
        items = [n for n in matrix.parsed if matrix.judge[n] == value]
        if items:
            bins.append(_bin(matrix, items, matrix.numbers(at(matrix.judge, items))))
    return Reliability("verdict", bins)


def _by_probability(matrix: LabelMatrix, likely: Sequence[int]) -> Reliability:
    bins = []
    probabilities = matrix.probabilities[likely]
    of_bin = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    for b in np.unique(of_bin):
        items = np.array(likely)[of_bin == b]
        bins.append(_bin(matrix, items, probabilities[of_bin == b]))
    error = sum(one.n * abs(one.judge - (one.people or 0.0)) for one in bins) / len(likely)
    return Reliability("probability", bins, error)


def _bin(matrix: LabelMatrix, items: Sequence[int], judge: Floats) -> ReliabilityBin:
    truth, clusters = matrix.numbers(at(matrix.truth, items)), at(matrix.clusters, items)
    if matrix.binary:
        people = rate(truth == 1, clusters)
    else:
        ends = float(matrix.scale.numbers.min()), float(matrix.scale.numbers.max())
        people = clustered_mean(truth, clusters, bounds=ends)
    return ReliabilityBin(float(judge.mean()), people.value, people.low, people.high, len(items))


def selective(matrix: LabelMatrix) -> Selective | None:
    """Return from which confidence the judge may be believed; None without probabilities.

    Confidence is the greater one of the probability and its complement.
    """
    sure = _with_probability(matrix, matrix.parsed)
    if not matrix.binary or not sure:
        return None
    likely = matrix.probabilities[sure]
    wrong = 1 - matrix.agrees_at(sure).astype(np.float64)
    threshold = selective_threshold(
        np.maximum(likely, 1 - likely), wrong, risk=RISK, failure=FAILURE
    )
    return Selective(len(sure), RISK, FAILURE, threshold)


def _with_probability(matrix: LabelMatrix, items: Sequence[int]) -> list[int]:
    return [n for n in items if matrix.verdicts[n].probability is not None]


def agreement_with_itself(matrix: LabelMatrix) -> Estimate | None:
    """Estimate how often two of the judge's draws on an item agree; None where no item has two."""
    draws = {}
    for n, verdict in enumerate(matrix.verdicts):
        if len(verdict.draws) - verdict.draws.count(None) > 1:
            draws[n] = matrix.scale.codes(verdict.draws)
    if not draws:
        return None
    labels = np.full((len(draws), max(map(len, draws.values()))), np.nan)
    for row, codes in enumerate(draws.values()):
        labels[row, : len(codes)] = np.where(codes >= 0, codes, np.nan)
    return self_agreement(labels, at(matrix.clusters, list(draws)))
