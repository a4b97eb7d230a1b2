"""A run resolved from its settings: system, judge, data and folder, checked at once.

The command and the Python API both come through `resolve`, so that the same settings are refused
for the same reasons wherever they were given.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from alps.data.hub import HubName, hub_name, label, open_hub
from alps.errors import UsageError
from alps.folders import kept_working_folder, slug
from alps.judges.embedded import is_embedded_judge
from alps.keys import AskSettings
from alps.llm.options import SAMPLING
from alps.llm.secrets import redact
from alps.run.fresh import Code, code_of, refuse_changed_code, task_code
from alps.run.opened import MANIFEST, read_manifest
from alps.run.parts import Parts, parts_of
from alps.run.services import check_names, say_once
from alps.run.source import RunData, open_data, options_of, refuse_changed, settings_of_run
from alps.settings import JudgeSettings, RunSettings, as_typed
from alps.systems import PROGRAM, is_local
from alps.tasks import Task, load_tracks
from alps.tasks.registry import PYTHON, allow_modules, keys_by_task

# Where the manifest keeps what `data=` said: the branch that it names may have moved on since.
DATA_ASKED = "data_asked"

OF_THE_MODEL = ("api_base", "prompt", "structured", *SAMPLING, "request", "requests_per_minute")
OF_THE_JUDGE = (
    *("judge_api_base", "judge_temperature", "judge_max_tokens", "judge_reasoning_effort"),
    *("judge_structured", "judge_request", "judge_repeats", "judge_requests_per_minute"),
)

SettingsT = TypeVar("SettingsT", bound=AskSettings)


@dataclass(frozen=True)
class RunSession:
    """A run that can begin: its settings as they take effect, its data, and where it is written.

    `code` has the hashes of the user's own code that answers or judges; `parts` are those of the
    extensions that have one in the run.
    """

    settings: RunSettings
    data: RunData
    folder: Path
    code: Code = field(default_factory=dict)
    parts: Parts = ()


def resolve(
    settings: RunSettings,
    *,
    dry: bool = False,
    opening: Callable[[RunSettings], RunData] = open_data,
) -> RunSession:
    """Resolve a run from its settings, and refuse what can't be carried out.

    Args:
        settings: What the user gave. The module of a task of their own may be imported from here
            on.
        dry: Whether nothing will be asked: keys and calibration are then not looked at, and litellm
            is not imported.
        opening: Finds the data; another way where somebody has just read the same.

    Raises:
        AlpsError: What is unknown, missing, not taken or without effect, in one line.
    """
    allow_modules(settings.task)
    folder, asked = run_folder(settings), settings.data
    parts = refusing_parts(settings, folder)
    # An unknown task is named before its options.
    settings = pin_data(settings, folder, load_tracks(settings.task, options_of(settings)))
    _refuse_of_another_task(settings)
    data = narrowed(replace(opening(settings), asked=asked), parts)
    check_shown(settings, data)
    if not dry:
        settings = effective_run(settings, data.tasks)
    code = code_of(dict(settings))
    if not settings.fresh:
        refuse_changed_code(folder, settings.recorded(), code)
    with kept_working_folder():
        check_names(settings, data, parts, generate=True, keys=not dry)
    return RunSession(settings, data.located(), folder, code, parts_of(settings, folder))


def refusing_parts(settings: RunSettings, folder: Path) -> Parts:
    """Open the parts of extensions in a run that is to begin; what can't be meant is refused."""
    parts = parts_of(settings, folder)
    refuse_without_effect(settings, parts)
    for part in parts:
        part.refuse()
    return parts


def resolve_again(
    source: Path, judging: dict[str, Any], *, dry: bool = False, baselines: bool = True
) -> tuple[RunSettings, RunData]:
    """Resolve the judging of a finished run by another judge.

    Args:
        source: The folder of the run.
        judging: The judge settings that were given; the others stay as they were.
        dry: Whether nothing will be asked; see `resolve`.
        baselines: Whether the trivial baselines are judged, too.

    Raises:
        AlpsError: If the folder is no run, its data changed, or the judge can't be used.
    """
    then = read_manifest(source)
    kept = {name: value for name, value in then.settings.items() if not _implied(name, value)}
    settings = settings_of_run(source, kept, **judging)
    parts = refusing_parts(settings, source)
    if not baselines:
        settings = settings.model_copy(update={"baseline_records": 0})
    data = open_data(settings)
    if not dry:
        refuse_changed(source, then, settings, data)
        settings = effective_judge(settings)
    check_names(settings, data, parts, generate=False, keys=not dry)
    return settings, narrowed(data.located(), parts)


