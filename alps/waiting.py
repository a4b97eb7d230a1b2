"""Status of a command that takes time, on stderr: a line of the terminal, or of a log.

A terminal has one line, rewritten in place. Elsewhere a line is written every `period()` seconds.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

VARIABLE = "ALPS_PROGRESS"
"""The variable that sets the seconds between lines of a log; `off` for none."""
_PERIOD = 30.0
# Seconds between two drawings of a line in a terminal
_REDRAWN = 1.0
_ERASE = "\r\x1b[2K"


def period() -> float | None:
    """Return the seconds between lines where stderr is no terminal; None for no lines."""
    value = os.environ.get(VARIABLE, "").strip()
    if value == "off":
        return None
    with suppress(ValueError):
        if (seconds := float(value)) > 0:
            return seconds
    return _PERIOD


def log_line(text: str) -> None:
    """Write a line of a log, with the time of the day."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def in_words(seconds: float) -> str:
    """Return seconds in whole ones: `12 s`, `3 min 5 s`, `2 h 10 min`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class Ticking:
    """A thread that calls something every so many seconds, until it is stopped."""

    def __init__(self, seconds: float, tick: Callable[[], None]) -> None:
        self._ended = threading.Event()
        self._seconds, self._tick = seconds, tick
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self._tick()

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        self._ended.set()
        self._thread.join()


class _Status:
    """What is done now, and since when."""

    def __init__(self, text: str, *, announced: bool) -> None:
        self._terminal = sys.stderr.isatty()
        self._lock, self.paused = threading.Lock(), False
        every = _REDRAWN if self._terminal else period()
        self.tell(text, announced=announced)
        self._ticking = None if every is None else Ticking(every, self._draw)

    def _draw(self) -> None:
        with self._lock:
            if self.paused:
                return
            took = time.monotonic() - self._since
            waited = f"{self.text}: {in_words(took)}" if took >= _REDRAWN else f"{self.text} …"
            if self._terminal:
                # The cursor returns: what others print takes the place of the line.
                print(f"{_ERASE}{waited}", end="\r", file=sys.stderr, flush=True)
            else:
                log_line(waited)

    def erase(self) -> None:
        with self._lock:
            if self._terminal and not self.paused:
                print(_ERASE, end="", file=sys.stderr, flush=True)

    def pause(self) -> None:
        self.erase()
        self.paused = True

    def tell(self, text: str, *, announced: bool = False) -> None:
        self.text, self._since = text, time.monotonic()
        if self._terminal:
            self._draw()
        elif announced and period() is not None:
            log_line(text)

    def stop(self) -> None:
        if self._ticking is not None:
            self._ticking.stop()
        self.erase()


# That of the command; a process has one command
_shown: list[_Status] = []


@contextmanager
def status(text: str, *, announced: bool = False) -> Iterator[None]:
    """Show what is done, until it is.

    Args:
        text: Says it, as in `loading`.
        announced: Whether a log has a line at once, and not after `period()` seconds alone.
    """
    if _shown:
        yield
        return
    _shown.append(_Status(text, announced=announced))
    try:
        yield
    finally:
        end()


def tell(text: str, *, announced: bool = False) -> None:
    """Say what is done from now on, where anything is shown; see `status`."""
    for one in _shown:
        one.tell(text, announced=announced)


def end() -> None:
    """End what is shown, before results are printed."""
    while _shown:
        _shown.pop().stop()


@contextmanager
def paused(then: str) -> Iterator[None]:
    """Leave the terminal to another line; `then` is what is done after it."""
    for one in _shown:
        one.pause()
    try:
        yield
    finally:
        for one in _shown:
            one.paused = False
            one.tell(then)


def erase() -> None:
    """Remove the line before something else is printed; it is drawn again below that."""
    for one in _shown:
        one.erase()
