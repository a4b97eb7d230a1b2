"""Histories that many questions share, each read as far as a question reaches.

`shared_contexts_<size>.jsonl` holds one history a line (Jiang et al., COLM 2025, arXiv 2504.14225).
A history of a million tokens is 5 MB, and hundreds of questions share it: an index of where each
message ends is built once, kept in the user's cache, and only the slice of a question is read.
"""

import hashlib
import json
from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from json.decoder import JSONDecoder
from pathlib import Path
from typing import Any

from alps.errors import DataError
from alps.folders import cache_folder, can_be_kept, keep_private
from alps.jsonl import parse_json
from alps.schema import Turn

INDEX_VERSION = 1
ROLES = ("system", "user", "assistant")


@dataclass(frozen=True)
class _Place:
    """Where one history lies in its file.

    Attributes:
        start: The byte that its first message begins at.
        ends: For each message, the bytes from `start` to where it ends.
    """

    start: int
    ends: "array[int]"


@dataclass(frozen=True)
class Histories:
    """The histories of one file, read on demand.

    Attributes:
        path: The file.
        sha256: Its hash; the index goes by it, so that it is never that of another file.
    """

    path: Path
    sha256: str
    # The one that was read last, as far as it was read: questions in a row share one.
    _last: dict[str, tuple[Turn, ...]] = field(default_factory=dict, compare=False, repr=False)

    def __contains__(self, history: str) -> bool:
        """Tell whether the file has a history of that id."""
        return history in self._places

    def length(self, history: str) -> int:
        """Return how many messages a history has."""
        return len(self._places[history].ends)

    def read(self, history: str, end: int, start: int = 0) -> tuple[Turn, ...]:
        """Return the messages of a history from place `start` to before place `end`."""
        place = self._places[history]
        if start:
            return self._parsed(place, start, end)
        known = self._last.get(history, ())
        if len(known) < end:
            known += self._parsed(place, len(known), end)
            self._last.clear()
            self._last[history] = known
        return known[:end]

    def _parsed(self, place: _Place, start: int, end: int) -> tuple[Turn, ...]:
        """Read the messages from place `start` to before place `end` from the file."""
        if end <= start:
            return ()
        before = place.ends[start - 1] if start else 0
        with self.path.open("rb") as file:
            file.seek(place.start + before)
            messages = file.read(place.ends[end - 1] - before).strip().removeprefix(b",")
        rows = json.loads(b"[" + messages + b"]")
        return tuple(Turn(role=row["role"], text=row["content"]) for row in rows)

    @cached_property
    def _places(self) -> dict[str, _Place]:
        kept = _index_file(self.sha256)
        if kept is not None and (places := _read_index(kept)) is not None:
            return places
        places = _scan(self.path)
        if kept is not None:
            _write_index(kept, places)
        return places


def open_histories(path: Path) -> Histories:
    """Open a file of histories; only its bytes are hashed.

    Raises:
        DataError: If it can't be read.
    """
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
    except OSError as error:
        raise DataError(f"can't be read ({error.strerror})", path=path) from error
    return Histories(path, digest.hexdigest())


def _scan(path: Path) -> dict[str, _Place]:
    """Find where every message ends, a line at a time: memory is that of the longest line."""
    places: dict[str, _Place] = {}
    offset = 0
    with path.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            if raw.strip():
                try:
                    text = raw.decode()
                    for name, place in _histories_of(text, offset):
                        if name in places:
                            raise ValueError(f"history '{name}' appears twice")
                        places[name] = place
                except (ValueError, RecursionError) as error:
                    raise DataError(f"not a history ({error})", path=path, line=line) from error
            offset += len(raw)
    return places


def _histories_of(text: str, offset: int) -> Iterator[tuple[str, _Place]]:
    """Yield the histories of one line, `{"id": [{"role": …, "content": …}, …], …}`.

    Raises:
        ValueError: If the line is something else.
    """
    decode = JSONDecoder().raw_decode
    at = _after(text, 0, "{")
    while True:
        name, at = decode(text, _skip(text, at))
        if not isinstance(name, str):
            raise ValueError("expected the id of a history")
        at = _after(text, _after(text, at, ":"), "[")
        start, ends = at, array("q")
        measured, bytes_before = at, 0
        while text[_skip(text, at) : _skip(text, at) + 1] != "]":
            if ends:
                at = _after(text, at, ",")
            message, at = decode(text, _skip(text, at))
            _check(message, name, len(ends))
            bytes_before += len(text[measured:at].encode())
            measured = at
            ends.append(bytes_before)
        yield name, _Place(offset + len(text[:start].encode()), ends)
        at = _skip(text, _after(text, at, "]"))
        if text[at : at + 1] == "}":
            break
        at = _after(text, at, ",")
    if text[at + 1 :].strip():
        raise ValueError("unexpected text after the histories")


def _check(message: Any, history: str, place: int) -> None:
    if not isinstance(message, dict):
        raise ValueError(f"{history}[{place}]: expected a message with role and content")
    for name in ("role", "content"):
        if not isinstance(message.get(name), str):
            raise ValueError(f"{history}[{place}].{name}: expected a string")
    if message["role"] not in ROLES:
        shown = f"{history}[{place}].role: '{message['role'][:20]}'"
        raise ValueError(f"{shown} is not one of {', '.join(ROLES)}")


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\r", "\n"):
        at += 1
    return at


def _after(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"expected '{mark}' at character {at + 1}")
    return at + 1


def _index_file(sha256: str) -> Path | None:
    folder = cache_folder()
    if folder is None or not can_be_kept(folder / "personamem"):
        return None
    return folder / "personamem" / f"{sha256}-{INDEX_VERSION}.json"


def _read_index(path: Path) -> dict[str, _Place] | None:
    """Read a kept index; None where there is none, or it was cut off: it is then built again."""
    try:
        rows = parse_json(path.read_bytes())
        return {name: _Place(start, array("q", ends)) for name, (start, ends) in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _write_index(path: Path, places: Mapping[str, _Place]) -> None:
    rows = {name: (place.start, place.ends.tolist()) for name, place in places.items()}
    scratch = path.with_suffix(".new")
    with suppress(OSError):  # a full disk costs the next run a scan, and nothing else
        scratch.touch()
        keep_private(scratch)
        scratch.write_text(json.dumps(rows))
        scratch.replace(path)