def session_beside(
    source: Path, settings: RunSettings, data: RunData, predictions: str
) -> RunSession:
    """Return the run that judges the predictions of a finished one, in a folder of its own.

    Args:
        source: The folder of the finished run.
        settings: Those of the new one; see `resolve_again`.
        data: What was asked about.
        predictions: The sha256 of the predictions.

    Raises:
        UsageError: If `out=` is the folder of the finished run.
    """
    digested = digest({**settings.experiment(), "predictions": predictions})
    beside = source.with_name(f"{source.name}--{slug(settings.judge)}-{digested}")
    folder = Path(settings.out) if settings.out else beside
    if folder.resolve() == source.resolve():
        raise UsageError(f"out={folder}: a new judge needs a new folder; choose another out=")
    return RunSession(settings, data, folder, task_code(settings.task), parts_of(settings, folder))


def narrowed(data: RunData, parts: Parts) -> RunData:
    """Return the records that the parts of a run leave it."""
    for part in parts:
        data = part.narrow(data)
    return data


def _implied(name: str, value: object) -> bool:
    """Tell whether a setting of a run need not be given to judge its predictions again."""
    field = RunSettings.model_fields.get(name)
    default = field is not None and not field.is_required() and value == field.default
    return name.startswith("judge") or default


def refuse_without_effect(settings: AskSettings, parts: Parts = ()) -> None:
    """Refuse settings without effect: the user expects one.

    Args:
        settings: All of them.
        parts: Of extensions, which may use what the rest does not.

    Raises:
        UsageError: If there is such a setting, whether it was typed or is in a config file.
    """
    if isinstance(settings, RunSettings):
        _refuse_of_the_model(settings, parts)
    if is_embedded_judge(settings.judge):
        why = f"judge={settings.judge} is not a litellm model"
        if "judge" not in settings.model_fields_set:
            why = f"judge= is missing, so the judge is {settings.judge}"
        _refuse(settings, OF_THE_JUDGE, why)
        if isinstance(settings, JudgeSettings) and is_unchecked_in_vain(settings, parts):
            raise UsageError(f"judge_check=no would change nothing: {why}; leave it out")


def _refuse_of_the_model(settings: RunSettings, parts: Parts) -> None:
    if is_local(settings.model, load_tracks(settings.task)):
        why = f"model={redact(settings.model)} is not a litellm model"
        _refuse(settings, OF_THE_MODEL, why)
    if settings.answer == "logprob":
        why = "answer=logprob generates no text"
        _refuse(settings, (*SAMPLING, "structured"), why, instead="leave it out")
    passes = settings.model.startswith(PROGRAM) or any(part.uses("env") for part in parts)
    if settings.env is not None and not passes:
        why = "only program:CMD uses it; leave it out"
        raise UsageError(f"env={settings.env} would change nothing: {why}")


def is_unchecked_in_vain(settings: JudgeSettings, parts: Parts) -> bool:
    """Tell whether `judge_check=no` was given, and neither the run nor a part asks a judge."""
    return not settings.judge_check and not any(part.uses("judge_check") for part in parts)


def _refuse(
    settings: AskSettings,
    keys: tuple[str, ...],
    why: str,
    instead: str = "leave it out, or name a litellm model",
) -> None:
    for key in keys:
        if settings.is_given(key):
            shown = "" if key.endswith(("api_base", "request")) else getattr(settings, key)
            raise UsageError(f"{key}={shown} would change nothing: {why}; {instead}")


def _refuse_of_another_task(settings: RunSettings) -> None:
    if any(name.startswith(PYTHON) for name in settings.task.split(",")):
        return
    taken = {
        key for task in load_tracks(settings.task, options_of(settings)) for key in task.options
    }
    known = keys_by_task()
    for task, keys in known.items():
        for key in keys:
            if key not in taken and key in RunSettings.model_fields and settings.is_given(key):
                those = [name for name, own in known.items() if key in own]
                use = "task {} uses" if len(those) == 1 else "tasks {} use"
                only = f"only {use.format(', '.join(those))} {key}="
                what = f"{key}={as_typed(getattr(settings, key))}: {only}"
                raise UsageError(f"{what}; leave it out, or add {task} to task=")


