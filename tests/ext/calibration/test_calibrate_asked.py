"""`alps calibrate` asks a judge: what it is asked, what is kept of it, and what is refused."""

import json
import time
from dataclasses import replace
from datetime import date, timedelta
from html import unescape

import pytest

from alps.judges.rubric import rubric
from tests.endtoend import complete_rows, rows, wait_until, write_rows
from tests.label_folders import BINARY, FIVE, write
from tests.loopback import Answer, serve
from tests.report_runs import folded
from tests.tracks import alps_here, felt, met, payload_of

RELATIONS = ["same", "narrower", "bundle", "broader", "conflicting", "related", "unrelated"]
TALK = [{"role": "user", "text": "No nuts for me, please."}]
PAIR = {"gold": {"value": "Keeps bees"}, "predicted": {"value": "Keeps bees"}}
CHOSEN = "the pairs were chosen by a judge's verdicts and by similarity"


def nominal(*values):
    return {"kind": "nominal", "values": list(values)}


def write_labels(folder, scales, items):
    """Write a label folder; an item is its rubric, its payload, and what anna and ben say of it."""
    labelled = []
    for name, payload, label in items:
        labelled.append((name, {"anna": label, "ben": label}, None, {"payload": payload}))
    (write(folder, scales, labelled) / "verdicts.jsonl").unlink()
    return folder


def answer(response, **fields):
    asked = {"query": "What shall I eat?", "response": response, "memory": "No nuts"}
    return {**asked, "dialogue": TALK, **fields}


@pytest.fixture
def twelve(tmp_path):
    """A label folder: six good and six bad answers, which anna and ben tell apart."""
    good = [("pa", answer(f"good risotto number {n}"), 1) for n in range(6)]
    bad = [("pa", answer(f"poor walnut cake number {n}"), 0) for n in range(6)]
    return write_labels(tmp_path / "labels", {"pa": BINARY}, [*good, *bad])


@pytest.fixture
def uncached(monkeypatch):
    monkeypatch.setenv("ALPS_CACHE", "off")


def by_the_word(body):
    """Accept what calls itself good, and one bad answer."""
    response = payload_of(body)["response"]
    return met("met" if response.startswith("good") or response.endswith("number 5") else "not_met")


@pytest.fixture
def server():
    with serve(by_the_word) as running:
        yield running


def calibrate(folder, server, *words, labels="labels", out="out"):
    where = (f"labels={folder / labels}", f"out={folder / out}", "judge=openai/scripted-judge")
    ran = alps_here("calibrate", *where, f"judge_api_base={server.url}", *words)
    assert "Traceback" not in ran.err
    return ran


def lexical(folder, *more):
    where = (f"labels={folder / 'labels'}", f"out={folder / 'out'}")
    ran = alps_here("calibrate", "judge=lexical", *where, *more)
    assert "Traceback" not in ran.err
    return ran


def found(folder, out="out"):
    return json.loads((folder / out / "calibration.json").read_text())


def cells(folder, out="out"):
    report = found(folder, out)["rubrics"]["pa"]
    return [report[cell] for cell in ("tp", "fn", "fp", "tn")]


def test_a_judge_is_asked_what_a_run_asks_it_and_held_against_people(tmp_path, twelve, server):
    ran = calibrate(tmp_path, server)
    asked = [payload_of(body) for body in server.requests]
    again = calibrate(tmp_path, server)
    assert len(server.requests) == 12
    assert ran.code == again.code == 0, ran.err
    assert "12 calls" in ran.out
    assert {"kind": "rubric", "rubric": "pa", **answer("good risotto number 0")} in asked
    assert cells(tmp_path) == [6, 0, 1, 5]
    assert (tmp_path / "out" / "calibration.html").stat().st_size > 1_000


