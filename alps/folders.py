"""Optional folders of the user, such as the cache; names of files and folders."""

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Literal

from alps.errors import UsageError


def user_folder(kind: Literal["cache", "config", "data"]) -> Path | None:
    """Return the user's folder for what `alps` keeps; None for a user without a home."""
    import platformdirs

    try:
        folder: Path = getattr(platformdirs, f"user_{kind}_path")("alps")
    except RuntimeError:
        return None
    # Without a home it would be a folder of the working directory.
    return folder if folder.is_absolute() else None


def cache_folder() -> Path | None:
    """Return the folder of what can be made again; None where `ALPS_CACHE` is `off`, or no home."""
    chosen = os.environ.get("ALPS_CACHE", "")
    if chosen == "off":
        return None
    return working_folder() / chosen if chosen else user_folder("cache")


_begun_in: ContextVar[Path | None] = ContextVar("_begun_in", default=None)


@contextmanager
def kept_working_folder() -> Iterator[None]:
    """Keep the working folder for what runs inside, and go back into it at the end.

    A class of the user's may leave it for another one, which is that of the whole process.
    """
    here = Path.cwd()
    token = _begun_in.set(_begun_in.get() or here)
    try:
        yield
    finally:
        _begun_in.reset(token)
        with suppress(OSError):  # somebody removed it
            os.chdir(here)


def working_folder() -> Path:
    """Return the working folder that a run began in, or that of the process where none runs."""
    return _begun_in.get() or Path.cwd()


def typed_path(text: str) -> Path:
    """Return a path that the user typed, from the folder that it was typed in."""
    path, here = Path(text).expanduser(), working_folder()
    return path if here == Path.cwd() else here / path


OWNER_ALONE = 0o700
"""The mode of what only its user may see."""


def keep_private(*paths: Path) -> None:
    """Take files and folders from everybody but their owner, where they are ours to change."""
    for path in paths:
        with suppress(OSError):  # not there, or of another user who shares it
            path.chmod(path.stat().st_mode & OWNER_ALONE)


def can_be_kept(folder: Path) -> bool:
    """Tell whether `folder` is there, or can be made, and files can be written into it.

    What is made is the user's alone, whatever the umask: others could read what is kept there, or
    put something else in its place.
    """
    try:
        for place in (*reversed(folder.parents), folder):
            if not place.is_dir():
                place.mkdir(mode=OWNER_ALONE, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def refuse_full(out: Path) -> None:
    """Refuse to write a folder where there is something already.

    Raises:
        UsageError: If `out` is a file, or a folder that holds anything.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"out={out}: already exists; choose another out=")


# What file systems give a meaning of its own, whatever follows the first dot.
_PORTS = {f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)}
_RESERVED = {"con", "prn", "aux", "nul"} | _PORTS
LONGEST_NAME = 150
"""The most bytes of a file's name; an ending, or a number, may follow."""


def slug(text: str) -> str:
    """Return a short part of a folder's name; other texts may have the same one."""
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", text.rpartition("/")[2] or text)
    return plain.strip("-.")[:40].rstrip(".")


def same_file(name: str) -> str:
    """Return what two names share that some file system takes for one file."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return folded.rstrip(". ")


def is_file_name(name: str) -> bool:
    """Tell whether every file system takes `name` for the name of one file in the same folder."""
    odd = set(name) & set('/\\:*?"<>|') or not name.isprintable()
    ends = name != name.strip() or name.endswith(".")
    reserved = name.partition(".")[0].casefold() in _RESERVED
    return (
        bool(name) and not odd and not ends and not reserved and _short(name, LONGEST_NAME) == name
    )


def file_names(
    names: Iterable[str], plain: Callable[[str], str] = lambda name: name
) -> dict[str, str]:
    """Return the name of a file for each of several names, no two of which share a file.

    The first of those that fall together has the plain one; the others, and those that would be
    no file's name, have a hash of the name behind it.

    Args:
        names: What people, or files of theirs, call things.
        plain: Returns the name of a file as long as it is the only one.
    """
    chosen: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        file = plain(name)
        if not is_file_name(file) or same_file(file) in taken:
            file = hashed(name, file)
        taken.add(same_file(file))
        chosen[name] = file
    return chosen


def hashed(name: str, plain: str) -> str:
    """Return the name of a file that no other `name` has: as much of the plain one as is safe."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    # Without dots: `nul.x` is reserved as `nul` is.
    safe = _short(re.sub(r"[^\w-]+", "_", plain), LONGEST_NAME - len(digest) - 1)
    return "-".join(filter(None, (safe.strip("_-"), digest)))


def own_folder(parent: Path, name: str, plain: str, owner: Callable[[Path], str | None]) -> Path:
    """Return the folder of `name` below `parent`: the plain one, unless that is another one's.

    Args:
        parent: Where it lies.
        name: What it is called.
        plain: The name of the folder as long as nobody else has it.
        owner: Returns the name whose folder it is; None for nobody's.
    """
    safe = is_file_name(plain) and owner(parent / plain) in (None, name)
    return parent / (plain if safe else hashed(name, plain))


def _short(name: str, most: int) -> str:
    return name.encode("utf-8", "surrogatepass")[:most].decode("utf-8", "ignore")
