"""Metering of memory systems: what they ask of models goes through a proxy that counts it."""

import asyncio
import json

import httpx
import openai
import pytest

from alps.ext.memory.proxy import Behind, Proxy
from alps.llm.budget import Budget
from alps.llm.cache import Cache
from alps.llm.client import Client
from alps.llm.ledger import Ledger, Totals
from alps.llm.prices import price_of
from tests.loopback import Answer, asked_over_http, serve

TOOLS = [{"type": "function", "function": {"name": "keep", "parameters": {"type": "object"}}}]


def reply(message, prompt, completion):
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    }


def embedding(texts):
    rows = [{"object": "embedding", "index": n, "embedding": [n, 0.5]} for n in range(len(texts))]
    usage = {"prompt_tokens": 3 * len(texts), "total_tokens": 3 * len(texts)}
    return {"object": "list", "model": "e", "data": rows, "usage": usage}


def script(body):
    if "input" in body:
        return Answer(body=json.dumps(embedding(body["input"])))
    if "tools" in body:
        call = {"id": "c", "type": "function", "function": {"name": "keep", "arguments": "{}"}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return Answer(body=json.dumps(reply(message, 17, 4)))
    text = "You said: " + body["messages"][-1]["content"]
    return Answer(body=json.dumps(reply({"role": "assistant", "content": text}, 11, 5)))


def asked_through(url, work, path, cache=None, budget=None):
    """Ask through a proxy in front of a server; returns what it metered, and the ledger."""
    metered, ledger = [], Ledger(path / "calls.jsonl")
    options = {"ledger": ledger, "cache": cache, "budget": budget}
    client = Client(concurrency=2, timeout=120, patience=0, **options)
    behind = [Behind(f"openai/{name}", client, url) for name in ("m", "e")]
    proxy = Proxy(*behind, note=metered.append, about=lambda: "ingest")

    async def all_of():
        await proxy.start()
        theirs = openai.OpenAI(base_url=proxy.api_base, api_key=proxy.key, max_retries=0)
        try:
            return await asyncio.to_thread(work, theirs)
        finally:
            theirs.close()
            await proxy.aclose()
            await client.aclose()

    answer = asked_over_http(all_of())
    ledger.close()
    return answer, metered, ledger.totals


def ask(theirs, text="hello", **options):
    messages = [{"role": "user", "content": text}]
    return theirs.chat.completions.create(model="any", messages=messages, **options)


def test_a_chat_comes_back_as_the_server_said_it_and_is_counted(tmp_path):
    with serve(script) as server:
        answer, metered, totals = asked_through(
            server.url, lambda theirs: ask(theirs, temperature=0.1), tmp_path
        )
    assert answer.choices[0].message.content == "You said: hello"
    assert server.requests[0]["model"] == "m"
    assert server.requests[0]["temperature"] == 0.1
    assert [(one.prompt_tokens, one.completion_tokens) for one in metered] == [(11, 5)]
    assert 0 < metered[0].seconds < 60
    assert (totals.prompt_tokens, totals.completion_tokens) == (11, 5)
    row = json.loads((tmp_path / "calls.jsonl").read_text())
    assert (row["purpose"], row["about"]) == ("memory", "ingest")


def test_tools_and_formats_are_passed_on(tmp_path):
    form = {"type": "json_object"}
    with serve(script) as server:
        answer, metered, _ = asked_through(
            server.url, lambda theirs: ask(theirs, tools=TOOLS, response_format=form), tmp_path
        )
    assert answer.choices[0].message.tool_calls[0].function.name == "keep"
    assert server.requests[0]["tools"] == TOOLS
    assert server.requests[0]["response_format"] == form
    assert metered[0].prompt_tokens == 17


@pytest.mark.parametrize("form", ["float", "base64"])
def test_embeddings_are_passed_on_in_either_form(tmp_path, form):
    with serve(script) as server:
        answer, metered, totals = asked_through(
            server.url,
            lambda theirs: theirs.embeddings.create(
                model="any", input=["a", "b"], encoding_format=form
            ),
            tmp_path,
        )
    rows = [row.embedding for row in answer.data]
    if form == "float":
        assert rows == [[0, 0.5], [1, 0.5]]
    assert len(rows) == 2
    assert metered[0].prompt_tokens == totals.prompt_tokens == 6


def test_a_kept_reply_is_told_apart_and_asks_nobody(tmp_path):
    cache = Cache(tmp_path / "replies.sqlite")
    with serve(script) as server:
        asked_through(server.url, ask, tmp_path, cache)
        answer, metered, _ = asked_through(server.url, ask, tmp_path, cache)
    cache.close()
    assert answer.choices[0].message.content.endswith("hello")
    assert [(one.cached, one.prompt_tokens) for one in metered] == [(True, 11)]
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("extra", "named"),
    [({"api_base": "http://127.0.0.1:9"}, "api_base"), ({"api_key": "k"}, "api_key")],
)
def test_nothing_that_sends_a_request_elsewhere_is_passed_on(tmp_path, extra, named):
    def work(theirs):
        with pytest.raises(openai.BadRequestError, match=named):
            ask(theirs, extra_body=extra)

    with serve(script) as server:
        asked_through(server.url, work, tmp_path)
    assert server.requests == []


