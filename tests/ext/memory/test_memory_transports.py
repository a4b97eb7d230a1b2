"""One memory system as a class, a program, a server and MCP tools: the same to the suite."""

import asyncio
import gzip
import importlib.util
import json
import sys
import tracemalloc
from functools import cache
from pathlib import Path
from random import Random

import pytest

from alps.errors import UsageError
from alps.ext.doctor.settings import DoctorSettings
from alps.ext.memory.connection import ClassConnection, MemoryFailed
from alps.ext.memory.line_protocol import JsonLines, McpTools, SpokenConnection
from alps.ext.memory.part import checks_of, memory_options
from alps.ext.memory.protocol import session_of
from alps.ext.memory.resolve import check_memory
from alps.ext.memory.server import HttpConnection
from alps.ext.memory.settings import MemoryKeys
from alps.run.source import open_data
from alps.run.start import run as carry_out
from alps.schema import Turn
from alps.settings import RunSettings, parse_words
from alps.sizes import LARGEST_REPLY, LARGEST_TEXT
from tests import memory_odd, memory_served
from tests.conftest import ROOT
from tests.endtoend import finish, rows, run, start, wait_until
from tests.ext.memory.stores import opened_in
from tests.few import few
from tests.loopback import Answer, serve
from tests.memory_served import Kept
from tests.memory_ways import WAYS, Told, served, served_oddly, write_data

TASKS = ["extraction", "update", "retrieval", "utilization", "personamem", "forgetting"]
WORDS = ("task=all", "model=rules", "size=32k", "baseline_records=0")
LIBRARY = importlib.util.find_spec("mcp")
KILLED = ("personamem", "task3", "forgetting")
"""Tracks of the runs that are killed."""
SAME = ("predictions.jsonl", "scores.jsonl")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return f"data={folder}"


@pytest.fixture(scope="module")
def ran(data, tmp_path_factory):
    """Return what runs once over a transport, and gives the folder."""

    @cache
    def over(way):
        folder = tmp_path_factory.mktemp(way)
        with served(way, folder) as named:
            out = f"out={folder / 'out'}"
            done = carry_out(parse_words([*WORDS, data, *named, out], RunSettings))
        assert [check.fault for check in done.summary.admission] == [""] * 24
        assert list(dict.fromkeys(task.name for task in done.tasks)) == TASKS
        return folder

    return over


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("name", SAME)
@pytest.mark.release
def test_the_same_store_over_each_transport_has_the_same_scores(ran, way, name):
    ours, theirs = ((ran(one) / "out" / name).read_text() for one in ("class", way))
    assert ours == theirs
    assert ours.count('"outcome":"ok"') or name != SAME[0]


def secrets_of(sample):
    """Return the gold of a sample and its options, but what stands in what a system is given."""
    gold = getattr(sample, "gold", None) or ()
    memories = gold if isinstance(gold, tuple) else (getattr(gold, "memory", None),)
    values = [getattr(memory, "value", memory) or "" for memory in memories]
    said = [turn.text for turn in getattr(sample, "dialogue", ())]
    said += [memory.value for memory in getattr(sample, "memory", ())]
    options = getattr(getattr(sample, "question", None), "options", ())
    texts = [*values, *options]
    return [text for text in texts if len(text) > 15 and not any(text in one for one in said)]


@pytest.mark.few(1)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_sent_names_no_task_no_record_no_gold_and_no_option(ran, data, way):
    sent = (ran(way) / "log").read_text()
    settings = parse_words([*WORDS, data], RunSettings)
    seen, tracks = set(), open_data(settings).tracks
    # The bank of retrieval, which is ingested, holds gold of other tasks.
    banks = [getattr(sample, "candidates", ()) for track in tracks for sample in track.samples()]
    bank = {memory.value for candidates in banks for memory in candidates}
    for track in tracks:
        assert track.task.track not in sent
        for sample in track.samples():
            assert sample.benchmark_id not in sent
            for text in secrets_of(sample):
                seen.add(track.task.name)
                assert text in bank or json.dumps(text)[1:-1] not in sent
    assert seen == {"extraction", "update", "utilization", "personamem"}
    for word in ("personamem", "utilization", "benchmark", "alpsbench", '"gold"'):
        assert word not in sent.replace(str(ran(way)), "").lower(), word


