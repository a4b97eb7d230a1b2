"""Simulated drifts of a judge: whether anchors find them, and blame the right side.

    python bench/drift.py [streams=N]

Answers of sessions are met or not; a judge errs at random on each, anew every time. In a calm
stream neither judge nor system changes, and anchors are checked several times. In the others the
judge grows stricter, and the system better or worse. Exits 1 where a bound is missed.
"""

import sys
from typing import Annotated

import numpy as np
from document import Bound
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from alps.parsing import parse_words
from alps.stats.drift import Change, attribute_drift

SESSIONS, TOGETHER, LOOKS, SEED = 300, 3, 4, 20_251
FLIPS, STRICTER, BETTER = 0.04, -0.15, (-0.10, 0.0, 0.10)
MOST_ALARMS, NEAR = 3, 0.05
Floats = NDArray[np.float64]


class Words(BaseModel):
    """What the bench can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    streams: Annotated[int, Field(ge=1, description="calm streams, and others")] = 300


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


def planted(generator: np.random.Generator, streams: int) -> tuple[float, Floats]:
    """Return how often a planted change of the judge is found, and the errors in its size.

    Errors have the shape (streams, 2): of the judge's change, and of the system's.
    """
    names = np.arange(SESSIONS).repeat(TOGETHER).tolist()
    found, errors = 0, np.empty((streams, 2))
    for stream in range(streams):
        better = BETTER[stream % len(BETTER)]
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


def main(words: list[str]) -> int:
    """Print the bounds; return 1 where one is missed."""
    streams = parse_words(words, Words).streams
    generator = np.random.default_rng(SEED)
    alarms = calm_alarms(generator, streams)
    found, errors = planted(generator, streams)
    near = (np.abs(errors) <= NEAR).mean(axis=0)
    within = f"{near[0]:.1%}, {near[1]:.1%}"
    bounds = [
        Bound(
            "alarms in calm streams",
            f"≤ {MOST_ALARMS} of 300",
            f"{alarms} of {streams}",
            alarms <= MOST_ALARMS,
        ),
        Bound("planted changes found", "≥ 95 %", f"{found:.1%}", found >= 0.95),
        Bound("judge, system within .05", "≥ 95 %", within, bool((near >= 0.95).all())),
    ]
    for bound in bounds:
        print(f"{bound.what}: {bound.measured} ({bound.limit})")
    return 0 if all(bound.held for bound in bounds) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
