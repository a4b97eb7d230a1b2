"""Shards of a run: it is divided, others carry them out, and they leave the run in its place.

The others are processes of this machine, or the workers of a cluster.
"""

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from alps import errors
from alps.errors import AlpsError, BudgetError, RunFolderError, UsageError
from alps.event_loop import run_loop, stopping_together
from alps.ext.fleet import HERE
from alps.ext.fleet.merge import merge
from alps.ext.fleet.settings import FleetKeys, FleetRunPart, records_by_session
from alps.ext.fleet.worker import ENTRY, LONGEST, as_line
from alps.ext.sizes import smaller_sizes
from alps.ext.sizes.part import folder_of
from alps.jsonl import parse_json
from alps.llm.ledger import Totals, counted_in
from alps.llm.secrets import redact
from alps.run.engine import failure_of
from alps.run.folder import changed_code, locked_folder
from alps.run.fresh import edited, is_begun, is_whole, kept_former, set_aside
from alps.run.opened import MANIFEST, SUMMARY, open_run, read_manifest
from alps.run.progress import Advance, progress_line
from alps.run.session import RunSession, resolve, run_folder
from alps.run.source import RunData
from alps.run.start import run_here
from alps.run.summary import Finished
from alps.settings import OPERATIONAL, RunSettings
from alps.text import whole_number

_MOST_ENDINGS = 3
_NOT_OF_SHARDS = ("engine", "workers", "scheduler", "config", "dry_run", "out", "fresh")
# What all workers keep to together is divided among them: each keeps to its part
_LIMITS = ("concurrency", "requests_per_minute", "judge_requests_per_minute")
# Seconds that a worker has to end in before it is killed
_PATIENCE = 10.0


# Seconds between two looks at how far the shards are
_LOOK = 0.5


