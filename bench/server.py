"""A fast OpenAI-compatible server on loopback that can be slow, full, or ill in every way at once.

    python bench/server.py [port=0] [latency=0-2] [seed=0] [KIND=PROBABILITY …] [at_once=N] [rate=R]
    [log=FILE] … python bench/server.py [per_window=60] [window=60] [retry_after=-1] [outage=503]
    [outage_after=2] [outage_for=300] …

Prints its address as its first line. What it answers depends on the question alone, that is on the
model and the first two messages: never on time, on faults, or on what is asked again after an
answer that could not be used. A question meets at most `most_faults` faults. KIND is one of
`FAULTS`. `GET /counts` gives the sums, and writes the log out.

In other benchmarks: `with running(latency="0.05") as server:` starts one as a process of its own.
"""

import asyncio
import hashlib
import http.client
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scripted import content

REFUSED = {"429": 429, "500": 500, "503": 503, "529": 529}
UNUSABLE = ("not_json", "truncated", "empty")
FAULTS = (*REFUSED, "drop", "cut", "slow", "hang", "garbage", *UNUSABLE, "refusal", "type")
REFUSAL = "I'm sorry, but I can't help with that."
PROSE = "Sure! Here is what I make of it, in prose and without any structure."
PAGE = b"<html><body>Bad gateway</body></html>"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Settings:
    """How the server behaves.

    Attributes:
        port: port; 0: any free one.
        latency: Seconds before an answer, such as `0.05`, or a range such as `0-2`, drawn by seed
            and question.
        seed: Of every draw.
        faults: The probability of each kind at each arrival of a question.
        most_faults: How many faults a question meets at most.
        retry_after: Seconds that a 429 asks to wait; less than 0: it does not say.
        slow_by: Seconds by which a slow answer is later.
        hung: A text; a request that has it in it is never answered.
        at_once: The capacity: more requests under way are answered 429.
        rate: The capacity: more requests a second are answered 429, after a first burst of `burst`
            seconds' worth.
        per_window: The capacity: more requests in a window are answered 429; what is turned away
            takes none of it.
        window: Seconds of a window; the first begins with the first request.
        tells: 1 where an answer tells what its window has left, as most providers do.
        outage: The status that everything is answered with while the server is down.
        outage_after: Seconds from the first request to the outage.
        outage_for: Seconds that it lasts.
        log: Where a JSON line is written for each request that has ended.
    """

    port: int = 0
    latency: str = "0"
    seed: int = 0
    faults: dict[str, float] = field(default_factory=dict)
    most_faults: int = 2
    retry_after: float = 1.0
    slow_by: float = 4.0
    hung: str = ""
    at_once: int = 0
    rate: float = 0.0
    burst: float = 1.0
    per_window: int = 0
    window: float = 60.0
    tells: int = 0
    outage: int = 0
    outage_after: float = 0.0
    outage_for: float = 0.0
    log: str = ""


def settings_of(words: dict[str, Any]) -> Settings:
    """Return the settings that `words` name; end with a sentence where one can't be read."""
    known = (one for one in fields(Settings) if one.name != "faults")
    kinds: dict[str, Any] = {one.name: type(one.default) for one in known}
    given: dict[str, Any] = {"faults": {}}
    for name, value in words.items():
        try:
            if name in FAULTS:
                given["faults"][name] = float(value)
            else:
                given[name] = kinds[name](value)
                if name == "latency":
                    between(given[name])
        except (KeyError, ValueError):
            expected = ", ".join([*kinds, *FAULTS])
            sys.exit(f"{name}={value}: expected one of {expected}, and a fitting value.")
    return Settings(**given)


def between(latency: str) -> tuple[float, float]:
    """Return the least and the most of `latency`.

    Raise ValueError where it is no number and no range.
    """
    low, _, high = latency.partition("-")
    return float(low), float(high or low)


@dataclass
class Arrived:
    """One request, from its arrival to its end.

    Attributes:
        key: Hash of the whole body.
        question: Hash of the model and the first two messages.
        at: When it came, in seconds of the machine's monotonic clock, which all processes share.
        under_way: How many were under way with it.
    """

    key: str
    question: str
    model: str
    at: float
    under_way: int
    body: dict[str, Any]
    size: int
    fault: str = ""


