"""Comparison of runs that share audits: PPI++ on the differences of records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alps.errors import AlpsError
from alps.ext.audits import FOLDER
from alps.ext.audits.audit import read_audit
from alps.ext.audits.corrections import powered_difference
from alps.ext.audits.intervals import ENOUGH
from alps.ext.audits.records import (
    AuditedRecords,
    Pairs,
    audited_records,
    correctable,
    corrected_score,
)
from alps.ext.audits.slices import Traits, bent_by, errors_of, family_of, slice_names, traits_of
from alps.ext.audits.tables import SliceContrast, bent_table, slice_tables
from alps.judges.base import people_agree
from alps.rows import AuditedScore, AuditSummary, BentRow
from alps.run.opened import AnswerKey, RunFolder
from alps.run.source import RunData, TrackData, open_again
from alps.show.compare import (
    Contrast,
    MetricComparison,
    RecordCounts,
    TrackComparison,
    corrected_together,
    doubted,
    ranked_by,
)
from alps.show.formatting import task_title
from alps.show.parts import CorrectedComparison, More
from alps.stats.bootstrap import Estimate
from alps.stats.paired import holm
from alps.tasks import Metric


def compare_audits(
    runs: Mapping[str, RunFolder], tracks: Sequence[str]
) -> CorrectedComparison | None:
    """Compare runs by their audits, or say why that can't be done; None where there are none.

    Args:
        runs: By their letters, on the same data.
        tracks: Those that all have.

    Raises:
        RunFolderError: If a file of an audit can't be read.
    """
    audits = {letter: run.finished.audit for letter, run in runs.items()}
    known = {letter: audit for letter, audit in audits.items() if audit is not None}
    if not known:
        return None
    if why := _why_not_together(list(runs), known):
        return _corrected([], [f"Not corrected: {why}"])
    first = next(iter(runs.values()))
    try:
        _, data = open_again(first.folder, first.manifest)
    except (AlpsError, OSError) as error:
        return _corrected([], [f"Not corrected, because the data was not found: {error}"])
    about = read_audit(first.folder / FOLDER)  # the same judge audited all

    def trusted(metric: Metric) -> bool:
        """Tell whether people audited all runs, or agree with the judge who did."""
        if first.finished.audit is not None and first.finished.audit.by_people:
            return True
        return about is not None and people_agree(about.fingerprint, metric.rubrics)

    compared = [_compare_track(runs, track, data) for track in tracks]
    notes = [note for track in compared for note in track.notes if not track.metrics]
    whole = [track for track in compared if track.metrics]
    return _corrected(doubted(corrected_together(whole), trusted), notes)


def _why_not_together(letters: Sequence[str], audits: Mapping[str, AuditSummary]) -> str | None:
    """Return why runs can't be compared by their audits; None if they can."""
    if missing := [letter for letter in letters if letter not in audits]:
        return f"runs without audits: {', '.join(missing)}"
    # The difference of two auditors would be read as one of the systems.
    if len({audit.auditor for audit in audits.values()}) > 1:
        each = ", ".join(f"{letter} by {audit.judge}" for letter, audit in audits.items())
        return f"audited by different judges ({each})"
    return None


def _corrected(tracks: Sequence[TrackComparison], notes: Sequence[str]) -> CorrectedComparison:
    return CorrectedComparison(
        key="corrected_by_audits",
        by="corrected by audits",
        unit="audited session",
        method="PPI++ on per-record differences.",
        untested=f"p is omitted if the audited scores differ between the runs in fewer than "
        f"{ENOUGH} sessions.",
        tracks=tracks,
        notes=notes,
    )


def _compare_track(runs: Mapping[str, RunFolder], track: str, data: RunData) -> TrackComparison:
    records: dict[str, AuditedRecords] = {}
    of_track = next(one for one in data.tracks if one.task.track == track)
    for letter, run in runs.items():
        about = read_audit(run.folder / FOLDER)
        drawn = about.tracks.get(track) if about is not None else None
        sessions = frozenset(drawn.sessions if drawn is not None else ())
        records[letter] = audited_records(run.folder, of_track, sessions)
    shared = _shared(list(records.values()))
    counts = []
    for own in records.values():
        counts.append(RecordCounts(len(own.keys), len(own.keys), len(own.keys) - len(shared)))
    metrics, notes = [], []
    for metric in of_track.task.metrics:
        if not all(correctable(metric, own) for own in records.values()):
            continue
        aligned = {letter: own.at(shared) for letter, own in records.items()}
        columns, _ = _aligned(aligned, metric)
        if reason := _why_not(list(columns.values())):
            notes.append(f"Not corrected ({metric.title.strip()}): {reason}")
        else:
            metrics.append(_compare_metric(metric, columns))
    clusters = len(set(next(iter(records.values())).at(shared).sessions))
    told = tuple(dict.fromkeys(notes))
    more: tuple[More, ...] = ()
    if metrics:
        aligned = {letter: own.at(shared) for letter, own in records.items()}
        traits = traits_of(next(iter(runs.values())).folder, of_track, shared)
        bent = _bent(runs, records, of_track)
        more = _more(bent, _slices(aligned, traits, of_track.task.headline), metrics)
    found = tuple(counts), tuple(metrics), told
    title = task_title(track, next(iter(runs.values())).summary_of(track))
    return TrackComparison(track, len(shared), clusters, *found, more, title)


