"""Audits by people: a finished run is labelled in the page, and scored with the labels."""

import html
import json
import re
import shutil
from urllib.parse import urlencode
from urllib.request import Request, build_opener

import numpy as np
import pytest

from alps.errors import UsageError
from tests.annotate_work import NEEDED, label_all, made, opened
from tests.endtoend import files_of, rows, summary, write_rows
from tests.tracks import alps_done, alps_here

pytest.importorskip("starlette", reason=NEEDED)

RUN = ("run", "task=extraction", "model=rules", "data=samples", "baseline_records=0")


def opinion(gold, predicted):
    """What all of our people think: two memories that share a longer word are the same."""
    words = [{word for word in one.lower().split() if len(word) > 4} for one in (gold, predicted)]
    return "same" if words[0] & words[1] else "unrelated"


def form_of(text):
    fields = dict(re.findall(r'name="(item|rows|place|showing)" value="([^"]*)"', text))
    return {name: html.unescape(value) for name, value in fields.items()}


def label_in_the_page(address, most):
    """Send what the page would send, so many times."""
    browser, origin = build_opener(), "/".join(address.split("/", 3)[:3])
    with browser.open(address) as reply:
        text = reply.read().decode()
    for _ in range(most):
        gold, predicted = re.findall(r'class="prose" dir="auto">([^<]*)</p>', text)[:2]
        form = {**form_of(text), "label": opinion(*map(html.unescape, (gold, predicted)))}
        headers = {"Origin": origin, "X-Requested-With": "fetch"}
        sent = Request(f"{address}label", urlencode(form).encode(), headers)
        with browser.open(sent) as reply:
            text = reply.read().decode()


def think(step):
    payload = step.item.payload
    return {"label": opinion(payload["gold"]["value"], payload["predicted"]["value"])}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """A run, the folder that was labelled for it, and its labels."""
    here = tmp_path_factory.mktemp("labelled")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        assert alps_here(*RUN, "out=run").code == 0
        made(here / "work", "match", "run", audit="80%", blind=False)
        with opened(here / "work", "anna") as address:
            label_in_the_page(address, 10)
        for person in ("anna", "ben"):
            label_all(here / "work", person, think)
        assert alps_here("annotate", "export", "work", "out=labels").code == 0
    return here


@pytest.fixture
def here(labelled, tmp_path, monkeypatch):
    """A copy of them; the working folder."""
    copy = shutil.copytree(labelled, tmp_path / "copy")
    monkeypatch.chdir(copy)
    return copy


def f1_of(path):
    return {row["benchmark_id"]: row["scores"]["f1"] for row in rows(path)}


def corrected(folder):
    return summary(folder)["audit"]["tracks"]["task1"]["scores"]


def test_a_finished_run_is_scored_with_the_labels_of_people(here):
    before = files_of(here / "run")
    done = alps_done("score", "run", "audit_labels=labels")
    after = files_of(here / "run")
    assert {name for name in before if before[name] != after[name]} == {"summary.json"}
    cheap, people = f1_of(here / "run/scores.jsonl"), f1_of(here / "run/audit/scores.jsonl")
    score = corrected(here / "run")["f1"]
    assert score["alone"]["value"] == pytest.approx(np.mean(list(people.values())))
    assert score["cheap"]["value"] == pytest.approx(np.mean(list(cheap.values())))
    assert (score["audited"], score["n"]) == (21, 26)
    assert score["needed"] is None or score["needed"] > 21
    assert re.search(r"^ corrected +\.\d{3} .* with 21 audits by people$", done.out, re.M)
    shown = alps_here("show", here / "run").out
    assert "Corrected with audits by people" in shown
    assert "21 of 26 records audited by people. Method: PPI++ with sessions as units." in shown


def test_people_audit_the_sessions_that_a_judge_of_the_same_share_and_seed_would(here):
    shutil.copytree("run", "judged")
    assert alps_here("score", "judged", "audit_judge=always-no", "audit=80%").code == 0
    assert alps_here("score", "run", "audit_labels=labels").code == 0
    people, judge = (
        json.loads((here / name / "audit/audit.json").read_text()) for name in ("run", "judged")
    )
    assert people["tracks"] == judge["tracks"]
    assert people.keys() == judge.keys()
    assert people["judge"] == "people"
    files = [{path.name for path in (here / run / "audit").iterdir()} for run in ("run", "judged")]
    assert files[0] == files[1]
    first = [rows(here / run / "audit/scores.jsonl")[0].keys() for run in ("run", "judged")]
    assert first[0] == first[1]


