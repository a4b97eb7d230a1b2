"""Answers that deserve nothing: a benchmark on which one of them does well is broken."""

from typing import Any

from alps.errors import UsageError
from alps.schema import ExtractionSample, Memory


def empty(sample: ExtractionSample) -> dict[str, Any]:
    """Answer with no memories at all."""
    return {"memory_items": []}


def content_free(sample: ExtractionSample) -> dict[str, Any]:
    """Answer with three fixed items whose value is "x": only their labels and types can match."""
    return _fixed("x", "x", "x")


def content_free_fluent(sample: ExtractionSample) -> dict[str, Any]:
    """Answer with three fixed items that are true of nearly every user."""
    return _fixed(
        "The user has interests and preferences",
        "The user asked the assistant questions about a topic",
        "The user wants helpful and accurate answers",
    )


def oracle(sample: ExtractionSample) -> dict[str, Any]:
    """Answer with the gold memories: what a perfect system would score.

    Raises:
        UsageError: If the gold is withheld.
    """
    if sample.gold is None:
        raise UsageError("model=oracle: needs gold, and this split withholds it")
    return {"memory_items": [memory.model_dump() for memory in sample.gold]}


def _fixed(*values: str) -> dict[str, Any]:
    """Dress `values` with the commonest types and labels of real gold, as an exploit would."""
    dress = (
        ("direct", "Preferences/Interaction_Preferences"),
        ("indirect", "Thoughts/Curiosity"),
        ("direct", "Personal_Background/Occupation"),
    )
    items = [
        Memory(
            memory_id=f"m{number}",
            type="direct" if kind == "direct" else "indirect",
            label=label,
            label_suggestion=None,
            value=value,
            reasoning=None,
            evidence=None,
            confidence=0.95,
            time_scope="long_term",
            emotion=None,
            preference_attitude=None,
            updated_at=None,
        )
        for number, (value, (kind, label)) in enumerate(zip(values, dress, strict=True), start=1)
    ]
    return {"memory_items": [item.model_dump() for item in items]}
