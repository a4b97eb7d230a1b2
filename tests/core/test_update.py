import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alps.judges.embedded import EmbeddedJudge, LexicalJudge
from alps.judges.matching import RELATIONS, Judgement, Pair
from alps.schema import Memory, Prediction, UpdatedMemory, UpdateSample
from alps.systems import baselines
from alps.tasks.base import JUST_THE_SCORE, Scored
from alps.tasks.metrics import MicroRatio
from alps.tasks.update import METRICS, TASK
from alps.tasks.update_scores import compare
from tests.builders import memories, memory

OLD = memories("Owns a cat", "Works as a nurse", "Lives in Porto", "Plays chess")
NURSE, TEACHER = OLD[1], memory("Teaches physics", memory_id="m2_updated")
VIOLIN = memory("Studies the violin", memory_id="m_new_1")
GOLD = (OLD[0], TEACHER, OLD[2], OLD[3], VIOLIN)
CHANGED = ("f1_changed", "precision_changed", "recall_changed")


class Names(EmbeddedJudge):
    """A judge that names the relations it was given, by gold and predicted value."""

    name = "names"
    comparable = True
    relations = frozenset(RELATIONS)

    def __init__(self, *pairs: tuple[str, str, str]) -> None:
        self.pairs, self.fingerprint = pairs, {"judge": "names"}

    async def answer(self, question: Any, *, about: str) -> Any:
        rows = {item.value: place for place, item in enumerate(question.gold)}
        columns = {item.value: place for place, item in enumerate(question.predicted)}
        asked = [(g, p, r) for g, p, r in self.pairs if g in rows and p in columns]
        return Judgement("ok", tuple(Pair(rows[g], columns[p], r, "named") for g, p, r in asked))  # type: ignore[arg-type]


def update_sample(gold: Any = GOLD, old: Any = OLD) -> UpdateSample:
    turns = ({"role": "user", "text": "hello"},)
    return UpdateSample.model_validate(
        {"benchmark_id": "b1", "session_id": "s1", "old_dialogue": turns, "new_dialogue": turns}
        | {"memory": tuple(old), "gold": gold}
    )


def did(
    item: Memory, action: str | None = None, replaces: str | None = None, **fields: Any
) -> UpdatedMemory:
    return UpdatedMemory.model_validate(
        {**item.model_dump(), **fields, "action": action, "replaces": replaces}
    )


def answer(*items: Memory) -> Prediction:
    listed = [item if isinstance(item, UpdatedMemory) else did(item) for item in items]
    return Prediction(
        benchmark_id="b1", track="task2", outcome="ok", prediction=TASK.to_prediction(listed)
    )


def score(sample: UpdateSample, prediction: Prediction, judge: Any = None) -> Scored:
    judge = judge or Names()
    heard = prediction.outcome == "ok"
    verdict = asyncio.run(TASK.judge(sample, prediction, judge, JUST_THE_SCORE)) if heard else None
    return TASK.score(sample, prediction, json.loads(json.dumps(verdict)), judge)


def cells(scored: Scored) -> dict[tuple[str, ...], float]:
    return {tuple(k.split("_")[1:]): n for k, n in scored.counts.items() if k.startswith("cell_")}


def ratio(scored: Scored, name: str) -> float | None:
    metric = next(m for m in METRICS if m.name == name)
    assert isinstance(metric.value, MicroRatio)
    below = summed(metric.value.denominator, scored)
    return summed(metric.value.numerator, scored) / below if below else None


def summed(weights, scored):
    return sum(weight * scored.counts.get(key, 0) for key, weight in weights.items())


def changes(
    old: Any, gold: Any
) -> tuple[list[tuple[str, int | None]], tuple[int, ...], frozenset[int]]:
    lists = compare(old, gold)
    return [(change.action, change.old) for change in lists.changes], lists.gone, lists.replaced


def m(value: str, name: str) -> Memory:
    return memory(value, memory_id=name)


