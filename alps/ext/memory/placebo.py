"""Memories of another user: what as many true but foreign memories are worth to a reader."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from alps.errors import UsageError
from alps.ext.memory.protocol import Hit, Opening
from alps.ext.memory.store import cut, sessions_after
from alps.ext.memory.turns import Turns
from alps.tasks import Task
from alps.tasks.by_memory import PLACEBO, Context, History

_RETRIEVER = "bm25"


class Placebo:
    """Shows the turns of another user that fit a query best, as many as a memory system would.

    The other is the next one in the order of the data, after the last the first.
    """

    name = PLACEBO

    def __init__(
        self,
        samples: Callable[[], Iterable[tuple[Task, Any]]],
        opening: Opening,
        *,
        k: int,
    ) -> None:
        self._samples, self._k = samples, k
        self._turns = Turns(_RETRIEVER)
        self._turns.open(opening)
        self.settings: Mapping[str, Any] = {**self._turns.settings, "name": PLACEBO, "k": k}
        self._others: dict[str, str] | None = None

    async def recall(self, task: Task, sample: Any, max_tokens: int | None = None) -> Context:
        """Return what another user said.

        Raises:
            UsageError: If the data have one user alone.
        """
        assert task.by_memory.recall is not None
        if self._others is None:
            self._others = self._read()
        place = task.by_memory.recall.place(sample)
        hits: list[Hit] = list(
            self._turns.search(self._others[str(sample.session_id)], place.query, self._k, "")
        )
        return cut(hits, max_tokens, dated=task.by_memory.recall.dated)

    def _read(self) -> dict[str, str]:
        """Keep what each user said; return for each user another one."""
        longest: dict[str, History] = {}
        for task, sample in self._samples():
            if task.by_memory.recall is None:
                continue
            user, history = str(sample.session_id), task.by_memory.recall.history(sample)
            if user not in longest or len(history.turns) > len(longest[user].turns):
                longest[user] = history
        for user, history in longest.items():
            for session in sessions_after(history, 0):
                self._turns.ingest(user, session)
        users = list(longest)
        if len(users) == 1:
            raise UsageError(
                f"memory={PLACEBO}: it shows the history of another user, "
                "but the data has only one user"
            )
        return dict(zip(users, [*users[1:], *users[:1]], strict=True))
