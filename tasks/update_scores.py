"""Scores of an updated list of memories: the actions of the gold and of a prediction, compared.

Old and new lists are compared by meaning. Ids only decide where meaning leaves it open.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import fsum
from typing import Any, get_args

from alps.judges.base import Judge, Pair
from alps.judges.matching import (
    Match,
    Relations,
    assign,
    counted_extras,
    left_over,
    relation_counts,
    relations_of,
    set_aside,
)
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

    Attributes:
        changes: One for every gold memory.
        gone: The old memories that the gold list no longer has, by position: replaced ones and
            withdrawn ones.
        replaced: Those of them that a modification takes the place of.
        rows: The gold memories, then those that are gone: what a prediction is compared with.
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
                other_id = same_id and before.memory_id != memory.memory_id
                if not other_id and fold(before.value) == fold(memory.value):
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


def _old_named(
    old: Sequence[Memory], named: Iterable[UpdatedMemory], *, by_words: bool = False
) -> set[int]:
    """Return the old memories, by position, that items name: by an id, or else by their words."""
    by_id: Mapping[str, int] = {memory.memory_id: place for place, memory in enumerate(old)}
    by_value = {fold(memory.value): place for place, memory in enumerate(old)}
    places = set()
    for memory in named:
        place = _place(by_id, memory.memory_id, memory.replaces)
        if place is None and by_words:
            place = by_value.get(fold(memory.value))
        if place is not None:
            places.add(place)
    return places


def _place(places: Mapping[str, int], name: str, replaces: str | None = None) -> int | None:
    """Return the place of the old memory that an item names, or has the id or base id of."""
    for known in (replaces or name, name, base_id(name)):
        if known in places:
            return places[known]
    return None


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


@dataclass(frozen=True)
class _Answered:
    """A predicted list next to the gold one."""

    lists: MatchedLists
    listed: Sequence[UpdatedMemory]
    relations: Relations
    matches: Sequence[Match]
    actions: Sequence[Action]
    failed: bool

    @property
    def gold(self) -> int:
        return len(self.lists.changes)

    @property
    def counted(self) -> int:
        return self.relations.screening.counted(len(self.listed))

    @cached_property
    def in_gold(self) -> list[Match]:
        """The matches of gold memories; others are of old ones that should be gone."""
        return [match for match in self.matches if match.gold < self.gold]

    @cached_property
    def found(self) -> set[int]:
        """The rows that a prediction matches."""
        return {match.gold for match in self.matches}

    @cached_property
    def lost(self) -> set[int]:
        """The rows of retained memories that no prediction matches."""
        return set(self.lists.retained) - self.found

    @cached_property
    def kept(self) -> dict[int, int]:
        """Which prediction has each memory that should be gone, by row and position.

        That is one that matches it, or states it besides what it matches: «new (formerly old)».
        """
        rows = self.lists.rows
        kept = {match.gold: match.predicted for match in self.matches if match.gold >= self.gold}
        for row in range(self.gold, len(rows)):
            for match in self.in_gold:
                value = self.listed[match.predicted].value
                if states_besides(value, rows[match.gold].value, rows[row].value):
                    kept.setdefault(row, match.predicted)
        return kept

    @cached_property
    def extras(self) -> list[int]:
        """The positions of the predictions that count and match nothing."""
        return counted_extras(len(self.listed), self.relations, self.matches)


def score(
    sample: UpdateSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score a list; one that failed keeps every contradiction and loses every other memory."""
    # What it declares as deleted is not part of the list: no judge is asked about it.
    old, lists = sample.memory, compare(sample.memory, sample.gold or ())
    listed, deleted = predicted_lists(prediction)
    relations = relations_of(verdict, lists.rows, listed, judge)
    matches = assign(relations.pairs, "lenient")
    actions = predicted_actions(old, listed, lists, matches=matches, pairs=relations.pairs)
    one = _Answered(lists, listed, relations, matches, actions, failed=verdict is None)
    matched = {"matched": len(one.in_gold), "gold": one.gold, "predicted": one.counted}
    scores = precision_recall_f1(**matched, failed=one.failed)
    of_changed = precision_recall_f1(**_changes(one, _reworded(one, judge)), failed=one.failed)
    for name, value in of_changed.items():
        scores[f"{name}_changed"] = value
    # Under an id of its own a deleted memory is still known by its words.
    cells = _cells(one, _rows_of(lists, _old_named(old, deleted, by_words=True)))
    told = one.gold + len(lists.gone) - len(lists.replaced)
    if one.failed:
        scores["action_accuracy"] = 0.0
    else:
        right = sum(cells[action, action] for action in ACTIONS)
        scores["action_accuracy"] = right / told if told else 1.0
    scores |= agreement_score(verdict)
    modified = [
        memory for memory, action in zip(listed, actions, strict=True) if action == "modify"
    ]
    counts = {
        **_fates(one, _rows_of(lists, _old_named(old, modified))),
        **_action_counts(cells, failed=one.failed),
        "gold": one.gold,
        "predicted": one.counted,
        "matched": len(one.in_gold),
        "rejected_gold": rejected(lists.rows[: one.gold]),
        **relation_counts(relations, one.in_gold, judge),
    }
    return Scored(scores, counts, _details(one))


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


