"""The task of histories and questions; all sets are asked and scored alike.

Scores are our own on all questions and on the sound ones, then those of the authors. A record on a
page has the question, the evidence, what a memory found, and the verdict.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from alps.data.hub import RELEASE
from alps.errors import UsageError
from alps.ext.adapters.recorded_verdicts import RecordedJudge
from alps.ext.histories.book import audit_set, open_book
from alps.ext.histories.files import SetChoice
from alps.ext.histories.judging import is_mark, judge_prediction, right_of, rubrics_of
from alps.ext.histories.model import Authors, CitedSet, SetQuestion
from alps.ext.histories.sample import (
    UNKNOWN,
    HistorySample,
    asked,
    by_rules,
    evidence_of,
    for_class,
    history_of,
    needed_of,
    place_of,
)
from alps.judges.base import Judge
from alps.judges.rubric import RubricQuestion
from alps.llm.types import IN_WORDS, AnswerType
from alps.prompts import load_prompt
from alps.schema import Prediction, TextAnswer
from alps.tasks.base import (
    AGREEMENT,
    Answer,
    Asking,
    ByMemory,
    JudgingOptions,
    PublicAnswers,
    Records,
    Row,
    Scored,
    Shown,
    Task,
    TaskData,
    TaskOptions,
    agreement_score,
    chat_messages,
    memory_conditions,
)
from alps.tasks.by_memory import Recall
from alps.tasks.metrics import Breakdown, Inference, Metric, OnBoards
from alps.tasks.record_parts import (
    FAILED,
    JUDGEMENT_FAILED,
    AnsweredRecord,
    Dialogue,
    Facts,
    Highlight,
    Passage,
    Rank,
    RecordPart,
    ScoredAnswer,
)
from alps.tasks.utilization import fits, read_answer

PROMPT = load_prompt("alps.ext.histories", "prompts", "answer")
RECALL = Recall(
    history_of,
    place_of,
    lambda sample, shown: replace(sample, shown=shown),
    evidence_of,
    needed_of,
    dated=True,
)

_optional = partial(Metric, optional=True, inference=Inference(resampled=True))
_BESIDE = ("answerable", "abstention", "sound", "wrong_gold")
OURS = (
    Metric(
        "right",
        "right answers",
        headline=True,
        inference=Inference(resampled=True, baseline_differences=True),
        on_boards=OnBoards(companions=_BESIDE),
    ),
    _optional("answerable", "  answerable"),
    _optional("abstention", "  unanswerable, declined"),
    _optional("sound", "  without known errors"),
    _optional("wrong_gold", "credit for wrong gold", lower_is_better=True),
)


THEIRS = (
    Metric("authors_sound", "  without known errors", optional=True),
    _optional("authors_wrong_gold", "  credit for wrong gold", lower_is_better=True),
)
"""The authors' judged figure on these questions."""


def _told_by_oracle(question: SetQuestion) -> str:
    return UNKNOWN if question.abstains else question.answer or "; ".join(question.points)


def _commonest(sample: HistorySample) -> dict[str, Any]:
    """Answer with the commonest gold of the question's kind; decline where all golds do."""
    return {"answer": sample.book.commonest.get(sample.question.kind, UNKNOWN)}


SYSTEMS: Mapping[str, Answer | str] = {
    "rules": by_rules,
    "oracle": lambda sample: {"answer": _told_by_oracle(sample.question)},
    # Refusing all has an authors' F1 of .228 on LoCoMo, and is right on .239 of HaluMem.
    "floor/refusal": lambda sample: {"answer": UNKNOWN},
    "floor/commonest": _commonest,
    "floor/question": lambda sample: {"answer": sample.question.text},
}


def unread(row: Row, gold: Row | None) -> Any:
    """Refuse a row of the release layout: a set has files of its own.

    Raises:
        ValueError: Always.
    """
    raise ValueError("a set of histories has its own files")


def tracks_of(cited: CitedSet) -> Callable[[TaskOptions], tuple[Task, ...]]:
    """Return what makes the one track of a set."""
    return lambda options: (_task(cited, options),)


def choice_of(cited: CitedSet, options: TaskOptions) -> SetChoice:
    """Return the files of a set that a run chooses, or that `split=` of an audit names.

    Raises:
        UsageError: If the set has no such files.
    """
    added = dict(options.added)
    if "split" in added:
        return cited.named(added["split"])
    return cited.choose(SetChoice(set=added.get("set"), size=options.size))


