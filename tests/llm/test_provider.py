"""What providers are sent and what they say, over loopback: replies, errors, limits, redirects,
bodies of any size and at any speed.
"""

import asyncio
import gc
import gzip
import json
import re
import resource
import sys
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from alps.errors import AlpsError, CredentialError, QuotaError, UsageError
from alps.llm.failures import Limit, limits, requests_left, seconds_asked, seconds_to_reset
from alps.llm.provider import close, send
from alps.llm.types import Reply, Request, TransportError
from alps.llm.wire import following_none
from alps.sizes import LARGEST_REPLY
from alps.sizes import Body as Inflated
from tests.desk import GOOD, Desk, always, chat, question
from tests.loopback import Answer, asked_over_http, serve
from tests.visitors import good

LOOPBACK = "http://127.0.0.1:9/v1"
QUESTION = [{"role": "user", "content": "Chess?"}]
BODY = json.dumps(chat("Yes."))


def sent(answer: Answer, model: str = "openai/tiny", **options: Any) -> Reply:
    with serve(always(answer)) as server:
        request = Request[str](model, (), None, api_base=server.url)
        return asked_over_http(send(request, QUESTION, **options))


def failed(answer: Answer, model: str = "openai/tiny", **options: Any) -> TransportError:
    with pytest.raises(TransportError) as caught:
        sent(answer, model, **options)
    return caught.value


# Replies


def test_a_reply_comes_as_it_was_sent():
    reply = sent(Answer("Ja ♟ \ud83d", finish_reason="length"))
    assert (reply.text, reply.finish_reason, reply.refusal) == ("Ja ♟ \ud83d", "length", None)
    assert (reply.prompt_tokens, reply.completion_tokens) == (1, 1)
    assert sent(Answer(None, refusal="I won't.")).refusal == "I won't."
    for body in ({**chat(), "choices": []}, chat(None)):
        assert sent(Answer(body=json.dumps(body))).text is None


def test_litellm_works_out_no_cost(monkeypatch):
    priced: list[Any] = []
    monkeypatch.setattr("litellm.cost_calculator.completion_cost", lambda **of: priced.append(of))
    assert [sent(Answer("Yes."), model).text for model in ("openai/tiny", "gpt-4o")] == ["Yes."] * 2
    assert priced == []


def test_connections_that_litellm_has_replaced_are_closed_with_the_others():
    complaints: list[str] = []

    async def ask_twice_with_an_hour_between(url: str) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))
        request = Request[str]("openai/tiny", (), None, api_base=url)
        await send(request, QUESTION)
        kept = sys.modules["litellm"].in_memory_llm_clients_cache
        for key in list(kept.cache_dict):
            kept._remove_key(key)  # as when the hour is over for which it keeps a client
        gc.collect()
        await send(request, QUESTION)
        await close()
        gc.collect()

    with serve(always(Answer("Yes."))) as server:
        asyncio.run(ask_twice_with_an_hour_between(server.url))
    assert complaints == []


def test_as_many_connections_are_opened_as_requests_may_be_under_way():
    found: list[int] = []

    async def seen(url: str) -> None:
        import aiohttp

        await send(Request[str]("openai/tiny", (), None, api_base=url), QUESTION)
        for one in gc.get_objects():
            if isinstance(one, aiohttp.ClientSession) and not one.closed and one.connector:
                found.extend((one.connector.limit, one.connector.limit_per_host))

    with serve(always(Answer("Yes."))) as server:
        asked_over_http(seen(server.url))
    assert found
    assert min(found) >= 1024


def test_nothing_is_printed_by_the_libraries(capfd: pytest.CaptureFixture[str]):
    for answer in (Answer(status=500), Answer(status=400)):
        failed(answer)
    sent(Answer("Yes."))
    assert capfd.readouterr() == ("", "")


# Errors


def test_a_status_tells_whether_an_error_may_pass():
    passing = (408, 409, 425, 429, 500, 502, 503, 504, 529)
    for status in (*passing, 400, 413, 422):
        error = failed(Answer(status=status))
        assert (error.transient, error.status) == (status in passing, status)