@pytest.mark.parametrize(
    ("old", "gold", "expected"),
    [
        pytest.param(
            OLD,
            GOLD,
            (
                [("retain", 0), ("modify", 1), ("retain", 2), ("retain", 3), ("add", None)],
                (1,),
                {1},
            ),
            id="as the release has it",
        ),
        pytest.param(OLD[:2], OLD[:1], ([("retain", 0)], (1,), set()), id="withdrawn"),
        pytest.param(OLD[:2], (), ([], (0, 1), set()), id="everything withdrawn"),
        pytest.param((), (VIOLIN,), ([("add", None)], (), set()), id="the first memory"),
        pytest.param(
            OLD[:1],
            (m("Owns a dog", "m1"),),
            ([("modify", 0)], (0,), {0}),
            id="rewritten under its id",
        ),
        pytest.param(
            OLD[:1],
            (m(" owns A cat", "x9"),),
            ([("retain", 0)], (), set()),
            id="the value under another id",
        ),
        pytest.param(
            (m("A", "m1"), m("B", "m2")),
            (m("B", "m1"), m("A", "m2")),
            ([("retain", 1), ("retain", 0)], (), set()),
            id="ids exchanged",
        ),
        pytest.param(
            (m("A", "m1"), m("A", "m2")),
            (m("A", "m2"), m("B", "m1_updated")),
            ([("retain", 1), ("modify", 0)], (0,), {0}),
            id="one of two duplicates rewritten",
        ),
        pytest.param(
            (m("A", "m1"),),
            (m("A", "m1"), m("A", "m2")),
            ([("retain", 0), ("add", None)], (), set()),
            id="a copy",
        ),
        pytest.param(
            (m("A", "m1"),),
            (m("A", "m1"), m("B", "m1_updated")),
            ([("retain", 0), ("add", None)], (), set()),
            id="an update of what is still there",
        ),
        pytest.param(
            (m("A", "m1_updated"),),
            (m("B", "m1_updated"),),
            ([("modify", 0)], (0,), {0}),
            id="updated before",
        ),
    ],
)
def test_gold_actions_follow_from_the_two_lists(old, gold, expected):
    assert changes(old, gold) == expected


@pytest.mark.parametrize(
    ("said", "action"),
    [
        *[(word, "retain") for word in ("retain", "Retention", " KEEP ", "unchanged", "none")],
        *[(word, "add") for word in ("add", "addition", "new")],
        *[(word, "modify") for word in ("modify", "modification", "UPDATE", "replace")],
        *[(word, "delete") for word in ("delete", "removed", "forget")],
        (None, None),
    ],
)
def test_actions_are_understood_by_their_synonyms(said, action):
    found = TASK.answer.read({"memory_items": [{"value": "Owns a cat", "action": said}]})
    assert [item.action for item in found.value] == [action]
    assert not [note for note in found.notes if "action" in note]


@pytest.mark.parametrize("said", ["merge", "", 7, ["add"]])
def test_an_unknown_action_is_left_out_with_a_note(said):
    found = TASK.answer.read([{"value": "A", "action": said}, {"value": "B", "action": said}])
    assert [item.action for item in found.value] == [None, None]
    assert [note for note in found.notes if note.startswith("2 × unknown action")]


@pytest.mark.parametrize("key", ["replaces", "replaces_id", "replaced_id", "old_id"])
def test_the_replaced_memory_is_read_under_its_usual_names(key):
    found = TASK.answer.read([{"value": "A", "memory_id": "m9", key: "m2"}])
    assert (found.value[0].replaces, [n for n in found.notes if key in n]) == ("m2", [])


def test_a_replaced_memory_that_is_no_id_is_left_out_with_a_note():
    found = TASK.answer.read([{"value": "A", "replaces": ["m2"]}])
    assert found.value[0].replaces is None
    assert "`replaces` is list, not an id: left out" in found.notes


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [
        pytest.param([("A", "m1"), ("B", "m2")], [("C", "m1")], "BC", id="the later word counts"),
        pytest.param([("A", "m1")], [("B", "m_new_1")], "AB", id="two parts"),
        pytest.param([("A", None), ("B", None)], [("C", None)], "ABC", id="null ids"),
        pytest.param([("A", ""), ("B", "")], [("C", "")], "ABC", id="empty ids"),
        pytest.param([("A", 1)], [("B", "1")], "B", id="an id that is a number"),
        pytest.param(
            [("A", "m1"), ("B", "m1")], [("C", "m2")], "ABC", id="one id twice in one list"
        ),
    ],
)
@pytest.mark.parametrize("key", ["memory_id", "id"])
def test_two_lists_are_joined(first, second, values, key):
    given = ([{"value": value, key: name} for value, name in part] for part in (first, second))
    found = TASK.answer.read(
        dict(zip(("existing_memories", "updated_memories"), given, strict=True))
    )
    assert "".join(each.value for each in found.value) == values
    assert "two lists, merged" in found.notes


def test_what_was_deleted_stands_last_and_is_not_in_the_list():
    items = [did(OLD[0], "delete"), did(OLD[1]), did(OLD[2], "delete"), did(VIOLIN, "add")]
    written = TASK.to_prediction(items)["memory_items"]
    assert [each["value"] for each in written] == [
        each.value for each in (OLD[1], VIOLIN, OLD[0], OLD[2])
    ]
    assert score(update_sample(), answer(*items)).counts["predicted"] == 2


