"""Evaluation of a sample in three stages: generate, judge, score.

An evaluation reads and writes no file: what it gives is rows, which `alps.run.collector` keeps. So
it can be done wherever the systems and judges are.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import Any, Literal

from alps.jsonl import Row, journal_key
from alps.judges.base import Judge
from alps.llm.secrets import masked
from alps.llm.types import Recorder
from alps.schema import UNHEARD, Prediction
from alps.systems.base import System
from alps.systems.embedded import Embedded
from alps.tasks import JudgingOptions, Scored, Task
from alps.tasks.base import JUST_THE_SCORE

NO_GOLD = "no_gold"


@dataclass(frozen=True)
class TrackPlan:
    """One track of a run.

    Attributes:
        samples: Streams its samples; None replaces a sample of another session.
        systems: The system, once per repeat; each draw has its own place in the reply cache.
        floor_systems: The floors, scored in passing where their judge costs nothing.
        floor_sample: The positions of the records that they are scored on where it does.
        n: How many samples there are; 0 where nobody has counted them.
        sessions: Those that are answered; None for all.
    """

    task: Task
    samples: Callable[[], Iterable[Any]]
    systems: tuple[System, ...]
    floor_systems: Mapping[str, Embedded]
    floor_sample: frozenset[int] = frozenset()
    n: int = 0
    sessions: frozenset[str] | None = None


@dataclass(frozen=True)
class Unit:
    """One sample to be answered once: its track, its place in the data, and which repeat it is."""

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
    """Yield every sample of every track as often as it is to be answered, tracks of one task mixed.

    One ability after the other would tell a program by a row's position which one is rated.
    """
    for _, group in groupby(tracks, key=lambda track: track.task.name):
        for track, place, sample in _mixed(list(group)):
            # Left out here and not in the stream: places and draws are those of all the data.
            if sample is None:
                continue
            if track.sessions is not None and sample.session_id not in track.sessions:
                continue
            for repeat in range(len(track.systems)):
                yield Unit(track, place, sample, repeat)


def _mixed(tracks: Sequence[TrackPlan]) -> Iterator[tuple[TrackPlan, int, Any]]:
    """Yield the samples of tracks, each in its order; any sample left is equally likely next.

    The draws are the same in every run on tracks of these sizes.
    """
    if len(tracks) == 1:
        yield from ((tracks[0], place, sample) for place, sample in enumerate(tracks[0].samples()))
        return
    # Drawn by what is left, so that tracks of unequal sizes end together.
    left = [track.n or sum(1 for _ in track.samples()) for track in tracks]
    draw = Random(f"{[track.task.track for track in tracks]} {left}")
    streams = [enumerate(track.samples()) for track in tracks]
    while any(left):
        chosen = draw.choices(range(len(tracks)), left)[0]
        left[chosen] -= 1
        place, sample = next(streams[chosen])
        yield tracks[chosen], place, sample


@dataclass(frozen=True)
class ScoreRow:
    """What became of an answer, as `scores.jsonl` has it.

    Attributes:
        outcome: That of the answer or, where its judgement failed, of the verdict.
        stage: The last one it came through, or that it failed in.
        scored: None where it is unscored.
    """

    outcome: str
    stage: Literal["generate", "judge", "score"]
    scored: Scored | None = None

    @property
    def failure(self) -> str:
        """The kind of its failure, as `invalid` or `judge transport`; nothing without any."""
        return failure_of(self.outcome, self.stage)

    @property
    def fields(self) -> Row:
        """The fields of its row."""
        row: Row = {"outcome": self.outcome, "stage": self.stage, "scores": {}}
        if self.scored is not None:
            row["scores"] = dict(self.scored.scores)
            row |= {"counts": dict(self.scored.counts), **self.scored.details}
        return row


def failure_of(outcome: str, stage: str) -> str:
    """Return the kind of a failure, and whether it is the judge's; nothing without any."""
    return "" if outcome == "ok" else f"judge {outcome}" if stage == "judge" else outcome


@dataclass(frozen=True)
class UnitResult:
    """What is known of a unit: its answer, then the row of its verdict, then its score.

    It can be pickled: the one who evaluates may be another process than the one who keeps it.
    """

    prediction: Prediction
    verdict: Row | None = None
    score: ScoreRow | None = None


Keep = Callable[[UnitResult], Awaitable[None]]


