"""Judges that calibration brings: one that is fitted, and people's labels.

The fitted judge is two logistic regressions on how alike two memories are, kept as plain JSON. The
first tells pairs that are about the same thing from all others, the second tells of those which say
the same. `alps calibrate fit=yes` trains both on the verdicts of a run. It is deterministic and
free, and knows nothing but likeness: a cheap judge to be corrected by audits.

A label folder holds what people were shown of each item. A question is answered by the labels of
items that show the same, so labels of other answers say nothing of these.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from alps.errors import DataError, UsageError, first_fault
from alps.ext.audits import DIFFER
from alps.ext.calibration import FITTED
from alps.ext.calibration.label_rows import Value
from alps.ext.calibration.labels import LabelSet, pair_payload, rated_payload, read_labels
from alps.judges.base import (
    RELATIONS,
    UNRELATED,
    Item,
    Judgement,
    MatchQuestion,
    Pair,
    Question,
    Relation,
)
from alps.judges.embedded import EmbeddedJudge
from alps.judges.rubric import MATCHING, Rating, RubricQuestion
from alps.rows import PEOPLE
from alps.similarity import Features, features, similarity_matrix
from alps.stats.bootstrap import Floats

# Raised with every change of a feature: a file of another version is refused.
VERSION: Final = 1
OF_A_PAIR = (
    "similarity",
    "gold_covered",
    "predicted_covered",
    "gold_left",
    "predicted_left",
    "gold_length",
    "predicted_length",
    "same_label",
    "same_topic",
    "same_type",
    "gold_is_direct",
    "one_negated",
    "numbers_shared",
    "gold_numbers",
    "predicted_numbers",
    "names_shared",
    "gold_names",
    "predicted_names",
    "one_script",
)
"""What the second regression sees of a pair."""
AMONG_OTHERS = (*OF_A_PAIR, "above_row", "above_column", "most_alike")
"""What the first sees: also how much more alike the two are than each is to the other memories."""
# The last digits of a product of matrices change with the order of the memories.
DECIMALS = 9

_WORD = re.compile(r"[^\W_]+")


class LogisticLine(BaseModel):
    """A logistic regression on features as they are: a bias, and a weight by feature."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    bias: float
    weights: dict[str, float]

    def logits(self, values: Floats) -> Floats:
        """Return the log odds; the last axis of `values` holds the features in their order."""
        return np.asarray((values @ np.array([*self.weights.values()]) + self.bias).round(DECIMALS))


class Fitted(BaseModel):
    """Contents of the file of a fitted judge.

    Attributes:
        related: Whether a pair is about the same thing.
        same: Whether such a pair is a match.
        fitted_on: The judges whose verdicts it learnt, and how many.
        agreement: How far it agrees with them on sessions that it had not seen.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: Literal["fitted"] = "fitted"
    version: Literal[1] = VERSION
    related: LogisticLine
    same: LogisticLine
    fitted_on: dict[str, Any]
    agreement: str


def read_fitted(path: Path) -> Fitted:
    """Read the file of a fitted judge.

    Raises:
        UsageError: If there is none.
        DataError: If it is not what `alps calibrate fit=yes` wrote.
    """
    if not path.is_file():
        raise UsageError(
            f"judge={FITTED}{path}: no such file; create it with alps calibrate fit=yes"
        )
    try:
        fitted = Fitted.model_validate_json(path.read_bytes())
    except ValidationError as error:
        said, field = first_fault(error)
        raise DataError(f"not a fitted judge ({field or 'file'}: {said})", path=path) from error
    expected = {"related": AMONG_OTHERS, "same": OF_A_PAIR}
    for name, line in (("related", fitted.related), ("same", fitted.same)):
        if tuple(line.weights) != expected[name]:
            why = f"{name}.weights has missing or unknown features"
            raise DataError(f"not a fitted judge ({why})", path=path)
    return fitted


class FittedJudge(EmbeddedJudge):
    """Pairs memories that both regressions hold for likelier than not.

    Raises:
        UsageError: If the file does not exist.
        DataError: If it can't be read.
    """

    relations: frozenset[Relation] = frozenset({"same"})
    comparable = False

    def __init__(self, path: Path) -> None:
        self._fitted = read_fitted(path)
        self.name = f"{FITTED}{path}"
        self.agreement = self._fitted.agreement
        self.fingerprint: Mapping[str, Any] = {
            "judge": "fitted",
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "version": VERSION,
        }

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Name every pair that is likelier than not about the same thing, and the same."""
        if not isinstance(question, MatchQuestion):
            return question.refused()
        from scipy.special import expit  # a page about a run need not load it

        values = features_of(question)
        related = self._fitted.related.logits(values)
        same = self._fitted.same.logits(values[..., : len(OF_A_PAIR)])
        pairs = []
        for row, column in np.argwhere((related >= 0) & (same >= 0)).tolist():
            chances = float(expit(related[row, column])), float(expit(same[row, column]))
            reason = f"related {chances[0]:.2f}, same {chances[1]:.2f}"
            pairs.append(Pair(row, column, "same", reason, math.prod(chances)))
        return Judgement("ok", tuple(pairs))


