import asyncio
import gc
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from alps.errors import CredentialError, UsageError
from alps.llm.budget import may_be_billed
from alps.llm.preflight import check_model
from alps.llm.provider import close, send
from alps.llm.types import Reply, Request, TransportError
from tests.loopback import Answer, asked_over_http, serve

# litellm silences what pydantic says of its models when it is imported, but builds them later, in
# the first call.
pytestmark = pytest.mark.filterwarnings(r"ignore:Item '\w+' on TypedDict class:UserWarning")

LOOPBACK = "http://127.0.0.1:9/v1"
QUESTION = [{"role": "user", "content": "Chess?"}]


def sent(answer: Answer, **changes: Any) -> Reply:
    with serve(lambda _: answer) as server:
        request = Request[str](
            **{
                "model": "openai/tiny",
                "messages": (),
                "answer": None,
                "api_base": server.url,
                **changes,
            }
        )
        return asked_over_http(send(request, QUESTION))


def failed(answer: Answer) -> TransportError:
    with pytest.raises(TransportError) as caught:
        sent(answer)
    return caught.value


def cost_of(model: str, *, cached: int) -> float:
    usage = {"prompt_tokens": 2_000, "completion_tokens": 100, "total_tokens": 2_100}
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": "Yes."},
    }
    details = {"prompt_tokens_details": {"cached_tokens": cached}} if cached else {}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    reply = sent(Answer(body=json.dumps({**body, "usage": {**usage, **details}})), model=model)
    assert (reply.prompt_tokens, reply.completion_tokens) == (2_000, 100)
    assert reply.cost is not None
    return reply.cost


def test_what_the_provider_had_in_its_cache_is_cheaper_by_litellms_table(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("OPENAI_API_KEY", "an-ordinary-looking-word")
    assert (
        0 < cost_of("openai/gpt-4.1-mini", cached=1_500) < cost_of("openai/gpt-4.1-mini", cached=0)
    )


@pytest.mark.parametrize(
    ("model", "cached_price", "expected"),
    [("openai/mine", "cached_input = 0.5\n", 1_650), ("openai/another", "", 2_400)],
)
def test_what_the_provider_had_in_its_cache_costs_what_the_price_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, cached_price: str, expected: float
):
    (tmp_path / "prices.toml").write_text(f'["{model}"]\ninput = 1\n{cached_price}output = 4\n')
    monkeypatch.setenv("ALPS_PRICES", str(tmp_path / "prices.toml"))
    assert cost_of(model, cached=0) == pytest.approx(2_400 / 1e6)
    assert cost_of(model, cached=1_500) == pytest.approx(expected / 1e6)


def test_connections_that_litellm_has_replaced_are_closed_with_the_others():
    complaints: list[str] = []

    async def ask_twice_with_an_hour_between(url: str) -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: complaints.append(context["message"])
        )
        request = Request[str](model="openai/tiny", messages=(), answer=None, api_base=url)
        await send(request, QUESTION)
        kept = sys.modules["litellm"].in_memory_llm_clients_cache
        for key in list(kept.cache_dict):
            kept._remove_key(key)  # as when the hour is over for which it keeps a client
        gc.collect()
        await send(request, QUESTION)
        await close()
        gc.collect()

    with serve(lambda _: Answer("Yes.")) as server:
        asyncio.run(ask_twice_with_an_hour_between(server.url))
    assert complaints == []


@pytest.mark.parametrize("model", ["nonsense", "no-such-provider/model", "/"])
@pytest.mark.parametrize("api_base", [None, LOOPBACK])
def test_a_model_of_no_known_provider_is_refused(model: str, api_base: str | None):
    with pytest.raises(UsageError, match=f"^model '{model}': .*openai/gpt-4.1-mini$"):
        check_model(model, api_base=api_base)


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai/gpt-4.1-mini", "OPENAI_API_KEY"),
        ("gpt-4.1-mini", "OPENAI_API_KEY"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("deepseek/deepseek-chat", "DEEPSEEK_API_KEY"),
        ("gemini/gemini-2.5-pro", "GEMINI_API_KEY"),
    ],
)
def test_a_missing_key_is_asked_for_by_its_name(model: str, variable: str):
    with pytest.raises(CredentialError, match=variable) as caught:
        check_model(model, api_base=None)
    assert model in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_that_is_set_is_enough(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "an-ordinary-looking-word")
    check_model("openai/gpt-4.1-mini", api_base=None)


