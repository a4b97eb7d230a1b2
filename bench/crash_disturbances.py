"""Disturbances other than a kill.

A full disk, a folder that can't be written, two processes, clocks, broken caches.
"""

import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from crash_runs import Calm, Place, differences, finish, wait_for_lock

BUSY_SECONDS = 75
DAY, YEAR = 86_400, 365 * 86_400
ROOMS = (8, 40, 90, 140, 170)
"""Kilobytes of a disk that is full while a run of about 190 is written."""


@dataclass(frozen=True)
class Run:
    """A disturbed run: its words, what it leaves undisturbed, and whether it asks a server."""

    words: tuple[str, ...]
    calm: Calm
    asks: bool = False

    def ended(self, place: Place, said: str = "") -> list[str]:
        """Run it to its end; return what is wrong.

        Where it has to say something, that is `said` on one line.
        """
        ended = finish(place.start(self.words))
        lines = ended.errors.splitlines()
        if said and ended.code == 0 and len(lines) == 1 and said in lines[0]:
            return self.compared(place)
        return (
            [ended.problem or f"it did not say {said!r}"]
            if ended.problem or said
            else self.compared(place)
        )

    def compared(self, place: Place) -> list[str]:
        """Return in what it differs from the undisturbed one."""
        return differences(place.out, self.calm.out, manifest=not self.asks)

    def refused(self, place: Place, *expected: str) -> list[str]:
        """Run it where it is to be refused on one line; return what is wrong."""
        problem = finish(place.start(self.words)).refusal(*expected)
        return [problem] if problem else []


