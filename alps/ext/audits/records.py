"""Audited records of a run: the cheap and the audit score of each, and what they correct."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alps.ext.audits import FOLDER
from alps.ext.audits.audit import SCORES
from alps.ext.audits.corrections import Correction, labels_for, ppi
from alps.ext.audits.draws import LEAST
from alps.ext.audits.intervals import Z
from alps.rows import AuditedScore, Interval
from alps.run.opened import AnswerKey, read_rows
from alps.run.source import TrackData
from alps.stats.bootstrap import Floats, clustered_mean
from alps.tasks import Metric, Task

Names = Sequence[Hashable]
ScoresByKey = Mapping[AnswerKey, Mapping[str, float]]
WHOLE = 0.95
"""How much of a draw must be audited: what a judge leaves out differs from what it does not."""
HALF = 0.03
"""Half of the interval that is named as a goal."""


@dataclass(frozen=True)
class AuditedRecords:
    """The scored answers of one track, in columns.

    Attributes:
        keys: Which answer each is.
        sessions: The session of each.
        drawn: Whether its session is audited.
        cheap: By metric, the scores of the run's own judge; NaN where one is not defined.
        audit: By metric, those of the audit judge; NaN also where the answer was not audited.
    """

    keys: Sequence[AnswerKey]
    sessions: Sequence[str]
    drawn: NDArray[np.bool_]
    cheap: Mapping[str, Floats]
    audit: Mapping[str, Floats]

    def at(self, keys: Sequence[AnswerKey]) -> "AuditedRecords":
        """Return some of them, in the order of `keys`."""
        places = {key: place for place, key in enumerate(self.keys)}
        order = [places[key] for key in keys]
        cheap = {name: column[order] for name, column in self.cheap.items()}
        audit = {name: column[order] for name, column in self.audit.items()}
        sessions = [self.sessions[place] for place in order]
        return AuditedRecords(list(keys), sessions, self.drawn[order], cheap, audit)

    def of(self, metric: Metric) -> "Pairs":
        """Return the answers for which a metric is defined."""
        nothing = np.full(len(self.keys), np.nan)
        cheap, audit = self.cheap.get(metric.name, nothing), self.audit.get(metric.name, nothing)
        kept = np.flatnonzero(~np.isnan(cheap))
        sessions = [self.sessions[place] for place in kept.tolist()]
        bounds = metric.lowest, metric.highest
        records = [self.keys[place].id for place in kept.tolist()]
        return Pairs(cheap[kept], audit[kept], self.drawn[kept], sessions, bounds, records)


@dataclass(frozen=True)
class Pairs:
    """Cheap scores, and audit scores of some of the same answers (else NaN).

    `records` tells which record each answer is of; without it each is of its own.
    """

    cheap: Floats
    audit: Floats
    drawn: NDArray[np.bool_]
    sessions: Names
    bounds: tuple[float, float]
    records: Names = ()

    @property
    def audited(self) -> NDArray[np.bool_]:
        """Which of them have an audit score."""
        return ~np.isnan(self.audit)

    @property
    def audited_records(self) -> int:
        """How many records have an audit: several answers to one tell little more than one does."""
        if not self.records:
            return int(self.audited.sum())
        return len({one for one, kept in zip(self.records, self.audited, strict=True) if kept})

    def where(self, chosen: NDArray[np.bool_]) -> "Pairs":
        """Return some of them."""
        sessions = [one for one, kept in zip(self.sessions, chosen, strict=True) if kept]
        records = [self.records[n] for n in np.flatnonzero(chosen).tolist()] if self.records else ()
        parts = self.cheap[chosen], self.audit[chosen], self.drawn[chosen]
        return Pairs(*parts, sessions, self.bounds, records)

    def less(self, other: "Pairs") -> tuple[Floats, Floats, Floats, tuple[Names, Names]]:
        """Return what `powered_difference` takes, of the same answers of another run."""
        both = self.audited & other.audited
        apart, cheap = self.audit - other.audit, self.cheap - other.cheap
        groups = self.where(both).sessions, self.where(~both).sessions
        return apart[both], cheap[both], cheap[~both], groups

    def why_not(self) -> str | None:
        """Return why the audits can't carry a score; None if they can."""
        audited, drawn = int(self.audited.sum()), int(self.drawn.sum())
        if audited < WHOLE * drawn and drawn >= LEAST:
            missing = f"{drawn - audited} of {drawn} drawn records have no audit score"
            return f"{missing}, and these records may differ from the others"
        # Records, not answers: with ten repeats six records would pass for sixty.
        if (count := self.audited_records) < LEAST:
            are = f"{count} audited record{'' if count == 1 else 's'}"
            return f"{are}: at least {LEAST} are needed; audit {LEAST - count} more"
        return None


def audited_records(run: Path, track: TrackData, sessions: frozenset[str]) -> AuditedRecords:
    """Read the scores of a track under both judges."""
    session_of = {sample.benchmark_id: sample.session_id for sample in track.samples()}
    cheap = _scores(run / "scores.jsonl", track.task.track)
    audit = _scores(run / FOLDER / SCORES, track.task.track)
    return records_of(track.task, cheap, audit, session_of, sessions)


