"""Figures of `task=personamem`: intervals by persona, paired differences, duplicates, and what a
count of mentions solves.
"""

import json
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from alps.run.scores import RecordScores
from alps.run.summary import break_down
from alps.stats.bootstrap import RESAMPLED, clustered_mean, resampled_statistic
from alps.tasks import Breakdown, Inference, Metric, Scored, Shown, load_task
from alps.tasks.personamem.personas import write_set
from alps.tasks.personamem.release import LETTERS, open_personamem, read_kinds, read_questions
from alps.tasks.personamem.scores import SEARCHED, TYPES, by_mentions, error_of
from tests.endtoend import one_line
from tests.pages import Page
from tests.persona_runs import published, rows, run, score_published, summary


def few_large_clusters(shares, size=100):
    values = [[float(place < share * size) for place in range(size)] for share in shares]
    names = [name for name in range(len(shares)) for _ in range(size)]
    return np.array(values).ravel(), names


def test_few_large_clusters_have_an_interval_only_where_it_is_asked_for():
    values, names = few_large_clusters([0.2, 0.4, 0.5, 0.5, 0.6, 0.8])
    bare, own = clustered_mean(values, names), clustered_mean(values, names, resampled=True)
    assert (bare.low, bare.method) == (None, None)
    assert bare.reason == "6 sessions are too few for 600 records"
    assert bare.value == own.value == 0.5
    # Student's between clusters: 2.571 · sqrt(.04 / 6) = .210
    assert (own.low, own.high) == (pytest.approx(0.290, abs=0.04), pytest.approx(0.710, abs=0.04))
    assert own.method == RESAMPLED


def test_clusters_that_agree_have_no_interval_of_no_width():
    values, names = few_large_clusters([1.0] * 6)
    estimate = clustered_mean(values, names, resampled=True)
    assert (estimate.value, estimate.low, estimate.method) == (1.0, None, None)
    assert estimate.reason


def test_expanded_percentiles_cover_what_they_promise():
    draw, covered = np.random.default_rng(7), 0
    for _ in range(200):
        hits = draw.binomial(30, draw.beta(5, 5, size=20))
        features = np.stack([hits, np.full(20, 30)], axis=1).astype(float)
        estimate = resampled_statistic(
            features, range(20), lambda sums: sums[..., 0] / sums[..., 1]
        )
        covered += estimate.low <= 0.5 <= estimate.high
    assert 0.9 <= covered / 200 <= 0.99


@published
def test_a_published_run_has_intervals_by_persona_and_is_compared_with_every_baseline(
    alps, tmp_path
):
    printed = score_published(alps, "rag").stdout
    found = summary(tmp_path / "run")
    accuracy = found["scores"]["accuracy"]
    assert accuracy["method"] == RESAMPLED
    assert accuracy["low"] == pytest.approx(0.588, abs=0.0015)
    assert accuracy["high"] == pytest.approx(0.688, abs=0.0015)
    assert found["scores"]["leak_adjusted"]["value"] == pytest.approx(0.584, abs=0.0005)
    assert found["scores"]["leak_adjusted"]["n"] == 190
    assert found["distinct"] == 400
    figures = ["accuracy", "macro_accuracy", "leak_adjusted", "length_balanced"]
    for floor in found["floors"].values():
        assert list(floor["differences"]) == figures
        for name, apart in floor["differences"].items():
            own = found["scores"][name]["value"] - floor["scores"][name]["value"]
            assert apart["value"] == pytest.approx(own)
            assert apart["low"] < apart["value"] < apart["high"]
    by_length = found["floors"]["floor/length-by-type"]["differences"]["accuracy"]
    assert by_length["value"] == pytest.approx(-0.020, abs=0.0005)
    assert printed.startswith("PersonaMem 32k: accuracy .642")
    shown = alps("show", "run").stdout
    assert "400 distinct questions" in shown
    assert "bootstrap over clusters" in shown
    lines = [line.split() for line in shown.splitlines()]
    assert ["floor/length-by-type", ".661"] in [words[:2] for words in lines]


@pytest.mark.release
@published
def test_rag_and_mem0_differ_by_the_published_sign_test_and_by_an_interval_of_ours(alps):
    for name in ("rag", "mem0"):
        score_published(alps, name, out=name)
    printed = " ".join(alps("compare", "rag", "mem0", "metrics=all").stdout.split())
    assert "89 records score 1 only in A, 59 only in B; exact sign test of single" in printed
    assert "(uncorrected): p .017" in printed
    found = json.loads(alps("compare", "rag", "mem0", "format=json").stdout)
    contrast = found["tracks"]["personamem"]["metrics"]["accuracy"]["differences"][0]
    assert contrast["mcnemar"]["p"] == pytest.approx(0.017, abs=0.0005)
    assert contrast["difference"]["value"] == pytest.approx(30 / 589)
    assert contrast["difference"]["method"] == RESAMPLED
    assert 0 < contrast["difference"]["low"] < 30 / 589 < contrast["difference"]["high"]


