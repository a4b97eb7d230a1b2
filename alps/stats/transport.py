"""Transport: whether what audits of some systems say of a cheap judge holds for another."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np

from alps.stats.bootstrap import Floats
from alps.stats.intervals import clustered_variance

Verdict = Literal["pass", "fail", "inconclusive"]
_LEVEL = 0.05


@dataclass(frozen=True)
class Residuals:
    """By how much an audit judge differs from the cheap one: audit minus cheap, and the session."""

    values: Floats
    sessions: Sequence[Hashable]


@dataclass(frozen=True)
class Transport:
    """How far the error of a cheap judge on one system is from that on the others.

    Attributes:
        value: Its mean error on the system less the mean of its errors on the others.
        low: Lower end of the 95 % interval; None where there are too few sessions.
        high: Upper end.
        verdict: `pass` where the 90 % interval lies within the margin (two one-sided tests at 5 %,
            Schuirmann 1987); `fail` where the 95 % interval excludes 0 and the difference is larger
            than the margin; else `inconclusive`.
        n: How many audited answers of the system there are.
        sessions: In how many sessions.
    """

    value: float
    low: float | None
    high: float | None
    verdict: Verdict
    n: int
    sessions: int


def transport(own: Residuals, others: Mapping[str, Residuals], margin: float) -> Transport:
    """Test whether the error of a cheap judge on a system is that on others.

    Answers of one session may be of all systems: what they share cancels out, as in a paired test.

    Args:
        own: Those of the system.
        others: Those of the systems that the correction was made on, each with the same weight.
        margin: The largest difference that does not matter, in the units of the score.

    Raises:
        ValueError: If there are no others, or a side has no answer.
    """
    if not others or not all(len(one.values) for one in (own, *others.values())):
        raise ValueError("each side needs audited answers")
    mean = float(own.values.mean())
    influences = [(own.values - mean) / len(own.values)]
    sessions = list(own.sessions)
    means = []
    for one in others.values():
        theirs = float(one.values.mean())
        means.append(theirs)
        influences.append((theirs - one.values) / (len(one.values) * len(others)))
        sessions += one.sessions
    difference = mean - float(np.mean(means))
    count = len(set(own.sessions))
    variance = clustered_variance(np.concatenate(influences), sessions) if count > 1 else None
    found = len(own.values), count
    if variance is None or variance == 0:
        return Transport(difference, None, None, "inconclusive", *found)
    from scipy.stats import t

    # The system has the fewest sessions, so its degrees of freedom bound those of the difference.
    wide, narrow = (float(t.ppf(1 - level, count - 1)) for level in (_LEVEL / 2, _LEVEL))
    error = sqrt(variance)
    low, high = difference - wide * error, difference + wide * error
    verdict: Verdict = "inconclusive"
    if abs(difference) + narrow * error < margin:
        verdict = "pass"
    elif (low > 0 or high < 0) and abs(difference) > margin:
        verdict = "fail"
    return Transport(difference, low, high, verdict, *found)
