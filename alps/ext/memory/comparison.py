"""Runs that differ in their memory alone, sorted by how far each is from the one without any.

Of a finished run, the comparison runs are made here: the same reader without memory, with a part,
and with all of the history.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from alps.errors import BudgetError, RunFolderError, UsageError
from alps.ext.memory.journal import tokens_shown
from alps.ext.memory.part import memory_options
from alps.ext.memory.resolve import check_memory, refuse_untyped
from alps.ext.memory.settings import MemoryKeys, MemoryModels
from alps.folders import own_folder, slug
from alps.llm.secrets import redact
from alps.run.folder import changed_code
from alps.run.fresh import code_of
from alps.run.opened import MANIFEST, RunFolder, open_run, read_manifest
from alps.run.source import settings_of_run
from alps.run.start import run as carry_out
from alps.settings import RunSettings, parse_settings
from alps.show.compare import Comparison, MetricComparison, compare_runs
from alps.show.formatting import counted, tokens
from alps.show.shared_records import (
    SharedRecords,
    metric_values,
    record_values,
    sessions_of,
)
from alps.show.table import (
    BLANK,
    Cell,
    Part,
    Table,
    change,
    dim,
    figures,
    named,
    print_parts,
    row_of,
    scored,
)
from alps.stats.bootstrap import Estimate
from alps.tasks import Metric
from alps.tasks.by_memory import FULL, NOTHING, ORACLE, PLACEBO
from alps.tasks.registry import track_title
from alps.waiting import tell

REFUSAL = "refusal"
"""A reader that declines whatever it is asked: the worst mark on each record, without a run."""

FOLDER = "beside"
_OF_MEMORY = ("memory", "memory_options", "reader", "out", *MemoryModels.model_fields)


@dataclass(frozen=True)
class ComparedFolders:
    """The folders of a run and of its rows, and why rows are left out."""

    folders: list[Path]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class ComparisonRow:
    """A run of the table, or the constant refusal, which has no folder.

    Attributes:
        score: Its headline.
        difference: How far it is ahead of the run without any history; None for that run. Without
            a value where too many answers of either failed: its `reason` says how many.
        tokens: How many a reader was shown of a history on average; None where nobody counted.
        ties: The letters of the runs that it does not differ from significantly.
    """

    memory: str
    folder: Path | None
    score: Estimate
    difference: Estimate | None
    tokens: float | None
    ties: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        difference = None if self.difference is None else self.difference.row
        run = None if self.folder is None else str(self.folder)
        row = {"memory": self.memory, "run": run, "score": self.score.row}
        return {**row, "difference": difference, "tokens": self.tokens, "ties": list(self.ties)}


@dataclass(frozen=True)
class ComparedTrack:
    """The rows of a track, the largest difference first."""

    name: str
    metric: str
    shared: int
    rows: tuple[ComparisonRow, ...]


@dataclass(frozen=True)
class MemoryComparison:
    """Result of `alps memory compare`."""

    tracks: tuple[ComparedTrack, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        tracks: dict[str, Any] = {}
        for track in self.tracks:
            rows = [row.as_json() for row in track.rows]
            tracks[track.name] = {"metric": track.metric, "shared": track.shared, "rows": rows}
        return {"tracks": tracks, "notes": list(self.notes)}


def beside(folders: Sequence[Path], notes: Sequence[str] = ()) -> MemoryComparison:
    """Compare runs with the run without memory; `notes` are added to its own.

    Raises:
        UsageError: If there is none, or the runs can't be compared.
    """
    runs = [open_run(folder) for folder in folders]
    memories = [str(run.manifest.settings.get("memory", FULL)) for run in runs]
    if NOTHING not in memories:
        raise UsageError(f"add a run with memory={NOTHING}: it is the baseline of this comparison")
    comparison = compare_runs(folders)
    letters = [side.letter for side in comparison.sides]
    named = dict(zip(letters, zip(memories, runs, strict=True), strict=True))
    base = letters[memories.index(NOTHING)]
    tracks = []
    for track in comparison.tracks:
        if track.lead is not None:
            metric = track.lead.metric
            rows = _rows(track.track, track.lead, comparison, named, base)
            # Where the run without memory failed, declining differs from it as little as the rest.
            if any(row.difference is not None and row.difference.value is not None for row in rows):
                rows = (*rows, _refusal(track.track, metric, runs, named[base][1]))
            rows = tuple(sorted(rows, key=_ahead, reverse=True))
            tracks.append(ComparedTrack(track.track, track.lead.metric.title, track.shared, rows))
    return MemoryComparison(tuple(tracks), (*notes, *_withheld(tracks), *comparison.notes))


def _withheld(tracks: Sequence[ComparedTrack]) -> Iterator[str]:
    """Yield why rows have no difference from no memory."""
    for track in tracks:
        for row in track.rows:
            if row.difference is not None and row.difference.value is None:
                yield f"{track_title(track.name)}, {row.memory}: no Δ ({row.difference.reason})"


def _rows(
    track: str,
    lead: MetricComparison,
    comparison: Comparison,
    named: dict[str, tuple[str, RunFolder]],
    base: str,
) -> tuple[ComparisonRow, ...]:
    differences: dict[str, Estimate] = {}
    scores: dict[str, Estimate] = {}
    for contrast in lead.contrasts:
        scores |= zip((contrast.first, contrast.second), contrast.scores, strict=True)
        estimate = contrast.difference.estimate
        if contrast.second == base:
            differences[contrast.first] = estimate
        elif contrast.first == base:
            differences[contrast.second] = _reversed(estimate)
    ties = {one.name: one.letters for one in lead.ranked}
    rows = []
    for side in comparison.sides:
        memory, run = named[side.letter]
        difference = differences.get(side.letter)
        told = tokens_shown(run.folder, track), ties.get(side.letter, ())
        rows.append(ComparisonRow(memory, side.folder, scores[side.letter], difference, *told))
    return tuple(rows)


def _refusal(
    track: str, metric: Metric, runs: Sequence[RunFolder], none: RunFolder
) -> ComparisonRow:
    """Return what always declining gets on the records that all runs have."""
    columns = {}
    for run in runs:
        records = record_values(run).get(track, {})
        columns[run.folder] = metric_values(records, metric)
    ids = list(columns[none.folder])
    sessions = sessions_of(runs, track, ids) or dict(zip(ids, ids, strict=True))
    shared = SharedRecords.of(metric, ids, columns.values(), sessions)
    refused = dict.fromkeys(ids, metric.highest if metric.lower_is_better else metric.lowest)
    behind = shared.difference(refused, columns[none.folder]).estimate
    return ComparisonRow(REFUSAL, None, shared.mean(refused), behind, 0.0, ())


def _ahead(row: ComparisonRow) -> tuple[bool, float, bool]:
    # Rows without a difference are not sorted by it; what ties with no memory is above it.
    if row.difference is None:
        return True, 0.0, False
    return row.difference.value is not None, row.difference.value or 0.0, True


def _reversed(estimate: Estimate) -> Estimate:
    value, low, high = (
        None if one is None else -one for one in (estimate.value, estimate.high, estimate.low)
    )
    return Estimate(value, low, high, estimate.n, estimate.reason, estimate.method)


def print_beside(result: MemoryComparison, console: Console) -> None:
    """Print a table of each track."""
    tied = any(row.ties for track in result.tracks for row in track.rows)
    ties = "ties: rows that share a letter are not significantly different (p > .05, Holm)."
    lines = [
        *(f"{note}." for note in result.notes),
        f"Δ: paired difference from memory={NOTHING}; rows are sorted by Δ.",
        *([ties] if tied else []),
        f"{REFUSAL}: score of a reader that answers no question; alps does not test it against the "
        "other rows.",
        "tokens: mean number of history tokens shown to the reader; – means the whole history.",
    ]
    parts: list[Part] = []
    for track in result.tracks:
        parts += [_table(track), BLANK]
    print_parts(console, parts, map(dim, lines))


def _table(track: ComparedTrack) -> Table:
    rows = []
    for one in track.rows:
        ahead = ("–", "–") if one.difference is None else change(one.difference)
        shown = Cell(tokens(one.tokens), one.tokens)
        rows.append(row_of(one.memory, *ahead, scored(one.score), " ".join(one.ties), shown))
    title = f"{track_title(track.name)}: {track.metric} on {counted(track.shared, 'shared record')}"
    columns = "Δ", "95 % interval", "score", "ties", "tokens"
    return Table(title, [named("memory"), *figures(*columns)], rows)


def check_baseline(folder: Path, rows: Sequence[str]) -> None:
    """Refuse rows without the one that all others are compared with, before any is paid for.

    Raises:
        UsageError: If neither they nor the run itself are without memory.
    """
    own = read_manifest(folder).settings.get("memory", FULL)
    if NOTHING not in (own, *rows):
        typed = ",".join(rows)
        why = f"rows are compared with the row {NOTHING}; write rows={NOTHING},{typed}"
        raise UsageError(f"rows={typed}: {why}")


def run_beside(
    folder: Path, rows: Sequence[str], given: dict[str, Any], *, typed: Mapping[str, str | None]
) -> ComparedFolders:
    """Run what a finished run did with other memories; what was run already is not asked again.

    `rows` are names as `memory=` takes them, `given` settings of how the runs are carried out, such
    as `max_cost`. `refuse_untyped` is told what is `typed`.

    Raises:
        BudgetError: If the budget stopped a row.
        AlpsError: If the run is not finished, or a row can't be run.
    """
    known = open_run(folder)
    if not any(task.by_memory.recall is not None for task in known.tasks.values()):
        raise UsageError(f"{folder}: no task of this run has histories; use a run of personamem")
    refuse_untyped(known, typed)
    assert known.finished
    settings_of_run(folder, known.manifest.settings)  # refuses what would be dropped
    settings = _settings_of(known.manifest.settings)
    again = parse_settings(settings, RunSettings)
    refuse_other_code(folder, dict(again), "task", "model")
    planned: dict[str, tuple[Path, RunSettings]] = {}
    for memory in rows:
        shown = redact(memory)
        if shown == known.manifest.settings.get("memory", FULL):
            continue
        out = own_folder(folder / FOLDER, shown, slug(shown), _memory_of)
        row = parse_settings({**settings, **given, "memory": memory, "out": str(out)}, RunSettings)
        # A memory that nothing is called by is refused before other rows are paid for.
        check_memory(memory, memory_options(MemoryKeys.of(row), None))
        planned[memory] = out, row
    folders, left_out = [folder], []
    for memory, (out, row) in planned.items():
        tell(f"row {redact(memory)}, loading", announced=True)
        try:
            done = carry_out(row)
        except UsageError as error:
            # The data need not tell where the evidence is, or have a second user.
            if memory not in (ORACLE, PLACEBO) or not str(error).startswith(f"memory={memory}:"):
                raise
            left_out.append(f"Left out: {error}")
            continue
        if done.budget_spent:
            raise BudgetError(
                f"memory={memory}: the budget is spent; to resume, repeat the command with a "
                "larger budget"
            )
        folders.append(out)
    return ComparedFolders(folders, tuple(left_out))


def _memory_of(folder: Path) -> str | None:
    """Return the memory of the run in a folder; None where there is no run."""
    if not (folder / MANIFEST).exists():
        return None
    try:
        return redact(str(read_manifest(folder).settings.get("memory", FULL)))
    except RunFolderError:  # the run says what is wrong with it
        return None


def _settings_of(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that are not its defaults, and not of its memory."""
    kept: dict[str, Any] = {}
    for name, value in settings.items():
        field = RunSettings.model_fields.get(name)
        # What is passed on counts as typed, and a setting that is typed without effect is refused.
        if field is not None and name not in _OF_MEMORY and value != field.default:
            kept[name] = value
    return kept


def refuse_other_code(folder: Path, settings: Mapping[str, Any], *names: str) -> None:
    """Refuse a finished run of which more is asked, where code of its settings `names` was edited.

    Raises:
        RunFolderError: If a file differs.
    """
    then, now = read_manifest(folder).code or {}, code_of(settings)
    asked = {name: now.get(name, {}) for name in names if name in then}
    if changed := changed_code({name: then[name] for name in asked}, asked):
        raise RunFolderError(
            f"{folder}: {changed} since this run; first repeat the same alps run with fresh=yes"
        )
