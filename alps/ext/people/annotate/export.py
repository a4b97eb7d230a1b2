"""Export of labels: label folders, gold in the release layout with a log of changes, queries.

Gold is what people keep, edit, reject and add. The export says how far people moved their labels to
what a judge or a draft says.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, takewhile
from pathlib import Path
from typing import Any, Literal

import numpy as np

from alps.data.release import write_track
from alps.errors import DataError, UsageError
from alps.ext.audits import SAMPLE
from alps.ext.calibration.agreement import LabelScale
from alps.ext.calibration.judge_of_run import JUDGE, read_judge_of_run
from alps.ext.calibration.labels import ITEMS, LABELS, PEOPLE, SCALE, VERDICTS, read_scales
from alps.ext.calibration.part import adjudicating, after_export
from alps.ext.datasets.audit_records import conversation
from alps.ext.people.annotate import (
    EDIT,
    NOTHING,
    RECORDS,
    REJECT,
    SHOWN,
    Answer,
    LabelItem,
    Work,
    open_work,
    read_lines,
    write_lines,
)
from alps.ext.people.annotate.labels import (
    Added,
    Decided,
    GivenLabel,
    Ruling,
    Which,
    before_shown,
    by_item,
    decided,
    people_in,
)
from alps.ext.people.annotate.making import FIELDS
from alps.folders import is_file_name, refuse_full, same_file
from alps.jsonl import Row, parse_json
from alps.run.folder import write_json, write_whole
from alps.show.formatting import counted
from alps.show.table import Table, named, printed, row_of, scored, ungrouped, with_interval
from alps.stats.bootstrap import Estimate, clustered_mean

ADJUDICATED = "adjudicated"
CHANGES, QUERIES = "changes.jsonl", "queries.jsonl"
# As the authors of the benchmark published theirs, and alps annotate agreement reads them.
ANNOTATIONS, DRAFT = "annotations", "benchmark_data"

# All fields together, where there are several.
ALL = "all labels"

# The name of the split that is written.
ANNOTATED = "annotated"
What = Literal["kept", "edited", "rejected", "added", "undecided"]
_EMPTY = ("label_suggestion", "reasoning", "emotion", "preference_attitude", "updated_at")


@dataclass(frozen=True)
class Anchoring:
    """How the labels of one field changed after the judge or draft was shown.

    Attributes:
        seen: How many first labels were followed by what was shown.
        towards: The share changed towards it, of those that differed from it.
        away: The share changed away from it, of those that were the same.
    """

    seen: int
    towards: Estimate
    away: Estimate


@dataclass(frozen=True)
class _LabelChange:
    """One label: how far from what was shown it was before and after, in any unit."""

    group: str
    before: float
    after: float


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        counts: How much of what, by its name.
        people: How many labelled.
        differing: Items that people label differently, and nobody has decided.
        anchoring: By rubric and field.
        next: The command that uses the labels; empty where there is none.
        work: The folder that was labelled.
    """

    folder: Path
    counts: Mapping[str, int]
    people: int
    differing: int
    anchoring: Mapping[str, Anchoring] = field(default_factory=dict)
    next: str = ""
    work: Path = Path()


def export(folder: Path, out: Path, which: Which = "first") -> Exported:
    """Export the labels in `folder` to `out`, a new or empty folder.

    Raises:
        UsageError: If nobody has labelled anything, or `out` is not an empty folder.
        DataError: If a file can't be read.
    """
    refuse_full(out)
    work, people = open_work(folder), people_in(folder)
    labels = decided(work, people, which)
    if not labels:
        raise UsageError(f"{folder}: no labels yet; start with alps annotate {folder}")
    scale = folder / SCALE
    scales = read_scales(scale)[0] if scale.is_file() else {}
    out.mkdir(parents=True, exist_ok=True)
    if work.plan.job in ("rate", "match"):
        counts = _label_folder(work, labels, out)
    elif work.plan.job == "gold":
        counts = _gold(work, labels, out)
        _annotations(work, people, which, out)
    else:
        counts = _queries(work, labels, out)
    differing = sum(one.open for one in labels.values())
    next_step = ""
    if work.plan.job in ("rate", "match"):
        audit, judged = work.plan.audit is not None, (out / VERDICTS).exists()
        next_step = after_export(work.plan.source, out, audit=audit, judged=judged)
    return Exported(
        folder=out,
        counts=counts,
        people=len({name for one in labels.values() for name in one.by}),
        differing=differing if work.plan.job != "queries" else 0,
        anchoring=_anchoring(work.items, people, scales),
        next=next_step,
        work=folder,
    )


