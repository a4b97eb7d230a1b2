"""Calls, tokens and cost of a run, counted before anything is paid for."""

import shutil
from contextlib import ExitStack
from contextlib import closing as closed_after
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alps.event_loop import run_loop
from alps.ext.audits.audit import FOLDER as AUDIT
from alps.ext.audits.audit import audit_settings, check_audit, drawn_data, refuse_half_an_audit
from alps.ext.memory.models import asked_models
from alps.ext.sizes.run import PREDICTIONS, folder_of, shown_less
from alps.llm.ledger import Ledger
from alps.llm.secrets import redact
from alps.run.estimate import Round, Stage, estimate
from alps.run.journal import Journal
from alps.run.judge_check import requests_of_check, rubrics_of
from alps.run.services import open_services
from alps.run.session import resolve, resolve_again
from alps.run.source import Data
from alps.run.start import VERDICTS, judging_services, track_plans
from alps.run.wrapping import as_asked
from alps.settings import RunSettings
from alps.tasks import JudgingOptions


def dry_run(settings: RunSettings) -> list[Stage]:
    """Count the calls, tokens and dollars that a run would take.

    It makes no request, and no folder.

    Raises:
        AlpsError: If the settings or the data can't be used.
    """
    refuse_half_an_audit(settings)
    session = resolve(settings, dry=True)
    settings, data, folder = session.settings, session.data, session.folder
    folder = folder / "fresh" if settings.fresh else folder  # where nothing is answered yet
    check_audit(settings, data, keys=False)
    stages = _estimated(settings, data, folder, folder)
    for key, name, _ in asked_models(settings):
        stages.append(Stage(key.replace("_", " "), redact(name), unknown=True))
    if settings.audit_judge is not None:
        asking = audit_settings(settings).model_copy(update={"baseline_records": 0})
        stages_of_audit = _estimated(asking, drawn_data(data, settings), folder, folder / AUDIT)
        names = {"judge": "audit", "known items": "known items of audit_judge"}
        stages += [
            replace(one, name=names[one.name]) for one in stages_of_audit if one.name in names
        ]
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
    settings: RunSettings, data: Data, answered: Path, judged: Path, *, generate: bool = True
) -> list[Stage]:
    """Count what is left to ask, where these folders hold predictions and verdicts already."""
    with TemporaryDirectory() as scratch, ExitStack() as opened:
        ledger = opened.enter_context(closed_after(Ledger(Path(scratch) / "calls.jsonl")))
        if generate:
            services = open_services(settings, data.tasks, ledger, None)
            services = as_asked(settings, data, services, None)
        else:
            services = judging_services(settings, data.tasks, ledger, None)
        opened.callback(lambda: run_loop(services.aclose()))
        plans = track_plans(settings, data, services)
        rounds = [Round(plans, *_held(answered, judged, Path(scratch) / "run", opened))]
        for size in settings.less_contexts:
            inside = folder_of(answered, size), folder_of(judged, size)
            held = _held(*inside, Path(scratch) / str(size), opened)
            if generate or held[0] is not None:
                rounds.append(Round(shown_less(plans, size), *held))
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
    scratch.mkdir()
    journals: list[Journal | None] = []
    for path in (answered / PREDICTIONS, judged / VERDICTS):
        copy = Journal(Path(shutil.copy(path, scratch))) if path.exists() else None
        journals.append(None if copy is None else opened.enter_context(closed_after(copy)))
    return journals[0], journals[1]
