"""Terms of a provider's batch interface, whatever its shape: lines, states and results.

A request is written at once to the file of its batch, and kept only there.
"""

import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from alps.errors import UsageError
from alps.jsonl import parse_json
from alps.llm.prices import entry_of
from alps.llm.types import TransportError
from alps.sizes import LARGEST_REPLY

FILES = ("openai", "azure", "litellm_proxy", "hosted_vllm")
"""Providers whose batches are files of requests, as those of OpenAI are."""
MESSAGES = ("anthropic",)
BATCHED = (*FILES, *MESSAGES)

_MOST_REQUESTS = 10_000_000
_LONGEST_NAME = 1_000
# Bytes; the longest answers of today, of 128k tokens, are below 1 MB.
_LARGEST_RESULT = 1 << 20
# Bytes of the results of one batch; 10,000 of the longest answers of today are below it.
_LARGEST_RESULTS = 1 << 30
_PIECE = 1 << 20


@dataclass(frozen=True)
class DraftRequest:
    """A request as its provider would have been sent it: address, headers, and the JSON body."""

    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class BatchForm:
    """How an interface has the requests of a batch, and how much it takes.

    Attributes:
        most: Requests of one batch.
        largest: Bytes of one batch.
        opening: What stands before the first request.
        between: What stands between two of them.
        closing: What stands after the last.
    """

    most: int
    largest: int
    opening: bytes = b""
    between: bytes = b""
    closing: bytes = b""


@dataclass(frozen=True)
class BatchLine:
    """One request of a batch: its id, which is its cache key, and what would have been sent."""

    key: str
    draft: DraftRequest


@dataclass(frozen=True)
class State:
    """How far a batch is.

    Attributes:
        ended: Whether nothing more will come.
        done: How many of its requests have ended, in whatever way.
        failed: Why none of it was carried out; None where it was taken.
        files: Where its results lie, for interfaces with files.
    """

    ended: bool
    done: int = 0
    failed: str | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class ListedBatch:
    """A batch as a list of the provider's batches has it.

    `at` is in seconds since 1970, None where the list does not say.
    """

    id: str
    at: float | None
    size: int
    tag: str | None = None


@dataclass(frozen=True)
class Page:
    """A page of the provider's batches, the newest first; `after` names the next, None for none."""

    rows: tuple[ListedBatch, ...]
    after: str | None = None


@dataclass(frozen=True)
class BatchResult:
    """Outcome of one request.

    Attributes:
        key: Its id.
        status: The HTTP status that it would have had; None where it was not answered.
        body: The body of its answer.
        lost: Why it was not answered.
        billed: False where a request without an answer costs nothing, None where nobody can know.
    """

    key: str
    status: int | None = None
    body: bytes = b""
    lost: str = ""
    billed: bool | None = False


@dataclass
class Results:
    """The results of one batch by id, and what was odd about their lines."""

    by_key: dict[str, BatchResult] = field(default_factory=dict)
    unreadable: int = 0
    unknown: int = 0
    twice: int = 0

    def read(self, data: bytes, keys: Iterable[str], of_row: Callable[[Any], BatchResult]) -> None:
        """Take in lines, in whatever order; of several with one id the first counts.

        A line that `of_row` refuses by a ValueError is counted, and its request asked again.
        """
        known = set(keys)
        for line in data.splitlines():
            if not line.strip():
                continue
            try:
                result = of_row(parse_json(line))
            except ValueError:
                self.unreadable += 1
                continue
            if result.key not in known:
                self.unknown += 1
            elif result.key in self.by_key:
                self.twice += 1
            else:
                self.by_key[result.key] = result


def provider_of(model: str) -> str:
    """Return the provider that `model` names, or that litellm's table has it from."""
    provider, slash, _ = model.partition("/")
    return provider if slash else str((entry_of(model) or {}).get("litellm_provider"))


def check_batched(key: str, model: str) -> None:
    """Refuse a model whose provider takes no batches that can be sent from here.

    Raises:
        UsageError: Names the setting and the model.
    """
    provider = provider_of(model)
    if provider not in BATCHED:
        known = ", ".join(BATCHED)
        raise UsageError(
            f"batch=yes: {key}={model}: alps sends no batches to {provider} (only to {known}); "
            "leave batch= out"
        )


