"""Scores of an updated list of memories: the actions of the gold and of a prediction, compared.

Old and new lists are compared by meaning. Ids only decide where meaning leaves it open.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import fsum
from typing import Any, get_args

from alps.judges.base import Judge
from alps.judges.matching import Match, Pair, assign, left_over
from alps.judges.relate import Relations, counted_extras, relation_counts, relations_of, set_aside
from alps.schema import Action, Memory, Prediction, UpdatedMemory, UpdateSample
from alps.similarity import features
from alps.tasks.base import AGREEMENT, Row, Scored, agreement_score
from alps.tasks.extraction import memory_rows, pairs_matched, precision_recall_f1, rejected
from alps.tasks.metrics import Metric, MicroRatio, OnBoards
from alps.text import fold

ACTIONS: tuple[Action, ...] = get_args(Action)
_SCORED_ACTIONS = ("retain", "add", "modify")
_UPDATED = "_updated"
_ROUNDING = 1e-9
_ON_THE_SAME_MATTER = ("same", "narrower", "broader", "conflicting")


def _per_action(action: str) -> tuple[Metric, Metric]:
    right = {f"right_{action}": 1.0}
    return (
        Metric(
            f"precision_{action}",
            f"precision of {action}",
            MicroRatio(right, {f"predicted_{action}": 1}),
        ),
        Metric(f"recall_{action}", f"recall of {action}", MicroRatio(right, {f"gold_{action}": 1})),
    )


# Doing nothing keeps most of a list right, so the headline is F1 on what changed.
METRICS = (
    Metric(
        "f1_changed",
        "F1 of changes",
        headline=True,
        on_boards=OnBoards(companions=("f1",)),
    ),
    Metric("precision_changed", "precision, changed memories"),
    Metric("recall_changed", "recall, changed memories"),
    # An answer that changes nothing gets .68 of it on our samples: alone it would read as skill.
    Metric(
        "f1",
        "F1 of the whole list",
        on_boards=OnBoards(with_baselines=True, people="task2.set_f1"),
    ),
    Metric("precision", "precision, whole list"),
    Metric("recall", "recall, whole list"),
    Metric("action_accuracy", "action accuracy"),
    *chain.from_iterable(map(_per_action, _SCORED_ACTIONS)),
    Metric(
        "contradiction_kept",
        "contradictions kept",
        MicroRatio({"kept_gone": 1}, {"gone": 1}),
        lower_is_better=True,
    ),
    Metric(
        "over_update",
        "retained memories rewritten",
        MicroRatio({"rewritten": 1}, {"retained": 1}),
        lower_is_better=True,
    ),
    Metric(
        "lost",
        "retained memories lost",
        MicroRatio({"lost": 1}, {"retained": 1}),
        lower_is_better=True,
    ),
    AGREEMENT,
)


@dataclass(frozen=True)
class GoldChange:
    """The action of a gold memory, and the old one that it was, or takes the place of."""

    action: Action
    old: int | None


@dataclass(frozen=True)
class MatchedLists:
    """Gold and old memories of one sample in the rows of one matching question.

    There is one of `changes` for every gold memory. `gone` are the old memories, by position, that
    the gold list no longer has, withdrawn or `replaced` by a modification. `rows` are the gold
    memories, then those that are gone: what a prediction is compared with.
    """

    changes: tuple[GoldChange, ...]
    gone: tuple[int, ...]
    replaced: frozenset[int]
    rows: tuple[Memory, ...]

    @property
    def retained(self) -> list[int]:
        """The rows of gold memories that are old ones, unchanged."""
        return [row for row, change in enumerate(self.changes) if change.action == "retain"]

    def old_of(self, row: int) -> int | None:
        """Return the old memory, by position, that a row contains unchanged; else None."""
        if row >= len(self.changes):
            return self.gone[row - len(self.changes)]
        return self.changes[row].old if self.changes[row].action == "retain" else None


def compare(old: Sequence[Memory], gold: Sequence[Memory]) -> MatchedLists:
    """Derive the gold actions: equal values are retained, `<id>_updated` and known ids modified."""
    # The release has no actions: it gives both lists, and marks a modified memory by its id alone.
    retained = _retained(old, gold)
    free = {place: memory.memory_id for place, memory in enumerate(old)}
    for place in retained.values():
        del free[place]
    changes: list[GoldChange] = []
    replaced: set[int] = set()
    for row, memory in enumerate(gold):
        if row in retained:
            changes.append(GoldChange("retain", retained[row]))
            continue
        before = _place({name: place for place, name in free.items()}, memory.memory_id)
        changes.append(GoldChange("add" if before is None else "modify", before))
        if before is not None:
            # One old memory is replaced once: a second item of its id is an addition.
            del free[before]
            replaced.add(before)
    gone = tuple(sorted([*replaced, *free]))
    rows = (*gold, *(old[place] for place in gone))
    return MatchedLists(tuple(changes), gone, frozenset(replaced), rows)


def _retained(old: Sequence[Memory], gold: Sequence[Memory]) -> dict[int, int]:
    """Return which old memory each gold memory is, by their positions, for those unchanged."""
    retained: dict[int, int] = {}
    free = dict(enumerate(old))
    # A memory that stands twice must pair with the one of its own id first.
    for same_id in (True, False):
        for row, memory in enumerate(gold):
            for place, before in free.items() if row not in retained else ():
                if _twins(before, memory, same_id=same_id):
                    retained[row] = place
                    del free[place]
                    break
    return retained


def base_id(name: str) -> str:
    """Return the id of the memory that `name` is the replacement of: itself, without `_updated`."""
    return name.removesuffix(_UPDATED)


def predicted_actions(
    old: Sequence[Memory],
    predicted: Sequence[UpdatedMemory],
    lists: MatchedLists,
    *,
    matches: Iterable[Match],
    pairs: Sequence[Pair],
) -> list[Action]:
    """Return the action of every prediction: as named, else by meaning, then by its id."""
    kept = _kept_places(matches, lists)
    open_ids = {memory.memory_id for place, memory in enumerate(old) if place not in kept.values()}
    related = _related(pairs, lists, taken=set(kept.values()))
    actions: list[Action] = []
    for position, memory in enumerate(predicted):
        if memory.action is not None:
            actions.append(memory.action)
        elif position in kept:
            actions.append("retain")
        else:
            # Models keep the id of a memory that they rewrite, and the release adds `_updated`.
            names = (memory.replaces, memory.memory_id, base_id(memory.memory_id))
            rewritten = not open_ids.isdisjoint(names) or position in related
            actions.append("modify" if rewritten else "add")
    return actions


def _kept_places(matches: Iterable[Match], lists: MatchedLists) -> dict[int, int]:
    """Return the old memory that each prediction repeats, by their positions."""
    kept: dict[int, int] = {}
    for match in matches:
        place = lists.old_of(match.gold)
        if place is not None:
            kept[match.predicted] = place
    return kept


def rewritten_old(
    old: Sequence[Memory], predicted: Sequence[UpdatedMemory], actions: Sequence[Action]
) -> set[int]:
    """Return the old memories, by position, that a prediction says it modified."""
    places = {memory.memory_id: place for place, memory in enumerate(old)}
    rewritten = set()
    for memory, action in zip(predicted, actions, strict=True):
        place = _place(places, memory.memory_id, memory.replaces)
        if action == "modify" and place is not None:
            rewritten.add(place)
    return rewritten


def deleted_old(old: Sequence[Memory], deleted: Sequence[UpdatedMemory]) -> set[int]:
    """Return the places of old memories that a prediction says it deleted, by id or value."""
    by_id: Mapping[str, int] = {memory.memory_id: place for place, memory in enumerate(old)}
    by_value = {fold(memory.value): place for place, memory in enumerate(old)}
    places = set()
    for memory in deleted:
        place = _place(by_id, memory.memory_id, memory.replaces)
        # Under an id of its own a deleted memory is still known by its words.
        place = by_value.get(fold(memory.value)) if place is None else place
        if place is not None:
            places.add(place)
    return places


def _place(places: Mapping[str, int], name: str, replaces: str | None = None) -> int | None:
    """Return the place of the old memory that an item names, or has the id or base id of."""
    for known in (replaces or name, name, base_id(name)):
        if known in places:
            return places[known]
    return None


def _twins(one: Memory, other: Memory, *, same_id: bool) -> bool:
    return fold(one.value) == fold(other.value) and (
        not same_id or one.memory_id == other.memory_id
    )


def _related(pairs: Sequence[Pair], lists: MatchedLists, *, taken: set[int]) -> set[int]:
    """Return the predictions that a judge relates to an old memory which no prediction keeps."""
    found = set()
    for pair in pairs:
        place = lists.old_of(pair.gold)
        if place is not None and place not in taken and pair.relation in _ON_THE_SAME_MATTER:
            found.add(pair.predicted)
    return found


def predicted_lists(
    prediction: Prediction,
) -> tuple[tuple[UpdatedMemory, ...], tuple[UpdatedMemory, ...]]:
    """Return the memories that a prediction has in its list, and those it deleted."""
    kept: list[UpdatedMemory] = []
    deleted: list[UpdatedMemory] = []
    for memory in memories_of(prediction.prediction or {"memory_items": ()}):
        (deleted if memory.action == "delete" else kept).append(memory)
    return tuple(kept), tuple(deleted)


def memories_of(prediction: Row) -> list[UpdatedMemory]:
    """Return the memories of a prediction with their actions, deleted ones among them."""
    return [UpdatedMemory.model_validate(item) for item in prediction["memory_items"]]


def score(
    sample: UpdateSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score a list; one that failed keeps every contradiction and loses every other memory."""
    # What it declares as deleted is not part of the list: no judge is asked about it.
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
    kept = _kept_gone(lists, listed, matches)
    reworded = _reworded(lists, matches, relations, judge, listed=len(listed))
    of_changed = precision_recall_f1(
        **_changes(lists, matches, kept, predicted=counted, reworded=reworded), failed=failed
    )
    deleted_rows = _rows_of(lists, deleted_old(sample.memory, deleted))
    cells = _cells(
        lists,
        matches,
        actions,
        kept=kept,
        deleted_rows=deleted_rows,
        copies=set(relations.screening.copies),
    )
    scores = {**whole, **{f"{name}_changed": value for name, value in of_changed.items()}}
    told = gold + len(lists.gone) - len(lists.replaced)
    if failed:
        scores["action_accuracy"] = 0.0
    else:
        right = sum(cells[action, action] for action in ACTIONS)
        scores["action_accuracy"] = right / told if told else 1.0
    scores |= agreement_score(verdict)
    counts = {
        **_fates(
            lists, matches, kept, rewritten_old(sample.memory, listed, actions), failed=failed
        ),
        **_action_counts(cells, failed=failed),
        "gold": gold,
        "predicted": counted,
        "matched": len(in_gold),
        "rejected_gold": rejected(lists.rows[:gold]),
        **relation_counts(relations, in_gold, judge),
    }
    return Scored(
        scores, counts, _details(lists, listed, matches, actions, kept=kept, relations=relations)
    )


