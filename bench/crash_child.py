"""Run the command as `python -m alps` does, and die, or lose the clock, at one exact place.

    python bench/crash_child.py SPEC [WORDS OF alps …]

SPEC is JSON with `kind`, and what the kind needs; `n` counts from 1, `keep` is the part that
reaches the disk:

- `write` (file, n, keep): the n-th write to the file gets as far as `keep`, then `kill -9`;
- `fsync` (file, n, keep): `kill -9` before the n-th fsync of the file, of whose last write `keep`
  is left, as after a loss of power;
- `replace` (file, when): `kill -9` `before` or `after` the file is put in its place;
- `flock` (when): `kill -9` before or after the run folder is locked;
- `transaction` (n): `kill -9` in the transaction of the n-th reply of the cache, whose pages are on
    disk by then;
- `frame` (n): the system ends the process within the write of that reply to the log of the cache;
- `checkpoint` (n): the same, within the writing of the log of the cache into its database;
- `clock` (jumps): from so many seconds after the start, the clock is so many seconds ahead.

Nothing is simulated but the moment: it is a process of its own that is ended by the kernel.
"""

import fcntl
import json
import os
import resource
import runpy
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

FILLERS, PAGE = 60, 4_096


def die() -> NoReturn:
    """End this process at once; nothing is flushed, no handler runs."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit("unreachable: SIGKILL can't be caught")


def name_of(file: int) -> str:
    """Return the name of an open file."""
    return os.path.basename(os.readlink(f"/proc/self/fd/{file}"))


class Counter:
    """Tells when something has happened for the n-th time to the file that is named."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.file, self.left = spec.get("file", ""), int(spec.get("n", 1))

    def is_due(self, name: str) -> bool:
        """Count, and tell whether this is the time."""
        if self.file and name != self.file:
            return False
        self.left -= 1
        return self.left == 0


def at_write(spec: dict[str, Any]) -> None:
    """Die within a write."""
    counter, write = Counter(spec), os.write

    def torn(file: int, data: Any) -> int:
        if counter.is_due(name_of(file)):
            write(file, bytes(data)[: int(len(data) * spec["keep"])])
            die()
        return write(file, data)

    os.write = torn


def at_fsync(spec: dict[str, Any]) -> None:
    """Die between a write and its fsync, and lose what the disk did not get."""
    counter, fsync = Counter(spec), os.fsync
    synced: dict[str, int] = {}

    def lost(file: int) -> None:
        place, size = os.readlink(f"/proc/self/fd/{file}"), os.fstat(file).st_size
        if counter.is_due(name_of(file)):
            before = synced.get(place, 0)
            os.ftruncate(file, before + int((size - before) * spec["keep"]))
            die()
        fsync(file)
        synced[place] = size

    os.fsync = lost  # type: ignore[assignment]


def at_replace(spec: dict[str, Any]) -> None:
    """Die before or after a file is put in its place."""
    counter, replace = Counter(spec), os.replace

    def stopped(source: Any, target: Any, **more: Any) -> None:
        due = counter.is_due(os.path.basename(target))
        if due and spec["when"] == "before":
            die()
        replace(source, target, **more)
        if due:
            die()

    os.replace = stopped  # type: ignore[assignment]


def at_flock(spec: dict[str, Any]) -> None:
    """Die before or after the run folder is locked."""
    flock = fcntl.flock

    def stopped(file: int, operation: int) -> None:
        if spec["when"] == "before":
            die()
        flock(file, operation)
        die()

    fcntl.flock = stopped  # type: ignore[assignment]


def within(limit: int, statements: Callable[[], object]) -> NoReturn:
    """Run statements in which a file would grow over `limit` bytes.

    The system writes up to there, and no further.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    statements()
    raise SystemExit("the disturbance did not happen: everything fitted")


class DyingConnection(sqlite3.Connection):
    """A connection that ends its process at one of its insertions."""

    kind, counter = "", Counter({})

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement; at the one that is due, die in the middle of what it takes."""
        if statement.startswith("INSERT") and self.counter.is_due(""):
            path = super().execute("PRAGMA database_list").fetchone()[2]
            if self.kind == "transaction":
                self.spill(statement, *values)
            if self.kind == "frame":
                within(
                    os.path.getsize(f"{path}-wal") + PAGE // 2,
                    lambda: super(DyingConnection, self).execute(statement, *values),
                )
            for number in range(FILLERS):
                super().execute(statement, (f"committed {number}", "x" * PAGE))
            limit = os.path.getsize(path) + FILLERS // 2 * PAGE
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            within(
                limit, lambda: super(DyingConnection, self).execute("PRAGMA wal_checkpoint(FULL)")
            )
        return super().execute(statement, *values)

    def spill(self, statement: str, *values: Any) -> NoReturn:
        """Write a transaction larger than what is kept in memory, and die before its commit."""
        for pragma in ("PRAGMA cache_size=1", "BEGIN IMMEDIATE"):
            super().execute(pragma)
        super().execute(statement, *values)
        for number in range(FILLERS):
            super().execute(statement, (f"never committed {number}", "x" * PAGE))
        die()


def at_insertion(spec: dict[str, Any]) -> None:
    """Die within what the cache writes."""
    DyingConnection.kind, DyingConnection.counter = spec["kind"], Counter({"n": spec["n"]})
    connect = sqlite3.connect
    sqlite3.connect = lambda *words, **more: connect(*words, factory=DyingConnection, **more)  # type: ignore[assignment]


def with_clock(spec: dict[str, Any]) -> None:
    """Let the clock of the wall jump.

    The monotonic clocks go on, as they do when somebody sets a clock.
    """
    started, now, now_ns = time.perf_counter(), time.time, time.time_ns

    def ahead() -> float:
        passed = time.perf_counter() - started
        return sum(float(seconds) for moment, seconds in spec["jumps"] if passed >= moment)

    time.time = lambda: now() + ahead()
    time.time_ns = lambda: now_ns() + int(ahead() * 1e9)


DISTURB = {"write": at_write, "fsync": at_fsync, "replace": at_replace, "flock": at_flock}
DISTURB |= dict.fromkeys(("transaction", "frame", "checkpoint"), at_insertion)
DISTURB["clock"] = with_clock


def main() -> None:
    """Arm the disturbance, and become the command."""
    spec = json.loads(sys.argv[1])
    DISTURB[spec["kind"]](spec)
    sys.argv[:] = ["alps", *sys.argv[2:]]
    sys.path[0] = os.getcwd()
    runpy.run_module("alps", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
