"""The agreement that `alps annotate agreement` measures, on gold or on a label folder, and prints.

That of a label folder is measured rubric by rubric. Tables are at most 80 columns wide.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from alps.errors import UsageError, closest
from alps.event_loop import run_loop
from alps.ext.calibration.agreement import pair_features, rater_estimates
from alps.ext.calibration.labels import ITEMS, LABELS, SCALE, Verdict, Verdicts, read_labels
from alps.ext.calibration.matrix import (
    LabelMatrix,
    label_matrix,
    mean_kappa,
    most_shared,
    table_figures,
)
from alps.ext.people.agreement_rows import (
    AgreementFigure,
    DraftRow,
    GoldAgreement,
    LabelAgreement,
    LabelledRow,
    PairOfPeople,
    PartRow,
)
from alps.ext.people.annotations import (
    SAID,
    TITLES,
    TwoPeople,
    annotation_files,
    read_draft,
    read_two,
    release_beside,
)
from alps.ext.people.gold import PUBLISHERS, GoldDraft, gold_agreement, judge_rule, publishers_rule
from alps.ext.people.settings import AgreementSettings
from alps.judges.embedded import EMBEDDED_JUDGES
from alps.llm.ledger import Ledger
from alps.rows import Calls
from alps.run.folder import write_json
from alps.run.progress import progress_line
from alps.run.services import check_judge, open_judge
from alps.run.session import effective_judge, refuse_without_effect
from alps.run.summary import summarise_calls
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

NO_DRAFT = "off"

# Titles of figures; one that is indented says more of the figure above it.
_TITLES = {
    "set_f1": "set F1 (mean over sessions)",
    "set_f1_micro": "  pooled over all items",
    "identical": "  if only identical texts match",
    "same_memory": "the same memory",
    "query_f1": "F1 of queries (mean over sessions)",
    "query_f1_micro": "  pooled over all queries",
    "spearman_confidence": "Spearman of confidence",
    "mae_confidence": "mean difference in confidence",
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
_FIGURES = [named(wraps="fold"), *figures("", "95 % interval", "n"), Column(wraps="no")]


@dataclass(frozen=True)
class Measured:
    """What was measured, and what asking a judge took; None where none was asked."""

    row: GoldAgreement | LabelAgreement
    calls: Calls | None = None
    budget_spent: bool = False
    too_many_unjudged: bool = False

    def as_json(self) -> dict[str, object]:
        """Return the result as JSON values."""
        return self.row.as_json()


def measure(words: Sequence[str], settings: AgreementSettings) -> Measured:
    """Measure how far people agree, and write it where `out` says.

    The words name a folder with the annotations of two people, their two files, or a label folder.

    Raises:
        AlpsError: If labels, draft, rule or file can't be used.
    """
    if not words:
        raise UsageError("name a folder with annotations, two annotation files, or a label folder")
    paths = [Path(word).expanduser() for word in words]
    files = annotation_files(paths)
    if files:
        settings = _with_judge(settings)
        people = read_two(files)
        measured = _on_gold(people, _draft(settings.draft, people), settings)
    else:
        measured = Measured(_on_labels(paths, settings))
    if settings.out is not None:
        _write(measured.row, Path(settings.out))
    return measured


def _on_labels(paths: Sequence[Path], settings: AgreementSettings) -> LabelAgreement:
    """Measure human agreement per rubric; items with one label are left out.

    Kappa is quadratic unless the scale is nominal, and the mean over pairs of people, weighted by
    the items that they share. Derived labels (an adjudication) are nobody's own, and left out.

    Raises:
        UsageError: If the folder can't be used, or no item has labels of two people.
    """
    if len(paths) > 1:
        raise UsageError(f"{paths[1]}: name one label folder at a time")
    if not any((paths[0] / name).exists() for name in (ITEMS, LABELS, SCALE)):
        why = "neither a label folder nor a folder with annotator_….jsonl"
        raise UsageError(f"{paths[0]}: {why}")
    # Both match memories. Items of a label folder are the same for all who label.
    for name in ("rule", "draft"):
        if name in settings.model_fields_set:
            why = "labels of a label folder are compared on their scale"
            given = getattr(settings, name)
            raise UsageError(f"{name}={given} would change nothing: {why}; leave it out")
    labels = read_labels(paths[0])
    # The matrix of a judge who said nothing: its rows are all items.
    nobody = Verdicts("", dict.fromkeys(labels.items, Verdict(None)), "")
    rubrics: dict[str, LabelledRow] = {}
    for rubric in labels.rubrics:
        row = _of_rubric(label_matrix(labels, rubric, nobody), seed=settings.seed)
        if row is not None:
            rubrics[rubric] = row
    if not rubrics:
        raise UsageError("agreement needs items that two people labelled, but there are none")
    return LabelAgreement(labels=labels.sha256, rubrics=rubrics)


def _write(row: GoldAgreement | LabelAgreement, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, row.as_json())
    except OSError as error:
        raise UsageError(f"out={path}: {error.strerror}; choose another file") from error


def _with_judge(settings: AgreementSettings) -> AgreementSettings:
    """Return the settings with the judge that matches, after what has no effect is refused."""
    if settings.judge:
        raise UsageError(f"judge={settings.judge}: write rule={settings.judge}")
    known = (PUBLISHERS, *EMBEDDED_JUDGES)
    if settings.rule not in known and "/" not in settings.rule:
        rules = f"{', '.join(known)}, or a litellm model"
        hint = closest(settings.rule, known)
        raise UsageError(f"rule={settings.rule}: unknown rule{hint} ({rules})")
    # The publishers' rule asks nobody: under an embedded judge keys of an LLM are refused.
    judge = EMBEDDED_JUDGES[0] if settings.rule == PUBLISHERS else settings.rule
    settings = settings.model_copy(update={"judge": judge})
    refuse_without_effect(settings)
    return settings


def _draft(name: str | None, people: TwoPeople) -> GoldDraft:
    """Return the draft that both people started from, where it is named or lies beside them."""
    if name == NO_DRAFT:
        return GoldDraft()
    path = release_beside(people.folder) if name is None else Path(name)
    return GoldDraft() if path is None else GoldDraft(path.name, read_draft(path))


def _on_gold(people: TwoPeople, draft: GoldDraft, settings: AgreementSettings) -> Measured:
    if settings.rule == PUBLISHERS:
        return Measured(run_loop(gold_agreement(people, publishers_rule(), draft)))
    settings = effective_judge(settings)
    check_judge(settings)
    # What a judge answered is in the cache of replies: the same command asks nothing again.
    with TemporaryDirectory() as scratch, closing(Ledger(Path(scratch) / "calls.jsonl")) as ledger:

        async def ask() -> GoldAgreement:
            async with aclosing(open_judge(settings, ledger)) as services:
                lists = len(people.sessions[0]) * len(TITLES)
                with progress_line("matching", lists, ledger.totals) as progress:
                    rule = judge_rule(services.judge)
                    return await gold_agreement(people, rule, draft, done=progress)

        row = run_loop(ask())
        missed = sum(row.unjudged.values())
        most = settings.max_failures * (row.matched + missed)
        calls = summarise_calls(ledger.totals)
        return Measured(row, calls, "budget" in row.unjudged, missed > most)


def _of_rubric(matrix: LabelMatrix, *, seed: int) -> LabelledRow | None:
    columns = dict(zip(matrix.names, zip(*matrix.people, strict=True), strict=True))
    # The pairs with most shared items have the narrowest intervals.
    chosen = most_shared(combinations(columns, 2), columns)
    if not chosen:
        return None
    scale, clusters = matrix.scale, matrix.clusters
    kappa = mean_kappa(matrix.people, scale, clusters, seed=seed)
    raters = rater_estimates(matrix.people, scale, clusters, seed=seed)
    figures = {} if kappa is None else {"kappa": AgreementFigure.of(kappa, "items")}
    for name, estimate in raters.items():
        figures[name] = AgreementFigure.of(estimate, "items")
    # Names have no distance, so a mean difference needs a scale with an order.
    names = ["agreement", "kappa"] if scale.kind == "nominal" else ["agreement", "kappa", "mae"]
    tables = [pair_features(columns[one], columns[other], scale) for one, other in chosen]
    of_pairs = table_figures(tables, scale, names, clusters, seed=seed)
    rows = []
    for people, estimates in zip(chosen, of_pairs, strict=True):
        own = {name: AgreementFigure.of(estimate, "items") for name, estimate in estimates.items()}
        rows.append(PairOfPeople(people=people, figures=own))
    return LabelledRow(
        kind=scale.kind,
        items=len(matrix.items),
        twice=sum(len(row) - row.count(None) >= 2 for row in matrix.people),
        people=list(columns),
        figures=figures,
        pairs=rows,
    )


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
    alone = f"; left out, annotated by only one of them: {row.alone:,}" if row.alone else ""
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
        # Each left one memory a session: a row of two equal counts says nothing.
        if kind != "memory":
            first, second = counts.items
            pairs = counted(counts.pairs, "matched pair")
            yield Line(f"{_KINDS[kind]}: {first:,} and {second:,}, {pairs}")
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
