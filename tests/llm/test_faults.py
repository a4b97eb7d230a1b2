"""Whole runs against servers that fail, and runs that are killed or interrupted: every record is
accounted for, nothing is paid twice, no secret gets out.
"""

import json
import random
import re
import shutil
import signal
import socket
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.endtoend import (
    JOURNALS,
    complete_rows,
    contents,
    damage_file,
    end,
    extraction,
    finish,
    garbage_in_the_middle,
    one_line,
    rows,
    run,
    run_cold,
    start,
    start_cold,
    summary,
    task1,
    torn,
    wait_until,
)
from tests.loopback import Answer, serve
from tests.visitors import (
    Faulty,
    Leaky,
    Slow,
    good,
    is_judging,
    memory_items,
    purpose,
    values_of,
    visitor,
    visitor_id,
    write_visitors,
)

FAULTS = {
    "slow down, at once": lambda text: Answer(status=429, headers={"Retry-After": "0"}),
    "slow down": lambda text: Answer(status=429, headers={"Retry-After": "0.1"}),
    "broken server": lambda text: Answer(status=500),
    "dropped connection": lambda text: Answer(drop=True),
    "prose": lambda text: Answer("Sure! Here is what I think about it, in prose."),
    "cut off": lambda text: Answer(text[:20], finish_reason="length"),
    "no text": lambda text: Answer(""),
    "null": lambda text: Answer(None),
    "page of a proxy": lambda text: Answer(body="<html>Bad gateway</html>"),
}
COUNT = 2 * len(FAULTS)

HALF = '{"memory_items": [{"memory_id": "m1", "val'
OUTCOMES = {
    "declines in prose": ("I'm sorry, but I can't help with that.", "stop", "refused"),
    "prose": ("The visitor seems to be a nice person.", "stop", "unparsable"),
    "cut off before anything": (HALF, "length", "truncated"),
    "null": (None, "stop", "empty"),
    "other JSON": ('{"answer": 42}', "stop", "invalid"),
    "in a fence": ("```json\n%s\n```", "stop", "ok"),
    "cut off after two items": ("%s", "length", "ok"),
    "a good answer": ("%s", "stop", "ok"),
}
KEPT = ("declines in prose", "prose", "cut off before anything", "other JSON")
WELL = json.dumps({"memory_items": memory_items(*values_of(0))})
CUT = json.dumps({"memory_items": memory_items(*values_of(0), "Never heard to the end")})[:-30]

KEY, USER, QUERY = "sk-canary-environment-0001", "canary-password-0002", "canary-query-0003"
SAID = f"invalid: key {KEY}, Authorization: Bearer {KEY}"


def stubborn(body):
    text, finish_reason, _ = list(OUTCOMES.values())[visitor(body)]
    text = text.replace("%s", CUT if finish_reason == "length" else WELL) if text else text
    return Answer(text, finish_reason=finish_reason)


def garbage(body):
    return Answer("The memories are rather alike, I would say.") if is_judging(body) else good(body)


class Scenarios:
    """Runs that go on side by side, each against a server of its own."""

    def __init__(self, make_folder):
        self.folders, self.servers, self._processes, self._finished = {}, {}, {}, {}
        self._stack, self._make_folder = ExitStack(), make_folder
        taken = self._stack.enter_context(socket.socket())
        taken.bind(("127.0.0.1", 0))
        self.nobody = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"

    def start(self, name, script, count, *words, judge=True, address=str, **variables):
        folder = self.folders[name] = self._make_folder("scenario")
        server = self.servers[name] = self._stack.enter_context(serve(script))
        write_visitors(folder / "data", count)
        line = extraction(address(server.url), "out=out", *words)
        kept = (word for word in line if judge or "judge" not in word)
        self._processes[name] = start(folder, *kept, **variables)

    def __getitem__(self, name):
        if name not in self._finished:
            self._finished[name] = finish(self._processes[name])
        return self._finished[name]

    def out(self, name):
        assert self[name].returncode in (0, 1), self[name]
        return self.folders[name] / "out"

    def close(self):
        for process in self._processes.values():
            end(process)
        self._stack.close()


@pytest.fixture(scope="module")
def at_once(tmp_path_factory):
    scenarios = Scenarios(tmp_path_factory.mktemp)
    folders = [tmp_path_factory.mktemp("run") for _ in range(3)]
    with ThreadPoolExecutor(2) as pool:
        killing = pool.submit(kill_again_and_again, *folders[:2])
        yield scenarios, killing, pool.submit(interrupt, folders[2])
    scenarios.close()


