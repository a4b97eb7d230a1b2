import json
import time
from dataclasses import replace

import pytest

from tests.endtoend import complete_rows, rows, wait_until, write_rows
from tests.loopback import Answer, serve
from tests.tracks import alps_here, felt, met, payload_of

BINARY = {"kind": "nominal", "values": [0, 1]}
RELATIONS = ["same", "narrower", "bundle", "broader", "conflicting", "related", "unrelated"]
TALK = [{"role": "user", "text": "No nuts for me, please."}]


def write_labels(folder, scales, items):
    """Write a label folder; an item is its rubric, its payload, and what anna and ben say of it."""
    folder.mkdir()
    shown, labels = [], []
    for number, (rubric, payload, *given) in enumerate(items):
        shown.append({"item_id": f"i{number}", "rubric": rubric, "payload": payload})
        labels += [
            {"item_id": f"i{number}", "annotator": who, "label": label}
            for who, label in zip(("anna", "ben"), given, strict=True)
        ]
    (folder / "scale.json").write_text(json.dumps(scales))
    for name, found in (("items", shown), ("labels", labels)):
        write_rows(folder / f"{name}.jsonl", found)
    return folder


def answer(response, **fields):
    return {
        "query": "What shall I eat?",
        "response": response,
        "memory": "No nuts",
        "dialogue": TALK,
        **fields,
    }


def twelve(folder):
    """Six good and six bad answers, which anna and ben tell apart."""
    good = [("pa", answer(f"good risotto number {n}"), 1, 1) for n in range(6)]
    bad = [("pa", answer(f"poor walnut cake number {n}"), 0, 0) for n in range(6)]
    return write_labels(folder, {"pa": BINARY}, [*good, *bad])


def by_the_word(body):
    """Accept what calls itself good, and one bad answer."""
    response = payload_of(body)["response"]
    return met("met" if response.startswith("good") or response.endswith("number 5") else "not_met")


def calibrate(folder, url, *words, labels="labels", out="out"):
    where = (
        f"labels={folder / labels}",
        f"out={folder / out}",
        "judge=openai/scripted-judge",
        f"judge_api_base={url}",
    )
    ran = alps_here("calibrate", *where, *words)
    assert "Traceback" not in ran.err
    return ran


def found(folder, out="out"):
    return json.loads((folder / out / "calibration.json").read_text())


def test_a_judge_is_asked_what_a_run_asks_it_and_held_against_people(tmp_path):
    twelve(tmp_path / "labels")
    with serve(by_the_word) as server:
        ran = calibrate(tmp_path, server.url)
        asked = [payload_of(body) for body in server.requests]
        again = calibrate(tmp_path, server.url)
        assert len(server.requests) == 12
    assert ran.code == again.code == 0, ran.err
    assert "12 calls" in ran.out
    assert {"kind": "rubric", "rubric": "pa", **answer("good risotto number 0")} in asked
    report = found(tmp_path)["rubrics"]["pa"]
    assert [report[cell] for cell in ("tp", "fn", "fp", "tn")] == [6, 0, 1, 5]
    assert (tmp_path / "out" / "calibration.html").stat().st_size > 1_000


def test_a_calibration_is_bound_to_the_judge_and_to_the_text_of_the_rubric(tmp_path):
    twelve(tmp_path / "labels")
    with serve(by_the_word) as server:
        calibrate(tmp_path, server.url)
        hot = calibrate(tmp_path, server.url, "judge_temperature=0.5", out="hot")
    assert hot.code == 0
    cold, warm = found(tmp_path), found(tmp_path, "hot")
    assert cold["fingerprint"] != warm["fingerprint"]
    assert len(cold["rubrics"]["pa"]["rubric_sha256"]) == 64
    assert cold["expires"] > cold["made"]
    assert cold["pinned"] is False


@pytest.fixture
def at(monkeypatch):
    """Set the time zone, as on a machine elsewhere; it is put back at the end."""

    def go(zone):
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield go
    monkeypatch.undo()
    time.tzset()