def _open(cited: CitedSet, data: str, options: TaskOptions) -> Records:
    choice = choice_of(cited, options)
    book = open_book(cited, data, choice)
    kept = []
    for entry in book.entries:
        kept.append(HistorySample(entry.question.id, entry.question.history, entry, book))
    described: dict[str, Any] = {"histories": book.histories, "kinds": book.counts}
    # Four questions of LoCoMo have no evidence, which no oracle could show.
    if options.memory == "oracle":
        kept = [sample for sample in kept if evidence_of(sample) is not None]
        described["evidence"] = {"located": len(kept), "of": len(book.entries)}
        if not kept:
            raise UsageError(f"memory=oracle: data={data} has no evidence annotations")
    described |= {"undated": book.undated} if book.undated else {}
    expected = cited.expected(choice)
    # Figures of LoCoMo are often over 1,540 of the 1,986 questions, without the adversarial ones.
    if expected and data != "samples" and book.counts != dict(expected):
        described["not_official"] = f"{sum(book.counts.values())} of {sum(expected.values())}"
    return Records(lambda: iter(kept), book.sha256, described)


def _input_row(cited: CitedSet, sample: HistorySample) -> dict[str, Any]:
    return {"benchmark_id": sample.benchmark_id, "task": cited.name, "input": asked(sample)}


def _task(cited: CitedSet, options: TaskOptions) -> Task:
    given = choice_of(cited, options)
    conditions = memory_conditions(options)
    conditions |= {name: value for name, value in vars(given).items() if value is not None}

    async def judge(
        sample: HistorySample, prediction: Prediction, judge: Judge, asked: JudgingOptions
    ) -> dict[str, Any]:
        return await judge_prediction(cited, sample, prediction, judge)

    return Task(
        name=cited.name,
        track=cited.name,
        prompt=PROMPT,
        answer=AnswerType(schema=TextAnswer, read=read_answer, partial=False, within=IN_WORDS),
        read_sample=unread,
        messages=lambda sample: chat_messages(PROMPT.text, asked(sample)),
        input_row=partial(_input_row, cited),
        to_prediction=lambda text: {"answer": text},
        has_gold=lambda sample: sample.has_gold,
        score=partial(_score, cited),
        metrics=_metrics_of(cited),
        judge=judge,
        rubrics=rubrics_of(cited),
        likely=lambda sample: {"answer": sample.gold or UNKNOWN},
        fits=fits,
        groups=_groups_of,
        systems=SYSTEMS,
        conditions=conditions,
        asking=Asking(plain=True, for_class=for_class),
        public=PublicAnswers(longest=10_000, schema=TextAnswer, is_mark=is_mark),
        shown=Shown(
            title=cited.title,
            breakdowns=_breakdowns_of(cited),
            record_parts=_record_parts,
            highlights=HIGHLIGHTS,
        ),
        data=TaskData(
            hub=cited.hub or RELEASE,
            open_records=partial(_open, cited),
            audit=partial(audit_set, cited),
        ),
        by_memory=ByMemory(recall=RECALL),
    )


def _metrics_of(cited: CitedSet) -> tuple[Metric, ...]:
    """Return the metrics of a set: ours first."""
    if cited.authors is None:
        return (*OURS, AGREEMENT)
    headline, *others = OURS
    # What others publish is in the authors' figures: boards print those next to ours.
    shown = (*_BESIDE, *(metric.name for metric in cited.authors.metrics))
    headline = replace(headline, on_boards=OnBoards(companions=shown))
    return (headline, *others, *cited.authors.metrics, *THEIRS, AGREEMENT)


def _breakdowns_of(cited: CitedSet) -> tuple[Breakdown, ...]:
    """Return what is reported by kind of question: our score, then figures of the authors."""
    kinds = dict(cited.kinds)
    found = [Breakdown("kind", "accuracy by type of question", "right", kinds)]
    for metric in _by_kind(cited):
        found.append(
            Breakdown(f"kind_{metric.name}", f"{metric.title}, by kind", metric.name, kinds)
        )
    return tuple(found)


def _by_kind(cited: CitedSet) -> list[Metric]:
    """Return the authors' first metric, and the one that a judge decides."""
    if cited.authors is None:
        return []
    metrics = cited.authors.metrics
    return [one for one in metrics if one in metrics[:1] or one.name == cited.authors.judged]


