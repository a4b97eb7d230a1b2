"""Prices and bills by hand: of the table, of price files, of replies as providers send them."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from alps.llm.prices import ReplyTokens, entry_of, is_listed, price_of
from tests.desk import GOOD, Desk, always, chat, question
from tests.loopback import Answer, serve

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serial")


FILE = "model_prices_and_context_window_backup.json"
TABLE = json.loads((Path(find_spec("litellm").submodule_search_locations[0]) / FILE).read_bytes())
CHATS = {key: row for key, row in TABLE.items() if row.get("mode") == "chat"}
INPUT, OUTPUT = "input_cost_per_token", "output_cost_per_token"
REGIONAL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
CONVERSE = "anthropic.claude-sonnet-4-5-20250929-v1:0"

KNOWN = {
    "openai/gpt-4.1-mini": "gpt-4.1-mini",
    "openai/gpt-4.1-2025-04-14": "gpt-4.1-2025-04-14",
    "openai/gpt-5": "gpt-5",
    "anthropic/claude-sonnet-4-5": "claude-sonnet-4-5",
    "vertex_ai/gemini-2.5-pro": "gemini-2.5-pro",
    f"bedrock/{REGIONAL}": REGIONAL,
    f"bedrock/converse/{CONVERSE}": CONVERSE,
}
UNKNOWN = """
openai/gpt-9 openai/gpt-5-mini-2099-01-01 openai/o9 openai/gpt-5.9-turbo gpt-9 claude-opus-9
anthropic/claude-opus-9 anthropic/claude-sonnet-4-5-99991231 gemini/gemini-9-pro
vertex_ai/gemini-9-pro azure/gpt-9 azure/my-deployment bedrock/us.anthropic.claude-opus-9-v1:0
bedrock/converse/anthropic.claude-opus-9-v1:0 openrouter/openai/gpt-9 openrouter/openai/gpt-5
openrouter/anthropic/claude-opus-9 litellm_proxy/claude-opus-9 litellm_proxy/gpt-4.1-mini
anthropic/gpt-4.1-mini openai/claude-sonnet-4-5 huggingface/meta-llama/Llama-9-8B-Instruct
hosted_vllm/Qwen/Qwen9-8B ollama_chat/llama9 groq/llama-9-70b openai/my-local
"""
"""Among them a key of the table as openai/…, at another seller, and a name of a proxy's own."""


def test_names_of_the_table_have_their_exact_prices():
    for name, key in KNOWN.items():
        price, row = price_of(name), TABLE[key]
        rates = (price.rates.input, price.rates.output, price.max_output_tokens)
        assert rates == (row[INPUT], row[OUTPUT], row.get("max_output_tokens")), name
        bill = pytest.approx(1_000 * row[INPUT] + 100 * row[OUTPUT])
        assert price.cost(ReplyTokens(1_000, 100)) == bill, name


def test_what_the_table_does_not_price_has_no_price_and_not_one_of_nothing():
    free = [key for key, row in CHATS.items() if row.get(INPUT) == row.get(OUTPUT) == 0]
    assert len(free) > 20
    priced = [
        n
        for n in (*UNKNOWN.split(), *free)
        if price_of(n).rates or price_of(n).cost(ReplyTokens(9, 9))
    ]
    assert priced == []


def test_every_model_of_the_table_that_is_priced_by_token_is_known_by_its_own_key():
    priced = [key for key, row in CHATS.items() if row.get(INPUT) and row.get(OUTPUT)]
    assert len(priced) > 2_000
    strange = [key for key in priced if entry_of(key) is not TABLE[key]]
    assert [key for key in strange if price_of(key).rates.input != TABLE[key][INPUT]] == []


def test_which_names_litellm_knows_a_provider_of():
    listed = {"openai/any": True, "hosted_vllm/any": True, "nonsense/any": False}
    assert {name: is_listed(name) for name in listed} == listed


def cost(name: str, *used: int, service: str | None = None) -> float | None:
    return price_of(name).cost(ReplyTokens(*used, service=service))


MINI, SONNET, PRO = "openai/gpt-4.1-mini", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-pro"
QWEN = "dashscope/qwen-plus-2025-07-28"

