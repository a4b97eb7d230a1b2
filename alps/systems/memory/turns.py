"""Memory systems in the box that keep every turn, and find turns by a retriever."""

from collections import defaultdict
from collections.abc import Sequence

from alps.systems.embedded import RETRIEVERS, Ranker, imported
from alps.systems.memory.protocol import Hit, Opening, Session, Settled


class Turns:
    """Keeps the turns of user and assistant, and ranks them by a retriever.

    System turns are left out: in PersonaMem they repeat a biography in every session.
    """

    def __init__(self, retriever: str) -> None:
        self._ranker: Ranker = imported(RETRIEVERS[retriever])()
        self.settings = dict(self._ranker.settings)
        self._kept: dict[str, list[Hit]] = defaultdict(list)

    def open(self, opening: Opening) -> None:
        """Begin with nothing."""
        self._kept.clear()

    def ingest(self, user: str, session: Session) -> None:
        """Keep every turn, each under an id of its own; a session that is known is left out."""
        kept = self._kept[user]
        if any(session.id in hit.sources for hit in kept):
            return
        for turn in session.turns:
            if turn.role != "system":
                text = f"{turn.role}: {turn.text}"
                kept.append(Hit(f"m{len(kept) + 1}", text, None, turn.at, (session.id,)))

    def settle(self, user: str, timeout: float) -> Settled:
        """Return at once: what was ingested can be found."""
        return "ready"

    def search(self, user: str, query: str, k: int, at: str) -> Sequence[Hit]:
        """Return the turns that the retriever ranks highest."""
        kept = self._kept[user]
        order = self._ranker.rank(query, [hit.text for hit in kept])
        return [kept[place] for place in order[:k]]

    def reset(self, user: str) -> None:
        """Forget a user."""
        self._kept.pop(user, None)

    def memories(self, user: str) -> Sequence[Hit]:
        """Return every turn of a user."""
        return list(self._kept[user])

    def forget(self, user: str, what: str) -> None:
        """Forget the turns that say `what`."""
        wanted = what.casefold()
        kept = [hit for hit in self._kept[user] if wanted not in hit.text.casefold()]
        self._kept[user] = kept
