"""What is settled before the first call: endpoints and versions of the environment, keys,
temperatures, options (`request.NAME=VALUE`), and where all of it is written down.
"""

import json
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest

from alps.errors import CredentialError, DataError, UsageError
from alps.ext.calibration.settings import CalibrateSettings
from alps.llm.cache import cache_key
from alps.llm.preflight import (
    check_model,
    check_sampling,
    credentials,
    default_temperature,
    endpoint_from_environment,
    unlisted_answer,
    version_from_environment,
)
from alps.llm.provider import send
from alps.llm.types import Request, TransportError
from alps.run.folder import write_config
from alps.settings import JudgeSettings, RunSettings, parse_words
from tests.endtoend import extraction, one_line, rows, run
from tests.llm.test_provider import QUESTION, failed
from tests.loopback import Answer, LoopbackServer, asked_over_http, serve
from tests.visitors import good, is_judging, write_visitors

LOOPBACK = "http://127.0.0.1:9/v1"
GPT, SONNET, NEW_CLAUDE = "openai/gpt-4.1", "anthropic/claude-sonnet-4-5", "anthropic/claude-opus-9"
BEDROCK = "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0"
GEMINI = "gemini/gemini-2.5-pro"
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 2048}}

NO_TEMPERATURE = """
openai/o3 openai/o4-mini openai/gpt-5 openai/gpt-5-mini azure/o3 azure/gpt-5 openrouter/openai/gpt-5
openrouter/openai/o3 litellm_proxy/gpt-5 litellm_proxy/openai/o3 openai/gpt-9 openai/o9
anthropic/claude-opus-9 bedrock/us.anthropic.claude-opus-9-v1:0
"""
TEMPERATURE_0 = """
openai/gpt-4.1-mini azure/gpt-4.1 azure/a-deployment anthropic/claude-sonnet-4-5
gemini/gemini-2.5-flash groq/llama-3.3-70b-versatile deepseek/deepseek-chat ollama_chat/qwen3
hosted_vllm/openai/gpt-oss-120b hosted_vllm/any/name openrouter/anthropic/claude-sonnet-4.5
"""


def temperature(
    model: str, api_base: str | None = None, extra: Any = None, **sampling: Any
) -> float | None:
    return default_temperature(model, api_base=api_base, sampling=sampling, extra=extra or {})


def test_only_a_model_that_takes_temperature_0_and_is_not_told_to_reason_is_sent_it():
    assert [model for model in NO_TEMPERATURE.split() if temperature(model) is not None] == []
    assert [model for model in TEMPERATURE_0.split() if temperature(model) != 0] == []
    at_home = {"openai/mine": 0, "openai/gpt-5": None, NEW_CLAUDE: None}
    assert {model: temperature(model, LOOPBACK) for model in at_home} == at_home
    for model in (SONNET, "vertex_ai/claude-sonnet-4-5", "openai/mine"):
        assert temperature(model, LOOPBACK, reasoning_effort="high") is None
    assert temperature(SONNET, reasoning_effort="none") == 0
    assert temperature(SONNET, extra=THINKS) is None


HIGH = {"temperature": 0, "reasoning_effort": "high"}


@pytest.mark.parametrize(
    ("model", "sampling", "named"),
    [
        ("openai/o3", {"temperature": 0.5}, "temperature=0.5: "),
        ("openai/gpt-5", {"temperature": 0, "max_tokens": 99}, "temperature=0: "),
        ("openai/o3", {"top_p": 0.5}, "top_p=0.5: "),
        ("openai/gpt-5", {"presence_penalty": 1.0}, "presence_penalty=1.0: "),
        (GPT, {"reasoning_effort": "high"}, "reasoning_effort=high: "),
        (SONNET, {"frequency_penalty": 1.0}, "frequency_penalty=1.0: "),
        (SONNET, HIGH, "temperature=0 and reasoning_effort=high: "),
    ],
)
def test_a_setting_that_the_model_does_not_take_is_named(model, sampling, named):
    with pytest.raises(UsageError) as caught:
        check_sampling(model, sampling, {})
    error, them = str(caught.value), "them" if " and " in named else "it"
    assert error.startswith(f"{named}{model} does not accept {them} (")
    assert error.endswith(f"); leave {them} out")
    assert "drop_params" not in error
    assert len(error.splitlines()) == 1