def is_possible(folder: Path) -> bool:
    """Tell whether file systems may be mounted here."""
    folder.mkdir()
    try:
        with small_disk(folder, 64):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """Put a file system of so many kilobytes in place of a folder."""
    folder.mkdir(exist_ok=True, parents=True)
    mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder))
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nobody write into a folder, not even root."""
    mount("--bind", str(folder), str(folder))
    try:
        mount("-o", "remount,ro,bind", str(folder))
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def mount(*words: str) -> None:
    """Call mount.

    Raises:
        CalledProcessError: If it is not allowed.
    """
    subprocess.run(["mount", *words], check=True, capture_output=True)


def with_room(folder: Path) -> None:
    """Make room on a small disk."""
    mount("-o", "remount,size=64m", str(folder))


def full_run_folder(run: Run, place: Place, *, kilobytes: int) -> list[str]:
    """Fill the disk of the run folder, and make room again."""
    with small_disk(place.out, kilobytes):
        return run.refused(place, "No space left", "make room") or (
            with_room(place.out) or run.ended(place)
        )


def full_cache(run: Run, place: Place, *, kilobytes: int, said: str) -> list[str]:
    """Fill the disk of the cache, and make room again."""
    cache = place.folder / "cache"
    with small_disk(cache, kilobytes):
        found = run.ended(place, said) if kilobytes > 32 else run.refused(place, said)
        shutil.rmtree(place.out, ignore_errors=True)
        with_room(cache)
        return found or run.ended(place)


def read_only_run_folder(run: Run, place: Place) -> list[str]:
    """Take away the right to write into a run folder that was begun, and give it back."""
    kill_half_way(run, place)
    with read_only(place.out):
        found = run.refused(place, "Read-only file system", "choose another out=")
    return found or run.ended(place)


def read_only_cache(run: Run, place: Place) -> list[str]:
    """Take away the right to write into the folder of the cache, and give it back."""
    (place.folder / "cache").mkdir()
    with read_only(place.folder / "cache"):
        found = run.refused(place, "cache", "set ALPS_CACHE")
    return found or run.ended(place)


def kill_half_way(run: Run, place: Place) -> int:
    """Kill a run in the middle of its predictions; return which process it was."""
    process = place.start(
        run.words, {"kind": "write", "file": "predictions.jsonl", "n": 5, "keep": 0.5}
    )
    finish(process)
    return process.pid


def two_processes(run: Run, place: Place) -> list[str]:
    """Start the same command while it runs already."""
    first = place.start(run.words)
    wait_for_lock(first)
    first.send_signal(signal.SIGSTOP)  # it would be done before the second has begun
    try:
        found = run.refused(place, f"process {first.pid} ", "choose another out=")
    finally:
        first.send_signal(signal.SIGCONT)
    ended = finish(first)
    return found or ([ended.problem] if ended.problem else run.compared(place))


def at_the_same_moment(run: Run, place: Place) -> list[str]:
    """Start two processes at once: one of them, or both one after the other, may run."""
    both = [finish(process) for process in [place.start(run.words) for _ in range(2)]]
    well = [ended for ended in both if not ended.problem]
    refused = [ended.refusal("in use by") for ended in both if ended.problem]
    return (
        [*filter(None, refused)] or ([] if well else ["neither was let in"]) or run.compared(place)
    )


def stale_lock(run: Run, place: Place) -> list[str]:
    """Kill a run, and let its number belong to another process that lives."""
    kill_half_way(run, place)
    (place.out / ".lock").write_text(
        f"process {os.getpid()} on {os.uname().nodename}", encoding="utf-8"
    )
    return run.ended(place)


def jumping_clock(run: Run, place: Place) -> list[str]:
    """Set the clock back by a day, and then forward by a year, while it runs."""
    lead, rest = run.calm.lead, run.calm.held
    jumps = [(lead + rest / 4, -DAY), (lead + rest / 2, DAY + YEAR)]
    ended = finish(place.start(run.words, {"kind": "clock", "jumps": jumps}))
    rows = [json.loads(line) for line in (place.out / "calls.jsonl").read_bytes().splitlines()]
    odd = [row["seconds"] for row in rows if not 0 <= row["seconds"] < BUSY_SECONDS]
    problems = [ended.problem] if ended.problem else run.compared(place)
    return problems + ([f"a call took {odd[0]} s"] if odd else [])


def broken_cache(run: Run, place: Place, *, damage: Callable[[Path], None], said: str) -> list[str]:
    """Damage the file of a cache that a run had filled."""
    cache = place.folder / "cache"
    shutil.copytree(run.calm.out.parent / "cache", cache)
    damage(cache / "replies.sqlite")
    return run.ended(place, said)


def directory_for_cache(run: Run, place: Place) -> list[str]:
    """Put a folder in place of the cache."""
    (place.folder / "cache" / "replies.sqlite").mkdir(parents=True)
    found = run.refused(place, "cache", "set ALPS_CACHE")
    (place.folder / "cache" / "replies.sqlite").rmdir()
    return found or run.ended(place)


def locked_cache(run: Run, place: Place, *, wal: bool) -> list[str]:
    """Hold the cache for as long as the run takes.

    In its WAL mode, or as a program that knows no other.
    """
    (place.folder / "cache").mkdir()
    other = sqlite3.connect(
        place.folder / "cache" / "replies.sqlite", isolation_level=None, check_same_thread=False
    )
    other.execute(f"PRAGMA journal_mode={'WAL' if wal else 'DELETE'}")
    other.execute("CREATE TABLE replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID")
    other.execute("BEGIN IMMEDIATE" if wal else "BEGIN EXCLUSIVE")
    started = time.monotonic()
    try:
        found = (
            run.ended(place, "could not be kept")
            if wal
            else run.refused(place, "locked", "set ALPS_CACHE")
        )
    finally:
        other.close()
    taken = time.monotonic() - started
    return (
        found
        or ([] if wal else run.ended(place))
        or ([f"took {taken:.0f} s"] if taken > BUSY_SECONDS else [])
    )


def garbage(path: Path) -> None:
    """Overwrite the file."""
    path.write_bytes(b"no database " * 1_000)


def cut(path: Path) -> None:
    """Leave half of the file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def other_schema(path: Path) -> None:
    """Put a table of other columns in place of ours."""
    with suppress(FileNotFoundError):
        path.unlink()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE replies (number INTEGER, question TEXT, answer TEXT)")
    other.execute("INSERT INTO replies VALUES (1, 'what', 'that')")
    other.commit()
    other.close()


def disturbances(
    embedded: Run, asking: Run, scratch: Path
) -> Iterator[tuple[str, Callable[[Place], list[str]]]]:
    """Yield what is done by name; those that need a mount only where one is possible."""
    if is_possible(scratch):
        for kilobytes in ROOMS:
            yield "disk full, run folder", partial(full_run_folder, embedded, kilobytes=kilobytes)
        for kilobytes, said in ((8, "set ALPS_CACHE"), (64, "could not be kept")):
            yield "disk full, cache", partial(full_cache, asking, kilobytes=kilobytes, said=said)
        yield "read-only run folder", partial(read_only_run_folder, embedded)
        yield "read-only cache", partial(read_only_cache, asking)
    yield "second process", partial(two_processes, embedded)
    yield from itertools.repeat(
        ("two at the same moment", partial(at_the_same_moment, embedded)), 3
    )
    yield "stale lock, its number reused", partial(stale_lock, embedded)
    for run in (embedded, asking):
        yield "clock jumps", partial(jumping_clock, run)
    for name, damage in (
        ("garbage", garbage),
        ("cut in half", cut),
        ("another schema", other_schema),
    ):
        yield f"cache: {name}", partial(broken_cache, asking, damage=damage, said="put aside")
    yield "cache: a folder", partial(directory_for_cache, asking)
    for wal in (True, False):
        yield (
            f"cache: held by another{'' if wal else ', not in WAL mode'}",
            partial(locked_cache, asking, wal=wal),
        )
