"""Checks of single records in an audit: alignment, emptiness, gold, cues, other splits.

Whatever is broken in a row is counted, never raised.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from rapidfuzz import fuzz

from alps.data.audit_findings import ALPHA, SHORTEST_INSIDE, DataFinding, FoundPlace, Tally, shorten
from alps.data.hub import HubSplit
from alps.data.release import (
    GOLD,
    INPUT,
    UNREADABLE,
    JoinError,
    Row,
    Split,
    fault_of,
    read_track,
)
from alps.schema import UNMAPPED
from alps.tasks import Task
from alps.tasks.registry import all_tracks
from alps.text import fold, fold_loosely, is_rejected

Turns = list[tuple[str, str]]
MISALIGNED, EMPTY = "misaligned-row", "empty-row"
DIALOGUES = (
    ("input", "dialogue"),
    ("input", "old_dialogue"),
    ("input", "new_dialogue"),
    ("input", "model_input", "dialogue_history"),
    ("input", "audit_context", "conversation"),
)
_NEEDED = {"task1": DIALOGUES[:1], "task2": DIALOGUES[1:3]}


def task_of(track: str) -> str:
    """Return `task1` … `task4` of a track."""
    return track.partition("/")[0].partition("_")[0]


def at(node: Any, *path: str) -> Any:
    """Return the value at a path of keys; None if the path breaks off."""
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def text_at(node: Any, *path: str) -> str:
    """Return the text at a path of keys, the empty string where there is none."""
    text = at(node, *path)
    return text if isinstance(text, str) else ""


def dicts_at(node: Any, *path: str) -> list[Row]:
    """Return the objects of the list at a path of keys."""
    items = at(node, *path)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def memories_at(node: Any, *path: str) -> list[Row]:
    """Return the memories of the list at a path of keys; one that is a plain text as its value."""
    items = at(node, *path)
    if not isinstance(items, list):
        return []
    values = [{"value": item} if isinstance(item, str) else item for item in items]
    return [item for item in values if isinstance(item, dict)]


def folded_values(items: Iterable[Row]) -> list[str]:
    """Return the values of memories, folded."""
    return [fold(text_at(item, "value")) for item in items]


def ids_of(items: Iterable[Row]) -> set[str]:
    """Return the ids of memories."""
    return {text_at(item, "memory_id") for item in items}


def joined_texts(turns: Turns) -> str:
    """Return all that is said in turns, folded."""
    return fold(" ".join(text for _, text in turns))


def turns_at(node: Any, *path: str) -> Turns:
    """Return the turns at a path of keys as (role, text)."""
    return [(text_at(turn, "role"), text_at(turn, "text")) for turn in dicts_at(node, *path)]


def conversation(row: Row) -> Turns:
    """Return every turn that an input row shows or hides, each dialogue once."""
    dialogues: list[Turns] = []
    for path in DIALOGUES:
        turns = turns_at(row, *path)
        if turns not in dialogues:
            dialogues.append(turns)
    return list(chain.from_iterable(dialogues))


def queries(row: Row) -> list[str]:
    """Return the queries of a retrieval or utilization row.

    `input.queries` where there are several.
    """
    several = [text_at(item, "query") for item in dicts_at(row, "input", "queries")]
    return several or [
        text_at(row, "input", "query") or text_at(row, "input", "model_input", "query")
    ]


def gold_memories(gold: Row | None) -> list[Row]:
    """Return the memories of a gold row, whatever the task.

    One that stands in two of its fields is given once.
    """
    memories = [*memories_at(gold, "gold", "memory_items"), *memories_at(gold, "gold", "answer")]
    others = memories_at(gold, "gold", "extracted_memory")
    selected = at(gold, "gold", "selected_memory")
    if isinstance(selected, dict):
        same = fold(text_at(selected, "value"))
        others = [item for item in others if fold(text_at(item, "value")) != same]
        memories.append(selected)
    return [*memories, *others]


_DETAILS = {
    "unreadable": ("the line is not a JSON object", "can't be read"),
    "nameless": ("the benchmark_id is missing or no text", "can't be joined"),
    "orphan": ("the gold row has no input row", f"not in {INPUT}"),
}


def joined(
    folder: Path, tally: Tally, *, with_gold: bool = True
) -> Iterator[tuple[str, Row, Row | None]]:
    """Yield (id, input row, gold row or None) of a track in the order of the input.

    A run stops at the first row that can't be joined; an audit counts it and goes on.
    """

    def count(fault: JoinError) -> None:
        if fault.path == folder / INPUT or fault.kind != "twice":
            tally.look("rows")
        if fault.kind == "twice":
            detail = "a benchmark_id appears twice in a file"
            tally.find(MISALIGNED, "serious", detail, fault.name, fault.place)
        else:
            detail, what = _DETAILS[fault.kind]
            tally.find(MISALIGNED, "serious", detail, fault.name or fault.place, what)

    expected = with_gold and (folder / GOLD).is_file()
    for pair in read_track(folder, with_gold=with_gold, on_fault=count):
        tally.look("rows")
        name = pair.input["benchmark_id"]
        if pair.gold is None and expected:
            detail = "the input row has no gold row"
            tally.find(MISALIGNED, "serious", detail, name, f"not in {GOLD}")
        yield name, pair.input, pair.gold


def check_alignment(name: str, row: Row, gold: Row | None, tally: Tally) -> None:
    """Count what shows that the parts of a record don't belong together: `misaligned-row`, serious.

    Looked at: session ids in input, metadata and gold; the conversation in input and gold; the
    query and the first of `queries`; the memory that `memory_key` names.
    """
    session, query = text_at(row, "session_id"), text_at(row, "input", "query")
    shown = turns_at(row, "input", "model_input", "dialogue_history")
    audited = turns_at(row, "input", "audit_context", "conversation")
    comparisons = [
        ("the session_id differs", session, text_at(row, "input", "metadata", "session_id")),
        ("the session_id differs", session, text_at(gold, "session_id")),
        ("dialogue_history differs from audit_context", shown, audited),
        (
            "the gold's conversation differs from the input's",
            turns_at(gold, "gold", "conversation"),
            shown or audited or turns_at(row, "input", "dialogue"),
        ),
        ("the query differs within the row", query, queries(row)[0]),
        ("the query differs within the row", query, text_at(row, "input", "model_input", "query")),
        (
            "memory_key names another memory",
            text_at(gold, "gold", "memory_key"),
            text_at(gold, "gold", "selected_memory", "memory_id"),
        ),
    ]
    for detail, one, other in comparisons:
        if one and other and one != other:
            what = f"{one} and {other}"
            if isinstance(one, list):
                what = f"{len(one)} and {len(other)} turns"
            elif "query" in detail:
                what = f"“{one:.60}” and “{other:.60}”"
            tally.find(MISALIGNED, "serious", detail, name, what)


def check_emptiness(name: str, row: Row, gold: Row | None, tally: Tally) -> None:
    """Count rows without what their task needs: `empty-row`.

    Serious: no dialogue, no query, a gold memory without text. Warning: a turn without text. Note:
    an empty gold list, which is legitimate.
    """
    memories = gold_memories(gold)
    missing = _missing(task_of(tally.track), row)
    if any(not text_at(item, "value").strip() for item in memories):
        missing.append(("a gold memory without text", "value is empty"))
    for detail, what in missing:
        tally.find(EMPTY, "serious", detail, name, what)
    if blank := sum(not text.strip() for _, text in conversation(row)):
        what = f"{blank} of {len(conversation(row))} turns"
        tally.find(EMPTY, "warning", "a turn without text", name, what)
    if gold is not None and not memories:
        tally.find(EMPTY, "note", "an empty gold list", name, "the right answer is no memory")


def check_readable(name: str, row: Row, gold: Row | None, track: str, tally: Tally) -> None:
    """Count rows that a run of the track would refuse: `refused-row`, serious."""
    task = _tracks_by_place().get(track)
    if task is None:
        return
    try:
        task.read_sample(row, gold)
    except UNREADABLE as error:
        said, field = fault_of(error)
        what = said if field is None else f"{field}: {said}"
        tally.find("refused-row", "serious", "alps run refuses the row", name, what)


@cache
def _tracks_by_place() -> dict[str, Task]:
    return {task.place: task for task in all_tracks().values()}


def _missing(task: str, row: Row) -> list[tuple[str, str]]:
    missing = []
    for path in _NEEDED.get(task, ()):
        if not turns_at(row, *path):
            missing.append(("no dialogue", f"{'.'.join(path)} is empty"))
    if task == "task4" and not conversation(row):
        missing.append(("no dialogue", "neither dialogue_history nor conversation"))
    if task in ("task3", "task4") and not all(query.strip() for query in queries(row)):
        missing.append(("no query", "the query is empty"))
    return missing


# Similarity from 0 to 100 (`rapidfuzz.fuzz.partial_ratio`) from which a quote counts as said.
FUZZY = 80.0

# Characters from which a part of a quote is looked for fuzzily, not exactly.
SHORTEST_FUZZY = 8

_OMISSION = re.compile(r"\.{3,}|…|\[…\]|\n")
_LISTS = (("input", "memory"), ("input", "candidate_memories"), *DIALOGUES)
_NAMES = ("benchmark_id", "session_id", "canonical_id", "stratum", "task", "ability")
_NO_LABEL = {"", UNMAPPED, "UNKNOWN"}


def check_rejected(name: str, gold: Row | None, tally: Tally) -> None:
    """Count gold memories that carry the mark of rejection, `[ERROR: …]`.

    `rejected-gold`, a warning.
    """
    for item in gold_memories(gold):
        tally.look("gold items")
        value = text_at(item, "value")
        if is_rejected(value):
            detail = "the annotators' second stage rejected the memory"
            tally.find("rejected-gold", "warning", detail, name, value, unit="gold items")


def check_evidence(name: str, row: Row, gold: Row | None, tally: Tally) -> None:
    """Count quotes that no user turn holds: `evidence-not-in-user-turn`, a warning.

    A quote is cut where it leaves something out («…»). Each part must stand in the user's turns
    after loose folding, or reach `FUZZY` there; a quote of which less than half the characters are
    found counts as not said.
    """
    items = [item for item in gold_memories(gold) if text_at(item, "evidence", "text").strip()]
    turns = conversation(row) or turns_at(gold, "gold", "conversation")
    if not items or not turns:
        return
    by_user = _voice(turns, user=True)
    for item in items:
        quote = text_at(item, "evidence", "text")
        tally.look("quotes")
        if _is_said(quote, by_user):
            continue
        by_assistant = _is_said(quote, _voice(turns, user=False))
        where = "only in the assistant's turns" if by_assistant else "in no turn"
        detail, what = f"the quote is {where}", f"“{quote}”"
        tally.find("evidence-not-in-user-turn", "warning", detail, name, what, unit="quotes")


def _voice(turns: Turns, *, user: bool) -> str:
    return fold_loosely("\n".join(text for role, text in turns if (role == "user") == user))


def _is_said(quote: str, voice: str) -> bool:
    parts = [fold_loosely(part).strip(" \"'«»“”„") for part in _OMISSION.split(quote)]
    length = 0
    for part in parts:
        if part in voice or (
            SHORTEST_FUZZY <= len(part) <= 1.25 * len(voice)
            and fuzz.partial_ratio(part, voice, score_cutoff=FUZZY)
        ):
            length += len(part)
    return 2 * length >= sum(map(len, parts))


def check_labels(name: str, row: Row, gold: Row | None, tally: Tally) -> None:
    """Count input rows that give their gold away: `label-in-input`.

    Serious: the value or the id of the gold memory is in the input outside of memory lists,
    candidates and dialogues. A value that is also said in the dialogue only counts where a field
    holds it and nothing else. Note: `stratum` is the label of the gold memory, or `audit_context`
    repeats the dialogue; no system may be shown either.
    """
    if gold is None:
        return
    if (what := _given_away(row, gold)) is not None:
        detail = "the gold memory is in the input"
        tally.find("label-in-input", "serious", detail, name, what)
    _note_labels(name, row, gold, tally)


def _given_away(row: Row, gold: Row) -> str | None:
    """Return where the input holds the value of the gold, or else its id."""
    values, ids = _secrets(row, gold)
    dialogues = joined_texts(conversation(row))
    inside = {value for value in values if len(value) >= SHORTEST_INSIDE and value not in dialogues}
    by_id = None
    for path, text in _leaves(row, ()):
        folded, field = fold(text), ".".join(path)
        if folded in values or any(value in folded for value in inside):
            return f"{field}: “{text}”"
        if by_id is None and text in ids:
            by_id = f"{field} is the id of the gold memory, {text}"
    return by_id


def _note_labels(name: str, row: Row, gold: Row, tally: Tally) -> None:
    stratum = text_at(row, "stratum")
    kept = ids_of(dicts_at(row, "input", "memory"))
    new = [memory for memory in gold_memories(gold) if text_at(memory, "memory_id") not in kept]
    if stratum in {text_at(memory, "label") for memory in new} - _NO_LABEL:
        candidates = dicts_at(row, "input", "candidate_memories")
        alike = sum(text_at(candidate, "label") == stratum for candidate in candidates)
        also = f", which {alike} of {len(candidates)} candidates carry" if alike else ""
        detail = "stratum is the label of the gold"
        tally.find("label-in-input", "note", detail, name, stratum + also)
    turns = turns_at(row, "input", "audit_context", "conversation")
    if turns:
        what = f"audit_context.conversation, {len(turns)} turns"
        tally.find("label-in-input", "note", "audit_context repeats the dialogue", name, what)


def _secrets(row: Row, gold: Row) -> tuple[set[str], set[str]]:
    """Return the folded values and the ids that would tell the gold."""
    values = set(folded_values(gold_memories(gold)))
    if not dicts_at(gold, "gold", "answer"):
        ids = {text_at(gold, "gold", "selected_memory_id"), text_at(gold, "gold", "memory_key")}
        ids.add(text_at(gold, "gold", "selected_memory", "memory_id"))
        return values - {""}, ids - {""}
    old = dicts_at(row, "input", "memory")
    # Of an update only what changes is a secret: the system is shown the old list.
    changed = ids_of(old) ^ ids_of(gold_memories(gold))
    return values.difference(folded_values(old), ("",)), changed - {""}


def _leaves(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every text of an input row outside memory lists, candidates and dialogues."""
    if path in _LISTS or (len(path) == 1 and path[0] in _NAMES):
        return
    if isinstance(node, str):
        yield path, node
    elif isinstance(node, dict):
        for key, child in node.items():
            yield from _leaves(child, (*path, str(key)))
    elif isinstance(node, list):
        for child in node:
            yield from _leaves(child, path)


