"""Keys with no known shape, told to every place that could repeat them: none of them may be found
again anywhere.
"""

import json
import os
import sys
import threading
from contextlib import chdir
from pathlib import Path

import pytest

from tests import label_folders
from tests.endtoend import environment, extraction, finish, rows, start
from tests.loopback import Answer, serve
from tests.tracks import alps_here
from tests.visitors import good, is_judging, write_visitors

OPENAI, ANTHROPIC = "zebra-canary-openai-01", "zebra-canary-anthropic-02"
ARGUMENT = "sk-canary-argument-0003"
KEYS = {"OPENAI_API_KEY": OPENAI, "ANTHROPIC_API_KEY": ANTHROPIC}
PROGRAM = """
import json, os, sys
told = " ".join([*sys.argv, os.environ["OPENAI_API_KEY"]])
print("stderr of", told, file=sys.stderr, flush=True)
print("stdout of", told, flush=True)
for line in sys.stdin:
    row = json.loads(line)
    print(json.dumps({"benchmark_id": row["benchmark_id"], "memory_items": told}), flush=True)
"""


class Gossip:
    """Repeats the key of a request, and another one, in its errors: 500 and 400 to the first and
    third of a kind.
    """

    def __init__(self):
        self.asked, self.lock, self.server = {}, threading.Lock(), None

    def __call__(self, body):
        with self.lock:
            kind = is_judging(body)
            self.asked[kind] = self.asked.get(kind, 0) + 1
            status = {1: 500, 3: 400}.get(self.asked[kind], 200)
        if status != 200:
            sent = {name.lower(): value for name, value in self.server.headers[-1].items()}
            headers = {"authorization": sent["authorization"], "x-api-key": ANTHROPIC}
            error = {"message": f"who is {headers}?", "type": "gossip"}
            said = json.dumps({"error": error, "headers": headers})
            return Answer(status=status, body=said, headers={"X-Echo": str(headers)})
        if any('"kind": "rubric"' in message["content"] for message in body["messages"]):
            return Answer('{"reason": "It fits.", "verdict": "met"}')
        return good(body)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The folder of everything that was run, and what was printed."""
    folder = tmp_path_factory.mktemp("canaries")
    write_visitors(folder / "data", 4)
    (folder / "silly.py").write_text(PROGRAM)
    payload = {"query": "Where?", "memory": "Lives in Lyon", "dialogue": []}
    labelled = []
    for town in ("Lyon", "Graz", "Cork", "Porto"):
        answered = {**payload, "response": f"In {town}."}
        labelled.append(label_folders.binary(int(town == "Lyon"), 1, payload=answered))
    label_folders.write(folder / "labels", {"pa": label_folders.BINARY}, labelled)
    scripts = Gossip(), Gossip()
    with serve(scripts[0]) as erring, serve(scripts[1]) as calibrating:
        scripts[0].server, scripts[1].server = erring, calibrating
        # the headers that were heard last are those of the request that is answered
        one = "concurrency=1"
        run = extraction(erring.url, "out=erring", "max_failures=100%", one)
        judge = ("judge=openai/scripted-judge", f"judge_api_base={calibrating.url}")
        model = f"model=program:{sys.executable} silly.py --key {ARGUMENT}"
        program = ("run", "task=extraction", "data=data", model, "out=p", "env=OPENAI_API_KEY")
        calibrate = ("calibrate", *judge, "labels=labels", "out=calibrated", one)
        commands = {"run": run, "calibrate": calibrate, "program": program}
        started = {name: start(folder, *words, **KEYS) for name, words in commands.items()}
        done = {name: finish(process) for name, process in started.items()}
        # So that every answer has a score, and can be submitted.
        done["resumed"] = finish(start(folder, *run, **KEYS))
    return folder, done


@pytest.fixture(scope="module")
def shown(told):
    """What commands say of the finished run, in this process, with the same keys in the
    environment.
    """
    with pytest.MonkeyPatch.context() as patch, chdir(told[0]):
        for name, value in environment(told[0], **KEYS).items():
            patch.setenv(name, value)
        submit = ("leaderboard", "submit", "erring", "name=Gossip")
        return {
            "report": alps_here("report", "erring", "out=page.html"),
            "show": alps_here("show", "erring", "1", "--full"),
            "submit": alps_here(*submit, "calls=yes", "out=gossip", "date=2026-01-31"),
            "refused": alps_here(*submit, f"notes=My key is {OPENAI}.", "out=never"),
            "doctor": alps_here("doctor"),
        }


@pytest.mark.release
def test_the_servers_were_told_the_keys_and_repeated_them(told):
    erring, calibrated = (rows(told[0] / name / "calls.jsonl") for name in ("erring", "calibrated"))
    for calls in (erring, calibrated):
        assert {row["status"] for row in calls} == {200, 400, 500}
    errors = [row["error"] for row in erring if row["status"] == 500]
    assert errors
    assert all("who is" in error and error.count("[secret]") >= 2 for error in errors)


def has_key(text):
    return any(key in text for key in (OPENAI, ANTHROPIC, ARGUMENT))


def test_no_key_is_in_any_file_that_a_command_leaves(told, shown):
    folder = told[0]
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    expected = {"erring/calls.jsonl", "calibrated/calibration.json", "page.html"}
    expected |= {"p/predictions.jsonl", "p/program.stderr.log"}
    expected |= {"gossip/submission.json", "gossip/task1/calls.jsonl"}
    assert expected <= found.keys()
    assert any(os.sep in name and name.startswith("cache") for name in found)
    for name, path in found.items():
        assert not has_key(name), name
        assert not has_key(path.read_bytes().decode(errors="replace")), name


def test_no_key_is_on_any_screen(told, shown):
    said = {name: done.stdout + done.stderr for name, done in told[1].items()}
    said |= {name: ran.out + ran.err for name, ran in shown.items()}
    assert all(said.values()), said
    assert [name for name, text in said.items() if has_key(text)] == []


def test_a_key_in_the_words_of_a_submission_is_refused_with_what_mends_it(told, shown):
    assert shown["submit"].code == 0, shown["submit"]
    said = shown["refused"].one_line
    assert "notes: contains a key" in said
    assert said.rstrip().endswith("remove it from notes=")
    assert not Path(told[0], "never").exists()
