import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from alps.llm.prices import Used, entry_of, is_listed, price_of
from tests.endtoend import environment, extraction, run, summary
from tests.loopback import serve
from tests.visitors import good, write_visitors

FILE = "model_prices_and_context_window_backup.json"
TABLE = json.loads((Path(find_spec("litellm").submodule_search_locations[0]) / FILE).read_bytes())
INPUT, OUTPUT = "input_cost_per_token", "output_cost_per_token"

KNOWN = {
    "openai/gpt-4.1-mini": "gpt-4.1-mini",
    "gpt-4.1-mini": "gpt-4.1-mini",
    "openai/gpt-4.1-2025-04-14": "gpt-4.1-2025-04-14",
    "openai/gpt-5": "gpt-5",
    "openai/gpt-5-mini": "gpt-5-mini",
    "openai/o3": "o3",
    "openai/gpt-4o": "gpt-4o",
    "anthropic/claude-sonnet-4-5": "claude-sonnet-4-5",
    "claude-sonnet-4-5": "claude-sonnet-4-5",
    "gemini/gemini-2.5-pro": "gemini/gemini-2.5-pro",
    "vertex_ai/gemini-2.5-pro": "gemini-2.5-pro",
    "azure/gpt-5": "azure/gpt-5",
    "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0": (
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    ),
    "bedrock/converse/anthropic.claude-sonnet-4-5-20250929-v1:0": (
        "anthropic.claude-sonnet-4-5-20250929-v1:0"
    ),
    "deepseek/deepseek-chat": "deepseek/deepseek-chat",
    "dashscope/qwen-plus": "dashscope/qwen-plus",
    "mistral/mistral-large-latest": "mistral/mistral-large-latest",
    "groq/openai/gpt-oss-120b": "groq/openai/gpt-oss-120b",
}
UNKNOWN = [
    "openai/gpt-9",
    "openai/gpt-5-mini-2099-01-01",
    "openai/o9",
    "openai/gpt-5.9-turbo",
    "gpt-9",
    "anthropic/claude-opus-9",
    "anthropic/claude-sonnet-4-5-99991231",
    "claude-opus-9",
    "gemini/gemini-9-pro",
    "vertex_ai/gemini-9-pro",
    "azure/gpt-9",
    "azure/my-deployment",
    "bedrock/us.anthropic.claude-opus-9-v1:0",
    "bedrock/converse/anthropic.claude-opus-9-v1:0",
    "openrouter/openai/gpt-9",
    "openrouter/openai/gpt-5",  # a key of the table as openai/…, but another seller's price
    "openrouter/anthropic/claude-opus-9",
    "litellm_proxy/claude-opus-9",
    "litellm_proxy/gpt-4.1-mini",  # a name of the proxy's own
    "anthropic/gpt-4.1-mini",
    "openai/claude-sonnet-4-5",
    "huggingface/meta-llama/Llama-9-8B-Instruct",
    "hosted_vllm/Qwen/Qwen9-8B",
    "ollama_chat/llama9",
    "groq/llama-9-70b",
    "openai/my-local",
]
FREE = [
    key
    for key, row in TABLE.items()
    if row.get("mode") == "chat" and row.get(INPUT) == row.get(OUTPUT) == 0
]


def test_there_are_forty_names():
    assert len(KNOWN) + len(UNKNOWN) >= 40
    assert len(FREE) > 20


@pytest.mark.parametrize(("name", "key"), KNOWN.items())
def test_a_name_of_the_table_has_its_exact_price(name: str, key: str):
    price, row = price_of(name), TABLE[key]
    assert (price.input, price.output) == (row[INPUT], row[OUTPUT])
    assert price.max_output_tokens == row.get("max_output_tokens")
    assert price.cost(1_000, 100) == pytest.approx(1_000 * row[INPUT] + 100 * row[OUTPUT])


@pytest.mark.parametrize("name", [*UNKNOWN, *FREE])
def test_what_the_table_does_not_price_has_no_price_and_not_one_of_nothing(name: str):
    price = price_of(name)
    assert not price.known
    assert price.cost(1_000, 100) is None


