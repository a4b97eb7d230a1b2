"""The scores of ALPS's authors, and that their recorded ones are recomputed."""

import asyncio
from dataclasses import astuple
from statistics import fmean

import pytest

from alps.ext.published.authors_v1 import (
    AuthorsPair,
    AuthorsScore,
    algorithm_score,
    final_score,
    judge_score,
    label_similarity,
    match,
    pair_score,
    value_similarity,
)
from alps.judges.base import MatchQuestion
from alps.judges.embedded import LexicalJudge
from alps.judges.matching import gold_items, predicted_items
from alps.schema import read_memories
from alps.systems.embedded import content_free, content_free_fluent
from tests.builders import extraction_sample, memory
from tests.endtoend import rows

ANYONE = extraction_sample(None, "Hello")


def item(value="Plays the cello", **fields):
    given = {"type": "direct", "label": "Preferences/Music", "value": value, "confidence": 0.8}
    return given | fields


DRESSED = [
    item("x", type="indirect", label="UNMAPPED"),
    item("x", type="indirect", label="Thoughts/Curiosity"),
    item("x", type="direct", label="Preferences/Food"),
]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("Preferences/Food", "Preferences/Food", 1),
        ("Preferences/Food", "preferences/FOOD ", 1),
        ("Preferences/Food", "Preferences/Music", 0.5),
        ("Thoughts/Opinions/Positive", "Thoughts/Opinions", 0.8),
        ("Preferences/Food", "Habits/Food", 0),
        ("Preferences/Food", "", 0),
        ("", "", 0),
        ("!", "?", 0),
        ("Preferences//Food/", "Preferences/Food", 1),
        (None, "Preferences/Food", 0),
    ],
)
def test_labels_are_compared_by_their_common_prefix(first, second, expected):
    assert label_similarity(first, second) == pytest.approx(expected)
    assert label_similarity(second, first) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ("Likes tea", "likes  TEA", 1),
        (" likes tea ", "likes tea", 1),
        ("likes tea", "likes coffee", 0.6 / 3 + 0.4 * 14 / 21),
        ("plays cello", "skis", 0.4 * 2 / 15),
        ("喜欢喝茶", "喜欢茶", 0.4 * 6 / 7),
        ("u.s.-based", "u.s.-based", 1),
        ("likes tea", "", 0),
        ("likes tea", None, 0),
        ("", "", 0),
        ("!!!", "???", 0),
        ("likes tea", "!!!", 0),
        ("tide", "diet", 0.4 * 2 / 8),
        ("diet", "tide", 0.4 * 4 / 8),
        # A mark dropped from the end leaves a space that counts.
        ("likes tea!", "likes tea", 0.6 + 0.4 * 18 / 19),
        # An object is read as it prints.
        ({"name": "Ada"}, "name Ada", 0.6 + 0.4 * 16 / 18),
    ],
)
def test_values_are_compared_by_words_and_by_characters(gold, predicted, expected):
    assert value_similarity(gold, predicted) == pytest.approx(expected)


def test_a_pair_weighs_label_value_type_and_confidence():
    gold = item("likes tea", label="Preferences/Food", confidence=0.95)
    other = item("likes coffee", type="indirect", confidence=0.5)
    assert pair_score(gold, gold) == 1
    assert pair_score(gold, other) == 0.4554
    assert pair_score(gold, other | {"type": "direct"}) == 0.5554
    assert pair_score(gold, other | {"confidence": 0.75}) == 0.4867
    assert pair_score(gold, other | {"confidence": 0.8}) == 0.4867


@pytest.mark.parametrize(
    ("confidence", "expected"),
    [
        (1.0, 1.0),
        (0.8, 1.0),
        (0.6, 0.975),
        (0.4, 0.95),
        (0.0, 0.9),
        (None, 1.0),
        ("0.6", 0.975),
        ("sure", 1.0),
    ],
)
def test_confidence_is_free_within_a_fifth_and_missing_means_certain(confidence, expected):
    assert pair_score(item(confidence=1.0), item(confidence=confidence)) == pytest.approx(expected)


