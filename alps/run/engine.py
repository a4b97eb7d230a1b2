"""Generate, judge, score: every sample passes the three stages.

Each stage is journalled before the next begins.
"""

import asyncio
import json
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

from alps.jsonl import Row
from alps.judges.base import Judge
from alps.llm.recording import Recorder
from alps.llm.secrets import masked
from alps.run.journal import Journal, journal_key
from alps.run.scores import Board, count_failure
from alps.schema import UNHEARD, Prediction
from alps.systems.base import System
from alps.systems.embedded import Embedded
from alps.tasks import JudgingOptions, Scored, Task
from alps.tasks.base import JUST_THE_SCORE

NO_GOLD = "no_gold"


def baseline_key(row: Row) -> str | None:
    """Return the key of a row of `baselines.jsonl`; None where it is about no record."""
    track, name, baseline = (row.get(field) for field in ("track", "benchmark_id", "baseline"))
    if not (isinstance(track, str) and isinstance(name, str) and isinstance(baseline, str)):
        return None
    return journal_key(f"{track}\x00{baseline}", name)


@dataclass(frozen=True)
class Journals:
    """The three journals of a run folder, with one numbering of their keys.

    `baselines` holds the verdicts on trivial baselines; None where they cost nothing, and are made
    anew.
    """

    predictions: Journal
    verdicts: Journal
    scores: Journal
    numbers: dict[str, int] = field(default_factory=dict)
    baselines: Journal | None = None

    @classmethod
    def open(cls, folder: Path, *, baselines: bool = False) -> "Journals":
        """Open, or begin, the journals in `folder`; the one of `baselines` where it is wanted."""
        numbers: dict[str, int] = {}
        names = ("predictions", "verdicts", "scores")
        predictions, verdicts, scores = (
            Journal(folder / f"{name}.jsonl", numbers=numbers) for name in names
        )
        judged = Journal(folder / "baselines.jsonl", key=baseline_key) if baselines else None
        return cls(predictions, verdicts, scores, numbers, judged)

    def number(self, key: str) -> int:
        """Return the number of a key, a new one where it has none."""
        return self.numbers.setdefault(key, len(self.numbers))

    def settle(self, order: Sequence[int]) -> None:
        """Leave one row a record, in the order of the data: that of the numbers of its keys."""
        keys = list(self.numbers)
        for journal in (self.predictions, self.verdicts, self.scores):
            journal.settle(keys[number] for number in order)

    def close(self) -> None:
        """Close them all."""
        for journal in (self.predictions, self.verdicts, self.scores, self.baselines):
            if journal is not None:
                journal.close()


@dataclass
class Outcome:
    """What came out of a track: the boards, and what was met on the way; filled while it runs.

    `errors` has the first error of each kind, by the order of the data, and where in that order it
    stands.
    """

    board: Board
    floors: Mapping[str, Board]
    repaired: int = 0
    truncated: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    errors: dict[str, tuple[int, str]] = field(default_factory=dict)

    def remember_error(self, kind: str, error: str | None, place: int) -> None:
        """Keep the error of a sample, unless an earlier one failed in the same way."""
        if error:
            self.errors[kind] = min(self.errors.get(kind, (place, error)), (place, error))


