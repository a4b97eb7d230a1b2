import json
import shutil
from pathlib import Path

import pytest
from rich.cells import cell_len

from alps.data.release import read_samples
from alps.errors import RunFolderError, UsageError
from alps.ext.looking.dialogue import Span, excerpt, locate
from alps.ext.looking.record import build_view, explain
from alps.ext.looking.record_text import read_keys
from alps.run.opened import AnswerKey, find_run, open_run
from alps.show.formatting import duration, visible
from alps.show.named_record import pick
from alps.tasks import load_task
from alps.tasks.record_parts import AnsweredRecord
from tests.builders import extraction_sample, memories, memory
from tests.endtoend import rows, write_rows
from tests.report_runs import RECORDS, folded, shown


@pytest.fixture
def samples_run(place):
    return place / "samples-run"


@pytest.mark.few(8)
@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("colour", [False, True])
def test_every_record_fits_eighty_columns_and_steers_no_terminal(hard_run, name, colour):
    text = shown(hard_run, name)
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert all(character == "\n" or character >= " " for character in text)
    assert "\u202e" not in text
    assert "\x1b[2J" not in shown(hard_run, name, colour=colour)


def test_every_sample_can_be_shown(samples_run):
    for name in [row["benchmark_id"] for row in rows(samples_run / "scores.jsonl")]:
        text = shown(samples_run, name)
        assert text.startswith(name)
        assert "Dialogue" in text
    assert "turns (--full" not in shown(samples_run, name, full=True)


ONE_TRACK = [AnswerKey("task1", name) for name in RECORDS]
TWO_TRACKS = [
    *(AnswerKey("task1", name) for name in ("s1", "s2")),
    *(AnswerKey("task2", name) for name in ("s2", "t/1", "7")),
]
ANSWERS = [AnswerKey("task1", name) for name in ("a", "b", "c#1")]


@pytest.mark.parametrize(
    ("keys", "word", "key"),
    [
        (ONE_TRACK, "3", AnswerKey("task1", "steering")),
        (ONE_TRACK, "mend", AnswerKey("task1", "mended")),
        (ONE_TRACK, "long", AnswerKey("task1", "long")),
        (ONE_TRACK, "17", AnswerKey("task1", "unheard")),
        (TWO_TRACKS, "s1", AnswerKey("task1", "s1")),
        (TWO_TRACKS, "task2/s2", AnswerKey("task2", "s2")),
        (TWO_TRACKS, "task2/1", AnswerKey("task2", "s2")),
        (TWO_TRACKS, "task1/s2", AnswerKey("task1", "s2")),
        (TWO_TRACKS, "t/1", AnswerKey("task2", "t/1")),
        (TWO_TRACKS, "task2/t/1", AnswerKey("task2", "t/1")),
        (TWO_TRACKS, "t", AnswerKey("task2", "t/1")),
        (TWO_TRACKS, "7", AnswerKey("task2", "7")),
        (ANSWERS, "b#2", AnswerKey("task1", "b", 1)),
        (ANSWERS, "b", AnswerKey("task1", "b", 0)),
        (ANSWERS, "c#1", AnswerKey("task1", "c#1", 0)),
        (ANSWERS, "task1/c#1#3", AnswerKey("task1", "c#1", 2)),
    ],
)
def test_a_record_is_named_by_its_number_its_beginning_its_track_and_its_answer(keys, word, key):
    assert pick(word, keys, repeats=3 if keys is ANSWERS else 1, where="run") == key


@pytest.mark.parametrize(
    ("keys", "word", "message"),
    [
        (ONE_TRACK, "refsued", "did you mean 'refused'"),
        (ONE_TRACK, "un", "begins 3 ids"),
        (ONE_TRACK, "18", "has 17 records; no record has number 18"),
        (ONE_TRACK, "", "no such record"),
        (ONE_TRACK, "perfect#2", "no such record"),
        (ONE_TRACK, "²", "no such record"),
        (ONE_TRACK, "perfect#²", "no such record"),
        (ONE_TRACK, "9" * 400, "no record has number 9"),
        (ONE_TRACK, "perfect#" + "9" * 5_000, "no such record"),
        (TWO_TRACKS, "s2", "'s2' is in 2 tasks of run; write extraction/s2 or update/s2"),
        (TWO_TRACKS, "1", "run has 2 tasks; write extraction/1, or another task"),
        (TWO_TRACKS, "update/s1", "'s1': no such record in update of run"),
        (TWO_TRACKS, "task1/3", "extraction of run has 2 records; no record has number 3"),
        (TWO_TRACKS, "s", "'s' begins 2 ids of run"),
        (ANSWERS, "b#4", "no such"),
    ],
)
def test_a_word_that_names_no_record_or_several_is_a_usage_error(keys, word, message):
    with pytest.raises(UsageError, match=message):
        pick(word, keys, repeats=3 if keys is ANSWERS else 1, where="run")


