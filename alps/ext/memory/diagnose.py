"""Diagnosis of a run with a memory system: where each wrong answer lost what it needed.

The system is fed again, and the reader is asked again with the evidence alone and with the system's
own memory of it alone. What comes of it is kept in the folder `diagnosis` of the run, so that the
same command asks nothing twice. It is printed as the stages, or as one wrong answer by itself.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console

from alps.errors import UsageError
from alps.event_loop import run_loop
from alps.ext.memory import FILE
from alps.ext.memory.attribution import (
    DEEPER,
    STAGES,
    AnswerFacts,
    Found,
    Life,
    Located,
    Replay,
    SoughtSample,
    Stage,
    find,
    held,
    is_verbatim,
    shares,
    stage_of,
)
from alps.ext.memory.comparison import refuse_other_code
from alps.ext.memory.connection import MemoryFailed
from alps.ext.memory.journal import found_in, rows_in
from alps.ext.memory.part import MemoryRunPart
from alps.ext.memory.protocol import Hit
from alps.ext.memory.reader import EmbeddedMemory, Reader, fixed
from alps.ext.memory.resolve import refuse_untyped
from alps.ext.memory.settings import MemoryKeys
from alps.ext.memory.store import Store, cut, recall_of, sample_key
from alps.folders import kept_working_folder
from alps.jsonl import Appender, Row
from alps.run.course import wrapped
from alps.run.engine import TrackPlan, Unit, UnitResult, evaluate
from alps.run.folder import claimed_folder
from alps.run.opened import AnswerKey, RunFolder, open_run
from alps.run.parts import parts_of
from alps.run.services import Services, check_names, open_services
from alps.run.session import resolve_again
from alps.run.source import RunData
from alps.settings import RunSettings
from alps.show.formatting import counted
from alps.show.named_record import pick
from alps.show.table import (
    Table,
    dim,
    figures,
    named,
    print_parts,
    row_of,
    thousands,
    with_interval,
)
from alps.stats.bootstrap import Estimate
from alps.tasks import JudgingOptions, Task
from alps.tasks.by_memory import Context, Recall

FOLDER = "diagnosis"
_USERS_AT_ONCE = 8

_MEANINGS: dict[Stage, str] = {
    "memory failed": "a call of the memory system failed",
    "not extracted": "no memory contains the evidence",
    "lost in update": "the memory with the evidence was replaced or removed",
    "not indexed": "a memory contains the evidence, but searching for its words does not find it",
    "ranked too low": "the search finds the evidence, but not among the first k hits",
    "cut by the budget": "the evidence is among the hits, but was not shown to the reader",
    "not used by the reader": "the evidence was shown, but the answer is wrong",
    "gold suspect": "the reader is wrong even with the evidence alone",
    "not estimable": "no evidence in the data, no list of memories, or a check without response",
}


@dataclass(frozen=True)
class Miss:
    """A wrong answer and its facts.

    Attributes:
        key: The answer.
        user: What it is resampled with.
        query: What was asked.
        needed: Texts any of which it needs.
        stage: Where that was lost.
    """

    key: AnswerKey
    user: str
    query: str
    needed: tuple[str, ...]
    facts: AnswerFacts
    stage: Stage


@dataclass(frozen=True)
class Diagnosis:
    """All wrong answers of a run; `answers` counts the right ones, too."""

    folder: Path
    memory: str
    answers: int
    misses: tuple[Miss, ...]

    @cached_property
    def shares(self) -> Mapping[Stage, Estimate]:
        """The share of each stage among the misses."""
        stages = [miss.stage for miss in self.misses]
        return shares(stages, [miss.user for miss in self.misses])

    def count(self, stage: Stage) -> int:
        """Return how many misses a stage has."""
        return sum(miss.stage == stage for miss in self.misses)

    def as_json(self) -> Row:
        """Return everything as JSON values."""
        stages = {}
        for stage in STAGES:
            stages[stage] = {"misses": self.count(stage), **self.shares[stage].row}
        misses = []
        for miss in self.misses:
            key = {"track": miss.key.track, "id": miss.key.id, "repeat": miss.key.repeat}
            misses.append({**key, "stage": miss.stage, **asdict(miss.facts)})
        row = {"run": str(self.folder), "memory": self.memory, "answers": self.answers}
        return {**row, "stages": stages, "misses": misses}


def diagnose(folder: Path, *, typed: Mapping[str, str | None]) -> Diagnosis:
    """Return where each wrong answer of a finished run lost what it needed.

    `refuse_untyped` is told what is `typed`.

    Raises:
        UsageError: If the run is not finished, or has no memory system.
        AlpsError: If its data, system or reader can't be used any more.
    """
    run = open_run(folder)
    if not run.finished.tracks:
        raise UsageError(f"{folder}: this run has no scores to diagnose")
    refuse_untyped(run, typed)
    settings, data = resolve_again(folder, {})
    refuse_other_code(folder, dict(settings), "task", "model", "memory")
    # A class may leave the working folder, and the files of the run stay where they are.
    place = folder.absolute()
    with kept_working_folder():
        check_names(settings, data, parts_of(settings, folder), generate=True)
    with claimed_folder(folder / FOLDER) as ledger, kept_working_folder():
        # The memory alone: nothing is audited or corrected here.
        part = MemoryRunPart(settings)
        services = open_services(
            settings, data.tasks, ledger, place, id_key=data.id_key, parts=(part,)
        )
        services = wrapped(services, data, place / FOLDER)
        desk = _Diagnosis(run, place, settings, data, services, part.memory)
        try:
            return run_loop(_diagnosed(desk))
        finally:
            desk.journal.close()


@dataclass
class _Diagnosis:
    """What a diagnosis works with, and what it has kept.

    Attributes:
        place: The folder of the run, from any working folder.
        hits: What the run found, by the key of a sample.
        located: Where the system has what samples need; None where it failed when fed again.
        answered: Whether the reader was right, by answer and by what it was shown alone.
    """

    run: RunFolder
    place: Path
    settings: RunSettings
    data: RunData
    services: Services
    memory: EmbeddedMemory | None
    hits: Mapping[str, list[Hit]] = field(init=False)
    located: dict[str, Located | None] = field(default_factory=dict)
    answered: dict[tuple[AnswerKey, str], bool] = field(default_factory=dict)
    journal: Appender = field(init=False)

    @property
    def keys(self) -> MemoryKeys:
        return MemoryKeys.of(self.settings)

    def __post_init__(self) -> None:
        self.hits = found_in(self.place / FILE)
        path = self.place / FOLDER / "diagnosis.jsonl"
        for row in rows_in(path):
            self._read(row)
        self.journal = Appender(path)

    def _read(self, row: Row) -> None:
        if row.get("phase") == "locate":
            self.located[row["sample"]] = _read_located(row["located"])
        elif row.get("phase") == "ask":
            key = AnswerKey(row["track"], row["id"], row["repeat"])
            self.answered[key, row["shown"]] = row["right"]

    def keep_located(self, sample: str, located: Located | None) -> None:
        self.located[sample] = located
        value = None if located is None else asdict(located)
        self.journal.write({"phase": "locate", "sample": sample, "located": value})

    def keep_answer(self, key: AnswerKey, shown: str, right: bool) -> None:
        """Keep whether the reader was right with the evidence, or the memory of it, alone."""
        self.answered[key, shown] = right
        self.journal.write({"phase": "ask", **key._asdict(), "shown": shown, "right": right})


def _read_located(row: Row | None) -> Located | None:
    if row is None:
        return None
    found = {name: Found(**value) for name, value in row.items() if isinstance(value, dict)}
    return Located(**{**row, **found})


@dataclass(frozen=True)
class _Missed:
    """A wrong answer with its sample, before anything is known of it."""

    key: AnswerKey
    task: Task
    sample: Any
    failed: str

    @property
    def recall(self) -> Recall:
        return recall_of(self.task)

    @property
    def needed(self) -> tuple[str, ...]:
        return self.recall.needed(self.sample)

    @property
    def sample_key(self) -> str:
        return sample_key(self.task, self.sample)


async def _diagnosed(desk: _Diagnosis) -> Diagnosis:
    async with aclosing(desk.services):
        memory = desk.memory
        if not isinstance(memory, Store):
            name = desk.keys.memory
            why = f"memory={name} is not a memory system; use a run with a memory system"
            raise UsageError(f"{desk.run.folder}: {why}")
        answers = sum(1 for _ in _scored(desk))
        if not answers:
            raise UsageError(f"{desk.run.folder}: no scored answer depends on a memory")
        missed = list(_missed(desk))
        lives = _lives(desk, [one for one in missed if one.needed and not one.failed])
        if lives:
            await _locate_all(desk, memory, lives)
        await _ask_all(desk, missed)
    done = []
    for one in missed:
        facts = _facts(desk, one)
        user, query = str(one.sample.session_id), one.recall.place(one.sample).query
        done.append(Miss(one.key, user, query, one.needed, facts, stage_of(facts)))
    return Diagnosis(desk.run.folder, memory.name, answers, tuple(done))


def _scored(desk: _Diagnosis) -> Iterator[tuple[AnswerKey, float]]:
    """Yield the headline of every answer on tracks that ask through the memory, in [0, 1]."""
    tasks = {task.track: task for task in desk.data.tasks if task.by_memory.recall is not None}
    for key, row in desk.run.rows("scores").items():
        if key.track in tasks:
            metric = tasks[key.track].headline
            value = (row.get("scores") or {}).get(metric.name)
            if value is not None:
                yield key, (value - metric.lowest) / (metric.highest - metric.lowest)


def _missed(desk: _Diagnosis) -> Iterator[_Missed]:
    """Yield the answers in the lower half of their scale."""
    wrong = {key for key, value in _scored(desk) if value < 0.5}
    predictions = desk.run.rows("predictions")
    for track in desk.data.tracks:
        for sample in track.samples():
            for repeat in range(desk.settings.repeats):
                key = AnswerKey(track.task.track, sample.benchmark_id, repeat)
                if key in wrong:
                    error = str(predictions.get(key, {}).get("error") or "")
                    # So `MemoryFailed` begins; other errors are the reader's.
                    failed = error if error.startswith("memory, ") else ""
                    yield _Missed(key, track.task, sample, failed)


def _lives(desk: _Diagnosis, missed: list[_Missed]) -> dict[str, Life]:
    """Return the users of samples that were not looked for yet, with all ends of theirs."""
    lives: dict[str, Life] = {}
    for track in desk.data.tracks:
        if (recall := track.task.by_memory.recall) is None:
            continue
        for sample in track.samples():
            place = recall.place(sample)
            life = lives.setdefault(place.key, Life())
            # All ends, not those of wrong answers alone: the run settled at each, and memories may
            # differ where a system is settled less often.
            life.ends.setdefault(place.turns, (track.task, sample))
    looked_for = set(desk.located)
    for one in missed:
        if one.sample_key not in looked_for:
            looked_for.add(one.sample_key)
            place = one.recall.place(one.sample)
            life = lives[place.key]
            life.wanted.setdefault(place.turns, []).append(_wanted(desk, one, life))
    return {name: life for name, life in lives.items() if life.wanted}


def _wanted(desk: _Diagnosis, one: _Missed, life: Life) -> SoughtSample:
    recall, told = one.recall, None
    evidence = recall.evidence(one.sample)
    if evidence is not None and evidence.positions:
        first = evidence.positions[0]
        # The run may have settled within the session, where it asked something.
        told = min(end for end in life.ends if end > first)
        end = 0
        for session in recall.history(one.sample).sessions:
            end += len(session)
            if end > first:
                told = min(told, end)
                break
    hits = tuple(desk.hits.get(one.sample_key, ()))
    return SoughtSample(one.sample_key, recall.place(one.sample).query, one.needed, told, hits)


async def _locate_all(desk: _Diagnosis, memory: Store, lives: Mapping[str, Life]) -> None:
    judge, timeout = desk.services.judge, desk.settings.timeout
    replay = Replay(memory, judge, k=desk.keys.k, timeout=timeout)
    await replay.open(desk.place / FOLDER / "memory")
    gate = asyncio.Semaphore(_USERS_AT_ONCE)

    async def locate(name: str, life: Life) -> None:
        async with gate:
            found: Mapping[str, Located | None]
            try:
                found = await replay.look(name, life)
            except MemoryFailed:
                wanted = [one for ones in life.wanted.values() for one in ones]
                found = {one.key: None for one in wanted}
        for sample, located in found.items():
            desk.keep_located(sample, located)

    await asyncio.gather(*(locate(name, life) for name, life in lives.items()))


def _found(desk: _Diagnosis, one: _Missed) -> tuple[Found | None, Found | None]:
    """Return what of the memories shown says what is needed, and what of all hits."""
    hits = desk.hits.get(one.sample_key, [])[: desk.keys.k]
    located = desk.located.get(one.sample_key)
    hit = find([hit.text for hit in hits], one.needed) if located is None else located.hit
    # One that was shortened may have lost the very words: the budget cut it.
    whole = len(hits) - cut(hits, desk.keys.most_context, dated=one.recall.dated).left_out
    return (hit if hit is not None and hit.place <= whole else None), hit


def _held(desk: _Diagnosis, one: _Missed) -> Found | None:
    return held(*_found(desk, one), desk.located.get(one.sample_key))


def _facts(desk: _Diagnosis, one: _Missed) -> AnswerFacts:
    shown, hit = _found(desk, one)
    memory = _held(desk, one)
    return AnswerFacts(
        known=bool(one.needed),
        failed=one.failed,
        shown=shown,
        hit=hit,
        located=desk.located.get(one.sample_key),
        with_evidence=desk.answered.get((one.key, "evidence")),
        with_memory=desk.answered.get((one.key, "memory")),
        verbatim=memory is not None and is_verbatim(memory.text, one.needed),
    )


async def _ask_all(desk: _Diagnosis, missed: list[_Missed]) -> None:
    """Ask the reader of each miss with the evidence alone, and with the memory of it alone."""
    gate = asyncio.Semaphore(desk.settings.records_at_once)

    async def ask(one: _Missed, name: str, shown: Context) -> None:
        async with gate:
            right = await _is_right(desk, one, shown)
        if right is not None:
            desk.keep_answer(one.key, name, right)

    asked = []
    for one in missed:
        for name, shown in _alone(desk, one):
            if (one.key, name) not in desk.answered:
                asked.append(ask(one, name, shown))
    await asyncio.gather(*asked)


def _alone(desk: _Diagnosis, one: _Missed) -> Iterator[tuple[str, Context]]:
    """Yield what the reader of a miss is shown alone, by name."""
    if one.failed or not one.needed:
        return
    evidence = one.recall.evidence(one.sample)
    if evidence is not None:
        yield "evidence", evidence
    memory = _held(desk, one)
    if memory is not None:
        yield "memory", Context(memories=(memory.text,))


async def _is_right(desk: _Diagnosis, one: _Missed, shown: Context) -> bool | None:
    """Ask a reader about a sample with `shown` alone; None where it is not scored."""
    row = [track.task.track for track in desk.data.tracks].index(one.key.track)
    asked = desk.services.systems[row][one.key.repeat]
    assert isinstance(asked, Reader)
    # `evaluate` takes the system of the repeat by its number.
    systems = (Reader(asked.system, fixed("fixed", shown)),) * (one.key.repeat + 1)
    plan = TrackPlan(one.task, lambda: (), systems, {})
    unit = Unit(plan, 0, one.sample, one.key.repeat)
    options = JudgingOptions(extras=False)
    result = await evaluate(unit, desk.services.judge, options, _forget)
    metric = one.task.headline
    scored = None if result.score is None else result.score.scored
    # Not asked again is not wrong: a budget that ends here must blame nobody.
    if scored is None or metric.name not in scored.scores:
        return None
    return scored.scores[metric.name] >= (metric.lowest + metric.highest) / 2


async def _forget(result: UnitResult) -> None:
    """Keep nothing of an answer: only whether it is right is asked for."""


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Print how many wrong answers each stage has."""
    misses = len(diagnosis.misses)
    users = len({miss.user for miss in diagnosis.misses})
    of = f"{misses:,} of {counted(diagnosis.answers, 'answer')} wrong"
    title = f"memory={diagnosis.memory}: {of} ({counted(users, 'user')})"
    rows = []
    for stage in STAGES:
        share, count = diagnosis.shares[stage], diagnosis.count(stage)
        cells = stage, thousands(count), *with_interval(share)
        rows.append(row_of(*cells, style="" if count else "dim"))
    columns = [named("cause"), *figures("wrong answers", "share", "95 % interval")]
    table = Table(title, columns, rows)
    print_parts(console, [table], map(dim, _explained(diagnosis)))