def _reworded(one: _Answered, judge: Judge) -> int:
    """Return how many of the retained memories that are lost stand in the list reworded."""
    # A judge that tells relations says which: those that it relates to a prediction which matches
    # nothing.
    if "related" not in judge.relations:
        # Each such prediction stands for one. Without this bound a list that drops every old
        # memory could add as many wrong ones for nothing.
        return min(len(one.lost), len(one.extras))
    related, extras = [], set(one.extras)
    for pair in (*one.relations.pairs, *one.relations.unsupported):
        if pair.gold in one.lost and pair.predicted in extras and pair.relation != "bundle":
            related.append(replace(pair, relation="same"))
    return len(assign(related, "strict"))


def _changes(one: _Answered, reworded: int) -> dict[str, int]:
    """Count right changes, and those of gold and prediction, whatever actions it declares."""
    lists = one.lists
    row_of = {old: row for row, old in enumerate(lists.gone, start=one.gold)}
    right = total = contradicting = 0
    for row, change in enumerate(lists.changes):
        if change.action == "retain":
            continue
        total += 1
        # A list that has an old memory next to its replacement contradicts itself.
        contradicts = change.old is not None and row_of.get(change.old) in one.kept
        right += row in one.found and not contradicts
        contradicting += row in one.found and contradicts
    for old, row in row_of.items():
        if old not in lists.replaced:
            # A withdrawn memory is a change, too, made by not having it any more.
            total += 1
            right += row not in one.kept
    # A retained memory that is lost is a wrong change; with the prediction that rewords it, one.
    wrong = one.counted - len(one.matches) + len(one.lost) - reworded + contradicting
    return {"matched": right, "gold": total, "predicted": right + wrong}


def _cells(one: _Answered, deleted_rows: set[int]) -> Counter[tuple[str, str]]:
    """Count gold action against predicted action, `none` where there is nothing to compare."""
    # A withdrawn memory has the gold action `delete`: it is deleted by not being in the list any
    # more.
    lists, actions, kept = one.lists, one.actions, one.kept
    taken = {match.gold: match.predicted for match in one.matches}
    cells: Counter[tuple[str, str]] = Counter()
    for row, change in enumerate(lists.changes):
        absent = "delete" if row in deleted_rows else "none"
        cells[change.action, actions[taken[row]] if row in taken else absent] += 1
    for row, old in enumerate(lists.gone, start=one.gold):
        if old not in lists.replaced:
            cells["delete", actions[kept[row]] if row in kept else "delete"] += 1
    # A prediction that keeps a replaced memory stands against no gold; all others that match do.
    matched = set(one.relations.screening.copies)
    for match in one.matches:
        if match.gold < one.gold or lists.old_of(match.gold) not in lists.replaced:
            matched.add(match.predicted)
    for position in left_over(len(actions), matched):
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


def _fates(one: _Answered, rewritten: set[int]) -> dict[str, float]:
    """Count what became of the memories that should stay, and of those that should be gone."""
    # A retained memory that is missing was rewritten where an item says that it modified it.
    here, gone = len(one.lost & rewritten), len(one.lists.gone)
    return {
        "retained": len(one.lists.retained),
        "rewritten": here,
        "lost": len(one.lost) - here,
        "gone": gone,
        # An answer that failed left the old list as it was.
        "kept_gone": gone if one.failed else len(one.kept),
    }


def _rows_of(lists: MatchedLists, places: set[int]) -> set[int]:
    return {row for row in lists.retained if lists.changes[row].old in places}


def _details(one: _Answered) -> dict[str, Any]:
    rows, gone = one.lists.rows, []
    for row, predicted_at in one.kept.items():
        gone.append({"id": f"p{predicted_at + 1}", "value": rows[row].value})
    missed = left_over(one.gold, one.found)
    return {
        "matched": pairs_matched(one.in_gold),
        "missed": memory_rows("g", missed, rows),
        "extra": memory_rows("p", one.extras, one.listed),
        "kept": gone,
        "gold_actions": [change.action for change in one.lists.changes],
        "actions": list(one.actions),
        **set_aside(one.listed, one.relations),
    }
