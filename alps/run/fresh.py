"""Edited code in a run folder: what is refused, what `fresh=yes` sets aside, what is begun again.

`manifest.json` holds the hashes of the user's own code. Answers of other code are never taken for
those of the code that is there now.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alps.errors import RunFolderError
from alps.extension import brought, extensions, load, made
from alps.jsonl import parse_json
from alps.run.folder import CONFIG, LOCK, changed_code, locked_folder, refuse_another
from alps.run.opened import MANIFEST, PREDICTIONS, SUMMARY, read_manifest
from alps.systems.base import STDERR, TRACEBACKS
from alps.systems.resolve import PYTHON

if TYPE_CHECKING:
    from alps.own_code import Hashes
    from alps.run.session import RunSession

Code = dict[str, "Hashes"]
"""The hashes of the user's own code, by the setting that names it; only of those that name any."""

_OF_A_START = (
    *("verdicts.jsonl", "scores.jsonl", "baselines.jsonl", PREDICTIONS, SUMMARY, CONFIG),
    *(TRACEBACKS, STDERR),
)


def code_of(settings: Mapping[str, Any]) -> Code:
    """Return the hashes of the code that the settings of a run name."""
    code = task_code(settings["task"])
    for name, value in settings.items():
        if name != "task" and isinstance(value, str) and (hashes := _hashes(value)):
            code[name] = hashes
    return code


def task_code(task: str) -> Code:
    """Return those of tasks of the user's own, which judge, too."""
    hashes: dict[str, str] = {}
    for name in task.split(","):
        hashes |= _hashes(name)
    return {"task": hashes} if hashes else {}


def _hashes(name: str) -> "Hashes":
    if name.startswith(PYTHON):
        from alps.own_code import hashes_of_module

        return hashes_of_module(name.removeprefix(PYTHON).partition(":")[0])
    for start, where in brought("code").items():
        if name.startswith(start):
            hashes: Hashes = made(where, dict, name.removeprefix(start))
            return hashes
    return {}


def refuse_changed_code(folder: Path, recorded: Mapping[str, Any], code: Code) -> None:
    """Refuse to resume a run whose code was edited; `fresh=yes` answers again.

    Args:
        folder: Where the run is to be written.
        recorded: The settings as the manifest has them.
        code: What is there now.

    Raises:
        RunFolderError: If a file differs; names it, and the two ways on.
    """
    if not _is_of(folder, recorded) or not is_begun(folder):
        return
    if changed := changed_code(read_manifest(folder).code, code):
        raise edited(folder, changed)


def refuse_another_run(folder: Path, recorded: Mapping[str, Any]) -> None:
    """Refuse a folder with the manifest of a run that has other settings than the `recorded`."""
    if (folder / MANIFEST).is_file():
        refuse_another(folder, {"settings": read_manifest(folder).settings}, {"settings": recorded})


def edited(folder: Path, changed: str) -> RunFolderError:
    """Return the error for a run whose code changed: the two ways on."""
    return RunFolderError(
        f"{folder}: {changed} since this run; to answer again, set fresh=yes (same folder) or "
        "out=NEW (new folder)"
    )


def _is_of(folder: Path, recorded: Mapping[str, Any]) -> bool:
    """Tell whether a folder holds a run with these settings; one of others is refused elsewhere."""
    if not (folder / MANIFEST).is_file():
        return False
    here: dict[str, Any] = json.loads(json.dumps(recorded))
    return read_manifest(folder).settings == here


def is_begun(folder: Path) -> bool:
    """Tell whether a run left anything to go on from; an extension with files there may say so."""
    said = []
    for extension in extensions():
        if extension.begun and any((folder / name).exists() for name in extension.files):
            said.append(load(extension.begun)(folder))
    if False in said:
        return False
    answers = folder / PREDICTIONS
    return True in said or (answers.is_file() and answers.stat().st_size > 0)


def begins_again(folder: Path) -> bool:
    """Tell whether a folder holds a run with nothing to go on from; what it left is removed."""
    again = (folder / MANIFEST).is_file() and not is_begun(folder)
    if again:
        _clear(folder)
    return again


def _clear(folder: Path) -> None:
    """Remove what a run left; what it paid for stays in its ledger of calls."""
    names = list(_OF_A_START)
    for extension in extensions():
        names += extension.files
    # The journal of an extension last: without it, what was refused would pass for answered.
    for name in names:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def former_of(folder: Path) -> Path:
    """Return where `fresh=yes` keeps the run that was in a folder before."""
    place = folder.absolute()
    return folder.with_name(f"{place.name}.old") if folder.name else place.with_name("old")


def is_whole(folder: Path) -> bool:
    """Tell whether a folder holds a finished run that no budget stopped."""
    try:
        row: Any = parse_json((folder / SUMMARY).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(row, dict) and not row.get("stopped_by_budget")


def kept_former(folder: Path, *, was_whole: bool) -> Path | None:
    """Return where the run is that a run has taken the place of, which is whole just now."""
    former = former_of(folder)
    new = not was_whole and is_whole(folder)
    return former if new and (former / MANIFEST).is_file() else None


def made_room(session: "RunSession") -> bool:
    """Set the run in a folder aside where all is to be answered again; tell if one is whole."""
    if session.settings.fresh:
        set_aside(session.folder, session.settings.recorded(), session.code)
    return is_whole(session.folder)


def set_aside(folder: Path, recorded: Mapping[str, Any], code: Code) -> None:
    """Move the run in the folder aside, so that all records can be answered again.

    Where one was begun so and ended early, the same command goes on with it.

    Raises:
        RunFolderError: If the folder can't be renamed, or another process holds it.
    """
    if not (folder / MANIFEST).is_file() or not is_begun(folder):
        return
    former = former_of(folder)
    if Path.cwd().resolve().is_relative_to(folder.resolve()):
        raise RunFolderError(f"{folder}: can't move the current folder; choose another out=")
    with locked_folder(folder):
        try:
            if is_whole(folder) or not former.exists():
                shutil.rmtree(former, ignore_errors=True)
                folder.rename(former)
                (former / LOCK).write_text("")
            elif not _is_of(folder, recorded) or changed_code(read_manifest(folder).code, code):
                # It never became whole: the run to be kept is still the one before it.
                shutil.rmtree(folder)
        except OSError as error:
            why = error.strerror or error
            what = f"{folder}: can't be renamed to {former} ({why}); choose another out="
            raise RunFolderError(what) from error
