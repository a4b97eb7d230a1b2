import asyncio
import json
import re
import signal

import pytest

from alps.llm import Request
from alps.llm.budget import Budget, first_reserve
from alps.llm.ledger import Totals
from alps.llm.prices import Price
from tests.desk import QUESTION
from tests.endtoend import extraction, finish, one_line, rows, run, start, task1, wait_until
from tests.loopback import Answer, serve
from tests.visitors import good, write_visitors

COUNT = 20
INPUT, OUTPUT = 100.0, 400.0
PRICES = f"""
["openai/scripted"]
input = {INPUT}
output = {OUTPUT}

["openai/scripted-judge"]
input = {INPUT}
output = {OUTPUT}
"""
BOUNDED = ("max_tokens=200", "judge_max_tokens=200")
UNCHECKED = (*BOUNDED, "judge_check=no")
"""Where it matters that a record is what is under way first."""


def priced(folder):
    (folder / "prices.toml").write_text(PRICES)
    write_visitors(folder / "data", COUNT)
    return {
        "ALPS_PRICES": str(folder / "prices.toml"),
        "ALPS_CACHE": "off",
        "OPENAI_API_KEY": "none",
    }


def charged(server, folder):
    """What the provider would put on the bill: every request that it answered, as its own usage
    says.
    """
    asked = sum(
        sum(len(str(m["content"])) for m in body["messages"]) // 4
        for body in (*server.requests, *server.known)
    )
    said = sum(row["completion_tokens"] or 0 for row in rows(folder / "out" / "calls.jsonl"))
    return (asked * INPUT + said * OUTPUT) / 1e6, asked + said


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    environment = priced(folder)
    with serve(good) as server:
        before = run(
            folder, *extraction(server.url, *BOUNDED, "dry_run=true", "out=out"), **environment
        )
        unasked = list(server.requests)
        finished = run(folder, *extraction(server.url, *BOUNDED, "out=out"), **environment)
    assert finished.returncode == 0, finished.stderr
    return folder, before, unasked, charged(server, folder)


def counted(text, stage):
    return int(re.search(rf"^ {stage} +(?:up to )?([\d,]+)", text, re.MULTILINE).group(1))


def test_a_dry_run_counts_the_calls_of_the_run_that_follows(whole):
    folder, before, unasked, _ = whole
    assert before.returncode == 0, before.stderr
    assert unasked == []
    purposes = [row["purpose"] for row in rows(folder / "out" / "calls.jsonl")]
    assert counted(before.stdout, "generate") == purposes.count("generate") == COUNT
    assert purposes.count("judge") == COUNT
    assert (
        counted(before.stdout, "judge") == 2 * COUNT
    )  # at most: a check of added detail, which no answer here needs


def test_the_upper_bound_of_a_dry_run_holds(whole):
    _, before, _, (cost, tokens) = whole
    text = " ".join(before.stdout.split())
    assert sum(float(bound) for bound in re.findall(r"– \$([\d.]+)", text)) >= cost
    assert (
        sum(int(bound.replace(",", "")) for bound in re.findall(r"[\d,]+ – ([\d,]+)", text))
        >= tokens
    )


def test_a_price_of_the_user_is_what_a_call_costs(whole):
    folder, _, _, (cost, _) = whole
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert summary["calls"]["cost"] == pytest.approx(cost)