def test_a_calibration_is_bound_to_its_judge_labels_and_rubric(tmp_path, twelve, server):
    write_labels(tmp_path / "others", {"pa": BINARY}, [("pa", answer("good"), 1)])
    calibrate(tmp_path, server)
    assert calibrate(tmp_path, server, "judge_temperature=0.5", out="hot").code == 0
    cold, warm = found(tmp_path), found(tmp_path, "hot")
    assert cold["fingerprint"] != warm["fingerprint"]
    assert len(cold["rubrics"]["pa"]["rubric_sha256"]) == 64
    assert cold["expires"] > cold["made"]
    assert cold["pinned"] is False
    assert "holds another run" in calibrate(tmp_path, server, labels="others").one_line
    with serve(lambda body: met("met")) as other:
        assert "settings.judge_api_base" in calibrate(tmp_path, other).one_line
        assert not other.requests


def test_a_mistyped_address_is_corrected_in_the_same_folder(tmp_path, twelve, server):
    words = (f"labels={tmp_path / 'labels'}", f"out={tmp_path / 'out'}")
    judge = ("judge=openai/scripted-judge", "judge_api_base=http://127.0.0.1:1/v1")
    assert "cannot connect" in alps_here("calibrate", *words, *judge, "patience=0").one_line
    assert calibrate(tmp_path, server).code == 0
    assert found(tmp_path)["api_base"] == server.url


@pytest.fixture
def at(monkeypatch):
    """Set the time zone, as on a machine elsewhere; it is put back at the end."""

    def go(zone):
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield go
    monkeypatch.undo()
    time.tzset()


def test_a_verdict_given_where_it_is_tomorrow_is_kept(tmp_path, twelve, server, uncached, at):
    at("Pacific/Kiritimati")
    calibrate(tmp_path, server)
    at("Pacific/Midway")
    assert calibrate(tmp_path, server).code == 0
    assert len(server.requests) == 12


def test_a_resumed_calibration_is_as_old_as_its_oldest_verdict(tmp_path, twelve, server, uncached):
    journal = tmp_path / "out" / "verdicts.jsonl"
    today, old = (str(date.today() - timedelta(days=days)) for days in (0, 200))
    calibrate(tmp_path, server)
    assert found(tmp_path)["made"] == today
    write_rows(journal, [row | {"day": old} for row in rows(journal)[:6]])
    ran = calibrate(tmp_path, server)
    assert len(server.requests) == 18
    assert found(tmp_path)["made"] == old
    assert found(tmp_path)["expires"] < today
    assert [row["day"] for row in rows(journal)] == [old] * 6 + [today] * 6
    assert "The calibration expired on" in ran.out


def test_rows_of_a_journal_that_are_no_verdicts_are_asked_again(tmp_path, twelve, server, uncached):
    journal = tmp_path / "out" / "verdicts.jsonl"
    damage = [{"outcome": None}, {"outcome": "hm"}, {"item_id": ["i2"]}, {"draws": None}]
    damage += [{"draws": [7]}, {"verdict": 77}, {"verdict": [1]}, {"verdict": None}]
    damage += [{"judge": "another"}, {"day": None}, {"day": "2999-01-01"}]
    calibrate(tmp_path, server)
    first = rows(journal)
    write_rows(journal, [row | wrong for row, wrong in zip(first, [*damage, {}], strict=True)])
    assert calibrate(tmp_path, server).code == 0
    assert len(server.requests) == 12 + len(damage)
    assert rows(journal) == first


def test_a_refused_key_ends_a_calibration_and_keeps_what_was_heard(
    tmp_path, twelve, server, uncached
):
    journal = tmp_path / "out" / "verdicts.jsonl"

    def refusing(body):
        response = payload_of(body)["response"]
        if response.endswith("cake number 5"):
            wait_until(lambda: journal.exists() and len(complete_rows(journal)) == 10)
            return Answer(status=401)
        return replace(by_the_word(body), delay=3 if response.endswith("risotto number 5") else 0)

    server.script = refusing
    assert "refused the key" in calibrate(tmp_path, server, "concurrency=12").one_line
    assert len(rows(journal)) == 10
    server.script, place = by_the_word, len(server.requests)
    assert calibrate(tmp_path, server).code == 0
    assert len(server.requests) - place == 2


