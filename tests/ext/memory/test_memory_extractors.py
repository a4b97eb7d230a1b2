"""Memories of extractions: recorded ones by the text of a session, and those that an LLM makes."""

import json
import re
from zlib import crc32

import pytest

from alps.errors import DataError, UsageError
from alps.ext.memory.built_in import check_boxed, open_boxed, statements
from alps.ext.memory.extractor import PROMPT, LlmMemory
from alps.ext.memory.protocol import MeteredEndpoint, Session, SpokenTurn
from tests.endtoend import write_rows
from tests.ext.memory.stores import opened_in
from tests.loopback import Answer, serve

DIALOGUE = [
    {"role": "user", "text": "I moved to Bergen last year."},
    {"role": "assistant", "text": "How do you like it there?"},
]


def session(turns, name="s1"):
    said = tuple(SpokenTurn(turn["role"], turn["text"], "2026-01-05T09:00:00") for turn in turns)
    return Session(name, "2026-01-05T09:00:00", said)


@pytest.fixture
def files(tmp_path):
    items = [{"value": "Lives in Bergen", "label": "Personal_Background/Location"}]
    records = [
        {"benchmark_id": "a", "model_output": {"raw_output": "…", "memory_items": items}},
        {"benchmark_id": "b", "model_output": {"raw_output": None, "memory_items": None}},
    ]
    dialogues = [
        {"benchmark_id": "a", "input": {"dialogue": DIALOGUE}},
        {"benchmark_id": "b", "input": {"dialogue": DIALOGUE[:1]}},
    ]
    named = {"records.jsonl": records, "model_input.jsonl": dialogues}
    return tuple(write_rows(tmp_path / name, found) for name, found in named.items())


def recorded(files, **options):
    records, dialogues = files
    return open_boxed(f"recorded:{records}", {"dialogues": str(dialogues), **options})


def held(system, user="u1"):
    return [hit.text for hit in system.memories(user)]


@pytest.mark.parametrize("retriever", ["bm25", "tfidf"])
def test_a_recorded_session_yields_what_a_model_extracted_from_it(files, retriever):
    system = recorded(files, retriever=retriever)
    system.ingest("u1", session(DIALOGUE))
    assert held(system) == ["Lives in Bergen"]
    assert system.search("u1", "Where in Bergen?", 3, "")[0].text == "Lives in Bergen"


@pytest.mark.parametrize("of_run", [False, True], ids=["records", "predictions of a run"])
def test_what_was_not_recorded_is_kept_by_turns_or_fails_to_be_ingested(files, tmp_path, of_run):
    items = [{"value": "Lives in Bergen"}]
    predictions = [
        {"benchmark_id": "a", "outcome": "ok", "prediction": {"memory_items": items}},
        {"benchmark_id": "b", "outcome": "truncated", "prediction": None},
    ]
    path = write_rows(tmp_path / "predictions.jsonl", predictions) if of_run else files[0]
    system = recorded((path, files[1]))
    system.ingest("u1", session(DIALOGUE))
    with pytest.raises(ValueError, match="the model's reply could not be parsed"):
        system.ingest("u1", session(DIALOGUE[:1], "s2"))
    system.ingest("u1", session([{"role": "user", "text": "I have a dog."}], "s3"))
    assert held(system) == ["Lives in Bergen", "user: I have a dog."]


def test_rows_that_are_no_json_are_named(files, tmp_path):
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"benchmark_id": "a"}\n{"benchmark_id"\n')
    with pytest.raises(DataError, match=r"broken.jsonl, line 2: not a JSON object"):
        recorded((broken, files[1]))


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("recorded:", {}, "memory=recorded: names no file; write recorded:FILE"),
        ("recorded:none", {}, "memory=recorded:none: no such file"),
        ("rules", {"size": "7"}, "memory.size=7: not an option of memory=rules; known: memory.ret"),
        ("bm25", {"size": "7"}, "memory.size=7: not an option of memory=bm25; known: none"),
        ("rules", {"retriever": "bm"}, "memory.retriever=bm: unknown"),
    ],
)
def test_what_a_system_in_the_box_does_not_take_is_refused(name, options, said):
    with pytest.raises(UsageError) as refused:
        check_boxed(name, options)
    assert str(refused.value).startswith(said)


def test_recorded_extractions_need_the_dialogues_that_they_are_of(files, tmp_path):
    records, _ = files
    with pytest.raises(UsageError, match=r"also set memory.dialogues=FILE"):
        check_boxed(f"recorded:{records}", {})
    rows = [{"benchmark_id": "z", "input": {"dialogue": []}}]
    others = write_rows(tmp_path / "others.jsonl", rows)
    with pytest.raises(UsageError, match="it has no dialogue of"):
        recorded((records, others))


def test_rules_keep_what_users_ask_to_be_remembered_and_lists_of_notes():
    asked = [{"role": "user", "text": "Please remember that the gate code is 4711. Thanks!"}]
    texts = [said.text for said in statements(session([*asked, DIALOGUE[1]]))]
    assert texts == ["Please remember that the gate code is 4711"]
    notes = [{"role": "user", "text": text} for text in ("Vegan", "Has a dog")]
    assert [said.text for said in statements(session(notes))] == ["Vegan", "Has a dog"]


def vector(text):
    found = [0.0] * 256
    for word in re.findall(r"\w+", text.lower()):
        found[crc32(word.encode()) % 256] += 1.0
    return found


def scripted(body):
    """Extract every turn whole, and embed by the words."""
    if "input" in body:
        data = []
        for index, text in enumerate(body["input"]):
            data.append({"index": index, "embedding": vector(text)})
        return Answer(body=json.dumps({"data": data[::-1], "usage": {"prompt_tokens": 1}}))
    told = body["messages"][1]["content"].splitlines()
    return Answer(f"Here they are:\n{json.dumps([line.partition(': ')[2] for line in told])}")


@pytest.fixture
def endpoints(tmp_path):
    with serve(scripted) as server:
        endpoint = MeteredEndpoint(server.url, "key", "scripted")
        yield server, opened_in(tmp_path, endpoint, endpoint)


@pytest.fixture
def system():
    system = LlmMemory()
    yield system
    system.close()


def test_an_llm_extracts_and_embeddings_find(system, endpoints):
    server, opening = endpoints
    system.open(opening)
    notes = [*DIALOGUE, {"role": "user", "text": "My dog is called Rex."}]
    system.ingest("u1", session(notes))
    system.ingest("u1", session(notes))  # known: nobody is asked again
    chats = [body for body in server.requests if "messages" in body]
    assert [body["messages"][0]["content"] for body in chats] == [PROMPT]
    assert system.search("u1", "What is my dog called?", 1, "")[0].text == "My dog is called Rex."
    assert len(held(system)) == 3
    assert system.search("u2", "What is my dog called?", 1, "") == []


def test_a_reply_without_a_list_is_a_failure(system, tmp_path):
    with serve(lambda body: Answer("I can't help with that.")) as server:
        endpoint = MeteredEndpoint(server.url, "key", "scripted")
        system.open(opened_in(tmp_path, endpoint, endpoint))
        with pytest.raises(ValueError, match="the LLM did not return a list: \"I can't"):
            system.ingest("u1", session(DIALOGUE))


def test_an_llm_memory_without_models_says_what_it_needs(tmp_path):
    with pytest.raises(ValueError, match="this memory system needs an LLM and an embedder"):
        LlmMemory().open(opened_in(tmp_path))