def _label_folder(work: Work, labels: Mapping[str, Decided], out: Path) -> dict[str, int]:
    """Write the items that were labelled, with the labels of people and the run's verdicts."""
    rows: list[Row] = []
    for item_id, one in labels.items():
        said = {name: answer["label"] for name, answer in one.by.items()}
        if one.ruling is not None:
            # A label of nobody: it is the truth of a calibration, and no vote in the agreement of
            # people.
            said[ADJUDICATED] = one.ruling.answer["label"]
        for name, label in said.items():
            rows.append({"item_id": item_id, "annotator": name, "label": label})
    items = [row for row in read_lines(work.folder / ITEMS) if row["item_id"] in labels]
    verdicts = []
    for row in read_lines(work.folder / SHOWN):
        if row["item_id"] in labels:
            verdict = {"judge": row["by"], "verdict": row["answer"]["label"]}
            verdicts.append({"item_id": row["item_id"], **verdict})
    write_lines(out / ITEMS, items)
    write_lines(out / LABELS, rows)
    if verdicts:
        write_lines(out / VERDICTS, verdicts)
        if (judge := read_judge_of_run(work.folder)) is not None:
            pinned = judge.with_verdicts(out / VERDICTS)
            write_json(out / JUDGE, pinned.model_dump(mode="json"))
    write_whole(out / SCALE, (work.folder / SCALE).read_bytes())
    write_json(out / PEOPLE, _people(work, {row["annotator"] for row in rows}))
    drawn = parse_json((work.folder / SAMPLE).read_bytes())
    write_json(out / SAMPLE, _labelled_whole(work, _sample(drawn, items), labels))
    return {"items": len(items), "labels": len(rows), "verdicts of the run's judge": len(verdicts)}


def _people(work: Work, names: set[str]) -> Row:
    """Return what is known of those who labelled."""
    annotators: dict[str, Any] = {}
    for name in sorted(names):
        if name == ADJUDICATED:
            how = "a third person decided where two people differed"
            annotators[name] = {"kind": "derived", "how": how}
        else:
            annotators[name] = {"kind": "person", "blind": work.plan.blind}
    return {"guidelines": "the rubric that the judge uses", "annotators": annotators}


def _sample(sample: Row, items: Sequence[Row]) -> Row:
    """Return how the labelled items were drawn.

    Everybody labels in a random order, so what is labelled when they stop is a random part of what
    was drawn.
    """
    by_rubric: dict[str, list[str]] = {}
    for item in items:
        by_rubric.setdefault(item["rubric"], []).append(item["item_id"])
    rubrics: dict[str, Row] = {}
    for name, ids in by_rubric.items():
        entry: Row = {**sample["rubrics"][name], "drawn": len(ids)}
        if entry.get("tracks"):
            tracks: dict[str, Row] = {}
            for track, row in entry["tracks"].items():
                count = sum(item_id.startswith(f"{track}/") for item_id in ids)
                tracks[track] = {**row, "drawn": count}
            entry["tracks"] = tracks
        rubrics[name] = entry
    return {**sample, "rubrics": rubrics}


def _labelled_whole(work: Work, sample: Row, labels: Mapping[str, Decided]) -> Row:
    """Return `audit` of a sample with the sessions that are labelled whole.

    Those before the first that is not, in the order of the drawing: they are a draw of their own.
    """
    if "audit" not in sample:
        return sample
    waiting = {item.cluster for item in work.items.values() if item.item_id not in labels}
    tracks = {}
    for track, sessions in sample["audit"]["tracks"].items():
        if any(item_id.startswith(f"{track}/") for item_id in work.items):
            whole = takewhile(lambda session: session not in waiting, sessions)
            tracks[track] = list(whole)
    return {**sample, "audit": {**sample["audit"], "tracks": tracks}}


