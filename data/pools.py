"""Pools of distractors for retrieval, drawn from a data set's own memories where it has no pools.

Every pool is drawn by a seed and the id of its query: ids are opaque and local to the pool, the
gold's place is uniform, no value occurs twice or nearly twice, and no distractor comes from the
session of the query. The distractors of a smaller pool are among those of a larger one, so that a
curve over sizes compares like with like.
"""

import random
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from alps.data.release import GOLD, INPUT, Row, RowPair, Split, read_rows, read_track
from alps.errors import DataError, UsageError
from alps.similarity import THRESHOLD, features, similarity
from alps.text import fold, is_rejected, shown_value

# The folder of queries without pools, beside which a bank of memories may lie.
QUERIES = "task3"
BANK = "bank.jsonl"
GENERATED = 2_000
SIZES = (100, 300, 500, 700, 1000)
"""How many distractors a pool may have."""

_WORTH_COMPARING = 0.3
_FIELDS = ("memory_id", "session_id", "value", "label")
_TRACKS = ("task1", "task2", *map("task4_ability{}".format, range(1, 6)))
_GOLD_LISTS = ("memory_items", "answer", "extracted_memory")


@dataclass(frozen=True)
class BankMemory:
    """One memory of somebody; `generated` ones were not written by hand."""

    memory_id: str
    session_id: str | None
    value: str
    label: str
    generated: bool = False


@dataclass(frozen=True)
class Query:
    """A query, and the memory that it calls for."""

    benchmark_id: str
    session_id: str
    text: str
    memory: Row | None

    @property
    def value(self) -> str:
        """The text of the gold memory without a mark of rejection; empty if it is withheld."""
        return shown_value(self.memory["value"].strip()) if self.memory is not None else ""


class PoolSource:
    """Builds the pools of one split.

    Args:
        split: Where the queries and the memories lie.
        seed: Of the drawing.
    """

    def __init__(self, split: Split, *, seed: int) -> None:
        self._split = split
        self.seed = seed
        self._drawn: dict[str, list[BankMemory]] = {}

    def located(self) -> "PoolSource":
        """Return it so that it finds the split from any working folder."""
        self._split = replace(self._split, folder=self._split.folder.absolute())
        return self

    @cached_property
    def queries(self) -> list[Query]:
        """The queries of the split.

        Raises:
            UsageError: If it has none.
            DataError: If one can't be read; names the file, the line and the field.
        """
        # A release with pools of its own has the queries in them: any size gives the same ones.
        places = (QUERIES, *map(f"{QUERIES}/d{{}}".format, SIZES))
        place = next(filter(self._split.has, places), None)
        if place is None:
            raise UsageError(
                f"{self._split.folder}: retrieval needs queries, but there is no {QUERIES}/{INPUT}"
            )
        folder = self._split.folder / place
        return [_query(pair, folder) for pair in read_track(folder)]

    @cached_property
    def bank(self) -> list[BankMemory]:
        """Every memory that may be a distractor, none like another, generated ones at the end."""
        return [shape.memory for shape in self._shapes]

    @cached_property
    def _shapes(self) -> list["_Comparable"]:
        written = _distinct([*_memories(self._split), *self._golds()])
        ours = Path(str(files("alps.data") / "samples"))
        if ours not in self._split.folder.parents:
            return written
        return [*written, *_distinct(generated_memories(GENERATED, self.seed), beside=written)]

    def _golds(self) -> Iterator[BankMemory]:
        """Yield what other queries call for."""
        # A memory that stood in one pool alone would be seen to be its gold.
        for query in self.queries:
            if query.memory is not None and not is_rejected(query.memory["value"]):
                label = str(query.memory.get("label") or "")
                yield BankMemory(
                    f"{QUERIES}/{query.benchmark_id}", query.session_id, query.value, label
                )

    def rows(self, size: int) -> Iterator[tuple[Row, Row]]:
        """Yield input and gold row of every query with a pool of `size` distractors.

        Raises:
            UsageError: If there are not enough memories.
        """
        return (self.pool(query, size) for query in self.queries)

    def pool(self, query: Query, size: int) -> tuple[Row, Row]:
        """Return input and gold row of a query with a pool of `size` distractors.

        Raises:
            UsageError: If there are not enough memories, or its gold is withheld.
        """
        if query.memory is None:
            name = f"{self._split.folder}: '{query.benchmark_id}'"
            raise UsageError(f"{name} has no gold, so alps can't build its pool")
        values = [memory.value for memory in self._draw(query, size)]
        # Seeded by the size, too: distractors of pools are nested, their places and the gold's not.
        placing = random.Random(f"{self.seed}\x00{query.benchmark_id}\x00{size}")
        placing.shuffle(values)
        values.insert(placing.randint(0, size), query.value)
        return _rows(query, values)

    def generated_share(self, size: int) -> float:
        """Return the share of generated memories among the distractors of a size, in [0, 1]."""
        if not any(memory.generated for memory in self.bank):
            return 0.0
        count = 0
        for query in self.queries:
            count += sum(memory.generated for memory in self._draw(query, size))
        return count / (size * len(self.queries))

    def _draw(self, query: Query, size: int) -> list[BankMemory]:
        """Return the distractors of a query, the same for every reading of every size.

        Raises:
            UsageError: If there are not enough.
        """
        drawn = self._drawn.get(query.benchmark_id)
        if drawn is None or size > SIZES[-1]:
            # A pool is read for its hash, for its share and for the run: only the first one draws.
            drawn = self._order(query)[: max(size, SIZES[-1])]
            self._drawn[query.benchmark_id] = drawn
        if len(drawn) < size:
            have = f"{self._split.folder} has {len(drawn)} memories"
            most = f"{have} that fit into the pool of '{query.benchmark_id}'"
            fewer = "choose fewer distractors, or " if len(drawn) >= SIZES[0] else ""
            more = f"{fewer}add memories to the data as task3/{BANK}, or pools as task3/d{size}"
            raise UsageError(f"distractors={size}: {most}; {more}")
        return drawn[:size]

    def _order(self, query: Query) -> list[BankMemory]:
        """Shuffle every memory that may stand beside the gold of a query."""
        drawing = random.Random(f"{self.seed}\x00{query.benchmark_id}")
        known: list[BankMemory] = []
        generated: list[BankMemory] = []
        gold = _Comparable(BankMemory("", None, query.value, ""))
        for shape in self._shapes:
            if shape.memory.session_id != query.session_id and not _alike(gold, shape):
                (generated if shape.memory.generated else known).append(shape.memory)
        # Each is shuffled whole before it is cut: the distractors of a smaller pool are then the
        # first of a larger one. Generated memories fill up what people's memories leave open.
        drawing.shuffle(known)
        drawing.shuffle(generated)
        return [*known, *generated]


