import json
import random

import pytest

from alps.data.release import GOLD, INPUT, write_track
from alps.errors import UsageError
from alps.ext.datasets.audit import audit, near
from alps.similarity import THRESHOLD, similarity
from tests.audit_sets import (
    POOLS,
    SIZE,
    clean,
    extraction,
    found,
    of_task1,
    only,
    pool,
    pools,
    turns,
    update,
    utilization,
)


def test_nothing_is_found_in_a_clean_data_set(tmp_path):
    report = clean(tmp_path)
    assert report.findings == ()
    assert not report.serious
    assert [(t.track, t.rows, t.with_gold) for t in report.tracks] == [
        ("task1", 2, 2), ("task2", 2, 2), ("task3/d11", POOLS, POOLS), ("task4_ability1", 2, 2)
    ]  # fmt: skip
    assert report.unchecked == ()


def test_our_own_samples_hold_nothing_serious():
    assert found(audit("samples", "dev"), "misaligned-row") == []
    assert [f for f in audit("samples", "dev").findings if f.severity == "serious"] == []


def test_a_data_set_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        audit(str(tmp_path / "none"), None)


def lowest_once(source):
    return ["m2", *["m1", "m3", "m4"] * 3, "m7", "m9"]


def odd_form(source):
    return ["gold-1", *(f"x{source.randrange(10**6)}" for _ in range(SIZE - 1))]


def shuffled(source):
    return source.sample([f"k{n}" for n in range(SIZE)], SIZE)


def gold_first(candidates, place):
    candidates[0], candidates[place] = candidates[place], candidates[0]


def one_id_for_gold(candidates, place):
    other = next(c for c in candidates if c["memory_id"] == "k5")
    other["memory_id"], candidates[place]["memory_id"] = candidates[place]["memory_id"], "k5"


def equal_others(candidates, place):
    others = [c for n, c in enumerate(candidates) if n != place]
    others[0]["value"] = f"  {others[1]['value'].upper()}"


def twin_of_gold(candidates, place):
    candidates[place - 1]["value"] = candidates[place]["value"].upper()


def of_one_session(candidates, place):
    for candidate in candidates:
        candidate["session_id"] = "elsewhere"
    candidates[place]["session_id"] = candidates[place - 1]["session_id"] = "here"


def paraphrased(candidates, place):
    candidates[place]["value"] = "Keeps two beehives on the roof"
    candidates[place - 1]["value"] = "User keeps two beehives upon a roof [ERROR: Task-local]"


def longest(candidates, place):
    candidates[place]["value"] += " and a good deal more"


def longer(candidates, place):
    candidates[place]["value"] += " and more"
    candidates[place - 1]["value"] += " and a good deal more"


LOWEST = "the lowest id that occurs once is the gold: chance 8.3%"
RANK = "longer than its pool: mean rank 0.91"
CHANGED_POOLS = {
    "the lowest id": ({"ids": lowest_once, "change": gold_first}, "id-leak", "serious", LOWEST),
    "an odd id": ({"ids": odd_form, "change": gold_first}, "id-leak", "serious", ""),
    "one id": (
        *({"ids": shuffled, "change": one_id_for_gold}, "id-leak", "serious"),
        "always the same id is the gold:",
    ),
    "the first": ({"place": 0, "ids": shuffled}, "position-cue", "serious", "the first"),
    "the last": ({"place": SIZE - 1, "ids": shuffled}, "position-cue", "serious", "the last"),
    "a place": ({"place": 5, "ids": shuffled}, "position-cue", "serious", "candidate 6"),
    "equal values": ({"change": equal_others}, "duplicate-candidate", "warning", ""),
    "a twin of the gold": ({"change": twin_of_gold}, "duplicate-candidate", "serious", ""),
    "one session": ({"change": of_one_session}, "same-session-distractor", "serious", ""),
    "a paraphrase": ({"change": paraphrased}, "near-duplicate-of-gold", "warning", ""),
    "the longest": ({"change": longest}, "length-cue", "serious", "the longest value is the gold"),
    "longer than most": ({"change": longer}, "length-cue", "warning", RANK),
}
CLUES = ("id-leak", "position-cue", "near-duplicate-of-gold")


