"""Memory of what an LLM extracts from each session, found by the cosine of embeddings.

It is the example to begin an adapter of one's own from: plain Python, two endpoints, no state but a
list for each user.
"""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from alps.ext.memory.protocol import Hit, MeteredEndpoint, Opening, Session, Settled

PROMPT = """\
You maintain the memory of an assistant. From the conversation below, list what will be useful in \
later conversations: facts about the user, the user's preferences and plans, people in the user's \
life, what the user asked the assistant to remember, and what the assistant promised or told the \
user. Write each item as one short sentence in the third person, and copy names, numbers and codes \
exactly. Reply with only a JSON array of strings; if nothing will be useful, reply with []."""


class LlmMemory:
    """Asks the run's LLM for memories, and the run's embedder for their vectors."""

    def __init__(self) -> None:
        self.settings = {"extractor": "llm"}
        self._kept: dict[str, list[Hit]] = defaultdict(list)
        self._vectors: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
        self._known: set[tuple[str, str]] = set()
        # Both endpoints are on this machine: no proxy of the environment is in between.
        self._client = httpx.Client(timeout=120, trust_env=False)

    def open(self, opening: Opening) -> None:
        """Begin with nothing.

        Raises:
            ValueError: If the run gives no LLM or no embedder.
        """
        if opening.llm is None or opening.embedder is None:
            why = "this memory system needs an LLM and an embedder"
            raise ValueError(f"{why}: set memory_llm= and memory_embedder=")
        self._llm, self._embedder, self._seed = opening.llm, opening.embedder, opening.seed
        for kept in (self._kept, self._vectors, self._known):
            kept.clear()

    def ingest(self, user: str, session: Session) -> None:
        """Keep what the LLM extracts; a session that is known is left out."""
        if (user, session.id) in self._known:
            return
        said = [f"{turn.role}: {turn.text}" for turn in session.turns if turn.role != "system"]
        asked = [
            {"role": "system", "content": PROMPT},
            {"role": "user", "content": "\n".join(said)},
        ]
        body = {"messages": asked, "temperature": 0, "seed": self._seed}
        answer = self._post(self._llm, "chat/completions", body)
        texts = _texts(answer["choices"][0]["message"]["content"])
        vectors = self._embed(texts)
        for text, vector in zip(texts, vectors, strict=True):
            name = f"m{len(self._kept[user]) + 1}"
            self._kept[user].append(Hit(name, text, None, session.started_at, (session.id,)))
            self._vectors[user].append(vector)
        # Last: a session whose embedding failed has to be sent again whole.
        self._known.add((user, session.id))

    def settle(self, user: str, timeout: float) -> Settled:
        """Return at once: `ingest` waits for both endpoints."""
        return "ready"

    def search(self, user: str, query: str, k: int, at: str) -> Sequence[Hit]:
        """Return the memories that are nearest to the query."""
        if not self._kept[user]:
            return []
        scores = np.stack(self._vectors[user]) @ self._embed([query])[0]
        # Stable, so that equal scores keep their order whatever k is.
        return [self._kept[user][place] for place in np.argsort(-scores, kind="stable")[:k]]

    def memories(self, user: str) -> Sequence[Hit]:
        """Return everything that is kept of a user."""
        return list(self._kept[user])

    def reset(self, user: str) -> None:
        """Forget a user."""
        self._kept.pop(user, None)
        self._vectors.pop(user, None)
        self._known = {known for known in self._known if known[0] != user}

    def _embed(self, texts: Sequence[str]) -> list[NDArray[np.float64]]:
        """Return a vector of length 1 for each text."""
        if not texts:
            return []
        answer = self._post(self._embedder, "embeddings", {"input": list(texts)})
        # The API numbers its vectors, and promises no order.
        rows = sorted(answer["data"], key=lambda row: row["index"])
        vectors = [np.asarray(row["embedding"], dtype=np.float64) for row in rows]
        return [vector / (np.linalg.norm(vector) or 1.0) for vector in vectors]

    def _post(self, endpoint: MeteredEndpoint, path: str, body: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {endpoint.api_key}"}
        address = f"{endpoint.api_base.rstrip('/')}/{path}"
        asked = {"model": endpoint.model, **body}
        answer = self._client.post(address, json=asked, headers=headers)
        answer.raise_for_status()
        return answer.json()

    def close(self) -> None:
        """Close the connections to both endpoints."""
        self._client.close()


def _texts(reply: str) -> list[str]:
    """Read a JSON array of texts, whatever stands around it."""
    # Small models put prose or a fence around the list, whatever the prompt says.
    array = re.search(r"\[.*\]", reply, re.DOTALL)
    if array is None:
        raise ValueError(f"the LLM did not return a list: {reply[:80]!r}")
    return [text.strip() for text in json.loads(array[0]) if isinstance(text, str) and text.strip()]
