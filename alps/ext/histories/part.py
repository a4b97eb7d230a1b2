"""The part of a set in a run: what its files hold and its right answers took, in the summary."""

from collections import Counter
from typing import Any

from alps.ext.histories import SETS
from alps.ext.histories.economy import economy_of
from alps.ext.histories.sample import HistorySample
from alps.rows import Summary
from alps.run.parts import Course, RunPart

NAME, ECONOMY = "histories", "economy"


class Part(RunPart):
    """Counts what a run on a set was of, and what it took."""

    def summarise(self, summary: Summary, course: Course) -> Summary:
        """Add what the files hold, and what right answers took, by track."""
        found: dict[str, Any] = {}
        folder, asked = course.session.folder, vars(self.settings)
        for track in course.session.data.tracks:
            name = track.task.track
            if track.task.name in SETS:
                samples = list(track.samples())
                found[name] = _held(samples)
                found[name] |= {
                    key: track.description[key]
                    for key in ("sha256", "not_official")
                    if key in track.description
                }
                took = economy_of(folder, name, samples, asked["model"], asked["memory"])
                found[name] |= {} if took is None else {ECONOMY: took.row()}
        if not found:
            return summary
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
