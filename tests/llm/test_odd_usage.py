"""What an endpoint says that it used, in any shape: never a crash, never money back, never a cost
that it claims.
"""

import json
from typing import Any

import pytest

from alps.llm import Request
from alps.llm.budget import Budget, first_reserve, may_be_billed
from alps.llm.ledger import Totals
from alps.llm.prices import price_of
from alps.llm.provider import send
from alps.llm.types import Reply, TransportError
from tests.desk import GOOD, QUESTION, Desk, always, question
from tests.loopback import Answer, asked_over_http, serve

pytestmark = pytest.mark.filterwarnings(
    r"ignore:Item '\w+' on TypedDict class:UserWarning", "ignore:Pydantic serial"
)

MODEL = "openai/gpt-4.1-mini"
GOOD_USAGE = {"prompt_tokens": 2_000, "completion_tokens": 100, "total_tokens": 2_100}


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@pytest.fixture(autouse=True)
def a_key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "an-ordinary-looking-word")


def body(usage: str, **more: Any) -> str:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": GOOD},
    }
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        **more,
    }
    return json.dumps(answer)[:-1] + (f', "usage": {usage}}}' if usage else "}")


def sent(answer: Answer, *, model: str = MODEL) -> Reply:
    with serve(always(answer)) as server:
        return asked_over_http(
            send(Request(model, QUESTION, None, api_base=server.url), [dict(m) for m in QUESTION])
        )


SHAPES = {
    "nothing": "",
    "null": "null",
    "a word": '"many"',
    "a number": "7",
    "a list": "[1, 2]",
    "empty": "{}",
    "noughts": '{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}',
    "nulls": '{"prompt_tokens": null, "completion_tokens": null, "total_tokens": null}',
    "negative": '{"prompt_tokens": -2000, "completion_tokens": -100, "total_tokens": -2100}',
    "negative answer": '{"prompt_tokens": 2000, "completion_tokens": -100, "total_tokens": 1900}',
    "no answer counted": '{"prompt_tokens": 2000, "total_tokens": 2000}',
    "words": (
        '{"prompt_tokens": "two thousand", "completion_tokens": "hundred", "total_tokens": "x"}'
    ),
    "fractions": '{"prompt_tokens": 2000.5, "completion_tokens": 100.5, "total_tokens": 2101}',
    "too large for a float": (
        f'{{"prompt_tokens": {"9" * 400}, "completion_tokens": {"9" * 400}, "total_tokens": 1}}'
    ),
    "4,290 digits": (
        f'{{"prompt_tokens": 2000, "completion_tokens": {"9" * 4_290}, "total_tokens": 1}}'
    ),
    "4,400 digits": (
        f'{{"prompt_tokens": 2000, "completion_tokens": {"9" * 4_400}, "total_tokens": 1}}'
    ),
    "infinite": '{"prompt_tokens": Infinity, "completion_tokens": NaN, "total_tokens": 1e999}',
    "nested": '{"prompt_tokens": {"n": 2000}, "completion_tokens": [100], "total_tokens": {}}',
    "details of another shape": (
        '{"prompt_tokens": 2000, "completion_tokens": 100, "total_tokens": 2100, '
        '"prompt_tokens_details": "none", "completion_tokens_details": [1]}'
    ),
    "negative details": (
        '{"prompt_tokens": 2000, "completion_tokens": 100, "total_tokens": 2100, '
        '"prompt_tokens_details": {"cached_tokens": -5000}, "completion_tokens_details": '
        '{"reasoning_tokens": -9}}'
    ),
    "details above the whole": (
        '{"prompt_tokens": 2000, "completion_tokens": 100, "total_tokens": 2100, '
        '"prompt_tokens_details": {"cached_tokens": 900000}, "completion_tokens_details": '
        '{"reasoning_tokens": 90000}}'
    ),
}


