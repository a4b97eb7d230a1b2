"""Agreement of the people who labelled the items of a label folder, rubric by rubric."""

from collections.abc import Sequence
from itertools import combinations

from alps.errors import UsageError
from alps.ext.calibration.agreement import rater_estimates
from alps.ext.calibration.labels import LabelSet, Verdict, Verdicts
from alps.ext.calibration.matrix import LabelMatrix, label_matrix, mean_kappa, pair_figures
from alps.ext.people.agreement.rows import (
    AgreementFigure,
    LabelAgreement,
    LabelledRow,
    PairOfPeople,
)
from alps.stats.bootstrap import DRAWS

PAIRS = 15
"""Of how many pairs of people each is shown; a study with many people has thousands."""


def label_agreement(labels: LabelSet, *, seed: int = 0, draws: int = DRAWS) -> LabelAgreement:
    """Measure human agreement per rubric; items with one label are left out.

    Kappa is quadratic unless the scale is nominal, and the mean over pairs of people, weighted by
    the items that they share. Derived labels (an adjudication) are nobody's own, and left out.

    Raises:
        UsageError: If no item has labels of two people.
    """
    # The matrix of a judge who said nothing: its rows are all items.
    nobody = Verdicts("", dict.fromkeys(labels.items, Verdict(None)), "")
    rubrics: dict[str, LabelledRow] = {}
    for rubric in labels.rubrics:
        row = _of_rubric(label_matrix(labels, rubric, nobody), seed=seed, draws=draws)
        if row is not None:
            rubrics[rubric] = row
    if not rubrics:
        raise UsageError("no item has labels of two people, which agreement needs")
    return LabelAgreement(labels=labels.sha256, rubrics=rubrics)


def _of_rubric(matrix: LabelMatrix, *, seed: int, draws: int) -> LabelledRow | None:
    columns = dict(zip(matrix.names, zip(*matrix.people, strict=True), strict=True))
    shared: dict[tuple[str, str], int] = {}
    for one, other in combinations(columns, 2):
        pairs = zip(columns[one], columns[other], strict=True)
        if both := sum(None not in pair for pair in pairs):
            shared[one, other] = both
    if not shared:
        return None
    resampling = {"seed": seed, "draws": draws}
    scale, clusters = matrix.scale, matrix.clusters
    kappa = mean_kappa(matrix.people, scale, clusters, **resampling)
    raters = rater_estimates(matrix.people, scale, clusters, **resampling)
    figures = {} if kappa is None else {"kappa": AgreementFigure.of(kappa, "items")}
    for name, estimate in raters.items():
        figures[name] = AgreementFigure.of(estimate, "items")
    chosen = sorted(shared, key=shared.__getitem__, reverse=True)[:PAIRS]
    names = ["agreement", "kappa"] if scale.kind == "nominal" else ["agreement", "kappa", "mae"]
    sides = [(columns[one], columns[other]) for one, other in chosen]
    of_pairs = pair_figures(sides, scale, names, clusters, **resampling)
    rows = []
    for people, estimates in zip(chosen, of_pairs, strict=True):
        own = {name: AgreementFigure.of(estimate, "items") for name, estimate in estimates.items()}
        rows.append(PairOfPeople(people=people, figures=own))
    return LabelledRow(
        kind=scale.kind,
        items=len(matrix.items),
        twice=_twice(matrix.people),
        people=list(columns),
        figures=figures,
        pairs=rows,
    )


def _twice(people: Sequence[Sequence[object]]) -> int:
    return sum(len(row) - row.count(None) >= 2 for row in people)