def test_settings_that_the_model_takes_pass_and_an_option_is_named_as_it_was_written():
    ordinary = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 99, "frequency_penalty": 1.0}
    for model, sampling in {
        GPT: ordinary,
        "openai/o3": {"temperature": 1, "max_tokens": 99, "reasoning_effort": "low"},
        SONNET: {"temperature": 1, "reasoning_effort": "high"},
        "openai/any-name": {"temperature": 2, "reasoning_effort": "high"},
    }.items():
        check_sampling(model, sampling, {})
        check_sampling(model, sampling, {"user": "me", "extra_body": {"top_k": 2}})
    refused = rf"^judge_request\.logprobs=True: {SONNET} does not accept"
    with pytest.raises(UsageError, match=refused):
        check_sampling(SONNET, {}, {"logprobs": True}, prefix="judge_")


def test_only_an_anthropic_model_that_nobody_knows_is_given_a_longest_answer(monkeypatch):
    assert unlisted_answer(NEW_CLAUDE, {}) == 32_000
    assert unlisted_answer("anthropic/claude-3-haiku-20240307", {}) == 4_096
    assert unlisted_answer(NEW_CLAUDE, {"max_tokens": 500}) is None
    assert unlisted_answer(SONNET, {}) is None
    assert unlisted_answer("openai/gpt-9", {}) is None
    monkeypatch.setenv("DEFAULT_ANTHROPIC_CHAT_MAX_TOKENS", "9000")
    assert unlisted_answer(NEW_CLAUDE, {}) == 9_000


# Addresses and keys of the environment

ADDRESSES = [
    (GPT, "OPENAI_BASE_URL"),
    (GPT, "OPENAI_API_BASE"),
    ("gpt-4.1", "OPENAI_BASE_URL"),
    ("azure/gpt-4.1", "AZURE_API_BASE"),
    (SONNET, "ANTHROPIC_API_BASE"),
    (SONNET, "ANTHROPIC_BASE_URL"),
    (GEMINI, "GEMINI_API_BASE"),
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
    (BEDROCK, "AWS_BEDROCK_RUNTIME_ENDPOINT"),
    ("vertex_ai/gemini-2.5-pro", "VERTEXAI_API_BASE"),
]


@pytest.mark.parametrize(("model", "variable"), ADDRESSES)
def test_an_address_in_the_environment_is_found(model: str, variable: str, monkeypatch):
    assert endpoint_from_environment(model) is None
    monkeypatch.setenv(variable, " http://127.0.0.1:9/proxy ")
    assert endpoint_from_environment(model) == (variable, "http://127.0.0.1:9/proxy")


