import json
import random
import re
import shutil
import signal
import socket
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

OUTCOMES = {
    "declines in prose": ("I'm sorry, but I can't help with that.", "stop", "refused"),
    "prose": ("The visitor seems to be a nice person.", "stop", "unparsable"),
    "cut off before anything": (
        '{"memory_items": [{"memory_id": "m1", "val',
        "length",
        "truncated",
    ),
    "no text": ("", "stop", "empty"),
    "white space": (" \n\t ", "stop", "empty"),
    "null": (None, "stop", "empty"),
    "other JSON": ('{"answer": 42}', "stop", "invalid"),
    "items without a value": ('{"memory_items": [{"label": "UNMAPPED"}]}', "stop", "invalid"),
    "filtered": (None, "content_filter", "refused"),
    "an empty list": ('{"memory_items": []}', "stop", "ok"),
    "in a fence": ("```json\n%s\n```", "stop", "ok"),
    "cut off after two items": ("%s", "length", "ok"),
    "a good answer": ("%s", "stop", "ok"),
}
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


def with_key(url):
    return f"{url}?key={QUERY}"


def with_password(url):
    return url.replace("://", f"://user:{USER}@")


class Scenarios:
    def __init__(self, make_folder):
        self.folders, self.servers, self._processes, self._finished = {}, {}, {}, {}
        self._stack, self._make_folder = ExitStack(), make_folder

    def start(self, name, script, count, *words, judge=True, address=str, **variables):
        folder = self.folders[name] = self._make_folder("scenario")
        server = self.servers[name] = self._stack.enter_context(serve(script))
        write_visitors(folder / "data", count)
        line = extraction(address(server.url), "out=out", *words)
        self._processes[name] = start(
            folder, *(word for word in line if judge or "judge" not in word), **variables
        )

    def start_without_a_server(self, name, count, *, address=str, **variables):
        folder = self.folders[name] = self._make_folder("scenario")
        taken = self._stack.enter_context(socket.socket())
        taken.bind(("127.0.0.1", 0))
        write_visitors(folder / "data", count)
        url = address(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        self._processes[name] = start(
            folder, *extraction(url, "out=out", "patience=2"), **variables
        )

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
        yield (
            scenarios,
            pool.submit(kill_again_and_again, *folders[:2]),
            pool.submit(interrupt, folders[2]),
        )
    scenarios.close()


@pytest.fixture(scope="module")
def killed(at_once):
    return at_once[1].result()


@pytest.fixture(scope="module")
def interrupted(at_once):
    return at_once[2].result()


@pytest.fixture(scope="module")
def scenarios(at_once):
    begun, leaking = at_once[0], {"OPENAI_API_KEY": KEY}
    begun.start_without_a_server("nobody there", 2, OPENAI_API_KEY=KEY)
    begun.start("mixture", Faulty(list(FAULTS.values())), COUNT)
    begun.start("stubborn", stubborn, len(OUTCOMES), judge=False)
    begun.start("garbage", garbage, 12)
    for name in ("mixture", "stubborn", "garbage"):
        begun[name]
    begun.start("password", good, 1, address=with_password, OPENAI_API_KEY=KEY)
    begun.start("query", good, 1, address=with_key, OPENAI_API_KEY=KEY)
    begun.start("refused key", Leaky(SAID, *[401] * 12), 12, **leaking)
    begun.start("unknown model", Leaky(SAID, *[404] * 12), 12, **leaking)
    begun.start("errors", Leaky(SAID, 500, 400, 429), 4, **leaking)
    return begun


def test_every_record_of_a_faulty_server_is_accounted_for(scenarios):
    track = task1(scenarios.out("mixture"))
    assert scenarios["mixture"].returncode == 0
    assert (track["n"], track["scored"], track["unscored"]) == (COUNT, COUNT, 0)
    assert (track["failed_predictions"], track["failed_judgements"]) == ({}, {})


def test_faults_change_no_score(scenarios):
    f1 = [row["scores"]["f1"] for row in rows(scenarios.out("mixture") / "scores.jsonl")]
    assert f1 == [0.5 if number % 3 == 0 else 1.0 for number in range(COUNT)]


def test_nothing_that_was_answered_well_is_asked_twice(scenarios):
    scenarios.out("mixture")
    script = scenarios.servers["mixture"].script
    assert script.well == {(name, visitor_id(n)): 1 for name in JOURNALS[:2] for n in range(COUNT)}


@pytest.mark.parametrize("fault", FAULTS)
def test_after_one_fault_a_question_is_asked_just_once_more(scenarios, fault):
    scenarios.out("mixture")
    number = list(FAULTS).index(fault)
    asked = scenarios.servers["mixture"].script.asked
    assert [asked[name, visitor_id(number)] for name in JOURNALS[:2]] == [2, 2]


def test_every_request_has_its_row_among_the_calls(scenarios):
    calls = rows(scenarios.out("mixture") / "calls.jsonl")
    server = scenarios.servers["mixture"]
    assert len(server.requests) == 4 * COUNT
    assert len(calls) == len(server.requests) + len(server.known)
    assert summary(scenarios.out("mixture"))["calls"]["http"] == len(calls)


@pytest.mark.parametrize("way", OUTCOMES)
def test_a_bad_answer_is_a_failure_of_its_own_kind(scenarios, way):
    row = rows(scenarios.out("stubborn") / "predictions.jsonl")[list(OUTCOMES).index(way)]
    assert row["outcome"] == OUTCOMES[way][2]


@pytest.mark.parametrize("way", [way for way in OUTCOMES if OUTCOMES[way][2] != "ok"])
def test_a_failed_answer_scores_zero_in_the_open(scenarios, way):
    row = rows(scenarios.out("stubborn") / "scores.jsonl")[list(OUTCOMES).index(way)]
    assert (row["outcome"], row["scores"]["f1"]) == (OUTCOMES[way][2], 0.0)


def test_failed_answers_are_counted_by_kind_and_are_all_scored(scenarios):
    track = task1(scenarios.out("stubborn"))
    kinds = Counter(kind for _, _, kind in OUTCOMES.values() if kind != "ok")
    assert track["failed_predictions"] == kinds
    assert track["unscored"] == 0
    assert scenarios["stubborn"].returncode == 1
    assert f"{kinds.total()} of {len(OUTCOMES)} predictions failed" in scenarios["stubborn"].stderr


@pytest.mark.parametrize(
    "way", ["declines in prose", "prose", "cut off before anything", "other JSON"]
)
def test_the_text_of_a_failed_answer_is_kept(scenarios, way):
    row = rows(scenarios.out("stubborn") / "predictions.jsonl")[list(OUTCOMES).index(way)]
    assert row["raw"] == OUTCOMES[way][0]


def test_an_answer_cut_off_after_complete_items_keeps_all_of_them(scenarios):
    row = rows(scenarios.out("stubborn") / "predictions.jsonl")[
        list(OUTCOMES).index("cut off after two items")
    ]
    assert [item["value"] for item in row["prediction"]["memory_items"]] == list(values_of(0))
    assert (row["repaired"], row["truncated"]) == (True, True)


def test_an_answer_in_a_fence_is_mended_and_not_asked_for_again(scenarios):
    number = list(OUTCOMES).index("in a fence")
    row = rows(scenarios.out("stubborn") / "predictions.jsonl")[number]
    assert (row["repaired"], row["truncated"], len(row["prediction"]["memory_items"])) == (
        True,
        False,
        2,
    )
    assert sum(visitor(body) == number for body in scenarios.servers["stubborn"].requests) == 1


def test_a_bad_answer_is_asked_for_at_most_three_times(scenarios):
    scenarios.out("stubborn")
    asked = Counter(map(visitor, scenarios.servers["stubborn"].requests))
    assert max(asked.values()) == 3


def test_a_judge_that_talks_nonsense_leaves_records_unscored_and_never_at_zero(scenarios):
    track = task1(scenarios.out("garbage"))
    assert scenarios["garbage"].returncode == 1
    assert (track["scored"], track["unscored"], track["failed_judgements"]) == (
        0,
        12,
        {"unparsable": 12},
    )
    assert track["scores"]["f1"]["value"] is None
    assert (track["scores"]["f1"]["n"], track["failed_predictions"]) == (0, {})
    assert all(row["scores"] == {} for row in rows(scenarios.out("garbage") / "scores.jsonl"))


def test_predictions_survive_a_judge_that_talks_nonsense(scenarios):
    assert {row["outcome"] for row in rows(scenarios.out("garbage") / "predictions.jsonl")} == {
        "ok"
    }
    assert sum(not is_judging(body) for body in scenarios.servers["garbage"].requests) == 12


@pytest.mark.parametrize(
    ("name", "said"),
    [("refused key", "refused the key"), ("unknown model", "openai/scripted")],
    ids=["401", "404"],
)
def test_what_no_retry_can_mend_ends_the_run_on_one_line(scenarios, name, said):
    assert said in one_line(scenarios[name])
    assert len(scenarios.servers[name].requests) <= 12


@pytest.mark.parametrize("name", ["password", "query"])
def test_an_address_with_a_secret_in_it_is_refused_before_anything_is_asked(scenarios, name):
    assert "a key belongs in the environment" in one_line(scenarios[name])
    assert scenarios[name].returncode == 2
    assert scenarios.servers[name].requests == []


def test_the_key_does_reach_the_server(scenarios):
    scenarios.out("errors")
    headers = [
        {name.lower(): value for name, value in found.items()}
        for found in scenarios.servers["errors"].headers
    ]
    assert [found["authorization"] for found in headers] == [f"Bearer {KEY}"] * len(headers)
    assert len(headers) >= 6


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
    return {
        "last": last,
        "kills": kills,
        "asked": asked,
        "out": folder / "out",
        "undisturbed": calm / "out",
    }


def test_a_run_killed_five_times_ends_well(killed):
    finished = [len(done) for _, done in killed["kills"]]
    assert killed["last"].returncode == 0, killed["last"]
    assert finished == sorted(finished)
    assert 0 < finished[-1] < 2 * VISITORS


@pytest.mark.parametrize("name", JOURNALS)
def test_a_run_killed_five_times_leaves_the_bytes_of_an_undisturbed_one(killed, name):
    assert (killed["out"] / name).read_bytes() == (killed["undisturbed"] / name).read_bytes()


def test_a_run_killed_five_times_finds_the_figures_of_an_undisturbed_one(killed):
    assert task1(killed["out"]) == task1(killed["undisturbed"])


def test_what_was_finished_at_a_kill_is_never_asked_again(killed):
    for place, done in killed["kills"]:
        assert done.isdisjoint(killed["asked"][place:])


def test_only_what_was_under_way_at_a_kill_is_asked_twice(killed):
    asked = Counter(killed["asked"])
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
        asked_later = [purpose(body) for body in server.requests[place:]]
    return {
        "first": first,
        "process": process.pid,
        "second": second,
        "done": done,
        "resumed": resumed,
        "asked later": asked_later,
        "out": folder / "out",
    }


def test_an_interrupted_run_waits_for_no_answer_exits_130_and_says_how_to_resume(interrupted):
    first = interrupted["first"]
    said = [line for line in first.stderr.splitlines() if line]
    assert first.returncode == 130
    assert len(said) == 1
    assert "the same command resumes it" in said[0]
    assert first.stdout == ""


def test_an_interrupted_run_keeps_what_is_finished_and_is_completed_by_the_same_command(
    interrupted,
):
    assert interrupted["resumed"].returncode == 0, interrupted["resumed"]
    assert 4 <= len(interrupted["done"]) < 24
    assert interrupted["done"].isdisjoint(interrupted["asked later"])
    assert task1(interrupted["out"])["scored"] == 12


def test_a_folder_in_use_is_refused_naming_the_process_that_holds_it(interrupted):
    assert re.search(rf"\bprocess {interrupted['process']}\b", one_line(interrupted["second"]))


def test_a_killed_process_leaves_no_lock_behind(killed):
    assert "in use" not in killed["last"].stderr


def test_all_journals_of_a_run_with_a_model_are_mended_by_asking_for_what_is_lost(
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


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *(
            (name, KEY)
            for name in (
                "refused key",
                "unknown model",
                "errors",
                "nobody there",
                "password",
                "query",
            )
        ),
        ("password", USER),
        ("query", QUERY),
    ],
)
def test_a_secret_gets_into_no_file_and_onto_no_screen(scenarios, name, secret):
    finished = scenarios[name]
    texts = {
        str(path): path.read_bytes()
        for path in scenarios.folders[name].rglob("*")
        if path.is_file()
    }
    texts |= {"stdout": finished.stdout.encode(), "stderr": finished.stderr.encode()}
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
