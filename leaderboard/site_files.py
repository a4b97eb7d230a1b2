"""Put a built site into its folder, where other files may lie: a build changes and removes only
what a build wrote.

Every site holds a list of its files with their hashes, `.alps-site.json`. What it does not list is
somebody else's: the `.git` and `CNAME` of the checkout that a site is published from, and whatever
else lies there.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from pydantic import TypeAdapter, ValidationError

from alps.errors import UsageError

LIST = ".alps-site.json"
_FILES = TypeAdapter(dict[str, str])


def check_out(out: Path) -> dict[str, str]:
    """Return what an earlier build wrote into `out`, as sha256 by path.

    Raises:
        UsageError: If `out` is no folder, its list can't be read, or it is neither empty, nor a
            checkout, nor a site.
    """
    if not out.exists() and not out.is_symlink():
        return {}
    if not out.is_dir():
        raise UsageError(f"out={out}: something else than a site is there; choose another folder")
    if (out / LIST).is_file():
        return _read_list(out)
    visible = [
        path.name
        for path in out.iterdir()
        if not path.name.startswith(".") and path.name != "CNAME"
    ]
    if visible and not (out / ".git").exists():
        raise UsageError(
            f"out={out}: something else than a site is there, or one of an older version, without {LIST}; "
            "choose another folder, or empty this one"
        )
    return {}


def put(site: Path, out: Path, before: Mapping[str, str]) -> tuple[str, ...]:
    """Move a whole site to `out`.

    Return stale files that are left there, as they have changed since they were built.

    The folder stays: it may be the working folder, a link, or a mounted disk.

    Args:
        site: The new site, in a folder of its own.
        out: Where it goes.
        before: What `check_out` returned.

    Raises:
        UsageError: If a file that no build wrote is in the way.
    """
    hashes = {name: _hash(site / name) for name in _names(site)}
    out.mkdir(parents=True, exist_ok=True)
    _check_way(out, hashes, before)
    # Both lists together first: a build that is killed here must know its files, the old and the
    # new, the next time.
    _write_list(out, {**before, **hashes})
    left = tuple(
        name for name in before if name not in hashes and not _remove(out, name, before[name])
    )
    for name in hashes:
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(site / name, target)
    _write_list(out, hashes)
    return left


def _check_way(out: Path, names: Iterable[str], before: Mapping[str, str]) -> None:
    for name in names:
        path = out / name
        parents = [
            out.joinpath(*path.relative_to(out).parts[:depth])
            for depth in range(1, len(Path(name).parts))
        ]
        blocked = next(
            (parent for parent in parents if parent.is_symlink() or parent.is_file()), None
        )
        if blocked is None and os.path.lexists(path) and (name not in before or path.is_dir()):
            blocked = path
        if blocked is not None:
            raise UsageError(
                f"{blocked}: no build of a site wrote it; move it, or choose another out="
            )


def _remove(out: Path, name: str, sha256: str) -> bool:
    """Remove a file that the site has no longer, if it is as it was built.

    Return False where it is left.
    """
    path = out / name
    if not os.path.lexists(path):
        return True
    inside = path.parent.resolve().is_relative_to(out.resolve())
    if path.is_symlink() or not path.is_file() or not inside or _hash(path) != sha256:
        return False
    path.unlink()
    for parent in path.relative_to(out).parents:
        folder = out / parent
        if folder != out and not any(folder.iterdir()):
            folder.rmdir()
    return True


def _names(site: Path) -> list[str]:
    files = (path for path in site.rglob("*") if path.is_file())
    return sorted(path.relative_to(site).as_posix() for path in files)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_list(out: Path) -> dict[str, str]:
    try:
        files = _FILES.validate_python(json.loads((out / LIST).read_bytes()))
    except (OSError, ValueError, ValidationError) as error:
        raise UsageError(f"{out / LIST}: not written by a build; choose another out=") from error
    for name in files:
        parts = PurePosixPath(name).parts
        hidden = any(part.startswith(".") for part in parts) and name != ".nojekyll"
        if not parts or hidden or name.startswith("/") or "\\" in name or "\0" in name:
            raise UsageError(f"{out / LIST}: names what no build writes; choose another out=")
    return files


def _write_list(out: Path, files: Mapping[str, str]) -> None:
    text = json.dumps(dict(sorted(files.items())), indent=0)
    temporary = out / f"{LIST}.tmp"
    temporary.write_text(f"{text}\n", encoding="utf-8")
    temporary.replace(out / LIST)
