"""Retrieve by the cosine of TF-IDF vectors of words and character n-grams, fitted to each query's
own pool.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from alps.systems.tokens import TOKENS_VERSION, best_first, digest, terms

NGRAMS = (3, 4, 5)
"""Lengths of the character n-grams; they reach inflected and compound words that stemming leaves
apart.
"""


def features(text: str) -> list[str]:
    """Return the terms of `text`, their neighbouring pairs, and the character n-grams of each term."""
    words = terms(text)
    found = [f"w {word}" for word in words] + [
        f"p {first} {second}" for first, second in pairwise(words)
    ]
    for word in words:
        padded = f"^{word}$"
        found += [
            f"c {padded[at : at + size]}" for size in NGRAMS for at in range(len(padded) - size + 1)
        ]
    return found


class TfIdf:
    """Rank values by TF-IDF cosine; nothing is kept from one query to the next."""

    name = "tfidf"

    def __init__(self) -> None:
        self.settings: Mapping[str, Any] = {
            "features": "terms, pairs, characters",
            "ngrams": list(NGRAMS),
            "sublinear_tf": True,
            "terms": TOKENS_VERSION,
        }

    def rank(self, query: str, values: Sequence[str]) -> list[int]:
        """Return the positions of all `values`, the best first."""
        documents = [features(value) for value in values]
        scores = np.zeros(len(values))
        if any(documents):
            from sklearn.feature_extraction.text import TfidfVectorizer

            vectoriser = TfidfVectorizer(analyzer=list, sublinear_tf=True)
            pool = vectoriser.fit_transform(documents)
            scores = (pool @ vectoriser.transform([features(query)]).T).toarray()[:, 0]
        return best_first(scores, query, [digest(value) for value in values])
