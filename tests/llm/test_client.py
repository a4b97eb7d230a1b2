"""A client over loopback: what a server says, what the caller gets, what the ledger and the cache
hold.
"""

import asyncio
import json
import socket
import time
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest

from alps.errors import CredentialError, UsageError
from alps.llm.cache import Cache, cache_key
from alps.llm.client import Client
from alps.llm.types import Completion, Request
from alps.schema import Outcome
from tests.desk import (
    EXTRACTED,
    GOOD,
    HALF,
    JUDGED,
    OTHER_SHAPE,
    PROSE,
    QUESTION,
    Desk,
    always,
    in_turn,
    question,
)
from tests.few import few
from tests.loopback import Answer, serve
from tests.odd_bodies import ODD, TEXT, WHOLE, paths, replaced, without

BOTH = ("chess", "tea")
SORRY = "I'm sorry, I can't help with that."
POLICY = {"message": "rejected", "type": "invalid_request_error"}
CONTENT_POLICY = json.dumps({"error": {**POLICY, "code": "content_policy_violation"}})
POLITE = Answer(status=400, body=CONTENT_POLICY)
WITH_5 = '{"hobbies": ["chess", 5]}'
PLAIN = "Sorry to hear that! [1] {ok}"
DIFFERING = f'{GOOD}\n{{"hobbies": ["go"]}}'


def cut(text: str) -> Answer:
    return Answer(text, finish_reason="length")


@dataclass(frozen=True)
class Case:
    """Answers of a server in turn, the last again and again; what the caller gets, and the
    outcomes of the ledger's rows, each of which is a request.
    """

    answers: tuple[Answer, ...]
    outcome: str
    value: Any
    ledger: tuple[str, ...]
    asked: Any = EXTRACTED
    repaired: bool = False
    truncated: bool = False


def ok(*answers: Answer, ledger: tuple[str, ...] = ("ok",), value: Any = BOTH, **more: Any) -> Case:
    return Case(answers, "ok", value, ledger, **more)


def after(outcome: str, first: Answer, **more: Any) -> Case:
    """Return what is answered well once it is asked again."""
    return ok(first, Answer(GOOD), ledger=(outcome, "ok"), **more)


def bad(answer: Answer, outcome: str, times: int = 3, **more: Any) -> Case:
    return Case((answer,), outcome, None, (outcome,) * times, **more)


CASES = {
    "as asked": ok(Answer(GOOD)),
    "in a fence": ok(Answer(f"```json\n{GOOD}\n```"), repaired=True),
    "in prose": ok(Answer(f"Sure: {GOOD}"), repaired=True),
    "an empty list": ok(Answer('{"hobbies": []}'), value=()),
    "cut off, something usable": ok(cut(HALF), value=("chess",), repaired=True, truncated=True),
    "a wrong type that is read all the same": ok(Answer(WITH_5), value=("chess", 5)),
    "cut off, nothing usable": bad(cut('{"hob'), "truncated"),
    "cut off before the first word": bad(cut(""), "truncated"),
    "a refusal in prose": bad(Answer(SORRY), "refused", 1),
    "a refusal in its own field": bad(Answer(None, refusal="I can't help."), "refused", 1),
    "a refusal cut off": bad(replace(cut(""), text=None, refusal="I"), "refused", 1),
    "the content filter": bad(Answer("", finish_reason="content_filter"), "refused", 1),
    "the filter, after a part": bad(Answer(GOOD, finish_reason="content_filter"), "refused", 1),
    "the content policy": Case((POLITE,), "refused", None, ("transport",)),
    "an empty text": bad(Answer(""), "empty"),
    "white space": bad(Answer(" \n"), "empty"),
    "no text": bad(Answer(None), "empty"),
    "prose": bad(Answer(PROSE), "unparsable"),
    "another shape": bad(Answer(OTHER_SHAPE), "invalid"),
    "an unprocessable request": bad(Answer(status=422), "transport", 1),
    "plain text as it came": ok(Answer(PLAIN), value=PLAIN, asked=None),
    "plain text that was cut off": ok(cut(PLAIN), value=PLAIN, asked=None, truncated=True),
    "half a verdict, then a whole one": after("truncated", cut(HALF), asked=JUDGED),
    "a verdict without its end": after("truncated", cut(HALF[:-4]), asked=JUDGED),
    "a verdict without its bracket": after("truncated", cut(GOOD[:-1]), asked=JUDGED),
    "half a verdict is none": bad(cut(HALF), "truncated", asked=JUDGED),
    "two different verdicts are none": after("invalid", Answer(DIFFERING), asked=JUDGED),
    "the same verdict twice is one": ok(Answer(f"{GOOD}\n{GOOD}"), asked=JUDGED, repaired=True),
    "half an emoji does not stop a re-ask": after("invalid", Answer('{"pets": "\ud83d"}')),
}
FAULTS = {
    "429, twice": Answer(status=429),
    "503, twice": Answer(status=503),
    "a dropped connection, twice": Answer(drop=True),
    "a page instead of JSON, twice": Answer(body="<html>Bad gateway</html>"),
}
for name, fault in FAULTS.items():
    CASES[name] = ok(fault, fault, Answer(GOOD), ledger=("transport", "transport", "ok"))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_answer_has_its_outcome_and_its_rows(desk: Desk, case: Case):
    with serve(in_turn(*case.answers)) as server:
        got = desk.ask(question(server, answer=case.asked))
    assert (got.outcome, got.value) == (case.outcome, case.value)
    assert tuple(row["outcome"] for row in desk.rows) == case.ledger
    assert len(server.requests) == len(case.ledger)
    assert (got.error is None) == (got.outcome == "ok")
    assert (got.repaired, got.truncated) == (case.repaired, case.truncated) or got.value is None
    answer = case.answers[-1]
    if answer.text is not None and answer.body is None and answer.refusal is None:
        assert got.raw == (answer.text if answer.status == 200 else None)
    if case.repaired:
        assert got.notes
    if case.asked is None:
        assert all("JSON" not in str(request["messages"]) for request in server.requests)