@dataclass(frozen=True)
class Divided:
    """A run and its shards.

    Attributes:
        settings: What the user gave.
        folder: That of the run; it is made once all shards are finished.
        count: How many shards there are.
        workers: How many of them are carried out at once.
        data: What is asked about.
        records: How many answers the whole run has.
    """

    settings: RunSettings
    folder: Path
    count: int
    workers: int
    data: RunData
    records: int

    @property
    def place(self) -> Path:
        """The folder that holds the folders of the shards."""
        return _place_of(self.folder)

    @property
    def shards(self) -> list[Path]:
        """The folders of all shards."""
        return [self.shard(number) for number in range(1, self.count + 1)]

    def shard(self, number: int) -> Path:
        """Return the folder of a shard; numbers begin at 1."""
        return self.place / f"{number}-of-{self.count}"

    def left(self) -> list[int]:
        """Return the numbers of the shards that are not finished."""
        return [n for n in range(1, self.count + 1) if not _is_finished(self.shard(n))]

    def settings_of(self, number: int) -> dict[str, Any]:
        """Return the settings of a shard as JSON has them, with its part of limits and caps."""
        given = self.settings.model_dump(mode="json", include=self.settings.model_fields_set)
        kept = {name: given[name] for name in given if name not in _NOT_OF_SHARDS}
        out = str(self.shard(number).absolute())
        return {**kept, **self._parts_of(number), "shard": f"{number}/{self.count}", "out": out}

    def _parts_of(self, number: int) -> dict[str, Any]:
        """Return the limits of one worker, and what a shard may spend with what it has spent."""
        settings = self.settings
        parts: dict[str, Any] = {}
        for name in _LIMITS:
            value = getattr(settings, name)
            if isinstance(value, int):
                parts[name] = value // self.workers
        tokens, cost = counted_in([self.shard(number)])
        all_tokens, all_cost = counted_in(self.shards)
        sharing = max(1, len(self.left()))
        if settings.max_total_tokens is not None:
            left = max(0, settings.max_total_tokens - all_tokens)
            parts["max_total_tokens"] = tokens + left // sharing
        if settings.max_cost is not None:
            parts["max_cost"] = cost + max(0.0, settings.max_cost - all_cost) / sharing
        return parts

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder of the shards against other processes.

        Raises:
            RunFolderError: If another process does.
        """
        with locked_folder(self.place):
            yield


def divide(settings: RunSettings, *, workers: int | None = None, keys: bool = True) -> Divided:
    """Divide a run, or find how it was divided.

    Args:
        settings: What the user gave.
        workers: How many there are where `workers=` does not say.
        keys: Whether keys are asked for here, and not by the workers alone.

    Raises:
        AlpsError: If the run can't be carried out, or one process began it.
    """
    fleet = FleetKeys.of(settings)
    if fleet.shard is not None:
        raise UsageError(
            f"shard={fleet.shard}: engine={fleet.engine} makes the shards itself; leave out shard="
        )
    for key in ("audit_judge", "audit_labels"):
        if (value := getattr(settings, key, None)) is not None:
            why = f"engine={fleet.engine} cannot audit; audit the finished run with alps score"
            raise UsageError(f"{key}={value}: {why}")
    session = resolve(settings, dry=not keys)
    folder = session.folder
    _check_code(session)
    if folder.exists() and any(folder.iterdir()):
        raise RunFolderError(
            f"{folder}: this run used one process; resume it without engine=, or choose "
            "another out="
        )
    at_once = fleet.workers or workers or os.cpu_count() or 1
    at_once = min([at_once, *_limits_of(settings)])
    # A shard a worker and no more: each shard checks its memory system, which takes 64 searches.
    # As before, whatever the number of workers is now: another division would begin anew.
    count = _count_in(_place_of(folder)) or min(at_once, len(records_by_session(session.data)))
    sizes = 1 + len(smaller_sizes(settings))
    records = sizes * settings.repeats * session.data.n
    return Divided(settings, folder, count, at_once, session.data, records)


def _check_code(session: RunSession) -> None:
    """Refuse shards that other code answered, or remove them where all is to be answered again.

    Raises:
        RunFolderError: If a shard was answered by code that was edited since.
    """
    folder, fresh = session.folder, session.settings.fresh
    place = _place_of(folder)
    if fresh:
        set_aside(folder, session.settings.recorded(), session.code)
    for path in sorted(place.glob(f"*-of-*/{MANIFEST}")):
        changed = changed_code(read_manifest(path.parent).code, session.code)
        if not changed or not is_begun(path.parent):
            continue
        if not fresh:
            raise edited(folder, changed)
        with locked_folder(place):
            shutil.rmtree(place)
        return


def merged(run: Divided) -> Finished:
    """Merge the shards of a run, and remove them.

    Raises:
        BudgetError: If the budget ended a shard; they stay, and a larger one goes on from there.
        AlpsError: If they can't be merged.
    """
    whole = is_whole(run.folder)
    if run.left():
        raise BudgetError(
            "the budget is spent; to resume, repeat the command with a larger budget; to score the "
            f"finished records, run alps merge OUT {run.place}/*"
        )
    given = run.settings
    names = (given.model_fields_set & OPERATIONAL).difference(_NOT_OF_SHARDS)
    finished = merge(
        run.folder, run.shards, typed={name: getattr(given, name) for name in names}, data=run.data
    )
    shutil.rmtree(run.place, ignore_errors=True)
    return replace(finished, former=kept_former(run.folder, was_whole=whole))


def _limits_of(settings: RunSettings) -> list[int]:
    """Return the limits that are divided: more workers than one of them allows would do nothing."""
    limits = (getattr(settings, name) for name in _LIMITS)
    return [limit for limit in limits if isinstance(limit, int)]


@asynccontextmanager
async def watched(run: Divided) -> AsyncIterator[None]:
    """Show how a run goes on, by the rows of its shards' journals."""
    totals, numbers = Totals(), range(1, run.count + 1)
    title = f"{run.settings.task} {redact(run.settings.model)}"
    with progress_line(title, run.records, totals) as advance:
        journals = [path for number in numbers for path in _journals(run, number, "scores")]
        records = CountedRecords(journals, advance)
        calls = [Rows(run.shard(number) / "calls.jsonl") for number in numbers]

        def look() -> None:
            for row in (row for file in calls for row in file.new()):
                cost, answered = row.get("cost"), row.get("outcome") != "transport"
                totals.calls += 1
                totals.cost += cost if isinstance(cost, int | float) else 0.0
                totals.unpriced += answered and cost is None
            records.look()

        async def look_on() -> None:
            while True:
                look()
                await asyncio.sleep(_LOOK)

        looking = asyncio.ensure_future(look_on())
        try:
            yield
            look()
            records.end()
        finally:
            looking.cancel()