def test_other_tasks_have_no_such_keys(alps, tmp_path):
    done = alps("run", "task=extraction", "model=rules", "limit=8", "out=run")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "run" / "summary.json").read_text()
    for key in ('"method"', '"differences"', '"distinct"', '"breakdowns"'):
        assert key not in text


def broken_down(content):
    """Return the groups by distance of (session, type, distance, right) rows, by their names."""
    metrics = (Metric("accuracy", "accuracy", inference=Inference(resampled=True)),)
    board = RecordScores(metrics)
    for place, (session, kind, distance, right) in enumerate(content):
        groups = {"type": kind, "distance": distance}
        board.add(place, session, Scored({"accuracy": right}), groups=groups)
    by_distance = Breakdown("distance", "By distance", "accuracy", standardised="type")
    shown = Shown(breakdowns=(by_distance,))
    task = replace(load_task("personamem"), shown=shown, metrics=metrics)
    return {group.group: group for group in break_down(board, task)["distance"].groups}


def test_standardised_figures_are_those_computed_by_hand():
    # easy: 3 of 4 near, 1 of 2 far; hard: 1 of 2 near, 0 of 4 far; both types weigh 6 of 12.
    content = [("p", "easy", "near", right) for right in (1, 1, 1, 0)]
    content += [("q", "easy", "far", right) for right in (1, 0)]
    content += [("r", "hard", "near", right) for right in (1, 0)]
    content += [("s", "hard", "far", right) for right in (0, 0, 0, 0)]
    groups = broken_down(content)
    assert groups["near"].figure.value == pytest.approx(4 / 6)
    assert groups["far"].figure.value == pytest.approx(1 / 6)
    assert groups["near"].standardised.value == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert groups["far"].standardised.value == pytest.approx((1 / 2 + 0) / 2)


def test_a_mix_alone_makes_no_standardised_curve():
    content = []
    for session in map(str, range(8)):
        content += [(session, "easy", "near", 1.0)] * 9 + [(session, "hard", "near", 0.0)]
        content += [(session, "easy", "far", 1.0)] + [(session, "hard", "far", 0.0)] * 9
    groups = broken_down(content)
    assert groups["near"].figure.value == pytest.approx(0.9)
    assert groups["far"].figure.value == pytest.approx(0.1)
    assert groups["near"].standardised.value == groups["far"].standardised.value
    assert groups["far"].standardised.value == pytest.approx(0.5)


def test_a_group_that_lacks_a_stratum_says_so():
    content = [("p", "easy", "near", 1.0), ("p", "hard", "far", 0.0), ("q", "easy", "far", 1.0)]
    groups = broken_down(content)
    assert groups["near"].lacking == ["hard"]
    assert groups["near"].standardised.value == 1.0
    assert groups["far"].lacking == []


@pytest.mark.release
@published
def test_a_published_run_is_broken_down_with_both_names_of_each_type_and_drawn(alps, tmp_path):
    printed = score_published(alps, "none").stdout
    # Without history it seems to forget what it never saw.
    sessions = summary(tmp_path / "run")["breakdowns"]["sessions"]
    curve = {row["group"]: row for row in sessions["groups"]}
    assert [round(curve[at]["figure"]["value"], 2) for at in ("1", "6")] == [0.83, 0.32]
    assert "confounded with question type" in sessions["warning"]
    assert round(curve["6"]["standardised"]["value"], 3) == 0.537
    assert len(curve["1"]["lacking"]) == 5
    assert [row["figure"]["n"] for row in sessions["groups"]] == [41, 93, 135, 155, 109, 50, 6]
    assert "By topic" not in printed
    assert "alps show RUN (all metrics)" in printed
    shown = alps("show", "run")
    assert shown.returncode == 0, shown.stderr
    assert max(map(len, shown.stdout.splitlines())) <= 80
    lines = shown.stdout.splitlines()
    place = next(n for n, line in enumerate(lines) if " recalling_facts_mentioned_by" in line)
    assert lines[place].split()[1:] == [".176", "[.035,", ".491]", "17"]
    assert lines[place + 1].strip() == "recall user-shared facts"
    for title in ("By topic", "By distance in sessions", "By distance in tokens", "Wrong answers"):
        assert title in shown.stdout
    assert alps("report", "run", "out=page.html").returncode == 0
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    drawn = [chart for chart in page.all("svg") if "bins" in (chart.get("class") or "")]
    assert len(drawn) == 3
    assert "1: .829 [.606, .944], standardised .819" in drawn[0]["aria-label"]
    assert "These rows lack some types, so their weights differ" in page.text


