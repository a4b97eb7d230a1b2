"""Servers of one's own, slow ones: nothing is lost, and nothing is asked twice."""

import asyncio
import json
import re
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from alps.ext.local.sending import _RequestClock, is_own, sender, speed, whole
from alps.llm.client import Client, Endpoint
from alps.llm.ledger import Ledger
from alps.llm.types import Completion, EndpointCalls, Request
from alps.sizes import Unreadable
from tests.few import few
from tests.loopback import asked_over_http
from tests.slow_servers import SlowServer, slow


@dataclass
class Asked:
    completions: list[Completion] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    seconds: float = 0.0
    calls: int = 0


def to(server: SlowServer, text: str, **sampling: int) -> Request:
    messages = ({"role": "user", "content": text},)
    return Request("openai/slow", messages, None, sampling=sampling, api_base=server.url)


def ask(server: SlowServer, folder: Path, *steps: list[Request], timeout: float, patience=5.0):
    """Ask each step at once, as a run does that finds out how much an endpoint takes."""
    found, ledger = Asked(), Ledger(folder / "calls.jsonl")

    async def asking():
        endpoint = Endpoint.of(None, patience)
        limits = timeout, endpoint.limiter, ledger.totals, found.said.append
        own = sender(EndpointCalls("openai/slow", server.url, *limits))
        options = {"concurrency": None, "cache": None, "patience": patience}
        client = Client(ledger=ledger, endpoint=endpoint, sender=own, **options)
        began = time.monotonic()
        for requests in steps:
            found.completions += await asyncio.gather(*map(client.complete, requests))
        found.seconds = time.monotonic() - began
        await client.aclose()

    try:
        asked_over_http(asking())
    finally:
        ledger.close()
    found.calls = ledger.totals.calls
    return found


TEXT = " ".join(f"w{place}" for place in range(24))


def test_a_speed_is_written_out():
    told = [speed(rate) for rate in (0.31, 2.7, 15.2, 282.0, 1_650.4)]
    assert told == [f"{one} tokens/s" for one in ("0.31", "2.7", "15", "282", "1,650")]


@pytest.mark.parametrize(("tokens", "said"), [(520, "260"), (31, "16")])
def test_a_server_too_slow_for_the_timeout_is_named_with_its_speed(tokens, said):
    told = []
    limits = 3.0, Endpoint.of(None, 1.0).limiter, None, told.append
    own = sender(EndpointCalls("openai/slow", "http://127.0.0.1:1/v1", *limits))
    own._written, own._writing = tokens, 2.0
    clock = _RequestClock(0.0, 0.0, limit=nullcontext())
    assert not own._late(clock).transient
    assert told[0].startswith(f"openai/slow: this server writes {said} tokens a second; an answer")


RATES = [(16, True), (40, False), (16, False), (40, True), (400, True), (400, False)]
"""Tokens a second, and whether the server says what it is."""


@pytest.mark.few(1)
@pytest.mark.parametrize(("rate", "tells"), few(RATES, 2))
def test_an_answer_that_takes_longer_than_the_timeout_is_asked_for_once(rate, tells, tmp_path):
    # At 16 tokens a second an answer takes 1.5 s, and the last of these waits for 3 s before it.
    with slow(TEXT, rate=rate, tells=tells) as server:
        asked = [to(server, text) for text in ("one", "two", "three")]
        found = ask(server, tmp_path, asked, timeout=1.0)
        assert [one.outcome for one in found.completions] == ["ok"] * 3
        assert {one.value.strip() for one in found.completions} == {TEXT}
        assert len(server.requests) == 3
        if tells:
            assert server.most_under_way == 1
        assert found.said == []


def test_no_more_requests_are_under_way_than_the_server_has_slots(tmp_path):
    with slow(TEXT, rate=100, slots=3) as server:
        found = ask(server, tmp_path, [to(server, str(one)) for one in range(9)], timeout=5.0)
        assert server.most_under_way == 3
    assert all(one.outcome == "ok" for one in found.completions)


@pytest.mark.release
def test_an_answer_that_goes_silent_is_given_up(tmp_path):
    with slow(TEXT, rate=100, silent=5, slots=9) as server:
        found = ask(server, tmp_path, [to(server, "one")], timeout=0.5, patience=0.1)
    (completion,) = found.completions
    assert completion.outcome == "transport"
    assert "the answer started, then stopped for 0.5 s" in completion.error