# The bills are computed from the providers' price pages: dollars per million tokens times tokens.
# Here are those that no reply below asks for. Tokens: prompt, answer, cached, written, written for
# an hour, thought.
BY_HAND: dict[str, tuple[str, tuple[int, ...], str | None, float]] = {
    "default": ("openai/gpt-5", (10_000, 500), "default", 10_000 * 1.25 + 500 * 10),
    "batch of gemini": (PRO, (10_000, 500), "batch", 10_000 * 0.625 + 500 * 5),
    "batch without rates of its own": (
        *("mistral/mistral-large-latest", (10_000, 500), "batch"),
        10_000 * 0.25 + 500 * 0.75,
    ),
    "the same, above a threshold": (QWEN, (300_000, 1_000), "batch", 300_000 * 0.6 + 1_000 * 1.8),
    "regional and above": (
        *(f"bedrock/{REGIONAL}", (400_000, 1_000), None),
        400_000 * 6.6 + 1_000 * 24.75,
    ),
    "ranges, and thought that costs more": (
        *(QWEN, (300_000, 1_000, 0, 0, 0, 400), None),
        300_000 * 1.2 + 600 * 3.6 + 400 * 12,
    ),
}


@pytest.mark.parametrize(("name", "used", "service", "millionths"), BY_HAND.values(), ids=BY_HAND)
def test_a_bill_by_hand(name: str, used: tuple[int, ...], service: str | None, millionths: float):
    assert cost(name, *used, service=service) == pytest.approx(millionths / 1e6, rel=1e-12)


def test_a_dearer_way_of_being_served_without_a_price_is_unknown():
    assert price_of("dashscope/qwen-plus").rates
    assert cost("dashscope/qwen-plus", 1_000, 100, service="priority") is None


OWN = """
["openai/tiered"]
input = 1
cached_input = 0.25
cache_write = 1.5
output = 4
reasoning = 5
batch = { input = 0.5, output = 2 }
flex = { input = 0.6, output = 2.4, cached_input = 0.1 }
above = [{ tokens = 1_000, input = 2, output = 8 }, \
{ tokens = 5_000, input = 3, output = 9, cached_input = 1 }]

["openai/plain"]
input = 1
output = 4

["openai/free"]
input = 0
output = 0
"""


