"""Tables of agreement in the terminal: at most 80 columns."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console

from alps.ext.people.agreement.annotations import SAID
from alps.ext.people.agreement.measure import Measured
from alps.ext.people.agreement.rows import (
    AgreementFigure,
    DraftRow,
    GoldAgreement,
    LabelAgreement,
    LabelledRow,
    PairOfPeople,
    PartRow,
)
from alps.rows import Calls
from alps.show.formatting import counted, price_lines, spent
from alps.show.table import (
    BLANK,
    Cells,
    Column,
    Line,
    Part,
    Row,
    Table,
    figures,
    named,
    row_of,
    scored,
    show_parts,
    thousands,
    with_interval,
)

# Titles of figures; one that is indented says more of the figure above it.
_TITLES = {
    "set_f1": "set F1 (mean over sessions)",
    "set_f1_micro": "  pooled over all items",
    "identical": "  if only identical texts match",
    "same_memory": "the same memory",
    "query_f1": "F1 of queries (mean over sessions)",
    "query_f1_micro": "  pooled over all queries",
    "spearman_confidence": "Spearman of confidence",
    "mae_confidence": "mean difference of confidence",
}
_WITHOUT = {
    "set_f1_micro": "set F1 of items not in the draft",
    "set_f1": "  in sessions where both have such items",
    "same_memory_micro": "the same memory, if it is not in the draft",
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
    parts: list[Part] = []
    if isinstance(row, LabelAgreement):
        for rubric, labelled in row.rubrics.items():
            parts += [*_rubric(rubric, labelled), BLANK]
    else:
        parts += [*map(Line, _head(row)), BLANK]
        for part in row.parts.values():
            parts += [*_part(part, row.annotators), BLANK]
        parts += map(Line, _foot(row, measured.calls))
    show_parts(console, parts)


def _head(row: GoldAgreement) -> Iterator[str]:
    names = " and ".join(row.annotators)
    alone = f"; sessions of only one of them, left out: {row.alone:,}" if row.alone else ""
    yield f"{names} on {counted(row.sessions, 'session')}{alone}"
    yield f"Matching: {row.matching}"
    if row.draft is None:
        yield "Draft: unknown, so kept parts of a draft count as agreement (to name it, set draft=)"
    else:
        drafted = any(part.drafts for part in row.parts.values())
        none = "" if drafted else "; it has none of these sessions"
        yield f"Draft that both started from: {row.draft}{none}"


def _part(part: PartRow, people: tuple[str, str]) -> Iterator[Part]:
    yield Line(part.title, "bold")
    for kind, counts in part.counts.items():
        if kind != "memory":
            first, second = counts.items
            yield Line(f"{_KINDS[kind]}: {first:,} and {second:,}, {counts.pairs:,} pairs match")
    measured = [name for name in _TITLES if name in part.figures]
    rows = [_row(_TITLES[name], part.figures[name]) for name in measured]
    for kind, draft in part.drafts.items():
        if rows:
            rows[-1] = rows[-1]._replace(ends=True)
        rows += _draft_rows(kind, draft, people)
    yield Table("", _FIGURES, rows)
    if labels := list(_labels(part.figures)):
        columns = figures("same", "kappa", "95 %", "alpha", "95 %", "pairs")
        yield Table("", [named("of matched pairs", "fold"), *columns], labels)


_FIGURES = [named(wraps="fold"), *figures("", "95 % interval", "n"), Column(wraps="no")]


def _row(title: str, figure: AgreementFigure) -> Row:
    return row_of(title, *with_interval(figure), thousands(figure.n), figure.unit)


def _draft_rows(kind: str, draft: DraftRow, people: tuple[str, str]) -> Iterator[Row]:
    for name, share in zip(people, draft.verbatim, strict=True):
        yield _row(f"{_KINDS[kind]} from the draft: {name}", share)
    for name, title in _WITHOUT.items():
        if name in draft.without:
            yield _row(title, draft.without[name])


def _labels(found: Mapping[str, AgreementFigure]) -> Iterator[Row]:
    """Put kappa and alpha of what is said of matched items into one table."""
    for name, title in _LABELS.items():
        if f"kappa_{name}" not in found:
            continue
        same, kappa, alpha = (found[f"{by}_{name}"] for by in ("agreement", "kappa", "alpha"))
        cells: list[Cells] = [scored(same), *with_interval(kappa), *with_interval(alpha)]
        yield row_of(title, *cells, thousands(same.n))


def _rubric(rubric: str, row: LabelledRow) -> Iterator[Part]:
    yield Line(rubric, "bold")
    people = counted(len(row.people), "person", "people")
    yield Line(f"{people}, {counted(row.items, 'item')}, {row.twice:,} labelled twice or more")
    weights = "" if row.kind == "nominal" else " (quadratic)"
    rows = []
    for name, title in _OF_PEOPLE.items():
        if name in row.figures:
            rows.append(_row(title.format(weights=weights), row.figures[name]))
    yield Table("", _FIGURES, rows)
    if len(row.pairs) > 1:
        yield _pairs(row.pairs)


def _pairs(pairs: Sequence[PairOfPeople]) -> Table:
    rows = []
    for pair in pairs:
        same, kappa = pair.figures["agreement"], pair.figures["kappa"]
        cells = *with_interval(same), *with_interval(kappa), thousands(same.n)
        rows.append(row_of(" and ".join(pair.people), *cells))
    columns = figures("same", "95 % interval", "kappa", "95 % interval", "n")
    return Table("", [named("pairs of people", "fold"), *columns], rows)


def _foot(row: GoldAgreement, calls: Calls | None) -> Iterator[str]:
    if row.unjudged:
        why = ", ".join(f"{name} {count:,}" for name, count in row.unjudged.items())
        yield f"No metric includes the lists for which matching failed: {why}."
    if calls is not None and (calls.http or calls.cached):
        yield spent(calls)
        yield from price_lines(calls)
