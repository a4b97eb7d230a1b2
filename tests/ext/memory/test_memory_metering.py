"""Metering of memory systems: what they ask of models goes through a proxy that counts it.

Odd requests are refused as an API refuses them, and go no further.
"""

import asyncio
import gzip
import json
from base64 import b64decode
from contextlib import nullcontext
from typing import Any, NamedTuple

import httpx
import numpy as np
import openai
import pytest

from alps.ext.memory.proxy import Behind, Metered, Proxy
from alps.llm.budget import Budget
from alps.llm.cache import Cache
from alps.llm.client import Client
from alps.llm.ledger import Ledger, Totals
from alps.llm.prices import price_of
from tests.loopback import Answer, asked_over_http, serve
from tests.scripted_models import ScriptedModels

KEEP = {"name": "keep", "arguments": "{}"}
CALL: dict[str, Any] = {"id": "c", "type": "function", "function": KEEP}
TOOLS = [{"type": "function", "function": {"name": "keep", "parameters": {"type": "object"}}}]
TURN = {"role": "user", "content": "hello"}
IMAGE = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/x.png"}}


def script(body):
    models = ScriptedModels()
    if "input" in body:
        count = len(body["input"])
        rows = [{"object": "embedding", "index": n, "embedding": [n, 0.5]} for n in range(count)]
        whole = {"object": "list", "model": "e", "data": rows, "usage": models.used(3 * count, 0)}
        return models.answer(whole, "embeddings")
    if "tools" in body:
        called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
        return models.said(called, models.used(17, 4))
    text = "You said: " + body["messages"][-1]["content"]
    return models.said({"role": "assistant", "content": text}, models.used(11, 5))


class Asked(NamedTuple):
    """What asking through a proxy gave, what it metered, and what reached the server."""

    answer: Any
    metered: list[Metered]
    totals: Totals
    requests: list[dict[str, Any]]


def asked_through(work, path, *, script=script, server=None, cache=None, budget=None):
    """Have `work` ask through a proxy in front of a server, which is a new scripted one if None."""
    metered, ledger = [], Ledger(path / "calls.jsonl")
    options = {"ledger": ledger, "cache": cache, "budget": budget}
    client = Client(concurrency=2, timeout=120, patience=0, **options)

    async def all_of(url):
        behind = [Behind(f"openai/{name}", client, url) for name in ("m", "e")]
        proxy = Proxy(*behind, note=metered.append, about=lambda: "ingest")
        await proxy.start()
        theirs = openai.OpenAI(base_url=proxy.api_base, api_key=proxy.key, max_retries=0)
        try:
            return await asyncio.to_thread(work, theirs)
        finally:
            theirs.close()
            await proxy.aclose()
            await client.aclose()

    with nullcontext(server) if server else serve(script) as asked:
        answer = asked_over_http(all_of(asked.url))
    ledger.close()
    return Asked(answer, metered, ledger.totals, asked.requests)


def ask(theirs, text="hello", **options):
    messages = [{"role": "user", "content": text}]
    return theirs.chat.completions.create(model="any", messages=messages, **options)


def test_what_a_system_asks_comes_back_as_the_server_said_it_and_is_counted(tmp_path):
    form = {"type": "json_object"}

    def work(theirs):
        chats = ask(theirs, temperature=0.1), ask(theirs, tools=TOOLS, response_format=form)
        embeddings = []
        for kind in ("float", "base64"):
            words = {"model": "any", "input": [kind, "b"], "encoding_format": kind}
            embeddings.append(theirs.embeddings.create(**words))
        return *chats, *embeddings

    done = asked_through(work, tmp_path)
    said, called, plain, packed = done.answer
    assert said.choices[0].message.content == "You said: hello"
    assert (done.requests[0]["model"], done.requests[0]["temperature"]) == ("m", 0.1)
    assert called.choices[0].message.tool_calls[0].function.name == "keep"
    assert (done.requests[1]["tools"], done.requests[1]["response_format"]) == (TOOLS, form)
    assert [row.embedding for row in plain.data] == [[0, 0.5], [1, 0.5]]
    unpacked = [np.frombuffer(b64decode(row.embedding), "<f4") for row in packed.data]
    assert [row.tolist() for row in unpacked] == [[0, 0.5], [1, 0.5]]
    used = [(one.prompt_tokens, one.completion_tokens) for one in done.metered]
    assert used == [(11, 5), (17, 4), (6, 0), (6, 0)]
    assert all(0 < one.seconds < 60 for one in done.metered)
    assert (done.totals.prompt_tokens, done.totals.completion_tokens) == (40, 9)
    row = json.loads((tmp_path / "calls.jsonl").read_text().splitlines()[0])
    assert (row["purpose"], row["about"]) == ("memory", "ingest")


