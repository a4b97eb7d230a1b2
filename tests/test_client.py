import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from tenacity import wait_fixed

from alps.errors import CredentialError, UsageError
from alps.llm import AnswerType, Client, Completion, Read, Request
from alps.llm.cache import Cache
from alps.llm.ledger import Ledger, Totals
from alps.llm.types import Reply, TransportError
from tests.loopback import Answer, LoopbackServer, Script, serve

# litellm silences what pydantic says of its models when it is imported, but builds them later, in the first call.
pytestmark = pytest.mark.filterwarnings(r"ignore:Item '\w+' on TypedDict class:UserWarning")

GOOD = '{"hobbies": ["chess", "tea"]}'
HALF = '{"hobbies": ["chess", "te'
OTHER_SHAPE = '{"pets": ["cat"]}'
PROSE = "They seem to enjoy chess."
QUESTION = ({"role": "system", "content": "List hobbies."}, {"role": "user", "content": "Ich spiele Schach ♟."})


class Hobbies(BaseModel):
    model_config = ConfigDict(extra="forbid")

    hobbies: list[str]


class Habits(BaseModel):
    hobbies: list[str]
    since: str | None = None


def read_hobbies(node: object) -> Read[tuple[str, ...]]:
    hobbies = node.get("hobbies") if isinstance(node, dict) else None
    if not isinstance(hobbies, list):
        raise ValueError("no list called `hobbies` was found")
    return Read(tuple(hobbies))


EXTRACTED = AnswerType(schema=Hobbies, read=read_hobbies, partial=True)
JUDGED = AnswerType(schema=Hobbies, read=read_hobbies, partial=False)


class Desk:
    def __init__(self, folder: Path) -> None:
        self.calls = folder / "calls.jsonl"
        self.totals = Totals()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.calls.read_text(encoding="utf-8").splitlines()]

    def ask_all(self, *requests: Request[Any], **options: Any) -> list[Completion[Any]]:
        async def together(client: Client) -> list[Completion[Any]]:
            return await asyncio.gather(*(client.complete(request) for request in requests))

        return self.run(together, **options)

    def ask(self, request: Request[Any], **options: Any) -> Completion[Any]:
        (completion,) = self.ask_all(request, **options)
        return completion

    def run(self, work: Callable[[Client], Any], **options: Any) -> Any:
        ledger = Ledger(self.calls)
        self.totals = ledger.totals
        try:
            client = Client(ledger=ledger, **{"concurrency": 8, "cache": None, **options})
            return asyncio.run(asyncio.wait_for(work(client), 30))
        finally:
            ledger.close()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    cache = Cache(tmp_path / "replies.sqlite")
    yield cache
    cache.close()


@pytest.fixture(autouse=True)
def _short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alps.llm.client._BACKOFF", wait_fixed(0.001))


def question(server: LoopbackServer, **changes: Any) -> Request[Any]:
    ordinary = Request("openai/tiny", QUESTION, EXTRACTED, api_base=server.url)
    return replace(ordinary, **changes)


def always(answer: Answer) -> Script:
    return lambda _: answer


def in_turn(*answers: Answer) -> Script:
    waiting = list(answers)
    return lambda _: waiting.pop(0) if len(waiting) > 1 else waiting[0]


CONTENT_POLICY = json.dumps(
    {"error": {"message": "rejected", "type": "invalid_request_error", "code": "content_policy_violation"}}
)


