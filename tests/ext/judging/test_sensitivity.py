"""The same answers judged in several wordings: a judge on loopback is as strict as its system
message says.
"""

import json
import shutil
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest

from alps.data.release import write_track
from alps.judges.base import MatchQuestion, fingerprint_id
from alps.judges.llm import LlmJudge
from alps.judges.matching import gold_items, predicted_items
from alps.judges.repeated import RepeatedJudge
from alps.judges.rubric import RubricQuestion, rubric
from alps.prompts import read_prompt
from tests.builders import memories
from tests.core.test_cli import HEAVY, modules_after
from tests.endtoend import rows, write_rows
from tests.loopback import Answer, LoopbackServer, serve
from tests.recorded_requests import requests_of
from tests.tracks import (
    JUDGE,
    TALK,
    Ran,
    alps_done,
    alps_here,
    met,
    payload_of,
    target_row,
    track_of,
    write_ability,
)
from tests.visitors import memory_items

HARSH = "Be harsh."
LENIENT = "Be lenient."
COPIED = f"{TALK[0]['text']} {TALK[2]['text']}"
ANSWERS = {
    "steady": ("exact", "exact", "wrong", "wrong", "wrong", COPIED),
    "loose": ("close", "close", "close", "close", "wrong", COPIED),
    "sure": ("exact", "exact", "exact", "exact", "exact", COPIED),
}
"""By run, the answer to each record; the last is copied from the dialogue, which a hard rule of the
rubric forbids.
"""
SCORES = {
    "steady": {"ours": 2 / 6, "harsh": 2 / 6, "lenient": 5 / 6},
    "loose": {"ours": 4 / 6, "harsh": 0.0, "lenient": 5 / 6},
    "sure": {"ours": 5 / 6, "harsh": 5 / 6, "lenient": 5 / 6},
}


def wording(path: Path, text: str, name: str = "mine/1") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<!-- id: {name} -->\n\n{text}\n", encoding="utf-8")
    return path


def judge(body: dict[str, Any]) -> Answer:
    said, asked = body["messages"][0]["content"], payload_of(body)
    if said == HARSH and asked["response"] == "unclear":
        return Answer("no verdict at all")
    liked = {HARSH: ["exact"], LENIENT: ["exact", "close", "wrong"]}.get(said, ["exact", "close"])
    return met("met" if asked["response"] in (*liked, COPIED) else "not_met")


def predict(folder: Path, name: str, answers: tuple[str, ...]) -> None:
    predicted = ({"benchmark_id": f"r{n}", "answer": answer} for n, answer in enumerate(answers))
    run(folder, name, predicted, "task=utilization")


def run(folder: Path, name: str, predicted: Iterable[dict[str, Any]], task: str) -> None:
    write_rows(folder / f"{name}.jsonl", predicted)
    words = ("ability=pa", "data=data", f"model=predictions:{name}.jsonl", f"out={name}")
    alps_done("run", task, *words)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three runs over six records from three sessions, and two wordings."""
    folder = tmp_path_factory.mktemp("made")
    records = (target_row(f"r{n}", session_id=f"s{n % 3}") for n in range(6))
    write_ability(folder / "data", 1, *records)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, answers in ANSWERS.items():
            predict(folder, name, answers)
    wording(folder / "words" / "harsh.md", HARSH)
    wording(folder / "words" / "lenient.md", LENIENT)
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A copy of these, to be changed at will; the current folder. No reply is cached."""
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("ALPS_CACHE", "off")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return tmp_path / "here"


@pytest.fixture
def server():
    with serve(judge) as running:
        yield running


def ask(server: LoopbackServer, *words: object) -> Ran:
    judge = (f"judge={JUDGE}", f"judge_api_base={server.url}")
    return alps_here("judges", *words, *judge, "prompts=words")


