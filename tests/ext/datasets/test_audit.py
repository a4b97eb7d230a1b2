"""The audit of data sets: planted flaws are found, clean data have none, and what it prints."""

import json
import random
from typing import NamedTuple

import pytest
from rich.console import Console

from alps.data.audit_findings import above_chance
from alps.data.release import GOLD, INPUT, write_track
from alps.errors import UsageError
from alps.ext.datasets.audit import audit, audit_data, print_audit
from alps.ext.datasets.audit_pools import far_from_uniform, near, shifted
from alps.similarity import THRESHOLD, similarity
from tests.audit_sets import (
    POOLS,
    SIZE,
    audited,
    clean,
    extraction,
    found,
    only,
    pool,
    pools,
    turns,
    update,
    utilization,
)
from tests.endtoend import write_rows


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


UNREAD = {
    "a task of another folder": ("task1", "retrieval", "no files of retrieval that"),
    "a folder of no task": ("mood", "extraction", "no files of extraction that"),
    "no task named": ("mood", None, "no files that"),
}


@pytest.mark.parametrize(("track", "task", "said"), UNREAD.values(), ids=UNREAD)
def test_data_that_are_not_read_are_refused(tmp_path, track, task, said):
    (tmp_path / "dev" / track).mkdir(parents=True)
    write_rows(tmp_path / "dev" / track / INPUT, [{"benchmark_id": "a", "input": {}}])
    with pytest.raises(UsageError, match=f"split dev: {said} alps data audit reads; it reads"):
        audit_data(str(tmp_path), None, task)


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
        {"ids": shuffled, "change": one_id_for_gold},
        "id-leak",
        "serious",
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


VALUES = (
    "Keeps two beehives on the roof", "keeps TWO beehives on a roof", "Keeps no beehives",
    "Paid 1,000 euros for bees",
    "has paid 1000 euros for the bees", "喜欢在屋顶上养蜜蜂", "用户喜欢在屋顶养蜜蜂",
    "Aime les abeilles d'été", "aime l'été et les abeilles",
    "מגדל דבורים על הגג", "המשתמש מגדל דבורים על גג", "likes things", "x", "",
    "Works at a café in São Paulo", "works at cafe, Sao Paulo",
)  # fmt: skip


def test_the_quick_look_misses_nothing_that_is_similar():
    for gold in VALUES:
        similar = {other for other in VALUES if similarity(gold, other) >= THRESHOLD}
        assert {other for other in VALUES if near(gold, [other])} == similar


def changed(made, change):
    """Return a record after a change of its row and its gold."""
    change(*made)
    return made


def without_candidates(row, gold):
    row["input"].pop("candidate_memories")


def empty_query(row, gold):
    without_candidates(row, gold)
    row["input"]["query"] = " "


def gold_elsewhere(row, gold):
    gold["gold"]["selected_memory_id"] = gold["gold"]["selected_memory"]["memory_id"] = "c999"


def in_split(split):
    """Return a record of utilization and one of extraction whose dialogues only `split` has."""

    def own_dialogue(row, gold):
        row["session_id"] = gold["session_id"] = f"s-{split}"
        talk = turns(f"I am in the {split} set")
        row["input"]["model_input"]["dialogue_history"] = gold["gold"]["conversation"] = talk

    asked = extraction(split, "Keeps bees", said=(f"I keep bees in the {split}", "Lovely"))
    asked[0]["input"]["query"] = "You write down what users tell you of themselves."
    return {
        f"{split}/task4_ability1": [changed(utilization("p1"), own_dialogue)],
        f"{split}/task1": [asked],
    }


REJECTED = "Keeps bees [ERROR: Task-local]"
LEAK = {"selected_memory": {"memory_id": "m1", "value": "keeps bees on the ROOF"}}
TALK = {"conversation": turns("I keep bees up there", "Lovely")}
SAID = (
    "I keep bees on the roof of our house in Porto and they do well",
    "Bees are said to prefer lavender and thyme",
)
IN_TWO = [extraction("a", "Keeps bees"), extraction("b", "Owns a boat", said=("My boat", "Oh"))]
AWAY = extraction("z", said=("I play the tuba in a band", "Nice"))[0]
SAME_DIALOGUE = {"input": {"dialogue": turns("I keep BEES on the roof", "Lovely")}}
OF_OTHER_GOLD = pool(0, random.Random(1), place=4, session="s-a")
SHARED, STRANGER = (OF_OTHER_GOLD[0]["input"]["candidate_memories"][n]["value"] for n in (2, 3))


