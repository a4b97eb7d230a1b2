"""What a program or a class under test is told beside its question: no key, no id of the data, no
ability.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from alps.data.release import write_track
from alps.systems.anonymous import alias
from tests.endtoend import finish, one_line, rows, run, start_cold
from tests.visitors import write_visitors

NOTING = """
import json, os, sys
with open("heard", "a") as file:
    file.write(json.dumps({"argv": sys.argv, "environment": dict(os.environ)}) + "\\n")
    for line in sys.stdin:
        file.write(line)
        file.flush()
        row = json.loads(line)
        given = row["input"]
        answer = {
            "task1": {"memory_items": [{"value": "Noted under " + row["benchmark_id"]}]},
            "task2": {"memory_items": given.get("memory")},
            "task3": {"selected_memory_id": given.get("candidate_memories", [{"id": ""}])[0]["id"]},
            "task4": {"answer": "Noted."},
        }
        print(json.dumps({"benchmark_id": row["benchmark_id"], **answer[row["task"]]}), flush=True)
"""
CLASS = """
class Noting:
    def predict(self, sample):
        with open("heard", "a") as file:
            file.write(sample.model_dump_json() + "\\n")
        return {"memory_items": [{"value": "Noted under " + sample.benchmark_id}]}
"""
NEEDED = {
    "LANG": "C.UTF-8",
    "LC_TIME": "de_DE.UTF-8",
    "TMPDIR": "/tmp",
    "PYTHONPATH": "mine",
    "VIRTUAL_ENV": "/venv",
    "CONDA_PREFIX": "/conda",
    "LD_LIBRARY_PATH": "/lib",
    "XDG_CACHE_HOME": "/cache",
    "TZ": "UTC",
}
NOT_NEEDED = {
    "OPENAI_API_KEY": "canary-told-1",
    "AWS_SESSION_TOKEN": "canary-told-2",
    "DATABASE_URL": "postgres://me:canary-told-3@db/x",
    "HTTPS_PROXY": "http://me:canary-told-4@proxy:1",
    "ALPS_CACHE_OF": "canary-told-5",
    "PYTHON_REGISTRY_TOKEN": "canary-told-6",
    "CONDA_TOKEN": "canary-told-7",
    "XDG_MIRROR": "https://me:canary-told-8@mirror",
    "SOMETHING_ELSE": "canary-told-9",
}


def heard(folder: Path) -> list[dict]:
    return [
        json.loads(line) for line in (folder / "heard").read_text(encoding="utf-8").splitlines()
    ]


def words_of(folder: Path, *more: str) -> tuple[str, ...]:
    (folder / "noting.py").write_text(NOTING)
    return ("run", f"model=program:{sys.executable} -S noting.py", "out=out", *more)


def test_a_program_gets_what_it_needs_of_the_environment_and_what_is_passed_by_name(tmp_path):
    write_visitors(tmp_path / "data", 1)
    words = words_of(tmp_path, "task=extraction", "data=data", "env=SOMETHING_ELSE,OPENAI_API_KEY")
    done = finish(start_cold(tmp_path, *words, **NEEDED, **NOT_NEEDED))
    assert done.returncode == 0, done.stderr
    given = heard(tmp_path)[0]["environment"]
    assert {name: given.get(name) for name in NEEDED} == NEEDED
    assert given["PATH"] == os.environ["PATH"]
    passed = {"SOMETHING_ELSE", "OPENAI_API_KEY"}
    assert {
        name: text for name, text in NOT_NEEDED.items() if name in passed
    }.items() <= given.items()
    assert not (NOT_NEEDED.keys() - passed) & given.keys()
    assert not [name for name in given if name.startswith("ALPS_") or "LITELLM" in name]
    manifest = (tmp_path / "out" / "manifest.json").read_text()
    assert json.loads(manifest)["settings"]["env"] == "OPENAI_API_KEY,SOMETHING_ELSE"
    assert not [text for text in NOT_NEEDED.values() if text in manifest]
    assert 'env = "OPENAI_API_KEY,SOMETHING_ELSE"' in (tmp_path / "out" / "config.toml").read_text()
    other = one_line(run(tmp_path, *words[:-1], **NOT_NEEDED))
    assert "out holds another run: settings.env is" in other


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ("env=NOT_THERE_AT_ALL",),
            "env=NOT_THERE_AT_ALL: NOT_THERE_AT_ALL is not set in the environment",
        ),
        (("env=SOMETHING=canary-told-9",), "env=…: it takes names of environment variables"),
        (("env=two words",), "env=…: it takes names of environment variables"),
        (("env=HOME", "model=rules"), "env=HOME would change nothing: only program:CMD uses it"),
    ],
)
def test_what_can_not_be_passed_is_refused_before_anything_is_written(tmp_path, words, complaint):
    write_visitors(tmp_path / "data", 1)
    given = dict(
        word.split("=", 1)
        for word in (*words_of(tmp_path, "task=extraction", "data=data"), *words)[1:]
    )
    error = one_line(run(tmp_path, "run", *(f"{key}={value}" for key, value in given.items())))
    assert complaint in error
    assert "canary" not in error
    assert not (tmp_path / "out").exists()


def test_a_run_without_passed_variables_is_named_and_described_as_ever(tmp_path):
    write_visitors(tmp_path / "data", 1)
    assert run(tmp_path, *words_of(tmp_path, "task=extraction", "data=data")).returncode == 0
    assert "env" not in json.loads((tmp_path / "out" / "manifest.json").read_text())["settings"]


def write_abilities(folder: Path, each: int) -> None:
    """Write every ability under ids of the authors' kind, in pools and sessions that say what is
    asked, too.
    """
    talk = [
        {"role": "user", "text": "I live in Lyon and keep a beagle."},
        {"role": "assistant", "text": "Nice!"},
    ]
    memory = {
        "memory_id": "m1",
        "value": "Keeps a beagle",
        "label": "Possessions/Pet",
        "type": "direct",
    }

    def pair(ability: int, number: int) -> tuple[dict, dict]:
        name = f"ability{ability}_{number}"
        head = {
            "benchmark_id": name,
            "session_id": f"stratum_{ability}",
            "task": "task4",
            "ability": f"ability{ability}",
        }
        asked = f"Question {ability * 100 + number}?"
        given = {
            "query": asked,
            "audit_context": {"conversation": talk},
            "model_input": {"query": asked},
        }
        return {**head, "input": given}, {
            **head,
            "gold": {"selected_memory": memory, "extracted_memory": [memory]},
        }

    for ability in range(1, 6):
        write_track(
            folder / "dev" / f"task4_ability{ability}",
            (pair(ability, n) for n in range(1, each + 1)),
        )


def test_ids_and_order_tell_a_program_nothing_of_the_ability_and_files_keep_the_ids_of_the_data(
    tmp_path,
):
    write_abilities(tmp_path / "data", 12)
    done = run(tmp_path, *words_of(tmp_path, "task=utilization", "data=data"))
    assert done.returncode == 0, done.stderr
    asked = heard(tmp_path)[1:]
    assert len(asked) == 60
    assert not [
        row for row in asked if "ability" in json.dumps(row) or "stratum" in json.dumps(row)
    ]
    assert len({row["benchmark_id"] for row in asked}) == 60
    abilities = [int(row["input"]["query"].split()[1][:-1]) // 100 for row in asked]
    assert abilities != sorted(abilities)
    assert all(len(set(abilities[start : start + 12])) >= 3 for start in range(0, 60, 12)), (
        abilities
    )
    predictions = rows(tmp_path / "out" / "predictions.jsonl")
    names = [f"ability{ability}_{number}" for ability in range(1, 6) for number in range(1, 13)]
    assert [row["benchmark_id"] for row in predictions] == names
    assert not [
        row
        for row in predictions
        if any(other["benchmark_id"] in json.dumps(row) for other in asked)
    ]
    (tmp_path / "again").mkdir()
    again = run(
        tmp_path / "again", *words_of(tmp_path / "again", "task=utilization", "data=../data")
    )
    assert again.returncode == 0, again.stderr
    assert {row["benchmark_id"] for row in heard(tmp_path / "again")[1:]} == {
        row["benchmark_id"] for row in asked
    }


def test_a_class_is_shown_other_ids_and_its_answers_come_back_under_those_of_the_data(tmp_path):
    write_visitors(tmp_path / "data", 3)
    (tmp_path / "noting_class.py").write_text(CLASS)
    words = ("run", "task=extraction", "data=data", "model=python:noting_class:Noting", "out=out")
    assert run(tmp_path, *words).returncode == 0
    shown = heard(tmp_path)
    assert (
        len({sample["benchmark_id"] for sample in shown})
        == len({sample["session_id"] for sample in shown})
        == 3
    )
    assert not [
        sample
        for sample in shown
        if "visitor_" in json.dumps(sample) or "session_0" in json.dumps(sample)
    ]
    predictions = rows(tmp_path / "out" / "predictions.jsonl")
    values = [row["prediction"]["memory_items"][0]["value"] for row in predictions]
    assert values == [f"Noted under visitor_0{number}" for number in range(3)]
    assert all(f"visitor_0{number}" in predictions[number]["raw"] for number in range(3))


def test_sessions_that_given_memories_come_from_go_by_other_names_and_come_back(tmp_path):
    turns = [{"role": "user", "text": "I live in Lyon."}]
    evidence = {"session_id": "sess_of_task2", "utterance_index": 0, "text": "I live in Lyon."}
    memory = {"memory_id": "m1", "value": "Lives in Lyon", "type": "direct", "evidence": evidence}
    head = {"benchmark_id": "sess_of_task2", "session_id": "sess_of_task2", "task": "task2"}
    given = {"old_dialogue": turns, "new_dialogue": turns, "memory": [memory]}
    pair = {**head, "input": given}, {**head, "gold": {"answer": [memory]}}
    write_track(tmp_path / "data" / "dev" / "task2", [pair])
    done = run(tmp_path, *words_of(tmp_path, "task=update", "data=data"))
    assert done.returncode == 0, done.stderr
    assert "sess_of_task2" not in json.dumps(heard(tmp_path)[1])
    assert heard(tmp_path)[1]["input"]["memory"][0]["value"] == "Lives in Lyon"
    (row,) = rows(tmp_path / "out" / "predictions.jsonl")
    assert row["prediction"]["memory_items"][0]["evidence"] == evidence


def test_an_alias_depends_on_the_data_and_says_nothing_of_what_it_stands_for():
    made = {
        alias(key, track, name)
        for key in "ab"
        for track in ("t1", "t2")
        for name in ("ability1_1", "ability1_2")
    }
    assert len(made) == 8
    assert all(len(text) == 24 and set(text) <= set("0123456789abcdef") for text in made)
    assert alias("a", "t1", "ability1_1") in made
