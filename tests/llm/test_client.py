import json
import socket
import time
from typing import Any

import pytest

from alps.errors import CredentialError, UsageError
from alps.llm import Request
from tests.desk import (
    EXTRACTED,
    GOOD,
    HALF,
    OTHER_SHAPE,
    PROSE,
    QUESTION,
    QUIET_LITELLM,
    Desk,
    always,
    in_turn,
    question,
)
from tests.loopback import Answer, serve

pytestmark = QUIET_LITELLM


CONTENT_POLICY = json.dumps(
    {
        "error": {
            "message": "rejected",
            "type": "invalid_request_error",
            "code": "content_policy_violation",
        }
    }
)


@pytest.mark.parametrize(
    ("answer", "outcome", "value", "requests"),
    [
        pytest.param(Answer(GOOD), "ok", ("chess", "tea"), 1, id="as asked"),
        pytest.param(Answer(f"```json\n{GOOD}\n```"), "ok", ("chess", "tea"), 1, id="in a fence"),
        pytest.param(Answer('{"hobbies": []}'), "ok", (), 1, id="an empty list"),
        pytest.param(
            Answer(HALF, finish_reason="length"),
            "ok",
            ("chess",),
            1,
            id="cut off, something usable",
        ),
        pytest.param(
            Answer('{"hob', finish_reason="length"),
            "truncated",
            None,
            3,
            id="cut off, nothing usable",
        ),
        pytest.param(
            Answer("", finish_reason="length"),
            "truncated",
            None,
            3,
            id="cut off before the first word",
        ),
        pytest.param(
            Answer("I'm sorry, I can't help with that."),
            "refused",
            None,
            1,
            id="a refusal in prose",
        ),
        pytest.param(
            Answer(None, refusal="I can't help."),
            "refused",
            None,
            1,
            id="a refusal in its own field",
        ),
        pytest.param(
            Answer(None, finish_reason="length", refusal="I"),
            "refused",
            None,
            1,
            id="a refusal cut off",
        ),
        pytest.param(
            Answer("", finish_reason="content_filter"), "refused", None, 1, id="the content filter"
        ),
        pytest.param(
            Answer(GOOD, finish_reason="content_filter"),
            "refused",
            None,
            1,
            id="the filter, after a part",
        ),
        pytest.param(
            Answer(status=400, body=CONTENT_POLICY), "refused", None, 1, id="the content policy"
        ),
        pytest.param(Answer(""), "empty", None, 3, id="an empty text"),
        pytest.param(Answer(" \n"), "empty", None, 3, id="white space"),
        pytest.param(Answer(None), "empty", None, 3, id="no text"),
        pytest.param(Answer(PROSE), "unparsable", None, 3, id="prose"),
        pytest.param(Answer(OTHER_SHAPE), "invalid", None, 3, id="another shape"),
        pytest.param(Answer(status=400), "transport", None, 1, id="a bad request"),
        pytest.param(Answer(status=413), "too_long", None, 1, id="larger than the server takes"),
    ],
)
def test_every_answer_has_its_outcome(
    desk: Desk, answer: Answer, outcome: str, value: tuple[str, ...] | None, requests: int
):
    with serve(always(answer)) as server:
        completion = desk.ask(question(server))
    assert (completion.outcome, completion.value) == (outcome, value)
    assert len(server.requests) == requests
    assert (completion.error is None) == (outcome == "ok")


@pytest.mark.parametrize(
    ("answer", "repaired", "truncated"),
    [
        pytest.param(Answer(GOOD), False, False, id="as asked"),
        pytest.param(Answer(f"Sure: {GOOD}"), True, False, id="in prose"),
        pytest.param(Answer(HALF, finish_reason="length"), True, True, id="cut off"),
    ],
)
def test_an_answer_tells_what_it_took_to_read_it(
    desk: Desk, answer: Answer, repaired: bool, truncated: bool
):
    with serve(always(answer)) as server:
        completion = desk.ask(question(server))
    assert (completion.repaired, completion.truncated) == (repaired, truncated)
    assert bool(completion.notes) == repaired


@pytest.mark.parametrize("text", [GOOD, PROSE, OTHER_SHAPE, "I'm sorry, I can't."])
def test_the_text_as_it_came_is_kept(desk: Desk, text: str):
    with serve(always(Answer(text))) as server:
        assert desk.ask(question(server)).raw == text


def test_plain_text_is_given_as_it_came(desk: Desk):
    with serve(always(Answer("Sorry to hear that! [1] {ok}"))) as server:
        completion = desk.ask(question(server, answer=None))
    assert (completion.outcome, completion.value) == ("ok", "Sorry to hear that! [1] {ok}")


def test_plain_text_that_was_cut_off_says_so(desk: Desk):
    with serve(always(Answer("Once upon a", finish_reason="length"))) as server:
        completion = desk.ask(question(server, answer=None))
    assert (completion.outcome, completion.value, completion.truncated) == (
        "ok",
        "Once upon a",
        True,
    )


def test_exactly_the_given_messages_are_sent(desk: Desk):
    with serve(always(Answer(GOOD))) as server:
        desk.ask(question(server))
    assert server.requests[0]["messages"] == list(QUESTION)


