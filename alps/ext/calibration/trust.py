"""Many calibrations side by side: which judge may be trusted for which rubric, who is ahead, where.

Judges are ranked by kappa with people, and tested on the items that all of them were asked about,
with the same labels. Clusters are resampled together, and Holm corrects over the pairs of a rubric.
Their page is one self-contained HTML file without a script.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import combinations
from math import isfinite
from pathlib import Path
from textwrap import wrap

import numpy as np
from markupsafe import Markup

from alps.errors import UsageError
from alps.ext.calibration import charts
from alps.ext.calibration.agreement import LabelScale, disagreement, kappa_of, pair_features
from alps.ext.calibration.calibration_file import (
    Calibration,
    FigureRow,
    LabelledItem,
    RubricRow,
    calibration_files,
    read_calibration,
)
from alps.ext.calibration.examples import disagreements
from alps.ext.calibration.labels import LabelSet, read_labels
from alps.ext.calibration.short import answer_of, headline, verdict_words
from alps.show.html import page_environment, refuse_other_file, write_page
from alps.show.svg import axis_labels
from alps.stats.bootstrap import Floats, cluster_sums, resampled_sums
from alps.stats.paired import SIGNIFICANT, holm, shared_letters, t_tests

FEWEST = 20
"""Items that judges must share to be told apart."""


@dataclass(frozen=True)
class Trusted:
    """The answer for one judge under one rubric.

    Attributes:
        verdict: That of the calibration, or `expired`.
        why: Sentences without an end.
        todo: What to do, in a sentence.
        letters: Those of ties; empty where it is not ranked with the others.
    """

    judge: str
    source: str
    n: int
    kappa: FigureRow
    people: FigureRow | None
    verdict: str
    why: tuple[str, ...]
    todo: str
    letters: tuple[str, ...] = ()

    @property
    def badge(self) -> tuple[str, str, str]:
        """The verdict as a sign, so that it does not hang on its colour, its words and a style."""
        sign, style = _BADGES.get(self.verdict, ("?", "limits"))
        return sign, verdict_words(self.verdict), style


@dataclass(frozen=True)
class RubricTrust:
    """The judges under one rubric, best first; `shared`: items that all ranked judges share."""

    rubric: str
    judges: tuple[Trusted, ...]
    shared: int


def trust(calibrations: Sequence[Calibration], *, today: date) -> list[RubricTrust]:
    """Return, rubric by rubric, which judges may be trusted, the best first."""
    names: dict[str, None] = {}
    for calibration in calibrations:
        names |= dict.fromkeys(calibration.rubrics)
    return [_of_rubric(name, calibrations, today) for name in names]


def _of_rubric(name: str, calibrations: Sequence[Calibration], today: date) -> RubricTrust:
    having = [one for one in calibrations if name in one.rubrics]
    having.sort(key=lambda one: -_kappa(one.rubrics[name]))
    judges = [_answer(one, name, today) for one in having]
    letters, shared = _ties(having, name)
    ranked = []
    for place, judge in enumerate(judges):
        ranked.append(replace(judge, letters=letters.get(place, ())))
    return RubricTrust(name, tuple(ranked), shared)


def _kappa(row: RubricRow) -> float:
    value = None if row.kappa is None else row.kappa.value
    return -2.0 if value is None else value


def _answer(calibration: Calibration, name: str, today: date) -> Trusted:
    row = calibration.rubrics[name]
    verdict, why, todo = answer_of(calibration, name, today)
    kappa = row.kappa or FigureRow(value=None)
    on = calibration.rests_on
    source = calibration.path.name if on is None else f"{on.source}: {on.what}"
    source = calibration.path.parent.name if source == "calibration.json" else source
    return Trusted(calibration.judge, source, row.n, kappa, row.people_kappa, verdict, why, todo)


def _ties(having: Sequence[Calibration], name: str) -> tuple[dict[int, tuple[str, ...]], int]:
    """Return the letters of the judges that share items with the first that has any."""
    sharing, common = _sharing(having, name)
    if len(sharing) < 2:
        return {}, len(common)
    scale = having[next(iter(sharing))].rubrics[name].scale
    assert scale is not None
    of_scale = LabelScale(scale.kind, scale.values)  # type: ignore[arg-type]
    columns = []
    for items in sharing.values():
        columns.append([items[key].verdict for key in common])
    truth = [item.truth for item in common.values()]
    clusters = [item.cluster or key for key, item in common.items()]
    different = _told_apart(truth, columns, clusters, of_scale)
    letters = shared_letters(len(sharing), different)
    return dict(zip(sharing, letters, strict=True)), len(common)


def _sharing(
    having: Sequence[Calibration], name: str
) -> tuple[dict[int, Mapping[str, LabelledItem]], Mapping[str, LabelledItem]]:
    """Return the items of judges on the labels of the first of them, by place, and the shared."""
    sharing: dict[int, Mapping[str, LabelledItem]] = {}
    common: Mapping[str, LabelledItem] = {}
    labels = None
    for place, calibration in enumerate(having):
        row = calibration.rubrics[name]
        items = _by_item(row)
        # On other labels a kappa differs though the judge may be as good.
        if not items or row.scale is None or (sharing and calibration.labels != labels):
            continue
        left = {key: item for key, item in (common or items).items() if key in items}
        if len(left) >= FEWEST:
            labels = calibration.labels
            sharing[place] = items
            common = left
    return sharing, common


def _by_item(row: RubricRow) -> Mapping[str, LabelledItem]:
    settled = {}
    for item in row.labelled:
        if item.truth is not None and item.verdict is not None:
            settled[item.item_id] = item
    return settled


def _told_apart(
    truth: Sequence[object],
    columns: Sequence[Sequence[object]],
    clusters: Sequence[str],
    scale: LabelScale,
) -> Iterator[tuple[int, int]]:
    """Yield the judges, by their places, whose kappas differ significantly."""
    weights = "unweighted" if scale.kind == "nominal" else "quadratic"
    apart, size = disagreement(scale, weights), len(scale.values)  # type: ignore[arg-type]
    values: list[float] = []
    drawn: list[Floats] = []
    count = len(set(clusters))
    for column in columns:
        features = pair_features(truth, column, scale)
        sums = cluster_sums(features, clusters)
        values.append(float(kappa_of(sums.sum(axis=0).reshape(size, size), apart)))
        # The same resamples for each judge: what makes an item hard cancels in the difference.
        drawn.append(kappa_of(resampled_sums(sums).reshape(-1, size, size), apart))
    pairs = list(combinations(range(len(columns)), 2))
    ps = []
    for one, other in pairs:
        error = float(np.nanstd(drawn[one] - drawn[other], ddof=1))
        mean = values[one] - values[other]
        p = float(t_tests(np.array(mean), np.array(error), np.array(count)))
        # Judges that say the same everywhere have no spread between them.
        ps.append(p if isfinite(p) else 1.0)
    for pair, p in zip(pairs, holm(ps), strict=True):
        if p <= SIGNIFICANT:
            yield pair


TEMPLATES = Path(__file__).with_name("templates")
_BADGES = {
    "pass": ("✓", "pass"),
    "limits": ("✓", "limits"),
    "fail": ("✕", "fail"),
    "expired": ("✕", "fail"),
}
_WIDTH = 80


def find_calibrations(words: Sequence[str]) -> list[Calibration]:
    """Read the named calibrations, or those found in the usual folders.

    Raises:
        UsageError: If there is none.
        DataError: If one can't be read.
    """
    paths = [Path(word).expanduser() for word in words] or calibration_files()
    if not paths:
        raise UsageError("no calibrations found; create one with alps calibrate")
    found: list[Calibration] = []
    for path in paths:
        found += map(read_calibration, _calibrations_at(path))
    return found


def _calibrations_at(path: Path) -> list[Path]:
    if path.is_file() or (path / "calibration.json").is_file():
        return [path]
    if inside := sorted(path.glob("*/calibration.json")):
        return inside
    raise UsageError(f"{path}: no calibration at this path; create one with alps calibrate")


def answer_lines(calibrations: Sequence[Calibration], *, today: date) -> Iterator[str]:
    """Yield whether each judge may be trusted under each rubric, then why.

    Where a judge has several calibrations under a rubric, each says which one it is.
    """
    judged = [(one.judge, name) for one in calibrations for name in one.rubrics]
    for calibration in calibrations:
        for name in calibration.rubrics:
            one = _answer(calibration, name, today)
            why = next(iter(one.why), one.todo)
            why += f" ({one.source})" if judged.count((one.judge, name)) > 1 else ""
            yield headline(one.judge, name, one.verdict)
            yield from wrap(
                f"{why}.",
                _WIDTH,
                initial_indent="  ",
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )


def write_trust_page(
    calibrations: Sequence[Calibration], labels: Path | None, out: Path, *, today: date
) -> Path:
    """Write the page, with examples from the label folder `labels` where one is given.

    Raises:
        UsageError: If the labels are others than those of every calibration, or another file is
            there.
        RunFolderError: If the page can't be written.
    """
    refuse_other_file(out)
    folder = None if labels is None else read_labels(labels)
    if folder is not None and all(one.labels != folder.sha256 for one in calibrations):
        raise UsageError(f"labels={labels}: no calibration uses these labels")
    found = trust(calibrations, today=today)
    template = page_environment(TEMPLATES).get_template("trust.html")
    page: str = template.render(
        views=[_view(rubric, calibrations, folder) for rubric in found],
        today=today.isoformat(),
        examples=folder is not None,
        judges=len({one.judge for rubric in found for one in rubric.judges}),
    )
    return write_page(page.lstrip(), out)


def _view(
    found: RubricTrust, calibrations: Sequence[Calibration], labels: LabelSet | None
) -> dict[str, object]:
    """Return what the page shows of a rubric; `drawn` has a drawing for each judge."""
    figures = [vars(one.kappa) for one in found.judges if one.kappa.value is not None]
    axis = charts.axis_for(figures)
    drawn = []
    for one in found.judges:
        chart = Markup()
        if one.kappa.value is not None:
            people = None if one.people is None or one.people.value is None else vars(one.people)
            name = f"{one.judge}, kappa"
            chart = charts.interval_dot(vars(one.kappa), name=name, axis=axis, people=people)
        drawn.append((one, chart))
    examples = () if labels is None else disagreements(calibrations, labels, found.rubric)
    return {"found": found, "axis": axis_labels(axis), "drawn": drawn, "examples": examples}
