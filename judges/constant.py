"""Judges that always say the same: what an agreement or a score owes to no judgement at all."""

from collections.abc import Mapping
from typing import Any

from alps.judges.base import EmbeddedJudge
from alps.judges.matching import Judgement, MatchQuestion, Pair, Relation
from alps.judges.options import OptionQuestion, OptionVerdict
from alps.judges.question import Question
from alps.judges.rubric import Rating, RubricQuestion, enforce

ALWAYS_YES, ALWAYS_NO = "always-yes", "always-no"
CONSTANT_JUDGES = (ALWAYS_YES, ALWAYS_NO)


class ConstantJudge(EmbeddedJudge):
    """Calls every pair the same, gives the highest marks and names the first option, or neither.

    The hard rules of a rubric bind it as they bind any judge.

    Args:
        name: `always-yes` or `always-no`.
    """

    answers: frozenset[type[Question[Any]]] = frozenset(
        {MatchQuestion, RubricQuestion, OptionQuestion}
    )
    relations: frozenset[Relation] = frozenset({"same"})
    comparable = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.fingerprint: Mapping[str, Any] = {"judge": name}

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Say it of every pair, or of every mark."""
        yes = self.name == ALWAYS_YES
        if isinstance(question, RubricQuestion):
            scale = question.rubric.scale
            marks = dict.fromkeys(question.rubric.marks, int(scale[-1 if yes else 0]))
            return enforce(Rating("ok", marks, self.name), question)
        if isinstance(question, OptionQuestion):
            return OptionVerdict("ok", 0 if yes else None, self.name)
        if not isinstance(question, MatchQuestion):
            return question.refused()
        pairs = []
        for gold in range(len(question.gold) if yes else 0):
            for predicted in range(len(question.predicted)):
                pairs.append(Pair(gold, predicted, "same", self.name, 1.0))
        return Judgement("ok", tuple(pairs))