def _journals(run: Divided, number: int, name: str) -> list[Path]:
    sizes = [folder_of(Path(), size) for size in smaller_sizes(run.settings)]
    return [run.shard(number) / place / f"{name}.jsonl" for place in (Path(), *sizes)]


class CountedRecords:
    """Counts the scored records of journals, each once, those of earlier sessions first.

    Where an earlier session has no score for a record, that is counted by its next row, or at the
    end: nothing is written where it fails as before.
    """

    def __init__(self, journals: Sequence[Path], advance: Advance) -> None:
        self._files, self._advance = [Rows(path) for path in journals], advance
        self._counted: set[int] = set()
        self._earlier = dict(self._new())
        for key, (scored, failure) in list(self._earlier.items()):
            if scored:
                self._count(key, scored, failure)

    def look(self) -> None:
        """Count what is new."""
        for key, (scored, failure) in self._new():
            self._count(key, scored, failure)

    def end(self) -> None:
        """Count what is still as an earlier session left it."""
        for key, (scored, failure) in list(self._earlier.items()):
            self._count(key, scored, failure)

    def _new(self) -> Iterator[tuple[int, tuple[bool, str]]]:
        for number, file in enumerate(self._files):
            for row in file.new():
                names = (row.get(name) for name in ("track", "benchmark_id", "repeat"))
                failure = failure_of(str(row.get("outcome")), str(row.get("stage")))
                yield hash((number, *map(str, names))), (bool(row.get("scores")), failure)

    def _count(self, key: int, scored: bool, failure: str) -> None:
        self._earlier.pop(key, None)
        if key not in self._counted:
            self._counted.add(key)
            self._advance(scored, failure)


class Rows:
    """Rows of a file to which others append, each read once; all again where it was replaced."""

    def __init__(self, path: Path) -> None:
        self._path, self._read, self._file = path, 0, 0

    def new(self) -> Iterator[Mapping[str, Any]]:
        """Yield the rows that are whole since the last time."""
        with suppress(OSError), self._path.open("rb") as file:
            same = os.fstat(file.fileno()).st_ino == self._file
            self._file = os.fstat(file.fileno()).st_ino
            self._read = self._read if same else 0
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                with suppress(ValueError):
                    row = parse_json(line)
                    if isinstance(row, dict):
                        yield row


class Endings:
    """Counts how often a shard ended its process without one more row, and gives up in the end."""

    def __init__(self, run: Divided) -> None:
        self._run = run
        self._sizes: dict[int, int] = {}
        self._endings: dict[int, int] = {}

    def add(self, number: int, how: str) -> None:
        """Note that the process of a shard ended before the shard did.

        Raises:
            AlpsError: If it did so several times over, and got nowhere.
        """
        shard = self._run.shard(number)
        size = sum(path.stat().st_size for path in shard.rglob("*.jsonl"))
        grown = size > self._sizes.get(number, 0)
        self._sizes[number] = size
        self._endings[number] = 1 if grown else self._endings.get(number, 0) + 1
        if self._endings[number] >= _MOST_ENDINGS:
            raise AlpsError(
                f"{shard}: {how} {_MOST_ENDINGS} times without a new answer; to resume the run, "
                "repeat the same command"
            )