def _kept_gone(
    lists: MatchedLists, listed: Sequence[UpdatedMemory], matches: Sequence[Match]
) -> dict[int, int]:
    """Return which prediction has each memory that should be gone, by row and position.

    That is one that matches it, or states it besides what it matches: «new (formerly old)».
    """
    gold = len(lists.changes)
    kept = {match.gold: match.predicted for match in matches if match.gold >= gold}
    for row in range(gold, len(lists.rows)):
        for match in matches:
            value = listed[match.predicted].value
            if match.gold < gold and states_besides(
                value, lists.rows[match.gold].value, lists.rows[row].value
            ):
                kept.setdefault(row, match.predicted)
    return kept


def states_besides(value: str, new: str, old: str) -> bool:
    """Tell whether a value has most of the content words of `old` that `new` has not.

    What the new memory says itself is its own, and no sign of the old one.
    """
    weights = features(old).content
    only_old = weights.keys() - features(new).content.keys()
    there = only_old & features(value).content.keys()
    # Half of them is not most, in whatever order the weights, thirds and quarters, are added.
    most = fsum(weights[word] for word in only_old) / 2 + _ROUNDING
    return fsum(weights[word] for word in there) > most


def _reworded(
    lists: MatchedLists,
    matches: Sequence[Match],
    relations: Relations,
    judge: Judge,
    *,
    listed: int,
) -> int:
    """Return how many of the retained memories that are lost stand in the list reworded."""
    # A judge that tells relations says which: those that it relates to a prediction which matches
    # nothing.
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
    lists: MatchedLists,
    matches: Sequence[Match],
    kept: Mapping[int, int],
    *,
    predicted: int,
    reworded: int,
) -> dict[str, int]:
    """Count right changes, and those of gold and prediction, whatever actions it declares."""
    found = {match.gold for match in matches}
    row_of = {old: row for row, old in enumerate(lists.gone, start=len(lists.changes))}
    right = total = contradicting = 0
    for row, change in enumerate(lists.changes):
        if change.action == "retain":
            continue
        total += 1
        # A list that has an old memory next to its replacement contradicts itself.
        contradicts = change.old is not None and row_of.get(change.old) in kept
        right += row in found and not contradicts
        contradicting += row in found and contradicts
    for old, row in row_of.items():
        if old not in lists.replaced:
            # A withdrawn memory is a change, too, made by not having it any more.
            total += 1
            right += row not in kept
    lost = len(set(lists.retained) - found)
    # A retained memory that is lost is a wrong change; with the prediction that rewords it, one.
    wrong = predicted - len(matches) + lost - reworded + contradicting
    return {"matched": right, "gold": total, "predicted": right + wrong}


