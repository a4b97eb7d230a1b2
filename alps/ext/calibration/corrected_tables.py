"""Scores of a run that people's labels correct, as a table."""

from collections.abc import Iterator, Mapping, Sequence

from alps.rows import Corrected, Summary
from alps.show.parts import ShownPart
from alps.show.table import Column, Line, Table, both, named, row_of, ungrouped
from alps.tasks import Metric

_METHODS = {
    "ppi": "PPI++: the labelled answers are a random sample of these.",
    "rogan_gladen": "Rogan–Gladen: assumes that the judge errs here as often as on the labelled "
    "items.",
}


class Shown(ShownPart):
    """What is shown of calibrations."""

    def tables(self, summary: Summary, track: str, metrics: Sequence[Metric]) -> Iterator[Table]:
        """Yield what was corrected on a track, and how; nothing where nothing was."""
        corrected: dict[str, Corrected] = {}
        rows = []
        for metric in metrics:
            score = summary.tracks[track].scores.get(metric.name)
            if score is None or score.corrected is None:
                continue
            own = corrected[metric.title] = score.corrected
            shown = (
                "not correctable" if own.value is None else both(own, "!" if own.outside else "")
            )
            rows.append(
                row_of(metric.title, both(score), shown, ungrouped(own.labelled), ungrouped(own.n))
            )
        if rows:
            headings = ("as judged", "corrected", "labels", "n")
            columns = [named(), *(Column(title, right=True) for title in headings)]
            title = "Corrected for the judge's errors, as people's labels show them"
            notes = list(map(Line, correction_lines(corrected)))
            yield Table(title, columns, rows, notes, layout="roomy")


def correction_lines(rows: Mapping[str, Corrected]) -> list[str]:
    """Return how scores were corrected, by their titles, and what could not be."""
    corrected = [row for row in rows.values() if row.value is not None]
    lines = list(dict.fromkeys(_METHODS[row.method] for row in corrected))
    # Cut off at the ends of the scale, a correction would hide that it does not fit the run.
    if any(row.impossible for row in corrected):
        lines.append("! off the scale: a sign that the calibration does not fit this run.")
    elif any(row.outside for row in corrected):
        lines.append("! reaches beyond the scale, and is shown as it is.")
    notes: dict[str, None] = {}
    calibrations: dict[str, None] = {}
    for name, row in rows.items():
        if row.reason:
            lines.append(f"Not correctable ({name.strip()}): {row.reason}.")
        notes |= dict.fromkeys(row.notes)
        calibrations |= dict.fromkeys(row.calibration)
    for note in notes:
        lines.append(f"Doubtful: {note}.")
    lines.append(f"Calibration: {', '.join(calibrations)}.")
    return lines