class _Comparable:
    """A memory with its content words, to tell quickly that two have little in common."""

    def __init__(self, memory: BankMemory) -> None:
        self.memory, self.folded = memory, fold(memory.value)
        self.content = features(memory.value).content
        self.weight = sum(self.content.values()) or 1.0


def _alike(one: _Comparable, other: _Comparable) -> bool:
    """Tell whether two values are the same or nearly so."""
    if one.folded == other.folded:
        return True
    if one.content.keys().isdisjoint(other.content):  # as most of a bank are
        return False
    shared = sum(one.content[piece] for piece in one.content.keys() & other.content.keys())
    return _share_enough(one, other, shared)


def _share_enough(one: _Comparable, other: _Comparable, shared: float) -> bool:
    """Tell whether two values are alike whose common content words weigh `shared`."""
    return (
        shared >= _WORTH_COMPARING * min(one.weight, other.weight)
        and similarity(one.memory.value, other.memory.value) >= THRESHOLD
    )


def _distinct(
    memories: Iterable[BankMemory], *, beside: Sequence[_Comparable] = ()
) -> list[_Comparable]:
    """Keep the first of those that are alike; of those like one of `beside`, which differ, none."""
    shapes: list[_Comparable] = []
    by_piece: dict[str, list[int]] = {}
    seen: set[str] = set()

    def add(shape: _Comparable) -> None:
        seen.add(shape.folded)
        for piece in shape.content:
            by_piece.setdefault(piece, []).append(len(shapes))
        shapes.append(shape)

    def is_like_one(shape: _Comparable) -> bool:
        # Weighed by the index: a hundred thousand pairs of a bank share a word or two.
        shared: defaultdict[int, float] = defaultdict(float)
        for piece, weight in shape.content.items():
            for place in by_piece.get(piece, ()):
                shared[place] += weight
        return any(_share_enough(shape, shapes[n], shared[n]) for n in shared)

    for shape in beside:
        add(shape)
    for memory in memories:
        shape = _Comparable(memory)
        if shape.folded not in seen and not is_like_one(shape):
            add(shape)
    return shapes[len(beside) :]


