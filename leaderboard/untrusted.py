"""Untrusted files and texts: read strictly, and kept from being displayed or published as they are.

Files are plain, bounded in size, and JSON without ambiguities. Texts hold no markup and nothing
invisible, no key and no path of a machine; names that read alike are told apart.
"""

import json
import os
import re
import socket
import stat
import unicodedata
from collections.abc import Collection, Iterator
from datetime import date
from functools import cache, partial
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

import regex
from pydantic import AfterValidator, BaseModel, Field, StringConstraints, ValidationError

from alps.errors import DataError
from alps.jsonl import parse_strict
from alps.llm.secrets import redact, secret_in
from alps.show.spreadsheets import INVISIBLE
from alps.tasks import board_tasks, board_tracks
from alps.text import prototypes

MEBIBYTE = 1 << 20
LARGEST_CARD, LARGEST_FILE, LONGEST_LINE = MEBIBYTE, 200 * MEBIBYTE, MEBIBYTE
# Readers of JSON agree about integers up to 2^53, which has 16 digits.
DEEPEST, LONGEST_INTEGER = 20, 16

ModelT = TypeVar("ModelT", bound=BaseModel)

_UNDISPLAYABLE = regex.compile(rf"{INVISIBLE.pattern}|[\p{{Zl}}\p{{Zp}}]|(?! )\p{{Zs}}")
_STACKED_MARKS = regex.compile(r"[\p{Mn}\p{Me}]{4}")
_MARKUP = re.compile(
    r"<\s*[A-Za-z/!?]|&#|&[A-Za-z][A-Za-z0-9]{1,30};|\{\{|\{%"
    r"|\b(?:javascript|vbscript|livescript)\s*:|\bdata\s*:\s*text/"
    r"|\bon[a-z]{3,20}\s*=",
    re.IGNORECASE,
)
_SPACE = regex.compile(r"[\p{Z}\s]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_ALPHABETS = {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"}
_HOMES = re.compile(r"(?<![\w.])(?:/home/|/Users/|/root/|[A-Za-z]:\\Users\\|~/)[^\s\"',;:)]+")
_ABSOLUTE = re.compile(
    r"(?<![\w:/.@-])/(?:[\w.@+-]+/)+[\w.@+-]*|(?<!\w)[A-Za-z]:[\\/][\w.-]|\\\\[\w.-]+\\"
)
_HOST = re.compile(
    r"https?://[^\s\"'<>]+|\blocalhost\b(?::\d+)?|\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?"
    r"|\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:local|internal|lan|intranet|corp)\b",
    re.IGNORECASE,
)
_LIKE_A_KEY = re.compile(r"(?=.*\d)(?=.*[A-Za-z]).{20,}")


def parse(data: bytes | str) -> Any:
    """Read one JSON value without duplicate keys, NaN, huge numbers or deep nesting.

    Raises:
        ValueError: If it is not JSON in UTF-8, or JSON that readers would not agree about; one
            line, what is wrong.
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    try:
        return parse_strict(text, deepest=DEEPEST, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg.lower()} at character {error.pos})") from error


def _integer(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise ValueError(f"the integer {text[:20]}… has more than {LONGEST_INTEGER} digits")
    return int(text)


def open_plain(path: Path, most: int) -> BinaryIO:
    """Open a plain file of at most `most` bytes, without following a link or waiting on a pipe.

    Raises:
        ValueError: If there is none, it is a link, a pipe or something else, or it is too large.
    """
    # O_NONBLOCK: opening a pipe would wait for a writer for ever. Windows has neither flag.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        reason = "a link" if path.is_symlink() else error.strerror or "can't be opened"
        raise ValueError(reason) from error
    status = os.fstat(handle)
    fault = "" if stat.S_ISREG(status.st_mode) else "not a plain file"
    if not fault and status.st_size > most:
        fault = f"{status.st_size:,} bytes; the limit is {most:,} bytes"
    if fault:
        os.close(handle)
        raise ValueError(fault)
    return os.fdopen(handle, "rb")


def read_json(path: Path) -> Any:
    """Read a small file that holds one JSON value.

    Raises:
        ValueError: If it is no plain file of at most a mebibyte, or not strict JSON.
    """
    with open_plain(path, LARGEST_CARD) as file:
        return parse(file.read(LARGEST_CARD))


def read_model(path: Path, model: type[ModelT]) -> ModelT:
    """Read a file that holds one JSON object of the form `model`.

    Raises:
        DataError: If it can't be read, or does not fit; names the file and the field.
    """
    try:
        return model.model_validate(read_json(path))
    except ValidationError as error:
        faults = faults_of(error)
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise DataError(f"{faults[0][1]}{more}", path=path, field=faults[0][0]) from error
    except ValueError as error:
        raise DataError(str(error), path=path) from error


def faults_of(error: ValidationError) -> list[tuple[str, str]]:
    """Return the fields that don't fit, each with what is wrong; safe to print."""
    faults = []
    for fault in error.errors(include_url=False):
        steps = [shown(str(step), 40) for step in fault["loc"] if step != "[key]"]
        message = fault["msg"].removeprefix("Value error, ").replace("\n", " ")
        if fault["type"] == "extra_forbidden":
            message = "no such field"
        faults.append((".".join(steps) or "the file", message[:1].lower() + message[1:]))
    return faults