@dataclass(frozen=True)
class TrackPlan:
    """One track of a run.

    Attributes:
        samples: Streams its samples.
        systems: The system, once per repeat; each draw has its own place in the reply cache.
        floor_systems: The floors, scored in passing where their judge costs nothing.
        floor_sample: The positions of the records that they are scored on where it does.
        outcome: Where everything that comes out of it is collected.
        n: How many samples there are; 0 where nobody has counted them.
    """

    task: Task
    samples: Callable[[], Iterable[Any]]
    systems: tuple[System, ...]
    floor_systems: Mapping[str, Embedded]
    outcome: Outcome
    floor_sample: frozenset[int] = frozenset()
    n: int = 0

    @classmethod
    def of(
        cls,
        task: Task,
        samples: Callable[[], Iterable[Any]],
        systems: tuple[System, ...],
        floor_systems: Mapping[str, Embedded],
        *,
        floor_sample: frozenset[int] = frozenset(),
        n: int = 0,
    ) -> "TrackPlan":
        """Return a plan with nothing done."""
        sessions: dict[str, int] = {}
        boards = {name: Board(task.metrics, sessions) for name in floor_systems}
        outcome = Outcome(Board(task.metrics, sessions), boards)
        return cls(task, samples, systems, floor_systems, outcome, floor_sample, n)


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs.

    Attributes:
        tracks: What is run; the samples of one track follow those of another without a pause.
        floor_judge: The judge of the floors: the run's own, unless it can judge nothing but what
            was recorded.
        workers: How many samples may be under way at once.
    """

    tracks: tuple[TrackPlan, ...]
    judge: Judge
    options: JudgingOptions
    floor_judge: Judge
    journals: Journals
    workers: int


@dataclass(frozen=True)
class Unit:
    """One sample to be answered once.

    Its track, its position in the data, and which of its repeats this is.
    """

    track: TrackPlan
    place: int
    sample: Any
    repeat: int

    @property
    def key(self) -> str:
        """The key of its rows in the journals."""
        return journal_key(self.track.task.track, self.sample.benchmark_id, self.repeat)

    def row(self, fields: Mapping[str, Any]) -> Row:
        """Return a row about this unit."""
        repeat = {"repeat": self.repeat} if self.repeat else {}
        return {
            "benchmark_id": self.sample.benchmark_id,
            "track": self.track.task.track,
            **repeat,
            **fields,
        }


def units(tracks: Iterable[TrackPlan]) -> Iterator[Unit]:
    """Yield every sample of every track, the tracks of one task mixed.

    Each comes as often as it is to be answered.

    One ability after the other would tell a program by a row's position which one is rated.
    """
    for _, group in groupby(tracks, key=lambda track: track.task.name):
        for track, place, sample in _mixed(list(group)):
            for repeat in range(len(track.systems)):
                yield Unit(track, place, sample, repeat)


def _mixed(tracks: Sequence[TrackPlan]) -> Iterator[tuple[TrackPlan, int, Any]]:
    """Yield the samples of tracks, each track in its order.

    At each step, every sample left is equally likely next.

    The draws are the same in every run on tracks of these sizes.
    """
    if len(tracks) == 1:
        yield from ((tracks[0], place, sample) for place, sample in enumerate(tracks[0].samples()))
        return
    left = [track.n or sum(1 for _ in track.samples()) for track in tracks]
    draw = Random(f"{[track.task.track for track in tracks]} {left}")
    streams = [enumerate(track.samples()) for track in tracks]
    while any(left):
        chosen = draw.choices(range(len(tracks)), left)[0]
        left[chosen] -= 1
        place, sample = next(streams[chosen])
        yield tracks[chosen], place, sample


async def run_tracks(plan: Plan, *, progress: Callable[[bool], None]) -> None:
    """Take every sample through the stages that its journals do not hold yet.

    The tracks' outcomes collect the rest.

    Samples are drawn one by one by `plan.workers` workers, so that memory does not grow with their
    number. After each sample `progress` is told whether it was scored.
    """
    waiting = units(plan.tracks)
    orders = {track.task.track: array("q") for track in plan.tracks}

    async def work() -> None:
        for unit in waiting:
            orders[unit.track.task.track].append(plan.journals.number(unit.key))
            progress(await _process(plan, unit))
            if unit.repeat == 0:
                await _score_free_floors(plan, unit)

    async with stopping_together(work() for _ in range(plan.workers)) as workers:
        await asyncio.gather(*workers)
    order = array("q")
    for asked in orders.values():
        order.extend(asked)
    plan.journals.settle(order)
    if plan.journals.baselines is not None:
        await _judge_floors(plan, plan.journals.baselines)


@asynccontextmanager
async def stopping_together(coroutines: Iterator[Any]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run workers as tasks.

    When one fails, or the run is interrupted, end the others before going on.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _process(plan: Plan, unit: Unit) -> bool:
    """Take one sample through the stages; return whether it was scored."""
    task, outcome = unit.track.task, unit.track.outcome
    prediction = await _predict(plan, unit)
    _remember(outcome, prediction, unit.place)
    if prediction.outcome in UNHEARD:
        count_failure(outcome.board, prediction.outcome)
        await _write_score(
            plan, unit, {"outcome": prediction.outcome, "stage": "generate", "scores": {}}
        )
        return False
    if not task.has_gold(unit.sample):
        return await _unscored(plan, unit, NO_GOLD)
    verdict = None
    if prediction.outcome == "ok":
        verdict = await _judge(plan, unit, prediction)
        if verdict["outcome"] != "ok":
            outcome.remember_error(f"judge {verdict['outcome']}", verdict["error"], unit.place)
            return await _unscored(plan, unit, verdict["outcome"])
    else:
        count_failure(outcome.board, prediction.outcome)
    scored = task.score(unit.sample, prediction, verdict, plan.judge)
    outcome.board.add(unit.place, unit.sample.session_id, scored, repeat=unit.repeat)
    stage = "score" if verdict is not None else "generate"
    await _write_score(
        plan, unit, {"outcome": prediction.outcome, "stage": stage, **_score_fields(scored)}
    )
    return True


async def _predict(plan: Plan, unit: Unit) -> Prediction:
    if (heard := heard_prediction(plan.journals.predictions, unit)) is not None:
        return heard
    prediction = await unit.track.systems[unit.repeat].answer(unit.track.task, unit.sample)
    prediction = _without_secrets(unit, _fitting(unit, prediction)).model_copy(
        update={"repeat": unit.repeat}
    )
    # The verdict on an answer that was lost says nothing about this one: it goes first, in case the
    # run dies between.
    await plan.journals.verdicts.withdraw(unit.row({}))
    await plan.journals.predictions.append_together(prediction.row())
    return prediction


def heard_prediction(journal: Journal, unit: Unit) -> Prediction | None:
    """Return what a journal holds of an answer.

    None where it was not heard, or its row is no prediction.
    """
    row = journal.get(unit.key)
    try:
        prediction = None if row is None else Prediction.model_validate(row)
        if prediction is not None and prediction.prediction is not None:
            unit.track.task.fits(unit.sample, prediction.prediction)
    except (ValueError, LookupError, TypeError):
        return None
    return None if prediction is None or prediction.outcome in UNHEARD else prediction


def _without_secrets(unit: Unit, prediction: Prediction) -> Prediction:
    """Mask the values of secret variables, whatever system repeated them.

    Rows are published, and judges are asked.
    """
    own = {"prediction": prediction.prediction, "raw": prediction.raw, "notes": prediction.notes}
    kept = {**own, "thought": prediction.thought, "error": prediction.error}
    safe = masked(
        kept, lambda: json.dumps(unit.track.task.input_row(unit.sample), ensure_ascii=False)
    )
    return (
        prediction
        if safe == kept
        else prediction.model_copy(update={**safe, "notes": tuple(safe["notes"])})
    )


def _fitting(unit: Unit, prediction: Prediction) -> Prediction:
    """Fail an answer that can't be one to this sample, whatever system gave it."""
    if prediction.prediction is None:
        return prediction
    try:
        unit.track.task.fits(unit.sample, prediction.prediction)
    except ValueError as error:
        raw = prediction.raw or json.dumps(prediction.prediction, ensure_ascii=False)
        fields = {"outcome": "invalid", "prediction": None, "error": str(error), "raw": raw}
        return prediction.model_copy(update=fields)
    return prediction