@pytest.mark.parametrize(
    ("answer", "outcome", "value", "requests"),
    [
        pytest.param(Answer(GOOD), "ok", ("chess", "tea"), 1, id="as asked"),
        pytest.param(Answer(f"```json\n{GOOD}\n```"), "ok", ("chess", "tea"), 1, id="in a fence"),
        pytest.param(Answer('{"hobbies": []}'), "ok", (), 1, id="an empty list"),
        pytest.param(Answer(HALF, finish_reason="length"), "ok", ("chess",), 1, id="cut off, something usable"),
        pytest.param(Answer('{"hob', finish_reason="length"), "truncated", None, 3, id="cut off, nothing usable"),
        pytest.param(Answer("", finish_reason="length"), "truncated", None, 3, id="cut off before the first word"),
        pytest.param(Answer("I'm sorry, I can't help with that."), "refused", None, 1, id="a refusal in prose"),
        pytest.param(Answer(None, refusal="I can't help."), "refused", None, 1, id="a refusal in its own field"),
        pytest.param(Answer("", finish_reason="content_filter"), "refused", None, 1, id="the content filter"),
        pytest.param(Answer(status=400, body=CONTENT_POLICY), "refused", None, 1, id="the content policy"),
        pytest.param(Answer(""), "empty", None, 3, id="an empty text"),
        pytest.param(Answer(" \n"), "empty", None, 3, id="white space"),
        pytest.param(Answer(None), "empty", None, 3, id="no text"),
        pytest.param(Answer(PROSE), "unparsable", None, 3, id="prose"),
        pytest.param(Answer(OTHER_SHAPE), "invalid", None, 3, id="another shape"),
        pytest.param(Answer(status=400), "transport", None, 1, id="a bad request"),
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
def test_an_answer_tells_what_it_took_to_read_it(desk: Desk, answer: Answer, repaired: bool, truncated: bool):
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
    assert (completion.outcome, completion.value, completion.truncated) == ("ok", "Once upon a", True)


def test_exactly_the_given_messages_are_sent(desk: Desk):
    with serve(always(Answer(GOOD))) as server:
        desk.ask(question(server))
    assert server.requests[0]["messages"] == list(QUESTION)


def test_the_schema_is_sent_as_response_format(desk: Desk):
    with serve(always(Answer(GOOD))) as server:
        desk.ask(question(server))
    sent = server.requests[0]["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["schema"]["properties"] == Hobbies.model_json_schema()["properties"]
    assert sent["json_schema"]["schema"]["required"] == ["hobbies"]


def test_nothing_is_sent_that_was_not_asked_for(desk: Desk):
    sampling = {"temperature": 0.2, "max_tokens": 77, "seed": 5}
    with serve(always(Answer(GOOD))) as server:
        desk.ask(question(server, sampling=sampling, answer=None))
    assert server.requests[0] == {"model": "tiny", "messages": list(QUESTION), **sampling}


def test_a_parameter_that_the_model_does_not_take_is_not_dropped_in_silence(desk: Desk):
    with serve(always(Answer(GOOD))) as server:
        completion = desk.ask(question(server, model="openai/o3-mini", sampling={"temperature": 0.2}))
    assert server.requests == []
    assert completion.outcome == "transport"
    assert "temperature" in str(completion.error)


@pytest.mark.parametrize(
    "answer",
    [
        *(pytest.param(Answer(status=code), id=str(code)) for code in (408, 409, 429, 500, 502, 503, 504, 529)),
        pytest.param(Answer(drop=True), id="a dropped connection"),
        pytest.param(Answer(body="<html>Bad gateway</html>"), id="a page instead of JSON"),
    ],
)
def test_a_failure_that_may_pass_is_tried_again(desk: Desk, answer: Answer):
    with serve(in_turn(answer, answer, Answer(GOOD))) as server:
        completion = desk.ask(question(server))
    assert completion.outcome == "ok"
    assert [(row["attempt"], row["outcome"]) for row in desk.rows] == [(1, "transport"), (2, "transport"), (3, "ok")]
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 413, 422])
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
        return Answer(GOOD) if len(arrivals) > 1 else Answer(status=status, headers={"Retry-After": "0.2"})

    with serve(script) as server:
        assert desk.ask(question(server)).outcome == "ok"
    assert arrivals[1] - arrivals[0] >= 0.2


def test_other_requests_wait_too_when_the_server_asked_to_wait(desk: Desk):
    arrivals: list[float] = []

    def script(_: dict[str, Any]) -> Answer:
        arrivals.append(time.perf_counter())
        return Answer(GOOD) if len(arrivals) > 1 else Answer(status=429, headers={"Retry-After": "0.2"})

    with serve(script) as server:
        completions = desk.ask_all(*(question(server, repeat=n) for n in range(4)), concurrency=1)
    assert [completion.outcome for completion in completions] == ["ok"] * 4
    assert min(arrivals[1:]) - arrivals[0] >= 0.2


def test_a_refused_key_ends_the_run_and_is_not_shown(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "an-ordinary-looking-word")
    refusal = Answer(status=401, error="Incorrect API key provided: an-ordinary-looking-word.")
    with serve(always(refusal)) as server, pytest.raises(CredentialError, match="openai/tiny") as caught:
        desk.ask(question(server))
    assert server.headers[0]["authorization"] == "Bearer an-ordinary-looking-word"
    assert "an-ordinary-looking-word" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 1


def test_a_model_that_the_endpoint_lacks_ends_the_run(desk: Desk):
    with serve(always(Answer(status=404))) as server, pytest.raises(UsageError, match="openai/tiny"):
        desk.ask(question(server))
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "error"), [(401, CredentialError), (404, UsageError)])
def test_an_attempt_that_ends_the_run_is_in_the_ledger_too(desk: Desk, status: int, error: type[Exception]):
    with serve(always(Answer(status=status))) as server, pytest.raises(error):
        desk.ask(question(server))
    assert [row["status"] for row in desk.rows] == [status]


