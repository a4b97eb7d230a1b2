"""Reports on a judge: its verdicts against people's labels, rubric by rubric, never pooled.

How far people agree with each other is reported, too, as what can be reached at all. A rubric is
binary where its scale has two values; the last one is the positive one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from alps.calibration.baselines import references
from alps.calibration.bias import (
    acceptance,
    heterogeneity,
    known_wrong,
    length_preference,
    system_ranking,
)
from alps.calibration.labels import LabelSet, Verdicts
from alps.calibration.matrix import LabelMatrix, label_matrix, mean_kappa, pair_figures, rate
from alps.calibration.parts import (
    AtThreshold,
    Bin,
    Confusion,
    Details,
    RaterPair,
    Reliability,
    Selective,
    plain,
)
from alps.calibration.rows import Value
from alps.errors import UsageError
from alps.judges.base import fingerprint_id
from alps.stats.agreement import krippendorff, pair_estimates, pair_table, rater_estimates
from alps.stats.annotators import (
    alignment,
    alternative_annotator,
    leave_one_out,
    self_agreement,
)
from alps.stats.bootstrap import Estimate, Floats, clustered_mean
from alps.stats.intervals import (
    clustered_indices,
    clustered_rates,
    confusion,
    selective_threshold,
)

PASS, LIMITS, FAIL = "pass", "limits", "fail"
PAIRS = 15
BINS = 10
# Of selective use: the highest acceptable share of disagreements, and the probability that the
# bound does not hold.
RISK, FAILURE = 0.15, 0.1

_Labels = Sequence[Value | None]
# Two raters by name; None is the judge.
_Pair = tuple[str | None, str]


@dataclass(frozen=True)
class RubricReport:
    """What is known of a judge under one rubric; what is not defined is absent.

    Attributes:
        rubric: Its name.
        kind: Of its scale.
        counts: Items with a label and a verdict (`n`), `unparsed` ones, those that people do not
            settle (`unlabelled`), and where the judge was asked those that could not be asked about
            (`unheard`); `tp`, `fn`, `fp`, `tn` of two values.
        figures: Estimates by name, over the `n` items unless they say otherwise.
        details: What is not one figure.
        verdict: `pass`, `limits` or `fail`; `pass` before the gates are applied.
        reasons: What keeps it from a pass.
    """

    rubric: str
    kind: str
    counts: Mapping[str, int]
    figures: Mapping[str, Estimate]
    details: Details
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


def report_rows(
    reports: Sequence[RubricReport], verdicts: Verdicts, labels: LabelSet
) -> dict[str, Any]:
    """Return a calibration as it is in `calibration.json`."""
    fingerprint = {"judge": verdicts.judge, "verdicts": verdicts.sha256}
    return {
        "judge": verdicts.judge,
        "fingerprint": fingerprint_id(fingerprint),
        "labels": labels.sha256,
        "rubrics": {report.rubric: report.row() for report in reports},
    }


def label_matrices(labels: LabelSet, verdicts: Verdicts) -> dict[str, LabelMatrix]:
    """Return the label matrix of each rubric that the judge said anything about.

    Raises:
        UsageError: If no item has both a verdict and a label of anybody.
    """
    if not verdicts.by_item:
        what = "gave no verdict, so there is nothing to compare with people"
        raise UsageError(f"judge={verdicts.judge}: {what}")
    if not any(labels.labels_of(item) for item in verdicts.by_item if item in labels.items):
        raise UsageError(
            f"judge={verdicts.judge}: none of its {len(verdicts.by_item):,} verdicts is on a "
            "labelled item: compare the item ids of verdicts and labels"
        )
    matrices = {rubric: label_matrix(labels, rubric, verdicts) for rubric in labels.rubrics}
    return {rubric: matrix for rubric, matrix in matrices.items() if matrix.items}


def report_on(
    rubric: str, matrix: LabelMatrix, *, epsilon: float, seed: int, draws: int
) -> RubricReport:
    """Report on a judge under one rubric, before any gate is applied.

    Args:
        rubric: Its name.
        matrix: Its items.
        epsilon: Of the alternative-annotator test.
        seed: Of the resampling.
        draws: Resamples.
    """
    resampling: dict[str, Any] = {"seed": seed, "draws": draws}
    counts = {
        "n": len(matrix.parsed),
        "unparsed": len(matrix.settled) - len(matrix.parsed),
        "unlabelled": len(matrix.items) - len(matrix.settled),
    }
    details = Details(
        clusters=len(set(matrix.clusters)),
        scale=matrix.scale,
        confusion=_confusion(matrix),
        pairs=_pairs(matrix, **resampling),
        labelled=_labelled(matrix),
        sample=None,
        reliability=reliability(matrix),
        acceptance=acceptance(matrix),
    )
    if not matrix.parsed:
        return RubricReport(rubric, matrix.scale.kind, counts, {}, details)
    figures = _agreement(matrix, **resampling)
    if matrix.binary:
        rates, cells = _binary(matrix, **resampling)
        figures, counts = {**figures, **rates}, {**counts, **cells}
    figures |= _people(matrix, **resampling)
    same = agreement_with_itself(matrix)
    if same is not None:
        figures["self_agreement"] = same
    details = replace(
        details,
        base_rates=_base_rates(matrix),
        references=references(matrix, **resampling),
        heterogeneity=heterogeneity(matrix, seed=seed),
        at_threshold=_at_threshold(matrix),
        known_wrong=known_wrong(matrix),
        system_ranking=system_ranking(matrix),
        length_preference=length_preference(matrix, **resampling),
        selective=selective(matrix),
        **_against_people(matrix, epsilon, **resampling),
    )
    return RubricReport(rubric, matrix.scale.kind, counts, figures, details)


def _labelled(matrix: LabelMatrix) -> list[list[Any]]:
    """Return the labelled items; none where any was made right or wrong on purpose."""
    # No score may be corrected by items that somebody made.
    if any(item.kind is not None for item in matrix.items):
        return []
    ids = [item.item_id for item in matrix.items]
    columns = (ids, matrix.clusters, matrix.truth, matrix.judge, matrix.means)
    return [list(row) for row in zip(*columns, strict=True)]


def _confusion(matrix: LabelMatrix) -> Confusion:
    parsed = matrix.parsed
    table = pair_table(matrix.truth_at(parsed), matrix.judge_at(parsed), matrix.scale)
    counts = [list(map(int, row)) for row in table]
    return Confusion(matrix.scale.values, counts)  # type: ignore[arg-type]


def _pairs(matrix: LabelMatrix, *, seed: int, draws: int) -> list[RaterPair]:
    """Return the kappas of the judge with people, and of people with each other.

    First those of the pairs that share most items, then of labels that are no single person's.
    """
    columns: dict[str, _Labels] = {}
    for n, name in enumerate(matrix.names):
        columns[name] = [row[n] for row in matrix.people]
    chosen = [
        *_most_shared([(None, name) for name in matrix.names], columns, matrix.judge),
        *_most_shared(list(combinations(matrix.names, 2)), columns, matrix.judge),
    ]
    columns |= matrix.not_single
    names = list(matrix.not_single)
    derived: list[_Pair] = [*((None, name) for name in names), *combinations(names, 2)]
    pairs = [*chosen, *derived]
    raters = [(_column(one, columns, matrix.judge), columns[other]) for one, other in pairs]
    figures = pair_figures(raters, matrix.scale, ["kappa"], matrix.clusters, seed=seed, draws=draws)
    rows = []
    for n, ((one, other), estimates) in enumerate(zip(pairs, figures, strict=True)):
        name, single = matrix.judge_name if one is None else one, n < len(chosen)
        rows.append(RaterPair(name, other, one is None, single, estimates["kappa"]))
    return rows


def _column(name: str | None, columns: Mapping[str, _Labels], judge: _Labels) -> _Labels:
    return judge if name is None else columns[name]


def _most_shared(
    pairs: Sequence[_Pair], columns: Mapping[str, _Labels], judge: _Labels
) -> list[_Pair]:
    """Return the pairs of raters that share most items."""
    shared: dict[_Pair, int] = {}
    for one, other in pairs:
        both = zip(_column(one, columns, judge), columns[other], strict=True)
        shared[one, other] = sum(None not in labels for labels in both)
    # A study with many annotators has thousands of pairs, which nobody can read.
    most = sorted(pairs, key=lambda pair: -shared[pair])[:PAIRS]
    return [pair for pair in most if shared[pair]]


def _agreement(matrix: LabelMatrix, *, seed: int, draws: int) -> dict[str, Estimate]:
    parsed = matrix.parsed
    figures = pair_estimates(
        matrix.truth_at(parsed),
        matrix.judge_at(parsed),
        matrix.scale,
        matrix.clusters_of(parsed),
        seed=seed,
        draws=draws,
    )
    if matrix.scale.kind != "nominal":
        # On an ordered scale a near miss is no full disagreement.
        figures["kappa"] = figures.pop("kappa_quadratic")
        figures.pop("kappa_linear")
    return figures


def _binary(
    matrix: LabelMatrix, *, seed: int, draws: int
) -> tuple[dict[str, Estimate], dict[str, int]]:
    """Return the figures of a binary rubric, clustered and not, and its confusion table."""
    positive = matrix.scale.values[-1]
    truth = [value == positive for value in matrix.truth_at(matrix.settled)]
    verdicts = matrix.judge_at(matrix.settled)
    judge = [None if value is None else value == positive for value in verdicts]
    table = confusion(truth, judge)
    alone, counted = table.rates(), table.unparsed_as_wrong().rates()
    rates = dict(alone)
    if matrix.grouped:
        rates = clustered_rates(truth, judge, matrix.clusters_of(matrix.settled))
    for name in ("sensitivity", "specificity"):
        rates |= {f"{name}_unclustered": alone[name], f"{name}_unparsed_wrong": counted[name]}
    people = [value == positive for value in matrix.truth_at(matrix.parsed)]
    parsed = [value == positive for value in matrix.judge_at(matrix.parsed)]
    clusters = matrix.clusters_of(matrix.parsed)
    indices = clustered_indices(people, parsed, clusters, seed=seed, draws=draws)
    cells = {"tp": table.tp, "fn": table.fn, "fp": table.fp, "tn": table.tn}
    return {**rates, **indices}, cells


def _at_threshold(matrix: LabelMatrix) -> AtThreshold | None:
    """Return cells and rates of accepting on more than two values, if a scale says what is."""
    if matrix.binary or not matrix.accepted:
        return None
    parsed = matrix.parsed
    truth, judge = matrix.accepts(matrix.truth_at(parsed)), matrix.accepts(matrix.judge_at(parsed))
    table = confusion(truth, judge)
    accepted: list[Any] = [value for value in matrix.scale.values if value in matrix.accepted]
    rates = []
    for kind in (True, False):
        of_class = [n for n, label in enumerate(truth) if label == kind]
        clusters = matrix.clusters_of([parsed[n] for n in of_class])
        rates.append(rate([judge[n] == kind for n in of_class], clusters))
    return AtThreshold(accepted, table.tp, table.fn, table.fp, table.tn, *rates)


def _people(matrix: LabelMatrix, *, seed: int, draws: int) -> dict[str, Estimate]:
    """Return how far people agree with each other, alone and with the judge among them."""
    figures = {}
    scale, clusters = matrix.scale, matrix.clusters
    together = [(*row, value) for row, value in zip(matrix.people, matrix.judge, strict=True)]
    for name, ratings in (("alpha_people", matrix.people), ("alpha_with_judge", together)):
        # A figure that is not defined is left out.
        if len(matrix.names) > 1 and krippendorff(ratings, scale) is not None:
            estimates = rater_estimates(ratings, scale, clusters, seed=seed, draws=draws)
            figures[name] = estimates["alpha"]
    mean = mean_kappa(matrix.people, scale, clusters, seed=seed, draws=draws)
    return figures if mean is None else {**figures, "people_kappa": mean}


def _against_people(
    matrix: LabelMatrix, epsilon: float, *, seed: int, draws: int
) -> dict[str, Any]:
    """Compare the judge with each annotator in turn, on the labels of the others."""
    if len(matrix.names) < 2:
        return {}
    columns = zip(*matrix.people, strict=True)
    people = np.column_stack([matrix.numbers(column) for column in columns])
    judge = matrix.numbers(matrix.judge)
    alone = leave_one_out(people, judge, matrix.clusters)
    parts: dict[str, Any] = {
        "aligned": alignment(people, judge, matrix.clusters),
        "leave_one_out": {"everyone": alone.everyone, "judge": alone.judge},
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
            draws=draws,
        )
    return parts


def _base_rates(matrix: LabelMatrix) -> dict[str, dict[str, float]]:
    rates = {}
    for who, labels in (("people", matrix.truth), ("judge", matrix.judge)):
        counts = Counter(labels[n] for n in matrix.parsed)
        shares = {}
        for value in matrix.scale.values:
            shares[str(value)] = counts[value] / len(matrix.parsed)  # type: ignore[index]
        rates[who] = shares
    return rates


def reliability(matrix: LabelMatrix) -> Reliability:
    """Return how often people agree to what the judge says, in bins of its probability or verdict.

    Probabilities count where most labelled items of a binary rubric have one; `calibration_error`
    is then the mean distance of probability and people's share over the bins, weighted by their
    items. Labels without a mean (three names or more) leave no bins.
    """
    likely = [n for n in matrix.settled if matrix.verdicts[n].probability is not None]
    # Probabilities of a minority would leave most items out of the diagram.
    if matrix.binary and len(likely) > len(matrix.settled) / 2:
        return _by_probability(matrix, likely)
    bins = []
    for value in matrix.scale.values if matrix.measured else ():
        items = [n for n in matrix.parsed if matrix.judge[n] == value]
        if items:
            bins.append(_bin(matrix, items, matrix.numbers(matrix.judge_at(items))))
    return Reliability("verdict", bins)


def _by_probability(matrix: LabelMatrix, likely: Sequence[int]) -> Reliability:
    bins = []
    probabilities = _probabilities(matrix, likely)
    of_bin = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    for b in np.unique(of_bin):
        items = np.array(likely)[of_bin == b]
        bins.append(_bin(matrix, items, probabilities[of_bin == b]))
    error = sum(one.n * abs(one.judge - (one.people or 0.0)) for one in bins) / len(likely)
    return Reliability("probability", bins, error)


def _bin(matrix: LabelMatrix, items: Sequence[int], judge: Floats) -> Bin:
    truth, clusters = matrix.numbers(matrix.truth_at(items)), matrix.clusters_of(items)
    if matrix.binary:
        people = rate([bool(value) for value in truth], clusters)
    else:
        ends = float(matrix.scale.numbers.min()), float(matrix.scale.numbers.max())
        people = clustered_mean(truth, clusters, bounds=ends)
    return Bin(float(judge.mean()), people.value, people.low, people.high, len(items))


def selective(matrix: LabelMatrix) -> Selective | None:
    """Return from which confidence the judge may be believed; None without probabilities.

    Confidence is the greater one of the probability and its complement.
    """
    sure = [n for n in matrix.parsed if matrix.verdicts[n].probability is not None]
    if not matrix.binary or not sure:
        return None
    likely = _probabilities(matrix, sure)
    wrong = 1 - np.array(matrix.agrees_at(sure), dtype=np.float64)
    threshold = selective_threshold(
        np.maximum(likely, 1 - likely), wrong, risk=RISK, failure=FAILURE
    )
    return Selective(len(sure), RISK, FAILURE, threshold)


def _probabilities(matrix: LabelMatrix, items: Sequence[int]) -> Floats:
    return np.array([matrix.verdicts[n].probability for n in items], dtype=np.float64)


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
    return self_agreement(labels, matrix.clusters_of(list(draws)))
