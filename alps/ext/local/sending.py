"""Requests to servers of one's own: streamed, no more at once than there are slots, within context.

A server on a laptop writes six tokens a second where a provider writes sixty. What counts is that
it works: here `timeout` is of its silence, and not of a whole answer. A request of which nothing
has come yet waits behind those that were sent before it: while one of those is answered, it is not
silent.
"""

import asyncio
import ipaddress
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from alps.errors import UsageError
from alps.ext.local import serves
from alps.llm import provider
from alps.llm.types import EndpointCalls, Reply, Request, Sender, TransportError
from alps.sizes import Unreadable

if TYPE_CHECKING:
    from alps.ext.local.server import ModelFile, Server
    from alps.llm.wire import Exchange

# Seconds; the time that is kept here comes before every other
_NEVER = 7 * 24 * 3600.0
# Seconds that a server may take to say what it is
_A_MOMENT = 5.0
# Seconds between two requests of which either may come to the server before the other
_TOGETHER = 5.0
# Bytes of a streamed body for each of one that comes whole
_WORDIER = 8
# An answer of so many tokens is nothing unusual
_AN_ANSWER = 800
# Tokens a byte: of the fewest that were seen, what a text of another language may have; and what
# any text has, whose longest words are tokens
_DENSER, _LONGEST = 0.7, 0.1
_A_STREAM = re.compile(rb"\s*(?::[^\n]*\n\s*)*data:")
# How servers refuse a request that they do not know
_REFUSES = (400, 404, 405, 422, 501)
_CONTEXT = re.compile(
    r"context[\s_-]*(?:length|size|window|limit)[^\d]{0,20}([\d,]+)", re.IGNORECASE
)
# What of a message a chunk brings a part of
_GOES_ON = ("content", "reasoning_content", "reasoning", "refusal", "arguments", "name")


def sender(asking: EndpointCalls) -> Sender | None:
    """Return what asks a server of one's own; None for all others.

    Raises:
        UsageError: If the model that is named is not there.
    """
    if serves(asking.model):
        if asking.api_base is not None:
            what = "local models use their own server; leave the address out, or name openai/NAME"
            raise UsageError(f"{asking.model}: {what}")
        from alps.ext.local.server import model_file

        return Started(asking, model_file(asking.model))
    if asking.limiter is None or not is_own(asking.api_base):
        return None
    return OwnServer(asking)


def is_own(address: str | None) -> bool:
    """Tell whether an address is on this machine, or in a network of one's own."""
    host = urlsplit(address or "").hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))


def speed(rate: float) -> str:
    """Return a rate in tokens a second as people read it: `2.7 tokens/s`, `1,650 tokens/s`."""
    return f"{rate:,.0f} tokens/s" if rate >= 10 else f"{rate:.2g} tokens/s"


@dataclass(eq=False)
class _RequestClock:
    """When a request was sent, and when anything of its answer last came."""

    sent: float
    last: float
    limit: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    came: bool = False
    first: float | None = None
    tokens: int = 0

    def hear(self, data: bytes) -> None:
        """Note a piece of an answer."""
        # A comment says that the server lives, and a sign of progress that it reads the prompt.
        token = not data.startswith(b":") and b'"prompt_progress"' not in data
        if token or self.first is None:
            self.last, self.came = _now(), True
        if token and self.first is None:
            self.first = self.last
        self.tokens += data.count(b"data:") if token else 0

    def writing(self) -> float:
        """Return the seconds in which the answer was written."""
        start = self.sent if self.first is None or self.first == self.last else self.first
        return self.last - start


