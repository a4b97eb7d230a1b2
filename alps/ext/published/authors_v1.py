"""The first scores that the AlpsBench authors published, of extraction and update.

For comparison with their numbers only. Labels, types and confidence carry six tenths of a pair here
and meaning none, so that an answer without content does well: never rank systems by it. Everything
is deterministic and takes items as plain mappings or as `Memory`. The order in which text is
trimmed and folded and the places at which figures are rounded are those that reproduce the recorded
scores; an item is read as it stands, and an annotator's mark in a value is part of it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import product
from typing import Any

from alps.errors import UsageError
from alps.ext.adapters.recorded_verdicts import RecordedJudge
from alps.judges.base import Judge, fingerprint_id
from alps.schema import Memory, Prediction
from alps.tasks.base import JudgingOptions, Row, Scored, Task
from alps.tasks.extraction import predicted_memories
from alps.tasks.metrics import Metric
from alps.tasks.update_scores import predicted_lists

AuthorsItem = Mapping[str, Any] | Memory

THRESHOLD = 0.30
"""Score from which two items may be paired."""
DIGITS = 4
"""Decimal places to which pair scores and F1 are rounded."""

LABEL_WEIGHT, VALUE_WEIGHT, TYPE_WEIGHT, CONFIDENCE_WEIGHT = 0.40, 0.40, 0.10, 0.10
TOKEN_WEIGHT, SEQUENCE_WEIGHT = 0.6, 0.4
CONFIDENCE_TOLERANCE = 0.2

PENALTIES: Mapping[str, int] = {
    "EQUIVALENT": 0,
    "VALUE_DRIFT": 12,
    "HALLUCINATION": 15,
    "LABEL_WRONG": 6,
    "TYPE_WRONG": 6,
    "OVERGENERAL": 3,
    "UNDERGENERAL": 3,
}
"""Points that a reviewed pair costs by its error type, before its severity is applied."""
OTHER_PENALTY, MISSING_PENALTY, HALLUCINATED_PENALTY = 4, 10, 15
# The authors' judge gives 0 to 3; what is far beyond that is a slip, and no number to calculate
# with.
LARGEST_SEVERITY = 100

_DROPPED = re.compile(r"[^\w\s/.\-]")
_WHITE_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class AuthorsPair:
    """A gold and a predicted item that were paired: their positions and score (0 to 1)."""

    gold: int
    predicted: int
    score: float


@dataclass(frozen=True)
class AuthorsScore:
    """The scores of one record: four from 0 to 1, and `algo` from 0 to 100."""

    precision: float
    recall: float
    f1: float
    mean_pair: float
    algo: float


def label_similarity(first: object, second: object) -> float:
    """Return the share of two label paths that their longest common prefix covers, from 0 to 1.

    0 if one is empty.
    """
    paths = [
        [step for step in _fold(label).split("/") if step.strip()] for label in (first, second)
    ]
    if not all(paths):
        return 0.0
    common = 0
    for one, other in zip(*paths, strict=False):
        if one != other:
            break
        common += 1
    return 2 * common / (len(paths[0]) + len(paths[1]))


def value_similarity(first: object, second: object) -> float:
    """Return how far two values share words and character sequences, from 0 to 1.

    0 if one has no words. Words are what stands between white space.
    """
    one, other = _fold(first), _fold(second)
    words, other_words = set(one.split()), set(other.split())
    if not words or not other_words:
        return 0.0
    # The part by characters is not symmetric: gold comes first, as in the recorded scores.
    jaccard = len(words & other_words) / len(words | other_words)
    return TOKEN_WEIGHT * jaccard + SEQUENCE_WEIGHT * SequenceMatcher(None, one, other).ratio()


def pair_score(gold: AuthorsItem, predicted: AuthorsItem) -> float:
    """Return the score of one pair, from 0 to 1 and rounded.

    Label, value, type and confidence, weighted.
    """
    alike = bool(_field(gold, "type") == _field(predicted, "type"))
    score = (
        LABEL_WEIGHT * label_similarity(_field(gold, "label"), _field(predicted, "label"))
        + VALUE_WEIGHT * value_similarity(_field(gold, "value"), _field(predicted, "value"))
        + TYPE_WEIGHT * alike
        + CONFIDENCE_WEIGHT * _confidence_similarity(_confidence(gold), _confidence(predicted))
    )
    return round(score, DIGITS)


def match(gold: Sequence[AuthorsItem], predicted: Sequence[AuthorsItem]) -> list[AuthorsPair]:
    """Pair items one to one, greedily from the best score down to `THRESHOLD`.

    Return the pairs in that order.

    Of equal scores the earlier gold item goes first, then the earlier predicted one.
    """
    candidates = []
    for (row, item), (column, other) in product(enumerate(gold), enumerate(predicted)):
        candidates.append(AuthorsPair(row, column, pair_score(item, other)))
    rows: set[int] = set()
    columns: set[int] = set()
    pairs: list[AuthorsPair] = []
    for pair in sorted(candidates, key=lambda candidate: -candidate.score):
        if pair.score >= THRESHOLD and pair.gold not in rows and pair.predicted not in columns:
            rows.add(pair.gold)
            columns.add(pair.predicted)
            pairs.append(pair)
    return pairs


def algorithm_score(gold: Sequence[AuthorsItem], predicted: Sequence[AuthorsItem]) -> AuthorsScore:
    """Score one record without a judge.

    Every figure is 0 where nothing is paired, empty against empty too.
    """
    pairs = match(gold, predicted)
    if not pairs:
        return AuthorsScore(precision=0.0, recall=0.0, f1=0.0, mean_pair=0.0, algo=0.0)
    precision, recall = len(pairs) / len(predicted), len(pairs) / len(gold)
    f1 = round(2 * precision * recall / (precision + recall), DIGITS)
    mean_pair = sum(pair.score for pair in pairs) / len(pairs)
    return AuthorsScore(precision, recall, f1, mean_pair, 100 * (0.60 * mean_pair + 0.40 * f1))


def judge_score(reviews: Mapping[str, Any] | None) -> float | None:
    """Return 100 less the penalties of a judge's reviews, clipped to 0-100.

    None where the judge gave nothing.

    `reviews` has the lists `pair_reviews`, `missing_reviews` and `extra_reviews`; an absent list
    counts as empty.

    Raises:
        ValueError: If a review that costs something has no severity, or one that no review can
            have.
    """
    if not reviews:
        return None
    penalties: list[float] = []
    for review in reviews.get("pair_reviews") or ():
        base = PENALTIES.get(str(review.get("error_type")), OTHER_PENALTY)
        penalties.append(_penalty(base, review))
    for review in reviews.get("missing_reviews") or ():
        if review.get("should_have_extracted"):
            penalties.append(_penalty(MISSING_PENALTY, review))
    for review in reviews.get("extra_reviews") or ():
        if review.get("hallucinated"):
            penalties.append(_penalty(HALLUCINATED_PENALTY, review))
    return min(100.0, max(0.0, 100.0 - sum(penalties)))


def final_score(algo: float, judge: float | None) -> float:
    """Return the mean of both scores, 0-100; `algo` alone where the judge gave nothing."""
    return algo if judge is None else 0.5 * algo + 0.5 * judge


def _penalty(base: int, review: Mapping[str, Any]) -> float:
    if base == 0:
        return 0.0
    severity = review.get("severity")
    number: float = -1
    if isinstance(severity, int | float) and not isinstance(severity, bool):
        number = severity
    if not 0 <= number <= LARGEST_SEVERITY:
        raise ValueError(
            f"severity {repr(severity)[:40]} of a review is not a number from 0 to "
            f"{LARGEST_SEVERITY}"
        )
    return base * (0.5 + 0.5 * number)


def _field(item: AuthorsItem, name: str) -> Any:
    return getattr(item, name) if isinstance(item, Memory) else item.get(name)


def _fold(text: object) -> str:
    """Fold a text, trimming it first."""
    # A mark that is dropped from an end leaves a space there, which the sequences see.
    trimmed = "" if text is None else str(text).strip().lower()
    return _WHITE_SPACE.sub(" ", _DROPPED.sub(" ", trimmed))


def _confidence(item: AuthorsItem) -> float:
    """Return the confidence of an item."""
    # One that is missing or not a number counts as certain, as in the recorded scores.
    given = _field(item, "confidence")
    try:
        return 1.0 if given is None else float(given)
    except (TypeError, ValueError):
        return 1.0


def _confidence_similarity(first: float, second: float) -> float:
    beyond = abs(first - second) - CONFIDENCE_TOLERANCE
    return 1.0 if beyond <= 0 else max(0.0, 1.0 - beyond / (1.0 - CONFIDENCE_TOLERANCE))


METRICS = (
    Metric("authors_f1", "F1 (authors' matcher)", headline=True),
    Metric("authors_algo", "algorithm score (0–100)", highest=100.0),
    Metric("judge_score", "recorded judge's score (0–100)", optional=True, highest=100.0),
    Metric("final_score", "final score (0–100)", highest=100.0),
)

_PREDICTED: dict[str, Callable[[Prediction], Sequence[Memory]]] = {
    "extraction": predicted_memories,
    "update": lambda prediction: predicted_lists(prediction)[0],
}


def rescored(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return those of `tasks` that the authors' scores are defined for, scored by them.

    Raises:
        UsageError: If there is none among them.
    """
    found = tuple(
        _rescored(task, _PREDICTED[task.name]) for task in tasks if task.name in _PREDICTED
    )
    if not found:
        raise UsageError(
            f"scoring=authors-v1 is defined only for {' and '.join(_PREDICTED)}; leave it out for "
            "other tasks"
        )
    return found


