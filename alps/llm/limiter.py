"""Concurrency: how many requests may be under way at once, and when the next one starts."""

import asyncio
import math
import time
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass

from alps.llm.retries import Breaker

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
    rate follows, and nothing is to be waited for. No request is to start before `next_start`.
    """

    def __init__(self) -> None:
        self._left = math.inf
        self._reset_at = -math.inf
        self._rate, self._whole = math.inf, 0.0
        self._window: bool | None = None
        self._first: _Told | None = None
        self.next_start = self._empty_until = -math.inf

    def told(self, remaining: float, seconds: float, now: float) -> None:
        """Note what an answer tells."""
        if remaining < 1 and seconds < _SHORTEST:
            self._empty_until = now + seconds
        if not self._window and now >= self._reset_at and seconds < _SHORTEST:
            self._left = math.inf
            return
        self._compare(_Told(now, remaining, seconds))
        reset_at = now + seconds + (0.0 if seconds % 1 else _ROUNDED)
        # Answers come in another order than they were written in.
        if self._window is not False and now < self._reset_at:
            remaining, reset_at = min(self._left, remaining), min(self._reset_at, reset_at)
        self._left, self._reset_at = remaining, reset_at

    def left(self, now: float) -> float:
        """Return how many requests may be under way now, infinity where that is not known."""
        if self._window is False or self._left == math.inf:
            return math.inf
        if now < self._reset_at:
            return self._left
        return _FIRST if self.untold(now) else math.inf

    def untold(self, now: float) -> bool:
        """Tell whether a window was reset and no answer has reported its remaining budget yet."""
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
        """Count a request that starts; space requests where little of a bucket is left."""
        scarce = self._window is False and self._left <= 2 * running
        if scarce:
            self.next_start = max(self.next_start, now - CAUGHT_UP) + 1 / self._rate

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


# Seconds; a burst of 429s is one signal
_CUT_EVERY = 1.0
# What is kept of the level after a 429: just above what the server takes, or far above it
_BACK_OFF, _FAR_OFF = 0.85, 0.5
# Seconds for which the level stays below where it failed, at least, and as pauses of the server
_HOLD, _HOLD_PAUSES = 20.0, 20.0
# Seconds over which all that may run starts after a pause, as all at once would be rejected
_RELEASE, _SLOWEST_RELEASE = 0.5, 5.0
# While nothing fails, places double a round up to so many, and then grow by so many: when a window
# of 600 a minute is used up for the first time, all that is under way is rejected.
_DOUBLED_TO, _STEP = 64, 16
# Seconds after which it is looked again whether a probe was rejected
_PROBED = 0.25
# Share of a step by which a turn may have started already, as times are rounded
_A_HAIR = 0.01
# Answers that take so many times as long say that more requests at once would only wait at the
# server.
_SLOWER = 2.0

TURN: ContextVar[tuple[int, int]] = ContextVar("turn", default=(0, 1))
"""Which process this is, from 0, of how many that share the requests a minute of an endpoint."""


class EndpointDown(Exception):
    """The endpoint has answered nothing for too long: the request was not sent."""


class Limiter:
    """Lets at most `most` requests run; gives way on a 429, grows back by one a round of successes.

    A 429 that comes before a whole round was answered says that the level is far off, and halves
    it. One that comes later says that it is just above what the server takes: a little is given up,
    what is left to there is regained soon, and the level itself is left alone for a while, longer
    where the server asks for long pauses. After a 429 nothing starts before the time the server
    asked for has passed, and then not everything at once. Additive increase and multiplicative
    decrease as in Chiu and Jain, «Analysis of the increase and decrease algorithms for congestion
    avoidance in computer networks», 1989; the memory of where it failed as in Ha, Rhee and Xu,
    «CUBIC», 2008.

    Where the endpoint answers nothing at all, the breaker has a single request sent at a time;
    after the first answer the others follow over a while that is a tenth of the outage.

    Args:
        most: The most requests at once.
        start: Where to start below `most`: the level doubles while nothing fails and answers take
            no longer.
        patience: Seconds without any answer after which waiting requests are given up.
    """

    def __init__(self, most: int, *, start: int | None = None, patience: float = math.inf) -> None:
        self.most = most
        self.allowed = float(most if start is None else min(start, most))
        self.breaker = Breaker(patience)
        self._doubling, self._start = start is not None, self.most if start is None else start
        self._running = self._answered = 0
        self._since_hung = math.inf
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._ceiling, self._least = float("inf"), 1.0
        self._released = self._cut_at = self._hold_until = float("-inf")
        self._release = _RELEASE
        self._round = 0.0
        self._timed, self._in_round = 0, int(self.allowed)
        self._quickest = math.inf
        self._announced = Announced()
        self._apart, self._paced = 0.0, -math.inf
        self._slot: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        """Wait for a place.

        Raises:
            EndpointDown: If the endpoint was given up, and it is not time for the next probe.
        """
        now = _now()
        if self.breaker.gave_up(now) and now < self.breaker.resumes_at:
            raise EndpointDown
        if not self._waiting and self._may_start():
            self._start_one()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._wake()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._running -= 1
                self._wake()
            raise

    async def __aexit__(self, *_: object) -> None:
        """Give the place back."""
        self._running -= 1
        self._wake()

    def keep_to(self, per_minute: int | None) -> None:
        """Start at most so many requests a minute, evenly; of several limits the least holds."""
        if per_minute is None or 60 / per_minute <= self._apart:
            return
        self._apart = 60 / per_minute
        turn, takers = TURN.get()
        if takers > 1:
            # One clock for all processes: their starts lie between each other, never together.
            self._slot = turn * self._apart / takers - time.time() + time.monotonic()
            self._paced = self._in_slot(time.monotonic())

    def keep_within(self, most: int) -> None:
        """Let no more run at once than the endpoint can work on."""
        self.most, self.allowed = min(self.most, most), min(self.allowed, most)

    async def pause_over(self) -> None:
        """Wait, with a place taken, until the time is over that the server has asked for."""
        loop = asyncio.get_running_loop()
        while (left := self.breaker.resumes_at - loop.time()) > 0:
            await asyncio.sleep(left)

    def answered(self, started: float = -math.inf) -> None:
        """Note that a request got an answer of whatever kind: the endpoint works."""
        now = _now()
        tripped_at = self.breaker.tripped_at
        self.breaker.ended(started)
        if self.breaker.answered(started, now) and tripped_at is not None:
            self._let_go(now, tripped_at)
            self._wake()

    def succeeded(self, started: float = -math.inf, seconds: float | None = None) -> None:
        """Tell that a request, sent at `started`, was answered well, after so many seconds."""
        self.answered(started)
        self._since_hung += 1
        if 0 < self._running < int(self.allowed):  # places that stand empty tell nothing
            return
        self._answered += 1
        if seconds is not None:
            self._time(seconds)
        if self._doubling:
            gain = 1.0 if self.allowed < _DOUBLED_TO else _STEP / self.allowed
            self.allowed = min(self.most, self.allowed + gain)
            return
        left = self._ceiling - 1 - self.allowed
        if left < 0:
            if _now() < self._hold_until:
                return
            self._ceiling = float("inf")
        gain = max(1.0, left / 2) if self._ceiling < float("inf") else 1.0
        # a round of slow answers would take minutes: one a second instead
        gain = max(gain, seconds or 0.0)
        self.allowed = min(self.most, self.allowed + gain / self.allowed)

    def throttled(self, retry_after: float | None, started: float = -math.inf) -> None:
        """Tell that the server answered 429; `retry_after` is in seconds."""
        now = _now()
        self._doubling = False
        retry_after = retry_after or self._announced.empty_for(now) or None
        # a closed window says nothing of how many at once are too many
        if self.breaker.tripped_at is None and self._announced.opens(now) is None:
            self._cut(now, retry_after)
        if retry_after:
            self.breaker.wait_until(now + retry_after)
        self._fail(started, now, rejected=True, asked=retry_after or 0.0)

    def failed(
        self, started: float, *, hung: bool = False, retry_after: float | None = None
    ) -> None:
        """Note a failure that may pass; `hung` where no answer came in time."""
        now = _now()
        self._doubling = False
        if retry_after:
            self.breaker.wait_until(now + retry_after)
        # One of a round may be lost on its way; two are too many at once, that wait at the server.
        # Where each one counted, a timeout in 500 requests took half of the throughput.
        if hung and self._since_hung < self.allowed and self.breaker.tripped_at is None:
            self._cut(now, None)
        self._since_hung = 0 if hung else self._since_hung
        self._fail(started, now, rejected=False)

    def told(self, remaining: float, seconds: float) -> None:
        """Record the remaining limit that the server reports, and the seconds until its reset."""
        self._announced.told(remaining, seconds, _now())

    def _cut(self, now: float, retry_after: float | None) -> None:
        if now - self._cut_at >= _CUT_EVERY:  # a burst of 429s is one signal, not many
            near = self._answered >= int(self.allowed) - 1
            self._ceiling = self.allowed if near else self._ceiling * _BACK_OFF
            self._least = max(1.0, self.allowed / 4)
            self.allowed = max(1.0, self.allowed * (_BACK_OFF if near else _FAR_OFF))
            self._cut_at = now
            self._hold_until = now + max(_HOLD, _HOLD_PAUSES * (retry_after or 0))
        if 1 < self._running <= self.allowed:  # of a burst, those that still run were taken
            self.allowed = max(self._least, self._running - 1.0)
        self._answered = 0

    def _fail(self, started: float, now: float, *, rejected: bool, asked: float = 0.0) -> None:
        self.breaker.ended(started)
        self.breaker.failed(started, now, rejected=rejected, asked=asked)
        if self.breaker.gave_up(now):
            while self._waiting:
                turn = self._waiting.popleft()
                if not turn.done():
                    turn.set_exception(EndpointDown())

    def _let_go(self, now: float, tripped_at: float) -> None:
        """Let the others follow the request that was answered, more slowly after a long outage."""
        self._released = now
        self._release = min(max(_RELEASE, (now - tripped_at) / 10), _SLOWEST_RELEASE)

    def _time(self, seconds: float) -> None:
        """Stop growing where a whole round of answers took longer than the quickest round did."""
        self._round, self._timed = self._round + seconds, self._timed + 1
        if self._timed < self._in_round:
            return
        mean, self._round, self._timed = self._round / self._timed, 0.0, 0
        self._in_round = int(self.allowed)
        if self.allowed > self._start and mean > _SLOWER * self._quickest:
            self._doubling, self._ceiling = False, self.allowed
            self._hold_until = _now() + _HOLD
        self._quickest = min(self._quickest, mean)

    def _room(self, now: float) -> float:
        """Return how many may run now: after a pause one, and soon all that are allowed."""
        breaker = self.breaker
        if now < breaker.resumes_at or self._announced.opens(now) is not None:
            return 0.0
        if breaker.tripped_at is not None:
            return 1.0 + breaker.under_way_before()
        since = now - max(breaker.resumes_at, self._released)
        room = min(self.allowed, 1 + self.allowed * since / self._release)
        left = min(breaker.window.left(now), self._announced.left(now))
        return min(room, max(1.0, left))

    def _may_start(self) -> bool:
        now = _now()
        return now >= self._next_start() and self._running < int(self._room(now))

    def _next_start(self) -> float:
        return max(self._announced.next_start, self._paced)

    def _in_slot(self, start: float) -> float:
        """Return the first time from `start` on at which it is the turn of this process."""
        if self._slot is None:
            return start
        turns = (start - self._slot) / self._apart
        return self._slot + math.ceil(turns - _A_HAIR) * self._apart

    def _start_one(self) -> None:
        now = _now()
        self._running += 1
        self._announced.started(now, self._running)
        if self._apart:
            self._paced = self._in_slot(max(self._paced, now - CAUGHT_UP) + self._apart)
        if self.breaker.window.beyond(self._running) or self._announced.untold(now):
            # so far apart that a rejection is heard before many have started
            self._paced = max(self._paced, now + self.breaker.apart)

    def _wake(self) -> None:
        now, tripped_at = _now(), self.breaker.tripped_at
        if tripped_at is not None and self.breaker.opened(now):
            self._let_go(now, tripped_at)
        while self._waiting and self._may_start():
            turn = self._waiting.popleft()
            if not turn.done():
                self._start_one()
                turn.set_result(None)
        self._wake_later()

    def _wake_later(self) -> None:
        """Look again when there may be more room, where somebody waits and time makes it."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        paced = self._next_start()
        if not self._waiting or (now >= paced and self._room(now) >= self.allowed):
            return
        soon = _PROBED if self.breaker.tripped_at is not None else self._release / self.allowed
        due = max(self.breaker.resumes_at, paced, self._announced.opens(now) or now + soon)
        if self._timer is not None and now < self._timer.when():
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due, self._wake_in_time)

    def _wake_in_time(self) -> None:
        self._timer = None  # a loop may call a little early, by which it would seem to be due yet
        self._wake()


def _now() -> float:
    """Return the time of the loop, which is the monotonic clock where none runs."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()


# Of the processor time of a request, what lies between two starts; and at most, in seconds
_SHARE = 0.8
_MOST_APART = 0.01


class Pace:
    """Starts requests no closer together than they can be worked through.

    An event loop advances all that it works on side by side. Requests that start together would
    therefore all be sent when the last of them is ready, be answered together, and leave first the
    server idle and then the processor, for as long as the run lasts. Apart by most of what a
    request costs the processor, none of them is sent later than it would have been, and most are
    sent sooner.
    """

    def __init__(self) -> None:
        self._started = 0
        self._computed = self._next = 0.0

    async def turn(self) -> None:
        """Wait until the next request may start."""
        now, computed = asyncio.get_running_loop().time(), time.process_time()
        if self._started == 0:
            self._computed = computed
        apart = _SHARE * (computed - self._computed) / max(1, self._started)
        self._started += 1
        self._next = max(now, self._next + min(apart, _MOST_APART))
        if self._next > now:
            await asyncio.sleep(self._next - now)