@pytest.mark.parametrize(
    "model", ["openai/gpt-4.1-mini", "openai/any-name", "hosted_vllm/any/name"]
)
def test_an_endpoint_of_ones_own_needs_no_key(model: str):
    check_model(model, api_base=LOOPBACK)


def test_an_endpoint_of_ones_own_is_asked_without_a_key():
    assert sent(Answer("Yes.")).text == "Yes."


def test_a_reply_comes_as_it_was_sent():
    reply = sent(Answer("Ja ♟ \ud83d", finish_reason="length"))
    assert (reply.text, reply.finish_reason, reply.refusal) == ("Ja ♟ \ud83d", "length", None)
    assert (reply.prompt_tokens, reply.completion_tokens) == (1, 1)


def test_a_refusal_of_its_own_field_is_heard():
    assert sent(Answer(None, refusal="I won't.")).refusal == "I won't."


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            '{"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": []}',
            id="no choices",
        ),
        pytest.param(
            '{"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": '
            '[{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": '
            "null}}]}",
            id="no text and no usage",
        ),
    ],
)
def test_a_reply_without_content_is_a_reply(body: str):
    assert sent(Answer(body=body)).text is None


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_status_that_may_pass_is_transient(status: int):
    error = failed(Answer(status=status))
    assert error.transient
    assert error.status == status


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_status_that_will_not_pass_is_not_transient(status: int):
    error = failed(Answer(status=status))
    assert not error.transient
    assert error.status == status


def test_a_dropped_connection_is_transient_and_may_have_been_billed():
    error = failed(Answer(drop=True))
    assert (error.transient, error.status, may_be_billed(error)) == (True, None, True)


def test_a_server_that_is_not_there_is_transient():
    request = Request[str]("openai/tiny", (), None, api_base=LOOPBACK)
    with pytest.raises(TransportError) as caught:
        asked_over_http(send(request, QUESTION))
    error = caught.value
    assert (error.transient, error.status, may_be_billed(error)) == (True, None, False)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("0.5", 0.5), ("7", 7.0), ("0", 0.0), ("-3", 0.0), ("soon", None), (None, None)],
)
def test_the_time_that_the_server_asked_for_is_read(header: str | None, seconds: float | None):
    headers = {"Retry-After": header} if header is not None else {}
    assert failed(Answer(status=429, headers=headers)).retry_after == seconds


def test_the_time_that_the_server_asked_for_may_be_a_date():
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    retry_after = failed(Answer(status=429, headers={"Retry-After": date})).retry_after
    assert retry_after is not None
    assert 50 < retry_after <= 60


def test_a_quota_for_the_day_ends_the_run_instead_of_sleeping_over_it():
    error = failed(Answer(status=429, headers={"Retry-After": "86400"}))
    assert not error.transient
    assert str(error.fatal).startswith(
        "model 'openai/tiny': the provider asks to wait 24.0 hours (HTTP 429 from http://"
    )
    assert "the same command goes on then" in str(error.fatal)
    assert failed(Answer(status=429, headers={"Retry-After": "3600"})).fatal is None


def test_an_error_message_is_one_short_line():
    message = str(failed(Answer(status=400, error="first line\nsecond line " + "x" * 5000)))
    assert "first line" in message
    assert "\n" not in message
    assert len(message) <= 300


def test_neither_library_is_imported_before_the_first_call():
    program = (
        "import sys, alps.llm, alps.llm.provider, alps.cli\n"
        "print([name for name in ('litellm', 'instructor', 'openai') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == "[]"


def test_nothing_is_printed_by_the_libraries(capfd: pytest.CaptureFixture[str]):
    failed(Answer(status=500))
    failed(Answer(status=400))
    sent(Answer("Yes."))
    assert capfd.readouterr() == ("", "")