def known_values(row: Row, gold: Row | None) -> Iterator[tuple[str, str]]:
    """Yield (session, folded value) of every memory that the gold of a record says a user has."""
    for item in gold_memories(gold):
        value = fold(text_at(item, "value"))
        for owner in {text_at(row, "session_id"), text_at(item, "evidence", "session_id")} - {""}:
            if value:
                yield owner, value


# So many records are needed before a share of them says anything.
FEWEST = 20
# From this share on, a count is the same in nearly every record.
USUAL = 0.9
# A rule may point at so many turns.
NEAR = 2
# Those turns must hold the evidence of this share of the changes.
LEAST_SHARE = 0.8
# And that share must be so far above what the same number of turns holds by chance.
LEAST_GAIN = 0.2


class UpdateAudit:
    """Audits the records of one update track, one at a time.

    | code | severity | what it is |
    |---|---|---|
    | `update-position-cue` | serious | changes are told at the same distances from the end |
    | `update-count-cue` | warning | records have the same number of new and missing values |
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._distances: Counter[int] = Counter()
        self._user_turns: list[int] = []
        self._changes: Counter[tuple[int, int]] = Counter()
        self._examples: list[FoundPlace] = []

    def look(self, name: str, row: Row, gold: Row | None) -> None:
        """Examine one record: how many values changed, and which turns contain the new ones."""
        if gold is None:
            return
        old = set(folded_values(dicts_at(row, "input", "memory")))
        items = gold_memories(gold)
        kept = folded_values(items)
        new = [item for item in items if fold(text_at(item, "value")) not in old]
        self._changes[len(new), len(old.difference(kept))] += 1
        self._look_at_evidence(name, row, new)

    def _look_at_evidence(self, name: str, row: Row, new: list[Row]) -> None:
        turns = turns_at(row, "input", "new_dialogue")
        texts = [fold(text) for role, text in turns if role == "user"]
        for item in new:
            quote = fold(text_at(item, "evidence", "text"))
            holding = [number for number, text in enumerate(texts) if quote and quote in text]
            if len(holding) == 1:
                distance = len(texts) - holding[0]
                self._distances[distance] += 1
                self._user_turns.append(len(texts))
                example = FoundPlace(name, shorten(f"user turn {distance} from the end: “{quote}”"))
                self._examples.append(example)

    def findings(self) -> list[DataFinding]:
        """Return what the records have in common that gives their changes away."""
        return [*self._position_cue(), *self._count_cue()]

    def _position_cue(self) -> Iterator[DataFinding]:
        """Compare the commonest distances from the end with as many turns drawn by chance."""
        # One-sided exact binomial test against the mean share that `NEAR` turns have of a
        # dialogue's user turns, times the number of pairs of distances that could have been the
        # commonest; p < `ALPHA`.
        n = sum(self._distances.values())
        if n < FEWEST:
            return
        commonest = dict(self._distances.most_common(NEAR))
        hits = sum(commonest.values())
        chance = sum(min(1.0, NEAR / turns) for turns in self._user_turns) / n
        if hits / n < LEAST_SHARE or hits / n - chance < LEAST_GAIN:
            return
        from scipy.stats import binom

        longest = max(self._user_turns)
        p = min(1.0, longest * (longest - 1) / 2 * float(binom.sf(hits - 1, n, chance)))
        if p >= ALPHA:
            return
        turns = " or ".join(map(str, sorted(commonest)))
        where = f"user turn {turns}, counted from the end of the new dialogue"
        chances = f"(by chance {chance:.0%}, p = {p:.1g})"
        detail = f"the evidence for a new memory is in {where} {chances}"
        code, examples = "update-position-cue", self._examples[:3]
        yield self._tally.finding(code, "serious", (hits, n), "changes", detail, *examples)

    def _count_cue(self) -> Iterator[DataFinding]:
        n = sum(self._changes.values())
        if n < FEWEST:
            return
        (new, gone), hits = self._changes.most_common(1)[0]
        if hits / n >= USUAL:
            changes = f"usually, {_memories(new)} new and {_memories(gone)} gone"
            detail = f"{changes}, so a system can guess the number of changes"
            yield self._tally.finding("update-count-cue", "warning", (hits, n), "rows", detail)


def _memories(count: int) -> str:
    return f"{count} {'memory is' if count == 1 else 'memories are'}"


_SHORTEST_TEXT = 20


def track_folders(split: Split | HubSplit) -> list[tuple[str, Path]]:
    """Return the name and the folder of every track of a split.

    Raises:
        UsageError: If a split of the hub can't be fetched.
    """
    top = split.folder() if isinstance(split, HubSplit) else split.folder
    files = {*top.glob(f"task*/{INPUT}"), *top.glob(f"task*/*/{INPUT}")}
    named = [(file.parent.relative_to(top).as_posix(), file.parent) for file in files]
    return sorted(named, key=lambda pair: order_of(pair[0]))


def order_of(track: str) -> tuple[str, int, str]:
    """Return a key that sorts tracks by task, then by size of pool or number of ability."""
    return track.partition("/")[0], len(track), track


class SplitOverlap:
    """Knows the sessions and texts of the other splits of a data set, by their digests."""

    def __init__(self, split: Split) -> None:
        self.splits: list[str] = []
        self._known: dict[bytes, str] = {}
        for folder in sorted(filter(Path.is_dir, split.folder.parent.iterdir())):
            tracks = [] if folder == split.folder else track_folders(Split(folder.name, folder))
            if tracks:
                self.splits.append(folder.name)
            for track, of_track in tracks:
                for _, row, _ in joined(of_track, Tally(track), with_gold=False):
                    for _, _, digest in _traces(row, track):
                        self._known.setdefault(digest, f"{folder.name}/{track}")

    def check(self, name: str, row: Row, tally: Tally) -> None:
        """Count what a row shares with another split: `split-overlap`, serious.

        Looked at are session ids, whole dialogues, and the queries of retrieval and utilization,
        all within one task; texts are compared after folding, and those under twenty characters are
        left out.
        """
        shared: set[str] = set()
        for kind, text, digest in _traces(row, tally.track):
            if kind not in shared and digest in self._known:
                shared.add(kind)
                detail = f"the {kind} is in another split"
                what = f"{self._known[digest]}: {text}"
                tally.find("split-overlap", "serious", detail, name, what)


def _traces(row: Row, track: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield (kind, shown text, digest) of what tells where a row comes from."""
    task = task_of(track)
    if session := text_at(row, "session_id"):
        yield "session", session, _digest(task, "session", session)
    for path in DIALOGUES:
        dialogue = joined_texts(turns_at(row, *path))
        if len(dialogue) >= _SHORTEST_TEXT:
            yield "dialogue", f"“{dialogue[:80]}”", _digest(task, "dialogue", dialogue)
    # In extraction and update the query is the instruction, the same for everyone.
    for query in queries(row) if task in ("task3", "task4") else ():
        folded = fold(query)
        if len(folded) >= _SHORTEST_TEXT:
            yield "query", f"“{folded[:80]}”", _digest(task, "query", folded)


def _digest(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode(errors="replace"), digest_size=12).digest()
