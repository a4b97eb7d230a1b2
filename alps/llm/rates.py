"""Limits that an endpoint announces with its answers: windows that are reset, and buckets.

Nothing here has a clock: times are seconds of the caller's.
"""

import math
from dataclasses import dataclass

# Seconds in which a reset that is told in whole seconds, or in parts of one, comes visibly nearer
_SETTLED_WHOLE, _SETTLED = 2.5, 0.2
# Seconds for which a window must look like a bucket: answers tell late, each by its own latency
_DOUBTED = 10.0
# So many requests are told exactly enough to measure a rate, and that may be so much too low
_COUNTED, _TOO_LOW = 8, 1.1
_AGREED = 0.1
# Seconds; an announced reset that is further away is not waited for without a look now and then
_LONGEST_WAIT = 75.0
# Seconds; of a shorter limit answers tell too late
_SHORTEST = 5.0
# Seconds by which a reset may be later than it is told, in whole seconds
_ROUNDED = 1.0
# Requests under way after a reset, until an answer tells what is left, or for so many seconds: a
# window that slides gives back only what it took a minute ago.
_FIRST, _SOON = 16, 15.0
CAUGHT_UP = 0.1
"""Seconds of a rate that may be caught up with, as timers are late."""


@dataclass(frozen=True)
class _Told:
    at: float
    remaining: float
    seconds: float


class Announced:
    """A limit as the headers of answers tell of it: what is left, and when it is whole again.

    Limits with that pair of headers are of two kinds. A window is reset at one time, which comes
    nearer while requests are taken: when nothing is left, that time is waited for. A bucket fills
    up all the time, and tells when it will be full, which goes away as requests are taken: there a
    rate follows, and nothing is to be waited for.
    """

    def __init__(self) -> None:
        self._left = math.inf
        self._reset_at = -math.inf
        self._rate, self._whole = math.inf, 0.0
        self._window: bool | None = None
        self._first: _Told | None = None
        self._next = self._empty_until = -math.inf

    def told(self, remaining: float, seconds: float, now: float) -> None:
        """Note what an answer tells."""
        if remaining < 1 and seconds < _SHORTEST:
            self._empty_until = now + seconds
        if not self._window and now >= self._reset_at and seconds < _SHORTEST:
            self._left = math.inf
            return
        self._compare(_Told(now, remaining, seconds))
        reset_at = now + seconds + (0.0 if seconds % 1 else _ROUNDED)
        if self._window is False:
            self._left, self._reset_at = remaining, reset_at
        elif now < self._reset_at:  # answers come in another order than they were written in
            self._left = min(self._left, remaining)
            self._reset_at = min(self._reset_at, reset_at)
        else:
            self._left, self._reset_at = remaining, reset_at

    def left(self, now: float) -> float:
        """Return how many requests may be under way now, infinity where that is not known."""
        if self._window is False or self._left == math.inf:
            return math.inf
        if now < self._reset_at:
            return self._left
        return _FIRST if self.untold(now) else math.inf

    def untold(self, now: float) -> bool:
        """Tell whether a window was reset and no answer has reported its rest yet."""
        passed = now - self._reset_at
        return self._window is not False and self._left < math.inf and 0 <= passed < _SOON

    def opens(self, now: float) -> float | None:
        """Return when the window that is used up is reset; None where there is nothing to await."""
        if not self._window or self._left >= 1 or now >= self._reset_at:
            return None
        return self._reset_at if self._reset_at - now <= _LONGEST_WAIT else None

    def empty_for(self, now: float) -> float:
        """Return for how many seconds nothing is left, where that is known to be a moment only."""
        return max(0.0, self._empty_until - now)

    def started(self, now: float, running: int) -> None:
        """Count a request that starts: where little is left of a bucket, they are set apart."""
        scarce = self._window is False and self._left <= 2 * running
        if scarce:
            self._next = max(self._next, now - CAUGHT_UP) + 1 / self._rate

    def next_start(self) -> float:
        """Return the time before which no request is to start."""
        return self._next

    def _compare(self, told: _Told) -> None:
        """Tell a window from a bucket, by the time of the reset while the limit is used."""
        first = self._first
        new = first is None or told.remaining > first.remaining
        if first is None or new or told.at >= first.at + first.seconds:
            self._first = told
            return
        passed, nearer = told.at - first.at, first.seconds - told.seconds
        exact = bool(told.seconds % 1 or first.seconds % 1)
        if passed < (_SETTLED if exact else _SETTLED_WHOLE):
            return
        if nearer >= passed / 2:
            self._window = True
        elif not self._window or passed >= _DOUBTED:
            self._window = False
        used = first.remaining - told.remaining
        if used >= _COUNTED and nearer <= -(_SETTLED if exact else _SHORTEST):
            self._measure(used / -nearer, told)

    def _measure(self, rate: float, told: _Told) -> None:
        """Take a rate of a bucket where two measurements agree on how much that bucket holds."""
        whole = told.remaining + rate * told.seconds
        agreed = abs(whole - self._whole) <= _AGREED * whole
        self._rate, self._whole = _TOO_LOW * rate if agreed else math.inf, whole
