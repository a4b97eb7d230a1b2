"""Parts and highlights of a record of update: what should become of each old memory."""

from collections.abc import Mapping

from alps.rejection import shown_value
from alps.schema import Memory
from alps.tasks.highlights import FAILED, JUDGEMENT_FAILED, Highlight, Rank, ScoredAnswer
from alps.tasks.record_parts import (
    AnsweredRecord,
    Dialogue,
    Listed,
    Paired,
    Pairing,
    Part,
    Side,
    align,
    memory_side,
    numbered_gold,
    predicted_sides,
)
from alps.tasks.update_actions import Lists, compare


def record_parts(record: AnsweredRecord) -> list[Part]:
    """Show the old list and what happens to it, both dialogues, and the new lists."""
    lists = compare(record.of_sample("memory"), record.of_sample("gold"))
    parts = _before(record, lists) if record.sample is not None else []
    parts.append(Paired(tuple(_pairings(record, lists))))
    deleted = []
    for item in record.items:
        if item.get("action") == "delete":
            deleted.append(Side(item["memory_id"], item["value"]))
    return [*parts, Listed("Deleted by the prediction", tuple(deleted))]


def _before(record: AnsweredRecord, lists: Lists) -> list[Part]:
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


def _pairings(record: AnsweredRecord, lists: Lists) -> list[Pairing]:
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
    Highlight("the most old memories kept that should be gone", 4, _kept),
    Highlight("the most changes, and none of them found", 4, _no_change_found),
    Highlight("the most retained memories lost or rewritten", 3, _damaged),
    Highlight("the best answers, by what changed", 2, _best),
)
