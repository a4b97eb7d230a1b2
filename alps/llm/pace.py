"""When the next request starts, so that requests do not come and go in step."""

import asyncio
import time

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