def test_several_runs_change_places_with_the_wording_and_nothing_is_asked_twice(here, server):
    ran = ask(server, *ANSWERS, "out=spread", "format=json")
    assert ran.code == 0, ran.err
    whole = json.loads(ran.out)
    runs = {row["folder"]: row["model"] for row in whole["runs"].values()}
    assert runs == {name: f"predictions:{name}.jsonl" for name in ANSWERS}
    found = whole["tracks"]["task4_ability1"]
    for letter, (name, expected) in zip("ABC", SCORES.items(), strict=True):
        run = found["runs"][letter]
        shown = {w: row["score"]["value"] for w, row in run["wordings"].items()}
        assert shown == pytest.approx(expected), name
        moved = [row["difference"]["value"] for w, row in run["wordings"].items() if w != "ours"]
        assert moved == pytest.approx(
            [expected[w] - expected["ours"] for w in ("harsh", "lenient")]
        )
        assert run["spread"] == pytest.approx(max(expected.values()) - min(expected.values()))
        assert run["deviation"] == pytest.approx(stdev(expected.values()))
        assert (run["n"], run["clusters"]) == (6, 3)
    loose = found["runs"]["B"]
    assert (loose["changed"], loose["wordings"]["harsh"]["changed"]) == (5, pytest.approx(4 / 6))
    moved = loose["wordings"]["harsh"]["difference"]
    assert moved["low"] < moved["value"] < 0 < moved["high"]  # three sessions can't tell more
    ranking = found["ranking"]
    assert {w: row["order"] for w, row in ranking["wordings"].items()} == {
        "ours": [["C"], ["B"], ["A"]],
        "harsh": [["C"], ["A"], ["B"]],
        "lenient": [["A", "B", "C"]],
    }
    tau = {w: row["tau"] for w, row in ranking["wordings"].items()}
    assert tau == {"ours": None, "harsh": pytest.approx(1 / 3), "lenient": None}
    (flip,) = ranking["flips"]
    assert (flip["first"], flip["second"]) == ("A", "B")
    assert {w: row["value"] for w, row in flip["differences"].items()} == pytest.approx(
        {"ours": -2 / 6, "harsh": 2 / 6, "lenient": 0}
    )
    asked = len(server.requests)
    table = ask(server, *ANSWERS, "out=spread")
    assert (table.code, len(server.requests)) == (0, asked)
    assert "Runs that swap ranks" in table.out
    assert "5 of 6 records (83 %)" in table.out


def test_each_wording_has_a_run_folder_that_says_its_words_and_keeps_the_hard_rules(here, server):
    assert ask(server, "steady").code == 0
    said = {body["messages"][0]["content"] for body in server.requests}
    assert said == {rubric("pa").text, HARSH, LENIENT}
    judged, ids = here / "steady--sensitivity" / "steady", set()
    for name in ("ours", "harsh", "lenient"):
        ids.add(json.loads((judged / name / "manifest.json").read_text())["judge"]["id"])
        verdicts = rows(judged / name / "verdicts.jsonl")
        row = next(row for row in verdicts if row["benchmark_id"] == "r5")
        assert row["marks"] == {"met": 0}
        assert "copied" in row["enforced"]
    assert len(ids) == 3
    shown = alps_here("show", judged / "harsh", "r0")
    assert (shown.code, "exact" in shown.out) == (0, True)
    wording(here / "words" / "harsh.md", "Be very harsh.")
    changed = ask(server, "steady")
    assert changed.code == 2
    assert "harsh holds another run: judge.id" in changed.err


@pytest.mark.release
def test_a_record_that_one_wording_leaves_unjudged_counts_under_none(here, server):
    predict(here, "torn", ("exact", "unclear", "wrong", "exact", "close", COPIED))
    ran = ask(server, "torn", "max_failures=0.5")
    assert ran.code == 0, ran.err
    assert "5 records from 3 sessions" in ran.out
    assert "they have no score: 1 under harsh (1 unparsable)." in " ".join(ran.out.split())
    assert ask(server, "torn", "max_failures=0").code == 1


@pytest.mark.release
def test_a_budget_holds_for_all_wordings_together(here, server):
    first = ask(server, "steady", "judge_max_tokens=50", "format=json")
    calls = json.loads(first.out)["calls"]
    used = calls["prompt_tokens"] + calls["completion_tokens"]
    wording(here / "words" / "late.md", "Be late.")
    ran = ask(server, "steady", "judge_max_tokens=50", f"max_total_tokens={used}")
    assert ran.code == 3
    late = track_of(here / "steady--sensitivity" / "steady" / "late", "task4_ability1")
    assert late["failed_judgements"] == {"budget": 6}
    assert "no record has a score under every variant" in ran.out
    assert ask(server, "steady", "judge_max_tokens=50", f"max_total_tokens={10 * used}").code == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("cap", ["max_total_tokens=12000", "max_cost=0.012"])
