"""Several tasks in one run: what is judged again, counted beforehand, left out or refused."""

import json
import re

import pytest

from alps.run.scores import RecordScores
from alps.tasks import Metric, Scored
from tests.builders import memory
from tests.endtoend import JOURNALS, contents, one_line, rows, run, summary
from tests.loopback import Answer, serve
from tests.tracks import alps_here, felt, llm, met, payload_of

V1 = ("scoring=authors-v1",)
ALL = ("run", "task=all", "model=rules", "limit=3")
LEFT_OUT = ("task3_d100", *(f"task4_ability{n}" for n in range(1, 6)), "personamem", "forgetting")


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    folder = tmp_path_factory.mktemp("everything")
    ran = alps_here(*ALL, f"out={folder / 'out'}")
    assert ran.code == 0, ran
    return folder


@pytest.fixture(scope="module")
def authors(everything):
    ran = alps_here("score", everything / "out", *V1, f"out={everything / 'authors'}")
    assert ran.code == 0, ran
    return ran, summary(everything / "authors")


@pytest.mark.release
def test_a_run_of_all_tasks_is_scored_again_as_the_authors_did(everything, authors):
    fresh = alps_here(*ALL, *V1, f"out={everything / 'fresh'}")
    assert fresh.code == 0, fresh
    assert authors[1]["tracks"] == summary(everything / "fresh")["tracks"]
    scored = rows(everything / "authors" / "predictions.jsonl")
    assert set(authors[1]["tracks"]) == {row["track"] for row in scored} == {"task1", "task2"}


def test_the_authors_scores_say_what_they_are_for_and_what_they_are_not_defined_for(authors):
    ran, found = authors
    assert tuple(found["left_out"]) == LEFT_OUT
    printed = " ".join(ran.out.split())
    for said in (
        "Left out: retrieval@100 (scoring=authors-v1 is not defined for retrieval).",
        "constraints, emotional support (scoring=authors-v1 is not defined for utilization).",
        "authors-v1: compare these scores only with the authors' first published scores.",
    ):
        assert said in printed
    assert "kappa" not in printed  # of a judge that was not asked


def test_tracks_that_a_run_has_no_predictions_for_are_not_judged(everything, authors):
    words = ("scoring=alps", f"out={everything / 'none'}")
    said = alps_here("score", everything / "authors", *words).one_line
    assert "no predictions for task3_d100, task4_ability1" in said
    assert not (everything / "none").exists()


def test_predictions_of_a_run_of_all_tasks_get_the_same_scores(everything):
    model = f"model=predictions:{everything / 'out'}"
    ran = alps_here("run", "task=all", model, "limit=3", f"out={everything / 'again'}")
    assert ran.code == 0, ran
    kept, again = (
        {track: found["scores"] for track, found in summary(everything / name)["tracks"].items()}
        for name in ("out", "again")
    )
    assert kept == again


NO_JUDGE = "scoring=authors-v1 uses no judge"
OF_RETRIEVAL = "distractors=300: only task retrieval uses distractors="
OF_EXTRACTION = "extras=judge: only task extraction uses extras="
IGNORED = {
    "distractors": ("task=extraction distractors=300", OF_RETRIEVAL),
    "extras": ("task=update extras=judge", OF_EXTRACTION),
    "extras of the authors": (
        *("task=extraction extras=judge scoring=authors-v1", f"extras=judge: {NO_JUDGE}"),
    ),
    "a judge of the authors": (
        *("task=update judge=openai/j scoring=authors-v1", f"judge=openai/j: {NO_JUDGE}"),
    ),
    "all and another": (
        *("task=all,update", "task=all,update: 'all' means every task; name no other"),
    ),
}


@pytest.mark.parametrize(("words", "said"), IGNORED.values(), ids=IGNORED)
def test_what_would_be_ignored_is_refused(words, said, tmp_path):
    given = ("model=rules", *words.split(), f"out={tmp_path / 'out'}")
    assert said in alps_here("run", *given).one_line
    assert not (tmp_path / "out").exists()


@pytest.mark.few(1)
@pytest.mark.parametrize("task", ["all", "retrieval,utilization"])
def test_a_setting_that_one_of_the_tasks_heeds_is_taken(task, tmp_path):
    words = (f"task={task}", "model=rules", "limit=1", f"out={tmp_path / 'out'}")
    assert alps_here("run", *words, "max_context_tokens=100", "distractors=300").code == 0
    tracks = summary(tmp_path / "out")["tracks"]
    assert "task3_d300" in tracks
    assert tracks["task4_ability1"]["max_context_tokens"] == 100


