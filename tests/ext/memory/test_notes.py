"""`memory=files` and `memory=notes`: notes in files, kept by a model or without one."""

import asyncio
import json
from dataclasses import replace

import pytest

from alps.errors import UsageError
from alps.ext.memory.connection import ClassConnection, MemoryFailed
from alps.ext.memory.notes import MOST_REPLIES, Files, Notes
from alps.ext.memory.notes_tool import COMMANDS
from alps.ext.memory.protocol import MeteredEndpoint, Session, SpokenTurn
from tests.endtoend import rows
from tests.ext.memory.stores import carried_out, check_tokens, faults_of, opened_in
from tests.few import few
from tests.loopback import Answer, serve
from tests.scripted_models import NoteKeeper, ScriptedModels, calling

TASKS = ("update", "locomo", "extraction", "retrieval", "forgetting", "utilization", "personamem")
AT = "2026-01-05T09:00:00+00:00"


def few_of(task):
    more = {"ability": "pa"} if task == "utilization" else {}
    return {"task": task, "limit": 2, **more}


@pytest.mark.release
@pytest.mark.parametrize("task", few(TASKS))
def test_a_model_keeps_notes_in_every_task_and_its_tokens_are_counted(task, tmp_path):
    keeper = NoteKeeper()
    with serve(keeper) as server:
        asked = {"memory_llm": "openai/keeper", "memory_llm_api_base": server.url}
        done = carried_out(tmp_path, **few_of(task), memory="files", **asked)
    assert faults_of(done.summary.admission) == []
    assert len(done.summary.admission) == 24
    (track,) = done.summary.tracks.values()
    assert track.failed_predictions == {}
    assert keeper.commands == set(COMMANDS)
    metered = rows(tmp_path / "memory_calls.jsonl")
    check_tokens(metered, keeper, done)
    assert {row["phase"] for row in metered} >= {"admission", "ingest"}
    assert done.summary.bytes_per_1000_turns > 100
    notes = list((tmp_path / "memory").glob("*/*/talks/*.md"))
    assert notes
    assert all(path.read_text().startswith("# Notes\n- ") for path in notes)


@pytest.mark.parametrize("task", few(TASKS, 2))
def test_notes_are_kept_in_every_task_without_a_model(task, tmp_path):
    done = carried_out(tmp_path, **few_of(task), memory="notes")
    assert faults_of(done.summary.admission) == []
    assert not (tmp_path / "memory_calls.jsonl").exists()
    assert list((tmp_path / "memory").glob("*/s1.md"))