def features_of(question: MatchQuestion) -> Floats:
    """Return `AMONG_OTHERS` of every pair; shape (gold, predicted, features)."""
    alike = np.array(
        similarity_matrix(
            [item.value for item in question.gold], [item.value for item in question.predicted]
        )
    )
    rows = []
    for gold, likeness in zip(question.gold, alike.tolist(), strict=True):
        pairs = zip(question.predicted, likeness, strict=True)
        rows.append([_of_a_pair(gold, predicted, like) for predicted, like in pairs])
    above_row, above_column = alike - _most_of_others(alike), alike - _most_of_others(alike.T).T
    most_alike = (above_row >= 0) & (above_column >= 0) & (alike > 0)
    return np.concatenate([rows, np.stack([above_row, above_column, most_alike], axis=-1)], axis=-1)


def _most_of_others(alike: Floats) -> Floats:
    """Return, for each place, the largest figure at others of its row; 0 if there is none."""
    if alike.shape[1] < 2:
        return np.zeros_like(alike)
    ordered = np.sort(alike, axis=1)
    return np.where(alike == ordered[:, -1:], ordered[:, -2:-1], ordered[:, -1:])


def _of_a_pair(gold: Item, predicted: Item, likeness: float) -> list[float]:
    one, other = features(gold.value), features(predicted.value)
    shared = _shared(one, other)
    weights = sum(one.content.values()), sum(other.content.values())
    names = _names(gold.value), _names(predicted.value)
    return [
        likeness,
        shared / weights[0] if weights[0] else 0.0,
        shared / weights[1] if weights[1] else 0.0,
        weights[0] - shared,
        weights[1] - shared,
        math.log1p(len(gold.value)),
        math.log1p(len(predicted.value)),
        gold.label == predicted.label,
        gold.label.partition("/")[0] == predicted.label.partition("/")[0],
        gold.type == predicted.type,
        gold.type == "direct",
        one.negated != other.negated,
        bool(one.numbers & other.numbers),
        bool(one.numbers - other.numbers),
        bool(other.numbers - one.numbers),
        bool(names[0] & names[1]),
        len(names[0] - names[1]),
        len(names[1] - names[0]),
        gold.value.isascii() == predicted.value.isascii(),
    ]


def _shared(one: Features, other: Features) -> float:
    """Return the weight of the pieces of content that two texts share."""
    common = one.content.keys() & other.content.keys()
    return math.fsum(min(one.content[piece], other.content[piece]) for piece in common)


def _names(value: str) -> set[str]:
    """Return the capitalised words of a value, without the first: any sentence begins so."""
    words: Sequence[str] = _WORD.findall(value)[1:]
    return {word.casefold() for word in words if word[0].isupper()}


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
        open_pairs = differing = 0
        lists = enumerate(question.gold), enumerate(question.predicted)
        for (row, gold), (column, predicted) in product(*lists):
            shown = _shown(MATCHING, pair_payload(gold, predicted))
            relation: Any = self._said.get(shown)
            if relation is None:
                open_pairs += 1
                differing += shown in self._said
            elif relation != UNRELATED:
                pairs.append(Pair(row, column, relation, PEOPLE))
        if open_pairs:
            of = len(question.gold) * len(question.predicted)
            why = f"pairs without a human decision: {open_pairs} of {of}"
            why += f" ({DIFFER} on {differing})" if differing else ""
            return Judgement("empty", error=why)
        return Judgement("ok", tuple(pairs))

    def _rate(self, question: RubricQuestion) -> Rating:
        payload, marks = rated_payload(question), {}
        for label, mark in question.rubric.labels.items():
            shown = _shown(label, payload)
            said = self._said.get(shown)
            if not isinstance(said, int):
                why = f"people have not decided on {label}"
                why += f" ({DIFFER})" if shown in self._said else ""
                return Rating("empty", error=why)
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
