"""The drift of a judge between two runs, found by anchors, which are asked anew each time.

The judge on loopback is as strict as a test says: its name and its fingerprint stay the same.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import Answer, serve
from tests.tracks import Ran, alps_here, met, payload_of, target_row, write_ability

RECORDS = 40
OLD = ("exact",) * 20 + ("close",) * 12 + ("wrong",) * 8
NEW = ("exact",) * 24 + ("close",) * 12 + ("wrong",) * 4
"""The second run's answers: a tenth better under any judge."""


class Judge:
    """A judge of which a test says what it likes."""

    def __init__(self) -> None:
        self.likes = ("exact", "close")
        self.asked = 0

    def __call__(self, body: dict[str, Any]) -> Answer:
        self.asked += 1
        answer = payload_of(body)["response"].split()[0]
        return met("met" if answer in self.likes else "not_met")


@pytest.fixture(scope="module")
def judge():
    return Judge()


@pytest.fixture(scope="module")
def here(judge, tmp_path_factory):
    """The current folder, with an old and a new run, both judged while the judge was lenient."""
    folder = tmp_path_factory.mktemp("drift")
    rows = (target_row(f"r{n}", session_id=f"s{n}") for n in range(RECORDS))
    write_ability(folder / "data", 1, *rows)
    with pytest.MonkeyPatch.context() as patch, serve(judge) as server:
        patch.chdir(folder)
        here = Here(folder, f"judge_api_base={server.url}")
        for name, answers in (("old", OLD), ("same", OLD), ("calm", NEW)):
            lines = [
                json.dumps({"benchmark_id": f"r{n}", "answer": f"{answer} {n}"})
                for n, answer in enumerate(answers)
            ]
            (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
            assert here.run(name, f"{name}.jsonl").code == 0
        judge.likes = ("exact",)
        assert here.run("new", "calm.jsonl", "judge_request.user=later").code == 0
        yield here


class Here:
    """The folder of the tests, and the commands that are used there."""

    def __init__(self, folder: Path, base: str) -> None:
        self.folder, self.base = folder, base

    def run(self, out: str, answers: str, *words: str) -> Ran:
        asked = ("judge=openai/judge", self.base, "baseline_records=0", f"out={out}")
        known = (f"model=predictions:{answers}", "data=data", "task=utilization", "ability=pa")
        return self.alps("run", *known, *asked, *words)

    def drift(self, *words: str) -> Ran:
        return self.alps("judges", *words)

    def alps(self, *words: str) -> Ran:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ALPS_CACHE", str(self.folder / "cache"))
            patch.setenv("OPENAI_API_KEY", "none")
            return alps_here(*words)


@pytest.mark.release
def test_a_change_of_the_judge_is_found_and_told_from_that_of_the_system(here, judge):
    judge.likes, before = ("exact",), judge.asked
    ran = here.drift("old", "new", "anchors=now", "format=json")
    assert ran.code == 0, ran.err
    # Each anchor was asked about, though the cache knows what the judge said then.
    assert judge.asked == before + RECORDS
    found = json.loads(ran.out)["tracks"]["task4_ability1"]
    assert found["alarm"] is True
    assert found["judge"]["value"] == pytest.approx(-12 / RECORDS)
    assert found["system"]["value"] == pytest.approx(4 / RECORDS)
    assert found["change"]["value"] == pytest.approx(-8 / RECORDS)
    table = here.drift("old", "new", "anchors=now")
    assert judge.asked == before + RECORDS
    assert "Alarm: judge drift detected" in table.out


def test_anchors_that_say_nothing_of_today_are_refused(here, judge):
    assert "a run with its own answers" in here.drift("old", "new", "anchors=same").one_line
    assert "a run with its own answers" in here.drift("old", "new", "anchors=old").one_line
    assert "the answers differ from those of" in here.drift("old", "new", "anchors=calm").one_line
    asked = ("judge=openai/judge", here.base, "baseline_records=0", "out=kept")
    before = judge.asked
    assert here.alps("score", "old", *asked).code == 0
    assert judge.asked == before
    refused = here.drift("old", "calm", "anchors=kept").one_line
    assert f"{RECORDS} replies came from the cache, which hides drift" in refused


def test_a_folder_with_something_else_in_it_takes_no_anchors(here):
    (here.folder / "mine").mkdir()
    (here.folder / "mine" / "notes.txt").write_text("mine")
    refused = here.drift("old", "new", "anchors=mine").one_line
    assert "anchors=mine: the folder holds something else; name a new folder" in refused
    assert sorted(path.name for path in (here.folder / "mine").iterdir()) == ["notes.txt"]
    refused = here.drift("old", "new", "anchors=now", "draws=2").one_line
    assert "draws=2 would change nothing" not in refused
    assert "draws= would change nothing with anchors=now" in refused
