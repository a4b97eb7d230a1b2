"""A server on loopback with the batch interfaces of OpenAI and Anthropic, and their bills.

It answers chat completions and messages one by one, too. What it answers depends on the request
alone (`scripted.content`), whichever way it came, so that a run in batches and one without must end
alike. Wire formats are those of the providers' documentation: file upload as multipart, `/batches`
with their states, output and error files, `/messages/batches` with their results.

`Batched.bill` has every request that was answered, with its tokens and whether a batch brought it.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bench.scripted import content
from tests.desk import chat
from tests.llm.test_prices import anthropic
from tests.loopback import QuietServer

Row = dict[str, Any]
DAY = 24 * 3600


@dataclass
class Troubles:
    """What goes wrong with batches.

    Attributes:
        polls: How often a batch is asked after before it ends; -1: it does not end by itself.
        shuffled: Whether results come in another order.
        failed: Requests of each batch that fail with a status of 500.
        expired: Requests of each batch that are not carried out.
        twice: Results of each batch that are there twice.
        unknown: Results of each batch under ids that nobody sent.
        garbage: Results of each batch whose line can't be read.
        refused: Why a batch is refused after it was taken; empty: it is not.
        missing: Whether there is no batch interface at all.
        status: What every request to the batch interface is answered with, 0 for as it should be.
        on: Is told of each step: `upload`, `create`, `created`, `poll`, `results`.
        edited: Is given each answer of the batch interface, and returns what is sent for it: of an
            `upload`, an `order`, a `list`, a `state` or `results`.
    """

    polls: int = 1
    shuffled: bool = False
    failed: int = 0
    expired: int = 0
    twice: int = 0
    unknown: int = 0
    garbage: int = 0
    refused: str = ""
    missing: bool = False
    status: int = 0
    on: Callable[[str], None] = lambda step: None
    edited: Callable[[str, bytes], bytes] = lambda kind, body: body


@dataclass
class Batch:
    """One batch: its requests by id, and how far it is."""

    id: str
    requests: dict[str, Row]
    at: float
    endpoint: str = ""
    file: str = ""
    metadata: Row = field(default_factory=dict)
    status: str = "in_progress"
    polls: int = 0
    lines: list[bytes] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class Batched(QuietServer):
    """The server.

    Attributes:
        bill: For each answered request its model, prompt and completion tokens, and whether it
            came in a batch.
        asked: How often each request was answered, by its body.
        headers: Those of every request, by their names in small letters.
    """

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.troubles = Troubles()
        self.bill: list[tuple[str, int, int, bool]] = []
        self.asked: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Batch] = {}
        self.lock = threading.RLock()

    @property
    def host(self) -> str:
        """The address, as api_base= of an Anthropic model takes it."""
        return f"http://127.0.0.1:{self.server_port}"

    def cost(self, prompt: float, completion: float) -> float:
        """Return the bill in US dollars, at so much a token; a batch costs half."""
        total = 0.0
        for _, asked, answered, batched in self.bill:
            total += (asked * prompt + answered * completion) / (2 if batched else 1)
        return total

    def answer(self, body: Row, *, batched: bool, anthropic: bool) -> Row:
        """Answer a request, and put it on the bill."""
        plain = _as_chat(body) if anthropic else body
        text = content(plain)
        prompt = sum(len(message["content"]) for message in plain["messages"]) // 4
        used = len(text) // 4
        with self.lock:
            self.bill.append((body["model"], prompt, used, batched))
            # One by one a server of one's own is asked for a stream: that is no other question.
            # In a batch nobody reads one: there it counts as another.
            streams = () if batched else ("stream", "stream_options")
            question = {key: body[key] for key in body if key not in streams}
            self.asked[json.dumps(question, sort_keys=True)] += 1
        kind = _message if anthropic else _completion
        return kind(body["model"], text, prompt, used)

    def carry_out(self, batch: Batch, *, anthropic: bool) -> None:
        """Answer the requests of a batch, as far as its troubles let it."""
        troubles, draw = self.troubles, Random(batch.id)
        ids = list(batch.requests)
        if troubles.shuffled:
            draw.shuffle(ids)
        unlucky = draw.sample(ids, min(len(ids), troubles.failed + troubles.expired))
        failed = set(unlucky[: troubles.failed])
        for name in ids:
            if name in failed:
                batch.errors.append(_failed(name, anthropic=anthropic))
                batch.counts["failed"] += 1
            elif name in unlucky:
                batch.errors.append(_expired(name, anthropic=anthropic))
                batch.counts["expired"] += 1
            else:
                body = self.answer(batch.requests[name], batched=True, anthropic=anthropic)
                batch.lines.append(_line(name, body, anthropic=anthropic))
                batch.counts["completed"] += 1
        batch.lines += batch.lines[: troubles.twice]
        for number in range(troubles.unknown):
            body = json.loads(batch.lines[0])
            batch.lines.append(json.dumps({**body, "custom_id": f"nobody-{number}"}).encode())
        for number in range(min(troubles.garbage, len(batch.lines))):
            batch.lines[number] = batch.lines[number][:-7]
        batch.status = "expired" if troubles.expired else "completed"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Batched

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer("POST", data)

    def do_GET(self) -> None:
        self._answer("GET", b"")

    def _answer(self, method: str, data: bytes) -> None:
        path = self.path.partition("?")[0].removeprefix("/v1")
        with self.server.lock:
            self.server.headers.append({k.lower(): v for k, v in self.headers.items()})
        status, answer = self._routed(method, path, data)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        if kind := _kind_of(method, path):
            body = self.server.troubles.edited(kind, body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _routed(self, method: str, path: str, data: bytes) -> tuple[int, Any]:
        server, parts = self.server, path.strip("/").split("/")
        anthropic = parts[0] == "messages"
        if path in ("/chat/completions", "/messages"):
            return 200, server.answer(json.loads(data), batched=False, anthropic=anthropic)
        if server.troubles.missing:
            return 404, {"error": {"message": "no such path", "type": "not_found_error"}}
        if server.troubles.status:
            return server.troubles.status, {"error": {"message": "scripted", "type": "scripted"}}
        rest = parts[1:] if anthropic else parts
        if rest[0] == "files":
            return self._of_files(method, rest, data)
        with server.lock:
            return self._of_batches(method, rest, data, anthropic=anthropic)

    def _of_batches(
        self, method: str, rest: list[str], data: bytes, *, anthropic: bool
    ) -> tuple[int, Any]:
        if len(rest) > 1:
            return self._of_batch(rest[1], rest[2:], anthropic=anthropic)
        if method == "POST":
            return self._ordered(data, anthropic=anthropic)
        listed = [self._shown(batch, anthropic) for batch in self.server.batches.values()][::-1]
        query = parse_qs(urlsplit(self.path).query)
        (after,), (limit,) = query.get("after_id" if anthropic else "after", [""]), query["limit"]
        begin = [batch["id"] for batch in listed].index(after) + 1 if after else 0
        page = listed[begin : begin + int(limit)]
        more = begin + len(page) < len(listed)
        return 200, {"object": "list", "data": page, "has_more": more}

    def _of_files(self, method: str, rest: list[str], data: bytes) -> tuple[int, Any]:
        server = self.server
        if method == "GET":
            server.troubles.on("results")
            return 200, server.files[rest[1]]
        name = f"file-{len(server.files)}"
        server.files[name] = _uploaded(data)
        server.troubles.on("upload")
        head = {"id": name, "object": "file", "bytes": len(data), "created_at": int(time.time())}
        return 200, {**head, "filename": "b.jsonl", "purpose": "batch", "status": "processed"}

    def _ordered(self, data: bytes, *, anthropic: bool) -> tuple[int, Any]:
        server, body = self.server, json.loads(data)
        server.troubles.on("create")
        name = f"{'msgbatch' if anthropic else 'batch'}_{len(server.batches)}"
        if anthropic:
            requests = {row["custom_id"]: row["params"] for row in body["requests"]}
            batch = Batch(name, requests, time.time())
            if len(requests) < len(body["requests"]) or not all(map(_fits, requests)):
                return 400, _error("invalid_request_error", "custom_id: not unique, or no match")
        else:
            rows = [json.loads(line) for line in server.files[body["input_file_id"]].splitlines()]
            assert all(row["url"] == body["endpoint"] for row in rows), "another endpoint"
            requests = {row["custom_id"]: row["body"] for row in rows}
            batch = Batch(name, requests, time.time(), body["endpoint"], body["input_file_id"])
            batch.metadata = body.get("metadata") or {}
        server.batches[name] = batch
        server.troubles.on("created")
        return 200, self._shown(batch, anthropic)

    def _of_batch(self, name: str, rest: list[str], *, anthropic: bool) -> tuple[int, Any]:
        server, troubles = self.server, self.server.troubles
        batch = server.batches.get(name)
        if batch is None:
            return 404, _error("not_found_error", f"no batch {name}")
        if rest == ["results"]:
            troubles.on("results")
            return 200, b"\n".join([*batch.lines, *batch.errors, b""])
        if rest == ["cancel"]:
            if batch.status == "in_progress":
                self._half(batch, anthropic=anthropic)
                batch.status = "cancelled"
            return 200, self._shown(batch, anthropic)
        troubles.on("poll")
        batch.polls += 1
        if batch.status == "in_progress" and 0 <= troubles.polls < batch.polls:
            if troubles.refused:
                batch.status = "failed"
            else:
                server.carry_out(batch, anthropic=anthropic)
        return 200, self._shown(batch, anthropic)

    def _half(self, batch: Batch, *, anthropic: bool) -> None:
        """Carry out half of a batch that is cancelled."""
        names = list(batch.requests)
        for name in names[: len(names) // 2]:
            body = self.server.answer(batch.requests[name], batched=True, anthropic=anthropic)
            batch.lines.append(_line(name, body, anthropic=anthropic))
        batch.counts["completed"] += len(names) // 2
        if anthropic:
            for name in names[len(names) // 2 :]:
                batch.errors.append(_row(name, {"type": "canceled"}))

    def _shown(self, batch: Batch, anthropic: bool) -> Row:
        total, done = len(batch.requests), sum(batch.counts.values())
        if anthropic:
            ended = batch.status != "in_progress"
            counts = {
                "processing": 0 if ended else total,
                "succeeded": batch.counts["completed"],
                "errored": batch.counts["failed"],
                "canceled": total - done if batch.status == "cancelled" else 0,
                "expired": batch.counts["expired"],
            }
            head = {"id": batch.id, "type": "message_batch", "request_counts": counts}
            head["processing_status"] = "ended" if ended else "in_progress"
            head |= {"created_at": _when(batch.at), "expires_at": _when(batch.at + DAY)}
            elsewhere = "http://127.0.0.1:1/the-key-would-go-here"
            return {**head, "results_url": elsewhere if ended else None, "ended_at": None}
        shown = {"id": batch.id, "object": "batch", "endpoint": batch.endpoint}
        shown |= {"input_file_id": batch.file, "completion_window": "24h", "status": batch.status}
        shown |= {"created_at": int(batch.at), "metadata": batch.metadata}
        counts = {"total": total, "completed": batch.counts["completed"]}
        shown["request_counts"] = {**counts, "failed": batch.counts["failed"]}
        if batch.status == "failed":
            why = [{"message": self.server.troubles.refused, "code": "token_limit_exceeded"}]
            return {**shown, "errors": {"object": "list", "data": why}}
        for name, lines in (("output", batch.lines), ("error", batch.errors)):
            if lines and batch.status != "in_progress":
                file = f"file-{name}-{batch.id}"
                self.server.files[file] = b"\n".join([*lines, b""])
                shown[f"{name}_file_id"] = file
        return shown

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


def _kind_of(method: str, path: str) -> str:
    """Return what of a batch interface is asked for; nothing for a chat or a message."""
    parts = path.strip("/").split("/")
    rest = parts[1:] if parts[0] == "messages" else parts
    if rest[:1] == ["files"]:
        return "upload" if method == "POST" else "results"
    if rest[:1] != ["batches"]:
        return ""
    if len(rest) == 1:
        return "order" if method == "POST" else "list"
    return "results" if rest[-1] == "results" else "state"


def _fits(name: str) -> bool:
    """Tell whether an id is one that Anthropic takes."""
    return 0 < len(name) <= 64 and name.replace("-", "a").replace("_", "a").isalnum()


def _uploaded(data: bytes) -> bytes:
    """Return the file in a multipart body."""
    boundary = data.partition(b"\r\n")[0]
    for part in data.split(boundary):
        head, _, body = part.partition(b"\r\n\r\n")
        if b'name="file"' in head:
            return body.removesuffix(b"\r\n")
    raise ValueError("no file")


def _as_chat(body: Row) -> Row:
    """Return a request for a message as one for a chat completion."""
    texts = [{"content": _text(message["content"])} for message in body["messages"]]
    system = [{"content": _text(body["system"])}] if body.get("system") else []
    return {"model": body["model"], "messages": [*system, *texts]}


def _text(blocks: Any) -> str:
    if isinstance(blocks, str):
        return blocks
    return "\n".join(block.get("text", "") for block in blocks)


def _completion(model: str, text: str, prompt: int, used: int) -> Row:
    usage = {"prompt_tokens": prompt, "completion_tokens": used, "total_tokens": prompt + used}
    return chat(text, model=model, usage=usage)


def _message(model: str, text: str, prompt: int, used: int) -> Row:
    content = [{"type": "text", "text": text}]
    return {**anthropic(prompt, used), "model": model, "content": content}


def _row(name: str, result: Row) -> bytes:
    return json.dumps({"custom_id": name, "result": result}).encode()


def _answered(name: str, status: int, body: Row) -> bytes:
    response = {"status_code": status, "request_id": f"req_{name[:8]}", "body": body}
    row = {"id": f"batch_req_{name[:8]}", "custom_id": name, "response": response, "error": None}
    return json.dumps(row).encode()


def _line(name: str, body: Row, *, anthropic: bool) -> bytes:
    if anthropic:
        return _row(name, {"type": "succeeded", "message": body})
    return _answered(name, 200, body)


def _failed(name: str, *, anthropic: bool) -> bytes:
    if anthropic:
        return _row(name, {"type": "errored", "error": _error("api_error", "scripted")})
    body = {"error": {"message": "scripted", "type": "server_error", "code": None}}
    return _answered(name, 500, body)


def _expired(name: str, *, anthropic: bool) -> bytes:
    if anthropic:
        return _row(name, {"type": "expired"})
    error = {"code": "batch_expired", "message": "not executed before the window ended"}
    return json.dumps({"custom_id": name, "response": None, "error": error}).encode()


def _error(kind: str, message: str) -> Row:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