def derived(*items: Memory, judge: Any = None) -> list[str]:
    return list(score(update_sample(), answer(*items), judge).details["actions"])


REWORDED = m("Is the owner of a cat", "m9")


@pytest.mark.parametrize(
    ("items", "named", "actions"),
    [
        pytest.param(
            GOLD, (), ["retain", "modify", "retain", "retain", "add"], id="as the release has it"
        ),
        pytest.param((m("Teaches physics", "m2"),), (), ["modify"], id="the old id kept"),
        pytest.param(
            (m("Teaches physics", "m9"),),
            (),
            ["add"],
            id="another id, and no judge that relates it",
        ),
        pytest.param(
            (m("Is a school teacher", "m9"),),
            [("Works as a nurse", "Is a school teacher", "conflicting")],
            ["modify"],
            id="another id, but it contradicts the old one",
        ),
        pytest.param(
            (NURSE, m("Is a school teacher", "m9")),
            [("Works as a nurse", "Is a school teacher", "conflicting")],
            ["retain", "add"],
            id="it contradicts what is kept beside it",
        ),
        pytest.param(
            (REWORDED,), [("Owns a cat", REWORDED.value, "same")], ["retain"], id="reworded"
        ),
        pytest.param(
            (m("Has a pet", "m9"),),
            [("Owns a cat", "Has a pet", "broader")],
            ["modify"],
            id="generalised",
        ),
        pytest.param(
            (REWORDED, m("Has a pet", "m8")),
            [("Owns a cat", REWORDED.value, "same"), ("Owns a cat", "Has a pet", "broader")],
            ["retain", "add"],
            id="generalised beside what is kept",
        ),
        pytest.param(
            (m("Has fur", "m9"),),
            [("Owns a cat", "Has fur", "related")],
            ["add"],
            id="only related",
        ),
        pytest.param((m("Owns a cat", "m3"),), (), ["retain"], id="another memory's id"),
        pytest.param(
            (did(m("Teaches", "m_new_1"), replaces="m2"),),
            (),
            ["modify"],
            id="it names what it replaces",
        ),
        pytest.param(
            (did(OLD[0], "modify"),), (), ["modify"], id="an action that was named is not doubted"
        ),
    ],
)
def test_actions_that_were_not_named_follow_from_meaning_first(items, named, actions):
    assert derived(*items, judge=Names(*named)) == actions


def test_a_worked_example_by_hand():
    # Kept: cat, chess; rewritten: Porto; missed: violin; kept wrongly: nurse; invented: two. The
    # teacher is no right change, as the nurse is still there.
    told = (OLD[0], OLD[3], NURSE, TEACHER, m("Lives in Lisbon", "m3"), m("Sings", "m_new_1"))
    scored = score(
        update_sample(), answer(*told), Names((OLD[2].value, "Lives in Lisbon", "conflicting"))
    )
    assert scored.scores == pytest.approx(
        {"f1": 6 / 11, "precision": 1 / 2, "recall": 3 / 5, "action_accuracy": 2 / 5}
        | {"f1_changed": 0, "precision_changed": 0, "recall_changed": 0}
    )
    assert cells(scored) == {
        ("retain", "retain"): 2,
        ("retain", "none"): 1,
        ("modify", "add"): 1,  # the old memory still stands beside it
        ("add", "none"): 1,
        ("none", "retain"): 1,
        ("none", "modify"): 1,
        ("none", "add"): 1,
    }
    figures = {name: ratio(scored, name) for name in [m.name for m in METRICS if not m.is_mean]}
    assert figures == pytest.approx(
        {"precision_retain": 2 / 3, "recall_retain": 2 / 3, "precision_add": 0, "recall_add": 0}
        | {
            "precision_modify": 0,
            "recall_modify": 0,
            "contradiction_kept": 1,
            "over_update": 1 / 3,
            "lost": 0,
        }
    )


def test_what_was_matched_missed_extra_and_kept_is_told():
    details = score(update_sample(), answer(OLD[0], NURSE, m("Sings", "m_new_1"))).details
    assert details["matched"] == [["g1", "p1", "same"]]
    assert [each["id"] for each in details["missed"]] == ["g2", "g3", "g4", "g5"]
    assert details["extra"] == [{"id": "p3", "value": "Sings"}]
    assert details["kept"] == [{"id": "p2", "value": "Works as a nurse"}]


