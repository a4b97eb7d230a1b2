"""A calibration in a terminal of 80 columns, and the scores of a run that it corrects."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from rich.console import Console

from alps.ext.calibration.calibrate import Calibrated
from alps.ext.calibration.controls import Acceptance, GroupTest, Reference
from alps.ext.calibration.report import AtThreshold, ReportDetails, RubricReport
from alps.ext.calibration.settings import not_default
from alps.rows import Corrected, Summary
from alps.show.formatting import (
    counted,
    interval,
    number,
    p_value,
    price_lines,
    served_lines,
    signed,
    spent,
)
from alps.show.parts import ShownPart
from alps.show.table import (
    BLANK,
    WIDTH,
    Cell,
    Cells,
    Column,
    Line,
    Part,
    Row,
    Table,
    both,
    figures,
    named,
    printed,
    row_of,
    scored,
    show_parts,
    thousands,
    ungrouped,
    with_interval,
)
from alps.stats.bootstrap import Estimate
from alps.tasks import Metric

# The verdicts of `calibration.json` as people read them.
SAID = {"pass": "pass", "limits": "passes with caveats", "fail": "fail"}
_BRIEF = {"limits": "caveats"}
COLOURS = {"pass": "green", "limits": "yellow", "fail": "red"}
# Titles of figures; one that is indented says more of the figure above it.
TITLES = {
    "sensitivity": "sensitivity",
    "sensitivity_unclustered": "  as if items were independent",
    "sensitivity_unparsed_wrong": "  unparsed counted as wrong",
    "specificity": "specificity",
    "specificity_unclustered": "  as if items were independent",
    "specificity_unparsed_wrong": "  unparsed counted as wrong",
    "ppv": "PPV (correct share of {positive} verdicts)",
    "npv": "NPV (correct share of {negative} verdicts)",
    "agreement": "agreement",
    "kappa": "kappa with people{weights}",
    "people_kappa": "  between people",
    "pabak": "PABAK (kappa at even base rates)",
    "prevalence_index": "prevalence index",
    "bias_index": "bias index",
    "ac1": "AC1",
    "ac2": "AC2 (quadratic)",
    "alpha_people": "alpha (people)",
    "alpha_with_judge": "  with the judge added",
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
# Values whose base rates fit into a line, and groups whose agreement does.
_VALUES, _GROUPS = 7, 4

_UNDATED = "; the model name is undated, so the provider may change the model"
_RECORDED = (
    "The recorded verdicts do not name the judge's prompt and settings, so alps reports agreement "
    "but corrects no scores. To correct scores, calibrate again without recorded verdicts."
)
# What a line is about, and the line.
Fact = tuple[str, str]


def print_calibration(reports: Sequence[RubricReport], *, judge: str, console: Console) -> None:
    """Print the figures of each rubric, trivial judges next to this one, and the verdict."""
    parts: list[Part] = []
    for report in reports:
        parts += [*_rubric(report, judge, narrow=console.width < WIDTH), BLANK]
    if len(reports) > 1:
        parts.append(Line(f"{judge}: all rubrics (not pooled)", "bold"))
        parts.append(overview(reports))
    show_parts(console, parts)


def print_account(done: Calibrated, console: Console) -> None:
    """Print what was asked, what it cost, what is missing, and how long the calibration holds."""
    for part in printed(map(Line, account_of(done))):
        console.print(part)


def account_of(done: Calibrated, *, brief: bool = False) -> Iterator[str]:
    """Yield the sentences on missing items, cost and validity."""
    if done.left_out and brief:
        rubrics = counted(len(done.left_out), "rubric")
        yield f"{done.judge} cannot apply {rubrics}; alps ignores their labels."
    elif done.left_out:
        rubrics = ", ".join(done.left_out)
        yield f"{done.judge} cannot apply these rubrics, so alps ignores their labels: {rubrics}."
    if done.unheard:
        yield f"Left out: {counted(done.unheard, 'item')} without a response from the judge."
    if done.calls is not None and (done.calls.http or done.calls.cached):
        yield spent(done.calls)
        if not brief:
            yield from price_lines(done.calls)
            yield from served_lines(done.served)
    # Under one rubric, the short form names the gates among its reasons.
    if (gates := done.row.get("gates")) and not (brief and len(done.row["rubrics"]) == 1):
        yield f"{not_default(gates).capitalize()}."
    yield from _holds(done, "Valid" if brief else "Valid for this judge with these settings")


def _holds(done: Calibrated, valid: str) -> Iterator[str]:
    """Yield until when the calibration is valid, or why it corrects nothing."""
    expires = done.row.get("expires")
    if expires is None:
        if done.row:
            yield _RECORDED
        return
    undated = "" if done.row["pinned"] else _UNDATED
    # A folder that was resumed may hold verdicts that are too old to count.
    if expires < date.today().isoformat():
        made = done.row["made"]
        old = f"The calibration expired on {expires}, as the oldest verdict is from {made}"
        yield f"{old}{undated}; calibrate again in another folder."
    else:
        yield f"{valid} until {expires}{undated}."


def _rubric(report: RubricReport, judge: str, *, narrow: bool) -> Iterator[Part]:
    details = report.details
    yield Line(f"{judge} on {report.rubric}", "bold")
    if rows := [row_of(*cells) for cells in _figures(report)]:
        yield Table("", [named(), *figures("value", "95 % interval", "n")], rows)
    if details.references is not None:
        alone = details.references["people"].reason is not None
        people = "" if alone else ", and each person compared with the others"
        yield Line(f"Trivial judges{people}", "bold")
        yield _references(report, details.references)
    if details.acceptance is not None:
        yield Line("Items with known answers, by kind", "bold")
        yield _acceptance(details.acceptance, narrow=narrow)
    facts = [row_of(Cell(f" {name}", style="dim"), line) for name, line in lines_of(report)]
    yield Table("", [named(wraps="no"), named(wraps="fold")], facts, layout="list")
    verdict = SAID.get(report.verdict, report.verdict)
    colon = ":" if report.verdict == "limits" else ""
    yield Line(f"Verdict: {verdict}{colon}", f"bold {COLOURS.get(report.verdict, '')}")
    for reason in report.reasons:
        yield Table("", [named(), named()], [row_of("  –", reason)], layout="points")


def _figures(report: RubricReport) -> Iterator[tuple[Cells, ...]]:
    """Yield the figures that are defined; one that only repeats the one above it is left out."""
    values = report.details.scale.values
    words = {"negative": str(values[0]), "positive": str(values[-1])}
    words["weights"] = "" if report.kind == "nominal" else " (quadratic)"
    for name, title in TITLES.items():
        figure = report.figures.get(name)
        if figure is None or figure.value is None or _repeats(report.figures, name):
            continue
        yield title.format(**words), scored(figure), _between(figure), thousands(figure.n)


def _repeats(figures: Mapping[str, Estimate], name: str) -> bool:
    """Tell whether a variant of a rate is the same as the one printed above it."""
    rate, _, variant = name.partition("_un")
    if not variant or rate not in figures:
        return False
    above = rate if variant == "clustered" else f"{rate}_unclustered"
    return figures.get(above) == figures[name]


def _references(report: RubricReport, references: Mapping[str, Reference]) -> Table:
    rows = {"this judge": Reference(report.counts["n"], report.figures)}
    rows |= {name: row for name, row in references.items() if row.reason is None}
    shown = _columns(list(rows.values()))
    laid = []
    for name, row in rows.items():
        cells: list[Cells] = []
        for figure in shown:
            found = _value(row, figure)
            cells.append(Cell(number(found), found))
        kappa = row.figures.get("kappa")
        cells += [_between(kappa) if kappa else "–", thousands(row.n)]
        laid.append(row_of(name, *cells, style="bold" if name == "this judge" else ""))
    columns = [*(_COLUMNS[name] for name in shown), "95 % interval", "n"]
    return Table("", [named(), *figures(*columns)], laid)


def _columns(rows: Sequence[Reference]) -> list[str]:
    """Return the figures that any of the rows has, as many as fit."""
    shown = []
    for name in _COLUMNS:
        if any(_value(row, name) is not None for row in rows):
            shown.append(name)
    # The mean error says more than agreement, and both do not fit.
    return [name for name in shown if name != "agreement"] if "mae" in shown else shown


def _value(row: Reference, name: str) -> float | None:
    figure = row.figures.get(name)
    return figure.value if figure else None


def _acceptance(kinds: Mapping[str, Acceptance], *, narrow: bool) -> Table:
    unparsed = any(row.unparsed for row in kinds.values())
    share = "share" if narrow else "share accepted"
    rows = []
    for kind, row in kinds.items():
        part = row.accepted / row.n if row.n else None
        cells: list[Cells] = [ungrouped(row.right), ungrouped(row.accepted)]
        cells += [Cell(number(part), part), interval(vars(row)), ungrouped(row.n)]
        cells += [ungrouped(row.unparsed)] if unparsed else []
        rows.append(row_of(kind.replace("_", " "), *cells))
    columns = ["right", "accepted", share, "95 % interval", "n"]
    columns += ["not parsed"] if unparsed else []
    return Table("", [named(wraps="fold"), *figures(*columns)], rows)


def overview(reports: Sequence[RubricReport]) -> Table:
    """Put every rubric into one table, never pooled."""
    nothing = Estimate(None, None, None, 0)
    rows = []
    for report in reports:
        kappa = report.figures.get("kappa", nothing)
        people = report.figures.get("people_kappa", nothing)
        verdict = _BRIEF.get(report.verdict, report.verdict)
        cells = scored(kappa), _between(kappa), scored(people), thousands(report.counts["n"])
        shown = Cell(verdict, style=COLOURS.get(report.verdict, ""))
        rows.append(row_of(report.rubric, *cells, shown))
    columns = figures("kappa", "95 % interval", "people", "n", "")
    return Table("", [named(wraps="fold"), *columns], rows)


def _between(figure: Estimate) -> str:
    """Return an interval, or – for one without a width."""
    # Where nothing differs, resampling has nothing to vary.
    return "–" if figure.low == figure.high else interval(vars(figure))


def lines_of(report: RubricReport) -> Iterator[Fact]:
    """Yield the lines below the tables of a rubric; what is not defined has none."""
    counts, details = report.counts, report.details
    yield "items", ", ".join(_counts(counts, details))
    if "tp" in counts:
        cells = ", ".join(f"{cell} {counts[cell]}" for cell in ("tp", "fn", "fp", "tn"))
        yield "confusion", cells
    if details.at_threshold is not None:
        yield "accepted", _accepted(details.at_threshold)
    yield from _base_rates(details)
    yield from _people(details)
    for name, test in (details.heterogeneity or {}).items():
        yield f"by {name}", _groups(test)
    yield from _ranking(details)
    yield from _length(details)
    yield from _certainty(details)
    for name, row in (details.references or {}).items():
        if row.reason is not None:
            yield name, f"n/a: {row.reason}"


def _counts(counts: Mapping[str, int], details: ReportDetails) -> Iterator[str]:
    items = counts["n"] + counts["unparsed"] + counts["unlabelled"]
    all_in = counted(details.clusters, "cluster")
    clusters = f" (all in {all_in})" if details.clusters < items else ""
    yield f"{counts['n']:,} with a label and a verdict{clusters}"
    if counts["unparsed"]:
        yield f"{counted(counts['unparsed'], 'verdict')} not parsed"
    tied = counts.get("tied", counts["unlabelled"])
    if tied:
        yield f"{tied:,} on which people tie ({tied / items:.0%})"
    if unlabelled := counts["unlabelled"] - tied:
        yield f"{unlabelled:,} without a label"
    if counts.get("unheard"):
        yield f"{counts['unheard']:,} more without a response"


def _accepted(part: AtThreshold) -> str:
    rates = []
    for name, rate in (("sensitivity", part.sensitivity), ("specificity", part.specificity)):
        if rate.n:
            rates.append(f"{name} {number(rate.value)} {interval(vars(rate))} (n {rate.n:,})")
    return f"{', '.join(map(str, part.accepted))}: {', '.join(rates)}"


def _base_rates(details: ReportDetails) -> Iterator[Fact]:
    # Where somebody made the items right or wrong, and no person labelled them, labels are known.
    known = details.acceptance is not None and not any(pair.single for pair in details.pairs)
    names = {"people": "known labels" if known else "people's labels", "judge": "judge's labels"}
    for who, shares in (details.base_rates or {}).items():
        if len(shares) <= _VALUES:
            yield names[who], _shares(shares)


def _shares(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {number(share)}" for name, share in shares.items())


def _people(details: ReportDetails) -> Iterator[Fact]:
    aligned, test = details.aligned, details.alternative_annotator
    if aligned is not None and aligned.full.value is not None:
        full, some = number(aligned.full.value), number(aligned.partial.value)
        none = number(aligned.none.value)
        yield "judge agrees", f"with all people {full}, with some of them {some}, with none {none}"
    if test is not None:
        figures = why = ""
        if test.omega is not None:
            figures = f"omega {number(test.omega)}, rho {number(test.rho.value)} at "
        if test.status == "underpowered":
            why = ": too few items or people"
        yield "alt. annotator", f"{figures}epsilon {test.epsilon:g}: {test.status}{why}"


def _groups(test: GroupTest) -> str:
    shares = test.agreement
    p = f"p {p_value(test.p)}"
    if len(shares) <= _GROUPS:
        return f"agreement {_shares(shares)} ({p})"
    low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    ends = f"from {number(shares[low])} ({low}) to {number(shares[high])} ({high})"
    return f"agreement {ends}, {len(shares)} groups ({p})"


def _ranking(details: ReportDetails) -> Iterator[Fact]:
    ranking = details.system_ranking
    if ranking is not None and ranking.spearman is not None:
        figures = f"Spearman {number(ranking.spearman)}, Kendall {number(ranking.kendall)}"
        yield "systems", f"{figures} with people's order of {ranking.n} systems"


def _length(details: ReportDetails) -> Iterator[Fact]:
    part = details.length_preference
    if part is None or part.net.value is None:
        return
    values = {name: side.value for name, side in part.sides.items()}
    if part.by == "pairs":
        sides = f"judge {number(values['judge'])}, people {number(values['people'])}"
    else:
        sides = f"long {signed(values['longer'])}, short {signed(values['shorter'])}"
    net = f"{signed(part.net.value)} {interval(vars(part.net))}"
    yield "length preference", f"{net}, after subtracting people's preference ({sides})"


def _certainty(details: ReportDetails) -> Iterator[Fact]:
    reliability, part = details.reliability, details.selective
    if reliability is not None and reliability.calibration_error is not None:
        error = number(reliability.calibration_error)
        yield "probability", f"differs from people's share of positive labels by {error} on average"
    if part is None:
        return
    best = part.threshold
    if best is None:
        yield "trust the judge", part.reason
        return
    kept = f"{best.kept:,} of {best.n:,} items, {counted(best.disagreements, 'disagreement')}"
    certainty = f"with {1 - part.failure:.0%} certainty"
    promised = f"disagreement rate at most {number(best.bound)} {certainty}"
    yield "trust the judge", f"at confidence ≥ {number(best.confidence)}: {kept} ({promised})"


_METHODS = {
    "ppi": "alps corrects scores with PPI++, using labels of a random sample of answers.",
    "rogan_gladen": "alps corrects scores with the Rogan–Gladen estimator, which assumes that "
    "the judge errs as often on these answers as on the labelled items.",
}


class CalibrationShownPart(ShownPart):
    """What is shown of calibrations."""

    def rows(self, summary: Summary, track: str, metric: Metric) -> Iterator[Row]:
        """Yield the headline as the calibration corrects it."""
        own = summary.tracks[track].scores[metric.name].corrected
        if own is not None:
            doubt = ", doubtful" if own.notes else ""
            if own.impossible:
                doubt = ": off the scale, the calibration may not fit"
            by = f"by {counted(own.labelled, 'label')}{doubt}"
            yield row_of(
                "corrected", *with_interval(own), by if own.reason is None else "not correctable"
            )

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
            title = "Corrected for judge errors by human labels"
            notes = list(map(Line, correction_lines(corrected)))
            yield Table(title, columns, rows, notes, layout="roomy")


def correction_lines(rows: Mapping[str, Corrected]) -> list[str]:
    """Return how scores were corrected, by their titles, and what could not be."""
    corrected = [row for row in rows.values() if row.value is not None]
    lines = list(dict.fromkeys(_METHODS[row.method] for row in corrected))
    # Cut off at the ends of the scale, a correction would hide that it does not fit the run.
    if any(row.impossible for row in corrected):
        lines.append("! A corrected score is off the scale: the calibration may not fit this run.")
    elif any(row.outside for row in corrected):
        lines.append("! The interval of a corrected score extends beyond the scale.")
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
