"""What is settled before the first call: endpoints and versions of the environment, keys,
temperatures, limits.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from alps.errors import CredentialError, UsageError
from alps.llm.endpoints import credentials, endpoint_from_environment, version_from_environment
from alps.llm.preflight import check_model, check_sampling, default_temperature, unlisted_answer
from alps.llm.provider import send
from alps.llm.types import Request, TransportError
from tests.endtoend import extraction, one_line, rows, run, without_baselines
from tests.loopback import Answer, LoopbackServer, asked_over_http, serve
from tests.visitors import good, is_judging, write_visitors

# litellm silences what pydantic says of its models when it is imported, but builds them later, in
# the first call.
pytestmark = pytest.mark.filterwarnings(r"ignore:Item '\w+' on TypedDict class:UserWarning")

LOOPBACK = "http://127.0.0.1:9/v1"
NEW_CLAUDE = "anthropic/claude-opus-9"


def temperature(model: str, *, api_base: str | None = None, **sampling: Any) -> float | None:
    extra = sampling.pop("extra", {})
    return default_temperature(model, api_base=api_base, sampling=sampling, extra=extra)


@pytest.mark.parametrize(
    "model",
    [
        *(
            "openai/o3",
            "openai/o4-mini",
            "openai/gpt-5",
            "openai/gpt-5-mini",
            "azure/o3",
            "azure/gpt-5",
        ),
        *(
            "openrouter/openai/gpt-5",
            "openrouter/openai/o3",
            "litellm_proxy/gpt-5",
            "litellm_proxy/openai/o3",
        ),
        *("openai/gpt-9", "openai/o9", NEW_CLAUDE, "bedrock/us.anthropic.claude-opus-9-v1:0"),
    ],
)
def test_a_model_that_takes_no_temperature_but_its_own_is_sent_none(model: str):
    assert temperature(model) is None


@pytest.mark.parametrize(
    "model",
    [
        *(
            "openai/gpt-4.1-mini",
            "azure/gpt-4.1",
            "azure/a-deployment",
            "anthropic/claude-sonnet-4-5",
        ),
        *(
            "gemini/gemini-2.5-flash",
            "groq/llama-3.3-70b-versatile",
            "deepseek/deepseek-chat",
            "ollama_chat/qwen3",
        ),
        *(
            "hosted_vllm/openai/gpt-oss-120b",
            "hosted_vllm/any/name",
            "openrouter/anthropic/claude-sonnet-4.5",
        ),
    ],
)
def test_a_model_that_takes_temperature_0_is_sent_it(model: str):
    assert temperature(model) == 0


def test_a_server_of_ones_own_takes_temperature_0_whatever_it_is_called():
    assert temperature("openai/mine", api_base=LOOPBACK) == 0
    assert temperature("openai/gpt-5", api_base=LOOPBACK) is None
    assert temperature(NEW_CLAUDE, api_base=LOOPBACK) is None


@pytest.mark.parametrize(
    "model", ["anthropic/claude-sonnet-4-5", "vertex_ai/claude-sonnet-4-5", "openai/mine"]
)
def test_a_judge_that_is_told_to_reason_is_sent_no_temperature(model: str):
    assert temperature(model, api_base=LOOPBACK, reasoning_effort="high") is None
    assert temperature("anthropic/claude-sonnet-4-5", reasoning_effort="none") == 0
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2048}}
    assert temperature("anthropic/claude-sonnet-4-5", extra=thinking) is None


@pytest.mark.parametrize(
    ("model", "sampling", "named"),
    [
        ("openai/o3", {"temperature": 0.5}, "temperature=0.5: "),
        ("openai/gpt-5", {"temperature": 0, "max_tokens": 99}, "temperature=0: "),
        ("openai/o3", {"top_p": 0.5}, "top_p=0.5: "),
        ("openai/gpt-5", {"presence_penalty": 1.0}, "presence_penalty=1.0: "),
        ("openai/gpt-4.1", {"reasoning_effort": "high"}, "reasoning_effort=high: "),
        ("anthropic/claude-sonnet-4-5", {"frequency_penalty": 1.0}, "frequency_penalty=1.0: "),
        (
            "anthropic/claude-sonnet-4-5",
            {"temperature": 0, "reasoning_effort": "high"},
            "temperature=0 and reasoning_effort=high: ",
        ),
    ],
)
def test_a_setting_that_the_model_does_not_take_is_named(
    model: str, sampling: dict[str, Any], named: str
):
    with pytest.raises(UsageError) as caught:
        check_sampling(model, sampling, {})
    assert str(caught.value).startswith(f"{named}{model} does not take it (")
    assert str(caught.value).endswith("); leave it out")
    assert "drop_params" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("model", "sampling"),
    [
        (
            "openai/gpt-4.1",
            {"temperature": 0.7, "top_p": 0.9, "max_tokens": 99, "frequency_penalty": 1.0},
        ),
        ("openai/o3", {"temperature": 1, "max_tokens": 99, "reasoning_effort": "low"}),
        ("anthropic/claude-sonnet-4-5", {"temperature": 1, "reasoning_effort": "high"}),
        ("openai/any-name", {"temperature": 2, "reasoning_effort": "high"}),
    ],
)
def test_settings_that_the_model_takes_pass(model: str, sampling: dict[str, Any]):
    check_sampling(model, sampling, {})
    check_sampling(model, sampling, {"user": "me", "extra_body": {"top_k": 2}})


def test_an_option_that_the_model_does_not_take_is_named_as_it_was_written():
    with pytest.raises(
        UsageError,
        match=r"^judge_request\.logprobs=True: anthropic/claude-sonnet-4-5 does not take",
    ):
        check_sampling("anthropic/claude-sonnet-4-5", {}, {"logprobs": True}, prefix="judge_")


def test_only_an_anthropic_model_that_nobody_knows_is_given_a_longest_answer(
    monkeypatch: pytest.MonkeyPatch,
):
    assert unlisted_answer(NEW_CLAUDE, {}) == 32_000
    assert unlisted_answer("anthropic/claude-3-haiku-20240307", {}) == 4_096
    assert unlisted_answer(NEW_CLAUDE, {"max_tokens": 500}) is None
    assert unlisted_answer("anthropic/claude-sonnet-4-5", {}) is None
    assert unlisted_answer("openai/gpt-9", {}) is None
    monkeypatch.setenv("DEFAULT_ANTHROPIC_CHAT_MAX_TOKENS", "9000")
    assert unlisted_answer(NEW_CLAUDE, {}) == 9_000


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai/gpt-4.1", "OPENAI_BASE_URL"),
        ("openai/gpt-4.1", "OPENAI_API_BASE"),
        ("gpt-4.1", "OPENAI_BASE_URL"),
        ("azure/gpt-4.1", "AZURE_API_BASE"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_BASE"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_BASE_URL"),
        ("gemini/gemini-2.5-pro", "GEMINI_API_BASE"),
        ("groq/llama-3.3-70b-versatile", "GROQ_API_BASE"),
        ("deepseek/deepseek-chat", "DEEPSEEK_API_BASE"),
        ("openrouter/openai/gpt-5", "OPENROUTER_API_BASE"),
        ("ollama_chat/qwen3", "OLLAMA_API_BASE"),
        ("ollama/qwen3", "OLLAMA_API_BASE"),
        ("hosted_vllm/any", "HOSTED_VLLM_API_BASE"),
        ("litellm_proxy/any", "LITELLM_PROXY_API_BASE"),
        ("together_ai/any/name", "TOGETHER_AI_API_BASE"),
        ("fireworks_ai/any", "FIREWORKS_API_BASE"),
        ("mistral/mistral-large-latest", "MISTRAL_API_BASE"),
        ("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", "AWS_BEDROCK_RUNTIME_ENDPOINT"),
        ("vertex_ai/gemini-2.5-pro", "VERTEXAI_API_BASE"),
    ],
)
def test_an_address_in_the_environment_is_found(
    model: str, variable: str, monkeypatch: pytest.MonkeyPatch
):
    assert endpoint_from_environment(model) is None
    monkeypatch.setenv(variable, " http://127.0.0.1:9/proxy ")
    assert endpoint_from_environment(model) == (variable, "http://127.0.0.1:9/proxy")


def test_an_address_of_another_provider_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", LOOPBACK)
    monkeypatch.setenv("SOMEBODYS_URL", LOOPBACK)
    monkeypatch.setenv("OPENAI_BASE_URL", "  ")
    assert endpoint_from_environment("openai/gpt-4.1") is None
    assert endpoint_from_environment("groq/llama-3.3-70b-versatile") is None


@pytest.mark.parametrize(
    "address", ["http://me:canary@127.0.0.1/v1", "http://127.0.0.1/v1?key=canary", "canary"]
)
def test_an_address_with_a_secret_is_refused_without_it(
    address: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(
        UsageError, match=r"^OPENAI_BASE_URL, in the environment: an address "
    ) as caught:
        endpoint_from_environment("openai/gpt-4.1")
    assert "canary" not in str(caught.value)


def test_the_version_of_azures_api_is_found(monkeypatch: pytest.MonkeyPatch):
    assert version_from_environment("azure/gpt-4.1") is None
    monkeypatch.setenv("AZURE_API_VERSION", "2025-01-01-preview")
    assert version_from_environment("azure/gpt-4.1") == "2025-01-01-preview"
    assert version_from_environment("openai/gpt-4.1") is None


@pytest.mark.parametrize(
    ("model", "variables"),
    [
        ("azure/gpt-4.1", {"AZURE_API_KEY": "of-azure"}),
        ("azure/gpt-4.1", {}),
        (
            "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0",
            {"AWS_BEARER_TOKEN_BEDROCK": "of-bedrock"},
        ),
        ("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", {}),
        ("together_ai/any", {"TOGETHER_API_KEY": "of-together"}),
        ("perplexity/sonar", {"PERPLEXITY_API_KEY": "of-perplexity"}),
        ("ollama_chat/qwen3", {"OLLAMA_API_KEY": "of-ollama"}),
        ("anthropic/claude-sonnet-4-5", {}),
        ("openai/mine", {"OPENAI_API_KEY": "of-openai"}),
        ("litellm_proxy/any", {"LITELLM_PROXY_API_KEY": "of-the-proxy"}),
    ],
)
def test_no_placeholder_takes_the_place_of_a_credential(
    model: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert credentials(model, api_base=LOOPBACK) == {}


@pytest.mark.parametrize("model", ["openai/mine", "litellm_proxy/mine"])
def test_a_server_that_is_asked_through_openais_client_gets_a_placeholder(model: str):
    assert credentials(model, api_base=LOOPBACK) == {"api_key": "not-needed"}
    assert credentials(model, api_base=None) == {}


def test_a_token_of_entra_is_passed_on_where_there_is_no_key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AZURE_AD_TOKEN", "of-entra")
    assert credentials("azure/gpt-4.1", api_base=LOOPBACK) == {"azure_ad_token": "of-entra"}
    monkeypatch.setenv("AZURE_API_KEY", "of-azure")
    assert credentials("azure/gpt-4.1", api_base=LOOPBACK) == {}


@pytest.mark.parametrize(
    ("model", "variables", "warned"),
    [
        ("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", {}, True),
        (
            "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0",
            {"AWS_BEARER_TOKEN_BEDROCK": "of-bedrock"},
            True,
        ),
        ("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", {"AWS_PROFILE": "work"}, False),
        ("azure/gpt-4.1", {"AZURE_AD_TOKEN": "of-entra", "AZURE_API_VERSION": "2025-01-01"}, True),
        ("vertex_ai/gemini-2.5-pro", {}, True),
        ("together_ai/any", {"TOGETHER_API_KEY": "of-together"}, False),
        ("perplexity/sonar", {"PERPLEXITY_API_KEY": "of-perplexity"}, False),
        ("replicate/any/model", {"REPLICATE_API_TOKEN": "of-replicate"}, True),
        ("huggingface/any/model", {"HF_TOKEN": "of-the-hub"}, True),
        ("gemini/gemini-2.5-pro", {"GOOGLE_API_KEY": "of-google"}, False),
        ("gemini/gemini-2.5-pro", {"GEMINI_API_KEY": "of-gemini"}, False),
        ("anthropic/claude-sonnet-4-5", {"ANTHROPIC_AUTH_TOKEN": "of-anthropic"}, False),
    ],
)
def test_credentials_that_may_come_from_elsewhere_are_not_refused(
    model: str, variables: dict[str, str], *, warned: bool, monkeypatch: pytest.MonkeyPatch
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    lines: list[str] = []
    check_model(model, api_base=None, warn=lines.append)
    assert [
        line.startswith(f"{model}: ") and "not in the environment" in line for line in lines
    ] == [True] * warned


def test_either_key_of_gemini_is_asked_for():
    with pytest.raises(
        CredentialError, match=r"set GEMINI_API_KEY or GOOGLE_API_KEY in the environment"
    ):
        check_model("gemini/gemini-2.5-pro", api_base=None)


@pytest.mark.parametrize(
    "model",
    [
        *(
            "azure/gpt-4.1",
            "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0",
            "gemini/gemini-2.5-pro",
        ),
        *("fireworks_ai/any", "perplexity/sonar"),
    ],
)
def test_a_call_without_credentials_ends_the_run_at_once(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")
    request = Request[str](model, (), None, api_base=LOOPBACK)
    with pytest.raises(TransportError) as caught:
        asked_over_http(send(request, [{"role": "user", "content": "Chess?"}]))
    assert not caught.value.transient
    assert isinstance(caught.value.fatal, CredentialError)
    assert str(caught.value.fatal).startswith(f"model '{model}': no credentials were found (")


@pytest.mark.parametrize("status", [500, 400, 429])
def test_an_answer_of_a_server_that_speaks_of_credentials_is_one(status: int):
    with serve(
        lambda _: Answer(status=status, error="Missing credentials, set OPENAI_API_KEY")
    ) as server:
        request = Request[str]("openai/tiny", (), None, api_base=server.url)
        with pytest.raises(TransportError) as caught:
            asked_over_http(send(request, [{"role": "user", "content": "Chess?"}]))
    assert (caught.value.status, caught.value.fatal) == (status, None)


def asked_of(server: LoopbackServer, *, judge: bool) -> list[dict[str, Any]]:
    return [body for body in server.requests if is_judging(body) == judge]


@pytest.mark.parametrize("judge", ["openai/o3", "openai/gpt-5", "openai/gpt-5-mini"])
def test_a_judge_that_reasons_judges(tmp_path: Path, judge: str):
    write_visitors(tmp_path / "data", 2)
    with serve(good) as server:
        words = [*extraction(server.url, "out=out")]
        words[words.index("judge=openai/scripted-judge")] = f"judge={judge}"
        done = run(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    judged = asked_of(server, judge=True)
    assert len(judged) == 2
    assert all("temperature" not in body for body in judged)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["judge"]["decoding"] == {"temperature": None}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("judge_temperature=none", None),
        ("judge_temperature=", None),
        ("judge_temperature=0.3", 0.3),
        ("seed=0", 0),
    ],
)
def test_the_temperature_of_a_judge_can_be_set_and_unset(
    tmp_path: Path, word: str, expected: float | None
):
    write_visitors(tmp_path / "data", 1)
    with serve(good) as server:
        done = run(tmp_path, *extraction(server.url, word, "out=out"))
    assert done.returncode == 0, done.stderr
    assert [body.get("temperature") for body in asked_of(server, judge=True)] == [expected]
    decoding = json.loads((tmp_path / "out" / "manifest.json").read_text())["judge"]["decoding"]
    assert decoding == {"temperature": expected}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["model=openai/o3", "temperature=0"], "temperature=0.0: openai/o3 does not take it"),
        (
            ["judge=openai/o3", "judge_temperature=0"],
            "judge_temperature=0.0: openai/o3 does not take it",
        ),
        (["judge=openai/a,openai/b"], "judge=openai/a,openai/b: one run asks one model"),
    ],
)
def test_what_can_not_work_is_refused_before_anything_is_paid(
    tmp_path: Path, words: list[str], said: str
):
    write_visitors(tmp_path / "data", 1)
    with serve(good) as server:
        kept = [
            word
            for word in extraction(server.url, "out=out")
            if word.split("=")[0] != words[0].split("=")[0]
        ]
        done = run(tmp_path, *kept, *words)
    assert said in one_line(done)
    assert server.requests == []


def test_an_endpoint_of_the_environment_counts_as_one_that_was_given(tmp_path: Path):
    write_visitors(tmp_path / "data", 1)
    words = (
        "run",
        "task=extraction",
        "data=data",
        "model=openai/gpt-4.1-mini",
        "judge=openai/gpt-4.1",
    )
    words += without_baselines(words)
    key = {"OPENAI_API_KEY": "of-the-user"}
    with serve(good) as server:
        given = (f"api_base={server.url}", f"judge_api_base={server.url}")
        one = run(tmp_path, *words, *given, "out=one", **key)
        asked = len(server.requests)
        two = run(tmp_path, *words, "out=two", **key, OPENAI_BASE_URL=server.url)
    assert (one.returncode, two.returncode) == (0, 0), (one.stderr, two.stderr)
    assert (
        len(server.requests) == asked == 2
    )  # the replies of the first run answer the second, under the same keys
    first, second = (
        json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("one", "two")
    )
    assert first == second
    assert second["settings"]["api_base"] == second["settings"]["judge_api_base"] == server.url
    assert second["judge"]["endpoint"] == "api_base"
    assert f'api_base = "{server.url}"' in (tmp_path / "two" / "config.toml").read_text()
    assert rows(tmp_path / "two" / "calls.jsonl") == []


def test_a_run_at_an_endpoint_of_the_environment_is_not_taken_for_one_at_the_provider(
    tmp_path: Path,
):
    write_visitors(tmp_path / "data", 1)
    words = (
        "run",
        "task=extraction",
        "data=data",
        "model=openai/gpt-4.1-mini",
        "out=out",
        "ALPS_CACHE=",
    )[:5]
    with serve(good) as server:
        done = run(tmp_path, *words, OPENAI_API_KEY="of-the-user", OPENAI_API_BASE=server.url)
        assert done.returncode == 0, done.stderr
        elsewhere = run(tmp_path, *words, OPENAI_API_KEY="of-the-user")
    assert "settings.api_base" in one_line(elsewhere)


def test_a_dry_run_needs_no_key(tmp_path: Path):
    write_visitors(tmp_path / "data", 1)
    words = (
        "task=extraction",
        "data=data",
        "model=openai/gpt-4.1-mini",
        "judge=anthropic/claude-sonnet-4-5",
    )
    done = run(tmp_path, "run", *words, "dry_run=yes")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "runs").exists()
    refused = run(tmp_path, "run", *words)
    assert "set OPENAI_API_KEY in the environment" in one_line(refused)
