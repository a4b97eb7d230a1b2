"""What providers say of their rate limits, in the forms that they document."""

import json
from typing import Any

import pytest

from alps.errors import AlpsError, QuotaError, UsageError
from alps.llm.failures import Limit, limits, requests_left, seconds_asked, seconds_to_reset
from alps.llm.provider import send
from alps.llm.types import Request, TransportError
from tests.desk import GOOD, QUIET_LITELLM, Desk, always, question
from tests.loopback import Answer, asked_over_http, serve

pytestmark = QUIET_LITELLM

NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *(
            ("1s", 1.0),
            ("6m0s", 360.0),
            ("17ms", 0.017),
            ("2m59.56s", 179.56),
            ("1h2m3s", 3723.0),
            ("2.5", 2.5),
        ),
        *(("0", 0.0), (str(int(NOW) + 30), 30.0), (str(int(1000 * NOW) + 30_000), 30.0)),
        *(("2026-09-21T14:13:50Z", 30.0), ("soon", None), ("", None), ("-4", 0.0)),
    ],
)
def test_a_reset_is_read_in_every_form(value: str, seconds: float | None):
    reset = limits({"x-ratelimit-reset-requests": value}, NOW)["requests"].reset
    assert reset == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s"}, "requests"),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20s"}, "tokens"),
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "20s",
            },
            "input-tokens",
        ),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "20"}, "requests"),
    ],
)
def test_limits_have_many_names(headers: dict[str, str], kind: str):
    assert limits(headers) == {kind: Limit(0.0, 20.0)}
    assert seconds_to_reset(headers) == 20.0


def test_only_a_limit_that_is_used_up_is_waited_for():
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


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after-ms": "250", "retry-after": "1"}, "", 0.25),
        ({"retry-after": "7"}, "Please try again in 20s.", 7.0),
        ({}, "Rate limit reached for gpt-4o. Please try again in 6m30.2s. Visit …", 390.2),
        ({}, "Please retry in 34.07s.", 34.07),
        ({}, '{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}', 34.0),
        ({}, "Please retry after 20 seconds.", 20.0),
        ({}, "Try again in 2 days, or ask support.", None),
        ({}, "", None),
    ],
)
def test_the_time_that_is_asked_for_stands_in_headers_or_in_words(
    headers: dict[str, str], body: str, seconds: float | None
):
    assert seconds_asked(headers, body) == (None if seconds is None else pytest.approx(seconds))


def failed(answer: Answer, model: str = "openai/tiny", **changes: Any) -> TransportError:
    with serve(always(answer)) as server:
        request = Request[str](model, (), None, api_base=server.url, **changes)
        asking = send(request, [{"role": "user", "content": "Chess?"}])
        with pytest.raises(TransportError) as caught:
            asked_over_http(asking)
    return caught.value


def said(status: int, message: str, **more: Any) -> Answer:
    return Answer(
        status=status, body=json.dumps({"error": {"message": message, "type": "error", **more}})
    )


def test_a_limit_that_is_used_up_is_waited_for_until_its_reset():
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "40s"}
    assert failed(Answer(status=429, headers=headers)).retry_after == pytest.approx(40)


def test_what_a_proxy_passes_on_is_read():
    assert failed(Answer(status=429, headers={"llm_provider-retry-after": "60"})).retry_after == 60


@pytest.mark.parametrize(
    ("answer", "model"),
    [
        pytest.param(said(402, "Insufficient Balance"), "openai/tiny", id="402"),
        pytest.param(said(402, "No."), "openai/tiny", id="402 of few words"),
        pytest.param(
            said(429, "You exceeded your current quota.", code="insufficient_quota"),
            "openai/tiny",
            id="openai",
        ),
        pytest.param(
            said(400, "Your credit balance is too low to access the Anthropic API."),
            "anthropic/claude-tiny",
            id="anthropic",
        ),
        pytest.param(said(403, "Your account has run out of credits."), "openai/tiny", id="403"),
    ],
)
def test_an_account_without_money_ends_the_run(
    answer: Answer, model: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "ordinary-anthropic")
    error = failed(answer, model)
    assert isinstance(error.fatal, QuotaError)
    assert not error.transient
    assert "\n" not in str(error.fatal)


def test_a_quota_of_the_minute_is_waited_for():
    message = (
        "You exceeded your current quota, please check your plan and billing details. Please "
        "retry in 34.07s."
    )
    error = failed(said(429, message))
    assert (error.fatal, error.transient, error.retry_after) == (None, True, pytest.approx(34.07))


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (413, "Payload Too Large"),
        (413, ""),
        (
            400,
            "This model's maximum context length is 8192 tokens. However, your messages resulted "
            "in 9000 tokens.",
        ),
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "Input is too long for requested model."),
        (422, "the request exceeds the available context size, try increasing it"),
        (429, "Request too large for gpt-4o: Limit 30000, Requested 50000."),
    ],
)
def test_a_request_that_is_too_long_is_asked_once(desk: Desk, status: int, message: str):
    with serve(always(said(status, message))) as server:
        completion = desk.ask(question(server))
    assert (completion.outcome, len(server.requests)) == ("too_long", 1)


@pytest.mark.parametrize(
    "message", ["max_tokens is too large: 99999. This model supports at most 16384.", "Bad."]
)
def test_other_bad_requests_are_not_too_long(message: str):
    error = failed(said(400, message))
    assert (error.too_long, error.transient) == (False, False)


def test_a_package_that_is_missing_ends_the_run_with_its_name(monkeypatch: pytest.MonkeyPatch):
    async def missing(**_: Any) -> None:
        try:
            raise ModuleNotFoundError("No module named 'google'", name="google")
        except ModuleNotFoundError as error:
            from litellm.exceptions import APIConnectionError

            raise APIConnectionError(
                message=str(error), llm_provider="vertex_ai", model="gemini"
            ) from error

    monkeypatch.setattr("litellm.acompletion", missing)
    fatal: AlpsError | None = failed(Answer(GOOD)).fatal
    assert isinstance(fatal, UsageError)
    assert "pip install google-auth" in str(fatal)


def test_what_fails_on_this_side_is_not_asked_again(monkeypatch: pytest.MonkeyPatch):
    async def broken(**_: Any) -> None:
        try:
            raise KeyError("choices")
        except KeyError as error:
            from litellm.exceptions import APIConnectionError

            raise APIConnectionError(
                message=str(error), llm_provider="openai", model="tiny"
            ) from error

    monkeypatch.setattr("litellm.acompletion", broken)
    assert not failed(Answer(GOOD)).transient
