"""HaluMem, level 1: memories that a system stores of each session.

A system lists what it holds before and after a session; what is new is what it stored of it. The
session ends with the points that it should have stored; sessions that only distract have none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from alps.ext.histories.authors import EXTRACTION, extraction_score
from alps.ext.histories.data.halumem import SET, TIME
from alps.ext.histories.files import as_text, maybe_listed, number
from alps.ext.histories.judging import COVERED, STATED, by_words, rate, rubric_of
from alps.ext.histories.model import when
from alps.ext.histories.points import Level, Point, Points, PointsSample, tracks_of_level
from alps.judges.base import Judge
from alps.judges.rubric import RubricQuestion
from alps.tasks.by_memory import Probe, Remembered
from alps.text import fold

ASKED = "What a memory system stored of one session"


def points_of(node: Mapping[str, Any]) -> Points:
    """Return the points of each session of a user; none of those that only distract."""
    found: list[tuple[str, tuple[Point, ...]] | None] = []
    for session in node["sessions"]:
        if session.get("is_generated_qa_session"):
            found.append(None)
            continue
        points = tuple(_point(one) for one in session.get("memory_points") or ())
        found.append((when(str(session["end_time"]), TIME), points))
    return found


def _point(one: Mapping[str, Any]) -> Point:
    # The files write truth as a text.
    changes = str(one.get("is_update")) == "True"
    replaced = maybe_listed(one, "original_memories") if changes else []
    before = tuple(as_text(old, "original_memories") for old in replaced)
    importance = number(one, "importance")
    wrong = one.get("memory_source") == "interference"
    return Point(str(one["memory_content"]), importance, wrong, before)


def _probes(sample: PointsSample) -> tuple[Probe, ...]:
    after = Probe(sample.turns, at=sample.at)
    # Before the first session a system knows no such user.
    return (Probe(sample.before, at=sample.at), after) if sample.before else (after,)


def _stored(sample: PointsSample, found: Sequence[Sequence[Remembered]]) -> list[str]:
    """Return the texts that were not there before the session."""
    before = {fold(one.text) for hits in found[:-1] for one in hits}
    return list(dict.fromkeys(one.text for one in found[-1] if fold(one.text) not in before))


async def _judge(sample: PointsSample, texts: Sequence[str], judge: Judge) -> dict[str, Any]:
    points, turns = [point.text for point in sample.points], sample.said
    if RubricQuestion not in judge.answers:
        said = [turn.text for turn in turns]
        return await by_words(points, texts, said, judge, sample.benchmark_id)
    listed, known = "\n".join(texts), "\n".join(points)
    questions = {}
    # Nothing stored covers nothing: no judge is paid to say so.
    for n, point in enumerate(points if texts else ()):
        asked = RubricQuestion(rubric_of(COVERED), ASKED, listed, point, ())
        questions[f"{COVERED} {n}"] = asked
    for n, text in enumerate(texts):
        questions[f"{STATED} {n}"] = RubricQuestion(rubric_of(STATED), ASKED, text, known, turns)
    return await rate(judge, questions, sample.benchmark_id)


tracks = tracks_of_level(
    Level(
        name="halumem_extraction",
        title="HaluMem extraction",
        cited=SET,
        points=points_of,
        asked=lambda sample: (sample,),
        probes=_probes,
        texts=_stored,
        judge=_judge,
        score=extraction_score,
        rubrics=(COVERED, STATED),
        metrics=EXTRACTION,
        systems={
            "rules": lambda sample: [],
            "floor/nothing": lambda sample: [],
            # Storing every message has a recall near 1, which the accuracy has to show.
            "floor/verbatim": lambda sample: [turn.text for turn in sample.said],
        },
    )
)