def _groups_of(sample: HistorySample) -> Mapping[str, str]:
    """Return the kind of a question, which all breakdowns go by."""
    breakdowns = _breakdowns_of(sample.book.cited)
    return dict.fromkeys((one.name for one in breakdowns), sample.question.kind)


def _score(
    cited: CitedSet,
    sample: HistorySample,
    prediction: Prediction,
    verdict: Row | None,
    judge: Judge,
) -> Scored:
    """Score one answer; a failed one is wrong."""
    question = sample.question
    answer = None if prediction.prediction is None else str(prediction.prediction["answer"])
    marks: Mapping[str, float] = (verdict or {}).get("marks") or {}
    scores: dict[str, float] = {}
    counts: dict[str, float] = {}
    right = right_of(question, answer, marks)
    # What was recorded is no judgement of ours, and a missing answer no failure under it.
    if right is not None and not isinstance(judge, RecordedJudge):
        scores |= _ours(sample, right)
    if cited.authors is not None:
        theirs, counts = _of_authors(cited.authors, sample, answer, marks)
        scores |= theirs
    if marks and RubricQuestion in judge.answers:
        counts["asked"] = 1.0
    details: dict[str, Any] = {"defects": list(sample.entry.defects)} if not sample.sound else {}
    key = question.history, question.text
    return Scored(scores | agreement_score(verdict), counts, details, key)


def _of_authors(
    authors: Authors, sample: HistorySample, answer: str | None, marks: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return scores and counts by the rules of a set's authors."""
    given, counts = authors.score(sample.question, answer, marks)
    scores = dict(given)
    if (credit := scores.get(authors.judged)) is not None:
        scores |= {"authors_sound": credit} if sample.sound else {}
        scores |= {"authors_wrong_gold": credit} if sample.wrong_gold else {}
    # Optional metrics are shown where a record has a value or a count of their name.
    own = [metric.name for metric in authors.metrics if not metric.is_mean and counts]
    return scores, {**counts, **dict.fromkeys(own, 1.0)}


def _ours(sample: HistorySample, right: float) -> dict[str, float]:
    scores = {"right": right, "abstention" if sample.question.abstains else "answerable": right}
    if sample.sound:
        scores["sound"] = right
    if sample.wrong_gold:
        scores["wrong_gold"] = right
    return scores


def _record_parts(record: AnsweredRecord) -> Sequence[RecordPart]:
    """Show the question, the answer with its verdict, and the evidence in the history."""
    answer = Passage("Answer", str(record.answer.get("answer") or ""))
    verdict = judgement_of(record)
    sample: HistorySample | None = record.sample
    if sample is None:
        return [answer, verdict]
    question = sample.question
    about = [("kind", question.kind), ("history", question.history)]
    about += [("asked at", question.at)] if question.at else []
    about += [("known errors", ", ".join(sample.entry.defects))] if not sample.sound else []
    gold = "the history does not say" if question.abstains else question.answer
    parts: list[RecordPart] = [
        Facts("About the question", tuple(about)),
        Passage("Question", question.text),
        Passage("Right answer", gold),
        answer,
        verdict,
    ]
    return [*parts, *_evidence(sample)]


def judgement_of(record: AnsweredRecord) -> Facts:
    """Return the marks of a verdict, each with its reason."""
    verdict = record.verdict or {}
    reasons = verdict.get("reasons") or {}
    marks = []
    for name, mark in (verdict.get("marks") or {}).items():
        reason = reasons.get(name)
        marks.append((name, f"{mark} – {reason}" if reason else str(mark)))
    return Facts("Judgement", tuple(marks))


def _evidence(sample: HistorySample) -> Iterator[RecordPart]:
    found = evidence_of(sample)
    if found is not None and found.positions:
        turns = history_of(sample).turns
        labels = dict.fromkeys(found.positions, "evidence")
        yield Dialogue(
            "History: evidence turns",
            turns,
            folded=True,
            shown=tuple(found.positions[:12]),
            labels=labels,
        )


def _wrong(answer: ScoredAnswer) -> Rank:
    return () if answer.judged and answer.value("sound") == 0 else None


def _credited(answer: ScoredAnswer) -> Rank:
    return () if answer.judged and answer.value("wrong_gold") == 1 else None


HIGHLIGHTS = (
    FAILED,
    JUDGEMENT_FAILED,
    Highlight("wrong answers to questions without known errors", 6, _wrong),
    Highlight("credit for a gold answer that is known to be wrong", 3, _credited),
)
