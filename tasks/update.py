"""Update: old memories, old and new dialogue in, the whole list as it should stand now out.

Each item has its action.

Doing nothing keeps most of a list right, so the headline is F1 on what changed. One matching
question covers it all:
its rows are the gold memories and the old ones that should be gone, which a contradiction that was
kept then matches.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from alps.judges.base import Judge
from alps.judges.matching import Match, assign, left_over
from alps.judges.relate import (
    RUBRICS,
    Relations,
    counted_extras,
    in_other_words,
    relate,
    relation_counts,
    relations_of,
    set_aside,
)
from alps.llm.types import AnswerType, Read
from alps.prompts import load_prompt
from alps.rejection import shown_value
from alps.schema import (
    Action,
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
    JudgingOptions,
    Metric,
    Overlap,
    PublicAnswers,
    Row,
    Scored,
    Task,
    TaskOptions,
)
from alps.tasks.extraction import (
    dumped,
    gold_lines,
    memory_rows,
    pairs_matched,
    precision_recall_f1,
    rejected,
    values_of,
    with_labels,
)
from alps.tasks.update_actions import Lists, compare, deleted_old, predicted_actions, rewritten_old
from alps.tasks.update_parts import HIGHLIGHTS, record_parts
from alps.text import fold

PROMPT = load_prompt("alps.tasks", "prompts", "update")
ACTIONS: tuple[Action, ...] = get_args(Action)
_SCORED_ACTIONS = ("retain", "add", "modify")
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
_BOTH_LISTS = (
    "existing_memories",
    "retained_memories",
    "memory_items",
    "memories",
    "updated_memories",
    "new_memories",
)


def _per_action(action: str) -> tuple[Metric, Metric]:
    right = {f"right_{action}": 1.0}
    return (
        Metric(f"precision_{action}", f"precision of {action}", right, {f"predicted_{action}": 1}),
        Metric(f"recall_{action}", f"recall of {action}", right, {f"gold_{action}": 1}),
    )


METRICS = (
    Metric("f1_changed", "F1 of changed memories (macro)", headline=True, beside=("f1",)),
    Metric("precision_changed", "precision, changed memories"),
    Metric("recall_changed", "recall, changed memories"),
    Metric("f1", "F1 of the whole list (macro)", with_floors=True),
    Metric("precision", "precision, whole list"),
    Metric("recall", "recall, whole list"),
    Metric("action_accuracy", "action accuracy"),
    *(metric for action in _SCORED_ACTIONS for metric in _per_action(action)),
    Metric(
        "contradiction_kept",
        "contradictions kept",
        {"kept_gone": 1},
        {"gone": 1},
        lower_is_better=True,
    ),
    Metric(
        "over_update",
        "retained memories rewritten",
        {"rewritten": 1},
        {"retained": 1},
        lower_is_better=True,
    ),
    Metric("lost", "retained memories lost", {"lost": 1}, {"retained": 1}, lower_is_better=True),
    Metric("judge_agreement", "judge's agreement with itself", optional=True),
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
    """Render what an LLM is asked.

    The static instructions first, then memories and both conversations as JSON.
    """
    turns = []
    # One count over both: evidence names turns by it.
    for n, turn in enumerate(_dialogue(sample)):
        turns.append({"turn": n, **turn.model_dump()})
    shown = {
        "memories": dumped(sample.memory),
        "old_conversation": turns[: len(sample.old_dialogue)],
        "new_conversation": turns[len(sample.old_dialogue) :],
    }
    return (
        {"role": "system", "content": with_labels(PROMPT)},
        {"role": "user", "content": json.dumps(shown, ensure_ascii=False)},
    )


def input_row(sample: UpdateSample) -> dict[str, Any]:
    """Return what an external program is given: memories and dialogues in the release layout."""
    given = {
        "old_dialogue": dumped(sample.old_dialogue),
        "new_dialogue": dumped(sample.new_dialogue),
        "memory": dumped(sample.memory),
    }
    return {"benchmark_id": sample.benchmark_id, "task": "task2", "input": given}


def read_answer(node: object) -> Read[tuple[UpdatedMemory, ...]]:
    """Read a system's list tolerantly.

    Where it came as two lists, kept and changed ones, the later word counts.

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
    """Return the release's form of a prediction; what was deleted stands at the end."""
    ordered = sorted(memories, key=lambda memory: memory.action == "delete")
    return {"memory_items": dumped(ordered)}


