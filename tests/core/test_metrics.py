"""Metrics of tasks: the rows that summaries keep of them, and the parts that `Task` is made of."""

import json
from dataclasses import fields, replace

import pytest

from alps.tasks import (
    Breakdown,
    Inference,
    LargestExcess,
    MacroRatio,
    Metric,
    MicroRatio,
    Needs,
    OnBoards,
    Shown,
    Task,
    all_tracks,
    load_task,
)
from alps.tasks.base import PARTS_OF_TASK
from alps.tasks.metrics import PARTS_OF_METRIC, HarmonicMean, metric_row, read_metric

PLAIN = {"name": "m", "title": "M", "numerator": None, "denominator": None, "headline": False}
PLAIN |= {"relations": [], "support": False, "rates": False, "ranking": False, "optional": False}
PLAIN |= {"lower_is_better": False, "lowest": 0.0, "highest": 1.0, "rubrics": []}
PLAIN |= {"with_floors": False, "judged": True, "beside": [], "own_board": False, "checked": ""}
PLAIN |= {"ratios": [], "resampled": False, "paired_floors": False, "sign_test": False}
PLAIN |= {"people": ""}
"""The row of a metric in the summaries of versions in which it was flat."""
NEEDED = {"support": True, "rates": True, "ranking": True, "checked": "whether"}
PARTS = {
    "nothing": ({}, {}),
    "micro": (
        {"value": MicroRatio({"a": 2}, {"b": 1, "c": -1})},
        {"numerator": {"a": 2}, "denominator": {"b": 1, "c": -1}},
    ),
    "macro": (
        {"value": MacroRatio(((("a", "b"),), (("c", "d"), ("e", "f"))))},
        {"ratios": [[["a", "b"]], [["c", "d"], ["e", "f"]]]},
    ),
    "excess": ({"value": LargestExcess((("a", "n"),))}, {"excess": [["a", "n"]]}),
    "harmonic": ({"value": HarmonicMean((("a", "n"),))}, {"harmonic": [["a", "n"]]}),
    "needs": (
        {"needs": Needs(frozenset({"same", "broader"}), True, True, True, "whether")},
        {"relations": ["broader", "same"], **NEEDED},
    ),
    "inference": (
        {"inference": Inference(resampled=True, baseline_differences=True, sign_test=True)},
        {"resampled": True, "paired_floors": True, "sign_test": True},
    ),
    "on boards": (
        {"on_boards": OnBoards(("x",), True, True, "task1.set_f1")},
        {"beside": ["x"], "own_board": True, "with_floors": True, "people": "task1.set_f1"},
    ),
}


@pytest.mark.parametrize(("parts", "keys"), PARTS.values(), ids=PARTS)
def test_a_metric_is_one_flat_row_in_summaries_and_is_read_back(parts, keys):
    metric = Metric("m", "M", **parts)
    row = json.loads(json.dumps(metric_row(metric)))
    assert row == PLAIN | keys
    # Summaries keep their bytes.
    assert [key for key in row if key not in ("excess", "harmonic")] == list(PLAIN)
    assert read_metric(row) == metric


def test_every_metric_of_the_package_is_read_back():
    metrics = [metric for task in all_tracks().values() for metric in task.metrics]
    for metric in metrics:
        assert read_metric(json.loads(json.dumps(metric_row(metric)))) == metric


@pytest.mark.parametrize("wrong", [{"highest": "much"}, {"numerator": {"a": "x"}}, {"ratios": 3}])
def test_a_row_that_is_no_metric_is_refused(wrong):
    with pytest.raises(ValueError, match="validation error"):
        read_metric(PLAIN | wrong)


def test_worst_and_bounds_follow_the_direction_of_a_metric():
    metric = Metric("m", "M", lowest=1.0, highest=5.0)
    assert (metric.bounds, metric.worst) == ((1.0, 5.0), 1.0)
    assert replace(metric, lower_is_better=True).worst == 5.0


@pytest.mark.parametrize(("kind", "parts"), [(Metric, PARTS_OF_METRIC), (Task, PARTS_OF_TASK)])
def test_what_is_said_of_an_old_keyword_names_a_part_that_there_is(kind, parts):
    known = {part.name for part in fields(kind)}
    for keyword, written in parts.items():
        assert keyword not in known - {"by_memory"}
        assert written.partition("=")[0] in known


@pytest.mark.parametrize(
    ("keyword", "written"),
    [
        ("denominator", "value=MicroRatio(…)"),
        ("rates", "needs=Needs(rating=…)"),
        ("paired_floors", "inference=Inference(baseline_differences=…)"),
        ("beside", "on_boards=OnBoards(companions=…)"),
    ],
)
def test_an_old_keyword_of_a_metric_is_told_as_it_is_written_now(keyword, written):
    assert PARTS_OF_METRIC[keyword] == written


def test_groups_are_those_of_the_sample_and_what_hangs_on_the_answer_is_a_detail():
    breakdowns = tuple(Breakdown(name, name, None) for name in ("topic", "error", "age"))
    task = replace(
        load_task("extraction"),
        shown=Shown(breakdowns=breakdowns),
        groups=lambda sample: {"topic": sample, "unknown": "x"},
    )
    scored = {"topic": "of the row", "error": "superseded", "choice": "a"}
    assert task.groups_of("food", scored) == {"topic": "food", "error": "superseded"}
    assert task.groups_of("food", {}) == {"topic": "food"}
    assert replace(task, shown=Shown()).groups_of("food", scored) == {}
