import json
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import pytest

from alps.judges.embedded import AGREEMENT
from alps.schema import FAILURES
from tests.conftest import ROOT
from tests.endtoend import end, finish, rows, run, start, start_cold, summary, task1

pytestmark = pytest.mark.real

FLOORS = ("floor/empty", "floor/content-free", "floor/content-free-fluent", "floor/excerpts")
FAULTS = "429:0.1,500:0.05,drop:0.03,garbage:0.05,truncate:0.03,empty:0.03"
COUNTS = {
    "task1": 84,
    "task2": 86,
    "task3_d100": 85,
    **{f"task4_ability{n}": count for n, count in enumerate((17, 15, 22, 14, 65), start=1)},
}
SCORES = {
    "task1": "f1 precision recall f1_strict recall_direct recall_indirect",
    "task2": "f1 f1_changed action_accuracy precision_modify recall_add contradiction_kept lost",
    "task3_d100": "recall_at_1 memory_used",
    "task4_ability1": "pa",
    "task4_ability2": "pf pf_general pf_interaction",
    "task4_ability3": "vra",
    "task4_ability4": "cf",
    "task4_ability5": "ei ei_en ei_zh",
}
NO_BODY = sha256(b"{}").hexdigest()[:16]
"""How the replay server logs a request that has no body."""
CUT_OFF = ("sess_8b6eb01a78ba__87852", "sess_e99ed652e986__10711")


