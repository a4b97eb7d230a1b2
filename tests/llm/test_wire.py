"""What each provider is asked by an LLM judge, captured on loopback in its own wire format.

A judge relates two memories through the whole client, once a provider, with a key made up for it
and the address that the provider's documentation names: `judge_api_base=`, or a variable of the
environment.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from alps.judges.base import Item, MatchQuestion
from alps.keys import AskSettings
from alps.llm.cache import cache_key
from alps.llm.ledger import Ledger
from alps.llm.provider import marked
from alps.llm.types import Request
from alps.run.services import open_judge
from alps.run.session import effective_judge
from alps.settings import parse_words
from tests.conftest import ROOT
from tests.desk import chat
from tests.llm.test_prices import SONNET, anthropic, gemini
from tests.loopback import Answer, LoopbackServer, serve

KEY = "sk-canary-of-the-wire-table"
SIGNED = "AKIAWIRETABLE0000000"
PAIR = {"reason": "The same city.", "gold": "g1", "predicted": "p1", "relation": "same"}
ANSWER = {"pairs": [PAIR]}
QUESTION = MatchQuestion(
    gold=[Item("g1", "Lives in Lyon", "direct", "Personal_Background", None)],
    predicted=[Item("p1", "Is at home in Lyon", None, "", None)],
)
NOT_OURS = (
    *("OPENAI_", "ANTHROPIC_", "AZURE_", "AWS_", "GEMINI_", "GOOGLE_", "OLLAMA_", "OPENROUTER_"),
    "LITELLM_",
)


@dataclass(frozen=True)
class Provider:
    """A provider to be asked.

    Attributes:
        name: Of its row.
        model: What `judge=` takes.
        environment: Its credentials, and where it is asked; `{url}` is the server.
        words: Settings of the judge beside its name.
        key: What must arrive in a header.
    """

    name: str
    model: str
    environment: Mapping[str, str]
    words: tuple[str, ...] = ("judge_api_base={url}/v1",)
    key: str = KEY


AT_THE_ROOT = ("judge_api_base={url}",)
OPENAI, ANTHROPIC = {"OPENAI_API_KEY": KEY}, {"ANTHROPIC_API_KEY": KEY}
OPENROUTER, GROQ = {"OPENROUTER_API_KEY": KEY}, {"GROQ_API_KEY": KEY}
AZURE = {"AZURE_API_KEY": KEY, "AZURE_API_VERSION": "2025-01-01-preview"}
AWS = {"AWS_REGION_NAME": "us-east-1", "AWS_BEDROCK_RUNTIME_ENDPOINT": "{url}"}
BEARER = {**AWS, "AWS_BEARER_TOKEN_BEDROCK": KEY}
KEYS = {**AWS, "AWS_ACCESS_KEY_ID": SIGNED, "AWS_SECRET_ACCESS_KEY": "x" * 40}
CONVERSED = "bedrock/converse/us.anthropic.claude-sonnet-4-5-20250929-v1:0"
INVOKED = "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0"
GEMINI = {"GEMINI_API_KEY": KEY, "GEMINI_API_BASE": "{url}"}
OLLAMA = {"OLLAMA_API_KEY": KEY, "OLLAMA_API_BASE": "{url}"}
TOGETHER = "together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo"
EFFORT = ("judge_reasoning_effort=high",)
PROVIDERS = (
    Provider("openai", "openai/gpt-4.1-mini", {**OPENAI, "OPENAI_BASE_URL": "{url}/v1"}, ()),
    Provider("openai, reasoning", "openai/o3", OPENAI),
    Provider("openai, reasoning", "openai/gpt-5-mini", OPENAI),
    Provider("openai, own server", "openai/mine", {}, key="not-needed"),
    Provider("azure", "azure/gpt-4.1", AZURE, AT_THE_ROOT),
    Provider("azure, reasoning", "azure/o3", {**AZURE, "AZURE_API_BASE": "{url}"}, ()),
    Provider("azure, Entra", "azure/gpt-4.1", {"AZURE_AD_TOKEN": KEY}, AT_THE_ROOT),
    Provider("anthropic, new", SONNET, ANTHROPIC, AT_THE_ROOT),
    Provider("anthropic, thinking", SONNET, {**ANTHROPIC, "ANTHROPIC_BASE_URL": "{url}"}, EFFORT),
    Provider("anthropic, old", "anthropic/claude-3-haiku-20240307", ANTHROPIC, AT_THE_ROOT),
    Provider("anthropic, unlisted", "anthropic/claude-opus-9", ANTHROPIC, AT_THE_ROOT),
    Provider("gemini", "gemini/gemini-2.5-flash", GEMINI, ()),
    Provider("bedrock, bearer", CONVERSED, BEARER, ()),
    Provider("bedrock, signed", INVOKED, KEYS, (), SIGNED),
    Provider("groq", "groq/llama-3.3-70b-versatile", {**GROQ, "GROQ_API_BASE": "{url}/v1"}, ()),
    Provider("groq", "groq/openai/gpt-oss-120b", GROQ),
    Provider("deepseek", "deepseek/deepseek-chat", {"DEEPSEEK_API_KEY": KEY}),
    Provider("ollama", "ollama_chat/qwen3", OLLAMA, ()),
    Provider("openrouter", "openrouter/anthropic/claude-sonnet-4.5", OPENROUTER),
    Provider("openrouter, reasoning", "openrouter/openai/gpt-5", OPENROUTER),
    Provider("hosted_vllm", "hosted_vllm/Qwen/Qwen3-8B", {"HOSTED_VLLM_API_KEY": KEY}),
    Provider("litellm_proxy", "litellm_proxy/gpt-4.1", {"LITELLM_PROXY_API_KEY": KEY}),
    Provider("together_ai", TOGETHER, {"TOGETHER_API_KEY": KEY}),
    Provider("perplexity", "perplexity/sonar", {"PERPLEXITY_API_KEY": KEY}),
)


def reply_of(path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the answer in the format of the provider that is asked at `path`: through the tool
    that it was given, or as text.
    """
    text = json.dumps(ANSWER)
    if path.endswith("/messages"):
        content, reason = {"type": "text", "text": text}, "end_turn"
        for tool in body.get("tools", ()):
            content = {"type": "tool_use", "id": "t1", "name": tool["name"], "input": ANSWER}
            reason = "tool_use"
        return {**anthropic(900, 30), "content": [content], "stop_reason": reason}
    if ":generateContent" in path:
        return gemini(900, 30, 0, text=text)
    if path.endswith("/converse"):
        content, reason = {"text": text}, "end_turn"
        for tool in body.get("toolConfig", {}).get("tools", ()):
            used = {"toolUseId": "t1", "name": tool["toolSpec"]["name"], "input": ANSWER}
            content, reason = {"toolUse": used}, "tool_use"
        usage = {"inputTokens": 900, "outputTokens": 30, "totalTokens": 930}
        message = {"role": "assistant", "content": [content]}
        return {"output": {"message": message}, "stopReason": reason, "usage": usage}
    if path.endswith("/api/chat"):
        message = {"role": "assistant", "content": text}
        used = {"prompt_eval_count": 900, "eval_count": 30}
        return {"model": "m", "message": message, "done": True, **used}
    if tools := body.get("tools"):
        function = {"name": tools[0]["function"]["name"], "arguments": text}
        calls = [{"id": "t1", "type": "function", "function": function}]
        said = {"tool_calls": calls}
        return chat(None, finish_reason="tool_calls", said=said, service_tier="default")
    return chat(text, service_tier="default")


