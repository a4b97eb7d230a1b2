"""Scores of sets as their authors compute them, for comparison with published figures.

LoCoMo (`task_eval/evaluation.py` of snap-research/locomo): the F1 of stemmed words, by a rule for
each category.

LongMemEval (`src/evaluation/evaluate_qa.py` and `print_qa_metrics.py` of xiaowu0162/LongMemEval): a
judge with a rule for each type of question. Three figures are called accuracy there: over
questions, over the six types, and of abstention alone.

BEAM (`src/evaluation` of mohammadtavakoli78/BEAM): nuggets that are judged one by one, and the
order of events. Its code cuts every half mark to nothing in nine of ten abilities, and takes for
the tenth no nuggets but the agreement of two orders. Others keep half marks throughout: both are
scored, and kept apart.

HaluMem (`eval/evaluation.py` of IAAR-Shanghai/HaluMem): answers are correct, or hallucinated, or
leave something out. Recall is the share of points that are covered whole; accuracy is the mean half
mark of stored memories, target accuracy that of those which points are about. F1 is of target
accuracy and recall, over all sessions. A judgement that failed leaves its session unscored, as in
the authors' figures called valid. Of changes, those for which a search found nothing count as
omissions here; the authors move them to recall, so that the denominator differs by system: their
rate is next to ours.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean

from alps.ext.histories.judging import (
    ALIGNED,
    CHANGED,
    CHANGES,
    COVERED,
    OUTCOME,
    OUTCOMES,
    STATED,
)
from alps.ext.histories.model import Authors, Marks, SetQuestion
from alps.ext.histories.points import PointsSample
from alps.ext.histories.porter import stem
from alps.tasks.metrics import HarmonicMean, Inference, MacroRatio, Metric, MicroRatio, Needs

Scores = tuple[dict[str, float], dict[str, float]]
_RATED = Needs(rating=True)
_RESAMPLED = Inference(resampled=True)
_judged = partial(Metric, optional=True, inference=_RESAMPLED)
MULTI_HOP, OPEN_DOMAIN, ADVERSARIAL = "1", "3", "5"
# LoCoMo's code knows no other refusal: one in other words scores 0 there, and may be right by ours.
REFUSALS = ("no information available", "not mentioned")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# LoCoMo's code drops `and`, too, which is no article.
_LEFT_OUT = re.compile(r"\b(a|an|the|and)\b")


def words_of(text: str) -> Counter[str]:
    """Return the stems of the words that are compared."""
    bare = text.replace(",", "").lower().translate(_PUNCTUATION)
    return Counter(stem(word) for word in _LEFT_OUT.sub(" ", bare).split())


def f1(answer: str, gold: str) -> float:
    """Return the F1 of two texts; 0 where they share no word."""
    said, meant = words_of(answer), words_of(gold)
    shared = (said & meant).total()
    if not shared:
        return 0.0
    precision, recall = shared / said.total(), shared / meant.total()
    return 2 * precision * recall / (precision + recall)


def f1_of_parts(answer: str, gold: str) -> float:
    """Return the mean over the parts of the gold of the best F1 of a part of the answer."""
    # Commas part the texts here, as the authors split before they drop punctuation.
    said = [part.strip() for part in answer.split(",")]
    return fmean(max(f1(one, part.strip()) for one in said) for part in gold.split(","))


def score_of(category: str, answer: str, gold: str) -> float:
    """Return the score of one answer, in [0, 1]."""
    if category == ADVERSARIAL:
        return float(any(said in answer.lower() for said in REFUSALS))
    if category == MULTI_HOP:
        return f1_of_parts(answer, gold)
    # Eleven golds of category 3 go on behind a semicolon, which the authors' code cuts off.
    return f1(answer, gold.split(";", maxsplit=1)[0].strip() if category == OPEN_DOMAIN else gold)


def _locomo_score(question: SetQuestion, answer: str | None, marks: Marks) -> Scores:
    value = score_of(question.kind, answer or "", question.answer) if answer else 0.0
    scores = {"f1": value}
    # Mem0 and those who follow it publish figures over categories 1 to 4, n 1,540.
    if question.kind != ADVERSARIAL:
        scores["f1_1_to_4"] = value
        if "generous" in marks:
            scores["generous"] = marks["generous"]
        elif answer is None:
            scores["generous"] = 0.0
    return scores, {}


LOCOMO = Authors(
    metrics=(
        Metric("f1", "authors' F1, categories 1-5", judged=False, inference=_RESAMPLED),
        Metric("f1_1_to_4", "  categories 1-4", judged=False, inference=_RESAMPLED),
        # Never a headline: a judge that is told to be generous took 62.8 % of answers that are
        # wrong on purpose and on the topic (dial481/locomo-audit).
        _judged("generous", "Mem0's lenient judge, categories 1-4"),
    ),
    rubrics=lambda question: (
        () if question.kind == ADVERSARIAL else (("generous", question.answer),)
    ),
    score=_locomo_score,
    judged="generous",
    recorded="mem0",
)


TYPES = (
    *("single-session-user", "single-session-assistant", "single-session-preference"),
    *("multi-session", "temporal-reasoning", "knowledge-update"),
)
_OF_TYPE = {
    "single-session-preference": "type_guide",
    "temporal-reasoning": "type_time",
    "knowledge-update": "type_update",
}
TYPE_RUBRICS = ("guide", "type_answer", "type_time", "type_update", "type_guide", "type_absent")


def rubric_of_type(question: SetQuestion) -> str:
    """Return the name of the rubric by which the authors judge a question."""
    # `_abs` goes before the type: its gold explains why there is no answer, whatever the type.
    return "type_absent" if question.abstains else _OF_TYPE.get(question.kind, "type_answer")


def _longmemeval_score(question: SetQuestion, answer: str | None, marks: Marks) -> Scores:
    by = rubric_of_type(question)
    # A failed answer is wrong without a judge; the authors' script lets rows that are not there
    # leave the denominator.
    if answer is not None and by not in marks:
        return {}, {}
    value = 0.0 if answer is None else float(marks[by])
    scores = {"by_type": value}
    if question.abstains:
        scores["by_type_absent"] = value
    kind = _field(question.kind)
    return scores, {f"right_{kind}": value, f"asked_{kind}": 1.0}


def _field(kind: str) -> str:
    return kind.replace("-", "_")


LONGMEMEVAL = Authors(
    metrics=(
        _judged("by_type", "authors' accuracy, by question", needs=_RATED),
        Metric(
            "by_type_mean",
            "  mean of the six types",
            MacroRatio(
                tuple(((f"right_{_field(kind)}", f"asked_{_field(kind)}"),) for kind in TYPES)
            ),
            optional=True,
            needs=_RATED,
        ),
        _judged("by_type_absent", "  abstention alone", needs=_RATED),
    ),
    rubrics=lambda question: ((rubric_of_type(question), question.answer),),
    score=_longmemeval_score,
    judged="by_type",
    recorded="longmemeval",
)


ORDERING = "event_ordering"
ABILITIES = (
    *("abstention", "contradiction_resolution", ORDERING, "information_extraction"),
    *("instruction_following", "knowledge_update", "multi_session_reasoning"),
    *("preference_following", "summarization", "temporal_reasoning"),
)


def order_agreement(nuggets: Sequence[str], lines: Sequence[str], found: Sequence[int]) -> float:
    """Return (τ_b + 1) / 2 between the order of nuggets and of the lines of an answer.

    What is in one of them alone is ranked last in the other, all of it tied.

    Args:
        nuggets: In their order.
        lines: Those of the answer.
        found: For each line the nugget that it tells, by position, or -1.
    """
    from scipy.stats import kendalltau

    named = list(lines)
    for number, place in enumerate(found):
        if place >= 0:
            named[number] = nuggets[place]
    union = list(dict.fromkeys((*nuggets, *named)))
    last = len(union) + 1
    ranks = []
    for listed in (nuggets, named):
        places = {item: place for place, item in enumerate(listed, start=1)}
        ranks.append([places.get(item, last) for item in union])
    tau = float(kendalltau(ranks[0], ranks[1], variant="b").statistic)
    # Where all ranks of one side are equal there is no τ.
    return 0.0 if math.isnan(tau) else (tau + 1) / 2


def lines_of(answer: str) -> list[str]:
    """Return the lines of an answer, the empty ones too."""
    return answer.split("\n")


def _beam_score(question: SetQuestion, answer: str | None, marks: Marks) -> Scores:
    points = [marks[name] for name in marks if name.startswith("point ")]
    if answer is not None and not points:
        return {}, {}
    n = len(points) or 1
    half = sum(points) / 2 / n
    counts = {f"half_{question.kind}": half, f"asked_{question.kind}": 1.0}
    whole = sum(mark == 2 for mark in points) / n  # the authors' `int(score)` makes .5 a 0
    if question.kind == ORDERING:
        whole = _ordered(question, answer, marks)
    return {"half_marks": half}, {**counts, f"int_{question.kind}": whole}


def _ordered(question: SetQuestion, answer: str | None, marks: Marks) -> float:
    # By τ an answer that matches nothing gets about .25; a failed one gets 0.
    if answer is None:
        return 0.0
    lines = lines_of(answer)
    found = [int(marks.get(f"{ALIGNED} {place}", -1)) for place in range(len(lines))]
    return order_agreement(question.points, lines, found)


def _mean(name: str, title: str, counted: str) -> Metric:
    # The authors' overall weighs abilities alike, whatever number of questions each has.
    groups = tuple(((f"{counted}_{kind}", f"asked_{kind}"),) for kind in ABILITIES)
    return Metric(name, title, MacroRatio(groups), optional=True, needs=_RATED)


BEAM = Authors(
    metrics=(
        Metric("half_marks", "nuggets, with half marks", optional=True),
        _mean("half_marks_mean", "  mean of the abilities", "half"),
        _mean("authors", "authors' score (whole facts only, τ)", "int"),
    ),
    rubrics=lambda question: (),
    score=_beam_score,
    judged="half_marks",
    paired=lambda question, answer: (
        (question.points, lines_of(answer)) if question.kind == ORDERING else ((), ())
    ),
)


COUNTS = (
    *("points", "covered", "weights", "weighted", "wrong", "left_out"),
    *("stored", "stored_right", "included", "included_right"),
)


def _halumem_rubrics(question: SetQuestion) -> Sequence[tuple[str, str]]:
    # The authors' judge sees the evidence next to the gold.
    facts = "".join(f"\n- {fact}" for fact in question.more.get("facts", ()))
    return ((OUTCOME, f"{question.answer}\nFacts:{facts or ' none'}"),)


def _halumem_score(question: SetQuestion, answer: str | None, marks: Marks) -> Scores:
    if answer is None:
        # A failed answer is wrong, and says nothing that could be made up.
        return dict.fromkeys(OUTCOMES, 0.0), {}
    if OUTCOME not in marks:
        return {}, {}
    return {name: float(marks[OUTCOME] == place) for place, name in enumerate(OUTCOMES)}, {}


HALUMEM = Authors(
    metrics=(
        _judged("correct", "authors' rate of correct answers", needs=_RATED),
        _judged("hallucination", "  of hallucinations", needs=_RATED, lower_is_better=True),
        _judged("omission", "  of omissions", needs=_RATED, lower_is_better=True),
    ),
    rubrics=_halumem_rubrics,
    score=_halumem_score,
    judged="correct",
    recorded="halumem",
)


def extraction_score(
    sample: PointsSample, texts: Sequence[str] | None, marks: Mapping[str, float]
) -> Scores:
    """Return scores and counts of a session; a failed answer stored nothing."""
    counts = dict.fromkeys(COUNTS, 0.0)
    for n, point in enumerate(sample.points):
        mark = marks.get(f"{COVERED} {n}", 0)
        if point.wrong:
            counts["wrong"] += 1
            # A system that failed has resisted no false memory.
            counts["left_out"] += mark == 0 and texts is not None
            continue
        counts["points"] += 1
        counts["covered"] += mark == 2
        counts["weights"] += point.importance
        counts["weighted"] += point.importance * mark / 2
    for n in range(len(texts or ())):
        mark = marks[f"{STATED} {n} mark"] / 2
        counts["stored"] += 1
        counts["stored_right"] += mark
        if marks[f"{STATED} {n} included"]:
            counts["included"] += 1
            counts["included_right"] += mark
    # A session of false memories alone has no recall; what was stored of it still counts.
    if not counts["points"]:
        return {}, counts
    recall = counts["covered"] / counts["points"]
    # The authors' code divides by zero where no stored memory is in the gold's fields.
    precision = counts["included_right"] / (counts["included"] or 1)
    return {"f1": 2 * recall * precision / ((recall + precision) or 1)}, counts


def update_score(
    sample: PointsSample, texts: Sequence[str] | None, marks: Mapping[str, float]
) -> Scores:
    """Return the outcome of a change; what was not found is omitted, and what failed is wrong."""
    if texts is None:
        return dict.fromkeys(CHANGES, 0.0), {}
    scores = {name: float(marks[CHANGED] == n) for n, name in enumerate(CHANGES)}
    return scores | ({"correct_found": scores["correct"]} if texts else {}), {}


def _ratio(name: str, title: str, above: str, below: str) -> Metric:
    return Metric(name, title, MicroRatio({above: 1}, {below: 1}))


_HEADLINE = Inference(resampled=True, baseline_differences=True)
EXTRACTION = (
    Metric("f1", "F1, mean of sessions", headline=True, inference=_HEADLINE),
    Metric(
        "authors_f1",
        "authors' F1",
        HarmonicMean((("included_right", "included"), ("covered", "points"))),
    ),
    _ratio("recall", "  recall", "covered", "points"),
    _ratio("weighted_recall", "  recall by importance", "weighted", "weights"),
    # Extracting little looks precise by this one: `accuracy` of all stored memories is next to it.
    _ratio("target_accuracy", "  accuracy, annotated memories only", "included_right", "included"),
    _ratio("accuracy", "  accuracy, all stored memories", "stored_right", "stored"),
    _ratio("resistance", "  false memories left out (FMR)", "left_out", "wrong"),
)
UPDATE = (
    Metric("correct", "changes stored correctly", headline=True, inference=_HEADLINE),
    Metric("hallucination", "  hallucinated", lower_is_better=True, inference=_RESAMPLED),
    Metric("omission", "  omitted", lower_is_better=True, inference=_RESAMPLED),
    Metric("other", "  other", lower_is_better=True, inference=_RESAMPLED),
    Metric(
        "correct_found",
        "authors' rate, where search found memories",
        optional=True,
        inference=_RESAMPLED,
    ),
)
