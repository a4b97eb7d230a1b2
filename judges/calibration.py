"""How far a judge can be trusted: its recorded verdicts against people's labels, rubric by rubric, never pooled.

People disagree, too: their agreement with each other stands beside the judge's as what can be reached at all. A rubric
is binary where its scale has two values; the last one is the positive one.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np

from alps.judges.base import fingerprint_id
from alps.judges.labels import Item, LabelSet, Scale, Value, Verdicts
from alps.stats.agreement import krippendorff, pair_estimates, rater_estimates
from alps.stats.annotators import alignment, alternative_annotator, leave_one_out
from alps.stats.bootstrap import Estimate, Floats
from alps.stats.intervals import clustered_rates, confusion

PASS, LIMITS, FAIL = "pass", "limits", "fail"


@dataclass(frozen=True)
class Gates:
    """What a judge must reach; every one of them can be set.

    Attributes:
        items: Labelled items of each class, below which a pass is a pass within limits.
        rate: What the lower bounds of sensitivity and specificity must reach.
        below_people: How far the judge's kappa may be below that of people with each other.
        omega: The share of annotators whom the judge can replace, which stands in for the former.
        unparsed: The largest share of verdicts that can't be parsed.
        heterogeneity: The smallest p of the hypothesis that the judge is as good on every system.
        epsilon: Of the alternative-annotator test.
    """

    items: int = 50
    rate: float = 0.75
    below_people: float = 0.10
    omega: float = 0.5
    unparsed: float = 0.02
    heterogeneity: float = 0.01
    epsilon: float = 0.2


@dataclass(frozen=True)
class RubricReport:
    """What is known of a judge under one rubric; figures that are not defined are absent.

    `figures` are estimates by name, `counts` the cells and numbers they stand on, `reasons` what keeps it from a pass.
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
        figures = {name: asdict(estimate) for name, estimate in self.figures.items()}
        said = {"verdict": self.verdict, "reasons": list(self.reasons)}
        return {"kind": self.kind, **self.counts, **figures, **self.details, **said}


@dataclass(frozen=True)
class _Data:
    """The labelled items of one rubric that a judge was asked about, in columns."""

    scale: Scale
    items: Sequence[Item]
    people: Sequence[tuple[Value | None, ...]]
    names: Sequence[str]
    truth: Sequence[Value | None]
    judge: Sequence[Value | None]
    clusters: Sequence[Hashable] = field(default_factory=tuple)

    def codes(self, labels: Sequence[Value | None]) -> Floats:
        """Return labels as numbers on the scale, NaN where there is none."""
        codes = self.scale.codes(labels).astype(np.float64)
        numbers = self.scale.numbers
        return np.array([numbers[int(code)] if code >= 0 else np.nan for code in codes])


def calibrate(
    labels: LabelSet, verdicts: Verdicts, *, gates: Gates = Gates(), seed: int = 0, draws: int = 2_000
) -> list[RubricReport]:
    """Report on a judge, one rubric after the other; rubrics that it said nothing about are left out."""
    reports = []
    for rubric in labels.rubrics:
        items = [item for item in labels.items_of(rubric) if item.item_id in verdicts.by_item]
        if items:
            reports.append(_report(rubric, _columns(labels, rubric, items, verdicts), gates, seed=seed, draws=draws))
    return reports


def report_rows(reports: Sequence[RubricReport], verdicts: Verdicts, labels: LabelSet) -> dict[str, Any]:
    """Return a calibration as it stands in `calibration.json`."""
    fingerprint = {"judge": verdicts.judge, "verdicts": verdicts.sha256}
    return {
        "judge": verdicts.judge,
        "fingerprint": fingerprint_id(fingerprint),
        "labels": labels.sha256,
        "rubrics": {report.rubric: report.row() for report in reports},
    }


def truth_of(labels: Mapping[str, Value], people: Sequence[str], derived: Sequence[str], scale: Scale) -> Value | None:
    """Return what people say of an item: the adjudicated label, else the majority; on numbers, a tie's lower median.

    None where there is no label, or a tie between names.
    """
    adjudicated = [labels[name] for name in derived if name in labels]
    if adjudicated:
        return adjudicated[0]
    given = [labels[name] for name in people if name in labels]
    counts = Counter(given).most_common()
    if not counts:
        return None
    if len(counts) == 1 or counts[0][1] > counts[1][1]:
        return counts[0][0]
    if scale.kind == "nominal":
        return None
    places = sorted(int(code) for code in scale.codes(given))
    return scale.values[int(median(places))]  # type: ignore[return-value]


