"""Folders to annotate, made from a run or from data.

Answers to rate and memories to relate are drawn as `alps annotate draw` draws them; what the run's
judge said of them is put aside, to be shown after a label is given.

Memories to be verified are gold of the release layout, or a run's answers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from shlex import quote
from typing import Any

from alps.data.release import open_split, read_track
from alps.errors import UsageError
from alps.ext.calibration.judge_of_run import JUDGE, JudgeCall, asked_in, judge_of_run
from alps.ext.calibration.labels import ITEMS
from alps.ext.calibration.sample import draw_audit, draw_labels, rank
from alps.ext.datasets.audit_records import at, conversation, dicts_at, text_at, track_folders
from alps.ext.people.annotate import PLAN, RECORDS, SHOWN, LabelPlan, open_work, write_lines
from alps.ext.people.settings import JOBS, Job, Settings
from alps.jsonl import Row, scan
from alps.judges.base import UNRELATED, MatchQuestion
from alps.run.folder import write_json
from alps.run.opened import MANIFEST, RUNS, AnswerKey, find_run, open_run, read_rows
from alps.run.source import open_again
from alps.settings import as_typed
from alps.tasks.registry import PYTHON

_DRAFT = "draft"

# The fields that a person gives of a memory, and that are hidden until they do.
FIELDS = ("type", "label", "time_scope", "confidence")
_TAKEN = ("split", "n", "seed", "annotators", "blind", "target", "audit", "audit_seed")


@dataclass(frozen=True)
class _RecordMemories:
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


def _drawn(folder: Path, plan: LabelPlan) -> None:
    if plan.split is not None:
        raise UsageError(f"split={plan.split}: the run sets the split; leave it out")
    run = find_run(plan.source)
    task = str(open_run(run).manifest.settings["task"])
    # Its module is imported where the command names it, which this one can't.
    if any(name.startswith(PYTHON) for name in task.split(",")):
        words = f"{quote(str(run))} task={quote(task)} out=DIR"
        fix = f"draw the items with alps annotate draw {words}"
        raise UsageError(f"{run}: no page for a task of your own; {fix}")
    pairs = plan.job == "match"
    if plan.audit is not None:
        draw_audit(run, plan.audit, pairs=pairs, out=folder, seed=plan.audit_seed)
    else:
        draw_labels(run, n=plan.n, out=folder, seed=plan.seed, pairs=pairs)
    verdicts = _verdicts(run)
    shown = []
    for _, _, row in scan(folder / ITEMS):
        if row is not None and row["item_id"] in verdicts:
            shown.append({"item_id": row["item_id"], **verdicts[row["item_id"]]})
    write_lines(folder / SHOWN, shown)
    write_json(folder / JUDGE, judge_of_run(open_run(run)).model_dump(mode="json"))


def _verdicts(run: Path) -> dict[str, Row]:
    """Return what the run's judge said, by item: `{"by", "answer"}`."""
    opened = open_run(run)
    _, data = open_again(run, opened.manifest)
    rows = read_rows(run / "verdicts.jsonl")
    judge = str((opened.summary_row or {}).get("judge"))
    verdicts = {}
    for asked in asked_in(run, data):
        about = asked.about
        row = rows.get(AnswerKey(asked.track, about.benchmark_id, about.repeat))
        if row is None or row.get("outcome") != "ok":
            continue
        for item_id, label in _labels(asked, row):
            verdicts[item_id] = {"by": judge, "answer": {"label": label}}
    return verdicts


def _labels(asked: JudgeCall, row: Row) -> Iterator[tuple[str, object]]:
    """Yield what a judge said of the items of a question."""
    if isinstance(asked.question, MatchQuestion):
        pairs = row.get("pairs") or ()
        said = {(pair["gold"], pair["predicted"]): pair["relation"] for pair in pairs}
        for gold, predicted in product(asked.question.gold, asked.question.predicted):
            # A judge names the pairs that are related: of all others it said that they are not.
            label = said.get((gold.id, predicted.id), UNRELATED)
            yield f"{asked.name}/{gold.id}-{predicted.id}", label
        return
    marks = row.get("marks") or {}
    for name, mark in asked.by.labels.items():
        if mark in marks:
            yield f"{asked.name}{asked.by.part(name)}", marks[mark]


def _of_memories(folder: Path, plan: LabelPlan) -> None:
    sessions = _memories_of(plan.source, plan.split, n=plan.n, seed=plan.seed)
    rows: list[Row] = []
    shown: list[Row] = []
    records: list[Row] = []
    for session in sessions:
        records.append(session.record)
        for row, draft in _rows_of(session, plan.job):
            rows.append(row)
            if draft is not None:
                shown.append({"item_id": row["item_id"], "by": _DRAFT, "answer": draft})
    if not rows:
        raise UsageError(f"from={plan.source}: no memories found; name data with gold, or a run")
    # Only now: a source without memories leaves no folder behind.
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: the folder is not empty; name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    write_lines(folder / ITEMS, rows)
    write_lines(folder / SHOWN, shown)
    write_lines(folder / RECORDS, records)


