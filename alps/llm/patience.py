"""How long one request is tried again, and the failures that no trying can mend."""

import math
import random
import re
from collections import Counter
from collections.abc import Mapping

from alps.errors import AlpsError, UsageError
from alps.llm.types import TransportError

PATIENCE = 1800.0
"""Seconds: most outages of providers are over by then, and a run is a thing of hours."""
AUTO_START, AUTO_MOST = 16, 200
"""Requests at once where nobody said how many: from so many on, while nothing fails, up to so many.
"""
_ALONE = 8
"""So many failures of one request, while the endpoint answers others, are its own."""
_BILLED = 3
"""So many attempts may have been paid for without an answer that can be used."""
_ALIKE = 3
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_NOBODY_THERE = 30.0
"""Seconds; an endpoint to which no connection could be made for so long, and never before, is not
there.
"""
_PARTICULAR = re.compile(r"\b[\w-]*\d[\w-]*\b")


class Tries:
    """The failures of one request.

    A request is tried again by time, not by count, so that an outage loses nothing. Bounded by
    count is what only this request meets while others are answered, and what may cost money each
    time: answers that came too late, or that could not be read.

    Args:
        patience: Seconds from the first failure on; time that the server asked to wait is not
            counted.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._ends: float | None = None
        self._failed_at = float("-inf")
        self._alone = self._billed = 0

    def pause_after(
        self, error: TransportError, *, sent: float, now: float, last_answer: float
    ) -> float | None:
        """Return the seconds to wait before the next attempt; None where there is none.

        Args:
            error: What the attempt came to.
            sent: When it was sent.
            now: The time.
            last_answer: When the endpoint last answered any request.
        """
        if not error.transient:
            return None
        self._ends = now + self._patience if self._ends is None else self._ends
        self._alone += error.status != 429 and last_answer > max(self._failed_at, sent)
        self._billed += error.status == 408 or error.billed
        self._failed_at = now
        if self._alone >= _ALONE or self._billed >= _BILLED or now >= self._ends:
            return None
        asked = error.retry_after or 0.0
        self._ends += asked
        return max(asked, min(_backoff(self._alone), self._ends - now))


def _backoff(failures: int) -> float:
    """Return the seconds before an attempt, by how often others were answered while this request
    failed.
    """
    return random.uniform(0, min(_FIRST_PAUSE * 2 ** max(1, failures), _LONGEST_PAUSE))


class Permanent:
    """Ends a run whose first requests all meet the same error that will not pass."""

    def __init__(self) -> None:
        self._answered: set[str] = set()
        self._failures: Counter[tuple[str, int | None, str]] = Counter()

    def answered(self, model: str) -> None:
        """Tell that `model` has answered a request: what others meet is theirs."""
        self._answered.add(model)

    def fatal(self, model: str, error: TransportError) -> AlpsError | None:
        """Return what to end the run with after `error`.

        None where the next request may fare better.
        """
        if error.fatal is not None:
            return error.fatal
        one_record = error.refused or error.too_long or error.billed
        if model in self._answered or error.transient or error.unsent or one_record:
            return None
        kind = model, error.status, _PARTICULAR.sub("#", str(error))
        self._failures[kind] += 1
        if self._failures[kind] < _ALIKE:
            return None
        return UsageError(
            f"model '{model}': the first {_ALIKE} requests failed alike, and none was answered ({error})"
        )


def unreachable(
    model: str, error: TransportError, *, failing_for: float, last_answer: float
) -> AlpsError | None:
    """Return what to end the run with where no connection was ever made: a wrong address does not
    pass.

    Args:
        model: What was asked.
        error: What the attempt came to.
        failing_for: Seconds since the first failure of the endpoint in a row.
        last_answer: When it last answered anything, minus infinity for never.
    """
    if not error.unsent or math.isfinite(last_answer) or failing_for < _NOBODY_THERE:
        return None
    mend = "start the server, or mend the address; the same command goes on then"
    return UsageError(
        f"model '{model}': nobody could be reached for {failing_for:.0f} s ({error}); {mend}"
    )


def seconds_of(text: str) -> float:
    """Read `90`, `90s`, `30min` or `2h` as seconds.

    Raises:
        ValueError: If it is none of these.
    """
    units: Mapping[str, float] = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
    number = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|)\s*", text)
    if number is None:
        raise ValueError("it takes seconds, or a time such as 90s, 30min or 2h")
    return float(number[1]) * units[number[2]]