@pytest.mark.parametrize("usage", SHAPES.values(), ids=SHAPES)
def test_no_usage_gives_money_back_or_ends_the_run(desk: Desk, usage: str):
    request = Request(MODEL, QUESTION, None, sampling={"max_tokens": 200})
    reserve = first_reserve(request, QUESTION, price_of(MODEL))
    budget = Budget(
        max_cost=1.5 * reserve.cost, max_total_tokens=None, spent=Totals(), price=price_of
    )
    with serve(always(Answer(body=body(usage)))) as server:
        desk.ask(
            question(server, model=MODEL, answer=None, sampling={"max_tokens": 200}), budget=budget
        )
        assert len(server.requests) == 1
    (row,) = desk.rows
    told = row["prompt_tokens"] == 2_000 and row["completion_tokens"] == 100
    if told:  # what is odd is in the details alone
        assert 2_000 * 0.1e-6 < row["cost"] <= 2_000 * 0.4e-6 + 100 * 1.6e-6
    else:
        assert row["cost"] is None
        assert row["assumed_cost"] == pytest.approx(reserve.cost)
    assert all((row[name] or 0) >= 0 for name in ("cached_tokens", "reasoning_tokens"))


@pytest.mark.parametrize(
    "usage",
    [
        SHAPES[name]
        for name in ("nothing", "empty", "noughts", "nulls", "negative", "no answer counted")
    ],
)
def test_a_reply_that_does_not_tell_what_it_used_has_no_cost(usage: str):
    reply = sent(Answer(body=body(usage)))
    assert (reply.text, reply.cost) == (GOOD, None)


def test_what_is_missing_in_the_usage_counts_as_what_was_set_aside(desk: Desk):
    request = Request(MODEL, QUESTION, None)
    reserve = first_reserve(request, QUESTION, price_of(MODEL)).tokens
    budget = Budget(max_cost=None, max_total_tokens=2 * reserve, spent=Totals(), price=price_of)
    with serve(always(Answer(body=body("")))) as server:
        ended = [
            desk.ask(question(server, model=MODEL, answer=None, repeat=n), budget=budget).outcome
            for n in range(3)
        ]
    assert ended == ["ok", "ok", "budget"]


@pytest.mark.parametrize(
    "claimed",
    [{"cost": -5.0}, {"cost": 0.0}, {"cost": 99.0}, {"cost": "nan"}],
    ids=["negative", "nothing", "much", "no number"],
)
@pytest.mark.parametrize("header", ["-1", "nan", "inf", "0.0", "12"])
def test_a_cost_that_an_endpoint_claims_is_not_believed(claimed: dict[str, Any], header: str):
    answer = Answer(
        body=body(json.dumps({**GOOD_USAGE, **claimed})),
        headers={"x-litellm-response-cost": header},
    )
    assert sent(answer).cost == pytest.approx(2_000 * 0.4e-6 + 100 * 1.6e-6)
    assert sent(answer, model="openai/gpt-9").cost is None


def test_thought_that_is_counted_beside_the_answer_is_on_the_bill():
    usage = {
        "prompt_tokens": 1_000,
        "completion_tokens": 100,
        "total_tokens": 1_500,
        "completion_tokens_details": {"reasoning_tokens": 400},
    }
    reply = sent(Answer(body=body(json.dumps(usage))))
    assert (reply.completion_tokens, reply.reasoning_tokens) == (500, 400)
    assert reply.cost == pytest.approx(1_000 * 0.4e-6 + 500 * 1.6e-6)


@pytest.mark.parametrize(
    "broken",
    ["", "not JSON", '{"id": "x", "choices": ', body(SHAPES["4,400 digits"]), "[]"],
    ids=["empty", "prose", "cut off", "digits", "a list"],
)
def test_an_answer_of_success_that_cannot_be_read_may_be_on_the_bill(broken: str):
    with pytest.raises(TransportError) as caught:
        sent(Answer(body=broken))
    assert caught.value.billed
    assert may_be_billed(caught.value)


@pytest.mark.parametrize("status", [400, 429, 500, 503])
def test_an_answer_of_failure_is_not_on_the_bill(status: int):
    with pytest.raises(TransportError) as caught:
        sent(Answer(status=status))
    assert not caught.value.billed
    assert not may_be_billed(caught.value)


def test_an_answer_that_cannot_be_read_counts_against_the_budget(desk: Desk):
    request = Request(MODEL, QUESTION, None)
    reserve = first_reserve(request, QUESTION, price_of(MODEL))
    budget = Budget(
        max_cost=1.5 * reserve.cost, max_total_tokens=None, spent=Totals(), price=price_of
    )
    with serve(always(Answer(body="not JSON"))) as server:
        desk.ask(question(server, model=MODEL, answer=None), budget=budget)
        assert len(server.requests) == 1
    (row,) = desk.rows
    assert row["assumed_cost"] == pytest.approx(reserve.cost)
    assert row["outcome"] == "transport"