class Answers:
    """Decides what becomes of each request, and counts it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.low, self.high = between(settings.latency)
        self.counts: Counter[str] = Counter()
        self.arrived: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.well: Counter[str] = Counter()
        self.under_way = self.most_under_way = 0
        self.tokens, self.filled = settings.rate * settings.burst, time.monotonic()
        self.first: float | None = None
        self.window, self.taken = 0, 0
        self.log = open(settings.log, "w", encoding="utf-8") if settings.log else None  # noqa: SIM115

    def arrive(self, data: bytes) -> tuple[Arrived, float | None]:
        """Take a request in; return it, and the seconds to its answer: None for never."""
        body = json.loads(data)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        first = [message["content"] for message in body["messages"][:2]]
        asked = json.dumps([body["model"], *first]).encode()
        key, question = (hashlib.sha256(text).hexdigest()[:16] for text in (data, asked))
        self.arrived[question] += 1
        self.counts["arrived"] += 1
        at, model, fault = time.monotonic(), body["model"], self._fault(question)
        found = Arrived(key, question, model, at, self.under_way, body, len(data), fault)
        if self.settings.hung and self.settings.hung.encode() in data:
            found.fault = "hang"
        self.first = found.at if self.first is None else self.first
        if self._down(found.at - self.first):
            found.fault = "down"
            return found, 0.0
        if self._full() or self._window_full(found.at - self.first):
            found.fault = "full"
            return found, 0.0
        return found, self._seconds(found)

    def answer(self, found: Arrived) -> tuple[bytes, bool]:
        """Return the bytes that answer a request, and whether the connection then closes."""
        fault = found.fault
        if fault == "drop":
            return b"", True
        if fault == "garbage":
            return _http(200, PAGE, "text/html"), False
        if fault in ("full", "down") or fault in REFUSED:
            status = self.settings.outage if fault == "down" else REFUSED.get(fault, 429)
            error = {"message": f"scripted {status}", "type": "scripted", "code": str(status)}
            wait = self.settings.retry_after
            asked = f"Retry-After: {wait:g}\r\n" if status == 429 and wait >= 0 else ""
            return _http(status, json.dumps({"error": error}).encode(), more=asked), False
        kind = "text/plain" if fault == "type" else "application/json"
        whole = _http(200, _completion(found), kind, self._left())
        return (whole[: len(whole) - len(whole) // 4], True) if fault == "cut" else (whole, False)

    def end(self, found: Arrived, *, gone: bool) -> None:
        """Count a request that was answered, or whose client has gone before that."""
        self.under_way -= 1
        kind = "gone" if gone else found.fault or "well"
        well = not gone and found.fault in ("", "slow", "type")
        self.counts[kind] += 1
        if well:
            self.well[found.question] += 1
        if self.log is None:
            return
        status = {"full": 429, "down": self.settings.outage, **REFUSED}.get(kind, 200)
        status = 0 if gone or found.fault in ("drop", "hang") else status
        row = {"time": time.monotonic(), "arrived": found.at, "key": found.key}
        row |= {"question": found.question, "model": found.model, "status": status}
        row |= {"fault": found.fault, "gone": gone, "well": well, "under_way": found.under_way}
        row |= {"retry_after": self.settings.retry_after if status == 429 else None}
        self.log.write(json.dumps(row) + "\n")

    def sums(self) -> bytes:
        """Return the counts as JSON, and write the log out.

        Beside the kinds: `questions`, `answered` (questions answered well), `well_twice` (those
        more than once), and `under_way`.
        """
        if self.log is not None:
            self.log.flush()
        twice = sum(n > 1 for n in self.well.values())
        more = {"questions": len(self.arrived), "answered": len(self.well), "well_twice": twice}
        under_way = {"under_way": self.under_way, "most_under_way": self.most_under_way}
        return json.dumps({**self.counts, **more, **under_way, "cpu": time.process_time()}).encode()

    def _fault(self, question: str) -> str:
        """Draw what befalls a request.

        Two faults of a question that makes three arrivals are enough.
        """
        if not self.settings.faults or self.faults[question] >= self.settings.most_faults:
            return ""
        drawn = self._draw(question, "fault")
        for kind in FAULTS:
            drawn -= self.settings.faults.get(kind, 0.0)
            if drawn < 0:
                self.faults[question] += 1
                return kind
        return ""

    def _seconds(self, found: Arrived) -> float | None:
        if found.fault == "hang":
            return None
        if found.fault == "429":
            return 0.0
        drawn = self.low
        if self.high > self.low:
            drawn += (self.high - self.low) * self._draw(found.question, "latency")
        return drawn + (self.settings.slow_by if found.fault == "slow" else 0.0)

    def _draw(self, question: str, what: str) -> float:
        """Return a number in [0, 1), set by the seed, the question, and how often it has come."""
        text = f"{self.settings.seed} {what} {question} {self.arrived[question]}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") / 2**56

    def _down(self, seconds: float) -> bool:
        began = seconds - self.settings.outage_after
        return bool(self.settings.outage) and 0 <= began < self.settings.outage_for

    def _window_full(self, seconds: float) -> bool:
        if not self.settings.per_window:
            return False
        window = int(seconds // self.settings.window)
        if window != self.window:
            self.window, self.taken = window, 0
        if self.taken >= self.settings.per_window:
            return True
        self.taken += 1
        return False

    def _left(self) -> str:
        """Tell what is left of the window, and when the next one opens."""
        if not (self.settings.tells and self.settings.per_window and self.first is not None):
            return ""
        seconds = time.monotonic() - self.first
        reset = (int(seconds // self.settings.window) + 1) * self.settings.window - seconds
        left = self.settings.per_window - self.taken
        told = f"x-ratelimit-remaining-requests: {left}\r\n"
        return f"{told}x-ratelimit-reset-requests: {reset:.3f}s\r\n"

    def _full(self) -> bool:
        """Tell whether the capacity is used up; what is turned away takes none of it."""
        if 0 < self.settings.at_once < self.under_way:
            return True
        if not self.settings.rate:
            return False
        now, most = time.monotonic(), self.settings.rate * self.settings.burst
        self.tokens = min(most, self.tokens + (now - self.filled) * self.settings.rate)
        self.filled = now
        if self.tokens < 1:
            return True
        self.tokens -= 1
        return False


class Connection(asyncio.Protocol):
    """One connection, kept alive; its requests are answered one after another."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.buffer = b""
        self.found: Arrived | None = None
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Remember where to write."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Take in what has come; a request is answered as soon as it is whole."""
        self.buffer += data
        while self.found is None and not self.transport.is_closing():
            end = self.buffer.find(b"\r\n\r\n")
            length = _LENGTH.search(self.buffer, 0, end + 2) if end >= 0 else None
            size = end + 4 + (int(length[1]) if length else 0)
            if end < 0 or len(self.buffer) < size:
                return
            body, counts = self.buffer[end + 4 : size], self.buffer[:4] == b"GET "
            self.buffer = self.buffer[size:]
            if counts:
                self.transport.write(_http(200, self.answers.sums()))
                continue
            self.found, seconds = self.answers.arrive(body)
            if seconds == 0:
                self._answer()
            elif seconds is not None:
                self.timer = asyncio.get_running_loop().call_later(seconds, self._later)

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the request whose client has gone."""
        if self.timer is not None:
            self.timer.cancel()
        if self.found is not None:
            self.answers.end(self.found, gone=True)
            self.found = None

    def _later(self) -> None:
        self._answer()
        self.data_received(b"")

    def _answer(self) -> None:
        found, self.found = self.found, None
        assert found is not None
        data, closing = self.answers.answer(found)
        self.transport.write(data)
        if closing:
            self.transport.close()
        self.answers.end(found, gone=False)


def _http(status: int, body: bytes, kind: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status} Scripted\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n{more}\r\n".encode() + body


def _completion(found: Arrived) -> bytes:
    text, finish = content(found.body), "stop"
    if found.fault == "truncated":
        text, finish = text[:20], "length"
    else:
        text = {"not_json": PROSE, "empty": "", "refusal": REFUSAL}.get(found.fault, text)
    asked, used = found.size // 4, len(text) // 4
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "finish_reason": finish, "message": message}]
    usage = {"prompt_tokens": asked, "completion_tokens": used, "total_tokens": asked + used}
    about = {"id": found.key, "object": "chat.completion", "created": 0, "model": found.model}
    return json.dumps({**about, "choices": choices, "usage": usage}).encode()


async def serve(settings: Settings) -> None:
    """Serve until the process is told to end."""
    answers, ended = Answers(settings), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = await loop.create_server(
        partial(Connection, answers), "127.0.0.1", settings.port, backlog=1024
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await ended.wait()
    answers.sums()


@dataclass(frozen=True)
class Server:
    """A server that runs: its address, its process, and its log."""

    url: str
    process: "subprocess.Popen[str]"
    log: Path | None

    def counts(self) -> dict[str, Any]:
        """Return its counts, and have it write its log out."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", urlsplit(self.url).port or 0, timeout=30
        )
        try:
            connection.request("GET", "/counts")
            found: dict[str, Any] = json.loads(connection.getresponse().read())
            return found
        finally:
            connection.close()

    def rows(self) -> list[dict[str, Any]]:
        """Return the log: a row for each request that has ended, in the order of their ends."""
        self.counts()
        assert self.log is not None
        return [json.loads(line) for line in self.log.read_bytes().splitlines()]


@contextmanager
def running(**settings: object) -> Iterator[Server]:
    """Run a server as a process of its own; faults are given as in `faults={"drop": 0.1}`."""
    faults = settings.pop("faults", {})
    assert isinstance(faults, dict)
    words = [f"{name}={value}" for name, value in {**settings, **faults}.items()]
    process = subprocess.Popen(
        [sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            sys.exit(f"{Path(__file__).name} {' '.join(words)}: it did not start.")
        log = settings.get("log")
        yield Server(url, process, Path(str(log)) if log else None)
    finally:
        process.terminate()
        process.wait(10)


def main() -> None:
    """Serve what the words ask for."""
    asyncio.run(serve(settings_of(dict(word.partition("=")[::2] for word in sys.argv[1:]))))


if __name__ == "__main__":
    main()
