"""Commands that run systems, go on from a run, or compare runs: `run`, `score`, `compare`."""

from pathlib import Path
from typing import TYPE_CHECKING

from alps.commands.common import command, print_as, show_finished, typed_settings
from alps.extension import extensions, load
from alps.waiting import tell

if TYPE_CHECKING:
    from alps.settings import CompareSettings, JudgeSettings


@command("KEY=VALUE…", "alps.settings:RunSettings", raw=True)
def run(words: tuple[str, ...]) -> None:
    """Run a system on a task, judge it, print its score.

    The same command resumes an interrupted run. The first word may be the task alone.

    \b
      alps run extraction model=rules
      alps run task=extraction model=openai/gpt-4.1-mini judge=openai/gpt-4.1
      alps run task=extraction model=openai/mine api_base=http://localhost:8000/v1
      alps run task=extraction model=openai/gpt-4.1-mini,openai/gpt-4.1
    """
    from alps.llm.secrets import redact
    from alps.parsing import parse_words
    from alps.run.start import run as carry_out
    from alps.settings import RunSettings

    words = _with_task(words)
    for extension in extensions():
        if extension.takes_words(words):
            load(extension.run_words)(words)
            return
    parsed = parse_words(words, RunSettings)
    tell(f"{parsed.task}: {redact(parsed.model)}, loading", announced=not parsed.dry_run)
    if parsed.dry_run:
        from alps.run.estimate import dry_run
        from alps.show.estimate import show_estimate

        show_estimate(
            dry_run(parsed), max_cost=parsed.max_cost, max_total_tokens=parsed.max_total_tokens
        )
    else:
        show_finished(lambda: carry_out(parsed))


def _with_task(words: tuple[str, ...]) -> tuple[str, ...]:
    """Read a first word without `=` as the task; one that is a key lacks its value."""
    from alps.settings import RunSettings

    bare = words and "=" not in words[0] and words[0] not in RunSettings.model_fields
    if not bare or any(word.startswith("task=") for word in words):
        return words
    return (f"task={words[0]}", *words[1:])


@command("[judge=…] [audit_judge=…] [audit_labels=…] …", "alps.settings:JudgeSettings", run=True)
def score(run: Path, settings: "JudgeSettings") -> None:
    """Judge a finished run again, with another judge or an audit.

    With only audit_judge= or audit_labels=, alps audits a share of the records and keeps the
    verdicts of the run's judge. With only calibration=, alps corrects scores without judging.

    \b
      alps score runs/extraction-rules-samples judge=openai/gpt-4.1
      alps score runs/mine audit_judge=openai/gpt-4.1 audit=20%
      alps score runs/mine audit_labels=labels     (human labels)
      alps score runs/mine calibration=calibrated
    """
    from alps.run.start import score_again

    typed, again = typed_settings(settings), score_again
    for extension in extensions():
        if extension.rescores(typed):
            again = load(extension.rescore)
    tell(f"{run}: judging its answers, loading", announced=True)
    show_finished(lambda: again(run, typed))


@command("RUN… [seed=…] [format=json]", "alps.settings:CompareSettings", runs=True, own_task=True)
def compare(runs: list[Path], settings: "CompareSettings") -> None:
    """Compare runs on shared records: Δ, interval, p.

    The runs must have the same data and the same judge.

    \b
      alps compare runs/extraction-rules-samples runs/extraction-oracle-samples
    """
    from functools import partial

    from alps.show.compare import compare_runs
    from alps.show.compare_table import print_comparison

    print_table = partial(print_comparison, whole=settings.metrics == "all")
    print_as(compare_runs(runs, seed=settings.seed), settings.format, print_table)
