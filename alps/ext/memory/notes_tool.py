"""The tool `memory` that a model keeps notes with: six commands on a folder.

Commands and arguments are those of the memory tool in Anthropic's documentation ("Memory tool",
type `memory_20250818`); every model that calls functions can use them.

No path leads out of the folder. What a path says comes from a model. So names are checked first,
and then each folder of a path is opened from the one above it, by its descriptor and without
following a link: a process that swaps a folder for a link meanwhile changes nothing. A file is
written under another name and moved to its place, so that what another name or a link leads to is
never written.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

NAME = "memory"
VERSION = 1
"""Raised whenever the same call may be answered otherwise."""
# About 4,000 tokens: every answer is sent again with each later call of the session.
MOST_SHOWN = 16_000
"""Characters of one answer."""

ROOT = "/memories"
"""How paths begin, wherever the folder is."""
# A model that repeats itself would fill the disk. File systems take names of 255 bytes.
LARGEST, MOST, DEEPEST, LONGEST_NAME = 100_000, 200, 4, 120
"""Bytes of a file; files and folders; names in a path; bytes of a name."""
# Windows opens a device under these names, whatever comes behind the dot.
_DEVICES = {"CON", "PRN", "AUX", "NUL"}
_NUMBERED = ("COM", "LPT")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# A pipe would be waited for
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
# No note can have the name: `_fault` refuses a dot in front.
_NEW = ".new"
# What a model's own path brings about; it gets the reason, and may try again.
_ASKED_FOR = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENOTEMPTY,
    errno.ELOOP,
    errno.EINVAL,
    errno.ENXIO,
}
_MISSING = "there is no such file or folder"

Parts = tuple[str, ...]


class Refused(Exception):
    """What is not done, in one line for the model that asked."""


class Folder:
    """Files below `root`, which is made where it is missing.

    Methods take what `parts_of` returns, and raise `Refused` for what they don't do. `LARGEST` and
    `MOST` hold where it is `bounded`.
    """

    def __init__(self, root: Path, *, bounded: bool = True) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root, self._bounded = root, bounded

    def files(self) -> list[Parts]:
        """Return all files, by their paths; links and what is no file are left out."""
        return sorted(parts for parts, is_file in self._walk(()) if is_file)

    def is_folder(self, parts: Parts) -> bool:
        """Tell whether a folder is there."""
        with suppress(Refused), self._at(parts):
            return True
        return False

    def read(self, parts: Parts) -> str:
        """Return the text of a file."""
        with self._above(parts) as (above, name):
            found = os.stat(name, dir_fd=above, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                raise Refused(f"{path_of(parts)}: it is a folder; name a file in it")
            _check_plain(parts, found)
            with open(os.open(name, _FILE, dir_fd=above), "rb") as file:
                # Another one may be there by now
                _check_plain(parts, os.fstat(file.fileno()))
                content = file.read(LARGEST + 1 if self._bounded else -1)
        if self._bounded:
            _check_size(parts, len(content))
        return content.decode("utf-8", "replace")

    def write(self, parts: Parts, text: str, *, new: bool = False) -> None:
        """Write a file in one step, and its folders; a `new` one must not be there."""
        content = text.encode(errors="replace")
        if self._bounded:
            _check_size(parts, len(content))
        there = self._there()
        if new and parts in there:
            raise Refused(f"{path_of(parts)}: already exists; edit, rename or delete it")
        self._check_room(parts, there)
        with self._above(parts, make=True) as (above, name):
            with suppress(FileNotFoundError):
                os.unlink(_NEW, dir_fd=above)
            # A link that another process puts there meanwhile is an error, not a way out.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with open(os.open(_NEW, flags, 0o666, dir_fd=above), "wb") as file:
                file.write(content)
            try:
                os.rename(_NEW, name, src_dir_fd=above, dst_dir_fd=above)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(_NEW, dir_fd=above)

    def delete(self, parts: Parts) -> None:
        """Delete a file, or a folder with all that is in it."""
        with self._above(parts) as (above, name):
            found = os.stat(name, dir_fd=above, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                # By descriptors: a subfolder that becomes a link meanwhile is not followed.
                shutil.rmtree(name, dir_fd=above)
            else:
                os.unlink(name, dir_fd=above)

    def rename(self, parts: Parts, to: Parts) -> None:
        """Move a file or a folder to where nothing is."""
        there = self._there()
        if parts and parts not in there:
            raise Refused(f"{path_of(parts)}: {_MISSING}")
        # `os.rename` would put it over an existing file without a word.
        if to in there or to[: len(parts)] == parts:
            why = f"already exists, or is inside {path_of(parts)}"
            raise Refused(f"{path_of(to)}: {why}")
        self._check_room(to, there)
        # What is inside moves along, and must not get deeper than a path can name.
        below = max(len(entry) for entry in there if entry[: len(parts)] == parts)
        if len(to) + below - len(parts) > DEEPEST:
            raise Refused(f"{path_of(to)}: more than {DEEPEST} names below {ROOT}")
        with self._above(parts) as (above, name), self._above(to, make=True) as (below, new):
            os.rename(name, new, src_dir_fd=above, dst_dir_fd=below)

    def _there(self) -> set[Parts]:
        return {parts for parts, _ in self._walk(())}

    def _check_room(self, parts: Parts, there: set[Parts]) -> None:
        made = {parts[:length] for length in range(1, len(parts) + 1)} - there
        if self._bounded and made and len(there) + len(made) > MOST:
            why = f"at most {MOST} files and folders are allowed; delete some"
            raise Refused(f"{path_of(parts)}: {why}")

    def _walk(self, parts: Parts) -> Iterator[tuple[Parts, bool]]:
        with self._at(parts) as folder, os.scandir(folder) as found:
            # A name that the model could not write is none of its notes.
            entries = [entry for entry in found if not _fault(entry.name)]
            folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            files = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        for name in files:
            yield (*parts, name), True
        for name in folders:
            yield (*parts, name), False
            if len(parts) + 1 < DEEPEST:
                # Another process may have moved it away by now
                with suppress(Refused):
                    yield from self._walk((*parts, name))

    @contextmanager
    def _above(self, parts: Parts, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the descriptor of the folder that something is in, and its name there."""
        if not parts:
            raise Refused(f"{ROOT}: this is the folder itself; name a file in it")
        with self._at(parts[:-1], make=make) as above:
            try:
                yield above, parts[-1]
            except OSError as error:
                raise _refused(parts, error) from error

    @contextmanager
    def _at(self, parts: Parts, *, make: bool = False) -> Iterator[int]:
        here = os.open(self._root, _FOLDER)
        try:
            for place, name in enumerate(parts, start=1):
                try:
                    if make:
                        with suppress(FileExistsError):
                            os.mkdir(name, dir_fd=here)
                    below = os.open(name, _FOLDER, dir_fd=here)
                except OSError as error:
                    raise _refused(parts[:place], error) from error
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)