def _gold(work: Work, labels: Mapping[str, Decided], out: Path) -> dict[str, int]:
    """Write the records that are verified as a whole, and what changed in them."""
    tracks: dict[str, list[tuple[Row, Row]]] = {}
    changes: list[MemoryChange] = []
    unfinished = 0
    for record in _records(work):
        done = verified(record, labels)
        if done is None:
            unfinished += 1
            continue
        gold, of_record = done
        tracks.setdefault(record["track"], []).append((record["input"], gold))
        changes += of_record
    for track, pairs in tracks.items():
        write_track(out / ANNOTATED / track, pairs)
    write_lines(out / CHANGES, [change.row() for change in changes])
    counts = {"records": sum(map(len, tracks.values()))}
    counts |= Counter(str(change.what) for change in changes)
    return counts | ({"records that are not finished": unfinished} if unfinished else {})


def _records(work: Work) -> list[Row]:
    """Read the records that memories come from.

    Raises:
        DataError: If a line is no object, or its track is not a valid folder name.
    """
    path, folders = work.folder / RECORDS, dict[str, str]()
    records = read_lines(path)
    # The folder may come from somebody else. A track `../x` would write outside `out=`, and names
    # that differ in case are one folder on some disks.
    for line, record in enumerate(records, start=1):
        track = str(record.get("track"))
        fault = path_fault(track)
        if folders.setdefault(same_file(track), track) != track:
            fault = f"{track!r} and {folders[same_file(track)]!r} would share one folder"
        if fault:
            raise DataError(fault, path=path, line=line, field="track")
    return records


def _annotations(
    work: Work, people: Mapping[str, Sequence[GivenLabel]], which: Which, out: Path
) -> None:
    """Write the annotations of each person, and the draft, for `alps annotate agreement`."""
    records = _records(work)
    tracks: dict[str, list[tuple[Row, Row]]] = {}
    for record in records:
        tracks.setdefault(record["track"], []).append((record["input"], record["gold"]))
    for track, pairs in tracks.items():
        write_track(out / DRAFT / ANNOTATED / track, pairs)
    for name, said in people.items():
        own = decided(work, {name: said}, which)
        # A line is a session, of which several records may be.
        by_session: dict[str, Row] = {}
        for record in records:
            done = verified(record, own)
            if done is not None:
                session = record["input"]["session_id"]
                row = by_session.setdefault(session, {"session_id": session})
                part = row.setdefault(record["track"], {"memories": []})
                part["memories"] += done[0]["gold"]["memory_items"]
        if by_session:
            (out / ANNOTATIONS).mkdir(exist_ok=True)
            write_lines(out / ANNOTATIONS / f"annotator_{name}.jsonl", list(by_session.values()))


def _queries(work: Work, labels: Mapping[str, Decided], out: Path) -> dict[str, int]:
    rows: list[Row] = []
    for item_id, one in labels.items():
        record, _, memory_id = item_id.rpartition("/")
        item = work.items[item_id]
        about = {"record": record, "memory_id": memory_id, "session_id": item.cluster}
        for name, answer in one.by.items():
            for query in answer["queries"]:
                value = item.payload["memory"]["value"]
                rows.append({**about, "value": value, "query": query, "by": name})
    write_lines(out / QUERIES, rows)
    return {"memories": len(labels), "queries": len(rows)}


def _anchoring(
    items: Mapping[str, LabelItem],
    people: Mapping[str, Sequence[GivenLabel]],
    scales: Mapping[str, LabelScale],
) -> dict[str, Anchoring]:
    """Estimate anchoring by rubric and field, with intervals over sessions.

    Numbers are nearer by their distance, on a scale with an order by that of their places, and
    other labels where they are the same.
    """
    changes: dict[str, list[_LabelChange]] = {ALL: []}
    for said in people.values():
        for item_id, of_item in by_item(said).items():
            for name, change in _changes(items[item_id], of_item, scales):
                changes.setdefault(name, []).append(change)
                changes[ALL].append(change)
    # With one field only, all labels together are that field once more.
    if len(changes) < 3:
        changes.pop(ALL)
    return {name: _estimate(of_field) for name, of_field in changes.items()}


