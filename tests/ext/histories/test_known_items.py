"""Known items of the rubrics of sets: what they are like, and that they keep a judge out."""

import re

import pytest

from alps.ext.histories.judging import rubric_of
from alps.judges.admission import DRAWN, drawn_items, pool
from alps.judges.rubric import broken_rule
from alps.run.opened import open_run
from tests.ext.histories.sets import SETS, Script, judged_by, run
from tests.few import few
from tests.known_items import OF_SETS, known_item, reply
from tests.loopback import Answer, serve
from tests.tracks import track_of


@pytest.mark.parametrize("name", OF_SETS)
def test_a_dozen_of_a_rubric_is_drawn_that_no_rule_and_no_length_decides(name):
    items = pool(rubric_of(name))
    assert [item.good for item in items].count(True) == len(items) / 2 >= 8
    assert not any(broken_rule(item.question) for item in items)
    lengths = [(len(item.question.response), item.good) for item in items]
    for limit, _ in lengths:
        right = sum((length >= limit) == good for length, good in lengths)
        assert len(items) / 4 <= right <= len(items) * 3 / 4
    kinds = {item.kind for item in items}
    draws = [drawn_items(rubric_of(name), f"judge {number}") for number in range(20)]
    for drawn in draws:
        assert len({item.name for item in drawn}) == DRAWN
        assert [item.good for item in drawn].count(True) == DRAWN / 2
        assert {item.kind for item in drawn} == kinds
    assert len({frozenset(item.name for item in drawn) for drawn in draws}) > 10


def shared(text, setting):
    own, there = (set(re.findall(r"\w+", one.lower())) for one in (text, setting))
    return len(own & there) / len(own)


@pytest.mark.parametrize("name", OF_SETS)
def test_no_share_of_words_with_the_setting_tells_good_answers(name):
    items, more = pool(rubric_of(name)), 0
    for good, bad in zip(items[::2], items[1::2], strict=True):
        said = " ".join(turn.text for turn in good.question.dialogue)
        setting = f"{good.question.query} {good.question.memory} {said}"
        more += shared(good.question.response, setting) > shared(bad.question.response, setting)
    assert len(items) / 8 <= more <= len(items) * 3 / 8


def judged_run(folder, name, script):
    memory = "memory=oracle" if name == "beam" else "memory=bm25"
    with serve(script, admitted=False) as server:
        return run(folder, name, memory, *judged_by(server), "baseline_records=1")


@pytest.mark.few(1)
@pytest.mark.parametrize("name", few(SETS, plain=2))
def test_a_judge_is_asked_known_items_of_all_rubrics_before_its_first_verdict(
    tmp_path, monkeypatch, name
):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    judging, order = Script(name), []

    def script(body):
        asked = known_item(body)
        order.append(asked is not None)
        return judging(body) if asked is None else Answer(reply(*asked, good=asked[0].good))

    assert judged_run(tmp_path / "out", name, script).code == 0
    checks = open_run(tmp_path / "out").summary.judge_check
    assert {(one.right, one.n) for one in checks.values()} == {(DRAWN, DRAWN)}
    assert order == sorted(order, reverse=True)
    assert sum(order) == DRAWN * len(checks)
    assert {"answer", "unanswerable"} <= checks.keys()


def test_a_judge_that_obeys_answers_gives_no_scores(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    judging = Script("halumem")

    def script(body):
        asked = known_item(body)
        if asked is None:
            return judging(body)
        return Answer(reply(*asked, good=asked[0].kind in ("good", "order")))

    assert judged_run(tmp_path / "out", "halumem", script).code == 1
    score = track_of(tmp_path / "out", "halumem")["scores"]["right"]
    assert score["value"] is None
    assert "known items of the rubric" in score["unscored"]
    assert judging.judged == []