def test_what_is_no_verdict_is_counted_and_a_judge_that_is_gone_a_limit(tmp_path, twelve, server):
    def moody(body):
        response = payload_of(body)["response"]
        if response.endswith("number 1"):
            return Answer("I would rather not say.")
        return Answer(status=400) if response.endswith("number 2") else by_the_word(body)

    server.script = moody
    ran = calibrate(tmp_path, server)
    row = found(tmp_path)
    report = row["rubrics"]["pa"]
    assert ran.code == 1
    assert "Left out: 2 items without a response" in ran.out
    assert (row["unheard"], report["unheard"], report["n"], report["unparsed"]) == (2, 2, 8, 2)
    assert "no response for 2 items" in report["reasons"]
    assert len(rows(tmp_path / "out" / "verdicts.jsonl")) == 10
    assert calibrate(tmp_path, server, "max_failures=20%").code == 0
    allowed = found(tmp_path)
    assert allowed["unheard"] == 2
    assert "no response for 2 items" not in allowed["rubrics"]["pa"]["reasons"]
    page = folded((tmp_path / "out" / "calibration.html").read_text())
    assert 'items without a response from the judge: <data value="2">2</data>' in page
    server.script, place = by_the_word, len(server.requests)
    assert calibrate(tmp_path, server).code == 0
    assert len(server.requests) - place == 2


def test_a_budget_has_an_exit_code_and_tells_where_it_allows_nothing(tmp_path, twelve, server):
    ran = calibrate(tmp_path, server, "max_total_tokens=1", "judge_max_tokens=50")
    assert server.requests == []
    assert ran.code == 3, ran.err
    said = "no item was judged: not within the budget: 0 of max_total_tokens=1 are spent"
    assert said in ran.err
    assert "another call may use 1,9" in ran.err
    assert "; to resume, repeat the command with a larger budget" in ran.err
    assert len(ran.err.splitlines()) == 1
    few = ("max_total_tokens=9000", "judge_max_tokens=100", "concurrency=1")
    ran = calibrate(tmp_path, server, *few, out="few")
    assert ran.code == 3, ran
    assert "the budget is spent" in ran.err
    assert calibrate(tmp_path, server, "judge_max_tokens=50").code == 0


def test_the_three_dimensions_of_an_answer_cost_one_call(tmp_path, server):
    names = ("resonation", "expression", "reception")
    items = []
    for n in range(3):
        for name, mark in zip(names, (2, 3, 5), strict=True):
            items.append((f"ei_{name}", answer(f"I hear you, number {n}"), mark))
    write_labels(tmp_path / "labels", {f"ei_{name}": FIVE for name in names}, items)
    server.script = lambda body: felt(2, 3, 4)
    assert calibrate(tmp_path, server).code == 0
    assert len(server.requests) == 3
    reports = found(tmp_path)["rubrics"]
    assert [reports[f"ei_{name}"]["mae"]["value"] for name in names] == [0, 0, 1]


def related(body):
    """Relate a pair as its prediction says: it is RELATION to keeping bees."""
    relation = payload_of(body)["predicted"][0]["value"].split()[1]
    pairs = [{"reason": "so it reads", "gold": "g1", "predicted": "p1", "relation": relation}]
    return Answer(json.dumps({"pairs": pairs if relation != "unrelated" else []}))


@pytest.mark.parametrize("scale", [BINARY, nominal(*RELATIONS)], ids=["binary", "relations"])
def test_pairs_of_memories_are_put_before_the_matching_judge(tmp_path, server, scale):
    items = []
    for relation in RELATIONS:
        label = relation if scale is not BINARY else int(relation in ("same", "narrower"))
        said = {"value": f"is {relation} to keeping bees"}
        items.append(("matching", {**PAIR, "predicted": said}, label))
    write_labels(tmp_path / "labels", {"matching": scale}, items)
    server.script = related
    assert calibrate(tmp_path, server).code == 0
    assert found(tmp_path)["rubrics"]["matching"]["agreement"]["value"] == 1


