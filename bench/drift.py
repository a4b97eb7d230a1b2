"""Simulated drifts of a judge: whether anchors find them, and blame the right side.

    python bench/drift.py [streams=300] [write=yes]

Answers of sessions are met or not; a judge errs at random on each, anew every time. In a calm
stream neither judge nor system changes, and anchors are checked several times. In the others the
judge grows stricter, and the system better or worse. Exits 1 where a bound is missed; `write=yes`
writes the section of docs/benchmarks.md.
"""

import sys
import textwrap
import time
from collections.abc import Sequence

import numpy as np
from document import WIDTH, Bound, Section, missed, terminal, write_section
from numpy.typing import NDArray
from words import read_words, whole

from alps.ext.judging.drift import Change, attribute_drift

SESSIONS, TOGETHER, LOOKS, SEED = 300, 3, 4, 20_251
FLIPS, STRICTER, BETTER = 0.04, -0.15, (-0.10, 0.0, 0.10)
MOST_ALARMS, NEAR = 3, 0.05
Floats = NDArray[np.float64]


def answers(generator: np.random.Generator, rate: float) -> Floats:
    """Return the truth of the answers of every session, which has a rate of its own."""
    own = generator.beta(4 * rate, 4 * (1 - rate), SESSIONS).repeat(TOGETHER)
    return (generator.random(len(own)) < own).astype(float)


def judged(generator: np.random.Generator, truth: Floats, stricter: float = 0.0) -> Floats:
    """Judge answers with random errors; `stricter` is what the share of met ones changes by."""
    flipped = np.where(generator.random(len(truth)) < FLIPS, 1 - truth, truth)
    lost = generator.random(len(truth)) < -stricter / max(flipped.mean(), 1e-9)
    return np.where(lost, 0.0, flipped)


def calm_alarms(generator: np.random.Generator, streams: int) -> int:
    """Count the calm streams in which any look raises the alarm."""
    names = np.arange(SESSIONS).repeat(TOGETHER).tolist()
    alarms = 0
    for _ in range(streams):
        truth = answers(generator, 0.6)
        then = judged(generator, truth)
        looks = [Change(then, judged(generator, truth), names) for _ in range(LOOKS)]
        alarms += any(attribute_drift(look, look).alarm for look in looks)
    return alarms


def planted(generator: np.random.Generator, streams: int, better: float) -> tuple[float, Floats]:
    """Return how often a planted change of the judge is found, and the errors in its size.

    Errors have the shape (streams, 2): of the judge's change, and of the system's.
    """
    names = np.arange(SESSIONS).repeat(TOGETHER).tolist()
    found, errors = 0, np.empty((streams, 2))
    for stream in range(streams):
        old, new = answers(generator, 0.6), answers(generator, 0.6 + better)
        then = judged(generator, old)
        anchors = Change(then, judged(generator, old, STRICTER), names)
        drift = attribute_drift(Change(then, judged(generator, new, STRICTER), names), anchors)
        found += drift.alarm
        assert drift.judge.value is not None
        assert drift.system.value is not None
        truth = new.mean() - old.mean()
        errors[stream] = drift.judge.value - STRICTER, drift.system.value - truth
    return found / streams, errors


def section(cells: list[list[str]], bounds: Sequence[Bound], command: str) -> Section:
    """Return the section of the page."""
    text = (
        f"Simulated answers of {SESSIONS} sessions, {TOGETHER} each, that are met or not, and a "
        f"judge that errs at random on {FLIPS:.0%} of them, anew every time. In a calm stream "
        f"neither judge nor system changes, and its anchors are checked {LOOKS} times: an alarm at "
        f"any of them counts. In the others the judge takes {-100 * STRICTER:.0f} points off, and "
        "the system changes by what the first column says. «Found» is the alarm of `alps judges "
        f"anchors=`; «within {NEAR:g}» the share of streams whose change is put down so near to "
        "the truth."
    )
    text = textwrap.fill(text, WIDTH)
    return Section("drift", "Drift of a judge", text, bounds, command, cells)


def main(arguments: list[str]) -> int:
    """Print the figures and bounds; return 1 where one is missed."""
    words = read_words(arguments, {"streams": "300"})
    streams = whole(words, "streams")
    generator, started = np.random.default_rng(SEED), time.perf_counter()
    alarms = calm_alarms(generator, streams)
    cells = [["system", "streams", "found", "judge within .05", "system within .05"]]
    found, errors = [], []
    for better in BETTER:
        share, wrong = planted(generator, streams // len(BETTER), better)
        near = (np.abs(wrong) <= NEAR).mean(axis=0)
        shares = [f"{value:.1%}" for value in (share, *near)]
        cells.append([f"{better:+.2f}", str(len(wrong)), *shares])
        found.append(share)
        errors.append(wrong)
    near = (np.abs(np.concatenate(errors)) <= NEAR).mean(axis=0)
    most, rate = MOST_ALARMS * max(streams, 300) // 300, float(np.mean(found))
    judge, system = (float(share) for share in near)
    bounds = [
        Bound("alarms in calm streams", f"≤ {most}", f"{alarms} of {streams}", alarms <= most),
        Bound("planted changes of the judge that are found", "≥ 95%", f"{rate:.1%}", rate >= 0.95),
        Bound("of the judge, within .05", "≥ 95%", f"{judge:.1%}", judge >= 0.95),
        Bound("of the system, within .05", "≥ 95%", f"{system:.1%}", system >= 0.95),
    ]
    misses = missed(bounds)
    print(terminal(cells))
    print(*(misses or ["Every bound that was measured is held."]), sep="\n")
    print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr)
    if words["write"]:
        write_section(section(cells, bounds, f"python bench/drift.py streams={streams} write=yes"))
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