def _changes(
    item: LabelItem, said: Sequence[GivenLabel], scales: Mapping[str, LabelScale]
) -> Iterator[tuple[str, _LabelChange]]:
    first, last = before_shown(said), said[-1]
    # Only who saw it after a label of their own can be said to have moved.
    if first is None or first.shown or not last.shown or item.shown is None:
        return
    for name, shown in item.shown.items():
        # Two quotes of one turn are the same evidence.
        if shown is None or name == "quote" or name not in first.answer:
            continue
        # A memory that is rejected in the end has none of its fields any more.
        after = last.answer.get(name)
        scale = scales.get(item.rubric) if name == "label" else None
        apart = [_apart(value, shown, scale) for value in (first.answer[name], after)]
        yield f"{item.rubric}: {name}", _LabelChange(item.group, *apart)


def _apart(value: object, shown: object, scale: LabelScale | None) -> float:
    if value == shown:
        return 0.0
    if scale is not None and scale.kind != "nominal" and value is not None:
        places = scale.numbers[scale.codes([value, shown])]
        return float(abs(places[0] - places[1]))
    if isinstance(value, float) and isinstance(shown, float):
        return abs(value - shown)
    return 1.0


def _estimate(changes: Sequence[_LabelChange]) -> Anchoring:
    # Who already agrees can't move nearer, and who differs can't leave: each share has its own
    # base.
    apart = [change for change in changes if change.before]
    same = [change for change in changes if not change.before]
    return Anchoring(
        seen=len(changes),
        towards=_share([change.after < change.before for change in apart], apart),
        away=_share([change.after > 0 for change in same], same),
    )


def _share(moved: Sequence[bool], changes: Sequence[_LabelChange]) -> Estimate:
    if not moved:
        return Estimate(None, None, None, 0)
    return clustered_mean(np.array(moved, dtype=np.float64), [one.group for one in changes])


def print_export(done: Exported, console: Any) -> None:
    """Print what was written, anchoring, and what to do next."""
    parts = [f"{count:,} {name}" for name, count in done.counts.items()]
    console.print(f"{done.folder}: {', '.join(parts)}", soft_wrap=True)
    if done.anchoring:
        first = "changed after the judge or draft was shown"
        titles = (first, "towards it", "interval", "of", "away", "of")
        rows = []
        for name, moved in done.anchoring.items():
            towards, away = moved.towards, moved.away
            cells = *with_interval(towards), ungrouped(towards.n), scored(away), ungrouped(away.n)
            rows.append(row_of(name, *cells))
        console.print(*printed([Table("", list(map(named, titles)), rows, layout="plain")]))
        console.print(
            "towards it: of the first labels that differed from the judge or draft, the share that "
            "people changed to agree with it. away: of the first labels that agreed with the judge "
            "or draft, the share that people changed."
        )
    if done.differing:
        what = counted(done.differing, "item")
        console.print(f"Annotators differ on {what}. To let a third person decide:")
        console.print(f"  {adjudicating(done.work)}", soft_wrap=True)
    if done.next:
        console.print(f"Next: {done.next}", soft_wrap=True)
    for words in _compared(done):
        console.print(f"Agreement: alps annotate agreement {words}", soft_wrap=True)


def _compared(done: Exported) -> Iterator[str]:
    """Yield the words of `alps annotate agreement` for an export: gold in pairs of people."""
    people = sorted((done.folder / ANNOTATIONS).glob("annotator_*.jsonl"))
    if len(people) > 2:
        yield from (f"{first} {second}" for first, second in combinations(people, 2))
    elif len(people) == 2 or (done.people > 1 and (done.folder / ITEMS).is_file()):
        yield str(done.folder)


@dataclass(frozen=True)
class MemoryChange:
    """Outcome of one memory.

    Attributes:
        by: Who says so.
        adjudicated: Who decided, where people differed.
        fields: By the name of each field that is another now, what it was and what it is.
    """

    record: str
    memory_id: str
    what: What
    value: str
    by: tuple[str, ...]
    adjudicated: str | None = None
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def row(self) -> Row:
        """Return the change as a line of the log has it."""
        fields = {name: {"old": old, "new": new} for name, (old, new) in self.fields.items()}
        return {**vars(self), "by": list(self.by), "fields": fields}