def test_every_model_of_the_table_that_is_priced_by_token_is_known_by_its_own_key():
    priced = [
        key
        for key, row in TABLE.items()
        if row.get("mode") == "chat" and row.get(INPUT) and row.get(OUTPUT)
    ]
    assert len(priced) > 2_000
    wrong = [
        key
        for key in priced
        if entry_of(key) is not TABLE[key] and price_of(key).input != TABLE[key][INPUT]
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "listed"), [("openai/any", True), ("hosted_vllm/any", True), ("nonsense/any", False)]
)
def test_which_names_litellm_knows_a_provider_of(name: str, listed: bool):
    assert is_listed(name) is listed


def cost(name: str, *used: int, service: str | None = None) -> float | None:
    return price_of(name).cost_of(Used(*used, service=service))


# The bills are computed from the providers' price pages: dollars per million tokens times tokens.
BILLS = [
    pytest.param(
        "openai/gpt-4.1-mini", (10_000, 500), None, (10_000 * 0.4 + 500 * 1.6), id="plain"
    ),
    pytest.param(
        "openai/gpt-4.1-mini",
        (10_000, 500, 8_000),
        None,
        2_000 * 0.4 + 8_000 * 0.1 + 500 * 1.6,
        id="cached",
    ),
    pytest.param(
        "openai/gpt-4.1-mini", (10_000, 500), "batch", 10_000 * 0.2 + 500 * 0.8, id="batch"
    ),
    pytest.param(
        "openai/gpt-5",
        (10_000, 4_500, 0, 0, 0, 4_000),
        None,
        10_000 * 1.25 + 4_500 * 10,
        id="reasoning",
    ),
    pytest.param(
        "openai/gpt-5",
        (10_000, 500, 8_000),
        "flex",
        2_000 * 0.625 + 8_000 * 0.0625 + 500 * 5,
        id="flex",
    ),
    pytest.param("openai/gpt-5", (10_000, 500), "priority", 10_000 * 2.5 + 500 * 20, id="priority"),
    pytest.param("openai/gpt-5", (10_000, 500), "default", 10_000 * 1.25 + 500 * 10, id="default"),
    pytest.param("openai/o3", (10_000, 500), "flex", 10_000 * 1 + 500 * 4, id="flex of another"),
    pytest.param(
        "anthropic/claude-sonnet-4-5",
        (10_000, 500, 0, 9_000),
        None,
        1_000 * 3 + 9_000 * 3.75 + 500 * 15,
        id="write",
    ),
    pytest.param(
        "anthropic/claude-sonnet-4-5",
        (10_000, 500, 0, 9_000, 9_000),
        None,
        1_000 * 3 + 9_000 * 6 + 500 * 15,
        id="hour",
    ),
    pytest.param(
        "anthropic/claude-sonnet-4-5",
        (10_000, 500, 9_000),
        None,
        1_000 * 3 + 9_000 * 0.3 + 500 * 15,
        id="read",
    ),
    pytest.param(
        "gemini/gemini-2.5-pro",
        (200_000, 2_500),
        None,
        200_000 * 1.25 + 2_500 * 10,
        id="at the threshold",
    ),
    pytest.param(
        "gemini/gemini-2.5-pro", (300_000, 2_500), None, 300_000 * 2.5 + 2_500 * 15, id="above it"
    ),
    pytest.param(
        "gemini/gemini-2.5-pro",
        (300_000, 2_500, 100_000),
        None,
        200_000 * 2.5 + 100_000 * 0.25 + 2_500 * 15,
        id="above it and cached",
    ),
    pytest.param(
        "gemini/gemini-2.5-pro",
        (10_000, 500),
        "batch",
        10_000 * 0.625 + 500 * 5,
        id="batch of gemini",
    ),
    pytest.param(
        "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        (400_000, 1_000),
        None,
        400_000 * 6.6 + 1_000 * 24.75,
        id="regional and above",
    ),
    pytest.param(
        "dashscope/qwen-plus-2025-07-28",
        (300_000, 1_000, 0, 0, 0, 400),
        None,
        300_000 * 1.2 + 600 * 3.6 + 400 * 12,
        id="ranges, and thought that costs more",
    ),
]