@pytest.fixture(scope="module")
def embedded(sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedded")

    def carry_out(model):
        words = ("run", "task=extraction", f"model={model}", f"data={sample}", "split=dev")
        return run(folder, *words, f"out={model.replace('/', '-')}")

    models = ("rules", "oracle", *FLOORS)
    with ThreadPoolExecutor(2) as pool:
        finished = dict(zip(models, pool.map(carry_out, models), strict=True))
    assert {result.returncode for result in finished.values()} == {0}, finished
    return {model: task1(folder / model.replace("/", "-")) for model in finished}


class Replay:
    """A run of every task against recorded answers."""

    def __init__(self, sample, folder, *options, begin=start):
        self.folder, self.log = folder, folder / "server.jsonl"
        tool = sample.parent / "tools" / "replay_server.py"
        given = ("--sample", str(sample), "--log", str(self.log), *options)
        self.server = subprocess.Popen(
            [sys.executable, str(tool), *given], stdout=subprocess.PIPE, text=True
        )
        url = self.server.stdout.readline().strip()
        model = ("model=openai/replay", f"api_base={url}")
        judge = ("judge=openai/judge", f"judge_api_base={url}", "judge_check=no")
        words = ("task=all", *model, *judge, f"data={sample}", "split=dev", "out=out")
        self.run = begin(folder, "run", *words, "baseline_records=0")

    def finish(self):
        self.finished = finish(self.run)
        self.tracks = summary(self.folder / "out")["tracks"]
        return self

    def close(self):
        end(self.run)
        self.server.terminate()
        self.server.communicate()


@pytest.fixture(scope="module")
def begun(sample, tmp_path_factory):
    """Begin both runs at once: the one with faults waits for most of its time."""
    if not (sample.parent / "tools" / "replay_server.py").is_file():
        yield None
        return
    begun = [
        Replay(sample, tmp_path_factory.mktemp("replay"), "--faults", FAULTS),
        Replay(sample, tmp_path_factory.mktemp("replay"), begin=start_cold),
    ]
    yield begun
    for replay in begun:
        replay.close()


@pytest.fixture(scope="module")
def replays(begun):
    if begun is None:
        pytest.skip("the replay server is not here")
    return begun


@pytest.fixture(scope="module")
def calm(replays):
    return replays[1].finish()


@pytest.fixture(scope="module")
def faulty(replays):
    return replays[0].finish()


@pytest.fixture(scope="module")
def recorded(sample):
    found = rows(sample / "recorded" / "task1" / "records.jsonl")
    return {row["benchmark_id"]: row["model_output"]["raw_output"] for row in found}


def plain_values(text):
    fenced = re.fullmatch(r"```(?:json)?\s*(.*?)\s*```", text.strip(), re.DOTALL)
    try:
        items = json.loads(fenced.group(1) if fenced else text)["memory_items"]
    except ValueError:
        return None
    return [item["value"].strip() for item in items]


def predicted(replay, track="task1"):
    found = rows(replay.folder / "out" / "predictions.jsonl")
    return {row["benchmark_id"]: row for row in found if row["track"] == track}


def f1_of(track):
    return track["scores"]["f1"]


@pytest.mark.release
def test_floors_oracle_and_the_embedded_extractor_have_known_scores(embedded):
    for floor in ("floor/content-free", "floor/content-free-fluent"):
        score = f1_of(embedded[floor])
        assert score["n"] == 84
        assert score["value"] < 0.03
        assert 0.03 < score["high"] < 0.06  # what 84 records without a hit leave room for
    assert f1_of(embedded["floor/empty"])["value"] == 0
    assert embedded["floor/empty"]["empty_vs_empty"] == 0
    low = pytest.approx(0.9475, abs=5e-4)
    assert f1_of(embedded["oracle"]) == {"value": 1.0, "low": low, "high": 1.0, "n": 84}
    assert embedded["rules"]["rejected_gold"] == 16
    for floor in FLOORS:
        beside = embedded["rules"]["floors"][floor]
        above = beside["above"]
        assert above["n"] == 84
        assert 0 < above["low"] <= above["value"] <= above["high"]
        assert f1_of(beside)["value"] == f1_of(embedded[floor])["value"]


@pytest.mark.release
def test_every_recorded_answer_is_accounted_for_and_read(calm, recorded):
    track = task1(calm.folder / "out")
    assert calm.finished.returncode == 0, calm.finished
    assert (track["n"], track["scored"], track["unscored"]) == (84, 84, 0)
    assert (track["failed_predictions"], track["failed_judgements"]) == ({"empty": 5}, {})
    found = predicted(calm)
    assert {name: row["raw"] for name, row in found.items()} == recorded
    outcomes = {name: row["outcome"] for name, row in found.items()}
    assert outcomes == {name: "empty" if text is None else "ok" for name, text in recorded.items()}
    mended = {name for name, row in found.items() if row["repaired"]}
    assert mended == {name for name, text in recorded.items() if text and text.startswith("```")}


@pytest.mark.release
def test_every_memory_of_a_recorded_answer_is_found_in_its_order(calm, recorded):
    plain = {name: plain_values(text) for name, text in recorded.items() if text}
    expected = {name: values for name, values in plain.items() if values is not None}
    found = predicted(calm)
    items = {name: found[name]["prediction"]["memory_items"] for name in plain}
    assert len(expected) == 77
    assert {name: [m["value"] for m in items[name]] for name in expected} == expected
    assert set(CUT_OFF) == plain.keys() - expected.keys()
    for name in CUT_OFF:
        row = found[name]
        assert (row["outcome"], row["repaired"], row["truncated"]) == ("ok", True, True)
        assert [memory["value"] in recorded[name] for memory in items[name]] == [True]


@pytest.mark.release
def test_every_record_of_every_track_is_scored_and_every_figure_is_there(calm):
    assert {name: track["n"] for name, track in calm.tracks.items()} == COUNTS
    for track, count in COUNTS.items():
        found = calm.tracks[track]
        scored = (found["scored"], found["unscored"], found["failed_judgements"])
        assert scored == (count, 0, {}), track
        outcomes = Counter(row["outcome"] for row in predicted(calm, track).values())
        failed = {kind: n for kind, n in outcomes.items() if kind != "ok"}
        assert found["failed_predictions"] == failed
        assert outcomes["ok"] >= 0.95 * count - 5
        for name in SCORES[track].split():
            score = found["scores"][name]
            assert score["low"] <= score["value"] <= score["high"], (track, name)
    counts = calm.tracks["task2"]["counts"]
    assert [counts[f"gold_{action}"] for action in ("retain", "modify", "add")] == [194, 86, 86]
    assert "gold_delete" not in counts


def test_the_agreement_that_is_printed_is_the_one_that_is_measured(sample):
    words = [sys.executable, str(ROOT / "bench" / "lexical_judge.py"), str(sample)]
    places = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    given = {**os.environ, "PYTHONPATH": places}
    printed = subprocess.run(words, capture_output=True, text=True, check=True, env=given).stdout
    sizes = re.findall(r"n (\d+), sessions", printed)
    kappas = re.findall(r"cross-validated +(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]", printed)
    assert len(sizes) == len(kappas) == 4
    assert kappas[2:] == [("0.557", "0.458", "0.647"), ("0.265", "0.145", "0.386")], (
        "docs/judges.md and README.md"
    )
    (all_pairs, all_low, all_high), (differing, low, high) = (
        tuple(map(two_decimals, kappa)) for kappa in kappas[:2]
    )
    assert (
        f"kappa {all_pairs} [{all_low}, {all_high}] with recorded LLM verdicts on {sizes[0]} "
        "pairs; "
        f"{differing} [{low}, {high}] on the {sizes[1]} pairs with different texts"
    ) == AGREEMENT


def two_decimals(text):
    return f"{float(text):.2f}".replace("0.", ".", 1)


@pytest.mark.release
@pytest.mark.parametrize(("task", "track"), [("extraction", "task1"), ("update", "task2")])
def test_the_authors_scores_of_every_record_are_reproduced_from_the_command_line(
    sample, tmp_path, task, track
):
    records = sample / "recorded" / track / "records.jsonl"
    most = "max_failures=6%"  # 5 of 84 extractions are empty
    words = (f"task={task}", f"data={sample}", f"model=predictions:{records}", "out=out", most)
    assert run(tmp_path, "run", *words).returncode == 0
    judging = (f"judge=recorded:{records}", "scoring=authors-v1", "out=again", most)
    judged = run(tmp_path, "score", "out", *judging)
    assert judged.returncode == 0, judged.stderr
    expected = {row["benchmark_id"]: row for row in rows(records)}
    again = rows(tmp_path / "again" / "scores.jsonl")
    found = {row["benchmark_id"]: row["scores"] for row in again}
    assert found.keys() == expected.keys()
    for name, scores in found.items():
        assert scores["final_score"] == pytest.approx(expected[name]["final_score"], abs=1e-4)
        assert scores.get("judge_score") == pytest.approx(expected[name]["judge_score"], abs=1e-4)


@pytest.mark.release
def test_faults_leave_every_record_of_every_track_accounted_for_and_few_unscored(faulty):
    assert "Traceback" not in faulty.finished.stderr
    scored = rows(faulty.folder / "out" / "scores.jsonl")
    lost = 0
    for track, count in COUNTS.items():
        found = faulty.tracks[track]
        assert found["n"] == found["scored"] + found["unscored"] == count
        failed = [*found["failed_predictions"].values(), *found["failed_judgements"].values()]
        well = [row for row in scored if (row["track"], row["outcome"]) == (track, "ok")]
        assert sum(failed) + len(well) == count
        lost += sum(found["failed_predictions"].get(kind, 0) for kind in FAILURES)
    unscored = sum(track["unscored"] for track in faulty.tracks.values())
    assert unscored <= 0.1 * sum(COUNTS.values())
    assert faulty.finished.returncode == (unscored + lost > 0.05 * sum(COUNTS.values()))


@pytest.mark.release
def test_faults_did_happen_and_no_question_that_was_answered_is_asked_again(faulty):
    met, calls = rows(faulty.log), rows(faulty.folder / "out" / "calls.jsonl")
    kinds = {"429", "500", "drop", "garbage", "truncate", "empty"}
    assert kinds <= {str(row["status"]) for row in met}
    answered = Counter(row["key"] for row in calls if row["outcome"] == "ok")
    asked = Counter(row["key"] for row in calls if row["ask"] == 0 and row["status"] == 200)
    assert max(answered.values()) == max(asked.values()) == 1
    # What a server says of itself is asked once, without a body, and is no call of a model.
    (about,) = (row for row in met if row["key"] == NO_BODY)
    met.remove(about)
    assert len(calls) == len(met) == summary(faulty.folder / "out")["calls"]["http"]


@pytest.mark.release
def test_faults_lose_no_memory_that_was_said(calm, faulty):
    heard, disturbed = predicted(calm), predicted(faulty)
    lost = {
        name: len(row["prediction"]["memory_items"])
        for name, row in heard.items()
        if row["outcome"] == "ok"
        and not disturbed[name]["truncated"]
        and (disturbed[name]["prediction"] or {}).get("memory_items")
        != row["prediction"]["memory_items"]
    }
    assert lost == {}