def test_a_kept_reply_is_told_apart_and_asks_nobody(tmp_path):
    cache = Cache(tmp_path / "replies.sqlite")
    with serve(script) as server:
        words = {"server": server, "cache": cache}
        first = asked_through(lambda theirs: [ask(theirs), ask(theirs)], tmp_path, **words)
        second = asked_through(lambda theirs: [ask(theirs)], tmp_path, **words)
        cache._db.execute("UPDATE replies SET reply = ?", (json.dumps({"text": "{}"}),))
        third = asked_through(lambda theirs: [ask(theirs)], tmp_path, **words)
    cache.close()
    assert third.answer[0].choices[0].message.content == "You said: hello"
    assert not third.metered[0].cached  # what was kept is no reply that was passed on
    said = [answer.choices[0].message.content for answer in (*first.answer, *second.answer)]
    assert said == ["You said: hello"] * 3
    used = [[(one.cached, one.prompt_tokens) for one in done.metered] for done in (first, second)]
    assert used == [[(False, 11), (True, 11)], [(True, 11)]]
    assert len(server.requests) == 2


def test_a_failure_is_told_once_and_noted(tmp_path):
    def work(theirs):
        with pytest.raises(openai.APIStatusError) as caught:
            ask(theirs)
        return caught.value.status_code

    done = asked_through(work, tmp_path, script=lambda body: Answer(status=500))
    assert (done.answer, done.metered[0].outcome) == (424, "transport")


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_the_longest_answer_that_a_system_asks_for_is_set_aside_in_full(tmp_path, field):
    budget = Budget(max_cost=None, max_total_tokens=20_000, spent=Totals(), price=price_of)

    def work(theirs):
        with pytest.raises(openai.APIStatusError) as refused:
            ask(theirs, **{field: 128_000})
        return refused.value.status_code, ask(theirs, **{field: 100}).choices[0].message.content

    done = asked_through(work, tmp_path, budget=budget)
    assert done.answer == (402, "You said: hello")
    assert [one.outcome for one in done.metered] == ["budget", "ok"]
    assert len(done.requests) == 1


def test_for_embeddings_no_answer_is_set_aside(tmp_path):
    budget = Budget(max_cost=None, max_total_tokens=500, spent=Totals(), price=price_of)

    def work(theirs):
        with pytest.raises(openai.APIStatusError) as refused:
            ask(theirs)
        made = theirs.embeddings.create(model="any", input=["a"], encoding_format="float")
        return refused.value.status_code, len(made.data)

    assert asked_through(work, tmp_path, budget=budget).answer == (402, 1)


def chat(**more: Any) -> str:
    return json.dumps({"messages": [TURN], **more})


def saying(content: Any) -> str:
    return chat(messages=[{"role": "user", "content": content}])


def called(calls: Any) -> str:
    answered = {"role": "assistant", "content": None, "tool_calls": calls}
    return chat(messages=[TURN, answered, TURN])


def calling(function: Any) -> str:
    return called([{**CALL, "function": function}])


def embedded(**body: Any) -> str:
    return json.dumps(body)


