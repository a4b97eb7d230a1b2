"""Collection of a run's results: journals on disk, and the boards that scores are read from."""

import asyncio
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from alps.event_loop import stopping_together
from alps.jsonl import Journal, Row, journal_key
from alps.judges.base import Judge
from alps.judges.rubric import RubricQuestion
from alps.run.engine import (
    TrackPlan,
    Unit,
    UnitResult,
    evaluate,
    floor_answers,
    free_verdict,
    heard_prediction,
    is_judged,
    units,
)
from alps.run.progress import Advance
from alps.run.scores import RecordScores, count_failure
from alps.schema import FAILURES, Prediction
from alps.tasks import JudgingOptions, Task
from alps.tasks.base import JUST_THE_SCORE

T = TypeVar("T")
# Characters of a reply in the wrong form that its error quotes
_QUOTED = 80


def baseline_key(row: Row) -> str | None:
    """Return the key of a row of `baselines.jsonl`; None where it is about no record."""
    track, name, baseline = (row.get(field) for field in ("track", "benchmark_id", "baseline"))
    if not (isinstance(track, str) and isinstance(name, str) and isinstance(baseline, str)):
        return None
    return journal_key(f"{track}\x00{baseline}", name)


@dataclass(frozen=True)
class Journals:
    """The three journals of a run folder, with one numbering of their keys.

    `baselines` holds verdicts on trivial baselines; None where they cost nothing and are made anew.
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

    `shown` has how many tokens of a history a memory showed for each answer. `errors` has the first
    error of each kind, by the order of the data, and where in that order it stands.
    """

    board: RecordScores
    floors: Mapping[str, RecordScores]
    repaired: int = 0
    truncated: int = 0
    shown: "array[int]" = field(default_factory=lambda: array("L"))
    notes: Counter[str] = field(default_factory=Counter)
    errors: dict[str, tuple[int, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, track: TrackPlan) -> "Outcome":
        """Return that of a track of which nothing is done."""
        sessions: dict[str, int] = {}
        floors = {name: RecordScores(track.task.metrics, sessions) for name in track.floor_systems}
        return cls(RecordScores(track.task.metrics, sessions), floors)

    def add(self, unit: Unit, result: UnitResult) -> None:
        """Count a result that is scored, or can't be."""
        prediction, verdict, score = result.prediction, result.verdict, result.score
        assert score is not None
        self.repaired += prediction.repaired
        self.truncated += prediction.truncated
        self.notes.update(prediction.notes)
        if prediction.shown is not None:
            self.shown.append(prediction.shown.tokens)
        name = unit.sample.benchmark_id
        error = _with_reply(name, prediction.outcome, prediction.error, prediction.raw)
        self.remember_error(prediction.outcome, error, unit.place)
        if score.stage == "judge":
            if verdict is not None:
                why = _with_reply(name, score.outcome, verdict["error"], verdict.get("raw"))
                self.remember_error(f"judge {score.outcome}", why, unit.place)
            self.board.failed_judgements[score.outcome] += 1
            self.board.unscored += 1
        elif score.stage == "generate":
            count_failure(self.board, prediction.outcome)
        if score.scored is not None:
            scored = score.scored
            groups = unit.track.task.groups_of(unit.sample, scored.details)
            session = unit.sample.session_id
            self.board.add(unit.place, session, scored, repeat=unit.repeat, groups=groups)

    def remember_error(self, kind: str, error: str | None, place: int) -> None:
        """Keep the error of a sample, unless an earlier one failed in the same way."""
        if error:
            self.errors[kind] = min(self.errors.get(kind, (place, error)), (place, error))


def _with_reply(name: str, outcome: str, error: str | None, raw: object) -> str | None:
    """Return an error with the beginning of the reply that is in the wrong form."""
    text = " ".join(map(str, raw)) if isinstance(raw, list) else raw
    if error is None or outcome not in ("unparsable", "invalid") or not isinstance(text, str):
        return error
    shown = " ".join(text[: 4 * _QUOTED].split())[:_QUOTED]
    return f"{error}; the reply to {name} begins {shown!r}" if shown else error


@dataclass(frozen=True)
class RunPlan:
    """Everything that a run needs.

    Attributes:
        tracks: What is run; the samples of one track follow those of another without a pause.
        floor_judge: The judge of the floors: the run's own, unless it can judge nothing but what
            was recorded.
        workers: How many samples may be under way at once.
        places: Of as many as other runs leave, where others are answered by the same endpoint.
    """

    tracks: tuple[TrackPlan, ...]
    judge: Judge
    options: JudgingOptions
    floor_judge: Judge
    journals: Journals
    workers: int
    places: AbstractAsyncContextManager[None] = field(default_factory=nullcontext)

    def under(self, judge: Judge) -> "RunPlan":
        """Return the plan with another judge, who judges the floors where its own one does."""
        floor_judge = judge if self.floor_judge is self.judge else self.floor_judge
        return replace(self, judge=judge, floor_judge=floor_judge)


async def run_tracks(plan: RunPlan, *, progress: Advance) -> dict[str, Outcome]:
    """Take every sample through the stages that its journals do not hold yet.

    Samples are drawn one by one by `plan.workers` workers, so that memory does not grow with their
    number. After each sample `progress` is called.

    Returns:
        What came out of each track, by its name.
    """
    outcomes = {track.task.track: Outcome.of(track) for track in plan.tracks}
    orders = {name: array("q") for name in outcomes}

    async def finish(unit: Unit) -> None:
        track = unit.track.task.track
        orders[track].append(plan.journals.number(unit.key))
        result = await _evaluate(plan, unit)
        outcomes[track].add(unit, result)
        failure = "" if result.score is None else result.score.failure
        progress(is_scored(unit.track.task, plan.judge, result), failure)
        if unit.repeat == 0:
            await _score_free_floors(plan, unit, outcomes[track])

    await _finish_all(plan, units(plan.tracks), finish)
    # Numbers in an array and not keys in a list: 8 bytes a record at 100,000 records.
    order = array("q")
    for asked in orders.values():
        order.extend(asked)
    plan.journals.settle(order)
    if plan.journals.baselines is not None:
        await _judge_floors(plan, plan.journals.baselines, outcomes)
    return outcomes


def is_unrated(task: Task, judge: Judge) -> bool:
    """Tell whether a judge rates no answers of a task whose scores are ratings alone."""
    return task.only_rated and RubricQuestion not in judge.answers


def is_scored(task: Task, judge: Judge, result: UnitResult) -> bool:
    """Tell whether a result counts as scored, in summaries and while a run goes on."""
    if result.score is None or result.score.scored is None:
        return False
    # What failed has the worst mark under any judge; the rest waits for one that rates.
    return result.prediction.outcome in FAILURES or not is_unrated(task, judge)


async def _finish_all(
    plan: RunPlan, waiting: Iterator[T], finish: Callable[[T], Awaitable[None]]
) -> None:
    """Have the workers of a plan finish what waits, one by one."""

    # One stream for all workers: a slow answer holds up no record but its own.
    async def work() -> None:
        while True:
            # The place comes before the record: who waits for one holds none in memory.
            async with plan.places:
                if (one := next(waiting, None)) is None:
                    return
                await finish(one)
                del one  # or the worker would hold it while it waits for the next place

    async with stopping_together(work() for _ in range(plan.workers)) as workers:
        await asyncio.gather(*workers)


async def _evaluate(plan: RunPlan, unit: Unit) -> UnitResult:
    """Evaluate a unit; what is new is on disk before the next stage begins."""
    journals = plan.journals

    async def keep(result: UnitResult) -> None:
        if result.verdict is not None:
            await journals.verdicts.append_together(result.verdict)
            return
        # The verdict on an answer that was lost says nothing about this one: it goes first, in case
        # the run dies between.
        await journals.verdicts.withdraw(unit.row({}))
        await journals.predictions.append_together(result.prediction.row())

    known = _known(journals, unit)
    result = await evaluate(unit, plan.judge, plan.options, keep, known)
    assert result.score is not None
    row = unit.row(result.score.fields)
    # A resumed run scores everything anew; only what differs is written.
    if journals.scores.get(unit.key) != row:
        journals.scores.write(row)
    return result


def _known(journals: Journals, unit: Unit) -> UnitResult | None:
    """Return what the journals hold of a unit; None where its answer is to be asked for."""
    prediction = heard_prediction(journals.predictions.get(unit.key), unit)
    if prediction is None:
        return None
    row = journals.verdicts.get(unit.key) if prediction.outcome == "ok" else None
    return UnitResult(prediction, row if row is not None and is_judged(row) else None)


async def _score_free_floors(plan: RunPlan, unit: Unit, outcome: Outcome) -> None:
    """Score the floors on one record where their judge needs no call."""
    for name, prediction in floor_answers(unit):
        if prediction.outcome == "ok":
            verdict = await free_verdict(unit, prediction, plan.floor_judge)
            if verdict is not None:
                _add_floor(plan, unit, outcome.floors[name], prediction, verdict)
            continue
        # A floor of the user's own raised: it has no answer that could be scored.
        outcome.floors[name].failed_predictions[prediction.outcome] += 1
        outcome.floors[name].unscored += 1
        outcome.remember_error(name, prediction.error, unit.place)


async def _judge_floors(plan: RunPlan, journal: Journal, outcomes: Mapping[str, Outcome]) -> None:
    """Judge the floors on records drawn for it: last, so that a budget goes to the run first."""
    rows: list[tuple[int, int, int, str]] = []
    tracks = {track.task.track: number for number, track in enumerate(plan.tracks)}

    async def judge(answer: tuple[Unit, int, str, Prediction]) -> None:
        unit, number, name, prediction = answer
        track = unit.track.task.track
        failed = prediction.outcome != "ok"
        if failed or await free_verdict(unit, prediction, plan.floor_judge) is not None:
            return
        verdict = await _floor_verdict(plan, journal, unit, name, prediction)
        if verdict["outcome"] == "ok":
            _add_floor(plan, unit, outcomes[track].floors[name], prediction, verdict)
        outcomes[track].remember_error(f"verdict on {name}", verdict.get("error"), unit.place)
        key = baseline_key({**unit.row({}), "baseline": name})
        rows.append((tracks[track], unit.place, number, str(key)))

    await _finish_all(plan, _floor_answers_sampled(plan.tracks), judge)
    journal.settle(key for *_, key in sorted(rows))


def _floor_answers_sampled(
    tracks: Sequence[TrackPlan],
) -> Iterator[tuple[Unit, int, str, Prediction]]:
    """Yield each answer of each floor by itself, so that none waits for another's verdict."""
    for unit in units(tracks):
        if unit.repeat == 0 and unit.place in unit.track.floor_sample:
            for number, (name, prediction) in enumerate(floor_answers(unit)):
                yield unit, number, name, prediction


async def _floor_verdict(
    plan: RunPlan, journal: Journal, unit: Unit, name: str, prediction: Prediction
) -> Row:
    about = {**unit.row({}), "baseline": name}
    row = journal.get(str(baseline_key(about)))
    if row is not None and is_judged(row):
        return row
    verdict = await unit.track.task.judge(unit.sample, prediction, plan.floor_judge, JUST_THE_SCORE)
    row = {**about, **verdict}
    await journal.append_together(row)
    return row


def _add_floor(
    plan: RunPlan, unit: Unit, board: RecordScores, prediction: Prediction, verdict: Row
) -> None:
    scored = unit.track.task.score(unit.sample, prediction, verdict, plan.floor_judge)
    board.add(unit.place, unit.sample.session_id, scored)