def _rescored(task: Task, predicted: Callable[[Prediction], Sequence[Memory]]) -> Task:
    def recorded(sample: Any, prediction: Prediction, judge: Judge) -> Row | None:
        if isinstance(judge, RecordedJudge) and judge.is_about(
            sample.benchmark_id, predicted(prediction)
        ):
            return judge.reviews(sample.benchmark_id)
        return None

    async def judge_prediction(
        sample: Any, prediction: Prediction, judge: Judge, options: JudgingOptions
    ) -> dict[str, Any]:
        """Take the recorded reviews of this very prediction.

        Any other judge has none, and is not asked.
        """
        row = {"outcome": "ok", "judge": fingerprint_id(judge.fingerprint), "error": None}
        reviews = recorded(sample, prediction, judge)
        try:
            judge_score(reviews)
        except ValueError as error:  # a failed judgement: the record is unscored
            return {**row, "outcome": "invalid", "error": str(error), "reviews": None}
        return {**row, "reviews": reviews}

    def score(sample: Any, prediction: Prediction, verdict: Row | None, judge: Judge) -> Scored:
        algorithm = algorithm_score(sample.gold, predicted(prediction))
        # They judged an answer that failed as a list without memories.
        reviews = (
            verdict.get("reviews") if verdict is not None else recorded(sample, prediction, judge)
        )
        scores = {"authors_f1": algorithm.f1, "authors_algo": algorithm.algo}
        try:
            judged = judge_score(reviews)
        except ValueError as error:  # what hangs on a judge that can't be understood has no value
            return Scored(scores, details={"judge_error": str(error)})
        scores |= {"judge_score": judged} if judged is not None else {}
        return Scored({**scores, "final_score": final_score(algorithm.algo, judged)})

    return replace(
        task,
        judge=judge_prediction,
        score=score,
        metrics=METRICS,
        rubrics=(),
        public=replace(task.public, paired=None),
        conditions={**task.conditions, "scoring": "authors-v1"},
    )
