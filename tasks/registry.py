"""The tasks by name, each imported when it is asked for; `python:MODULE` is a user's own."""

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from traceback import extract_tb
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from alps.errors import AlpsError, CodeNotImportedError, UsageError, closest, one_line, text_of
from alps.extension import brought, brought_tasks, load
from alps.llm.types import AnswerType
from alps.prompts import Prompt
from alps.tasks.base import DEFAULTS, OF_MEMORY, PARTS_OF_TASK, Scored, Task, TaskOptions
from alps.tasks.metrics import PARTS_OF_METRIC, Metric, metric_row, read_metric

_KEYS: Mapping[str, tuple[str, ...]] = {
    "extraction": ("prompt", "extras"),
    "update": (),
    "retrieval": ("distractors",),
    "utilization": ("ability", *OF_MEMORY),
    "personamem": ("size", *OF_MEMORY, "persona", "answer", "orders", "parser"),
    "forgetting": ("memory",),
}
# A task that has a folder to itself can be deleted with it.
KEYS = {name: keys for name, keys in _KEYS.items() if find_spec(f"alps.tasks.{name}")}
"""The keys of a run that mean something to each task, and not to every task.

They are read without importing the task. A memory system has keys besides these.
"""
TASKS = tuple(KEYS)
"""The tasks of the package, which `all` means; extensions bring others."""
ALL = "all"
PYTHON = "python:"
# Functions of a task that have no error of their own; `read_sample`, `answer.read` and `fits` have
# ValueErrors.
_CALLED = ("messages", "input_row", "has_gold", "score", "groups", "to_prediction", "likely")
# The `python:MODULE` names that the user typed in this process: the only modules that may be
# imported. What a manifest or a card names is a stranger's word, and looking at a file must not run
# what it names.
_typed: set[str] = set()


def keys_by_task() -> Mapping[str, tuple[str, ...]]:
    """Return the keys that mean something to each task and not to every one: of extensions, too."""
    return {**KEYS, **{name: one.task_keys for name, one in brought_tasks().items()}}


def allow_modules(names: str) -> None:
    """Allow the modules in `names`, which the user alone may have typed, to be imported."""
    _typed.update(name for name in names.split(",") if name.startswith(PYTHON))


def not_importable(names: str) -> tuple[str, ...]:
    """Return the `python:MODULE` names in `names` whose code must not be imported."""
    own = (name for name in names.split(",") if name.startswith(PYTHON))
    return tuple(name for name in own if name not in _typed)


def load_task(name: str, options: TaskOptions = DEFAULTS) -> Task:
    """Return the task called `name`; of several tracks, the first.

    Raises:
        UsageError: If there is none.
    """
    return load_tracks(name, options)[0]


def load_tracks(names: str, options: TaskOptions = DEFAULTS) -> tuple[Task, ...]:
    """Return the tracks of the tasks that `names` lists: one, several with commas, or `all`.

    Raises:
        UsageError: If there is none by a name, or an option does not fit.
    """
    wanted = TASKS if names == ALL else tuple(dict.fromkeys(names.split(",")))
    if ALL in wanted:
        raise UsageError(f"task={names}: '{ALL}' means every task; name no other task")
    found = tuple(track for name in wanted for track in _tracks_of(name, options))
    if options.scoring == "alps":
        return found
    if options.scoring not in brought("scorings"):
        raise UsageError(f"scoring={options.scoring}: no installed extension provides it")
    where = brought("scorings")[options.scoring]
    return _made(f"scoring={options.scoring}", f"the extension's {where}", load(where), found)


@cache
def all_tracks() -> Mapping[str, Task]:
    """Return every track of the package's tasks by its name: of every size, too."""
    return {task.track: task for task in load_tracks(ALL, TaskOptions(distractors=ALL))}


@cache
def board_tracks() -> Mapping[str, Task]:
    """Return every track that has boards by its name: those of extensions, too."""
    found = dict(all_tracks())
    for name in brought_tasks():
        # A stranger's task that can't be made has no board, and takes none from ours.
        with suppress(Exception):
            for task in _every_track(name):
                found.setdefault(task.track, task)
    return found