@pytest.fixture(scope="module")
def scenarios(at_once):
    begun, leaking = at_once[0], {"OPENAI_API_KEY": KEY}
    begun.start("nobody there", good, 2, "patience=2", address=lambda _: begun.nobody, **leaking)
    begun.start("mixture", Faulty(list(FAULTS.values())), COUNT)
    begun.start("stubborn", stubborn, len(OUTCOMES), judge=False)
    begun.start("garbage", garbage, 12)
    for name in ("mixture", "stubborn", "garbage"):
        begun[name]
    password, query = f"://user:{USER}@", f"?key={QUERY}"
    begun.start("password", good, 1, address=lambda u: u.replace("://", password), **leaking)
    begun.start("query", good, 1, address=lambda url: url + query, **leaking)
    begun.start("refused key", Leaky(SAID, *[401] * 12), 12, **leaking)
    begun.start("unknown model", Leaky(SAID, *[404] * 12), 12, **leaking)
    begun.start("errors", Leaky(SAID, 500, 400, 429), 4, **leaking)
    return begun


@pytest.mark.release
def test_faults_change_no_score_and_after_one_a_question_is_asked_just_once_more(scenarios):
    track, out = task1(scenarios.out("mixture")), scenarios.out("mixture")
    assert scenarios["mixture"].returncode == 0
    assert (track["n"], track["scored"], track["unscored"]) == (COUNT, COUNT, 0)
    assert (track["failed_predictions"], track["failed_judgements"]) == ({}, {})
    f1 = [row["scores"]["f1"] for row in rows(out / "scores.jsonl")]
    assert f1 == [0.5 if number % 3 == 0 else 1.0 for number in range(COUNT)]
    calls, server = rows(out / "calls.jsonl"), scenarios.servers["mixture"]
    assert len(server.requests) == 4 * COUNT
    assert len(calls) == len(server.requests) + len(server.known)
    assert summary(out)["calls"]["http"] == len(calls)
    asked = {(name, visitor_id(n)) for name in JOURNALS[:2] for n in range(COUNT)}
    assert server.script.well == dict.fromkeys(asked, 1)  # and not again after a good answer
    assert server.script.asked == dict.fromkeys(asked, 2)


def test_a_bad_answer_is_a_failure_of_its_own_kind_that_scores_zero_in_the_open(scenarios):
    out = scenarios.out("stubborn")
    expected = [outcome for _, _, outcome in OUTCOMES.values()]
    predictions, scores = rows(out / "predictions.jsonl"), rows(out / "scores.jsonl")
    assert [row["outcome"] for row in predictions] == expected
    for way, prediction, scored in zip(OUTCOMES, predictions, scores, strict=True):
        text, _, outcome = OUTCOMES[way]
        if outcome != "ok":
            assert (scored["outcome"], scored["scores"]["f1"]) == (outcome, 0.0), way
        if way in KEPT:
            assert prediction["raw"] == text
    track, kinds = task1(out), Counter(kind for kind in expected if kind != "ok")
    assert (track["failed_predictions"], track["unscored"]) == (kinds, 0)
    assert scenarios["stubborn"].returncode == 1
    assert f"{kinds.total()} of {len(OUTCOMES)} predictions failed" in scenarios["stubborn"].stderr
    asked = Counter(map(visitor, scenarios.servers["stubborn"].requests))
    assert max(asked.values()) == 3
    by_way = dict(zip(OUTCOMES, predictions, strict=True))
    assert asked[list(OUTCOMES).index("in a fence")] == 1
    for way in ("cut off after two items", "in a fence"):  # keeps all complete items
        row = by_way[way]
        assert [item["value"] for item in row["prediction"]["memory_items"]] == list(values_of(0))
        assert (row["repaired"], row["truncated"]) == (True, way != "in a fence")