async def _judge(plan: Plan, unit: Unit, prediction: Prediction) -> Row:
    row = plan.journals.verdicts.get(unit.key)
    if row is not None and is_judged(row):
        return row
    verdict = await unit.track.task.judge(unit.sample, prediction, plan.judge, plan.options)
    row = unit.row(verdict)
    await plan.journals.verdicts.append_together(row)
    return row


def is_judged(row: Row) -> bool:
    """Tell whether nothing of a verdict is to be asked again.

    A failure beside the score leaves the record scored, and is asked again. What is too long for
    the judge would be too long again.
    """
    parts = [row, *(row[name] for name in ("support", "used") if row.get(name))]
    return all(
        isinstance(part, dict) and part.get("outcome") in ("ok", "too_long") for part in parts
    )


async def _unscored(plan: Plan, unit: Unit, kind: str) -> bool:
    outcome = unit.track.outcome
    outcome.board.failed_judgements[kind] += 1
    outcome.board.add_unscored()
    await _write_score(plan, unit, {"outcome": kind, "stage": "judge", "scores": {}})
    return False


async def _write_score(plan: Plan, unit: Unit, fields: Row) -> None:
    row = unit.row(fields)
    if plan.journals.scores.get(unit.key) != row:
        await plan.journals.scores.append_together(row)


