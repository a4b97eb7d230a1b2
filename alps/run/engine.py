"""Generate, judge, score: every sample passes the three stages, and each stage is journalled before the next begins."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alps.jsonl import Row
from alps.judges.base import Judge
from alps.run.board import Board, count_failure
from alps.run.journal import Journal, journal_key
from alps.schema import UNHEARD, Prediction
from alps.systems.base import System
from alps.systems.embedded import Embedded
from alps.tasks import JudgingOptions, Scored, Task
from alps.tasks.base import JUST_THE_SCORE

NO_GOLD = "no_gold"


@dataclass(frozen=True)
class Journals:
    """The three journals of a run folder."""

    predictions: Journal
    verdicts: Journal
    scores: Journal

    @classmethod
    def open(cls, folder: Path) -> "Journals":
        """Open, or begin, the journals in `folder`."""
        return cls(*(Journal(folder / f"{name}.jsonl") for name in ("predictions", "verdicts", "scores")))

    def settle(self, order: Iterable[str]) -> None:
        """Leave one row a record, in the order of the data."""
        names = list(order)
        for journal in (self.predictions, self.verdicts, self.scores):
            journal.settle(names)

    def close(self) -> None:
        """Close all three."""
        for journal in (self.predictions, self.verdicts, self.scores):
            journal.close()


@dataclass
class Outcome:
    """What came out of a track: the boards, and what was met on the way."""

    board: Board
    floors: Mapping[str, Board]
    repaired: int = 0
    truncated: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    errors: dict[str, str] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """Everything that a track needs to run.

    Attributes:
        systems: The system, once per repeat; each draw has its own place in the reply cache.
        floor_systems: The floors, scored in passing.
        floor_judge: Their judge; embedded, so that they cost nothing.
        workers: How many samples may be under way at once.
    """

    task: Task
    systems: tuple[System, ...]
    judge: Judge
    options: JudgingOptions
    floor_systems: Mapping[str, Embedded]
    floor_judge: Judge
    journals: Journals
    workers: int


@dataclass(frozen=True)
class Unit:
    """One sample to be answered once: its position in the data, and which of its repeats this is."""

    place: int
    sample: Any
    repeat: int

    @property
    def key(self) -> str:
        """The key of its rows in the journals."""
        return journal_key(self.sample.benchmark_id, self.repeat)

    def row(self, track: str, fields: Mapping[str, Any]) -> Row:
        """Return a row about this unit."""
        repeat = {"repeat": self.repeat} if self.repeat else {}
        return {"benchmark_id": self.sample.benchmark_id, "track": track, **repeat, **fields}


def units(samples: Iterable[Any], repeats: int) -> Iterator[Unit]:
    """Yield every sample as often as it is to be answered."""
    for place, sample in enumerate(samples):
        for repeat in range(repeats):
            yield Unit(place, sample, repeat)


async def run_track(plan: Plan, samples: Iterable[Any], *, progress: Callable[[bool], None]) -> Outcome:
    """Take every sample through the stages that its journals do not hold yet.

    Samples are drawn one by one by `plan.workers` workers, so that memory does not grow with their number. After each
    sample `progress` is told whether it was scored.
    """
    metrics = plan.task.metrics
    outcome = Outcome(Board(metrics), {name: Board(metrics) for name in plan.floor_systems})
    waiting = units(samples, len(plan.systems))

    async def work() -> None:
        for unit in waiting:
            outcome.order.append(unit.key)
            progress(await _process(plan, outcome, unit))
            if unit.repeat == 0:
                await _score_floors(plan, outcome, unit)

    async with _stopping_together(work() for _ in range(plan.workers)) as workers:
        await asyncio.gather(*workers)
    plan.journals.settle(outcome.order)
    return outcome


@asynccontextmanager
async def _stopping_together(coroutines: Iterator[Any]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run workers as tasks; when one fails, or the run is interrupted, end the others before going on."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _process(plan: Plan, outcome: Outcome, unit: Unit) -> bool:
    """Take one sample through the stages; return whether it was scored."""
    prediction = await _predict(plan, unit)
    _remember(outcome, prediction)
    if prediction.outcome in UNHEARD:
        count_failure(outcome.board, prediction.outcome)
        _write_score(plan, unit, {"outcome": prediction.outcome, "stage": "generate", "scores": {}})
        return False
    if not plan.task.has_gold(unit.sample):
        return _unscored(plan, outcome, unit, NO_GOLD)
    verdict = None
    if prediction.outcome == "ok":
        verdict = await _judge(plan, unit, prediction)
        if verdict["outcome"] != "ok":
            if verdict["error"]:
                outcome.errors.setdefault(f"judge {verdict['outcome']}", verdict["error"])
            return _unscored(plan, outcome, unit, verdict["outcome"])
    else:
        count_failure(outcome.board, prediction.outcome)
    scored = plan.task.score(unit.sample, prediction, verdict, plan.judge)
    outcome.board.add(unit.place, unit.sample.session_id, scored, repeat=unit.repeat)
    stage = "score" if verdict is not None else "generate"
    _write_score(plan, unit, {"outcome": prediction.outcome, "stage": stage, **_score_fields(scored)})
    return True


async def _predict(plan: Plan, unit: Unit) -> Prediction:
    row = plan.journals.predictions.get(unit.key)
    if row is not None and row["outcome"] not in UNHEARD:
        return Prediction.model_validate(row)
    prediction = await plan.systems[unit.repeat].predict(unit.sample)
    prediction = prediction.model_copy(update={"repeat": unit.repeat})
    plan.journals.predictions.append(prediction.model_dump())
    return prediction


async def _judge(plan: Plan, unit: Unit, prediction: Prediction) -> Row:
    row = plan.journals.verdicts.get(unit.key)
    if row is not None and row["outcome"] == "ok" and row.get("support", row)["outcome"] == "ok":
        return row
    verdict = await plan.task.judge(unit.sample, prediction, plan.judge, plan.options)
    row = unit.row(plan.task.track, verdict)
    plan.journals.verdicts.append(row)
    return row


def _unscored(plan: Plan, outcome: Outcome, unit: Unit, kind: str) -> bool:
    outcome.board.failed_judgements[kind] += 1
    outcome.board.add_unscored()
    _write_score(plan, unit, {"outcome": kind, "stage": "judge", "scores": {}})
    return False


def _write_score(plan: Plan, unit: Unit, fields: Row) -> None:
    row = unit.row(plan.task.track, fields)
    if plan.journals.scores.get(unit.key) != row:
        plan.journals.scores.append(row)


def _score_fields(scored: Scored) -> Row:
    return {"scores": dict(scored.scores), "counts": dict(scored.counts), **scored.details}


def _remember(outcome: Outcome, prediction: Prediction) -> None:
    outcome.repaired += prediction.repaired
    outcome.truncated += prediction.truncated
    outcome.notes.update(prediction.notes)
    if prediction.error:
        outcome.errors.setdefault(prediction.outcome, prediction.error)


async def _score_floors(plan: Plan, outcome: Outcome, unit: Unit) -> None:
    if not plan.task.has_gold(unit.sample):
        return
    for name, system in plan.floor_systems.items():
        prediction = system.answer(unit.sample)
        verdict = await plan.task.judge(unit.sample, prediction, plan.floor_judge, JUST_THE_SCORE)
        scored = plan.task.score(unit.sample, prediction, verdict, plan.floor_judge)
        outcome.floors[name].add(unit.place, unit.sample.session_id, scored)