def test_a_price_file_says_the_same_kinds_of_rates(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("ALPS_PRICES", str(tmp_path / "prices.toml"))
    (tmp_path / "prices.toml").write_text(OWN)
    bills = [
        ((1_000, 100), None, 1_000 * 1 + 100 * 4),
        ((1_000, 100, 400, 100, 0, 30), None, 500 * 1 + 400 * 0.25 + 100 * 1.5 + 70 * 4 + 30 * 5),
        ((1_001, 100), None, 1_001 * 2 + 100 * 8),
        ((6_000, 100, 2_000), None, 4_000 * 3 + 2_000 * 1 + 100 * 9),
        ((6_000, 100), "batch", 6_000 * 0.5 + 100 * 2),
        ((1_000, 100, 400), "flex", 600 * 0.6 + 400 * 0.1 + 100 * 2.4),
    ]
    for used, service, millionths in bills:
        found = cost("openai/tiered", *used, service=service)
        assert found == pytest.approx(millionths / 1e6), (used, service)
    assert cost("openai/free", 1_000, 100) == 0.0
    assert cost("openai/plain", 1_000, 100, 400) == pytest.approx(1_400 / 1e6)


# Bills of replies as providers send them, through litellm


def openai(prompt: int, completion: int, tier: str | None = None, **more: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    whole = {**usage, "total_tokens": prompt + completion, **more}
    return chat(**({"service_tier": tier} if tier else {}), usage=whole)


def anthropic(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": prompt, "output_tokens": completion, **more}
    head = {"id": "msg", "type": "message", "role": "assistant", "model": "served"}
    content = [{"type": "text", "text": GOOD}]
    return {**head, "stop_reason": "end_turn", "content": content, "usage": usage}


def gemini(
    prompt: int, answered: int, thought: int, *, text: str = GOOD, **more: Any
) -> dict[str, Any]:
    content = {"parts": [{"text": text}], "role": "model"}
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": answered}
    usage = {**counts, "thoughtsTokenCount": thought, **more}
    whole = {**usage, "totalTokenCount": prompt + answered + thought}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": whole}


CACHED = {"prompt_tokens_details": {"cached_tokens": 8_000}}
THOUGHT = {"completion_tokens_details": {"reasoning_tokens": 4_000}}
HOUR = {"ephemeral_5m_input_tokens": 4_000, "ephemeral_1h_input_tokens": 5_000}
BESIDE = {"completion_tokens_details": {"reasoning_tokens": 400}, "total_tokens": 1_500}
HITS = {"prompt_cache_hit_tokens": 8_000, "prompt_cache_miss_tokens": 2_000}
WRITES = {"cache_creation_input_tokens": 9_000}

BILLS: dict[str, tuple[str, dict[str, Any], float | None]] = {
    "plain": (MINI, openai(10_000, 500), 10_000 * 0.4 + 500 * 1.6),
    "cached": (MINI, openai(10_000, 500, **CACHED), 2_000 * 0.4 + 8_000 * 0.1 + 500 * 1.6),
    "reasoning": ("openai/gpt-5", openai(10_000, 4_500, **THOUGHT), 10_000 * 1.25 + 4_500 * 10),
    "flex": ("openai/o3", openai(10_000, 500, "flex"), 10_000 * 1 + 500 * 4),
    "flex and cached": (
        *("openai/gpt-5", openai(10_000, 500, "flex", **CACHED)),
        2_000 * 0.625 + 8_000 * 0.0625 + 500 * 5,
    ),
    "priority": (MINI, openai(10_000, 500, "priority"), 10_000 * 0.7 + 500 * 2.8),
    "batch": (MINI, openai(10_000, 500, "batch"), 10_000 * 0.2 + 500 * 0.8),
    "deepseek": (
        *("deepseek/deepseek-chat", openai(10_000, 500, **HITS)),
        2_000 * 0.28 + 8_000 * 0.028 + 500 * 0.42,
    ),
    "cache read": (
        *(SONNET, anthropic(1_000, 500, cache_read_input_tokens=9_000)),
        1_000 * 3 + 9_000 * 0.3 + 500 * 15,
    ),
    "cache write": (
        *(SONNET, anthropic(1_000, 500, **WRITES)),
        1_000 * 3 + 9_000 * 3.75 + 500 * 15,
    ),
    "cache write for an hour": (
        *(SONNET, anthropic(1_000, 500, **WRITES, cache_creation=HOUR)),
        1_000 * 3 + 4_000 * 3.75 + 5_000 * 6 + 500 * 15,
    ),
    "at the threshold of the tier": (PRO, gemini(200_000, 2_000, 500), 200_000 * 1.25 + 2_500 * 10),
    "above the tier": (PRO, gemini(300_000, 2_000, 500), 300_000 * 2.5 + 2_500 * 15),
    "above the tier and cached": (
        *(PRO, gemini(300_000, 2_000, 500, cachedContentTokenCount=100_000)),
        200_000 * 2.5 + 100_000 * 0.25 + 2_500 * 15,
    ),
    "thought beside the answer": (MINI, openai(1_000, 100, **BESIDE), 1_000 * 0.4 + 500 * 1.6),
    "thought beside the answer, which litellm adds": (
        *("xai/grok-4.3", openai(1_000, 100, **BESIDE)),
        1_000 * 1.25 + 500 * 2.5,
    ),
    "newer than the table": ("anthropic/claude-opus-9", anthropic(1_000, 500), None),
    "another seller": ("openrouter/openai/gpt-9", openai(1_000, 100, cost=0.0123), None),
    "a proxy": ("litellm_proxy/gpt-4.1-mini", openai(1_000, 100), None),
}
SELLERS = ("OPENAI", "ANTHROPIC", "GEMINI", "DEEPSEEK", "XAI", "OPENROUTER", "LITELLM_PROXY")


@pytest.mark.parametrize(("model", "body", "millionths"), BILLS.values(), ids=BILLS)
def test_the_ledger_equals_the_bill_by_hand(desk: Desk, monkeypatch, model, body, millionths):
    for seller in SELLERS:
        monkeypatch.setenv(f"{seller}_API_KEY", "an-ordinary-looking-word")
    claimed = {"x-litellm-response-cost": "9"}
    with serve(always(Answer(body=json.dumps(body), headers=claimed))) as server:
        is_root = model.startswith(("anthropic", "gemini"))
        api_base = server.url.removesuffix("/v1") if is_root else server.url
        asked = question(server, model=model, answer=None, api_base=api_base)
        assert desk.ask(asked).outcome == "ok"
    (row,) = desk.rows
    expected = None if millionths is None else pytest.approx(millionths / 1e6, rel=1e-12)
    assert row["cost"] == expected
    assert desk.totals.unpriced == (millionths is None)
    assert desk.totals.cost == (row["cost"] or 0)
