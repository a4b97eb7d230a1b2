"""Runs started: from settings to a finished folder, or finished predictions judged again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from alps.event_loop import run_loop
from alps.folders import kept_working_folder
from alps.run.course import answering_services, judging_services, run_course
from alps.run.folder import (
    Predictions,
    claimed_folder,
    predictions_of,
    refuse_other_files,
    repeating,
)
from alps.run.fresh import begins_again, kept_former, made_room
from alps.run.parts import engine_of
from alps.run.services import AS_EVER, AskedAs
from alps.run.session import RunSession, resolve, resolve_again, run_folder, session_beside
from alps.run.summary import Finished, concluded, summarised
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
    predictions = predictions_of(source, data.n * settings.repeats)
    session = session_beside(source, settings, data, predictions.sha256)
    told = [f"The judge named below scored the predictions of {source}."]
    other = ["These settings do not repeat the scoring: no setting holds the judge prompt used."]
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
    """
    settings, data, folder = session.settings, session.data, session.folder
    refuse_other_files(folder, predictions=None if predictions is None else predictions.sha256)
    answers = predictions is None and manifest is None
    whole = made_room(session) if answers else True
    # The user's class may leave the working folder: what is written has a place of its own.
    located = replace(session, folder=folder.absolute())
    with claimed_folder(folder) as ledger:
        begun = not (answers and begins_again(folder))
        with kept_working_folder():
            if answers:
                services = answering_services(located, ledger)
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
                begun=begun,
                shown=folder,
                asked_as=asked_as,
            )
            ran = run_loop(running)
        summary = summarised(session, ran, ledger.totals)
        stopped = summary.stopped_by_budget
        for part in session.parts:
            stopped = stopped or part.conclude(session, ledger.totals.counted)
        done = concluded(session, summary, stopped=stopped, resumed=ran.resumed)
    return replace(done, former=kept_former(folder, was_whole=whole))