def _cells(
    lists: MatchedLists,
    matches: Sequence[Match],
    actions: Sequence[Action],
    *,
    kept: Mapping[int, int],
    deleted_rows: set[int],
    copies: set[int],
) -> Counter[tuple[str, str]]:
    """Count gold action against predicted action, `none` where there is nothing to compare."""
    # A withdrawn memory has the gold action `delete`: it is deleted by not being in the list any
    # more.
    taken = {match.gold: match.predicted for match in matches}
    cells: Counter[tuple[str, str]] = Counter()
    for row, change in enumerate(lists.changes):
        absent = "delete" if row in deleted_rows else "none"
        cells[change.action, actions[taken[row]] if row in taken else absent] += 1
    for row, old in enumerate(lists.gone, start=len(lists.changes)):
        if old not in lists.replaced:
            cells["delete", actions[kept[row]] if row in kept else "delete"] += 1
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
    lists: MatchedLists,
    matches: Sequence[Match],
    kept: Mapping[int, int],
    rewritten: set[int],
    *,
    failed: bool,
) -> dict[str, float]:
    """Count what became of the memories that should stay, and of those that should be gone."""
    # A retained memory that is missing was rewritten where an item says that it modified it.
    found = {match.gold for match in matches}
    missing = set(lists.retained) - found
    here = len(missing & _rows_of(lists, rewritten))
    return {
        "retained": len(lists.retained),
        "rewritten": here,
        "lost": len(missing) - here,
        "gone": len(lists.gone),
        # An answer that failed left the old list as it was.
        "kept_gone": len(lists.gone) if failed else len(kept),
    }


def _rows_of(lists: MatchedLists, places: set[int]) -> set[int]:
    return {row for row in lists.retained if lists.changes[row].old in places}


def _details(
    lists: MatchedLists,
    predicted: Sequence[UpdatedMemory],
    matches: Sequence[Match],
    actions: Sequence[Action],
    *,
    kept: Mapping[int, int],
    relations: Relations,
) -> dict[str, Any]:
    gold = len(lists.changes)
    matched = [match for match in matches if match.gold < gold]
    gone = []
    for row, predicted_at in kept.items():
        gone.append({"id": f"p{predicted_at + 1}", "value": lists.rows[row].value})
    missed = left_over(gold, (match.gold for match in matches))
    extra = counted_extras(len(predicted), relations, matches)
    return {
        "matched": pairs_matched(matched),
        "missed": memory_rows("g", missed, lists.rows),
        "extra": memory_rows("p", extra, predicted),
        "kept": gone,
        "gold_actions": [change.action for change in lists.changes],
        "actions": list(actions),
        **set_aside(predicted, relations),
    }
