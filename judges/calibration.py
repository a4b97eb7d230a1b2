"""How far a judge can be trusted: its recorded verdicts against people's labels, rubric by rubric,
never pooled.

People disagree, too: their agreement with each other stands beside the judge's as what can be
reached at all. A rubric is binary where its scale has two values; the last one is the positive one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from alps.errors import UsageError
from alps.judges.acceptance import acceptance, known_wrong
from alps.judges.base import fingerprint_id
from alps.judges.certainty import agreement_with_itself, reliability, selective
from alps.judges.columns import Columns, columns_of, truth_of
from alps.judges.gates import FAIL, GATES, LIMITS, PASS, Gates, hold
from alps.judges.heterogeneity import heterogeneity, length_preference, system_ranking
from alps.judges.labels import LabelSet, Value, Verdicts
from alps.judges.pair_figures import mean_kappa, rate
from alps.judges.particulars import particulars
from alps.judges.reference import references
from alps.stats.agreement import krippendorff, pair_estimates, rater_estimates
from alps.stats.annotators import alignment, alternative_annotator, leave_one_out
from alps.stats.bootstrap import Estimate
from alps.stats.intervals import clustered_indices, clustered_rates, confusion

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