@pytest.mark.parametrize("way", few(WAYS[1:] + WAYS[:1]))
@pytest.mark.release
def test_a_run_killed_again_and_again_ends_the_same_and_tells_nothing_settled_twice(
    ran, data, tmp_path, way
):
    draw = Random(way)
    out = f"out={tmp_path / 'out'}"
    words = ("run", "task=personamem,retrieval,forgetting", *WORDS[1:], data, out)
    told = Told(way, tmp_path)
    with served(way, tmp_path) as named:
        for _ in range(2):
            enough = len(told.diary()) + draw.randrange(3, 20)
            process = start(ROOT, *words, *named, ALPS_CACHE=str(tmp_path / "cache"))

            def is_far(process=process, enough=enough):
                return process.poll() is not None or len(told.diary()) >= enough

            wait_until(is_far)
            process.kill()
            process.communicate()
            told.note_kill()
        finish(start(ROOT, *words, *named, ALPS_CACHE=str(tmp_path / "cache")))
    for name in SAME:
        calm = (ran(way) / "out" / name).read_text().splitlines()
        both = [row for row in calm if json.loads(row)["track"].startswith(KILLED)]
        assert sorted((tmp_path / "out" / name).read_text().splitlines()) == sorted(both)
    assert told.settled()
    assert told.again() == []


CALLS = (
    ("ingest", "u1", session_of([Turn(role="user", text=text) for text in ("Oh", "Uh")], 0)),
    ("settle", "u1", 5.0),
    ("search", "u1", "Uh", 1, "now"),
    ("search", "u1", "Uh", 9, "now"),
    ("search", "u2", "Uh", 9, "now"),
    ("memories", "u1"),
    ("reset", "u1"),
    ("search", "u1", "Uh", 9, "now"),
)


async def answers(connection, folder):
    """Return what a system answers to each call, hits as they are read."""
    folder.mkdir()
    given = []
    try:
        await connection.call("open", opened_in(folder), timeout=60)
        for method, *arguments in CALLS:
            value = (await connection.call(method, *arguments, timeout=60)).value
            given.append(value)
        return given, connection.persistent
    finally:
        await connection.aclose()


@pytest.mark.release
@pytest.mark.skipif(LIBRARY is None, reason="the official library of MCP is not installed")
def test_a_server_of_the_official_library_answers_as_the_class_does(tmp_path):
    command = f"{sys.executable} {memory_served.__file__} with_library {tmp_path / 'log'}"
    served = SpokenConnection(command, McpTools(), key="memory", env=(), folder=tmp_path)
    theirs = asyncio.run(answers(served, tmp_path / "theirs"))
    assert theirs == asyncio.run(answers(ClassConnection(Kept()), tmp_path / "ours"))
    assert [len(hits) for hits in theirs[0][2:6]] == [1, 2, 0, 2]


@pytest.mark.few(2)
@pytest.mark.parametrize("way", WAYS)
def test_the_doctor_checks_the_system_that_a_run_would_use(tmp_path, way):
    with served(way, tmp_path) as named:
        checks = checks_of(parse_words(named, DoctorSettings))
    assert [check.fault for check in checks] == [""] * 12
    assert (tmp_path / "log").exists()  # the class learns of it by an option


NEEDS = """
import json, os, sys
if "WANTED" not in os.environ:
    sys.exit("WANTED is not set")
for line in sys.stdin:
    row = json.loads(line)
    result = {"open": None, "settle": "ready"}.get(row["method"], [])
    print(json.dumps({"id": row["id"], "result": result}), flush=True)
"""


@pytest.mark.release
def test_the_doctor_passes_what_env_names(tmp_path, monkeypatch):
    (tmp_path / "needs.py").write_text(NEEDS)
    monkeypatch.setenv("WANTED", "yes")
    named = [f"memory=program:{sys.executable} -S {tmp_path / 'needs.py'}", "timeout=30"]
    (without,) = checks_of(parse_words(named, DoctorSettings))
    assert without.fault == "memory, open: the program ended (exit code 1): WANTED is not set"
    opened = checks_of(parse_words([*named, "env=WANTED"], DoctorSettings))
    assert "the user's turn is not found" in [check.fault for check in opened]
    with pytest.raises(UsageError, match="env=WANTED would change nothing: only program:CMD"):
        checks_of(parse_words(["memory=bm25", "env=WANTED"], DoctorSettings))


