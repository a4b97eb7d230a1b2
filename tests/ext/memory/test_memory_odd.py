"""Odd answers of a memory system fail the stage that asked, whatever brings them."""

import asyncio
import gzip
import json
import sys
import tracemalloc
from contextlib import contextmanager

import pytest

from alps.ext.memory.connection import MemoryFailed
from alps.ext.memory.line_protocol import JsonLines, McpTools, SpokenConnection
from alps.ext.memory.protocol import Opening
from alps.ext.memory.server import HttpConnection
from alps.sizes import LARGEST_REPLY, LARGEST_TEXT
from tests import memory_odd
from tests.conftest import ROOT
from tests.endtoend import run
from tests.few import few
from tests.loopback import Answer, running, serve

WORDS = ("task=forgetting", "model=rules", "baseline_records=0")


@contextmanager
def served(way):
    """Yield the word that names the odd system, served in a way."""
    if way == "class":
        yield "memory=python:tests.memory_odd:Odd"
    elif way == "server":
        with running(memory_odd.Server()) as server:
            yield f"memory={server.url}"
    else:
        prefix = {"program": "program", "tools": "mcp"}[way]
        yield f"memory={prefix}:{sys.executable} {memory_odd.__file__} {way}"


@pytest.mark.parametrize("way", few(["program", "class", "server", "tools"]))
def test_an_odd_answer_fails_its_stage_and_ends_no_run(tmp_path, way):
    with served(way) as named:
        kept = {"ALPS_CACHE": str(tmp_path / "cache")}
        done = run(ROOT, "run", *WORDS, named, f"out={tmp_path / 'out'}", **kept)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    lines = (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    failed = [row["error"] for row in rows if row["outcome"] == "invalid"]
    assert len(failed) == len(memory_odd.CASES)
    assert {error.partition(": ")[0] for error in failed} == {"memory, search"}
    assert max(map(len, failed)) < 300


def failure(connection, folder, method="search", timeout=60.0):
    """Return what a call of a connection fails with."""
    arguments = ("u1", "tea", 5, "now") if method == "search" else ()

    async def call():
        opening = Opening(folder, None, None, 0, {})
        try:
            await connection.call("open", opening, timeout=timeout)
            await connection.call(method, *arguments, timeout=timeout)
        finally:
            await connection.aclose()

    with pytest.raises(MemoryFailed) as caught:
        asyncio.run(call())
    return str(caught.value)


BOMB = gzip.compress(b'{"data": [' + b" " * (6 * LARGEST_REPLY) + b"]}", 9)


def test_a_reply_of_a_server_that_unpacks_without_end_is_given_up(tmp_path):
    answer = Answer(body=BOMB, headers={"Content-Encoding": "gzip"})
    with serve(lambda body: answer) as server:
        tracemalloc.start()
        said = failure(HttpConnection(server.url, {}), tmp_path)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert said.startswith("memory, open: ")
    assert said.endswith("it is larger than 16 MB")
    assert most < 4 * LARGEST_REPLY


LONG = """
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    size = {size} if row["method"] == "search" else 0
    hit = {{"id": 1, "text": "x" * size}}
    print(json.dumps({{"id": row["id"], "result": [hit] if size else None}}), flush=True)
"""


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (LARGEST_REPLY, "the program's answer can't be read: it is larger than 16 MB"),
        (
            LARGEST_TEXT + 1,
            "hits[0].text: the text has 4,194,305 bytes; at most 4,194,304 are allowed",
        ),
    ],
)
def test_a_line_and_a_text_have_a_largest_size(tmp_path, size, said):
    (tmp_path / "long.py").write_text(LONG.format(size=size))
    command = f"{sys.executable} -S {tmp_path / 'long.py'}"
    connection = SpokenConnection(command, JsonLines(), key="memory", env=(), folder=None)
    assert failure(connection, tmp_path) == f"memory, search: {said}"


PAGES = """
import json, sys, time
for line in sys.stdin:
    row = json.loads(line)
    if "id" in row:
        time.sleep({pause})
        result = {{"tools": [], "nextCursor": str(row["id"])}}
        print(json.dumps({{"jsonrpc": "2.0", "id": row["id"], "result": result}}), flush=True)
"""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("pause", "said"), [(0, "tools/list: more than 100 pages"), (0.6, "no answer within 2 s")]
)
def test_a_list_of_tools_that_never_ends_is_given_up(tmp_path, pause, said):
    (tmp_path / "pages.py").write_text(PAGES.format(pause=pause))
    command = f"{sys.executable} -S {tmp_path / 'pages.py'}"
    connection = SpokenConnection(command, McpTools(), key="memory", env=(), folder=None)
    timeout = 2.0 if pause else 60.0
    assert failure(connection, tmp_path, timeout=timeout) == f"memory, open: {said}"


@pytest.mark.parametrize(
    "result",
    few(
        [
            *("7", '{"tools": [{"name": []}]}', "[" * 9_000 + "]" * 9_000, "null", '{"tools": 7}'),
            *('{"tools": [7]}', '{"tools": [], "nextCursor": {}}', '{"tools": [{}]}'),
        ],
        plain=3,
    ),
)
def test_odd_answers_to_a_handshake_are_one_line(tmp_path, result):
    script = f"""
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    if "id" in row:
        print('{{"jsonrpc": "2.0", "id": %d, "result": {result}}}' % row["id"], flush=True)
"""
    (tmp_path / "odd.py").write_text(script)
    command = f"{sys.executable} -S {tmp_path / 'odd.py'}"
    connection = SpokenConnection(command, McpTools(), key="memory", env=(), folder=None)
    said = failure(connection, tmp_path)
    assert said.startswith("memory, open: ")
    assert "\n" not in said
    assert len(said) < 300


@pytest.mark.release
def test_a_million_wrong_tools_are_one_line_and_no_gigabyte(tmp_path):
    script = """
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    if "id" in row:
        tools = "[" + "{}," * 300_000 + "{}]"
        print('{"jsonrpc": "2.0", "id": %d, "result": {"tools": %s}}' % (row["id"], tools))
        sys.stdout.flush()
"""
    (tmp_path / "many.py").write_text(script)
    command = f"{sys.executable} -S {tmp_path / 'many.py'}"
    connection = SpokenConnection(command, McpTools(), key="memory", env=(), folder=None)
    tracemalloc.start()
    said = failure(connection, tmp_path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert said == "memory, open: tools/list.tools.0.name: Field required"
    assert most < 4 * LARGEST_REPLY
