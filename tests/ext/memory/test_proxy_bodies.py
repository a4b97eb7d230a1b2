"""Odd requests to the metering proxy are refused as an API refuses them, and go no further."""

import gzip
import json
from typing import Any

import httpx
import pytest

from tests.ext.memory.test_memory_metering import PLAIN, asked_through, script
from tests.loopback import serve

CALL: dict[str, Any] = {
    "id": "c",
    "type": "function",
    "function": {"name": "keep", "arguments": "{}"},
}
TURN = PLAIN[0]


def called(calls: Any) -> str:
    answered = {"role": "assistant", "content": None, "tool_calls": calls}
    return json.dumps({"messages": [TURN, answered, TURN]})


def chat(**more: Any) -> str:
    return json.dumps({"messages": PLAIN, **more})


HALF = "the body contains half a character"
BODIES = {
    "no JSON": ("{", "not JSON"),
    "nothing": ("", "not JSON"),
    "latin": ('{"messages": [], "user": "é"}'.encode("latin-1"), "not JSON"),
    "NaN": (chat(temperature=float("nan")), "not JSON (NaN is not a number"),
    "beyond numbers": ('{"messages": [], "temperature": 1e999}', "not JSON (the number 1e999"),
    "5,000 digits": (f'{{"messages": [], "seed": {"9" * 5_000}}}', "not JSON"),
    "a key twice": ('{"messages": [], "max_tokens": 1, "max_tokens": 9}', "not JSON (the key"),
    "half a character": (chat(stop="\ud83d"), HALF),
    "half a character in a name": (chat(**{"\ud83d": 1}), HALF),
    "half a character said": (
        json.dumps({"messages": [{"role": "user", "content": "\ud83d"}]}),
        HALF,
    ),
    "no messages": (json.dumps({"messages": []}), "messages: "),
    "max_tokens of 400 digits": (chat(max_tokens=10**400), "max_tokens: expected a whole number"),
    "max_completion_tokens of 400 digits": (
        chat(max_completion_tokens=10**400),
        "max_completion_tokens: expected a whole number",
    ),
    "a seed of 400 digits": (chat(seed=10**400), "seed: "),
    "a temperature in words": (chat(temperature="hot"), "temperature: "),
    "a temperature of 400 digits": (chat(temperature=10**400), "temperature: "),
    "a stop of numbers": (chat(stop=[1]), "stop"),
    "a choice of a tool that is a number": (chat(tool_choice=5), "tool_choice"),
    "a form that is a text": (chat(response_format="json"), "response_format: expected an object"),
    "a bias that is a list": (chat(logit_bias=[1]), "logit_bias: expected an object"),
    "a role that is none": (json.dumps({"messages": [{**TURN, "role": 7}]}), "messages[0].role: "),
    "calls that are a number": (called(5), "messages[1].tool_calls: expected a list"),
    "calls of numbers": (called([5]), "messages[1].tool_calls[0]: expected an object"),
    "a call of no function": (called([{}]), "messages[1].tool_calls[0].function: missing"),
    "a call whose function is a text": (
        called([{**CALL, "function": "keep"}]),
        "messages[1].tool_calls[0].function: expected an object",
    ),
    "arguments that are an object": (
        called([{**CALL, "function": {"name": "keep", "arguments": {}}}]),
        "messages[1].tool_calls[0].function.arguments: expected a string",
    ),
    "a call of another type": (called([{**CALL, "type": "web"}]), "messages[1].tool_calls[0].type"),
    "a tool without a name": (
        chat(tools=[{"type": "function", "function": {}}]),
        "tools[0].function.name: missing",
    ),
    "a text that is a number": (
        json.dumps({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}),
        "messages[0].content",
    ),
}
EMBEDDINGS = {
    "nothing to embed": ({"input": []}, "input"),
    "numbers that are no tokens": ({"input": [1.5]}, "input"),
    "a token below 0": ({"input": [-1]}, "input"),
    "nothing among texts": ({"input": ["a", None]}, "input"),
    "dimensions in words": ({"input": ["a"], "dimensions": "8"}, "dimensions: "),
    "dimensions of 400 digits": ({"input": ["a"], "dimensions": 10**400}, "dimensions: "),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The answers to every odd request, all through one proxy; nothing reached the model."""
    found: dict[str, httpx.Response] = {}

    def work(theirs):
        right = {"Authorization": f"Bearer {theirs.api_key}"}
        with httpx.Client(base_url=str(theirs.base_url), timeout=120) as client:

            def ask(name, path, body, **headers):
                found[name] = client.post(path, content=body, headers={**right, **headers})

            for name, (body, _) in BODIES.items():
                ask(name, "chat/completions", body)
            for name, (given, _) in EMBEDDINGS.items():
                ask(name, "embeddings", json.dumps(given))
            for encoding in ("gzip", "deflate", "br", "zstd", "gzip, gzip, gzip"):
                ask(encoding, "chat/completions", chat(), **{"Content-Encoding": encoding})
            packed = gzip.compress(b" " * (80 << 20), 9)
            ask("bomb", "chat/completions", packed, **{"Content-Encoding": "gzip"})
            for number, key in enumerate((b"Bearer \xe9\xff", "Bearer ключ".encode(), b"\xff")):
                ask(f"key {number}", "chat/completions", chat(), Authorization=key)
            ask("path", "nowhere", chat())

    with serve(script) as server:
        _, metered, totals = asked_through(server.url, work, tmp_path_factory.mktemp("proxy"))
    assert (metered, totals.calls, server.requests) == ([], 0, [])
    return found


def told(answer: httpx.Response) -> str:
    error: dict[str, str] = answer.json()["error"]
    assert error["code"] == str(answer.status_code)
    return error["message"]


@pytest.mark.parametrize("name", [*BODIES, *EMBEDDINGS])
def test_an_odd_body_is_refused_with_the_field(answers, name):
    said = (BODIES | EMBEDDINGS)[name][1]
    assert (answers[name].status_code, told(answers[name])[: len(said)]) == (400, said)


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd", "gzip, gzip, gzip", "bomb"])
def test_a_body_that_can_not_be_unpacked_is_refused(answers, name):
    assert answers[name].status_code == 400
    assert told(answers[name]).startswith("the body can't be read: ")


@pytest.mark.parametrize(
    ("name", "status"), [*((f"key {n}", 401) for n in range(3)), ("path", 404)]
)
def test_what_is_refused_unread_is_refused_as_by_an_api(answers, name, status):
    assert answers[name].status_code == status
    assert told(answers[name])


def test_what_is_packed_well_is_passed_on(tmp_path):
    def work(theirs):
        headers = {"Authorization": f"Bearer {theirs.api_key}", "Content-Encoding": "gzip"}
        whole = chat(messages=[TURN, {**CALL_TURN}, RESULT, TURN], temperature=0, seed=3)
        answer = httpx.post(
            f"{theirs.base_url}chat/completions",
            content=gzip.compress(whole.encode()),
            timeout=120,
            headers=headers,
        )
        return [answer.status_code]

    with serve(script) as server:
        statuses, metered, _ = asked_through(server.url, work, tmp_path)
    assert (statuses, len(metered)) == ([200], 1)
    assert server.requests[0]["messages"][1]["tool_calls"] == [CALL]


CALL_TURN = {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "kept"}
