"""An updated list: what its actions are, and what they score."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alps.judges.base import RELATIONS, Judgement, Pair
from alps.judges.embedded import EmbeddedJudge, LexicalJudge
from alps.schema import Memory, Prediction, UpdatedMemory, UpdateSample
from alps.systems import embedded
from alps.tasks.base import JUST_THE_SCORE, Scored
from alps.tasks.metrics import MicroRatio
from alps.tasks.update import METRICS, TASK
from alps.tasks.update_scores import compare, states_besides
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


def heard(prediction: dict[str, Any]) -> Prediction:
    return Prediction(benchmark_id="b1", track="task2", outcome="ok", prediction=prediction)


def answer(*items: Memory) -> Prediction:
    listed = [item if isinstance(item, UpdatedMemory) else did(item) for item in items]
    return heard(TASK.to_prediction(listed))


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
    above, below = (
        sum(weight * scored.counts.get(key, 0) for key, weight in weights.items())
        for weights in (metric.value.numerator, metric.value.denominator)
    )
    return above / below if below else None


def m(value: str, name: str) -> Memory:
    return memory(value, memory_id=name)


A1, A2, B2, NEW = m("A", "m1"), m("A", "m2"), m("B", "m2"), m("B", "m1_updated")
LISTS: dict[str, tuple[Any, Any, str, tuple[int, ...], set[int]]] = {
    "as the release has it": (OLD, GOLD, "retain 0, modify 1, retain 2, retain 3, add", (1,), {1}),
    "withdrawn": (OLD[:2], OLD[:1], "retain 0", (1,), set()),
    "everything withdrawn": (OLD[:2], (), "", (0, 1), set()),
    "the first memory": ((), (VIOLIN,), "add", (), set()),
    "rewritten under its id": (OLD[:1], (m("Owns a dog", "m1"),), "modify 0", (0,), {0}),
    "the value under another id": (OLD[:1], (m(" owns A cat", "x9"),), "retain 0", (), set()),
    "ids exchanged": ((A1, B2), (m("B", "m1"), A2), "retain 1, retain 0", (), set()),
    "one of two duplicates rewritten": ((A1, A2), (A2, NEW), "retain 1, modify 0", (0,), {0}),
    "a copy": ((A1,), (A1, A2), "retain 0, add", (), set()),
    "an update of what is still there": ((A1,), (A1, NEW), "retain 0, add", (), set()),
    "updated before": ((m("A", "m1_updated"),), (NEW,), "modify 0", (0,), {0}),
}


@pytest.mark.parametrize(("old", "gold", "changes", "gone", "replaced"), LISTS.values(), ids=LISTS)
def test_gold_actions_follow_from_the_two_lists(old, gold, changes, gone, replaced):
    lists = compare(old, gold)
    found = [f"{one.action} {'' if one.old is None else one.old}".strip() for one in lists.changes]
    assert ", ".join(found) == changes
    assert (lists.gone, lists.replaced) == (gone, replaced)


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


JOINED = {
    "the later word counts": ([("A", "m1"), ("B", "m2")], [("C", "m1")], "BC"),
    "two parts": ([("A", "m1")], [("B", "m_new_1")], "AB"),
    "null ids": ([("A", None), ("B", None)], [("C", None)], "ABC"),
    "empty ids": ([("A", ""), ("B", "")], [("C", "")], "ABC"),
    "an id that is a number": ([("A", 1)], [("B", "1")], "B"),
    "one id twice in one list": ([("A", "m1"), ("B", "m1")], [("C", "m2")], "ABC"),
}


@pytest.mark.parametrize(("first", "second", "values"), JOINED.values(), ids=JOINED)
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


REWORDED = m("Is the owner of a cat", "m9")
A_TEACHER, A_PET = m("Is a school teacher", "m9"), m("Has a pet", "m8")
SAME = (OLD[0].value, REWORDED.value, "same")
CONTRADICTED = (NURSE.value, A_TEACHER.value, "conflicting")
BROADER = (OLD[0].value, A_PET.value, "broader")
RELATED = (OLD[0].value, "Has fur", "related")
RETAINED_ADDED = ["retain", "add"]
UNNAMED: dict[str, tuple[Any, list[tuple[str, str, str]], list[str]]] = {
    "as the release has it": (GOLD, [], ["retain", "modify", "retain", "retain", "add"]),
    "the old id kept": ((m("Teaches physics", "m2"),), [], ["modify"]),
    "another id, and no judge that relates it": ((m("Teaches physics", "m9"),), [], ["add"]),
    "another id, but it contradicts the old one": ((A_TEACHER,), [CONTRADICTED], ["modify"]),
    "it contradicts what is kept beside it": ((NURSE, A_TEACHER), [CONTRADICTED], RETAINED_ADDED),
    "reworded": ((REWORDED,), [SAME], ["retain"]),
    "generalised": ((A_PET,), [BROADER], ["modify"]),
    "generalised beside what is kept": ((REWORDED, A_PET), [SAME, BROADER], RETAINED_ADDED),
    "only related": ((m("Has fur", "m9"),), [RELATED], ["add"]),
    "another memory's id": ((m("Owns a cat", "m3"),), [], ["retain"]),
    "it names what it replaces": ((did(m("Teaches", "m_new_1"), replaces="m2"),), [], ["modify"]),
    "an action that was named is not doubted": ((did(OLD[0], "modify"),), [], ["modify"]),
}


@pytest.mark.parametrize(("items", "named", "actions"), UNNAMED.values(), ids=UNNAMED)
def test_actions_that_were_not_named_follow_from_meaning_first(items, named, actions):
    scored = score(update_sample(), answer(*items), Names(*named))
    assert list(scored.details["actions"]) == actions


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


@pytest.mark.parametrize("gold", [GOLD, OLD, OLD[:2], ()])
def test_a_failed_prediction_gets_the_worst(gold):
    failed = Prediction(benchmark_id="b1", track="task2", outcome="unparsable", raw="?")
    scored = score(update_sample(gold), failed)
    assert set(scored.scores.values()) == {0.0}
    assert not [
        name for name, n in scored.counts.items() if n and name.startswith(("right_", "predicted"))
    ]
    assert all(key[-1] == "failed" for key in cells(scored))
    worst = {"contradiction_kept": 1, "lost": 1, "over_update": 0, "recall_modify": 0}
    for name, value in worst.items():
        assert ratio(scored, name) in (value, None)


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
    oracle = heard(embedded.oracle_update(sample))
    scored = score(sample, oracle, LexicalJudge() if sample.gold == sample.memory else None)
    assert set(scored.scores.values()) == {1.0}
    for metric in METRICS:
        if not metric.is_mean:
            assert ratio(scored, metric.name) in (None, 0.0 if metric.lower_is_better else 1.0)


@quick
@given(updates())
def test_doing_nothing_changes_nothing_rightly_and_keeps_every_contradiction(sample):
    lists = compare(sample.memory, sample.gold or ())
    scored = score(sample, heard(embedded.no_op(sample)))
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
    matched = [int(gold[1:]) - 1 for gold, _, _ in scored.details["matched"]]
    kept = sum(row < len(lists.changes) and lists.old_of(row) is not None for row in matched)
    assert kept + scored.counts["rewritten"] + scored.counts["lost"] == scored.counts["retained"]
    changed = score(sample, answer(*bare(prediction))).scores
    assert [changed.get(name) for name in CHANGED] == [scored.scores.get(name) for name in CHANGED]


def bare(prediction: Prediction) -> list[UpdatedMemory]:
    """Return the memories of a list without what was said of them."""
    items = [
        UpdatedMemory.model_validate(each) for each in (prediction.prediction or {})["memory_items"]
    ]
    return [did(each, None, None) for each in items if each.action != "delete"]


class Lenient(Names):
    """Takes every value that begins with a gold one for a more detailed form of it."""

    async def answer(self, question, *, about):
        pairs = []
        for gold in question.gold:
            for predicted in question.predicted:
                if predicted.value.startswith(gold.value):
                    pairs.append((gold.value, predicted.value, "same"))
        self.pairs = tuple(pairs)
        return await super().answer(question, about=about)


def in_one(text):
    return m(f"{TEACHER.value} {text}", "m2_updated")


@pytest.mark.parametrize(
    ("teacher", "f1", "kept"),
    [
        pytest.param([TEACHER], 1, 0, id="the old one is gone"),
        pytest.param([in_one("at a school")], 1, 0, id="with detail of its own"),
        # One right change of two, and one wrong.
        pytest.param([TEACHER, NURSE], 1 / 2, 1, id="both are in the list"),
        pytest.param([in_one("(formerly works as a nurse)")], 1 / 2, 1, id="both in one value"),
        pytest.param([in_one("; Works as a Nurse")], 1 / 2, 1, id="with a semicolon"),
        pytest.param([NURSE], 1 / 2, 1, id="the old one alone"),
    ],
)
def test_a_change_whose_old_memory_is_kept_is_not_made(teacher, f1, kept):
    rest = [memory for memory in GOLD if memory != TEACHER]
    scored = score(update_sample(), answer(*rest, *teacher), Lenient())
    assert scored.scores["f1_changed"] == pytest.approx(f1 if teacher != [NURSE] else 2 / 3)
    assert scored.counts["kept_gone"] == kept


@pytest.mark.parametrize(
    ("value", "new", "old", "kept"),
    [
        ("Teaches physics; before that: works as a nurse", "Teaches physics", "Is a nurse", True),
        ("Used to run 5 km a week, now 10 km", "Runs 10 km a week", "Runs 5 km a week", True),
        # Half of what only the old one says is not most of it.
        ("Works as a physics teacher", "Teaches physics", "Works as a nurse", False),
        ("No coffee in the morning", "Drinks no coffee", "Drinks coffee every morning", False),
    ],
)
def test_an_old_value_is_stated_by_most_of_what_is_its_own(value, new, old, kept):
    assert states_besides(value, new, old) is kept


def test_a_retained_memory_is_never_taken_for_one_that_is_gone():
    head = m("Works as a nurse in the heart ward", "m9")
    old, gold = (*OLD, head), (*GOLD, head)
    scored = score(update_sample(gold, old), answer(*gold))
    assert (scored.scores["f1_changed"], scored.counts["kept_gone"]) == (1, 0)
    grown = m("Owns a cat and a dog", "m1_updated")
    gold = (grown, *OLD[1:])
    scored = score(update_sample(gold), answer(m("Owns a cat and a dog now", "x"), *OLD[1:]))
    assert scored.counts["kept_gone"] == 0


@pytest.mark.parametrize(
    ("judge", "precision"),
    [
        pytest.param(
            Names((OLD[0].value, "Feline household", "related")), 2 / 3, id="the judge relates them"
        ),
        pytest.param(Names(), 1 / 2, id="it tells relations, and names none"),
        pytest.param(LexicalJudge(), 2 / 3, id="it tells none"),
    ],
)
def test_a_retained_memory_that_was_reworded_is_one_wrong_change(judge, precision):
    scored = score(update_sample(), answer(*GOLD[1:], m("Feline household", "m9")), judge)
    assert scored.scores["precision_changed"] == precision


def test_dropping_the_old_list_pays_for_no_wrong_memory():
    wrong = [m(f"Something else, number {word}", f"n{word}") for word in ("one", "six", "ten")]
    dropped = score(update_sample(), answer(TEACHER, VIOLIN))
    padded = score(update_sample(), answer(TEACHER, VIOLIN, *wrong))
    assert padded.scores["f1_changed"] < dropped.scores["f1_changed"]
    for judge in (Names(), LexicalJudge()):
        dropped = score(update_sample(), answer(TEACHER, VIOLIN), judge)
        assert dropped.scores["precision_changed"] == 2 / 5


def test_where_nothing_changes_leaving_the_list_alone_is_right_and_a_second_copy_counts_once():
    scored = score(update_sample(OLD, OLD), answer(*OLD, m("Owns a cat", "m9")))
    assert (scored.scores["precision"], scored.scores["f1_changed"]) == (1, 1)
    assert scored.counts["repeated_items"] == 1
    assert cells(scored) == {("retain", "retain"): len(OLD)}
    assert score(update_sample(OLD, OLD), answer(*OLD)).scores["f1_changed"] == 1
