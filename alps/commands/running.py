"""Commands that run systems or go on from a run: `run`, `sweep`, `merge`, `score` and others."""

import click

from alps.commands.common import (
    allow_typed,
    command,
    show_finished,
    takes_time,
    typed_settings,
)
from alps.completion import takes, words_of
from alps.waiting import tell


@command()
@takes("KEY=VALUE…", "alps.settings:RunSettings")
@takes_time
def run(settings: tuple[str, ...]) -> None:
    """Run a system on a task, judge it, and show its scores.

    The same command again resumes a run that was interrupted.

    \b
      alps run task=extraction model=rules data=samples
      alps run task=extraction model=openai/gpt-4.1-mini judge=openai/gpt-4.1
      alps run task=extraction model=openai/mine api_base=http://localhost:8000/v1
      alps run task=extraction model=openai/gpt-4.1-mini,openai/gpt-4.1
    """
    from alps.extension import extensions, load
    from alps.llm.secrets import redact
    from alps.parsing import parse_words
    from alps.run.dry_run import dry_run
    from alps.run.start import run as carry_out
    from alps.settings import RunSettings

    for extension in extensions():
        if extension.takes_words(settings):
            load(extension.run_words)(settings)
            return
    parsed = parse_words(settings, RunSettings)
    tell(f"{parsed.task}: {redact(parsed.model)}, loading", announced=not parsed.dry_run)
    if parsed.dry_run:
        from alps.show.estimate import show_estimate

        show_estimate(
            dry_run(parsed), max_cost=parsed.max_cost, max_total_tokens=parsed.max_total_tokens
        )
    else:
        show_finished(lambda: carry_out(parsed))


@command()
@click.argument("run_folder", metavar="RUN", shell_complete=words_of(runs=True))
@takes("judge=…, audit_judge=… audit=…, or audit_labels=…", "alps.settings:JudgeSettings")
@takes_time
def score(run_folder: str, settings: tuple[str, ...]) -> None:
    """Judge the finished predictions of a run again, with another judge.

    With audit_judge= or audit_labels= alone a share of its records, beside the verdicts of its own
    judge on all of them. With calibration= alone nothing is judged: its scores are corrected.

    \b
      alps score runs/extraction-rules-samples judge=openai/gpt-4.1
      alps score runs/mine audit_judge=openai/gpt-4.1 audit=20%
      alps score runs/mine audit_labels=labels     of people
      alps score runs/mine calibration=calibrated
    """
    from alps.extension import extensions, load
    from alps.parsing import parse_words
    from alps.run.opened import find_run
    from alps.run.start import score_again
    from alps.settings import JudgeSettings

    parsed = parse_words(allow_typed(settings), JudgeSettings)
    typed, folder = typed_settings(parsed), find_run(run_folder)
    again = score_again
    for extension in extensions():
        if extension.rescores(typed):
            again = load(extension.rescore)
    tell(f"{folder}: judging its answers, loading", announced=True)
    show_finished(lambda: again(folder, typed))
