"""Sweeps: many systems on many tasks, in one process, within one budget."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alps.commands import command, console, say, stop_at_budget, tell_former
from alps.errors import TooManyFailuresError
from alps.extension import Extension

if TYPE_CHECKING:
    from alps.ext.sweeps.plan import SweepSettings

_ONE_NAME = ("program:", "predictions:")


def models_of(text: str) -> tuple[str, ...]:
    """Return the models that commas separate; commands and paths may hold commas of their own."""
    if any(name in text for name in _ONE_NAME):
        return (text,)
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def models_in(words: Sequence[str]) -> tuple[str, ...]:
    """Return the models that `model=` names among the words of `alps run`."""
    typed = [word.partition("=")[2] for word in words if word.startswith("model=")]
    return models_of(typed[0]) if len(typed) == 1 else ()


@command("[only=failed] [max_cost=…]", "alps.ext.sweeps.plan:SweepSettings", name="sweep")
@click.argument("plan", metavar="PLAN.toml")
def sweep_plan(plan: str, settings: "SweepSettings") -> None:
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
        _tell_faults(error)
        raise
    caps = {name: getattr(settings, name) for name in ("max_cost", "max_total_tokens")}
    given = {name: value for name, value in caps.items() if value is not None}
    # Caps are no part of what a run measures: a sweep that a budget stopped goes on under a higher
    # one.
    read = replace(read, **given)
    _show_sweep(read.answered_again() if settings.fresh else read, only=settings.only)


def _tell_faults(error: Any) -> None:
    """Print each fault of a plan on a line, where there are several."""
    for fault in error.faults if len(error.faults) > 1 else ():
        say(f"alps: {fault}", err=True)


def run_words(words: Sequence[str]) -> None:
    """Carry out `alps run` of several models, as a sweep."""
    from alps.ext.sweeps.plan import plan_of_words

    _show_sweep(plan_of_words(words), only="all")


def _show_sweep(plan: Any, *, only: Any) -> None:
    """Run a sweep and print its result; raise if it is incomplete."""
    from alps.ext.sweeps.plan import PlanError
    from alps.ext.sweeps.progress import SweepProgress
    from alps.ext.sweeps.sweep import sweep
    from alps.ext.sweeps.table import print_sweep, report_sweep, write_sweep_page
    from alps.run.opened import RUNS

    try:
        swept = sweep(plan, only=only, board=SweepProgress())
    except PlanError as error:
        _tell_faults(error)
        raise
    report = report_sweep(swept)
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
        again = "to retry missing responses, repeat the same command"
        raise TooManyFailuresError(f"{of} failed or lost records; {again}")


EXTENSION = Extension(
    "sweeps",
    commands={"sweep": "alps.ext.sweeps:sweep_plan"},
    heading="Scale",
    takes_words=lambda words: len(models_in(words)) > 1,
    run_words="alps.ext.sweeps:run_words",
)
