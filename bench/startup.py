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

from document import Bound, Section, missed, terminal, write_section
from processes import Taken, taken

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
    runs = [
        probed(
            f"run, {SAMPLES:,} samples",
            f"run task=extraction model=rules data=data out=run{number}",
            folder,
        )
        for number in range(3)
    ]
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
    yield Bound(
        "alps --help",
        f"≤ {HELP_SECONDS} s",
        f"{best:.3f} s, median {median:.3f}",
        best <= HELP_SECONDS,
    )
    run = started[0]
    yield Bound(
        run.name,
        f"≤ {RUN_SECONDS:g} s",
        f"{run.took.seconds:.2f} s",
        run.took.seconds <= RUN_SECONDS,
    )
    held = run.took.megabytes <= RUN_MEGABYTES
    yield Bound(
        f"{run.name}: peak memory",
        f"≤ {RUN_MEGABYTES:.0f} MB",
        f"{run.took.megabytes:.0f} MB",
        held,
    )
    for name in LIGHT:
        loaded = next(each.loaded for each in started if each.name == name)
        found = [library for library in loaded if library in FORBIDDEN]
        yield Bound(
            f"alps {name}: of {', '.join(FORBIDDEN)}", "none", ", ".join(found) or "none", not found
        )
    if warm is not None:
        yield Bound(
            "make demo, warm",
            f"≤ {DEMO_SECONDS:g} s",
            f"{warm.seconds:.2f} s",
            warm.seconds <= DEMO_SECONDS,
        )


def table(started: list[Started]) -> Iterator[list[str]]:
    """Yield the heading and the rows of the table."""
    yield ["command", "wall s", "processor s", "peak MB", *HEAVY]
    for name, took, loaded in started:
        marks = ["yes" if library in loaded else "–" for library in HEAVY]
        yield [
            name,
            f"{took.seconds:.2f}",
            f"{took.computing:.2f}",
            f"{took.megabytes:.0f}",
            *marks,
        ]


def section(cells: list[list[str]], promised: list[Bound], command: str) -> Section:
    """Return the section of the page."""
    text = (
        f"What a user waits for. `alps --help` is the best of {TIMES}; the run over {SAMPLES:,} "
        "short samples, by\n`model=rules` under the lexical judge, the best of three; every other "
        "command is started once, on our samples, and asked\nfor the heavy libraries that it has "
        "loaded by its end. `make demo`, where it is measured, runs in a clone whose\nenvironment "
        "is made."
    )
    return Section("startup", "Start", text, promised, command, cells)


def told(arguments: list[str]) -> Mapping[str, str]:
    """Return the words; end with a sentence where one can't be read."""
    words = dict(word.partition("=")[::2] for word in arguments)
    if wrong := [word for word in words.items() if word not in (("demo", "yes"), ("write", "yes"))]:
        sys.exit(f"{'='.join(wrong[0])}: this benchmark takes demo=yes and write=yes, or neither.")
    return words


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = told(sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        helped = [taken(["-m", "alps", "--help"], folder).seconds for _ in range(TIMES)]
        started = [short_run(folder), *every_command(folder)]
        warm = demo(folder) if "demo" in words else None
    cells, promised = list(table(started)), list(bounds(started, helped, warm))
    print(terminal(cells))
    print(
        *(f"{bound.what}: {bound.measured} (bound {bound.limit})" for bound in promised), sep="\n"
    )
    misses = missed(promised)
    print(
        *([f"missed: {said}" for said in misses] or ["Every bound that was measured is held."]),
        sep="\n",
    )
    if "write" in words:
        write_section(
            section(cells, promised, " ".join(["python bench/startup.py", *sys.argv[1:]]))
        )
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
