"""Memory for records that wait in batches: a record begins while there is some left."""

import asyncio
import sys
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

MOST = 256 << 20
# Measured on records of 20 kB and of 4 MB: the record, its prompt and what is made of both; and
# the tasks that wait for one answer
_TIMES, _EACH = 4, 16 << 10
# Records that begin before the size of one is known
_UNSEEN = 16


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
