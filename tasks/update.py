"""Update: from old memories and two dialogues to the whole current list.

Each item has its action. One matching question covers it all: its rows are the gold memories and
the old ones that should be gone, which a contradiction that was kept then matches.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import Field

from alps.judges.base import Judge
from alps.judges.matching import RUBRICS, in_other_words, relate
from alps.llm.types import AnswerType, OutputBudget, Read
from alps.prompts import load_prompt
from alps.schema import (
    Action,
    FrozenRow,
    Memory,
    Prediction,
    Turn,
    UpdatedMemory,
    UpdatedMemoryList,
    UpdateSample,
    read_gold,
    read_memories,
)
from alps.tasks.base import (
    Asking,
    JudgingOptions,
    Overlap,
    PublicAnswers,
    Row,
    Shown,
    Task,
    TaskOptions,
    chat_messages,
)
from alps.tasks.by_memory import History, MemoryProbes, Probe, changes
from alps.tasks.extraction import (
    MOST_ITEMS,
    Id,
    WrittenMemory,
    dumped,
    gold_lines,
    values_of,
    with_labels,
)
from alps.tasks.record_parts import (
    FAILED,
    JUDGEMENT_FAILED,
    AnsweredRecord,
    Dialogue,
    Highlight,
    Listed,
    Paired,
    Pairing,
    Rank,
    RecordPart,
    ScoredAnswer,
    Side,
    align,
    memory_side,
    numbered_gold,
    predicted_sides,
)
from alps.tasks.update_scores import (
    ACTIONS,
    METRICS,
    MatchedLists,
    compare,
    memories_of,
    predicted_lists,
    score,
)
from alps.text import fold, shown_value

PROMPT = load_prompt("alps.tasks", "prompts", "update")
# The old list again, and what the new dialogue adds: as much as is shown, and the form. None of 86
# recorded answers has half of that.
WITHIN = OutputBudget(2_048, a_byte=0.25)


class NamedMemory(FrozenRow):
    """An old memory that stays as it is, or goes; the rest of it is known."""

    action: Literal["retain", "delete"]
    memory_id: Id


class Change(FrozenRow):
    """What is done with a memory that is written; it is said before the memory is."""

    action: Literal["add", "modify"]
    replaces: Id | None


class ChangedMemory(WrittenMemory, Change):
    """A new memory, or one that takes the place of an old one."""


class Changes(FrozenRow):
    """What an LLM answers in update."""

    memory_items: Annotated[tuple[NamedMemory | ChangedMemory, ...], Field(max_length=MOST_ITEMS)]


_ACTION_FIELDS = frozenset({"action", "replaces", "replaces_id", "replaced_id", "old_id"})
_SYNONYMS: Mapping[str, Action] = {
    **{action: action for action in ACTIONS},
    **dict.fromkeys(
        ("retention", "retained", "keep", "kept", "unchanged", "none", "noop"), "retain"
    ),
    **dict.fromkeys(("addition", "added", "new", "create", "insert"), "add"),
    **dict.fromkeys(
        ("modification", "modified", "update", "updated", "replace", "change"), "modify"
    ),
    **dict.fromkeys(("deletion", "deleted", "remove", "removed", "forget"), "delete"),
}
# Keys under which models give the old memories and the changed ones apart, the old ones first.
_BOTH_LISTS = (
    "existing_memories",
    "retained_memories",
    "memory_items",
    "memories",
    "updated_memories",
    "new_memories",
)


def read_sample(row: Row, gold: Row | None) -> UpdateSample:
    """Build a sample from rows of `task2` in the release layout."""
    given = row["input"]
    return UpdateSample.model_validate(
        {
            "benchmark_id": row["benchmark_id"],
            "session_id": row.get("session_id") or row["benchmark_id"],
            "old_dialogue": given["old_dialogue"],
            "new_dialogue": given["new_dialogue"],
            "memory": read_gold(given["memory"], "input.memory"),
            "gold": read_gold(gold["gold"]["answer"], "gold.answer") if gold is not None else None,
        }
    )


def messages(sample: UpdateSample) -> tuple[Mapping[str, str], ...]:
    """Render what an LLM is asked: memories and both conversations as JSON."""
    turns = []
    # One count over both: evidence names turns by it.
    for n, turn in enumerate(_dialogue(sample)):
        turns.append({"turn": n, **turn.model_dump()})
    shown = {
        "memories": dumped(sample.memory),
        "old_conversation": turns[: len(sample.old_dialogue)],
        "new_conversation": turns[len(sample.old_dialogue) :],
    }
    return chat_messages(with_labels(PROMPT), shown)


def input_row(sample: UpdateSample) -> dict[str, Any]:
    """Return what an external program is given: memories and dialogues in the release layout."""
    given = {
        "old_dialogue": dumped(sample.old_dialogue),
        "new_dialogue": dumped(sample.new_dialogue),
        "memory": dumped(sample.memory),
    }
    return {"benchmark_id": sample.benchmark_id, "task": "task2", "input": given}


def filled(sample: UpdateSample, node: object) -> object:
    """Complete the items that only name an old memory: what is retained is not asked for again."""
    old = {memory.memory_id: memory.model_dump() for memory in sample.memory}

    def complete(item: object) -> object:
        if not isinstance(item, dict) or item.get("value"):
            return item
        named = old.get(_id_of(item) or "")
        return item if named is None else {**named, "action": item.get("action")}

    if isinstance(node, list):
        return list(map(complete, node))
    if not isinstance(node, dict):
        return node
    lists = {name: part for name, part in node.items() if isinstance(part, list)}
    return {**node, **{name: list(map(complete, part)) for name, part in lists.items()}}


def read_answer(node: object) -> Read[tuple[UpdatedMemory, ...]]:
    """Read a list tolerantly; of two lists, kept and changed memories, the later word counts.

    Raises:
        ValueError: If there is no list of memories in it.
    """
    node, joined = _joined(node)
    read = read_memories(node, also=_ACTION_FIELDS)
    counted: Counter[str] = Counter(joined)
    items = []
    for memory, given in zip(read.memories, read.given, strict=True):
        items.append(_with_action(memory, given, counted))
    notes = list(read.notes)
    for note, n in counted.items():
        notes.append(f"{n} × {note}" if n > 1 else note)
    return Read(tuple(items), tuple(notes))


def to_prediction(memories: Sequence[UpdatedMemory]) -> dict[str, Any]:
    """Return the release's form of a prediction; deleted memories are at the end."""
    # Verdicts number the items of the list: so what a judge sees as p3 is the third of the file.
    ordered = sorted(memories, key=lambda memory: memory.action == "delete")
    return {"memory_items": dumped(ordered)}


