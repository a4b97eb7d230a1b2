"""Runs started: from settings to a finished folder, or finished predictions judged again."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from alps.event_loop import run_loop
from alps.folders import kept_working_folder, working_folder
from alps.llm.ledger import Ledger, Totals
from alps.rows import Summary
from alps.run.course import RunResult, run_course, wrapped
from alps.run.finished import Finished, Predictions, finished, judging_services, predictions_of
from alps.run.folder import claimed_folder, refuse_other_files, repeating, write_summary
from alps.run.fresh import begins_again, former_of, is_whole, kept_former, set_aside
from alps.run.parts import engine_of
from alps.run.progress import Watched, progress_line
from alps.run.services import AS_EVER, AskedAs, Services, open_services
from alps.run.session import RunSession, resolve, resolve_again, run_folder, session_beside
from alps.run.shared import Shared
from alps.run.summary import summarise_run
from alps.settings import RunSettings


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


def carry_out(session: RunSession) -> Finished:
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
    session = session_beside(source, settings, data, predictions.sha256)
    told = [f"alps score judged the predictions of {source} with this judge."]
    other = ["`alps judges` chose the judge's prompt; no setting in this file names that prompt."]
    told += other if asked_as is not None else repeating(session.folder)
    return _carry_out(session, predictions=predictions, asked_as=asked_as or AS_EVER, told=told)


def finish(session: RunSession, manifest: Mapping[str, Any], told: Sequence[str]) -> Finished:
    """Score what the journals of a run folder hold, and write its summary; no system is asked.

    Args:
        session: The settings, the data and the folder.
        manifest: Manifest in the folder.
        told: Lines above the settings that repeat the run.

    Raises:
        AlpsError: If the judge can't be opened.
    """
    return _carry_out(session, predictions=None, told=told, manifest=manifest)


def _carry_out(
    session: RunSession,
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
            running = run_course(
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


def _made_room(session: RunSession) -> bool:
    """Set the run in a folder aside where all is to be answered again; tell if one is whole."""
    if session.settings.fresh:
        set_aside(session.folder, session.settings.recorded(), session.code)
    return is_whole(session.folder)


def _answering_services(
    session: RunSession, ledger: Ledger, shared: Shared | None = None
) -> Services:
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


async def run_beside_others(session: RunSession, shared: Shared, watched: Watched) -> Finished:
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
        ran = await run_course(
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


def _summarised(session: RunSession, ran: RunResult, totals: Totals) -> Summary:
    """Summarise a run and write its summary."""
    settings, data, folder = session.settings, session.data, session.folder
    summary = summarise_run(settings, data, ran.course.plan, ran.course.outcomes, totals)
    if ran.judge_check is not None:
        told = {"judge_check": ran.judge_check, "judge_check_before": ran.judge_check_before}
        summary = summary.model_copy(update=told)
    for part in session.parts:
        summary = part.summarise(summary, ran.course)
    write_summary(folder, summary)
    return summary


def _concluded(session: RunSession, summary: Summary, *, stopped: bool, resumed: int) -> Finished:
    """Finish a run with what extensions made of it, in earlier commands, too."""
    folder, whole = session.folder, summary
    for part in session.parts:
        whole = part.conclusions(whole, session)
    if whole is not summary:
        write_summary(folder, whole)
    return finished(
        folder,
        whole,
        session.data.tasks,
        session.settings.max_failures,
        budget_spent=stopped,
        resumed=resumed,
        parts=session.parts,
    )