def test_exactly_what_was_asked_for_is_sent(desk: Desk):
    sampling = {"temperature": 0.2, "max_tokens": 77, "seed": 5}
    with serve(always(Answer(GOOD))) as server:
        desk.ask(question(server))
        desk.ask(question(server, sampling=sampling, answer=None))
    typed, plain = server.requests
    assert plain == {"model": "tiny", "messages": list(QUESTION), **sampling}
    assert typed["messages"] == list(QUESTION)


def test_a_parameter_that_the_model_does_not_take_is_not_dropped_in_silence(desk: Desk):
    with serve(always(Answer(GOOD))) as server:
        asked = question(server, model="openai/o3-mini", sampling={"temperature": 0.2})
        completion = desk.ask(asked)
    assert server.requests == []
    assert completion.outcome == "transport"
    assert "temperature" in str(completion.error)


@pytest.mark.few(2)
@pytest.mark.parametrize(("status", "alone"), [(429, True), (503, True), (429, False)])
def test_nothing_is_tried_earlier_than_the_server_asked(desk: Desk, status: int, alone: bool):
    arrivals: list[float] = []

    def script(_: dict[str, Any]) -> Answer:
        arrivals.append(time.perf_counter())
        wait = Answer(status=status, headers={"Retry-After": "0.2"})
        return Answer(GOOD) if len(arrivals) > 1 else wait

    with serve(script) as server:
        asked = [question(server, repeat=n) for n in range(1 if alone else 4)]
        completions = desk.ask_all(*asked, concurrency=1)
    assert {completion.outcome for completion in completions} == {"ok"}
    assert min(arrivals[1:]) - arrivals[0] >= 0.2


WORD = "an-ordinary-looking-word"


@pytest.mark.parametrize(
    ("status", "ends", "named"),
    [
        (401, CredentialError, "openai/tiny"),
        (
            404,
            UsageError,
            "'openai/tiny': the endpoint has no such model, or the base URL is wrong",
        ),
        (404, UsageError, "(HTTP 404 from http://127.0.0.1:"),
        (400, None, "bad: "),
    ],
)
def test_what_ends_a_run_is_in_the_ledger_and_shows_no_key(desk, monkeypatch, status, ends, named):
    monkeypatch.setenv("OPENAI_API_KEY", WORD)
    refusal = Answer(status=status, error=f"bad: {WORD} or sk-abcdefgh12345")
    with serve(always(refusal)) as server:
        if ends is None:
            error = str(desk.ask(question(server)).error)
        else:
            with pytest.raises(ends) as caught:
                desk.ask(question(server))
            error = str(caught.value)
    assert server.headers[0]["authorization"] == f"Bearer {WORD}"
    assert [row["status"] for row in desk.rows] == [status]
    assert len(server.requests) == 1
    assert named in error
    assert "\n" not in error
    for text in (error, desk.calls.read_text(encoding="utf-8")):
        assert "ordinary" not in text
        assert "abcdefgh" not in text