def pin_data(settings: RunSettings, folder: Path, tasks: Sequence[Task]) -> RunSettings:
    """Name the hub's data by their commit: the run in `folder` keeps its own, wherever a branch is.

    `data=hub` is the data set that the first of the tasks names.

    Raises:
        UsageError: If what `data=` says can't be read or resolved, or no split is named.
        RunFolderError: If the manifest in `folder` can't be read.
    """
    name = hub_name(settings.data, tasks[0].data.hub)
    if name is None:
        return settings
    data = _kept(name, folder)
    if data is None and any(task.data.open_records is None for task in tasks):
        data = open_hub(name.data, settings.split).data
    elif data is None:
        data = name.at(name.resolved())
    elif name.commit is None:
        kept = f"{folder} uses {label(data)}; for another commit, choose another out="
        click.echo(f"alps: {kept}", err=True)
    return settings.model_copy(update={"data": data})


def _kept(name: HubName, folder: Path) -> str | None:
    """Return the data of the run in `folder`, if `name` means them; else None."""
    if not (folder / MANIFEST).is_file():
        return None
    manifest = read_manifest(folder)
    data = str(manifest.settings.get("data"))
    there = hub_name(data)
    if there is None or there.commit is None or there.repository != name.repository:
        return None
    asked_then = hub_name(str(manifest.data_asked))
    the_same = asked_then is not None and asked_then.branch == name.branch
    return data if the_same or name.may_be(there.commit) else None


def effective_run(settings: RunSettings, tasks: Sequence[Task]) -> RunSettings:
    """Return the settings of a run as they take effect.

    Raises:
        UsageError: If an address in the environment can't be used.
    """
    if not is_local(settings.model, tasks):
        settings = settings.model_copy(update=_added(settings, "model", ""))
    return effective_judge(settings)


def effective_judge(settings: SettingsT) -> SettingsT:
    """Return the settings as they take effect for the judge; see `effective_run`."""
    if is_embedded_judge(settings.judge):
        return settings
    settings = settings.model_copy(update=_added(settings, "judge", "judge_"))
    if _takes_no_temperature(settings):
        settings = settings.model_copy(update={"judge_temperature": "none"})
    return settings


def _takes_no_temperature(settings: AskSettings) -> bool:
    """Tell whether the judge was given no temperature, and takes none but its own."""
    from alps.llm.preflight import default_temperature, is_known

    sampling, extra = settings.judge_sampling(), settings.judge_request or {}
    if "temperature" in sampling or not is_known(settings.judge):
        return False
    default = default_temperature(
        settings.judge, api_base=settings.judge_api_base, sampling=sampling, extra=extra
    )
    return default is None


def _added(settings: AskSettings, who: str, prefix: str) -> dict[str, Any]:
    """Return the settings that were not given, and take effect all the same."""
    from alps.llm.preflight import (
        endpoint_from_environment,
        is_known,
        unlisted_answer,
        version_from_environment,
    )

    model = getattr(settings, who)
    if not is_known(model):
        return {}
    added: dict[str, Any] = {}
    given = getattr(settings, f"{prefix}api_base") is not None
    if not given and (elsewhere := endpoint_from_environment(model)) is not None:
        variable, address = elsewhere
        added[f"{prefix}api_base"] = address
        say_once(f"requests to {model} go to {urlsplit(address).netloc} (set by {variable})")
    extra = getattr(settings, f"{prefix}request") or {}
    if "api_version" not in extra and (version := version_from_environment(model)) is not None:
        added[f"{prefix}request"] = {**extra, "api_version": version}
    longest = unlisted_answer(model, {"max_tokens": getattr(settings, f"{prefix}max_tokens")})
    if longest is not None:
        added[f"{prefix}max_tokens"] = longest
        why = f"the model's output limit is unknown, so alps sends max_tokens={longest:,}"
        say_once(f"{model}: {why}; set {prefix}max_tokens= to change it")
    return added


def run_folder(settings: RunSettings) -> Path:
    """Return the folder of a run: as it was given, or named after what the run measures."""
    if settings.out:
        return Path(settings.out)
    data = label(settings.data)
    parts = (
        settings.task.replace(",", "+"),
        slug(redact(settings.model)),
        slug(data),
        slug(settings.judge),
        digest(settings.experiment()),
    )
    return Path("runs") / "-".join(part for part in parts if part)


def digest(settings: dict[str, Any]) -> str:
    """Return the hash that separates folders of different settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


def check_shown(settings: RunSettings, data: RunData) -> None:
    """Refuse records that lack a part of their input.

    Embedded systems and recorded answers are shown nothing.

    Raises:
        DataError: If there is such a record.
    """
    if is_local(settings.model, data.tasks) and not settings.model.startswith((PROGRAM, PYTHON)):
        return
    for track in data.tracks:
        check = track.task.data.check_shown
        for sample in track.samples() if check is not None else ():
            assert check is not None
            check(sample)
