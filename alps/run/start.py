"""From settings to a finished run folder."""

import asyncio
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alps.data.release import open_split, read_samples, track_hash
from alps.errors import RunFolderError, UsageError, closest
from alps.judges.base import Judge, fingerprint_id
from alps.judges.lexical import LexicalJudge
from alps.judges.resolve import EMBEDDED_JUDGES, embedded_judge, is_embedded_judge
from alps.llm.ledger import Ledger
from alps.run.engine import Journals, Outcome, Plan, run_track
from alps.run.lock import FolderLock
from alps.run.manifest import build_manifest, claim, write_json
from alps.run.progress import progress_line
from alps.run.summary import summarise_run, summarise_track
from alps.schema import Prediction
from alps.settings import JudgeSettings, RunSettings, parse_settings
from alps.systems import EMBEDDED, FLOORS, System, is_embedded, resolve_system
from alps.systems.embedded import Embedded
from alps.tasks import Task, load_task

if TYPE_CHECKING:
    from alps.llm import Client
    from alps.llm.cache import Cache


@dataclass(frozen=True)
class Finished:
    """A finished run: its folder, its summary, and whether too many records are unscored."""

    folder: Path
    summary: dict[str, Any]
    too_many_unscored: bool


def run(settings: RunSettings) -> Finished:
    """Carry out a run, or what is left of it, and write its summary.

    Raises:
        AlpsError: If the settings, the data or the folder can't be used.
    """
    task = load_task(settings.task)
    _check_names(settings, task)
    folder = Path(settings.out) if settings.out else Path("runs") / _folder_name(settings)
    return _carry_out(settings, task, folder, predictions=None)


def score_again(run_folder: Path, judging: dict[str, str]) -> Finished:
    """Judge the finished predictions of a run with another judge, in a folder of its own.

    Nothing is generated: a record that was not heard then is not heard now.

    Raises:
        AlpsError: If the folder is no run, or the judge can't be used.
    """
    manifest_path = run_folder / "manifest.json"
    if not manifest_path.is_file():
        raise UsageError(f"{run_folder}: no run here (manifest.json is missing)")
    chosen = parse_settings(judging, JudgeSettings)
    then = json.loads(manifest_path.read_text(encoding="utf-8"))
    judge_keys = {name: value for name, value in chosen if name in judging or name.startswith("judge")}
    settings = RunSettings.model_validate({**then["settings"], **judge_keys})
    task = load_task(settings.task)
    _check_judge(settings)
    slug = f"{_slug(settings.judge)}-{_digest(settings.experiment())}"
    folder = Path(settings.out) if settings.out else run_folder.with_name(f"{run_folder.name}--{slug}")
    if folder.resolve() == run_folder.resolve():
        raise UsageError(f"out={folder}: a new judge needs a folder of its own")
    return _carry_out(settings, task, folder, predictions=run_folder, data_then=then["data"])


def _carry_out(
    settings: RunSettings,
    task: Task,
    folder: Path,
    *,
    predictions: Path | None,
    data_then: dict[str, Any] | None = None,
) -> Finished:
    split = open_split(settings.data, settings.split)
    track = split.track(task.track)
    total = sum(1 for _ in _samples(track, task, settings.limit))  # names a bad row before anything is paid for
    data = {"split": split.name, "tracks": {task.track: {"n": total, "sha256": track_hash(track)}}}
    if data_then is not None and data_then != data:
        raise RunFolderError(f"{settings.data}: not the data that {predictions} was made on; its hash differs")
    with _claimed(folder) as ledger, _services(settings, task, ledger) as (system, judge):
        manifest = build_manifest(
            settings=settings.experiment(),
            system={"name": system.name, **system.settings},
            data=data,
            prompts={prompt.id: prompt.sha256 for prompt in (task.prompt, *task.prompts)},
            judge={"id": fingerprint_id(judge.fingerprint), **judge.fingerprint},
        )
        claim(folder, manifest)
        asked = system if predictions is None else _frozen(system.name, task, predictions, folder)
        journals = Journals.open(folder)
        plan = Plan(
            task=task,
            system=asked,
            judge=judge,
            floor_systems={name: Embedded(name, task.track, f) for name, f in FLOORS[task.name].items()},
            floor_judge=LexicalJudge(),
            journals=journals,
            workers=2 * settings.concurrency,
        )
        try:
            with progress_line(f"{task.name} {system.name}", total, ledger.totals) as progress:
                samples = _samples(track, task, settings.limit)
                outcome: Outcome = asyncio.run(run_track(plan, samples, progress=progress))
        finally:
            journals.close()
        found = {task.track: summarise_track(plan, outcome, seed=settings.seed)}
        summary = summarise_run(model=settings.model, judge=judge, tracks=found, totals=ledger.totals)
        write_json(folder / "summary.json", summary)
    unscored = sum(track["unscored"] for track in found.values())
    return Finished(folder, summary, unscored > settings.max_failures * total)