def test_a_judge_that_is_asked_again_and_again_tells_its_self_agreement(tmp_path, twelve, server):
    turns = iter(range(100))
    server.script = lambda body: met("not_met" if next(turns) % 2 else "met")
    calibrate(tmp_path, server, "judge_repeats=3")
    assert len(server.requests) == 36
    assert all(len(row["draws"]) == 3 for row in rows(tmp_path / "out" / "verdicts.jsonl"))
    assert found(tmp_path)["rubrics"]["pa"]["self_agreement"]["value"] < 1


def test_words_and_other_numbers_in_the_right_order_are_taken(tmp_path, server):
    for number, values in enumerate((["not_met", "met"], [1, 2])):
        items = []
        for word, label in (("good", values[1]), ("poor", values[0])):
            items += [("pa", answer(f"{word} {n}"), label) for n in range(3)]
        write_labels(tmp_path / f"labels{number}", {"pa": nominal(*values)}, items)
        ran = calibrate(tmp_path, server, labels=f"labels{number}", out=f"out{number}")
        assert ran.code == 0
        assert cells(tmp_path, f"out{number}") == [3, 0, 0, 3]


def own_rubric(folder, name, text):
    """Write a rubric of one's own into a label folder."""
    file = folder / "rubrics" / f"{name}.md"
    file.parent.mkdir(exist_ok=True)
    file.mkdir() if text is None else file.write_bytes(text)


def test_a_rubric_of_ones_own_lies_in_the_label_folder(tmp_path, server):
    items = [("brevity", answer("good"), 1)] * 2
    folder = write_labels(tmp_path / "labels", {"brevity": BINARY}, items)
    assert "write them to rubrics/brevity.md" in calibrate(tmp_path, server).one_line
    own_rubric(folder, "brevity", b"<!-- id: brevity/1 -->\nMet if it is short.\n")
    assert calibrate(tmp_path, server).code == 0
    assert "Met if it is short." in server.requests[0]["messages"][0]["content"]


OURS = f"<!-- id: {rubric('pa').id} -->\nMet.".encode()
TWICE = dict.fromkeys(("curt", "tone"), b"<!-- id: mine/1 -->\nMet.")
UNUSABLE = {
    "no text": ({"tone": b"\xff\xfe"}, ["tone.md: not UTF-8"]),
    "built-in": ({"tone": OURS}, ["tone.md", "the built-in rubric pa.md"]),
    "a folder": ({"tone": None}, ["tone.md", "can't be read"]),
    "one id twice": (TWICE, ["curt.md", "mine/1"]),
}


