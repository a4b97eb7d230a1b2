"""Tables of raw and corrected scores, in 80 columns."""

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
    "rogan_gladen": (
        "Rogan–Gladen: assumes that the judge errs here as often as on the labelled items."
    ),
}


def corrected_part(track: Mapping[str, Any], metrics: Sequence[Metric]) -> list[RenderableType]:
    """Return the table of what was corrected on a track, and how; nothing where nothing was."""
    rows: dict[str, Mapping[str, Any]] = {}
    for metric in metrics:
        score = track["scores"].get(metric.name) or {}
        if "corrected" in score:
            rows[metric.title] = score
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
        figure = "not correctable"
        if row["value"] is not None:
            figure = _figure(row) + ("!" if row["outside"] else "")
        table.add_row(metric_title, _figure(score), figure, str(row["labelled"]), str(row["n"]))
    lines = correction_lines({name: score["corrected"] for name, score in rows.items()})
    return [table, *(Text(line) for line in lines)]


def _figure(row: Mapping[str, Any]) -> str:
    return f"{number(row['value'])} {interval(row)}"


def correction_lines(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return how scores were corrected, what that assumes, and what could not be corrected."""
    corrected = [row for row in rows.values() if row["value"] is not None]
    lines = [_METHODS[method] for method in dict.fromkeys(row["method"] for row in corrected)]
    if any(row["impossible"] for row in corrected):
        lines.append("! off the scale: a sign that the calibration does not fit this run.")
    elif any(row["outside"] for row in corrected):
        lines.append("! reaches beyond the scale, and is shown as it is.")
    notes: dict[str, None] = {}
    names: dict[str, None] = {}
    for name, row in rows.items():
        if row.get("reason"):
            lines.append(f"Not correctable ({name.strip()}): {row['reason']}.")
        notes |= dict.fromkeys(row.get("notes", ()))
        names |= dict.fromkeys(row["calibration"])
    lines += [f"Doubtful: {note}." for note in notes]
    return [*lines, f"Calibration: {', '.join(names)}."]