def _more(
    bent: Sequence[BentRow], slices: Sequence[SliceContrast], metrics: Sequence[MetricComparison]
) -> tuple[More, ...]:
    lead = next((one for one in metrics if one.metric.headline), metrics[0]).metric
    row: dict[str, Any] = {}
    if bent:
        row["bent"] = [one.row() for one in bent]
    if slices:
        row["slices"] = [one.as_json() for one in slices]
    return (More(row, [*slice_tables(slices, lead), *bent_table(bent, lead)]),) if row else ()


def _slices(
    records: Mapping[str, AuditedRecords], traits: Traits, metric: Metric
) -> list[SliceContrast]:
    """Return the differences of every pair of runs on every slice that has audits enough."""
    if not all(correctable(metric, own) for own in records.values()):
        return []
    columns, kept = _aligned(records, metric)
    rows: list[SliceContrast] = []
    for title, groups in traits.groups().items():
        own = groups[kept]
        names = slice_names(title, own)
        for name in names if len(names) > 1 else ():
            of_slice = {letter: pairs.where(own == name) for letter, pairs in columns.items()}
            rows += _on_slice(title, name, of_slice)
    tested = [row.difference.p for row in rows if row.difference and row.difference.p is not None]
    # All slices of all pairs are one family: of twenty tests at .05 one is bold by chance.
    corrected = iter(holm(tested))
    told = []
    for row in rows:
        p = row.difference.p if row.difference is not None else None
        told.append(row if p is None else replace(row, corrected=next(corrected)))
    return told


def _on_slice(by: str, name: str, columns: Mapping[str, Pairs]) -> Iterator[SliceContrast]:
    for first, second in combinations(columns, 2):
        one, other = columns[first], columns[second]
        reason = one.why_not()
        difference = (
            powered_difference(*one.less(other), bounds=one.bounds) if reason is None else None
        )
        size = int((one.audited & other.audited).sum()), len(one.cheap)
        yield SliceContrast(by, name, (first, second), difference, *size, reason)


def _bent(
    runs: Mapping[str, RunFolder], records: Mapping[str, AuditedRecords], track: TrackData
) -> list[BentRow]:
    metric, errors = track.task.headline, []
    for letter, run in runs.items():
        own = records[letter]
        if correctable(metric, own):
            family = family_of(run.judge)
            traits = traits_of(run.folder, track, own.keys)
            # A judge may favour its own family, which one run can't part from a good system.
            same = bool(family) and family == family_of(run.model)
            errors.append(errors_of(own, traits, metric, own_family=same))
    return bent_by(errors) if len(errors) > 1 else []


def _shared(records: Sequence[AuditedRecords]) -> list[AnswerKey]:
    keys = list(records[0].keys)
    for own in records[1:]:
        others = set(own.keys)
        keys = [key for key in keys if key in others]
    return keys


def _aligned(
    records: Mapping[str, AuditedRecords], metric: Metric
) -> tuple[dict[str, Pairs], NDArray[np.bool_]]:
    """Return the same answers of each run: those that every cheap judge has the metric for.

    The second is which of the records these are.
    """
    cheap = np.stack([own.cheap[metric.name] for own in records.values()])
    kept = np.asarray(~np.isnan(cheap).any(axis=0), dtype=np.bool_)
    both = np.logical_and.reduce([own.drawn for own in records.values()])
    audits = np.stack([own.audit[metric.name] for own in records.values()])
    # An answer that the auditor failed on in one run is left out of all: a difference needs both.
    heard = ~np.isnan(audits).any(axis=0)
    columns = {}
    for letter, own in records.items():
        audit = np.where(heard, own.audit[metric.name], np.nan)
        bounds = metric.lowest, metric.highest
        names = [key.id for key in own.keys]
        pairs = Pairs(own.cheap[metric.name], audit, both, own.sessions, bounds, names)
        columns[letter] = pairs.where(kept)
    return columns, kept


def _why_not(columns: Sequence[Pairs]) -> str | None:
    """Return why shared audits can't carry a comparison: the same records are audited in each."""
    reason = columns[0].why_not()
    if reason is None:
        return None
    what = "too few records are audited in both runs"
    return f"{what} ({reason}); audit each run with audit_seed=0 to draw the same sessions"


def _compare_metric(metric: Metric, columns: Mapping[str, Pairs]) -> MetricComparison:
    scores = {letter: corrected_score(pairs) for letter, pairs in columns.items()}
    means = {letter: _estimate(score) for letter, score in scores.items()}
    contrasts = []
    for first, second in combinations(columns, 2):
        one, other = columns[first], columns[second]
        difference = powered_difference(*one.less(other), bounds=one.bounds)
        contrast = Contrast(
            first,
            second,
            scores=(means[first], means[second]),
            difference=difference,
            mcnemar=None,
            p=difference.p,
            exact=False,
            clusters=len(set(one.where(one.audited).sessions)),
        )
        contrasts.append(contrast)
    ranked = ranked_by(metric, means) if len(columns) > 2 else ()
    return MetricComparison(metric, tuple(contrasts), ranked)


def _estimate(score: AuditedScore) -> Estimate:
    return Estimate(score.value, score.low, score.high, score.n, score.reason)
