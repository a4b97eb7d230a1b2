"""Many calibrations on one page: who may be trusted, who is ahead, and where judges differ."""

import json
import shutil
from datetime import date

import pytest

from alps.ext.calibration.calibrate import calibrate_judge
from alps.ext.calibration.calibration_file import calibration_files, read_calibration, sentences
from alps.ext.calibration.settings import CalibrateSettings
from alps.ext.calibration.trust import find_calibrations, trust
from alps.judges import embedded
from alps.judges.base import fingerprint_id
from alps.judges.embedded import LexicalJudge
from tests.endtoend import write_rows
from tests.few import few
from tests.label_folders import BINARY, write
from tests.pages import Page, barriers, browser, look, tab_of
from tests.tracks import alps_done, alps_here

__all__ = ["browser"]  # a fixture

TODAY = date(2026, 12, 1)
HOSTILE = "<script>alert('x')</script>"
# How many of 100 right items, and of 100 wrong ones, a judge tells.
JUDGES = {"good": (95, 95), "twin": (94, 96), "poor": (60, 70)}


def labelled(folder, count):
    """Write a label folder of two people who agree, and the verdicts of three judges."""
    rows, verdicts = [], []
    for number in range(count):
        truth, shown = number % 2, {"query": "Where to?", "response": f"Answer {number} {HOSTILE}"}
        rows.append(("pa", {"anna": truth, "ben": truth}, truth, {"payload": shown}))
        for judge, right in JUDGES.items():
            told = (number // 2 * 37 + 11 * truth) % 100 < right[1 - truth]
            said = truth if told else 1 - truth
            verdicts.append({"item_id": f"i{number}", "judge": judge, "verdict": said})
    write_rows(write(folder, {"pa": BINARY}, rows) / "verdicts.jsonl", verdicts)
    return folder


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with 200 labelled items, and with 24, and the calibrations of all judges on both."""
    folder = tmp_path_factory.mktemp("trust")
    for name, count in (("labels", 200), ("few", 24)):
        labels = labelled(folder / name, count)
        for judge in JUDGES:
            out = folder / f"known-{name}" / judge
            words = {"labels": str(labels), "judge": judge, "out": str(out)}
            calibrate_judge(CalibrateSettings.model_validate(words))
    return folder


@pytest.fixture(scope="module")
def page(here):
    out = here / "trust.html"
    words = (here / "known-labels", f"labels={here / 'labels'}", f"out={out}")
    done = alps_done("calibrate", "list", *words)
    lines = done.out.splitlines()
    assert "poor on pa: FAIL, do not rank systems with it" in lines
    assert max(map(len, lines)) <= 80
    return out


def test_judges_are_ranked_and_each_gets_an_answer_and_what_to_do(here):
    (rubric,) = trust(find_calibrations([str(here / "known-labels")]), today=TODAY)
    assert rubric.judges[-1].judge == "poor"
    letters = {one.judge: one.letters for one in rubric.judges}
    assert letters == {"good": ("a",), "twin": ("a",), "poor": ("b",)}
    assert rubric.shared == 200
    answers = {one.judge: one for one in rubric.judges}
    assert answers["poor"].verdict == "fail"
    assert any("sensitivity below" in why for why in answers["poor"].why)
    assert "audit_judge=" in answers["poor"].todo
    # Recorded verdicts are bound to no judge.
    assert answers["good"].verdict == "pass"
    assert any("recorded" in why for why in answers["good"].why)
    (rubric,) = trust(find_calibrations([str(here / "known-few")]), today=TODAY)
    answers = {one.judge: one for one in rubric.judges}
    assert answers["good"].verdict == "fail"
    assert "Have two people label about 76 more items" in answers["good"].todo


def test_a_calibration_that_expired_is_not_trusted(here, tmp_path):
    row = json.loads((here / "known-labels" / "good" / "calibration.json").read_text())
    for name, expires in (("old", "2026-11-30"), ("new", "2027-11-30")):
        about = {"expires": expires, "judge_fingerprint": {"judge": name}, "judge": name}
        (tmp_path / f"{name}.json").write_text(json.dumps({**row, **about}))
    found = find_calibrations([str(tmp_path / "old.json"), str(tmp_path / "new.json")])
    (rubric,) = trust(found, today=TODAY)
    answers = {one.judge: (one.verdict, one.why[0]) for one in rubric.judges}
    assert answers["old"] == ("expired", "the calibration expired on 2026-11-30")
    assert answers["new"][0] == "pass"


def test_a_verdict_has_the_words_that_calibrate_printed(here, tmp_path):
    words = (f"labels={here / 'few'}", "judge=good", f"out={tmp_path / 'good'}")
    said = alps_here("calibrate", *words).out.splitlines()[0].partition(" (")[0]
    assert said == "good on pa: FAIL, do not rank systems with it"
    out = tmp_path / "list.html"
    assert said in alps_here("calibrate", "list", tmp_path, f"out={out}").out.splitlines()
    assert "✕ FAIL" in Page(out.read_text()).text
    shutil.copytree(tmp_path / "good", tmp_path / "again")
    listed = alps_here("calibrate", "list", tmp_path, f"out={out}").out
    # On its card and in the ranking.
    assert out.read_text().count("<bdi>again</bdi>") == 2
    assert "(again)." in listed
    assert "(good)." in listed


def test_examples_show_texts_and_each_persons_label_and_only_from_the_users_folder(here, page):
    shown = Page(page.read_text())
    assert HOSTILE in shown.text
    assert HOSTILE not in page.read_text()
    assert "People: " in shown.text
    assert "anna" in shown.text
    without = here / "without.html"
    assert alps_here("calibrate", "list", here / "known-labels", f"out={without}").code == 0
    assert "Answer" not in without.read_text()
    assert "anna" not in without.read_text()


def test_what_can_not_be_shown_is_said_in_one_line(here, tmp_path, monkeypatch):
    known, few = here / "known-labels", here / "few"
    other = alps_here("calibrate", "list", known, f"labels={few}", f"out={tmp_path / 'x.html'}")
    assert "no calibration uses these labels" in other.one_line
    nowhere = alps_here("calibrate", "list", tmp_path / "nowhere")
    assert f"alps: {tmp_path / 'nowhere'}: no calibration at this path" in nowhere.one_line
    (tmp_path / "known" / "failed").mkdir(parents=True)
    nothing = alps_here("calibrate", "list", tmp_path / "known")
    assert f"alps: {tmp_path / 'known'}: no calibration at this path" in nothing.one_line
    mine = tmp_path / "mine.html"
    mine.write_text("mine")
    refused = alps_here("calibrate", "list", known, f"out={mine}")
    assert "this file exists and is not a report" in refused.one_line
    assert mine.read_text() == "mine"


def test_without_a_name_those_that_runs_find_are_shown(tmp_path):
    out = tmp_path / "found.html"
    assert alps_here("calibrate", "list", f"out={out}").code == 0
    assert "OpenQA-eval" in out.read_text()


@pytest.mark.parametrize(("width", "scheme"), few([(375, "dark"), (768, "light"), (1280, "dark")]))
def test_the_page_fits_and_follows_the_colour_scheme(page, browser, width, scheme):
    look(browser, page, width=width, scheme=scheme)


def test_no_barrier_is_found_in_the_page(page, browser):
    with tab_of(browser, width=375, height=700) as tab:
        tab.goto(page.as_uri())
        assert [(one["id"], one["nodes"][0]["html"][:120]) for one in barriers(tab)] == []


# The calibration that comes with the package: what it rests on, and when it is not believed

OURS = fingerprint_id(LexicalJudge().fingerprint)
SHIPPED = next(path for path in calibration_files() if path.name == "lexical.json")


def said(judge="lexical", fingerprint=OURS, today=date(2027, 1, 1)):
    return " ".join(sentences(judge, fingerprint, today=today))


def test_it_says_what_it_rests_on_and_holds_no_text_and_no_label_of_an_item():
    row = json.loads(SHIPPED.read_text())
    on = row["rests_on"]
    assert (on["licence"], on["n"]) == ("MIT", row["rubrics"]["matching"]["n"])
    assert on["source"].startswith("OpenQA-eval")
    assert date.fromisoformat(on["date"]) < date.fromisoformat(row["expires"])
    assert "labelled" not in row["rubrics"]["matching"]
    assert "payload" not in SHIPPED.read_text()
    calibration = read_calibration(SHIPPED)
    assert fingerprint_id(calibration.judge_fingerprint) == OURS


def test_another_fingerprint_and_an_expired_one_are_refused(monkeypatch):
    assert said().startswith("kappa with people .45 [.38, .51] on 829 pairs")
    assert "its fingerprint is" in said(fingerprint="0" * 12)
    assert "it expired on" in said(today=date(2099, 1, 1))
    assert said("minilm") == said("openai/gpt-4.1") == ""
    monkeypatch.setattr(embedded, "VERSION", embedded.VERSION + 1)
    assert "judge.version was" in said()


@pytest.mark.parametrize(
    "broken", ["{", '{"judge": "lexical", "rubrics": {"matching": {"n": "x"}}}']
)
def test_a_broken_calibration_of_ones_own_does_not_stop_a_run(tmp_path, monkeypatch, broken):
    (tmp_path / "mine.json").write_text(broken)
    monkeypatch.setenv("ALPS_CALIBRATIONS", str(tmp_path))
    assert said().startswith("kappa with people .45")
