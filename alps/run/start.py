"""Course of a run, from its settings to a finished folder."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.event_loop import run_loop
from alps.folders import kept_working_folder, slug, working_folder
from alps.judges.base import fingerprint_id
from alps.judges.embedded import LexicalJudge
from alps.llm.ledger import Ledger, Totals
from alps.llm.secrets import redact
from alps.rows import Pools, Summary
from alps.run.collector import Journals, Outcome, Plan, run_tracks
from alps.run.engine import TrackPlan
from alps.run.finished import Finished, finished
from alps.run.finished_predictions import PREDICTIONS, Predictions, predictions_of
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
from alps.run.judge_check import Checks, admit_judge
from alps.run.opened import MANIFEST, SUMMARY
from alps.run.parts import Course, Parts, engine_of, parts_of
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
from alps.run.session import DATA_ASKED, Session, digest, resolve, resolve_again, run_folder
from alps.run.shared import Shared
from alps.run.source import Data, TrackData
from alps.run.summary import served, served_row, summarise_calls, summarise_track
from alps.run.wrapping import wrapped
from alps.settings import RunSettings
from alps.systems import NO_SYSTEM, Unheard, floor_systems
from alps.tasks.base import JudgingOptions, Task, rubrics_of
from alps.tasks.registry import PYTHON, recorded

VERDICTS = "verdicts.jsonl"


def run(settings: RunSettings) -> Finished:
    """Carry out a run, or what is left of it, and write its summary.

    Raises:
        AlpsError: If the settings, the data or the folder can't be used.
    """
    engine = engine_of(settings, run_folder(settings))
    return run_here(settings) if engine is None else engine(settings)


def run_here(settings: RunSettings) -> Finished:
    """Carry out a run in this process; see `run`."""
    return carry_out(resolve(settings))


def carry_out(session: Session) -> Finished:
    """Carry out a resolved run in this process; see `run`."""
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
    predictions = predictions_of(source)
    digested = digest({**settings.experiment(), "predictions": predictions.sha256})
    beside = source.with_name(f"{source.name}--{slug(settings.judge)}-{digested}")
    folder = Path(settings.out) if settings.out else beside
    if folder.resolve() == source.resolve():
        raise UsageError(f"out={folder}: a new judge needs a folder of its own")
    told = [f"The predictions are those of {source}; alps score judged them, under this judge."]
    other = ["How the judge was asked, alps sensitivity or alps judges said, and no setting here."]
    told += other if asked_as is not None else repeating(folder)
    parts = parts_of(settings, folder)
    session = Session(settings, data, folder, task_code(settings), parts)
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
                services = judging_services(
                    settings, data.tasks, ledger, located.folder, asked_as, parts=session.parts
                )
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
        for part in session.parts:
            stopped = stopped or part.conclude(session, ledger.totals.counted)
        done = _concluded(session, summary, stopped=stopped, resumed=ran.resumed)
    return replace(done, former=kept_former(folder, was_whole=whole))


def _made_room(session: Session) -> bool:
    """Set the run in a folder aside where all is to be answered again; tell if one is whole."""
    if session.settings.fresh:
        set_aside(session.folder, session.settings, session.code)
    return is_whole(session.folder)


def _answering_services(session: Session, ledger: Ledger, shared: Shared | None = None) -> Services:
    settings, data, folder = session.settings, session.data, session.folder
    services = open_services(
        settings,
        data.tasks,
        ledger,
        folder,
        id_key=data.id_key,
        shared=shared,
        parts=session.parts,
    )
    return wrapped(services, data, folder)


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
        stopped = summary.stopped_by_budget
        done = _concluded(located, summary, stopped=stopped, resumed=ran.resumed)
    former = kept_former(located.folder, was_whole=whole)
    return replace(done, folder=folder, former=former and former_of(folder))


@dataclass(frozen=True)
class _Ran:
    """What a run came to.

    How it went, how many answers were there when it began, and the check of its judge.
    """

    course: Course
    resumed: int
    judge_check: Checks | None
    judge_check_before: Checks | None


def _summarised(session: Session, ran: _Ran, totals: Totals) -> Summary:
    """Summarise a run and write its summary."""
    settings, data, folder = session.settings, session.data, session.folder
    summary = _summary(settings, data, ran.course.plan, ran.course.outcomes, totals)
    if ran.judge_check is not None:
        told = {"judge_check": ran.judge_check, "judge_check_before": ran.judge_check_before}
        summary = summary.model_copy(update=told)
    for part in session.parts:
        summary = part.summarise(summary, ran.course)
    write_json(folder / SUMMARY, summary.row())
    return summary


def _concluded(session: Session, summary: Summary, *, stopped: bool, resumed: int) -> Finished:
    """Finish a run with what extensions made of it, in earlier commands, too."""
    folder, whole = session.folder, summary
    for part in session.parts:
        whole = part.conclusions(whole, session)
    if whole is not summary:
        write_json(folder / SUMMARY, whole.row())
    return finished(
        folder,
        whole,
        session.data.tasks,
        session.settings.max_failures,
        budget_spent=stopped,
        resumed=resumed,
        parts=session.parts,
    )


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
        settings=settings.recorded(),
        system=_described(services),
        data=data.description,
        prompts=prompt_hashes(settings, data.tasks),
        judge={"id": fingerprint_id(fingerprint), **fingerprint},
        predictions=None if judged is None else judged.sha256,
        structured=structured_modes(settings, data.tasks, services.ladder),
        code=session.code,
    )
    for part in session.parts:
        manifest["versions"] |= part.versions()
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
    async with closing(services):
        for part in services.parts:
            await part.begin(services, data, generate=judged is None)
        merging = manifest is not None
        if manifest is None:
            manifest = _manifest(session, services, judged)
        _claim(session, manifest, judged, begun=begun, shown=shown)
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
            more = sum(part.more_records(data) for part in services.parts)
            total = settings.repeats * (data.n + more)
            title = f"{settings.task} {services.systems[0][0].name}"
            if resumed:
                title += f", resumed with {resumed:,} answered"
            course = Course(session, services, plan, {})
            for part in services.parts:
                await part.before(course)
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
                course = Course(session, services, plan, outcomes)
                for part in services.parts:
                    await part.more(course, progress)
            for part in services.parts:
                await part.after(course)
        finally:
            journals.close()
            modes = structured_modes(settings, data.tasks, services.ladder)
            add_learned(folder, {STRUCTURED: modes, **served_row(ledger.totals)})
    return _Ran(course, resumed, checked.checks, checked.before)


def _places(settings: RunSettings, services: Services) -> AbstractAsyncContextManager[None]:
    """Return what a record waits for before it is read, so that memory does not grow with them."""
    if services.batches is not None and services.batches.places is not None:
        return services.batches.places
    return nullcontext() if services.shared is None else services.shared.places_of(settings)


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
    session: Session,
    manifest: Mapping[str, Any],
    judged: Predictions | None,
    *,
    begun: bool,
    shown: Path,
) -> None:
    """Claim the folder, and bring finished predictions into it.

    They come first: without them the manifest would vouch for a run that can't be judged.
    """
    folder = session.folder
    if judged is not None:
        for part in session.parts:
            part.place(judged.source, folder)
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
    *,
    parts: Parts = (),
) -> Services:
    """Open a judge, and nobody to answer: what is missing in finished predictions stays unheard."""
    judging = open_services(
        settings.model_copy(update={"model": NO_SYSTEM}),
        tasks,
        ledger,
        folder,
        asked_as,
        parts=parts,
    )
    systems = tuple((Unheard(settings.model),) * settings.repeats for task in tasks)
    return replace(judging, systems=systems)
