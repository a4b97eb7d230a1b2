"""Answers are bounded: how large they get when they are inflated, and how long they may take."""

import gzip
import re
import resource
import time
import zlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from alps.sizes import LARGEST_REPLY, Body
from tests.desk import GOOD, Desk, always, question
from tests.llm.test_provider import BODY, failed, sent
from tests.loopback import Answer, serve


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


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@pytest.fixture(params=["aiohttp", "httpx"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISABLE_AIOHTTP_TRANSPORT", str(request.param == "httpx"))


BOMBS: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "gzip": ("openai/tiny", "gzip", bomb),
    "deflate": ("openai/tiny", "deflate", lambda: zeros(256, wbits=15)),
    "raw deflate": ("openai/tiny", "deflate", lambda: zeros(256, wbits=-15)),
    "gzip in gzip": ("openai/tiny", "gzip, gzip", lambda: gzip.compress(bomb())),
    "anthropic": ("anthropic/claude-tiny", "gzip", bomb),
}


@pytest.mark.few(4)
@pytest.mark.usefixtures("keys", "transport")
@pytest.mark.parametrize(("model", "encoding", "make"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_not_inflated(model: str, encoding: str, make: Callable[[], bytes]):
    body = make()
    sent(Answer("Yes."))  # what litellm takes to be imported is not counted
    before = peak()
    error = failed(Answer(body=body, headers={"Content-Encoding": encoding}), model)
    assert peak() - before < 200
    assert "larger than 16 MB" in str(error)
    assert (error.status, error.billed, error.transient) == (200, True, True)


@pytest.mark.few(1)
@pytest.mark.usefixtures("transport")
def test_a_reply_of_a_million_choices_is_given_up():
    body = b'{"choices": [' + b",".join([b"{}"] * 1_900_000) + b"]}"
    sent(Answer("Yes."))
    before = peak()
    error = failed(Answer(body=body))
    assert peak() - before < 400
    assert "1,900,000 choices" in str(error)


def test_a_body_that_is_not_read_is_named():
    assert "larger than 16 MB" in str(failed(Answer(body=b" " * (LARGEST_REPLY + 1))))
    packed_again_and_again = ",".join(["gzip"] * 500)
    for encoding, named in (
        (packed_again_and_again, "compressed 500 times"),
        ("br", "its encoding 'br' was not requested"),
    ):
        error = failed(Answer(body=b"x", headers={"Content-Encoding": encoding}))
        assert named in str(error)


@pytest.mark.release
def test_pieces_of_nothing_without_end_take_no_time():
    pieces = gzip.compress(b"") * 700_000
    started = time.process_time()
    failed(Answer(body=gzip.compress(pieces), headers={"Content-Encoding": "gzip, gzip"}))
    assert time.process_time() - started < 15


@pytest.mark.parametrize("wbits", [-15, 15, 31], ids=["raw deflate", "deflate", "gzip"])
def test_an_encoded_answer_may_come_byte_by_byte_and_end_in_zeros(wbits: int):
    layer = zlib.compressobj(wbits=wbits)
    packed = layer.compress(BODY.encode()) + layer.flush() + bytes(5)
    body = Body("gzip" if wbits == 31 else "deflate")
    for place in range(len(packed)):
        body.add(packed[place : place + 1])
    assert body.data == BODY.encode()
    assert body.is_whole


ENCODED = {
    "gzip": ("gzip", gzip.compress(BODY.encode())),
    "deflate": ("deflate", zlib.compress(BODY.encode())),
    "raw deflate": ("deflate", zlib.compress(BODY.encode(), wbits=-15)),
    "identity": ("identity", BODY.encode()),
}


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize(("encoding", "body"), ENCODED.values(), ids=ENCODED)
def test_an_encoded_answer_is_read(encoding, body):
    assert sent(Answer(body=body, headers={"Content-Encoding": encoding})).text == "Yes."


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "answer", [Answer(GOOD, delay=30), Answer(GOOD, drip=0.05)], ids=["late", "drip-fed"]
)
def test_the_timeout_bounds_the_whole_call(desk: Desk, answer: Answer, monkeypatch):
    monkeypatch.setattr("alps.llm.retries._BILLED", 1)
    began = time.monotonic()
    with serve(always(answer)) as server:
        completion = desk.ask(question(server), timeout=0.5)
    assert completion.outcome == "transport"
    # A busy machine takes a second or more, and then it is said how long was tried.
    assert re.match(r"no answer within 0\.5 s( \(tried for |$)", str(completion.error))
    assert time.monotonic() - began < 20


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("model", ["openai/tiny", "hosted_vllm/tiny", "anthropic/claude-tiny"])
def test_a_timeout_above_litellms_own_is_kept(model: str, monkeypatch: pytest.MonkeyPatch):
    waited: list[Any] = []
    really = httpx.AsyncClient.send

    async def noted(client: Any, request: Any, **options: Any) -> Any:
        waited.append(request.extensions["timeout"]["read"])
        return await really(client, request, **options)

    monkeypatch.setattr(httpx.AsyncClient, "send", noted)
    failed(Answer(status=500), model, timeout=900.0)
    assert waited
    assert min(waited) >= 900
