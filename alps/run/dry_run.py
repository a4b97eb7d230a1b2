"""Calls, tokens and cost of a run, counted before anything is paid for."""

import shutil
from contextlib import ExitStack
from contextlib import closing as closed_after
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alps.event_loop import run_loop
from alps.llm.ledger import Ledger
from alps.run.course import track_plans, wrapped
from alps.run.estimate import Round, Stage, estimate
from alps.run.finished import judging_services
from alps.run.journal import Journal
from alps.run.judge_check import requests_of_check
from alps.run.opened import PREDICTIONS
from alps.run.parts import parts_of
from alps.run.services import open_services
from alps.run.session import resolve, resolve_again
from alps.run.source import RunData
from alps.settings import RunSettings
from alps.tasks.base import JudgingOptions, rubrics_of

VERDICTS = "verdicts.jsonl"


def dry_run(settings: RunSettings) -> list[Stage]:
    """Count the calls, tokens and dollars that a run would take.

    It makes no request, and no folder.

    Raises:
        AlpsError: If the settings or the data can't be used.
    """
    session = resolve(settings, dry=True)
    if session.settings.fresh:
        session = replace(session, folder=session.folder / "fresh")  # where nothing is answered yet
    settings, data, folder = session.settings, session.data, session.folder
    stages = _estimated(settings, data, folder, folder)
    for part in parts_of(settings, folder):
        stages += part.stages(session, _estimated)
    return stages


def dry_score(source: Path, judging: dict[str, Any]) -> list[Stage]:
    """Count the calls, tokens and dollars that judging a run again would take.

    See `score_again` and `dry_run`.

    Raises:
        AlpsError: If the folder is no run, or the judge can't be used.
    """
    settings, data = resolve_again(source, judging, dry=True)
    judged = Path(settings.out or source)
    return _estimated(settings, data, source, judged, generate=False)


def _estimated(
    settings: RunSettings, data: RunData, answered: Path, judged: Path, *, generate: bool = True
) -> list[Stage]:
    """Count what is left to ask, where these folders hold predictions and verdicts already."""
    with TemporaryDirectory() as scratch, ExitStack() as opened:
        ledger = opened.enter_context(closed_after(Ledger(Path(scratch) / "calls.jsonl")))
        if generate:
            parts = parts_of(settings, answered)
            services = open_services(settings, data.tasks, ledger, None, parts=parts)
            services = wrapped(services, data, None)
        else:
            services = judging_services(settings, data.tasks, ledger, None)
            parts = parts_of(settings, answered)
        opened.callback(lambda: run_loop(services.aclose()))
        plans = track_plans(settings, data, services)
        rounds = [Round(plans, *_held(answered, judged, Path(scratch) / "run", opened))]
        for part in parts:
            for inside, less in part.rounds(plans):
                held = _held(answered / inside, judged / inside, Path(scratch) / inside, opened)
                if generate or held[0] is not None:
                    rounds.append(Round(tuple(less), *held))
        options = JudgingOptions(extras=settings.extras == "judge")
        rubrics = rubrics_of(data.tasks) if settings.judge_check else []
        checking = run_loop(requests_of_check(services.judge, rubrics, judged))
        return run_loop(estimate(rounds, services, options=options, checking=checking))


def _held(
    answered: Path, judged: Path, scratch: Path, opened: ExitStack
) -> tuple[Journal | None, Journal | None]:
    """Open copies of the predictions and the verdicts that are there, until the end of `opened`.

    Opening mends a torn line, which in a run that goes on is one being written.
    """
    scratch.mkdir(parents=True)
    journals: list[Journal | None] = []
    for path in (answered / PREDICTIONS, judged / VERDICTS):
        copy = Journal(Path(shutil.copy(path, scratch))) if path.exists() else None
        journals.append(None if copy is None else opened.enter_context(closed_after(copy)))
    return journals[0], journals[1]
