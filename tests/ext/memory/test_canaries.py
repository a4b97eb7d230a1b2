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

OPENAI, ANTHROPIC, ARGUMENT = (
    "zebra-canary-openai-01",
    "zebra-canary-anthropic-02",
    "sk-canary-argument-0003",
)
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
            key = next(
                value
                for name, value in self.server.headers[-1].items()
                if name.lower() == "authorization"
            )
            headers = {"authorization": key, "x-api-key": ANTHROPIC}
            said = json.dumps(
                {"error": {"message": f"who is {headers}?", "type": "gossip"}, "headers": headers}
            )
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
    said = ("In Lyon.", "In Graz.", "In Cork.", "In Porto.")
    labelled = [
        label_folders.binary(int("Lyon" in text), 1, payload={**payload, "response": text})
        for text in said
    ]
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
        started = {
            "run": start(folder, *run, **KEYS),
            "calibrate": start(
                folder, "calibrate", *judge, "labels=labels", "out=calibrated", one, **KEYS
            ),
            "program": start(folder, *program, **KEYS),
        }
        done = {name: finish(process) for name, process in started.items()}
        done["resumed"] = finish(
            start(folder, *run, **KEYS)
        )  # so that every answer has a score, and can be submitted
    return folder, done


@pytest.fixture(scope="module")
def shown(told):
    """What commands say of the finished run, in this process, with the same keys in the
    environment.
    """
    with pytest.MonkeyPatch.context() as patch, chdir(told[0]):
        for name, value in environment(told[0], **KEYS).items():
            patch.setenv(name, value)
        return {
            "report": alps_here("report", "erring", "out=page.html"),
            "show": alps_here("show", "erring", "1", "--full"),
            "submit": alps_here(
                "leaderboard",
                "submit",
                "erring",
                "name=Gossip",
                "calls=yes",
                "out=gossip",
                "date=2026-01-31",
            ),
            "refused": alps_here(
                "leaderboard",
                "submit",
                "erring",
                "name=Gossip",
                f"notes=My key is {OPENAI}.",
                "out=never",
            ),
            "doctor": alps_here("doctor"),
        }


@pytest.mark.release
def test_the_servers_were_told_the_keys_and_repeated_them(told):
    folder = told[0]
    assert {row["status"] for row in rows(folder / "erring" / "calls.jsonl")} == {200, 400, 500}
    assert {row["status"] for row in rows(folder / "calibrated" / "calls.jsonl")} == {200, 400, 500}
    errors = [
        row["error"] for row in rows(folder / "erring" / "calls.jsonl") if row["status"] == 500
    ]
    assert errors
    assert all("who is" in error and error.count("[secret]") >= 2 for error in errors)


def test_no_key_is_in_any_file_that_a_command_leaves(told, shown):
    folder = told[0]
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    expected = {
        "erring/calls.jsonl",
        "calibrated/calibration.json",
        "p/predictions.jsonl",
        "page.html",
    }
    assert (
        expected | {"gossip/submission.json", "gossip/task1/calls.jsonl", "p/program.stderr.log"}
        <= found.keys()
    )
    assert any(os.sep in name and name.startswith("cache") for name in found)
    keys = [key.encode() for key in (OPENAI, ANTHROPIC, ARGUMENT)]
    assert [
        name for name, path in found.items() if any(key in path.read_bytes() for key in keys)
    ] == []
    assert [name for name in found if any(key in name.encode() for key in keys)] == []


def test_no_key_is_on_any_screen(told, shown):
    said = {name: done.stdout + done.stderr for name, done in told[1].items()}
    said |= {name: ran.out + ran.err for name, ran in shown.items()}
    assert all(said.values()), said
    assert [
        name
        for name, text in said.items()
        if any(key in text for key in (OPENAI, ANTHROPIC, ARGUMENT))
    ] == []


def test_a_key_in_the_words_of_a_submission_is_refused_with_what_mends_it(told, shown):
    assert shown["submit"].code == 0, shown["submit"]
    said = shown["refused"].one_line
    assert "notes: contains a key" in said
    assert said.rstrip().endswith("remove it from notes=")
    assert not Path(told[0], "never").exists()
