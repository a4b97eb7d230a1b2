"""The part of batches in a run: whether they are taken, where they lie, and room for what waits."""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alps.errors import UsageError
from alps.ext.batches import FILE
from alps.ext.batches.settings import BatchKeys
from alps.judges.embedded import is_embedded_judge
from alps.llm.types import Request
from alps.run.parts import RunPart
from alps.run.services import Services, say_once
from alps.run.shared import Shared
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
        from alps.ext.batches.interface import check_batched

        for key, request in asked:
            check_batched(key, request.model)

    def gather(self, folder: Path, shared: Shared) -> "Batches | None":
        """Open the batches of a run folder; None where it has none under way and wants none."""
        if not self._keys.batch and not (folder / FILE).exists():
            return None
        from alps.ext.batches.gather import Batches
        from alps.ext.batches.journal import BatchJournal

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