class Expected(NamedTuple):
    """A finding; of its first example, a part that is None may be anything."""

    track: str
    severity: str
    count: int
    of: int
    detail: str
    what: str | None = None
    name: str | None = None


def quoted(quote, detail):
    rows = [extraction("a", "Keeps bees", said=SAID, quote=quote), extraction("b", "Keeps bees")]
    found = [Expected("task1", "warning", 1, 2, detail)]
    return {"dev/task1": rows}, "evidence-not-in-user-turn", found


def of_other_records(change, detail):
    rows = [changed(utilization("p1"), change), utilization("p2")]
    found = [Expected("task4_ability2", "serious", 1, 2, detail)]
    return {"dev/task4_ability2": rows}, "misaligned-row", found


SECOND_STAGE = "the annotators' second stage rejected the memory"
GOLD_OF_SESSION = "a distractor's value is a gold value of the same session"
SHOWN = "the gold memory is in the input"
BY_ID = "input.metadata.selected_memory_id is the id of the gold memory, m2"
BY_VALUE = "input.model_input.selected_memory.value: “keeps bees on the ROOF”"
FLAWS = {
    "the mark of a rejected gold memory": (
        {
            "dev/task1": [extraction("a", REJECTED, "Owns a boat"), extraction("b", "[ERROR] x")],
            "dev/task4_ability1": [utilization("p1", REJECTED), utilization("p2")],
        },
        "rejected-gold",
        [
            Expected("task1", "warning", 1, 3, SECOND_STAGE),
            Expected("task4_ability1", "warning", 1, 2, SECOND_STAGE),
        ],
    ),
    "a gold memory in the input": (
        {
            "dev/task4_ability1": [
                utilization("p1", shown=LEAK),
                utilization("p2", note="Remember: the user keeps bees on the roof, mind"),
                utilization("p3"),
            ],
            "dev/task2": [update("u1", metadata={"selected_memory_id": "m2"}), update("u2")],
        },
        "label-in-input",
        [
            Expected("task2", "serious", 1, 2, SHOWN, BY_ID),
            Expected("task4_ability1", "serious", 2, 3, SHOWN, BY_VALUE),
        ],
    ),
    "an update that names a memory that it retains": (
        {"dev/task2": [update("u1", metadata={"selected_memory_id": "m1"})]},
        "label-in-input",
        [],
    ),
    "a stratum and a repeated dialogue": (
        {
            "dev/task4_ability1": [utilization("p1", audit_context=TALK)],
            "dev/task1": [extraction("a", "Keeps bees", row={"stratum": "Preferences/Food"})],
        },
        "label-in-input",
        [
            Expected("task1", "note", 1, 1, "stratum is the label of the gold"),
            Expected("task4_ability1", "note", 1, 1, "audit_context repeats the dialogue"),
        ],
    ),
    "a quote of the assistant": quoted(
        "prefer lavender and thyme", "the quote is only in the assistant's turns"
    ),
    "a quote of nobody": quoted("My sister collects antique clocks", "the quote is in no turn"),
    "empty rows": (
        {
            "dev/task1": [
                extraction("a", "Keeps bees", said=()),
                extraction("b"),
                extraction("c", "Keeps bees", said=("I keep bees on the roof", "  ")),
            ]
        },
        "empty-row",
        [
            Expected("task1", "note", 1, 3, "an empty gold list"),
            Expected("task1", "serious", 1, 3, "no dialogue"),
            Expected("task1", "warning", 1, 3, "a turn without text"),
        ],
    ),
    "no query and no candidates": (
        {"dev/task3/d11": [changed(pool(0, random.Random(1)), empty_query)]},
        "empty-row",
        [
            Expected("task3/d11", "serious", 1, 1, "no candidates"),
            Expected("task3/d11", "serious", 1, 1, "no query"),
        ],
    ),
    "another session of the gold": of_other_records(
        lambda row, gold: gold.update(session_id="other"), "the session_id differs"
    ),
    "another dialogue of the gold": of_other_records(
        lambda row, gold: gold["gold"].update(conversation=turns("Somebody else")),
        "the gold's conversation differs from the input's",
    ),
    "another query within the row": of_other_records(
        lambda row, gold: row["input"]["queries"][0].update(query="Another?"),
        "the query differs within the row",
    ),
    "another memory by its key": of_other_records(
        lambda row, gold: gold["gold"].update(memory_key="m9"), "memory_key names another memory"
    ),
    "gold that is not in its pool": (
        {"dev/task3/d11": [changed(pool(0, random.Random(1)), gold_elsewhere)]},
        "misaligned-row",
        [Expected("task3/d11", "serious", 1, 1, "the gold is not in its pool")],
    ),
    "a distractor that is gold of the same session": (
        {
            "dev/task1": [extraction("a", SHARED.upper()), extraction("b", STRANGER)],
            "dev/task3/d11": [OF_OTHER_GOLD],
        },
        "same-session-distractor",
        [Expected("task3/d11", "warning", 1, 1, GOLD_OF_SESSION, f"c003: “{SHARED}”")],
    ),
    "a session in two splits": (
        {"test/task1": [(AWAY | {"session_id": "s-a"}, None)], "dev/task1": IN_TWO},
        "split-overlap",
        [Expected("task1", "serious", 1, 2, "the session is in another split", name="a")],
    ),
    "a dialogue in two splits": (
        {"test/task1": [(AWAY | SAME_DIALOGUE, None)], "dev/task1": IN_TWO},
        "split-overlap",
        [Expected("task1", "serious", 1, 2, "the dialogue is in another split", name="a")],
    ),
    "rows that a run refuses": (
        {
            "dev/task1": [
                extraction("a", "Keeps bees", row={"session_id": 7}),
                extraction(
                    "b", "Keeps", row={"input": {"dialogue": [{"role": "me", "text": "b"}]}}
                ),
                extraction("c", "Keeps bees"),
            ],
        },
        "refused-row",
        [
            Expected(
                *("task1", "serious", 2, 3, "alps run refuses the row"),
                *("session_id: expected a text", "a"),
            )
        ],
    ),
    "a query of a user, but no instruction, in two splits": (
        {**in_split("dev"), **in_split("test")},
        "split-overlap",
        [Expected("task4_ability1", "serious", 1, 1, "the query is in another split")],
    ),
}


