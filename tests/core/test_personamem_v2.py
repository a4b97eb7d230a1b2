"""Files shaped as PersonaMem-v2's: answers without letters, and a history in a file of its own."""

import csv
import json

import pytest

from alps.tasks.personamem.release import open_personamem
from tests.endtoend import one_line as one_line_of
from tests.endtoend import run
from tests.loopback import Answer, serve
from tests.loopback_hub import serve_hub

KINDS = ("ask_to_forget", "neutral_preferences", "sensitive_info")


def history(persona):
    said = [{"role": "system", "content": f'{{"name": "Person {persona}"}}'}]
    for place in range(6):
        said.append({"role": "user", "content": f"Mend mail {place} of person {persona}."})
        said.append({"role": "assistant", "content": "Here it is."})
    return {"metadata": {"final_token_count": 300}, "chat_history": said}


def link(persona, size):
    return f"data/chat_history_{size}/chat_history_250913_persona{persona}.json"


def row(persona, place):
    return {
        "persona_id": str(persona),
        "chat_history_32k_link": link(persona, "32k"),
        "chat_history_128k_link": link(persona, "128k"),
        "raw_persona_file": f"data/raw_data/raw_data_persona{persona}.json",
        "short_persona": "Someone",
        "expanded_persona": "{}",
        "user_query": repr({"role": "user", "content": f"What's for tea, {persona}.{place}?"}),
        "correct_answer": f"Right for {persona}.{place}",
        "incorrect_answers": json.dumps([f"Wrong {n} for {persona}.{place}" for n in range(3)]),
        "topic_query": "Food",
        "preference": "tea",
        "topic_preference": "Drinks",
        "conversation_scenario": "personal_email",
        "pref_type": KINDS[place % 3],
        "related_conversation_snippet": "[]",
        "who": "self" if place else "others",
        "updated": "False",
        "prev_pref": "",
        "sensitive_info": "False",
        "total_tokens_in_chat_history_32k": "31855",
        "total_tokens_in_chat_history_128k": "122747.0",
        "distance_from_related_snippet_to_query_32k": "18861" if place else "0",
        "distance_from_related_snippet_to_query_128k": "",
        "num_persona_relevant_tokens_32k": "31855",
        "num_persona_irrelevant_tokens_32k": "0",
        "num_persona_relevant_tokens_128k": "",
        "num_persona_irrelevant_tokens_128k": "",
    }


ROWS = [row(persona, place) for place in range(6) for persona in (17, 521)]


def write(folder, rows=ROWS, benchmark="benchmark/text/benchmark.csv"):
    path = folder / benchmark
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    for size in ("32k", "128k"):
        (folder / f"data/chat_history_{size}").mkdir(parents=True, exist_ok=True)
        for persona in (17, 521):
            (folder / link(persona, size)).write_text(json.dumps(history(persona)))
    return folder


@pytest.mark.parametrize("benchmark", ["benchmark/text/benchmark.csv", "benchmark.csv"])
def test_rows_become_questions(tmp_path, benchmark):
    opened = open_personamem(write(tmp_path, benchmark=benchmark), "32k")
    questions = list(opened.read())
    first, last = questions[0], questions[-1]
    assert (first.persona, first.id, first.who, first.type) == (
        "17",
        "17-0",
        "others",
        "ask_to_forget",
    )
    assert first.message == "What's for tea, 17.0?"
    assert first.options[first.gold] == "Right for 17.0"
    assert sorted(first.options) == ["Right for 17.0", *(f"Wrong {n} for 17.0" for n in range(3))]
    assert (first.tokens, first.tokens_back, last.tokens_back) == (31855, None, 18861)
    assert len(opened.history(first)) == first.end == 13
    assert len({question.gold for question in questions}) > 1


def test_letters_do_not_depend_on_the_other_rows(tmp_path):
    options = [one.options for one in open_personamem(write(tmp_path / "all"), "32k").read()]
    few = open_personamem(write(tmp_path / "few", ROWS[:3]), "32k")
    assert [one.options for one in few.read()] == options[:3]