def _columns(labels: LabelSet, rubric: str, items: Sequence[Item], verdicts: Verdicts) -> _Data:
    people, derived = labels.annotators_of(rubric), labels.annotators_of(rubric, derived=True)
    scale = labels.scales[rubric]
    rows = [labels.labels_of(item.item_id) for item in items]
    return _Data(
        scale=scale,
        items=items,
        people=[tuple(row.get(name) for name in people) for row in rows],
        names=people,
        truth=[truth_of(row, people, derived, scale) for row in rows],
        judge=[verdicts.by_item[item.item_id].value for item in items],
        clusters=[item.cluster or item.item_id for item in items],
    )


def _report(rubric: str, data: _Data, gates: Gates, *, seed: int, draws: int) -> RubricReport:
    heard = [n for n, (truth, said) in enumerate(zip(data.truth, data.judge, strict=True)) if truth is not None]
    parsed = [n for n in heard if data.judge[n] is not None]
    counts = {"n": len(parsed), "unparsed": len(heard) - len(parsed), "unlabelled": len(data.items) - len(heard)}
    if not parsed:
        return RubricReport(rubric, data.scale.kind, counts, {}, {}, FAIL, ("no item has both a label and a verdict",))
    resampling: dict[str, Any] = {"seed": seed, "draws": draws}
    figures = _agreement(data, parsed, **resampling)
    details: dict[str, Any] = {"base_rates": _base_rates(data, parsed)}
    if len(data.scale.values) == 2:
        more, cells = _binary(data, heard, **resampling)
        figures, counts = {**figures, **more}, {**counts, **cells}
    figures |= _people(data, **resampling)
    details |= _against_people(data, gates, **resampling)
    details["heterogeneity"] = _heterogeneity(data, parsed)
    reasons, verdict = _judge_the_judge(figures, counts, details, gates)
    return RubricReport(rubric, data.scale.kind, counts, figures, details, verdict, tuple(reasons))


def _agreement(data: _Data, parsed: Sequence[int], *, seed: int, draws: int) -> dict[str, Estimate]:
    truth, said = [data.truth[n] for n in parsed], [data.judge[n] for n in parsed]
    clusters = [data.clusters[n] for n in parsed]
    found = pair_estimates(truth, said, data.scale, clusters, seed=seed, draws=draws)
    if data.scale.kind != "nominal":
        found["kappa"] = found.pop("kappa_quadratic")
        found.pop("kappa_linear")
    return found


def _binary(data: _Data, heard: Sequence[int], *, seed: int, draws: int) -> tuple[dict[str, Estimate], dict[str, int]]:
    """Return the rates of a binary rubric, clustered and as of independent items, and the cells they stand on."""
    positive = data.scale.values[-1]
    truth = [data.truth[n] == positive for n in heard]
    said = [None if data.judge[n] is None else data.judge[n] == positive for n in heard]
    table = confusion(truth, said)
    rates = clustered_rates(truth, said, [data.clusters[n] for n in heard], seed=seed, draws=draws)
    alone = {f"{name}_unclustered": table.rates()[name] for name in ("sensitivity", "specificity")}
    counted = table.unparsed_as_wrong().rates()
    wrong = {f"{name}_unparsed_wrong": counted[name] for name in ("sensitivity", "specificity")}
    cells = {"tp": table.tp, "fn": table.fn, "fp": table.fp, "tn": table.tn}
    return {**rates, **alone, **wrong}, cells


def _people(data: _Data, *, seed: int, draws: int) -> dict[str, Estimate]:
    """Return how far people agree with each other, alone and with the judge among them."""
    if len(data.names) < 2:
        return {}
    found = {}
    together = [(*row, said) for row, said in zip(data.people, data.judge, strict=True)]
    for name, ratings in (("alpha_people", data.people), ("alpha_with_judge", together)):
        if krippendorff(ratings, data.scale) is not None:
            found[name] = rater_estimates(ratings, data.scale, data.clusters, seed=seed, draws=draws)["alpha"]
    best: Estimate | None = None
    for one, other in combinations(range(len(data.names)), 2):
        first, second = ([row[place] for row in data.people] for place in (one, other))
        pair = pair_estimates(first, second, data.scale, data.clusters, seed=seed, draws=draws)
        kappa = pair["kappa" if data.scale.kind == "nominal" else "kappa_quadratic"]
        best = kappa if kappa.value is not None and (best is None or kappa.n > best.n) else best
    return {**found, "people_kappa": best} if best is not None else found


