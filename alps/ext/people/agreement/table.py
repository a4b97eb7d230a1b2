"""Tables of agreement in the terminal: at most 80 columns."""

from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from alps.ext.people.agreement.annotations import SAID
from alps.ext.people.agreement.measure import Measured
from alps.ext.people.agreement.rows import (
    DraftRow,
    FigureRow,
    GoldAgreement,
    LabelAgreement,
    LabelledRow,
    PairOfPeople,
    PartRow,
)
from alps.rows import Calls
from alps.show.formatting import counted, interval, number, price_lines, spent, visible

WIDTH = 80
# Titles of figures; one that is indented says more of the figure above it.
_TITLES = {
    "set_f1": "set F1 (mean over sessions)",
    "set_f1_micro": "  of all items at once",
    "identical": "  by the same text alone",
    "same_memory": "the same memory",
    "query_f1": "F1 of queries (mean over sessions)",
    "query_f1_micro": "  of all queries at once",
    "spearman_confidence": "Spearman of confidence",
    "mae_confidence": "mean difference of confidence",
}
_WITHOUT = {
    "set_f1_micro": "set F1 of items not in the draft",
    "set_f1": "  in sessions where both left some",
    "same_memory_micro": "the same memory, not the draft's",
    "query_f1_micro": "F1 of queries not in the draft",
}
_LABELS = {"type": "type", "label": "label", "time_scope": "time scope", **SAID}
_OF_PEOPLE = {
    "kappa": "kappa{weights}, mean over pairs",
    "alpha": "Krippendorff's alpha",
    "ac1": "AC1",
    "ac2": "AC2 (quadratic)",
}
_KINDS = {"memories": "items", "memory": "memories", "queries": "queries"}


def print_agreement(measured: Measured, console: Console) -> None:
    """Print who agrees with whom, by which rule, and every figure with its interval."""
    row = measured.row
    parts: list[RenderableType] = []
    if isinstance(row, LabelAgreement):
        for rubric, labelled in row.rubrics.items():
            parts += [*_rubric(rubric, labelled), Text()]
    else:
        parts += [*map(Text, _head(row)), Text()]
        for part in row.parts.values():
            parts += [*_part(part, row.annotators), Text()]
        parts += map(Text, _foot(row, measured.calls))
    console.print(Group(*parts), width=min(WIDTH, console.width))


def _head(row: GoldAgreement) -> Iterator[str]:
    names = " and ".join(map(visible, row.annotators))
    alone = f"; {row.alone:,} that one of them has are left out" if row.alone else ""
    yield f"{names} on {counted(row.sessions, 'session')}{alone}"
    yield f"Matching: {visible(row.matching)}"
    if row.draft is None:
        yield "Draft: not known; what both kept of one counts as agreement (draft= names it)"
    else:
        drafted = any(part.drafts for part in row.parts.values())
        none = "" if drafted else ", with none of these sessions"
        yield f"Draft that both started from: {visible(row.draft)}{none}"


def _part(part: PartRow, names: tuple[str, str]) -> Iterator[RenderableType]:
    yield Text(part.title, style="bold")
    for kind, counts in part.counts.items():
        if kind != "memory":
            first, second = counts.items
            yield Text(f"{_KINDS[kind]}: {first:,} and {second:,}, {counts.pairs:,} pairs match")
    table = _figures()
    for name, title in _TITLES.items():
        if name in part.figures:
            _add(table, title, part.figures[name])
    for kind, draft in part.drafts.items():
        _add_draft(table, kind, draft, names)
    yield table
    labels = _labels(part.figures)
    if labels.row_count:
        yield labels


def _add_draft(table: Table, kind: str, draft: DraftRow, names: tuple[str, str]) -> None:
    table.add_section()
    for name, share in zip(names, draft.verbatim, strict=True):
        _add(table, f"{_KINDS[kind]} from the draft: {visible(name)}", share)
    for name, title in _WITHOUT.items():
        if name in draft.without:
            _add(table, title, draft.without[name])


def _labels(figures: Mapping[str, FigureRow]) -> Table:
    """Put kappa and alpha of what is said of matched items into one table."""
    table = _table("of matched pairs", "same", "kappa", "95 %", "alpha", "95 %", "pairs")
    for name, title in _LABELS.items():
        if f"kappa_{name}" not in figures:
            continue
        same, kappa, alpha = (figures[f"{by}_{name}"] for by in ("agreement", "kappa", "alpha"))
        cells = [number(same.value), number(kappa.value), interval(kappa)]
        cells += [number(alpha.value), interval(alpha), f"{same.n:,}"]
        table.add_row(title, *cells)
    return table


def _table(first: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _figures() -> Table:
    table = _table("", "", "95 % interval", "n")
    table.add_column("", no_wrap=True)
    return table


def _add(table: Table, title: str, figure: FigureRow) -> None:
    cells = (number(figure.value), interval(figure), f"{figure.n:,}", figure.unit)
    table.add_row(title, *cells)


def _rubric(rubric: str, row: LabelledRow) -> Iterator[RenderableType]:
    yield Text(visible(rubric), style="bold")
    people = counted(len(row.people), "person", "people")
    yield Text(f"{people}, {counted(row.items, 'item')}, {row.twice:,} labelled twice or more")
    table = _figures()
    for name, title in _OF_PEOPLE.items():
        if name in row.figures:
            weights = "" if row.kind == "nominal" else " (quadratic)"
            _add(table, title.format(weights=weights), row.figures[name])
    yield table
    if len(row.pairs) > 1:
        yield _pairs(row.pairs)


def _pairs(pairs: Sequence[PairOfPeople]) -> Table:
    table = _table("pairs of people", "same", "95 % interval", "kappa", "95 % interval", "n")
    for pair in pairs:
        same, kappa = pair.figures["agreement"], pair.figures["kappa"]
        names = " and ".join(map(visible, pair.people))
        cells = [number(same.value), interval(same), number(kappa.value), interval(kappa)]
        table.add_row(names, *cells, f"{same.n:,}")
    return table


def _foot(row: GoldAgreement, calls: Calls | None) -> Iterator[str]:
    if row.unjudged:
        why = ", ".join(f"{name} {count:,}" for name, count in row.unjudged.items())
        yield f"Not matched, and in no figure: {why}."
    if calls is not None and (calls.http or calls.cached):
        yield spent(calls)
        yield from price_lines(calls)
