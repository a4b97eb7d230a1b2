"""Audits of a run: a drawn sample of its sessions is judged once more, by a better judge or people.

People are asked nothing: their labels are read as a judge's verdicts.
"""

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from alps.errors import RunFolderError, UsageError
from alps.event_loop import stopping_together
from alps.ext.audits import FOLDER, LABELLED
from alps.ext.audits.draws import Draws, draw_tracks
from alps.ext.audits.settings import AuditKeys
from alps.jsonl import Journal, parse_json
from alps.judges.admission import CheckedJudge, admit_judge, refusal_of
from alps.judges.base import Judge, fingerprint_id
from alps.llm.ledger import Ledger
from alps.rows import PEOPLE, Fields, Json, RubricCheck
from alps.run.engine import (
    TrackPlan,
    Unit,
    UnitResult,
    evaluate,
    heard_prediction,
    is_judged,
    units,
)
from alps.run.folder import caps_left, write_json
from alps.run.progress import progress_line
from alps.run.services import check_judge, open_judge
from alps.run.session import OF_THE_JUDGE, effective_judge
from alps.run.source import RunData, TrackData
from alps.settings import RunSettings
from alps.systems import Unheard
from alps.tasks.base import JUST_THE_SCORE, Records, rubrics_of

ABOUT = "audit.json"

VERDICTS, SCORES = "verdicts.jsonl", "scores.jsonl"


class DrawnSessions(Fields):
    """The sessions of a track that are audited.

    Attributes:
        records: How many of its records with gold they hold.
        n: How many there are.
        seed: Of the drawing; None in older audits, whose tracks share that of the audit.
    """

    sessions: list[str]
    records: int
    n: int
    seed: int | None = None


class AuditManifest(Fields):
    """What an audit is: who judges, which known items it got right, and the drawn sessions.

    `judge_check_before` is of a check that `judge_check=no` sets aside. `calls` counts what the
    ledger has no row of: replies from the cache.
    """

    judge: str
    fingerprint: Json
    share: float
    seed: int = 0
    tracks: dict[str, DrawnSessions]
    judge_check: dict[str, RubricCheck] | None = None
    judge_check_before: dict[str, RubricCheck] | None = None
    calls: dict[str, int] | None = None

    def seed_of(self, track: str) -> int:
        """Return the seed by which a track was drawn."""
        own = self.tracks[track].seed
        return self.seed if own is None else own


def drawn_data(data: RunData, settings: RunSettings) -> RunData:
    """Return the records that are audited, as data of their own.

    Raises:
        UsageError: See `draw_tracks`.
    """
    draws, tracks = draw_tracks(data, settings), []
    for track in data.tracks:
        if track.task.track in draws.tracks:
            sessions = frozenset(draws.tracks[track.task.track].sessions)
            records = Records(partial(_of_sessions, track, sessions), sha256="")
            tracks.append(TrackData(track.task, records))
    return RunData(tuple(tracks), data.description)


def _of_sessions(track: TrackData, sessions: frozenset[str]) -> Iterator[Any]:
    return (sample for sample in track.samples() if sample.session_id in sessions)


def audit_settings(settings: RunSettings) -> RunSettings:
    """Return the settings under which the audit judge is asked: those of the run, with its name.

    Labels of people are a judge of their own.
    """
    fields = RunSettings.model_fields
    # What a cheap judge is sent is not meant for another model.
    plain = {name: fields[name].default for name in OF_THE_JUDGE}
    keys = AuditKeys.of(settings)
    labels = keys.audit_labels
    judge = keys.audit_judge if labels is None else f"{LABELLED}{labels}"
    own = {"judge": judge, "judge_api_base": keys.audit_judge_api_base}
    return settings.model_copy(update={**plain, **own})


def is_audited(settings: RunSettings) -> bool:
    """Tell whether a judge or people audit the run."""
    keys = AuditKeys.of(settings)
    return keys.audit_judge is not None or keys.audit_labels is not None


def check_audit(settings: RunSettings, data: RunData, *, keys: bool = True) -> None:
    """Refuse an audit that can't be carried out, before anything is written or paid for.

    Raises:
        AlpsError: If the judge can't be used, or too few records would be audited.
    """
    if is_audited(settings):
        draw_tracks(data, settings)
        check_judge(audit_settings(settings), keys=keys)