@pytest.mark.release
def test_an_address_where_nobody_ever_was_ends_the_run(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("alps.llm.retries._NOBODY_THERE", 0.3)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        with pytest.raises(UsageError, match=r"no response for .* correct the address"):
            desk.ask(Request("openai/tiny", QUESTION, EXTRACTED, api_base=address), patience=1800.0)


# Re-asks


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(OTHER_SHAPE), "no list called `hobbies` was found"),
        (Answer(PROSE), "JSON"),
        (cut(HALF[:8]), "cut off"),
    ],
    ids=["another shape", "prose", "cut off"],
)
def test_a_re_ask_shows_the_model_its_answer_and_the_problem(desk: Desk, answer, problem):
    with serve(in_turn(answer, Answer(GOOD))) as server:
        completion = desk.ask(question(server, sampling={"temperature": 0.3}))
    assert completion.value == BOTH
    assert "after 1 re-asks" in completion.notes
    assert [(row["ask"], row["attempt"]) for row in desk.rows] == [(0, 1), (1, 1)]
    first, second = server.requests
    *shown, last = second["messages"]
    assert shown == [*QUESTION, {"role": "assistant", "content": answer.text}]
    assert last["role"] == "user"
    assert problem in last["content"]
    assert {**second, "messages": None} == {**first, "messages": None}


def test_a_re_ask_shows_the_latest_answer_alone_as_it_can_be(desk: Desk):
    with serve(in_turn(Answer(PROSE), Answer(OTHER_SHAPE), Answer(GOOD))) as server:
        desk.ask(question(server))
    assert [message["content"] for message in server.requests[2]["messages"][2:3]] == [OTHER_SHAPE]
    assert len(server.requests[2]["messages"]) == 4
    with serve(in_turn(Answer("I like tea. " * 2500), Answer(""), Answer(GOOD))) as server:
        assert desk.ask(question(server)).outcome == "ok"
    assert 100 < len(server.requests[1]["messages"][2]["content"]) < 10_000
    assert all(message["content"] for message in server.requests[2]["messages"])
    with serve(in_turn(Answer(""), Answer("Chess."))) as server:
        assert desk.ask(question(server, answer=None)).value == "Chess."
    assert "JSON" not in server.requests[1]["messages"][-1]["content"]


def test_a_system_that_was_heard_stays_heard_when_the_re_ask_is_not(desk: Desk):
    with serve(in_turn(Answer(PROSE), Answer(status=400))) as server:
        completion = desk.ask(question(server))
    assert len(server.requests) == 2
    assert (completion.raw, completion.outcome) == (PROSE, "unparsable")


# The ledger and the cache


