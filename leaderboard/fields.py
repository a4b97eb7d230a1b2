"""Types of the fields of a submission, each with the limits that a stranger's words are held to."""

from datetime import date
from itertools import repeat
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from alps.leaderboard.untrusted import fault_of
from alps.tasks import TASKS, all_tracks

_PRIVATE = (".local", ".internal", ".lan", ".localhost")
_MOST_NODES, _DEEPEST, _LONGEST_SETTING = 500, 6, 500


def _displayable(text: str) -> str:
    if fault := fault_of(text):
        raise ValueError(fault)
    return text


def _displayable_lines(text: str) -> str:
    if fault := fault_of(text, lines=True):
        raise ValueError(fault)
    return text


def _address(url: str) -> str:
    parts = urlsplit(_displayable(url))
    name = parts.hostname or ""
    # It is shown as a link: it must lead nobody into a network of their own, nor look like another
    # address, as one with somebody's name before an @ does.
    if parts.scheme != "https" or parts.username is not None or parts.password is not None:
        raise ValueError("must begin with https:// and hold neither user nor password")
    if "." not in name or not name.replace(".", "").replace("-", "").isalnum() or not url.isascii():
        raise ValueError("must name a public host in ASCII")
    if name.replace(".", "").isdigit() or name.endswith(_PRIVATE):
        raise ValueError("must name a public host")
    if set(url) & set("\"'`\\^|[]() "):
        raise ValueError("holds a character that an address does not need")
    return url


def _day(text: str) -> str:
    # `fromisoformat` takes other forms, too, as 20260131 from Python 3.11 on.
    if date.fromisoformat(text).isoformat() != text:
        raise ValueError("must be a day, as 2026-01-31")
    return text


def _track_name(name: str) -> str:
    if name not in all_tracks():
        raise ValueError("is no track of this version")
    return name


def _task_name(name: str) -> str:
    if name not in TASKS:
        raise ValueError(f"must be one of {', '.join(TASKS)}")
    return name


def _plain(value: Any) -> Any:
    """Accept short plain JSON: what the settings of a system or a judge may hold."""
    waiting, nodes = [(value, 1)], 0
    while waiting:
        node, level = waiting.pop()
        nodes += 1
        if nodes > _MOST_NODES or level > _DEEPEST:
            raise ValueError(f"too much: at most {_MOST_NODES} values, {_DEEPEST} deep")
        if isinstance(node, dict):
            waiting += zip(node, repeat(level))
            node = [*node.values()]
        if isinstance(node, list):
            waiting += zip(node, repeat(level + 1))
        elif isinstance(node, str) and node:
            if len(node) > _LONGEST_SETTING:
                raise ValueError(f"a text in it is longer than {_LONGEST_SETTING} characters")
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
