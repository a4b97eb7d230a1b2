"""The tool `memory` that a model keeps notes with: six commands on a folder.

Commands and arguments are those of the memory tool in Anthropic's documentation ("Memory tool",
type `memory_20250818`); every model that calls functions can use them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from alps.ext.memory.notes.folder import ROOT, Folder, Parts, Refused, parts_of, path_of

NAME = "memory"
VERSION = 1
"""Raised whenever the same call may be answered otherwise."""
MOST_SHOWN = 16_000
"""Characters of one answer."""


class _Asked(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _View(_Asked):
    command: Literal["view"]
    path: str
    view_range: Annotated[list[int], Field(min_length=2, max_length=2)] | None = None


class _Create(_Asked):
    command: Literal["create"]
    path: str
    file_text: str


class _Replace(_Asked):
    command: Literal["str_replace"]
    path: str
    old_str: Annotated[str, Field(min_length=1)]
    new_str: str = ""


class _Insert(_Asked):
    command: Literal["insert"]
    path: str
    insert_line: Annotated[int, Field(ge=0)]
    insert_text: str


class _Delete(_Asked):
    command: Literal["delete"]
    path: str


class _Rename(_Asked):
    command: Literal["rename"]
    old_path: str
    new_path: str


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
            raise Refused(f"{name:.40}: there is no such tool; the only one is {NAME}")
        asked = _read(arguments)
        if asked.command not in commands:
            raise Refused(f"{asked.command}: only {', '.join(commands)} now")
        return _CARRIED_OUT[asked.command](folder, asked)
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


def _view(folder: Folder, asked: _View) -> str:
    parts = parts_of(asked.path)
    if folder.is_folder(parts):
        return listing(folder, parts)
    lines = lines_of(folder.read(parts))
    if not lines:
        return f"{path_of(parts)} is empty."
    first, last = asked.view_range or (1, -1)
    last = len(lines) if last == -1 else min(last, len(lines))
    if not 1 <= first <= last:
        raise Refused(f"view_range: {asked.path} has the lines 1 to {len(lines)}")
    shown: list[str] = []
    left = MOST_SHOWN
    for number in range(first, last + 1):
        line = f"{number}\t{lines[number - 1]}"
        if shown and len(line) > left:
            shown.append(f"… lines {number} to {last}: give view_range")
            break
        shown.append(line[:MOST_SHOWN])
        left -= len(line) + 1
    return "\n".join(shown)


def _create(folder: Folder, asked: _Create) -> str:
    folder.write(parts_of(asked.path), asked.file_text, new=True)
    return f"Created {asked.path}."


def _replace(folder: Folder, asked: _Replace) -> str:
    parts = parts_of(asked.path)
    text = folder.read(parts)
    found = text.count(asked.old_str)
    if found != 1:
        often = f"{found} times: give more of the text" if found else "nowhere, word for word"
        raise Refused(f"old_str: it is in {asked.path} {often}")
    folder.write(parts, text.replace(asked.old_str, asked.new_str))
    return f"Edited {asked.path}."


def _insert(folder: Folder, asked: _Insert) -> str:
    parts = parts_of(asked.path)
    lines = lines_of(folder.read(parts))
    if asked.insert_line > len(lines):
        raise Refused(f"insert_line: {asked.path} has {len(lines)} lines, so 0 to {len(lines)}")
    lines[asked.insert_line : asked.insert_line] = lines_of(asked.insert_text)
    folder.write(parts, "".join(f"{line}\n" for line in lines))
    return f"Edited {asked.path}."


def _delete(folder: Folder, asked: _Delete) -> str:
    folder.delete(parts_of(asked.path))
    return f"Deleted {asked.path}."


def _rename(folder: Folder, asked: _Rename) -> str:
    folder.rename(parts_of(asked.old_path), parts_of(asked.new_path))
    return f"Renamed {asked.old_path} to {asked.new_path}."


_CARRIED_OUT: Mapping[str, Callable[[Folder, Any], str]] = {
    "view": _view,
    "create": _create,
    "str_replace": _replace,
    "insert": _insert,
    "delete": _delete,
    "rename": _rename,
}