def board_tasks() -> tuple[str, ...]:
    """Return the tasks that have boards: those of the package first."""
    return (*TASKS, *brought_tasks())


def known_track(name: str) -> Task | None:
    """Return the track of a task of the package; None where no task of it has one of this name."""
    # Tasks that this run imported come first: a table of one task imports no other.
    for task in sorted(TASKS, key=lambda task: f"alps.tasks.{task}" not in sys.modules):
        for track in _every_track(task):
            if track.track == name:
                return track
    return None


@cache
def _every_track(task: str) -> tuple[Task, ...]:
    return load_tracks(task, TaskOptions(distractors=ALL))


@cache
def systems_by_task() -> Mapping[str, tuple[str, ...]]:
    """Return the names of the systems without a model, by the task of the package they answer."""
    return {name: tuple(load_task(name).systems) for name in TASKS}


def track_title(track: str, size: str | None = None) -> str:
    """Return the name of a track as people read and type it, the one place that makes it.

    That is `extraction`, `retrieval@100`, `PersonaMem 32k`, of data that have a size; a track of
    the user's own has the name that it has in files.
    """
    known = known_track(track)
    return track if known is None else f"{known.title} {size or ''}".rstrip()


def track_named(word: str, tracks: Collection[str]) -> str | None:
    """Return the one of `tracks` that `word` names: by its title, as its task alone, or in files.

    Letters' case, spaces, `-` and `_` are alike. None where it names none, or several.
    """
    if word in tracks:
        return word
    wanted, known = _plain(word), all_tracks()
    for track in tracks:
        if track in known and wanted == _plain(known[track].title):
            return track
    of_task = [track for track in tracks if track in known and wanted == _plain(known[track].name)]
    return of_task[0] if len(of_task) == 1 else None


def with_choices(task: str) -> dict[str, str]:
    """Return `task=` as the keys say it: `retrieval@300` is retrieval with `distractors=300`.

    Raises:
        UsageError: If names choose different tracks of one task.
    """
    names, chosen = list[str](), dict[str, str]()
    for word in task.split(","):
        track = None
        if word not in (*TASKS, ALL) and not word.startswith(PYTHON):
            track = track_named(word, all_tracks())
        one = None if track is None else all_tracks()[track]
        if one is not None:
            for key, value in one.selects.items():
                if chosen.setdefault(key, value) != value or one.name in names:
                    several = f"names several tasks of {one.name}; name one, or give {key}={ALL}"
                    raise UsageError(f"task={task}: {several}")
        names.append(word if one is None else one.name)
    return {"task": ",".join(names), **chosen}


def _plain(name: str) -> str:
    return re.sub(r"[ _-]+", "-", name.strip().lower())


def _tracks_of(name: str, options: TaskOptions) -> tuple[Task, ...]:
    """Return the tracks of one task; those of a user's module are checked beforehand."""
    if name in TASKS:
        tracks = import_module(f"alps.tasks.{name}").tracks(options)
        return tuple(replace(task, options=(*KEYS[name], *task.options)) for task in tracks)
    brings = brought_tasks().get(name)
    if brings is None:
        made = _made(f"task={name}", _MAKES, _own_module(name).tracks, options)
        return tuple(_in_one_line(task, name) for task in made)
    where = brings.tasks[name]
    tracks = _made(f"task={name}", f"the extension's {where}", load(where), options)
    if not where.startswith("alps."):
        tracks = tuple(_in_one_line(task, f"{name} (extension {brings.name})") for task in tracks)
    return tuple(replace(task, options=(*brings.task_keys, *task.options)) for task in tracks)


def _made(setting: str, what: str, make: Callable[[Any], Any], given: object) -> tuple[Task, ...]:
    try:
        tracks = tuple(make(given))
    except AlpsError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{setting}: {what} raised {_described(error)}") from error
    if (fault := _fault_of(tracks)) is not None:
        raise UsageError(f"{setting}: {fault.replace(_MAKES, what)}")
    return tracks


_UNKNOWN_KEYWORD = re.compile(r"(Metric|Task|Scored)\.__init__\(\) got an unexpected .* '(\w+)'")
_PARTS = {
    "Metric": PARTS_OF_METRIC,
    "Task": PARTS_OF_TASK,
    "Scored": {"groups": "groups=… of Task"},
}