@pytest.mark.parametrize(("tracks", "code", "expected"), FLAWS.values(), ids=FLAWS)
def test_a_flaw_is_found_and_counted(tmp_path, tracks, code, expected):
    report = audited(tmp_path, tracks)
    findings = sorted(found(report, code), key=lambda one: (one.track, one.severity, one.detail))
    told = [(f.track, f.severity, f.count, f.of, f.detail) for f in findings]
    assert told == [one[:5] for one in expected]
    for finding, one in zip(findings, expected, strict=True):
        example = finding.examples[0]
        assert one.what in (None, example.what)
        assert one.name in (None, example.benchmark_id)
    assert report.serious == any(one.severity == "serious" for one in report.findings)
    assert report.serious == any(one.severity == "serious" for one in expected)


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
    rows = [extraction("a", "Keeps bees", said=SAID, quote=quote)]
    assert audited(tmp_path, {"dev/task1": rows}).findings == ()


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


def test_gold_of_plain_texts_is_not_empty_and_gold_that_does_not_join_is_not_withheld(tmp_path):
    shown, gold = extraction("a", "Keeps bees")
    plain = {**gold, "gold": {"memory_items": ["Keeps bees"]}}
    assert audited(tmp_path / "plain", {"dev/task1": [(shown, plain)]}).findings == ()
    rows = [({**shown, "benchmark_id": 1}, {**gold, "benchmark_id": 1})]
    report = audited(tmp_path / "numbers", {"dev/task1": rows})
    finding = only(report, "misaligned-row")
    assert (finding.count, finding.of) == (2, 2)
    assert finding.detail == "the benchmark_id is missing or no text"
    assert not any("withheld" in line for line in report.unchecked)


def test_rows_in_another_order_are_no_finding(tmp_path):
    folder = tmp_path / "dev" / "task1"
    write_track(folder, [extraction("a", "Keeps bees"), extraction("b", "Keeps bees")])
    (folder / GOLD).write_text(
        "".join(reversed((folder / GOLD).read_text().splitlines(keepends=True)))
    )
    assert audit(str(tmp_path), None).findings == ()


def bank_track(folder, *bank):
    row, gold = changed(pool(0, random.Random(1)), without_candidates)
    gold["gold"]["selected_memory"] = {"memory_id": "m1", "value": "Keeps two beehives on the roof"}
    gold["gold"]["selected_memory_id"] = "m1"
    write_track(folder / "dev" / "task3", [(row, gold)])
    write_rows(folder / "dev" / "task3" / "bank.jsonl", bank)
    return audit(str(folder), None)


def test_rows_without_candidates_beside_a_bank_are_clean(tmp_path):
    report = bank_track(
        tmp_path,
        {"session_id": "s-r0", "value": "User keeps two beehives upon a roof"},
        {"session_id": "s-1", "value": "Plays the tuba"},
    )
    assert report.findings == ()