def test_a_connection_without_an_answer_is_transient_and_billed_only_where_one_was_there():
    dropped = failed(Answer(drop=True))
    with pytest.raises(TransportError) as caught:
        asked_over_http(send(Request[str]("openai/tiny", (), None, api_base=LOOPBACK), QUESTION))
    for error, billed in ((dropped, True), (caught.value, False)):
        assert (error.transient, error.status, error.may_be_billed) == (True, None, billed)


def test_an_error_message_is_one_short_line():
    message = str(failed(Answer(status=400, error="first line\nsecond line " + "x" * 5000)))
    assert "first line" in message
    assert "\n" not in message
    assert len(message) <= 300


NOW = 1_790_000_000.0
RESETS = {
    "1s": 1.0,
    "6m0s": 360.0,
    "17ms": 0.017,
    "2m59.56s": 179.56,
    "1h2m3s": 3723.0,
    "2.5": 2.5,
    "0": 0.0,
    str(int(NOW) + 30): 30.0,
    str(int(1000 * NOW) + 30_000): 30.0,
    "2026-09-21T14:13:50Z": 30.0,
    "soon": None,
    "": None,
    "-4": 0.0,
}


@pytest.mark.parametrize(("value", "seconds"), RESETS.items())
def test_a_reset_is_read_in_every_form(value: str, seconds: float | None):
    reset = limits({"x-ratelimit-reset-requests": value}, NOW)["requests"].reset
    assert reset == (None if seconds is None else pytest.approx(seconds))


OPENAI, ANTHROPIC = "x-ratelimit-{}-requests", "anthropic-ratelimit-input-tokens-{}"
LIMITS = {"requests": OPENAI, "tokens": "x-ratelimit-{}-tokens", "input-tokens": ANTHROPIC}


def test_limits_have_many_names_and_only_one_that_is_used_up_is_waited_for():
    named = [("requests", {"ratelimit-remaining": "0", "ratelimit-reset": "20"})]
    for kind, form in LIMITS.items():
        named.append((kind, {form.format("remaining"): "0", form.format("reset"): "20s"}))
    for kind, headers in named:
        assert limits(headers) == {kind: Limit(0.0, 20.0)}
        assert seconds_to_reset(headers) == 20.0
    headers = {
        "x-ratelimit-remaining-requests": "4999",
        "x-ratelimit-reset-requests": "12ms",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert seconds_to_reset(headers) == 360.0
    assert requests_left(headers) == (4999.0, pytest.approx(0.012))
    assert seconds_to_reset({**headers, "x-ratelimit-remaining-tokens": "90"}) is None
    assert (seconds_to_reset({}), requests_left({})) == (None, None)


RETRY_INFO = '{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}'


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after-ms": "250", "retry-after": "1"}, "", 0.25),
        ({"retry-after": "7"}, "Please try again in 20s.", 7.0),
        ({}, "Rate limit reached for gpt-4o. Please try again in 6m30.2s. Visit …", 390.2),
        ({}, "Please retry in 34.07s.", 34.07),
        ({}, RETRY_INFO, 34.0),
        ({}, "Please retry after 20 seconds.", 20.0),
        ({}, "Try again in 2 days, or ask support.", None),
        ({}, "", None),
    ],
)
def test_the_time_that_is_asked_for_stands_in_headers_or_in_words(headers, body, seconds):
    assert seconds_asked(headers, body) == (None if seconds is None else pytest.approx(seconds))


def throttled(headers: dict[str, str]) -> TransportError:
    return failed(Answer(status=429, headers=headers))


def test_the_time_that_the_server_asked_for_is_read():
    asked = {"0.5": 0.5, "7": 7.0, "0": 0.0, "-3": 0.0, "soon": None}
    for said, seconds in asked.items():
        assert throttled({"Retry-After": said}).retry_after == seconds, said
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 50 < (throttled({"Retry-After": date}).retry_after or 0) <= 60
    assert throttled({}).retry_after is None
    used_up = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "40s"}
    assert throttled(used_up).retry_after == pytest.approx(40)
    passed_on_by_a_proxy = {"llm_provider-retry-after": "60"}
    assert throttled(passed_on_by_a_proxy).retry_after == 60