def verified(record: Row, labels: Mapping[str, Decided]) -> tuple[Row, list[MemoryChange]] | None:
    """Return the gold row of a record, and what changed in it; None where it is not finished."""
    name, items = record["record"], record["gold"]["gold"]["memory_items"]
    last = labels.get(f"{name}/+")
    unseen = [item for item in items if f"{name}/{item['memory_id']}" not in labels]
    if last is None or unseen:
        return None
    # Gold is whole only when somebody says that no memory is missing.
    if not any(answer["verdict"] == NOTHING for answer in last.by.values()):
        return None
    kept: list[Row] = []
    changes: list[MemoryChange] = []
    for item in items:
        one = labels[f"{name}/{item['memory_id']}"]
        new = _new(item, one.answer, record)
        changes.append(_change(name, item, new, one))
        kept += [] if new is None else [new]
    taken = {item["memory_id"] for item in items}
    for added, ruling in last.added:
        memory_id = _free_id(taken)
        new = _new({}, _said_of(added, ruling), record)
        if new is not None and (added.agreed or ruling is not None):
            kept.append({"memory_id": memory_id, **dict.fromkeys(_EMPTY), **new})
        changes.append(_addition(name, memory_id, added, ruling))
    gold = {**record["gold"], "gold": {**record["gold"]["gold"], "memory_items": kept}}
    return gold, changes


def _new(item: Row, answer: Answer | None, record: Row) -> Row | None:
    """Return a memory as people say it is; None where they reject it."""
    if answer is None:
        return item
    return None if answer["verdict"] == REJECT else item | _fields(answer, record, item)


def _fields(answer: Answer, record: Row, old: Row) -> Row:
    """Return the fields that a person gives, with the words that show the memory.

    Who marks no words names the turn alone: a quote out of it stays as it was.
    """
    was = old.get("evidence") or {}
    session = was.get("session_id") or record["input"].get("session_id")
    turn = answer["evidence"]
    same = was.get("text") if was.get("utterance_index") == turn else None
    text = answer["quote"] or same or conversation(record["input"])[turn][1]
    fields = {name: answer[name] for name in FIELDS}
    evidence = {"session_id": session, "utterance_index": turn, "text": text}
    # A suggestion belongs to the label that it was made for.
    if old and old.get("label") != answer["label"]:
        fields["label_suggestion"] = None
    return {**fields, "value": answer["value"], "evidence": evidence}


def _change(record: str, old: Row, new: Row | None, one: Decided) -> MemoryChange:
    what: What = "kept"
    fields: dict[str, tuple[Any, Any]] = {}
    if one.answer is None:
        what = "undecided"
    elif new is None:
        what = "rejected"
    else:
        for name in ("value", *FIELDS, "evidence"):
            if old.get(name) != new.get(name):
                fields[name] = (old.get(name), new.get(name))
        # Fields that are hidden may change while the text is kept.
        what = "edited" if fields or one.answer["verdict"] == EDIT else "kept"
    by, decided = tuple(one.by), None if one.ruling is None else one.ruling.by
    return MemoryChange(record, old["memory_id"], what, old["value"], by, decided, fields)


def _said_of(one: Added, ruling: Ruling | None) -> Answer:
    return one.answer if ruling is None else ruling.answer


def _addition(record: str, memory_id: str, one: Added, ruling: Ruling | None) -> MemoryChange:
    """Return what became of a memory that somebody adds."""
    answer = _said_of(one, ruling)
    what: What = "added"
    if ruling is None and not one.agreed:
        what = "undecided"
    elif answer["verdict"] == REJECT:
        what = "rejected"
    value = answer.get("value", one.answer["value"])
    by = None if ruling is None else ruling.by
    return MemoryChange(record, memory_id, what, value, one.by, by)


def _free_id(taken: set[str]) -> str:
    """Return an id that no memory has, and take it."""
    number = 1
    while f"added-{number}" in taken:
        number += 1
    taken.add(f"added-{number}")
    return f"added-{number}"


def path_fault(text: str) -> str | None:
    """Say why a name out of a file must not become a path below a folder; None where it may.

    Names of tracks hold folders, as `task3/d100` does.
    """
    for part in text.split("/"):
        if not is_file_name(part) or part.startswith("."):
            return f"{text[:60]!r} is not a valid folder name"
    return None
