"""Bills of replies as providers send them, through litellm: the ledger says what their price pages
give by hand.
"""

import json
from typing import Any

import pytest

from alps.llm import Request
from tests.desk import GOOD, Desk
from tests.loopback import Answer, serve

pytestmark = [
    pytest.mark.filterwarnings(r"ignore:Item '\w+' on TypedDict class:UserWarning"),
    pytest.mark.filterwarnings("ignore:Pydantic serial"),
]

ASKED = ({"role": "user", "content": "Chess?"},)


def openai(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": GOOD},
    }
    tier = {"service_tier": more.pop("service_tier")} if "service_tier" in more else {}
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        **more,
    }
    head = {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "served",
        "choices": [choice],
    }
    return {**head, **tier, "usage": usage}


def anthropic(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": prompt, "output_tokens": completion, **more}
    content = [{"type": "text", "text": GOOD}]
    head = {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "model": "served",
        "stop_reason": "end_turn",
    }
    return {**head, "content": content, "usage": usage}


def gemini(prompt: int, answered: int, thought: int, **more: Any) -> dict[str, Any]:
    content = {"parts": [{"text": GOOD}], "role": "model"}
    counts = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": answered,
        "thoughtsTokenCount": thought,
    }
    usage = {**counts, "totalTokenCount": prompt + answered + thought, **more}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage,
    }


CACHED = {"prompt_tokens_details": {"cached_tokens": 8_000}}
THOUGHT = {"completion_tokens_details": {"reasoning_tokens": 4_000}}
HOUR = {"ephemeral_5m_input_tokens": 4_000, "ephemeral_1h_input_tokens": 5_000}

BILLS = {
    "plain": ("openai/gpt-4.1-mini", openai(10_000, 500), 10_000 * 0.4 + 500 * 1.6),
    "cached": (
        "openai/gpt-4.1-mini",
        openai(10_000, 500, **CACHED),
        2_000 * 0.4 + 8_000 * 0.1 + 500 * 1.6,
    ),
    "reasoning": ("openai/gpt-5", openai(10_000, 4_500, **THOUGHT), 10_000 * 1.25 + 4_500 * 10),
    "flex": ("openai/o3", openai(10_000, 500, service_tier="flex"), 10_000 * 1 + 500 * 4),
    "flex and cached": (
        "openai/gpt-5",
        openai(10_000, 500, service_tier="flex", **CACHED),
        2_000 * 0.625 + 8_000 * 0.0625 + 500 * 5,
    ),
    "priority": (
        "openai/gpt-4.1-mini",
        openai(10_000, 500, service_tier="priority"),
        10_000 * 0.7 + 500 * 2.8,
    ),
    "batch": (
        "openai/gpt-4.1-mini",
        openai(10_000, 500, service_tier="batch"),
        10_000 * 0.2 + 500 * 0.8,
    ),
    "deepseek": (
        "deepseek/deepseek-chat",
        openai(10_000, 500, prompt_cache_hit_tokens=8_000, prompt_cache_miss_tokens=2_000),
        2_000 * 0.28 + 8_000 * 0.028 + 500 * 0.42,
    ),
    "cache read": (
        "anthropic/claude-sonnet-4-5",
        anthropic(1_000, 500, cache_read_input_tokens=9_000),
        1_000 * 3 + 9_000 * 0.3 + 500 * 15,
    ),
    "cache write": (
        "anthropic/claude-sonnet-4-5",
        anthropic(1_000, 500, cache_creation_input_tokens=9_000),
        1_000 * 3 + 9_000 * 3.75 + 500 * 15,
    ),
    "cache write for an hour": (
        "anthropic/claude-sonnet-4-5",
        anthropic(1_000, 500, cache_creation_input_tokens=9_000, cache_creation=HOUR),
        1_000 * 3 + 4_000 * 3.75 + 5_000 * 6 + 500 * 15,
    ),
    "below the tier": (
        "gemini/gemini-2.5-pro",
        gemini(200_000, 2_000, 500),
        200_000 * 1.25 + 2_500 * 10,
    ),
    "above the tier": (
        "gemini/gemini-2.5-pro",
        gemini(300_000, 2_000, 500),
        300_000 * 2.5 + 2_500 * 15,
    ),
    "above the tier and cached": (
        "gemini/gemini-2.5-pro",
        gemini(300_000, 2_000, 500, cachedContentTokenCount=100_000),
        200_000 * 2.5 + 100_000 * 0.25 + 2_500 * 15,
    ),
    "thought beside the answer": (
        "xai/grok-4.3",
        {
            **openai(1_000, 100),
            "usage": {
                "prompt_tokens": 1_000,
                "completion_tokens": 100,
                "total_tokens": 1_500,
                "completion_tokens_details": {"reasoning_tokens": 400},
            },
        },
        1_000 * 1.25 + 500 * 2.5,
    ),
    "newer than the table": ("anthropic/claude-opus-9", anthropic(1_000, 500), None),
    "another seller": ("openrouter/openai/gpt-9", openai(1_000, 100, cost=0.0123), None),
    "a proxy": ("litellm_proxy/gpt-4.1-mini", openai(1_000, 100), None),
}


@pytest.mark.parametrize(("model", "body", "millionths"), BILLS.values(), ids=BILLS)
def test_the_ledger_equals_the_bill_by_hand(
    tmp_path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    body: dict[str, Any],
    millionths: float | None,
):
    for provider in (
        "OPENAI",
        "ANTHROPIC",
        "GEMINI",
        "DEEPSEEK",
        "XAI",
        "OPENROUTER",
        "LITELLM_PROXY",
    ):
        monkeypatch.setenv(f"{provider}_API_KEY", "an-ordinary-looking-word")
    desk = Desk(tmp_path)
    with serve(
        lambda _: Answer(body=json.dumps(body), headers={"x-litellm-response-cost": "9"})
    ) as server:
        address = (
            server.url
            if model.startswith(("openai", "deepseek", "xai", "openrouter", "litellm"))
            else None
        )
        api_base = address or server.url.removesuffix("/v1")
        assert desk.ask(Request(model, ASKED, None, api_base=api_base)).outcome == "ok"
    (row,) = desk.rows
    expected = None if millionths is None else pytest.approx(millionths / 1e6, rel=1e-12)
    assert row["cost"] == expected
    assert desk.totals.unpriced == (millionths is None)