def test_a_key_in_an_error_message_does_not_get_into_a_file(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "an-ordinary-looking-word")
    with serve(always(Answer(status=400, error="bad: an-ordinary-looking-word or sk-abcdefgh12345"))) as server:
        completion = desk.ask(question(server))
    written = desk.calls.read_text(encoding="utf-8")
    for text in (written, str(completion.error)):
        assert "bad: " in text
        assert "ordinary" not in text
        assert "abcdefgh" not in text


@pytest.mark.parametrize("half", [HALF, HALF[:-4], GOOD[:-1]])
def test_half_a_verdict_is_asked_for_again(desk: Desk, half: str):
    with serve(in_turn(Answer(half, finish_reason="length"), Answer(GOOD))) as server:
        completion = desk.ask(question(server, answer=JUDGED))
    assert completion.value == ("chess", "tea")
    assert not completion.truncated
    assert [row["outcome"] for row in desk.rows] == ["truncated", "ok"]


def test_half_a_verdict_is_no_verdict(desk: Desk):
    with serve(always(Answer(HALF, finish_reason="length"))) as server:
        completion = desk.ask(question(server, answer=JUDGED))
    assert (completion.outcome, completion.value) == ("truncated", None)


def test_two_different_verdicts_are_no_verdict(desk: Desk):
    with serve(in_turn(Answer(f'{GOOD}\n{{"hobbies": ["go"]}}'), Answer(GOOD))) as server:
        completion = desk.ask(question(server, answer=JUDGED))
    assert completion.value == ("chess", "tea")
    assert [row["outcome"] for row in desk.rows] == ["invalid", "ok"]


def test_the_same_verdict_twice_is_one_verdict(desk: Desk):
    with serve(always(Answer(f"{GOOD}\n{GOOD}"))) as server:
        assert desk.ask(question(server, answer=JUDGED)).value == ("chess", "tea")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(OTHER_SHAPE, "no list called `hobbies` was found", id="another shape"),
        pytest.param(PROSE, "JSON", id="prose"),
        pytest.param(HALF[:8], "cut off", id="cut off"),
    ],
)
def test_a_re_ask_shows_the_model_its_answer_and_the_problem(desk: Desk, text: str, problem: str):
    finish_reason = "length" if problem == "cut off" else "stop"
    with serve(in_turn(Answer(text, finish_reason=finish_reason), Answer(GOOD))) as server:
        completion = desk.ask(question(server, sampling={"temperature": 0.3}))
    assert completion.value == ("chess", "tea")
    first, second = server.requests
    assert second["messages"][:3] == [*QUESTION, {"role": "assistant", "content": text}]
    assert second["messages"][3]["role"] == "user"
    assert problem in second["messages"][3]["content"]
    assert len(second["messages"]) == 4
    assert {**second, "messages": None} == {**first, "messages": None}


def test_only_the_latest_answer_is_shown_in_a_second_re_ask(desk: Desk):
    with serve(in_turn(Answer(PROSE), Answer(OTHER_SHAPE), Answer(GOOD))) as server:
        desk.ask(question(server))
    assert [message["content"] for message in server.requests[2]["messages"][2:3]] == [OTHER_SHAPE]
    assert len(server.requests[2]["messages"]) == 4


def test_a_loop_of_a_model_is_not_sent_back_at_full_length(desk: Desk):
    with serve(in_turn(Answer("I like tea. " * 2500), Answer(GOOD))) as server:
        desk.ask(question(server))
    assert 100 < len(server.requests[1]["messages"][2]["content"]) < 10_000


def test_an_answer_without_text_is_asked_for_again_without_an_empty_message(desk: Desk):
    with serve(in_turn(Answer(""), Answer(GOOD))) as server:
        assert desk.ask(question(server)).outcome == "ok"
    assert all(message["content"] for message in server.requests[1]["messages"])


def test_plain_text_is_not_asked_for_again_as_json(desk: Desk):
    with serve(in_turn(Answer(""), Answer("Chess."))) as server:
        assert desk.ask(question(server, answer=None)).value == "Chess."
    for request in server.requests[1:]:
        assert "JSON" not in request["messages"][-1]["content"]