class _Silence:
    """Ends requests at an endpoint that is silent for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._clocks: list[_RequestClock] = []

    def starts(self) -> _RequestClock:
        clock = _RequestClock(_now(), _now())
        self._clocks.append(clock)
        self._look(clock)
        return clock

    def ended(self, clock: _RequestClock) -> None:
        self._clocks.remove(clock)
        for other in self._clocks:
            # One before it is out of its way.
            if not other.came and clock.sent <= other.sent + _TOGETHER:
                other.last = _now()

    def _look(self, clock: _RequestClock) -> None:
        """End a request that is late, else look again when it may be."""
        if clock not in self._clocks:
            return
        last = clock.last
        if not clock.came:
            sent = clock.sent + _TOGETHER
            last = max(one.last for one in self._clocks if one.sent <= sent)
        loop, due = asyncio.get_running_loop(), last + self._seconds
        if due <= _now():
            clock.limit.reschedule(_now())
        elif due < math.inf:
            loop.call_at(due, self._look, clock)


class OwnServer:
    """Asks one server of one's own."""

    def __init__(self, asking: EndpointCalls) -> None:
        self._asking = asking
        self._silence = _Silence(asking.timeout)
        self._known: asyncio.Task[None] | None = None
        self._streams, self._progress = True, False
        self._written, self._writing = 0, 0.0
        self._context: int | None = None
        self._density = math.inf
        self._said: set[str] = set()

    async def ready(self) -> None:
        """Learn, once, how many slots the server has, and what fits into one."""
        if self._known is None:
            self._known = asyncio.ensure_future(self._learn())
        await asyncio.shield(self._known)

    async def __call__(self, request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        """Make one request, and learn from its answer how fast the server is.

        Raises:
            TransportError: If no answer came, or none would.
        """
        size = sum(len(message["content"].encode(errors="replace")) for message in messages)
        self._refuse_too_long(size)
        clock = self._silence.starts()
        prepare, asked = partial(self._prepare, clock), self._as_sent(request)
        try:
            async with clock.limit:
                reply = await provider.send(asked, messages, timeout=_NEVER, prepare=prepare)
        except TimeoutError as error:
            raise self._late(clock) from error
        except TransportError as error:
            if self._streams and error.status in _REFUSES and "stream" in str(error).lower():
                self._streams = False
                return await self(request, messages)
            self._hear_of_context(error)
            raise
        finally:
            self._silence.ended(clock)
        self._measure(reply, clock, size)
        return reply

    async def aclose(self) -> None:
        """Stop asking what the server is."""
        if self._known is not None:
            self._known.cancel()

    def _as_sent(self, request: Request[Any]) -> Request[Any]:
        return request

    def _address(self) -> str:
        return self._asking.api_base or ""

    async def _learn(self) -> None:
        """Ask a server of llama.cpp what it is; others do not know the question."""
        import httpx

        parts = urlsplit(self._address())
        address = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=_A_MOMENT) as client:
                props = (await client.get(f"{address}/props")).json()
            slots, context = props["total_slots"], props["default_generation_settings"]["n_ctx"]
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError):
            return
        if isinstance(slots, int) and slots > 0 and self._asking.limiter is not None:
            self._asking.limiter.keep_within(slots)
            self._progress = True
        self._context = context if isinstance(context, int) and context > 0 else None

    def _prepare(self, clock: _RequestClock, exchange: "Exchange") -> None:
        def hear(data: bytes) -> None:
            clock.hear(data)
            if self._asking.totals is not None and clock.tokens > 1:
                rate = (clock.tokens - 1) / max(clock.writing(), 1e-3)
                self._asking.totals.rate = speed(rate)

        exchange.each_piece = hear
        if self._streams:
            exchange.largest *= _WORDIER
            exchange.rewrite, exchange.take = self._streamed, whole

    def _streamed(self, request: Any) -> Any:
        """Return a request for a stream in the place of one for a whole answer."""
        import httpx

        if not request.url.path.endswith("/chat/completions"):
            return request
        body = json.loads(request.content)
        if body.get("stream") or body.get("logprobs") or body.get("n", 1) != 1:
            return request
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        if self._progress:
            body["return_progress"] = True
        headers = httpx.Headers(request.headers)
        headers.pop("content-length", None)
        content = json.dumps(body).encode()
        extensions = request.extensions
        return httpx.Request(
            "POST", request.url, headers=headers, content=content, extensions=extensions
        )

    def _measure(self, reply: Reply, clock: _RequestClock, size: int) -> None:
        """Learn tokens a second, and how many tokens a text of so many bytes has at least."""
        if reply.completion_tokens:
            self._written += reply.completion_tokens
            self._writing += clock.writing()
        if reply.prompt_tokens and size:
            self._density = min(self._density, reply.prompt_tokens / size)

    @property
    def _rate(self) -> float | None:
        return self._written / self._writing if self._writing > 0 else None

    def _late(self, clock: _RequestClock) -> TransportError:
        """Return the error of a request of which nothing came for too long."""
        seconds, rate = self._asking.timeout, self._rate
        late = f"no answer within {seconds:g} s"
        if clock.came:
            late = f"the answer started, then stopped for {seconds:g} s"
        # A hung server is asked again; one that is slow would have to start again.
        slow = rate is not None and not clock.came and rate * seconds < _AN_ANSWER
        if slow:
            takes = f"an answer of {_AN_ANSWER} takes {_AN_ANSWER / (rate or 1):.0f} s"
            what = f"this server writes {speed(rate or 0).removesuffix('/s')} a second; {takes}"
            what += "; raise timeout= or lower max_tokens="
            self._say("rate", what)
            late += f"; {what}"
        return TransportError(late, transient=not slow, status=408)

    def _hear_of_context(self, error: TransportError) -> None:
        """Learn how much fits from the words of the server, and say it."""
        if not error.too_long:
            return
        if found := _CONTEXT.search(str(error)):
            self._context = int(found[1].replace(",", ""))
        self._say_context()

    def _refuse_too_long(self, size: int) -> None:
        """Send nothing that can't fit.

        Raises:
            TransportError: If the text has more tokens than fit, however long they are.
        """
        least = int(size * _least_density(self._density))
        if self._context is None or least <= self._context:
            return
        self._say_context()
        what = (
            f"not sent: the prompt has more than {least:,} tokens, but only {self._context:,} fit"
        )
        raise TransportError(what, transient=False, unsent=True, too_long=True)

    def _say_context(self) -> None:
        fits = f"only {self._context:,} tokens fit" if self._context else "a prompt does not fit"
        fix = "start the server with a larger context, or lower max_context_tokens= (if used)"
        self._say("context", f"{fits} into the context of this server; {fix}")

    def _say(self, kind: str, line: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            self._asking.notice(f"{self._asking.model}: {line}")


class Started(OwnServer):
    """Asks a model that is served for this run alone."""

    def __init__(self, asking: EndpointCalls, file: "ModelFile") -> None:
        super().__init__(asking)
        self._file = file
        self._server: Server | None = None

    async def ready(self) -> None:
        """Wait until the model is loaded."""
        if self._server is None:
            from alps.ext.local.server import Server

            self._server = Server.of(self._file)
        await self._server.ready()
        await super().ready()

    async def __call__(self, request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        """Make one request: it costs nothing."""
        return replace(await super().__call__(request, messages), cost=0.0)

    async def aclose(self) -> None:
        """End the server."""
        await super().aclose()
        if self._server is not None:
            await self._server.released()
            self._server = None

    def _as_sent(self, request: Request[Any]) -> Request[Any]:
        return replace(request, model=self._file.name, api_base=self._address())

    def _address(self) -> str:
        return f"{self._server.address}/v1" if self._server is not None else ""


def whole(body: bytes) -> bytes:
    """Return the completion that the chunks of a stream make up; any other body as it is.

    Raises:
        Unreadable: If the stream ended before the answer did.
    """
    if not _A_STREAM.match(body):
        return body
    completion: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for chunk in _chunks(body):
        if not isinstance(chunk, dict) or "error" in chunk:
            return json.dumps(chunk).encode()
        parts = chunk.pop("choices", None) or ()
        completion |= {name: value for name, value in chunk.items() if value is not None}
        for part in parts:
            choice = choices.setdefault(part.get("index", 0), {"message": {"role": "assistant"}})
            _add(choice["message"], part.get("delta") or {})
            if part.get("finish_reason") is not None:
                choice["finish_reason"] = part["finish_reason"]
    if not choices or not all("finish_reason" in choice for choice in choices.values()):
        raise Unreadable("the stream ended before the answer did")
    completion["object"] = "chat.completion"
    completion["choices"] = [{"index": index, **choices[index]} for index in sorted(choices)]
    return json.dumps(completion).encode()


def _chunks(body: bytes) -> Iterator[Any]:
    for line in body.splitlines():
        if line.startswith(b"data:") and (data := line[5:].strip()) != b"[DONE]":
            try:
                yield json.loads(data)
            except ValueError as error:
                raise Unreadable("a part of the stream is not JSON") from error


def _add(whole: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add what is new of a message to what there is: texts go on, and lists by their index."""
    for name, value in delta.items():
        if isinstance(value, str) and name in _GOES_ON:
            whole[name] = (whole.get(name) or "") + value
        elif isinstance(value, dict):
            _add(whole.setdefault(name, {}), value)
        elif isinstance(value, list):
            there = whole.setdefault(name, [])
            for place, part in enumerate(value):
                index = part.get("index", place)
                there.extend({} for _ in range(index + 1 - len(there)))
                _add(there[index], part)
        elif value is not None or name not in whole:
            whole[name] = value


def _least_density(seen: float) -> float:
    return _LONGEST if seen == math.inf else max(_LONGEST, seen * _DENSER)


def _now() -> float:
    return asyncio.get_running_loop().time()