def _rows_of(session: _RecordMemories, job: Job) -> Iterator[tuple[Row, Row | None]]:
    """Yield the items of a session, and what is shown after each is labelled."""
    about = {"system": session.system, "cluster": session.session_id, "language": None}
    for memory in session.items:
        payload = {"memory": {"value": memory["value"]}, "dialogue": session.dialogue}
        name = f"{session.name}/{memory['memory_id']}"
        row = {"item_id": name, "rubric": job, **about, "payload": payload}
        yield row, (session.draft_of(memory) if job == "gold" else None)
    if job == "gold":
        values = [memory["value"] for memory in session.items]
        payload = {"memories": values, "dialogue": session.dialogue}
        name = f"{session.name}/+"
        yield {"item_id": name, "rubric": "missing", **about, "payload": payload}, None


_MAKERS: Mapping[Job, Callable[[Path, LabelPlan], None]] = {
    "rate": _drawn,
    "match": _drawn,
    "gold": _of_memories,
    "queries": _of_memories,
}


def begin(folder: Path, settings: Settings) -> None:
    """Make the folder that settings ask for, or check that they go with the one that is there.

    Raises:
        UsageError: If there is none and no job, the folder was made with other settings or holds
            something else, or the source has nothing for the job.
        AlpsError: If the source can't be read.
    """
    if not (folder / PLAN).is_file():
        if settings.job is None or settings.source is None:
            fix = f"create it with job= ({', '.join(JOBS)}) and from="
            raise UsageError(f"{folder}: nothing to annotate; {fix}")
        _make(folder, settings, _plan(settings, settings.source, settings.job))
        return
    plan = open_work(folder).plan
    asked = {"from": settings.source, "people": _people(settings) or None}
    for name in sorted(settings.model_fields_set - _OF_A_PERSON):
        there = getattr(plan, "source" if name == "from" else name)
        if asked.get(name, getattr(settings, name)) not in (None, there):
            made = "without" if there in (None, ()) else "with"
            made += f" {name}={'' if made == 'without' else as_typed(there)}"
            raise UsageError(f"{folder}: the folder was created {made}; leave {name}= out")


def _make(folder: Path, settings: Settings, plan: LabelPlan) -> None:
    if not settings.adjudicate:
        plan.check_person(settings.person)
    _MAKERS[plan.job](folder, plan)
    # Last: a folder without a plan is not begun.
    write_json(folder / PLAN, plan.model_dump())


# What each person may set anew; all else belongs to the folder.
_OF_A_PERSON = {"as", "adjudicate", "port"}


def _people(settings: Settings) -> tuple[str, ...]:
    return tuple(name.strip() for name in (settings.people or "").split(",") if name.strip())


def _plan(settings: Settings, source: str, job: Job) -> LabelPlan:
    people = _people(settings)
    if people and len(set(people)) < max(settings.annotators, len(people)):
        fewest = f"name at least {settings.annotators} different people"
        raise UsageError(f"people={settings.people}: {fewest}")
    if "annotators" in settings.model_fields_set and not people:
        raise UsageError(f"annotators={settings.annotators}: list all annotators with people=")
    counted = job not in ("rate", "match") or "n" in settings.model_fields_set
    if settings.audit is not None and counted:
        where = "use it only with job=rate or match and without n="
        raise UsageError(f"audit={100 * settings.audit:g}%: {where}")
    if settings.audit_seed is not None and settings.audit is None:
        why = "would change nothing without audit=; leave it out"
        raise UsageError(f"audit_seed={settings.audit_seed} {why}")
    if job == "queries" and settings.target is not None:
        raise UsageError(f"target={settings.target:g}: queries have no metric; leave it out")
    of_plan = {name: getattr(settings, name) for name in _TAKEN}
    return LabelPlan(job=job, source=source, people=people, **of_plan)


def _memories_of(source: str, split: str | None, *, n: int, seed: int) -> list[_RecordMemories]:
    """Return memories of whole records, drawn at random by `seed` until there are `n` of them.

    Raises:
        UsageError: If `source` is neither a run nor data.
        DataError: If a row can't be read.
    """
    here = Path(source).expanduser()
    # A folder of data here may be called as a run among the runs is.
    names_run = ((here if here.exists() else RUNS / source) / MANIFEST).is_file()
    found = [*(_of_run(source, split) if names_run else _of_data(source, split))]
    found.sort(key=lambda one: rank(seed, one.name))
    drawn: list[_RecordMemories] = []
    count = 0
    for one in found:
        if count >= n:
            break
        drawn.append(one)
        # A record without memories is work as well: somebody must say that none is missing.
        count += max(1, len(one.items))
    return drawn


def _of_data(source: str, split: str | None) -> Iterator[_RecordMemories]:
    for track, folder in track_folders(open_split(source, split)):
        for pair in read_track(folder):
            # A record without memories may lack some; one of another task has no such list.
            if at(pair.gold, "gold", "memory_items") is not None:
                items = _readable(dicts_at(pair.gold, "gold", "memory_items"))
                yield _memories(track, pair.input, items)


def _of_run(source: str, split: str | None) -> Iterator[_RecordMemories]:
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


def _memories(
    track: str, row: Row, items: Sequence[Row], system: str | None = None
) -> _RecordMemories:
    name = f"{track}/{row['benchmark_id']}"
    session = text_at(row, "session_id") or row["benchmark_id"]
    dialogue = [{"role": role, "text": text} for role, text in conversation(row)]
    about = {name: value for name, value in row.items() if name != "input"}
    gold = {**about, "gold": {"memory_items": [*items]}}
    record = {"record": name, "track": track, "input": row, "gold": gold}
    return _RecordMemories(name, session, dialogue, items, record, system)
