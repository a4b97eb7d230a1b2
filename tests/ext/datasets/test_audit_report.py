import json
import random

import pytest
from rich.console import Console

from alps.data.audit_findings import above_chance, far_from_uniform, shifted
from alps.data.release import write_track
from alps.ext.datasets.audit import audit, print_audit
from tests.audit_sets import clean, extraction, of_task1, only, pool
from tests.endtoend import write_rows


def bank_track(folder, *bank):
    row, gold = pool(0, random.Random(1))
    row["input"].pop("candidate_memories")
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
    report = of_task1(tmp_path, (extraction("a")[0], None))
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
    report = of_task1(tmp_path, extraction("a", "Keeps bees [ERROR: no]"), extraction("b", said=()))
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
    text = printed(of_task1(tmp_path, extraction("a", long), extraction("b", said=())))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "rejected-gold extraction 1 of 1 gold items" in " ".join(text.split())
    assert "Do not trust scores on this data" in text
    assert "\x1b" not in text


def test_the_table_of_a_clean_data_set_says_so(tmp_path):
    text = printed(clean(tmp_path))
    assert "46 rows in 4 tasks." in " ".join(text.split())
    assert "Nothing serious." in text


@pytest.mark.release
@pytest.mark.real
def test_the_flaws_of_the_real_sample_are_found_with_their_figures(sample):
    report = audit(str(sample), "dev")
    figures = {
        (f.code, f.severity, f.track): (f.count, f.of)
        for f in report.findings
        if f.severity != "note"
    }
    assert figures.pop(("id-leak", "serious", "task3/d100")) == (85, 85)
    assert figures.pop(("rejected-gold", "warning", "task1")) == (16, 259)
    assert figures.pop(("duplicate-candidate", "warning", "task3/d100")) == (85, 85)
    assert figures.pop(("label-in-input", "serious", "task2")) == (86, 86)
    assert figures.pop(("label-in-input", "serious", "task4_ability1")) == (17, 17)
    assert figures.pop(("update-position-cue", "serious", "task2")) == (81, 83)
    assert figures.pop(("update-count-cue", "warning", "task2")) == (86, 86)
    assert figures.pop(("same-session-distractor", "warning", "task3/d100")) == (5, 85)
    assert figures.pop(("rejected-gold", "warning", "task2")) == (10, 366)
    assert figures.pop(("rejected-gold", "warning", "task3/d100")) == (5, 85)
    assert {code for code, _, _ in figures} == {"rejected-gold", "evidence-not-in-user-turn"}
    assert only(report, "id-leak").detail.startswith(
        "the lowest id that occurs once is the gold: chance 1.0%"
    )