@dataclass(frozen=True)
class Row:
    """What one provider was asked first, and what came of it."""

    provider: Provider
    outcome: str
    error: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Row]]:
    def script(body: dict[str, Any]) -> Answer:
        path = server.paths[-1]
        if path.endswith("/api/show"):  # litellm looks up what a model of Ollama can do
            return Answer(status=404, body='{"error": "not found"}')
        return Answer(body=json.dumps(reply_of(path, body)))

    calls = tmp_path_factory.mktemp("asked") / "calls.jsonl"
    with serve(script, admitted=False) as server:
        yield [asked(provider, server, calls) for provider in PROVIDERS]


def asked(provider: Provider, server: LoopbackServer, calls: Path) -> Row:
    """Let the judge of a provider relate two memories, with its credentials and nobody else's."""
    began, url, ledger = len(server.requests), server.url.removesuffix("/v1"), Ledger(calls)
    words = [f"judge={provider.model}", *provider.words, "timeout=20", "patience=20"]
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(NOT_OURS) or name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL")):
                patch.delenv(name)
        own = {"ALPS_CACHE": "off", "AWS_EC2_METADATA_DISABLED": "true", **provider.environment}
        for name, value in own.items():
            patch.setenv(name, value.replace("{url}", url))
        try:
            words = [word.replace("{url}", url) for word in words]
            settings = effective_judge(parse_words(words, AskSettings))
            outcome, error = asyncio.run(_judged(settings, ledger))
        except Exception as failure:  # a row for whatever goes wrong
            outcome, error = type(failure).__name__, str(failure)
        finally:
            ledger.close()
    came = zip(server.paths, server.headers, server.requests, strict=True)
    chats = [one for one in list(came)[began:] if not one[0].endswith("/api/show")]
    path, headers, body = chats[0] if chats else ("", {}, {})
    return Row(provider, outcome, error, path, headers, body)