@pytest.mark.parametrize(("name", "used", "service", "millionths"), BILLS)
def test_a_bill_by_hand(name: str, used: tuple[int, ...], service: str | None, millionths: float):
    assert cost(name, *used, service=service) == pytest.approx(millionths / 1e6, rel=1e-12)


def test_a_dearer_way_of_being_served_without_a_price_is_unknown():
    assert price_of("dashscope/qwen-plus").known
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

["openai/free"]
input = 0
output = 0
"""


@pytest.mark.parametrize(
    ("used", "service", "millionths"),
    [
        ((1_000, 100), None, 1_000 * 1 + 100 * 4),
        ((1_000, 100, 400, 100, 0, 30), None, 500 * 1 + 400 * 0.25 + 100 * 1.5 + 70 * 4 + 30 * 5),
        ((1_001, 100), None, 1_001 * 2 + 100 * 8),
        ((6_000, 100, 2_000), None, 4_000 * 3 + 2_000 * 1 + 100 * 9),
        ((6_000, 100), "batch", 6_000 * 0.5 + 100 * 2),
        ((1_000, 100, 400), "flex", 600 * 0.6 + 400 * 0.1 + 100 * 2.4),
    ],
)
def test_a_price_file_says_the_same_kinds_of_rates(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    used: tuple[int, ...],
    service: str | None,
    millionths: float,
):
    monkeypatch.setenv("ALPS_PRICES", str(tmp_path / "prices.toml"))
    (tmp_path / "prices.toml").write_text(OWN)
    assert cost("openai/tiered", *used, service=service) == pytest.approx(millionths / 1e6)
    assert cost("openai/free", 1_000, 100) == 0.0


def test_the_price_of_a_model_and_a_dry_run_need_no_litellm(tmp_path: Path):
    program = (
        "import sys\n"
        "from alps.cli import main\n"
        "sys.argv = ['alps', 'run', 'task=extraction', 'model=openai/gpt-5', "
        "'judge=anthropic/claude-opus-9',"
        " 'data=samples', 'dry_run=yes']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print([name for name in ('litellm', 'instructor', 'openai') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
    stages = {
        line.split()[0]: line
        for line in done.stdout.splitlines()
        if line.startswith((" generate", " judge"))
    }
    assert "– $" in stages["generate"]
    assert stages["judge"].endswith("– – –")


def test_a_dry_run_shows_a_dash_for_a_price_that_is_not_known_and_nothing_where_nothing_is_asked(
    tmp_path: Path,
):
    words = ("task=extraction", "model=openai/gpt-9", "data=samples", "limit=2", "dry_run=yes")
    finished = run(tmp_path, "run", *words)
    assert finished.returncode == 0, finished.stderr
    stages = {
        line.split()[0]: line.split()
        for line in finished.stdout.splitlines()
        if line.startswith((" gen", " jud"))
    }
    assert stages["generate"][-3:] == ["–", "–", "–"]
    assert stages["judge"] == ["judge", "0"]
    assert "$" not in finished.stdout


def test_a_run_of_a_model_that_is_newer_than_the_table_costs_a_dash(tmp_path: Path):
    write_visitors(tmp_path / "data", 2)
    with serve(good) as server:
        words = [
            word.replace("openai/scripted-judge", "openai/gpt-9-judge").replace(
                "openai/scripted", "openai/gpt-9"
            )
            for word in extraction(server.url, "out=out")
        ]
        finished = run(tmp_path, *words, OPENAI_API_KEY="none")
    assert finished.returncode == 0, finished.stderr
    assert "$0" not in finished.stdout
    calls = summary(tmp_path / "out")["calls"]
    assert (calls["cost"], calls["unpriced"]) == (None, calls["http"])
    assert calls["without_price"] == ["openai/gpt-9", "openai/gpt-9-judge"]
    assert (
        finished.stdout.count("No cost is known of calls to openai/gpt-9, openai/gpt-9-judge") == 1
    )
