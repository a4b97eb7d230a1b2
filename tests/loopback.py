"""An OpenAI-compatible server on loopback whose answers a test scripts."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from typing import Any, TypeVar

from alps.llm import provider
from tests.known_items import right_reply

NO_HEADERS: Mapping[str, str] = {}
T = TypeVar("T")
Server = TypeVar("Server", bound=BaseServer)


@dataclass(frozen=True)
class Answer:
    """One scripted HTTP answer; `drop` closes the connection without one, `body` is sent as it is.

    `drip` sends a byte of the body each so many seconds.
    """

    text: str | None = ""
    status: int = 200
    finish_reason: str = "stop"
    refusal: str | None = None
    error: str | None = None
    body: str | bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False
    drip: float = 0.0


Script = Callable[[dict[str, Any]], Answer]


class QuietServer(ThreadingHTTPServer):
    """Listens on a free port of loopback."""

    daemon_threads = True
    # Of five connections that wait, a sixth is reset where the machine is busy.
    request_queue_size = 128

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def url(self) -> str:
        """The address, as api_base= of an OpenAI-shaped model takes it."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about clients that went away."""


class LoopbackServer(QuietServer):
    """Answers chat completions by `script(body)`; `requests` holds the bodies in order.

    The known items that check a judge are answered rightly and noted in `known`, unless `admitted`
    is False: then they are requests like others.
    """

    def __init__(self, script: Script, *, admitted: bool = True) -> None:
        super().__init__(_Handler)
        self.script = script
        self.admitted = admitted
        self.known: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.gets: list[str] = []
        self.under_way = self.most_under_way = 0
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: LoopbackServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chat = self.server.admitted and self.path.endswith("/chat/completions")
        if chat and (known := right_reply(body)) is not None:
            self.server.known.append(body)
            self._send(200, json.dumps(_completion(body, Answer(known))).encode())
            return
        with self.server.lock:
            self.server.requests.append(body)
            self.server.headers.append(dict(self.headers))
            self.server.paths.append(self.path)
            self.server.under_way += 1
            self.server.most_under_way = max(self.server.most_under_way, self.server.under_way)
        try:
            answer = self.server.script(body)
            time.sleep(answer.delay)
        finally:
            with self.server.lock:
                self.server.under_way -= 1
        if answer.drop:
            self.close_connection = True
            return
        content = json.dumps(_completion(body, answer)) if answer.body is None else answer.body
        data = content if isinstance(content, bytes) else content.encode()
        self._send(answer.status, data, headers=answer.headers, drip=answer.drip)

    def _send(
        self, status: int, data: bytes, *, headers: Mapping[str, str] = NO_HEADERS, drip: float = 0
    ) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        for start in range(len(data) if drip else 0):
            self.wfile.write(data[start : start + 1])
            time.sleep(drip)
        self.wfile.write(b"" if drip else data)

    def do_GET(self) -> None:
        """Take what follows a redirect: most clients go on with GET after 301, 302 and 303."""
        self.server.gets.append(self.path)
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


def _completion(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    if answer.status != 200:
        text = answer.error or f"scripted {answer.status}"
        return {"error": {"message": text, "type": "scripted", "code": str(answer.status)}}
    message = {"role": "assistant", "content": answer.text}
    if answer.refusal is not None:
        message["refusal"] = answer.refusal
    asked = sum(len(str(m["content"])) for m in body["messages"]) // 4
    used = len(answer.text or "") // 4
    return {
        "id": "scripted",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": answer.finish_reason, "message": message}],
        "usage": {"prompt_tokens": asked, "completion_tokens": used, "total_tokens": asked + used},
    }


def asked_over_http(work: Coroutine[Any, Any, T]) -> T:
    """Run what asks a server, and close the connections that litellm would keep, in the loop that
    opened them.
    """

    async def closing() -> T:
        try:
            return await work
        finally:
            await provider.close()

    return asyncio.run(closing())


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Let a server serve in a thread of its own, and close it."""
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serve(script: Script, *, admitted: bool = True) -> Iterator[LoopbackServer]:
    """Run a server on a free port of loopback for the time of a test."""
    with running(LoopbackServer(script, admitted=admitted)) as server:
        yield server
