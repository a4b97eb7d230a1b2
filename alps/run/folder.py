"""Writing of a run folder: its manifest, the settings that repeat it, its lock.

A folder belongs to one experiment.
"""

import errno
import hashlib
import json
import os
import platform
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout

from alps import __version__
from alps.errors import FolderInUseError, RunFolderError, UsageError
from alps.jsonl import dump
from alps.judges.rubric import SUPPORT, rubric
from alps.llm.ledger import Ledger
from alps.llm.secrets import redact
from alps.rows import Summary
from alps.run.opened import MANIFEST, PREDICTIONS, SUMMARY, manifest_row
from alps.tasks import Task

CONFIG = "config.toml"

_LIBRARIES = ("litellm", "instructor", "pydantic", "scipy", "numpy")
_NOT_REPEATED = ("config", "dry_run", "fresh")
_WRITTEN = (
    *(PREDICTIONS, "verdicts.jsonl", "scores.jsonl", "calls.jsonl", SUMMARY),
    *("judge_check.jsonl", "program.stderr.log"),
)
LOCK, _LOCKED_BY = ".lock", "process"
_COMPARED = ("alps", "settings", "system", "data", "prompts", "judge", "predictions")


class Capped(Protocol):
    """The most that a command may spend: US dollars and tokens, None for no cap."""

    @property
    def max_cost(self) -> float | None:
        """US dollars."""

    @property
    def max_total_tokens(self) -> int | None:
        """Prompt and completion tokens together."""


