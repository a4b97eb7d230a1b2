"""How many requests may be under way at once, learnt from the server's answers."""

import asyncio
from collections import deque

_CUT_EVERY = 1.0


class Limiter:
    """Lets at most `most` requests run; halves on a 429 and grows back by one per round of successes.

    After a 429 nothing starts before the time the server asked for has passed. Additive increase and multiplicative
    decrease as in Chiu and Jain, «Analysis of the increase and decrease algorithms for congestion avoidance in computer
    networks», 1989.
    """

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ValueError(f"most must be >= 1, got {most}")
        self.most = most
        self.allowed = float(most)
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._paused_until = self._cut_at = float("-inf")

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

    def succeeded(self) -> None:
        """Tell that a request was answered."""
        self.allowed = min(self.most, self.allowed + 1 / self.allowed)

    def throttled(self, retry_after: float | None) -> None:
        """Tell that the server answered 429; `retry_after` is in seconds."""
        now = asyncio.get_running_loop().time()
        if now - self._cut_at >= _CUT_EVERY:  # a burst of 429s is one signal, not many
            self.allowed, self._cut_at = max(1.0, self.allowed / 2), now
        if retry_after:
            self._paused_until = max(self._paused_until, now + retry_after)

    def _may_start(self) -> bool:
        return self._running < int(self.allowed) and asyncio.get_running_loop().time() >= self._paused_until

    def _wake(self) -> None:
        while self._waiting and self._may_start():
            place = self._waiting.popleft()
            if not place.done():
                self._running += 1
                place.set_result(None)
        loop = asyncio.get_running_loop()
        if self._waiting and loop.time() < self._paused_until:
            loop.call_at(self._paused_until, self._wake)
