"""Every question whose real history is there, from file to score, over HTTP and after kills."""

import json
import time
from hashlib import sha256

import pytest

from alps.data.personamem import open_personamem
from tests.conftest import ROOT
from tests.endtoend import finish, rows, start, summary, wait_until
from tests.loopback import Answer, serve

PUBLISHED = ROOT.parent / "shared" / "personamem_sample"
if not PUBLISHED.is_dir():
    pytest.skip(f"no {PUBLISHED.name} beside the checkout", allow_module_level=True)
KILLED_AFTER = (2, 5, 5, 3)
"""Requests that arrive before each kill; the run has 17."""
FILES = ("predictions.jsonl", "scores.jsonl")


def questions():
    """Return the published questions whose histories are published: the first of the file."""
    opened = open_personamem(PUBLISHED)
    return [question for question in opened.read() if opened.holds(question)]


def asked_of(request):
    return json.loads(request["messages"][-1]["content"])


def choose(request):
    """Answer by what was asked alone: a letter, and the reason in words."""
    asked = asked_of(request)
    letter = "abcd"[sha256(asked["message"].encode()).digest()[0] % 4]
    reason = f"{len(asked['history'])} messages were read"
    return Answer(json.dumps({"choice": letter, "reason": reason}), delay=0.02)


def words(url, *more):
    model = ("model=openai/scripted", f"api_base={url}", "concurrency=2", "out=out")
    return ("run", "task=personamem", f"data={PUBLISHED}", "limit=17", *model, *more)


@pytest.fixture(scope="module")
def choices(tmp_path_factory):
    """Run once undisturbed, and once killed again and again; return what both left."""
    calm, folder = tmp_path_factory.mktemp("calm"), tmp_path_factory.mktemp("killed")
    off = {"ALPS_CACHE": "off", "OPENAI_API_KEY": "none"}
    with serve(choose) as quiet, serve(choose) as server:
        undisturbed = start(calm, *words(quiet.url), **off)
        done_at_kill = []
        for requests in KILLED_AFTER:
            before = len(server.requests)
            process = start(folder, *words(server.url), **off)
            wait_until(
                lambda n=before + requests, p=process: (
                    len(server.requests) >= n or p.poll() is not None
                )
            )
            time.sleep(0.005 * requests)
            process.kill()
            process.communicate()
            wait_until(lambda: server.under_way == 0)
            lines = (folder / "out" / "predictions.jsonl").read_bytes().count(b"\n")
            done_at_kill.append(lines)
        last = finish(start(folder, *words(server.url), **off))
        first = finish(undisturbed)
        requests = list(quiet.requests)
    assert (first.returncode, last.returncode) == (0, 0), first.stderr + last.stderr
    return calm / "out", folder / "out", questions(), requests, done_at_kill


def test_every_question_is_asked_with_exactly_its_history(choices):
    _, _, asked, requests, _ = choices
    assert len(asked) == len(requests) == 17
    shown = [asked_of(request) for request in requests]
    letters = [sum(len(turn["text"]) for turn in one["history"]) for one in shown]
    assert sorted(zip([one["message"] for one in shown], letters, strict=True)) == sorted(
        (question.message, question.letters) for question in asked
    )
    assert {len(one["options"]) for one in shown} == {4}


def test_every_question_is_answered_and_scored(choices):
    calm, _, asked, _, _ = choices
    found = summary(calm)["tracks"]["personamem"]
    assert found["n"] == found["scored"] == 17
    gold = {question.id: "abcd"[question.gold] for question in asked}
    for row in rows(calm / "scores.jsonl"):
        assert row["gold"] == gold[row["benchmark_id"]]
        assert row["scores"]["accuracy"] == float(row["choice"] == row["gold"])


def test_the_kills_came_in_the_middle(choices):
    *_, done_at_kill = choices
    assert done_at_kill == sorted(done_at_kill)
    assert 0 < done_at_kill[-1] < 17


@pytest.mark.parametrize("name", FILES)
def test_a_run_killed_at_several_moments_leaves_the_bytes_of_an_undisturbed_one(choices, name):
    calm, killed, *_ = choices
    assert (killed / name).read_bytes() == (calm / name).read_bytes()
