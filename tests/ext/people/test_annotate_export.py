"""What labels become: figures while people label, and what is exported in the end."""

import json
import random
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from alps.data.release import write_track
from alps.errors import UsageError
from alps.ext.calibration.labels import read_labels
from alps.ext.people.annotate import open_work
from alps.ext.people.annotate.export import export
from alps.ext.people.annotate.page import as_form, standing_of
from alps.ext.people.annotate.seat import Seat, order_for
from tests.annotate_work import NEEDED, label_all, made, plain_work, related_run
from tests.endtoend import rows, summary, write_rows
from tests.tracks import alps_done, alps_here

pytest.importorskip("starlette", reason=NEEDED)
NO = {"verdict": "nothing"}


def carried_out(*words):
    """Run a command, which goes well; return what it printed."""
    done = alps_done(*words)
    return done.out


def exported(folder, out):
    return carried_out("annotate", "export", folder, f"out={out}")


def gold_in(out):
    """Return the first record of the gold that was exported."""
    return rows(out / "annotated" / "task1" / "reference_output.jsonl")[0]


def right(step):
    """The label of a person who says 1 of every third answer, and keeps to it."""
    if step.said is not None:
        return as_form(step.said)
    return {"label": str(int(int(step.item.item_id[-4:]) % 3 == 0))}


def anchored(share, rng):
    """A person who moves this share of the labels that differ to what the judge says."""

    def answer(step):
        if step.stage == "revised" and step.said != step.shown and rng.random() < share:
            return as_form(step.shown)
        return right(step)

    return answer


@pytest.mark.parametrize("planted", [0.0, 0.2])
@pytest.mark.release
def test_a_planted_anchoring_is_found_within_five_points(tmp_path, planted):
    folder = plain_work(tmp_path / "work", 1200)
    label_all(folder, "anna", anchored(planted, random.Random(4)))
    found = export(folder, tmp_path / "out").anchoring["pa: label"]
    assert found.seen == 1200
    assert found.towards.n == 600
    assert abs(found.towards.value - planted) <= 0.05
    assert found.towards.low <= planted <= found.towards.high
    assert found.away.value == 0


def test_on_a_scale_with_an_order_nearer_is_towards(tmp_path):
    folder = plain_work(tmp_path / "work", 5, values=(1, 2, 3, 4, 5))

    def answer(step):
        shown = step.item.shown["label"]
        return {"label": str(1 if step.stage == "first" else max(1, shown - 1))}

    label_all(folder, "anna", answer)
    found = export(folder, tmp_path / "out").anchoring["pa: label"]
    # Of 2 … 5 that differ from 1, the second label is nearer for 3, 4 and 5.
    assert (found.towards.value, found.towards.n, found.away.n) == (0.75, 4, 1)


def test_what_is_exported_calibrates_the_judge_on_labels_from_before_it_was_seen(tmp_path):
    folder, out = plain_work(tmp_path / "work", 60), tmp_path / "labels"
    for person in ("anna", "ben"):
        label_all(folder, person, anchored(1.0, random.Random(0)))
    assert "60 items, 120 labels, 60 verdicts of the run's judge" in exported(folder, out)
    labels = read_labels(out)
    assert {labels.labels["task4_ability1/answer-0003"][name] for name in ("anna", "ben")} == {1}
    assert labels.annotators_of("pa") == ("anna", "ben")
    words = (f"labels={out}", f"verdicts={out / 'verdicts.jsonl'}")
    calibrated = carried_out("calibrate", *words, f"out={tmp_path / 'calibrated'}")
    report = json.loads((tmp_path / "calibrated" / "calibration.json").read_text())
    assert report["judge"] == "openai/judge"
    assert "corrects no scores" in " ".join(calibrated.split())


def test_revised_labels_are_exported_where_they_are_asked_for(tmp_path):
    folder = plain_work(tmp_path / "work", 10)
    label_all(folder, "anna", anchored(1.0, random.Random(0)))
    export(folder, tmp_path / "out", "revised")
    shown = {row["item_id"]: row["answer"]["label"] for row in rows(folder / "shown.jsonl")}
    assert {row["item_id"]: row["label"] for row in rows(tmp_path / "out/labels.jsonl")} == shown