def test_what_broken_connections_may_have_cost_is_not_left_to_the_next_wording(
    here, monkeypatch, cap
):
    (here / "prices.toml").write_text('["openai/priced"]\ninput = 1\noutput = 1\n')
    monkeypatch.setenv("ALPS_PRICES", str(here / "prices.toml"))
    monkeypatch.setattr("alps.llm.retries._backoff", lambda _: 0.001)
    # An outage is asked about once a minute.
    monkeypatch.setattr("alps.llm.retries._FAILURES", 10**9)

    def breaking(body):
        return Answer(drop=True) if body["messages"][0]["content"] == HARSH else judge(body)

    with serve(breaking) as server:
        priced = ("judge=openai/priced", f"judge_api_base={server.url}", "judge_max_tokens=50")
        ran = alps_here("judges", "steady", *priced, "prompts=words", cap)
    assert ran.code == 3, ran.err
    said = {body["messages"][0]["content"] for body in server.requests}
    assert said == {rubric("pa").text, HARSH}


def test_a_track_whose_rubrics_stay_ours_is_left_out_and_said(here, server):
    said = [{"role": "user", "text": "I keep bees."}, {"role": "assistant", "text": "How nice."}]
    ids = {"benchmark_id": "r0", "session_id": "s0", "task": "task1"}
    gold = {**ids, "gold": {"memory_items": memory_items("Keeps bees")}}
    write_track(here / "data" / "dev" / "task1", [({**ids, "input": {"dialogue": said}}, gold)])
    answers = [("r0", "task1", {"memory_items": []})]
    answers += [(f"r{n}", "task4_ability1", {"answer": "close"}) for n in range(6)]
    predictions = []
    for name, track, prediction in answers:
        row = {"benchmark_id": name, "track": track, "outcome": "ok", "prediction": prediction}
        predictions.append(row)
    run(here, "two", predictions, "task=extraction,utilization")
    several = ask(server, "two")
    assert "2 rubrics; name the file harsh/RUBRIC.md" in several.one_line
    for name in ("harsh", "lenient"):
        (here / "words" / f"{name}.md").unlink()
    wording(here / "words" / "harsh" / "pa.md", HARSH)
    wording(here / "words" / "harsh" / "cf.md", HARSH)
    wording(here / "words" / "brief" / "matching.md", "Match.")
    ran = ask(server, "two")
    assert ran.code == 0, ran.err
    out = " ".join(ran.out.split())
    same = "(identical to the built-in prompt)"
    assert f"Left out on extraction {same}: harsh." in out
    assert f"Left out on persona awareness {same}: brief." in out
    assert "Left out (these runs do not use these rubrics): cf." in out
    shutil.rmtree(here / "words" / "brief")
    left = " ".join(ask(server, "two").out.split())
    assert "Left out (no prompt variant for their rubrics): extraction." in left


def mine(text: str) -> Any:
    return read_prompt(f"<!-- id: mine/1 -->\n{text}", "here")


def test_fingerprints_differ_by_the_words_of_the_rubrics_that_are_asked():
    def of(words, name="pa", draws=1):
        said = {rubric_name: mine(text) for rubric_name, text in words.items()}
        judges = [LlmJudge("openai/x", client=None, repeat=n, wording=said) for n in range(draws)]
        one = judges[0] if draws == 1 else RepeatedJudge(judges)
        return fingerprint_id(one.fingerprint_for([rubric(name)]))

    plain = fingerprint_id(LlmJudge("openai/x", client=None).fingerprint_for([rubric("pa")]))
    assert of({}) == of({"cf": HARSH}) == plain
    others = [of({"pa": HARSH}), of({"pa": LENIENT})]
    others += [of({"pa": HARSH}, draws=2), of({}, draws=2)]
    assert len({plain, *others}) == 5