def test_no_file_and_no_output_has_the_password_of_an_address_in_a_command(data, tmp_path):
    with served("program", tmp_path) as (named,):
        words = named.replace("program:", "program:env STORE=http://anna:hunter22@127.0.0.1:9 ")
        said = []
        for command in (
            ("run", "task=personamem", "model=rules", "limit=2", data, words, "out=run"),
            ("run", "task=personamem", "model=rules", "limit=1", data, words, "out=run"),
            ("doctor", words),
            ("memory", "compare", "run", f"rows=none,{words.partition('=')[2].upper()}"),
            ("memory", "diagnose", "run"),
            ("show", "run", "--full"),
            ("report", "run", "out=report.html"),
            ("ls", "."),
        ):
            done = run(tmp_path, *command)
            said.append(done.stdout + done.stderr)
    (tmp_path / "log").unlink()
    written = [path.read_text() for path in tmp_path.rglob("*") if path.suffix.startswith(".j")]
    written += [(tmp_path / "report.html").read_text(), *map(str, tmp_path.rglob("*"))]
    assert any("http://[secret]@127.0.0.1:9" in text for text in written)
    assert "http://[secret]@127.0.0.1:9" in said[0]
    assert all("hunter22" not in text.casefold() for text in [*said, *written])


@pytest.mark.parametrize(
    "address", ["http://anna:hunter22@c/", "http://hunter22@c:81", "ftp://anna:hunter22@c"]
)
@pytest.mark.parametrize("command", [("doctor",), ("run", "task=personamem", "model=rules")])
def test_a_password_in_the_address_of_a_server_is_not_repeated(command, address, tmp_path):
    done = run(tmp_path, *command, f"memory={address}")
    assert done.returncode == 2
    assert "hunter22" not in done.stdout + done.stderr
    assert not (tmp_path / "runs").exists()


def checks_over_http(answer, seconds):
    with serve(lambda body: answer) as server:
        words = [f"memory={server.url.removesuffix('/v1')}", f"timeout={seconds}"]
        return checks_of(parse_words(words, DoctorSettings))


def test_a_server_that_answers_with_an_error_and_no_text_is_told_by_its_status():
    faults = [check.fault for check in checks_over_http(Answer(status=503, body=""), 30)]
    assert "memory, ingest: /add answered HTTP 503" in faults


def test_a_check_that_ran_out_of_time_says_how_long_it_took():
    (check,) = checks_over_http(Answer(delay=3), 1)
    assert check.fault == "memory, open: no answer within 1 s"
    assert 1 <= check.seconds < 3


HANGS = """
import json, sys, time
print("starts", file=sys.stderr, flush=True)
for line in sys.stdin:
    row = json.loads(line)
    if row.get("query") == "hang":
        time.sleep(600)
    if row.get("query") == "die":
        sys.exit("no memory left")
    answer = {"error": "no index"} if row.get("query") == "fail" else {"result": None}
    print(json.dumps({"id": row["id"], **answer}), flush=True)
"""


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("query", "said", "starts"),
    [
        ("hang", "memory, search: no answer within 3 s", 2),
        ("die", "memory, search: the program ended (exit code 1): no memory left", 2),
        ("fail", "memory, search: answered with an error: no index", 1),
    ],
)
def test_a_call_that_fails_names_its_stage_and_the_next_is_answered(tmp_path, query, said, starts):
    (tmp_path / "hangs.py").write_text(HANGS)
    command = f"{sys.executable} -S {tmp_path / 'hangs.py'}"

    async def ask():
        connection = SpokenConnection(command, JsonLines(), key="memory", env=(), folder=tmp_path)
        try:
            await connection.call("open", opened_in(tmp_path), timeout=60)
            with pytest.raises(MemoryFailed) as caught:
                await connection.call("search", "u1", query, 5, "now", timeout=3)
            await connection.call(*CALLS[0], timeout=60)
            return str(caught.value), connection.begun
        finally:
            await connection.aclose()

    assert asyncio.run(ask()) == (said, starts)
    assert (tmp_path / "memory.stderr.log").read_text().count("starts") == starts