def test_duplicates_in_a_bank_and_its_near_duplicates_of_the_gold_are_notes(tmp_path):
    report = bank_track(
        tmp_path,
        {"session_id": "s-1", "value": "User keeps two beehives upon a roof"},
        {"session_id": "s-1", "value": "Plays the tuba"},
        {"session_id": "s-2", "value": "plays the  tuba"},
    )
    assert {(f.code, f.severity, f.count, f.of) for f in report.findings} == {
        ("near-duplicate-of-gold", "note", 1, 1), ("duplicate-candidate", "note", 1, 3)
    }  # fmt: skip


def test_withheld_gold_is_said_and_no_finding(tmp_path):
    report = audited(tmp_path, {"dev/task1": [(extraction("a")[0], None)]})
    assert report.findings == ()
    assert any("gold is withheld" in line for line in report.unchecked)


def test_a_rule_counts_only_where_it_is_significant_and_of_use():
    assert above_chance(3, [101] * 3, tried=1) == pytest.approx(1 / 101**3)
    assert above_chance(1, [101] * 3, tried=1) is None  # p = .03
    assert above_chance(60, [101] * 2000, tried=1) is None  # p < 1e-10, but a gain of 2 %
    assert above_chance(0, [], tried=1) is None


def test_even_places_and_ranks_are_no_cue():
    even = [(n + 0.5) / 60 for n in range(60)]
    assert far_from_uniform(even) is None
    assert shifted(even, [61] * 60) is None
    assert far_from_uniform([0.4 + place / 5 for place in even]) is not None
    assert shifted([place / 2 for place in even], [61] * 60) is not None


def test_the_report_as_json_holds_every_finding(tmp_path):
    rows = [extraction("a", "Keeps bees [ERROR: no]"), extraction("b", said=())]
    report = audited(tmp_path, {"dev/task1": rows})
    whole = json.loads(json.dumps(report.as_json()))
    assert whole["split"] == "dev"
    assert whole["serious"]
    assert whole["found"] == {"serious": 1, "warning": 1, "note": 1}
    assert whole["findings"][1] == {
        "code": "rejected-gold", "severity": "warning", "track": "task1",
        "count": 1, "of": 1, "unit": "gold items",
        "detail": "the annotators' second stage rejected the memory",
        "examples": [{"benchmark_id": "a", "what": "Keeps bees [ERROR: no]"}],
    }  # fmt: skip


def printed(report):
    console = Console(width=80, highlight=False, force_terminal=False)
    with console.capture() as captured:
        print_audit(report, console)
    return captured.get()


def test_the_table_names_every_finding_within_80_columns(tmp_path):
    long = "Keeps bees " * 40 + "\x1b[31m [ERROR: no]"
    rows = [extraction("a", long), extraction("b", said=())]
    text = printed(audited(tmp_path, {"dev/task1": rows}))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "rejected-gold extraction 1 of 1 gold items" in " ".join(text.split())
    assert "Do not trust scores on this data" in text
    assert "\x1b" not in text


def test_the_table_of_a_clean_data_set_says_so(tmp_path):
    text = printed(clean(tmp_path))
    assert "46 rows in 4 tasks." in " ".join(text.split())
    assert "Nothing serious." in text


REAL = {
    ("id-leak", "serious", "task3/d100"): (85, 85),
    ("rejected-gold", "warning", "task1"): (16, 259),
    ("duplicate-candidate", "warning", "task3/d100"): (85, 85),
    ("label-in-input", "serious", "task2"): (86, 86),
    ("label-in-input", "serious", "task4_ability1"): (17, 17),
    ("update-position-cue", "serious", "task2"): (81, 83),
    ("update-count-cue", "warning", "task2"): (86, 86),
    ("same-session-distractor", "warning", "task3/d100"): (5, 85),
    ("rejected-gold", "warning", "task2"): (10, 366),
    ("rejected-gold", "warning", "task3/d100"): (5, 85),
}


@pytest.mark.release
@pytest.mark.real
def test_the_flaws_of_the_real_sample_are_found_with_their_figures(sample):
    report = audit(str(sample), "dev")
    figures = {}
    for one in report.findings:
        if one.severity != "note":
            figures[one.code, one.severity, one.track] = one.count, one.of
    assert REAL.items() <= figures.items()
    others = {code for code, _, _ in figures.keys() - REAL.keys()}
    assert others == {"rejected-gold", "evidence-not-in-user-turn"}
    assert only(report, "id-leak").detail.startswith(
        "the lowest id that occurs once is the gold: chance 1.0%"
    )
