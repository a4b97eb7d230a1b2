"""The embedded judge: lexical similarity of values, deterministic and free.

It tells «same» from «unrelated» and nothing between, so scores that need another relation are
unscored under it. Of options it names the one whose own words an answer has. How far it can be
trusted is measured against the recorded pair reviews of the AlpsBench sample: see `AGREEMENT`.
"""

from collections.abc import Mapping
from typing import Any

from alps.judges.base import EmbeddedJudge
from alps.judges.matching import Judgement, MatchQuestion, Pair, Relation
from alps.judges.options import OptionQuestion, lexical_verdict
from alps.judges.question import Question
from alps.similarity import THRESHOLD, VERSION, similar_pairs

AGREEMENT = (
    "kappa .51 [.41, .60] with recorded LLM verdicts on 362 pairs, .21 [.11, .33] on the 216 not "
    "identical"
)
"""Cross-validated by session, with clustered 95 % intervals; measured by `bench/lexical_judge.py`.
"""


class LexicalJudge(EmbeddedJudge):
    """Pairs values whose similarity reaches `THRESHOLD`; labels and types are never looked at."""

    name = "lexical"
    answers: frozenset[type[Question[Any]]] = frozenset({MatchQuestion, OptionQuestion})
    relations: frozenset[Relation] = frozenset({"same"})
    comparable = False

    def __init__(self) -> None:
        self.fingerprint: Mapping[str, Any] = {
            "judge": "lexical",
            "threshold": THRESHOLD,
            "version": VERSION,
        }

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Name every pair whose similarity reaches the threshold, or the option that is named."""
        if isinstance(question, OptionQuestion):
            return lexical_verdict(question)
        if not isinstance(question, MatchQuestion):
            return question.refused()
        gold = [item.value for item in question.gold]
        predicted = [item.value for item in question.predicted]
        pairs = tuple(
            Pair(row, column, "same", f"lexical similarity {strength:.2f}", strength)
            for row, column, strength in similar_pairs(gold, predicted, THRESHOLD)
        )
        return Judgement("ok", pairs)