def _samples(track: Path, task: Task, limit: int | None) -> Iterator[Any]:
    return islice(read_samples(track, task.read_sample), limit)


@contextmanager
def _claimed(folder: Path) -> Iterator[Ledger]:
    """Hold the run folder, and its ledger, for the time of the run."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(folder)
    except OSError as error:
        raise RunFolderError(f"{folder}: {error.strerror}; choose another out=") from error
    try:
        ledger = Ledger(folder / "calls.jsonl")
        try:
            yield ledger
        finally:
            ledger.close()
    finally:
        lock.release()


@contextmanager
def _services(settings: RunSettings, task: Task, ledger: Ledger) -> Iterator[tuple[System, Judge]]:
    """Set up the system and the judge; litellm is only ever imported where one of them is an LLM."""
    embedded = is_embedded(settings.model, task)
    if embedded and is_embedded_judge(settings.judge):
        yield resolve_system(settings.model, task), embedded_judge(settings.judge)
        return
    from alps.llm.cache import Cache, default_path

    path = default_path()
    cache = Cache(path) if path is not None else None
    make_client = _client_maker(settings, ledger, cache)
    system = resolve_system(settings.model, task) if embedded else _llm_system(settings, task, make_client())
    judge = embedded_judge(settings.judge) if is_embedded_judge(settings.judge) else _llm_judge(settings, make_client())
    try:
        yield system, judge
    finally:
        if cache is not None:
            cache.close()


def _client_maker(settings: RunSettings, ledger: Ledger, cache: "Cache | None") -> Callable[[], "Client"]:
    from alps.llm import Client

    return lambda: Client(concurrency=settings.concurrency, ledger=ledger, cache=cache, timeout=settings.timeout)


def _llm_system(settings: RunSettings, task: Task, client: "Client") -> System:
    from alps.systems.llm import LlmSystem

    return LlmSystem(settings.model, task=task, client=client, api_base=settings.api_base, sampling=settings.sampling())


def _llm_judge(settings: RunSettings, client: "Client") -> Judge:
    from alps.judges.llm import LlmJudge

    return LlmJudge(settings.judge, client=client, api_base=settings.judge_api_base, sampling=settings.judge_sampling())


def _check_names(settings: RunSettings, task: Task) -> None:
    """Refuse unknown systems and judges, and LLMs whose key is missing, before anything is written."""
    if is_embedded(settings.model, task):
        resolve_system(settings.model, task)
    else:
        _check_llm("model", settings.model, settings.api_base, EMBEDDED[task.name])
    _check_judge(settings)


def _check_judge(settings: JudgeSettings) -> None:
    if not is_embedded_judge(settings.judge):
        _check_llm("judge", settings.judge, settings.judge_api_base, EMBEDDED_JUDGES)


def _check_llm(key: str, name: str, api_base: str | None, embedded: Iterable[str]) -> None:
    guess = closest(name, embedded)
    if guess and "/" not in name:
        raise UsageError(f"{key}={name}: unknown{guess} (LLMs are written provider/model)")
    from alps.llm.provider import check_model

    try:
        check_model(name, api_base=api_base)
    except UsageError as error:
        raise UsageError(f"{key}={name}: {error}{guess}") from error


def _frozen(name: str, task: Task, run_folder: Path, folder: Path) -> System:
    """Bring the finished predictions of a run into a new folder; what is missing there stays unheard."""
    source = run_folder / "predictions.jsonl"
    if not source.is_file():
        raise UsageError(f"{run_folder}: no predictions.jsonl to judge")
    if not (folder / "predictions.jsonl").exists():
        with suppress(FileNotFoundError):
            shutil.copyfile(source, folder / "predictions.jsonl.tmp")
            (folder / "predictions.jsonl.tmp").replace(folder / "predictions.jsonl")
    return _Unheard(name, task.track)


class _Unheard:
    """A system that is not asked any more."""

    def __init__(self, name: str, track: str) -> None:
        self.name = name
        self.settings: Mapping[str, Any] = {}
        self._track = track

    async def predict(self, sample: Any) -> Prediction:
        error = "not predicted in the run that is judged again"
        return Prediction(benchmark_id=sample.benchmark_id, track=self._track, outcome="transport", error=error)


def _folder_name(settings: RunSettings) -> str:
    data = settings.data if settings.data == "samples" else Path(settings.data).name
    parts = (
        settings.task,
        _slug(settings.model),
        _slug(data),
        _slug(settings.judge),
        _digest(settings.experiment()),
    )
    return "-".join(part for part in parts if part)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text.rpartition("/")[2] or text).strip("-.")[:40]


def _digest(settings: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
