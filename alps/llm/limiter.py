"""How many requests may be under way at once, learnt from the server's answers."""

import asyncio
from collections import deque

_CUT_EVERY = 1.0
_BACK_OFF, _FAR_OFF = 0.85, 0.5
_HOLD, _HOLD_PAUSES = 20.0, 20.0
_RELEASE = 0.5


class Limiter:
    """Lets at most `most` requests run; gives way on a 429 and grows back by one per round of successes.

    A 429 that comes before a whole round was answered says that the level is far off, and halves it. One that comes
    later says that it is just above what the server takes: a little is given up, what is left to there is regained
    soon, and the level itself is left alone for a while, longer where the server asks for long pauses. After a 429
    nothing starts before the time the server asked for has passed, and then not everything at once. Additive increase
    and multiplicative decrease as in Chiu and Jain, «Analysis of the increase and decrease algorithms for congestion
    avoidance in computer networks», 1989; the memory of where it failed as in Ha, Rhee and Xu, «CUBIC», 2008.
    """

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ValueError(f"most must be >= 1, got {most}")
        self.most = most
        self.allowed = float(most)
        self._running = self._answered = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._ceiling, self._least = float("inf"), 1.0
        self._paused_until = self._cut_at = self._hold_until = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        """Wait for a place."""
        if not self._waiting and self._may_start():
            self._running += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._wake()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._running -= 1
                self._wake()
            raise

    async def __aexit__(self, *_: object) -> None:
        """Give the place back."""
        self._running -= 1
        self._wake()

    async def pause_over(self) -> None:
        """Wait, with a place taken, until the time that the server has asked for since then has passed."""
        loop = asyncio.get_running_loop()
        while (left := self._paused_until - loop.time()) > 0:
            await asyncio.sleep(left)

    def succeeded(self) -> None:
        """Tell that a request was answered."""
        if 0 < self._running < int(self.allowed):  # places that stand empty tell nothing
            return
        self._answered += 1
        left = self._ceiling - 1 - self.allowed
        if left < 0:
            if asyncio.get_running_loop().time() < self._hold_until:
                return
            self._ceiling = float("inf")
        gain = max(1.0, left / 2) if self._ceiling < float("inf") else 1.0
        self.allowed = min(self.most, self.allowed + gain / self.allowed)

    def throttled(self, retry_after: float | None) -> None:
        """Tell that the server answered 429; `retry_after` is in seconds."""
        now = asyncio.get_running_loop().time()
        if now - self._cut_at >= _CUT_EVERY:  # a burst of 429s is one signal, not many
            near = self._answered >= int(self.allowed) - 1
            self._ceiling = self.allowed if near else self._ceiling * _BACK_OFF
            self._least = max(1.0, self.allowed / 4)
            self.allowed = max(1.0, self.allowed * (_BACK_OFF if near else _FAR_OFF))
            self._cut_at, self._hold_until = now, now + max(_HOLD, _HOLD_PAUSES * (retry_after or 0))
        if 1 < self._running <= self.allowed:  # of a burst, those that still run were taken
            self.allowed = max(self._least, self._running - 1.0)
        self._answered = 0
        if retry_after:
            self._paused_until = max(self._paused_until, now + retry_after)

    def _room(self, now: float) -> float:
        """Return how many may run now: after a pause one, and soon all that are allowed."""
        if now < self._paused_until:
            return 0.0
        return min(self.allowed, 1 + self.allowed * (now - self._paused_until) / _RELEASE)

    def _may_start(self) -> bool:
        return self._running < int(self._room(asyncio.get_running_loop().time()))

    def _wake(self) -> None:
        while self._waiting and self._may_start():
            place = self._waiting.popleft()
            if not place.done():
                self._running += 1
                place.set_result(None)
        loop = asyncio.get_running_loop()
        now = loop.time()
        waits = bool(self._waiting) and self._room(now) < self.allowed
        if waits and (self._timer is None or self._timer.when() <= now):
            later = now + _RELEASE / self.allowed
            self._timer = loop.call_at(max(self._paused_until, later), self._wake)