def test_another_providers_address_is_left_alone_and_one_with_a_secret_refused(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", LOOPBACK)
    monkeypatch.setenv("SOMEBODYS_URL", LOOPBACK)
    monkeypatch.setenv("OPENAI_BASE_URL", "  ")
    assert endpoint_from_environment(GPT) is None
    assert endpoint_from_environment("groq/llama-3.3-70b-versatile") is None
    for secret in ("http://me:canary@127.0.0.1/v1", "http://127.0.0.1/v1?key=canary", "canary"):
        monkeypatch.setenv("OPENAI_BASE_URL", secret)
        with pytest.raises(UsageError, match=r"^OPENAI_BASE_URL in the environment: an ad") as e:
            endpoint_from_environment(GPT)
        assert "canary" not in str(e.value)


def test_the_version_of_azures_api_is_found(monkeypatch: pytest.MonkeyPatch):
    assert version_from_environment("azure/gpt-4.1") is None
    monkeypatch.setenv("AZURE_API_VERSION", "2025-01-01-preview")
    assert version_from_environment("azure/gpt-4.1") == "2025-01-01-preview"
    assert version_from_environment(GPT) is None


PLACEHOLDER = {"api_key": "not-needed"}
ENTRA = {"AZURE_AD_TOKEN": "of-entra"}


@pytest.mark.parametrize(
    ("model", "variables", "given"),
    [
        ("azure/gpt-4.1", {}, {}),
        ("azure/gpt-4.1", {**ENTRA, "AZURE_API_KEY": "of-azure"}, {}),
        (BEDROCK, {}, {}),
        (SONNET, {}, {}),
        ("openai/mine", {}, PLACEHOLDER),  # asked through OpenAI's client, which wants a key
        ("litellm_proxy/mine", {}, PLACEHOLDER),
    ],
)
def test_a_placeholder_is_given_where_a_client_wants_a_key(model, variables, given, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert credentials(model, api_base=LOOPBACK) == given
    assert credentials(model, api_base=None) == ({} if given == PLACEHOLDER else given)


@pytest.mark.parametrize(
    ("model", "variables", "warned"),
    [
        (BEDROCK, {}, True),
        (BEDROCK, {"AWS_BEARER_TOKEN_BEDROCK": "of-bedrock"}, True),
        (BEDROCK, {"AWS_PROFILE": "work"}, False),
        ("azure/gpt-4.1", {**ENTRA, "AZURE_API_VERSION": "2025-01-01"}, True),
        ("vertex_ai/gemini-2.5-pro", {}, True),
        ("together_ai/any", {"TOGETHER_API_KEY": "of-together"}, False),
        ("perplexity/sonar", {"PERPLEXITY_API_KEY": "of-perplexity"}, False),
        ("replicate/any/model", {"REPLICATE_API_TOKEN": "of-replicate"}, True),
        ("huggingface/any/model", {"HF_TOKEN": "of-the-hub"}, True),
        (GEMINI, {"GEMINI_API_KEY": "of-gemini"}, False),
        (GEMINI, {"GOOGLE_API_KEY": "of-google"}, False),
        (SONNET, {"ANTHROPIC_AUTH_TOKEN": "of-anthropic"}, False),
    ],
)
def test_credentials_that_may_be_elsewhere_are_not_refused(model, variables, warned, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    lines: list[str] = []
    check_model(model, api_base=None, warn=lines.append)
    assert len(lines) == warned
    for line in lines:
        assert line.startswith(f"{model}: ")
        assert "not set in the environment" in line


@pytest.mark.parametrize(
    ("model", "variable", "named"),
    [
        ("openai/gpt-4.1-mini", "OPENAI_API_KEY", "OPENAI_API_KEY"),
        ("gpt-4.1-mini", "OPENAI_API_KEY", "OPENAI_API_KEY"),
        (SONNET, "ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"),
        ("deepseek/deepseek-chat", "DEEPSEEK_API_KEY", "DEEPSEEK_API_KEY"),
        (GEMINI, "GEMINI_API_KEY", "set GEMINI_API_KEY or GOOGLE_API_KEY in the environment"),
    ],
)
def test_a_missing_key_is_asked_for_by_name_and_a_set_one_enough(
    model: str, variable: str, named: str, monkeypatch
):
    with pytest.raises(CredentialError, match=named) as caught:
        check_model(model, api_base=None)
    assert model in str(caught.value)
    assert "\n" not in str(caught.value)
    monkeypatch.setenv(variable, "an-ordinary-looking-word")
    check_model(model, api_base=None)


@pytest.mark.parametrize("name", ["OPENAI_KEY", "ANTHROPIC_KEY", "GROQ_KEY"])
def test_a_key_under_a_name_that_nobody_reads_is_refused(name: str, monkeypatch):
    for one in (name, "OPENROUTER_API_KEY"):
        monkeypatch.setenv(one, "an-ordinary-looking-word")
    named = f"set {name.replace('KEY', 'API_KEY')} .*; {name} is not read$"
    with pytest.raises(CredentialError, match=named):
        check_model(f"{name.partition('_')[0].lower()}/any", api_base=None)


def test_an_endpoint_of_ones_own_needs_no_key_and_no_provider_that_is_unknown_is_asked():
    for model in ("openai/gpt-4.1-mini", "openai/any-name", "hosted_vllm/any/name"):
        check_model(model, api_base=LOOPBACK)
    for model in ("nonsense", "no-such-provider/model", "/"):
        for api_base in (None, LOOPBACK):
            with pytest.raises(UsageError, match=f"^model '{model}': .*openai/gpt-4.1-mini$"):
                check_model(model, api_base=api_base)


UNKEYED = ["azure/gpt-4.1", BEDROCK, GEMINI, "fireworks_ai/any", "perplexity/sonar"]


@pytest.mark.parametrize("model", UNKEYED)
def test_a_call_without_credentials_ends_the_run_at_once(model: str, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")
    request = Request[str](model, (), None, api_base=LOOPBACK)
    with pytest.raises(TransportError) as caught:
        asked_over_http(send(request, QUESTION))
    assert not caught.value.transient
    assert isinstance(caught.value.fatal, CredentialError)
    assert str(caught.value.fatal).startswith(f"model '{model}': no credentials were found (")


@pytest.mark.parametrize("status", [500, 400, 429])
def test_an_answer_of_a_server_that_speaks_of_credentials_is_one(status: int):
    error = failed(Answer(status=status, error="Missing credentials, set OPENAI_API_KEY"))
    assert (error.status, error.fatal) == (status, None)


# Options

NEEDED = ("task=extraction", "model=openai/tiny")
THINKING = "request.extra_body.chat_template_kwargs.enable_thinking"
NOT_THINKING = {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}
PROVIDER = {"order": ["together"], "allow_fallbacks": False}
ROUTING = f"request.extra_body.provider={json.dumps(PROVIDER)}"
CANARY = "canary-0123456789"


def read(*words: str) -> Any:
    return parse_words([*NEEDED, *words], RunSettings).request


OPTIONS: dict[str, dict[str, Any]] = {
    "request.min_p=0.05": {"min_p": 0.05},
    f"{THINKING}=false": NOT_THINKING,
    f"{THINKING}=False": NOT_THINKING,
    "request.enable_thinking=TRUE": {"enable_thinking": True},
    'request.stop=["\\n\\n", "END"]': {"stop": ["\n\n", "END"]},
    "request.stop=END": {"stop": "END"},
    'request.stop="7"': {"stop": "7"},
    "request.api_version=2024-10-21": {"api_version": "2024-10-21"},
    "request.service_tier=flex": {"service_tier": "flex"},
    "request.thinking.budget_tokens=2048": {"thinking": {"budget_tokens": 2048}},
    "request.headers.Referer=https://a/b=c": {"headers": {"Referer": "https://a/b=c"}},
    "request.headers.X-Api-Key=env:GATEWAY": {"headers": {"X-Api-Key": "env:GATEWAY"}},
    ROUTING: {"extra_body": {"provider": PROVIDER}},
    'request={"seed": 7}': {"seed": 7},
}


FILE = """
request.api_version = 2024-10-21
[request.extra_body]
top_k = 20
chat_template_kwargs.enable_thinking = true
"""


def test_an_option_is_read_as_json_or_as_text_and_words_come_before_a_file(tmp_path: Path):
    assert {word: read(word) for word in OPTIONS} == OPTIONS
    config = tmp_path / "config.toml"
    config.write_text(FILE)
    merged = {"top_k": 20, **NOT_THINKING["extra_body"]}
    expected = {"api_version": "2024-10-21", "extra_body": merged}
    assert read(f"config={config}", f"{THINKING}=false") == expected


HEADER, BODY = "request.headers", "request.extra_body"
REFUSED_OPTIONS: list[tuple[list[str], str]] = [
    (["request.seed=1", "request.seed=2"], "request.seed: given twice"),
    (["request.a=1", "request.a.b=2"], "request.a.b: a is a value, not a table"),
    (["request.seed="], "request.seed=: empty"),
    (['request={"a": 1}', "request.b=2"], "request: given twice, as a table and as request.b="),
    (["request=7"], "request: write options such as request.seed=7"),
    (["request.temperature=1"], "temperature has its own setting; write temperature="),
    (["request.max_completion_tokens=9"], "write max_tokens="),
    (["request.top_p=0.5"], "write top_p="),
    (["request.base_url=http://127.0.0.1"], "write api_base="),
    ([f"{BODY}.max_tokens=9"], "write max_tokens="),
    ([f"{BODY}.model=other"], "alps sets model itself"),
    (["request.n=2"], "alps sets n itself"),
    (["request.stream=true"], "alps sets stream itself"),
    (["request.mock_response=Yes"], "alps sets mock_response itself"),
    (["request.response_format.type=text"], "alps sets response_format itself"),
    (["request.extra_headers.A=b"], "write headers.NAME=VALUE"),
    (["request.seed=null"], "null"),
    ([f"{HEADER}=7"], "headers takes single headers"),
    ([f"{HEADER}.A=[1]"], "header A takes one line of text"),
    (["request.a b=1"], "is not a valid option name"),
    (["reqest.seed=1"], "unknown key 'reqest.seed'"),
    (["request..=1"], "is not a valid option name"),
    (["request.api_key=" + CANARY], "may hold a key"),
    (["request.aws_secret_access_key=" + CANARY], "may hold a key"),
    (["request.azure_ad_token=" + CANARY], "may hold a key"),
    ([f"{BODY}.auth.password={CANARY}"], "may hold a key"),
    (["request.user=sk-" + CANARY], "may hold a key"),
    ([f"{HEADER}.Authorization=Bearer {CANARY}"], "may hold a key"),
    ([f"{HEADER}.X-Token={CANARY}"], "may hold a key"),
    ([f"{HEADER}.Note=sk-{CANARY}"], "may hold a key"),
    ([f"{HEADER}.cookie={CANARY}"], "may hold a key"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED_OPTIONS)
def test_an_option_that_can_not_be_sent_as_it_is_meant_is_refused_in_one_line(words, said):
    with pytest.raises(UsageError) as caught:
        read(*words)
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert "canary" not in str(caught.value)


def test_a_table_of_a_file_that_can_not_be_read_names_the_file(tmp_path: Path):
    config = tmp_path / "config.toml"
    for field, text in {"request": "request = 7", "judge_reqest": "judge_reqest.seed = 7"}.items():
        config.write_text(f"{text}\n")
        with pytest.raises((UsageError, DataError), match=f"config.toml.*{field}"):
            read(f"config={config}")


def test_a_judge_has_options_of_its_own():
    judge = "judge=openai/judge"
    asked = parse_words((judge, "judge_request.top_p=0.5"), JudgeSettings)
    assert asked.judge_request == {"top_p": 0.5}
    own = "judge_request: max_tokens has its own setting; write judge_max_tokens="
    with pytest.raises(UsageError, match=own):
        parse_words((judge, "judge_request.max_tokens=5"), JudgeSettings)
    words = (judge, "judge_request.seed=7")
    assert parse_words(words, JudgeSettings).judge_request == {"seed": 7}
    assert parse_words((*words, "labels=stress"), CalibrateSettings).judge_request == {"seed": 7}
    assert read("judge_request.seed=7", "request.seed=8") == {"seed": 8}


def test_options_are_part_of_what_is_measured_and_of_the_key_of_a_reply():
    plain = parse_words(NEEDED, RunSettings).experiment()
    seeded = parse_words([*NEEDED, "request.seed=7"], RunSettings).experiment()
    assert plain == {name: kept for name, kept in seeded.items() if name != "request"}
    assert seeded["request"] == {"seed": 7}

    def key(extra: dict[str, Any] | None = None) -> str:
        more = {} if extra is None else {"extra": extra}
        return cache_key(Request("openai/tiny", tuple(QUESTION), None, **more))

    assert len({key(), key({"seed": 7}), key({"seed": 8}), key({"extra_body": {"seed": 7}})}) == 4
    assert key({}) == key()


def test_a_table_of_options_is_written_as_the_toml_that_repeats_it(tmp_path: Path):
    body = {"extra_body": {"x-y": {"enable": False}}, "headers": {"A.b": "ü"}}
    request = {"seed": 7, "stop": ["\n", 'a"b\x7f'], **body}
    write_config(tmp_path, {"request": request})
    assert tomllib.loads((tmp_path / "config.toml").read_text()) == {"request": request}


# Whole runs


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write_visitors(tmp_path / "data", 1)
    return tmp_path


def manifest_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())


def asked_of(server: LoopbackServer, *, judge: bool) -> list[dict[str, Any]]:
    return [body for body in server.requests if is_judging(body) == judge]


def test_a_run_sends_its_options_writes_them_down_and_repeats_them(here: Path):
    options = ("request.seed=7", "request.top_k=20", f"{THINKING}=false", ROUTING)
    headers = ("request.headers.X-Title=alps", "request.headers.X-Key=env:GATEWAY_SECRET")
    secret = {"GATEWAY_SECRET": CANARY}
    with serve(good) as server:
        words = extraction(server.url, *options, *headers, "judge_request.seed=9", "out=out")
        done = run(here, *words, **secret)
        words = ("run", "config=out/config.toml", "out=again")
        again = run(here, *words, ALPS_CACHE="off", **secret)
    assert (done.returncode, again.returncode) == (0, 0), (done.stderr, again.stderr)
    asked = asked_of(server, judge=False)
    assert [body["seed"] for body in asked_of(server, judge=True)] == [9, 9]
    assert [body["seed"] for body in asked] == [7, 7]
    for body in asked:
        assert (body["top_k"], body["chat_template_kwargs"]) == (20, {"enable_thinking": False})
        assert body["provider"] == PROVIDER
    keys = [found.get("X-Key") or found.get("x-key") for found in server.headers]
    assert keys.count(CANARY) == len(asked)
    manifest = manifest_of(here / "out")
    sent = {"X-Title": "alps", "X-Key": "env:GATEWAY_SECRET"}
    assert manifest["settings"]["request"]["headers"] == sent
    assert manifest["system"]["request"] == manifest["settings"]["request"]
    assert manifest["judge"]["request"] == {"seed": 9}
    written = [path.read_bytes() for path in (here / "out").rglob("*") if path.is_file()]
    assert not any(b"canary" in text for text in written)


def test_a_judge_that_judges_again_is_sent_its_options(here: Path):
    judge = ("judge=openai/scripted-judge", "judge_request.seed=5", "out=again")
    with serve(good) as server:
        first = run(here, "run", "task=extraction", "data=data", "model=oracle", "out=out")
        at = (f"judge_api_base={server.url}", "baseline_records=1")
        again = run(here, "score", "out", *judge, *at)
    assert (first.returncode, again.returncode) == (0, 0), (first.stderr, again.stderr)
    assert server.requests
    assert {body["seed"] for body in server.requests} == {5}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["model=openai/o3", "temperature=0"], "temperature=0.0: openai/o3 does not accept it"),
        (["judge=openai/o3", "judge_temperature=0"], "judge_temperature=0.0: openai/o3 does not"),
        (["judge=openai/a,openai/b"], "judge=openai/a,openai/b: a run has one model"),
        (["request.headers.X-Key=env:NOBODY_SET_IT"], "NOBODY_SET_IT is not set in the env"),
        (["judge_request.headers.X-Key=env:NO_ONE"], "judge_request.headers: NO_ONE is not set"),
        (["request.tags=[1]"], "write request.extra_body.tags="),
    ],
)
def test_what_can_not_work_is_refused_before_anything_is_paid(here: Path, words, said):
    keys = tuple(word.partition("=")[0] + "=" for word in words)
    with serve(good) as server:
        ordinary = [w for w in extraction(server.url, "out=out") if not w.startswith(keys)]
        done = run(here, *ordinary, *words)
    assert said in one_line(done)
    assert server.requests == []
    assert not (here / "out").exists()


def test_answers_to_other_records_are_refused_with_ids_of_both(tmp_path):
    rows = (json.dumps({"benchmark_id": f"mine-{n}", "answer": ""}) for n in range(1_000))
    (tmp_path / "mine.jsonl").write_text("".join(f"{row}\n" for row in rows))
    for task, theirs in (("utilization", "alps_pa_001"), ("extraction", "alps_ext_001")):
        words = (f"task={task}", "model=predictions:mine.jsonl", "data=samples", "out=out")
        done = run(tmp_path, "run", *words)
        (line,) = done.stderr.splitlines()
        assert (done.returncode, done.stdout) == (2, "")
        assert "mine.jsonl, benchmark_id: the data has none of the file's ids (1,000)" in line
        assert "'mine-0', 'mine-1', …" in line
        assert f"'{theirs}'" in line
        assert not (tmp_path / "out").exists()
    # With limit= they still belong to the data.
    last = {"benchmark_id": "alps_ext_002", "memory_items": []}
    (tmp_path / "mine.jsonl").write_text(f"{json.dumps(last)}\n")
    done = run(tmp_path, "run", *words, "limit=1")
    assert "1 scored, 1 of them failed (1 empty)" in done.stdout, done.stderr


def test_personamem_without_a_cache_says_what_to_do(tmp_path):
    done = run(tmp_path, "run", "task=personamem", "model=rules", "out=out", ALPS_CACHE="off")
    assert done.returncode == 2
    assert "set ALPS_CACHE to a folder, or run alps data personas out=" in done.stderr


def test_the_port_of_a_site_is_tried_before_the_site_is_built(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(tmp_path, "leaderboard", "serve", f"port={port}", "out=site")
    assert done.returncode == 2
    assert f"port={port}: " in done.stderr
    assert not (tmp_path / "site").exists()


ALONE = ("run", "task=extraction", "data=data", "model=openai/gpt-4.1-mini")
KEY = {"OPENAI_API_KEY": "of-the-user"}


def test_an_endpoint_of_the_environment_counts_as_one_that_was_given(here: Path):
    words = (*ALONE, "judge=openai/gpt-4.1", "baseline_records=0")
    with serve(good) as server:
        given = (f"api_base={server.url}", f"judge_api_base={server.url}")
        one = run(here, *words, *given, "out=one", **KEY)
        asked = len(server.requests)
        two = run(here, *words, "out=two", **KEY, OPENAI_BASE_URL=server.url)
    assert (one.returncode, two.returncode) == (0, 0), (one.stderr, two.stderr)
    assert len(server.requests) == asked == 2  # the replies of the first answer the second
    first, second = manifest_of(here / "one"), manifest_of(here / "two")
    assert first == second
    assert second["settings"]["api_base"] == second["settings"]["judge_api_base"] == server.url
    assert second["judge"]["endpoint"] == "api_base"
    assert f'api_base = "{server.url}"' in (here / "two" / "config.toml").read_text()
    assert rows(here / "two" / "calls.jsonl") == []


def test_an_endpoint_of_the_environment_is_named_and_not_taken_for_the_provider(here: Path):
    with serve(good) as server:
        done = run(here, *ALONE, "out=out", **KEY, OPENAI_API_BASE=server.url)
        assert len(server.requests) == 1
    assert done.returncode == 0, done.stderr
    place = f"127.0.0.1:{server.server_port} (set by OPENAI_API_BASE)"
    said = f"alps: requests to openai/gpt-4.1-mini go to {place}"
    assert sum(line.startswith(said) for line in done.stderr.splitlines()) == 1
    assert "settings.api_base" in one_line(run(here, *ALONE, "out=out", **KEY))
