"""A calibration in a terminal of 80 columns: the figures of a rubric, what it is measured by, and
what they mean.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from alps.calibration.calibrate import Calibrated
from alps.calibration.report import RubricReport
from alps.report.numbers import counted, interval, number, signed, spent
from alps.report.runs import visible
from alps.report.served import price_lines, served_lines
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


_VALUES = 7
_GROUPS = 4
_RATES = ("sensitivity", "specificity")


def account_of(done: Calibrated) -> Iterator[str]:
    """Yield what was asked, what it cost, what is missing, and how long the calibration holds, each
    in a sentence.
    """
    if done.left_out:
        yield f"Not rated by {done.judge}: {', '.join(done.left_out)}."
    if done.unheard:
        they_are = "it is" if done.unheard == 1 else "they are"
        yield f"{counted(done.unheard, 'item')} could not be asked about; {they_are} in no figure."
    calls = done.row.get("calls")
    if calls and (calls["http"] or calls["cached"]):
        yield spent(calls)
        yield from price_lines(calls)
        yield from served_lines(done.row)
    if "expires" in done.row:
        pinned = (
            "" if done.row["pinned"] else "; its name holds no snapshot, so it may change unseen"
        )
        if done.row["expires"] < date.today().isoformat():
            old = (
                f"Expired on {done.row['expires']}, as its oldest verdict is of {done.row['made']}"
            )
            yield f"{old}; calibrate into another folder to ask again{pinned}."
        else:
            yield f"Holds for this judge, as it is set here, until {done.row['expires']}{pinned}."


def lines_of(report: RubricReport) -> Iterator[tuple[str, str]]:
    """Yield what a line is about, and the line."""
    counts, details = report.counts, report.details
    yield "items", ", ".join(_counts(counts, details))
    if "tp" in counts:
        yield (
            "confusion",
            f"tp {counts['tp']}, fn {counts['fn']}, fp {counts['fp']}, tn {counts['tn']}",
        )
    if (found := details.get("at_threshold")) is not None:
        rates = (
            f"{name} {number(found[name]['value'])} {interval(found[name])} (n {found[name]['n']:,})"
            for name in _RATES
            if found[name]["n"]
        )
        accepted = ", ".join(str(value) for value in found["accepted"])
        yield "accepted", f"{accepted}: {', '.join(rates)}"
    for who, shares in (details.get("base_rates") or {}).items():
        if len(shares) <= _VALUES:
            given = ", ".join(f"{value} {number(share)}" for value, share in shares.items())
            yield (
                "known"
                if who == "people" and _is_known(details)
                else f"{who} say{'s' * (who == 'judge')}",
                given,
            )
    yield from _people(details)
    for name, test in (details.get("heterogeneity") or {}).items():
        yield f"by {name}", _groups(test)
    yield from _ranking(details)
    yield from _length(details)
    yield from _certainty(details)
    for name, row in (details.get("references") or {}).items():
        if "reason" in row:
            yield name, f"not told: {row['reason']}"


def _is_known(details: Mapping[str, Any]) -> bool:
    """Tell whether somebody made the items right or wrong, and no person labelled them."""
    return "acceptance" in details and not any(pair["single"] for pair in details["pairs"])


def _counts(counts: Mapping[str, int], details: Mapping[str, Any]) -> Iterator[str]:
    items = counts["n"] + counts["unparsed"] + counts["unlabelled"]
    clusters = f" (all in {details['clusters']:,} clusters)" if details["clusters"] < items else ""
    yield f"{counts['n']:,} with a label and a verdict{clusters}"
    if counts["unparsed"]:
        yield f"{counts['unparsed']:,} verdicts not parsed"
    if counts["unlabelled"]:
        yield f"{counts['unlabelled']:,} that people do not settle ({counts['unlabelled'] / items:.0%})"
    if counts.get("unheard"):
        yield f"{counts['unheard']:,} more could not be asked about"


def _people(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    aligned = details.get("aligned")
    if aligned is not None and aligned["full"]["value"] is not None:
        full, some, none = (number(aligned[name]["value"]) for name in ("full", "partial", "none"))
        yield "aligned", f"with all people {full}, with some of them {some}, with none {none}"
    test = details.get("alternative_annotator")
    if test is not None:
        told = test["omega"] is not None
        figures = (
            f"omega {number(test['omega'])}, rho {number(test['rho']['value'])} at " if told else ""
        )
        status = (
            "underpowered: too few items or people"
            if test["status"] == "underpowered"
            else test["status"]
        )
        yield "alt. annotator", f"{figures}epsilon {test['epsilon']:g}: {status}"


def _groups(test: Mapping[str, Any]) -> str:
    shares = test["agreement"]
    p = "p <.001" if test["p"] < 0.001 else f"p {number(test['p'])}"
    if len(shares) <= _GROUPS:
        return f"agreement {', '.join(f'{name} {number(share)}' for name, share in shares.items())} ({p})"
    low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    ends = f"from {number(shares[low])} ({low}) to {number(shares[high])} ({high})"
    return f"agreement {ends} of {len(shares)} ({p})"


def _ranking(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    ranking = details.get("system_ranking")
    if ranking is not None and ranking["spearman"] is not None:
        figures = f"Spearman {number(ranking['spearman'])}, Kendall {number(ranking['kendall'])}"
        yield "systems", f"{figures} with people's order of {ranking['n']}"


def _length(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    found = details.get("length_preference")
    if found is None or found["value"] is None:
        return
    net = f"{signed(found['value'])} {interval(found)}"
    if found["by"] == "pairs":
        judge, people = (number(found[who]["value"]) for who in ("judge", "people"))
        yield "likes longer", f"{net}, net of people (judge {judge}, people {people})"
    else:
        longer, shorter = (signed(found[half]["value"]) for half in ("longer", "shorter"))
        yield "likes longer", f"{net}, net of people (long {longer}, short {shorter})"


def _certainty(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    error = (details.get("reliability") or {}).get("calibration_error")
    if error is not None:
        yield "probability", f"off people's share by {number(error)} on average"
    found = details.get("selective")
    if found is None:
        return
    if "reason" in found:
        yield "believe it", f"never: {found['reason']}"
    else:
        kept = f"{found['kept']:,} of {found['n']:,} items, {found['disagreements']:,} of them disagree"
        promised = f"at most {number(found['bound'])} with {1 - found['failure']:.0%} certainty"
        yield "believe it", f"from confidence {number(found['confidence'])}: {kept}, {promised}"
