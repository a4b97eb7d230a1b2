"""View of one record of a run: its outcome, its parts, and what went wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alps.errors import RunFolderError
from alps.jsonl import Row
from alps.report.record_parts import Paired, Pairing, Part, parts_of
from alps.report.runs import MEANINGS, Key
from alps.schema import FAILURES, UNHEARD

_EFFECTS = {
    **dict.fromkeys(FAILURES, "an invalid response, scored as the worst"),
    **dict.fromkeys((*UNHEARD, "unrated"), "unscored"),
}


@dataclass(frozen=True)
class RecordView:
    """Everything that is shown of one record."""

    key: Key
    task: str
    state: str
    explanation: str
    parts: tuple[Part, ...]
    scores: Mapping[str, float]
    prediction: Row | None
    notes: tuple[str, ...]
    error: str | None
    raw: str | None
    judge_error: str | None
    judge_raw: tuple[str, ...]

    @property
    def pairings(self) -> Sequence[Pairing]:
        """Gold beside prediction, where the task has lists of memories."""
        return next((part.pairings for part in self.parts if isinstance(part, Paired)), ())

    def count(self, kind: str) -> int:
        """Return how many rows are of `kind`."""
        return sum(pairing.kind == kind for pairing in self.pairings)

    @property
    def gold_count(self) -> int:
        """How many gold memories there are."""
        return sum(pairing.gold is not None and pairing.kind != "kept" for pairing in self.pairings)

    @property
    def brief(self) -> str:
        """How gold and prediction compare, in a few words.

        Empty where the task has no lists of memories.
        """
        if self.count("unjudged"):
            predicted = len(self.pairings) - self.gold_count
            return f"{self.gold_count} gold, {predicted} predicted, not judged"
        if not self.pairings:
            return ""
        kept = f", {self.count('kept')} kept that should be gone" if self.count("kept") else ""
        return (
            f"{self.count('matched')} of {self.gold_count} found, {self.count('extra')} extra{kept}"
        )


def state_of(score: Row | None, prediction: Row | None) -> str:
    """Return what became of a record in one word.

    `ok`, `repaired`, a kind of failed prediction, `judge:KIND` for a failed judgement, `unrated`
    for an answer that its judge could not rate by its rubric, or `unfinished`.
    """
    if score is None:
        return "unfinished"
    if score.get("stage") == "judge":
        return f"judge:{score['outcome']}"
    if score.get("stage") == "generate":
        return str(score["outcome"])
    if score.get("rubric") and not score.get("scores"):
        return "unrated"
    return "repaired" if prediction is not None and prediction.get("repaired") else "ok"


def explain(state: str) -> str:
    """Say in a sentence what became of a record."""
    if state == "ok":
        return "answered and judged"
    if state == "repaired":
        return "answered, repaired before it could be read, and judged"
    if state == "unfinished":
        return "not finished: the same alps run again goes on with it"
    if state == "judge:no_gold":
        return f"{MEANINGS['no_gold']}: unscored"
    if state.startswith("judge:"):
        kind = state.removeprefix("judge:")
        return f"the judgement failed ({kind}: {MEANINGS.get(kind, 'unknown')}): unscored"
    meaning = MEANINGS.get(state, "unknown")
    return f"{meaning}: {_EFFECTS.get(state, '?')}"


def build_view(
    key: Key,
    *,
    task: str,
    sample: Any | None,
    prediction: Row | None,
    verdict: Row | None,
    score: Row | None,
) -> RecordView:
    """Put together what the journals and the data say of the answer `key`.

    Any of them may be missing.

    Raises:
        RunFolderError: If a row of it has not the shape of one that a run wrote.
    """
    try:
        return _view(
            key, task=task, sample=sample, prediction=prediction, verdict=verdict, score=score
        )
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        journals = "predictions.jsonl, verdicts.jsonl or scores.jsonl"
        raise RunFolderError(
            f"{key.track}/{key.id}: its row in {journals} can't be read; "
            "carry out the run again, with another out="
        ) from error


def _view(
    key: Key,
    *,
    task: str,
    sample: Any | None,
    prediction: Row | None,
    verdict: Row | None,
    score: Row | None,
) -> RecordView:
    state = state_of(score, prediction)
    answered = prediction if prediction is not None and prediction.get("outcome") == "ok" else None
    sides = [(verdict or {}).get(name) or {} for name in ("support", "used")]
    said = [*(prediction or {}).get("notes", ()), *(verdict or {}).get("notes", ())]
    if answered is not None and answered.get("truncated"):
        said.insert(0, "the answer was cut off (max_tokens)")
    raws = [*(verdict or {}).get("raw", ()), sides[0].get("raw"), *sides[1].get("raw", ())]
    return RecordView(
        key=key,
        task=task,
        state=state,
        explanation=explain(state),
        parts=parts_of(task, sample, answered, verdict, score),
        scores=(score or {}).get("scores", {}),
        prediction=answered["prediction"] if answered is not None else None,
        notes=tuple(str(note) for note in said),
        error=(prediction or {}).get("error"),
        raw=(prediction or {}).get("raw"),
        judge_error=(verdict or {}).get("error")
        or next((side["error"] for side in sides if side.get("error")), None),
        judge_raw=tuple(raw for raw in raws if raw),
    )
