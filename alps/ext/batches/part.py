"""The part of batches in a run: whether they are taken, room for what waits, and their journal."""

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from alps.errors import UsageError
from alps.ext.batches import FILE
from alps.ext.batches.interface import check_batched, is_name, time_of
from alps.ext.batches.settings import BatchKeys
from alps.jsonl import Appender, Row, scan
from alps.judges.embedded import is_embedded_judge
from alps.llm.prices import BATCH
from alps.llm.types import Request
from alps.run.parts import RunPart
from alps.run.services import Services, Shared, say_once
from alps.run.source import RunData
from alps.settings import RunSettings
from alps.systems import is_local
from alps.tasks import Task

if TYPE_CHECKING:
    from alps.ext.batches.gather import Batches

MOST = 256 << 20
# Measured on records of 20 kB and of 4 MB: the record, its prompt and what is made of both; and
# the tasks that wait for one answer
_TIMES, _EACH = 4, 16 << 10
# Records that begin before the size of one is known
_UNSEEN = 16
# Steps of a batch of which answers may still come
_OPEN = ("intended", "placed", "ordered")


class BatchRunPart(RunPart):
    """Gathers the requests of a run, or takes up what an earlier command ordered."""

    def __init__(self, settings: RunSettings) -> None:
        super().__init__(settings)
        self._keys = BatchKeys.of(settings)

    def check(self, data: RunData, *, generate: bool, keys: bool) -> None:
        """Refuse `batch=yes` if nothing is asked of an LLM, or its provider takes no batches."""
        if not self._keys.batch:
            return
        asked = list(asked_in_batches(self.settings, data.tasks if generate else ()))
        if not asked:
            why = "this run calls no LLM"
            raise UsageError(f"batch=yes would change nothing: {why}; leave it out")
        for key, request in asked:
            check_batched(key, request.model)

    def gather(self, folder: Path, shared: Shared) -> "Batches | None":
        """Open the batches of a run folder; None where it has none under way and wants none."""
        if not self._keys.batch and not (folder / FILE).exists():
            return None
        from alps.ext.batches.gather import Batches

        return Batches(
            BatchJournal(folder),
            gather=self._keys.batch,
            room=shared.one(Room),
            deadline=self._keys.batch_deadline,
            patience=self.settings.patience,
            notice=say_once,
        )

    async def begin(self, services: Services, data: RunData, *, generate: bool) -> None:
        """Ask each endpoint for its batches, before anything is paid for."""
        from alps.ext.batches.gather import Batches

        if isinstance(services.batches, Batches) and self._keys.batch:
            for _, request in asked_in_batches(self.settings, data.tasks if generate else ()):
                await services.batches.check(request)


def asked_in_batches(
    settings: RunSettings, tasks: Sequence[Task]
) -> Iterator[tuple[str, Request[str]]]:
    """Yield the models asked in batches: the key of the setting, and a request.

    `tasks` are those that are answered; none where predictions are judged again.
    """
    nothing = ({"role": "user", "content": "."},)
    answering = [task for task in tasks if task.asking.own_system is None]
    if answering and not is_local(settings.model, tasks):
        base, extra = settings.api_base, settings.request or {}
        yield "model", Request(settings.model, nothing, None, api_base=base, extra=extra)
    if not is_embedded_judge(settings.judge):
        base, extra = settings.judge_api_base, settings.judge_request or {}
        yield "judge", Request(settings.judge, nothing, None, api_base=base, extra=extra)


@dataclass
class _Record:
    """A record under way; None until a request of it is known."""

    size: int | None = None


_current: ContextVar[_Record | None] = ContextVar("record", default=None)