@pytest.mark.parametrize(
    ("change", "code", "severity", "said"), CHANGED_POOLS.values(), ids=CHANGED_POOLS
)
def test_what_gives_the_gold_of_a_pool_away_is_found(tmp_path, change, code, severity, said):
    report = pools(tmp_path, **change)
    finding = only(report, code)
    assert (finding.severity, finding.count, finding.of) == (severity, POOLS, POOLS)
    assert said in finding.detail
    if said == LOWEST:
        assert finding.unit == "pools"
        assert len(finding.examples) == 5
        assert finding.examples[0].benchmark_id == "r0"
    if change.get("change") is equal_others:
        spare = f"1 of {SIZE} candidates are duplicates; 2 times"
        assert finding.examples[0].what.startswith(spare)
    assert [clue for clue in CLUES if clue != code and found(report, clue)] == []


def test_a_distractor_of_the_same_session_is_found_by_its_value_in_other_gold(tmp_path):
    row = pool(0, random.Random(1), place=4, session="s-a")
    value, stranger = (row[0]["input"]["candidate_memories"][n]["value"] for n in (2, 3))
    golds = [extraction("a", value.upper()), extraction("b", stranger)]
    write_track(tmp_path / "dev" / "task1", golds)
    write_track(tmp_path / "dev" / "task3" / "d11", [row])
    same = only(audit(str(tmp_path), None), "same-session-distractor")
    assert (same.severity, same.count, same.of) == ("warning", 1, 1)
    assert value in same.examples[0].what


VALUES = (
    "Keeps two beehives on the roof", "keeps TWO beehives on a roof", "Keeps no beehives", (
        "Paid 1,000 euros for "
        "bees"
    ),
    "has paid 1000 euros for the bees", "喜欢在屋顶上养蜜蜂", "用户喜欢在屋顶养蜜蜂",
    "Aime les abeilles d'été", "aime l'été et les abeilles",
    "מגדל דבורים על הגג", "המשתמש מגדל דבורים על גג", "likes things", "x", "",
    "Works at a café in São Paulo", "works at cafe, Sao Paulo",
)  # fmt: skip


def test_the_quick_look_misses_nothing_that_is_similar():
    for gold in VALUES:
        similar = {other for other in VALUES if similarity(gold, other) >= THRESHOLD}
        assert {other for other in VALUES if near(gold, [other])} == similar


def test_the_mark_of_a_rejected_gold_memory_is_found(tmp_path):
    rejected = "Keeps bees [ERROR: Task-local]"
    write_track(
        tmp_path / "dev" / "task1",
        [extraction("a", rejected, "Owns a boat"), extraction("b", "[ERROR] x")],
    )
    write_track(
        tmp_path / "dev" / "task4_ability1", [utilization("p1", rejected), utilization("p2")]
    )
    report = audit(str(tmp_path), None)
    assert [(f.track, f.severity, f.count, f.of) for f in found(report, "rejected-gold")] == [
        ("task1", "warning", 1, 3), ("task4_ability1", "warning", 1, 2)
    ]  # fmt: skip


def test_a_gold_memory_shown_in_the_input_is_serious(tmp_path):
    leak = utilization(
        "p1", shown={"selected_memory": {"memory_id": "m1", "value": "keeps bees on the ROOF"}}
    )
    told = utilization("p2", note="Remember: the user keeps bees on the roof, mind")
    write_track(tmp_path / "dev" / "task4_ability1", [leak, told, utilization("p3")])
    write_track(
        tmp_path / "dev" / "task2",
        [update("u1", metadata={"selected_memory_id": "m2"}), update("u2")],
    )
    report = audit(str(tmp_path), None)
    leaks = {f.track: f for f in found(report, "label-in-input")}
    assert {track: (f.severity, f.count, f.of) for track, f in leaks.items()} == {
        "task2": ("serious", 1, 2), "task4_ability1": ("serious", 2, 3)
    }  # fmt: skip
    assert (
        leaks["task4_ability1"].examples[0].what
        == "input.model_input.selected_memory.value: “keeps bees on the ROOF”"
    )
    assert (
        leaks["task2"].examples[0].what
        == "input.metadata.selected_memory_id is the id of the gold memory, m2"
    )
    assert report.serious