def test_a_verdict_given_where_it_is_tomorrow_already_is_kept(tmp_path, monkeypatch, at):
    monkeypatch.setenv("ALPS_CACHE", "off")
    twelve(tmp_path / "labels")
    with serve(by_the_word) as server:
        at("Pacific/Kiritimati")
        calibrate(tmp_path, server.url)
        at("Pacific/Midway")
        assert calibrate(tmp_path, server.url).code == 0
        assert len(server.requests) == 12


def test_a_refused_key_ends_a_calibration_and_what_was_heard_by_then_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPS_CACHE", "off")
    twelve(tmp_path / "labels")

    journal = tmp_path / "out" / "verdicts.jsonl"

    def refusing(body):
        response = payload_of(body)["response"]
        if response.endswith("cake number 5"):
            wait_until(lambda: journal.exists() and len(complete_rows(journal)) == 10)
            return Answer(status=401)
        return replace(by_the_word(body), delay=3 if response.endswith("risotto number 5") else 0)

    with serve(refusing) as server:
        assert "refused the key" in calibrate(tmp_path, server.url, "concurrency=12").one_line
        assert len(rows(journal)) == 10
        server.script, place = by_the_word, len(server.requests)
        assert calibrate(tmp_path, server.url).code == 0
        assert len(server.requests) - place == 2


def test_the_folder_of_other_labels_is_refused(tmp_path):
    twelve(tmp_path / "labels")
    write_labels(tmp_path / "others", {"pa": BINARY}, [("pa", answer("good"), 1, 1)])
    with serve(by_the_word) as server:
        calibrate(tmp_path, server.url)
        assert "holds another run" in calibrate(tmp_path, server.url, labels="others").one_line


def test_an_answer_that_is_no_verdict_is_counted_and_a_judge_that_is_gone_is_not(
    tmp_path, monkeypatch
):
    twelve(tmp_path / "labels")

    def moody(body):
        response = payload_of(body)["response"]
        if response.endswith("number 1"):
            return Answer("I would rather not say.")
        return Answer(status=400) if response.endswith("number 2") else by_the_word(body)

    with serve(moody) as server:
        ran = calibrate(tmp_path, server.url)
        assert ran.code == 1
        assert "Left out: 2 items without a response" in ran.out
        report = found(tmp_path)["rubrics"]["pa"]
        assert (report["n"], report["unparsed"]) == (8, 2)
        assert len(rows(tmp_path / "out" / "verdicts.jsonl")) == 10
        server.requests.clear()
        server.script = by_the_word
        assert calibrate(tmp_path, server.url).code == 0
        assert len(server.requests) == 2


def test_a_budget_that_allows_no_question_at_all_ends_as_that_of_a_run_does(tmp_path):
    twelve(tmp_path / "labels")
    with serve(by_the_word) as server:
        ran = calibrate(tmp_path, server.url, "max_total_tokens=1", "judge_max_tokens=50")
        assert server.requests == []
        assert ran.code == 3, ran.err
        assert (
            "no item was judged: not within the budget: 0 of max_total_tokens=1 are spent"
            in ran.err
        )
        assert "another call may use 1,9" in ran.err
        assert "; to resume, repeat the command with a larger budget" in ran.err
        assert len(ran.err.splitlines()) == 1
        assert calibrate(tmp_path, server.url, "judge_max_tokens=50").code == 0


def test_the_three_dimensions_of_an_answer_cost_one_call(tmp_path):
    scale = {"kind": "ordinal", "values": [1, 2, 3, 4, 5]}
    names = ("resonation", "expression", "reception")
    items = [
        (f"ei_{name}", answer(f"I hear you, number {n}"), mark, mark)
        for n in range(3)
        for name, mark in zip(names, (2, 3, 5), strict=True)
    ]
    write_labels(tmp_path / "labels", {f"ei_{name}": scale for name in names}, items)
    with serve(lambda body: felt(2, 3, 4)) as server:
        assert calibrate(tmp_path, server.url).code == 0
        assert len(server.requests) == 3
    reports = found(tmp_path)["rubrics"]
    assert [reports[f"ei_{name}"]["mae"]["value"] for name in names] == [0, 0, 1]


