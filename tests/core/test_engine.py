"""An evaluation gives rows, stage by stage, and keeps nothing itself."""

import asyncio
import pickle

import pytest

from alps.judges.embedded import LexicalJudge
from alps.run.engine import TrackPlan as Track
from alps.run.engine import Unit, UnitResult, evaluate, units
from alps.run.source import open_data
from alps.settings import RunSettings
from alps.systems.resolve import resolve_system
from alps.tasks import JudgingOptions


@pytest.fixture(scope="module")
def unit() -> Unit:
    settings = RunSettings(task="extraction", model="rules", data="samples")
    track = open_data(settings).tracks[0]
    system = resolve_system("rules", track.task)
    return next(units([Track(track.task, track.samples, (system,), {})]))


def results_of(unit: Unit, known: UnitResult | None = None) -> list[UnitResult]:
    kept: list[UnitResult] = []

    async def keep(result: UnitResult) -> None:
        kept.append(result)

    options = JudgingOptions(extras=False)
    last = asyncio.run(evaluate(unit, LexicalJudge(), options, keep, known))
    return [*kept, last]


def test_each_stage_gives_a_result_that_holds_those_before(unit: Unit) -> None:
    answered, judged, scored = results_of(unit)
    assert (answered.verdict, answered.score) == (None, None)
    assert (judged.prediction, judged.score) == (answered.prediction, None)
    assert (scored.prediction, scored.verdict) == (judged.prediction, judged.verdict)
    assert scored.score is not None
    assert scored.score.stage == "score"


def test_what_is_known_is_not_asked_again(unit: Unit) -> None:
    answered, judged, scored = results_of(unit)
    assert results_of(unit, answered) == [judged, scored]
    assert results_of(unit, judged) == [scored]


def test_results_can_be_carried_to_another_process(unit: Unit) -> None:
    for result in results_of(unit):
        assert pickle.loads(pickle.dumps(result)) == result
