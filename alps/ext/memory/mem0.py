"""Mem0 as a memory system, in this process: its own extraction, over a store of Qdrant in a file.

It needs `pip install 'alps-eval[mem0]'`, `memory_llm=` and `memory_embedder=`. When a memory was
made Mem0 tells by the clock of the machine, so no hit has a time. Without `spacy` and `fastembed`,
which would fetch models, it ranks by embeddings alone.
"""

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from alps.errors import UsageError
from alps.ext.memory.endpoints import both, openai_client
from alps.ext.memory.protocol import Hit, MeteredEndpoint, Opening, Session, Settled

PACKAGE = "mem0ai"
MOST = 100_000
"""Memories of one user that are listed; Mem0 itself would stop at 20."""


def require() -> None:
    """Check that the package is there, without importing it.

    Raises:
        UsageError: If it is missing; names the extra to install.
    """
    if find_spec("mem0") is None:
        raise UsageError(f"mem0: {PACKAGE} not installed — pip install 'alps-eval[mem0]'")


class Mem0:
    """Mem0's `Memory`: a session is one `add`, a user one `user_id`."""

    persistent = True

    def __init__(self) -> None:
        require()
        self.settings: Mapping[str, Any] = {"package": f"{PACKAGE} {version(PACKAGE)}"}
        self._memory: Any = None

    def open(self, opening: Opening) -> None:
        """Open the store in the folder; what it held before is there again."""
        llm, embedder = both(opening)
        # Both are read while it is imported: without them it reports to its makers, and writes
        # into the home folder.
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ["MEM0_DIR"] = str(opening.folder)
        self.close()
        client = openai_client(embedder)
        made = client.embeddings.create(model=embedder.model, input=["size"])
        size = len(made.data[0].embedding)
        stored = {"path": str(opening.folder / "qdrant"), "on_disk": True}
        config = {
            "llm": {"provider": "openai", "config": _told(llm)},
            "embedder": {"provider": "openai", "config": _told(embedder)},
            "vector_store": {
                "provider": "qdrant",
                "config": {**stored, "embedding_model_dims": size},
            },
            "history_db_path": str(opening.folder / "history.db"),
        }
        self._memory = import_module("mem0").Memory.from_config(config)
        # Variables of the environment would send its own clients elsewhere.
        self._memory.llm.client = openai_client(llm)
        self._memory.embedding_model.client = client

    def ingest(self, user: str, session: Session) -> None:
        """Let Mem0 extract memories from a session."""
        messages = [{"role": turn.role, "content": turn.text} for turn in session.turns]
        self._memory.add(messages, user_id=user)

    def settle(self, user: str, timeout: float) -> Settled:
        """Return at once: `add` ends when everything is stored."""
        return "ready"

    def search(self, user: str, query: str, k: int, at: str) -> Sequence[Hit]:
        """Return what Mem0 ranks highest."""
        found = self._memory.search(query, filters={"user_id": user}, top_k=k, threshold=0.0)
        return [_hit(row) for row in found["results"]]

    def reset(self, user: str) -> None:
        """Delete all memories of a user, and the messages that Mem0 quotes in its next prompt."""
        self._memory.delete_all(user_id=user)
        with self._memory.db.connection as history:
            history.execute("DELETE FROM messages WHERE session_scope = ?", (f"user_id={user}",))

    def memories(self, user: str) -> Sequence[Hit]:
        """Return all memories of a user."""
        found = self._memory.get_all(filters={"user_id": user}, top_k=MOST)
        return [_hit(row) for row in found["results"]]

    def close(self) -> None:
        """Close the store, so that its folder can be opened again."""
        if self._memory is not None:
            self._memory.vector_store.client.close()
            self._memory.llm.client.close()
            self._memory.embedding_model.client.close()
            self._memory.close()
            self._memory = None


def _told(endpoint: MeteredEndpoint) -> dict[str, Any]:
    return {
        "model": endpoint.model,
        "api_key": endpoint.api_key,
        "openai_base_url": endpoint.api_base,
    }


def _hit(row: Mapping[str, Any]) -> Hit:
    return Hit(str(row["id"]), row["memory"], row.get("score"))