def test_generated_data_say_what_is_wrong_with_each_wrong_answer(alps, tmp_path):
    assert alps("data", "personas", "out=made", "n=6").returncode == 0
    run(alps, "data=made", "model=floor/random")
    wrong = [row for row in rows(tmp_path / "run", "scores") if row["choice"] != row["gold"]]
    kinds = {}
    for row in wrong:
        kinds.setdefault(row["type"], set()).add(row["error"])
    preference = {"superseded", "disliked", "unsaid"}
    assert kinds == {
        "recall_user_shared_facts": preference,
        "provide_preference_aligned_recommendations": preference,
        "recalling_the_reasons_behind_previous_updates": {"superseded", "unsaid"},
        "generalizing_to_new_scenarios": {"superseded", "unsaid"},
        "track_full_preference_evolution": {"order"},
        "recalling_facts_mentioned_by_the_user": {"other_topic"},
        "suggest_new_ideas": {"known"},
    }
    table = summary(tmp_path / "run")["breakdowns"]["error"]
    shares = {row["group"]: row["figure"] for row in table["groups"]}
    assert sum(share["n"] for share in shares.values()) == len(wrong)
    for kind, share in shares.items():
        count = sum(row["error"] == kind for row in wrong)
        assert (share["n"], share["value"]) == (count, pytest.approx(count / len(wrong)))


def test_an_option_that_is_superseded_is_what_the_timeline_left_behind(tmp_path):
    write_set(tmp_path, personas=2, size="32k")
    kinds = read_kinds(tmp_path / "options_32k.jsonl")
    timelines = {}
    for persona in rows(tmp_path, "timelines_32k"):
        for interest in persona["interests"]:
            timelines[str(persona["id"]), interest["topic"]] = interest["likes"]
    questions = list(read_questions(tmp_path / "questions_32k.csv"))
    assert len(kinds) == len(questions) == 70
    for question in questions:
        own = kinds[question.id]
        assert [place for place, kind in enumerate(own) if kind == "gold"] == [question.gold]
        if question.type == "recall_user_shared_facts":
            old = timelines[question.persona, question.topic][0]
            assert old in question.options[own.index("superseded")]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[]", "options_32k.jsonl, line 1: not a JSON object"),
        ('{"question_id": 1}', "options_32k.jsonl, line 1, question_id: expected a string"),
        ('{"question_id": "x", "options": "a"}', "line 1, options: expected a list of texts"),
    ],
)
def test_a_broken_file_of_kinds_is_one_line(alps, tmp_path, line, said):
    write_set(tmp_path / "made", personas=1, size="32k")
    (tmp_path / "made" / "options_32k.jsonl").write_text(line + "\n")
    assert said in one_line(alps("run", "task=personamem", "data=made", "model=floor/longest"))


@pytest.mark.parametrize(
    ("invalid", "choice", "kinds", "error"),
    [
        ("refusal", None, (), "refusal"),
        (None, None, (), "not_an_option"),
        (None, "a", (), "unknown"),
        (None, "b", ("gold", "superseded", "order", "known"), "superseded"),
        (None, "b", ("gold", "nonsense", "order", "known"), "unknown"),
    ],
)
def test_invalid_responses_and_unknown_options_are_kinds_of_their_own(
    invalid, choice, kinds, error
):
    assert error_of(invalid, choice, kinds) == error


@pytest.mark.few(1)
@pytest.mark.parametrize(("language", "seed"), [("en", 3), ("en", 11), ("zh", 5)])
def test_a_count_of_mentions_solves_the_types_of_a_search_and_no_other(language, seed, tmp_path):
    write_set(tmp_path, personas=6, size="32k", seed=seed, language=language)
    files = open_personamem(tmp_path, "32k", name="made")
    right = defaultdict(list)
    for question in files.read():
        places = by_mentions(files, question)
        right[question.type].append((question.gold in places) / len(places))
    shares = {kind: sum(marks) / len(marks) for kind, marks in right.items()}
    assert {kind for kind, share in shares.items() if share >= 0.9} == SEARCHED
    assert max(share for kind, share in shares.items() if kind not in SEARCHED) <= 0.5
    assert set(shares) == set(TYPES)


def test_a_run_shows_search_apart_from_understanding(alps, tmp_path):
    run(alps, "model=mentions", "size=32k")
    scores = summary(tmp_path / "run")["scores"]
    assert scores["search"]["value"] >= 0.9
    assert scores["understanding"]["value"] <= 1 / len(LETTERS) + 0.1
    assert scores["search"]["n"] + scores["understanding"]["n"] == scores["accuracy"]["n"]
    assert "retrieval types" in alps("show", "run").stdout
