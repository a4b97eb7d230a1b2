"""Disturbances other than a kill: a full disk, a folder that can't be written, two processes.

What needs no mount and no race is held by tests/core/test_disturbed.py: clocks, locks, caches.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from crash_runs import Calm, Place, differences, finish

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


def kill_half_way(run: Run, place: Place) -> None:
    """Kill a run in the middle of its predictions."""
    spec = {"kind": "write", "file": "predictions.jsonl", "n": 5, "keep": 0.5}
    finish(place.start(run.words, spec))


def at_the_same_moment(run: Run, place: Place) -> list[str]:
    """Start two processes at once: one of them, or both one after the other, may run."""
    both = [finish(process) for process in [place.start(run.words) for _ in range(2)]]
    well = [ended for ended in both if not ended.problem]
    refused = [ended.refusal("in use by") for ended in both if ended.problem]
    return (
        [*filter(None, refused)] or ([] if well else ["neither was let in"]) or run.compared(place)
    )


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
    for _ in range(3):
        yield "two at the same moment", partial(at_the_same_moment, embedded)
