"""The calibration that comes with the package: what it rests on, and when it is not believed."""

import json
from datetime import date

import pytest

from alps.judges import agreement, embedded
from alps.judges.base import fingerprint_id
from alps.judges.calibration_file import calibration_files, read_calibration
from alps.judges.embedded import LexicalJudge

OURS = fingerprint_id(LexicalJudge().fingerprint)
SHIPPED = next(path for path in calibration_files() if path.name == "lexical.json")


def said(judge="lexical", fingerprint=OURS, today=date(2027, 1, 1)):
    return " ".join(agreement.people_say(judge, fingerprint, today=today))


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
