"""Systems without a model: trivial baselines (`floor/…`), the oracle, and `model=rules`."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from alps.errors import UsageError
from alps.schema import (
    ExtractionSample,
    Memory,
    RetrievalSample,
    UpdatedMemory,
    UpdateSample,
    UtilizationSample,
)
from alps.similarity import THRESHOLD, similarity
from alps.systems.embedded import ranked
from alps.systems.retrievers import BM25, terms
from alps.systems.rules import extract, find_statements

_EXCERPT = 300
"""The most characters of a message that a baseline repeats."""


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


def excerpts(sample: ExtractionSample) -> dict[str, Any]:
    """Answer with the beginning of each message of the user, word for word: nothing is chosen."""
    turns = [turn.text for turn in sample.dialogue if turn.role == "user"]
    texts = [" ".join(text.split())[:_EXCERPT] for text in turns]
    said = filter(None, dict.fromkeys(texts))
    items = [_item(f"m{n}", text, *_DRESS[0]).model_dump() for n, text in enumerate(said, 1)]
    return {"memory_items": items}


def oracle(sample: ExtractionSample) -> dict[str, Any]:
    """Answer with the gold memories: what a perfect system would score.

    Raises:
        UsageError: If the gold is withheld.
    """
    return {"memory_items": [memory.model_dump() for memory in _gold_of(sample)]}


def _gold_of(sample: Any) -> Any:
    if sample.gold is None:
        raise UsageError("model=oracle: needs gold, and this split withholds it")
    return sample.gold


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


def no_op(sample: UpdateSample) -> dict[str, Any]:
    """Answer with the old memories, as they were."""
    return _without_actions(sample.memory)


def _without_actions(memories: Iterable[Memory]) -> dict[str, Any]:
    """Return a list of memories whose actions are left to be found by comparison."""
    rows = [{**memory.model_dump(), "action": None, "replaces": None} for memory in memories]
    return {"memory_items": rows}


def positional(sample: UpdateSample) -> dict[str, Any]:
    """Add the user's third and second turn from the end; drop the old memory most like them.

    In the AlpsBench authors' public records each update has one addition, told in one of these two
    turns in 609 of 638 records that quote it, and one modification: a rule that reads nothing finds
    them.
    """
    turns = [turn.text for turn in sample.new_dialogue if turn.role == "user"]
    texts = [" ".join(text.split())[:_EXCERPT] for text in turns[-3:-1]]
    likeness = {
        memory.memory_id: max((similarity(memory.value, text) for text in texts), default=0.0)
        for memory in sample.memory
    }
    dropped = max(likeness, key=lambda name: likeness[name], default=None)
    kept = [memory for memory in sample.memory if memory.memory_id != dropped]
    added = [_item(f"m_new_{n}", text, *_DRESS[0]) for n, text in enumerate(texts, 1) if text]
    return _without_actions([*kept, *added])


def oracle_update(sample: UpdateSample) -> dict[str, Any]:
    """Answer with the gold list, without naming actions.

    Raises:
        UsageError: If the gold is withheld.
    """
    return _without_actions(_gold_of(sample))


def random_candidate(sample: RetrievalSample) -> dict[str, Any]:
    """Rank the candidates by a hash of the query's id and their text: chance, reproducibly."""

    def order(text: str) -> str:
        return hashlib.sha256(f"{sample.benchmark_id}\x00{text}".encode()).hexdigest()

    shuffled = sorted(sample.candidates, key=lambda candidate: order(candidate.value))
    return ranked([candidate.id for candidate in shuffled])


def lowest_unique_id(sample: RetrievalSample) -> dict[str, Any]:
    """Choose the lowest id that occurs once: in the published pools ids give gold away."""
    return ranked([lowest_unique([candidate.id for candidate in sample.candidates])])


def lowest_unique(ids: Sequence[str]) -> str:
    """Return the lowest of `ids` that occurs once, by length and then by letters; else of all."""
    times = Counter(ids)
    unique = [name for name in ids if times[name] == 1]
    return min(unique or ids, key=lambda name: (len(name), name))


def oracle_retrieval(sample: RetrievalSample) -> dict[str, Any]:
    """Choose the gold memory.

    Raises:
        UsageError: If the gold is withheld.
    """
    return ranked([_gold_of(sample)])


def generic(sample: UtilizationSample) -> dict[str, Any]:
    """Answer with one polite sentence that fits everything."""
    return {
        "answer": "Thank you for your message, I am happy to help you with that in any way I can."
    }


def refusal(sample: UtilizationSample) -> dict[str, Any]:
    """Answer with one refusal: by a lax rubric it breaks no constraint, believes no fiction."""
    return {"answer": "I'm sorry, but I can't help with that."}


def parrot(sample: UtilizationSample) -> dict[str, Any]:
    """Answer with every sentence of the user that says something about them, word for word."""
    turns = [(turn.role, turn.text) for turn in sample.dialogue]
    quotes = [statement.quote for statement in find_statements(turns, limit=1_000)]
    sentences = quotes or [turn.text for turn in sample.dialogue if turn.role == "user"]
    return {"answer": "\n".join(dict.fromkeys(sentences)) or sample.query}


# The commonest types and labels of real gold, as an exploit would give them
_DRESS: tuple[tuple[Literal["direct", "indirect"], str], ...] = (
    ("direct", "Preferences/Interaction_Preferences"),
    ("indirect", "Thoughts/Curiosity"),
    ("direct", "Personal_Background/Occupation"),
)


def _fixed(*values: str) -> dict[str, Any]:
    items = []
    for number, (value, dress) in enumerate(zip(values, _DRESS, strict=True), start=1):
        items.append(_item(f"m{number}", value, *dress).model_dump())
    return {"memory_items": items}


def _item(name: str, value: str, kind: Literal["direct", "indirect"], label: str) -> Memory:
    return Memory(
        memory_id=name,
        type=kind,
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
