"""Memories to be verified, or to be asked about: gold of the release layout, or a run's answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps.data.release import open_split, read_track
from alps.errors import UsageError
from alps.ext.calibration.sample import rank
from alps.ext.datasets.audit_records import at, conversation, dicts_at, text_at, track_folders
from alps.jsonl import Row
from alps.run.opened import MANIFEST, RUNS, AnswerKey, find_run, open_run, read_rows
from alps.run.source import open_again

# The fields that a person gives of a memory, and that are hidden until they do.
FIELDS = ("type", "label", "time_scope", "confidence")


@dataclass(frozen=True)
class Memories:
    """The memories of one record, and its dialogue.

    Attributes:
        name: Track and id of the record.
        record: The track, and the rows of input and gold, as they are exported again.
        system: The system that predicted the memories; None where they are gold.
    """

    name: str
    session_id: str
    dialogue: Sequence[Row]
    items: Sequence[Row]
    record: Row
    system: str | None = None

    def draft_of(self, memory: Row) -> Row:
        """Return the fields of a draft that are hidden until the person's own label."""
        evidence: Any = memory.get("evidence") or {}
        draft = {name: memory.get(name) for name in FIELDS}
        return draft | {"evidence": evidence.get("utterance_index"), "quote": evidence.get("text")}


def memories_of(source: str, split: str | None, *, n: int, seed: int) -> list[Memories]:
    """Return memories of whole records, drawn at random by `seed` until there are `n` of them.

    Raises:
        UsageError: If `source` is neither a run nor data.
        DataError: If a row can't be read.
    """
    found = [*(_of_run(source, split) if names_run(source) else _of_data(source, split))]
    found.sort(key=lambda one: rank(seed, one.name))
    drawn: list[Memories] = []
    count = 0
    for one in found:
        if count >= n:
            break
        drawn.append(one)
        count += max(1, len(one.items))
    return drawn


def names_run(source: str) -> bool:
    """Tell whether `source` names a run rather than data."""
    here = Path(source).expanduser()
    # A folder of data here may be called as a run among the runs is.
    return ((here if here.exists() else RUNS / source) / MANIFEST).is_file()


def _of_data(source: str, split: str | None) -> Iterator[Memories]:
    for track, folder in track_folders(open_split(source, split)):
        for pair in read_track(folder):
            # A record without memories may lack some; one of another task has no such list.
            if at(pair.gold, "gold", "memory_items") is not None:
                items = _readable(dicts_at(pair.gold, "gold", "memory_items"))
                yield _memories(track, pair.input, items)


def _of_run(source: str, split: str | None) -> Iterator[Memories]:
    if split is not None:
        raise UsageError(f"split={split}: the run sets the split; leave it out")
    run = open_run(find_run(source))
    settings = run.manifest.settings
    open_again(run.folder, run.manifest)  # refuses data that changed since
    rows = read_rows(run.folder / "predictions.jsonl")
    for track, folder in track_folders(open_split(settings["data"], settings.get("split"))):
        for pair in read_track(folder):
            row = rows.get(AnswerKey(track, pair.input["benchmark_id"]))
            if at(row, "prediction", "memory_items") is not None:
                items = _readable(dicts_at(row, "prediction", "memory_items"))
                yield _memories(track, pair.input, items, str(settings["model"]))


def _readable(items: Sequence[Row]) -> list[Row]:
    """Return the memories with a value, each under an id of its own: of equal ones one was lost."""
    named: dict[str, Row] = {}
    for place, item in enumerate(items, start=1):
        name = str(item.get("memory_id") or f"m{place}")
        while name in named:
            name = f"{name}-{place}"
        if item.get("value"):
            named[name] = {**item, "memory_id": name}
    return list(named.values())


def _memories(track: str, row: Row, items: Sequence[Row], system: str | None = None) -> Memories:
    name = f"{track}/{row['benchmark_id']}"
    session = text_at(row, "session_id") or row["benchmark_id"]
    dialogue = [{"role": role, "text": text} for role, text in conversation(row)]
    about = {name: value for name, value in row.items() if name != "input"}
    gold = {**about, "gold": {"memory_items": [*items]}}
    record = {"record": name, "track": track, "input": row, "gold": gold}
    return Memories(name, session, dialogue, items, record, system)
