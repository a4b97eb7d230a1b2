"""The part of a set in a run: what its files hold and what is wrong with them, in the summary."""

from collections import Counter
from typing import Any

from alps.ext.histories import SETS
from alps.ext.histories.sample import HistorySample
from alps.rows import Summary
from alps.run.parts import Course, RunPart

NAME = "histories"


class Part(RunPart):
    """Counts what a run on a set was of."""

    def summarise(self, summary: Summary, course: Course) -> Summary:
        """Add what the files hold, by track."""
        found: dict[str, Any] = {}
        for track in course.session.data.tracks:
            if track.task.name in SETS:
                found[track.task.track] = _held(list(track.samples()))
                found[track.task.track] |= {
                    key: track.description[key]
                    for key in ("sha256", "not_official")
                    if key in track.description
                }
        return summary.model_copy(update={"parts": {**summary.parts, NAME: found}})


def _held(samples: list[HistorySample]) -> dict[str, Any]:
    kinds = Counter(sample.question.kind for sample in samples)
    answerable = [sample for sample in samples if not sample.question.abstains]
    wrong = Counter(sample.question.kind for sample in samples if sample.wrong_gold)
    return {
        "questions": len(samples),
        "answerable": len(answerable),
        "histories": len({sample.session_id for sample in samples}),
        "kinds": dict(kinds),
        "wrong_golds": dict(wrong),
        "sound": sum(sample.sound for sample in samples),
    }