def test_who_stops_early_exports_a_random_part_and_says_how_large_it_is(tmp_path):
    folder = plain_work(tmp_path / "work", 40)
    label_all(folder, "anna", right, most=20)
    export(folder, tmp_path / "out")
    sample = json.loads((tmp_path / "out" / "sample.json").read_text())["rubrics"]["pa"]
    assert (sample["drawn"], sample["population"], sample["random"]) == (10, 40, True)
    assert len(rows(tmp_path / "out" / "items.jsonl")) == 10


def test_what_was_adjudicated_is_the_truth_and_no_further_vote(tmp_path):
    folder = plain_work(tmp_path / "work", 6)
    label_all(folder, "anna", lambda step: {"label": "1"})
    label_all(folder, "ben", lambda step: {"label": "0"})
    assert label_all(folder, "cleo", lambda step: {"label": "1"}, adjudicate=True) == 6
    seat = Seat(folder, "anna")
    assert standing_of(seat).differing == 0
    seat.close()
    done = export(folder, tmp_path / "out")
    assert done.differing == 0
    labels = read_labels(tmp_path / "out")
    assert labels.annotators["adjudicated"] == "derived"
    assert labels.annotators_of("pa") == ("anna", "ben")
    with pytest.raises(
        UsageError, match="as=anna: anna has labelled items here; another person must adjudicate"
    ):
        Seat(folder, "anna", adjudicate=True)


def test_the_page_says_stop_when_the_interval_is_as_narrow_as_asked(tmp_path):
    folder = plain_work(tmp_path / "work", 300, target=0.1)

    def standing_after(most):
        label_all(folder, "anna", right, most=most)
        with closing(Seat(folder, "anna")) as seat:
            return standing_of(seat)

    assert standing_after(40).half is None  # 20 labels are too few to tell anybody to stop
    standing = standing_after(400)
    assert standing.half <= 0.1
    assert standing.reached
    assert standing.what == "agreement of judge and people"


def test_named_people_share_the_sessions_two_a_session_and_about_as_many_each(tmp_path):
    folder = plain_work(tmp_path / "work", 400, people=("anna", "ben", "cleo"))
    work = open_work(folder)
    orders = {name: order_for(work, name) for name in work.plan.people}
    assert order_for(open_work(folder), "anna") == orders["anna"]
    times = Counter(item.item_id for order in orders.values() for item in order)
    assert set(times.values()) == {2}
    assert max(map(len, orders.values())) - min(map(len, orders.values())) <= 10
    groups = [item.cluster for item in orders["ben"]]
    changes = sum(one != other for one, other in pairwise(groups))
    assert changes == len(set(groups)) - 1  # a session is read once
    with pytest.raises(UsageError, match="as=dora: not one of the annotators"):
        Seat(folder, "dora")


def verify(step):
    """A person who edits the first memory, rejects the second, keeps the others, and adds one."""
    if step.stage == "revised":
        return as_form(step.said)
    if step.item.rubric == "missing" and step.rows:
        return NO
    turns = [n for n, turn in enumerate(step.item.payload["dialogue"]) if turn["role"] == "user"]
    given = {"type": "direct", "time_scope": "past", "confidence": "0.65", "label": "UNMAPPED"}
    given |= {"evidence": str(turns[0]), "quote": ""}
    if step.item.rubric == "missing":
        return {**given, "verdict": "add", "value": "Likes rye bread"}
    verdict = {"m1": "edit", "m2": "reject"}.get(step.item.item_id.rpartition("/")[2], "keep")
    value = step.item.payload["memory"]["value"]
    return {**given, "verdict": verdict, "value": value + " (sure)" * (verdict == "edit")}


def verified(folder, n, source="samples"):
    """Make a folder of memories and have anna verify them; return it."""
    label_all(made(folder, "gold", str(source), n=n), "anna", verify)
    return folder


def adds_nothing(step):
    """Verify as anna does, but add no memory."""
    return NO if "/+" in step.item.item_id else verify(step)


def test_verified_gold_is_data_to_run_on_with_a_log_of_what_changed(tmp_path):
    out = tmp_path / "out"
    exported(verified(tmp_path / "work", 4), out)
    changes = rows(out / "changes.jsonl")
    by_id = {(row["record"], row["memory_id"]): row for row in changes}
    record = changes[0]["record"]
    assert by_id[record, "m1"]["what"] == "edited"
    assert by_id[record, "m1"]["fields"]["value"]["new"].endswith("(sure)")
    assert by_id[record, "m2"]["what"] == "rejected"
    assert by_id[record, "added-1"]["value"] == "Likes rye bread"
    assert all(row["by"] == ["anna"] for row in changes)
    row = gold_in(out)
    values = {item["memory_id"]: item for item in row["gold"]["memory_items"]}
    assert "m2" not in values
    assert values["added-1"]["evidence"]["session_id"] == row["session_id"]
    assert values["m1"]["confidence"] == 0.65
    words = ("task=extraction", "model=rules", f"data={out}", "baseline_records=0")
    carried_out("run", *words, f"out={tmp_path / 'run'}")
    carried_out("data", "audit", f"data={out}")