def test_a_dry_run_asks_nobody_for_the_notes(alps, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    words = ("model=rules", "data=samples", "limit=1", "memory=files", "dry_run=yes")
    for task in ("utilization", "extraction"):
        done = alps("run", f"task={task}", *words, "memory_llm=openai/m")
        assert done.returncode == 0, done.stderr
        assert "openai/m: calls by the memory system are not included" in done.stdout


UNASKED = {
    "files": "memory=files: set memory_llm=; memory=notes keeps notes without a model",
    "llm": "memory=llm: set memory_llm= and memory_embedder=",
}


@pytest.mark.parametrize(("memory", "told"), UNASKED.items(), ids=UNASKED)
def test_without_a_model_a_line_says_what_to_give(memory, told, tmp_path):
    with pytest.raises(UsageError) as refused:
        carried_out(tmp_path, task="extraction", memory=memory)
    assert str(refused.value) == told
    assert not (tmp_path / "run").exists()


def session(*texts, name="s1"):
    return Session(name, AT, tuple(SpokenTurn("user", text, AT) for text in texts))


class Script:
    """Answers with the messages that it is given, one after the other."""

    def __init__(self, *messages):
        self.messages = list(messages)

    def __call__(self, body):
        message = self.messages.pop(0)
        if message is None:
            return Answer(status=400, error="the model is gone")
        if isinstance(message, str):
            message = {"role": "assistant", "content": message}
        return ScriptedModels().said(message, {})


def writing(text, path="/memories/a.md"):
    return calling({"command": "create", "path": path, "file_text": text})


def talking(folder, script, *calls):
    """Return what calls of the memory return over a scripted server, and what it was asked."""

    async def talk(url):
        connection = ClassConnection(Files())
        opening = opened_in(folder, MeteredEndpoint(url, "key", "m"))
        await connection.call("open", opening, timeout=20)
        answers = []
        for method, *arguments in calls:
            try:
                answered = await connection.call(method, *arguments, timeout=20)
                answers.append(answered.value)
            except MemoryFailed as failed:
                answers.append(failed)
        await connection.aclose()
        return answers

    with serve(script, admitted=False) as server:
        return asyncio.run(talk(server.url)), server.requests


def texts(hits):
    return [hit.text for hit in hits]


def test_what_is_found_are_the_lines_that_the_model_names(tmp_path):
    note = "# Pets\n- Has a dog, Rex.\n- Has a cat.\n\n1. Likes tea.\n"
    reply = (
        "Here: `/memories/a.md:3`, then /memories/a.md:2-3, /memories/no.md:1, /../etc/passwd:1, "
        "/memories/../x:1 and\n/memories/a.md"
    )
    script = Script(writing(note), "Done.", reply, "none", "They have a dog.")
    ask = ("search", "u1")
    (_, found, none, invented, other), asked = talking(
        tmp_path,
        script,
        ("ingest", "u1", session("I have a dog, Rex.")),
        (*ask, "Which pets?", 5, AT),
        (*ask, "Which car?", 5, AT),
        (*ask, "Which house?", 5, AT),
        ("search", "u2", "Which pets?", 5, AT),
    )
    assert texts(found) == ["Has a cat.", "Has a dog, Rex.", "Likes tea."]
    assert none == invented == other == []
    assert len(asked) == 5  # of a user without notes nobody is asked
    assert asked[2]["messages"][1]["content"].startswith("Your notes:\n/memories/a.md\n")


def test_the_same_search_of_the_same_notes_is_asked_once(tmp_path):
    script = Script(
        writing("tea\n"), "", "/memories/a.md:1", writing("dog\n", "/memories/b.md"), "", "none"
    )
    ask = ("search", "u1", "What?")
    (_, first, more, _, again), asked = talking(
        tmp_path,
        script,
        ("ingest", "u1", session("tea")),
        (*ask, 1, AT),
        (*ask, 9, AT),
        ("ingest", "u1", session("dog", name="s2")),
        (*ask, 9, AT),
    )
    assert texts(first) == texts(more) == ["tea"]
    assert again == []
    assert len(asked) == 6


def test_a_session_that_failed_leaves_nothing_and_is_told_again(tmp_path):
    script = Script(
        writing("one\n"), "", writing("half\n", "/memories/b.md"), None, writing("x\n"), "Done."
    )
    told = (session("one"), session("two", name="s2"))
    (_, failed, kept, _, after, _), asked = talking(
        tmp_path,
        script,
        ("ingest", "u1", told[0]),
        ("ingest", "u1", told[1]),
        ("memories", "u1"),
        ("ingest", "u1", told[1]),
        ("memories", "u1"),
        ("ingest", "u1", told[1]),
    )
    assert isinstance(failed, MemoryFailed)
    assert texts(kept) == texts(after) == ["one"]
    refused = asked[5]["messages"][-1]
    assert refused["content"].startswith("Error: /memories/a.md: already exists")
    assert len(asked) == 6  # the last time it is known


def test_a_folder_that_is_opened_again_holds_the_notes(tmp_path):
    told = ("ingest", "u1", session("tea"))
    talking(tmp_path, Script(writing("tea\n"), ""), told)
    (_, kept, _, gone), asked = talking(
        tmp_path, Script(), told, ("memories", "u1"), ("reset", "u1"), ("memories", "u1")
    )
    assert texts(kept) == ["tea"]
    assert gone == asked == []


def test_a_model_that_calls_on_and_on_is_asked_for_a_last_word(tmp_path):
    view = calling({"command": "view", "path": "/memories"})
    script = Script(*[view] * MOST_REPLIES)
    (done,), asked = talking(tmp_path, script, ("ingest", "u1", session("tea")))
    assert done is None
    assert len(asked) == MOST_REPLIES
    assert [body.get("tool_choice") for body in asked] == [None] * (MOST_REPLIES - 1) + ["none"]


def test_calls_of_odd_servers_are_carried_out(tmp_path):
    odd = writing("tea\n")
    (call,) = odd["tool_calls"]
    call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    del call["id"]
    (_, kept), asked = talking(
        tmp_path, Script(odd, ""), ("ingest", "u1", session("tea")), ("memories", "u1")
    )
    assert texts(kept) == ["tea"]
    assert asked[1]["messages"][-1] == {
        "role": "tool",
        "tool_call_id": "call_0",
        "content": "Created /memories/a.md.",
    }


@pytest.fixture
def notes(tmp_path):
    notes = Notes()
    notes.open(opened_in(tmp_path))
    notes.ingest("u1", session("I have a dog.\nIt is called Rex.", "I like tea."))
    later = replace(session("The dog likes tea, too.", name="s2"), started_at="2026-01-06")
    notes.ingest("u1", later)
    return notes


def test_grep_finds_the_lines_with_most_words_of_the_query(notes):
    dog, tea, both = notes.memories("u1")
    assert dog.text == "user: I have a dog. It is called Rex."
    assert (dog.created_at, dog.sources) == (AT, ("s1",))
    assert notes.search("u1", "Does the dog like tea?", 5, AT) == [both, tea, dog]
    assert notes.search("u1", "Is Rex a dog?", 5, AT)[0] == dog
    assert notes.search("u1", "Does the", 5, AT) == []


def test_what_is_to_be_forgotten_is_out_of_the_files(notes, tmp_path):
    notes.forget("u1", "called rex")
    assert len(notes.memories("u1")) == 2
    assert not any("Rex" in path.read_text() for path in tmp_path.rglob("*.md"))
    notes.ingest("u1", session("I have a dog.\nIt is called Rex.", "I like tea."))
    assert len(notes.memories("u1")) == 2