_MAKES = "tracks(options)"


def _fault_of(tracks: Sequence[Any]) -> str | None:
    """Return what is wrong with the tracks of a user's module, if anything is."""
    if not tracks or not all(isinstance(task, Task) for task in tracks):
        return f"{_MAKES} must return one or more alps.tasks.Task objects"
    for task in tracks:
        if not task.metrics:
            return f"track {task.track} has no metrics; give it at least one Metric"
        names = [getattr(metric, "name", None) for metric in task.metrics]
        if not all(isinstance(name, str) for name in (task.name, task.track, *names)):
            return f"track {task.track}: a name is no text, or a metric no alps.tasks.Metric"
        if len(set(names)) < len(names):
            return f"track {task.track}: two metrics have the same name; give each its own"
    # Journals and summaries know a track by its name: of two alike one would overwrite the other.
    if len({task.track for task in tracks}) < len(tracks):
        return "two of its tasks have the same track; give each task its own track"
    return None


def _in_one_line(task: Task, name: str) -> Task:
    """Return a user's task whose errors are UsageErrors that name its function and the line."""

    @contextmanager
    def calling(function: str) -> Iterator[None]:
        try:
            yield
        except AlpsError:
            raise
        except Exception as error:
            frame = extract_tb(error.__traceback__)[-1]
            where = f"{Path(frame.filename).name}, line {frame.lineno}"
            what = f"its {function} raised {_described(error)} ({where})"
            raise UsageError(f"task={name}: {what}") from error

    def guarded(function: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def guard(*words: Any) -> Any:
            with calling(function):
                return call(*words)

        return guard

    async def judge(*words: Any) -> Any:
        with calling("judge"):
            verdict = await task.judge(*words)
        if isinstance(verdict, Mapping) and "outcome" in verdict:
            return verdict
        raise UsageError(f"task={name}: its judge returned {verdict!r:.60}, which has no outcome")

    def read_sample(*words: Any) -> Any:
        made = task.read_sample(*words)
        for sample in made if isinstance(made, list) else (made,):
            for field in ("benchmark_id", "session_id"):
                if not hasattr(sample, field):
                    raise UsageError(f"task={name}: a sample of its lacks {field}: {sample!r:.60}")
        return made

    given = {one: getattr(task, one) for one in _CALLED}
    calls: dict[str, Any] = {one: call and guarded(one, call) for one, call in given.items()}

    def score(*words: Any) -> Scored:
        scored = calls["score"](*words)
        if (fault := _fault_of_score(task, scored)) is not None:
            raise UsageError(f"task={name}: its score returned {fault}")
        return cast(Scored, scored)

    parts = guarded("record_parts", task.shown.record_parts)
    shown = replace(task.shown, record_parts=parts)
    return replace(
        task,
        **{**calls, "judge": judge, "score": score, "shown": shown, "read_sample": read_sample},
    )


def _fault_of_score(task: Task, scored: object) -> str | None:
    """Return what of a user's score can't be kept; a misspelt metric would be left out."""
    if not (isinstance(scored, Scored) and isinstance(scored.scores, Mapping)):
        return f"{type(scored).__name__}, expected alps.tasks.Scored with scores by metric"
    for name, value in {**scored.scores, **scored.counts}.items():
        if not (isinstance(value, int | float) and isfinite(value)):
            return f"{value!r} for '{name}', expected a finite number"
    known = {metric.name for metric in task.metrics}
    for name in scored.scores.keys() - known:
        # What else a score counts is left out; what is nearly a metric's name was meant for it.
        if meant := get_close_matches(name, known - scored.scores.keys(), n=1, cutoff=0.8):
            return f"a value of '{name}', which is no metric — did you mean '{meant[0]}'?"
    return None


def _described(error: BaseException) -> str:
    """Return an exception on one line, with how a keyword of before is written now."""
    message = text_of(error)
    called = _UNKNOWN_KEYWORD.search(message)
    if called is not None and called[2] in _PARTS[called[1]]:
        message += f"; write {_PARTS[called[1]][called[2]]}"
    return one_line(message)


def _own_module(name: str) -> ModuleType:
    if not name.startswith(PYTHON):
        names = (*TASKS, *brought_tasks(), ALL)
        known = ", ".join((*names, f"{PYTHON}MODULE"))
        raise UsageError(f"task={name}: unknown task{closest(name, names)} (known: {known})")
    if not_importable(name):
        raise CodeNotImportedError(name)
    from alps.own_code import import_own

    try:
        module = import_own(name.removeprefix(PYTHON))
        made = getattr(module, "tracks", None)
    except (Exception, SystemExit) as error:  # whatever it raises, it is the user's to mend
        raise UsageError(f"task={name}: importing it raised {_described(error)}") from error
    if not callable(made):
        raise UsageError(f"task={name}: {name.removeprefix(PYTHON)} has no function {_MAKES}")
    return module


RECORDED = "shown_by"
"""The key of a track's summary that holds what its task is shown by."""

NO_PROMPT = Prompt("none/0", "", "")
_NAME = re.compile(r"[\w.@/-]{1,80}\Z")
_LONGEST_TITLE = 80
_CONDITIONS = TypeAdapter(dict[str, str | int | float | bool | None])


def recorded(task: Task) -> dict[str, Any]:
    """Return what a summary records of a task of the user's own, as plain JSON."""
    metrics = [metric_row(metric) for metric in task.metrics]
    return {"metrics": metrics, "conditions": dict(task.conditions)}


def stand_in(names: str, track: str, summary: Mapping[str, Any] | None) -> Task:
    """Return a task that shows a run and can do nothing else.

    Where `summary` records nothing of the task, as in older runs and those that are not finished,
    the metrics are named after the scores.

    Args:
        names: The `python:MODULE` names of the run's manifest that must not be imported.
        track: The track.
        summary: What `summary.json` says of the track; None where the run is not finished.
    """

    def refuse(*_: object, **__: object) -> NoReturn:
        raise CodeNotImportedError(names)

    # A file's word: a name that would steer a terminal, or pass for a task of ours, is none.
    found = summary or {}
    name = found.get("task")
    return Task(
        name=name if isinstance(name, str) and _NAME.match(name) and name not in TASKS else names,
        track=track,
        prompt=NO_PROMPT,
        answer=AnswerType(schema=BaseModel, read=refuse, partial=False),
        read_sample=refuse,
        messages=refuse,
        input_row=refuse,
        to_prediction=refuse,
        has_gold=refuse,
        judge=refuse,
        score=refuse,
        metrics=_metrics(found),
        conditions=_conditions(found),
    )


def reading_ids(task: Task) -> Task:
    """Return a task that reads the ids of a row, where `task` is a stand-in; else `task`."""
    if task.prompt is not NO_PROMPT:
        return task

    def read(row: Mapping[str, Any], _: object) -> SimpleNamespace:
        return SimpleNamespace(benchmark_id=row["benchmark_id"], session_id=row["session_id"])

    return replace(task, read_sample=read)


def _metrics(summary: Mapping[str, Any]) -> tuple[Metric, ...]:
    scores = summary.get("scores")
    # Older runs, and those that are not finished, record none: the names of scores are left.
    names = [name for name in scores if _NAME.match(name)] if isinstance(scores, dict) else []
    try:
        metrics = [read_metric(row) for row in summary[RECORDED]["metrics"]]
    except (LookupError, TypeError, AttributeError, ValidationError):
        metrics = []
    # Texts of a file that is not ours, printed in a terminal.
    shown = {}
    for metric in metrics:
        if metric.name in names:
            needs = replace(metric.needs, question="")
            shown[metric.name] = replace(metric, title=_titled(metric), needs=needs)
    for name in names:
        shown.setdefault(name, Metric(name, name))
    return tuple(shown.values()) or (Metric("score", "score", headline=True),)


def _titled(metric: Metric) -> str:
    """Return the title of a metric, or else its name, without what would steer a terminal."""
    printable = "".join(character for character in metric.title if character.isprintable())
    return printable[:_LONGEST_TITLE] or metric.name


def _conditions(summary: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return _CONDITIONS.validate_python(summary[RECORDED]["conditions"])
    except (LookupError, TypeError, ValidationError):
        return {}
