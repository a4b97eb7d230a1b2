"""Runs in a folder: what each one measured, what it found, and whether it is finished."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from alps.errors import AlpsError, RunFolderError, UsageError
from alps.rows import Calls, Summary
from alps.run.opened import MANIFEST, CalibrationFolder, RunFolder, open_run
from alps.settings import RunSettings, as_typed, in_current_words
from alps.show.formatting import interval, judge_of, number, task_and_metric, task_title, visible
from alps.show.short_form import failures_of

_JOURNALS = ("predictions.jsonl", "verdicts.jsonl", "scores.jsonl")
_NAMED_AT_MOST = 10
_ROOMY = 78
_FIGURES = 36
"""How many columns the headline of a run may take."""
_CONDITIONS = {
    "distractors": "{} distractors",
    "ability": "ability {}",
    "memory": "memory {}",
    "max_context_tokens": "context {}",
    "k": "k {}",
    "persona": "persona {}",
    "prompt": "prompt {}",
    "scoring": "{}",
    "repeats": "{} repeats",
    "shard": "shard {}",
}
_MAKE_ONE = "alps run task=extraction model=rules data=samples"
_AGES = ((60, 1, ""), (3_600, 60, "min"), (86_400, 3_600, "h"), (14 * 86_400, 86_400, "d"))


def list_runs(root: Path, console: Console) -> None:
    """Print the runs in `root`, the newest first; folders that can't be read are named at the end.

    Raises:
        UsageError: If there is no such folder.
    """
    if not root.is_dir():
        if root != Path("runs"):
            raise UsageError(f"{root}: no such folder")
        console.print(Text(f"No runs yet: {root}/ does not exist. Start a run:\n  {_MAKE_ONE}"))
        return
    runs, unreadable, others = _examine(root)
    blocks = [Group(*_describe(run, console.width)) for run in runs]
    if not runs:
        blocks.append(Group(Text(f"No runs in {root}/. Start a run:\n  {_MAKE_ONE}")))
    lines = [Text(f"Unreadable: {visible(reason)}", style="red") for reason in unreadable]
    if others:
        names = ", ".join(map(visible, others[:_NAMED_AT_MOST]))
        rest = f" and {len(others) - _NAMED_AT_MOST} more" if len(others) > _NAMED_AT_MOST else ""
        lines.append(Text(f"Not runs: {names}{rest}", style="dim"))
    parts: list[RenderableType] = []
    for block in blocks:
        parts += [block, Text()] if runs else [block]
    parts = parts[:-1] if runs and not lines else parts
    console.print(Group(*parts, *lines), highlight=False)


def age(seconds: float) -> str:
    """Return how long ago something was, in at most eleven characters."""
    for below, unit, name in _AGES:
        if seconds < below:
            return f"{int(seconds // unit)} {name} ago" if name else "just now"
    days = seconds / 86_400
    if days < 70:
        return f"{int(days // 7)} weeks ago"
    return f"{int(days // 30.44)} months ago" if days < 730 else f"{int(days // 365.25)} years ago"


def _examine(root: Path) -> tuple[list[RunFolder], list[str], list[str]]:
    """Return the runs in `root` (newest first), why others can't be read, and what is no run."""
    runs: list[RunFolder] = []
    unreadable: list[str] = []
    others: list[str] = []
    folders = [root]
    if not (root / MANIFEST).exists():
        folders = sorted(path for path in root.iterdir() if path.is_dir())
    for folder in folders:
        if (folder / MANIFEST).exists():
            try:
                runs.append(_readable(folder))
            except CalibrationFolder:
                # Calibrations lie beside the runs that they correct, and have a manifest, too.
                others.append(f"{folder.name} (a calibration)")
            except RunFolderError as error:
                unreadable.append(str(error))
        elif any((folder / name).exists() for name in _JOURNALS):
            unreadable.append(f"{folder}: {MANIFEST} is missing")
        else:
            others.append(folder.name)
    runs.sort(key=lambda run: (-_changed(run.folder), run.name))
    return runs, unreadable, others


def _readable(folder: Path) -> RunFolder:
    """Open a run of which everything can be shown.

    Raises:
        Calibration: If it is one.
        RunFolderError: If a file of it can't be read.
    """
    try:
        run = open_run(folder)
        # Described once beforehand: a damaged folder is one line, and not the end of the list.
        list(_describe(run, 80))
    except CalibrationFolder:
        raise
    except (AlpsError, OSError) as error:
        named = str(error) if str(folder) in str(error) else f"{folder}: {error}"
        raise RunFolderError(named) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RunFolderError(f"{folder}: not a run of this alps version ({error!r})") from error
    return run


def _changed(folder: Path) -> float:
    """Return when anything in a run was last written."""
    # Not of the folder, whose time does not change when a journal grows.
    return max(path.stat().st_mtime for path in folder.iterdir() if path.is_file())