@pytest.mark.parametrize(("rubrics", "said"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_rubric_of_ones_own_that_can_not_be_used_is_named(tmp_path, rubrics, said):
    folder = write_labels(tmp_path / "labels", {"tone": BINARY}, [("tone", answer("good"), 1)])
    for name, text in rubrics.items():
        own_rubric(folder, name, text)
    line = lexical(tmp_path).one_line
    assert [word for word in (*said, "tone.md") if word not in line] == []


PUT_LAST, OWN_FILE = "put it last", "not a valid file name"
GOOD, TEXTLESS = answer("good"), answer("x", dialogue=[{"role": "user"}])
ODD = nominal("same", "other", "no")
UNASKED = {
    "no response": ("pa", BINARY, {"query": "x"}, "item i0: payload.response must be a string"),
    "no turns": ("pa", BINARY, answer("x", dialogue="hello"), "payload.dialogue must be a list"),
    "a turn without text": ("pa", BINARY, TEXTLESS, "payload.dialogue: text"),
    "no pair": ("matching", BINARY, {"gold": {"value": "x"}}, "payload.predicted must be a memory"),
    "odd relations": ("matching", ODD, {}, "a judge can return narrower"),
    "another scale": ("pa", {"kind": "ordinal", "values": [1, 2, 3]}, GOOD, "a judge can return 0"),
    "numbers turned round": ("pa", nominal(1, 0), GOOD, PUT_LAST),
    "words turned round": ("pa", nominal("met", "not_met"), GOOD, PUT_LAST),
    "yes before no": ("pa", nominal("Yes", "no"), GOOD, PUT_LAST),
    "relations turned round": ("matching", nominal("same", "unrelated"), PAIR, PUT_LAST),
    "three rubrics as one": ("ei", BINARY, GOOD, "ei_resonation, ei_expression, ei_reception"),
    "a name of ours": ("payload", BINARY, GOOD, "is taken"),
    "another name of ours": ("support", BINARY, GOOD, "is taken"),
    "a name above the folder": ("../../README", BINARY, GOOD, OWN_FILE),
    "a name below a folder": ("a/b", BINARY, GOOD, OWN_FILE),
    "a name with a NUL": ("x\0y", BINARY, GOOD, OWN_FILE),
    "no instructions": ("brief", BINARY, GOOD, "write them to rubrics/brief.md"),
}


@pytest.mark.parametrize(("name", "scale", "payload", "said"), UNASKED.values(), ids=UNASKED)
def test_what_no_judge_can_be_asked_is_one_line_and_not_asked(
    tmp_path, server, name, scale, payload, said
):
    write_labels(tmp_path / "labels", {name: scale}, [(name, payload, scale["values"][0])])
    line = calibrate(tmp_path, server).one_line
    assert said in line
    assert line.removesuffix("\n").isprintable()
    assert not server.requests


@pytest.mark.parametrize("random", [True, False])
def test_pairs_that_were_not_drawn_at_random_are_a_limit_on_terminal_and_page(tmp_path, random):
    folder = write_labels(tmp_path / "labels", {"matching": BINARY}, [("matching", PAIR, 1)] * 4)
    (folder / "sample.json").write_text(json.dumps({"rubrics": {"matching": {"random": random}}}))
    for more in ((), ("details=yes",)):
        assert (CHOSEN in folded(lexical(tmp_path, *more).out)) == (not random)
    report = found(tmp_path)["rubrics"]["matching"]
    page = unescape((tmp_path / "out" / "calibration.html").read_text())
    assert (CHOSEN in folded(page)) == (not random)
    assert report["sample"] == {"random": random}
    assert report["verdict"] == "limits"


@pytest.mark.parametrize(
    "drawn", ["[]", '{"rubrics": null}', '{"rubrics": {"matching": "x"}}', "nonsense"]
)
def test_a_sample_that_nobody_drew_is_one_line_before_anything_is_asked(tmp_path, drawn):
    folder = write_labels(tmp_path / "labels", {"matching": BINARY}, [("matching", PAIR, 1)])
    (folder / "sample.json").write_text(drawn)
    assert "sample.json" in lexical(tmp_path).one_line
    assert not (tmp_path / "out").exists()


def test_a_label_folder_is_not_written_into(tmp_path, twelve):
    verdicts = [{"item_id": f"i{n}", "judge": "old", "verdict": int(n < 6)} for n in range(12)]
    write_rows(twelve / "verdicts.jsonl", verdicts)
    before = sorted(path.name for path in twelve.iterdir())
    for judge in ("old", "lexical"):
        words = (f"judge={judge}", f"labels={twelve}", f"out={tmp_path / '.' / 'labels'}")
        assert "is a label folder" in alps_here("calibrate", *words).one_line
    assert sorted(path.name for path in twelve.iterdir()) == before


def test_a_calibration_counts_for_ten_years_at_most(tmp_path, twelve):
    assert "valid_days" in lexical(tmp_path, "valid_days=99999999").one_line