def test_a_run_has_its_types_and_whose_preference_it_is(alps, tmp_path):
    write(tmp_path)
    done = alps("run", "task=personamem", "data=.", "size=32k", "model=oracle", "out=run")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "run" / "summary.json").read_text())["tracks"]["personamem"]
    figures = {name: score["value"] for name, score in found["scores"].items()}
    assert figures["accuracy"] == figures["macro_accuracy"] == 1.0
    assert {kind: found["scores"][kind]["n"] for kind in KINDS} == dict.fromkeys(KINDS, 4)
    assert "track_full_preference_evolution" not in figures
    lines = (tmp_path / "run" / "scores.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert {one.get("who") for one in rows} == {"self", "others"}


@pytest.mark.few(1)
@pytest.mark.parametrize("size", ["32k", "128k"])
def test_a_model_is_shown_the_whole_history(alps, tmp_path, monkeypatch, size):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    write(tmp_path)
    with serve(lambda request: Answer('{"choice": "a"}')) as server:
        words = (f"size={size}", "model=openai/scripted", f"api_base={server.url}", "limit=2")
        done = alps("run", "task=personamem", "data=.", *words)
        assert done.returncode == 0, done.stderr
        asked = [json.loads(one["messages"][1]["content"]) for one in server.requests]
    assert {len(one["history"]) for one in asked} == {13}
    assert {one["message"] for one in asked} == {"What's for tea, 17.0?", "What's for tea, 521.0?"}
    assert "expanded_persona" not in json.dumps(asked)


def spoiled(tmp_path, **cells):
    rows = [dict(row) for row in ROWS]
    rows[1].update(cells)
    return write(tmp_path, rows)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"incorrect_answers": '["one"]'}, "line 3, incorrect_answers: expected a list of three"),
        ({"incorrect_answers": ""}, "line 3, incorrect_answers: expected a list of three"),
        ({"correct_answer": " "}, "line 3, correct_answer: empty"),
        ({"user_query": "{'role': 'user'}"}, "line 3, user_query: expected a message"),
        ({"pref_type": ""}, "line 3, pref_type: empty"),
        ({"total_tokens_in_chat_history_32k": "many"}, "'many' is not a whole number"),
        ({"chat_history_32k_link": ""}, "line 3, chat_history_32k_link: empty"),
    ],
)
def test_a_broken_cell_is_one_line(alps, tmp_path, cells, said):
    spoiled(tmp_path, **cells)
    assert said in refused(alps)


@pytest.mark.few(2)
@pytest.mark.parametrize("path", ["data/none.json", "/etc/hostname", "../outside.json", "j" * 300])
def test_a_history_that_is_not_in_the_folder_is_one_line(alps, tmp_path, monkeypatch, path):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    (tmp_path.parent / "outside.json").write_text("[]")
    spoiled(tmp_path, chat_history_32k_link=path)
    said = refused(alps, "model=openai/scripted")
    assert f"line 3, chat_history_32k_link: no history '{path[:80]}'" in said


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a history"),
        (b"\xff", "not a history"),
        (b'{"messages": []}', "chat_history: expected a list of messages"),
        (b'[{"role": "user", "content": [{"type": "image_url"}]}]', "images are not read"),
        (b'["said"]', "chat_history[0]: expected a role"),
    ],
)
def test_a_broken_history_is_one_line(alps, tmp_path, content, said):
    write(tmp_path)
    (tmp_path / link(17, "32k")).write_bytes(content)
    found = refused(alps)
    assert said in found
    assert "persona17.json" in found


def refused(alps, model="model=oracle"):
    done = alps("run", "task=personamem", "data=.", "size=32k", model, "out=run")
    assert done.returncode == 2, done.stdout
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def test_a_size_must_be_named_and_be_there(alps, tmp_path):
    write(tmp_path)
    for words, said in (
        ((), "name a size with size= (found: 32k, 128k)"),
        (("size=1M",), "no questions_1M.csv in it"),
    ):
        done = alps("run", "task=personamem", "data=.", "model=oracle", *words)
        assert done.returncode == 2
        assert said in done.stderr


def test_the_audit_reads_them(alps, tmp_path):
    rows = [dict(row) for row in ROWS]
    for row in rows:
        row["correct_answer"] += ", and much more than the others say"
    write(tmp_path, rows)
    done = alps("data", "audit", "data=.", "split=32k", "format=json")
    report = json.loads(done.stdout)
    assert report["tracks"] == [{"track": "32k", "rows": 12, "with_gold": 12}]
    assert {one["severity"] for one in report["findings"]} <= {"note", "warning"}


def test_the_hub_gives_the_histories_of_the_questions_alone(tmp_path):
    folder = write(tmp_path / "files")
    (folder / "data/chat_history_32k/of_the_training_set.json").write_text("[]")
    paths = [path for path in folder.rglob("*") if path.is_file()]
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    with serve_hub() as hub:
        hub.push(files, repository="bowen-upenn/PersonaMem-v2")
        place = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
        words = ("run", "task=personamem", "data=hub:bowen-upenn/PersonaMem-v2", "model=oracle")
        done = run(tmp_path, *words, "size=32k", "out=run", **place)
        assert done.returncode == 0, done.stderr
        fetched = {path for _, path in hub.requests if "/resolve/" in path}
        done = run(tmp_path, *words, "size=1M", "out=other", **place)
        assert "no questions_1M.csv in it" in one_line_of(done)
    names = {path.rpartition("/")[2] for path in fetched}
    assert names == {"benchmark.csv", *(link(persona, "32k")[22:] for persona in (17, 521))}