def test_a_short_form_is_the_same_run():
    short = parse_words(["task=personamem", "model=memory:bm25", "reader=openai/x"], RunSettings)
    long = parse_words(["task=personamem", "model=openai/x", "memory=bm25"], RunSettings)
    assert short == long
    assert short.experiment() == long.experiment()
    assert parse_words(["task=personamem", "model=memory:bm25"], RunSettings).model == "rules"
    with pytest.raises(UsageError, match="reader=x: use it only with model=memory:NAME"):
        parse_words(["task=personamem", "model=rules", "reader=x"], RunSettings)


def test_a_dry_run_starts_no_program_and_counts_the_readers_calls(tmp_path):
    words = ("run", "task=personamem", "model=openai/x", "size=32k", "limit=3", "dry_run=true")
    program = f"memory=program:{sys.executable} -c open('started','w')"
    shown = run(tmp_path, *words, program).stdout
    assert "3" in shown
    assert list(tmp_path.glob("started")) == []
    assert run(tmp_path, *words, "memory=http://127.0.0.1:9").returncode == 0


class Lacks:
    def open(self, opening):
        """Do nothing."""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["memory=python:tests.nowhere:A"], "memory=python:tests.nowhere:A: no module 'tests.no"),
        (
            ["memory=python:tests.ext.memory.test_memory_transports:Lacks"],
            "Lacks has no method 'ingest'",
        ),
        (["memory=program:no-such-program"], "no-such-program: command not found"),
        (["memory=http://a:b@c/"], "an address must not contain a user, password or query"),
        (
            ["memory=http://c", "memory.size=3"],
            "memory.size: a server takes only memory.headers.NAME",
        ),
        (["memory=none", "memory.size=3"], "memory.size: memory=none takes no options"),
        (["memory=bm26"], "memory=bm26: unknown — did you mean 'bm25'?"),
        (["memory=http://c", "memory.headers.X=env:NOT_SET_AT_ALL"], "NOT_SET_AT_ALL is not set"),
        (["memory=http://c", "memory.headers.X-Key=abc"], "header X-Key may hold a key"),
        (["memory=bm25", "memory.api_key=abc"], "api_key may hold a key"),
        (["memory=bm25", "memory.a=1", "memory.a=2"], "memory.a: given twice"),
    ],
)
def test_a_memory_that_can_not_be_is_one_line(words, said):
    def check():
        settings = parse_words(["task=personamem", "model=rules", *words], RunSettings)
        check_memory(settings.memory, memory_options(MemoryKeys.of(settings), None))

    with pytest.raises(UsageError) as caught:
        check()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_are_texts_as_they_were_typed():
    words = ["task=personamem", "model=rules", "memory=bm25", "memory.alpha=0.10", "memory.x.y=yes"]
    assert parse_words(words, RunSettings).memory_options == {"alpha": "0.10", "x.y": "yes"}


def test_the_path_that_a_system_is_given_tells_nothing(ran):
    calls = rows(ran("class") / "log")
    opened = [arguments for method, arguments in calls if method == "open"]
    assert Path(opened[-1]["folder"]).name in ("kept", "first", "second")


# Odd answers of a memory system fail the stage that asked, whatever brings them

ODDLY = ("task=forgetting", "model=rules", "baseline_records=0")


@pytest.mark.parametrize("way", few(["program", "class", "server", "tools"]))
def test_an_odd_answer_fails_its_stage_and_ends_no_run(tmp_path, way):
    with served_oddly(way) as named:
        kept = {"ALPS_CACHE": str(tmp_path / "cache")}
        done = run(ROOT, "run", *ODDLY, named, f"out={tmp_path / 'out'}", **kept)
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


TOO_LONG = "hits[0].text: the text has 4,194,305 bytes; at most 4,194,304 are allowed"
SIZES = {
    "a line": (LARGEST_REPLY, "the program's answer can't be read: it is larger than 16 MB"),
    "a text": (LARGEST_TEXT + 1, TOO_LONG),
}


@pytest.mark.parametrize(("size", "said"), SIZES.values(), ids=SIZES)
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


HANDSHAKES = ["7", '{"tools": [{"name": []}]}', "[" * 9_000 + "]" * 9_000, "null", '{"tools": 7}']
HANDSHAKES += ['{"tools": [7]}', '{"tools": [], "nextCursor": {}}', '{"tools": [{}]}']


@pytest.mark.parametrize("result", few(HANDSHAKES, plain=3))
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
