"""`alps leaderboard rescore sample=…`: part of a submission judged again, scores corrected."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from alps.errors import BudgetError, UsageError
from alps.leaderboard.commands import rescore_command, verify_command
from alps.leaderboard.packing import pack
from alps.leaderboard.submission import read_entry
from tests.loopback import Answer, serve
from tests.submissions import WHO, pack_rules
from tests.tracks import alps_here


def strict(body: dict[str, Any]) -> Answer:
    """Answer as a judge who finds nothing at all."""
    return Answer(json.dumps({"pairs": []}))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ALPS_CACHE", "off")
    return pack_rules(tmp_path)


def words_for(folder: Path, url: str, *more: str) -> list[str]:
    judge = ("judge=openai/scripted-judge", f"judge_api_base={url}", "out=work")
    return [str(folder), *judge, *more]


def test_a_sample_is_judged_and_corrects_all_scores(folder):
    card = read_entry(folder).card
    with serve(strict) as server:
        words = words_for(folder, server.url, "sample=80%", "max_total_tokens=1000000")
        assert rescore_command(words) == 0
        asked = len(server.requests)
        assert rescore_command(words) == 0
        assert len(server.requests) == asked  # the same command goes on with the same sample
    track = read_entry(folder).review.tracks["task1"]
    assert (track.sample.records, track.sample.n) == (21, 26)
    assert 0 < asked <= 2 * track.sample.records  # which are related, and what is supported
    # The maintainer's judge finds less than the submitter's.
    assert track.scores["f1"].value < card.tracks["task1"].scores["f1"].value
    assert track.scores["f1"].n == card.tracks["task1"].scores["f1"].n
    assert verify_command([str(folder), "reviewed=yes"]) == 0


@pytest.mark.release
def test_the_budget_stops_a_sample_and_the_same_command_goes_on(folder):
    with serve(strict) as server:
        with pytest.raises(BudgetError):
            rescore_command(words_for(folder, server.url, "sample=80%", "max_total_tokens=6000"))
        # It is spent on the known items that the judge answers first.
        first, known = len(server.requests), len(server.known)
        assert not (folder / "review.json").exists()
        words = words_for(folder, server.url, "sample=80%", "max_total_tokens=1000000")
        assert rescore_command(words) == 0
        whole = len(server.requests)
    assert 0 < known < len(server.known)
    assert 0 == first < whole <= 2 * 21


@pytest.mark.release
def test_a_sample_that_is_too_small_is_refused_before_anybody_is_asked(folder):
    with serve(strict) as server:
        words = words_for(folder, server.url, "sample=10%", "max_total_tokens=1000000")
        with pytest.raises(UsageError, match=r"at least 20 are needed: set sample=\d+%"):
            rescore_command(words)
        assert server.requests == []
        # Nor does it stand in the way of judging everything.
        whole = words_for(folder, server.url, "max_total_tokens=1000000")
        assert rescore_command(whole) == 0
    assert read_entry(folder).review.tracks["task1"].sample is None


@pytest.mark.release
def test_the_same_answers_with_new_verdicts_get_another_draw(folder, tmp_path):
    review, seeds, asked = folder / "review.json", [], []
    with serve(strict) as server:
        ours = ("judge=openai/cheap-judge", f"judge_api_base={server.url}", "max_failures=100%")
        assert alps_here("score", "run", *ours, "out=other").code == 0
        for run in ("run", "other", "run"):
            shutil.rmtree(folder)
            pack([tmp_path / run], WHO, out=folder)
            before = len(server.requests)
            words = words_for(folder, server.url, "sample=80%", "max_total_tokens=1000000")
            rescore_command(words)
            sample = read_entry(folder).review.tracks["task1"].sample
            assert review.is_file()
            seeds.append(sample.seed)
            asked.append(len(server.requests) - before)
    # New verdicts are judged again by a draw of their own; the ones before have theirs still.
    assert seeds[0] != seeds[1]
    assert (seeds[2], asked[2]) == (seeds[0], 0)
    assert min(asked[:2]) > 0
