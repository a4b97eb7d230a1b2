"""Short form of a calibration: its answer, the figures against their gates, and the next step.

The answer says whether the judge may be trusted, why, and what comes next.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from math import ceil
from typing import Any

from rich.console import Console

from alps.ext.calibration.calibrate import Calibrated
from alps.ext.calibration.calibration_file import Calibration, FigureRow, RubricRow
from alps.ext.calibration.settings import Gates, not_default
from alps.ext.calibration.table import COLOURS, account_of, overview
from alps.judges.rubric import MATCHING
from alps.show.formatting import counted, interval, number
from alps.show.table import Cell, Line, Part, Table, figures, named, row_of, show_parts

_FIGURES = ("sensitivity", "specificity", "kappa")
_HEADLINES = {
    "pass": "PASS, you may rank systems{by} with it",
    "limits": "PASS WITH CAVEATS, rank systems{by} with care",
    "fail": "FAIL, do not rank systems{by} with it",
    "expired": "EXPIRED, do not rank systems{by} with it",
}

_MOST_TIMES = 20.0
"""Times the labels that there are: beyond that nobody is asked for more."""
_MADE = "the labels are known answers, not human labels"


@dataclass(frozen=True)
class FigureLine:
    """A figure on the first screen; `note` says what is wrong with it, or what to compare it to."""

    title: str
    figure: Mapping[str, Any]
    note: str


@dataclass(frozen=True)
class Short:
    """Short result of a judge under one rubric.

    Attributes:
        why: What is wrong, apart from what the figures' notes say.
        todo: What to do next, in a sentence.
    """

    headline: str
    on: str
    figures: tuple[FigureLine, ...]
    why: tuple[str, ...]
    todo: str


def headline(judge: str, rubric: str, verdict: str) -> str:
    """Return whether a judge may be trusted under a rubric, in one line."""
    by = " by F1" if rubric == MATCHING else ""
    return f"{judge} on {rubric}: {_HEADLINES.get(verdict, verdict).format(by=by)}"


def verdict_words(verdict: str) -> str:
    """Return the words of a verdict, as a headline begins with them."""
    return _HEADLINES.get(verdict, verdict).partition(",")[0]


def headline_of(calibration: Mapping[str, Any]) -> str:
    """Return the first line of a calibration: under its rubric, or how many it passes."""
    judge, rubrics = calibration.get("judge") or "judge", calibration["rubrics"]
    verdicts = {name: str(row.get("verdict", "?")) for name, row in rubrics.items()}
    if len(verdicts) == 1:
        ((name, verdict),) = verdicts.items()
        return headline(judge, name, verdict)
    tally = list(verdicts.values())
    parts = [f"{tally.count('pass')} of {len(tally)} rubrics pass"]
    if caveats := tally.count("limits"):
        parts.append(f"{caveats} with caveats")
    if failed := tally.count("fail"):
        parts.append(f"{failed} fail")
    return f"{judge}: {', '.join(parts)}"


def short_of(calibration: Mapping[str, Any], rubric: str, *, today: date | None = None) -> Short:
    """Return the short result of a rubric of `calibration.json`.

    Without `today` nothing is said of whether it has expired.
    """
    row, judge = calibration["rubrics"][rubric], str(calibration.get("judge") or "judge")
    parsed = Calibration.model_validate({**calibration, "judge": judge, "rubrics": {rubric: row}})
    _, reasons, todo = answer_of(parsed, rubric, today)
    lines = tuple(_figures(row, reasons))
    noted = tuple(line.title for line in lines)
    kind = "known answer" if row.get("acceptance") else "labelled item"
    return Short(
        headline=headline(judge, rubric, str(row.get("verdict", "?"))),
        on=counted(row["n"], kind),
        figures=lines,
        why=tuple(reason for reason in reasons if not reason.startswith(noted)),
        todo=todo,
    )


def _figures(row: Mapping[str, Any], reasons: Sequence[str]) -> Iterator[FigureLine]:
    accepted = row.get("at_threshold") or {}
    for name in _FIGURES:
        figure = row.get(name) or accepted.get(name)
        if not figure or figure.get("value") is None:
            continue
        about = [one.removeprefix(name).lstrip(": ") for one in reasons if one.startswith(name)]
        yield FigureLine(name, figure, "; ".join(about) or _compared(name, row))


def _compared(name: str, row: Mapping[str, Any]) -> str:
    """Return what a figure without a fault is to be compared with."""
    if name != "kappa":
        return "ok"
    people = (row.get("people_kappa") or {}).get("value")
    if people is not None:
        return f"between people: {number(people)}"
    constant = (row.get("references") or {}).get("always-met") or {}
    kappa = (constant.get("kappa") or {}).get("value")
    return "" if kappa is None else f"always-met judge: {number(kappa)}"


def print_short(done: Calibrated, console: Console) -> None:
    """Print whether the judge may be trusted, the figures that decide it, and what to do next."""
    show_parts(console, list(_parts(done)))
    # Commands are not wrapped, so that they can be pasted.
    for line in _next(done):
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _next(done: Calibrated) -> Iterator[str]:
    if done.following or len(done.row["rubrics"]) > 1:
        yield from done.following
        return
    (name,) = done.row["rubrics"]
    todo = short_of(done.row, name, today=date.today()).todo
    yield f"Next: {todo[0].lower()}{todo[1:]}"


def _parts(done: Calibrated) -> Iterator[Part]:
    first, rubrics = headline_of(done.row), done.row["rubrics"]
    if len(rubrics) > 1:
        yield Line(first, "bold")
        yield overview(done.reports)
        yield from map(Line, account_of(done, brief=True))
        return
    ((name, row),) = rubrics.items()
    short = short_of(done.row, name, today=date.today())
    # The line has to fit a terminal of 80 columns.
    first = f"{first} ({short.on})" if len(first) + len(short.on) < 78 else first
    yield Line(first, f"bold {COLOURS.get(row['verdict'], '')}")
    yield _table(short)
    if short.why:
        yield Line(f"Why: {'; '.join(short.why)}.")
    yield from map(Line, account_of(done, brief=True))


def _table(short: Short) -> Table:
    rows = []
    for line in short.figures:
        value = line.figure["value"]
        cells = (Cell(number(value), value), interval(line.figure), str(line.figure.get("n", "")))
        rows.append(row_of(line.title, *cells, line.note))
    columns = [named(), *figures("value", "95 % interval", "n"), named("required")]
    return Table("", columns, rows)


def answer_of(
    calibration: Calibration, rubric: str, today: date | None
) -> tuple[str, tuple[str, ...], str]:
    """Return the verdict, why, and what to do next; without `today` it never has `expired`."""
    row, expires = calibration.rubrics[rubric], calibration.expires
    if today is not None and expires is not None and expires < today.isoformat():
        again = "Calibrate the judge again in another folder: out=DIR"
        return "expired", (f"the calibration expired on {expires}",), again
    reasons = _reasons(calibration, row)
    # Made items are no sample of real answers, so the next step is always people's labels.
    if row.acceptance is not None:
        job = "match" if rubric == MATCHING else "rate"
        todo = f"Measure the judge on human labels: alps annotate work job={job} from=RUN"
        return row.verdict, (*reasons, _MADE), todo
    gates = calibration.all_gates
    more = _labels_needed(row, gates)
    if row.verdict == "fail" and not (more and _may_pass(row, gates)):
        other = "Use another judge, or audit the run: audit_judge=MODEL or audit_labels=DIR"
        return row.verdict, reasons, other
    if more:
        todo = f"Have two people label about {more:,} more items: alps annotate FOLDER as=NAME"
        return row.verdict, reasons, todo
    if row.verdict == "pass" and calibration.judge_fingerprint is not None:
        todo = "Use this judge; alps corrects the judge's scores with this calibration."
        return row.verdict, reasons, todo
    return row.verdict, reasons, "Use this judge if these caveats do not affect your comparison."


def _reasons(calibration: Calibration, row: RubricRow) -> tuple[str, ...]:
    """Return why the verdict is what it is."""
    changed = not_default(calibration.changed_gates)
    reasons = row.reasons
    if row.verdict == "pass" and not reasons:
        # The list of calibrations shows the first reason alone.
        reasons = (f"the judge passes every gate{changed and f' ({changed})'}",)
    elif changed:
        reasons = (*reasons, changed)
    if row.acceptance is None and calibration.judge_fingerprint is None:
        reasons = (*reasons, "the verdicts were recorded, so the model may have changed since")
    return reasons


def _may_pass(row: RubricRow, gates: Gates) -> bool:
    """Tell whether a judge that failed on few items may be good enough, by its intervals."""
    if row.unparsed > gates.unparsed * (row.n + row.unparsed):
        return False
    same = row.self_agreement
    if same is not None and same.value is not None and 1 - same.value > gates.self_flip:
        return False
    bars = [(rate, gates.rate) for rate in (row.sensitivity, row.specificity)]
    if row.people_kappa is not None and row.people_kappa.value is not None:
        bars.append((row.kappa, row.people_kappa.value - gates.below_people))
    return all(_reaches(figure, bar) for figure, bar in bars)


def _reaches(figure: FigureRow | None, bar: float) -> bool:
    if figure is None or figure.value is None:
        return True
    return (figure.value if figure.high is None else figure.high) >= bar


def _labels_needed(row: RubricRow, gates: Gates) -> int:
    """Return about how many more items would settle the rates; 0 where they are settled."""
    times = 1.0
    classes = ((row.tp + row.fn, row.sensitivity), (row.tn + row.fp, row.specificity))
    rates = [(labelled, rate) for labelled, rate in classes if labelled and rate is not None]
    if not rates and row.n:
        times = 2 * gates.items / row.n
    for labelled, rate in rates:
        times = max(times, gates.items / labelled, _narrower(rate, gates))
    return ceil((min(times, _MOST_TIMES) - 1) * row.n) if times > 1 else 0


def _narrower(rate: FigureRow, gates: Gates) -> float:
    """Return how many times the items an interval needs to end at the gate."""
    if rate.value is None or rate.low is None or rate.low >= gates.rate:
        return 1.0
    room = rate.value - gates.rate
    # More items of a rate below the gate narrow its interval around a failure.
    if room <= 0:
        return 1.0
    # The width of an interval falls by the root of the number of items.
    return ((rate.value - rate.low) / room) ** 2