def fits(sample: UpdateSample, prediction: Row) -> None:
    """Check that what was kept of an answer is a list of memories with actions.

    Raises:
        ValueError: If it is something else.
    """
    memories_of(prediction)


async def judge_prediction(
    sample: UpdateSample, prediction: Prediction, judge: Judge, options: JudgingOptions
) -> dict[str, Any]:
    """Relate the predicted memories, in one question, to gold ones and to what should be gone."""
    rows = compare(sample.memory, sample.gold or ()).rows
    listed, _ = predicted_lists(prediction)
    return await relate(rows, listed, _dialogue(sample), judge=judge, about=sample.benchmark_id)


def likely_prediction(sample: UpdateSample) -> dict[str, Any]:
    """Return the gold memories, with the changed ones reworded."""
    lists = compare(sample.memory, sample.gold or ())
    undeclared = {"action": None, "replaces": None}
    items = []
    for memory, change in zip(lists.rows, lists.changes, strict=False):
        said = memory if change.action == "retain" else in_other_words(memory)
        items.append({**said.model_dump(), **undeclared})
    return {"memory_items": items}


def _dialogue(sample: UpdateSample) -> tuple[Turn, ...]:
    """Return both dialogues as one."""
    # The memories to be kept come from the old one: detail of theirs is borne out there.
    return (*sample.old_dialogue, *sample.new_dialogue)


