"""How far a judge can be trusted: its recorded verdicts against people's labels, rubric by rubric,
never pooled.

People disagree, too: their agreement with each other stands beside the judge's as what can be
reached at all. A rubric is binary where its scale has two values; the last one is the positive one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
from alps.calibration.gates import FAIL, GATES, LIMITS, PASS, Gates, hold
from alps.calibration.labels import LabelSet, Value, Verdicts
from alps.calibration.matrix import Columns, columns_of, mean_kappa, pair_figures, rate, truth_of
from alps.errors import UsageError
from alps.judges.base import fingerprint_id
from alps.stats.agreement import krippendorff, pair_estimates, pair_table, rater_estimates
from alps.stats.annotators import alignment, alternative_annotator, leave_one_out, self_agreement
from alps.stats.bootstrap import Estimate, Floats, clustered_mean
from alps.stats.intervals import clustered_indices, clustered_rates, confusion, selective_threshold

__all__ = [
    "FAIL",
    "LIMITS",
    "PASS",
    "Gates",
    "RubricReport",
    "calibrate",
    "report_rows",
    "truth_of",
]


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
        details: What is not one figure: `particulars`, `reliability`, `selective`, `base_rates`,
            `references`, `aligned`, `leave_one_out`, `alternative_annotator`, `heterogeneity`,
            `system_ranking`, `length_preference`, `at_threshold` where a scale says what is
            accepted, and `acceptance` and `known_wrong` of items that were made right or wrong on
            purpose.
        verdict: `pass`, `limits` or `fail`.
        reasons: What keeps it from a pass.
    """

    rubric: str
    kind: str
    counts: Mapping[str, int]
    figures: Mapping[str, Estimate]
    details: Mapping[str, Any]
    verdict: str
    reasons: tuple[str, ...]

    def row(self) -> dict[str, Any]:
        """Return the report as it stands in `calibration.json`."""
        figures = {name: estimate.row for name, estimate in self.figures.items()}
        said = {"verdict": self.verdict, "reasons": list(self.reasons)}
        return {"kind": self.kind, **self.counts, **figures, **self.details, **said}

    def limited(self, *reasons: str) -> "RubricReport":
        """Return the report with further limits, with any of which it is no pass."""
        verdict = LIMITS if reasons and self.verdict == PASS else self.verdict
        return replace(self, verdict=verdict, reasons=(*self.reasons, *reasons))


def calibrate(
    labels: LabelSet, verdicts: Verdicts, *, gates: Gates = GATES, seed: int = 0, draws: int = 2_000
) -> list[RubricReport]:
    """Report on a judge, one rubric after the other.

    Rubrics that it said nothing about are left out.

    Raises:
        UsageError: If no item has both a verdict and a label of anybody.
    """
    if not any(labels.labels_of(item) for item in verdicts.by_item if item in labels.items):
        if not verdicts.by_item:
            raise UsageError(
                f"judge={verdicts.judge}: gave no verdict, so there is nothing to compare with people"
            )
        said = f"judge={verdicts.judge}: none of its {len(verdicts.by_item):,} verdicts is on a labelled item"
        raise UsageError(f"{said}: compare the item ids of verdicts and labels")
    columns = {rubric: columns_of(labels, rubric, verdicts) for rubric in labels.rubrics}
    return [
        _report(rubric, data, gates, seed=seed, draws=draws)
        for rubric, data in columns.items()
        if data.items
    ]


def report_rows(
    reports: Sequence[RubricReport], verdicts: Verdicts, labels: LabelSet
) -> dict[str, Any]:
    """Return a calibration as it stands in `calibration.json`."""
    fingerprint = {"judge": verdicts.judge, "verdicts": verdicts.sha256}
    return {
        "judge": verdicts.judge,
        "fingerprint": fingerprint_id(fingerprint),
        "labels": labels.sha256,
        "rubrics": {report.rubric: report.row() for report in reports},
    }


