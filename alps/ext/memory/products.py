"""Memory systems of other makers, in this process: Mem0 and LangMem.

Mem0: its own extraction, over a store of Qdrant in a file. It needs `pip install 'alps-
eval[mem0]'`, `memory_llm=` and `memory_embedder=`. When a memory was made Mem0 tells by the clock
of the machine, so no hit has a time. Without `spacy` and `fastembed`, which would fetch models, it
ranks by embeddings alone.

LangMem: its store manager over LangGraph's store in memory. It needs `pip install 'alps-
eval[langmem]'`, and both models, too. The store keeps no file: a run that goes on tells it all
sessions again, which kept replies answer. Its hits have no time either.
"""

import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import httpx

from alps.errors import UsageError
from alps.ext.memory.protocol import Hit, MeteredEndpoint, Opening, Session, Settled

_MEM0, _LANGMEM = "mem0ai", "langmem"
_MOST = 100_000
"""Memories of one user that are listed; Mem0 itself would stop at 20, LangMem at 10."""

_UUID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{8}(-?)(?:[0-9a-f]{4}\1){3}[0-9a-f]{12}(?![0-9a-f])")


def _both(opening: Opening) -> tuple[MeteredEndpoint, MeteredEndpoint]:
    """Return the LLM and the embedder of an opening.

    Raises:
        ValueError: If the run gives no LLM or no embedder.
    """
    if opening.llm is None or opening.embedder is None:
        raise ValueError("set memory_llm= and memory_embedder=")
    return opening.llm, opening.embedder


def _openai_client(endpoint: MeteredEndpoint) -> Any:
    openai = import_module("openai")
    # What fails here was tried again by the suite; and no proxy of the environment is in between.
    return openai.OpenAI(
        base_url=endpoint.api_base,
        api_key=endpoint.api_key,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(trust_env=False),
    )


class _Numbered(httpx.HTTPTransport):
    """Sends ids as numbers in their order, and puts them back in the answer.

    Where a system draws an id for each request and each memory, no kept reply would be found.
    """

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        ids: dict[bytes, bytes] = {}

        def numbered(found: re.Match[bytes]) -> bytes:
            number, dash = f"{len(ids) + 1:032x}", found[1].decode()
            parts = (number[:8], number[8:12], number[12:16], number[16:20], number[20:])
            return ids.setdefault(found[0], dash.join(parts).encode())

        sent = _UUID.sub(numbered, request.read())
        own = {number: one for one, number in ids.items()}
        headers = {**request.headers, "content-length": str(len(sent))}
        asked = httpx.Request(
            request.method,
            request.url,
            headers=headers,
            content=sent,
            extensions=request.extensions,
        )
        answer = super().handle_request(asked)
        body = _UUID.sub(lambda found: own.get(found[0], found[0]), answer.read())
        kind = {"content-type": "application/json"}
        return httpx.Response(answer.status_code, headers=kind, content=body, request=request)


def _require(module: str, missing: str) -> None:
    """Check that a module is there, without importing it.

    Raises:
        UsageError: If it is missing; names the extra to install, which is called after it.
    """
    if find_spec(module) is None:
        raise UsageError(f"{module}: {missing} — pip install 'alps-eval[{module}]'")


class Mem0:
    """Mem0's `Memory`: a session is one `add`, a user one `user_id`."""

    persistent = True

    def __init__(self) -> None:
        _require("mem0", f"{_MEM0} not installed")
        self.settings: Mapping[str, Any] = {"package": f"{_MEM0} {version(_MEM0)}"}
        self._memory: Any = None

    def open(self, opening: Opening) -> None:
        """Open the store in the folder; what it held before is there again."""
        llm, embedder = _both(opening)
        # Both are read while it is imported: without them it reports to its makers, and writes
        # into the home folder.
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ["MEM0_DIR"] = str(opening.folder)
        self.close()
        client = _openai_client(embedder)
        # Qdrant wants the size of the vectors before the first one, and no API tells it.
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
        self._memory.llm.client = _openai_client(llm)
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
        # Mem0's own threshold of .1 would leave out hits, and fewer than k would come.
        found = self._memory.search(query, filters={"user_id": user}, top_k=k, threshold=0.0)
        return [_mem0_hit(row) for row in found["results"]]

    def reset(self, user: str) -> None:
        """Delete all memories of a user, and the messages that Mem0 quotes in its next prompt."""
        self._memory.delete_all(user_id=user)
        with self._memory.db.connection as history:
            history.execute("DELETE FROM messages WHERE session_scope = ?", (f"user_id={user}",))

    def memories(self, user: str) -> Sequence[Hit]:
        """Return all memories of a user."""
        found = self._memory.get_all(filters={"user_id": user}, top_k=_MOST)
        return [_mem0_hit(row) for row in found["results"]]

    def close(self) -> None:
        """Close the store, so that its folder can be opened again."""
        if self._memory is not None:
            # Qdrant locks the folder of an open store.
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


def _mem0_hit(row: Mapping[str, Any]) -> Hit:
    return Hit(str(row["id"]), row["memory"], row.get("score"))


class LangMem:
    """LangMem's `create_memory_store_manager`: a session is one `invoke`, a user one namespace."""

    def __init__(self) -> None:
        _require(_LANGMEM, "not installed")
        self.settings: Mapping[str, Any] = {"package": f"{_LANGMEM} {version(_LANGMEM)}"}
        self._clients: list[Any] = []
        self._known: set[tuple[str, str]] = set()

    def open(self, opening: Opening) -> None:
        """Begin with nothing."""
        llm, embedder = _both(opening)
        self.close()
        # A variable of the environment would have each call reported to LangSmith.
        self._untraced = import_module("langsmith").tracing_context
        embedding, asking = _openai_client(embedder), httpx.Client(transport=_Numbered())
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
            # The metered endpoint has chat completions alone.
            use_responses_api=False,
            http_client=asking,
        )
        make = import_module("langmem").create_memory_store_manager
        self._manager = make(model, store=self._store)
        self._known.clear()

    def ingest(self, user: str, session: Session) -> None:
        """Have LangMem extract and update what it keeps; a session that is known is left out."""
        # LangMem would extract it a second time.
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
        return [
            _langmem_hit(row)
            for row in self._manager.search(query=query, limit=k, config=_of(user))
        ]

    def reset(self, user: str) -> None:
        """Delete all memories of a user."""
        for row in self._manager.search(limit=_MOST, config=_of(user)):
            self._store.delete(row.namespace, row.key)
        self._known = {known for known in self._known if known[0] != user}

    def memories(self, user: str) -> Sequence[Hit]:
        """Return all memories of a user."""
        return [_langmem_hit(row) for row in self._manager.search(limit=_MOST, config=_of(user))]

    def close(self) -> None:
        """Close the connections to both endpoints."""
        for client in self._clients:
            client.close()


def _of(user: str) -> dict[str, Any]:
    return {"configurable": {"langgraph_user_id": user}}


def _langmem_hit(row: Any) -> Hit:
    return Hit(row.key, row.value.content, row.score)