def test_an_update_that_names_a_memory_it_retains_gives_nothing_away(tmp_path):
    write_track(tmp_path / "dev" / "task2", [update("u1", metadata={"selected_memory_id": "m1"})])
    assert found(audit(str(tmp_path), None), "label-in-input") == []


def test_a_stratum_and_a_repeated_dialogue_are_only_notes(tmp_path):
    talk = {"conversation": turns("I keep bees up there", "Lovely")}
    write_track(tmp_path / "dev" / "task4_ability1", [utilization("p1", audit_context=talk)])
    report = of_task1(tmp_path, extraction("a", "Keeps bees", row={"stratum": "Preferences/Food"}))
    assert [(f.track, f.severity, f.count) for f in found(report, "label-in-input")] == [
        ("task1", "note", 1), ("task4_ability1", "note", 1)
    ]  # fmt: skip
    assert not report.serious


SAID = (
    "I keep bees on the roof of our house in Porto and they do well",
    "Bees are said to prefer lavender and thyme",
)


@pytest.mark.parametrize(
    "quote",
    [
        "keep bees ON the roof",
        "I keep bees … they do well",
        "I keep bees on the roof of our houze in porto",
        '"in Porto"',
    ],
)
def test_a_quote_of_the_user_is_found_though_it_is_not_literal(tmp_path, quote):
    assert of_task1(tmp_path, extraction("a", "Keeps bees", said=SAID, quote=quote)).findings == ()


@pytest.mark.parametrize(
    ("quote", "detail"),
    [
        ("prefer lavender and thyme", "the quote is only in the assistant's turns"),
        ("My sister collects antique clocks", "the quote is in no turn"),
    ],
)
def test_a_quote_that_the_user_did_not_say_is_found(tmp_path, quote, detail):
    report = of_task1(
        tmp_path,
        extraction("a", "Keeps bees", said=SAID, quote=quote),
        extraction("b", "Keeps bees"),
    )
    finding = only(report, "evidence-not-in-user-turn")
    assert (finding.severity, finding.count, finding.of, finding.detail) == (
        "warning",
        1,
        2,
        detail,
    )


def test_empty_rows_are_found_and_an_empty_gold_list_is_a_note(tmp_path):
    blank = extraction("c", "Keeps bees", said=("I keep bees on the roof", "  "))
    report = of_task1(tmp_path, extraction("a", "Keeps bees", said=()), extraction("b"), blank)
    assert {(f.severity, f.detail, f.count, f.of) for f in found(report, "empty-row")} == {
        ("serious", "no dialogue", 1, 3),
        ("note", "an empty gold list", 1, 3),
        ("warning", "a turn without text", 1, 3),
    }


def test_a_query_or_candidates_that_are_missing_are_serious(tmp_path):
    row, gold = pool(0, random.Random(1))
    row["input"].pop("candidate_memories")
    row["input"]["query"] = " "
    write_track(tmp_path / "dev" / "task3" / "d11", [(row, gold)])
    report = audit(str(tmp_path), None)
    assert {f.detail for f in found(report, "empty-row", "serious")} == {
        "no query",
        "no candidates",
    }