@pytest.fixture(scope="module", params=[1, 6, 40], ids="concurrency {}".format)
def stopped(request, whole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    environment = priced(folder)
    cap = whole[3][0] * 0.6
    words = (*BOUNDED, "out=out", f"concurrency={request.param}", f"max_cost={cap:.6f}")
    with serve(good) as server:
        finished = finish(start(folder, *extraction(server.url, *words), **environment))
        spent, asked = charged(server, folder)[0], len(server.requests)
        more = [word for word in words if not word.startswith("max_cost")]
        last = run(folder, *extraction(server.url, *more, "max_cost=1000"), **environment)
    return folder, finished, cap, spent, asked, last, len(server.requests)


def test_the_money_allowed_is_never_exceeded(stopped):
    _, finished, cap, spent, asked, *_ = stopped
    assert finished.returncode == 3
    assert "budget" in finished.stderr
    assert 0 < asked < 2 * COUNT
    assert spent <= cap


def test_what_the_budget_left_out_is_asked_when_there_is_more(stopped, whole):
    folder, *_, last, requests = stopped
    assert last.returncode == 0, last.stderr
    assert requests == 2 * COUNT
    assert task1(folder / "out")["scores"] == task1(whole[0] / "out")["scores"]


def test_the_tokens_allowed_are_never_exceeded(whole, tmp_path):
    environment = priced(tmp_path)
    cap = whole[3][1] // 2
    with serve(good) as server:
        words = extraction(server.url, *BOUNDED, "out=out", f"max_total_tokens={cap}")
        finished = run(tmp_path, *words, **environment)
        assert finished.returncode == 3
        assert 0 < charged(server, tmp_path)[1] <= cap


def most_used(server):
    """What the server would count at most: its tokens of every prompt, and the longest answer."""
    return sum(
        sum(len(str(m["content"])) for m in body["messages"]) // 4 + 200 for body in server.requests
    )


def test_the_tokens_allowed_are_not_exceeded_where_every_connection_breaks_off(tmp_path):
    environment = priced(tmp_path)
    with serve(lambda _: Answer(drop=True)) as server:
        words = extraction(server.url, *UNCHECKED, "out=out", "max_total_tokens=12000")
        finished = run(tmp_path, *words, **environment)
        assert finished.returncode == 3
        assert 0 < most_used(server) <= 12_000
    calls = rows(tmp_path / "out" / "calls.jsonl")
    assert len(calls) == len(server.requests)
    assert {(call["status"], call["assumed_tokens"] > 0) for call in calls} == {(None, True)}


def test_the_tokens_allowed_are_not_exceeded_over_interrupted_sessions(tmp_path):
    environment = priced(tmp_path)
    with serve(lambda _: Answer("{}", delay=20)) as server:
        words = extraction(
            server.url, *UNCHECKED, "out=out", "concurrency=3", "max_total_tokens=60000"
        )
        for session in (1, 2):
            process = start(tmp_path, *words, **environment)
            wait_until(lambda asked=3 * session: len(server.requests) == asked)
            process.send_signal(signal.SIGINT)
            assert finish(process).returncode == 130
        calls = rows(tmp_path / "out" / "calls.jsonl")
        assert [call["error"] for call in calls] == ["interrupted before the answer came"] * 6
        assert sum(call["assumed_tokens"] for call in calls) >= most_used(server)


def test_a_request_not_answered_in_time_may_have_been_billed_and_counts_as_what_was_set_aside(
    desk,
):
    request = Request("any/model", QUESTION, None, sampling={"max_tokens": 200})
    price = Price(None, None, None, "nobody")
    reserve = first_reserve(request, QUESTION, price).tokens
    budget = Budget(
        max_cost=None, max_total_tokens=2 * reserve, spent=Totals(), price=lambda _: price
    )
    completion = desk.ask(
        request, send=lambda *_: asyncio.Event().wait(), timeout=0.02, budget=budget
    )
    assert completion.outcome == "budget"
    assert [(row["status"], row["assumed_tokens"]) for row in desk.rows] == [(408, reserve)] * 2


@pytest.mark.parametrize("dry", ["no", "yes"])
def test_a_cap_on_dollars_that_nothing_can_enforce_is_refused(tmp_path, dry):
    environment = {**priced(tmp_path), "ALPS_PRICES": ""}
    with serve(good) as server:
        words = (*extraction(server.url, "out=out", "max_cost=1"), f"dry_run={dry}")
        error = one_line(run(tmp_path, *words, **environment))
        assert server.requests == []
    assert "its price is unknown, so max_cost= can't hold; give max_total_tokens= instead" in error
    assert "prices.toml" in error
    assert not (tmp_path / "out" / "predictions.jsonl").exists()


def test_a_model_without_a_known_price_or_longest_answer_keeps_to_a_cap_on_tokens(tmp_path):
    environment = {**priced(tmp_path), "ALPS_PRICES": ""}
    with serve(good) as server:
        words = extraction(server.url, "out=out", "max_total_tokens=30000", "concurrency=1")
        finished = run(tmp_path, *words, **environment)
        asked = charged(server, tmp_path)[1]
    assert finished.returncode == 3, finished.stderr
    assert 0 < asked <= 30_000
    assert "No cost is known of calls to openai/scripted" in " ".join(finished.stdout.split())


@pytest.mark.parametrize("cap", ["max_cost=1", "max_total_tokens=100000", "limit=1"])
def test_a_bad_price_is_named_with_its_file_and_its_field(tmp_path, cap):
    environment = priced(tmp_path)
    (tmp_path / "prices.toml").write_text('["openai/scripted"]\ninput = -1\noutput = 1\n')
    with serve(good) as server:
        finished = run(tmp_path, *extraction(server.url, *BOUNDED, cap), **environment)
    assert finished.returncode == 2
    assert "prices.toml, openai/scripted.input" in finished.stderr
    assert server.requests == []
