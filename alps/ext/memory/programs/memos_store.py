"""MemOS as a memory system: its `general_text` memory, over a store of Qdrant in a file.

Its tree memory needs a graph server. MemOS keeps one memory for each user; what it logs, requests
and answers among it, is kept nowhere.
"""

import os
import tempfile
from collections import OrderedDict
from importlib import import_module
from pathlib import Path
from typing import Any

OPEN = 16
"""Users whose stores are open at once; each holds files open."""
TIMEOUT = "600"
"""Seconds that an embedding may take; MemOS itself would wait for 5, and the suite waits, too."""


class MemOS:
    """MemOS's `GeneralTextMemory`: a session is one `extract` and one `add`."""

    persistent = True

    def open(self, opening: Any) -> None:
        """Open the stores in the folder; what they held before is there again."""
        if opening.llm is None or opening.embedder is None:
            raise ValueError("set memory_llm= and memory_embedder=")
        # MemOS logs requests and answers: what users say must not stay on disk after the run.
        self._scratch = tempfile.TemporaryDirectory()
        # Both are read while it is imported: where it writes its log, and what it waits for.
        os.environ["MEMOS_BASE_PATH"] = self._scratch.name
        os.environ["MOS_EMBEDDER_TIMEOUT"] = TIMEOUT
        llm, embedder = opening.llm, opening.embedder
        model = {"model_name_or_path": llm.model, "api_key": llm.api_key, "api_base": llm.api_base}
        embedding = {"provider": "openai", "model_name_or_path": embedder.model}
        embedding |= {"api_key": embedder.api_key, "base_url": embedder.api_base}
        self._models = {
            "extractor_llm": {"backend": "openai", "config": model},
            "embedder": {"backend": "universal_api", "config": embedding},
        }
        config = import_module("memos.configs.embedder").EmbedderConfigFactory
        factory = import_module("memos.embedders.factory").EmbedderFactory
        made = factory.from_config(config(**self._models["embedder"]))
        self._size = len(made.embed(["size"])[0])
        self._folder = Path(opening.folder)
        self._stores: OrderedDict[str, Any] = OrderedDict()

    def ingest(self, user: str, session: Any) -> None:
        """Let MemOS extract memories from a session; skip a known session."""
        known = self._folder / user / "sessions"
        if known.is_file() and session.id in known.read_text(encoding="utf-8").split():
            return
        store = self._store(user)
        found = store.extract([{"role": turn.role, "content": turn.text} for turn in session.turns])
        if found:
            store.add(found)
        # After `add`: a session that was not stored must not be taken for a known one.
        with known.open("a", encoding="utf-8") as file:
            file.write(f"{session.id}\n")

    def settle(self, user: str, timeout: float) -> str:
        """Return at once: `add` ends when everything is stored."""
        return "ready"

    def search(self, user: str, query: str, k: int, at: str) -> list[dict[str, Any]]:
        """Return what MemOS ranks highest."""
        return [_hit(row) for row in self._store(user).search(query, top_k=k)]

    def memories(self, user: str) -> list[dict[str, Any]]:
        """Return all memories of a user."""
        return [_hit(row) for row in self._store(user).get_all()]

    def reset(self, user: str) -> None:
        """Delete all memories of a user."""
        self._store(user).delete_all()
        (self._folder / user / "sessions").unlink(missing_ok=True)

    def _store(self, user: str) -> Any:
        if user not in self._stores:
            if len(self._stores) == OPEN:
                self._stores.popitem(last=False)[1].vector_db.client.close()
            self._stores[user] = self._opened(user)
        self._stores.move_to_end(user)
        return self._stores[user]

    def _opened(self, user: str) -> Any:
        place = {"path": str(self._folder / user), "collection_name": "memories"}
        kept = {**place, "vector_dimension": self._size, "distance_metric": "cosine"}
        stored = {"vector_db": {"backend": "qdrant", "config": kept}}
        config = import_module("memos.configs.memory").GeneralTextMemoryConfig
        memory = import_module("memos.memories.textual.general").GeneralTextMemory
        return memory(config(**self._models, **stored))


def _hit(row: Any) -> dict[str, Any]:
    return {"id": row.id, "text": row.memory}
