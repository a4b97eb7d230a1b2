"""What an endpoint says that it used, what is set aside for a call, and caps on a whole run."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alps.llm.budget import Budget, Spending, _reserve, _Seen, prompt_bytes
from alps.llm.ledger import Totals
from alps.llm.prices import Price, Rates, ReplyTokens, Tier, price_of
from alps.llm.types import Request
from tests.desk import QUESTION, Desk, always, chat, question
from tests.endtoend import (
    environment,
    extraction,
    finish,
    one_line,
    rows,
    run,
    start,
    summary,
    task1,
    wait_until,
)
from tests.few import few
from tests.llm.test_ledger import call
from tests.llm.test_prices import MINI, openai
from tests.llm.test_provider import failed, sent
from tests.loopback import Answer, asked_over_http, serve
from tests.visitors import good, write_visitors

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serial")


# What an endpoint says that it used: never a crash, never money back, never a cost that it claims

GOOD_USAGE = {"prompt_tokens": 2_000, "completion_tokens": 100, "total_tokens": 2_100}


def body(usage: str) -> str:
    return json.dumps(chat())[:-1] + (f', "usage": {usage}}}' if usage else "}")


def counts(prompt: str, completion: str, total: str = "1", details: str = "") -> str:
    """Return a usage as JSON that may not be any."""
    told = f'"prompt_tokens": {prompt}, "completion_tokens": {completion}'
    return f'{{{told}, "total_tokens": {total}{details}}}'


def detailed(cached: str, thought: str) -> str:
    inside = f'"prompt_tokens_details": {cached}, "completion_tokens_details": {thought}'
    return counts("2000", "100", "2100", f", {inside}")


SHAPES = {
    "nothing": "",
    "empty": "{}",
    "noughts": counts("0", "0", "0"),
    "nulls": counts("null", "null", "null"),
    "negative": counts("-2000", "-100", "-2100"),
    "no answer counted": '{"prompt_tokens": 2000, "total_tokens": 2000}',
    "null": "null",
    "a word": '"many"',
    "a number": "7",
    "a list": "[1, 2]",
    "negative answer": counts("2000", "-100", "1900"),
    "words": counts('"two thousand"', '"hundred"', '"x"'),
    "fractions": counts("2000.5", "100.5", "2101"),
    "too large for a float": counts("9" * 400, "9" * 400),
    "4,290 digits": counts("2000", "9" * 4_290),
    "4,400 digits": counts("2000", "9" * 4_400),
    "infinite": counts("Infinity", "NaN", "1e999"),
    "nested": counts('{"n": 2000}', "[100]", "{}"),
}
DETAILS = {
    "of another shape": detailed('"none"', "[1]"),
    "negative": detailed('{"cached_tokens": -5000}', '{"reasoning_tokens": -9}'),
    "above the whole": detailed('{"cached_tokens": 900000}', '{"reasoning_tokens": 90000}'),
}


def first_reserve(request: Request[Any], messages: Any, price: Price) -> Spending:
    """Return what is set aside for a call before any like it was answered."""
    return _reserve(request, prompt_bytes(request, messages), price, _Seen(), None)


def capped(times: float, request: Request[Any]) -> tuple[Budget, Any]:
    """Return a budget of so many times what is set aside for a first request, and that."""
    reserve = first_reserve(request, QUESTION, price_of(MINI))
    cap = times * reserve.cost
    return Budget(max_cost=cap, max_total_tokens=None, spent=Totals(), price=price_of), reserve


@pytest.mark.few(2)
@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("usage", [*SHAPES.values(), *DETAILS.values()], ids=[*SHAPES, *DETAILS])
def test_no_usage_gives_money_back_or_ends_the_run(desk: Desk, usage: str):
    most = {"max_tokens": 200}
    budget, reserve = capped(1.5, Request(MINI, QUESTION, None, sampling=most))
    with serve(always(Answer(body=body(usage)))) as server:
        desk.ask(question(server, model=MINI, answer=None, sampling=most), budget=budget)
        assert len(server.requests) == 1
    (row,) = desk.rows
    if usage in DETAILS.values():
        assert (row["prompt_tokens"], row["completion_tokens"]) == (2_000, 100)
        assert 2_000 * 0.1e-6 < row["cost"] <= 2_000 * 0.4e-6 + 100 * 1.6e-6
    else:
        assert row["cost"] is None
        assert row["assumed_cost"] == pytest.approx(reserve.cost)
    assert all((row[name] or 0) >= 0 for name in ("cached_tokens", "reasoning_tokens"))


@pytest.mark.usefixtures("keys")
def test_what_is_missing_in_the_usage_counts_as_what_was_set_aside(desk: Desk):
    reserve = first_reserve(Request(MINI, QUESTION, None), QUESTION, price_of(MINI)).tokens
    budget = Budget(max_cost=None, max_total_tokens=2 * reserve, spent=Totals(), price=price_of)
    with serve(always(Answer(body=body("")))) as server:
        asked = [question(server, model=MINI, answer=None, repeat=n) for n in range(3)]
        ended = [desk.ask(request, budget=budget) for request in asked]
    assert [completion.outcome for completion in ended] == ["ok", "ok", "budget"]
    told = f"{2 * reserve:,} of max_total_tokens={2 * reserve} are spent ({2 * reserve:,} of them "
    assert f"{told}assumed), and" in ended[-1].error
    # The next session knows which part of what is spent nobody told.
    again = Budget(max_cost=None, max_total_tokens=1, spent=desk.totals, price=price_of)
    assert f"({2 * reserve:,} of them assumed), and" in again.account


@pytest.mark.few(1)
@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("claimed", [-5.0, 0.0, 99.0, "nan"])
def test_a_cost_that_an_endpoint_claims_is_not_believed(claimed: Any):
    for header in ("-1", "nan", "inf", "0.0", "12"):
        headers = {"x-litellm-response-cost": header}
        answer = Answer(body=body(json.dumps({**GOOD_USAGE, "cost": claimed})), headers=headers)
        assert sent(answer, MINI).cost == pytest.approx(2_000 * 0.4e-6 + 100 * 1.6e-6)
        assert sent(answer, "openai/gpt-9").cost is None


UNREADABLE = ("", "not JSON", '{"id": "x", "choices": ', body(SHAPES["4,400 digits"]), "[]")


@pytest.mark.usefixtures("keys")
def test_an_answer_of_success_that_cannot_be_read_counts_against_the_budget(desk: Desk):
    for text in UNREADABLE:
        error = failed(Answer(body=text), MINI)
        assert (error.billed, error.may_be_billed) == (True, True), text
    for status in (400, 429, 500, 503):
        error = failed(Answer(status=status), MINI)
        assert (error.billed, error.may_be_billed) == (False, False), status
    budget, reserve = capped(1.5, Request(MINI, QUESTION, None))
    with serve(always(Answer(body="not JSON"))) as server:
        desk.ask(question(server, model=MINI, answer=None), budget=budget)
        assert len(server.requests) == 1
    (row,) = desk.rows
    assert row["assumed_cost"] == pytest.approx(reserve.cost)
    assert row["outcome"] == "transport"


# What is set aside for a call, so that a cap can be used up, and is passed by little

PLAIN = Price(Rates(1e-6, 10e-6), 128_000, "a test")
ASKED = Request("any/model", QUESTION, None)
FIRST = first_reserve(ASKED, QUESTION, PLAIN).tokens


def reserves(
    answers: list[int], *, price: Price = PLAIN, prompt: int = 40, **sampling: int
) -> list[int]:
    """Return the tokens that are set aside for each call in turn, where these answers come one
    after another.
    """
    request = replace(ASKED, sampling=sampling)

    async def ask() -> list[int]:
        budget = Budget(
            max_cost=None, max_total_tokens=10**9, spent=Totals(), price=lambda _: price
        )
        aside = []
        for answer in answers:
            ticket = await budget.reserve(request, QUESTION)
            aside.append(budget._flights[ticket].reserve.tokens)
            used = call(prompt_tokens=prompt, completion_tokens=answer, cost=None)
            await budget.settle(ticket, used, billed=True)
        return aside

    return asked_over_http(ask())


def test_what_is_set_aside_follows_the_answers_so_far():
    aside = reserves([100] * 20 + [900] + [100])
    assert aside[:8] == [FIRST] * 8  # until enough were seen: then twice the longest of them
    assert set(aside[8:21]) == {FIRST - 2_048 + 200}
    assert aside[21] == FIRST - 2_048 + 1_800
    rare = reserves([100] * 500 + [100_000] + [100] * 500)
    assert rare[501] == rare[500] < rare[0]  # one long answer in a thousand
    assert set(reserves([150] * 20, max_tokens=200)) == {FIRST - 2_048 + 200}
    short = replace(PLAIN, max_output_tokens=100)
    assert set(reserves([100] * 20, price=short)) == {FIRST - 2_048 + 100}
    long = reserves([100] * 3, prompt=10**6)  # prompts that take more tokens than was taken
    assert long[0] < long[1] <= 3 * long[0]


def test_a_long_prompt_is_set_aside_at_the_price_of_its_length():
    tiered = replace(PLAIN, tiers=(Tier(1_000, Rates(2e-6, 15e-6)),))
    text = ({"role": "user", "content": "word " * 2_000},)
    plain, long = (first_reserve(ASKED, text, price).cost for price in (PLAIN, tiered))
    prompt = first_reserve(ASKED, text, PLAIN).tokens - 2_048
    assert plain == pytest.approx(prompt * 1e-6 + 2_048 * 10e-6)
    assert long == pytest.approx(prompt * 2e-6 + 2_048 * 15e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_cap_is_passed_by_at_most_what_is_in_flight(desk: Desk, monkeypatch, concurrency):
    """Answers become a thousand times longer, which nobody can know before the first of them."""
    monkeypatch.setattr("alps.llm.provider.price_of", lambda _: PLAIN)
    asked = []

    def longer(_):
        asked.append(1)
        completion = 40 if len(asked) <= 30 else 40_000
        return Answer(body=json.dumps(openai(60, completion)), delay=0.02)

    budget = Budget(max_cost=1.0, max_total_tokens=None, spent=Totals(), price=lambda _: PLAIN)
    with serve(longer) as server:
        requests = [question(server, answer=None, repeat=n) for n in range(80)]
        completions = desk.ask_all(*requests, budget=budget, concurrency=concurrency)
    one = PLAIN.cost(ReplyTokens(60, 40_000))
    assert [c.outcome for c in completions].count("budget") > 0
    assert 1.0 - 2 * one <= sum(row["cost"] for row in desk.rows) <= 1.0 + concurrency * one


def test_a_request_not_answered_in_time_may_have_been_billed_and_counts_as_what_was_set_aside(desk):
    request = Request("any/model", QUESTION, None, sampling={"max_tokens": 200})
    price = Price(None, None, "nobody")
    reserve = first_reserve(request, QUESTION, price).tokens
    cap = 2 * reserve
    budget = Budget(max_cost=None, max_total_tokens=cap, spent=Totals(), price=lambda _: price)
    never = {"send": lambda *_: asyncio.Event().wait(), "timeout": 0.02}
    assert desk.ask(request, budget=budget, **never).outcome == "budget"
    assert [(row["status"], row["assumed_tokens"]) for row in desk.rows] == [(408, reserve)] * 2


# Whole runs: dry runs, caps on dollars and tokens

COUNT = 20
PRICE_IN, PRICE_OUT = 100.0, 400.0
PRICES = "".join(
    f'["openai/{name}"]\ninput = {PRICE_IN}\noutput = {PRICE_OUT}\n\n'
    for name in ("scripted", "scripted-judge")
)
UNCHECKED = ("max_tokens=200", "judge_max_tokens=200")
"""Where it matters that a record is what is under way first."""
BOUNDED = (*UNCHECKED, "judge_check=yes")


def begun(folder, server, *words, prices="prices.toml"):
    """Start a run over the visitors in a folder, at the prices of a file in it."""
    if not (folder / "data").exists():
        (folder / "prices.toml").write_text(PRICES)
        write_visitors(folder / "data", COUNT)
    own = {"ALPS_PRICES": prices, "ALPS_CACHE": "off", "OPENAI_API_KEY": "none"}
    return start(folder, *extraction(server.url, "out=out", *words), **own)


def carried_out(folder, server, *words, **options):
    return finish(begun(folder, server, *words, **options))


def prompts(bodies):
    return [sum(len(str(m["content"])) for m in body["messages"]) // 4 for body in bodies]


def charged(server, folder):
    """What the provider would put on the bill: every request that it answered, as its own usage
    says.
    """
    asked = sum(prompts([*server.requests, *server.known]))
    said = sum(row["completion_tokens"] or 0 for row in rows(folder / "out" / "calls.jsonl"))
    return (asked * PRICE_IN + said * PRICE_OUT) / 1e6, asked + said


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    with serve(good) as server:
        before = carried_out(folder, server, *BOUNDED, "dry_run=true")
        unasked = list(server.requests)
        finished = carried_out(folder, server, *BOUNDED)
    assert (before.returncode, finished.returncode, unasked) == (0, 0, []), finished.stderr
    return folder, before, charged(server, folder)


def test_a_dry_run_counts_the_calls_of_the_run_that_follows_and_bounds_its_cost(whole):
    folder, before, (cost, _) = whole
    text = " ".join(before.stdout.split())
    calls = dict(re.findall(r", (answers|verdicts) (?:up to )?([\d,]+)", text))
    purposes = [row["purpose"] for row in rows(folder / "out" / "calls.jsonl")]
    assert int(calls["answers"]) == purposes.count("generate") == COUNT
    assert purposes.count("judge") == COUNT
    # With a check of added detail, which none here needs.
    assert int(calls["verdicts"]) == 2 * COUNT
    assert sum(float(bound) for bound in re.findall(r"– \$([\d.]+)", text)) >= cost
    assert summary(folder / "out")["calls"]["cost"] == pytest.approx(cost)


@pytest.mark.release
@pytest.mark.parametrize("concurrency", few([1, 6, 40], plain={1}))
def test_the_money_allowed_is_never_exceeded_and_more_completes_a_run(whole, tmp_path, concurrency):
    cap, words = whole[2][0] * 0.6, (*BOUNDED, f"concurrency={concurrency}")
    with serve(good) as server:
        finished = carried_out(tmp_path, server, *words, f"max_cost={cap:.6f}")
        assert (finished.returncode, "budget" in finished.stderr) == (3, True)
        assert 0 < len(server.requests) < 2 * COUNT
        assert charged(server, tmp_path)[0] <= cap
        last = carried_out(tmp_path, server, *words, "max_cost=1000")
        assert last.returncode == 0, last.stderr
        assert len(server.requests) == 2 * COUNT
    assert task1(tmp_path / "out")["scores"] == task1(whole[0] / "out")["scores"]


def test_the_tokens_allowed_are_never_exceeded(whole, tmp_path):
    cap = whole[2][1] // 2
    with serve(good) as server:
        ran = carried_out(tmp_path, server, *BOUNDED, f"max_total_tokens={cap}")
        assert ran.returncode == 3
        assert 0 < charged(server, tmp_path)[1] <= cap


def most_used(server):
    """What the server would count at most: its tokens of every prompt, and the longest answer."""
    return sum(prompt + 200 for prompt in prompts(server.requests))


@pytest.mark.release
def test_the_tokens_allowed_are_not_exceeded_where_every_connection_breaks_off(tmp_path):
    with serve(always(Answer(drop=True))) as server:
        ran = carried_out(tmp_path, server, *UNCHECKED, "max_total_tokens=12000")
        assert ran.returncode == 3
        assert 0 < most_used(server) <= 12_000
    calls = rows(tmp_path / "out" / "calls.jsonl")
    assert len(calls) == len(server.requests)
    assert {(call["status"], call["assumed_tokens"] > 0) for call in calls} == {(None, True)}


@pytest.mark.release
def test_the_tokens_allowed_are_not_exceeded_over_interrupted_sessions(tmp_path):
    words = (*UNCHECKED, "concurrency=3", "max_total_tokens=60000")
    with serve(always(Answer("{}", delay=20))) as server:
        for session in (1, 2):
            process = begun(tmp_path, server, *words)
            wait_until(lambda asked=3 * session: len(server.requests) == asked)
            process.send_signal(signal.SIGINT)
            assert finish(process).returncode == 130
        calls = rows(tmp_path / "out" / "calls.jsonl")
        assert [call["error"] for call in calls] == ["interrupted before the answer came"] * 6
        assert sum(call["assumed_tokens"] for call in calls) >= most_used(server)


def test_a_cap_on_dollars_that_nothing_can_enforce_is_refused(tmp_path):
    with serve(good) as server:
        error = one_line(carried_out(tmp_path, server, "max_cost=1", prices=""))
        assert server.requests == []
    unknown = "its price is unknown, so max_cost= can't be enforced; give max_total_tokens= instead"
    assert unknown in error
    assert "prices.toml" in error
    assert not (tmp_path / "out" / "predictions.jsonl").exists()
    words = ("task=extraction", "model=rules", "judge=openai/gpt-9", "data=data", "max_cost=1")
    error = one_line(run(tmp_path, "run", *words, OPENAI_API_KEY="none"))
    assert error.startswith(f"alps: judge=openai/gpt-9: {unknown}")


@pytest.mark.release
def test_a_model_without_a_known_price_or_longest_answer_keeps_to_a_cap_on_tokens(tmp_path):
    words = ("max_total_tokens=30000", "concurrency=1")
    with serve(good) as server:
        finished = carried_out(tmp_path, server, *words, prices="")
        asked = charged(server, tmp_path)[1]
    assert finished.returncode == 3, finished.stderr
    assert 0 < asked <= 30_000
    assert "cost unknown (ALPS_PRICES=FILE sets prices)" in " ".join(finished.stdout.split())


def test_a_cost_that_no_price_would_tell_asks_for_none(tmp_path):
    """The prices are known, and the endpoint does not say what it used."""

    def silent(body):
        return Answer(body=json.dumps(chat(good(body).text)))

    with serve(silent) as server:
        finished = carried_out(tmp_path, server, "limit=2")
    assert finished.returncode == 0, finished.stderr
    reason = "some replies reported no token counts"
    assert f"cost unknown ({reason})" in " ".join(finished.stdout.split())
    calls = summary(tmp_path / "out")["calls"]
    assert (calls["cost"], calls["without_price"]) == (None, [])
    shown = " ".join(run(tmp_path, "show", "out").stdout.split())
    assert f"Cost unknown: {reason}." in shown


@pytest.mark.parametrize("cap", ["max_cost=1", "limit=1"])
def test_a_bad_price_is_named_with_its_file_and_its_field(tmp_path, cap):
    (tmp_path / "bad.toml").write_text('["openai/scripted"]\ninput = -1\noutput = 1\n')
    with serve(good) as server:
        finished = carried_out(tmp_path, server, *BOUNDED, cap, prices="bad.toml")
    assert finished.returncode == 2
    assert "bad.toml, openai/scripted.input" in finished.stderr
    assert server.requests == []


def test_a_cap_is_below_one_call_or_enough_for_a_run_of_a_model_that_answers_at_length(tmp_path):
    write_visitors(tmp_path / "data", 20)
    words = ("run", "task=extraction", "model=openai/gpt-5", "judge=lexical", "data=data")
    with serve(good) as server:
        at = (*words, f"api_base={server.url}", "out=out")
        below = run(tmp_path, *at, "max_cost=0.001", OPENAI_API_KEY="none")
        assert server.requests == []
        enough = run(tmp_path, *at, "max_cost=1", OPENAI_API_KEY="none")
        assert len(server.requests) == 20
    assert (below.returncode, enough.returncode) == (3, 0), enough.stderr
    said = " ".join(below.stdout.split())
    assert "$0.0000 of max_cost=0.001 is spent, and another call may cost $0.02" in said
    assert 0 < summary(tmp_path / "out")["calls"]["cost"] < 0.1


DRY_RUN = """
import sys
from alps.cli import main
sys.argv = ["alps", "run", "task=extraction", "model=openai/gpt-5", \
"judge=anthropic/claude-opus-9", "data=samples", "dry_run=yes"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print([name for name in ("litellm", "instructor", "openai") if name in sys.modules])
"""


def test_the_price_of_a_model_and_a_dry_run_need_no_litellm(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", DRY_RUN],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    *lines, imported = done.stdout.splitlines()
    assert imported == "[]"
    text = " ".join(" ".join(lines).split())
    assert re.search(r"openai/gpt-5, answers 26 [\d,]+ \$\S+ \$\S+ – \$", text)
    assert re.search(r"claude-opus-9, up to \d+ [\d,]+ unknown unknown verdicts", text)


def test_a_run_of_a_model_that_is_newer_than_the_table_costs_a_dash(tmp_path: Path):
    write_visitors(tmp_path / "data", 2)
    with serve(good) as server:
        words = [w.replace("/scripted", "/gpt-9") for w in extraction(server.url, "out=out")]
        finished = run(tmp_path, *words, OPENAI_API_KEY="none")
    assert finished.returncode == 0, finished.stderr
    assert "$0" not in finished.stdout
    calls = summary(tmp_path / "out")["calls"]
    assert (calls["cost"], calls["unpriced"]) == (None, calls["http"])
    assert calls["without_price"] == ["openai/gpt-9", "openai/gpt-9-judge"]
    assert finished.stdout.count("cost unknown (ALPS_PRICES=FILE sets prices)") == 1
    dash = "Cost unknown for calls to openai/gpt-9, openai/gpt-9-judge"
    assert " ".join(run(tmp_path, "show", "out").stdout.split()).count(dash) == 1
