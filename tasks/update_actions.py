"""What was done to a list of memories.

The actions of the gold, and those of a prediction that names none.

Old and new lists are compared by meaning. Ids only decide where meaning leaves it open.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from alps.judges.matching import Match, Pair
from alps.schema import Action, Memory, UpdatedMemory
from alps.text import fold

_UPDATED = "_updated"
_ON_THE_SAME_MATTER = ("same", "narrower", "broader", "conflicting")


@dataclass(frozen=True)
class GoldChange:
    """What became of one memory of the gold list.

    Its action, and the old memory that it was, or takes the place of.
    """

    action: Action
    old: int | None


@dataclass(frozen=True)
class Lists:
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
        """Return the old memory that stands in a row unchanged, by position.

        None for a changed one.
        """
        if row >= len(self.changes):
            return self.gone[row - len(self.changes)]
        return self.changes[row].old if self.changes[row].action == "retain" else None


def compare(old: Sequence[Memory], gold: Sequence[Memory]) -> Lists:
    """Derive the gold actions.

    The same value is retained, `<id>_updated` and a rewritten id modified, others added.
    """
    changes: dict[int, GoldChange] = {}
    free = dict(enumerate(old))
    # A memory that stands twice must pair with the one of its own id first.
    for same_id in (True, False):
        for row, memory in enumerate(gold):
            twin = next((n for n, o in free.items() if _twins(o, memory, same_id=same_id)), None)
            if row not in changes and twin is not None:
                changes[row] = GoldChange("retain", twin)
                del free[twin]
    for row, memory in enumerate(gold):
        if row not in changes:
            before = _place({old[n].memory_id: n for n in free}, memory.memory_id)
            changes[row] = GoldChange("add" if before is None else "modify", before)
            free.pop(before, None) if before is not None else None
    replaced = [
        change.old
        for change in changes.values()
        if change.action == "modify" and change.old is not None
    ]
    gone = tuple(sorted([*replaced, *free]))
    ordered = tuple(changes[row] for row in range(len(gold)))
    return Lists(ordered, gone, frozenset(replaced), (*gold, *(old[n] for n in gone)))


def base_id(name: str) -> str:
    """Return the id of the memory that `name` is the replacement of: itself, without `_updated`."""
    return name.removesuffix(_UPDATED)


def predicted_actions(
    old: Sequence[Memory],
    predicted: Sequence[UpdatedMemory],
    lists: Lists,
    *,
    matches: Iterable[Match],
    pairs: Sequence[Pair],
) -> list[Action]:
    """Return the action of every predicted memory.

    The one it names, else the one that meaning and then its id give.
    """
    standing = ((match.predicted, lists.old_of(match.gold)) for match in matches)
    kept = {item: place for item, place in standing if place is not None}
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


def rewritten_old(
    old: Sequence[Memory], predicted: Sequence[UpdatedMemory], actions: Sequence[Action]
) -> set[int]:
    """Return the old memories, by position, that a prediction says it modified."""
    places = {memory.memory_id: place for place, memory in enumerate(old)}
    named = (
        _place(places, memory.memory_id, memory.replaces)
        for memory, action in zip(predicted, actions, strict=True)
        if action == "modify"
    )
    return {place for place in named if place is not None}


def deleted_old(old: Sequence[Memory], deleted: Sequence[UpdatedMemory]) -> set[int]:
    """Return the old memories, by position, that a prediction says it deleted.

    By their id, or else by their value.
    """
    by_id: Mapping[str, int] = {memory.memory_id: place for place, memory in enumerate(old)}
    by_value = {fold(memory.value): place for place, memory in enumerate(old)}
    named = (_place(by_id, memory.memory_id, memory.replaces) for memory in deleted)
    found = (
        by_value.get(fold(m.value)) if place is None else place
        for m, place in zip(deleted, named, strict=True)
    )
    return {place for place in found if place is not None}


def _place(places: Mapping[str, int], name: str, replaces: str | None = None) -> int | None:
    """Return the place of the old memory that an item is about.

    The one it names, its own id's, or its base id's.
    """
    return next(
        (places[known] for known in (replaces or name, name, base_id(name)) if known in places),
        None,
    )


def _twins(one: Memory, other: Memory, *, same_id: bool) -> bool:
    return fold(one.value) == fold(other.value) and (
        not same_id or one.memory_id == other.memory_id
    )


def _related(pairs: Sequence[Pair], lists: Lists, *, taken: set[int]) -> set[int]:
    """Return the predictions that a judge relates to an old memory which no prediction keeps."""
    found = set()
    for pair in pairs:
        place = lists.old_of(pair.gold)
        if place is not None and place not in taken and pair.relation in _ON_THE_SAME_MATTER:
            found.add(pair.predicted)
    return found
