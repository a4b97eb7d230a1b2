"""Odd answers of a memory system fail the stage that asked, whatever brings them."""

import asyncio
import gzip
import sys
import tracemalloc

import pytest

from alps.ext.memory.connection import MemoryFailed
from alps.ext.memory.line_protocol import JsonLines, McpTools, SpokenConnection
from alps.ext.memory.server import HttpConnection
from alps.sizes import LARGEST_REPLY, LARGEST_TEXT
from tests import memory_odd
from tests.conftest import ROOT
from tests.endtoend import rows, run
from tests.ext.memory.stores import opened_in
from tests.few import few
from tests.loopback import Answer, serve
from tests.memory_ways import served_oddly

WORDS = ("task=forgetting", "model=rules", "baseline_records=0")


@pytest.mark.parametrize("way", few(["program", "class", "server", "tools"]))
def test_an_odd_answer_fails_its_stage_and_ends_no_run(tmp_path, way):
    with served_oddly(way) as named:
        kept = {"ALPS_CACHE": str(tmp_path / "cache")}
        done = run(ROOT, "run", *WORDS, named, f"out={tmp_path / 'out'}", **kept)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    answers = rows(tmp_path / "out" / "predictions.jsonl")
    failed = [row["error"] for row in answers if row["outcome"] == "invalid"]
    assert len(failed) == len(memory_odd.CASES)
    assert {error.partition(": ")[0] for error in failed} == {"memory, search"}
    assert max(map(len, failed)) < 300


def failure(connection, folder, method="search", timeout=60.0):
    """Return what a call of a connection fails with."""
    arguments = ("u1", "tea", 5, "now") if method == "search" else ()

    async def call():
        opening = opened_in(folder)
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


def program(folder, script, protocol):
    """Return a connection to a program whose source is given."""
    (folder / "script.py").write_text(script)
    command = f"{sys.executable} -S {folder / 'script.py'}"
    return SpokenConnection(command, protocol, key="memory", env=(), folder=None)


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
    ids=["a line", "a text"],
)
def test_a_line_and_a_text_have_a_largest_size(tmp_path, size, said):
    connection = program(tmp_path, LONG.format(size=size), JsonLines())
    assert failure(connection, tmp_path) == f"memory, search: {said}"


ANSWERS = """
import json, sys, time
for line in sys.stdin:
    row = json.loads(line)
    if "id" in row:
        time.sleep({pause})
        result = {result}
        print('{{"jsonrpc": "2.0", "id": %d, "result": %s}}' % (row["id"], result), flush=True)
"""
PAGES = """json.dumps({"tools": [], "nextCursor": str(row["id"])})"""
MANY = """'{"tools": [' + '{},' * 300_000 + '{}]}'"""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("pause", "said"), [(0, "tools/list: more than 100 pages"), (0.6, "no answer within 2 s")]
)
def test_a_list_of_tools_that_never_ends_is_given_up(tmp_path, pause, said):
    connection = program(tmp_path, ANSWERS.format(pause=pause, result=PAGES), McpTools())
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
    connection = program(tmp_path, ANSWERS.format(pause=0, result=repr(result)), McpTools())
    said = failure(connection, tmp_path)
    assert said.startswith("memory, open: ")
    assert "\n" not in said
    assert len(said) < 300


@pytest.mark.release
def test_a_million_wrong_tools_are_one_line_and_no_gigabyte(tmp_path):
    connection = program(tmp_path, ANSWERS.format(pause=0, result=MANY), McpTools())
    tracemalloc.start()
    said = failure(connection, tmp_path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert said == "memory, open: tools/list.tools.0.name: Field required"
    assert most < 4 * LARGEST_REPLY