def failed() -> Prediction:
    return Prediction(benchmark_id="b1", track="task2", outcome="unparsable", raw="?")


@pytest.mark.parametrize("gold", [GOLD, OLD, OLD[:2], ()])
def test_a_failed_prediction_gets_the_worst(gold):
    scored = score(update_sample(gold), failed())
    assert set(scored.scores.values()) == {0.0}
    assert not [
        name for name, n in scored.counts.items() if n and name.startswith(("right_", "predicted"))
    ]
    assert all(key[-1] == "failed" for key in cells(scored))
    for name, worst in (
        ("contradiction_kept", 1),
        ("lost", 1),
        ("over_update", 0),
        ("recall_modify", 0),
    ):
        assert ratio(scored, name) in (worst, None)


def test_false_actions_gain_nothing_among_the_changes():
    for action in ("retain", "add", "modify", None):
        for items in (OLD, (OLD[0], m("Sings", "m2"))):
            said = score(
                update_sample(), answer(*(did(each, action, replaces="m2") for each in items))
            )
            assert said.scores["f1_changed"] == 0
    declared = score(update_sample(), answer(*(did(each, "modify") for each in OLD)))
    assert (ratio(declared, "recall_modify"), ratio(declared, "precision_modify")) == (0, 0)
    assert declared.scores["action_accuracy"] == 0


def test_only_what_changed_is_not_the_whole_list():
    scored = score(update_sample(), answer(TEACHER, VIOLIN))
    assert (scored.scores["recall_changed"], scored.scores["precision_changed"]) == (1, 2 / 5)
    assert ratio(scored, "lost") == 1


def test_deleting_the_old_and_adding_the_new_changes_the_list_rightly_and_is_another_action():
    said = (
        OLD[0],
        OLD[2],
        OLD[3],
        did(NURSE, "delete"),
        did(TEACHER, "add", memory_id="m_new_2"),
        VIOLIN,
    )
    scored = score(update_sample(), answer(*said))
    assert [scored.scores[name] for name in (*CHANGED, "f1")] == [1, 1, 1, 1]
    assert (ratio(scored, "contradiction_kept"), scored.scores["action_accuracy"]) == (0, 4 / 5)
    assert cells(scored)["modify", "add"] == 1


@pytest.mark.parametrize("ways", ["absent", "by its id", "by its value", "by naming it"])
def test_a_withdrawn_memory_is_deleted_by_not_being_there_any_more(ways):
    gone = {
        "absent": (),
        "by its id": (did(NURSE, "delete"),),
        "by its value": (did(NURSE, "delete", memory_id="d1"),),
        "by naming it": (did(m("forget the job", "d1"), "delete", "m2"),),
    }
    scored = score(update_sample((OLD[0],), OLD[:2]), answer(OLD[0], *gone[ways]))
    assert set(scored.scores.values()) == {1.0}
    assert cells(scored) == {("retain", "retain"): 1, ("delete", "delete"): 1}


def test_keeping_the_withdrawn_memory_when_nothing_else_changed_is_no_success():
    scored = score(update_sample((OLD[0],), OLD[:2]), answer(*OLD[:2]))
    assert (scored.scores["f1_changed"], scored.scores["action_accuracy"]) == (0, 1 / 2)
    assert (ratio(scored, "contradiction_kept"), cells(scored)["delete", "retain"]) == (1, 1)


@pytest.mark.parametrize("known", ["m1", "d1"])
def test_deleting_what_should_stay_is_told_apart_from_losing_it(known):
    scored = score(
        update_sample(OLD, OLD), answer(did(OLD[0], "delete", memory_id=known), *OLD[1:3])
    )
    assert cells(scored) == {
        ("retain", "delete"): 1,
        ("retain", "retain"): 2,
        ("retain", "none"): 1,
    }
    assert (scored.scores["f1_changed"], ratio(scored, "lost")) == (0, 1 / 2)


def test_deleting_everything_is_right_only_where_everything_is_withdrawn():
    deleted = answer(*(did(each, "delete") for each in OLD))
    assert set(score(update_sample(()), deleted).scores.values()) == {1.0}
    assert score(update_sample(OLD), deleted).scores["f1_changed"] == 0
    assert score(update_sample(), deleted).scores["f1"] == 0


def test_a_modification_that_names_the_old_memory_is_rewriting_and_not_loss():
    for kept in (
        did(m("Keeps reptiles", "m_new_7"), "modify", "m1"),
        m("Keeps reptiles", "m1_updated"),
    ):
        scored = score(update_sample(), answer(kept, *GOLD[1:]))
        assert (ratio(scored, "over_update"), ratio(scored, "lost")) == (1 / 3, 0)