def _explained(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield how certain the stages are, and what each means that has a wrong answer."""
    located = [miss.facts.located for miss in diagnosis.misses]
    looked = [one for one in located if one is not None]
    # A system with an LLM in it may extract other words the second time.
    if differing := sum(not one.same for one in looked):
        yield (
            f"After the second ingestion, the system's hits differ for {differing:,} of "
            f"{counted(len(looked), 'answer')}, so the cause of these errors is less certain."
        )
    for stage in STAGES:
        if diagnosis.count(stage):
            yield f"{stage}: {_MEANINGS[stage]}."


def print_miss(diagnosis: Diagnosis, word: str, console: Console) -> None:
    """Print the diagnosis of one wrong answer.

    Raises:
        UsageError: If `word` means none of them.
    """
    if not diagnosis.misses:
        raise UsageError(f"{diagnosis.folder}: no wrong answers to diagnose")
    where = f"the wrong answers of {diagnosis.folder}"
    key = pick(word, [miss.key for miss in diagnosis.misses], where=where)
    miss = next(miss for miss in diagnosis.misses if miss.key == key)
    title = f"{miss.key}: {miss.stage} ({_MEANINGS[miss.stage]})"
    columns = [named(wraps="no"), named(wraps="fold")]
    print_parts(console, [Table(title, columns, [row_of(*cells) for cells in _rows(miss)])])


def _rows(miss: Miss) -> Iterator[tuple[str, str]]:
    facts = miss.facts
    yield "asked", miss.query
    for text in miss.needed:
        yield "needed", text
    if facts.failed:
        yield "failed", facts.failed
    said: set[str] = set()
    for name, found in _looked_through(facts):
        again = found is not None and found.text in said
        yield name, "no" if found is None else f"{found.place}: {'same' if again else found.text}"
        said |= set() if found is None else {found.text}
    if facts.located is None:
        yield "second ingestion", "not checked, or the system failed"
    elif facts.located.listed is None:
        yield "memories", "the system lists none"
    yield "with the evidence alone", _right(facts.with_evidence)
    yield "with that memory alone", _right(facts.with_memory)


def _looked_through(facts: AnswerFacts) -> Iterator[tuple[str, Found | None]]:
    yield "shown", facts.shown
    yield "among the hits", facts.hit
    if (located := facts.located) is None:
        return
    yield f"among {DEEPER} × k hits", located.ranked
    yield "found by the memory's words", located.indexed
    if located.listed is not None:
        yield "after ingestion", located.was
        of_all = f"among all {counted(located.listed, 'memory', 'memories')}"
        yield of_all, located.kept


def _right(right: bool | None) -> str:
    return "not sent, or no response" if right is None else "right" if right else "wrong"
