"""Batches of a run: whether they are taken, and where they are written down."""

from collections.abc import Iterator, Sequence
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


class Part(RunPart):
    """Gathers the requests of a run, or takes up what an earlier command ordered."""

    def __init__(self, settings: RunSettings) -> None:
        super().__init__(settings)
        self._keys = BatchKeys.of(settings)

    def check(self, data: RunData, *, generate: bool, keys: bool) -> None:
        """Refuse `batch=yes` if no provider takes batches."""
        refuse_unbatched(self.settings, data.tasks if generate else ())

    def gather(self, folder: Path, shared: Shared) -> "Batches | None":
        """Open the batches of a run folder; None where it has none under way and wants none."""
        if not self._keys.batch and not (folder / FILE).exists():
            return None
        from alps.ext.batches.gather import Batches
        from alps.ext.batches.journal import BatchJournal
        from alps.ext.batches.room import Room

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
    answering = [task for task in tasks if task.asking.continuations is None]
    if answering and not is_local(settings.model, tasks):
        base, extra = settings.api_base, settings.request or {}
        yield "model", Request(settings.model, nothing, None, api_base=base, extra=extra)
    if not is_embedded_judge(settings.judge):
        base, extra = settings.judge_api_base, settings.judge_request or {}
        yield "judge", Request(settings.judge, nothing, None, api_base=base, extra=extra)


def refuse_unbatched(settings: RunSettings, tasks: Sequence[Task]) -> None:
    """Refuse `batch=yes` if no provider takes batches.

    Raises:
        UsageError: If nothing is asked of an LLM, or its provider takes none.
    """
    if not BatchKeys.of(settings).batch:
        return
    asked = list(asked_in_batches(settings, tasks))
    if not asked:
        why = "no LLM is called"
        raise UsageError(f"batch=yes would change nothing: {why}; leave it out")
    from alps.ext.batches.interface import check_batched

    for key, request in asked:
        check_batched(key, request.model)
