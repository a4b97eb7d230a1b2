"""HaluMem, level 2: memories of a system after a change.

After the session of a change, the system is searched with the text of the new point.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from alps.ext.histories.authors import UPDATE, update_score
from alps.ext.histories.data.halumem import SET
from alps.ext.histories.judging import CHANGED, CHANGES, COVERED, by_words, rate, rubric_of
from alps.ext.histories.levels.halumem_extraction import points_of
from alps.ext.histories.points import Level, PointsSample, tracks_of_level
from alps.judges.base import Judge
from alps.judges.rubric import RubricQuestion
from alps.tasks.by_memory import Probe


def _changes(sample: PointsSample) -> Iterator[PointsSample]:
    """Yield a sample for each point that takes the place of another."""
    for number, point in enumerate(sample.points, start=1):
        if point.before and not point.wrong:
            name = f"{sample.benchmark_id}:p{number}"
            yield replace(sample, benchmark_id=name, gold=(point,))


async def _judge(sample: PointsSample, texts: Sequence[str], judge: Judge) -> dict[str, Any]:
    if not texts:
        return {"marks": {CHANGED: CHANGES.index("omission")}}
    (point,) = sample.points
    if RubricQuestion not in judge.answers:
        found = await by_words([point.text], texts, (), judge, sample.benchmark_id)
        if "marks" not in found:
            return found
        # Words can't tell what contradicts a point from what is about something else.
        held = "correct" if found["marks"][f"{COVERED} 0"] else "omission"
        return {"marks": {CHANGED: CHANGES.index(held)}}
    states = f"new: {point.text}\nold: {'; '.join(point.before)}"
    listed = "\n".join(texts)
    question = RubricQuestion(rubric_of(CHANGED), point.text, listed, states, ())
    return await rate(judge, {CHANGED: question}, sample.benchmark_id)


tracks = tracks_of_level(
    Level(
        name="halumem_update",
        title="HaluMem update",
        cited=SET,
        points=points_of,
        asked=_changes,
        probes=lambda sample: (Probe(sample.turns, sample.points[0].text, sample.at),),
        texts=lambda sample, found: [one.text for one in found[0]],
        judge=_judge,
        score=update_score,
        rubrics=(CHANGED,),
        metrics=UPDATE,
        systems={
            "rules": lambda sample: [],
            "oracle": lambda sample: [point.text for point in sample.points],
            "floor/nothing": lambda sample: [],
            "floor/old": lambda sample: [old for one in sample.points for old in one.before],
        },
        lists=False,
    )
)