def test_labels_that_changed_are_scored_anew_and_the_audits_of_a_judge_stay(here):
    assert alps_here("score", "run", "audit_labels=labels").code == 0
    before = corrected(here / "run")["f1"]["value"]
    path = here / "labels" / "labels.jsonl"
    path.write_text(path.read_text().replace('"same"', '"unrelated"'))
    assert alps_here("score", "run", "audit_labels=labels").code == 0
    assert corrected(here / "run")["f1"]["value"] < before
    shutil.rmtree(here / "run" / "audit")
    assert alps_here("score", "run", "audit_judge=always-no", "audit=80%").code == 0
    said = alps_here("score", "run", "audit_labels=labels").one_line
    assert "holds audits by always-no" in said


def disputed(row):
    """Have ben relate what anna calls the same."""
    if (row["annotator"], row["label"]) == ("ben", "same"):
        row["label"] = "related"


def of_other_answers(row):
    row["payload"]["predicted"]["value"] += ", or not"


DECIDE = r"annotators differ on \d+ records: let a third person decide \(alps annotate FOLDER as="


@pytest.mark.parametrize(
    ("name", "change", "mend"),
    [
        ("labels", disputed, DECIDE),
        ("items", of_other_answers, "have annotators label these records"),
    ],
    ids=["open", "other"],
)
def test_what_people_leave_open_and_labels_of_other_answers_correct_nothing(
    here, name, change, mend
):
    path = here / "labels" / f"{name}.jsonl"
    found = rows(path)
    for row in found:
        change(row)
    write_rows(path, found)
    done = alps_here("score", "run", "audit_labels=labels")
    assert done.code == 1
    assert "drawn records have no audit score" in done.err
    assert re.search(mend, done.err)
    assert corrected(here / "run")["f1"]["value"] is None


def test_an_export_with_open_items_names_the_folder_in_which_a_third_person_decides(here):
    label_all(made(here / "open", "match", "run", audit="80%"), "anna", think)
    label_all(here / "open", "ben", lambda step: {"label": "related"})
    told = alps_here("annotate", "export", "open", "out=few").out
    assert "To let a third person decide:\n  alps annotate open as=NAME adjudicate=yes\n" in told


def test_who_stops_early_leaves_a_smaller_draw_and_too_small_a_one_is_refused(here):
    label_all(made(here / "begun", "match", "run", audit="80%"), "anna", think, most=200)
    assert alps_here("annotate", "export", "begun", "out=few").code == 0
    drawn = json.loads((here / "few/sample.json").read_text())["audit"]["tracks"]["task1"]
    whole = json.loads((here / "labels/sample.json").read_text())["audit"]["tracks"]["task1"]
    assert 0 < len(drawn) < len(whole) == 21
    assert drawn == whole[: len(drawn)]
    said = alps_here("score", "run", "audit_labels=few").one_line
    short = f"{len(drawn)} of 26 records of extraction are labelled; at least 20 are needed"
    assert f"{short}: label {20 - len(drawn)} more" in said
    with pytest.raises(UsageError, match="at least 20 are needed: set audit=77%"):
        made(here / "small", "match", "run", audit="10%")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("audit_labels=labels", "audit=30%"), "the labels of audit_labels= determine the share"),
        (
            ("audit_labels=labels", "audit_judge=openai/a"),
            "audit_labels= already gives human audits; remove one",
        ),
        (("audit_labels=nowhere",), "audit_labels=nowhere: no such folder"),
        (("audit_labels=label",), "no such folder — did you mean 'labels'?"),
        (("audit_labels=drawn",), "alps annotate FOLDER job=… from=RUN audit=20%"),
    ],
)
def test_labels_that_audit_nothing_are_refused_in_one_line(here, words, said):
    if words == ("audit_labels=drawn",):
        assert alps_here("annotate", "draw", "run", "n=5", "out=drawn").code == 0
    assert said in alps_here("score", "run", *words).one_line


def test_people_who_rate_answers_audit_every_rubric_of_a_track(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("run", "task=utilization", "ability=pf", "model=floor/parrot", "data=samples")
    run = (*words, "judge=always-yes", "out=run")
    assert alps_here(*run).code == 0
    made(tmp_path / "work", "rate", "run", audit="90%", blind=False)

    def rate(step):
        return {"label": str(sum(map(ord, step.item.payload["response"])) % 2)}

    count = label_all(tmp_path / "work", "anna", rate)
    assert alps_here("annotate", "export", "work", "out=labels").code == 0
    done = alps_done(*run, "audit_labels=labels")
    track = summary(tmp_path / "run")["audit"]["tracks"]["task4_ability2"]
    audits = [row["scores"]["pf"] for row in rows(tmp_path / "run/audit/scores.jsonl")]
    assert count == track["scores"]["pf"]["audited"] == len(audits) == 22
    assert track["scores"]["pf"]["alone"]["value"] == pytest.approx(np.mean(audits))
    assert " with 22 audits by people\n" in done.out
    assert "22 of 24 records audited by people" in alps_here("show", tmp_path / "run").out