def test_without_its_data_the_rest_is_shown(hard_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = shown(hard_run, "relations")
    why = "data not readable, so dialogues and gold are not shown: data=data: no such folder"
    assert why in folded(text)
    assert "g1 Runs 10 km" in text
    assert "g3 (its text is in the data)" in text
    assert "Dialogue" not in text


def test_changed_data_is_not_shown(hard_run, tmp_path, monkeypatch):
    shutil.copytree(hard_run.parent / "data", tmp_path / "data")
    with (tmp_path / "data" / "dev" / "task1" / "model_input.jsonl").open("a") as file:
        file.write("\n")
    monkeypatch.chdir(tmp_path)
    assert "has changed since this run" in folded(shown(hard_run, "relations"))


def test_records_of_an_unfinished_run_can_be_shown(copied_run):
    (copied_run / "summary.json").unlink()
    kept = (copied_run / "scores.jsonl").read_bytes().splitlines(True)
    (copied_run / "scores.jsonl").write_bytes(b"".join(kept[:3]) + kept[3][:20])
    assert read_keys(open_run(copied_run)) == [AnswerKey("task1", name) for name in RECORDS]
    assert "unfinished" in shown(copied_run, "unheard")
    assert "⊂" not in shown(copied_run, "relations")


def test_a_failed_record_says_its_cause_before_its_dialogue(hard_run):
    first = shown(hard_run, "unheard").partition("Dialogue")[0]
    assert "transport: it was transport; unscored" in first


def test_a_folder_without_a_run_and_an_unknown_record_are_said(hard_run, tmp_path):
    with pytest.raises(UsageError, match=r"no run here \(manifest.json is missing\)"):
        shown(tmp_path, "1")
    with pytest.raises(UsageError, match="did you mean 'refused'"):
        shown(hard_run, "refsued")
    assert shown(hard_run, "3") == shown(hard_run, "steering")


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(lambda given: "not JSON", id="no JSON"),
        pytest.param(lambda given: "[]", id="a list"),
        pytest.param(lambda given: "{}", id="nothing"),
        pytest.param(lambda given: '{"settings": {}}', id="no settings"),
        pytest.param(lambda given: changed(given, "settings", repeats="²"), id="an odd digit"),
        pytest.param(lambda given: changed(given, "settings", repeats=[1]), id="a list of repeats"),
        pytest.param(lambda given: json.dumps({**given, "data": {"x": {}}}), id="other data"),
    ],
)
def test_a_broken_manifest_is_said(copied_run, manifest):
    path = copied_run / "manifest.json"
    path.write_text(manifest(json.loads(path.read_text())))
    with pytest.raises(RunFolderError, match=r"manifest\.json"):
        shown(copied_run, "1")


def changed(manifest, part, **values):
    return json.dumps({**manifest, part: {**manifest[part], **values}})


@pytest.mark.parametrize(
    "broken", [{"prediction": ["x"]}, {"prediction": {"memory_items": 3}}, {"notes": 3}]
)
def test_a_row_of_another_shape_is_named(copied_run, broken):
    path = copied_run / "predictions.jsonl"
    given = rows(path)
    first = next(row for row in given if row["prediction"])
    first |= broken
    write_rows(path, given)
    name = first["benchmark_id"]
    said = rf"{name}.*predictions\.jsonl.*repeat the run with another out"
    with pytest.raises(RunFolderError, match=said):
        shown(copied_run, name)


def test_a_run_is_found_by_path_or_by_name(place, tmp_path, monkeypatch):
    shutil.copytree(place / "samples-run", tmp_path / "runs" / "one-run")
    monkeypatch.chdir(tmp_path)
    assert find_run("one-run") == find_run("runs/one-run") == Path("runs/one-run")
    with pytest.raises(UsageError, match="did you mean 'one-run'"):
        find_run("one-rnu")
    with pytest.raises(UsageError, match="no run here"):
        find_run("runs")


def test_the_support_of_an_extra_prediction_is_told():
    sample = extraction_sample(memories("Lives in Graz"), "I live in Graz and I have a cat")
    items = [item.model_dump() for item in memories("Lives in Graz", "Has a cat", "Has a dog")]
    pair = {"gold": "g1", "predicted": "p1", "relation": "same", "reason": "identical values"}
    supported = {"id": "p2", "support": "supported", "reason": "said"}
    support = {"items": [supported], "error": None, "raw": None}
    extra = [{"id": "p2", "value": "Has a cat"}, {"id": "p3", "value": "Has a dog"}]
    answered = AnsweredRecord(
        sample,
        prediction={"outcome": "ok", "prediction": {"memory_items": items}},
        verdict={"pairs": [pair], "support": support},
        score={
            "stage": "score",
            "outcome": "ok",
            "matched": [["g1", "p1", "same"]],
            "missed": [],
            "extra": extra,
        },
    )
    view = build_view(AnswerKey("task1", "b1"), load_task("extraction"), answered)
    assert [pairing.kind for pairing in view.pairings] == ["matched", "extra", "extra"]
    assert view.pairings[1].remarks == (
        "supported by the dialogue; annotators may have missed this memory – said",
    )
    assert view.pairings[2].remarks == ()