def _report(rubric: str, data: Columns, gates: Gates, *, seed: int, draws: int) -> RubricReport:
    counts = {
        "n": len(data.parsed),
        "unparsed": len(data.heard) - len(data.parsed),
        "unlabelled": len(data.items) - len(data.heard),
    }
    resampling: dict[str, Any] = {"seed": seed, "draws": draws}
    details = particulars(data, **resampling)
    details["reliability"] = reliability(data)
    if (kinds := acceptance(data)) is not None:
        details["acceptance"] = kinds
    if not data.parsed:
        reasons = ("no item has both a label and a verdict",)
        return RubricReport(rubric, data.scale.kind, counts, {}, details, FAIL, reasons)
    figures = _agreement(data, **resampling)
    if data.binary:
        more, cells = _binary(data, **resampling)
        figures, counts = {**figures, **more}, {**counts, **cells}
    figures |= _people(data, **resampling)
    if (same := agreement_with_itself(data)) is not None:
        figures["self_agreement"] = same
    details |= {"base_rates": _base_rates(data), "references": references(data, **resampling)}
    details |= _against_people(data, gates, **resampling)
    details["heterogeneity"] = heterogeneity(data, seed=seed)
    found = {
        "at_threshold": _at_threshold(data),
        "known_wrong": known_wrong(data),
        "system_ranking": system_ranking(data),
        "length_preference": length_preference(data, **resampling),
        "selective": selective(data),
    }
    details |= {name: part for name, part in found.items() if part is not None}
    verdict, why = hold(data, figures, counts, details, gates)
    return RubricReport(rubric, data.scale.kind, counts, figures, details, verdict, why)


def _agreement(data: Columns, *, seed: int, draws: int) -> dict[str, Estimate]:
    truth, said = [data.truth[n] for n in data.parsed], [data.judge[n] for n in data.parsed]
    found = pair_estimates(
        truth, said, data.scale, data.clusters_of(data.parsed), seed=seed, draws=draws
    )
    if data.scale.kind != "nominal":
        found["kappa"] = found.pop("kappa_quadratic")
        found.pop("kappa_linear")
    return found


def _binary(data: Columns, *, seed: int, draws: int) -> tuple[dict[str, Estimate], dict[str, int]]:
    """Return the figures of a binary rubric, clustered and as of independent items, and the cells
    they stand on.
    """
    positive = data.scale.values[-1]
    truth = [data.truth[n] == positive for n in data.heard]
    said = [None if data.judge[n] is None else data.judge[n] == positive for n in data.heard]
    table = confusion(truth, said)
    alone, counted = table.rates(), table.unparsed_as_wrong().rates()
    rates = dict(alone)
    if data.grouped:
        rates = clustered_rates(truth, said, data.clusters_of(data.heard))
    for name in ("sensitivity", "specificity"):
        rates |= {f"{name}_unclustered": alone[name], f"{name}_unparsed_wrong": counted[name]}
    cells = {"tp": table.tp, "fn": table.fn, "fp": table.fp, "tn": table.tn}
    people, judge = (
        [side[n] == positive for n in data.parsed] for side in (data.truth, data.judge)
    )
    indices = clustered_indices(
        people, judge, data.clusters_of(data.parsed), seed=seed, draws=draws
    )
    return {**rates, **indices}, cells


def _at_threshold(data: Columns) -> dict[str, Any] | None:
    """Return the cells and rates of accepting or not, on a scale of more than two values that says
    what is accepted.
    """
    if data.binary or not data.accepted:
        return None
    pairs = [
        (data.truth[n] in data.accepted, data.judge[n] in data.accepted, data.clusters[n])
        for n in data.parsed
    ]
    table = confusion([truth for truth, _, _ in pairs], [said for _, said, _ in pairs])
    found: dict[str, Any] = {
        "accepted": [value for value in data.scale.values if value in data.accepted]
    }
    found |= {"tp": table.tp, "fn": table.fn, "fp": table.fp, "tn": table.tn}
    for name, wanted in (("sensitivity", True), ("specificity", False)):
        of_class = [(said == wanted, cluster) for truth, said, cluster in pairs if truth == wanted]
        found[name] = rate(
            [right for right, _ in of_class], [cluster for _, cluster in of_class]
        ).row
    return found


def _people(data: Columns, *, seed: int, draws: int) -> dict[str, Estimate]:
    """Return how far people agree with each other, alone and with the judge among them."""
    found = {}
    together = [(*row, said) for row, said in zip(data.people, data.judge, strict=True)]
    for name, ratings in (("alpha_people", data.people), ("alpha_with_judge", together)):
        if len(data.names) > 1 and krippendorff(ratings, data.scale) is not None:
            found[name] = rater_estimates(
                ratings, data.scale, data.clusters, seed=seed, draws=draws
            )["alpha"]
    mean = mean_kappa(data.people, data.scale, data.clusters, seed=seed, draws=draws)
    return found if mean is None else {**found, "people_kappa": mean}


