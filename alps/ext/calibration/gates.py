"""Gates: what a judge must reach to be used, and what keeps it from a pass.

What is too bad is a failure; what is too little to tell is a limit, and so is what must be known to
use the judge well.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from alps.ext.calibration.matrix import LabelMatrix, at
from alps.ext.calibration.report import FAIL, LIMITS, PASS, RubricReport
from alps.ext.calibration.settings import Gates
from alps.show.formatting import counted
from alps.stats.bootstrap import Estimate

# The largest share of items that people leave open without a limit: the figures are of the others.
UNSETTLED = 0.05

# Whether it is a failure, not a limit, and what is wrong.
Reason = tuple[bool, str]


def gated(report: RubricReport, matrix: LabelMatrix, gates: Gates) -> RubricReport:
    """Return the report with its verdict and the reasons for it."""
    if not matrix.parsed:
        reason = "no item has both a label and a verdict"
        return replace(report, verdict=FAIL, reasons=(reason,))
    reasons = [
        *_one_value(matrix),
        *_classes(matrix, report, gates),
        *_people(matrix, report, gates),
        *_itself(report, gates),
        *_made_wrong(report, gates),
        *_unsettled(matrix),
        *_groups(report, gates),
    ]
    # Failures come first: they are what keeps a judge from any use.
    reasons.sort(key=lambda reason: not reason[0])
    verdict = PASS
    if reasons:
        verdict = FAIL if reasons[0][0] else LIMITS
    return replace(report, verdict=verdict, reasons=tuple(text for _, text in reasons))


def _one_value(matrix: LabelMatrix) -> Iterator[Reason]:
    values = set(at(matrix.truth, matrix.parsed))
    # With labels of one value a judge that always says the same is never wrong.
    if len(values) == 1:
        (only,) = values
        untold = "agreement beyond chance is unknown"
        if matrix.binary:
            rate = "specificity" if only == matrix.scale.values[-1] else "sensitivity"
            untold = f"{rate} and kappa are unknown"
        yield False, f"every labelled item is {only}, so {untold}"


def _classes(matrix: LabelMatrix, report: RubricReport, gates: Gates) -> Iterator[Reason]:
    # Without two classes there are no rates, and all items count together.
    n, threshold = report.counts["n"], report.details.at_threshold
    if not matrix.binary and not threshold and n < 2 * gates.items:
        yield False, f"{counted(n, 'item')}, but {2 * gates.items} are needed"
    cells: Mapping[str, Any] = vars(threshold) if threshold else report.counts
    rates: Mapping[str, Any] = vars(threshold) if threshold else report.figures
    for name, right, wrong in (("sensitivity", "tp", "fn"), ("specificity", "tn", "fp")):
        estimate: Estimate | None = rates.get(name)
        labelled = cells.get(right, 0) + cells.get(wrong, 0)
        if estimate is not None and labelled:
            yield from _rate(name, estimate, labelled, gates)


def _rate(name: str, estimate: Estimate, labelled: int, gates: Gates) -> Iterator[Reason]:
    if labelled < gates.items:
        yield False, f"{name}: {counted(labelled, 'item')}, but {gates.items} are needed"
    # Of few items an interval is wide: not enough is known then, which is no fault of the judge.
    if estimate.value is not None and estimate.value < gates.rate:
        yield True, f"{name} below {gates.rate:g}"
    elif estimate.low is None or estimate.low < gates.rate:
        yield False, f"{name}: the interval begins below {gates.rate:g}"


def _people(matrix: LabelMatrix, report: RubricReport, gates: Gates) -> Iterator[Reason]:
    kappa, people = report.figures["kappa"].value, report.figures.get("people_kappa")
    if people is None or people.value is None:
        yield False, f"human agreement is unknown, because {_why_unknown(matrix)}"
        return
    yield from _by_chance(people.value, people.low)
    # A judge that can replace enough people need not reach their kappa.
    test = report.details.alternative_annotator
    replaces = test is not None and test.omega is not None and test.omega >= gates.omega
    below = kappa is None or kappa < people.value - gates.below_people
    if below and not replaces and len(set(at(matrix.truth, matrix.parsed))) > 1:
        yield True, f"kappa is more than {gates.below_people:g} below the kappa between people"


def _by_chance(kappa: float, low: float | None) -> Iterator[Reason]:
    in_brackets = f"(kappa {kappa:.2f})".replace("0.", ".", 1)
    if kappa <= 0:
        yield False, f"people agree with each other no better than by chance {in_brackets}"
    # On too few clusters there is no interval, though people may agree always.
    elif low is None:
        yield False, "too few items to estimate human agreement"
    elif low <= 0:
        yield False, f"people may agree no better than by chance {in_brackets}"


def _why_unknown(matrix: LabelMatrix) -> str:
    if not matrix.names:
        return "nobody labelled these items"
    if len(matrix.names) == 1:
        return f"only {matrix.names[0]} labelled these items"
    if max(len(row) - row.count(None) for row in matrix.people) < 2:
        return "no two people labelled the same item"
    return "people gave one label to all items that they share"


def _itself(report: RubricReport, gates: Gates) -> Iterator[Reason]:
    counts, same = report.counts, report.figures.get("self_agreement")
    if counts["unparsed"] > gates.unparsed * (counts["n"] + counts["unparsed"]):
        yield True, f"more than {gates.unparsed:.0%} of the verdicts can't be parsed"
    if same is not None and same.value is not None and 1 - same.value > gates.self_flip:
        flips = f"{1 - same.value:.1%} of items, more than {gates.self_flip:.0%}"
        yield True, f"repeated verdicts contradict each other in {flips}"


def _made_wrong(report: RubricReport, gates: Gates) -> Iterator[Reason]:
    share = report.details.known_wrong
    if share is None or share.value is None:
        return
    made_wrong = "of the items known to be wrong"
    if share.value > gates.known_wrong:
        accepted = f"the judge accepts {share.value:.0%} {made_wrong}"
        yield True, f"{accepted}, more than {gates.known_wrong:.0%}"
    elif share.high is None or share.high > gates.known_wrong:
        yield False, f"the judge may accept more than {gates.known_wrong:.0%} {made_wrong}"


def _unsettled(matrix: LabelMatrix) -> Iterator[Reason]:
    tied, items = len(matrix.tied), len(matrix.items)
    if tied > UNSETTLED * items:
        share = f"{tied} of {items} items ({tied / items:.0%})"
        yield False, f"people's labels are tied on {share}, which are left out"


def _groups(report: RubricReport, gates: Gates) -> Iterator[Reason]:
    for name, test in (report.details.heterogeneity or {}).items():
        # Calibrated on each group apart it may still be used: no failure.
        if test.p < gates.heterogeneity:
            yield False, f"the judge is not equally good for every {name} (p = {test.p:.2g})"
