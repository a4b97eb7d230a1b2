"""Every question whose real history is there, from file to score, over HTTP and after kills."""

import json
import time
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest

from alps.tasks.personamem.release import open_personamem
from tests.endtoend import finish, rows, start, summary, wait_until
from tests.loopback import Answer, serve
from tests.persona_runs import PUBLISHED

if not PUBLISHED.is_dir():
    pytest.skip(f"no {PUBLISHED.name} beside the checkout", allow_module_level=True)
pytestmark = pytest.mark.release
KILLED_AFTER = (2, 5, 5, 3)
"""Requests that arrive before each kill; the run has 17."""
FILES = ("predictions.jsonl", "verdicts.jsonl", "scores.jsonl")


class Ran(NamedTuple):
    """A run and its twin that was killed, with what the first asked its model."""

    setting: str
    calm: Path
    killed: Path
    requests: list
    done_at_kill: list


def questions():
    """Return the published questions whose histories are published: the first of the file."""
    opened = open_personamem(PUBLISHED)
    return [question for question in opened.read() if opened.holds(question)]


def asked_of(request):
    return json.loads(request["messages"][-1]["content"])


def is_judge(request):
    return '"kind": "options"' in request["messages"][-1]["content"]


def answer(request):
    """Answer by what was asked alone: as a judge, with a letter and why, or in plain words."""
    text = request["messages"][-1]["content"]
    letter = "abcd"[sha256(text.encode()).digest()[0] % 4]
    if is_judge(request):
        return Answer(json.dumps({"reason": "so it says", "option": letter}), delay=0.02)
    asked = asked_of(request)
    reason = f"{len(asked['history'])} messages were read"
    if "options" not in asked:
        return Answer(f"As you like it now: {letter}, as {reason}.", delay=0.02)
    return Answer(json.dumps({"choice": letter, "reason": reason}), delay=0.02)


def words(url, setting):
    model = ("model=openai/scripted", f"api_base={url}", "concurrency=2", "out=out")
    judge = ("judge=openai/judge", f"judge_api_base={url}", "baseline_records=0")
    asked = ("run", "task=personamem", f"data={PUBLISHED}", "limit=17", f"answer={setting}")
    return (*asked, *model, *(judge if setting == "free" else ()))


@pytest.fixture(scope="module", params=["choice", "free"])
def ran(request, tmp_path_factory):
    """Run once undisturbed, and once killed again and again; return what both left."""
    calm, folder = tmp_path_factory.mktemp("calm"), tmp_path_factory.mktemp("killed")
    off = {"ALPS_CACHE": "off", "OPENAI_API_KEY": "none"}
    with serve(answer) as quiet, serve(answer) as server:
        command = words(server.url, request.param)
        undisturbed = start(calm, *words(quiet.url, request.param), **off)
        done_at_kill = []
        for requests in KILLED_AFTER:
            before = len(server.requests)
            process = start(folder, *command, **off)
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
        last = finish(start(folder, *command, **off))
        first = finish(undisturbed)
        asked = [one for one in quiet.requests if not is_judge(one)]
    assert (first.returncode, last.returncode) == (0, 0), first.stderr + last.stderr
    return Ran(request.param, calm / "out", folder / "out", asked, done_at_kill)


def test_every_question_is_asked_with_exactly_its_history(ran):
    shown = [asked_of(request) for request in ran.requests]
    letters = [sum(len(turn["text"]) for turn in one["history"]) for one in shown]
    assert len(shown) == len(questions()) == 17
    assert sorted(zip([one["message"] for one in shown], letters, strict=True)) == sorted(
        (question.message, question.letters) for question in questions()
    )
    options = {len(one.get("options", ())) for one in shown}
    assert options == ({4} if ran.setting == "choice" else {0})


def test_every_question_is_answered_and_scored(ran):
    [found] = summary(ran.calm)["tracks"].values()
    assert found["n"] == found["scored"] == 17
    gold = {question.id: "abcd"[question.gold] for question in questions()}
    for row in rows(ran.calm / "scores.jsonl"):
        assert row["gold"] == gold[row["benchmark_id"]]
        assert row["scores"]["accuracy"] == float(row["choice"] == row["gold"])


def test_the_kills_came_in_the_middle(ran):
    assert ran.done_at_kill == sorted(ran.done_at_kill)
    assert 0 < ran.done_at_kill[-1] < 17


@pytest.mark.parametrize("name", FILES)
def test_a_run_killed_at_several_moments_leaves_the_bytes_of_an_undisturbed_one(ran, name):
    assert (ran.killed / name).read_bytes() == (ran.calm / name).read_bytes()