def quoting(text, turn):
    return {"session_id": None, "utterance_index": turn, "text": text}


@pytest.mark.parametrize(
    ("quote", "marked"),
    [
        ("I live in Graz", ["I live in Graz"]),
        ("i LIVE  in\ngraz", ["I live in Graz"]),
        ("I live in … keep two bees", ["I live in", "keep two bees"]),
        ("I live in [...] two bees", ["I live in", "two bees"]),
        ("I live at Graz and", ["I live in Graz and"]),
        ("I never said this at all", []),
        ("", []),
    ],
)
def test_a_quote_is_found_though_it_was_shortened_or_mistyped(quote, marked):
    said = "I live in Graz and keep two bees."
    sample = extraction_sample([memory("x", evidence=quoting(quote, 2))], "Hello", said)
    found = locate({"g1": sample.gold[0]}, sample.dialogue)
    assert [said[span.start : span.end] for span in found.spans.get(2, [])] == marked
    assert found.pointed == {2: ["g1"]}


def test_a_quote_is_also_found_in_a_turn_that_was_not_named():
    evidence = quoting("I keep bees", 99)
    sample = extraction_sample([memory("x", evidence=evidence)], "Hello", "Yes, I keep bees.")
    assert locate({"g1": sample.gold[0]}, sample.dialogue).spans == {2: [Span(5, 16, ("g1",))]}


def test_overlapping_quotes_are_marked_once_with_both_names():
    quotes = ("I keep two bees", "two bees and a cat")
    first, second = (memory("x", evidence=quoting(quote, 0)) for quote in quotes)
    sample = extraction_sample([first, second], "I keep two bees and a cat.")
    found = locate({"g1": first, "g2": second}, sample.dialogue)
    assert found.spans == {0: [Span(0, 25, ("g1", "g2"))]}


@pytest.mark.parametrize("length", [10, 200, 1_000])
@pytest.mark.parametrize("limit", [50, 400])
def test_an_excerpt_accounts_for_every_character(length, limit):
    text = "".join(chr(0x4E00 + n) for n in range(length))
    span = Span(length // 2, length // 2 + 5, ("g1",))
    pieces = excerpt(text, [span], limit=limit, context=20)
    assert sum(len(piece.text) + piece.left_out for piece in pieces) == length
    assert [piece.text for piece in pieces if piece.gold] == [text[span.start : span.end]]


def test_a_short_text_is_kept_whole_around_its_quotes():
    spans = [Span(1, 3, ("g1",)), Span(3, 5, ("g2",)), Span(6, 8, ("g1",))]
    pieces = excerpt("abcdefghij", spans, limit=50)
    assert [piece.text for piece in pieces] == ["a", "bc", "de", "f", "gh", "ij"]
    assert [piece.gold for piece in pieces] == [(), ("g1",), ("g2",), (), ("g1",), ()]


@pytest.mark.real
def test_nearly_every_quote_of_real_gold_is_found(sample):
    folder = sample / "benchmark_data" / "dev" / "task1"
    total = found = 0
    for record in read_samples(folder, load_task("extraction").read_sample):
        gold = {}
        for number, memory_ in enumerate(record.gold):
            if memory_.evidence and memory_.evidence.text:
                gold[str(number)] = memory_
        total += len(gold)
        names = set()
        for spans in locate(gold, record.dialogue).spans.values():
            names.update(*(span.gold for span in spans))
        found += len(names)
    assert found / total > 0.98


def test_control_characters_become_visible():
    assert visible("a\x00b\x1b[0m\x7f\x85\ud800\u202ec\r\nd\te") == "a␀b␛[0m␡\ufffd\ufffdc\nd\te"
    assert visible("naïve 日本語 עברית") == "naïve 日本語 עברית"


@pytest.mark.parametrize(
    "state",
    ["ok", "repaired", "unfinished", "refused", "transport", "judge:empty", "judge:no_gold"],
)
def test_every_state_is_put_in_words(state):
    assert "?" not in explain(state)
    assert "unknown" not in explain(state)


def test_rows_of_the_journals_are_read_as_far_as_they_can_be(copied_run):
    again = {"benchmark_id": "perfect", "repeat": 1, "scores": {}}
    with (copied_run / "scores.jsonl").open("a", encoding="utf-8") as file:
        file.write(f"garbage\n{json.dumps(again)}\n")
    there = {AnswerKey("task1", name) for name in RECORDS}
    assert set(open_run(copied_run).rows("scores")) == there | {AnswerKey("task1", "perfect", 1)}


@pytest.mark.parametrize(
    ("took", "said"),
    [
        (0.004, "4 ms"),
        (0.04, "40 ms"),
        (2.84, "2.8 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (185.2, "3 min 5 s"),
        (3599.8, "1 h 0 min"),
        (7812, "2 h 10 min"),
    ],
)
def test_a_wait_is_said_in_two_numbers_at_most(took, said):
    assert duration(took) == said
