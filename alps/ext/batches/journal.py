"""Journal of batches, `batches.jsonl` in a run folder: what was ordered, and what is under way.

Every step is on disk before the next is taken, so that a run that is killed between any two of them
finds its batch again:

    intended    which requests, before anything is sent
    placed      the file that was uploaded, before a batch of it is submitted
    ordered     the batch, before it is waited for
    dropped     nothing of it will come: it was never ordered, was refused, or is gone

The end of a batch is no step: its results can be fetched again, for a month and for nothing, as
where a run is killed before what it made of the last of them is on disk.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from alps.ext.batches import FILE
from alps.ext.batches.interface import is_name, time_of
from alps.jsonl import Appender, Row, scan
from alps.llm.prices import BATCH

_OPEN = ("intended", "placed", "ordered")


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
    """The batches of one run folder; those of all its endpoints.

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
