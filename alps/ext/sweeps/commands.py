"""The command `sweep`, and a `run` whose words name several systems or tasks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alps.commands import command, console, say, stop_at_budget, tell_faults, tell_former
from alps.errors import TooManyFailuresError

if TYPE_CHECKING:
    from alps.ext.sweeps.plan import SweepSettings


@command("[only=failed] [max_cost=…]", "alps.ext.sweeps.plan:SweepSettings")
@click.argument("plan", metavar="PLAN.toml")
def sweep(plan: str, settings: "SweepSettings") -> None:
    """Run many systems on many tasks within one budget.

    alps checks the whole plan before the first request. The same command resumes an interrupted
    sweep; only=failed repeats failed runs.

    \b
      alps sweep plan.toml
      alps sweep plan.toml only=failed
    """
    from dataclasses import replace

    from alps.ext.sweeps.plan import PlanError, read_plan

    try:
        read = read_plan(Path(plan))
    except PlanError as error:
        tell_faults(error)
        raise
    caps = {name: getattr(settings, name) for name in ("max_cost", "max_total_tokens")}
    given = {name: value for name, value in caps.items() if value is not None}
    read = replace(read, **given)
    show_sweep(read.answered_again() if settings.fresh else read, only=settings.only)


def run_words(words: Sequence[str]) -> None:
    """Carry out `alps run` of several models, as a sweep."""
    from alps.ext.sweeps.plan import plan_of_words

    show_sweep(plan_of_words(words), only="all")


def show_sweep(plan: Any, *, only: Any) -> None:
    """Run a sweep and print its result; raise if it is incomplete."""
    from alps.ext.sweeps.board import SweepProgress
    from alps.ext.sweeps.plan import PlanError
    from alps.ext.sweeps.sweep import sweep
    from alps.ext.sweeps.table import SweptRun, print_sweep, report_sweep, write_sweep_page
    from alps.run.opened import RUNS

    try:
        swept = sweep(plan, only=only, board=SweepProgress())
    except PlanError as error:
        tell_faults(error)
        raise
    runs = []
    for one in swept.ended:
        runs.append(SweptRun(one.cell.system, one.cell.task, one.folder, one.judge, one.failure))
    report = report_sweep(runs, left=swept.left)
    print_sweep(report, console())
    for one in swept.ended:
        if one.finished is not None:
            tell_former(one.finished)
    name = Path(plan.name).stem if plan.name.endswith(".toml") else "sweep"
    page = write_sweep_page(report, (plan.out or RUNS) / f"{name}.html")
    say(f"wrote {page}")
    stop_at_budget(swept)
    if failed := swept.failed:
        of = f"{len(failed)} of {len(plan.cells)} runs"
        again = "the same command retries missing responses"
        raise TooManyFailuresError(f"{of} failed or lost records; {again}")