def scan_rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | None, str]]:
    """Yield `(line, row, fault)` of every line; the row is None where there is a fault.

    Raises:
        ValueError: If the file can't be read.
    """
    with open_plain(path, LARGEST_FILE) as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            try:
                yield number, _row(line), ""
            except ValueError as error:
                yield number, None, str(error)
            # The end of a line that is too long is never looked for.
            if len(line) > LONGEST_LINE:
                return


def _row(line: bytes) -> dict[str, Any]:
    if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
        raise ValueError(f"longer than {LONGEST_LINE:,} bytes")
    if not line.endswith(b"\n"):
        raise ValueError("cut off: no line break at the end")
    row = parse(line)
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {type(row).__name__}")
    return row


def is_number(value: object) -> bool:
    """Tell whether a value of a file is a number; a mark that is met or not is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def fault_of(text: str, *, lines: bool = False) -> str | None:
    """Return why `text`, which may have several `lines`, must not be shown; None if it may."""
    if hidden := _UNDISPLAYABLE.search(text.replace("\n", "") if lines else text):
        return f"contains the invisible character U+{ord(hidden[0]):04X}"
    if text != unicodedata.normalize("NFC", text):
        return "is not in Unicode's composed form (NFC)"
    if _STACKED_MARKS.search(text):
        return "stacks combining marks"
    if markup := _MARKUP.search(text):
        return f"contains markup or script ({markup[0].strip()!r})"
    if text != text.strip() or not text:
        return "is empty, or begins or ends with white space"
    return None


def shown(text: str, most: int = 60) -> str:
    """Return untrusted text for a message: one line, short, every odd character escaped."""
    # Escapes, where a terminal would be steered or letters would look like others.
    flat = "".join(map(_escaped, text[: most + 1]))
    return flat if len(text) <= most else flat[: most - 1] + "…"


def _escaped(character: str) -> str:
    code = ord(character)
    if character.isprintable() and code < 0x2000:
        return character
    # `\u` takes four digits: of more, as an emoji has, it would name another character.
    return f"\\u{code:04x}" if code < 0x10000 else f"U+{code:04X}"


def mixed_scripts(text: str) -> str | None:
    """Return the first word that mixes letters of two similar alphabets, if any."""
    for word in _LETTERS.findall(text):
        scripts = {unicodedata.name(character, "").partition(" ")[0] for character in word}
        if len(scripts & _ALPHABETS) > 1:
            return str(word)
    return None


def read_alike(one: str, other: str) -> bool:
    """Tell whether two names look alike, ignoring case and invisible characters."""
    return not _name_keys(one).isdisjoint(_name_keys(other))


def skeleton(text: str) -> str:
    """Return the skeleton of `text`: texts that look the same have the same one (UTS 39, 4)."""
    visible: str = INVISIBLE.sub("", _SPACE.sub(" ", unicodedata.normalize("NFD", text)))
    mapped = "".join(prototypes().get(character, character) for character in visible)
    spaced: str = _SPACE.sub(" ", unicodedata.normalize("NFD", mapped))
    return spaced.strip()


@cache
def _name_keys(text: str) -> frozenset[str]:
    # Both orders of folding case: `RuIes` with a capital I reads as `Rules`, which only its
    # skeleton before folding tells; `RULEЅ` with a Cyrillic letter is `Rules` in capitals, which
    # only the one after it tells. The capital of a letter outside ASCII may look like another one
    # than the letter does (the palochka), and compatibility forms, as superscripts, are forms of
    # letters.
    capitals = "".join(c if c.isascii() else c.upper() for c in text)
    forms = (text, capitals, unicodedata.normalize("NFKC", text))
    before = {skeleton(form).casefold() for form in forms}
    after = {skeleton(form.casefold()) for form in forms}
    return frozenset(before | after | {skeleton(key) for key in before})


def leak_in(text: str, *, hosts: bool = True) -> str | None:
    """Say what a card or a message must not hold and `text` does; never repeats a secret.

    Addresses of `hosts` are a leak but in what people write for readers.
    """
    if redact(text) != text:
        return "a key, or text that looks like a key"
    if name := secret_in(text):
        return f"a key: the value of {name}"
    if path := _HOMES.search(text) or _ABSOLUTE.search(text):
        return f"an absolute path ({path[0][:40]})"
    if hosts and (host := _HOST.search(text)):
        return f"the address of a host ({host[0][:40]})"
    own = socket.gethostname()
    # A host's name that can be an ordinary word is no leak.
    if len(own) >= 8 and re.search(r"[\d.-]", own) and own in text:
        return "the name of this machine"
    return None


def leak_in_answer(text: str, *, secret: Collection[str] = ()) -> str | None:
    """Say what an answer must not hold: less than a card, as dialogues may name paths and hosts.

    `secret` are variables of the environment whose values are secret, whatever their names say.
    """
    if redact(text) != text:
        for word in re.split(r"[\s\"',;:(){}\[\]<>]+", text):
            if _LIKE_A_KEY.match(word) and redact(word) != word:
                return "text that looks like a key"
    if name := secret_in(text, also=secret):
        return f"a key: the value of {name}"
    own = {os.path.expanduser("~"), os.environ.get("HOME", ""), str(Path.cwd())}
    for folder in sorted(own):
        # A folder at the top of the disk names nobody.
        if folder.count(os.sep) > 1 and folder in text:
            return f"a folder of this machine ({folder})"
    return None


def all_text(value: Any, *, keys: bool = True) -> str:
    """Return every text in plain JSON, one a line."""
    return "\n".join(text for text, _ in texts_of(value, keys=keys))


def texts_of(value: Any, *, keys: bool = True) -> Iterator[tuple[str, str]]:
    """Yield every text in plain JSON, its keys unless unwanted, with the path to it."""
    waiting = [(value, "")]
    while waiting:
        node, path = waiting.pop()
        if isinstance(node, str):
            yield node, path
        elif isinstance(node, dict):
            yield from ((name, path) for name in node if keys)
            waiting += [(child, f"{path}.{name}" if path else name) for name, child in node.items()]
        elif isinstance(node, list | tuple):
            waiting += [(child, f"{path}.{index}") for index, child in enumerate(node)]


_PRIVATE = (".local", ".internal", ".lan", ".localhost")
_MOST_NODES, _DEEPEST, _LONGEST_SETTING = 500, 6, 500


def _displayable(text: str, *, lines: bool = False) -> str:
    if fault := fault_of(text, lines=lines):
        raise ValueError(fault)
    return text


_displayable_lines = partial(_displayable, lines=True)


def _address(url: str) -> str:
    parts = urlsplit(_displayable(url))
    name = parts.hostname or ""
    # It is shown as a link: it must lead nobody into a network of their own, nor look like another
    # address, as one with somebody's name before an @ does.
    if parts.scheme != "https" or "@" in parts.netloc:
        raise ValueError("must begin with https:// and contain neither a user name nor a password")
    if "." not in name or not name.replace(".", "").replace("-", "").isalnum() or not url.isascii():
        raise ValueError("must name a public host in ASCII")
    if name.replace(".", "").isdigit() or name.endswith(_PRIVATE):
        raise ValueError("must name a public host")
    if set(url) & set("\"'`\\^|[]() "):
        raise ValueError("contains a character that is not allowed in an address")
    return url


def _day(text: str) -> str:
    # `fromisoformat` takes other forms, too, as 20260131 from Python 3.11 on.
    if date.fromisoformat(text).isoformat() != text:
        raise ValueError("must be a date such as 2026-01-31")
    return text


def _track_name(name: str) -> str:
    if name not in board_tracks():
        why = "is neither a task of this version nor of an installed extension"
        raise ValueError(f"{why}; install that extension")
    return name


def _task_name(name: str) -> str:
    if name not in board_tasks():
        raise ValueError(f"must be one of {', '.join(board_tasks())}")
    return name


def _plain(value: Any) -> Any:
    """Accept short plain JSON: what the settings of a system or a judge may hold."""
    waiting, nodes = [(value, 1)], 0
    while waiting:
        node, level = waiting.pop()
        nodes += 1
        if nodes > _MOST_NODES or level > _DEEPEST:
            raise ValueError(
                f"too large: at most {_MOST_NODES} values, nested at most {_DEEPEST} deep"
            )
        if isinstance(node, dict):
            waiting += zip(node, repeat(level))
            node = [*node.values()]
        if isinstance(node, list):
            waiting += zip(node, repeat(level + 1))
        elif isinstance(node, str) and node:
            if len(node) > _LONGEST_SETTING:
                raise ValueError(f"contains a text longer than {_LONGEST_SETTING} characters")
            _displayable_lines(node)
    return value


Line = Annotated[str, StringConstraints(min_length=1, max_length=120), AfterValidator(_displayable)]
Long = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_displayable)]
Notes = Annotated[
    str, StringConstraints(min_length=1, max_length=2_000), AfterValidator(_displayable_lines)
]
Url = Annotated[str, StringConstraints(max_length=300), AfterValidator(_address)]
Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$"), AfterValidator(_day)]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$", max_length=80)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./:@+-]{0,79}$")]
TrackName = Annotated[str, AfterValidator(_track_name)]
TaskName = Annotated[str, AfterValidator(_task_name)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
FingerprintId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}(?:, [0-9a-f]{40}){0,9}$")]
Count = Annotated[int, Field(ge=0, le=10**12)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Plain = Annotated[Any, AfterValidator(_plain)]
Settings = Annotated[dict[Name, Plain], Field(max_length=100), AfterValidator(_plain)]
