"""Models that a memory system is given: which, and who asks them.

Bundled embedders, by the name in `memory_embedder=`, send no requests.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from alps.embeddings import E5, EMBEDDERS, MINILM
from alps.errors import UsageError
from alps.ext.memory.built_in import needed_models
from alps.ext.memory.reader import open_embedded
from alps.ext.memory.settings import MemoryModels
from alps.llm.secrets import redact
from alps.systems.retrievers import terms

if TYPE_CHECKING:
    from alps.ext.memory.proxy import Behind
    from alps.llm.client import Client

KEYS = ("memory_llm", "memory_llm_api_base", "memory_embedder", "memory_embedder_api_base")
_OF_PACKAGES: Mapping[str, str] = {"minilm": "minilm", "local": "e5"}
"""Embedders that an extra brings, by the name of that."""
IN_THE_BOX = ("hash", *_OF_PACKAGES)
"""Embedders that nobody is asked for."""
DIMENSIONS = 512


@dataclass(frozen=True)
class Given:
    """The models behind the LLM and the embedder of a memory system."""

    llm: "Behind | None" = None
    embedder: "Behind | None" = None


def asked_models(settings: MemoryModels) -> list[tuple[str, str, str | None]]:
    """Return the key, the name and the endpoint of every model that is asked for a memory."""
    asked = []
    if settings.memory_llm is not None:
        asked.append(("memory_llm", settings.memory_llm, settings.memory_llm_api_base))
    embedder = settings.memory_embedder
    if embedder is not None and embedder not in IN_THE_BOX:
        asked.append(("memory_embedder", embedder, settings.memory_embedder_api_base))
    return asked


def memory_models(
    settings: MemoryModels, client: "Callable[[str | None, str], Client] | None"
) -> Given:
    """Return the models of a memory system.

    `client` returns who asks a model at an endpoint; None where no model is to be asked.
    """
    if settings.memory_llm is None and settings.memory_embedder is None:
        return Given()
    from alps.ext.memory.proxy import Behind

    behind = {}
    if client is not None:
        for key, name, api_base in asked_models(settings):
            behind[key] = Behind(name, client(api_base, name), api_base)
    embedder = behind.get("memory_embedder")
    if settings.memory_embedder in IN_THE_BOX:
        embedder = Behind(settings.memory_embedder, embed=_EMBED[settings.memory_embedder])
    return Given(behind.get("memory_llm"), embedder)


def require_memory_models(settings: MemoryModels, memory: str) -> None:
    """Refuse a run of a memory system in the box without the models that it asks.

    Raises:
        UsageError: Names the keys that are not given.
    """
    if lacking := [key for key in needed_models(memory) if getattr(settings, key) is None]:
        keyless = "; memory=notes keeps notes without a model" if memory == "files" else ""
        raise UsageError(f"memory={memory}: give {'= and '.join(lacking)}={keyless}")


def check_memory_models(settings: MemoryModels, memory: str) -> None:
    """Refuse models without use, and an embedder whose extra is not installed.

    Raises:
        UsageError: Names the key.
    """
    for key in KEYS:
        if getattr(settings, key) is not None and open_embedded(memory) is not None:
            why = f"memory={memory} is not a memory system; leave it out"
            raise UsageError(f"{key}= would change nothing: {why}")
    for of in ("memory_llm", "memory_embedder"):
        name = getattr(settings, of)
        if getattr(settings, f"{of}_api_base") is not None and (name in (None, *IN_THE_BOX)):
            why = f"{of}={redact(str(name))}" if name else f"there is no {of}="
            raise UsageError(f"{of}_api_base= would change nothing: {why}; leave it out")
    embedder_versions(settings)


def embedder_versions(settings: MemoryModels) -> dict[str, str]:
    """Return the package of an embedder in the box, and its version.

    Raises:
        UsageError: If it is not installed.
    """
    extra = _OF_PACKAGES.get(str(settings.memory_embedder))
    if extra is None:
        return {}
    package, _, version = EMBEDDERS[extra].version().partition(" ")
    return {package: version}


def hashed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Return a unit vector per text: its stemmed words, each added at a place of its hash.

    The same for the same text on every machine; words that mean the same are as far apart as any.
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(n_features=DIMENSIONS, analyzer=terms)
    vectors = np.asarray(vectorizer.transform(texts).toarray(), dtype=np.float32)
    # A text without words would be at no angle to any other.
    vectors[~vectors.any(axis=1), 0] = 1.0
    return vectors


_EMBED: Mapping[str, Callable[[Sequence[str]], NDArray[np.float32]]] = {
    "hash": hashed,
    "minilm": MINILM.embed,
    # What a system asks about and what it keeps come alike: the model's authors give texts that
    # are compared with each other the prefix of queries.
    "local": partial(E5.embed, queries=True),
}
