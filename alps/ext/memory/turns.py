"""Bundled memory systems: texts stored from sessions, found by a retriever."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from alps.ext.memory.protocol import Hit, Opening, Session, Settled, SpokenTurn
from alps.systems.embedded import RETRIEVERS, Ranker, imported

Extract = Callable[[Session], Iterable[SpokenTurn]]


def whole_turns(session: Session) -> Iterable[SpokenTurn]:
    """Return the turns of user and assistant, each with who said it.

    System turns are left out: in PersonaMem they repeat a biography in every session.
    """
    for turn in session.turns:
        if turn.role != "system":
            yield SpokenTurn(turn.role, f"{turn.role}: {turn.text}", turn.at)


class Turns:
    """Stores the texts that `extract` returns for a session, by default its turns, and ranks them.

    Args:
        retriever: Who ranks: `bm25`, `tfidf`, `minilm` or `e5`.
        extract: What is kept of a session.
        settings: What the manifest says of that.
    """

    def __init__(
        self,
        retriever: str,
        extract: Extract = whole_turns,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._ranker: Ranker = imported(RETRIEVERS[retriever])()
        self._extract = extract
        self.settings = {**self._ranker.settings, **(settings or {})}
        self._kept: dict[str, list[Hit]] = defaultdict(list)

    def open(self, opening: Opening) -> None:
        """Begin with nothing."""
        self._kept.clear()

    def ingest(self, user: str, session: Session) -> None:
        """Store the texts of a session, each under its own id; skip a known session."""
        kept = self._kept[user]
        if any(session.id in hit.sources for hit in kept):
            return
        for said in self._extract(session):
            kept.append(Hit(f"m{len(kept) + 1}", said.text, None, said.at, (session.id,)))

    def settle(self, user: str, timeout: float) -> Settled:
        """Return at once: what was ingested can be found."""
        return "ready"

    def search(self, user: str, query: str, k: int, at: str) -> Sequence[Hit]:
        """Return the texts that the retriever ranks highest."""
        kept = self._kept[user]
        order = self._ranker.rank(query, [hit.text for hit in kept])
        return [kept[place] for place in order[:k]]

    def reset(self, user: str) -> None:
        """Forget a user."""
        self._kept.pop(user, None)

    def memories(self, user: str) -> Sequence[Hit]:
        """Return every text that is kept of a user."""
        return list(self._kept[user])

    def forget(self, user: str, what: str) -> None:
        """Forget the texts that say `what`."""
        wanted = what.casefold()
        kept = [hit for hit in self._kept[user] if wanted not in hit.text.casefold()]
        self._kept[user] = kept