def test_a_judge_that_talks_nonsense_leaves_records_unscored_and_never_at_zero(scenarios):
    out = scenarios.out("garbage")
    track, f1 = task1(out), task1(out)["scores"]["f1"]
    assert scenarios["garbage"].returncode == 1
    assert (track["scored"], track["unscored"]) == (0, 12)
    assert (track["failed_judgements"], track["failed_predictions"]) == ({"unparsable": 12}, {})
    assert (f1["value"], f1["n"]) == (None, 0)
    assert all(row["scores"] == {} for row in rows(out / "scores.jsonl"))
    assert {row["outcome"] for row in rows(out / "predictions.jsonl")} == {"ok"}
    assert sum(not is_judging(body) for body in scenarios.servers["garbage"].requests) == 12


@pytest.mark.parametrize(
    ("name", "said", "asked"),
    [
        ("refused key", "refused the key", 12),
        ("unknown model", "openai/scripted", 12),
        ("password", "put the key in the environment", 0),
        ("query", "put the key in the environment", 0),
    ],
)
def test_what_no_retry_can_mend_ends_the_run_on_one_line(scenarios, name, said, asked):
    assert said in one_line(scenarios[name])
    assert len(scenarios.servers[name].requests) <= asked


LEAKS = ("refused key", "unknown model", "errors", "nobody there", "password", "query")


@pytest.mark.parametrize("name", LEAKS)
def test_a_secret_gets_into_no_file_and_onto_no_screen(scenarios, name):
    finished = scenarios[name]
    files = [path for path in scenarios.folders[name].rglob("*") if path.is_file()]
    texts = {str(path): path.read_bytes() for path in files}
    texts |= {"stdout": finished.stdout.encode(), "stderr": finished.stderr.encode()}
    for secret in (KEY, USER, QUERY):
        assert [path for path, text in texts.items() if secret.encode() in text] == []


def test_a_server_that_is_down_leaves_everything_unscored(scenarios):
    finished, out = scenarios["nobody there"], scenarios.out("nobody there")
    track = task1(out)
    assert finished.returncode == 1
    assert (track["unscored"], track["failed_predictions"]) == (2, {"transport": 2})
    assert {row["outcome"] for row in rows(out / "scores.jsonl")} == {"transport"}
    (line,) = finished.stderr.splitlines()
    # On a busy machine the first of the two has taught that nobody answers there.
    assert line.startswith("alps: 2 of 2 are unscored: more than max_failures=5%; transport: ")
    assert re.search(r"cannot connect to http://127\.0\.0\.1:\d+ \(connection refused\)", line)


# What the one line says of an error or of a reply


def test_an_error_of_a_server_is_named_with_how_long_it_was_tried(tmp_path):
    words = ("task=extraction", "data=samples", "limit=1", "model=openai/tiny", "patience=1")
    with serve(lambda body: Answer(status=503)) as server:
        asked = (*words, f"api_base={server.url}", "out=out")
        done = run(tmp_path, "run", *asked, OPENAI_API_KEY="none")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("alps: 1 of 1 is unscored: more than max_failures=5%; transport: ")
    assert "HTTP 503 from http://127.0.0.1:" in line
    assert re.search(r"(tried for|has not answered for) \d+ s.*to wait longer, set patience=", line)


