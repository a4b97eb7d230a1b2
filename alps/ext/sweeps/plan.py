"""Plans of sweeps: a TOML file becomes the settings of many runs, and each of its faults a line."""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from alps.errors import AlpsError, DataError, UsageError
from alps.ext.sweeps import models_in
from alps.keys import FrozenSettings
from alps.settings import RunSettings, parse_settings, parse_words, unlike_any
from alps.slips import read_toml

_CAPS = ("max_cost", "max_total_tokens")
_OF_ALL = ("out", *_CAPS)
_NEVER = {
    "config": "to reuse another plan, use extends=",
    "dry_run": "alps always checks a plan before the first request",
    **dict.fromkeys(("engine", "workers", "scheduler"), "a sweep runs in one process"),
    **dict.fromkeys(
        ("audit", "audit_judge", "audit_judge_api_base", "audit_labels"),
        "audit a finished run: alps score RUN audit_judge=… audit=10%",
    ),
}


_TABLES = ("matrix", "exclude", "extends")


class SweepSettings(FrozenSettings):
    """Settings of `alps sweep`."""

    only: Literal["all", "failed"] = Field(
        "all", description="failed: only runs that failed or lost records"
    )
    fresh: bool = Field(
        False, description="yes: answer all runs again in their folders; previous runs are kept"
    )
    max_cost: float | None = Field(None, ge=0, description="US dollars for all runs together")
    max_total_tokens: int | None = Field(
        None, ge=0, description="prompt and completion tokens of all runs together"
    )


