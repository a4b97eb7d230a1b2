"""Commands that run systems or go on from a run: `run`, `sweep`, `merge`, `score` and others."""

import click

from alps.commands.common import (
    allow_typed,
    command,
    console,
    print_as,
    show_finished,
    show_sweep,
    takes_time,
    tell_faults,
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
    from alps.fleet.engines import run as carry_out
    from alps.fleet.plan import plan_of_words
    from alps.llm.secrets import redact
    from alps.parsing import parse_words
    from alps.run.dry_run import dry_run
    from alps.settings import RunSettings

    if (plan := plan_of_words(settings)) is not None:
        show_sweep(plan, only="all")
        return
    parsed = parse_words(settings, RunSettings)
    tell(f"{parsed.task}: {redact(parsed.model)}, loading", announced=not parsed.dry_run)
    if parsed.dry_run:
        from alps.report.estimate import show_estimate

        show_estimate(
            dry_run(parsed), max_cost=parsed.max_cost, max_total_tokens=parsed.max_total_tokens
        )
    else:
        show_finished(lambda: carry_out(parsed))


@command()
@click.argument("plan", metavar="PLAN.toml")
@takes("[only=failed] [max_cost=…]", "alps.fleet.plan:SweepSettings")
@takes_time
def sweep(plan: str, settings: tuple[str, ...]) -> None:
    """Run every system of a plan on every task of it, in one process, and compare them.

    The plan is checked whole before anything is asked. The same command again goes on with what is
    left; only=failed with what failed.

    \b
      alps sweep plan.toml
      alps sweep plan.toml only=failed
    """
    from dataclasses import replace
    from pathlib import Path

    from alps.fleet.plan import PlanError, SweepSettings, read_plan
    from alps.parsing import parse_words

    parsed = parse_words(settings, SweepSettings)
    try:
        read = read_plan(Path(plan))
    except PlanError as error:
        tell_faults(error)
        raise
    caps = {name: getattr(parsed, name) for name in ("max_cost", "max_total_tokens")}
    given = {name: value for name, value in caps.items() if value is not None}
    read = replace(read, **given)
    show_sweep(read.answered_again() if parsed.fresh else read, only=parsed.only)


@command()
@takes("OUT SHARD…", runs=True)
@takes_time
def merge(words: tuple[str, ...]) -> None:
    """Merge finished shards of a run into the folder of the whole run; nothing is asked.

    \b
      alps run task=extraction model=rules shard=1/2 out=first
      alps run task=extraction model=rules shard=2/2 out=second
      alps merge whole first second
    """
    from pathlib import Path

    from alps.run.merge import merge as merge_shards
    from alps.run.opened import find_run

    out, *shards = allow_typed(words)
    found = [find_run(shard) for shard in shards]
    show_finished(lambda: merge_shards(Path(out).expanduser(), found))


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
    from alps.parsing import parse_words
    from alps.run.opened import find_run
    from alps.run.start import audit_again, score_again
    from alps.settings import JudgeSettings

    parsed = parse_words(allow_typed(settings), JudgeSettings)
    typed, folder = typed_settings(parsed), find_run(run_folder)
    if typed.keys() == {"calibration"}:
        from alps.run.correct_again import correct_again

        show_finished(lambda: correct_again(folder, typed["calibration"]))
        return
    tell(f"{folder}: judging its answers, loading", announced=True)
    # Without a new judge the run keeps its folder: audits stand beside its own verdicts.
    auditing = bool({"audit_judge", "audit_labels"} & typed.keys()) and "judge" not in typed
    again = audit_again if auditing else score_again
    show_finished(lambda: again(folder, typed))


@command()
@click.argument("run_folder", metavar="RUN", shell_complete=words_of(runs=True))
@takes("[rows=…] [max_cost=…] [model=…] [format=json]", "alps.settings:BesideSettings")
@takes_time
def beside(run_folder: str, settings: tuple[str, ...]) -> None:
    """Run the same reader with no memory, full context, oracle evidence and others; compare.

    Rows are sorted by the paired difference from no memory. What was run before is not asked again.

    \b
      alps beside runs/personamem-rules-samples
    """
    from alps.parsing import parse_words
    from alps.report.beside import beside as compare_memories
    from alps.report.beside import print_beside
    from alps.run.beside import run_beside
    from alps.run.opened import find_run
    from alps.settings import BesideSettings

    parsed = parse_words(allow_typed(settings), BesideSettings)
    given = {} if parsed.max_cost is None else {"max_cost": parsed.max_cost}
    folder, rows = find_run(run_folder), parsed.rows.split(",")
    ran = run_beside(folder, rows, given, typed={"model": parsed.model})
    print_as(compare_memories(ran.folders, ran.left_out), parsed.format, print_beside)


@command()
@click.argument("run_folder", metavar="RUN", shell_complete=words_of(runs=True))
@click.argument("record", metavar="[ID]", default="")
@takes("[memory=…] [model=…] [format=json]", "alps.settings:DiagnoseSettings")
@takes_time
def diagnose(run_folder: str, record: str, settings: tuple[str, ...]) -> None:
    """Find where a memory system lost what each wrong answer of a run needed.

    The system is fed again, and the reader is asked again with the evidence alone. With ID, all
    that is known of one wrong answer.

    \b
      alps diagnose runs/personamem-rules-samples
      alps diagnose runs/mine memory=python:mine:Store
    """
    from alps.parsing import parse_words
    from alps.report.diagnose import print_diagnosis, print_miss
    from alps.run.diagnose import diagnose as find_losses
    from alps.run.opened import find_run
    from alps.settings import DiagnoseSettings

    if "=" in record:
        record, settings = "", (record, *settings)
    parsed = parse_words(settings, DiagnoseSettings)
    typed = {"model": parsed.model, "memory": parsed.memory}
    found = find_losses(find_run(run_folder), typed=typed)
    if record:
        print_miss(found, record, console())
    else:
        print_as(found, parsed.format, print_diagnosis)
