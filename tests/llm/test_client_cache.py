import asyncio
import itertools
import threading
from dataclasses import replace
from typing import Any

import pytest

from alps.llm import Client, Completion, Request
from alps.llm.cache import Cache
from alps.llm.types import Reply, TransportError
from tests.desk import (
    EXTRACTED,
    GOOD,
    HALF,
    JUDGED,
    OTHER_SHAPE,
    PROSE,
    QUESTION,
    QUIET_LITELLM,
    Desk,
    Habits,
    always,
    in_turn,
    question,
)
from tests.loopback import Answer, serve

pytestmark = QUIET_LITELLM


def test_every_http_attempt_is_one_row_with_its_tokens(desk: Desk):
    answers = (
        Answer(status=500),
        Answer(PROSE),
        Answer(status=429),
        Answer(drop=True),
        Answer(GOOD),
    )
    with serve(in_turn(*answers)) as server:
        desk.ask(question(server, purpose="judge", about="record 7"))
    assert len(server.requests) == len(desk.rows) == 5
    got = [(row["ask"], row["attempt"], row["outcome"]) for row in desk.rows]
    assert got == [
        (0, 1, "transport"),
        (0, 2, "unparsable"),
        (1, 1, "transport"),
        (1, 2, "transport"),
        (1, 3, "ok"),
    ]
    assert [row["status"] for row in desk.rows[:3]] == [500, 200, 429]
    tokens = [(row["prompt_tokens"], row["completion_tokens"]) for row in desk.rows]
    asked = [
        sum(len(m["content"]) for m in request["messages"]) // 4 for request in server.requests
    ]
    none = (None, None)
    assert tokens == [none, (asked[1], len(PROSE) // 4), none, none, (asked[4], len(GOOD) // 4)]
    assert {(row["purpose"], row["about"], row["model"]) for row in desk.rows} == {
        ("judge", "record 7", "openai/tiny")
    }
    assert len({row["key"] for row in desk.rows}) == 1
    assert all(row["seconds"] > 0 for row in desk.rows)
    assert desk.totals.calls == 5
    assert desk.totals.prompt_tokens == asked[1] + asked[4]
    assert desk.totals.completion_tokens == len(PROSE) // 4 + len(GOOD) // 4


@pytest.mark.parametrize(
    ("answer", "requests"),
    [
        pytest.param(Answer(GOOD), 1, id="a good answer"),
        pytest.param(Answer(OTHER_SHAPE), 3, id="another shape"),
        pytest.param(
            Answer('{"hobbies": ["chess", 5]}'), 1, id="a wrong type that is read all the same"
        ),
        pytest.param(Answer(HALF, finish_reason="length"), 1, id="cut off"),
        pytest.param(Answer(status=500), None, id="an error that may pass"),
        pytest.param(Answer(status=429), None, id="a throttled endpoint"),
        pytest.param(Answer(drop=True), None, id="a dropped connection"),
    ],
)
def test_neither_library_makes_requests_of_its_own(
    desk: Desk, answer: Answer, requests: int | None
):
    with serve(always(answer)) as server:
        desk.ask(question(server))
    assert len(server.requests) == len(desk.rows)
    assert len(desk.rows) == requests if requests is not None else 3 <= len(desk.rows) <= 20
    assert [row["attempt"] for row in desk.rows if row["ask"] == 0][-1] == sum(
        row["ask"] == 0 for row in desk.rows
    )


def test_the_cost_of_a_model_with_a_known_price_is_counted(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "an-ordinary-looking-word")
    with serve(always(Answer(GOOD))) as server:
        desk.ask(question(server, model="openai/gpt-4.1-mini"))
    assert desk.rows[0]["cost"] > 0
    assert desk.totals.cost == desk.rows[0]["cost"]
    assert desk.totals.unpriced == 0


def test_an_unknown_price_is_null_and_not_nought(desk: Desk):
    with serve(always(Answer(GOOD))) as server:
        desk.ask(question(server))
    assert desk.rows[0]["cost"] is None
    assert desk.totals.unpriced == 1


def test_a_stored_answer_makes_no_request(desk: Desk, cache: Cache):
    with serve(in_turn(Answer(f"Sure: {GOOD}"), Answer(status=500))) as server:
        first = desk.ask(question(server), cache=cache)
        second = desk.ask(question(server, about="another record", purpose="judge"), cache=cache)
    assert len(server.requests) == len(desk.rows) == 1
    assert second == first
    assert second.repaired
    assert desk.totals.cached == 1


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"model": "openai/small"}, id="the model"),
        pytest.param(
            {"messages": (*QUESTION, {"role": "user", "content": "And?"})}, id="the messages"
        ),
        pytest.param({"messages": QUESTION[::-1]}, id="the order of the messages"),
        pytest.param({"sampling": {"temperature": 0.5}}, id="the sampling"),
        pytest.param({"repeat": 1}, id="the repeat"),
        pytest.param({"answer": replace(EXTRACTED, schema=Habits)}, id="the schema"),
        pytest.param({"answer": None}, id="no schema"),
    ],
)
def test_whatever_can_change_an_answer_asks_anew(desk: Desk, cache: Cache, changes: dict[str, Any]):
    with serve(always(Answer(GOOD))) as server:
        desk.ask(question(server), cache=cache)
        desk.ask(question(server, **changes), cache=cache)
    assert len(server.requests) == 2


