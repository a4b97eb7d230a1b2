"""What end-to-end tests share: the command as its own process, and the files it leaves."""

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import warm

JOURNALS = ("predictions.jsonl", "verdicts.jsonl", "scores.jsonl")
Finished = subprocess.CompletedProcess[str]
Process = subprocess.Popen[str] | warm.WarmProcess


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return an environment without anybody's keys, whose cache lies in `folder`."""
    given = warm.variables()
    kept = {name: value for name, value in given.items() if not name.endswith("_API_KEY")}
    own = {"ALPS_CACHE": str(folder / "cache"), **warm.LOCAL, "COLUMNS": "80"}
    return {**kept, **own, **more}


def start(folder: Path, *words: str, **variables: str) -> Process:
    """Start the command in `folder`, as a child of a parent that has imported what it takes."""
    return begin(folder, words, environment(folder, **variables))


def start_cold(folder: Path, *words: str, **variables: str) -> Process:
    """Start `python -m alps` in `folder`, whatever it is asked for."""
    return begin(folder, words, environment(folder, **variables), cold=True)


def begin(
    folder: Path, words: Sequence[str], given: Mapping[str, str], *, cold: bool = False
) -> Process:
    """Start the command in `folder` with exactly the given environment."""
    if not cold and (address := warm.address_for(given)):
        return warm.WarmProcess(address, words, folder, given)
    return subprocess.Popen(
        [sys.executable, "-m", "alps", *words],
        cwd=folder,
        env=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def install(place: Path, *, cold: bool = False) -> Path:
    """Write `alps` and `python` into `place` as they stand in an installed environment.

    Unless `cold`, `alps` asks the parent of warm processes. No reader may
    run before this is done: what any process holds open for writing can't be started, and a shell
    takes another command of that name.
    """
    python = shlex.quote(sys.executable)
    alps = f"{python} -P -m alps"
    if not cold and (address := warm.address_for(environment(place))):
        alps = f"{python} -I -S {shlex.quote(str(warm.CLIENT))} {shlex.quote(address)}"
    for name, line in {"alps": f"exec {alps}", "python": f"exec {python}"}.items():
        (place / name).write_text(f'#!/bin/sh\n{line} "$@"\n')
        (place / name).chmod(0o755)
    return place


def results(finished: Finished) -> str:
    """Return the words that a run printed, but for how long it took and the answers it had."""
    told = re.sub(r"took [\d.]+ (ms|s|min \d+ s)|\d+ answers? reused", "", finished.stdout)
    return " ".join(told.replace(" · ", " ").split())


def finish(process: Process, timeout: float = 300) -> Finished:
    """Wait for a started command; one that hangs is ended, and fails the test."""
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.wait(), output, errors)


def end(process: Process) -> None:
    """End a started command that nobody waited for."""
    if process.returncode is None:
        process.kill()
        process.communicate()


def run(folder: Path, *words: str, **variables: str) -> Finished:
    """Run the command in `folder` to its end."""
    return finish(start(folder, *words, **variables))


def run_cold(folder: Path, *words: str, **variables: str) -> Finished:
    """Run `python -m alps` in `folder` to its end."""
    return finish(start_cold(folder, *words, **variables))


def wait_until(condition: Callable[[], bool], *, seconds: float = 300) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def rows(path: Path) -> list[dict[str, Any]]:
    """Read a JSON Lines file, every line of which must be complete; a missing one is empty."""
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def write_rows(path: Path, content: Iterable[Any]) -> Path:
    """Write a JSON Lines file; return its path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    return path


def complete_rows(path: Path) -> list[dict[str, Any]]:
    """Read what is complete of a file that somebody is still writing."""
    return [json.loads(line) for line in path.read_bytes().splitlines(True) if line.endswith(b"\n")]


def summary(folder: Path) -> dict[str, Any]:
    """Read the summary of a run."""
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def task1(folder: Path) -> dict[str, Any]:
    """Read the part of a run's summary that is about extraction."""
    return summary(folder)["tracks"]["task1"]


def contents(folder: Path, names: Sequence[str] = (*JOURNALS, "summary.json")) -> dict[str, bytes]:
    """Read the files of a run that the same command must give again, byte for byte."""
    return {name: (folder / name).read_bytes() for name in names}


def files_of(folder: Path) -> dict[str, bytes]:
    """Read every file below a folder, by its place in it."""
    paths = filter(Path.is_file, folder.rglob("*"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def one_line(finished: Finished) -> str:
    """Return an error that a user can mend: exit 2, one line on stderr, nothing else."""
    assert "Traceback" not in finished.stderr, finished.stderr
    assert finished.returncode == 2, (finished.returncode, finished.stderr)
    assert finished.stdout == ""
    assert len(finished.stderr.splitlines()) == 1, finished.stderr
    return finished.stderr


NOT_ASKED = ("baseline_records=0", "judge_check=no")
"""What keeps a judge from being asked more than a verdict for each answer: known items and
baselines are two thirds of the requests of a small run, and have tests of their own.
"""


def extraction(url: str, *words: str) -> tuple[str, ...]:
    """Return the words of a run of both a model and a judge on `url` over the visitors in `data`.

    The judge is asked about neither baselines nor known items unless `words` say so.
    """
    model = ("model=openai/scripted", f"api_base={url}")
    model += ("judge=openai/scripted-judge", f"judge_api_base={url}")
    given = {word.partition("=")[0] for word in words}
    aside = [word for word in NOT_ASKED if word.partition("=")[0] not in given]
    return ("run", "task=extraction", "data=data", *model, *aside, *words)


def edit_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the object in a JSON file."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def damage_file(path: Path, damage: Callable[[list[bytes]], None]) -> None:
    """Change the lines of a file as a crash or a careless hand does."""
    lines = path.read_bytes().splitlines(keepends=True)
    damage(lines)
    path.write_bytes(b"".join(lines))


def torn(lines: list[bytes]) -> None:
    """Leave half of the last line."""
    lines[-1] = lines[-1][: len(lines[-1]) // 2]


def garbage_in_the_middle(lines: list[bytes]) -> None:
    """Overwrite the second line."""
    lines[1] = b"\x00\xff not JSON {\n"


def foreign_lines(lines: list[bytes]) -> None:
    """Put lines of something else after the first."""
    lines[1:1] = [b"\n", b"[1, 2]\n", b'{"hello": "world"}\n']


def torn_to_nothing(lines: list[bytes]) -> None:
    """Leave the first byte."""
    lines[:] = [b"{"]