def test_the_schema_is_sent_as_response_format(desk: Desk):
    with serve(always(Answer(GOOD))) as server:
        desk.ask(question(server))
    sent = server.requests[0]["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["strict"]
    assert sent["json_schema"]["schema"]["properties"] == {
        "hobbies": {"type": "array", "items": {"type": "string"}}
    }
    assert sent["json_schema"]["schema"]["required"] == ["hobbies"]


def test_nothing_is_sent_that_was_not_asked_for(desk: Desk):
    sampling = {"temperature": 0.2, "max_tokens": 77, "seed": 5}
    with serve(always(Answer(GOOD))) as server:
        desk.ask(question(server, sampling=sampling, answer=None))
    assert server.requests[0] == {"model": "tiny", "messages": list(QUESTION), **sampling}


def test_a_parameter_that_the_model_does_not_take_is_not_dropped_in_silence(desk: Desk):
    with serve(always(Answer(GOOD))) as server:
        completion = desk.ask(
            question(server, model="openai/o3-mini", sampling={"temperature": 0.2})
        )
    assert server.requests == []
    assert completion.outcome == "transport"
    assert "temperature" in str(completion.error)


@pytest.mark.parametrize(
    "answer",
    [
        *(
            pytest.param(Answer(status=code), id=str(code))
            for code in (408, 409, 429, 500, 502, 503, 504, 529)
        ),
        pytest.param(Answer(drop=True), id="a dropped connection"),
        pytest.param(Answer(body="<html>Bad gateway</html>"), id="a page instead of JSON"),
    ],
)
def test_a_failure_that_may_pass_is_tried_again(desk: Desk, answer: Answer):
    with serve(in_turn(answer, answer, Answer(GOOD))) as server:
        completion = desk.ask(question(server))
    assert completion.outcome == "ok"
    assert [(row["attempt"], row["outcome"]) for row in desk.rows] == [
        (1, "transport"),
        (2, "transport"),
        (3, "ok"),
    ]
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 422])
def test_a_failure_that_will_not_pass_is_not_tried_again(desk: Desk, status: int):
    with serve(always(Answer(status=status))) as server:
        completion = desk.ask(question(server))
    assert (completion.outcome, completion.raw) == ("transport", None)
    assert len(server.requests) == 1
    assert desk.rows[0]["status"] == status


def test_trying_again_comes_to_an_end(desk: Desk):
    with serve(always(Answer(status=500))) as server:
        completion = desk.ask(question(server))
    assert (completion.outcome, completion.raw, completion.value) == ("transport", None, None)
    assert "scripted 500" in str(completion.error)
    assert 3 <= len(server.requests) <= 10


@pytest.mark.parametrize("status", [429, 503])
def test_nothing_is_tried_again_earlier_than_the_server_asked(desk: Desk, status: int):
    arrivals: list[float] = []

    def script(_: dict[str, Any]) -> Answer:
        arrivals.append(time.perf_counter())
        return (
            Answer(GOOD)
            if len(arrivals) > 1
            else Answer(status=status, headers={"Retry-After": "0.2"})
        )

    with serve(script) as server:
        assert desk.ask(question(server)).outcome == "ok"
    assert arrivals[1] - arrivals[0] >= 0.2


def test_other_requests_wait_too_when_the_server_asked_to_wait(desk: Desk):
    arrivals: list[float] = []

    def script(_: dict[str, Any]) -> Answer:
        arrivals.append(time.perf_counter())
        return (
            Answer(GOOD)
            if len(arrivals) > 1
            else Answer(status=429, headers={"Retry-After": "0.2"})
        )

    with serve(script) as server:
        completions = desk.ask_all(*(question(server, repeat=n) for n in range(4)), concurrency=1)
    assert [completion.outcome for completion in completions] == ["ok"] * 4
    assert min(arrivals[1:]) - arrivals[0] >= 0.2


def test_a_refused_key_ends_the_run_and_is_not_shown(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "an-ordinary-looking-word")
    refusal = Answer(status=401, error="Incorrect API key provided: an-ordinary-looking-word.")
    with (
        serve(always(refusal)) as server,
        pytest.raises(CredentialError, match="openai/tiny") as caught,
    ):
        desk.ask(question(server))
    assert server.headers[0]["authorization"] == "Bearer an-ordinary-looking-word"
    assert "an-ordinary-looking-word" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 1


def test_a_model_that_the_endpoint_lacks_ends_the_run(desk: Desk):
    with (
        serve(always(Answer(status=404))) as server,
        pytest.raises(UsageError, match="openai/tiny"),
    ):
        desk.ask(question(server))
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "error"), [(401, CredentialError), (404, UsageError)])
def test_an_attempt_that_ends_the_run_is_in_the_ledger_too(
    desk: Desk, status: int, error: type[Exception]
):
    with serve(always(Answer(status=status))) as server, pytest.raises(error):
        desk.ask(question(server))
    assert [row["status"] for row in desk.rows] == [status]


def test_a_key_in_an_error_message_does_not_get_into_a_file(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "an-ordinary-looking-word")
    with serve(
        always(Answer(status=400, error="bad: an-ordinary-looking-word or sk-abcdefgh12345"))
    ) as server:
        completion = desk.ask(question(server))
    written = desk.calls.read_text(encoding="utf-8")
    for text in (written, str(completion.error)):
        assert "bad: " in text
        assert "ordinary" not in text
        assert "abcdefgh" not in text


def test_an_address_where_nobody_ever_was_ends_the_run(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("alps.llm.retries._NOBODY_THERE", 0.3)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        with pytest.raises(UsageError, match=r"nobody could be reached .* mend the address"):
            desk.ask(Request("openai/tiny", QUESTION, EXTRACTED, api_base=address), patience=1800.0)