class _NotesCall(BaseModel):
    """A command with its arguments; `carry_out` returns its answer."""

    # One tool has the arguments of all commands, and models fill in those of others, too.
    model_config = ConfigDict(extra="ignore")


class _View(_NotesCall):
    command: Literal["view"]
    path: str
    view_range: Annotated[list[int], Field(min_length=2, max_length=2)] | None = None

    def carry_out(self, folder: Folder) -> str:
        parts = parts_of(self.path)
        if folder.is_folder(parts):
            return listing(folder, parts)
        lines = lines_of(folder.read(parts))
        if not lines:
            return f"{path_of(parts)} is empty."
        first, last = self.view_range or (1, -1)
        last = len(lines) if last == -1 else min(last, len(lines))
        if not 1 <= first <= last:
            raise Refused(f"view_range: {self.path} has lines 1 to {len(lines)}")
        shown: list[str] = []
        left = MOST_SHOWN
        for number in range(first, last + 1):
            line = f"{number}\t{lines[number - 1]}"
            # The first line is shown in any case, else a line above the limit could never be seen.
            if shown and len(line) > left:
                shown.append(f"… to see lines {number} to {last}, set view_range")
                break
            shown.append(line[:MOST_SHOWN])
            left -= len(line) + 1
        return "\n".join(shown)


