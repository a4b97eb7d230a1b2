"""An endpoint that redirects: the host it names is told no key and no dialogue."""

import asyncio
import itertools
from contextlib import ExitStack

import httpx
import pytest

from alps.llm.provider import send
from alps.llm.types import Request, TransportError
from alps.llm.wire import following_none
from tests.endtoend import extraction, finish, rows, start
from tests.loopback import Answer, asked_over_http, serve
from tests.visitors import good, write_visitors

pytestmark = pytest.mark.filterwarnings(r"ignore:Item '\w+' on TypedDict class:UserWarning")

PROVIDERS = {
    "openai/tiny": {"OPENAI_API_KEY": "canary-redirect-openai"},
    "anthropic/claude-tiny": {"ANTHROPIC_API_KEY": "canary-redirect-anthropic"},
    "azure/tiny": {"AZURE_API_KEY": "canary-redirect-azure", "AZURE_API_VERSION": "2024-10-21"},
    "gemini/gemini-tiny": {"GEMINI_API_KEY": "canary-redirect-gemini"},
    "openrouter/tiny": {"OPENROUTER_API_KEY": "canary-redirect-router"},
}


ONCE = [("aiohttp_openai/tiny", 307)]
"""litellm keeps one session of aiohttp for ever, and a second event loop can't use it."""


@pytest.mark.parametrize(
    ("model", "status"), [*itertools.product(PROVIDERS, (301, 302, 303, 307, 308)), *ONCE]
)
def test_a_redirect_is_an_error_and_its_target_hears_nothing(model, status, monkeypatch):
    for name, value in PROVIDERS.get(model, {"OPENAI_API_KEY": "canary"}).items():
        monkeypatch.setenv(name, value)
    with serve(good) as target, ExitStack() as stack:
        elsewhere = (
            f"http://someone:secretive@localhost:{target.server_port}/v1/chat/completions?key=hush"
        )
        moved = Answer(status=status, body="{}", headers={"Location": elsewhere})
        endpoint = stack.enter_context(serve(lambda _: moved))
        request = Request[str](model=model, messages=(), answer=None, api_base=endpoint.url)
        with pytest.raises(TransportError) as caught:
            asked_over_http(send(request, [{"role": "user", "content": "I live in Lyon."}]))
        assert len(endpoint.requests) == 1
        assert target.requests == []
        assert target.gets == []
    message = str(caught.value)
    assert f"HTTP {status}" in message
    assert f"localhost:{target.server_port}" in message
    assert not {"hush", "secretive"} & set(message.replace("=", " ").replace(":", " ").split())
    assert "\n" not in message
    assert (caught.value.status, caught.value.transient, caught.value.fatal) == (
        status,
        False,
        None,
    )


def test_a_run_ends_with_the_redirect_named_once_and_exit_1(tmp_path):
    write_visitors(tmp_path / "data", 2)
    with serve(good) as target:
        moved = Answer(
            status=307, body="{}", headers={"Location": target.url + "/chat/completions"}
        )
        with serve(lambda _: moved) as endpoint:
            key = {"OPENAI_API_KEY": "canary-redirect-openai"}
            done = finish(start(tmp_path, *extraction(endpoint.url, "out=run"), **key))
        assert (target.requests, target.gets) == ([], [])
    assert done.returncode == 1, done
    errors = {row["error"] for row in rows(tmp_path / "run" / "predictions.jsonl")}
    host = f"127.0.0.1:{target.server_port}"
    assert errors == {
        f"HTTP 307: the endpoint redirects to {host}, which is not followed; ask that one itself"
    }
    assert {row["attempt"] for row in rows(tmp_path / "run" / "calls.jsonl")} == {1}


def test_other_requests_of_the_process_follow_redirects_as_they_did(tmp_path):
    """Downloads from a hub need them; only what is asked of models does not."""
    moved = Answer(status=307, body="{}", headers={})

    async def asked(url):
        async with httpx.AsyncClient(follow_redirects=True) as client:
            with following_none():
                pass
            return await client.post(url, json={"messages": []})

    with serve(lambda _: Answer(body='{"reached": true}')) as target:
        moved.headers["Location"] = target.url
        with serve(lambda _: moved) as endpoint:
            request = Request[str](
                model="openai/tiny", messages=(), answer=None, api_base=endpoint.url
            )
            with pytest.raises(TransportError):
                asked_over_http(send(request, [{"role": "user", "content": "x"}]))
            assert asyncio.run(asked(endpoint.url)).json() == {"reached": True}
        assert len(target.requests) == 1
