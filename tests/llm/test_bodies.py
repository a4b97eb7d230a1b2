"""Answers are bounded: how large they get when they are inflated, and how long they may take."""

import gc
import gzip
import re
import resource
import time
import zlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from alps.llm.provider import send
from alps.llm.types import Reply, Request, TransportError
from alps.sizes import LARGEST_REPLY, Body
from tests.desk import GOOD, QUIET_LITELLM, Desk, always, question
from tests.loopback import Answer, asked_over_http, serve

pytestmark = QUIET_LITELLM

KEYS = {"OPENAI_API_KEY": "ordinary-openai", "ANTHROPIC_API_KEY": "ordinary-anthropic"}
BODY = (
    '{"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [{"index": '
    '0, "finish_reason":'
    ' "stop", "message": {"role": "assistant", "content": "Yes."}}]}'
)


def zeros(megabytes: int, *, wbits: int) -> bytes:
    """Return so many megabytes of zeros, compressed; all after the first are the same bytes, which
    saves the time.
    """
    layer = zlib.compressobj(9, wbits=wbits)
    first, again = (
        layer.compress(bytes(1 << 20)) + layer.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    return first + again * (megabytes - 1)


def bomb() -> bytes:
    return zeros(1_024, wbits=31)


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


def asked(answer: Answer, model: str = "openai/tiny", **options: Any) -> Reply:
    with serve(always(answer)) as server:
        request = Request[str](model, (), None, api_base=server.url)
        return asked_over_http(send(request, [{"role": "user", "content": "Chess?"}], **options))


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@pytest.mark.parametrize(
    ("model", "encoding", "make"),
    [
        pytest.param("openai/tiny", "gzip", bomb, id="gzip"),
        pytest.param("openai/tiny", "deflate", lambda: zeros(256, wbits=15), id="deflate"),
        pytest.param("openai/tiny", "deflate", lambda: zeros(256, wbits=-15), id="raw deflate"),
        pytest.param("openai/tiny", "gzip, gzip", lambda: gzip.compress(bomb()), id="gzip in gzip"),
        pytest.param("anthropic/claude-tiny", "gzip", bomb, id="anthropic"),
    ],
)
def test_a_bomb_is_not_inflated(model: str, encoding: str, make: Callable[[], bytes]):
    body = make()
    asked(Answer("Yes."))  # what litellm takes to be imported is not counted
    before = peak()
    with pytest.raises(TransportError, match="larger than 16 MB") as caught:
        asked(Answer(body=body, headers={"Content-Encoding": encoding}), model)
    assert peak() - before < 200
    error = caught.value
    assert (error.status, error.billed, error.transient) == (200, True, True)


def test_a_bomb_is_not_inflated_where_httpx_is_the_transport(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DISABLE_AIOHTTP_TRANSPORT", "True")
    with pytest.raises(TransportError, match="larger than 16 MB"):
        asked(Answer(body=bomb(), headers={"Content-Encoding": "gzip"}))


def test_a_body_that_is_too_large_as_it_is_is_given_up():
    with pytest.raises(TransportError, match="larger than 16 MB"):
        asked(Answer(body=b" " * (LARGEST_REPLY + 1)))


def test_pieces_of_nothing_without_end_take_no_time():
    pieces = gzip.compress(b"") * 700_000
    started = time.process_time()
    with pytest.raises(TransportError):
        asked(Answer(body=gzip.compress(pieces), headers={"Content-Encoding": "gzip, gzip"}))
    assert time.process_time() - started < 15


def test_what_is_packed_again_and_again_is_not_unpacked():
    packed = Answer(body=b"x", headers={"Content-Encoding": ",".join(["gzip"] * 500)})
    with pytest.raises(TransportError, match="packed 500 times over"):
        asked(packed)


@pytest.mark.parametrize("wbits", [-15, 15, 31], ids=["raw deflate", "deflate", "gzip"])
def test_an_encoded_answer_may_come_byte_by_byte_and_end_in_zeros(wbits: int):
    layer = zlib.compressobj(wbits=wbits)
    packed = layer.compress(BODY.encode()) + layer.flush() + bytes(5)
    body = Body("gzip" if wbits == 31 else "deflate")
    for place in range(len(packed)):
        body.add(packed[place : place + 1])
    assert body.data == BODY.encode()
    assert body.is_whole


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        pytest.param("gzip", gzip.compress(BODY.encode()), id="gzip"),
        pytest.param("deflate", zlib.compress(BODY.encode()), id="deflate"),
        pytest.param("deflate", zlib.compress(BODY.encode(), wbits=-15), id="raw deflate"),
        pytest.param("identity", BODY.encode(), id="identity"),
    ],
)
@pytest.mark.parametrize("transport", ["aiohttp", "httpx"])
def test_an_encoded_answer_is_read(
    encoding: str, body: bytes, transport: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DISABLE_AIOHTTP_TRANSPORT", str(transport == "httpx"))
    assert asked(Answer(body=body, headers={"Content-Encoding": encoding})).text == "Yes."


def test_an_encoding_that_was_not_asked_for_is_named():
    with pytest.raises(TransportError, match="encoded as 'br'"):
        asked(Answer(body=b"x", headers={"Content-Encoding": "br"}))


@pytest.mark.parametrize(
    "answer", [Answer(GOOD, delay=30), Answer(GOOD, drip=0.05)], ids=["late", "drip-fed"]
)
def test_the_timeout_bounds_the_whole_call(
    desk: Desk, answer: Answer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("alps.llm.retries._BILLED", 1)
    began = time.monotonic()
    with serve(always(answer)) as server:
        completion = desk.ask(question(server), timeout=0.5)
    assert completion.outcome == "transport"
    # A busy machine takes a second or more, and then it is said how long was tried.
    assert re.match(r"no answer within 0\.5 s( \(tried for |$)", str(completion.error))
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("model", ["openai/tiny", "hosted_vllm/tiny", "anthropic/claude-tiny"])
def test_a_timeout_above_litellms_own_is_kept(model: str, monkeypatch: pytest.MonkeyPatch):
    waited: list[Any] = []
    sent = httpx.AsyncClient.send

    async def noted(client: Any, request: Any, **options: Any) -> Any:
        waited.append(request.extensions["timeout"]["read"])
        return await sent(client, request, **options)

    monkeypatch.setattr(httpx.AsyncClient, "send", noted)
    with pytest.raises(TransportError):
        asked(Answer(status=500), model, timeout=900.0)
    assert waited
    assert min(waited) >= 900


def test_what_can_not_be_read_is_asked_three_times(desk: Desk):
    with serve(always(Answer(body="<html>Welcome</html>"))) as server:
        completion = desk.ask(question(server))
    assert (completion.outcome, len(server.requests)) == ("transport", 3)
    assert "HTTP 200: its body can't be read" in str(completion.error)
    assert "; it begins '<html>Welcome</html>'" in str(completion.error)
    assert {row["status"] for row in desk.rows} == {200}


def test_as_many_connections_are_opened_as_requests_may_be_under_way():
    limits: list[tuple[int, int]] = []

    async def seen(server_url: str) -> None:
        import aiohttp

        request = Request[str]("openai/tiny", (), None, api_base=server_url)
        await send(request, [{"role": "user", "content": "Chess?"}])
        sessions = [
            one
            for one in gc.get_objects()
            if isinstance(one, aiohttp.ClientSession) and not one.closed
        ]
        limits.extend(
            (one.connector.limit, one.connector.limit_per_host) for one in sessions if one.connector
        )

    with serve(always(Answer("Yes."))) as server:
        asked_over_http(seen(server.url))
    assert limits
    assert min(min(pair) for pair in limits) >= 1024