def _memories(split: Split) -> list[BankMemory]:
    """Collect the memories of a split: of its bank, and of the gold of the other tasks."""
    bank = split.folder / QUERIES / BANK
    memories = [*read_bank(bank)] if bank.is_file() else []
    for track in filter(split.has, _TRACKS):
        for pair in read_track(split.folder / track):
            memories += _of_row(track, pair.input, pair.gold)
    return [memory for memory in memories if not is_rejected(memory.value)]


def _of_row(track: str, row: Row, gold: Row | None) -> Iterator[BankMemory]:
    session = str(row.get("session_id") or row["benchmark_id"])
    held, shown = (gold or {}).get("gold"), row.get("input")
    items: list[Any] = []
    for node, names in ((held, _GOLD_LISTS), (shown, ("memory",))):
        if isinstance(node, dict):
            for listed in map(node.get, names):
                items += listed if isinstance(listed, list) else []
    for number, item in enumerate(items, start=1):
        if _is_memory(item):
            name = f"{track}/{row['benchmark_id']}/{number}"
            yield BankMemory(name, session, item["value"].strip(), str(item.get("label") or ""))


def _is_memory(node: Any) -> bool:
    value = node.get("value") if isinstance(node, dict) else None
    return isinstance(value, str) and bool(value.strip())


def _query(pair: RowPair, folder: Path) -> Query:
    row, name = pair.input, str(pair.input["benchmark_id"])
    if not isinstance(row.get("input"), dict) or not isinstance(row["input"].get("query"), str):
        message = f"must be a string (record '{name}')"
        raise DataError(message, path=folder / INPUT, line=pair.line, field="input.query")
    memory = None
    if pair.gold is not None:
        held = pair.gold.get("gold")
        memory = held.get("selected_memory") if isinstance(held, dict) else None
        if not _is_memory(memory):
            message = f"must be a memory with a value (record '{name}')"
            raise DataError(
                message, path=folder / GOLD, line=pair.gold_line, field="gold.selected_memory"
            )
    return Query(name, str(row.get("session_id") or name), row["input"]["query"], memory)


def _rows(query: Query, values: Sequence[str]) -> tuple[Row, Row]:
    """Return the rows of one pool in the release layout."""
    width = max(3, len(str(len(values))))
    pool = [
        {"memory_id": f"c{n:0{width}}", "value": value} for n, value in enumerate(values, start=1)
    ]
    ids = {
        "benchmark_id": query.benchmark_id,
        "task": "task3",
        "session_id": query.session_id,
        "canonical_id": query.benchmark_id,
    }
    chosen = next(item for item in pool if item["value"] == query.value)
    gold = {"selected_memory_id": chosen["memory_id"], "selected_memory": chosen}
    return {**ids, "input": {"query": query.text, "candidate_memories": pool}}, {
        **ids,
        "gold": gold,
    }


def read_bank(path: Path) -> tuple[BankMemory, ...]:
    """Read a bank: one object a line with `memory_id`, `session_id`, `value` and `label`.

    Raises:
        DataError: If a line is no such object, or an id occurs twice; names the file, the line and
            the field.
    """
    found: dict[str, BankMemory] = {}
    for line, row in read_rows(path):
        memory = _bank_memory(row, path, line)
        if memory.memory_id in found:
            raise DataError(
                f"'{memory.memory_id}' appears twice", path=path, line=line, field="memory_id"
            )
        found[memory.memory_id] = memory
    return tuple(found.values())


def _bank_memory(row: Row, path: Path, line: int) -> BankMemory:
    for name in _FIELDS:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise DataError("must be a non-empty text", path=path, line=line, field=name)
    return BankMemory(*map(row.__getitem__, _FIELDS))


def generated_memories(count: int, seed: int) -> list[BankMemory]:
    """Return so many distinct generated memories, the first of those of any larger count."""
    file = files("alps.data") / "generated.toml"
    words, everything = tomllib.loads(file.read_text(encoding="utf-8")), []
    for label, frame, slots in words["frames"]:
        for filling in product(*map(words["fillings"].__getitem__, slots)):
            everything.append((label, frame.format(*filling)))
    drawing = random.Random(f"generated memories {seed}")
    drawing.shuffle(everything)
    memories = []
    for number, (label, value) in enumerate(everything[:count], start=1):
        # Each is of a session of its own, so that none is kept from a pool as its user's.
        session = f"gen_s_{number:04}"
        memories.append(BankMemory(f"gen{number:04}", session, value, label, generated=True))
    return memories