def test_another_endpoint_is_asked_anew(desk: Desk, cache: Cache):
    with serve(always(Answer(GOOD))) as one, serve(always(Answer('{"hobbies": ["go"]}'))) as other:
        answers = [desk.ask(question(server), cache=cache).value for server in (one, other, one)]
    assert answers == [("chess", "tea"), ("go",), ("chess", "tea")]
    assert (len(one.requests), len(other.requests)) == (1, 1)


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(Answer(PROSE), id="unparsable"),
        pytest.param(Answer(OTHER_SHAPE), id="invalid"),
        pytest.param(Answer(""), id="empty"),
        pytest.param(Answer("I cannot help with that."), id="refused"),
        pytest.param(Answer('{"hob', finish_reason="length"), id="truncated"),
        pytest.param(Answer(status=400), id="transport"),
    ],
)
def test_a_failure_is_not_stored(desk: Desk, cache: Cache, failure: Answer):
    answers = [failure]
    with serve(lambda _: answers[-1]) as server:
        assert desk.ask(question(server), cache=cache).outcome != "ok"
        answers.append(Answer(GOOD))
        assert desk.ask(question(server), cache=cache).value == ("chess", "tea")


def test_the_answer_to_a_re_ask_is_stored(desk: Desk, cache: Cache):
    with serve(in_turn(Answer(PROSE), Answer(GOOD), Answer(status=500))) as server:
        desk.ask(question(server), cache=cache)
        assert desk.ask(question(server), cache=cache).value == ("chess", "tea")
    assert len(server.requests) == 2


def test_a_stored_answer_that_does_not_serve_any_more_is_asked_for_again(desk: Desk, cache: Cache):
    with serve(in_turn(Answer(HALF, finish_reason="length"), Answer(GOOD))) as server:
        assert desk.ask(question(server, answer=EXTRACTED), cache=cache).value == ("chess",)
        assert desk.ask(question(server, answer=JUDGED), cache=cache).value == ("chess", "tea")


def test_identical_requests_under_way_are_one_http_call(desk: Desk):
    with serve(always(Answer(GOOD, delay=0.05))) as server:
        completions = desk.ask_all(*[question(server)] * 20, question(server, repeat=1))
    assert len(server.requests) == len(desk.rows) == 2
    assert [completion.value for completion in completions] == [("chess", "tea")] * 21