def related(relation):
    pairs = [{"reason": "so it reads", "gold": "g1", "predicted": "p1", "relation": relation}]
    return Answer(json.dumps({"pairs": pairs if relation != "unrelated" else []}))


@pytest.mark.parametrize(
    "scale", [BINARY, {"kind": "nominal", "values": RELATIONS}], ids=["binary", "relations"]
)
def test_pairs_of_memories_are_put_before_the_matching_judge(tmp_path, scale):
    items = []
    for relation in RELATIONS:
        label = relation if len(scale["values"]) > 2 else int(relation in ("same", "narrower"))
        pair = {
            "gold": {"value": "Keeps bees"},
            "predicted": {"value": f"is {relation} to keeping bees"},
        }
        items.append(("matching", pair, label, label))
    write_labels(tmp_path / "labels", {"matching": scale}, items)
    with serve(
        lambda body: related(payload_of(body)["predicted"][0]["value"].split()[1])
    ) as server:
        assert calibrate(tmp_path, server.url).code == 0
    assert found(tmp_path)["rubrics"]["matching"]["agreement"]["value"] == 1


def test_a_judge_that_is_asked_again_and_again_tells_its_self_agreement(tmp_path):
    twelve(tmp_path / "labels")
    told = []

    def wavering(body):
        told.append(body)
        return met("met" if len(told) % 2 else "not_met")

    with serve(wavering) as server:
        calibrate(tmp_path, server.url, "judge_repeats=3")
        assert len(server.requests) == 36
    assert all(len(row["draws"]) == 3 for row in rows(tmp_path / "out" / "verdicts.jsonl"))
    assert found(tmp_path)["rubrics"]["pa"]["self_agreement"]["value"] < 1


def test_a_rubric_of_ones_own_lies_in_the_label_folder(tmp_path):
    folder = write_labels(
        tmp_path / "labels", {"brevity": BINARY}, [("brevity", answer("good"), 1, 1)] * 2
    )
    with serve(by_the_word) as server:
        assert "write them to rubrics/brevity.md" in calibrate(tmp_path, server.url).one_line
        (folder / "rubrics").mkdir()
        (folder / "rubrics" / "brevity.md").write_text(
            "<!-- id: brevity/1 -->\nMet if it is short.\n"
        )
        assert calibrate(tmp_path, server.url).code == 0
        assert "Met if it is short." in server.requests[0]["messages"][0]["content"]


@pytest.mark.parametrize(
    ("rubric", "scale", "payload", "said"),
    [
        ("pa", BINARY, {"query": "x"}, "item i0: payload.response must be a string"),
        ("pa", BINARY, answer("x", dialogue="hello"), "payload.dialogue must be a list"),
        ("pa", BINARY, answer("x", dialogue=[{"role": "user"}]), "payload.dialogue: text"),
        ("matching", BINARY, {"gold": {"value": "x"}}, "payload.predicted must be a memory"),
        (
            "matching",
            {"kind": "nominal", "values": ["same", "other", "no"]},
            {},
            "a judge can return narrower",
        ),
        ("pa", {"kind": "ordinal", "values": [1, 2, 3]}, answer("x"), "a judge can return 0"),
    ],
    ids=[
        "no response",
        "no turns",
        "a turn without text",
        "no pair",
        "odd relations",
        "another scale",
    ],
)
def test_what_a_judge_can_not_be_asked_is_one_line_before_anything_is_asked(
    tmp_path, rubric, scale, payload, said
):
    label = scale["values"][0]
    write_labels(tmp_path / "labels", {rubric: scale}, [(rubric, payload, label, label)])
    with serve(by_the_word) as server:
        assert said in calibrate(tmp_path, server.url).one_line
        assert not server.requests


def test_a_budget_stops_it_with_its_own_exit_code(tmp_path):
    twelve(tmp_path / "labels")
    with serve(by_the_word) as server:
        ran = calibrate(
            tmp_path, server.url, "max_total_tokens=9000", "judge_max_tokens=100", "concurrency=1"
        )
    assert ran.code == 3, ran
    assert "the budget is spent" in ran.err
