"""Raw and corrected scores side by side; fits 80 columns."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from alps.report.numbers import interval, number
from alps.tasks import Metric

_METHODS = {
    "ppi": "PPI++: the labelled answers are a random sample of these.",
    "rogan_gladen": "Rogan–Gladen: assumes that the judge errs here as often as on the labelled items.",
}


def corrected_part(found: Mapping[str, Any], metrics: Sequence[Metric]) -> list[RenderableType]:
    """Return the table of what was corrected on a track, and how; nothing where nothing was."""
    rows = {
        metric.title: score
        for metric in metrics
        if "corrected" in (score := found["scores"].get(metric.name) or {})
    }
    if not rows:
        return []
    title = "Corrected for the judge's errors, as people's labels show them"
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for name in ("", "as judged", "corrected", "labels", "n"):
        table.add_column(name, justify="right" if name else "left")
    for metric_title, score in rows.items():
        row = score["corrected"]
        said = (
            "not correctable"
            if row["value"] is None
            else _figure(row) + ("!" if row["outside"] else "")
        )
        table.add_row(metric_title, _figure(score), said, str(row["labelled"]), str(row["n"]))
    lines = correction_lines({name: score["corrected"] for name, score in rows.items()})
    return [table, *(Text(line) for line in lines)]


def _figure(row: Mapping[str, Any]) -> str:
    return f"{number(row['value'])} {interval(row)}"


def correction_lines(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say how corrected scores, by their titles, were found, what they assume, and what could not
    be corrected.
    """
    corrected = [row for row in rows.values() if row["value"] is not None]
    lines = [_METHODS[method] for method in dict.fromkeys(row["method"] for row in corrected)]
    if any(row["impossible"] for row in corrected):
        lines.append("! off the scale: a sign that the calibration does not fit this run.")
    elif any(row["outside"] for row in corrected):
        lines.append("! reaches beyond the scale, and is shown as it is.")
    lines += [
        f"Not correctable ({name.strip()}): {row['reason']}."
        for name, row in rows.items()
        if row.get("reason")
    ]
    notes = dict.fromkeys(note for row in rows.values() for note in row.get("notes", ()))
    lines += [f"Doubtful: {note}." for note in notes]
    names = dict.fromkeys(name for row in rows.values() for name in row["calibration"])
    return [*lines, f"Calibration: {', '.join(names)}."]