def test_a_repeat_in_which_a_figure_is_not_defined_has_no_mean():
    board = RecordScores([Metric("f1", "F1", headline=True)])
    board.add(0, "a", Scored({"f1": 0.5}), repeat=0)
    board.add(0, "a", Scored({}), repeat=1)
    assert board.by_repeat(board.metrics[0]) == [0.5, None]


def answer(body):
    """Give every task what it asks for; the judge's third draw is of another mind."""
    text = body["messages"][-1]["content"]
    if '"kind": "match"' in text:
        return Answer(json.dumps({"pairs": []}))
    if '"kind": "rubric"' in text:
        answer.ratings += 1
        odd = answer.ratings % 3 == 0
        if payload_of(body)["rubric"] == "ei":
            return felt(1 if odd else 3, 3, 3)
        return met("not_met" if odd else "met")
    if '"candidates"' in text:
        chosen = {"selected_memory_id": payload_of(body)["candidates"][0]["id"]}
        return Answer(json.dumps({**chosen, "answer": "As you like it", "reason": "a guess"}))
    if '"new_conversation"' in text or ('"conversation"' in text and '"message"' not in text):
        items = [memory("Collects thimbles of tin").model_dump()]
        return Answer(json.dumps({"memory_items": items}))
    return Answer("A kind answer to you.")


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked")
    answer.ratings = 0
    keys = {"OPENAI_API_KEY": "none", "ALPS_CACHE": "off"}
    with serve(answer) as server:
        words = ("run", "task=all", "limit=1", "judge_repeats=3", "repeats=2", *llm(server.url))
        words += ("judge_check=no",)
        before = run(folder, *words, "out=out", "dry_run=true", **keys)
        finished = run(folder, *words, "out=out", **keys)
        after = run(folder, *words, "out=out", "dry_run=true", **keys)
        predicted = run(folder, "run", "task=all", "limit=1", "model=predictions:out", "out=again")
    assert (before.returncode, finished.returncode, after.returncode) == (0, 0, 0), finished
    return folder, before, after, predicted


def calls_of(printed):
    """Return the calls that a dry run announces, by stage."""
    lines = re.findall(r", (answers|verdicts) +(?:up to )?(\d+)", printed)
    names = {"answers": "generate", "verdicts": "judge"}
    return {names[stage]: int(calls) for stage, calls in lines}


def test_what_is_counted_beforehand_holds_the_ledger_and_nothing_is_left_of_a_finished_run(asked):
    folder, before, after, _ = asked
    calls = [row["purpose"] for row in rows(folder / "out" / "calls.jsonl")]
    counted = calls_of(before.stdout)
    assert counted["generate"] == calls.count("generate") == 2 * 8
    # What two answers have in common is asked once.
    assert 0 < calls.count("judge") <= counted["judge"]
    assert calls_of(after.stdout) == {"generate": 0, "judge": 0}
    assert all(contents(folder / "out", JOURNALS).values())


@pytest.mark.release
def test_what_the_reply_cache_holds_is_told_beside_what_would_be_asked(tmp_path):
    with serve(answer) as server:
        words = ("run", "task=extraction", "limit=3", *llm(server.url))
        assert run(tmp_path, *words, "out=first", OPENAI_API_KEY="none").returncode == 0
        told = run(tmp_path, *words, "out=second", "dry_run=true", OPENAI_API_KEY="none").stdout
    assert calls_of(told)["generate"] == 0
    kept = re.search(r"^Free replies from the cache: (\d+)\.", told, re.MULTILINE)
    assert kept is not None
    assert int(kept[1]) >= 3


@pytest.mark.parametrize("track", ["task1", *LEFT_OUT[:-2]])
def test_a_judge_that_is_asked_repeatedly_tells_its_agreement_in_every_task(asked, track):
    found = summary(asked[0] / "out")["tracks"][track]
    assert found["repeats"] == 2
    assert found["scores"]["judge_agreement"]["n"] == found["n"]
    assert 0 <= found["scores"]["judge_agreement"]["value"] <= 1


def test_the_agreement_is_that_of_the_draws(asked):
    """Of three draws two agree: one pair of three."""
    scored, judged = (
        {
            (row["benchmark_id"], row.get("repeat", 0)): row
            for row in rows(asked[0] / "out" / f"{name}.jsonl")
            if row["track"] == "task4_ability1"
        }
        for name in ("scores", "verdicts")
    )
    for key, row in scored.items():
        draws = {json.loads(text)["verdict"] for text in judged[key]["raw"]}
        expected = 1 if len(draws) == 1 else pytest.approx(1 / 3)
        assert row["scores"]["judge_agreement"] == expected


def test_predictions_of_a_run_with_repeats_are_refused_with_the_way_to_judge_them(asked):
    said = one_line(asked[3])
    assert "repeat: a prediction file can hold only one answer per record" in said
    assert "use alps score" in said
