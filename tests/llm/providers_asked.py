"""What each provider is asked by an LLM judge, captured by a server on loopback.

It answers in the wire formats of the providers, and keeps what it was asked. A judge relates two
memories through the whole client, once a provider, with a key made up for it and the address that
the provider's documentation names: `judge_api_base=`, or a variable of the environment.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from alps.judges.matching import Item, MatchQuestion
from alps.keys import AskSettings
from alps.llm.ledger import Ledger
from alps.parsing import parse_words
from alps.run.services import closing, open_judge
from alps.run.session import effective_judge
from tests.loopback import running

KEY = "sk-canary-of-the-wire-table"
SIGNED = "AKIAWIRETABLE0000000"
ANSWER = {
    "pairs": [{"reason": "The same city.", "gold": "g1", "predicted": "p1", "relation": "same"}]
}
QUESTION = MatchQuestion(
    gold=[Item("g1", "Lives in Lyon", "direct", "Personal_Background", None)],
    predicted=[Item("p1", "Is at home in Lyon", None, "", None)],
)
NOT_OURS = (
    "OPENAI_",
    "ANTHROPIC_",
    "AZURE_",
    "AWS_",
    "GEMINI_",
    "GOOGLE_",
    "OLLAMA_",
    "OPENROUTER_",
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


@dataclass(frozen=True)
class Captured:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """What one provider was asked, and whether it was heard."""

    provider: Provider
    outcome: str
    error: str
    asked: Captured | None


AT_THE_ROOT = ("judge_api_base={url}",)
AZURE = {"AZURE_API_KEY": KEY, "AZURE_API_VERSION": "2025-01-01-preview"}
AWS = {"AWS_REGION_NAME": "us-east-1", "AWS_BEDROCK_RUNTIME_ENDPOINT": "{url}"}
BEARER = {**AWS, "AWS_BEARER_TOKEN_BEDROCK": KEY}
KEYS = {**AWS, "AWS_ACCESS_KEY_ID": SIGNED, "AWS_SECRET_ACCESS_KEY": "x" * 40}
CONVERSED = "bedrock/converse/us.anthropic.claude-sonnet-4-5-20250929-v1:0"
PROVIDERS = (
    Provider(
        "openai", "openai/gpt-4.1-mini", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}/v1"}, ()
    ),
    Provider("openai, reasoning", "openai/o3", {"OPENAI_API_KEY": KEY}),
    Provider("openai, reasoning", "openai/gpt-5-mini", {"OPENAI_API_KEY": KEY}),
    Provider("openai, own server", "openai/mine", {}, key="not-needed"),
    Provider("azure", "azure/gpt-4.1", AZURE, AT_THE_ROOT),
    Provider("azure, reasoning", "azure/o3", {**AZURE, "AZURE_API_BASE": "{url}"}, ()),
    Provider("azure, Entra", "azure/gpt-4.1", {"AZURE_AD_TOKEN": KEY}, AT_THE_ROOT),
    Provider(
        "anthropic, new", "anthropic/claude-sonnet-4-5", {"ANTHROPIC_API_KEY": KEY}, AT_THE_ROOT
    ),
    Provider(
        "anthropic, thinking",
        "anthropic/claude-sonnet-4-5",
        {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "{url}"},
        ("judge_reasoning_effort=high",),
    ),
    Provider(
        "anthropic, old",
        "anthropic/claude-3-haiku-20240307",
        {"ANTHROPIC_API_KEY": KEY},
        AT_THE_ROOT,
    ),
    Provider(
        "anthropic, unlisted", "anthropic/claude-opus-9", {"ANTHROPIC_API_KEY": KEY}, AT_THE_ROOT
    ),
    Provider(
        "gemini", "gemini/gemini-2.5-flash", {"GEMINI_API_KEY": KEY, "GEMINI_API_BASE": "{url}"}, ()
    ),
    Provider("bedrock, bearer", CONVERSED, BEARER, ()),
    Provider(
        "bedrock, signed", "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", KEYS, (), SIGNED
    ),
    Provider(
        "groq",
        "groq/llama-3.3-70b-versatile",
        {"GROQ_API_KEY": KEY, "GROQ_API_BASE": "{url}/v1"},
        (),
    ),
    Provider("groq", "groq/openai/gpt-oss-120b", {"GROQ_API_KEY": KEY}),
    Provider("deepseek", "deepseek/deepseek-chat", {"DEEPSEEK_API_KEY": KEY}),
    Provider(
        "ollama", "ollama_chat/qwen3", {"OLLAMA_API_KEY": KEY, "OLLAMA_API_BASE": "{url}"}, ()
    ),
    Provider("openrouter", "openrouter/anthropic/claude-sonnet-4.5", {"OPENROUTER_API_KEY": KEY}),
    Provider("openrouter, reasoning", "openrouter/openai/gpt-5", {"OPENROUTER_API_KEY": KEY}),
    Provider("hosted_vllm", "hosted_vllm/Qwen/Qwen3-8B", {"HOSTED_VLLM_API_KEY": KEY}),
    Provider("litellm_proxy", "litellm_proxy/gpt-4.1", {"LITELLM_PROXY_API_KEY": KEY}),
    Provider(
        "together_ai",
        "together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo",
        {"TOGETHER_API_KEY": KEY},
    ),
    Provider("perplexity", "perplexity/sonar", {"PERPLEXITY_API_KEY": KEY}),
)


class Server(ThreadingHTTPServer):
    """Answers each request in the wire format of the provider that its path is of.

    `asked` holds them in order.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[Captured] = []

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path.endswith("/api/show"):  # litellm looks up what a model of Ollama can do
            self._answer(404, {"error": "not found"})
            return
        self.server.asked.append(Captured(self.path, dict(self.headers), body))
        self._answer(200, reply_of(self.path, body))

    def _answer(self, status: int, content: Mapping[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


def reply_of(path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the answer in the format of the provider that is asked at `path`."""
    text = json.dumps(ANSWER)
    if path.endswith(("/messages", "/invoke")):
        tools = body.get("tools") or ()
        used = (
            {"type": "tool_use", "id": "t1", "name": tools[0]["name"], "input": ANSWER}
            if tools
            else None
        )
        content = used or {"type": "text", "text": text}
        usage = {"input_tokens": 900, "output_tokens": 30}
        about = {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "claude"),
        }
        return {
            **about,
            "content": [content],
            "stop_reason": "tool_use" if tools else "end_turn",
            "usage": usage,
        }
    if ":generateContent" in path:
        used_tokens = {"promptTokenCount": 900, "candidatesTokenCount": 30, "totalTokenCount": 930}
        content = {"role": "model", "parts": [{"text": text}]}
        return {
            "candidates": [{"content": content, "finishReason": "STOP"}],
            "usageMetadata": used_tokens,
        }
    if path.endswith("/converse"):
        tools = body.get("toolConfig", {}).get("tools") or ()
        named = tools[0]["toolSpec"]["name"] if tools else ""
        content = (
            {"toolUse": {"toolUseId": "t1", "name": named, "input": ANSWER}}
            if tools
            else {"text": text}
        )
        usage = {"inputTokens": 900, "outputTokens": 30, "totalTokens": 930}
        message = {"message": {"role": "assistant", "content": [content]}}
        return {
            "output": message,
            "stopReason": "tool_use" if tools else "end_turn",
            "usage": usage,
        }
    if path.endswith("/api/chat"):
        message = {"role": "assistant", "content": text}
        return {
            "model": "m",
            "message": message,
            "done": True,
            "prompt_eval_count": 900,
            "eval_count": 30,
        }
    return _openai(text, body)


def _openai(text: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    tools = body.get("tools") or ()
    message: dict[str, Any] = {"role": "assistant", "content": None if tools else text}
    if tools:
        function = {"name": tools[0]["function"]["name"], "arguments": text}
        message["tool_calls"] = [{"id": "t1", "type": "function", "function": function}]
    choice = {"index": 0, "finish_reason": "tool_calls" if tools else "stop", "message": message}
    usage = {"prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930}
    about = {"id": "c1", "object": "chat.completion", "created": 0, "model": body.get("model", "m")}
    return {**about, "service_tier": "default", "choices": [choice], "usage": usage}


def temperature_of(body: Mapping[str, Any]) -> str:
    """Return the temperature that was sent, wherever the provider wants it, or none."""
    places = (body, body.get("generationConfig"), body.get("inferenceConfig"), body.get("options"))
    sent = (
        place["temperature"]
        for place in places
        if isinstance(place, Mapping) and "temperature" in place
    )
    return next((f"{value:g}" for value in sent), "none")


def key_of(asked: Captured, key: str) -> str:
    """Return the header that the key came in, or what came instead."""
    for name, value in asked.headers.items():
        if key in value:
            return name.lower()
    return "query" if key in asked.path else "did not come"


@contextmanager
def environment(provider: Provider, url: str) -> Iterator[None]:
    """Set the credentials of a provider, and nobody else's."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(NOT_OURS) or name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL")):
            del os.environ[name]
    given = {name: value.replace("{url}", url) for name, value in provider.environment.items()}
    os.environ.update({"ALPS_CACHE": "off", "AWS_EC2_METADATA_DISABLED": "true", **given})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def asked(provider: Provider, server: Server) -> Row:
    """Let the judge of a provider relate two memories."""
    server.asked.clear()
    words = [
        f"judge={provider.model}",
        *(word.replace("{url}", server.url) for word in provider.words),
    ]
    with environment(provider, server.url), tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "calls.jsonl")
        try:
            settings = effective_judge(parse_words([*words, "timeout=20"], AskSettings))
            outcome, error = asyncio.run(_judged(settings, ledger))
        except Exception as failure:  # a row for whatever goes wrong
            outcome, error = type(failure).__name__, str(failure)
        finally:
            ledger.close()
    return Row(provider, outcome, error, server.asked[0] if server.asked else None)


async def _judged(settings: AskSettings, ledger: Ledger) -> tuple[str, str]:
    async with closing(open_judge(settings, ledger)) as services:
        judgement = await services.judge.answer(QUESTION, about="wire")
        return judgement.outcome, judgement.error or ""


def measure() -> list[Row]:
    """Ask every provider."""
    with running(Server()) as server:
        return [asked(provider, server) for provider in PROVIDERS]