def test_a_field_that_is_not_there_counts_as_null():
    assert pair_score(item(confidence=1.0), {"value": "Plays the cello"}) == 0.5
    assert pair_score({"value": "Skis"}, {"value": "Skis"}) == 0.6


def test_a_memory_scores_as_the_mapping_that_it_holds():
    one = memory("Drinks tea", label="Preferences/Food")
    other = memory("Drinks green tea", type=None, confidence=None)
    mappings = one.model_dump(), other.model_dump()
    assert pair_score(one, other) == pair_score(*mappings) < 1
    assert algorithm_score([one], [other]) == algorithm_score(*([each] for each in mappings))


def test_pairs_come_from_the_best_score_down_and_greedy_ones_are_kept():
    gold = [item(), item("Likes tea", label="Preferences/Food")]
    predicted = [item("Likes green tea", label="Preferences/Food"), item()]
    second = AuthorsPair(1, 0, pair_score(gold[1], predicted[0]))
    assert match(gold, predicted) == [AuthorsPair(0, 1, 1.0), second]
    # Another set would pair more.
    gold = [item(), item("Skis")]
    predicted = [item(), item(label="Habits/Sports", type="indirect")]
    assert min(pair_score(gold[0], predicted[1]), pair_score(gold[1], predicted[0])) >= 0.3
    assert match(gold, predicted) == [AuthorsPair(0, 0, 1.0)]


def test_of_equal_scores_the_earlier_gold_and_then_the_earlier_prediction_goes_first():
    same = item()
    assert [pair[:2] for pair in map(astuple, match([same] * 3, [same] * 2))] == [(0, 0), (1, 1)]
    assert [pair[:2] for pair in map(astuple, match([same], [same] * 3))] == [(0, 0)]


def test_three_tenths_are_enough_for_a_pair_and_less_is_not():
    gold = item("Skis", confidence=0.0)
    bare = {"type": "direct", "label": "Preferences/Food", "value": "!"}
    assert match([gold], [bare]) == [AuthorsPair(0, 0, 0.3)]
    assert match([gold], [bare | {"type": "user"}]) == []
    assert match([gold], [bare | {"label": "Plans/Schedule"}]) == []


def test_a_record_is_scored_from_its_pairs():
    oslo = item("Grew up in Oslo", label="Personal_Background/Location", type="indirect")
    gold = [item(), oslo]
    assert algorithm_score(gold, gold) == AuthorsScore(1, 1, 1, 1, 100)
    half = algorithm_score(gold, gold[:1])
    assert (half.precision, half.recall, half.f1, half.mean_pair) == (1, 0.5, 0.6667, 1)
    assert half.algo == pytest.approx(86.668)
    assert algorithm_score(gold[:1], gold).algo == pytest.approx(86.668)


@pytest.mark.parametrize(("gold", "predicted"), [([], []), ([item()], []), ([], [item()])])
def test_an_empty_side_scores_nothing_and_so_do_two(gold, predicted):
    assert match(gold, predicted) == []
    assert algorithm_score(gold, predicted) == AuthorsScore(0, 0, 0, 0, 0)


def test_a_judge_takes_off_points_by_error_and_severity():
    errors = (("EQUIVALENT", 0), ("LABEL_WRONG", 1), ("OTHER", 3))
    missing, extra = ((True, 2), (False, 3)), ((True, 0), (False, 3))
    reviews = {
        "pair_reviews": [{"error_type": kind, "severity": how} for kind, how in errors],
        "missing_reviews": [{"should_have_extracted": yes, "severity": n} for yes, n in missing],
        "extra_reviews": [{"hallucinated": yes, "severity": n} for yes, n in extra],
    }
    assert judge_score(reviews) == 100 - 6 - 8 - 15 - 7.5
    # It is never below zero.
    assert judge_score({"extra_reviews": [{"hallucinated": True, "severity": 3}] * 5}) == 0