def test_rows_that_do_not_join_are_reported_and_the_others_still_looked_at(tmp_path):
    folder = tmp_path / "dev" / "task1"
    write_track(folder, [extraction("a", "Keeps bees [ERROR: no]"), extraction("b", "Owns a boat")])
    orphan, lonely = extraction("orphan", "Owns a car")[1], extraction("lonely", "Owns a hat")[0]
    with (folder / GOLD).open("a") as file:
        file.write(json.dumps(orphan) + "\n")
    with (folder / INPUT).open("a") as file:
        file.write("{torn\n" + json.dumps(lonely) + "\n" + json.dumps(lonely))
    report = audit(str(tmp_path), None)
    assert {
        (f.detail, f.examples[0].benchmark_id) for f in found(report, "misaligned-row", "serious")
    } == {
        ("the gold row has no input row", "orphan"),
        ("the input row has no gold row", "lonely"),
        ("the line is not a JSON object", f"{INPUT} line 3"),
        ("a benchmark_id appears twice in a file", "lonely"),
    }
    assert only(report, "rejected-gold").of == 2


def test_rows_in_another_order_are_no_finding(tmp_path):
    folder = tmp_path / "dev" / "task1"
    write_track(folder, [extraction("a", "Keeps bees"), extraction("b", "Keeps bees")])
    (folder / GOLD).write_text(
        "".join(reversed((folder / GOLD).read_text().splitlines(keepends=True)))
    )
    assert audit(str(tmp_path), None).findings == ()


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (lambda row, gold: gold.update(session_id="other"), "the session_id differs"),
        (
            lambda row, gold: gold["gold"].update(conversation=turns("Somebody else")),
            "the gold's conversation differs from the input's",
        ),
        (
            lambda row, gold: row["input"]["queries"][0].update(query="Another?"),
            "the query differs within the row",
        ),
        (lambda row, gold: gold["gold"].update(memory_key="m9"), "memory_key names another memory"),
    ],
)
def test_a_record_whose_parts_belong_to_different_records_is_serious(tmp_path, change, detail):
    row, gold = utilization("p1")
    change(row, gold)
    write_track(tmp_path / "dev" / "task4_ability2", [(row, gold), utilization("p2")])
    finding = only(audit(str(tmp_path), None), "misaligned-row")
    assert (finding.severity, finding.detail, finding.count, finding.of) == (
        "serious",
        detail,
        1,
        2,
    )


def test_gold_that_is_not_in_its_pool_is_serious(tmp_path):
    row, gold = pool(0, random.Random(1))
    gold["gold"]["selected_memory_id"] = gold["gold"]["selected_memory"]["memory_id"] = "c999"
    write_track(tmp_path / "dev" / "task3" / "d11", [(row, gold)])
    assert (
        only(audit(str(tmp_path), None), "misaligned-row").detail == "the gold is not in its pool"
    )


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"session_id": "s-a"}, "session"),
        ({"input": {"dialogue": turns("I keep BEES on the roof", "Lovely")}}, "dialogue"),
    ],
)
def test_what_stands_in_two_splits_is_found(tmp_path, change, kind):
    row = extraction("z", said=("I play the tuba in a band", "Nice"))[0] | change
    write_track(tmp_path / "test" / "task1", [(row, None)])
    report = of_task1(
        tmp_path,
        extraction("a", "Keeps bees"),
        extraction("b", "Owns a boat", said=("My boat", "Oh")),
    )
    overlap = only(report, "split-overlap")
    assert (overlap.severity, overlap.count, overlap.of) == ("serious", 1, 2)
    assert overlap.detail == f"the {kind} is in another split"
    assert overlap.examples[0].benchmark_id == "a"


def test_a_query_of_two_splits_is_found_but_an_instruction_is_none(tmp_path):
    for split in ("dev", "test"):
        row, gold = utilization("p1")
        row["session_id"] = gold["session_id"] = f"s-{split}"
        row["input"]["model_input"]["dialogue_history"] = gold["gold"]["conversation"] = turns(
            f"I am in the {split} set"
        )
        write_track(tmp_path / split / "task4_ability1", [(row, gold)])
        asked = extraction(split, "Keeps bees", said=(f"I keep bees in the {split}", "Lovely"))
        asked[0]["input"]["query"] = "You write down what users tell you of themselves."
        write_track(tmp_path / split / "task1", [asked])
    overlap = only(audit(str(tmp_path), "dev"), "split-overlap")
    assert (overlap.track, overlap.detail) == ("task4_ability1", "the query is in another split")