class _Create(_NotesCall):
    command: Literal["create"]
    path: str
    file_text: str

    def carry_out(self, folder: Folder) -> str:
        folder.write(parts_of(self.path), self.file_text, new=True)
        return f"Created {self.path}."


class _Replace(_NotesCall):
    command: Literal["str_replace"]
    path: str
    old_str: Annotated[str, Field(min_length=1)]
    new_str: str = ""

    def carry_out(self, folder: Folder) -> str:
        parts = parts_of(self.path)
        text = folder.read(parts)
        found = text.count(self.old_str)
        if found != 1:
            often = f"occurs {found} times in {self.path}; give more of the text"
            never = f"does not occur word for word in {self.path}"
            raise Refused(f"old_str: {often if found else never}")
        folder.write(parts, text.replace(self.old_str, self.new_str))
        return f"Edited {self.path}."


class _Insert(_NotesCall):
    command: Literal["insert"]
    path: str
    insert_line: Annotated[int, Field(ge=0)]
    insert_text: str

    def carry_out(self, folder: Folder) -> str:
        parts = parts_of(self.path)
        lines = lines_of(folder.read(parts))
        if self.insert_line > len(lines):
            raise Refused(f"insert_line: expected 0 to {len(lines)}, the last line of {self.path}")
        lines[self.insert_line : self.insert_line] = lines_of(self.insert_text)
        folder.write(parts, "".join(f"{line}\n" for line in lines))
        return f"Edited {self.path}."


class _Delete(_NotesCall):
    command: Literal["delete"]
    path: str

    def carry_out(self, folder: Folder) -> str:
        folder.delete(parts_of(self.path))
        return f"Deleted {self.path}."


class _Rename(_NotesCall):
    command: Literal["rename"]
    old_path: str
    new_path: str

    def carry_out(self, folder: Folder) -> str:
        folder.rename(parts_of(self.old_path), parts_of(self.new_path))
        return f"Renamed {self.old_path} to {self.new_path}."


_Command = _View | _Create | _Replace | _Insert | _Delete | _Rename
_READER: TypeAdapter[_Command] = TypeAdapter(Annotated[_Command, Field(discriminator="command")])
READING = ("view",)
COMMANDS = tuple(
    get_args(kind.model_fields["command"].annotation)[0] for kind in get_args(_Command)
)

_TEXT = {"type": "string"}
_ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "path": {**_TEXT, "description": f"{ROOT}, or a file or folder below it (not for rename)"},
    "view_range": {
        "type": "array",
        "items": {"type": "integer"},
        "description": "view: the first and the last line to show; -1 is the end",
    },
    "file_text": {**_TEXT, "description": "create: the text of the new file"},
    "old_str": {**_TEXT, "description": "str_replace: a text that the file has once"},
    "new_str": {**_TEXT, "description": "str_replace: what comes in its place"},
    "insert_line": {"type": "integer", "description": "insert: the line to insert after; 0: first"},
    "insert_text": {**_TEXT, "description": "insert: the lines to insert"},
    "old_path": {**_TEXT, "description": "rename: the file or folder"},
    "new_path": {**_TEXT, "description": "rename: its new path"},
}