@pytest.mark.parametrize("track", ["../../../escaped", "/escaped", "task1\x00"])
def test_an_export_of_labels_writes_below_its_folder_alone(tmp_path, track):
    folder = verified(tmp_path / "work", 1)
    records = folder / "records.jsonl"
    write_rows(records, [{**row, "track": track} for row in rows(records)])
    said = alps_here("annotate", "export", folder, f"out={tmp_path / 'out'}").one_line
    assert "records.jsonl, line 1, track: " in said
    assert "is not a valid folder name" in said


def test_a_run_without_gold_can_become_gold(tmp_path):
    folder = verified(tmp_path / "work", 50, related_run(tmp_path / "run", limit=2))
    predicted = [row for row in rows(folder / "items.jsonl") if row["rubric"] == "gold"]
    assert {row["system"] for row in predicted} == {"rules"}
    assert export(folder, tmp_path / "out").counts["records"] == 2


def test_queries_are_exported_with_the_memory_that_they_are_for(tmp_path):
    folder = made(tmp_path / "work", "queries", "samples", n=3)
    asked = {"query": "What shall I cook?", "second": "Where shall I go?"}
    label_all(folder, "anna", lambda step: asked)
    done = export(folder, tmp_path / "out")
    assert done.counts["queries"] == 2 * done.counts["memories"]
    first = rows(Path(tmp_path / "out" / "queries.jsonl"))[0]
    assert (first["query"], first["by"]) == ("What shall I cook?", "anna")
    assert first["value"]


def test_nothing_is_exported_over_other_files_or_without_labels(tmp_path):
    folder = plain_work(tmp_path / "work", 2)
    with pytest.raises(UsageError, match="no labels yet"):
        export(folder, tmp_path / "out")
    with pytest.raises(UsageError, match="already exists"):
        export(folder, folder)


def test_a_memory_that_one_of_two_adds_is_decided_like_any_other_difference(tmp_path):
    folder = verified(tmp_path / "work", 1)
    label_all(folder, "ben", adds_nothing)
    assert export(folder, tmp_path / "before").counts["undecided"] == 1
    decided = label_all(folder, "cleo", lambda step: as_form(step.others[0]), adjudicate=True)
    assert decided == 1
    done = export(folder, tmp_path / "out")
    assert done.differing == 0
    (added,) = [row for row in rows(tmp_path / "out/changes.jsonl") if row["what"] == "added"]
    assert added["value"] == "Likes rye bread"
    assert (added["by"], added["adjudicated"]) == (["anna"], "cleo")
    assert gold_in(tmp_path / "out")["gold"]["memory_items"][-1]["value"] == "Likes rye bread"


def test_a_memory_that_both_add_in_the_same_words_is_one_and_needs_no_decision(tmp_path):
    folder = verified(tmp_path / "work", 1)
    label_all(folder, "ben", verify)
    assert label_all(folder, "cleo", verify, adjudicate=True) == 0
    export(folder, tmp_path / "out")
    (added,) = [row for row in rows(tmp_path / "out/changes.jsonl") if row["what"] == "added"]
    assert (added["value"], added["by"]) == ("Likes rye bread", ["anna", "ben"])


def test_two_who_verify_memories_differently_are_decided_between(tmp_path):
    folder, reject = verified(tmp_path / "work", 1), {"verdict": "reject"}
    label_all(folder, "ben", lambda step: NO if "/+" in step.item.item_id else reject)
    undecided = export(folder, tmp_path / "before")
    (record,) = rows(folder / "records.jsonl")
    old = record["gold"]["gold"]["memory_items"]
    kept = [item for item in old if item["memory_id"] != old[1]["memory_id"]]
    assert gold_in(tmp_path / "before")["gold"]["memory_items"] == kept
    # Both reject the second memory, and anna alone adds one.
    assert undecided.differing == len(old)
    label_all(folder, "cleo", lambda step: reject, adjudicate=True)
    export(folder, tmp_path / "out")
    assert gold_in(tmp_path / "out")["gold"]["memory_items"] == []


