"""Corrected comparison of runs that share audits: PPI++ on the differences of records."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from alps.errors import AlpsError
from alps.report.contrasts import Contrast, Counts, MetricComparison, TrackComparison
from alps.rows import AuditedScore, BentRow
from alps.run.audit_slices import bent_by, errors_of, family_of, traits_of
from alps.run.audited_records import (
    AuditedRecords,
    Pairs,
    audited_records,
    correctable,
    corrected_score,
)
from alps.run.auditing import FOLDER, read_audit
from alps.run.opened import Key, Run
from alps.run.source import Data, TrackData, open_again
from alps.stats.bootstrap import Estimate
from alps.stats.paired import Difference, Ranked, powered_difference
from alps.tasks import Metric


def compare_audits(
    runs: Mapping[str, Run], tracks: Sequence[str]
) -> tuple[list[TrackComparison], list[str]]:
    """Compare runs by their audits, and say why where that can't be done.

    Args:
        runs: By their letters, on the same data.
        tracks: Those that all have.

    Raises:
        RunFolderError: If a file of an audit can't be read.
    """
    judges = {letter: run.finished.audit for letter, run in runs.items()}
    known = {letter: audit for letter, audit in judges.items() if audit is not None}
    if not known:
        return [], []
    if missing := [letter for letter in runs if letter not in known]:
        return [], [f"Not corrected: no audits of {', '.join(missing)}"]
    if len({audit.fingerprint for audit in known.values()}) > 1:
        each = ", ".join(f"{letter} {audit.judge}" for letter, audit in known.items())
        return [], [f"Not corrected: audited by different judges, {each}"]
    first = next(iter(runs.values()))
    try:
        _, data = open_again(first.folder, first.manifest)
    except (AlpsError, OSError) as error:
        return [], [f"Not corrected: the data was not found again: {error}"]
    compared = [_compare_track(runs, track, data) for track in tracks]
    notes = [note for track in compared for note in track.notes if not track.metrics]
    return [track for track in compared if track.metrics], notes


def _compare_track(runs: Mapping[str, Run], track: str, data: Data) -> TrackComparison:
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
        counts.append(Counts(len(own.keys), len(own.keys), len(own.keys) - len(shared)))
    metrics, notes = [], []
    for metric in of_track.task.metrics:
        if not all(correctable(metric, own) for own in records.values()):
            continue
        columns = _aligned({letter: own.at(shared) for letter, own in records.items()}, metric)
        if reason := _why_not(list(columns.values())):
            notes.append(f"Not corrected ({metric.title.strip()}): {reason}")
        else:
            metrics.append(_compare_metric(metric, columns))
    clusters = len(set(next(iter(records.values())).at(shared).sessions))
    told = tuple(dict.fromkeys(notes))
    bent = tuple(_bent(runs, records, of_track)) if metrics else ()
    return TrackComparison(track, len(shared), clusters, tuple(counts), tuple(metrics), told, bent)


def _bent(
    runs: Mapping[str, Run], records: Mapping[str, AuditedRecords], track: TrackData
) -> list[BentRow]:
    metric, errors = track.task.headline, []
    for letter, run in runs.items():
        own = records[letter]
        if correctable(metric, own):
            family = family_of(run.judge)
            traits = traits_of(run.folder, track, own.keys)
            same = bool(family) and family == family_of(run.model)
            errors.append(errors_of(own, traits, metric, own_family=same))
    return bent_by(errors) if len(errors) > 1 else []


def _shared(records: Sequence[AuditedRecords]) -> list[Key]:
    keys = list(records[0].keys)
    for own in records[1:]:
        others = set(own.keys)
        keys = [key for key in keys if key in others]
    return keys


def _aligned(records: Mapping[str, AuditedRecords], metric: Metric) -> dict[str, Pairs]:
    """Return the same answers of each run: those that every cheap judge has the metric for."""
    cheap = np.stack([own.cheap[metric.name] for own in records.values()])
    kept = np.asarray(~np.isnan(cheap).any(axis=0), dtype=np.bool_)
    both = np.logical_and.reduce([own.drawn for own in records.values()])
    audits = np.stack([own.audit[metric.name] for own in records.values()])
    heard = ~np.isnan(audits).any(axis=0)
    columns = {}
    for letter, own in records.items():
        audit = np.where(heard, own.audit[metric.name], np.nan)
        bounds = metric.lowest, metric.highest
        pairs = Pairs(own.cheap[metric.name], audit, both, own.sessions, bounds)
        columns[letter] = pairs.where(kept)
    return columns


def _why_not(columns: Sequence[Pairs]) -> str | None:
    """Return why shared audits can't carry a comparison: the same records are audited in each."""
    reason = columns[0].why_not()
    return None if reason is None else f"shared by all of these runs are {reason}"


def _compare_metric(metric: Metric, columns: Mapping[str, Pairs]) -> MetricComparison:
    scores = {letter: corrected_score(pairs) for letter, pairs in columns.items()}
    means = {letter: _estimate(score) for letter, score in scores.items()}
    contrasts = []
    for first, second in combinations(columns, 2):
        difference = powered_difference(*columns[first].less(columns[second]))
        pair = means[first], means[second]
        units = len(set(columns[first].where(columns[first].audited).sessions))
        contrasts.append(_contrast(first, second, pair, difference, units))
    if len(columns) == 2:
        return MetricComparison(metric, tuple(contrasts), ())
    sign = 1.0 if metric.lower_is_better else -1.0
    order = sorted(means, key=lambda letter: (sign * (means[letter].value or 0.0), letter))
    ranked = tuple(Ranked(letter, means[letter], ()) for letter in order)
    return MetricComparison(metric, tuple(contrasts), ranked)


def _contrast(
    first: str,
    second: str,
    scores: tuple[Estimate, Estimate],
    difference: Difference,
    clusters: int,
) -> Contrast:
    return Contrast(
        first,
        second,
        scores=scores,
        difference=difference,
        mcnemar=None,
        p=difference.p,
        exact=False,
        clusters=clusters,
    )


def _estimate(score: AuditedScore) -> Estimate:
    return Estimate(score.value, score.low, score.high, score.n, score.reason)