def _against_people(data: Columns, gates: Gates, *, seed: int, draws: int) -> dict[str, Any]:
    """Compare the judge with each annotator in turn, on the labels of the others."""
    if len(data.names) < 2:
        return {}
    people = np.column_stack(
        [data.numbers([row[n] for row in data.people]) for n in range(len(data.names))]
    )
    judge = data.numbers(data.judge)
    shares = alignment(people, judge, data.clusters)
    found: dict[str, Any] = {
        "aligned": {name: getattr(shares, name).row for name in ("full", "partial", "none")}
    }
    alone = leave_one_out(people, judge, data.clusters)
    found["leave_one_out"] = {name: getattr(alone, name).row for name in ("everyone", "judge")}
    if len(data.names) > 2:
        score: Any = "accuracy" if data.scale.kind == "nominal" else "rmse"
        test = alternative_annotator(
            people, judge, data.clusters, epsilon=gates.epsilon, score=score, seed=seed, draws=draws
        )
        said = {
            "omega": test.omega,
            "rho": test.rho.row,
            "epsilon": test.epsilon,
            "status": test.status,
        }
        found["alternative_annotator"] = said
    return found


def _base_rates(data: Columns) -> dict[str, dict[str, float]]:
    def shares(labels: Sequence[Value | None]) -> dict[str, float]:
        counts = Counter(labels[n] for n in data.parsed)
        return {str(value): counts[value] / len(data.parsed) for value in data.scale.values}  # type: ignore[index]

    return {"people": shares(data.truth), "judge": shares(data.judge)}


PAIRS = 15


def particulars(data: Columns, *, seed: int, draws: int) -> dict[str, Any]:
    """Return clusters, scale, confusion, pairs of raters and labelled items as they stand in
    `calibration.json`.

    A labelled item is a list of its id, its cluster, what people say, what the judge says, and the
    mean of the people's labels, which is there even where they don't settle the item. Items made
    right or wrong on purpose are not listed:
    nothing may be corrected by them. `sample` says how the items were drawn; nothing is known of
    that here.
    """
    values = list(data.scale.values)
    made = any(item.kind is not None for item in data.items)
    return {
        "clusters": len(set(data.clusters)),
        "scale": {"kind": data.scale.kind, "values": values},
        "confusion": {"values": values, "counts": _counts(data)},
        "pairs": _pairs(data, seed=seed, draws=draws),
        "labelled": [
            list(row)
            for row in zip(
                [item.item_id for item in data.items],
                data.clusters,
                data.truth,
                data.judge,
                data.means,
                strict=True,
            )
            if not made
        ],
        "sample": None,
    }


def _counts(data: Columns) -> list[list[int]]:
    table = pair_table(
        [data.truth[n] for n in data.parsed], [data.judge[n] for n in data.parsed], data.scale
    )
    return [[int(count) for count in row] for row in table]


def _pairs(data: Columns, *, seed: int, draws: int) -> list[dict[str, Any]]:
    """Return the kappas of the judge with people and of people with each other, of the pairs with
    most in common.

    After them come pairs with labels that are no single person's, which say so: `single` is false.
    """
    columns = {name: [row[place] for row in data.people] for place, name in enumerate(data.names)}
    given = {
        name: {n for n, label in enumerate(column) if label is not None}
        for name, column in columns.items()
    }
    said = {n for n, label in enumerate(data.judge) if label is not None}
    alone = [((data.judge_name, name, True), len(said & given[name])) for name in data.names]
    both = [
        ((one, other, False), len(given[one] & given[other]))
        for one, other in combinations(data.names, 2)
    ]
    chosen = [
        pair
        for group in (alone, both)
        for pair, shared in sorted(group, key=lambda found: -found[1])[:PAIRS]
        if shared
    ]
    names = list(data.beside)
    derived = [(data.judge_name, name, True) for name in names] + [
        (*pair, False) for pair in combinations(names, 2)
    ]
    columns |= {name: list(column) for name, column in data.beside.items()}
    raters = [
        (data.judge if judge else columns[one], columns[other])
        for one, other, judge in [*chosen, *derived]
    ]
    found = pair_figures(raters, data.scale, ["kappa"], data.clusters, seed=seed, draws=draws)
    return [
        {
            "one": one,
            "other": other,
            "judge": judge,
            "single": place < len(chosen),
            "kappa": figures["kappa"].row,
        }
        for place, ((one, other, judge), figures) in enumerate(
            zip([*chosen, *derived], found, strict=True)
        )
    ]