class Room:
    """A context for each record: who waits for room holds no record in memory.

    Args:
        most: Bytes that all records under way may take; one alone may take more.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most, self._held = most, 0
        self._inside = self._unseen = 0
        # What a record is taken for that has asked nothing yet: the largest that was seen
        self._largest: int | None = None
        self._turn, self._changed = asyncio.Lock(), asyncio.Event()

    async def __aenter__(self) -> None:
        """Wait for room."""
        async with self._turn:
            while not self._has_room():
                self._changed.clear()
                await self._changed.wait()
            self._inside += 1
            self._unseen += 1
        _current.set(_Record())

    async def __aexit__(self, *error: object) -> None:
        """Give the room back."""
        record = _current.get()
        assert record is not None
        _current.set(None)
        self._inside -= 1
        if record.size is None:
            self._unseen -= 1
        else:
            self._held -= record.size
        self._changed.set()

    def note(self, messages: Iterable[Mapping[str, str]]) -> None:
        """Note what the record under way asks; its largest request counts."""
        record = _current.get()
        if record is None:
            return
        # the memory of a text: up to four bytes a character
        texts = sum(sys.getsizeof(message["content"]) for message in messages)
        size = _TIMES * texts + _EACH
        if record.size is None:
            record.size = 0
            self._unseen -= 1
        self._held += max(0, size - record.size)
        record.size = max(size, record.size)
        self._largest = max(size, self._largest or 0)
        self._changed.set()

    def _has_room(self) -> bool:
        if self._largest is None:
            return self._inside < _UNSEEN
        taken = self._held + (self._unseen + 1) * self._largest
        return not self._inside or taken <= self._most


@dataclass(frozen=True)
class BatchEntry:
    """Last known state of a batch.

    Attributes:
        tag: Its name, made here.
        keys: The ids of its requests, which are their cache keys.
        at: When it was intended, in seconds since 1970.
        id: Its name at the provider; None where its order was not confirmed.
        step: The last step on disk.
    """

    tag: str
    model: str
    keys: tuple[str, ...]
    at: float
    id: str | None = None
    step: str = "intended"

    @property
    def open(self) -> bool:
        """Whether answers of it may still come."""
        return self.step in _OPEN


class BatchJournal:
    """The batches of one run folder, `batches.jsonl`; those of all its endpoints.

    Every step is on disk before the next is taken, so that a run that is killed between any two of
    them finds its batch again:

        intended    which requests, before anything is sent
        placed      the file that was uploaded, before a batch of it is submitted
        ordered     the batch, before it is waited for
        dropped     nothing of it will come: it was never ordered, was refused, or is gone

    The end of a batch is no step: its results can be fetched again, for a month and for nothing, as
    where a run is killed before what it made of the last of them is on disk.

    Args:
        folder: The run folder. The file is made with the first batch.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / FILE
        self._file: Appender | None = None
        self._entries: dict[str, BatchEntry] = {}
        self._by_key: dict[str, str] = {}
        for _, _, row in scan(self._path):
            self._take(row or {})
        self._billed = set(_billed(folder)) if any(self.open()) else set()

    def open(self) -> Iterator[BatchEntry]:
        """Yield the batches of which answers may still come."""
        return (entry for entry in self._entries.values() if entry.open)

    def holding(self, key: str) -> BatchEntry | None:
        """Return the open batch in which a request was sent, None where it was in none."""
        entry = self._entries.get(self._by_key.get(key, ""))
        return entry if entry is not None and entry.open else None

    def known(self) -> set[str]:
        """Return the provider's names of all batches of the run."""
        return {entry.id for entry in self._entries.values() if entry.id is not None}

    def is_billed(self, key: str, batch: str) -> bool:
        """Tell whether a session that was killed had an answer of a batch in its ledger already."""
        return (key[:16], batch) in self._billed

    def note_billed(self, key: str, batch: str) -> None:
        """Note that an answer of a batch is in the ledger."""
        self._billed.add((key[:16], batch))

    async def intend(self, model: str, keys: Sequence[str]) -> BatchEntry:
        """Write down which requests are about to be sent."""
        entry = BatchEntry(uuid4().hex, model, tuple(keys), time.time())
        row = {"batch": entry.tag, "step": entry.step, "at": entry.at, "model": model}
        await self._write({**row, "keys": list(keys)})
        return entry

    async def step(self, entry: BatchEntry, step: str, **more: str) -> BatchEntry:
        """Write down a step of a batch, and return the batch as it then is."""
        await self._write({"batch": entry.tag, "step": step, "at": time.time(), **more})
        return self._entries[entry.tag]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    async def _write(self, row: Row) -> None:
        if self._file is None:
            self._file = Appender(self._path)
        self._file.write(row)
        await self._file.flushed()
        self._take(row)

    def _take(self, row: Row) -> None:
        tag, step = str(row.get("batch")), str(row.get("step"))
        entry = self._entries.get(tag)
        if step == "intended" and isinstance(row.get("keys"), list):
            keys = tuple(map(str, row["keys"]))
            entry = BatchEntry(tag, str(row.get("model")), keys, time_of(row, "at") or 0.0)
            self._by_key |= dict.fromkeys(keys, tag)
        elif entry is not None:
            named = row.get("id")
            entry = replace(entry, step=step, id=named if is_name(named) else entry.id)
        if entry is not None:
            self._entries[tag] = entry


def _billed(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the request and the batch of each answer of a batch in the ledger."""
    for _, _, row in scan(folder / "calls.jsonl"):
        if row is not None and row.get("service") == BATCH:
            yield str(row.get("key")), str(row.get("request_id"))
