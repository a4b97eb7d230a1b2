"""One memory system as a class, a program, a server and MCP tools: the same to the suite."""

import asyncio
import importlib.util
import json
import shutil
import sqlite3
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from alps.errors import UsageError
from alps.parsing import parse_words
from alps.run.services import memory_options
from alps.run.source import open_data
from alps.settings import RunSettings
from alps.systems.memory.connection import MemoryFailed
from alps.systems.memory.program import JsonLines
from alps.systems.memory.protocol import Opening, Said, Session
from alps.systems.memory.resolve import check_memory
from alps.systems.memory.spoken import SpokenConnection
from tests import memory_served
from tests.endtoend import finish, run, start, wait_until

WAYS = ["class", "program", "server", "tools"]
SERVED = "served.py"
WORDS = ("run", "task=all", "model=rules", "limit=4", "size=32k", "baseline_records=0", "out=out")
LIBRARY = importlib.util.find_spec("mcp")
KILLED = ("personamem", "task3")
"""Tracks of the runs that are killed."""
SAME = ("predictions.jsonl", "scores.jsonl")


@contextmanager
def served(way, folder):
    """Yield the words that name the system, served in a way; its log is `log` in the folder."""
    shutil.copyfile(memory_served.__file__, folder / SERVED)
    log = folder / "log"
    if way == "class":
        yield ("memory=python:served:Kept", f"memory.log={log}")
    elif way == "server":
        server = memory_served.Server(folder, log)
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield (f"memory={server.url}",)
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
    else:
        prefix = "program" if way == "program" else "mcp"
        yield (f"memory={prefix}:{sys.executable} {SERVED} {way} {log}",)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Run once over each transport; return the folders."""
    folders = {}
    for way in WAYS:
        folder = folders[way] = tmp_path_factory.mktemp(way)
        with served(way, folder) as named:
            finished = run(folder, *WORDS, *named)
        assert "Admission of the memory system: 24 checks passed" in finished.stdout, (
            finished.stdout + finished.stderr
        )
    return folders


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("name", SAME)
def test_the_same_store_over_each_transport_has_the_same_scores(ran, way, name):
    ours, theirs = ((ran[one] / "out" / name).read_text() for one in ("class", way))
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


@pytest.mark.parametrize("way", WAYS)
def test_what_is_sent_names_no_task_no_record_no_gold_and_no_option(ran, way):
    sent = (ran[way] / "log").read_text()
    settings = parse_words(["task=all", "model=rules", "limit=4", "size=32k"], RunSettings)
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
        assert word not in sent.replace(str(ran[way]), "").lower(), word


def kept_by(way, folder):
    place = folder if way == "server" else folder / "out" / "memory"
    return closing(sqlite3.connect(place / "kept.db"))


@pytest.mark.parametrize("way", WAYS)
def test_a_run_killed_again_and_again_ends_the_same_and_tells_nothing_settled_twice(
    ran, tmp_path, way
):
    draw, words = Random(way), [word.replace("=all", "=personamem,retrieval") for word in WORDS]
    diary = tmp_path / "out" / "memory.jsonl"
    with served(way, tmp_path) as named:
        for _ in range(2):
            before = len(diary.read_bytes().splitlines()) if diary.exists() else 0
            process = start(tmp_path, *words, *named)
            enough = before + draw.randrange(2, 12)
            wait_until(
                lambda process=process, enough=enough: (
                    process.poll() is not None
                    or (diary.exists() and len(diary.read_bytes().splitlines()) >= enough)
                )
            )
            process.kill()
            process.communicate()
        finish(start(tmp_path, *words, *named))
    for name in SAME:
        calm = (ran[way] / "out" / name).read_text().splitlines()
        both = [row for row in calm if json.loads(row)["track"].startswith(KILLED)]
        assert sorted((tmp_path / "out" / name).read_text().splitlines()) == sorted(both)
    with kept_by(way, tmp_path) as file:
        told = "SELECT count(*) FROM ingested WHERE settled = ?"
        assert file.execute(told, ("again",)).fetchone() == (0,)
        assert file.execute(told, (1,)).fetchone() > (0,)


@pytest.mark.skipif(LIBRARY is None, reason="the official library of MCP is not installed")
def test_a_server_of_the_official_library_is_understood(ran, tmp_path):
    with served("with_library", tmp_path) as named:
        run(tmp_path, *WORDS, *named)
    for name in SAME:
        ours, theirs = (folder / "out" / name for folder in (tmp_path, ran["class"]))
        assert ours.read_bytes() == theirs.read_bytes()


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
SESSION = Session("s1", "2026-01-05", (Said("user", "Hello", "2026-01-05"),))


@pytest.mark.parametrize(
    ("query", "said", "starts"),
    [
        ("hang", "memory, search: no answer within 3 s", 2),
        ("die", "memory, search: the program ended (exit code 1): no memory left", 2),
        ("fail", "memory, search: said no index", 1),
    ],
)
def test_a_call_that_fails_names_its_stage_and_the_next_one_is_answered(
    tmp_path, query, said, starts
):
    (tmp_path / "hangs.py").write_text(HANGS)
    command = f"{sys.executable} -S {tmp_path / 'hangs.py'}"

    async def ask():
        connection = SpokenConnection(command, JsonLines(), key="memory", env=(), folder=tmp_path)
        try:
            await connection.call("open", Opening(tmp_path, None, None, 0, {}), timeout=60)
            with pytest.raises(MemoryFailed) as caught:
                await connection.call("search", "u1", query, 5, "now", timeout=3)
            await connection.call("ingest", "u2", SESSION, timeout=60)
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
    with pytest.raises(UsageError, match="reader=x: it goes with model=memory:NAME"):
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
        (["memory=python:tests.test_memory_transports:Lacks"], "Lacks has no method 'ingest'"),
        (["memory=program:no-such-program"], "no-such-program: command not found"),
        (["memory=http://a:b@c/"], "an address must hold no user, password or query"),
        (["memory=http://c", "memory.size=3"], "memory.size: a server takes memory.headers.NAME"),
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
        check_memory(settings.memory, memory_options(settings, None))

    with pytest.raises(UsageError) as caught:
        check()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_are_texts_as_they_were_typed():
    words = ["task=personamem", "model=rules", "memory=bm25", "memory.alpha=0.10", "memory.x.y=yes"]
    assert parse_words(words, RunSettings).memory_options == {"alpha": "0.10", "x.y": "yes"}


def test_the_path_that_a_system_is_given_tells_nothing(ran):
    opened = next(
        json.loads(line)
        for line in (ran["class"] / "log").read_text().splitlines()[::-1]
        if json.loads(line)[0] == "open"
    )
    assert Path(opened[1]["folder"]).name in ("kept", "first", "second")