def tool(commands: Sequence[str]) -> dict[str, Any]:
    """Return the tool with some of its commands, as OpenAI's API takes it."""
    properties = {"command": {"type": "string", "enum": list(commands)}, **_ARGUMENTS}
    if commands == READING:
        properties = {name: properties[name] for name in ("command", "path", "view_range")}
    function = {
        "name": NAME,
        "description": f"Your notes: files in the folder {ROOT}.",
        "parameters": {"type": "object", "properties": properties, "required": ["command"]},
    }
    return {"type": "function", "function": function}


def carry_out(folder: Folder, name: str, arguments: str, commands: Sequence[str]) -> str:
    """Return the answer to a call of the tool: what was done, or in one line why nothing was."""
    try:
        if name != NAME:
            raise Refused(f"{name:.40}: there is no such tool; the only tool is {NAME}")
        asked = _read(arguments)
        # A model may call what it was not offered; a search must not change the notes.
        if asked.command not in commands:
            raise Refused(f"{asked.command}: not available now; available: {', '.join(commands)}")
        return asked.carry_out(folder)
    except Refused as refused:
        return " ".join(f"Error: {refused}".split())


def _read(arguments: str) -> _Command:
    try:
        return _READER.validate_json(arguments)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise Refused(f"{place}: {first['msg']}" if place else str(first["msg"])) from error


def listing(folder: Folder, inside: Parts = ()) -> str:
    """Return the paths of the files in a folder, one a line."""
    files = (path_of(file) for file in folder.files() if file[: len(inside)] == inside)
    return "\n".join(files) or f"{path_of(inside)} is empty."


def lines_of(text: str) -> list[str]:
    """Return the lines of a text as the commands count them."""
    return text.removesuffix("\n").split("\n") if text else []


def parts_of(path: str) -> Parts:
    """Return the names in a path; none of `ROOT` itself.

    Raises:
        Refused: If it is outside, or a name is none that every file system takes.
    """
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise Refused(f"{_shown(path)}: paths must begin with {ROOT}")
    inside = path.removeprefix(ROOT).strip("/")
    parts = tuple(inside.split("/")) if inside else ()
    if len(parts) > DEEPEST:
        raise Refused(f"{_shown(path)}: more than {DEEPEST} names below {ROOT}")
    for name in parts:
        if fault := _fault(name):
            raise Refused(f"{_shown(path)}: {fault}")
    return parts


def path_of(parts: Sequence[str]) -> str:
    """Return the path that `parts_of` reads."""
    return "/".join((ROOT, *parts))


def _fault(name: str) -> str:
    """Say why no file may be called so; nothing where it may."""
    if not name or name.startswith("."):
        return "names must not be empty or begin with a dot"
    # A mark that turns the writing direction shows another name; `\` and `:` part paths on Windows.
    if not name.isprintable() or set(name) & set("\\:"):
        return "names must not contain control characters, backslashes or colons"
    if len(name.encode(errors="replace")) > LONGEST_NAME:
        return f"names must not be longer than {LONGEST_NAME} bytes"
    stem = name.partition(".")[0].strip().upper()
    if stem in _DEVICES or (stem[:3] in _NUMBERED and stem[3:].isdigit()):
        return f"{stem} is the name of a device"
    return ""


def _shown(path: str) -> str:
    short = path if len(path) <= 80 else f"{path[:80]}…"
    return short if short.isprintable() else ascii(short)


def _check_plain(parts: Parts, found: os.stat_result) -> None:
    # A hard link is a plain file to every other check, and its content lies outside.
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise Refused(f"{path_of(parts)}: links and devices are not read")


def _check_size(parts: Parts, size: int) -> None:
    if size > LARGEST:
        most = f"a file may have at most {LARGEST:,} bytes; use several files"
        raise Refused(f"{path_of(parts)}: {most}")


def _refused(parts: Parts, error: OSError) -> Exception:
    """Return what to raise: a full disk and the like are no fault of the model."""
    if error.errno not in _ASKED_FOR:
        return error
    why = _MISSING if error.errno == errno.ENOENT else str(error.strerror).lower()
    return Refused(f"{path_of(parts)}: {why}")
