"""The official data and judge of the boards, and the order of systems by who judged them."""

import json
import shutil
import tomllib

import pytest

from alps.leaderboard.official import FILE, judged_by, official
from alps.leaderboard.site import build
from alps.parsing import parse_words
from alps.settings import RunSettings
from tests.pages import Page


def test_the_official_file_is_a_config_of_a_run():
    settings = parse_words([f"config={FILE}", "task=extraction", "model=rules"], RunSettings)
    named = official()
    assert (settings.data, settings.split, settings.judge) == (named.data, named.split, named.judge)
    assert "@" in settings.data, "the data are pinned to a commit"


def test_the_page_on_submitting_gives_the_official_settings(site):
    page = (site / "about.html").read_text("utf-8")
    assert "alps run config=leaderboard/official.toml task=all" in page
    for value in tomllib.loads(FILE.read_text("utf-8")).values():
        if isinstance(value, str):
            assert value in page


@pytest.mark.parametrize(
    ("judge", "decides", "expected"),
    [
        ("openai/gpt-4.1-2025-04-14", True, "official"),
        ("lexical", False, "official"),
        ("openai/another", True, "llm"),
        ("lexical", True, "embedded"),
        ("recorded:verdicts.jsonl", True, "embedded"),
    ],
)
def test_systems_come_in_the_order_of_who_judged_them(judge, decides, expected):
    assert judged_by(judge, decides=decides) == expected


def test_every_submission_is_on_the_first_page_with_serious_judges_first(submissions, tmp_path):
    """An LLM-judged system comes before one under lexical, and neither is left out."""
    judges = {"system-001": "lexical", "system-002": "openai/other", "system-003": official().judge}
    for number, (slug, judge) in enumerate(judges.items()):
        copy = tmp_path / "submissions" / slug
        shutil.copytree(submissions / slug, copy)
        card = json.loads((copy / "submission.json").read_text("utf-8"))
        track = card["tracks"]["task1"]
        track |= {"judge": judge, "judge_fingerprint": f"{number}a1b2c3d4e5f"}
        card["tracks"] = {"task1": track}
        (copy / "submission.json").write_text(json.dumps(card), "utf-8")
    out = build(tmp_path / "submissions", tmp_path / "site").out
    text = Page((out / "index.html").read_text("utf-8")).text
    places = [text.index(words) for words in ("Model 3", "Judged by another LLM", "Model 2")]
    places += [text.index("Judged by lexical"), text.rindex("Model 1")]
    assert places == sorted(places)