def test_a_quota_for_the_day_ends_the_run_instead_of_sleeping_over_it():
    error = throttled({"Retry-After": "86400"})
    assert not error.transient
    assert str(error.fatal).startswith(
        "model 'openai/tiny': the provider requires a wait of 24.0 hours (HTTP 429 from http://"
    )
    assert "after that, run the same command again" in str(error.fatal)
    assert throttled({"Retry-After": "3600"}).fatal is None
    assert throttled({"Retry-After": "3601"}).fatal is not None


def said(status: int, message: str, **more: Any) -> Answer:
    error = {"message": message, "type": "error", **more}
    return Answer(status=status, body=json.dumps({"error": error}))


QUOTA = "You exceeded your current quota"
CREDIT = "Your credit balance is too low to access the Anthropic API."
NO_MONEY = (
    (said(402, "Insufficient Balance"), "openai/tiny"),
    (said(402, "No."), "openai/tiny"),
    (said(429, f"{QUOTA}.", code="insufficient_quota"), "openai/tiny"),
    (said(400, CREDIT), "anthropic/claude-tiny"),
    (said(403, "Your account has run out of credits."), "openai/tiny"),
)


@pytest.mark.usefixtures("keys")
def test_an_account_without_money_ends_the_run_and_a_quota_of_the_minute_is_waited_for():
    for answer, model in NO_MONEY:
        error = failed(answer, model)
        assert isinstance(error.fatal, QuotaError), answer
        assert not error.transient
        assert "\n" not in str(error.fatal)
    message = f"{QUOTA}, please check your plan and billing details. Please retry in 34.07s."
    error = failed(said(429, message))
    assert (error.fatal, error.transient, error.retry_after) == (None, True, pytest.approx(34.07))


POLICY = "Your request was rejected as a result of our safety system."
DECLINED = (
    (said(400, "Filtered.", code="content_filter"), "openai/tiny"),
    (said(400, "Filtered.", inner_error={"code": "ResponsibleAIPolicyViolation"}), "openai/tiny"),
    (said(400, POLICY, code="content_policy_violation"), "openrouter/tiny"),
    (said(400, "Failed.", metadata={"raw": '{"code": "content_filter"}'}), "openrouter/tiny"),
    (said(400, "Inappropriate content.", code="data_inspection_failed"), "dashscope/tiny"),
    (said(403, "openai/gpt-4o requires moderation. No credits were charged."), "openrouter/tiny"),
)


@pytest.mark.usefixtures("keys")
def test_a_request_that_a_filter_declines_is_refused_whoever_passes_it_on(monkeypatch):
    monkeypatch.setenv("DASHSCOPE_API_KEY", "none")
    for answer, model in DECLINED:
        error = failed(answer, model)
        assert (error.refused, error.transient, error.fatal) == (True, False, None), answer
    assert not failed(said(400, "Unknown parameter: 'content_filter'.")).refused
    assert not failed(Answer(status=500, body='{"error": {"code": "content_filter"}}')).refused


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("key", ["canary\n", "canary-é"])
def test_a_key_that_no_header_can_have_ends_the_run_and_is_not_shown(monkeypatch, key):
    for model in ("openai/tiny", "anthropic/claude-tiny", "gemini/gemini-tiny"):
        monkeypatch.setenv(f"{model.partition('/')[0].upper()}_API_KEY", key)
        fatal = failed(Answer(GOOD), model).fatal
        assert isinstance(fatal, CredentialError), model
        assert "the key, or another header, has a line break or a character" in str(fatal)
        assert "canary" not in str(fatal)


CONTEXT = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 "
    "tokens."
)


@pytest.mark.parametrize(
    ("status", "message", "outcome"),
    [
        (413, "Payload Too Large", "too_long"),
        (413, "", "too_long"),
        (400, CONTEXT, "too_long"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "too_long"),
        (400, "Input is too long for requested model.", "too_long"),
        (422, "the request exceeds the available context size, try increasing it", "too_long"),
        (429, "Request too large for gpt-4o: Limit 30000, Requested 50000.", "too_long"),
        (400, "max_tokens is too large: 99999. This model supports at most 16384.", "transport"),
        (400, "Bad.", "transport"),
    ],
)
def test_a_bad_request_is_sent_once_and_one_too_long_told_apart(desk, status, message, outcome):
    with serve(always(said(status, message))) as server:
        completion = desk.ask(question(server))
    assert (completion.outcome, len(server.requests)) == (outcome, 1)
    assert [row["outcome"] for row in desk.rows] == ["transport"]


