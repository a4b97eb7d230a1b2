"""`request.NAME=VALUE`: what a provider is sent beside the sampling settings, and where that is
written down.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from alps.errors import DataError, UsageError
from alps.ext.calibration.settings import CalibrateSettings
from alps.llm.cache import cache_key
from alps.llm.types import Request
from alps.parsing import parse_words
from alps.run.folder import write_config
from alps.settings import JudgeSettings, RunSettings
from tests.endtoend import extraction, one_line, run
from tests.loopback import serve
from tests.visitors import good, is_judging, write_visitors

NEEDED = ("task=extraction", "model=openai/tiny")
THINKING = "request.extra_body.chat_template_kwargs.enable_thinking"
ROUTING = 'request.extra_body.provider={"order": ["together"], "allow_fallbacks": false}'


def read(*words: str) -> Any:
    return parse_words([*NEEDED, *words], RunSettings).request


@pytest.mark.parametrize(
    ("word", "table"),
    [
        ("request.seed=7", {"seed": 7}),
        ("request.top_k=20", {"top_k": 20}),
        ("request.min_p=0.05", {"min_p": 0.05}),
        (f"{THINKING}=false", {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}),
        (f"{THINKING}=False", {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}),
        ("request.enable_thinking=TRUE", {"enable_thinking": True}),
        ('request.stop=["\\n\\n", "END"]', {"stop": ["\n\n", "END"]}),
        ("request.stop=END", {"stop": "END"}),
        ('request.stop="7"', {"stop": "7"}),
        ("request.api_version=2024-10-21", {"api_version": "2024-10-21"}),
        ("request.service_tier=flex", {"service_tier": "flex"}),
        ("request.thinking.budget_tokens=2048", {"thinking": {"budget_tokens": 2048}}),
        (
            "request.headers.HTTP-Referer=https://a.example/b=c",
            {"headers": {"HTTP-Referer": "https://a.example/b=c"}},
        ),
        ("request.headers.X-Api-Key=env:GATEWAY", {"headers": {"X-Api-Key": "env:GATEWAY"}}),
        (ROUTING, {"extra_body": {"provider": {"order": ["together"], "allow_fallbacks": False}}}),
        ('request={"seed": 7}', {"seed": 7}),
    ],
)
def test_an_option_is_read_as_json_or_as_text(word: str, table: dict[str, Any]):
    assert read(word) == table


def test_options_of_the_command_line_come_before_those_of_a_file(tmp_path: Path):
    config = tmp_path / "config.toml"
    config.write_text(
        "request.api_version = 2024-10-21\n"
        "[request.extra_body]\ntop_k = 20\nchat_template_kwargs.enable_thinking = true\n"
    )
    expected = {
        "api_version": "2024-10-21",
        "extra_body": {"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}},
    }
    assert read(f"config={config}", f"{THINKING}=false") == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["request.seed=1", "request.seed=2"], "request.seed: given twice"),
        (["request.a=1", "request.a.b=2"], "request.a.b: a is a value and no table"),
        (["request.seed="], "request.seed=: empty"),
        (['request={"a": 1}', "request.b=2"], "request: given twice, as a table and as request.b="),
        (["request=7"], "request: it takes single options, as request.seed=7"),
        (
            ["request.temperature=1"],
            "request: temperature has a setting of its own; write temperature=",
        ),
        (["request.max_completion_tokens=9"], "write max_tokens="),
        (["request.top_p=0.5"], "write top_p="),
        (["request.base_url=http://127.0.0.1"], "write api_base="),
        (["request.extra_body.max_tokens=9"], "write max_tokens="),
        (["request.extra_body.model=other"], "model is decided by alps"),
        (["request.n=2"], "n is decided by alps"),
        (["request.stream=true"], "stream is decided by alps"),
        (["request.mock_response=Yes"], "mock_response is decided by alps"),
        (["request.response_format.type=text"], "response_format is decided by alps"),
        (["request.extra_headers.A=b"], "write headers.NAME=VALUE"),
        (["request.seed=null"], "null"),
        (["request.headers=7"], "headers takes single headers"),
        (["request.headers.A=[1]"], "header A takes one line of text"),
        (["request.a b=1"], "can't be the name of an option"),
        (["reqest.seed=1"], "unknown key 'reqest.seed'"),
        (["request..=1"], "can't be the name"),
    ],
)
def test_an_option_that_can_not_be_sent_as_it_is_meant_is_refused_in_one_line(
    words: list[str], said: str
):
    with pytest.raises(UsageError) as caught:
        read(*words)
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "word",
    [
        "request.api_key=canary-0123456789",
        "request.aws_secret_access_key=canary-0123456789",
        "request.azure_ad_token=canary-0123456789",
        "request.extra_body.auth.password=canary-0123456789",
        "request.user=sk-canary-0123456789",
        "request.headers.Authorization=Bearer canary-0123456789",
        "request.headers.X-Token=canary-0123456789",
        "request.headers.Note=sk-canary-0123456789",
        "request.headers.cookie=canary-0123456789",
    ],
)
def test_an_option_that_may_hold_a_key_is_refused_without_its_value(word: str):
    with pytest.raises(UsageError, match="may hold a key") as caught:
        read(word)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "field"), [("request = 7", "request"), ("judge_reqest.seed = 7", "judge_reqest")]
)
def test_a_table_of_a_file_that_can_not_be_read_names_the_file(
    tmp_path: Path, text: str, field: str
):
    (tmp_path / "config.toml").write_text(f"{text}\n")
    with pytest.raises((UsageError, DataError), match=f"config.toml.*{field}"):
        read(f"config={tmp_path / 'config.toml'}")


def test_a_judge_has_options_of_its_own():
    assert parse_words(
        ("judge=openai/judge", "judge_request.top_p=0.5"), JudgeSettings
    ).judge_request == {"top_p": 0.5}
    with pytest.raises(
        UsageError,
        match="judge_request: max_tokens has a setting of its own; write judge_max_tokens=",
    ):
        parse_words(("judge=openai/judge", "judge_request.max_tokens=5"), JudgeSettings)
    words = ("judge=openai/judge", "judge_request.seed=7")
    assert parse_words(words, JudgeSettings).judge_request == {"seed": 7}
    assert parse_words((*words, "labels=stress"), CalibrateSettings).judge_request == {"seed": 7}
    assert parse_words(
        (*NEEDED, "judge_request.seed=7", "request.seed=8"), RunSettings
    ).request == {"seed": 8}


def test_options_are_part_of_what_is_measured_and_only_where_they_were_given():
    plain, seeded = (
        parse_words([*NEEDED, *more], RunSettings) for more in ((), ("request.seed=7",))
    )
    assert plain.experiment() == {
        name: kept for name, kept in seeded.experiment().items() if name != "request"
    }
    assert seeded.experiment()["request"] == {"seed": 7}


def test_options_are_part_of_the_key_of_a_reply():
    def key(**changes: Any) -> str:
        return cache_key(
            Request("openai/tiny", ({"role": "user", "content": "Chess?"},), None, **changes)
        )

    assert (
        len(
            {
                key(),
                key(extra={"seed": 7}),
                key(extra={"seed": 8}),
                key(extra={"extra_body": {"seed": 7}}),
            }
        )
        == 4
    )
    assert key(extra={}) == key()


def test_a_table_of_options_is_written_as_the_toml_that_repeats_it(tmp_path: Path):
    request = {
        "seed": 7,
        "stop": ["\n", 'a"b\x7f'],
        "extra_body": {"x-y": {"enable": False}},
        "headers": {"A.b": "ü"},
    }
    write_config(tmp_path, {"request": request})
    assert tomllib.loads((tmp_path / "config.toml").read_text()) == {"request": request}


def test_a_run_sends_its_options_writes_them_down_and_repeats_them(tmp_path: Path):
    write_visitors(tmp_path / "data", 1)
    options = (
        *(
            "request.seed=7",
            "request.top_k=20",
            f"{THINKING}=false",
            ROUTING,
            "judge_request.seed=9",
        ),
        *("request.headers.X-Title=alps", "request.headers.X-Key=env:GATEWAY_SECRET"),
    )
    secret = {"GATEWAY_SECRET": "canary-0123456789"}
    with serve(good) as server:
        done = run(tmp_path, *extraction(server.url, *options, "out=out"), **secret)
        again = run(
            tmp_path, "run", "config=out/config.toml", "out=again", ALPS_CACHE="off", **secret
        )
    assert (done.returncode, again.returncode) == (0, 0), (done.stderr, again.stderr)
    asked = [body for body in server.requests if not is_judging(body)]
    judged = [body for body in server.requests if is_judging(body)]
    assert [body["seed"] for body in judged] == [9, 9]
    assert [body["seed"] for body in asked] == [7, 7]
    for body in asked:
        assert (body["top_k"], body["chat_template_kwargs"]) == (20, {"enable_thinking": False})
        assert body["provider"] == {"order": ["together"], "allow_fallbacks": False}
    keys = [headers.get("X-Key") or headers.get("x-key") for headers in server.headers]
    assert keys.count("canary-0123456789") == len(asked)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["settings"]["request"]["headers"] == {
        "X-Title": "alps",
        "X-Key": "env:GATEWAY_SECRET",
    }
    assert manifest["system"]["request"] == manifest["settings"]["request"]
    assert manifest["judge"]["request"] == {"seed": 9}
    written = [path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert not any(b"canary" in text for text in written)


def test_a_judge_that_judges_again_is_sent_its_options(tmp_path: Path):
    write_visitors(tmp_path / "data", 1)
    judge = ("judge=openai/scripted-judge", "judge_request.seed=5", "out=again")
    with serve(good) as server:
        first = run(tmp_path, "run", "task=extraction", "data=data", "model=oracle", "out=out")
        again = run(
            tmp_path, "score", "out", *judge, f"judge_api_base={server.url}", "baseline_records=1"
        )
    assert (first.returncode, again.returncode) == (0, 0), (first.stderr, again.stderr)
    assert server.requests
    assert {body["seed"] for body in server.requests} == {5}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("request.headers.X-Key=env:NOBODY_SET_IT", "NOBODY_SET_IT is not set in the environment"),
        (
            "judge_request.headers.X-Key=env:NOBODY_SET_IT",
            "judge_request.headers: NOBODY_SET_IT is not set",
        ),
        ("request.tags=[1]", "write request.extra_body.tags="),
    ],
)
def test_what_would_not_be_sent_is_refused_before_the_first_call(
    tmp_path: Path, word: str, said: str
):
    write_visitors(tmp_path / "data", 1)
    with serve(good) as server:
        done = run(tmp_path, *extraction(server.url, word, "out=out"))
    assert said in one_line(done)
    assert server.requests == []
    assert not (tmp_path / "out").exists()