def fits(sample: UpdateSample, prediction: Row) -> None:
    """Check that what was kept of an answer is a list of memories with actions.

    Raises:
        ValueError: If it is something else.
    """
    _memories_of(prediction)


def predicted_lists(
    prediction: Prediction,
) -> tuple[tuple[UpdatedMemory, ...], tuple[UpdatedMemory, ...]]:
    """Return the memories that a prediction has in its list, and those it deleted."""
    kept: list[UpdatedMemory] = []
    deleted: list[UpdatedMemory] = []
    for memory in _memories_of(prediction.prediction or {"memory_items": ()}):
        (deleted if memory.action == "delete" else kept).append(memory)
    return tuple(kept), tuple(deleted)


def _memories_of(prediction: Row) -> list[UpdatedMemory]:
    return [UpdatedMemory.model_validate(item) for item in prediction["memory_items"]]


async def judge_prediction(
    sample: UpdateSample, prediction: Prediction, judge: Judge, options: JudgingOptions
) -> dict[str, Any]:
    """Relate the predicted memories to the gold ones and to those that should be gone.

    One question covers both.
    """
    rows = compare(sample.memory, sample.gold or ()).rows
    listed, _ = predicted_lists(prediction)
    return await relate(rows, listed, _dialogue(sample), judge=judge, about=sample.benchmark_id)


def likely_prediction(sample: UpdateSample) -> dict[str, Any]:
    """Return the memories of the gold: those that should change as somebody else would put them."""
    lists = compare(sample.memory, sample.gold or ())
    undeclared = {"action": None, "replaces": None}
    items = []
    for memory, change in zip(lists.rows, lists.changes, strict=False):
        said = memory if change.action == "retain" else in_other_words(memory)
        items.append({**said.model_dump(), **undeclared})
    return {"memory_items": items}


def _dialogue(sample: UpdateSample) -> tuple[Turn, ...]:
    """Return what the user has said in all: the memories to be kept come from the old dialogue."""
    return (*sample.old_dialogue, *sample.new_dialogue)