def test_another_key_is_refused(tmp_path):
    def work(theirs):
        with pytest.raises(openai.AuthenticationError):
            ask(theirs.with_options(api_key="another"))

    with serve(script) as server:
        asked_through(server.url, work, tmp_path)
    assert server.requests == []


def test_a_failure_is_told_once_and_noted(tmp_path):
    def work(theirs):
        with pytest.raises(openai.APIStatusError) as caught:
            ask(theirs)
        return caught.value.status_code

    with serve(lambda body: Answer(status=500)) as server:
        status, metered, _ = asked_through(server.url, work, tmp_path)
    assert status == 424
    assert metered[0].outcome == "transport"


PLAIN = [{"role": "user", "content": "hello"}]
IMAGE = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/x.png"}}


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"n": 64}, "n: one answer"),
        ({"n": 0}, "n: one answer"),
        ({"n": "5"}, "n: one answer"),
        ({"n": [5]}, "n: one answer"),
        ({"best_of": 20}, "best_of: not supported"),
        ({"num_choices": 20}, "num_choices: not supported"),
        ({"prompt": ["a", "b"]}, "prompt: not supported"),
        ({"messages": "a"}, "messages: expected a list"),
        ({"messages": [["a"], ["b"]]}, "messages[0]: expected an object"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content: expected"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages[0].content: only text"),
        ({"max_tokens": "90"}, "max_tokens: expected a whole number"),
        ({"max_completion_tokens": 1e300}, "max_completion_tokens: expected a whole number"),
        ({"tools": [{"type": "web_search"}]}, "tools: only functions"),
        ({"service_tier": "priority"}, "service_tier: not supported"),
        ({"stream_options": {}}, "stream_options: not supported"),
    ],
)
def test_what_multiplies_the_cost_of_a_request_is_refused_in_one_line(tmp_path, more, said):
    body = json.dumps({"messages": PLAIN, **more})

    def work(theirs):
        headers = {"Authorization": f"Bearer {theirs.api_key}"}
        address = f"{theirs.base_url}chat/completions"
        return httpx.post(address, content=body, headers=headers)

    with serve(script) as server:
        answer, _, totals = asked_through(server.url, work, tmp_path)
    assert (answer.status_code, len(server.requests), totals.calls) == (400, 0, 0)
    assert answer.json()["error"]["message"].startswith(said)


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_the_longest_answer_that_a_system_asks_for_is_set_aside_in_full(tmp_path, field):
    budget = Budget(max_cost=None, max_total_tokens=20_000, spent=Totals(), price=price_of)

    def work(theirs):
        with pytest.raises(openai.APIStatusError) as refused:
            ask(theirs, **{field: 128_000})
        return refused.value.status_code, ask(theirs, **{field: 100}).choices[0].message.content

    with serve(script) as server:
        answer, metered, _ = asked_through(server.url, work, tmp_path, budget=budget)
    assert answer == (402, "You said: hello")
    assert [one.outcome for one in metered] == ["budget", "ok"]
    assert len(server.requests) == 1


def test_a_body_that_is_nested_without_end_is_refused(tmp_path):
    def work(theirs):
        headers = {"Authorization": f"Bearer {theirs.api_key}"}
        content = '{"messages": ' + "[" * 100_000
        return httpx.post(f"{theirs.base_url}chat/completions", content=content, headers=headers)

    with serve(script) as server:
        answer, _, _ = asked_through(server.url, work, tmp_path)
    assert answer.status_code == 400