def largest_results(requests: int) -> int:
    """Return the most bytes of the results of so many requests: a small batch has small ones."""
    return min(_LARGEST_RESULTS, LARGEST_REPLY + requests * _LARGEST_RESULT)


def odd(what: str, error: Exception | None = None) -> TransportError:
    """Return the error for an answer of a batch interface that can't be read."""
    why = f" ({type(error).__name__})" if error is not None else ""
    told = f"the provider's batch interface returned {what}{why}"
    return TransportError(told, transient=True, billed=True)


def read_object(data: bytes) -> dict[str, Any]:
    """Read an answer of success of a batch interface.

    Raises:
        TransportError: If it is no object of JSON.
    """
    try:
        answer = parse_json(data)
    except ValueError as error:
        raise odd("a reply that is not JSON", error) from error
    if not isinstance(answer, dict):
        raise odd("a reply that is not an object")
    return answer


def text_of(row: Any, name: str) -> str:
    """Return a text that has to be in a part of an answer.

    Raises:
        TransportError: If it is not.
    """
    value = part_of(row, name)
    if not isinstance(value, str) or not value:
        raise odd(f"no {name}")
    return value


def name_of(row: Any) -> str:
    """Return the provider's name of a batch or a file.

    Raises:
        TransportError: If there is none, or one that can't stand in an address.
    """
    name = text_of(row, "id")
    if not is_name(name):
        raise odd("an invalid id")
    return name


def is_name(value: Any) -> bool:
    """Tell whether a value can be the provider's name of a batch or a file."""
    is_word = isinstance(value, str) and value.isascii() and value.isprintable()
    return is_word and 0 < len(value) <= _LONGEST_NAME and value not in (".", "..")


def part_of(row: Any, name: str) -> Any:
    """Return a field of a part of an answer; None where that is no object, or has none."""
    return row.get(name) if isinstance(row, dict) else None


def rows_of(row: Any, name: str) -> list[Any]:
    """Return a list in a part of an answer; an empty one where there is none."""
    value = part_of(row, name)
    return value if isinstance(value, list) else []


def count_of(row: Any, name: str) -> int:
    """Return a number of requests; 0 where there is none that can be meant."""
    value = part_of(row, name)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= _MOST_REQUESTS else 0


def time_of(row: Any, name: str) -> float | None:
    """Return a time in seconds since 1970, written as a number or as ISO 8601; None for none."""
    value = part_of(row, name)
    try:
        at = datetime.fromisoformat(value).timestamp() if isinstance(value, str) else float(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return at if math.isfinite(at) else None


def as_json(value: Any) -> bytes:
    """Return `value` as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


class Spool:
    """The requests of one batch, in a file without a name, which is gone with its process.

    Args:
        folder: Where the file lies.
        form: How the interface has it.

    Attributes:
        url: Where each of the requests would have been sent.
        keys: The ids of the requests.
        betas: What of an interface's betas the requests ask for, each as its header has it.
        size: Bytes that are written.
    """

    def __init__(self, folder: Path, form: BatchForm) -> None:
        self._form = form
        # open until the batch is submitted
        self._file: IO[bytes] = TemporaryFile(dir=folder)  # noqa: SIM115
        self.url, self.size = "", 0
        self.keys: list[str] = []
        self.betas: set[str] = set()
        self._write(form.opening)

    def takes(self, row: bytes) -> bool:
        """Tell whether one more request fits into the batch; into an empty one any does."""
        size = self.size + len(self._form.between) + len(row) + len(self._form.closing)
        fits = len(self.keys) < self._form.most and size <= self._form.largest
        return fits or not self.keys

    def add(self, line: BatchLine, row: bytes) -> None:
        """Write a request."""
        self._write(self._form.between if self.keys else b"")
        self._write(row)
        self.url = line.draft.url
        self.keys.append(line.key)
        self.betas.add(line.draft.headers.get("anthropic-beta", ""))

    def finish(self) -> None:
        """Write the end: no request comes after it."""
        self._write(self._form.closing)

    def opened(self) -> IO[bytes]:
        """Return the file at its beginning; the reader leaves it open."""
        self._file.seek(0)
        return self._file

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield what the file holds."""
        file = self.opened()
        while piece := file.read(_PIECE):
            yield piece

    def close(self) -> None:
        """Forget the requests."""
        self._file.close()

    def _write(self, part: bytes) -> None:
        self.size += self._file.write(part)