def _score_fields(scored: Scored) -> Row:
    return {"scores": dict(scored.scores), "counts": dict(scored.counts), **scored.details}


def _remember(outcome: Outcome, prediction: Prediction, place: int) -> None:
    outcome.repaired += prediction.repaired
    outcome.truncated += prediction.truncated
    outcome.notes.update(prediction.notes)
    outcome.remember_error(prediction.outcome, prediction.error, place)


async def _score_free_floors(plan: Plan, unit: Unit) -> None:
    """Score the floors on one record where their judge needs no call."""
    for name, prediction in _floor_answers(plan, unit):
        if prediction.outcome == "ok":
            verdict = await _free_verdict(plan, unit, prediction)
            if verdict is not None:
                _add_floor(plan, unit, name, prediction, verdict)
            continue
        # A floor of the user's own raised: it has no answer that could be scored.
        unit.track.outcome.floors[name].failed_predictions[prediction.outcome] += 1
        unit.track.outcome.floors[name].add_unscored()
        unit.track.outcome.remember_error(name, prediction.error, unit.place)


async def _free_verdict(plan: Plan, unit: Unit, prediction: Prediction) -> Row | None:
    """Return the verdict on the answer of a floor; None where judging it takes a call."""
    recorder = Recorder()
    judge = plan.floor_judge.on(recorder)
    verdict = await unit.track.task.judge(unit.sample, prediction, judge, JUST_THE_SCORE)
    return None if recorder.requests else verdict


async def _judge_floors(plan: Plan, journal: Journal) -> None:
    """Judge the floors on the records that were drawn for it.

    Last, so that a budget goes to the run first.
    """
    sampled = (
        unit
        for unit in units(plan.tracks)
        if unit.place in unit.track.floor_sample and unit.repeat == 0
    )
    rows: list[tuple[int, int, int, str]] = []
    tracks = {track.task.track: number for number, track in enumerate(plan.tracks)}

    async def work() -> None:
        for unit in sampled:
            for number, (name, prediction) in enumerate(_floor_answers(plan, unit)):
                failed = prediction.outcome != "ok"
                if failed or await _free_verdict(plan, unit, prediction) is not None:
                    continue
                verdict = await _floor_verdict(plan, journal, unit, name, prediction)
                if verdict["outcome"] == "ok":
                    _add_floor(plan, unit, name, prediction, verdict)
                key = baseline_key({**unit.row({}), "baseline": name})
                rows.append((tracks[unit.track.task.track], unit.place, number, str(key)))

    async with stopping_together(work() for _ in range(plan.workers)) as workers:
        await asyncio.gather(*workers)
    journal.settle(key for *_, key in sorted(rows))


def _floor_answers(plan: Plan, unit: Unit) -> Iterator[tuple[str, Prediction]]:
    """Yield the name and the answer of every floor."""
    task = unit.track.task
    if task.has_gold(unit.sample):
        for name, system in unit.track.floor_systems.items():
            yield name, system.answer_at_once(task, unit.sample)


async def _floor_verdict(
    plan: Plan, journal: Journal, unit: Unit, name: str, prediction: Prediction
) -> Row:
    about = {**unit.row({}), "baseline": name}
    row = journal.get(str(baseline_key(about)))
    if row is not None and is_judged(row):
        return row
    verdict = await unit.track.task.judge(unit.sample, prediction, plan.floor_judge, JUST_THE_SCORE)
    row = {**about, **verdict}
    await journal.append_together(row)
    return row


def _add_floor(plan: Plan, unit: Unit, name: str, prediction: Prediction, verdict: Row) -> None:
    scored = unit.track.task.score(unit.sample, prediction, verdict, plan.floor_judge)
    unit.track.outcome.floors[name].add(unit.place, unit.sample.session_id, scored)