def _joined(node: object) -> tuple[object, list[str]]:
    """Join an answer that came as two lists, the old memories and the changed ones."""
    if not isinstance(node, dict):
        return node, []
    lists = [node[key] for key in _BOTH_LISTS if isinstance(node.get(key), list)]
    if len(lists) < 2 or not all(isinstance(item, dict) for item in chain.from_iterable(lists)):
        return node, []
    kept: list[dict[str, object]] = []
    for items in lists:
        # An old memory may be kept in the first list and changed in the second: the later counts.
        again = set(map(_id_of, items)) - {None}
        kept = [item for item in kept if _id_of(item) not in again] + items
    return {"memory_items": kept}, ["two lists, merged"]


def _id_of(item: Mapping[str, object]) -> str | None:
    name = item.get("memory_id", item.get("id"))
    return str(name) if name is not None and name != "" else None


def _with_action(memory: Memory, given: Mapping[str, object], notes: Counter[str]) -> UpdatedMemory:
    said = given.get("action")
    action = _SYNONYMS.get(str(said).strip().casefold()) if said is not None else None
    if said is not None and action is None:
        notes[f"unknown action {str(said)[:20]!r} left out"] += 1
    replaced = next(
        (given[k] for k in ("replaces", "replaces_id", "replaced_id", "old_id") if given.get(k)),
        None,
    )
    replaces = str(replaced) if isinstance(replaced, str | int) else None
    if replaced is not None and replaces is None:
        notes[f"`replaces` is {type(replaced).__name__}, not an id: left out"] += 1
    return UpdatedMemory.model_validate(
        {**memory.model_dump(), "action": action, "replaces": replaces}
    )


def _overlap(sample: UpdateSample, answer: Row) -> Overlap:
    old = [memory.value for memory in sample.memory]
    # Memories to be kept are handed back by every honest system: only changed gold can be copied.
    kept = set(map(fold, old))
    golds = [shown_value(m.value) for m in sample.gold or () if fold(m.value) not in kept]
    turns = [turn.text for turn in (*sample.old_dialogue, *sample.new_dialogue)]
    return Overlap(golds, values_of(answer), [*turns, *old], given=old)


def _paired(sample: UpdateSample, prediction: Prediction) -> tuple[int, int]:
    rows = compare(sample.memory, sample.gold or ()).rows
    return len(rows), len(predicted_lists(prediction)[0])


def record_parts(record: AnsweredRecord) -> list[RecordPart]:
    """Show the old list and what happens to it, both dialogues, and the new lists."""
    lists = compare(record.of_sample("memory"), record.of_sample("gold"))
    parts = _before(record, lists) if record.sample is not None else []
    parts.append(Paired(tuple(_pairings(record, lists))))
    deleted = []
    for item in record.items:
        if item.get("action") == "delete":
            deleted.append(Side(item["memory_id"], item["value"]))
    return [*parts, Listed("Deleted by the prediction", tuple(deleted))]


def _before(record: AnsweredRecord, lists: MatchedLists) -> list[RecordPart]:
    """Return the old list and the dialogues, with what old and new memories quote of them."""
    old = record.of_sample("memory")
    successors: dict[int, str] = {}
    new: dict[str, Memory] = {}
    gold = numbered_gold(record.of_sample("gold"))
    for (name, memory), change in zip(gold.items(), lists.changes, strict=True):
        if change.old is not None:
            successors[change.old] = name
        if change.action != "retain":
            new[name] = _in_any_turn(memory)
    sides = []
    known = record.sample is not None and record.sample.gold is not None
    for n, memory in enumerate(old):
        fate = _fate(n, lists.gone, successors) if known else ""
        sides.append(memory_side(memory.memory_id, memory, action=fate, annotated=True))
    quoted = {memory.memory_id: memory for memory in old}
    before, after = record.of_sample("old_dialogue"), record.of_sample("new_dialogue")
    return [
        Listed("Old memories", tuple(sides)),
        Dialogue("Old dialogue", before, quoted=quoted, folded=True),
        Dialogue("New dialogue", after, quoted=new),
    ]


def _fate(position: int, gone: tuple[int, ...], successors: Mapping[int, str]) -> str:
    """Say what should become of an old memory."""
    name = successors.get(position)
    if position in gone:
        return f"replaced by {name}" if name else "withdrawn"
    return f"stays as {name}" if name else "stays"


def _in_any_turn(memory: Memory) -> Memory:
    """Remove the turn that the evidence of a new memory names."""
    # Releases count the turns of the new dialogue differently.
    if memory.evidence is None:
        return memory
    evidence = memory.evidence.model_copy(update={"utterance_index": None})
    return memory.model_copy(update={"evidence": evidence})


