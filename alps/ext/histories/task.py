"""The task of histories and questions; all sets are asked and scored alike."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from alps.data.audit_findings import AuditReport
from alps.data.hub import RELEASE
from alps.errors import UsageError
from alps.ext.histories.audit import audit_set
from alps.ext.histories.book import open_book
from alps.ext.histories.files import SetChoice
from alps.ext.histories.judging import is_mark, judge_prediction, rubrics_of
from alps.ext.histories.model import CitedSet
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
from alps.ext.histories.scores import breakdowns_of, groups_of, metrics_of, score
from alps.ext.histories.shown import HIGHLIGHTS, record_parts
from alps.judges.base import Judge
from alps.llm.types import IN_WORDS, AnswerType
from alps.prompts import load_prompt
from alps.schema import Prediction, TextAnswer
from alps.tasks.base import (
    Answer,
    Asking,
    ByMemory,
    JudgingOptions,
    PublicAnswers,
    Records,
    Row,
    Shown,
    Task,
    TaskData,
    TaskOptions,
    chat_messages,
    memory_conditions,
)
from alps.tasks.by_memory import Recall
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


def _commonest(sample: HistorySample) -> dict[str, Any]:
    """Answer with the commonest gold of the question's kind; decline where all golds do."""
    return {"answer": sample.book.commonest.get(sample.question.kind, UNKNOWN)}


SYSTEMS: Mapping[str, Answer | str] = {
    "rules": by_rules,
    "oracle": lambda sample: {"answer": UNKNOWN if sample.question.abstains else sample.gold},
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

    def tracks(options: TaskOptions) -> tuple[Task, ...]:
        return (_task(cited, options),)

    return tracks


def _choice(options: TaskOptions) -> SetChoice:
    return SetChoice(set=dict(options.added).get("set"), size=options.size)


def _open(cited: CitedSet, data: str, options: TaskOptions) -> Records:
    book = open_book(cited, data, _choice(options))
    kept = list(book.entries)
    described: dict[str, Any] = {"histories": book.histories, "kinds": book.counts}
    if options.memory == "oracle":
        kept = [one for one in kept if evidence_of(_sample(one.question.id, one, book)) is not None]
        described["evidence"] = {"located": len(kept), "of": len(book.entries)}
        if not kept:
            raise UsageError(f"memory=oracle: data={data} has no evidence annotations")
    expected = cited.expected(_choice(options))
    if expected and data != "samples" and book.counts != dict(expected):
        described["not_official"] = f"{sum(book.counts.values())} of {sum(expected.values())}"

    def samples() -> Iterator[HistorySample]:
        for entry in kept:
            yield _sample(entry.question.id, entry, book)

    return Records(samples, book.sha256, described)


def _sample(name: str, entry: Any, book: Any) -> HistorySample:
    return HistorySample(name, entry.question.history, entry, book)


def _input_row(cited: CitedSet, sample: HistorySample) -> dict[str, Any]:
    return {"benchmark_id": sample.benchmark_id, "task": cited.name, "input": asked(sample)}


def _audit(cited: CitedSet, data: str, split: str | None) -> AuditReport | None:
    return audit_set(cited, data, split)


def _task(cited: CitedSet, options: TaskOptions) -> Task:
    given = _choice(options)
    cited.choose(given)
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
        has_gold=lambda sample: True,
        score=partial(score, cited),
        metrics=metrics_of(cited),
        judge=judge,
        rubrics=rubrics_of(cited),
        likely=lambda sample: {"answer": sample.gold or UNKNOWN},
        fits=fits,
        groups=groups_of,
        systems=SYSTEMS,
        conditions=conditions,
        asking=Asking(plain=True, for_class=for_class),
        public=PublicAnswers(longest=10_000, schema=TextAnswer, is_mark=is_mark),
        shown=Shown(
            title=cited.title,
            breakdowns=breakdowns_of(cited),
            record_parts=record_parts,
            highlights=HIGHLIGHTS,
        ),
        data=TaskData(
            hub=cited.hub or RELEASE,
            open_records=partial(_open, cited),
            audit=partial(_audit, cited),
        ),
        by_memory=ByMemory(recall=RECALL),
    )
