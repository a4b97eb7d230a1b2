"""Parts that commands share: how one is declared, and how results and errors are shown."""

import functools
import time
from collections.abc import Callable
from typing import Any

import click

from alps.completion import Explained, ExplainedGroup
from alps.errors import BudgetError, TooManyFailuresError
from alps.waiting import end, status


def command(name: str | None = None) -> Callable[[Callable[..., Any]], Explained]:
    """Declare a command whose help lists its settings; its name is that of the function."""
    return click.command(name, cls=Explained)


def takes_time(carry_out: Callable[..., Any]) -> Callable[..., Any]:
    """Say that something is done from the beginning on: libraries alone take seconds to load."""

    @functools.wraps(carry_out)
    def shown(*words: Any, **named: Any) -> Any:
        with status("loading"):
            return carry_out(*words, **named)

    return shown


def group() -> Callable[[Callable[..., Any]], ExplainedGroup]:
    """Declare a group of such commands."""
    return click.group(cls=ExplainedGroup)


def allow_typed(words: tuple[str, ...]) -> tuple[str, ...]:
    """Let the tasks of `task=python:MODULE` among `words` be imported; return the other words."""
    from alps.tasks.registry import PYTHON, allow_modules

    # Not what a manifest names: to look at a stranger's run must not run the stranger's code.
    own = [word for word in words if word.startswith(f"task={PYTHON}")]
    for word in own:
        allow_modules(word.partition("=")[2])
    return tuple(word for word in words if word not in own)


def say(text: str, *, err: bool = False) -> None:
    """Print a line of results; what is shown of work under way ends."""
    end()
    click.echo(text, err=err)


def typed_settings(settings: Any) -> dict[str, Any]:
    """Return the settings that were typed; all others are those of the run."""
    return {name: getattr(settings, name) for name in sorted(settings.model_fields_set)}


def console() -> Any:
    """Return the terminal, as wide as it is."""
    from alps.show.table import terminal

    return terminal()


def print_as(result: Any, form: str, print_table: Callable[[Any, Any], None]) -> None:
    """Print a result as a table, or as JSON."""
    if form == "json":
        import json

        say(json.dumps(result.as_json(), ensure_ascii=False, indent=2))
    else:
        print_table(result, console())


def stop_at_budget(done: Any) -> None:
    """Raise where the budget ended the work."""
    # Shown first, as what was judged before is worth seeing.
    if done.budget_spent:
        raise BudgetError("stopped by the budget; the same command with a larger one goes on")


def show_finished(carry_out: Callable[[], Any]) -> None:
    """Carry out a run and show its tables; raise what ended it early."""
    began = time.monotonic()
    finished = carry_out()
    # After it: what can't be started needs no tables.
    from alps.extension import extensions
    from alps.show.run_tables import show_run

    show_run(
        finished.summary,
        {task.track: task.metrics for task in finished.tasks},
        folder=str(finished.folder),
        resumed=finished.resumed,
        took=time.monotonic() - began,
    )
    tell_former(finished)
    for extension in extensions():
        if line := extension.next_step(finished):
            click.echo(line)
    stop_at_budget(finished)
    if finished.complaint is not None:
        raise TooManyFailuresError(finished.complaint)


def tell_former(finished: Any) -> None:
    """Say where the run is that a run has taken the place of, if it has."""
    if finished.former is None:
        return
    from alps.run.fresh import is_whole

    run, former = finished.folder, finished.former
    compare = f"; alps compare {former} {run} shows what changed" if is_whole(former) else ""
    click.echo(f"The run before it is kept in {former} until the next fresh=yes{compare}.")


def tell_faults(error: Any) -> None:
    """Print each fault of a plan on a line, where there are several."""
    for fault in error.faults if len(error.faults) > 1 else ():
        say(f"alps: {fault}", err=True)