def test_every_http_attempt_is_one_row_with_its_tokens(desk: Desk):
    answers = (Answer(status=500), Answer(PROSE), Answer(status=429), Answer(drop=True))
    with serve(in_turn(*answers, Answer(GOOD))) as server:
        desk.ask(question(server, purpose="judge", about="record 7"))
    assert len(server.requests) == len(desk.rows) == 5
    assert [(row["ask"], row["attempt"], row["outcome"], row["status"]) for row in desk.rows] == [
        (0, 1, "transport", 500),
        (0, 2, "unparsable", 200),
        (1, 1, "transport", 429),
        (1, 2, "transport", None),
        (1, 3, "ok", 200),
    ]
    assert "scripted 500" in desk.rows[0]["error"]
    tokens = [(row["prompt_tokens"], row["completion_tokens"]) for row in desk.rows]
    asked = [sum(len(m["content"]) for m in body["messages"]) // 4 for body in server.requests]
    none = (None, None)
    assert tokens == [none, (asked[1], len(PROSE) // 4), none, none, (asked[4], len(GOOD) // 4)]
    about = {(row["purpose"], row["about"], row["model"]) for row in desk.rows}
    assert about == {("judge", "record 7", "openai/tiny")}
    assert len({row["key"] for row in desk.rows}) == 1
    assert all(row["seconds"] > 0 for row in desk.rows)
    assert desk.totals.calls == 5
    assert desk.totals.prompt_tokens == asked[1] + asked[4]
    assert desk.totals.completion_tokens == len(PROSE) // 4 + len(GOOD) // 4
    with serve(always(Answer(drop=True))) as server:
        given_up = desk.ask(question(server))
    assert (given_up.outcome, given_up.raw) == ("transport", None)
    assert 3 <= len(server.requests) == len(desk.rows) - 5 <= 20


def test_a_stored_answer_makes_no_request(desk: Desk, cache: Cache):
    with serve(in_turn(Answer(PROSE), Answer(f"Sure: {GOOD}"), Answer(status=500))) as server:
        first = desk.ask(question(server), cache=cache)
        second = desk.ask(question(server, about="another record", purpose="judge"), cache=cache)
    assert len(server.requests) == len(desk.rows) == 2
    assert (second.value, second.raw, second.repaired) == (BOTH, first.raw, True)
    assert desk.totals.cached == 1


FAILURES = {
    "unparsable": Answer(PROSE),
    "invalid": Answer(OTHER_SHAPE),
    "empty": Answer(""),
    "refused": Answer(SORRY),
    "truncated": cut('{"hob'),
    "transport": Answer(status=400),
}


def test_a_failure_is_not_stored(desk: Desk, cache: Cache):
    for repeat, (outcome, failure) in enumerate(FAILURES.items()):
        answers = [failure]
        with serve(lambda _, answers=answers: answers[-1]) as server:
            asked = question(server, repeat=repeat, structured="schema")
            assert desk.ask(asked, cache=cache).outcome == outcome
            assert cache.get(cache_key(asked)) is None, outcome
            answers.append(Answer(GOOD))
            assert desk.ask(asked, cache=cache).value == BOTH, outcome
            assert cache.get(cache_key(asked)) is not None, outcome


def test_a_stored_answer_that_does_not_serve_any_more_is_asked_for_again(desk: Desk, cache: Cache):
    with serve(in_turn(cut(HALF), Answer(GOOD))) as server:
        assert desk.ask(question(server, answer=EXTRACTED), cache=cache).value == ("chess",)
        assert desk.ask(question(server, answer=JUDGED), cache=cache).value == BOTH


# Several requests at once


def test_identical_requests_under_way_are_one_http_call(desk: Desk):
    with serve(always(Answer(GOOD, delay=0.05))) as server:
        completions = desk.ask_all(*[question(server)] * 20, question(server, repeat=1))
    assert len(server.requests) == len(desk.rows) == 2
    assert [completion.value for completion in completions] == [BOTH] * 21


def test_without_a_cache_a_finished_request_is_made_again(desk: Desk):
    with serve(in_turn(Answer(GOOD), Answer('{"hobbies": ["go"]}'))) as server:

        async def twice(client: Client) -> list[Any]:
            return [(await client.complete(question(server))).value for _ in range(2)]

        assert desk.run(twice) == [BOTH, ("go",)]


def test_a_request_that_is_given_up_is_under_way_no_more(desk: Desk):
    with serve(always(Answer(GOOD, delay=60))) as server:

        async def given_up(client: Client) -> tuple[int, list[float]]:
            asked = asyncio.ensure_future(client.complete(question(server)))
            while not server.requests:
                await asyncio.sleep(0.01)
            under_way = len(client._limiter.breaker._under_way)
            await client.aclose()
            await asyncio.gather(asked, return_exceptions=True)
            return under_way, client._limiter.breaker._under_way

        assert desk.run(given_up) == (1, [])


def test_a_caller_that_goes_away_does_not_take_the_answer_from_the_other(desk: Desk):
    with serve(always(Answer(GOOD, delay=0.1))) as server:

        async def one_leaves(client: Client) -> Completion[Any]:
            asked = [asyncio.ensure_future(client.complete(question(server))) for _ in range(2)]
            await asyncio.sleep(0.02)
            asked[0].cancel()
            return await asked[1]

        assert desk.run(one_leaves).value == BOTH
    assert len(server.requests) == 1


# One odd body never ends a run: its record fails by its kind, or is read

ENDS = {str(path[-1]) if path else "body": path for path in paths()}


@pytest.fixture
def _unbroken(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many odd bodies in a row are an outage, and would be asked for one by one."""
    monkeypatch.setattr("alps.llm.retries._FAILURES", 10**9)


def asked_about(
    desk: Desk, answers: list[str], **options: float
) -> tuple[list[Any], list[dict[str, Any]]]:
    def script(body: dict[str, Any]) -> Answer:
        contents = [one["content"] for one in body["messages"]]  # of a re-ask, too
        asked = next(text for text in contents if text.startswith("Hobbies of"))
        return Answer(body=answers[int(asked.split()[-1])])

    with serve(script) as server:

        async def all_of_them(client: Client) -> list[Any]:
            asking = []
            for number in range(len(answers)):
                message = {"role": "user", "content": f"Hobbies of {number}"}
                request = Request("openai/tiny", (message,), EXTRACTED, api_base=server.url)
                asking.append(client.complete(request))
            return await asyncio.gather(*asking, return_exceptions=True)

        return desk.run(all_of_them, **options), server.requests


@pytest.mark.few(4)
@pytest.mark.usefixtures("_unbroken")
@pytest.mark.parametrize("step", few([4, 1]))
@pytest.mark.parametrize("name", ENDS)
def test_a_field_of_any_shape_ends_no_run(desk: Desk, name: str, step: int):
    """Each field has every fourth of the odd values, the next field those after them."""
    path = ENDS[name]
    values = ODD[list(ENDS).index(name) % step :: step]
    answers = [*(replaced(path, value) for value in values), *([without(path)] if path else [])]
    completions, requests = asked_about(desk, answers)
    assert [one for one in completions if isinstance(one, BaseException)] == []
    assert {one.outcome for one in completions} <= set(get_args(Outcome))
    for one in completions:
        assert one.raw is None or isinstance(one.raw, str)
        assert (one.value is None) == (one.outcome != "ok")
    assert len(requests) <= 3 * len(answers)
    json.dumps([one.__dict__ for one in completions], default=lambda used: used.model_dump())


BESIDE = ("id", "object", "created", "system_fingerprint", "service_tier", "usage")


@pytest.mark.usefixtures("_unbroken")
def test_an_odd_field_costs_the_answer_only_where_it_can_not_be_read_and_is_no_traceback(desk):
    missing = [without(ENDS[name]) for name in BESIDE]
    nulls = [replaced(ENDS[name], "null") for name in BESIDE]
    completions, requests = asked_about(desk, [*missing, *nulls, json.dumps(WHOLE)])
    assert [one.value for one in completions] == [BOTH] * 13
    assert len(requests) == 13
    assert completions[-1].raw == TEXT
    broken = [("choices", "[null]"), ("choices", "7"), ("content", "[7]"), ("usage", '"x"')]
    unreadable = [replaced(ENDS[name], value) for name, value in broken]
    # Three attempts each end it, however slow the machine: not the seconds of its patience.
    unreadable.append("<html>Welcome</html>")
    completions, requests = asked_about(desk, unreadable, patience=300.0)
    assert len(requests) == 3 * 5
    assert {row["status"] for row in desk.rows[-15:]} == {200}
    for completion in completions:
        assert completion.outcome == "transport"
        assert "HTTP 200: the body can't be read: " in str(completion.error)
        assert "Traceback" not in str(completion.error)
    assert "; it begins '<html>Welcome</html>'" in str(completions[-1].error)


@pytest.mark.usefixtures("_unbroken")
def test_a_refusal_of_any_shape_without_a_text_is_a_failure_of_its_kind(desk: Desk):
    whole = json.loads(replaced(ENDS["content"], "null"))
    completions, _ = asked_about(desk, [replaced(ENDS["refusal"], value, whole) for value in ODD])
    for value, completion in zip(ODD, completions, strict=True):
        assert completion.outcome in ("refused", "empty", "transport"), value
        assert completion.raw is None or isinstance(completion.raw, str)
        json.dumps(completion.__dict__, default=lambda used: used.model_dump(), allow_nan=False)