def test_a_server_that_refuses_streams_is_asked_for_the_whole_answer(tmp_path):
    with slow(TEXT, rate=400, refuses=True) as server:
        found = ask(server, tmp_path, [to(server, "one"), to(server, "two")], timeout=5.0)
        assert [one.outcome for one in found.completions] == ["ok"] * 2
        assert [body.get("stream") for body in server.requests] == [None, None]


@pytest.mark.release
def test_a_request_that_cannot_end_in_time_is_not_asked_again(tmp_path):
    with slow(TEXT, rate=20, streams=False) as server:
        short = [to(server, "one", max_tokens=10)]
        late = [to(server, "two")], [to(server, "three")]
        found = ask(server, tmp_path, short, *late, timeout=1.0)
        assert [one.outcome for one in found.completions] == ["ok", "transport", "transport"]
        assert len(server.requests) == 3
    (said,) = found.said
    written = re.fullmatch(
        r"openai/slow: this server writes ([\d.]+) tokens a second; an answer of 800 takes (\d+) "
        r"s; raise timeout= or lower max_tokens=",
        said,
    )
    assert 10 <= float(written[1]) <= 20
    assert 40 <= int(written[2]) <= 80


@pytest.mark.parametrize("tells", [True, False], ids=["before it is asked", "by its first answer"])
def test_what_does_not_fit_the_context_is_said_once(tells, tmp_path):
    prompts = [f"{place} " + "a longer history " * 200 for place in range(20)]
    with slow("short", rate=400, context=100, tells=tells) as server:
        asked = [to(server, text) for text in prompts]
        found = ask(server, tmp_path, [to(server, "short")], asked, timeout=5.0)
        sent = len(server.requests) - 1
    assert [one.outcome for one in found.completions] == ["ok"] + 20 * ["too_long"]
    assert found.said == [
        "openai/slow: only 100 tokens fit into the context of this server; start the server with a "
        "larger context, or lower max_context_tokens= (if used)"
    ]
    # Of a server that does not say it beforehand, those that went out before its first answer.
    assert sent == 0 if tells else 0 < sent <= 16
    assert found.calls == 1 + sent


def test_only_servers_of_ones_own_are_asked_so():
    own = ["http://127.0.0.1:8080/v1", "http://localhost:11434", "http://192.168.1.7/v1"]
    own += ["http://[::1]:1234/v1", "http://laptop.local/v1"]
    assert all(map(is_own, own))
    assert not any(map(is_own, [None, "https://api.example.com/v1", "http://8.8.8.8/v1"]))


def sse(*chunks):
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([": ping\n\n", *lines, "data: [DONE]\n\n"]).encode()


def choice(delta, reason=None):
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def test_a_stream_is_put_together_with_all_that_it_brings():
    function = {"name": "f", "arguments": '{"a'}
    call = {"index": 0, "id": "t", "type": "function", "function": function}
    more = {"index": 0, "function": {"arguments": '": 1}'}}
    body = sse(
        choice({"role": "assistant", "content": None}),
        choice({"reasoning_content": "hm"}),
        choice({"reasoning_content": "m", "content": "a"}),
        choice({"content": "b", "tool_calls": [call]}),
        choice({"tool_calls": [more]}),
        choice({}, "stop"),
        {"id": "c", "choices": [], "usage": {"completion_tokens": 3}, "model": "m"},
    )
    read = json.loads(whole(body))
    (only,) = read["choices"]
    assert only["finish_reason"] == "stop"
    assert only["message"]["content"] == "ab"
    assert only["message"]["reasoning_content"] == "hmm"
    assert only["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}
    assert read["usage"] == {"completion_tokens": 3}
    assert (read["model"], read["object"]) == ("m", "chat.completion")


def test_a_stream_that_breaks_off_is_no_answer():
    with pytest.raises(Unreadable, match="ended before the answer did"):
        whole(sse(choice({"content": "a"})))
    with pytest.raises(Unreadable, match="not JSON"):
        whole(b'data: {"a"\n\n')
    assert json.loads(whole(sse({"error": {"message": "no"}}))) == {"error": {"message": "no"}}
    assert whole(b'{"choices": []}') == b'{"choices": []}'
