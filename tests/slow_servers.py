"""A server on loopback as on a laptop: it writes so many tokens a second, in so many slots."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import QuietServer, running

WORD = 4
"""Characters of a token, and of a byte of a prompt."""


class SlowServer(QuietServer):
    """Writes `text`, or the first `max_tokens` of it, to every chat that it is asked for.

    Args:
        text: What it answers, a token for every word.
        rate: Tokens a second.
        slots: Answers that it writes at once; other requests wait in their order.
        context: Tokens of the longest prompt; 0 for any.
        tells: Whether it says what it is, as llama.cpp's does.
        streams: Whether it knows streams; else it is silent until an answer is whole.
        refuses: Whether it refuses to stream, and says so.
        silent: The token after which it goes silent; None for never.
    """

    def __init__(
        self,
        text: str,
        *,
        rate: float,
        slots: int = 1,
        context: int = 0,
        tells: bool = True,
        streams: bool = True,
        refuses: bool = False,
        silent: int | None = None,
    ) -> None:
        super().__init__(_Handler)
        self.tokens = [f"{word} " for word in text.split(" ")]
        self.rate, self.slots, self.context = rate, slots, context
        self.tells, self.streams, self.refuses, self.silent = tells, streams, refuses, silent
        self.requests: list[dict[str, Any]] = []
        self.most_under_way = self.under_way = 0
        self.turn = threading.Condition()
        self.served = self.came = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: SlowServer

    def do_GET(self) -> None:
        server = self.server
        known = server.tells and self.path == "/props"
        props = {"total_slots": server.slots}
        props |= {"default_generation_settings": {"n_ctx": server.context or 1 << 20}}  # type: ignore[dict-item]
        self._send(200 if known else 404, props if known else {})

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if server.refuses and body.get("stream"):
            self._send(400, {"error": {"message": "stream is not supported"}})
            return
        asked = sum(len(message["content"]) for message in body["messages"]) // WORD
        with server.turn:
            server.requests.append(body)
            server.under_way += 1
            server.most_under_way = max(server.most_under_way, server.under_way)
            server.came, turn = server.came + 1, server.came
            server.turn.wait_for(lambda: turn < server.served + server.slots)
        try:
            self._answer(body, asked)
        finally:
            with server.turn:
                server.under_way, server.served = server.under_way - 1, server.served + 1
                server.turn.notify_all()

    def _answer(self, body: dict[str, Any], asked: int) -> None:
        server = self.server
        if server.context and asked > server.context:
            what = f"request ({asked} tokens) exceeds the available context size"
            error = {"message": f"{what} ({server.context} tokens), try increasing it"}
            self._send(400, {"error": error | {"type": "exceed_context_size_error"}})
            return
        tokens = server.tokens[: body.get("max_tokens")]
        used = {"prompt_tokens": asked, "completion_tokens": len(tokens)}
        used["total_tokens"] = asked + len(tokens)
        head = {"id": "slow", "created": 0, "model": body["model"], "system_fingerprint": "slow"}
        if not (server.streams and body.get("stream")):
            time.sleep(len(tokens) / server.rate)
            message = {"role": "assistant", "content": "".join(tokens)}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            self._send(200, {**head, "choices": [choice], "usage": used})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for place, token in enumerate(tokens):
            if place == server.silent:
                threading.Event().wait(60)
            time.sleep(1 / server.rate)
            delta = {"content": token} | ({} if place else {"role": "assistant"})
            self._chunk({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        self._chunk({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self._chunk({**head, "choices": [], "usage": used})
        self._chunk("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, part: Any) -> None:
        text = part if isinstance(part, str) else json.dumps(part)
        data = f"data: {text}\n\n".encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@contextmanager
def slow(text: str, **options: Any) -> Iterator[SlowServer]:
    """Run such a server for the time of a test."""
    with running(SlowServer(text, **options)) as server:
        yield server