class PlanError(UsageError):
    """A plan with faults; each of them is one line."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        count = len(self.faults)
        super().__init__(faults[0] if count == 1 else f"{count} errors; no request was sent")


@dataclass(frozen=True)
class SweepCell:
    """One run of a sweep: the system and the task as tables name them, and its settings."""

    system: str
    task: str
    settings: RunSettings

    def __str__(self) -> str:
        return f"{self.task} {self.system}"


@dataclass(frozen=True)
class SweepPlan:
    """The runs of a sweep, and what all of them together may spend.

    Attributes:
        name: What a fault of it is told by; empty where words of the command line made it.
        out: The folder that the run folders come into; None for `runs`.
    """

    name: str
    cells: tuple[SweepCell, ...]
    out: Path | None = None
    max_cost: float | None = None
    max_total_tokens: int | None = None

    def answered_again(self) -> "SweepPlan":
        """Return the plan of which every run is answered again in its folder."""
        cells = []
        for cell in self.cells:
            settings = cell.settings.model_copy(update={"fresh": True})
            cells.append(replace(cell, settings=settings))
        return replace(self, cells=tuple(cells))


def plan_of_words(words: Sequence[str]) -> SweepPlan:
    """Return the runs of `model=a,b,c` among the words of `alps run`.

    Raises:
        UsageError: If a word can't be read.
    """
    others = [word for word in words if not word.startswith("model=")]
    models = models_in(words)
    parsed = [parse_words([*others, f"model={model}"], RunSettings) for model in models]
    cells = []
    own = [(settings, frozenset(settings.model_fields_set)) for settings in parsed]
    for model, settings in zip(models, _without_idle(own), strict=True):
        given = settings.model_fields_set - {"config"}  # its values are words like others
        if refused := [name for name in _NEVER if name in given]:
            raise UsageError(f"{refused[0]}=: not allowed with several models; name one in model=")
        cells.append(SweepCell(model, settings.task, _less(settings, _OF_ALL)))
    first = parsed[0]
    out = None if first.out is None else Path(first.out)
    return SweepPlan("", tuple(cells), out, first.max_cost, first.max_total_tokens)


def _less(settings: RunSettings, names: Container[str]) -> RunSettings:
    """Return settings without some of those that were given."""
    given = (name for name in settings.model_fields_set if name not in names)
    return parse_settings({name: getattr(settings, name) for name in given}, RunSettings)


def _without_idle(runs: Sequence[tuple[RunSettings, frozenset[str]]]) -> Iterator[RunSettings]:
    """Yield the settings of runs, each given with the names of those that are said of all runs.

    What is said of all and changes nothing in this one is left out: an address of the judge, where
    no LLM judges. What changes nothing in any run stays, and is refused as in a run by itself.
    """
    idle = [_idle(settings) & common for settings, common in runs]
    for (settings, _), own in zip(runs, idle, strict=True):
        yield _less(settings, own - frozenset.intersection(*idle))


def _idle(settings: RunSettings) -> frozenset[str]:
    """Return the settings of a model, or of a judge, that no model or no judge is sent."""
    from alps.judges.embedded import is_embedded_judge
    from alps.run.parts import parts_of
    from alps.run.session import OF_THE_JUDGE, OF_THE_MODEL, is_unchecked_in_vain, run_folder
    from alps.systems import is_local
    from alps.tasks import load_tracks

    names: tuple[str, ...] = ()
    try:
        parts = parts_of(settings, run_folder(settings))
        if is_local(settings.model, load_tracks(settings.task)):
            names += OF_THE_MODEL
    except AlpsError:  # of an unknown task, which is told where the run is set up
        return frozenset()
    if is_embedded_judge(settings.judge):
        names += OF_THE_JUDGE
        names += ("judge_check",) if is_unchecked_in_vain(settings, parts) else ()
    return frozenset(filter(settings.is_given, names))


def read_plan(path: Path) -> SweepPlan:
    """Read a plan, and check each run of it as far as settings alone can tell.

    Raises:
        PlanError: With a line for every fault, which names the file and the key.
    """
    faults: list[str] = []
    tables = _read(path, faults, ())
    if faults:
        raise PlanError(faults)
    drafts = list(_drafts(path, tables, faults))
    cells = _cells(path, drafts, faults)
    if not drafts and not faults:
        faults.append(f"{path}: no run is left; name models and tasks in [matrix]")
    whole = {name: tables.common[name] for name in _OF_ALL if name in tables.common}
    try:
        # By the types of a run's own settings; `task` and `model` are there because a run needs
        # both.
        caps = parse_settings({"task": "all", "model": "rules", **whole}, RunSettings)
    except UsageError as error:
        raise PlanError([*faults, f"{path}: {error}"]) from error
    if faults:
        raise PlanError(faults)
    out = None if caps.out is None else Path(caps.out)
    return SweepPlan(str(path), tuple(cells), out, caps.max_cost, caps.max_total_tokens)


@dataclass(frozen=True)
class _Tables:
    """The tables of a plan: what all runs share, axes, models and tasks by name, exclusions."""

    common: dict[str, Any] = field(default_factory=dict)
    matrix: dict[str, list[Any]] = field(default_factory=dict)
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    excluded: tuple[dict[str, Any], ...] = ()

    def over(self, base: "_Tables") -> "_Tables":
        """Return these tables with what only `base` has."""
        return _Tables(
            {**base.common, **self.common},
            {**base.matrix, **self.matrix},
            _over(self.models, base.models),
            _over(self.tasks, base.tasks),
            (*base.excluded, *self.excluded),
        )


def _over(
    own: Mapping[str, dict[str, Any]], base: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    names = dict.fromkeys([*base, *own])
    return {name: {**base.get(name, {}), **own.get(name, {})} for name in names}


def _read(path: Path, faults: list[str], above: tuple[Path, ...]) -> _Tables:
    """Read a plan and those that it extends; what can't be read is told in `faults`."""
    try:
        values = read_toml(path.expanduser())
    except OSError as error:
        faults.append(f"{path}: {error.strerror or 'unreadable'}")
        return _Tables()
    except DataError as error:
        faults.append(str(error))
        return _Tables()
    extends = values.pop("extends", None)
    base = _Tables() if extends is None else _read_base(path, extends, faults, above)
    return _parted(path, values, faults).over(base)