def _describe(run: RunFolder, width: int) -> Iterator[RenderableType]:
    """Say where a run is, what it measured and what it found, line by line.

    Its age stands where there is room.
    """
    name = Text(visible(str(run.folder)), style="bold", overflow="fold")
    about = [run.model, f"judged by {judge_of(run)}", f"on {run.data}"]
    about += _unusual(run.manifest.settings)
    if run.summary is not None and (failed := failures_of(run.summary)[0].total()):
        about.append(f"{failed:,} failed")
    who = Text(visible(f"  {' · '.join(about)}"), style="dim", overflow="fold")
    # A clock that was set back would make a run of the future.
    when = Text(age(max(0.0, time.time() - _changed(run.folder))), style="dim")
    roomy = name.cell_len + when.cell_len + 2 <= width
    yield _ending(name, when) if roomy else name
    yield who if roomy else _ending(who, when)
    yield _figures(run, narrow=width < _ROOMY)
    if run.summary is not None and len(run.summary.tracks) > 1:
        yield Padding(_each_track(run, run.summary), (0, 0, 0, 2))


def _unusual(settings: Mapping[str, Any]) -> Iterator[str]:
    """Name the conditions of a run that are not the default."""
    current = in_current_words(settings)
    for name, wording in _CONDITIONS.items():
        value = current.get(name)
        field = RunSettings.model_fields.get(name)
        if value is not None and (field is None or value != field.default):
            yield wording.format(as_typed(value))


def _ending(text: Text, end: Text) -> Table:
    """Lay `end` at the right of the first line of `text`."""
    grid = Table.grid(expand=True, padding=(0, 2))
    grid.add_column(ratio=1, overflow="fold")
    grid.add_column(no_wrap=True)
    grid.add_row(text, end)
    return grid


def _figures(run: RunFolder, *, narrow: bool) -> RenderableType:
    """Lay the figures of a run in one line, or two; all runs share the columns."""
    value, *others = _cells(run)
    if narrow:
        return Group(value, Text.assemble("  ", Text(" · ").join(others)))
    grid = Table.grid(padding=(0, 1))
    for width in (36, 21, 11):
        grid.add_column(min_width=width, no_wrap=True)
    grid.add_column(no_wrap=True, justify="right", min_width=9)
    grid.add_row(value, *others)
    return grid


def _cells(run: RunFolder) -> tuple[Text, ...]:
    """Return what a run found, on how many records, whether it is finished, and what it cost."""
    # A manifest without tracks, or cut off, is told of in the list, and does not end it.
    if not run.tasks or (run.summary is not None and not run.summary.tracks):
        raise ValueError("it has no task")
    if run.summary is None:
        done = sum(bool(row.get("scores")) for row in run.rows("scores").values())
        # Of a run that goes on nothing is summed up yet, and its journal is still growing.
        whole = "" if run.manifest.settings.get("shard") else f" of {run.total:,}"
        # What resuming counts is named first: answers that are not asked for again.
        answered = len(run.rows("predictions"))
        progress = Text(f"  {answered:,}{whole} answered, {done:,} scored")
        return progress, Text(""), Text("unfinished", style="yellow"), Text("–")
    tracks = run.summary.tracks
    if len(tracks) == 1:
        value = _headline(run, next(iter(tracks)))
    else:
        value = Text(f"  {', '.join(run.task_names)}")
        if len(value) > _FIGURES:
            value = Text(f"  {len(run.task_names)} tasks")
    counts = Text(f"n {sum(track.n for track in tracks.values()):,}")
    if unscored := sum(track.unscored for track in tracks.values()):
        counts.append(f", {unscored:,} unscored", style="yellow")
    ended = Text("stopped by budget" if run.summary.stopped_by_budget else "finished")
    return value, counts, ended, Text(_cost(run.summary.calls))


def _headline(run: RunFolder, track: str) -> Text:
    """Name the figure that stands for a track, with its task where there is room."""
    lead, found = run.lead(track), run.summary_of(track)
    score = found.scores[lead.name]
    figures = f"{number(score.value)} {interval(score)}"
    title = task_and_metric(track, found, lead)
    if len(f"  {title} {figures}") > _FIGURES:
        title = task_title(track, found)
    return Text.assemble(f"  {title} ", (figures, "bold"))


def _each_track(run: RunFolder, summary: Summary) -> str:
    """Return the headline of every task; they are never averaged."""
    shown = []
    for name, track in summary.tracks.items():
        value = track.scores[run.lead(name).name].value
        shown.append(f"{task_title(name, track)} {number(value)}")
    return " · ".join(shown)


def _cost(calls: Calls) -> str:
    """Return what the calls cost; `–` where that is not known."""
    if calls.cost is None:
        return "–"
    return f"${calls.cost:.4f}" if calls.http or calls.cached else "no calls"
