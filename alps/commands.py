"""The commands of the spine (`run`, `score`, `compare`), and what all commands share.

That is how one is declared, and how results and errors are shown.
"""

import functools
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alps.errors import BudgetError, TooManyFailuresError
from alps.explained import Explained, ExplainedGroup, Words, on_tab
from alps.extension import extensions, load, made, sole
from alps.waiting import end, status, tell

if TYPE_CHECKING:
    from alps.settings import CompareSettings, JudgeSettings


@dataclass(frozen=True)
class _Takes:
    """What a command takes.

    Attributes:
        run: Whether its first word is a run: it is called with `run`, the folder.
        record: Whether an id may follow: `record`, which may be empty.
        runs: Whether runs are among its words: `runs`, their folders.
        folders: Whether other folders or files are: `folders`, as they were typed.
        none: Whether none of these will do.
        own_task: Whether help and Tab offer `task=python:MODULE`, which all that look at runs take.
        raw: Whether it is called with `words`, as they were typed.
    """

    shown: str
    settings: str | None
    run: bool = False
    record: bool = False
    runs: bool = False
    folders: bool = False
    none: bool = False
    own_task: bool = False
    raw: bool = False

    def arguments(self, words: tuple[str, ...] = (), **given: Any) -> dict[str, Any]:
        """Return what the function of the command is called with, from what was typed.

        Raises:
            click.UsageError: If a word is too many, or no run is named.
            AlpsError: If a setting can't be read, or a run is not there.
        """
        if self.record and "=" in given["record"]:
            words, given["record"] = (given["record"], *words), ""
        if self.raw:
            return {**given, "words": words}
        if self.run or self.runs or self.own_task:
            words = allow_typed(words)
        named: list[str] = []
        if self.runs or self.folders:
            from alps.settings import part_words

            named, others = part_words(words)
            words = tuple(others)
        if self.settings is not None:
            from alps.settings import parse_words

            given["settings"] = parse_words(words, load(self.settings))
        elif words:
            raise click.UsageError(
                f"'{words[0]}': unexpected; allowed here: {self.shown.strip('[]')}"
            )
        if self.folders:
            given["folders"] = named
        return given | self._found(named, given)

    def _found(self, named: list[str], given: dict[str, Any]) -> dict[str, Any]:
        if not (self.run or self.runs):
            return {}
        from alps.run.opened import find_run

        if self.run:
            return {"run": find_run(given["run"])}
        found = [find_run(word) for word in named]
        if not found:
            raise click.UsageError("name at least one run")
        return {"runs": found}

    def parameters(self) -> tuple[list[click.Parameter], list[click.Parameter]]:
        """Return the parameters that come before those of the function, and the one behind."""
        first: list[click.Parameter] = []
        if self.run:
            first.append(click.Argument(["run"], metavar="RUN", shell_complete=on_tab(runs=True)))
        if self.record:
            first.append(click.Argument(["record"], metavar="[ID]", default=""))
        if not self.shown:
            return first, []
        words = Words(
            ["words"],
            settings=self.settings,
            own_task=self.own_task,
            nargs=-1,
            required=(self.runs or self.folders) and not self.none,
            metavar=self.shown,
            shell_complete=on_tab(runs=self.runs, folders=self.folders),
        )
        return first, [words]


def command(
    shown: str = "",
    settings: str | None = None,
    *,
    name: str | None = None,
    group: click.Group | None = None,
    quick: bool = False,
    **words: bool,
) -> Callable[[Callable[..., Any]], Explained]:
    """Declare a command, whose help is the docstring and its settings; it is called with them.

    Args:
        shown: Its words, as help shows them; empty where it takes none.
        settings: The class of its settings, `module:Class`, imported when it is needed. It is
            called with `settings`, one of these.
        name: What it is called, if not as the function.
        group: Of which it is one.
        quick: Whether nothing is shown while libraries are loaded, which takes seconds.
        words: What else it takes, see `_Takes`.
    """
    takes = _Takes(shown, settings, **words)

    def declare(carry_out: Callable[..., Any]) -> Explained:
        @functools.wraps(carry_out)
        def called(**given: Any) -> None:
            with nullcontext() if quick else status("loading"):
                carry_out(**takes.arguments(**given))

        first, last = takes.parameters()
        own = getattr(carry_out, "__click_params__", [])
        # Click takes the parameters from the last one on.
        vars(called)["__click_params__"] = [*last, *own, *reversed(first)]
        made = click.command(name, cls=Explained)(called)
        if group is not None:
            group.add_command(made)
        return made

    return declare


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
        raise BudgetError("the budget is spent; to resume, repeat the command with a larger budget")


def show_finished(carry_out: Callable[[], Any]) -> None:
    """Carry out a run and show its tables; raise what ended it early."""
    began = time.monotonic()
    finished = carry_out()
    # After it: what can't be started needs no tables.
    from alps.show.short_form import show_run

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
    click.echo(f"The previous run is kept in {former} until the next run with fresh=yes{compare}.")


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
    from alps.run.start import run as carry_out
    from alps.settings import RunSettings, parse_words

    words = _with_task(words)
    if own := sole((one for one in extensions() if one.takes_words(words)), "alps run"):
        load(own.run_words)(words)
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

    bare = [word for word in words[:2] if "=" not in word and word not in RunSettings.model_fields]
    if not bare or bare[0] != words[0] or any(word.startswith("task=") for word in words):
        return words
    if len(bare) > 1:
        raise click.UsageError(f"'{bare[1]}': expected key=value, such as model={bare[1]}")
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
    from alps.run.summary import Finished

    typed = typed_settings(settings)
    own = sole((one for one in extensions() if one.rescores(typed)), "alps score")
    tell(f"{run}: judging its answers, loading", announced=True)
    given = (run, typed)
    show_finished(lambda: made(own.rescore, Finished, *given) if own else score_again(*given))


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
