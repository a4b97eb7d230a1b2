"""Answers by rules, without a model: what `model=rules` says for tasks other than extraction."""

from typing import Any

from alps.schema import (
    ExtractionSample,
    Memory,
    UpdatedMemory,
    UpdateSample,
    UtilizationSample,
)
from alps.similarity import THRESHOLD, similarity
from alps.systems.retrievers import BM25, terms
from alps.systems.rules import extract, find_statements


def best_told_option(sample: Any) -> dict[str, Any]:
    """Choose the option of whose own words one message of the user holds the largest share.

    What a memory returns counts as a message. Own words are those that not all options have. Where
    shares are equal, the message that shares more words with the question decides, then the later
    one; without a history, the first option.
    """
    seen = sample.seen()
    texts = [*seen.memories, *(turn.text for turn in seen.turns if turn.role == "user")]
    told = list(map(set, map(terms, texts)))
    asked = set(terms(sample.question.message))
    options = [set(terms(option)) for option in sample.question.options]
    common = set.intersection(*options)

    def worth(option: set[str]) -> tuple[float, int, int]:
        own, best = option - common, (0.0, 0, -1)
        for position, words in enumerate(told):
            best = max(best, (len(own & words) / max(1, len(own)), len(asked & words), position))
        return best

    worths = [worth(option) for option in options]
    return {"choice": "abcd"[worths.index(max(worths))], "reason": ""}


def parrot(sample: UtilizationSample) -> dict[str, Any]:
    """Answer with every sentence of the user that says something about them, word for word."""
    turns = [(turn.role, turn.text) for turn in sample.dialogue]
    quotes = [statement.quote for statement in find_statements(turns, limit=1_000)]
    sentences = quotes or [turn.text for turn in sample.dialogue if turn.role == "user"]
    return {"answer": "\n".join(dict.fromkeys(sentences)) or sample.query}


# From this similarity up, and under the same label, a new statement replaces the old memory.
_ON_THE_SAME_MATTER = 0.35
# A weaker statement adds nothing to a list that stands: most of them match no gold memory
_SURE = 0.65


def update(sample: UpdateSample) -> dict[str, Any]:
    """Keep old memories that no new statement restates differently; add the other statements."""
    dialogue = ExtractionSample(
        benchmark_id=sample.benchmark_id,
        session_id=sample.session_id,
        dialogue=sample.new_dialogue,
        gold=None,
    )
    kept = {memory.memory_id: memory for memory in sample.memory}
    changed: list[UpdatedMemory] = []
    for number, item in enumerate(extract(dialogue)["memory_items"], start=1):
        statement = Memory.model_validate(item)
        if statement.confidence is None or statement.confidence < _SURE:
            continue
        likeness, near = 0.0, None
        for memory in kept.values():
            alike = similarity(memory.value, statement.value)
            if near is None or alike > likeness:
                likeness, near = alike, memory
        if near is None or likeness < _ON_THE_SAME_MATTER or near.label != statement.label:
            changed.append(_with(statement, f"m_new_{number}", "add", None))
        elif likeness < THRESHOLD:
            del kept[near.memory_id]
            changed.append(_with(statement, f"{near.memory_id}_updated", "modify", near.memory_id))
    retained = [_with(memory, memory.memory_id, "retain", None) for memory in kept.values()]
    return {"memory_items": [memory.model_dump() for memory in (*retained, *changed)]}


def quote(sample: UtilizationSample) -> dict[str, Any]:
    """Answer by recalling what the user once said that shares most words with the query."""
    turns = [(turn.role, turn.text) for turn in sample.dialogue]
    statements = [statement.value for statement in find_statements(turns, limit=50)]
    if not statements:
        return {"answer": f"Nothing that you told me before bears on this: {sample.query}"}
    best = statements[BM25().rank(sample.query, statements)[0]]
    recalled = f"Keeping in mind what you told me ({best}), here is how I would go about it"
    return {"answer": f"{recalled}: {sample.query}"}


def _with(memory: Memory, name: str, action: str, replaces: str | None) -> UpdatedMemory:
    fields = {**memory.model_dump(), "memory_id": name, "action": action, "replaces": replaces}
    return UpdatedMemory.model_validate(fields)
