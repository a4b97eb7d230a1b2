"""Measure what calibrating a judge takes: python bench/calibrate.py [write=yes].

Writes two label folders, 3,600 items under one binary rubric, and 1,200 under each of three
rubrics, one of them ordinal; all with three people, an adjudicated label, a recorded judge, and
clusters of four items. Prints wall seconds of `python -m alps calibrate`, three times, and its peak
memory. Exits 1 where the best takes longer than the bound, a calibration fails or isn't done with
2,000 bootstrap draws, or a library was imported that it does not need; `write=yes` writes the
section of docs/benchmarks.md.
"""

import inspect
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from document import Bound, Section, missed, terminal, write_section

SECONDS, RUNS, DRAWS = 5.0, 3, 2_000
CLUSTER, JUDGE = 4, "recorded"
SYSTEMS, LANGUAGES = ("alpha", "beta", "gamma"), ("en", "de")
PEOPLE_RIGHT, JUDGE_RIGHT, JUDGE_SILENT = 0.92, 0.88, 0.005
BINARY: Mapping[str, Any] = {"kind": "nominal", "values": [0, 1]}
ORDINAL: Mapping[str, Any] = {"kind": "ordinal", "values": [1, 2, 3, 4, 5]}
FORBIDDEN = ("litellm", "sklearn", "datasets")
PROBE = f"""
import sys
from alps.cli import cli
cli(standalone_mode=False)
sys.stderr.write("\\n" + " ".join(name for name in {FORBIDDEN} if name in sys.modules))
"""


class Scenario(NamedTuple):
    """Rubrics by name, and how many items each has."""

    title: str
    scales: Mapping[str, Mapping[str, Any]]
    items: int


class Finished(NamedTuple):
    """What a command took, and what it said on its error stream."""

    code: int
    seconds: float
    computing: float
    megabytes: float
    complained: str


SCENARIOS = (
    Scenario("one binary rubric, 3,600 items", {"answer": BINARY}, 3_600),
    Scenario(
        "two binary and one ordinal rubric, 1,200 items each",
        {"a": BINARY, "b": BINARY, "tone": ORDINAL},
        1_200,
    ),
)


def write_folder(folder: Path, scenario: Scenario) -> None:
    """Write a label folder whose people and judge are mostly right, else off by one value."""
    chance = random.Random(0)
    items, labels, verdicts = [], [], []
    for rubric, scale in scenario.scales.items():
        for number in range(scenario.items):
            name = f"{rubric}-{number}"
            truth = chance.choice(scale["values"])
            placed = {"system": chance.choice(SYSTEMS), "language": chance.choice(LANGUAGES)}
            payload = {
                "question": f"What does user {number // CLUSTER} like?",
                "answer": f"Thing {number}.",
            }
            cluster = f"user-{number // CLUSTER}"
            items.append(
                {
                    "item_id": name,
                    "rubric": rubric,
                    "cluster": cluster,
                    **placed,
                    "payload": payload,
                }
            )
            given = {
                who: _near(chance, truth, scale["values"], PEOPLE_RIGHT)
                for who in ("anna", "ben", "carla")
            }
            given["adjudicated"] = truth
            labels += [
                {"item_id": name, "annotator": who, "label": label} for who, label in given.items()
            ]
            said = _near(chance, truth, scale["values"], JUDGE_RIGHT)
            verdict = None if chance.random() < JUDGE_SILENT else said
            verdicts.append(
                {"item_id": name, "judge": JUDGE, "verdict": verdict, "raw": f"I would say {said}."}
            )
    folder.mkdir()
    for file, rows in (("items", items), ("labels", labels), ("verdicts", verdicts)):
        _write_rows(folder / f"{file}.jsonl", rows)
    (folder / "scale.json").write_text(json.dumps(scenario.scales), encoding="utf-8")
    (folder / "people.json").write_text(
        json.dumps({"annotators": {"adjudicated": {"kind": "derived"}}})
    )