def raise_error_of(answer: Mapping[str, str]) -> None:
    """Raise the error that a worker answered with, if it was one.

    Raises:
        AlpsError: Of the kind that it was there.
    """
    if "error" in answer:
        error = AlpsError(answer["message"])
        error.exit_code = getattr(errors, answer["error"], AlpsError).exit_code
        raise error


def _place_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.shards")


def _count_in(place: Path) -> int | None:
    for shard in place.glob("*-of-*"):
        if count := whole_number(shard.name.rpartition("-")[2]):
            return count
    return None


def _is_finished(shard: Path) -> bool:
    return (shard / SUMMARY).exists() and not open_run(shard).finished.stopped_by_budget


def run(settings: RunSettings) -> Finished:
    """Run or resume a run with the engine that it names.

    A run that is finished already goes on in this process: there is little left to ask.

    Raises:
        AlpsError: If the settings, the data or the folder can't be used, or a shard fails.
    """
    keys, finished = FleetKeys.of(settings), (run_folder(settings) / SUMMARY).exists()
    if keys.engine == HERE or (finished and not settings.fresh):
        return run_here(settings)
    # Refused here, too: the workers of a cluster are counted before the run is resolved.
    FleetRunPart(settings).refuse()
    if keys.engine == "processes":
        divided, carry_out = divide(settings), carry_out_in_processes
    else:
        from alps.ext.fleet.cluster import carry_out_on_cluster, count_workers

        # The keys are those of the workers: here there may be none.
        workers = keys.workers or run_loop(count_workers(str(keys.scheduler)))
        divided, carry_out = divide(settings, workers=workers, keys=False), carry_out_on_cluster
    with divided.held():
        if divided.left():
            run_loop(carry_out(divided))
        return merged(divided)


async def carry_out_in_processes(run: Divided) -> None:
    """Run the unfinished shards, each in a process of its own.

    Raises:
        AlpsError: If one fails; the others are ended.
    """
    left, endings, known = iter(run.left()), Endings(run), run.data.description

    async def work(turn: int, workers: int) -> None:
        # One stream for all: who gets the short ones takes more of them.
        for number in left:
            # Read once, here: to draw every pool again took each shard longer than its own part.
            order = {"settings": run.settings_of(number), "data": known, "turn": [turn, workers]}
            while not await _is_carried_out(order):
                endings.add(number, "its process ended")

    async with watched(run):
        most = min(run.workers, run.count)
        working = (work(turn, most) for turn in range(most))
        async with stopping_together(working) as workers:
            # Not gathered: where this is cancelled each worker is cancelled once, and has time
            # to wait for its process.
            for ended in asyncio.as_completed(workers):
                await ended


async def _is_carried_out(order: Mapping[str, Any]) -> bool:
    """Carry out a shard; tell whether its process lived to say so."""
    async with _worker() as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(as_line(order))
        answer = await worker.stdout.readline()
    if not answer:
        return False
    raise_error_of(json.loads(answer))
    return True


@asynccontextmanager
async def _worker() -> AsyncIterator[Process]:
    """Start a worker, and end it on leaving."""
    # In a session of its own: Ctrl-C is for the parent, which then ends its workers.
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, *ENTRY), stdin=PIPE, stdout=PIPE, start_new_session=True, limit=LONGEST
    )
    try:
        yield worker
    finally:
        ending = asyncio.ensure_future(_ended(worker))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            # Another shard may fail while this one's process ends: left alone, it would outlive
            # the loop, which then complains on the screen.
            await ending
            raise


async def _ended(worker: Process) -> None:
    """Wait until a worker has ended by itself; kill it where that takes long."""
    assert worker.stdin is not None
    worker.stdin.close()
    try:
        await asyncio.wait_for(worker.wait(), _PATIENCE)
    except TimeoutError:
        worker.kill()
        await worker.wait()
