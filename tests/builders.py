"""Short ways to build memories, samples and predictions; what a test does not say is ordinary."""

from collections.abc import Sequence
from typing import Any

from alps.schema import ExtractionSample, Memory, Prediction, Turn

TRACK = "task1"


def memory(value: str, **fields: Any) -> Memory:
    """Return a memory that says `value`."""
    ordinary: dict[str, Any] = {
        "memory_id": "m1",
        "type": "direct",
        "label": "Preferences/Food",
        "label_suggestion": None,
        "value": value,
        "reasoning": None,
        "evidence": None,
        "confidence": 0.95,
        "time_scope": "long_term",
        "emotion": None,
        "preference_attitude": None,
        "updated_at": None,
    }
    return Memory.model_validate(ordinary | fields)


def memories(*values: str) -> tuple[Memory, ...]:
    """Return one memory a value."""
    return tuple(
        memory(value, memory_id=f"m{number}") for number, value in enumerate(values, start=1)
    )


def extraction_sample(
    gold: Sequence[Memory] | None, *texts: str, benchmark_id: str = "b1"
) -> ExtractionSample:
    """Return a sample in which the user says `texts`, each answered with «ok»."""
    turns = [
        turn
        for text in texts
        for turn in (Turn(role="user", text=text), Turn(role="assistant", text="ok"))
    ]
    kept = None if gold is None else tuple(gold)
    return ExtractionSample(
        benchmark_id=benchmark_id, session_id="s1", dialogue=tuple(turns), gold=kept
    )


def heard(*predicted: Memory, benchmark_id: str = "b1") -> Prediction:
    """Return a prediction that was heard."""
    items = {"memory_items": [item.model_dump() for item in predicted]}
    return Prediction(benchmark_id=benchmark_id, track=TRACK, outcome="ok", prediction=items)
