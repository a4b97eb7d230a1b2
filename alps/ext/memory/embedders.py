"""Bundled embedders by the name in `memory_embedder=`; they send no requests."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from alps.embeddings import E5, MINILM
from alps.systems.retrievers import terms

DIMENSIONS = 512


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


EMBEDDERS: Mapping[str, Callable[[Sequence[str]], NDArray[np.float32]]] = {
    "hash": hashed,
    "minilm": MINILM.embed,
    # What a system asks about and what it keeps come alike: the model's authors give texts that
    # are compared with each other the prefix of queries.
    "local": partial(E5.embed, queries=True),
}