async def evaluate(
    unit: Unit, judge: Judge, options: JudgingOptions, keep: Keep, known: UnitResult | None = None
) -> UnitResult:
    """Take a unit through the stages that are not known yet; return all of it, with the score.

    Nothing is written here. After each stage `keep` is given what is known by then and awaited, so
    that an answer can be on disk before a judge is paid to look at it.

    Args:
        unit: What to evaluate.
        judge: Who judges it.
        options: What it is judged for.
        keep: Takes the answer and the verdict as soon as they are new.
        known: What an earlier session came to.
    """
    task = unit.track.task
    prediction = known.prediction if known is not None else None
    verdict = known.verdict if known is not None else None
    if prediction is None:
        prediction = await _answer(unit)
        await keep(UnitResult(prediction))
    if prediction.outcome == "ok" and verdict is None and task.has_gold(unit.sample):
        verdict = unit.row(await task.judge(unit.sample, prediction, judge, options))
        await keep(UnitResult(prediction, verdict))
    return UnitResult(prediction, verdict, _score(unit, prediction, verdict, judge))


async def _answer(unit: Unit) -> Prediction:
    prediction = await unit.track.systems[unit.repeat].answer(unit.track.task, unit.sample)
    # Before anything is kept or judged: a program may repeat a key that stands in its environment.
    safe = _without_secrets(unit, _fitting(unit, prediction))
    return safe.model_copy(update={"repeat": unit.repeat})


def _score(unit: Unit, prediction: Prediction, verdict: Row | None, judge: Judge) -> ScoreRow:
    """Score an answer that was heard, and judged where it could be; others are unscored."""
    if prediction.outcome in UNHEARD:
        return ScoreRow(prediction.outcome, "generate")
    if not unit.track.task.has_gold(unit.sample):
        return ScoreRow(NO_GOLD, "judge")
    if verdict is not None and verdict["outcome"] != "ok":
        return ScoreRow(verdict["outcome"], "judge")
    scored = unit.track.task.score(unit.sample, prediction, verdict, judge)
    return ScoreRow(prediction.outcome, "score" if verdict is not None else "generate", scored)


def heard_prediction(row: Row | None, unit: Unit) -> Prediction | None:
    """Return the answer in a row; None where it was not heard, or the row is no prediction."""
    try:
        prediction = None if row is None else Prediction.model_validate(row)
        if prediction is not None and prediction.prediction is not None:
            unit.track.task.fits(unit.sample, prediction.prediction)
    except (ValueError, LookupError, TypeError):
        # Another version wrote it, or somebody's hand: asking again costs less than a wrong score.
        return None
    return None if prediction is None or prediction.outcome in UNHEARD else prediction


def _without_secrets(unit: Unit, prediction: Prediction) -> Prediction:
    """Mask the values of secret variables, whatever system repeated them: rows are published."""
    own = {"prediction": prediction.prediction, "raw": prediction.raw, "notes": prediction.notes}
    kept = {**own, "thought": prediction.thought, "error": prediction.error}
    safe = masked(
        kept, lambda: json.dumps(unit.track.task.input_row(unit.sample), ensure_ascii=False)
    )
    if safe == kept:
        return prediction
    return prediction.model_copy(update={**safe, "notes": tuple(safe["notes"])})


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


def is_judged(row: Row) -> bool:
    """Tell whether a verdict is complete.

    A failure beside the score leaves the record scored, and is asked again. What is too long for
    the judge would be too long again.
    """
    parts = [row, *(row[name] for name in ("support", "used") if row.get(name))]
    return all(
        isinstance(part, dict) and part.get("outcome") in ("ok", "too_long") for part in parts
    )


def floor_answers(unit: Unit) -> Iterator[tuple[str, Prediction]]:
    """Yield the name and the answer of every trivial baseline."""
    task = unit.track.task
    if task.has_gold(unit.sample):
        for name, system in unit.track.floor_systems.items():
            yield name, system.answer_at_once(task, unit.sample)


async def free_verdict(unit: Unit, prediction: Prediction, judge: Judge) -> Row | None:
    """Return the verdict on the answer of a floor; None where judging it takes a call."""
    recorder = Recorder()
    verdict = await unit.track.task.judge(
        unit.sample, prediction, judge.on(recorder), JUST_THE_SCORE
    )
    return None if recorder.requests else verdict
