"""LangMem as a memory system, in this process: its store manager over LangGraph's store in memory.

It needs `pip install 'alps-eval[langmem]'`, `memory_llm=` and `memory_embedder=`. The store keeps
no file: a run that goes on tells it all sessions again, which kept replies answer. When a memory
was made it tells by the clock of the machine, so no hit has a time.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from alps.errors import UsageError
from alps.ext.memory.endpoints import both, numbering_client, openai_client
from alps.ext.memory.protocol import Hit, Opening, Session, Settled

PACKAGE = "langmem"
MOST = 100_000
"""Memories of one user that are listed; the store itself would stop at 10."""


def require() -> None:
    """Check that the package is there, without importing it.

    Raises:
        UsageError: If it is missing; names the extra to install.
    """
    if find_spec(PACKAGE) is None:
        raise UsageError(f"langmem: not installed — pip install 'alps-eval[{PACKAGE}]'")


class LangMem:
    """LangMem's `create_memory_store_manager`: a session is one `invoke`, a user one namespace."""

    def __init__(self) -> None:
        require()
        self.settings: Mapping[str, Any] = {"package": f"{PACKAGE} {version(PACKAGE)}"}
        self._clients: list[Any] = []
        self._known: set[tuple[str, str]] = set()

    def open(self, opening: Opening) -> None:
        """Begin with nothing."""
        llm, embedder = both(opening)
        self.close()
        # A variable of the environment would have each call reported to LangSmith.
        self._untraced = import_module("langsmith").tracing_context
        embedding, asking = openai_client(embedder), numbering_client()
        self._clients = [embedding, asking]

        def embed(texts: Sequence[str]) -> list[list[float]]:
            made = embedding.embeddings.create(model=embedder.model, input=list(texts))
            return [row.embedding for row in made.data]

        self._store = import_module("langgraph.store.memory").InMemoryStore(index={"embed": embed})
        model = import_module("langchain_openai").ChatOpenAI(
            model=llm.model,
            base_url=llm.api_base,
            api_key=llm.api_key,
            max_retries=0,
            use_responses_api=False,
            http_client=asking,
        )
        make = import_module("langmem").create_memory_store_manager
        self._manager = make(model, store=self._store)
        self._known.clear()

    def ingest(self, user: str, session: Session) -> None:
        """Have LangMem extract and update what it keeps; a session that is known is left out."""
        if (user, session.id) in self._known:
            return
        messages = [{"role": turn.role, "content": turn.text} for turn in session.turns]
        with self._untraced(enabled=False):
            self._manager.invoke({"messages": messages}, config=_of(user))
        self._known.add((user, session.id))

    def settle(self, user: str, timeout: float) -> Settled:
        """Return at once: `invoke` ends when everything is stored."""
        return "ready"

    def search(self, user: str, query: str, k: int, at: str) -> Sequence[Hit]:
        """Return what the store ranks highest."""
        return [_hit(row) for row in self._manager.search(query=query, limit=k, config=_of(user))]

    def reset(self, user: str) -> None:
        """Delete all memories of a user."""
        for row in self._manager.search(limit=MOST, config=_of(user)):
            self._store.delete(row.namespace, row.key)
        self._known = {known for known in self._known if known[0] != user}

    def memories(self, user: str) -> Sequence[Hit]:
        """Return all memories of a user."""
        return [_hit(row) for row in self._manager.search(limit=MOST, config=_of(user))]

    def close(self) -> None:
        """Close the connections to both endpoints."""
        for client in self._clients:
            client.close()


def _of(user: str) -> dict[str, Any]:
    return {"configurable": {"langgraph_user_id": user}}


def _hit(row: Any) -> Hit:
    return Hit(row.key, row.value.content, row.score)