FACTS = [f"fact number{letter}" for letter in "abcdefgh"]


@st.composite
def updates(draw: st.DrawFn) -> UpdateSample:
    old = [
        m(value, f"m{n}")
        for n, value in enumerate(draw(st.lists(st.sampled_from(FACTS), unique=True)), start=1)
    ]
    gold = []
    for each in old:
        fate = draw(st.sampled_from(("retain", "retain", "modify", "withdraw")))
        if fate != "withdraw":
            changed = m(
                f"now otherwise: {each.value[-1]}{each.memory_id}", f"{each.memory_id}_updated"
            )
            gold.append(each if fate == "retain" else changed)
    gold += [m(f"entirely new {n}", f"m_new_{n}") for n in range(draw(st.integers(0, 3)))]
    return update_sample(tuple(gold), tuple(old))


@st.composite
def answered(draw: st.DrawFn) -> tuple[UpdateSample, Prediction]:
    sample = draw(updates())
    assert sample.gold is not None
    known = [*sample.memory, *sample.gold, m("invented", "m_new_9"), m("invented", "m1")]
    actions = st.sampled_from((None, "retain", "add", "modify", "delete"))
    chosen = draw(
        st.lists(
            st.tuples(st.sampled_from(known), actions, st.sampled_from((None, "m1", "m2"))),
            max_size=9,
        )
    )
    return sample, answer(*(did(each, action, replaces) for each, action, replaces in chosen))


quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(updates())
def test_the_gold_itself_scores_one_everywhere(sample):
    oracle = Prediction(
        benchmark_id="b1", track="task2", outcome="ok", prediction=baselines.oracle_update(sample)
    )
    scored = score(sample, oracle, LexicalJudge() if sample.gold == sample.memory else None)
    assert set(scored.scores.values()) == {1.0}
    for metric in METRICS:
        if not metric.is_mean:
            assert ratio(scored, metric.name) in (None, 0.0 if metric.lower_is_better else 1.0)


@quick
@given(updates())
def test_doing_nothing_changes_nothing_rightly_and_keeps_every_contradiction(sample):
    lists = compare(sample.memory, sample.gold or ())
    no_op = Prediction(
        benchmark_id="b1", track="task2", outcome="ok", prediction=baselines.no_op(sample)
    )
    scored = score(sample, no_op)
    untouched = not lists.gone and len(lists.retained) == len(lists.changes)
    assert scored.scores["f1_changed"] == float(untouched)
    assert ratio(scored, "contradiction_kept") == (1.0 if lists.gone else None)
    assert scored.counts["lost"] == scored.counts["rewritten"] == 0


@quick
@given(updates())
def test_an_empty_list_loses_everything(sample):
    scored = score(sample, answer())
    assert scored.counts["lost"] == scored.counts["retained"]
    assert scored.scores["f1"] == float(not sample.gold)
    assert ratio(scored, "contradiction_kept") in (0.0, None)


@pytest.mark.release
@quick
@given(answered())
def test_figures_add_up_whatever_was_answered(case):
    sample, prediction = case
    lists = compare(sample.memory, sample.gold or ())
    scored = score(sample, prediction)
    assert all(0 <= value <= 1 for value in scored.scores.values())
    assert all(0 <= (ratio(scored, each.name) or 0) <= 1 for each in METRICS if not each.is_mean)
    rows: Counter[str] = Counter()
    for (gold, _), n in cells(scored).items():
        rows[gold] += int(n)
    expected = Counter(change.action for change in lists.changes)
    expected["delete"] = len(lists.gone) - len(lists.replaced)
    assert {a: n for a, n in rows.items() if a != "none"} == {
        a: n for a, n in expected.items() if n
    }
    kept = sum(
        row < len(lists.changes) and lists.old_of(row) is not None for row in matched_rows(scored)
    )
    assert kept + scored.counts["rewritten"] + scored.counts["lost"] == scored.counts["retained"]
    changed = score(sample, answer(*bare(prediction))).scores
    assert [changed.get(name) for name in CHANGED] == [scored.scores.get(name) for name in CHANGED]


def matched_rows(scored: Scored) -> list[int]:
    return [int(gold[1:]) - 1 for gold, _, _ in scored.details["matched"]]


def bare(prediction: Prediction) -> list[UpdatedMemory]:
    """Return the memories of a list without what was said of them."""
    items = [
        UpdatedMemory.model_validate(each) for each in (prediction.prediction or {})["memory_items"]
    ]
    return [did(each, None, None) for each in items if each.action != "delete"]
