"""Human labels used as a judge: their labels for exactly the items in question.

A label folder holds what people were shown of each item. A question is answered by the labels of
items that show the same, so labels of other answers say nothing of these.
"""

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from alps.ext.calibration.label_rows import Value
from alps.ext.calibration.labels import LabelSet, pair_payload, rated_payload, read_labels
from alps.judges.base import Question
from alps.judges.embedded import EmbeddedJudge
from alps.judges.matching import RELATIONS, UNRELATED, Judgement, MatchQuestion, Pair, Relation
from alps.judges.rubric import MATCHING, Rating, RubricQuestion
from alps.rows import PEOPLE


class PeopleJudge(EmbeddedJudge):
    """Answers what people labelled; what they have not settled has no verdict.

    Raises:
        UsageError: If there is no label folder.
        DataError: If a file of it can't be read.
    """

    name = PEOPLE
    relations: frozenset[Relation] = frozenset(RELATIONS)
    answers: frozenset[type[Question[Any]]] = frozenset({MatchQuestion, RubricQuestion})
    comparable = False

    def __init__(self, folder: Path) -> None:
        self.labels = read_labels(folder, "audit_labels")
        self.fingerprint: Mapping[str, Any] = {"judge": PEOPLE, "labels": self.labels.sha256}
        self._said = _by_what_was_shown(self.labels)

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Return what people say of what `question` shows."""
        match question:
            case MatchQuestion():
                return self._match(question)
            case RubricQuestion():
                return self._rate(question)
        return question.refused()

    def _match(self, question: MatchQuestion) -> Judgement:
        pairs: list[Pair] = []
        open_pairs = 0
        lists = enumerate(question.gold), enumerate(question.predicted)
        for (row, gold), (column, predicted) in product(*lists):
            relation: Any = self._said.get(_shown(MATCHING, pair_payload(gold, predicted)))
            if relation is None:
                open_pairs += 1
            elif relation != UNRELATED:
                pairs.append(Pair(row, column, relation, PEOPLE))
        if open_pairs:
            of = len(question.gold) * len(question.predicted)
            return Judgement("empty", error=f"{open_pairs} of {of} pairs lack a human decision")
        return Judgement("ok", tuple(pairs))

    def _rate(self, question: RubricQuestion) -> Rating:
        payload, marks = rated_payload(question), {}
        for label, mark in question.rubric.labels.items():
            said = self._said.get(_shown(label, payload))
            if not isinstance(said, int):
                return Rating("empty", error=f"{label} is undecided by people")
            marks[mark] = said
        return Rating("ok", marks, PEOPLE)


def _shown(rubric: str, payload: Mapping[str, Any]) -> str:
    return json.dumps([rubric, payload], sort_keys=True)


def _by_what_was_shown(labels: LabelSet) -> dict[str, Value | None]:
    """Return what people say by what they were shown; None where copies of an item differ."""
    said: dict[str, Value | None] = {}
    for item_id, item in labels.items.items():
        key, truth = _shown(item.rubric, item.payload), labels.truth(item_id)
        said[key] = truth if said.get(key, truth) == truth else None
    return said