BINS = 10
RISK, FAILURE = 0.15, 0.1
"""Of selective use: the highest acceptable share of disagreements, and the probability that the
bound does not hold.
"""


def reliability(data: Columns) -> dict[str, Any]:
    """Return how often people agree to what the judge says, in bins of its probability, else of its
    verdict.

    Probabilities count where most labelled items of a binary rubric have one; `calibration_error`
    is then the mean distance of probability and people's share over the bins, weighted by their
    items. Labels without a mean (three names or more) leave no bins.
    """
    likely = [n for n in data.heard if data.verdicts[n].probability is not None]
    if data.binary and len(likely) > len(data.heard) / 2:
        sure = _probabilities(data, likely)
        places = np.minimum((sure * BINS).astype(int), BINS - 1)
        bins = [
            _bin(data, np.array(likely)[places == b], sure[places == b]) for b in np.unique(places)
        ]
        error = sum(one["n"] * abs(one["judge"] - one["people"]) for one in bins) / len(likely)
        return {"by": "probability", "bins": bins, "calibration_error": error}
    bins = []
    for value in data.scale.values if data.measured else ():
        chosen = [n for n in data.parsed if data.judge[n] == value]
        if chosen:
            said = data.numbers([data.judge[n] for n in chosen])
            bins.append(_bin(data, chosen, said))
    return {"by": "verdict", "bins": bins}


def selective(data: Columns) -> dict[str, Any] | None:
    """Return from which confidence the judge may be believed.

    None where verdicts have no probabilities.

    Confidence is the greater one of the probability and its complement. Where no threshold keeps
    the promise, `reason` stands in the place of the numbers.
    """
    sure = [n for n in data.parsed if data.verdicts[n].probability is not None]
    if not data.binary or not sure:
        return None
    likely = _probabilities(data, sure)
    wrong = np.array([data.judge[n] != data.truth[n] for n in sure], dtype=np.float64)
    found = selective_threshold(np.maximum(likely, 1 - likely), wrong, risk=RISK, failure=FAILURE)
    promised = {"risk": RISK, "failure": FAILURE}
    if found is None:
        return {
            "n": len(sure),
            **promised,
            "reason": f"no confidence keeps disagreements at or under {RISK:g}",
        }
    return {**asdict(found), **promised}


def agreement_with_itself(data: Columns) -> Estimate | None:
    """Estimate how often two of the judge's draws on an item agree; None where no item has two."""
    repeated = [
        n
        for n, verdict in enumerate(data.verdicts)
        if sum(said is not None for said in verdict.draws) > 1
    ]
    if not repeated:
        return None
    width = max(len(data.verdicts[n].draws) for n in repeated)
    codes = np.full((len(repeated), width), np.nan)
    for row, n in enumerate(repeated):
        said = data.scale.codes(data.verdicts[n].draws)
        codes[row, : len(said)] = np.where(said >= 0, said, np.nan)
    return self_agreement(codes, data.clusters_of(repeated))


def _probabilities(data: Columns, places: Sequence[int]) -> Floats:
    return np.array([data.verdicts[n].probability for n in places], dtype=np.float64)


def _bin(data: Columns, places: Sequence[int], said: Floats) -> dict[str, Any]:
    truth = data.numbers([data.truth[n] for n in places])
    clusters = data.clusters_of(places)
    if data.binary:
        people = rate([bool(value) for value in truth], clusters)
    else:
        ends = float(data.scale.numbers.min()), float(data.scale.numbers.max())
        people = clustered_mean(truth, clusters, bounds=ends)
    bounds = {"low": people.low, "high": people.high}
    return {"judge": float(said.mean()), "people": people.value, **bounds, "n": len(places)}
