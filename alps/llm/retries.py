"""Retries of one request, and the circuit breaker of its endpoint.

Nothing here has a clock: times are seconds of the caller's, so that tests need not wait.
"""

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
# So many failures of one request, while the endpoint answers others, are its own
_ALONE = 8
# So many attempts may have been paid for without an answer that can be used
_BILLED = 3
# Failures alike, before any answer, that end a run: the rest would fail as well
_ALIKE = 3
# Seconds; doubled each time that others are answered while this request fails
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
# Seconds; an endpoint to which no connection could be made for so long, and never before, is not
# there.
_NOBODY_THERE = 30.0
# Words with digits, such as ids and counts, differ between messages of one kind
_PARTICULAR = re.compile(r"\b[\w-]*\d[\w-]*\b")


class Tries:
    """The failures of one request.

    A request is tried again by time, not by count, so that an outage loses nothing. Bounded by
    count is what only this request meets while others are answered, and what may cost money each
    time: answers that came too late, or that could not be read.

    Its patience is in seconds from the first failure on, less the time the server asked to wait.
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

        `sent` is when the attempt was sent, `last_answer` when the endpoint last answered any.
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
    """Return the seconds before an attempt, by how often others were answered meanwhile."""
    return random.uniform(0, min(_FIRST_PAUSE * 2 ** max(1, failures), _LONGEST_PAUSE))


class Permanent:
    """Ends a run whose first requests all meet the same error that will not pass."""

    def __init__(self) -> None:
        self._answered: set[str] = set()
        self._failures: Counter[tuple[str, int | None, str]] = Counter()

    def answered(self, model: str) -> None:
        """Tell that `model` has answered a request: what others meet is theirs."""
        self._answered.add(model)

    def check(self, model: str, error: TransportError) -> None:
        """Let the run go on after `error` where the next request may fare better.

        Raises:
            AlpsError: If none can.
        """
        if error.fatal is not None:
            raise error.fatal from error
        one_record = error.refused or error.too_long or error.billed
        if model in self._answered or error.transient or error.unsent or one_record:
            return
        kind = model, error.status, _PARTICULAR.sub("#", str(error))
        self._failures[kind] += 1
        if self._failures[kind] < _ALIKE:
            return
        what = f"the first {_ALIKE} requests failed with the same error"
        raise UsageError(f"model '{model}': {what} ({error})") from error


def unreachable(
    model: str, error: TransportError, *, failing_for: float, last_answer: float
) -> AlpsError | None:
    """Return what to end the run with where no connection was ever made: that does not pass.

    `failing_for` are the seconds since the first failure of the endpoint in a row, `last_answer` is
    when it last answered anything, minus infinity for never.
    """
    if not error.unsent or math.isfinite(last_answer) or failing_for < _NOBODY_THERE:
        return None
    what = f"no response for {failing_for:.0f} s ({error})"
    mend = "start the server, or correct the address; then run the same command again"
    return UsageError(f"model '{model}': {what}; {mend}")


def seconds_of(text: str) -> float:
    """Read `90`, `90s`, `30min` or `2h` as seconds.

    Raises:
        ValueError: If it is none of these.
    """
    units: Mapping[str, float] = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
    number = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|m|min|h|)\s*", text)
    if number is None:
        raise ValueError("must be seconds, or a time such as 90s, 30min or 2h")
    return float(number[1]) * units[number[2]]


def as_time(seconds: float) -> str:
    """Write seconds as `seconds_of` reads them, to a tenth: `90 s`, `30 min`, `24 h`."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{round(seconds / size, 1):.12g} {unit}"
    return f"{round(seconds, 1):.12g} s"


# So many failures in a row, without one answer, are an outage
_FAILURES = 5
# So many requests that started after a first 429 and were rejected, too: waiting a moment is not
# enough.
_REJECTIONS = 3
# Seconds of the first and of the longest pause, after failures and after rejections
_FIRST, _FIRST_REJECTED = 1.0, 0.5
_LONGEST, _LONGEST_REJECTED = 60.0, 3.0
# Most limits are per minute, and a little more: for so long a closed window is looked at every few
# seconds.
_A_MINUTE = 75.0
# Seconds; what lets requests through sooner again is a bucket that fills up, and there is nothing
# to wait for.
_IS_A_WINDOW = 2.5
# Seconds; a server that asks to wait for so long has a window that is used up
_ASKED_WINDOW = 10.0
# Seconds; most limits are per minute, so a longer window was not seen whole
_LONGEST_PERIOD = 90.0
# A probe that is answered at once may have been sent too late
_SOONER = 0.97
# A request is taken to be accepted when it is under way so many times as long as rejections take,
# and so long.
_REJECTED_BY, _REJECTION = 3.0, 0.5
# Seconds; a server that rejects slowly, or now and then, is not asked once a second for that
_MOST_APART = 0.05
# A window that closes with more of it left is not like the one before
_UNUSED = 0.5
# A window that gives more than the one before may give still more
_BEYOND = 1.25


