"""One odd reply never ends a run: its record fails by its kind, or is read."""

import asyncio
import json
from typing import Any, get_args

import pytest

from alps.llm import Client
from alps.llm.types import Request
from alps.schema import Outcome
from tests.desk import EXTRACTED, QUIET_LITELLM, Desk
from tests.loopback import Answer, serve
from tests.odd_bodies import MARK, ODD, TEXT, WHOLE, paths, replaced, without

pytestmark = QUIET_LITELLM

ENDS = {str(path[-1]) if path else "body": path for path in paths()}
MOST_ASKED = 3


@pytest.fixture(autouse=True)
def _unbroken(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many odd bodies in a row are an outage, and would be asked for one by one."""
    monkeypatch.setattr("alps.llm.retries._FAILURES", 10**9)


def bodies(path: tuple[Any, ...]) -> list[str]:
    return [*(replaced(path, value) for value in ODD), *([without(path)] if path else [])]


def asked_about(
    desk: Desk, model: str, answers: list[str]
) -> tuple[list[Any], list[dict[str, Any]]]:
    def script(body: dict[str, Any]) -> Answer:
        question = next(
            one for one in body["messages"] if one["content"].startswith("Hobbies of")
        )  # of a re-ask, too
        return Answer(body=answers[int(question["content"].split()[-1])])

    with serve(script) as server:

        async def all_of_them(client: Client) -> list[Any]:
            questions = [
                {"role": "user", "content": f"Hobbies of {number}"}
                for number in range(len(answers))
            ]
            requests = [Request(model, (one,), EXTRACTED, api_base=server.url) for one in questions]
            return await asyncio.gather(
                *(client.complete(request) for request in requests), return_exceptions=True
            )

        return desk.run(all_of_them), server.requests


@pytest.mark.parametrize("name", ENDS)
def test_a_field_of_any_shape_ends_no_run(desk: Desk, name: str):
    answers = bodies(ENDS[name])
    completions, requests = asked_about(desk, "openai/tiny", answers)
    raised = [one for one in completions if isinstance(one, BaseException)]
    assert raised == []
    assert {one.outcome for one in completions} <= set(get_args(Outcome))
    for one in completions:
        assert one.raw is None or isinstance(one.raw, str)
        assert (one.value is None) == (one.outcome != "ok")
    assert len(requests) <= MOST_ASKED * len(answers)
    json.dumps([one.__dict__ for one in completions], default=lambda used: used.model_dump())


@pytest.mark.parametrize(
    "name", ["id", "object", "created", "system_fingerprint", "service_tier", "usage"]
)
def test_an_odd_field_beside_the_answer_costs_the_answer_only_where_litellm_can_not_go_on(
    desk: Desk, name: str
):
    completions, _ = asked_about(
        desk, "openai/tiny", [without(ENDS[name]), replaced(ENDS[name], "null")]
    )
    assert [one.value for one in completions] == [("chess", "tea")] * 2


BROKEN = [("choices", "[null]"), ("choices", "7"), ("content", "[7]"), ("usage", '"x"')]


@pytest.mark.parametrize(("name", "value"), BROKEN)
def test_what_is_said_of_an_answer_that_can_not_be_read_is_no_traceback(
    desk: Desk, name: str, value: str
):
    completions, _ = asked_about(desk, "openai/tiny", [replaced(ENDS[name], value)])
    assert completions[0].outcome == "transport"
    said = completions[0].error or ""
    assert "its body can't be read: " in said
    assert "Traceback" not in said


def test_a_body_as_it_should_be_is_read(desk: Desk):
    completions, requests = asked_about(desk, "openai/tiny", [json.dumps(WHOLE)])
    assert (completions[0].outcome, completions[0].raw, len(requests)) == ("ok", TEXT, 1)


@pytest.mark.parametrize("value", ODD)
def test_a_refusal_of_any_shape_without_a_text_is_a_failure_of_its_kind(desk: Desk, value: str):
    body = json.loads(replaced(ENDS["content"], "null"))
    body["choices"][0]["message"]["refusal"] = MARK
    odd = json.dumps(body).replace(json.dumps(MARK), value)
    (completion,), _ = asked_about(desk, "openai/tiny", [odd])
    assert completion.outcome in ("refused", "empty", "transport")
    assert completion.raw is None or isinstance(completion.raw, str)
    json.dumps(completion.__dict__, default=lambda used: used.model_dump(), allow_nan=False)
