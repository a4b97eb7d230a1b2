"""What is set aside for a call: what such calls have cost, so that a cap can be used up, and is
passed by little.
"""

import json
from dataclasses import replace

import pytest

from alps.llm import Request
from alps.llm.budget import Budget, first_reserve
from alps.llm.ledger import Call, Totals
from alps.llm.prices import Price, Rates, Tier
from tests.desk import QUESTION, Desk, question
from tests.endtoend import extraction, one_line, rows, run, summary
from tests.loopback import Answer, asked_over_http, serve
from tests.visitors import good, write_visitors

PLAIN = Price(1e-6, 10e-6, 128_000, "a test")
ASKED = Request("any/model", QUESTION, None)


def used(prompt: int, completion: int, cost: float | None = None) -> Call:
    about = {
        "key": "k",
        "purpose": "generate",
        "about": "b",
        "model": "any/model",
        "ask": 0,
        "attempt": 1,
    }
    return Call(
        **about,
        outcome="ok",
        status=200,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cost=cost,
    )


def reserves(
    answers: list[int], *, price: Price = PLAIN, sampling: dict | None = None, prompt: int = 40
) -> list[int]:
    """Return the tokens that are set aside for each call in turn, where these answers come one
    after another.
    """
    request = replace(ASKED, sampling=sampling or {})

    async def ask() -> list[int]:
        budget = Budget(
            max_cost=None, max_total_tokens=10**9, spent=Totals(), price=lambda _: price
        )
        aside = []
        for answer in answers:
            ticket = await budget.reserve(request, QUESTION)
            aside.append(budget._flights[ticket].reserve.tokens)
            await budget.settle(ticket, used(prompt, answer), billed=True)
        return aside

    return asked_over_http(ask())


def test_twice_the_longest_of_the_answers_so_far_is_set_aside_once_enough_were_seen():
    first = first_reserve(ASKED, QUESTION, PLAIN).tokens
    aside = reserves([100] * 20 + [900] + [100])
    assert aside[:8] == [first] * 8
    assert set(aside[8:21]) == {first - 2_048 + 200}
    assert aside[21] == first - 2_048 + 1_800


def test_one_long_answer_in_a_thousand_does_not_double_what_is_set_aside_for_ever():
    aside = reserves([100] * 500 + [100_000] + [100] * 500)
    assert aside[501] == aside[500] < aside[0]


def test_max_tokens_and_the_longest_answer_of_the_model_bound_what_is_set_aside():
    first = first_reserve(ASKED, QUESTION, PLAIN).tokens
    assert set(reserves([150] * 20, sampling={"max_tokens": 200})) == {first - 2_048 + 200}
    short = replace(PLAIN, max_output_tokens=100)
    assert set(reserves([100] * 20, price=short)) == {first - 2_048 + 100}


def test_a_prompt_that_takes_more_tokens_than_was_taken_is_learned_from():
    aside = reserves([100] * 3, prompt=10**6)
    assert aside[1] > aside[0]
    assert aside[1] <= 3 * aside[0]


def test_a_long_prompt_is_set_aside_at_the_price_of_its_length():
    tiered = replace(PLAIN, tiers=(Tier(1_000, Rates(2e-6, 15e-6)),))
    text = ({"role": "user", "content": "word " * 2_000},)
    plain, long = (first_reserve(ASKED, text, price).cost for price in (PLAIN, tiered))
    prompt = first_reserve(ASKED, text, PLAIN).tokens - 2_048
    assert plain == pytest.approx(prompt * 1e-6 + 2_048 * 10e-6)
    assert long == pytest.approx(prompt * 2e-6 + 2_048 * 15e-6)


def test_a_dollar_is_enough_for_a_run_of_cents_with_a_model_that_can_answer_at_length(tmp_path):
    write_visitors(tmp_path / "data", 20)
    with serve(good) as server:
        words = [word for word in extraction(server.url, "out=out") if not word.startswith("judge")]
        words = [word.replace("openai/scripted", "openai/gpt-5") for word in words]
        finished = run(tmp_path, *words, "judge=lexical", "max_cost=1", OPENAI_API_KEY="none")
        assert len(server.requests) == 20
    assert finished.returncode == 0, finished.stderr
    assert 0 < summary(tmp_path / "out")["calls"]["cost"] < 0.1


def test_a_cap_below_one_call_says_what_a_call_is_taken_to_cost(tmp_path):
    write_visitors(tmp_path / "data", 3)
    with serve(good) as server:
        words = [word for word in extraction(server.url, "out=out") if not word.startswith("judge")]
        words = [word.replace("openai/scripted", "openai/gpt-5") for word in words]
        finished = run(tmp_path, *words, "judge=lexical", "max_cost=0.001", OPENAI_API_KEY="none")
        assert server.requests == []
    assert finished.returncode == 3
    said = " ".join(finished.stdout.split())
    assert "$0.0000 of max_cost=0.001 is spent, and another call is taken to cost $0.02" in said


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_cap_is_passed_by_at_most_what_is_in_flight(tmp_path, monkeypatch, concurrency):
    """Answers become a thousand times longer, which nobody can know before the first of them."""
    desk = Desk(tmp_path)
    price = Price(1e-6, 10e-6, 128_000, "a test")
    monkeypatch.setattr("alps.llm.provider.price_of", lambda _: price)
    asked = []

    def longer(_):
        asked.append(1)
        completion = 40 if len(asked) <= 30 else 40_000
        usage = {
            "prompt_tokens": 60,
            "completion_tokens": completion,
            "total_tokens": 60 + completion,
        }
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Yes."},
        }
        head = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [choice],
        }
        return Answer(body=json.dumps({**head, "usage": usage}), delay=0.02)

    cap = 1.0
    budget = Budget(max_cost=cap, max_total_tokens=None, spent=Totals(), price=lambda _: price)
    with serve(longer) as server:
        requests = [question(server, answer=None, repeat=n) for n in range(80)]
        completions = desk.ask_all(*requests, budget=budget, concurrency=concurrency)
    one = price.cost(60, 40_000)
    spent = sum(row["cost"] for row in rows(desk.calls))
    assert [c.outcome for c in completions].count("budget") > 0
    assert cap - 2 * one <= spent <= cap + concurrency * one


def test_a_cap_on_dollars_of_a_judge_alone_is_refused_by_its_name(tmp_path):
    write_visitors(tmp_path / "data", 1)
    words = (
        "run",
        "task=extraction",
        "model=rules",
        "judge=openai/gpt-9",
        "data=data",
        "max_cost=1",
    )
    error = one_line(run(tmp_path, *words, OPENAI_API_KEY="none"))
    assert error.startswith(
        "alps: judge=openai/gpt-9: its price is unknown, so max_cost= can't hold"
    )
