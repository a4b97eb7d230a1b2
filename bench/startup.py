"""Measure what a user waits for before anything is evaluated.

Python bench/startup.py [demo=yes] [write=yes].

Takes seconds and peak memory of `alps --help` (best of five, and the median), of an extraction run
over 1,000 short samples with an instant embedded system, and of every command that looks at what is
finished; and asks each which of the heavy libraries it has loaded. `demo=yes` clones the repository
into a temporary folder and times `make demo` there, the second time, when its environment is made;
the first installs with pip. Exits 1 where a bound is missed.
"""

import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from document import Bound, Section, at_most, finish
from processes import Taken, taken
from words import read_words

SAMPLES, TURNS, TIMES = 1_000, 2, 5
HELP_SECONDS, RUN_SECONDS, RUN_MEGABYTES, DEMO_SECONDS = 0.25, 3.0, 150.0, 5.0
HEAVY = ("litellm", "sklearn", "datasets", "scipy", "pandas")
FORBIDDEN = HEAVY[:3]
ROOT = Path(__file__).resolve().parent.parent
SUBMISSION = ROOT / "leaderboard" / "submissions" / "rules"
PROBE = f"""
import sys
from alps.cli import main
try:
    main()
finally:
    sys.stderr.write("\\nloaded: " + " ".join(name for name in {HEAVY} if name in sys.modules))
"""
RUN = "run task=extraction model=rules data=samples out={}"
COMMANDS: Mapping[str, str] = {
    "--help": "--help",
    "run --help": "run --help",
    "run, on our samples": RUN.format("third"),
    "run, a dry one": "run task=all model=rules data=samples dry_run=yes",
    "score": "score one judge=lexical",
    "show": "show one 1",
    "ls": "ls .",
    "report": "report one out=report.html",
    "compare": "compare one two",
    "submit, a dry one": "leaderboard submit one name=Ours dry_run=yes",
    "verify": f"leaderboard verify {SUBMISSION} reviewed=yes",
    "data audit": "data audit data=samples",
    "data pools": "data pools data=samples distractors=100 out=pools",
    "annotate draw": "annotate draw answered n=10 out=labels",
    "calibrate": "calibrate judge=lexical labels=stress out=calibrated",
    "leaderboard build": "leaderboard build out=site",
    "doctor": "doctor",
    "completion": "completion bash",
}
"""Every command that needs no model, by what the table calls it; `one`, `two` and `answered` are
finished runs.
"""
LIGHT = ("--help", "show", "compare", "verify")


class Started(NamedTuple):
    """What a command took, and which heavy libraries it had loaded in the end."""

    name: str
    took: Taken
    loaded: list[str]


def probed(name: str, command: str, folder: Path) -> Started:
    """Run a command of alps once, and look at its modules."""
    found = taken(["-c", PROBE, *command.split()], folder)
    return Started(name, found, found.complained.rpartition("loaded:")[2].split())


def short_run(folder: Path) -> Started:
    """Run over 1,000 short samples three times, each from the beginning.

    Return the fastest, with the most memory.
    """
    samples = Path(__file__).resolve().parent / "short_samples.py"
    taken([str(samples), str(folder / "data"), str(SAMPLES), str(TURNS)], folder)
    name, words = f"run, {SAMPLES:,} samples", "run task=extraction model=rules data=data out=run{}"
    runs = [probed(name, words.format(number), folder) for number in range(3)]
    best = min(runs, key=lambda run: run.took.seconds)
    return best._replace(took=best.took._replace(megabytes=max(run.took.megabytes for run in runs)))


def every_command(folder: Path) -> Iterator[Started]:
    """Yield what each command takes; what they look at is made before."""
    for words in (RUN.format("one"), "run task=extraction model=oracle data=samples out=two"):
        taken(["-m", "alps", *words.split()], folder)
    answered = "run task=utilization ability=pa model=rules data=samples out=answered"
    taken(["-m", "alps", *answered.split()], folder)
    for name, command in COMMANDS.items():
        yield probed(name, command, folder)


def demo(folder: Path) -> Taken:
    """Clone the repository, make its environment, and run `make demo` again in it."""
    git, make = shutil.which("git"), shutil.which("make")
    if not git or not make:
        sys.exit("demo=yes needs git and make.")
    taken(["clone", "--quiet", str(ROOT), "clone"], folder, program=git)
    first = ["--silent", "--directory=clone", f"PYTHON={sys.executable}", "demo"]
    taken(first, folder, program=make)
    again = [taken(first, folder, program=make) for _ in range(3)]
    return min(again, key=lambda each: each.seconds)


def bounds(started: list[Started], helped: list[float], warm: Taken | None) -> Iterator[Bound]:
    """Yield what is promised, and what came of it."""
    best, median = min(helped), statistics.median(helped)
    shown = f"{best:.3f} s, median {median:.3f}"
    yield Bound("alps --help", f"≤ {HELP_SECONDS} s", shown, best <= HELP_SECONDS)
    run = started[0]
    yield at_most(run.name, RUN_SECONDS, run.took.seconds, "{:.2f} s")
    yield at_most(f"{run.name}: peak memory", RUN_MEGABYTES, run.took.megabytes, "{:.0f} MB")
    for name in LIGHT:
        loaded = next(each.loaded for each in started if each.name == name)
        found = ", ".join(library for library in loaded if library in FORBIDDEN)
        what = f"alps {name}: of {', '.join(FORBIDDEN)}"
        yield Bound(what, "none", found or "none", not found)
    if warm is not None:
        yield at_most("make demo, warm", DEMO_SECONDS, warm.seconds, "{:.2f} s")


def table(started: list[Started]) -> Iterator[list[str]]:
    """Yield the heading and the rows of the table."""
    yield ["command", "wall s", "processor s", "peak MB", *HEAVY]
    for name, took, loaded in started:
        marks = ["yes" if library in loaded else "–" for library in HEAVY]
        spent = f"{took.seconds:.2f}", f"{took.computing:.2f}", f"{took.megabytes:.0f}"
        yield [name, *spent, *marks]


TEXT = f"""
What a user waits for. `alps --help` is the best of {TIMES}; the run over {SAMPLES:,} short
samples, by `model=rules` under the lexical judge, the best of three; every other command is
started once, on our samples, and asked for the heavy libraries that it has loaded by its end.
`make demo`, where it is measured, runs in a clone whose environment is made.
"""


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], {"demo": ""})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        helped = [taken(["-m", "alps", "--help"], folder).seconds for _ in range(TIMES)]
        started = [short_run(folder), *every_command(folder)]
        warm = demo(folder) if words["demo"] else None
    cells, promised = list(table(started)), list(bounds(started, helped, warm))
    command = " ".join(["python bench/startup.py", *sys.argv[1:]])
    section = Section("startup", "Start", TEXT, promised, command, cells)
    finish(section, write=words["write"])


if __name__ == "__main__":
    main()