PROSE = "I am no JSON and no list, " * 10
BEGINNING = PROSE[:78]
TALKING = f"""
import sys

class System:
    def predict(self, sample):
        return {PROSE!r}

class Memory:
    def open(self, opening): pass
    def ingest(self, user, session): pass
    def settle(self, user, timeout): return "ready"
    def search(self, user, query, k, at): return {PROSE!r}
    def reset(self, user): pass

if __name__ == "__main__":
    for line in sys.stdin:
        print({PROSE!r}, flush=True)
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
    (tmp_path / "odd.py").write_text(TALKING)
    words = tuple(word.replace("PYTHON", sys.executable) for word in words)
    with serve(lambda body: Answer(PROSE)) as server:
        key = "judge_api_base" if "judge=openai/judge" in words else "api_base"
        at = (f"{key}={server.url}",) if any("openai/" in word for word in words) else ()
        limit = "limit=5" if key == "judge_api_base" else "limit=1"
        own = (*words, *at, "data=samples", limit, "out=out")
        done = run(tmp_path, "run", *own, OPENAI_API_KEY="none")
    assert done.returncode in (1, 2)
    assert call in done.stderr
    assert BEGINNING[:70] in done.stderr
    assert BEGINNING + PROSE[78:90] not in done.stderr


# Killed, interrupted, damaged: the same command goes on


def journalled(folder):
    return {
        (name, row["benchmark_id"])
        for name in JOURNALS[:2]
        if (folder / name).exists()
        for row in complete_rows(folder / name)
        if row["outcome"] == "ok"
    }


KILLS, AT_ONCE, VISITORS = 5, 3, 45


def kill_again_and_again(folder, calm):
    for place in (folder, calm):
        write_visitors(place / "data", VISITORS)
    draw = random.Random(20)
    with serve(Slow(0.05)) as server, serve(good) as other:
        undisturbed = start(calm, *extraction(other.url, "out=out"))
        words = extraction(server.url, f"concurrency={AT_ONCE}", "out=out")
        kills = []
        for _ in range(KILLS):
            wanted = len(server.requests) + draw.randint(4, 10)
            process = start(folder, *words, ALPS_CACHE="off")
            wait_until(
                lambda p=process, w=wanted: len(server.requests) >= w or p.poll() is not None
            )
            time.sleep(draw.uniform(0, 0.05))
            process.kill()
            process.communicate()
            wait_until(lambda: server.under_way == 0)
            kills.append((len(server.requests), journalled(folder / "out")))
        last = run_cold(folder, *words, ALPS_CACHE="off")
        asked = [purpose(body) for body in server.requests]
        finish(undisturbed)
    return last, kills, asked, folder / "out", calm / "out"


@pytest.mark.release
def test_a_run_killed_five_times_asks_twice_what_was_under_way_and_ends_as_a_calm_one(at_once):
    last, kills, requests, out, calm = at_once[1].result()
    finished = [len(done) for _, done in kills]
    assert last.returncode == 0, last
    assert "in use" not in last.stderr  # a killed process leaves no lock behind
    assert finished == sorted(finished)
    assert 0 < finished[-1] < 2 * VISITORS
    assert contents(out, JOURNALS) == contents(calm, JOURNALS)
    assert task1(out) == task1(calm)
    for place, done in kills:
        assert done.isdisjoint(requests[place:])
    asked = Counter(requests)
    assert len(asked) == 2 * VISITORS
    assert sum(asked.values()) - len(asked) <= KILLS * 2 * AT_ONCE


def interrupt(folder):
    write_visitors(folder / "data", 12)
    with serve(Slow(0.3)) as server:
        words = extraction(server.url, "concurrency=2", "out=out")
        process = start_cold(folder, *words, ALPS_CACHE="off")
        wait_until(lambda: len(journalled(folder / "out")) >= 4 or process.poll() is not None)
        server.script.delay, place = 60, len(server.requests)
        wait_until(lambda: len(server.requests) > place or process.poll() is not None)
        second = run(folder, "run", "task=extraction", "model=rules", "data=data", "out=out")
        process.send_signal(signal.SIGINT)
        first = finish(process, timeout=200)
        server.script.let_go.set()
        wait_until(lambda: server.under_way == 0)
        done, place = journalled(folder / "out"), len(server.requests)
        resumed = run(folder, *words, ALPS_CACHE="off")
        later = [purpose(body) for body in server.requests[place:]]
    return process.pid, first, second, done, resumed, later, folder / "out"


def says_how_to_resume(interrupted):
    said = [line for line in interrupted.stderr.splitlines() if line]
    assert (interrupted.returncode, interrupted.stdout, len(said)) == (130, "", 1), said
    assert "to resume, repeat the same command" in said[0]


def test_an_interrupted_run_waits_for_no_answer_and_is_completed_by_the_same_command(at_once):
    pid, first, second, done, resumed, later, out = at_once[2].result()
    says_how_to_resume(first)
    assert f"process {pid} " in one_line(second)  # which holds the folder
    assert resumed.returncode == 0, resumed
    assert 4 <= len(done) < 24
    assert done.isdisjoint(later)
    assert task1(out)["scored"] == 12


SLOW = """
import asyncio, pathlib

class Slow:
    settings = {"version": 1}

    async def predict(self, sample):
        if pathlib.Path("stuck").exists() and "visitor 0." not in sample.dialogue[0].text:
            pathlib.Path("waiting").touch()
            await asyncio.sleep(60)
        return [{"value": "Lives in Lyon", "type": "direct"}]
