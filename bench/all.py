"""Run every benchmark, one after another.

Python bench/all.py [write=yes] [only=a,b] [quick=yes] [KEY=VALUE …].

Each is a process of its own, so that none weighs another's memory. A line tells how each went, the
bounds that it missed stand below, and what it printed where it failed otherwise; then all ends in
exit 1. `write=yes` writes bench/RESULTS.md anew, section by section. `quick=yes` takes smaller
sizes where a benchmark has them, and never writes. `inspect=PYTHON` and `lm_eval=PYTHON` are passed
on to those that compare alps with other harnesses, `demo=yes` to startup.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import document
from words import read_words

HERE = Path(__file__).resolve().parent
WORDS = dict.fromkeys(("only", "quick", "inspect", "lm_eval", "demo"), "")
PASSED_ON: Mapping[str, tuple[str, ...]] = {
    "harness": ("inspect", "lm_eval"),
    "throughput": ("inspect",),
    "startup": ("demo",),
    "outages": ("inspect",),
}
"""The words that a benchmark takes from here."""
QUICK: Mapping[str, tuple[str, ...]] = {
    "harness": ("samples=300",),
    "throughput": ("calls=200", "turns=1"),
    "fuzz": ("inputs=2000",),
    "coverage": ("draws=100",),
    "audits": ("draws=50",),
    "leaderboard": ("systems=20",),
    "matching": ("records=300",),
    "scale": ("records=500,1000,2000", "prompts=2"),
    "soak": ("samples=300",),
    "outages": ("calls=60", "rows=window_60,bucket"),
    "attacks": ("data=samples", "letters=new"),
}
"""Smaller sizes: whether everything runs can be seen by them, and whether a bound is held cannot.
"""


class Ran(NamedTuple):
    """How a benchmark went.

    `bounds` are those of the section that it wrote, `printed` its output with its errors.
    """

    name: str
    code: int
    seconds: float
    bounds: list[tuple[str, str, str, str]]
    printed: str


def chosen(words: Mapping[str, str]) -> list[str]:
    """Return the names of the benchmarks that are to run, in the order of the page."""
    named = [name for name in words.get("only", "").split(",") if name]
    if unknown := [name for name in named if name not in document.ORDER]:
        sys.exit(f"only={unknown[0]}: no benchmark of this name ({', '.join(document.ORDER)}).")
    return [name for name in document.ORDER if not named or name in named]


def command(name: str, words: Mapping[str, str]) -> list[str]:
    """Return what a benchmark is started by."""
    passed = [f"{key}={words[key]}" for key in PASSED_ON.get(name, ()) if key in words]
    sizes = QUICK.get(name, ()) if "quick" in words else ()
    return [sys.executable, str(HERE / f"{name}.py"), *sizes, *passed, "write=yes"]


def ran(name: str, words: Mapping[str, str], folder: Path) -> Ran:
    """Run a benchmark.

    Its section goes to the page of its own in `folder`, and on to the real one if it is to.
    """
    page = folder / f"{name}.md"
    environment = {**os.environ, document.PAGE: str(page)}
    started = time.perf_counter()
    done = subprocess.run(
        command(name, words),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - started
    if "write" in words:
        document.take_over(name, page)
    return Ran(name, done.returncode, seconds, document.every_bound(page, name), done.stdout)


def lines(done: Ran) -> Iterator[str]:
    """Yield a line on how a benchmark went and one for each missed bound; output if it failed."""
    missed = [bound for bound in done.bounds if bound[-1] != document.HELD]
    said = f"{len(missed)} of {len(done.bounds)} bounds missed"
    said = said if done.bounds else "no section written"
    yield f"{done.name:<12} {done.seconds:>6.0f} s   exit {done.code}   {said}"
    yield from (f"    {what}: {measured} (bound {limit})" for what, limit, measured, _ in missed)
    if (done.code and not missed) or not done.bounds:
        yield from (f"    {line}" for line in done.printed.rstrip().splitlines()[-20:])


def failed(done: Ran) -> bool:
    """Tell whether a benchmark did not end as promised.

    A bound missed, an error, or no bounds at all.
    """
    kept = done.bounds and all(held == document.HELD for *_, held in done.bounds)
    return bool(done.code) or not kept


def told(arguments: Sequence[str]) -> Mapping[str, str]:
    """Return the words that were given; end with a sentence where one can't be read."""
    words = {key: value for key, value in read_words(arguments, WORDS).items() if value}
    if wrong := [key for key in ("quick", "demo") if words.get(key, "yes") != "yes"]:
        sys.exit(f"{wrong[0]}={words[wrong[0]]}: expected yes, or nothing.")
    if {"write", "quick"} <= set(words):
        sys.exit("quick=yes never writes: leave out write=yes, or quick=yes.")
    for key in {"inspect", "lm_eval"} & set(words):
        words[key] = os.path.abspath(words[key])  # a link is what makes an environment
    return words


def main() -> None:
    """Run, and name what is not as promised."""
    words = told(sys.argv[1:])
    everything: list[Ran] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen(words):
            print(f"{name} …", file=sys.stderr, flush=True)
            everything.append(ran(name, words, Path(folder)))
            print(*lines(everything[-1]), sep="\n", flush=True)
    names = [done.name for done in everything if failed(done)]
    fault = f"Not as promised: {', '.join(names)}."
    print(fault if names else "Every benchmark that ran ended as promised.")
    sys.exit(1 if names else 0)


if __name__ == "__main__":
    main()