def test_how_people_agree_on_gold_is_measured_on_what_is_exported(tmp_path):
    folder = verified(tmp_path / "work", 12)
    label_all(folder, "ben", adds_nothing)
    assert "Agreement: alps annotate agreement" in exported(folder, tmp_path / "out")
    words = (tmp_path / "out", f"out={tmp_path / 'agreement.json'}")
    measured = carried_out("annotate", "agreement", *words)
    assert "annotator_anna and annotator_ben" in measured
    assert "set F1" in measured


@pytest.mark.release
def test_three_people_and_several_records_of_a_session_are_compared(tmp_path):
    words = ("task=all", "model=rules", "data=samples", "limit=3", "baseline_records=0")
    carried_out("run", *words, f"out={tmp_path / 'run'}")
    folder = verified(tmp_path / "work", 40, tmp_path / "run")
    assert "alps annotate agreement" not in exported(folder, tmp_path / "alone")
    for name in ("ben", "cleo"):
        label_all(folder, name, verify)
    told = exported(folder, tmp_path / "out").splitlines()
    said = [line for line in told if "Agreement: alps annotate agreement " in line]
    assert len(said) == 3
    for line in said:
        words = line.partition("agreement ")[2].split()
        assert "set F1" in carried_out("annotate", "agreement", *words)


def test_memories_under_one_id_or_none_are_each_verified(tmp_path):
    dialogue = [{"role": "user", "text": "I live in Graz and row. I like rye bread."}]
    about = {"benchmark_id": "b0", "session_id": "s0", "task": "task1"}
    values = ("Lives in Graz", "Likes rye bread", "Rows")
    items = []
    for name, value in zip(("m1", "m1", ""), values, strict=True):
        items.append({"memory_id": name, "value": value, "type": "direct"})
    shown, gold = {"dialogue": dialogue}, {"memory_items": items}
    track = tmp_path / "data" / "dev" / "task1"
    write_track(track, [({**about, "input": shown}, {**about, "gold": gold})])
    folder = made(tmp_path / "work", "gold", str(tmp_path / "data"), n=9)

    def keep(step):
        if step.said:
            return as_form(step.said)
        if step.item.rubric == "missing":
            return NO
        value = step.item.payload["memory"]["value"]
        return {**verify(step), "verdict": "keep", "value": value}

    label_all(folder, "anna", keep)
    exported(folder, tmp_path / "out")
    assert len(rows(tmp_path / "out" / "annotated" / "task1" / "reference_output.jsonl")) == 1
    kept = gold_in(tmp_path / "out")["gold"]["memory_items"]
    assert {item["value"] for item in kept} == set(values)
    assert len({item["memory_id"] for item in kept}) == 3


def test_four_steps_lead_from_a_run_to_a_calibrated_judge(tmp_path):
    run = related_run(tmp_path / "run")
    folder = made(tmp_path / "work", "match", str(run), n=40)
    for person in ("anna", "ben"):
        label_all(folder, person, lambda step: {"label": "same"})
    exported(folder, tmp_path / "labels")
    out = tmp_path / "calibrations" / "own"
    words = (f"labels={tmp_path / 'labels'}", "judge=lexical", f"out={out}")
    carried_out("calibrate", *words)
    assert json.loads((out / "calibration.json").read_text())["judge_fingerprint"] is not None


@pytest.mark.release
def test_what_repeats_answer_alike_is_audited_once(tmp_path):
    run = tmp_path / "run"
    words = ("run", "task=extraction", "model=rules", "data=samples", "repeats=2")
    carried_out(*words, "baseline_records=0", f"out={run}")
    folder = made(tmp_path / "work", "match", str(run), audit=0.8)
    shown = [json.dumps(row["payload"], sort_keys=True) for row in rows(folder / "items.jsonl")]
    assert len(shown) == len(set(shown)) > 20
    label_all(folder, "anna", lambda step: {"label": "unrelated"})
    exported(folder, tmp_path / "labels")
    carried_out("score", run, f"audit_labels={tmp_path / 'labels'}")
    score = summary(run)["audit"]["tracks"]["task1"]["scores"]["f1"]
    assert (score["audited"], "reason" in score) == (42, False)
