"""A calibration in a terminal of 80 columns: the figures of a rubric, what it is measured by, and
what they mean.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from alps.judges.calibration import RubricReport
from alps.report.calibration_lines import account_of, lines_of
from alps.report.formatting import interval, number, visible
from alps.run.calibrate import Calibrated
from alps.stats.bootstrap import Estimate

WIDTH = 80
_FIGURES = {
    "sensitivity": "sensitivity",
    "sensitivity_unclustered": "  as if items were independent",
    "sensitivity_unparsed_wrong": "  unparsed counted as wrong",
    "specificity": "specificity",
    "specificity_unclustered": "  as if items were independent",
    "specificity_unparsed_wrong": "  unparsed counted as wrong",
    "ppv": "right where it says {positive}",
    "npv": "right where it says {negative}",
    "agreement": "agreement",
    "kappa": "kappa with people{weights}",
    "people_kappa": "  people with each other",
    "pabak": "PABAK (kappa at even base rates)",
    "prevalence_index": "prevalence index",
    "bias_index": "bias index",
    "ac1": "AC1",
    "ac2": "AC2 (quadratic)",
    "alpha_people": "alpha of the people",
    "alpha_with_judge": "  with the judge among them",
    "spearman": "Spearman",
    "kendall": "Kendall tau-b",
    "mae": "mean absolute error",
    "bias": "bias (judge minus people)",
    "self_agreement": "agreement with itself",
}
_COLUMNS = {
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "kappa": "kappa",
    "agreement": "agreement",
    "mae": "mean error",
}
SAID = {"pass": "pass", "limits": "passes with caveats", "fail": "fail"}
"""The verdicts of `calibration.json` as people read them."""
_BRIEF = {"limits": "caveats"}
_COLOURS = {"pass": "green", "limits": "yellow", "fail": "red"}


def print_calibration(reports: Sequence[RubricReport], *, judge: str, console: Console) -> None:
    """Print the figures of each rubric, the reference judges beside this one, and what keeps it
    from a pass.
    """
    parts: list[RenderableType] = []
    for report in reports:
        parts += [*_rubric(report, judge, narrow=console.width < WIDTH), Text()]
    if len(reports) > 1:
        parts += [
            Text(f"{visible(judge)}: every rubric, none of them pooled", style="bold"),
            _overview(reports),
        ]
    console.print(Group(*parts), width=min(WIDTH, console.width))


def print_account(done: Calibrated, console: Console) -> None:
    """Print what stands below the figures: what was asked, what it cost, what is missing, and how
    long it holds.
    """
    for sentence in account_of(done):
        console.print(Text(visible(sentence)))


def _rubric(report: RubricReport, judge: str, *, narrow: bool) -> Iterator[RenderableType]:
    yield Text(f"{visible(judge)} under {visible(report.rubric)}", style="bold")
    if rows := list(_figures(report)):
        table = _table("figure", "95 % interval", "n")
        for row in rows:
            table.add_row(*map(Text, row))
        yield table
    if "references" in report.details:
        people = (
            ""
            if "reason" in report.details["references"].get("people", {})
            else ", and people, each left out in turn"
        )
        yield Text(f"Beside judges that know nothing{people}", style="bold")
        yield _references(report)
    if "acceptance" in report.details:
        yield Text("Items made right or wrong on purpose", style="bold")
        yield _acceptance(report.details["acceptance"], narrow=narrow)
    yield _lines(report)
    told = SAID.get(report.verdict, report.verdict)
    yield Text(
        f"Verdict: {told}{':' if report.verdict == 'limits' else ''}",
        style=f"bold {_COLOURS.get(report.verdict, '')}",
    )
    for reason in report.reasons:
        yield _hanging("  –", reason)


def _figures(report: RubricReport) -> Iterator[tuple[str, ...]]:
    """Yield the figures that are defined; one that only repeats the one above it is left out."""
    values = (report.details.get("scale") or {}).get("values") or ("", "")
    words = {"negative": visible(str(values[0])), "positive": visible(str(values[-1]))}
    words["weights"] = "" if report.kind == "nominal" else " (quadratic)"
    for name, title in _FIGURES.items():
        figure = report.figures.get(name)
        if figure is not None and figure.value is not None and not _repeats(report.figures, name):
            yield (
                title.format(**words),
                number(figure.value),
                _between(vars(figure)),
                f"{figure.n:,}",
            )


def _repeats(figures: Mapping[str, Estimate], name: str) -> bool:
    rate, _, way = name.partition("_un")
    if not way or rate not in figures:
        return False
    beside = rate if way == "clustered" else f"{rate}_unclustered"
    return figures.get(beside) == figures[name]


def _references(report: RubricReport) -> RenderableType:
    own = {name: vars(figure) for name, figure in report.figures.items()}
    rows: dict[str, Mapping[str, Any]] = {"this judge": {"n": report.counts["n"], **own}}
    rows |= {name: row for name, row in report.details["references"].items() if "reason" not in row}
    shown = [
        name for name in _COLUMNS if any(_value(row, name) is not None for row in rows.values())
    ]
    shown = [name for name in shown if name != "agreement" or "mae" not in shown]
    table = _table(*(_COLUMNS[name] for name in shown), "95 % of kappa", "n")
    for name, row in rows.items():
        cells = [number(_value(row, figure)) for figure in shown]
        kappa = row.get("kappa")
        between = _between(kappa) if kappa else "–"
        table.add_row(
            Text(visible(name)),
            *cells,
            between,
            f"{row['n']:,}",
            style="bold" if name == "this judge" else "",
        )
    return table


def _acceptance(kinds: Mapping[str, Any], *, narrow: bool) -> RenderableType:
    silent = any(row["unparsed"] for row in kinds.values())
    table = _table(
        "right",
        "accepted",
        "share" if narrow else "share accepted",
        "95 % interval",
        "n",
        *(["not parsed"] if silent else []),
    )
    table.columns[0].overflow = "fold"
    for kind, row in kinds.items():
        share = number(row["accepted"] / row["n"] if row["n"] else None)
        cells = [str(row["right"]), str(row["accepted"]), share, interval(row), str(row["n"])]
        cells += [str(row["unparsed"])] if silent else []
        table.add_row(Text(visible(kind.replace("_", " "))), *cells)
    return table


def _value(row: Mapping[str, Any], name: str) -> float | None:
    found = row.get(name)
    return found["value"] if found else None


def _lines(report: RubricReport) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, line in lines_of(report):
        grid.add_row(Text(f" {name}", style="dim"), Text(visible(line)))
    return grid


def _hanging(mark: str, line: str) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_row(Text(mark), Text(visible(line)))
    return grid


def _overview(reports: Sequence[RubricReport]) -> Table:
    """Put every rubric into one table, never pooled."""
    table = _table("kappa", "95 % interval", "people", "n", "")
    table.columns[0].overflow = "fold"
    for report in reports:
        kappa, people = (
            report.figures.get(name, Estimate(None, None, None, 0))
            for name in ("kappa", "people_kappa")
        )
        row = (
            number(kappa.value),
            _between(vars(kappa)),
            number(people.value),
            f"{report.counts['n']:,}",
        )
        table.add_row(
            Text(visible(report.rubric)),
            *row,
            Text(
                _BRIEF.get(report.verdict, report.verdict), style=_COLOURS.get(report.verdict, "")
            ),
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("", *columns):
        table.add_column(
            name, justify="right" if table.columns else "left", no_wrap=bool(table.columns)
        )
    return table


def _between(figure: Mapping[str, Any]) -> str:
    """Return an interval.

    One without a width is none: where nothing differs, resampling has nothing to vary.
    """
    return "–" if figure["low"] == figure["high"] else interval(figure)