def test_an_answer_after_re_asks_says_how_many_it_took(desk: Desk):
    with serve(in_turn(Answer(PROSE), Answer(GOOD))) as server:
        completion = desk.ask(question(server))
    assert "after 1 re-asks" in completion.notes
    assert [(row["ask"], row["attempt"]) for row in desk.rows] == [(0, 1), (1, 1)]


def test_half_an_emoji_in_an_answer_does_not_stop_a_re_ask(desk: Desk):
    with serve(in_turn(Answer('{"pets": "\ud83d"}'), Answer(GOOD))) as server:
        assert desk.ask(question(server)).value == ("chess", "tea")


def test_a_system_that_was_heard_stays_heard_when_the_re_ask_is_not(desk: Desk):
    with serve(in_turn(Answer(PROSE), Answer(status=400))) as server:
        completion = desk.ask(question(server))
    assert len(server.requests) == 2
    assert completion.raw == PROSE
    assert completion.outcome == "unparsable"


def test_every_http_attempt_is_one_row_with_its_tokens(desk: Desk):
    answers = (Answer(status=500), Answer(PROSE), Answer(status=429), Answer(drop=True), Answer(GOOD))
    with serve(in_turn(*answers)) as server:
        desk.ask(question(server, purpose="judge", about="record 7"))
    assert len(server.requests) == len(desk.rows) == 5
    got = [(row["ask"], row["attempt"], row["outcome"]) for row in desk.rows]
    assert got == [(0, 1, "transport"), (0, 2, "unparsable"), (1, 1, "transport"), (1, 2, "transport"), (1, 3, "ok")]
    assert [row["status"] for row in desk.rows[:3]] == [500, 200, 429]
    tokens = [(row["prompt_tokens"], row["completion_tokens"]) for row in desk.rows]
    asked = [sum(len(m["content"]) for m in request["messages"]) // 4 for request in server.requests]
    none = (None, None)
    assert tokens == [none, (asked[1], len(PROSE) // 4), none, none, (asked[4], len(GOOD) // 4)]
    assert {(row["purpose"], row["about"], row["model"]) for row in desk.rows} == {("judge", "record 7", "openai/tiny")}
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
        pytest.param(Answer('{"hobbies": ["chess", 5]}'), 1, id="a wrong type that is read all the same"),
        pytest.param(Answer(HALF, finish_reason="length"), 1, id="cut off"),
        pytest.param(Answer(status=500), 8, id="an error that may pass"),
        pytest.param(Answer(status=429), 8, id="a throttled endpoint"),
        pytest.param(Answer(drop=True), 8, id="a dropped connection"),
    ],
)
def test_neither_library_makes_requests_of_its_own(desk: Desk, answer: Answer, requests: int):
    with serve(always(answer)) as server:
        desk.ask(question(server))
    assert len(server.requests) == len(desk.rows) == requests


def test_the_cost_of_a_model_with_a_known_price_is_counted(desk: Desk, monkeypatch: pytest.MonkeyPatch):
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
        pytest.param({"messages": (*QUESTION, {"role": "user", "content": "And?"})}, id="the messages"),
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
            leaving, staying = (asyncio.ensure_future(client.complete(question(server))) for _ in range(2))
            await asyncio.sleep(0.02)
            leaving.cancel()
            return await staying

        assert desk.run(one_leaves).value == ("chess", "tea")
    assert len(server.requests) == 1


def test_no_more_requests_are_under_way_than_allowed(desk: Desk):
    with serve(always(Answer(GOOD, delay=0.03))) as server:
        completions = desk.ask_all(*(question(server, repeat=n) for n in range(12)), concurrency=4)
    assert [completion.outcome for completion in completions] == ["ok"] * 12
    assert server.most_under_way == 4


def test_after_a_429_fewer_requests_are_under_way_and_later_as_many_as_before(desk: Desk):
    under_way: list[int] = [0]

    async def send(*_: Any) -> Reply:
        under_way.append(under_way[-1] + 1)
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
    with serve(in_turn(Answer(GOOD), Answer(GOOD, delay=0.3), Answer(GOOD))) as server:
        desk.ask(question(server, repeat=1))
        completion = desk.ask(question(server), timeout=0.15)
    assert completion.outcome == "ok"
    assert [row["outcome"] for row in desk.rows[:2]] == ["ok", "transport"]
    assert "0.15 s" in desk.rows[1]["error"]


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
    assert (desk.totals.prompt_tokens, desk.totals.completion_tokens, desk.totals.cost) == (11, 7, 0.25)
