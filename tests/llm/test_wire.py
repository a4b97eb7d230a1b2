"""What providers are asked, captured on loopback in their own formats."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from alps.llm.cache import cache_key
from alps.llm.provider import marked
from alps.llm.types import Request
from tests.conftest import ROOT
from tests.llm import providers_asked
from tests.loopback import Answer, serve

FILE = ROOT / "bench" / "providers_asked.py"


@pytest.fixture(scope="module")
def rows() -> list[Any]:
    return providers_asked.measure()


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


def body(rows: list[Any], name: str) -> dict[str, Any]:
    """Return what the first provider of a name was asked."""
    return next(row.asked.body for row in rows if row.provider.name == name)


def test_every_provider_is_asked_in_its_own_format_and_heard(rows: list[Any]):
    assert {
        row.provider.model: (row.outcome, row.error) for row in rows if row.outcome != "ok"
    } == {}
    assert len(rows) >= 12


def test_every_provider_is_asked_with_the_key_that_was_set_for_it(rows: list[Any]):
    came = {row.provider.model: providers_asked.key_of(row.asked, row.provider.key) for row in rows}
    assert [model for model, header in came.items() if header == "did not come"] == []
    strangers = [row for row in rows if row.provider.key != "not-needed"]
    assert not any("not-needed" in str(row.asked.headers) for row in strangers)


def test_only_models_that_take_it_are_sent_a_temperature(rows: list[Any]):
    sent = {
        (row.provider.name, row.provider.model): providers_asked.temperature_of(row.asked.body)
        for row in rows
    }
    thinking = {(name, model) for name, model in sent if "reasoning" in name or "thinking" in name}
    thinking |= {(name, model) for name, model in sent if "unlisted" in name}
    assert {which for which, temperature in sent.items() if temperature == "none"} == thinking
    assert {sent[which] for which in sent.keys() - thinking} == {"0"}


def test_the_shared_beginning_is_marked_where_anthropic_keeps_it_and_nowhere_else(rows: list[Any]):
    mark = {"type": "ephemeral"}
    (block,) = body(rows, "anthropic, new")["system"]
    assert (block["type"], block["cache_control"]) == ("text", mark)
    assert body(rows, "bedrock, bearer")["system"][1] == {"cachePoint": {"type": "default"}}
    (routed,) = body(rows, "openrouter")["messages"][0]["content"]
    assert routed["cache_control"] == mark
    for row in rows:
        if "claude" not in row.provider.model:
            text = json.dumps(row.asked.body)
            assert "cache_control" not in text, row.provider.model
            assert "cachePoint" not in text, row.provider.model


def test_an_anthropic_model_that_nobody_knows_may_answer_more_than_litellm_would_let_it(
    rows: list[Any],
):
    assert body(rows, "anthropic, unlisted")["max_tokens"] == 32_000
    assert body(rows, "anthropic, old")["max_tokens"] == 4_096
    assert body(rows, "anthropic, new")["max_tokens"] == 64_000


def test_the_version_of_azures_api_is_the_one_of_the_environment(rows: list[Any]):
    paths = {row.provider.name: row.asked.path for row in rows}
    assert paths["azure"].endswith("?api-version=2025-01-01-preview")


def test_the_mark_is_put_on_when_a_request_is_sent_and_is_no_part_of_its_key():
    request = Request(
        "anthropic/claude-sonnet-4-5", ({"role": "system", "content": "Judge."},), None
    )
    before = cache_key(request)
    assert marked(request.messages, request.model)[0]["content"][0]["cache_control"] == {
        "type": "ephemeral"
    }
    assert request.messages == ({"role": "system", "content": "Judge."},)
    assert cache_key(request) == before
