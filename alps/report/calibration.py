"""The table of a calibration; fits 80 columns."""

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from alps.judges.calibration import RubricReport
from alps.report.runs import visible
from alps.report.tables import number
from alps.stats.bootstrap import Estimate

_FIGURES = {
    "sensitivity": "sensitivity",
    "sensitivity_unclustered": "  as if items were independent",
    "sensitivity_unparsed_wrong": "  unparsed counted as wrong",
    "specificity": "specificity",
    "specificity_unclustered": "  as if items were independent",
    "specificity_unparsed_wrong": "  unparsed counted as wrong",
    "agreement": "agreement",
    "kappa": "kappa with people",
    "people_kappa": "  people with each other",
    "ac1": "AC1",
    "alpha_people": "alpha of the people",
    "alpha_with_judge": "  with the judge among them",
    "spearman": "Spearman",
    "kendall": "Kendall tau-b",
    "mae": "mean absolute error",
    "bias": "bias (judge minus people)",
}


def print_calibration(reports: Sequence[RubricReport], *, judge: str, console: Console) -> None:
    """Print one table a rubric, and what keeps the judge from a pass."""
    parts: list[RenderableType] = []
    for report in reports:
        parts += [_table(report, judge), *_lines(report), Text()]
    console.print(Group(*parts), width=min(80, console.width))


def _table(report: RubricReport, judge: str) -> Table:
    kappa = "kappa with people" if report.kind == "nominal" else "kappa with people (quadratic)"
    title = f"{visible(judge)} under {visible(report.rubric)}"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "figure", "95 % interval", "n"):
        table.add_column(name, justify="right" if name else "left")
    for name, title in _FIGURES.items():
        if (figure := report.figures.get(name)) is not None:
            row = kappa if name == "kappa" else title
            table.add_row(row, number(figure.value), _interval(figure), str(figure.n))
    return table


def _interval(figure: Estimate) -> str:
    return "–" if figure.low is None else f"[{number(figure.low)}, {number(figure.high)}]"


def _lines(report: RubricReport) -> list[Text]:
    counts = report.counts
    lines = [
        f"{counts['n']:,} items; {counts['unparsed']} verdicts not parsed, {counts['unlabelled']} items unlabelled."
    ]
    if "tp" in counts:
        lines.append(f"Confusion: tp {counts['tp']}, fn {counts['fn']}, fp {counts['fp']}, tn {counts['tn']}.")
    if (aligned := report.details.get("aligned")) is not None:
        shares = ", ".join(f"{name} {number(aligned[name]['value'])}" for name in ("full", "partial", "none"))
        lines.append(f"Aligned with all, some, none of an item's people: {shares}.")
    if (test := report.details.get("alternative_annotator")) is not None:
        figures = f"omega {number(test['omega'])}, rho {number(test['rho']['value'])}"
        lines.append(f"Alternative-annotator test (epsilon {test['epsilon']:g}): {figures}: {test['status']}.")
    verdict = Text(f"Verdict: {report.verdict}", style={"pass": "green", "fail": "red"}.get(report.verdict, "yellow"))
    reasons = [Text(f"  – {reason}") for reason in report.reasons]
    return [*(Text(line) for line in lines), verdict, *reasons]