def timed(words: Sequence[str], folder: Path) -> Finished:
    """Run Python with `words` in `folder`.

    Seconds are the clock's and the processor's, the memory its own.
    """
    with (folder / "complained").open("w+", encoding="utf-8") as complained:
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=complained
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)  # nothing is left to wait for
        complained.seek(0)
        errors = complained.read()
    computing = used.ru_utime + used.ru_stime
    return Finished(process.returncode, seconds, computing, used.ru_maxrss / 1024, errors)


def measure(scenario: Scenario, number: int, folder: Path) -> tuple[list[Bound], list[str]]:
    """Calibrate three times, and once to look at the modules.

    Return the bounds and the row of the table.

    Raises:
        SystemExit: If a calibration fails.
    """
    write_folder(folder / f"labels{number}", scenario)
    words = ["calibrate", f"labels=labels{number}", f"judge={JUDGE}"]
    runs = [timed(["-m", "alps", *words], folder) for _ in range(RUNS)]
    probe = timed(["-c", PROBE, *words], folder)
    if failed := [run for run in (*runs, probe) if run.code]:
        sys.exit(
            f"{scenario.title}: exit {failed[0].code}: {_last_line(failed[0].complained.strip())}"
        )
    imported = _last_line(probe.complained)
    best, peak = min(run.seconds for run in runs), max(run.megabytes for run in runs)
    # A busy machine moves the clock; the processor's seconds tell it from a slower calibration.
    computing = min(run.computing for run in runs)
    every = " ".join(f"{run.seconds:.2f}" for run in runs)
    return [
        Bound(scenario.title, f"≤ {SECONDS:g} s", f"{best:.2f} s", best <= SECONDS),
        Bound(
            f"{scenario.title}: of {', '.join(FORBIDDEN)}", "none", imported or "none", not imported
        ),
    ], [scenario.title, f"{best:.2f}", every, f"{computing:.2f}", f"{peak:.0f}"]


def default_draws() -> int:
    """Return how many bootstrap draws a calibration makes where nothing is said."""
    # Only now: what this process has loaded counts as memory of the children it starts.
    from alps.ext.calibration.calibrate import calibrate

    found: int = inspect.signature(calibrate).parameters["draws"].default
    return found


def section(bounds: list[Bound], cells: list[list[str]]) -> Section:
    """Return the section of the page."""
    text = (
        "What `alps calibrate` takes, from the start of the command to its page: three people and "
        f"an adjudicated\nlabel for every item, a recorded judge, and clusters of {CLUSTER} items. "
        f"The best of {RUNS} runs, each a process of\nits own."
    )
    return Section(
        "calibrate",
        "Calibrating a judge",
        text,
        bounds,
        "python bench/calibrate.py write=yes",
        cells,
    )


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    if sys.argv[1:] not in ([], ["write=yes"]):
        sys.exit(f"{' '.join(sys.argv[1:])}: this benchmark takes write=yes, or nothing.")
    bounds, cells = [], [["what", "best s", "all runs, s", "processor s", "peak MB"]]
    with tempfile.TemporaryDirectory() as name:
        for number, scenario in enumerate(SCENARIOS):
            found, row = measure(scenario, number, Path(name))
            bounds += found
            cells.append(row)
    draws = default_draws()
    bounds.append(Bound("bootstrap draws", f"≥ {DRAWS:,}", f"{draws:,}", draws >= DRAWS))
    print(terminal(cells), *(missed(bounds) or ["Every bound is held."]), sep="\n")
    if "write=yes" in sys.argv:
        write_section(section(bounds, cells))
    sys.exit(1 if missed(bounds) else 0)


def _near(chance: random.Random, truth: int, values: Sequence[int], right: float) -> int:
    """Return the truth, or a value beside it."""
    beside = [value for value in values if abs(value - truth) == 1]
    return truth if chance.random() < right else chance.choice(beside)


def _last_line(text: str) -> str:
    return text.rpartition("\n")[2]


def _write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
