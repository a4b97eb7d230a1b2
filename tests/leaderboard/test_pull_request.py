"""What `alps leaderboard submit` says is still missing, and the pull request it writes."""

from pathlib import Path

import pytest

from tests.submissions import make_run
from tests.tracks import alps_here


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("request") / "run"
    return make_run(folder, "task=extraction", "model=rules")


def submit(run_folder: Path, out: Path, *words: str):
    return alps_here(
        "leaderboard",
        "submit",
        str(run_folder),
        "name=Thumb",
        "date=2026-01-31",
        f"out={out}",
        *words,
    )


def test_what_is_missing_is_listed_until_it_is_given(run_folder, tmp_path):
    bare = submit(run_folder, tmp_path / "thumb", "dry_run=yes").out
    places = [bare.index(line) for line in ("1. notes=", "2. org=", "3. url=")]
    assert places == sorted(places)
    whole = ("notes=By rules.", "org=A lab", "url=https://example.org/rules", "dry_run=yes")
    assert "Before you submit" not in submit(run_folder, tmp_path / "thumb", *whole).out


def test_the_text_of_the_pull_request_ticks_what_was_checked(run_folder, tmp_path):
    request = tmp_path / "request.md"
    done = submit(run_folder, tmp_path / "thumb", "notes=By rules.", f"request={request}")
    assert done.code == 0, done.err
    text = request.read_text(encoding="utf-8")
    verified = "- [x] `alps leaderboard verify leaderboard/submissions/thumb` does not refuse"
    assert f"{verified} the submission." in text
    assert "- [ ] I have read what will be published" in text
    assert "| extraction | F1 | .069 | [.015, .201] | 26 |" in text
    assert "By rules." in text


def test_the_text_is_no_part_of_the_submission(run_folder, tmp_path):
    inside = tmp_path / "thumb" / "request.md"
    refused = submit(run_folder, tmp_path / "thumb", f"request={inside}")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "must be outside the submission" in refused.err
    assert not inside.exists()