def test_without_a_cache_a_finished_request_is_made_again(desk: Desk):
    with serve(in_turn(Answer(GOOD), Answer('{"hobbies": ["go"]}'))) as server:

        async def twice(client: Client) -> list[Any]:
            return [(await client.complete(question(server))).value for _ in range(2)]

        assert desk.run(twice) == [("chess", "tea"), ("go",)]


def test_a_caller_that_goes_away_does_not_take_the_answer_from_the_other(desk: Desk):
    with serve(always(Answer(GOOD, delay=0.1))) as server:

        async def one_leaves(client: Client) -> Completion[Any]:
            leaving, staying = (
                asyncio.ensure_future(client.complete(question(server))) for _ in range(2)
            )
            await asyncio.sleep(0.02)
            leaving.cancel()
            return await staying

        assert desk.run(one_leaves).value == ("chess", "tea")
    assert len(server.requests) == 1


def test_no_more_requests_are_under_way_than_allowed(desk: Desk):
    four = threading.Barrier(4)

    def script(_: dict[str, Any]) -> Answer:
        four.wait(300)
        return Answer(GOOD, delay=0.03)

    with serve(script) as server:
        completions = desk.ask_all(*(question(server, repeat=n) for n in range(12)), concurrency=4)
    assert [completion.outcome for completion in completions] == ["ok"] * 12
    assert server.most_under_way == 4


def test_after_a_429_fewer_requests_are_under_way_and_later_as_many_as_before(desk: Desk):
    under_way: list[int] = [0]
    all_began = asyncio.Event()

    async def send(*_: Any) -> Reply:
        under_way.append(under_way[-1] + 1)
        if under_way[-1] == 4:
            all_began.set()
        await all_began.wait()
        await asyncio.sleep(0.001)
        under_way.append(under_way[-1] - 1)
        if len(under_way) < 12:
            raise TransportError("slow down", transient=True, status=429)
        return Reply(GOOD, "stop")

    requests = [Request("any/model", QUESTION, EXTRACTED, repeat=n) for n in range(60)]
    completions = desk.ask_all(*requests, send=send, concurrency=4)
    assert {completion.outcome for completion in completions} == {"ok"}
    assert max(under_way[:8]) == 4
    assert max(under_way[12:18]) < 4
    assert max(under_way[-40:]) == 4


@pytest.mark.filterwarnings("ignore:coroutine .*acompletion:RuntimeWarning")
def test_a_request_that_hangs_is_tried_again_after_the_timeout(desk: Desk):
    given_up, asked = threading.Event(), itertools.count()

    def script(_: dict[str, Any]) -> Answer:
        if next(asked) == 1:
            given_up.wait(300)
        return Answer(GOOD)

    with serve(script) as server:
        desk.ask(question(server, repeat=1))
        completion = desk.ask(question(server), timeout=1.0)
        given_up.set()
    assert completion.outcome == "ok"
    assert [row["outcome"] for row in desk.rows[:2]] == ["ok", "transport"]
    assert "1 s" in desk.rows[1]["error"]


def test_a_server_that_never_answers_is_given_up(desk: Desk):
    async def never(*_: Any) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    completion = desk.ask(Request("any/model", QUESTION, EXTRACTED), send=never, timeout=0.01)
    assert (completion.outcome, completion.raw) == ("transport", None)
    assert "0.01 s" in str(completion.error)
    assert {row["outcome"] for row in desk.rows} == {"transport"}
    assert len(desk.rows) >= 3


def test_another_way_to_send_can_be_given(desk: Desk):
    sent = []

    async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        sent.append((request.model, messages))
        return Reply(GOOD, "stop", prompt_tokens=11, completion_tokens=7, cost=0.25)

    completion = desk.ask(Request("any/model", QUESTION, EXTRACTED), send=send)
    assert completion.value == ("chess", "tea")
    assert sent == [("any/model", list(QUESTION))]
    assert (desk.totals.prompt_tokens, desk.totals.completion_tokens, desk.totals.cost) == (
        11,
        7,
        0.25,
    )
