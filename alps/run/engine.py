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
from alps.run.journal import Journal
from alps.schema import UNHEARD, Prediction
from alps.systems.base import System
from alps.systems.embedded import Embedded
from alps.tasks import Scored, Task

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
    """Everything that a track needs to run."""

    task: Task
    system: System
    judge: Judge
    floor_systems: Mapping[str, Embedded]
    floor_judge: Judge
    journals: Journals
    workers: int


async def run_track(plan: Plan, samples: Iterable[Any], *, progress: Callable[[bool], None]) -> Outcome:
    """Take every sample through the stages that its journals do not hold yet.

    Samples are drawn one by one by `plan.workers` workers, so that memory does not grow with their number. After each
    sample `progress` is told whether it was scored.
    """
    metrics = plan.task.metrics
    outcome = Outcome(Board(metrics), {name: Board(metrics) for name in plan.floor_systems})
    numbered = enumerate(samples)

    async def work() -> None:
        for place, sample in numbered:
            outcome.order.append(sample.benchmark_id)
            progress(await _process(plan, outcome, place, sample))
            await _score_floors(plan, outcome, place, sample)

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


async def _process(plan: Plan, outcome: Outcome, place: int, sample: Any) -> bool:
    """Take one sample through the stages; return whether it was scored."""
    prediction = await _predict(plan, sample)
    _remember(outcome, prediction)
    if prediction.outcome in UNHEARD:
        count_failure(outcome.board, prediction.outcome)
        _write_score(plan, sample, {"outcome": prediction.outcome, "stage": "generate", "scores": {}})
        return False
    if not plan.task.has_gold(sample):
        return _unscored(plan, outcome, sample, NO_GOLD)
    verdict = None
    if prediction.outcome == "ok":
        verdict = await _judge(plan, sample, prediction)
        if verdict["outcome"] != "ok":
            if verdict["error"]:
                outcome.errors.setdefault(f"judge {verdict['outcome']}", verdict["error"])
            return _unscored(plan, outcome, sample, verdict["outcome"])
    else:
        count_failure(outcome.board, prediction.outcome)
    scored = plan.task.score(sample, prediction, verdict, plan.judge)
    outcome.board.add(place, sample.session_id, scored)
    stage = "score" if verdict is not None else "generate"
    _write_score(plan, sample, {"outcome": prediction.outcome, "stage": stage, **_score_fields(scored)})
    return True


async def _predict(plan: Plan, sample: Any) -> Prediction:
    row = plan.journals.predictions.get(sample.benchmark_id)
    if row is not None and row["outcome"] not in UNHEARD:
        return Prediction.model_validate(row)
    prediction = await plan.system.predict(sample)
    plan.journals.predictions.append(prediction.model_dump())
    return prediction


async def _judge(plan: Plan, sample: Any, prediction: Prediction) -> Row:
    row = plan.journals.verdicts.get(sample.benchmark_id)
    if row is not None and row["outcome"] == "ok":
        return row
    verdict = await plan.task.judge(sample, prediction, plan.judge)
    row = {"benchmark_id": sample.benchmark_id, "track": plan.task.track, **verdict}
    plan.journals.verdicts.append(row)
    return row


def _unscored(plan: Plan, outcome: Outcome, sample: Any, kind: str) -> bool:
    outcome.board.failed_judgements[kind] += 1
    outcome.board.add_unscored()
    _write_score(plan, sample, {"outcome": kind, "stage": "judge", "scores": {}})
    return False


def _write_score(plan: Plan, sample: Any, fields: Row) -> None:
    row = {"benchmark_id": sample.benchmark_id, "track": plan.task.track, **fields}
    if plan.journals.scores.get(sample.benchmark_id) != row:
        plan.journals.scores.append(row)


def _score_fields(scored: Scored) -> Row:
    return {"scores": dict(scored.scores), "counts": dict(scored.counts), **scored.details}


def _remember(outcome: Outcome, prediction: Prediction) -> None:
    outcome.repaired += prediction.repaired
    outcome.truncated += prediction.truncated
    outcome.notes.update(prediction.notes)
    if prediction.error:
        outcome.errors.setdefault(prediction.outcome, prediction.error)


async def _score_floors(plan: Plan, outcome: Outcome, place: int, sample: Any) -> None:
    """Score the floors in passing; their judge is embedded, so that they cost nothing."""
    if not plan.task.has_gold(sample):
        return
    for name, system in plan.floor_systems.items():
        prediction = system.answer(sample)
        verdict = await plan.task.judge(sample, prediction, plan.floor_judge)
        scored = plan.task.score(sample, prediction, verdict, plan.floor_judge)
        outcome.floors[name].add(place, sample.session_id, scored)
