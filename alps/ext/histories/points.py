"""Memory points of a set: what a session should leave in a memory, and what it should change.

A level of a set asks a memory system itself, and no reader: for all that it holds before and after
a session, or by a search after it.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from alps.errors import UsageError
from alps.ext.histories.book import files_of, made_of, read_story, sha256_of
from alps.ext.histories.files import StoryPlace
from alps.ext.histories.judging import is_mark, rubric_of
from alps.ext.histories.model import CitedSet, HistorySession, Story
from alps.ext.histories.sample import history_in
from alps.ext.histories.task import choice_of, judgement_of, unread
from alps.judges.base import Judge
from alps.judges.rubric import RubricQuestion
from alps.llm.types import AnswerType, Read
from alps.prompts import load_prompt
from alps.schema import FrozenRow, Prediction, Turn
from alps.tasks.base import (
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
    verdict_row,
)
from alps.tasks.by_memory import MemoryProbes, Probe, Remembered
from alps.tasks.metrics import Metric
from alps.tasks.record_parts import (
    AnsweredRecord,
    Dialogue,
    Listed,
    RecordPart,
    Side,
)

PROMPT = load_prompt("alps.ext.histories", "prompts", "level")


@dataclass(frozen=True)
class Point:
    """One memory that should be there after a session.

    Attributes:
        importance: From 0 to 1.
        wrong: Whether it must not be there: what was said, and does not hold of the user.
        before: The memories that it takes the place of; empty where it is new.
    """

    text: str
    importance: float = 1.0
    wrong: bool = False
    before: tuple[str, ...] = ()


@dataclass(frozen=True)
class PointsSample:
    """The points of one session, or one of them.

    Attributes:
        session_id: The history: samples of one are not independent.
        number: How many sessions come before the question, this one among them.
        before: How many turns come before the session, and `turns` with it.
        at: When it ends, ISO 8601; empty where nobody knows.
        gold: The points; None where they are withheld.
    """

    benchmark_id: str
    session_id: str
    cited: CitedSet
    place: StoryPlace
    number: int
    before: int
    turns: int
    at: str
    gold: tuple[Point, ...] | None

    @property
    def sessions(self) -> tuple[HistorySession, ...]:
        """The sessions up to this one, and with it."""
        return read_story(self.cited, self.place).sessions[: self.number]

    @property
    def said(self) -> tuple[Turn, ...]:
        """The turns of this session."""
        return history_in(self.sessions).turns[self.before :]

    @property
    def points(self) -> tuple[Point, ...]:
        """The points, none where they are withheld."""
        return self.gold or ()


Points = Sequence[tuple[str, tuple[Point, ...]] | None]
"""Of each session when it ends, and its points; None for one that is never asked about."""


@dataclass(frozen=True)
class Level:
    """One level of a set.

    Attributes:
        name: That of the task.
        title: What tables call it.
        points: Reads the points of what a place of the set holds.
        asked: The samples that come of a session.
        probes: What a memory system is asked about a sample.
        texts: What of that is its answer.
        judge: Asks a judge about an answer: marks, or outcome and error of what failed.
        score: Scores and counts from the texts, None for a failed answer, and the marks.
        rubrics: The names of the rubrics.
        metrics: What is reported.
        systems: Answers without a memory, by name: from a sample to texts.
        lists: Whether a system must list what it holds.
    """

    name: str
    title: str
    cited: CitedSet
    points: Callable[[Any], Points]
    asked: Callable[[PointsSample], Iterable[PointsSample]]
    probes: Callable[[PointsSample], tuple[Probe, ...]]
    texts: Callable[[PointsSample, Sequence[Sequence[Remembered]]], list[str]]
    judge: Callable[[PointsSample, Sequence[str], Judge], Awaitable[dict[str, Any]]]
    score: Callable[
        [PointsSample, Sequence[str] | None, Mapping[str, float]],
        tuple[dict[str, float], dict[str, float]],
    ]
    rubrics: tuple[str, ...]
    metrics: tuple[Metric, ...]
    systems: Mapping[str, Callable[[PointsSample], list[str]]]
    lists: bool = True


class Held(FrozenRow):
    """The texts that a memory system answered with."""

    memories: tuple[str, ...]


def tracks_of_level(level: Level) -> Callable[[TaskOptions], tuple[Task, ...]]:
    """Return what makes the one track of a level."""
    probes = MemoryProbes(
        history=lambda sample: history_in(sample.sessions),
        probes=level.probes,
        prediction=lambda sample, found: {"memories": level.texts(sample, found)},
        lists=level.lists,
        # A history is ingested once for all of its samples: twenty users have 14,948 points.
        shared=lambda sample: sample.session_id,
    )
    return lambda options: (_task(level, options).answered_by(probes, options, "memory", "k"),)


def _open(level: Level, data: str, options: TaskOptions) -> Records:
    cited = level.cited
    found = files_of(cited, data, choice_of(cited, options))
    kept: list[PointsSample] = []
    for place in found.stories:
        story, points = made_of(cited, place, lambda node: (cited.story(node), level.points(node)))
        for sample in _of_story(cited, place, story, points):
            kept += level.asked(sample)
    if not kept:
        raise UsageError(f"data={data}: the data has no records for {level.title}")
    described = {"histories": len({one.session_id for one in kept})}
    return Records(lambda: iter(kept), sha256_of(found.hashed), described)


def _of_story(
    cited: CitedSet, place: StoryPlace, story: Story, points: Points
) -> Iterator[PointsSample]:
    turns = 0
    for number, (session, expected) in enumerate(zip(story.sessions, points, strict=True), start=1):
        before, turns = turns, turns + len(session.messages)
        if expected is not None:
            name = f"{story.id}:{session.id}"
            yield PointsSample(name, story.id, cited, place, number, before, turns, *expected)


def _task(level: Level, options: TaskOptions) -> Task:
    given = choice_of(level.cited, options)

    async def judge(
        sample: PointsSample, prediction: Prediction, judge: Judge, asked: JudgingOptions
    ) -> dict[str, Any]:
        verdict = verdict_row(judge, task.rubrics if RubricQuestion in judge.answers else ())
        return {**verdict, **await level.judge(sample, _texts(prediction) or [], judge)}

    task = Task(
        name=level.name,
        track=level.name,
        prompt=PROMPT,
        answer=AnswerType(
            schema=Held, read=lambda node: Read(Held.model_validate(node)), partial=False
        ),
        read_sample=unread,
        messages=lambda sample: chat_messages(PROMPT.text, asked_of(sample)),
        input_row=partial(_input_row, level),
        to_prediction=lambda held: {"memories": list(held.memories)},
        score=partial(_score, level),
        metrics=level.metrics,
        judge=judge,
        rubrics=tuple(map(rubric_of, level.rubrics)),
        likely=lambda sample: {"memories": [point.text for point in sample.points]},
        systems={name: partial(_answer, make) for name, make in level.systems.items()},
        conditions={name: value for name, value in vars(given).items() if value is not None},
        # What a system keeps may be every message.
        public=PublicAnswers(1_000_000, gold=_gold_lines, schema=Held, is_mark=is_mark),
        shown=Shown(title=level.title, record_parts=record_parts),
        data=TaskData(hub=level.cited.hub, open_records=partial(_open, level)),
        # A level asks what a memory holds, which a reader alone can't say.
        by_memory=ByMemory(required=True),
    )
    return task


def _answer(make: Callable[[PointsSample], list[str]], sample: PointsSample) -> dict[str, Any]:
    return {"memories": make(sample)}


def asked_of(sample: PointsSample) -> dict[str, Any]:
    """Return the session that a memory is asked about."""
    return {"session": [{"role": turn.role, "text": turn.text} for turn in sample.said]}


def _input_row(level: Level, sample: PointsSample) -> dict[str, Any]:
    return {"benchmark_id": sample.benchmark_id, "task": level.name, "input": asked_of(sample)}


def _texts(prediction: Prediction) -> list[str] | None:
    held = prediction.prediction
    return None if held is None else list(held["memories"])


def _score(
    level: Level, sample: PointsSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    marks = (verdict or {}).get("marks")
    texts = _texts(prediction)
    if texts is not None and marks is None:
        return Scored({})
    scores, counts = level.score(sample, texts, marks or {})
    return Scored(scores | agreement_score(verdict), counts)


def _gold_lines(sample: PointsSample) -> list[tuple[str, str, str]]:
    lines = []
    for point in sample.points:
        remark = f"replaces {'; '.join(point.before)}" if point.before else ""
        lines.append(("leave out" if point.wrong else "keep", point.text, remark))
    return lines


def record_parts(record: AnsweredRecord) -> Sequence[RecordPart]:
    """Show the points, what a memory answered, the marks, and the session."""
    texts = record.answer.get("memories") or ()
    answered = tuple(Side(f"m{n}", text) for n, text in enumerate(texts, start=1))
    parts: list[RecordPart] = [Listed("Memories", answered), judgement_of(record)]
    sample: PointsSample | None = record.sample
    if sample is None:
        return parts
    golds = []
    for n, (mark, text, remark) in enumerate(_gold_lines(sample), start=1):
        golds.append(Side(f"p{n}", text, ", ".join(filter(None, (mark, remark)))))
    return [Listed("Points", tuple(golds)), *parts, Dialogue("Session", sample.said, folded=True)]
