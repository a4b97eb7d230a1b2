"""The page of many calibrations: may I trust this judge for this rubric, who is ahead, and where.

One self-contained HTML file without a script.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from markupsafe import Markup

from alps.errors import UsageError
from alps.ext.calibration import charts
from alps.ext.calibration.disagreements import Example, disagreements
from alps.ext.calibration.trust import CAVEATS, FEW, NO, YES, RubricTrust, Trusted, trust
from alps.judges.calibration_file import (
    Calibration,
    FigureRow,
    calibration_files,
    read_calibration,
)
from alps.judges.labels import LabelSet, read_labels
from alps.show.html import page_environment, refuse_other_file, write_page
from alps.show.svg import axis_labels

TEMPLATES = Path(__file__).with_name("templates")
# Signs, so that an answer does not hang on its colour; words, and the style of a badge.
ANSWERS: Mapping[str, tuple[str, str, str]] = {
    YES: ("✓", "yes", "pass"),
    CAVEATS: ("✓", "yes, with caveats", "limits"),
    FEW: ("?", "too few labels", "limits"),
    NO: ("✕", "no", "fail"),
}


@dataclass(frozen=True)
class RubricView:
    """What the page shows of a rubric; `drawn` has a drawing for each judge."""

    found: RubricTrust
    axis: Markup
    drawn: tuple[tuple[Trusted, Markup], ...]
    examples: tuple[Example, ...]


def find_calibrations(words: Sequence[str]) -> list[Calibration]:
    """Read calibrations; those that are found by themselves where none is named.

    Raises:
        UsageError: If there is none.
        DataError: If one can't be read.
    """
    paths = [Path(word).expanduser() for word in words] or calibration_files()
    if not paths:
        raise UsageError("no calibrations here; alps calibrate writes them")
    found: list[Calibration] = []
    for path in paths:
        inside = sorted(path.glob("*/calibration.json")) if path.is_dir() else []
        own = path.is_file() or (path / "calibration.json").is_file() or not inside
        found += [read_calibration(one) for one in ([path] if own else inside)]
    return found


def write_trust_page(
    calibrations: Sequence[Calibration], labels: Path | None, out: Path, *, today: date
) -> Path:
    """Write the page.

    Args:
        calibrations: Of which judges.
        labels: The label folder that examples are taken from; None for none.
        out: The file.
        today: The day that expiry is counted from.

    Raises:
        UsageError: If the labels are others than those of every calibration, or another file is
            there.
        RunFolderError: If the page can't be written.
    """
    refuse_other_file(out)
    folder = None if labels is None else read_labels(labels)
    if folder is not None and all(one.row.labels != folder.sha256 for one in calibrations):
        raise UsageError(f"labels={labels}: other labels than those of every calibration")
    views = [_view(found, calibrations, folder) for found in trust(calibrations, today=today)]
    page: str = _render(views, today, examples=folder is not None)
    return write_page(page.lstrip(), out)


def _view(
    found: RubricTrust, calibrations: Sequence[Calibration], labels: LabelSet | None
) -> RubricView:
    figures = [_figure(one.kappa) for one in found.judges if one.kappa.value is not None]
    axis = charts.axis_for(figures)
    drawn = []
    for one in found.judges:
        chart = Markup()
        if one.kappa.value is not None:
            people = None if one.people is None or one.people.value is None else _figure(one.people)
            chart = charts.interval_dot(
                _figure(one.kappa), name=f"{one.judge}, kappa", axis=axis, people=people
            )
        drawn.append((one, chart))
    examples = () if labels is None else disagreements(calibrations, labels, found.rubric)
    return RubricView(found, axis_labels(axis), tuple(drawn), examples)


def _figure(row: FigureRow) -> dict[str, float | None]:
    return {"value": row.value, "low": row.low, "high": row.high}


def _render(views: Sequence[RubricView], today: date, *, examples: bool) -> str:
    template = page_environment(TEMPLATES).get_template("trust.html")
    page: str = template.render(
        views=views,
        answers=ANSWERS,
        today=today.isoformat(),
        examples=examples,
        judges=len({one.judge for view in views for one in view.found.judges}),
    )
    return page