def _against_people(data: _Data, gates: Gates, *, seed: int, draws: int) -> dict[str, Any]:
    """Compare the judge with each annotator in turn, on the labels of the others."""
    if len(data.names) < 2:
        return {}
    people = np.column_stack([data.codes([row[n] for row in data.people]) for n in range(len(data.names))])
    judge = data.codes(data.judge)
    shares = alignment(people, judge, data.clusters, seed=seed, draws=draws)
    found: dict[str, Any] = {"aligned": {name: asdict(getattr(shares, name)) for name in ("full", "partial", "none")}}
    alone = leave_one_out(people, judge, data.clusters, seed=seed, draws=draws)
    found["leave_one_out"] = {name: asdict(getattr(alone, name)) for name in ("everyone", "judge")}
    if len(data.names) > 2:
        score: Any = "accuracy" if data.scale.kind == "nominal" else "rmse"
        test = alternative_annotator(
            people, judge, data.clusters, epsilon=gates.epsilon, score=score, seed=seed, draws=draws
        )
        said = {"omega": test.omega, "rho": asdict(test.rho), "epsilon": test.epsilon, "status": test.status}
        found["alternative_annotator"] = said
    return found


def _base_rates(data: _Data, parsed: Sequence[int]) -> dict[str, dict[str, float]]:
    def shares(labels: Sequence[Value | None]) -> dict[str, float]:
        counts = Counter(labels[n] for n in parsed)
        return {str(value): counts[value] / len(parsed) for value in data.scale.values}  # type: ignore[index]

    return {"people": shares(data.truth), "judge": shares(data.judge)}


def _heterogeneity(data: _Data, parsed: Sequence[int]) -> dict[str, Any]:
    """Test whether the judge agrees with people equally often on every system, and on every language."""
    found: dict[str, Any] = {}
    for name in ("system", "language"):
        groups: dict[str, list[int]] = {}
        for n in parsed:
            group = getattr(data.items[n], name)
            if group is not None:
                groups.setdefault(group, [0, 0])[int(data.truth[n] == data.judge[n])] += 1
        table = np.array(list(groups.values()))
        if len(groups) > 1 and (table.sum(axis=0) > 0).all():
            from scipy.stats import chi2_contingency

            agreement = {group: right / (wrong + right) for group, (wrong, right) in sorted(groups.items())}
            found[name] = {"p": float(chi2_contingency(table, correction=False).pvalue), "agreement": agreement}
    return found


def _judge_the_judge(
    figures: Mapping[str, Estimate], counts: Mapping[str, int], details: Mapping[str, Any], gates: Gates
) -> tuple[list[str], str]:
    """Hold the figures against the gates: what is too bad fails, what is too little to tell is a limit."""
    failures, limits = [], []
    for name, classes in (("sensitivity", ("tp", "fn")), ("specificity", ("tn", "fp"))):
        estimate, labelled = figures.get(name), sum(counts.get(cell, 0) for cell in classes)
        if estimate is None:
            continue
        if labelled < gates.items:
            limits.append(f"{labelled} items for {name}, fewer than {gates.items}")
        if estimate.value is None or (estimate.value < gates.rate):
            failures.append(f"{name} below {gates.rate:g}")
        elif estimate.low is None or estimate.low < gates.rate:
            limits.append(f"the interval of {name} reaches below {gates.rate:g}")
    kappa, people = figures["kappa"].value, figures.get("people_kappa")
    omega = (details.get("alternative_annotator") or {}).get("omega")
    if people is None or people.value is None:
        limits.append("people's agreement with each other is not known")
    elif (kappa is None or kappa < people.value - gates.below_people) and (omega is None or omega < gates.omega):
        failures.append(f"kappa more than {gates.below_people:g} below people's with each other")
    if counts["unparsed"] > gates.unparsed * (counts["n"] + counts["unparsed"]):
        failures.append(f"more than {gates.unparsed:.0%} of the verdicts can't be parsed")
    for name, test in details["heterogeneity"].items():
        if test["p"] < gates.heterogeneity:
            limits.append(f"not equally good on every {name} (p = {test['p']:.2g})")
    return [*failures, *limits], FAIL if failures else LIMITS if limits else PASS
