import pytest

from tests.desk import (
    GOOD,
    HALF,
    JUDGED,
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