def refuse_half_an_audit(settings: AuditKeys) -> None:
    """Refuse an audit without a judge or a share, by the judge of the run, or by two at once.

    Raises:
        UsageError: If it is one.
    """
    judge, share, labels = settings.audit_judge, settings.audit, settings.audit_labels
    if labels is not None and judge is not None:
        raise UsageError(
            f"audit_judge={judge}: audit_labels= already gives human audits; remove one of them"
        )
    if labels is not None and share is not None:
        why = "the labels of audit_labels= determine the share"
        raise UsageError(f"audit={100 * share:g}%: {why}; remove audit=")
    if judge is None:
        _refuse_without_a_judge(settings)
    elif not share:
        raise UsageError(f"audit_judge={judge}: audit= is missing; add a share, such as audit=10%")
    # The same judge twice agrees with itself, and its errors would be called corrected.
    elif judge == settings.judge:
        raise UsageError(
            f"audit_judge={judge}: this is already the run's judge; use a better judge"
        )


def _refuse_without_a_judge(settings: AuditKeys) -> None:
    if settings.audit is not None:
        raise UsageError(f"audit={100 * settings.audit:g}%: no audit judge; add audit_judge=")
    for key in ("audit_seed", "audit_judge_api_base"):
        if getattr(settings, key) is not None:
            raise UsageError(f"{key}= would change nothing; add audit_judge=")


@dataclass(frozen=True)
class OpenAudit:
    """An audit under way: where it is written, what was drawn, and what the run answered."""

    folder: Path
    data: RunData
    draws: Draws
    judge: Judge
    predictions: Journal
    verdicts: Journal
    scores: Journal

    def units(self, settings: RunSettings) -> Iterator[Unit]:
        """Yield the answers that were drawn."""
        plans = []
        drawn = {name: frozenset(draw.sessions) for name, draw in self.draws.tracks.items()}
        for track in self.data.tracks:
            if track.task.track in drawn:
                system = Unheard(settings.model)
                systems = (system,) * settings.repeats
                plans.append(TrackPlan(track.task, track.samples, systems, {}, n=track.n))
        for unit in units(plans):
            if unit.sample.session_id in drawn[unit.track.task.track]:
                yield unit


def audit_run(settings: RunSettings, data: RunData, run: Path, *, spent: tuple[int, float]) -> bool:
    """Judge the drawn answers of a finished run with the audit judge; resume if some are judged.

    Return whether the budget stopped it.

    Args:
        settings: Of the run, with the audit judge.
        data: Its data.
        run: Its folder, which is claimed.
        spent: Tokens and US dollars that the run took already of its caps.

    Raises:
        AlpsError: If the judge can't be used, or another one audited before.
    """
    from alps.event_loop import run_loop

    folder = run / FOLDER
    asking = audit_settings(settings)
    # One `max_cost` holds for the run and its audit together.
    asking = effective_judge(asking.model_copy(update=caps_left(asking, spent)))
    draws = draw_tracks(data, settings, run)
    if AuditKeys.of(settings).audit_labels is not None:
        there = read_audit(folder)
        # An audit by people costs nothing to make anew, and labels may have changed.
        if there is not None and there.judge == PEOPLE:
            shutil.rmtree(folder)
    folder.mkdir(exist_ok=True)
    ledger = Ledger(folder / "calls.jsonl")
    try:
        stopped = run_loop(_audit(asking, data, run, draws, ledger))
    finally:
        ledger.close()
    about, cached = read_audit(folder), ledger.totals.cached
    # Replies from the cache are in no ledger: the next session counts on from here.
    if about is not None and cached:
        write_json(folder / ABOUT, about.model_copy(update={"calls": {"cached": cached}}).row())
    return stopped


