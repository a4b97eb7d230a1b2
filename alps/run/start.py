"""Course of a run, from its settings to a finished folder."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.event_loop import run_loop
from alps.ext.audits.audit import (
    audit_run,
    check_audit,
    is_audited,
    refuse_half_an_audit,
)
from alps.ext.audits.findings import audit_fault, audit_summary
from alps.ext.batches.of_run import check_batches
from alps.ext.calibration.correction import Chosen, choose, with_corrections
from alps.ext.memory.admit_run import admitted, check_estimable
from alps.ext.memory.journal import FILE as STORE
from alps.ext.memory.phases import answers_of, phases_of, stored_by
from alps.ext.memory.resolve import adapter_versions
from alps.ext.sizes.run import (
    PREDICTIONS,
    AtSizes,
    has_sizes,
    run_sizes,
    with_curves,
)
from alps.folders import kept_working_folder, slug, working_folder
from alps.judges.base import fingerprint_id
from alps.judges.lexical import LexicalJudge
from alps.llm.ledger import Ledger, Totals
from alps.llm.secrets import redact
from alps.parsing import parse_settings
from alps.rows import Check, Pools, Summary
from alps.run.collector import Journals, Outcome, Plan, run_tracks
from alps.run.engine import TrackPlan
from alps.run.finished import Finished, finished
from alps.run.finished_predictions import Predictions, predictions_of
from alps.run.folder import (
    add_learned,
    build_manifest,
    claim,
    claimed_folder,
    prompt_hashes,
    refuse_other_files,
    repeating,
    write_config,
    write_json,
)
from alps.run.fresh import (
    begins_again,
    former_of,
    is_whole,
    kept_former,
    set_aside,
    task_code,
)
from alps.run.judge_check import Checks, admit_judge, rubrics_of
from alps.run.opened import MANIFEST, SUMMARY, open_run
from alps.run.progress import Watched, progress_line
from alps.run.services import (
    AS_EVER,
    STRUCTURED,
    AskedAs,
    Services,
    closing,
    open_services,
    resume_modes,
    structured_modes,
)
from alps.run.session import DATA_ASKED, Session, digest, resolve, resolve_again
from alps.run.shared import Shared
from alps.run.source import Data, TrackData, open_data, refuse_changed
from alps.run.summary import served, served_row, summarise_calls, summarise_track
from alps.run.wrapping import as_asked
from alps.settings import RunSettings
from alps.systems import NO_SYSTEM, Unheard, floor_systems
from alps.tasks import JudgingOptions, Task
from alps.tasks.registry import PYTHON, recorded

VERDICTS = "verdicts.jsonl"


def run(settings: RunSettings) -> Finished:
    """Carry out a run, or what is left of it, and write its summary.

    Raises:
        AlpsError: If the settings, the data or the folder can't be used.
    """
    refuse_half_an_audit(settings)
    session = resolve(settings)
    check_audit(session.settings, session.data)
    return _carry_out(session, predictions=None, told=repeating(session.folder))


def score_again(
    source: Path, judging: dict[str, Any], *, asked_as: AskedAs | None = None
) -> Finished:
    """Judge the finished predictions of a run with another judge, in a folder of its own.

    Nothing is generated: a record that had no response then has none now.

    Args:
        source: The folder of the run.
        judging: The judge settings that were given; the others stay as they were.
        asked_as: How an LLM judge is asked where its scores are one cell of several; the trivial
            baselines are then left out.

    Raises:
        AlpsError: If the folder is no run, or the judge can't be used.
    """
    source = source if source.name not in ("", "..") else source.resolve()  # `.` has no name
    settings, data = resolve_again(source, judging, baselines=asked_as is None)
    refuse_half_an_audit(settings)
    check_audit(settings, data)
    predictions = predictions_of(source, settings.less_contexts)
    digested = digest({**settings.experiment(), "predictions": predictions.sha256})
    beside = source.with_name(f"{source.name}--{slug(settings.judge)}-{digested}")
    folder = Path(settings.out) if settings.out else beside
    if folder.resolve() == source.resolve():
        raise UsageError(f"out={folder}: a new judge needs a folder of its own")
    told = [f"The predictions are those of {source}; alps score judged them, under this judge."]
    other = ["How the judge was asked, alps sensitivity or alps judges said, and no setting here."]
    told += other if asked_as is not None else repeating(folder)
    session = Session(settings, data, folder, task_code(settings))
    return _carry_out(session, predictions=predictions, asked_as=asked_as or AS_EVER, told=told)


def finish(session: Session, manifest: Mapping[str, Any], told: Sequence[str]) -> Finished:
    """Score what the journals of a run folder hold, and write its summary; no system is asked.

    Args:
        session: The settings, the data and the folder.
        manifest: What stands in the folder.
        told: Lines above the settings that repeat the run.

    Raises:
        AlpsError: If the judge can't be opened.
    """
    return _carry_out(session, predictions=None, told=told, manifest=manifest)


def audit_again(source: Path, auditing: dict[str, Any]) -> Finished:
    """Audit a finished run in its own folder; the rest of it stays as it is.

    Args:
        source: The folder of the run.
        auditing: The audit settings and caps that were given.

    Raises:
        AlpsError: If the folder is no finished run, or the audit can't be carried out.
    """
    opened = open_run(source)
    summary, then = opened.finished, opened.manifest
    settings = parse_settings({**then.settings, **auditing}, RunSettings)
    refuse_half_an_audit(settings)
    data = open_data(settings)
    refuse_changed(source, then, settings, data)
    check_audit(settings, data)
    with claimed_folder(source) as ledger:
        stopped = audit_run(settings, data, source, spent=ledger.totals.counted)
        summary = summary.model_copy(update={"audit": audit_summary(source, data)})
        write_json(source / SUMMARY, summary.row())
    return Finished(source, summary, data.tasks, False, stopped, audit_fault(summary.audit))


def _given(settings: RunSettings) -> list[str]:
    """Return the names of the settings that were given, in the order of their definition."""
    return [name for name in RunSettings.model_fields if name in settings.model_fields_set]


def _carry_out(
    session: Session,
    *,
    predictions: Predictions | None,
    asked_as: AskedAs = AS_EVER,
    told: Sequence[str],
    manifest: Mapping[str, Any] | None = None,
) -> Finished:
    """Claim the folder, run what is left, and summarise.

    With `predictions`, those of that run are judged; with a `manifest`, what the folder holds.

    `told` stands above the settings that repeat the run.
    """
    settings, data, folder = session.settings, session.data, session.folder
    refuse_other_files(folder, predictions=None if predictions is None else predictions.sha256)
    answers = predictions is None and manifest is None
    whole = _made_room(session) if answers else True
    # The user's class may leave the working folder: what is written has a place of its own.
    located = replace(session, folder=folder.absolute())
    with claimed_folder(folder) as ledger:
        begun = not (answers and begins_again(folder))
        with kept_working_folder():
            if answers:
                services = _answering_services(located, ledger)
            else:
                services = judging_services(settings, data.tasks, ledger, located.folder, asked_as)
            running = _run(
                located,
                services=services,
                ledger=ledger,
                judged=predictions,
                told=told,
                manifest=manifest,
                watched=progress_line,
                begun=begun,
                shown=folder,
                asked_as=asked_as,
            )
            ran = run_loop(running)
        summary = _summarised(session, ran, ledger.totals)
        stopped = summary.stopped_by_budget
        if is_audited(settings) and not stopped:
            stopped = audit_run(settings, data, folder, spent=ledger.totals.counted)
        done = _audited(session, summary, stopped=stopped, resumed=ran.resumed)
    return replace(done, former=kept_former(folder, was_whole=whole))


def _made_room(session: Session) -> bool:
    """Set the run in a folder aside where all is to be answered again; tell if one is whole."""
    if session.settings.fresh:
        set_aside(session.folder, session.settings, session.code)
    return is_whole(session.folder)


def _answering_services(session: Session, ledger: Ledger, shared: Shared | None = None) -> Services:
    settings, data, folder = session.settings, session.data, session.folder
    services = open_services(
        settings, data.tasks, ledger, folder, id_key=data.id_key, shared=shared
    )
    return as_asked(settings, data, services, folder)


async def run_beside_others(session: Session, shared: Shared, watched: Watched) -> Finished:
    """Carry out a run in a loop in which others run, too, on what they share; it has no audit.

    Raises:
        AlpsError: If the folder holds another run, or somebody can't be asked.
    """
    folder = session.folder
    # Not where the process is now: the class of a run beside it may have moved it.
    located = replace(session, folder=working_folder() / folder)
    refuse_other_files(located.folder)
    whole = _made_room(located)
    with claimed_folder(located.folder) as ledger:
        begun = not begins_again(located.folder)
        ran = await _run(
            located,
            services=_answering_services(located, ledger, shared),
            ledger=ledger,
            judged=None,
            told=repeating(folder),
            manifest=None,
            watched=watched,
            begun=begun,
            shown=folder,
        )
        # Intervals take seconds, in which no other run could go on; and much memory.
        async with shared.summing:
            summary = await asyncio.to_thread(_summarised, located, ran, ledger.totals)
        done = _audited(located, summary, stopped=summary.stopped_by_budget, resumed=ran.resumed)
    former = kept_former(located.folder, was_whole=whole)
    return replace(done, folder=folder, former=former and former_of(folder))


@dataclass(frozen=True)
class _Ran:
    """What a run came to.

    Its plan, what was found, at smaller contexts too, the checks, how many answers were there when
    it began, and the check of its judge.
    """

    plan: Plan
    outcomes: dict[str, Outcome]
    less: AtSizes
    chosen: Chosen
    checks: list[Check]
    resumed: int
    judge_check: Checks | None
    judge_check_before: Checks | None


def _summarised(session: Session, ran: _Ran, totals: Totals) -> Summary:
    """Summarise a run and write its summary."""
    settings, data, folder = session.settings, session.data, session.folder
    summary = _summary(settings, data, ran.plan, ran.outcomes, totals)
    largest = settings.most_context, ran.outcomes
    summary = with_curves(summary, ran.plan, largest, ran.less, folder)
    if ran.checks:
        summary = summary.model_copy(update={"admission": ran.checks})
    if ran.judge_check is not None:
        told = {"judge_check": ran.judge_check, "judge_check_before": ran.judge_check_before}
        summary = summary.model_copy(update=told)
    if (folder / STORE).exists():
        taken: dict[str, Any] = {"phases": phases_of(folder), "answers": answers_of(folder)}
        taken["bytes_per_1000_turns"] = stored_by(folder)
        summary = summary.model_copy(update=taken)
    summary = with_corrections(summary, folder, data, ran.chosen)
    write_json(folder / SUMMARY, summary.row())
    return summary


def _audited(session: Session, summary: Summary, *, stopped: bool, resumed: int) -> Finished:
    """Finish a run with what its audits say, those of an earlier session among them."""
    folder, data = session.folder, session.data
    if (audit := audit_summary(folder, data)) is not None:
        summary = summary.model_copy(update={"audit": audit})
        write_json(folder / SUMMARY, summary.row())
    most = session.settings.max_failures
    return finished(folder, summary, data.tasks, most, budget_spent=stopped, resumed=resumed)


def _described(services: Services) -> dict[str, Any]:
    """Return the system as the manifest has it; a memory is before some of the tracks alone."""
    first = services.systems[0][0]
    memories: dict[str, Any] = {}
    for row in services.systems:
        memories |= {"memory": row[0].settings["memory"]} if "memory" in row[0].settings else {}
    return {"name": first.name, **first.settings, **memories}


def _summary(
    settings: RunSettings,
    data: Data,
    plan: Plan,
    outcomes: Mapping[str, Outcome],
    totals: Totals,
) -> Summary:
    tracks = {}
    for planned, described in zip(plan.tracks, data.tracks, strict=True):
        own: dict[str, Any] = {}
        if (pools := described.description.get("pools")) is not None:
            own["pools"] = Pools(**pools)
        # A user's own task must be shown later without importing its code.
        if PYTHON in settings.task:
            own["shown_by"] = recorded(described.task)
        track = summarise_track(plan, planned, outcomes[planned.task.track])
        tracks[described.task.track] = track.model_copy(update=own)
    # What only some runs have is set in those alone: the others' files lack it.
    own = {}
    if answered := served(totals):
        own["served"] = answered
    if left_out := data.description.get("left_out"):
        own["left_out"] = left_out
    return Summary(
        judge=plan.judge.name,
        judge_fingerprint=fingerprint_id(plan.judge.fingerprint_for(rubrics_of(data.tasks))),
        comparable=plan.judge.comparable,
        model=redact(settings.model),
        tracks=tracks,
        calls=summarise_calls(totals),
        **own,
    )


def _manifest(session: Session, services: Services, judged: Predictions | None) -> dict[str, Any]:
    settings, data = session.settings, session.data
    fingerprint = services.judge.fingerprint_for(rubrics_of(data.tasks))
    manifest = build_manifest(
        settings=settings.experiment(),
        system=_described(services),
        data=data.description,
        prompts=prompt_hashes(settings, data.tasks),
        judge={"id": fingerprint_id(fingerprint), **fingerprint},
        predictions=None if judged is None else judged.sha256,
        structured=structured_modes(settings, data.tasks, services.ladder),
        code=session.code,
    )
    manifest["versions"] |= adapter_versions(settings.memory)
    if data.asked not in (None, settings.data):
        manifest[DATA_ASKED] = data.asked
    return manifest


async def _run(
    session: Session,
    *,
    services: Services,
    ledger: Ledger,
    judged: Predictions | None,
    told: Sequence[str],
    manifest: Mapping[str, Any] | None,
    watched: Watched,
    begun: bool,
    shown: Path,
    asked_as: AskedAs = AS_EVER,
) -> _Ran:
    settings, data, folder = session.settings, session.data, session.folder
    judge = services.judge
    sizes = settings.less_contexts if judged is None else tuple(judged.less)
    async with closing(services):
        endpoint = settings.judge_api_base
        await check_batches(settings, data.tasks if judged is None else (), services.batches)
        chosen = choose(settings.calibration, judge, data, today=date.today(), api_base=endpoint)
        merging = manifest is not None
        if manifest is None:
            manifest = _manifest(session, services, judged)
        _claim(folder, manifest, judged, begun=begun, shown=shown)
        resume_modes(settings, folder, services.ladder)
        write_config(
            folder, {name: getattr(settings, name) for name in _given(settings)}, told=told
        )
        floor_judge = judge if judge.comparable else LexicalJudge()
        journals = Journals.open(folder, baselines=floor_judge.comparable)
        resumed = len(journals.predictions) if judged is None and not merging else 0
        plan = Plan(
            tracks=track_plans(settings, data, services, folder),
            judge=judge,
            options=JudgingOptions(extras=settings.extras == "judge"),
            floor_judge=floor_judge,
            journals=journals,
            workers=settings.records_at_once,
            places=_places(settings, services),
        )
        try:
            total = settings.repeats * (data.n + len(sizes) * sum(map(_n_sized, data.tracks)))
            title = f"{settings.task} {services.systems[0][0].name}"
            if resumed:
                title += f", resumed with {resumed:,} answered"
            checks = await admitted(services, "before")
            check_estimable(services, data.tasks)
            with watched(title, total, ledger.totals) as progress:
                checked = await admit_judge(
                    judge,
                    rubrics_of(data.tasks),
                    folder,
                    check=settings.judge_check and asked_as is AS_EVER,
                    ask=not merging,
                )
                plan = plan.under(checked.judge)
                outcomes = await run_tracks(plan, progress=progress)
                less = await run_sizes(plan, sizes, folder, progress=progress)
            checks += await admitted(services, "after")
        finally:
            journals.close()
            modes = structured_modes(settings, data.tasks, services.ladder)
            add_learned(folder, {STRUCTURED: modes, **served_row(ledger.totals)})
    return _Ran(plan, outcomes, less, chosen, checks, resumed, checked.checks, checked.before)


def _places(settings: RunSettings, services: Services) -> AbstractAsyncContextManager[None]:
    """Return what a record waits for before it is read, so that memory does not grow with them."""
    if settings.batch and services.batches is not None:
        return services.batches.room
    return nullcontext() if services.shared is None else services.shared.places_of(settings)


def _n_sized(track: TrackData) -> int:
    return track.n if has_sizes(track.task) else 0


def track_plans(
    settings: RunSettings, data: Data, services: Services, folder: Path | None = None
) -> tuple[TrackPlan, ...]:
    """Return what is evaluated on each track of a run."""
    return tuple(
        TrackPlan(
            track.task,
            partial(track.samples, data.sessions),
            systems,
            floor_systems(track.task, folder),
            floor_sample=_floor_sample(settings, track),
            n=track.n,
            sessions=data.sessions,
        )
        for track, systems in zip(data.tracks, services.systems, strict=True)
    )


def _floor_sample(settings: RunSettings, track: TrackData) -> frozenset[int]:
    """Draw the records, by position, that floors are judged on where that costs calls.

    The same for every run.
    """
    size = min(settings.baseline_records, track.n)
    return frozenset(
        random.Random(f"{settings.seed} {track.task.track}").sample(range(track.n), size)
    )


def _claim(
    folder: Path,
    manifest: Mapping[str, Any],
    judged: Predictions | None,
    *,
    begun: bool,
    shown: Path,
) -> None:
    """Claim the folder, and bring finished predictions into it.

    They come first: without them the manifest would vouch for a run that can't be judged.
    """
    if judged is not None and not (folder / MANIFEST).exists():
        judged.place(folder)
    claim(folder, manifest, begun=begun, shown=shown)
    if judged is not None and not (folder / PREDICTIONS).exists():
        judged.place(folder)


def judging_services(
    settings: RunSettings,
    tasks: Sequence[Task],
    ledger: Ledger,
    folder: Path | None,
    asked_as: AskedAs = AS_EVER,
) -> Services:
    """Open a judge, and nobody to answer: what is missing in finished predictions stays unheard."""
    judging = open_services(
        settings.model_copy(update={"model": NO_SYSTEM}), tasks, ledger, folder, asked_as
    )
    systems = tuple((Unheard(settings.model),) * settings.repeats for task in tasks)
    return replace(judging, systems=systems)