WHOLE = "expected a whole number"
LONGEST = f"max_completion_tokens: {WHOLE}"
NAMELESS = chat(tools=[{"type": "function", "function": {}}])
OF_CALL = "messages[1].tool_calls[0]"
CHATS = {
    "no JSON": ("{", "not JSON"),
    "nested without end": ('{"messages": ' + "[" * 100_000, "not JSON"),
    "latin": ('{"messages": [], "user": "é"}'.encode("latin-1"), "not JSON"),
    "NaN": (chat(temperature=float("nan")), "not JSON (NaN is not a number"),
    "beyond numbers": ('{"messages": [], "temperature": 1e999}', "not JSON (the number 1e999"),
    "5,000 digits": (f'{{"messages": [], "seed": {"9" * 5_000}}}', "not JSON"),
    "a key twice": ('{"messages": [], "max_tokens": 1, "max_tokens": 9}', "not JSON (the key"),
    "half a character": (chat(stop="\ud83d"), "the body contains half a character"),
    "another address": (chat(api_base="http://127.0.0.1:9"), "api_base: not supported"),
    "64 answers": (chat(n=64), "n: one answer"),
    "no answer": (chat(n=0), "n: one answer"),
    "answers in words": (chat(n="5"), "n: one answer"),
    "a dearer tier": (chat(service_tier="priority"), "service_tier: not supported"),
    "options of a stream": (chat(stream_options={}), "stream_options: not supported"),
    "messages that are a text": (chat(messages="a"), "messages: expected a list"),
    "messages of texts": (chat(messages=[["a"], ["b"]]), "messages[0]: expected an object"),
    "no messages": (chat(messages=[]), "messages: "),
    "a number said": (saying(7), "messages[0].content: expected"),
    "an image": (saying([IMAGE]), "messages[0].content: only text"),
    "a text that is a number": (saying([{"type": "text", "text": 5}]), "messages[0].content"),
    "max_tokens in words": (chat(max_tokens="90"), f"max_tokens: {WHOLE}"),
    "max_completion_tokens of 400 digits": (chat(max_completion_tokens=10**400), LONGEST),
    "a seed of 400 digits": (chat(seed=10**400), "seed: "),
    "a temperature in words": (chat(temperature="hot"), "temperature: "),
    "a temperature of 400 digits": (chat(temperature=10**400), "temperature: "),
    "a stop of numbers": (chat(stop=[1]), "stop"),
    "a choice of a tool that is a number": (chat(tool_choice=5), "tool_choice"),
    "a form that is a text": (chat(response_format="json"), "response_format: expected an object"),
    "a bias that is a list": (chat(logit_bias=[1]), "logit_bias: expected an object"),
    "a role that is none": (chat(messages=[{**TURN, "role": 7}]), "messages[0].role: "),
    "calls that are a number": (called(5), "messages[1].tool_calls: expected a list"),
    "a call of no function": (called([{}]), f"{OF_CALL}.function: missing"),
    "arguments that are an object": (
        *(calling({**KEEP, "arguments": {}}), f"{OF_CALL}.function.arguments: expected a string"),
    ),
    "a call of another type": (called([{**CALL, "type": "web"}]), f"{OF_CALL}.type"),
    "a tool that is no function": (chat(tools=[{"type": "web_search"}]), "tools: only functions"),
    "a tool without a name": (NAMELESS, "tools[0].function.name: missing"),
}
EMBEDDINGS = {
    "nothing to embed": (embedded(input=[]), "input"),
    "numbers that are no tokens": (embedded(input=[1.5]), "input"),
    "a token below 0": (embedded(input=[-1]), "input"),
    "nothing among texts": (embedded(input=["a", None]), "input"),
    "dimensions of 400 digits": (embedded(input=["a"], dimensions=10**400), "dimensions: "),
}
BOMB = gzip.compress(b" " * (80 << 20), 9)
UNREADABLE = "the body can't be read: "
# Bodies by the encoding that they are said to have; the last is gzip that unpacks without end.
PACKED = {"gzip": chat(), "zstd": chat(), "bomb": BOMB}
KEYS = {"another key of the run": "Bearer another", "a key in latin": b"Bearer \xe9\xff"}
REFUSED = {
    **{name: (400, said) for name, (_, said) in (CHATS | EMBEDDINGS).items()},
    **dict.fromkeys(PACKED, (400, UNREADABLE)),
    **dict.fromkeys(KEYS, (401, "the API key is not the key of this run")),
    "another path": (404, ""),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """The answers to every odd request, all through one proxy; nothing reached the model."""
    found: dict[str, httpx.Response] = {}

    def work(theirs):
        right = {"Authorization": f"Bearer {theirs.api_key}"}
        with httpx.Client(base_url=theirs.base_url, timeout=120) as client:

            def ask(name, path, body, **headers):
                found[name] = client.post(path, content=body, headers={**right, **headers})

            for name, (body, _) in CHATS.items():
                ask(name, "chat/completions", body)
            for name, (body, _) in EMBEDDINGS.items():
                ask(name, "embeddings", body)
            for name, body in PACKED.items():
                encoding = "gzip" if name == "bomb" else name
                ask(name, "chat/completions", body, **{"Content-Encoding": encoding})
            for name, key in KEYS.items():
                ask(name, "chat/completions", chat(), Authorization=key)
            ask("another path", "nowhere", chat())

    done = asked_through(work, tmp_path_factory.mktemp("proxy"))
    assert (done.metered, done.totals.calls, done.requests) == ([], 0, [])
    return found


@pytest.mark.parametrize("name", REFUSED)
def test_an_odd_request_is_refused_with_what_is_wrong_and_reaches_no_model(refused, name):
    status, said = REFUSED[name]
    error = refused[name].json()["error"]
    assert (refused[name].status_code, error["code"]) == (status, str(status))
    assert error["message"]
    assert error["message"].startswith(said)


def test_what_is_packed_well_is_passed_on(tmp_path):
    answered = {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None}
    result = {"role": "tool", "tool_call_id": "c", "content": "kept"}

    def work(theirs):
        headers = {"Authorization": f"Bearer {theirs.api_key}", "Content-Encoding": "gzip"}
        whole = gzip.compress(chat(messages=[TURN, answered, result, TURN], seed=3).encode())
        address = f"{theirs.base_url}chat/completions"
        return httpx.post(address, content=whole, timeout=120, headers=headers).status_code

    done = asked_through(work, tmp_path)
    assert (done.answer, len(done.metered)) == (200, 1)
    assert done.requests[0]["messages"][1]["tool_calls"] == [CALL]