def raising(monkeypatch: pytest.MonkeyPatch, cause: Exception) -> None:
    """Let litellm fail as it does where something on this side does."""

    async def broken(**_: Any) -> None:
        from litellm.exceptions import APIConnectionError

        raise APIConnectionError(str(cause), llm_provider="openai", model="tiny") from cause

    monkeypatch.setattr("litellm.acompletion", broken)


def test_what_fails_on_this_side_is_not_asked_again(monkeypatch: pytest.MonkeyPatch):
    raising(monkeypatch, KeyError("choices"))
    assert not failed(Answer(GOOD)).transient
    raising(monkeypatch, ModuleNotFoundError("No module named 'google'", name="google"))
    fatal: AlpsError | None = failed(Answer(GOOD)).fatal
    assert isinstance(fatal, UsageError)
    assert "pip install google-auth" in str(fatal)


# Redirects: the host they name is told no key and no dialogue

REDIRECTED = {
    "openai/tiny": {"OPENAI_API_KEY": "canary-redirect-openai"},
    "anthropic/claude-tiny": {"ANTHROPIC_API_KEY": "canary-redirect-anthropic"},
    "azure/tiny": {"AZURE_API_KEY": "canary-redirect-azure", "AZURE_API_VERSION": "2024-10-21"},
    "gemini/gemini-tiny": {"GEMINI_API_KEY": "canary-redirect-gemini"},
    "openrouter/tiny": {"OPENROUTER_API_KEY": "canary-redirect-router"},
    # litellm keeps one session of aiohttp for ever, and a second event loop can't use it
    "aiohttp_openai/tiny": {"OPENAI_API_KEY": "canary"},
}


@pytest.mark.few(2)
@pytest.mark.parametrize("model", REDIRECTED)
def test_a_redirect_is_an_error_and_its_target_hears_nothing(model, monkeypatch):
    for name, value in REDIRECTED[model].items():
        monkeypatch.setenv(name, value)
    for status in (307,) if model.startswith("aiohttp") else (301, 302, 303, 307, 308):
        with serve(good) as target:
            host = f"localhost:{target.server_port}"
            elsewhere = f"http://someone:secretive@{host}/v1/chat/completions?key=hush"
            error = failed(Answer(status=status, body="{}", headers={"Location": elsewhere}), model)
            assert (target.requests, target.gets) == ([], [])
        redirected = f"HTTP {status}: the endpoint redirects to {host}; use that address"
        assert str(error) == redirected
        assert (error.status, error.transient, error.fatal) == (status, False, None)


def test_other_requests_of_the_process_follow_redirects_as_they_did():
    """Downloads from a hub need them; only what is asked of models does not."""
    moved = Answer(status=307, body="{}", headers={})

    async def asked(url):
        async with httpx.AsyncClient(follow_redirects=True) as client:
            with following_none():
                pass
            return await client.post(url, json={"messages": []})

    with serve(always(Answer(body='{"reached": true}'))) as target, serve(always(moved)) as server:
        moved.headers["Location"] = target.url
        request = Request[str]("openai/tiny", (), None, api_base=server.url)
        with pytest.raises(TransportError):
            asked_over_http(send(request, QUESTION))
        assert asyncio.run(asked(server.url)).json() == {"reached": True}
        assert len(target.requests) == 1


# Bodies: how large they get when they are inflated, and how long they may take


def zeros(megabytes: int, *, wbits: int) -> bytes:
    """Return so many megabytes of zeros, compressed; all after the first are the same bytes, which
    saves the time.
    """
    layer = zlib.compressobj(9, wbits=wbits)
    first = layer.compress(bytes(1 << 20)) + layer.flush(zlib.Z_FULL_FLUSH)
    again = layer.compress(bytes(1 << 20)) + layer.flush(zlib.Z_FULL_FLUSH)
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
    body = Inflated("gzip" if wbits == 31 else "deflate")
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