def score(
    sample: UpdateSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score one updated list.

    A failed prediction keeps every contradiction and loses every other memory.
    """
    lists = compare(sample.memory, sample.gold or ())
    listed, deleted = predicted_lists(prediction)
    relations = relations_of(verdict, lists.rows, listed, judge)
    matches = assign(relations.pairs, "lenient")
    actions = predicted_actions(
        sample.memory, listed, lists, matches=matches, pairs=relations.pairs
    )
    failed, gold = verdict is None, len(lists.changes)
    counted = relations.screening.counted(len(listed))
    in_gold = [match for match in matches if match.gold < gold]
    whole = precision_recall_f1(len(in_gold), gold=gold, predicted=counted, failed=failed)
    reworded = _reworded(lists, matches, relations, judge, listed=len(listed))
    of_changed = precision_recall_f1(
        **_changes(lists, matches, predicted=counted, reworded=reworded), failed=failed
    )
    deleted_rows = _rows_of(lists, deleted_old(sample.memory, deleted))
    cells = _cells(
        lists, matches, actions, deleted_rows=deleted_rows, copies=set(relations.screening.copies)
    )
    scores = {**whole, **{f"{name}_changed": value for name, value in of_changed.items()}}
    told = gold + len(lists.gone) - len(lists.replaced)
    scores["action_accuracy"] = (
        0.0 if failed else sum(cells[a, a] for a in ACTIONS) / told if told else 1.0
    )
    if verdict is not None and verdict.get("agreement") is not None:
        scores["judge_agreement"] = verdict["agreement"]
    counts = {
        **_fates(lists, matches, rewritten_old(sample.memory, listed, actions), failed=failed),
        **_action_counts(cells, failed=failed),
        "gold": gold,
        "predicted": counted,
        "matched": len(in_gold),
        "rejected_gold": rejected(lists.rows[:gold]),
        **relation_counts(relations, in_gold, judge),
    }
    return Scored(scores, counts, _details(lists, listed, matches, actions, relations))


def _reworded(
    lists: Lists, matches: Sequence[Match], relations: Relations, judge: Judge, *, listed: int
) -> int:
    """Return how many of the retained memories that are lost stand in the list reworded.

    A judge that tells relations says which: those that it relates to a prediction which matches
    nothing.
    """
    lost = set(lists.retained) - {match.gold for match in matches}
    extra = set(counted_extras(listed, relations, matches))
    if "related" not in judge.relations:
        # Each such prediction stands for one. Without this bound a list that drops every old
        # memory could add as many wrong ones for nothing.
        return min(len(lost), len(extra))
    related = []
    for pair in (*relations.pairs, *relations.unsupported):
        if pair.gold in lost and pair.predicted in extra and pair.relation != "bundle":
            related.append(replace(pair, relation="same"))
    return len(assign(related, "strict"))


def _changes(
    lists: Lists, matches: Sequence[Match], *, predicted: int, reworded: int
) -> dict[str, int]:
    """Count right changes, those of the gold, and those of the prediction.

    The actions that the prediction declares do not count.
    """
    found = {match.gold for match in matches}
    replacement: dict[int | None, int] = {}
    right = total = contradicting = 0
    for row, change in enumerate(lists.changes):
        if change.action == "modify":
            replacement[change.old] = row
        if change.action != "retain":
            total += 1
            right += row in found
    for row, old in enumerate(lists.gone, start=len(lists.changes)):
        if old not in lists.replaced:
            # A withdrawn memory is a change, too, made by not having it any more.
            total += 1
            right += row not in found
        # A list that has an old memory next to its replacement contradicts itself.
        contradicting += row in found and replacement.get(old) in found
    lost = len(set(lists.retained) - found)
    # A retained memory that is lost is a wrong change; with the prediction that rewords it, one.
    wrong = predicted - len(matches) + lost - reworded + contradicting
    return {"matched": right, "gold": total, "predicted": right + wrong}


def _cells(
    lists: Lists,
    matches: Sequence[Match],
    actions: Sequence[Action],
    *,
    deleted_rows: set[int],
    copies: set[int],
) -> Counter[tuple[str, str]]:
    """Count gold action against predicted action.

    `none` where there is no gold, or no prediction, to stand against.

    A withdrawn memory has the gold action `delete`: it is deleted by not being in the list any
    more.
    """
    taken = {match.gold: match.predicted for match in matches}
    cells: Counter[tuple[str, str]] = Counter()
    for row, change in enumerate(lists.changes):
        absent = "delete" if row in deleted_rows else "none"
        cells[change.action, actions[taken[row]] if row in taken else absent] += 1
    for row, old in enumerate(lists.gone, start=len(lists.changes)):
        if old not in lists.replaced:
            cells["delete", actions[taken[row]] if row in taken else "delete"] += 1
    # A prediction that keeps a replaced memory stands against no gold; all others that match do.
    matched = set(copies)
    for match in matches:
        if match.gold < len(lists.changes) or lists.old_of(match.gold) not in lists.replaced:
            matched.add(match.predicted)
    for position in left_over(len(actions), sorted(matched)):
        cells["none", actions[position]] += 1
    return cells


def _action_counts(cells: Counter[tuple[str, str]], *, failed: bool) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for (gold, predicted), n in cells.items():
        counts[f"cell_{gold}_{'failed' if failed else predicted}"] += n
        if gold != "none":
            counts[f"gold_{gold}"] += n
        if predicted != "none" and not failed:
            counts[f"predicted_{predicted}"] += n
        if gold == predicted and not failed:
            counts[f"right_{gold}"] += n
    return dict(counts)


def _fates(
    lists: Lists, matches: Sequence[Match], rewritten: set[int], *, failed: bool
) -> dict[str, float]:
    """Count what became of the memories that should stay, and of those that should be gone."""
    found = {match.gold for match in matches}
    missing = set(lists.retained) - found
    here = len(missing & _rows_of(lists, rewritten))
    kept = len(found.intersection(range(len(lists.changes), len(lists.rows))))
    return {
        "retained": len(lists.retained),
        "rewritten": here,
        "lost": len(missing) - here,
        "gone": len(lists.gone),
        # An answer that failed left the old list as it was.
        "kept_gone": len(lists.gone) if failed else kept,
    }


def _rows_of(lists: Lists, places: set[int]) -> set[int]:
    return {row for row in lists.retained if lists.changes[row].old in places}


def _details(
    lists: Lists,
    predicted: Sequence[UpdatedMemory],
    matches: Sequence[Match],
    actions: Sequence[Action],
    relations: Relations,
) -> dict[str, Any]:
    gold = len(lists.changes)
    matched, kept = [], []
    for match in matches:
        if match.gold < gold:
            matched.append(match)
        else:
            value = lists.rows[match.gold].value
            kept.append({"id": f"p{match.predicted + 1}", "value": value})
    missed = left_over(gold, (match.gold for match in matches))
    extra = counted_extras(len(predicted), relations, matches)
    return {
        "matched": pairs_matched(matched),
        "missed": memory_rows("g", missed, lists.rows),
        "extra": memory_rows("p", extra, predicted),
        "kept": kept,
        "gold_actions": [change.action for change in lists.changes],
        "actions": list(actions),
        **set_aside(predicted, relations),
    }


def _joined(node: object) -> tuple[object, list[str]]:
    """Join an answer that came as two lists, the old memories and the changed ones.

    A later item replaces its id.
    """
    if not isinstance(node, dict):
        return node, []
    lists = [node[key] for key in _BOTH_LISTS if isinstance(node.get(key), list)]
    items = [item for found in lists for item in found]
    if len(lists) < 2 or not all(isinstance(item, dict) for item in items):
        return node, []
    kept: list[dict[str, object]] = []
    for found in lists:
        again = {_id_of(item) for item in found} - {None}
        kept = [item for item in kept if _id_of(item) not in again] + found
    return {"memory_items": kept}, ["two lists, joined"]


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
    kept = set(map(fold, old))
    golds = [shown_value(m.value) for m in sample.gold or () if fold(m.value) not in kept]
    turns = [turn.text for turn in (*sample.old_dialogue, *sample.new_dialogue)]
    return Overlap(golds, values_of(answer), [*turns, *old], given=old)


def _paired(sample: UpdateSample, prediction: Prediction) -> tuple[int, int]:
    rows = compare(sample.memory, sample.gold or ()).rows
    return len(rows), len(predicted_lists(prediction)[0])


TASK = Task(
    name="update",
    track="task2",
    prompt=PROMPT,
    answer=AnswerType(schema=UpdatedMemoryList, read=read_answer, partial=True),
    read_sample=read_sample,
    messages=messages,
    input_row=input_row,
    to_prediction=to_prediction,
    has_gold=lambda sample: sample.gold is not None,
    judge=judge_prediction,
    likely=likely_prediction,
    score=score,
    metrics=METRICS,
    fits=fits,
    rubrics=RUBRICS,
    paired=_paired,
    public=PublicAnswers(
        texts=values_of,
        overlap=_overlap,
        gold=gold_lines,
        unit="changed values are the gold's",
    ),
    systems={
        "rules": "baselines:update",
        "oracle": "baselines:oracle_update",
        "floor/no-op": "baselines:no_op",
        "floor/positional": "baselines:positional",
    },
    record_parts=record_parts,
    highlights=HIGHLIGHTS,
)


def tracks(options: TaskOptions) -> tuple[Task, ...]:
    """Return the one track of update."""
    return (TASK,)