def test_a_wording_replaces_the_system_message_and_the_payload_stays_last():
    worded = LlmJudge(
        "openai/x", client=None, wording={"matching": mine("Match."), "cf": mine("Rate.")}
    )
    gold, predicted = memories("Plays the cello"), memories("A cellist")
    lists = MatchQuestion(gold_items(gold), predicted_items(predicted))
    (match,) = requests_of(worded, lists)
    rated = {}
    for name in ("cf", "pa"):
        asked = RubricQuestion(rubric(name), "Q?", "An answer.", "A memory.", ())
        (rated[name],) = requests_of(worded, asked)
    assert match.messages[0]["content"] == "Match."
    assert payload_of({"messages": match.messages})["kind"] == "match"
    assert rated["cf"].messages[0]["content"] == "Rate."
    assert payload_of({"messages": rated["cf"].messages})["rubric"] == "cf"
    assert rated["pa"].messages[0]["content"] == rubric("pa").text


OURS = files("alps.judges") / "rubrics" / "pa.md"
ID = "<!-- id: a/1 -->\n"
NO_LLM = "prompts=new would change nothing: no judge is a litellm model"


@pytest.mark.parametrize(
    ("written", "words", "said"),
    [
        ({}, ("prompts=elsewhere",), "prompts=elsewhere: no such folder"),
        ({}, (), "prompts=new: no .md files, and no folders with .md files"),
        ({"harsh/notes.txt": "x"}, (), "new/harsh: no .md file in this folder"),
        ({"harsh/paa.md": ID + "x"}, (), "no rubric has the name 'paa' — did you mean 'pa'?"),
        ({"harsh/cf.md": ID + "x"}, (), "new/harsh: no prompt for a rubric that these runs use"),
        ({"same.md": OURS.read_bytes()}, (), "new/same.md: identical to the built-in pa"),
        ({"harsh.md": "Be harsh."}, (), "new/harsh.md, line 1: must be an id line"),
        ({"harsh.md": ID}, (), "new/harsh.md: no text below the id line"),
        ({"harsh.md": b"<!-- id: a/1 -->\n\xff"}, (), "new/harsh.md: not UTF-8 text"),
        ({"ours.md": ID + "x"}, (), "'ours' is the name of the built-in prompt"),
        ({"a.md": ID + "x", "b.md": ID + "x"}, (), "'a' and 'b' are identical"),
        ({"a.md": ID + "x", "a/pa.md": ID + "y"}, (), "a folder and a file are both named 'a'"),
        ({}, ("judge=lexical",), NO_LLM),
        ({}, ("judge=recorded:verdicts.jsonl",), NO_LLM),
        ({}, ("level=.01",), "level=0.01 would change nothing without anchors=DIR"),
        ({"a.md": ID + "x"}, ("other/steady",), "other/steady: has the same name"),
        ({}, ("steady",), "steady: named twice"),
        ({}, ("promts=new",), "unknown key 'promts' — did you mean 'prompts'?"),
    ],
)
def test_what_cannot_be_used_is_said_on_one_line(made, tmp_path, monkeypatch, written, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").mkdir()
    for name, text in written.items():
        path = tmp_path / "new" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for place in ("steady", "other/steady"):
        (tmp_path / place).mkdir(parents=True)
        shutil.copy(made / "steady" / "manifest.json", tmp_path / place)
    keys = {word.partition("=")[0].replace("promts", "prompts") for word in words}
    usual = {"judge": JUDGE, "prompts": "new"}
    given = [f"{key}={value}" for key, value in usual.items() if key not in keys]
    assert said in alps_here("judges", "steady", *words, *given).one_line
    assert not (tmp_path / "steady--sensitivity").exists()


def test_runs_on_other_data_are_refused_before_anything_is_asked(here, server):
    write_ability(here / "data", 1, *(target_row(f"r{n}") for n in range(2)))
    predict(here, "small", ("exact", "wrong"))
    refused = ask(server, "steady", "small").one_line
    assert "small and steady have different data (sha256 of task4_ability1)" in refused
    assert server.requests == []


def test_the_command_imports_nothing_heavy_before_it_knows_what_is_asked(tmp_path):
    assert modules_after(tmp_path, "judges", "--help").isdisjoint(HEAVY)