async def _audit(
    asking: RunSettings, data: RunData, run: Path, draws: Draws, ledger: Ledger
) -> bool:
    async with aclosing(open_judge(asking, ledger)) as services:
        folder = run / FOLDER
        judge = services.judge
        rubrics = rubrics_of(data.tasks)
        checked = await admit_judge(
            judge, rubrics, folder, totals=ledger.totals, check=asking.judge_check
        )
        if checked.stopped:
            return True
        # A judge that gets known items wrong would put other errors in the place of errors.
        if (why := refusal_of(checked.judge, [one.name for one in rubrics])) is not None:
            raise UsageError(f"audit_judge={judge.name} can't audit this run: {why}")
        _claim(folder, data, draws, checked)
        journals = [Journal(path) for path in (folder / VERDICTS, folder / SCORES)]
        predictions = Journal(run / "predictions.jsonl")
        audit = OpenAudit(folder, data, draws, judge, predictions, *journals)
        try:
            return await _ask(audit, asking, ledger)
        finally:
            for journal in (predictions, *journals):
                journal.close()


async def _ask(audit: OpenAudit, asking: RunSettings, ledger: Ledger) -> bool:
    """Judge what is not judged yet; each verdict is on disk before its score.

    Return whether the budget stopped it.
    """
    total = asking.repeats * sum(draw.records for draw in audit.draws.tracks.values())
    waiting = audit.units(asking)
    order: list[str] = []
    outcomes: set[str] = set()

    async def work() -> None:
        for unit in waiting:
            prediction = heard_prediction(audit.predictions.get(unit.key), unit)
            if prediction is None:
                continue
            order.append(unit.key)
            row = audit.verdicts.get(unit.key)
            # A verdict of an earlier attempt was paid for; only a failed one is asked for again.
            known = UnitResult(prediction, row if row is not None and is_judged(row) else None)

            async def keep(result: UnitResult) -> None:
                if result.verdict is not None:
                    await audit.verdicts.append_together(result.verdict)

            # Without extras: they would be calls that correct no score.
            result = await evaluate(unit, audit.judge, JUST_THE_SCORE, keep, known)
            assert result.score is not None
            outcomes.add(result.score.outcome)
            scored = unit.row(result.score.fields)
            if audit.scores.get(unit.key) != scored:
                await audit.scores.append_together(scored)
            progress(result.score.scored is not None)

    with progress_line(f"audit by {asking.judge}", total, ledger.totals) as progress:
        async with stopping_together(work() for _ in range(asking.records_at_once)) as workers:
            await asyncio.gather(*workers)
    for journal in (audit.verdicts, audit.scores):
        # An earlier, larger share was paid for: it is kept for the next one.
        journal.settle([*order, *sorted(set(journal.keys()).difference(order))])
    return "budget" in outcomes


def _claim(folder: Path, data: RunData, draws: Draws, checked: CheckedJudge) -> None:
    """Write what the audit is, or check it against the one that is there.

    Raises:
        RunFolderError: If another judge audited before.
    """
    judge = checked.judge
    fingerprint = judge.fingerprint_for(rubrics_of(data.tasks))
    tracks = {}
    for name, draw in draws.tracks.items():
        sessions = sorted(draw.sessions)
        tracks[name] = DrawnSessions(
            sessions=sessions, records=draw.records, n=draw.n, seed=draw.seed
        )
    about = AuditManifest(
        judge=judge.name,
        fingerprint={"id": fingerprint_id(fingerprint), **fingerprint},
        share=draws.share,
        tracks=tracks,
    )
    told = {"judge_check": checked.checks, "judge_check_before": checked.before}
    about = about.model_copy(update={name: one for name, one in told.items() if one is not None})
    there = read_audit(folder)
    # Of another draw the verdicts are kept, as those of a larger share are: each is of an answer.
    if there is not None and there.fingerprint != json.loads(json.dumps(about.fingerprint)):
        raise RunFolderError(
            f"{folder} holds audits by {there.judge} (another fingerprint); move the folder, "
            "or audit with that judge"
        )
    if there is not None and there.calls is not None:
        about = about.model_copy(update={"calls": there.calls})
    write_json(folder / ABOUT, about.row())


def read_audit(folder: Path) -> AuditManifest | None:
    """Return what the audit in `folder` is; None where there is none.

    Raises:
        RunFolderError: If it can't be read.
    """
    path = folder / ABOUT
    if not path.is_file():
        return None
    try:
        return AuditManifest.model_validate(parse_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        mend = f"move {folder} away and audit again"
        raise RunFolderError(f"{path}: not an audit manifest; {mend}") from error
