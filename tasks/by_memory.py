"""Answers read from a memory system: what it holds, what changed in it, what it found.

A system is compared by the texts of its memories. Its ids say alone which memory it rewrote: no
system knows those of the data, and one of its own may be one of theirs by chance.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from alps.schema import UNMAPPED, Action, Memory, UpdatedMemory
from alps.similarity import THRESHOLD, similar_pairs
from alps.tasks.recall import Remembered
from alps.text import fold

NO_CANDIDATE = "-"
"""What the places of a ranking are called at which a memory found no candidate: `-3`."""


def as_memories(held: Sequence[Remembered]) -> tuple[Memory, ...]:
    """Return the memories of a system: values alone, as it gives no labels."""
    return tuple(Memory(**_fields(memory.text, place)) for place, memory in enumerate(held, 1))


def _fields(text: str, place: int) -> dict[str, Any]:
    empty = dict.fromkeys(Memory.model_fields)
    return {**empty, "memory_id": f"kept-{place}", "label": UNMAPPED, "value": text}


def changes(
    old: Sequence[Memory], before: Sequence[Remembered], after: Sequence[Remembered]
) -> tuple[UpdatedMemory, ...]:
    """Return what a system did to its memories while it took in what came later.

    One with a text that it had before is retained. One under an id that it had before is modified;
    of a system that keeps no ids, one that is like a text which is gone. Others are added. What is
    left of those before, and in no way there any more, is deleted.

    Args:
        old: The memories that the data say were known before: what is modified or deleted names the
            one of them that says the same.
        before: What the system held then.
        after: What it holds now.
    """
    kept = {fold(memory.text) for memory in before}
    there = {fold(memory.text) for memory in after}
    gone = [memory for memory in before if fold(memory.text) not in there]
    new = [memory for memory in after if fold(memory.text) not in kept]
    replaced = _replaced(gone, new, keeps_ids=not _ids(before).isdisjoint(_ids(after)))
    names = _names(old, gone)
    rows = []
    for place, memory in enumerate(after, start=1):
        action: Action = "retain" if fold(memory.text) in kept else "add"
        earlier = replaced.get(memory.id) if action == "add" else None
        if earlier is not None:
            action = "modify"
        rows.append(_changed(memory, place, action, names.get(earlier or "")))
    rewritten = set(replaced.values())
    for memory in gone:
        if memory.id not in rewritten:
            rows.append(_changed(memory, len(rows) + 1, "delete", names.get(memory.id)))
    return tuple(rows)


def _ids(memories: Sequence[Remembered]) -> set[str]:
    return {memory.id for memory in memories}


def _replaced(
    gone: Sequence[Remembered], new: Sequence[Remembered], *, keeps_ids: bool
) -> Mapping[str, str]:
    """Return which memory before each new one takes the place of, by the system's ids."""
    if keeps_ids:
        return {name: name for name in _ids(new) & _ids(gone)}
    pairs = _alike([memory.text for memory in new], [memory.text for memory in gone])
    return {new[one].id: gone[other].id for one, other in pairs.items()}


def _names(old: Sequence[Memory], gone: Sequence[Remembered]) -> Mapping[str, str]:
    """Return the ids of the data for what a system does not hold any more, where they say it."""
    pairs = _alike([memory.text for memory in gone], [memory.value for memory in old])
    return {gone[one].id: old[other].memory_id for one, other in pairs.items()}


def _changed(memory: Remembered, place: int, action: Action, replaces: str | None) -> UpdatedMemory:
    return UpdatedMemory(**_fields(memory.text, place), action=action, replaces=replaces)


def _alike(texts: Sequence[str], others: Sequence[str]) -> dict[int, int]:
    """Return the text that each one is most like, by position; each is given once."""
    pairs = similar_pairs(texts, others, THRESHOLD)
    found: dict[int, int] = {}
    for one, other, _ in sorted(pairs, key=lambda pair: -pair[2]):
        if one not in found and other not in found.values():
            found[one] = other
    return found


def places_of(hits: Sequence[Remembered], values: Sequence[str]) -> list[int | None]:
    """Return which of `values` each hit is, by position; None for one that is none of them.

    A hit is the value that it repeats, else the longest that it contains, else the one that it is
    most like.
    """
    folded = [fold(value) for value in values]
    alike: dict[int, tuple[float, int]] = {}
    for one, other, strength in similar_pairs([hit.text for hit in hits], values, THRESHOLD):
        alike[one] = max(alike.get(one, (0.0, 0)), (strength, other))
    places = []
    for number, hit in enumerate(hits):
        text = fold(hit.text)
        said = [place for place, value in enumerate(folded) if value in text]
        longest = max(said, key=lambda place: len(folded[place]), default=None)
        places.append(alike[number][1] if longest is None and number in alike else longest)
    return places


def ranking_of(hits: Sequence[Remembered], pool: Mapping[str, str], k: int) -> list[str]:
    """Return the ids of the candidates that hits are, the best first, and `k` places in all.

    A hit that is no candidate, or one that stands higher already, keeps its place.

    Args:
        hits: What was found, the best first.
        pool: The values of the candidates by their ids.
        k: How many hits were asked for.
    """
    ids, places = list(pool), places_of(hits, list(pool.values()))
    ranking: list[str] = []
    for rank in range(1, max(k, len(hits)) + 1):
        place = places[rank - 1] if rank <= len(hits) else None
        name = "" if place is None else ids[place]
        ranking.append(name if name and name not in ranking else f"{NO_CANDIDATE}{rank}")
    return ranking


def is_no_candidate(name: str) -> bool:
    """Tell whether a place of a ranking is one at which no candidate was found."""
    return name.startswith(NO_CANDIDATE) and name.removeprefix(NO_CANDIDATE).isdecimal()