def _read_base(path: Path, extends: object, faults: list[str], above: tuple[Path, ...]) -> _Tables:
    """Read the plan that another extends."""
    if not isinstance(extends, str):
        faults.append(f"{path}, extends: must be the path of another plan")
        return _Tables()
    # Two plans that extend each other would be read without end.
    if path.resolve() in above:
        faults.append(f"{path}, extends: a plan can't extend itself")
        return _Tables()
    read: list[str] = []
    base = _read(path.parent / extends, read, (*above, path.resolve()))
    missing = not (path.parent / extends).expanduser().exists()
    faults += (f"{path}, extends: {fault}" if missing else fault for fault in read)
    return base


def _parted(path: Path, values: dict[str, Any], faults: list[str]) -> _Tables:
    """Part the keys of one file, and refuse those that mean nothing there."""
    matrix, excluded = values.pop("matrix", {}), _tables_of(path, "exclude", values, faults)
    if not isinstance(matrix, dict):
        faults.append(f"{path}, matrix: must be a table, [matrix]")
        matrix = {}
    own = {}
    for axis in ("model", "task"):
        # A string is a setting of all runs.
        listed = isinstance(values.get(axis), list | dict)
        own[axis] = _by_name(path, axis, values, faults) if listed else {}
    for place, one in enumerate(excluded, start=1):
        faults += _unknown(path, f"exclude[{place}].", one, never=(*_NEVER, *_OF_ALL))
    faults += _unknown(path, "", values, never=tuple(_NEVER), beside=_TABLES)
    faults += _unknown(path, "matrix.", matrix, never=(*_NEVER, *_OF_ALL))
    axes = {}
    for key, value in matrix.items():
        axes[key] = value if isinstance(value, list) else [value]
        if not axes[key] or any(isinstance(one, list | dict) for one in axes[key]):
            faults.append(f"{path}, matrix.{key}: must be one or more values, without nested lists")
        elif twice := [one for place, one in enumerate(axes[key]) if one in axes[key][:place]]:
            faults.append(f"{path}, matrix.{key}: {twice[0]} appears twice")
    return _Tables(values, axes, own["model"], own["task"], tuple(excluded))


def _tables_of(
    path: Path, name: str, values: dict[str, Any], faults: list[str]
) -> list[dict[str, Any]]:
    tables = values.pop(name, [])
    if isinstance(tables, list) and all(isinstance(one, dict) for one in tables):
        return tables
    faults.append(f"{path}, {name}: must be tables, [[{name}]]")
    return []


def _by_name(
    path: Path, axis: str, values: dict[str, Any], faults: list[str]
) -> dict[str, dict[str, Any]]:
    """Return what [[model]] or [[task]] says of each one by its name."""
    by_name: dict[str, dict[str, Any]] = {}
    for place, one in enumerate(_tables_of(path, axis, values, faults), start=1):
        own = dict(one)
        name = own.pop("name", None)
        if not isinstance(name, str) or not name:
            faults.append(
                f"{path}, {axis}[{place}].name: missing; name the {axis} that this table describes"
            )
            continue
        if name in by_name:
            faults.append(f'{path}, {axis}[{place}].name: "{name}" appears twice')
        by_name[name] = own
        faults += _unknown(path, f'{axis} "{name}".', own, never=(*_NEVER, *_OF_ALL, axis))
    return by_name


def _unknown(
    path: Path,
    table: str,
    keys: Mapping[str, Any],
    *,
    never: Sequence[str],
    beside: Sequence[str] = (),
) -> Iterator[str]:
    for key in keys:
        if key not in RunSettings.model_fields:
            instead = unlike_any(key, RunSettings, beside=beside)
            yield f"{path}, {table}{key}: unknown key{instead}"
        elif key in never:
            why = _NEVER.get(
                key, "this setting applies to all runs together: put it above the tables"
            )
            yield f"{path}, {table}{key}: not allowed here; {why}"