def _pairings(record: AnsweredRecord, lists: MatchedLists) -> list[Pairing]:
    """Align the gold list with the predicted one, each with its actions, changes first."""
    old, gold = record.of_sample("memory"), record.of_sample("gold")
    golds, gone = {}, {}
    for (name, memory), change in zip(numbered_gold(gold).items(), lists.changes, strict=True):
        action = str(change.action)
        if change.action == "modify" and change.old is not None:
            action += f" {old[change.old].memory_id}"
        golds[name] = memory_side(name, memory, action=action, annotated=True)
    for n, position in enumerate(lists.gone, start=len(gold) + 1):
        value = shown_value(old[position].value)
        gone[f"g{n}"] = Side(f"old {old[position].memory_id}", value, "should be gone")
    score = record.score or {}
    predictions = predicted_sides(record, dict(enumerate(score.get("actions", ()), start=1)))
    unchanged = set()
    for n, action in enumerate(score.get("gold_actions", ()), start=1):
        if action == "retain":
            unchanged.add(f"g{n}")

    def is_unchanged(row: Pairing) -> bool:
        return row.kind == "matched" and row.gold is not None and row.gold.id in unchanged

    known = gone if record.sample is not None else None
    return sorted(align(record, golds, predictions, gone=known), key=is_unchanged)


def _kept(answer: ScoredAnswer) -> Rank:
    kept = answer.count("kept_gone")
    return (kept,) if answer.judged and kept else None


def _no_change_found(answer: ScoredAnswer) -> Rank:
    changed = answer.count("gold_add") + answer.count("gold_modify")
    return (changed,) if answer.judged and changed and not answer.value("f1_changed") else None


def _damaged(answer: ScoredAnswer) -> Rank:
    damaged = answer.count("lost") + answer.count("rewritten")
    return (damaged,) if answer.judged and damaged else None


def _best(answer: ScoredAnswer) -> Rank:
    f1 = answer.value("f1_changed")
    return (f1, answer.count("gold")) if answer.judged and f1 else None


HIGHLIGHTS = (
    FAILED,
    JUDGEMENT_FAILED,
    Highlight("most outdated memories kept", 4, _kept),
    Highlight("none of many changes found", 4, _no_change_found),
    Highlight("most retained memories lost or rewritten", 3, _damaged),
    Highlight("best F1 of changes", 2, _best),
)


TASK = Task(
    name="update",
    track="task2",
    prompt=PROMPT,
    answer=AnswerType(schema=Changes, read=read_answer, partial=True, within=WITHIN),
    read_sample=read_sample,
    messages=messages,
    input_row=input_row,
    to_prediction=to_prediction,
    judge=judge_prediction,
    likely=likely_prediction,
    score=score,
    metrics=METRICS,
    fits=fits,
    rubrics=RUBRICS,
    asking=Asking(filled=filled),
    public=PublicAnswers(
        schema=UpdatedMemoryList,
        paired=_paired,
        texts=values_of,
        overlap=_overlap,
        gold=gold_lines,
        unit="changed values",
    ),
    systems={
        "rules": "rules:update",
        "oracle": "embedded:oracle_update",
        "floor/no-op": "embedded:no_op",
        # In 609 of 638 public records the added memory was told in the second or third turn from
        # the end: this one uses such cues without reading.
        "floor/positional": "embedded:positional",
    },
    shown=Shown(record_parts=record_parts, highlights=HIGHLIGHTS),
)


def _probes(sample: UpdateSample) -> tuple[Probe, Probe]:
    """Ask for all memories after the old dialogue, and after both."""
    return Probe(len(sample.old_dialogue)), Probe(len(_dialogue(sample)))


BY_MEMORY = MemoryProbes(
    history=lambda sample: History((sample.old_dialogue, sample.new_dialogue)),
    probes=_probes,
    prediction=lambda sample, found: to_prediction(changes(sample.memory, *found)),
)


def tracks(options: TaskOptions) -> tuple[Task, ...]:
    """Return the one track of update."""
    return (TASK.answered_by(BY_MEMORY, options, "memory"),)