"""


@pytest.mark.release
def test_ctrl_c_twice_ends_the_run_at_once_and_the_same_command_completes_it(tmp_path):
    write_visitors(tmp_path / "data", 12)
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    (tmp_path / "stuck").touch()
    words = ("run", "task=extraction", "model=python:slow:Slow", "data=data", "concurrency=2")
    predictions = tmp_path / "out" / "predictions.jsonl"
    process = start_cold(tmp_path, *words, "out=out")
    try:
        wait_until(lambda: (tmp_path / "waiting").exists() or process.poll() is not None)
        wait_until(lambda: predictions.read_bytes().endswith(b"\n") or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)  # two that wait together are one
        process.send_signal(signal.SIGINT)
        first = finish(process, timeout=200)
    finally:
        end(process)
    assert [row["benchmark_id"] for row in rows(predictions)] == ["visitor_00"]
    (tmp_path / "stuck").unlink()
    resumed = run_cold(tmp_path, *words, "out=out")
    says_how_to_resume(first)
    assert resumed.returncode == 0, resumed.stderr
    assert task1(tmp_path / "out")["scored"] == 12


def test_all_journals_of_a_run_of_a_model_are_mended_by_asking_for_what_is_lost(
    scenarios, tmp_path
):
    out = shutil.copytree(scenarios.out("mixture"), tmp_path / "out")
    for name in (*JOURNALS, "calls.jsonl"):
        damage_file(out / name, torn)
        damage_file(out / name, garbage_in_the_middle)
    server = scenarios.servers["mixture"]
    shutil.copytree(scenarios.folders["mixture"] / "data", tmp_path / "data")
    place = len(server.requests)
    finished = run(tmp_path, *extraction(server.url, "out=out"), ALPS_CACHE="off")
    asked = Counter(purpose(body) for body in server.requests[place:])
    assert finished.returncode == 0, finished.stderr
    assert asked == {(name, visitor_id(n)): 1 for name in JOURNALS[:2] for n in (1, COUNT - 1)}
    assert contents(out, JOURNALS[2:]) == contents(scenarios.out("mixture"), JOURNALS[2:])


def test_an_answer_that_failed_is_not_paid_for_again_when_the_run_goes_on(scenarios, tmp_path):
    here = shutil.copytree(scenarios.folders["stubborn"], tmp_path / "here")
    for name in JOURNALS:
        damage_file(here / "out" / name, lambda lines: lines.pop())
    server = scenarios.servers["stubborn"]
    place = len(server.requests)
    words = (word for word in extraction(server.url, "out=out") if "judge" not in word)
    assert run(here, *words, ALPS_CACHE="off").returncode == 1
    assert [visitor(body) for body in server.requests[place:]] == [len(OUTCOMES) - 1]
    assert contents(here / "out", JOURNALS) == contents(scenarios.out("stubborn"), JOURNALS)


# What a run says does not depend on which of its records was finished first

FAILING = """
import asyncio

class Mine:
    async def predict(self, sample):
        place = int(sample.dialogue[0].text.split()[3].rstrip("."))
        await asyncio.sleep({delay})
        if place % 3 == 0:
            raise ValueError(f"{{place}} can't be answered")
        return [{{"value": f"Owns {{place}} cats", "confidence": 7 + place}}]
"""
WORDS = ("run", "task=extraction", "model=python:mine:Mine", "data=../data", "concurrency=9")
WORDS += ("max_failures=40%", "out=out")


def completed(folder, delay):
    folder.mkdir()
    write_visitors(folder.parent / "data", 9)
    (folder / "mine.py").write_text(FAILING.format(delay=delay))
    done = run(folder, *WORDS)
    assert done.returncode == 0, done.stderr
    return folder / "out"


@pytest.fixture(scope="module")
def in_order(tmp_path_factory):
    return completed(tmp_path_factory.mktemp("order") / "forwards", "place / 50")


def test_the_summary_is_the_same_where_the_last_record_is_finished_first(in_order, tmp_path):
    backwards = completed(tmp_path / "backwards", "(8 - place) / 50")
    track = task1(backwards)
    assert track["failed_predictions"] == {"invalid": 3}
    assert "0 can't be answered" in track["errors"]["invalid"]
    assert len(track["notes"]) > 1
    assert contents(backwards) == contents(in_order)


def test_answers_that_came_in_time_are_not_mixed_with_those_of_another_time(in_order):
    other = run(in_order.parent, *WORDS, "timeout=5")
    assert "out holds another run: system.timeout is 120.0 there, 5.0 here" in one_line(other)