def records_of(
    task: Task,
    cheap: ScoresByKey,
    audit: ScoresByKey,
    session_of: Mapping[str, str],
    sessions: frozenset[str],
) -> AuditedRecords:
    """Return the records of a track of which these are the scores under both judges.

    Args:
        task: The task.
        cheap: The scores of the run's own judge.
        audit: Those of the audit judge.
        session_of: The session of each record.
        sessions: Those that were drawn.
    """
    keys = [key for key in cheap if key.id in session_of]
    own = [session_of[key.id] for key in keys]
    drawn = np.array([session in sessions for session in own], dtype=np.bool_)
    metrics = [metric.name for metric in task.metrics]
    # An audit of an earlier, larger draw counts no more than others: its session was not drawn.
    audited = [audit.get(key, {}) if kept else {} for key, kept in zip(keys, drawn, strict=True)]
    columns = {metric: _column([cheap[key] for key in keys], metric) for metric in metrics}
    others = {metric: _column(audited, metric) for metric in metrics}
    return AuditedRecords(keys, own, drawn, columns, others)


def corrected_scores(task: Task, records: AuditedRecords) -> dict[str, AuditedScore]:
    """Return what audits correct of the metrics of a task."""
    scores = {}
    for metric in task.metrics:
        if correctable(metric, records):
            scores[metric.name] = corrected_score(records.of(metric))
    return scores


def _scores(path: Path, track: str) -> ScoresByKey:
    rows: dict[AnswerKey, Mapping[str, float]] = {}
    for key, row in read_rows(path).items():
        if key.track == track and row.get("scores"):
            rows[key] = row["scores"]
    return rows


def _column(rows: Sequence[Mapping[str, float]], metric: str) -> Floats:
    return np.array([row.get(metric, np.nan) for row in rows], dtype=np.float64)


def correctable(metric: Metric, records: AuditedRecords) -> bool:
    """Tell whether a metric is a mean over records that both judges score on the same ones.

    A ratio of sums (micro) is none: records have no value of it. Of what is defined for matches
    alone, each judge defines other records.
    """
    if not (metric.is_mean and metric.judged):
        return False
    pairs = records.of(metric)
    if not pairs.audited.any():
        return False
    # Where a judge gave nothing at all, it failed; that says nothing of what it defines.
    heard = np.isfinite(np.stack(list(records.audit.values()))).any(axis=0)
    defined = ~np.isnan(records.audit[metric.name])
    cheap = ~np.isnan(records.cheap[metric.name])
    return bool((defined[heard] == cheap[heard]).all())


def corrected_score(pairs: Pairs) -> AuditedScore:
    """Correct the mean of cheap scores by the audits of some records.

    PPI++ over sessions, those of which no record was drawn for a part of the population, too: the
    interval is one for the sessions that these were drawn from, as those of other scores are.
    """
    cheap = clustered_mean(pairs.cheap, pairs.sessions, bounds=pairs.bounds)
    audited, n = int(pairs.audited.sum()), len(pairs.cheap)
    raw = Interval(**cheap.row)
    if reason := pairs.why_not():
        return AuditedScore(
            value=None, low=None, high=None, n=n, audited=audited, cheap=raw, reason=reason
        )
    known = pairs.audited
    people, judge, others = pairs.audit[known], pairs.cheap[known], pairs.cheap[~known]
    groups = pairs.where(known).sessions, pairs.where(~known).sessions
    correction = ppi(people, judge, others, groups, interval="bounded", bounds=pairs.bounds)
    nothing = np.zeros(audited)
    # The audits alone, so that a table shows how much shorter the cheap judge makes the interval.
    single = ppi(
        people, nothing, others[:0], (groups[0], ()), interval="bounded", bounds=pairs.bounds
    )
    # Without a spread among the audits the bounds would be the value: no width, and no coverage.
    ends = (single.low, single.high) if single.error or single.few else (None, None)
    alone = Interval(value=single.value, low=ends[0], high=ends[1], n=audited)
    found: dict[str, Any] = {"n": n, "audited": audited, "cheap": raw, "alone": alone}
    if not correction.error and not correction.few:
        reason = correction.reason or "all audits agree, so there is no interval"
        return AuditedScore(value=correction.value, low=None, high=None, reason=reason, **found)
    return AuditedScore(
        value=correction.value,
        low=correction.low,
        high=correction.high,
        weight=correction.weight,
        needed=_needed(correction, people, judge, others),
        outside=correction.outside,
        **found,
    )


def _needed(correction: Correction, people: Floats, judge: Floats, others: Floats) -> int | None:
    """Return how many audits would give ± `HALF`."""
    error = correction.error
    if correction.few and correction.low is not None and correction.high is not None:
        # The variance that is seen is too small: the error is that of the interval.
        error = (correction.high - correction.low) / (2 * Z)
    return labels_for(HALF, people, judge, others, error or 0.0)
