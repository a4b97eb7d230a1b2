"""What is refused or counted before a run begins, and what a refusal says."""

import json
import re
import socket
import sys

import pytest

from tests.endtoend import run
from tests.loopback import Answer, serve


def test_answers_to_other_records_are_refused_with_ids_of_both(tmp_path):
    rows = (json.dumps({"benchmark_id": f"mine-{n}", "answer": ""}) for n in range(1_000))
    (tmp_path / "mine.jsonl").write_text("".join(f"{row}\n" for row in rows))
    for task, theirs in (("utilization", "alps_pa_001"), ("extraction", "alps_ext_001")):
        words = (f"task={task}", "model=predictions:mine.jsonl", "data=samples", "out=out")
        done = run(tmp_path, "run", *words)
        (line,) = done.stderr.splitlines()
        assert (done.returncode, done.stdout) == (2, "")
        assert "mine.jsonl, benchmark_id: the data has none of the file's ids (1,000)" in line
        assert "'mine-0', 'mine-1', …" in line
        assert f"'{theirs}'" in line
        assert not (tmp_path / "out").exists()


def test_personamem_without_a_cache_says_what_to_do(tmp_path):
    done = run(tmp_path, "run", "task=personamem", "model=rules", "out=out", ALPS_CACHE="off")
    assert done.returncode == 2
    assert "set ALPS_CACHE to a folder, or run alps data personas out=" in done.stderr


def test_the_port_of_a_site_is_tried_before_the_site_is_built(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(tmp_path, "leaderboard", "serve", f"port={port}", "out=site")
    assert done.returncode == 2
    assert f"port={port}: " in done.stderr
    assert not (tmp_path / "site").exists()


@pytest.mark.few(1)
@pytest.mark.parametrize("status", [500, 503])
def test_an_error_of_a_server_is_named_with_how_long_it_was_tried(tmp_path, status):
    words = ("task=extraction", "data=samples", "limit=1", "model=openai/tiny", "patience=1")
    with serve(lambda body: Answer(status=status)) as server:
        asked = (*words, f"api_base={server.url}", "out=out")
        done = run(tmp_path, "run", *asked, OPENAI_API_KEY="none")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("alps: 1 of 1 is unscored: more than max_failures=5%; transport: ")
    assert f"HTTP {status} from http://127.0.0.1:" in line
    assert re.search(r"(tried for|has not answered for) \d+ s.*to wait longer, set patience=", line)


WORDS = "I am no JSON and no list, " * 10
SHOWN = WORDS[:78]
ODD = f"""
import sys

class System:
    def predict(self, sample):
        return {WORDS!r}

class Memory:
    def open(self, opening): pass
    def ingest(self, user, session): pass
    def settle(self, user, timeout): return "ready"
    def search(self, user, query, k, at): return {WORDS!r}
    def reset(self, user): pass

if __name__ == "__main__":
    for line in sys.stdin:
        print({WORDS!r}, flush=True)
"""


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "call"),
    [
        (("task=extraction", "model=python:odd:System"), "the reply to alps_ext_001 begins"),
        (("task=extraction", "model=program:PYTHON odd.py", "timeout=1"), "the reply to alps_ext"),
        (("task=retrieval", "model=bm25", "memory=python:odd:Memory"), "memory, search: expected"),
        (("task=extraction", "model=rules", "judge=openai/judge"), "the reply to alps_ext_00"),
        (("task=extraction", "model=openai/tiny"), "the reply to alps_ext_001 begins"),
    ],
    ids=["class", "program", "memory", "judge", "model"],
)
def test_a_reply_in_the_wrong_form_is_named_with_its_beginning(tmp_path, words, call):
    (tmp_path / "odd.py").write_text(ODD)
    words = tuple(word.replace("PYTHON", sys.executable) for word in words)
    with serve(lambda body: Answer(WORDS)) as server:
        key = "judge_api_base" if "judge=openai/judge" in words else "api_base"
        at = (f"{key}={server.url}",) if any("openai/" in word for word in words) else ()
        limit = "limit=5" if key == "judge_api_base" else "limit=1"
        own = (*words, *at, "data=samples", limit, "out=out")
        done = run(tmp_path, "run", *own, OPENAI_API_KEY="none")
    assert done.returncode in (1, 2)
    assert call in done.stderr
    assert SHOWN[:70] in done.stderr
    assert SHOWN + WORDS[78:90] not in done.stderr