async def _judged(settings: AskSettings, ledger: Ledger) -> tuple[str, str]:
    async with aclosing(open_judge(settings, ledger)) as services:
        judgement = await services.judge.answer(QUESTION, about="wire")
        return judgement.outcome, judgement.error or ""


IMPORTED_TWICE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from alps.llm.wire import libraries
from alps.llm.provider import send
from alps.llm.types import Request
from tests.loopback import asked_over_http

together = Barrier(2)

def imported(number):
    together.wait()
    libraries()

with ThreadPoolExecutor() as threads:
    list(threads.map(imported, range(2)))
request = Request(model="openai/tiny", messages=(), answer=None, api_base=sys.argv[1])
print(asked_over_http(send(request, [{"role": "user", "content": "x"}])).text)
"""


@pytest.mark.release
def test_a_reply_is_read_where_two_threads_imported_the_libraries_at_once():
    reply = {"choices": [{"message": {"role": "assistant", "content": "heard"}}]}
    with serve(lambda _: Answer(body=json.dumps(reply))) as server:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", IMPORTED_TWICE, server.url],
            env={**os.environ, "OPENAI_API_KEY": "none"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stdout == "heard\n", done.stderr


def of(rows: list[Row], name: str) -> Row:
    """Return the first row of a name."""
    return next(row for row in rows if row.provider.name == name)


def test_every_provider_is_asked_in_its_own_format_with_its_own_key_and_heard(rows: list[Row]):
    failed = [row for row in rows if row.outcome != "ok"]
    assert {row.provider.model: (row.outcome, row.error) for row in failed} == {}
    for row in rows:
        key, sent = row.provider.key, list(row.headers.values())
        assert any(key in value for value in sent) or key in row.path, row.provider
        assert key == "not-needed" or "not-needed" not in str(sent), row.provider


def temperature_of(body: Mapping[str, Any]) -> str:
    """Return the temperature that was sent, wherever the provider wants it, or none."""
    places = (body, *(body.get(key) for key in ("generationConfig", "inferenceConfig", "options")))
    sent = (place["temperature"] for place in places if "temperature" in (place or {}))
    return next((f"{value:g}" for value in sent), "none")


def test_only_models_that_take_it_are_sent_a_temperature(rows: list[Row]):
    for row in rows:
        takes_none = row.provider.name.endswith(("reasoning", "thinking", "unlisted"))
        assert temperature_of(row.body) == ("none" if takes_none else "0"), row.provider


def test_the_shared_beginning_is_marked_where_anthropic_keeps_it_and_nowhere_else(rows: list[Row]):
    mark = {"type": "ephemeral"}
    (block,) = of(rows, "anthropic, new").body["system"]
    assert (block["type"], block["cache_control"]) == ("text", mark)
    assert of(rows, "bedrock, bearer").body["system"][1] == {"cachePoint": {"type": "default"}}
    (routed,) = of(rows, "openrouter").body["messages"][0]["content"]
    assert routed["cache_control"] == mark
    for row in rows:
        if "claude" not in row.provider.model:
            text = json.dumps(row.body)
            assert "cache_control" not in text, row.provider.model
            assert "cachePoint" not in text, row.provider.model


def test_an_unlisted_anthropic_model_may_answer_at_length_and_azure_is_told_its_version(rows):
    longest = {"unlisted": 32_000, "old": 4_096, "new": 64_000}
    for name, tokens in longest.items():
        assert of(rows, f"anthropic, {name}").body["max_tokens"] == tokens, name
    assert of(rows, "azure").path.endswith("?api-version=2025-01-01-preview")


def test_the_mark_is_put_on_when_a_request_is_sent_and_is_no_part_of_its_key():
    messages = ({"role": "system", "content": "Judge."},)
    request = Request(SONNET, messages, None)
    before = cache_key(request)
    (sent,) = marked(request.messages, request.model)
    assert sent["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert request.messages == ({"role": "system", "content": "Judge."},)
    assert cache_key(request) == before