@cache
def library_versions() -> Mapping[str, str]:
    """Return the versions of Python and of the libraries that can change a result."""
    versions = {"python": platform.python_version(), **dict.fromkeys(_LIBRARIES, "not installed")}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def build_manifest(
    *,
    settings: Mapping[str, Any],
    system: Mapping[str, Any],
    data: Mapping[str, Any],
    prompts: Mapping[str, str],
    judge: Mapping[str, Any],
    predictions: str | None = None,
    structured: Mapping[str, str] | None = None,
    code: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """Return the manifest of a run; nothing in it depends on when or where it runs.

    `predictions` is the sha256 of those that are judged again, where a run has none of its own.
    `structured` says how model and judge are asked for typed answers, where they are LLMs. `code`
    has the hashes of the user's own code, where there is any.
    """
    judged: dict[str, Any] = {"predictions": predictions} if predictions is not None else {}
    judged |= {"structured": dict(structured)} if structured else {}
    judged |= {"code": dict(code)} if code else {}
    return judged | {
        "alps": __version__,
        "settings": dict(settings),
        "system": dict(system),
        "data": dict(data),
        "prompts": dict(prompts),
        "judge": dict(judge),
        "versions": dict(library_versions()),
    }


def claim(
    folder: Path, manifest: Mapping[str, Any], *, begun: bool = True, shown: Path | None = None
) -> bool:
    """Write `manifest` into a new folder, or check it against the one that is there.

    Return whether it was there.

    Args:
        folder: The folder.
        manifest: What the run measures.
        begun: Whether a run in it left anything to go on from; else its manifest is replaced.
        shown: The folder as messages name it.

    Raises:
        RunFolderError: If the folder holds another run; the message names the first field that
            differs.
    """
    path = folder / MANIFEST
    if not path.exists() or not begun:
        write_json(path, manifest)
        return False
    # Versions of libraries may differ: a run that took days is not lost to an update of one.
    refuse_another(shown or folder, manifest_row(folder), manifest)
    return True


def refuse_another(folder: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Refuse to go on in a folder whose manifest, `there`, is not of the run that is `here`."""
    if difference := difference_between(there, json.loads(json.dumps(here))):
        raise RunFolderError(f"{folder} holds another run: {difference}; choose another out=")


def difference_between(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Say where two manifests are not of one run, or nothing; versions of libraries may differ."""
    for name in _COMPARED:
        if difference := _difference(there.get(name), here.get(name), name):
            return difference
    return changed_code(there.get("code"), here.get("code") or {})


def changed_code(
    then: Mapping[str, Mapping[str, str]] | None, now: Mapping[str, Mapping[str, str]]
) -> str:
    """Say which file of a run's code differs from what is there now, or nothing.

    What a run does not know, as one of an older version, is not compared.
    """
    told: list[str] = []
    for name in {**then, **now} if then is not None else ():
        told += _changes((then or {}).get(name, {}), now.get(name, {}))
    if not told:
        return ""
    return told[0] + (f" (and {len(told) - 1} more)" if len(told) > 1 else "")


def _changes(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Say of each file that differs what happened to it: `notes.py changed`."""
    told = [f"{name} changed" for name in now if name in then and then[name] != now[name]]
    told += [f"{name} is new" for name in now if name not in then]
    return told + [f"{name} is gone" for name in then if name not in now]


def refuse_other_files(folder: Path, *, predictions: str | None = None) -> None:
    """Refuse a folder with files of the names that a run writes and without the manifest of a run.

    They are the user's: opening a journal cuts a torn line, and a finished one keeps no line that
    it can't read.

    Args:
        folder: Where a run is to be written.
        predictions: The sha256 of those that are judged again: they come into a folder before its
            manifest does.

    Raises:
        RunFolderError: If there is such a file, or the manifest is not one of a run.
    """
    if os.path.lexists(folder / MANIFEST):
        manifest_row(folder)
        return
    for name in (*_WRITTEN, LOCK):
        path = folder / name
        if not os.path.lexists(path) or (path.is_file() and _is_of_a_start(path, predictions)):
            continue
        what = f"not a run folder ({MANIFEST} is missing); move it, or choose another out="
        raise RunFolderError(f"{path}: {what}")


def _is_of_a_start(path: Path, predictions: str | None) -> bool:
    """Tell whether a file is what a run leaves that was ended before it wrote its manifest."""
    content = path.read_bytes() if path.stat().st_size else b""
    if path.name == LOCK:
        return _LOCKED_BY.encode().startswith(content[: len(_LOCKED_BY)])
    return not content or (
        path.name == PREDICTIONS and hashlib.sha256(content).hexdigest() == predictions
    )


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one atomic step: a reader finds the old content, or all of the new."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        # Without it a crash of the machine may leave the name with nothing behind it.
        os.fsync(file.fileno())
    temporary.replace(path)


@dataclass(frozen=True)
class Predictions:
    """Predictions of the finished run in `source`, which are judged again."""

    source: Path
    lines: bytes
    sha256: str

    def place(self, folder: Path) -> None:
        """Write them into `folder` in one atomic step."""
        # Part of them without a manifest would be taken for somebody's file.
        write_whole(folder / PREDICTIONS, self.lines)


def predictions_of(source: Path, asked: int) -> Predictions:
    """Read the predictions of a run that asks for so many.

    Raises:
        UsageError: If it has none, or is not finished and lacks some.
    """
    path = source / PREDICTIONS
    if not path.is_file():
        raise UsageError(f"{source}: no {PREDICTIONS} to judge; name a run folder")
    lines = path.read_bytes()
    # One that has all answers may lack a summary because its judge could not be asked.
    if lines.count(b"\n") < asked and not (source / SUMMARY).is_file():
        raise UsageError(f"{source}: not finished; to finish it, repeat the same alps run")
    return Predictions(source, lines, hashlib.sha256(lines).hexdigest())


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write `value` to `path` in one atomic step, indented for people.

    Raises:
        ValueError: If a number in it is not finite.
    """
    dump(dict(value))
    write_whole(path, json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n")


def write_summary(folder: Path, summary: Summary) -> None:
    """Write the summary of a run into its folder."""
    write_json(folder / SUMMARY, summary.row())


def repeating(folder: Path) -> list[str]:
    """Say how the settings of a run repeat it."""
    return [
        f"alps run config={folder / CONFIG} out=ELSEWHERE repeats this run; settings on "
        "the command line take precedence.",
        "Paths are relative to the folder in which the run started, and API keys come from the "
        "environment.",
    ]


def write_config(folder: Path, given: Mapping[str, Any], *, told: Sequence[str] = ()) -> None:
    """Write the settings that were `given` as the config file that repeats a run, if there is none.

    Paths stay as they were typed, but for the `~` of `out`, and secrets are masked; `told` are
    lines that are said above the settings.
    """
    path = folder / CONFIG
    if path.exists():
        return
    lines, masked = [], ""
    for name, value in given.items():
        if name in _NOT_REPEATED or value is None:
            continue
        safe = redact(value) if isinstance(value, str) else value
        masked = masked if safe == value else f"{masked}, {name}".lstrip(", ")
        lines.append(f"{name} = {_as_toml(safe)}")
    if masked:
        told = (*told, f"alps masked a secret in {masked}; to repeat the run, set it again.")
    head = [f"# {redact(''.join(filter(str.isprintable, line)))}" for line in told]
    write_whole(path, "".join(f"{line}\n" for line in (*head, *lines)).encode(errors="replace"))


def _as_toml(value: Any) -> str:
    """Write a value as TOML: JSON but for tables, and one character, which TOML wants escaped."""
    if isinstance(value, Mapping):
        inner = (f"{json.dumps(name)} = {_as_toml(below)}" for name, below in value.items())
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _difference(there: Any, here: Any, name: str) -> str:
    if isinstance(there, dict) and isinstance(here, dict):
        for key in [*there, *(key for key in here if key not in there)]:
            if difference := _difference(there.get(key), here.get(key), f"{name}.{key}"):
                return difference
        return ""
    return "" if there == here else f"{name} is {json.dumps(there)} there, {json.dumps(here)} here"


def prompt_hashes(tasks: Sequence[Task], *, support: bool) -> dict[str, str]:
    """Return the hashes of what a model is asked, by the prompts' names.

    `support` tells whether the judge is asked what the dialogue supports.
    """
    others = [prompt for task in tasks for prompt in task.asking.prompts]
    others += [rubric(SUPPORT)] if support else []
    own = {task.prompt.id: task.prompt_sha256 for task in tasks}
    return own | {prompt.id: prompt.sha256 for prompt in others}


def add_learned(folder: Path, learned: Mapping[str, Any]) -> None:
    """Write what a session learned into its manifest, such as the models that answered."""
    manifest = manifest_row(folder)
    # The row and not the typed manifest: what a later version put there stays.
    new = {name: value for name, value in learned.items() if value and manifest.get(name) != value}
    if new:
        write_json(folder / MANIFEST, {**manifest, **new})


_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


def _locked(folder: Path) -> FileLock:
    """Take `<folder>/.lock`, and write there who has it."""
    path = folder / LOCK
    # A lock that is a mere file would outlive `kill -9`; of this one the system lets go.
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        holder = path.read_text(errors="replace").strip() or "another process"
        what = f"in use by {holder}; wait for it, or choose another out="
        raise FolderInUseError(f"{folder}: {what}") from error
    with suppress(OSError):  # Windows lets nobody write into a file that is locked
        path.write_text(f"{_LOCKED_BY} {os.getpid()} on {socket.gethostname()}")
    return lock


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Make `folder`, and hold it until the end.

    Raises:
        RunFolderError: If it can't be written, or another process holds it.
    """
    place = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(folder)
    except OSError as error:
        raise RunFolderError(f"{folder}: {error.strerror}; choose another out=") from error
    try:
        yield
    finally:
        with suppress(OSError):
            (place / LOCK).write_text("")
        lock.release()


@contextmanager
def claimed_folder(folder: Path) -> Iterator[Ledger]:
    """Make `folder`, and hold it and its ledger of calls until the end.

    Raises:
        RunFolderError: If it can't be written, or another process holds it.
    """
    with locked_folder(folder):
        try:
            ledger = Ledger(folder.absolute() / "calls.jsonl")
            try:
                yield ledger
            finally:
                ledger.close()
        except OSError as error:
            # A write does not say of which file, and the cache may be on another disk.
            if error.errno in _DISK and error.filename is None:
                error.filename = str(folder)
            raise


def caps_left(capped: Capped, spent: tuple[int, float]) -> dict[str, int | float]:
    """Return what is left of the caps of a command, as settings; nothing of one that is not given.

    Args:
        capped: The caps, which hold for several folders together.
        spent: Tokens and US dollars that the other folders took.
    """
    tokens, cost = spent
    left: dict[str, int | float] = {}
    if capped.max_cost is not None:
        left["max_cost"] = max(0.0, capped.max_cost - cost)
    if capped.max_total_tokens is not None:
        left["max_total_tokens"] = max(0, capped.max_total_tokens - tokens)
    return left
