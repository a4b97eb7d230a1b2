"""Where no interval would hold what it promises there is none, and the reason goes wherever the
figure goes.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from alps.data.release import write_track
from tests.core.test_compare import record
from tests.endtoend import task1
from tests.tracks import alps_here

RECORDS = 16
REASON = "2 sessions are too few for 16 records"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Runs of the oracle on the same records: from two sessions, and each from one of its own."""
    folder = tmp_path_factory.mktemp("intervals")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, sessions in (("few", 2), ("many", RECORDS)):
            pairs = (record(number, sessions) for number in range(RECORDS))
            write_track(Path(name, "dev", "task1"), pairs)
            for model, out in (("oracle", f"{name}-oracle"), ("floor/empty", f"{name}-empty")):
                words = ("task=extraction", f"model={model}", f"data={name}", f"out={out}")
                Path(f"{out}.txt").write_text(done("run", *words), encoding="utf-8")
        yield folder


@pytest.fixture(autouse=True)
def here(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)


def done(*words: str) -> str:
    ran = alps_here(*words)
    assert ran.code == 0, ran.err + ran.out
    return ran.out


def test_scores_that_are_all_alike_have_an_interval_with_a_width():
    best, worst = (task1(Path(run))["scores"] for run in ("many-oracle", "many-empty"))
    for name in ("f1", "precision", "recall", "f1_micro"):
        assert best[name]["value"] == best[name]["high"] == 1.0
        assert 0.7 < best[name]["low"] < 0.82
        assert "reason" not in best[name]
    assert worst["f1"]["value"] == worst["f1"]["low"] == 0.0
    assert 0.18 < worst["f1"]["high"] < 0.3
    above = task1(Path("many-empty"))["floors"]["floor/content-free"]["above"]
    assert above["low"] < above["value"] < above["high"]


def test_the_reason_stands_in_the_summary_and_under_the_tables():
    found = task1(Path("few-oracle"))
    without = {"low": None, "high": None, "n": RECORDS, "reason": REASON}
    assert found["scores"]["f1"] == {"value": 1.0, **without}
    assert found["floors"]["floor/empty"]["above"]["reason"] == REASON
    assert f"No interval: {REASON}." in Path("few-oracle.txt").read_text(encoding="utf-8")
    assert "No interval" not in Path("many-oracle.txt").read_text(encoding="utf-8")


def test_the_reason_stands_in_reports_and_comparisons(tmp_path):
    page = tmp_path / "page.html"
    done("report", "few-oracle", f"out={page}")
    assert f"No interval: {REASON}." in page.read_text(encoding="utf-8")
    assert f"No interval: {REASON}." in done("compare", "few-oracle", "few-empty")
    found = json.loads(done("compare", "few-oracle", "few-empty", "format=json"))
    difference = found["tracks"]["task1"]["metrics"]["f1"]["differences"][0]["difference"]
    assert difference == {"value": 1.0, "low": None, "high": None, "n": RECORDS, "reason": REASON}


def test_a_submission_keeps_the_reason_and_its_page_shows_it(tmp_path):
    out = tmp_path / "submissions"
    named = ("name=Bees", "date=2026-01-02", f"out={out / 'bees'}")
    done("leaderboard", "submit", "few-oracle", *named)
    card = out / "bees" / "submission.json"
    score = json.loads(card.read_text(encoding="utf-8"))["tracks"]["task1"]["scores"]["f1"]
    assert (score["low"], score["reason"]) == (None, REASON)
    verified = alps_here("leaderboard", "verify", str(card.parent), "data=few")
    assert "reason" not in verified.out, verified.out
    done("leaderboard", "build", f"submissions={out}", f"out={tmp_path / 'site'}")
    (page,) = (tmp_path / "site" / "systems").glob("bees*.html")
    assert REASON in page.read_text(encoding="utf-8")
