"""Checks of memory systems in submissions: diary, admission, phases, hits, comparison rows.

Answers have to follow from the hits. Rows beside a run are verified as if each were submitted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from alps.errors import AlpsError, UsageError
from alps.event_loop import run_loop
from alps.ext.memory import CALLS, FILE
from alps.ext.memory.admission import CHECKS, DECLARED, current_name
from alps.ext.memory.board_setup import ahead_of, beside_of, without_memory
from alps.ext.memory.connection import MemoryFailed
from alps.ext.memory.journal import phases_of, read_hits, used_otherwise
from alps.ext.memory.protocol import LONGEST_ID, Hit
from alps.ext.memory.reader import Direct, Reader, noted, open_embedded, through
from alps.ext.memory.resolve import MemoryOptions, is_ours, open_memory
from alps.ext.memory.store import cut, recall_of, sample_key
from alps.leaderboard.checks import PACK_AGAIN, Findings, some_of
from alps.leaderboard.checks.card import is_own
from alps.leaderboard.checks.rows import LONGEST_ANSWER, TrackRows, named
from alps.leaderboard.checks.scores import differences, figure, report_differences
from alps.leaderboard.checks.suspicion import as_run, differing
from alps.leaderboard.gold_data import GoldTrack, needs_reader
from alps.leaderboard.parts import parts_of
from alps.leaderboard.recompute import Rows
from alps.leaderboard.submission import (
    BESIDE,
    MemoryCard,
    PublishedCheck,
    PublishedTrack,
    StrictFields,
    Submission,
    When,
    memory_folder,
    memory_of_run,
)
from alps.leaderboard.untrusted import Count, Line, Seconds, faults_of, scan_rows, shown
from alps.leaderboard.verify import CheckedTrack, TrackCheck
from alps.rows import Phase
from alps.schema import Outcome, ShownToReader
from alps.show.formatting import counted
from alps.systems import System, Unheard, is_embedded, resolve_system
from alps.systems.resolve import in_variants
from alps.tasks import Task
from alps.tasks.base import DEFAULTS, OF_MEMORY
from alps.tasks.by_memory import FULL, Context, Script, Search

_MEND = "submit the packed folder unchanged"
# More than ten times what the longest history of the samples has turns.
MOST_HITS = 20_000
_Id = Annotated[str, StringConstraints(max_length=LONGEST_ID)]
_Text = Annotated[str, StringConstraints(max_length=LONGEST_ANSWER)]


class HitRow(StrictFields):
    """A memory that was found, as `alps.ext.memory.protocol.Hit` has it."""

    id: _Id
    text: _Text
    score: Annotated[float, Field(ge=-1e12, le=1e12)] | None
    created_at: _Id | None
    sources: Annotated[list[_Id], Field(max_length=1_000)]


FOUND = ("search", "memories")
"""The phases whose rows have hits."""


class DiaryRow(StrictFields):
    """A call of a memory system, or its admission."""

    phase: Literal["admission", "open", "ingest", "settle", "search", "memories", "forget"]
    user: _Id = ""
    seconds: Seconds = 0.0
    session: _Id | None = None
    turns: Count | None = None
    sessions: Count | None = None
    bytes: Annotated[float, Field(ge=0, le=1e15)] | None = None
    sample: _Id | None = None
    hits: Annotated[list[HitRow], Field(max_length=MOST_HITS)] | None = None
    when: When | None = None
    checks: Annotated[list[PublishedCheck], Field(max_length=50)] | None = None


class AskedRow(StrictFields):
    """A request of a memory system to a model, as `alps.ext.memory.proxy.Metered` has it."""

    phase: Line
    asked: Line
    model: Line
    prompt_tokens: Count
    completion_tokens: Count
    cost: Seconds | None
    cached: bool
    outcome: Outcome
    seconds: Seconds


@dataclass
class PackedDiary:
    """Contents of the diary of a submission.

    Attributes:
        hits: What was found, by the key of the sample.
        admission: The checks before the run and after it.
    """

    hits: dict[str, list[Hit]] = field(default_factory=dict)
    admission: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def read_diary(folder: Path, memory: MemoryCard, findings: Findings) -> PackedDiary:
    """Read the diary of a memory system, and look at the form of its ledger."""
    diary, inside = PackedDiary(), memory_folder(memory)
    samples: Counter[str] = Counter()
    for row in _read(folder / inside / FILE, f"{inside}/{FILE}", DiaryRow, findings):
        if (sample := row.get("sample")) is not None:
            # Of two rows the last counts: it would replace the hits that the answer was made from.
            samples[sample] += 1
        if row["phase"] == "admission":
            diary.admission[row["when"]] = row["checks"]
        elif row["phase"] in FOUND:
            diary.hits[row["sample"]] = read_hits(row["hits"])
    if twice := [name for name, count in samples.items() if count > 1]:
        what = f"{counted(len(twice), 'record')} with several rows: {some_of(twice)}"
        findings.serious("duplicate_ids", f"{inside}/{FILE}", what, PACK_AGAIN)
    # Of a ledger only the form can be checked: nobody can ask the provider again.
    if memory.calls is not None:
        for _ in _read(folder / inside / CALLS, f"{inside}/{CALLS}", AskedRow, findings):
            pass
    return diary


def _read(
    path: Path, where: str, form: type[BaseModel], findings: Findings
) -> Iterator[dict[str, Any]]:
    """Yield the rows that have their form; each other one is a finding."""
    try:
        for number, row, unread in scan_rows(path):
            fault = unread if row is None else _fault_of(row, form)
            if fault or row is None:
                findings.serious("row", f"{where}, line {number}", fault, PACK_AGAIN)
            else:
                yield row
    except ValueError as error:
        findings.serious("file", where, str(error), PACK_AGAIN)


def _fault_of(row: Mapping[str, Any], form: type[BaseModel]) -> str:
    try:
        form.model_validate(row)
    except ValidationError as error:
        field_name, fault = faults_of(error)[0]
        return f"{field_name}: {fault}"
    if form is DiaryRow:
        for phase, needed in _NEEDED.items():
            if row["phase"] in phase and any(row.get(name) is None for name in needed):
                return f"a row of the phase {row['phase']} lacks {' and '.join(needed)}"
    return ""


_NEEDED = {
    ("admission",): ("when", "checks"),
    ("open", "ingest", "settle", "search", "memories", "forget"): ("user", "seconds"),
    FOUND: ("sample", "hits"),
    ("settle",): ("turns", "sessions"),
}


Admission = Mapping[str, Sequence[Mapping[str, Any]]]


def check_memory(folder: Path, card: Submission, findings: Findings) -> dict[int, PackedDiary]:
    """Check what of the memory systems of a card needs no records; return their diaries by run."""
    _check_runs(card, findings)
    diaries = {}
    for n, memory in enumerate(card.memory or ()):
        diary = read_diary(folder, memory, findings)
        _check_admission(f"memory.{n}", card, memory, diary, findings)
        _check_conditions(card, memory, findings)
        _check_phases(f"memory.{n}", folder / memory_folder(memory), memory, findings)
        _check_beside(f"memory.{n}", card, memory, findings)
        diaries[memory.run] = diary
    if diaries:
        rows = sum(len(memory.beside) for memory in card.memory or ())
        checked = f"admission, diary and ledger of {counted(len(diaries), 'memory system')}"
        checked += f"; comparison rows: {rows}"
        findings.checked["memory"] = checked
    return diaries


def _check_runs(card: Submission, findings: Findings) -> None:
    """Refuse a run with a memory system and no hits, or with hits and no memory system."""
    runs = [memory.run for memory in card.memory or ()]
    for n, run in enumerate(card.runs):
        name = memory_of_run(run.settings)
        # A card without the hits would have its answers believed as those of a plain reader.
        if name is not None and runs.count(n) != 1:
            what = f"memory={shown(name)} is a memory system, but the submission lacks its hits"
            findings.serious("memory", f"runs.{n}", what, PACK_AGAIN)
        elif name is None and n in runs:
            what = "this run has no memory system, but the submission has hits for it"
            findings.serious("memory", f"memory: run {n}", what, PACK_AGAIN)


def first_fault(admission: Admission) -> str | None:
    """Return the first check of admission that failed, and when; None where all passed."""
    for when in ("before", "after"):
        for check in admission.get(when, ()):
            if check.get("fault"):
                return f"{check['name']} ({when} the run)"
    return None


def _check_admission(
    where: str, card: Submission, memory: MemoryCard, diary: PackedDiary, findings: Findings
) -> None:
    printed: dict[str, list[Mapping[str, Any]]] = {}
    for when, checks in memory.admission.items():
        printed[when] = [check.model_dump() for check in checks]
    place = f"{where}.admission"
    for found, before, now in differences(printed, diary.admission, place):
        file = f"{memory_folder(memory)}/{FILE}"
        what = f"the card has {figure(before)}, but {file} has {figure(now)}"
        findings.serious("admission", found, what, _MEND)
        break
    fault = first_fault(diary.admission)
    # A card that says nothing of the failed check would have scores on a board.
    if fault != memory.withheld:
        what = f"the card has {figure(memory.withheld)}, but the checks give {figure(fault)}"
        findings.serious("admission", f"{where}.withheld", what, _MEND)
    if fault is not None:
        what = f"not admitted, so the system has no scores: {shown(fault, 120)}"
        findings.note("admission", f"{where}.withheld", what)
    if fault is None:
        _check_complete(place, memory, diary.admission, findings)
        return
    for name, track in card.tracks.items():
        if track.run == memory.run:
            _check_withheld(name, track, fault, findings)


def _check_complete(
    where: str, memory: MemoryCard, admission: Admission, findings: Findings
) -> None:
    """Refuse an admission that lacks a check: one that is not there did not pass."""
    declares = memory.settings.get("declares")
    declared = list(map(current_name, map(str, declares if isinstance(declares, list) else [])))
    for when in ("before", "after"):
        there = [current_name(str(check["name"])) for check in admission.get(when, ())]
        for name in CHECKS:
            otherwise = f"{name}{DECLARED}" in there and name in declared
            if name not in there and not otherwise:
                what = f"the result of the check “{name}” {when} the run is missing"
                findings.serious("admission", f"{where}.{when}", what, _MEND)
                break


def _check_withheld(name: str, track: PublishedTrack, fault: str, findings: Findings) -> None:
    files = track.files.present().values()
    scored = [metric for metric, score in track.scores.items() if score.value is not None]
    if scored or track.scored or track.floors or any(file.rows for file in files):
        what = f"the system has scores, but was not admitted: {shown(fault, 120)}"
        findings.serious("admission", f"tracks.{name}", what, _MEND)


def _check_conditions(card: Submission, memory: MemoryCard, findings: Findings) -> None:
    """Hold what a track says of its memory against the settings of its run."""
    for name, track in card.tracks.items():
        settings = card.runs[track.run].settings
        for key in OF_MEMORY if track.run == memory.run else ():
            usual = getattr(DEFAULTS, key)
            # One that means nothing to a task is not among its conditions.
            if key not in track.conditions and key != "memory":
                continue
            printed, asked = track.conditions.get(key, usual), settings.get(key, usual)
            # Of several sizes of a context the scores are those of the largest.
            if isinstance(asked, list):
                asked = max((size for size in asked if type(size) is int), default=usual)
            if printed != asked:
                what = f"the card has {figure(printed)}, but the run's setting is {figure(asked)}"
                where = f"tracks.{name}.conditions.{key}"
                findings.serious("memory", where, what, PACK_AGAIN)


def _check_phases(where: str, folder: Path, memory: MemoryCard, findings: Findings) -> None:
    """Compare times and use of models with what the diary and the ledger say."""
    # Rows that can't be read were left out, so every sum would differ from the card's.
    if not findings.codes.isdisjoint(("row", "file", "missing_file", "size", "kind")):
        return
    printed, again = _phases(memory.phases), _phases(phases_of(folder))
    used, used_again = memory.used_otherwise, used_otherwise(folder, memory.phases)
    printed["admission"] = None if used is None else used.row()
    again["admission"] = None if used_again is None else used_again.row()
    for place, before, now in differences(printed, again, f"{where}.phases"):
        what = f"the card has {figure(before)}, but the diary and ledger give {figure(now)}"
        findings.serious("phases", place, what, _MEND)


def _phases(phases: Mapping[str, Phase]) -> dict[str, Any]:
    return {name: phase.row() for name, phase in phases.items()}


def _check_beside(where: str, card: Submission, memory: MemoryCard, findings: Findings) -> None:
    """Hold the rows beside a run to what they share with it."""
    own = memory_of_run(card.runs[memory.run].settings) if memory.run < len(card.runs) else None
    for row, other in memory.beside.items():
        place = f"{where}.beside.{row}"
        if other.run.settings.get("memory") == own:
            what = "the comparison row has the same memory as the run"
            findings.serious("beside", place, what, PACK_AGAIN)
        for name, track in other.tracks.items():
            mine = card.tracks.get(name)
            if mine is None or mine.run != memory.run or track.run:
                findings.serious(
                    "beside", f"{place}.{name}", "the run does not have this task", PACK_AGAIN
                )
                continue
            expected = beside_of(card.runs[mine.run], mine)
            for part, before, now in differences(beside_of(other.run, track), expected):
                what = f"the comparison row has {figure(before)}, but the run has {figure(now)}"
                findings.serious("beside", f"{place}.{name}: {part}", what, PACK_AGAIN)
                break


class _FromDiary:
    """A memory that answers with what a diary says it found."""

    def __init__(self, diary: PackedDiary, task: Task) -> None:
        self.name = "submitted"
        self.settings: Mapping[str, Any] = {}
        self._diary = diary
        self._k = int(task.conditions.get("k", DEFAULTS.k))
        self.most: int | None = task.conditions.get("max_context_tokens")

    def has(self, task: Task, sample: Any) -> bool:
        """Tell whether all is there that was found for a sample."""
        return all(key in self._diary.hits for key in keys_of(task, sample))

    async def recall(self, task: Task, sample: Any, max_tokens: int | None = None) -> Context:
        hits = self._diary.hits[sample_key(task, sample)]
        return cut(hits[: self._k], max_tokens, dated=recall_of(task).dated)

    async def probed(self, task: Task, sample: Any) -> list[list[Hit]]:
        if not self.has(task, sample):
            raise MemoryFailed("search", "no hits in the submission")
        return [self._diary.hits[key] for key in keys_of(task, sample)]


def keys_of(task: Task, sample: Any) -> list[str]:
    """Return the keys of a sample in a diary: one for a reader, one a probe where none reads."""
    key = sample_key(task, sample)
    if task.by_memory.answers is None:
        return [key]
    if isinstance(task.by_memory.answers, Script):
        steps = task.by_memory.answers.steps(sample)
        probes = sum(isinstance(step, Search) for step in steps)
    else:
        probes = len(task.by_memory.answers.probes(sample))
    return [f"{key} {number}" for number in range(1, probes + 1)]


def check_recomputed(check: TrackCheck, checked: CheckedTrack) -> None:
    """Check the comparison rows of a track, and every difference from no memory."""
    memory = check.card.memory_of(check.track.run)
    if memory is not None and checked.gold is not None:
        scores = {"": checked.scores, **_scores_beside(check, memory)}
        check_ahead(check.card, checked.gold, scores, check.findings)


def _scores_beside(check: TrackCheck, memory: MemoryCard) -> dict[str, Rows]:
    """Check the rows beside a run on a track as if each were submitted; return their scores."""
    options, scores = check.options, {}
    if isinstance(options.data, tuple):
        options = replace(options, data=(options.data[memory.run],))
    for row, other in memory.beside.items():
        if check.name in other.tracks:
            own, inside = Findings(), f"{memory_folder(memory)}/{BESIDE}/{row}"
            card, folder = check.card.beside(memory, row), check.folder / inside
            notes = dict.fromkeys(parts_of(card))
            of_row = TrackCheck(folder, card, check.name, options, own, notes, floors=False)
            checked = of_row.check()
            _check_made_again(check.name, card, checked.gold, checked.predictions, own)
            scores[row] = checked.scores
            check.findings.take(own, inside)
    return scores


def _check_made_again(
    name: str, card: Submission, gold: GoldTrack | None, rows: Rows, findings: Findings
) -> None:
    """Make the answers of a run beside another again, where its reader and its memory are ours.

    Differences of memory systems are from such a run, so one that answers worse than it does is as
    good as a better memory.
    """
    (run,) = card.runs
    model, memory = str(run.settings.get("model")), str(run.settings.get("memory", FULL))
    unchecked = f"{name}: the answers of {shown(model)} with memory={shown(memory, 40)}"
    # Users of a memory that keeps something, and those of a placebo, may come from other tracks.
    made = open_embedded(memory) is not None or (is_ours(memory) and len(card.tracks) == 1)
    if gold is None or not is_own(model) or not made:
        findings.unchecked.append(f"{unchecked}, which cannot be reproduced here")
        return
    try:
        other = [named(key) for key in differing(as_run(model, gold), gold, rows)]
    except AlpsError as error:
        findings.unchecked.append(f"{unchecked} ({shown(str(error), 160)})")
        return
    if other:
        what = f"{counted(len(other), 'answer differs', 'answers differ')} from what {shown(model)}"
        what += f" with memory={shown(memory, 40)} answers in this version: {some_of(other)}"
        mend = "run alps memory compare again, then pack the runs again"
        findings.serious("beside", f"{name}/predictions.jsonl", what, mend)


def check_hits(
    card: Submission, gold: GoldTrack, rows: TrackRows, diary: PackedDiary, findings: Findings
) -> None:
    """Compare each answer with what follows from the hits; of another's reader, what it was shown.

    An answer of a reader that is a model can't be made again here.
    """
    task, track = gold.task, card.tracks[gold.task.track]
    memory, model = _FromDiary(diary, task), str(card.runs[track.run].settings.get("model"))
    reads = needs_reader(task)
    system: System | None = None
    if not reads:
        # No reader has a part: the answer has to be the hits themselves.
        system = Direct(Unheard(model), memory)
    elif is_embedded(model):
        reader = in_variants(resolve_system(model, task), task)
        system = Reader(reader, memory, memory.most)
    wrong: list[str] = []
    try:
        for key, row in rows.predictions.items():
            if fault := _fault_of_answer(task, gold.samples[key[0]], memory, system, row):
                wrong.append(f"{named(key)} ({fault})")
    except AlpsError as error:
        what = f"{task.track}: whether the hits lead to the answers ({shown(str(error), 160)})"
        findings.unchecked.append(what)
    if wrong:
        what = counted(len(wrong), "answer does", "answers do")
        what += f" not agree with the hits in the memory diary: {some_of(wrong)}"
        findings.serious("hits", f"{task.track}/predictions.jsonl", what, _MEND)
    if reads and system is None:
        what = f"{task.track}: what {shown(model, 60)} answers when shown these memories"
        findings.unchecked.append(what)


def _fault_of_answer(
    task: Task, sample: Any, memory: _FromDiary, system: System | None, row: Mapping[str, Any]
) -> str:
    """Say why an answer does not follow from the hits; nothing where it does."""
    if not memory.has(task, sample):
        return "no hits" if row["outcome"] == "ok" else ""
    if needs_reader(task):
        if row.get("shown") is None:
            return "no record of what the reader was shown" if row["outcome"] == "ok" else ""
        # Of a reader that is a model this is all that can be made again here.
        printed = ShownToReader.model_validate(row["shown"])
        if printed != noted(run_loop(memory.recall(task, sample, memory.most))):
            return "the reader was shown something else"
    if system is None:
        return ""
    own = run_loop(system.answer(task, sample))
    same = (row["outcome"], row.get("prediction")) == (own.outcome, own.prediction)
    return "" if same else "the reader gives another answer"


def check_stray_hits(track: str, gold: GoldTrack, diary: PackedDiary, findings: Findings) -> None:
    """Refuse hits for samples that the track has not."""
    known: set[str] = set()
    for sample in gold.samples.values():
        known.update(keys_of(gold.task, sample))
    there = [key for key in diary.hits if key.partition(" ")[0] == track]
    # Hits quote users: what no record of the split needs must not be published.
    if stray := [shown(key, 60) for key in there if key not in known]:
        what = f"records outside the split ({len(stray):,}): {some_of(stray)}"
        findings.serious("extra_ids", f"{track}: {FILE}", what, PACK_AGAIN)


def check_ahead(
    card: Submission, gold: GoldTrack, scores: Mapping[str, Rows], findings: Findings
) -> None:
    """Recompute how far the run and its rows are ahead of no memory on a track.

    `scores` has the rows of the run under ``, those of each row under its name.
    """
    name = gold.task.track
    memory = card.memory_of(card.tracks[name].run)
    assert memory is not None
    assert card.memory is not None
    where = f"memory.{card.memory.index(memory)}"
    base = without_memory(memory, name)
    for row, of_row in scores.items():
        ahead = memory.ahead if not row else memory.beside[row].ahead
        printed = ahead[name].model_dump(exclude_unset=True) if name in ahead else None
        again = None
        # A task without a reader has no answer without memory to differ from.
        if base is not None and row != base and needs_reader(gold.task):
            of_both = of_row.values(), scores[base].values()
            again = ahead_of(*of_both, gold.task.headline, gold.sessions)
        place = f"{where}.beside.{row}.ahead.{name}" if row else f"{where}.ahead.{name}"
        report_differences(place, printed, again, findings, fix=_MEND)


def behind_memory(system: System, gold: GoldTrack) -> System:
    """Return a system of ours as the run asked it: behind a memory of ours, where it had one.

    Raises:
        UsageError: If the memory is another one, which is never run here.
    """
    task = gold.task
    name = str(task.conditions.get("memory", FULL))
    if not is_ours(name):
        raise UsageError(
            f"memory={shown(name, 40)}: not bundled with alps, so alps does not run it"
        )
    options = MemoryOptions(k=int(task.conditions.get("k", DEFAULTS.k)))

    def samples() -> Iterator[tuple[Task, Any]]:
        for sample in gold.samples.values():
            yield task, sample

    most = task.conditions.get("max_context_tokens")
    return through(open_memory(name, options, samples), system, task, most)