@pytest.mark.parametrize(
    ("error_type", "points"),
    [
        ("EQUIVALENT", 0),
        ("VALUE_DRIFT", 12),
        ("HALLUCINATION", 15),
        ("LABEL_WRONG", 6),
        ("TYPE_WRONG", 6),
        ("OVERGENERAL", 3),
        ("UNDERGENERAL", 3),
        ("OTHER", 4),
        ("A_NEW_ONE", 4),
        (None, 4),
    ],
)
def test_every_error_type_has_its_price(error_type, points):
    review = {"error_type": error_type, "severity": 1}
    assert judge_score({"pair_reviews": [review]}) == 100 - points


def test_a_judge_that_gave_nothing_is_not_a_judge_that_found_nothing():
    nothing_found = {"pair_reviews": [], "missing_reviews": [], "extra_reviews": None}
    assert judge_score(nothing_found) == 100
    assert judge_score(None) is None
    assert judge_score({}) is None


def test_the_final_score_is_the_mean_or_the_algorithms_alone():
    assert final_score(80.0, 50.0) == 65.0
    assert final_score(80.0, 0.0) == 40.0
    assert final_score(80.0, None) == 80.0


def gold_of(sample, track):
    key = "memory_items" if track == "task1" else "answer"
    found = rows(sample / "benchmark_data" / "dev" / track / "reference_output.jsonl")
    return {row["benchmark_id"]: row["gold"][key] for row in found}


def agree(one, other):
    return one == other if one is None or other is None else abs(one - other) <= 1e-4


def disagreements(sample, track, read):
    gold, wrong = gold_of(sample, track), []
    records = rows(sample / "recorded" / track / "records.jsonl")
    for row in records:
        judged = judge_score(row["judge_output"])
        predicted = read(row["model_output"]["memory_items"])
        final = final_score(algorithm_score(gold[row["benchmark_id"]], predicted).algo, judged)
        if not agree(judged, row["judge_score"]) or not agree(final, row["final_score"]):
            wrong.append(row["benchmark_id"])
    return len(records), wrong


@pytest.mark.few(2)
@pytest.mark.real
@pytest.mark.parametrize(("track", "count"), [("task1", 84), ("task2", 86)])
@pytest.mark.parametrize(
    "read", [list, lambda found: read_memories(found).memories], ids=["raw", "read"]
)
def test_every_recorded_score_is_recomputed(sample, track, count, read):
    assert disagreements(sample, track, read) == (count, [])


def macro_f1(gold, answer):
    return fmean(algorithm_score(items_, answer).f1 for items_ in gold.values())


def lexical_pairs(gold, answer):
    judge, predicted = LexicalJudge(), predicted_items(read_memories(answer).memories)
    pairs = 0
    for name, of_one in gold.items():
        question = MatchQuestion(gold_items(read_memories(of_one).memories), predicted)
        pairs += len(asyncio.run(judge.answer(question, about=name)).pairs)
    return pairs


@pytest.mark.real
@pytest.mark.parametrize(
    ("answer", "least"),
    [
        (content_free(ANYONE)["memory_items"], 0.36),
        (content_free_fluent(ANYONE)["memory_items"], 0.40),
        (DRESSED, 0.47),
    ],
    ids=["content-free", "content-free-fluent", "content-free-dressed"],
)
def test_what_says_nothing_wins_by_the_authors_scores_and_matches_nothing_by_the_lexical_judge(
    sample, answer, least
):
    gold = gold_of(sample, "task1")
    assert len(gold) == 84
    assert least < macro_f1(gold, answer) < least + 0.01
    assert lexical_pairs(gold, answer) == 0


@pytest.mark.real
def test_doing_nothing_wins_task_2_by_the_authors_scores(sample):
    gold = gold_of(sample, "task2")
    old, extracted = {}, {}
    for row in rows(sample / "benchmark_data/dev/task2/model_input.jsonl"):
        old[row["benchmark_id"]] = row["input"]["memory"]
    for row in rows(sample / "recorded" / "task2" / "records.jsonl"):
        extracted[row["benchmark_id"]] = row["model_output"]["memory_items"]
    for answers, expected in ((old, 0.8434), (extracted, 0.6792)):
        mean = fmean(algorithm_score(gold[name], answers[name]).f1 for name in answers)
        assert mean == pytest.approx(expected, abs=5e-5)
    assert old.keys() == gold.keys()