class Window:
    """A rate limit that resets at fixed times, learnt from when answers stop and resume.

    Providers with such limits often send no Retry-After. Once one window has been seen whole, the
    next is asked no sooner than it opens, and no more than the last one took before it is seen
    whether there is more.
    """

    def __init__(self) -> None:
        self.period: float | None = None
        self.opened: float | None = None
        self.quota = math.inf
        self._known = math.inf
        self._answered = self._gave = self._short = 0

    def answered(self, started: float, now: float) -> None:
        """Count an answer to a request that was sent at `started`."""
        if self.opened is None:
            self.opened = started
        used_up = self.left(now) <= 0
        if started < self.opened:  # the window before gave it
            return
        self._answered += 1
        if used_up:  # and yet answered
            self.quota = _BEYOND * self.quota + 1

    def left(self, now: float) -> float:
        """Return how many more answers this window is known to give."""
        if self.period is None or self.opened is None:
            return math.inf
        if now >= self.opened + self.period:
            self.opened += self.period * ((now - self.opened) // self.period)
            # Whatever it is: one that let all through may let more.
            self._known, self.quota = max(self._known, self._answered), _BEYOND * self.quota + 1
            self._answered = 0
        return self.quota - self._answered

    def beyond(self, under_way: int) -> bool:
        """Tell whether one more request is one that the window before did not take."""
        return self._answered + under_way >= self._known

    def next_opening(self, now: float) -> float | None:
        """Return when the next window opens; None where that is not known.

        One that closes long before it gave what the last one did is none that opens at fixed times.
        """
        if self.period is None or self.opened is None or self.left(now) > _UNUSED * self._known:
            return None
        return self.opened + self.period * (1 + (now - self.opened) // self.period)

    def reopened(self, started: float, closed_at: float, *, at_once: bool) -> None:
        """Learn from the first answer after rejections; `at_once`: the first request got it.

        That one may have been sent too late, so that the next is sent a little sooner.
        """
        if self.opened is None or started - closed_at < _IS_A_WINDOW:
            self._short += 1
            if self._short > 1:  # one may have closed just before the next opened
                self.period, self.quota, self._known = None, math.inf, math.inf
        elif self._short and self._answered < _UNUSED * self._gave:
            self._short = 0  # no window opened at that short pause: this was the end of one
        else:
            self._short = 0
            measured = started - self.opened
            # else whole windows went by unused
            if self.period is None or measured < 1.5 * self.period:
                self.period = min(measured * (_SOONER if at_once else 1.0), _LONGEST_PERIOD)
                self.quota = self._known = self._answered
        self.opened, self._gave, self._answered = started, self._answered, 0


class Breaker:
    """Stops an endpoint's requests after failures in a row, and probes it until it answers.

    One request is sent at a time. Pauses double up to a minute; where all that is wrong is a rate
    limit, up to 3 seconds for the first minute.

    Attributes:
        resumes_at: Nothing is to be sent before.
        tripped_at: Since when only probes are sent; None where all is well.
        last_answer: When the endpoint last answered anything.

    Args:
        patience: Seconds without any answer after which the endpoint is given up, but for one probe
            a minute.
    """

    def __init__(self, patience: float = math.inf) -> None:
        self.resumes_at = self.last_answer = -math.inf
        self.tripped_at: float | None = None
        self.window = Window()
        self._patience = patience
        self._failing_since: float | None = None
        self._rejecting_since: float | None = None
        self._failures = self._rejections = self._probes = 0
        self._pause = 0.0
        self._probe_at = -math.inf
        self._limited = False
        self._under_way: list[float] = []
        self._rejected_after = 0.0

    def sent(self, started: float) -> None:
        """Tell that a request is sent."""
        self._under_way.append(started)

    def ended(self, started: float) -> None:
        """Tell that a request has ended, in whatever way."""
        if started in self._under_way:
            self._under_way.remove(started)

    def under_way_before(self) -> int:
        """Return how many requests are under way that were sent before an outage began."""
        tripped_at = math.inf if self.tripped_at is None else self.tripped_at
        return sum(started < tripped_at for started in self._under_way)

    def opened(self, now: float) -> bool:
        """Tell whether a limit lets requests through again, and go on if so.

        Rejections come at once, answers of a model that thinks after a minute: a probe that is not
        rejected by then was accepted.
        """
        if self.tripped_at is None or not self._limited:
            return False
        accepted = self._accepted_since(self.tripped_at, now)
        if accepted is not None:
            self._reopen(accepted)
        return accepted is not None

    def _accepted_since(self, since: float, now: float) -> float | None:
        """Return when a request that must have been accepted was sent after `since`, if any was."""
        latest = now - max(_REJECTION, _REJECTED_BY * self._rejected_after)
        return next((started for started in self._under_way if since <= started <= latest), None)

    def _reopen(self, started: float) -> None:
        assert self.tripped_at is not None
        if self._limited:
            self.window.reopened(started, self.tripped_at, at_once=self._probes == 0)
        self.tripped_at = self._rejecting_since = None

    def failing_for(self, now: float) -> float:
        """Return for how long the endpoint has answered nothing, from its first failure on."""
        return 0.0 if self._failing_since is None else now - self._failing_since

    def gave_up(self, now: float) -> bool:
        """Tell whether an outage has outlasted the patience."""
        return self.tripped_at is not None and self.failing_for(now) >= self._patience

    def answered(self, started: float, now: float) -> bool:
        """Tell of an answer to a request sent at `started`; return whether an outage ended."""
        self.last_answer, self._failing_since, self._failures = now, None, 0
        if self.tripped_at is None:
            if self._rejecting_since is not None and started >= self._rejecting_since:
                self._rejecting_since = None
            self.window.answered(started, now)
            return False
        if started < self.tripped_at:  # sent before, so that it says nothing of how it is now
            self.window.answered(started, now)
            return False
        self._reopen(started)
        self.window.answered(started, now)
        return True

    def failed(self, started: float, now: float, *, rejected: bool, asked: float = 0.0) -> None:
        """Note a failure that may pass, or a 429 (`rejected`) and the seconds that it asks."""
        self._failing_since = now if self._failing_since is None else self._failing_since
        if rejected and math.isfinite(started):
            self._rejected_after += 0.3 * (now - started - self._rejected_after)
        if self.tripped_at is not None:
            if started >= self._probe_at:  # of several that were sent together, one counts
                self._limited = rejected
                self._probe_again(now)
        elif rejected and asked >= _ASKED_WINDOW:  # as long as a window takes: it is used up
            self._trip(now, limited=True, opens=now + asked)
        elif rejected:
            self._rejected(started, now)
        else:
            self._failures += 1
            if self._failures >= _FAILURES:
                self._trip(now, limited=False)

    @property
    def apart(self) -> float:
        """Seconds between requests while the next may be rejected, enough for one answer."""
        return min(_REJECTED_BY * self._rejected_after, _MOST_APART)

    def wait_until(self, when: float) -> None:
        """Send nothing before `when`, as the server has asked."""
        self.resumes_at = max(self.resumes_at, when)

    def _rejected(self, started: float, now: float) -> None:
        if self._rejecting_since is None:
            self._rejecting_since, self._rejections = now, 0
        if self.window.left(now) <= 0:  # known to be used up
            self._trip(now, limited=True)
        elif self._accepted_since(self._rejecting_since, now) is not None:
            self._rejecting_since = None
        elif started >= self._rejecting_since:
            self._rejections += 1
            if self._rejections >= _REJECTIONS:
                self._trip(now, limited=True)

    def _trip(self, now: float, *, limited: bool, opens: float | None = None) -> None:
        self.tripped_at, self._limited, self._probes = now, limited, 0
        self._pause = _FIRST_REJECTED if limited else _FIRST
        if limited and opens is None:
            opens = self.window.next_opening(now)
        self._resume(now, now + self._pause * random.uniform(0.9, 1.1) if opens is None else opens)

    def _probe_again(self, now: float) -> None:
        assert self.tripped_at is not None
        self._probes += 1
        minute = self._limited and now - self.tripped_at < _A_MINUTE
        self._pause = min(2 * self._pause, _LONGEST_REJECTED if minute else _LONGEST)
        self._resume(now, now + self._pause * random.uniform(0.9, 1.1))

    def _resume(self, now: float, when: float) -> None:
        """Set the time of the next probe; the last one within the patience is sent when it ends."""
        ends = now - self.failing_for(now) + self._patience
        self._probe_at = min(when, ends) if now < ends else when
        self.resumes_at = max(self.resumes_at, self._probe_at)