@dataclass(frozen=True)
class _Draft:
    """What a plan says of one run.

    Attributes:
        system: How tables name what is run.
        task: How tables name the task.
        values: Its settings as they are typed.
        common: Those of them that are said of all runs.
    """

    system: str
    task: str
    values: dict[str, Any]
    common: frozenset[str]

    @property
    def name(self) -> str:
        """How faults name it."""
        return f"{self.task} {self.system}".strip()


def _drafts(path: Path, tables: _Tables, faults: list[str]) -> Iterator[_Draft]:
    """Yield the runs that are left of the matrix, model by model."""
    shared = {name: value for name, value in tables.common.items() if name not in _OF_ALL}
    single = [shared.pop("model")] if "model" in shared else []
    names = dict.fromkeys([*tables.matrix.get("model", single), *tables.models])
    used: set[int] = set()
    idle = dict(tables.tasks)
    for model in names:
        own, axes = dict(tables.models.get(model, {})), {**tables.matrix, "model": [model]}
        for key in [key for key in own if key in tables.matrix]:
            part = own.pop(key)  # the model has a part of the axis alone
            axes[key] = part if isinstance(part, list) else [part]
        for chosen in product(*axes.values()):
            values = {**dict(zip(axes, chosen, strict=True)), **own}
            task = str(values.get("task", shared.get("task", "")))
            values = {**shared, **tables.tasks.get(task, {}), **values}
            idle.pop(task, None)
            left_out = _excluding(tables.excluded, values)
            used.update(left_out)
            if not left_out:
                words = [str(model), *_varying(tables.matrix, values)]
                particular = {*tables.tasks.get(task, ()), *axes, *own}
                yield _Draft(" ".join(words), task, values, frozenset(shared.keys() - particular))
    # A table that no run uses is most often a name that was mistyped.
    faults += (f'{path}, task "{name}": no run of the matrix has this task' for name in idle)
    for place, _ in enumerate(tables.excluded):
        if place not in used:
            faults.append(f"{path}, exclude[{place + 1}]: no run of the matrix matches it")


def _excluding(excluded: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> list[int]:
    """Return the exclusions that a run is like in every key they name."""
    places = []
    for place, one in enumerate(excluded):
        named = ((key, value if isinstance(value, list) else [value]) for key, value in one.items())
        if all(values.get(key) in listed for key, listed in named):
            places.append(place)
    return places


def _varying(matrix: Mapping[str, Sequence[Any]], values: Mapping[str, Any]) -> list[str]:
    """Say in what the runs of one model and task differ."""
    shown = []
    for key, listed in matrix.items():
        if key not in ("model", "task") and len(listed) > 1:
            shown.append(f"{key}={values[key]}")
    return shown


def _cells(path: Path, drafts: Sequence[_Draft], faults: list[str]) -> list[SweepCell]:
    """Check the settings of every run; a fault that many of them have is told once."""
    cells: list[SweepCell] = []
    told: dict[str, list[str]] = {}
    twins: dict[str, str] = {}
    parsed: list[tuple[_Draft, RunSettings]] = []
    for draft in drafts:
        try:
            parsed.append((draft, parse_settings(draft.values, RunSettings)))
        except UsageError as error:
            told.setdefault(str(error), []).append(draft.name)
    runs = [(settings, draft.common) for draft, settings in parsed]
    for (draft, _), settings in zip(parsed, _without_idle(runs), strict=True):
        name = draft.name
        # The folder is named after the same: twins would write into one.
        measured = json.dumps(settings.experiment(), sort_keys=True, default=str)
        if measured in twins:
            faults.append(f"{path}, matrix: {name} and {twins[measured]} are the same run")
        twins[measured] = name
        cells.append(SweepCell(draft.system, draft.task, settings))
    faults += told_once(path, told)
    return cells


def told_once(path: Path | str, told: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield each fault with the run that has it, and how many others do."""
    for fault, names in told.items():
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        where = f"{path}, " if path else ""
        yield f"{where}{names[0]}{others}: {fault}"
