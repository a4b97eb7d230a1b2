"""A site is built into folders that hold other things, too: nothing goes that no build wrote."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.endtoend import Finished, edit_json, files_of, one_line, run
from tests.few import few
from tests.submissions import SLUG

MINE = {
    "CNAME": "example.org",
    "README.md": "mine",
    "data/notes.csv": "my,notes",
    "systems/mine.html": "<p>mine",
    "assets/logo.svg": "<svg/>",
    ".github/workflows/publish.yml": "on: push",
    "drafts/deep/page.html": "a draft",
}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=n@", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def place(tmp_path: Path, thumb: Path) -> Path:
    """A folder with `submissions`, and the checkout `public` that a site is published from."""
    shutil.copytree(thumb, tmp_path / "submissions" / SLUG)
    write(tmp_path / "public", MINE)
    git(tmp_path / "public", "init", "--quiet")
    return tmp_path


def built(place: Path, out: str) -> Finished:
    return run(place, "leaderboard", "build", "submissions=submissions", f"out={out}")


def build(place: Path, out: str = "public") -> str:
    finished = built(place, out)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def refused(place: Path, out: str = "public") -> str:
    return one_line(built(place, out))


def test_what_no_build_wrote_stays_and_what_one_wrote_goes(place: Path) -> None:
    public = place / "public"
    git(public, "add", "--all")
    git(public, "commit", "--quiet", "--message=mine")
    history = git(public, "log", "--format=%H")
    build(place)
    first = files_of(public)
    assert f"systems/{SLUG}.html" in first
    write(public, {"data/later.csv": "added,later", "robots.txt": "User-agent: *"})
    shutil.rmtree(place / "submissions" / SLUG)
    assert "old files kept" not in build(place)
    after = files_of(public)
    assert f"systems/{SLUG}.html" not in after
    assert not (public / "records" / "task1").exists(), "folders that are empty now go, too"
    assert {name: after[name].decode() for name in MINE} == MINE
    assert (after["data/later.csv"], after["robots.txt"]) == (b"added,later", b"User-agent: *")
    assert git(public, "log", "--format=%H") == history
    assert git(public, "fsck", "--strict") == ""
    listed = json.loads(after[".alps-site.json"])
    assert not set(listed) & {*MINE, "data/later.csv", "robots.txt"}
    assert not list(place.glob(".alps-site*"))


@pytest.mark.release
def test_the_same_submissions_give_the_same_bytes_beside_other_files(place: Path) -> None:
    build(place)
    build(place, "site")
    assert {**files_of(place / "site"), **files_of(place / "public")} == files_of(place / "public")


def test_a_stale_file_that_somebody_changed_stays_and_is_named(place: Path) -> None:
    build(place)
    write(place / "public", {f"systems/{SLUG}.html": "my words"})
    shutil.rmtree(place / "submissions" / SLUG)
    kept = f"old files kept, because they changed since the last build: systems/{SLUG}.html"
    assert kept in build(place)
    assert (place / "public" / "systems" / f"{SLUG}.html").read_text() == "my words"


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["index.html", "records", f"systems/{SLUG}.html/page"])
def test_a_file_in_the_way_is_named_and_nothing_is_written(place: Path, name: str) -> None:
    write(place / "public", {name: "mine"})
    before = files_of(place / "public")
    assert "not written by a site build" in refused(place)
    assert files_of(place / "public") == before


@pytest.mark.release
def test_a_folder_with_nothing_but_the_name_of_its_host_takes_a_site(place: Path) -> None:
    write(place, {"docs/CNAME": "example.org", "docs/.well-known/x": "mine"})
    build(place, "docs")
    assert (place / "docs" / "CNAME").read_text() == "example.org"


@pytest.mark.release
def test_a_link_in_a_site_leads_no_build_elsewhere(place: Path) -> None:
    build(place)
    elsewhere = place / "elsewhere"
    shutil.move(place / "public" / "systems", elsewhere)
    (place / "public" / "systems").symlink_to(elsewhere)
    before = files_of(elsewhere)
    shutil.rmtree(place / "submissions" / SLUG)
    assert "Traceback" not in built(place, "public").stderr
    assert files_of(elsewhere) == before


@pytest.mark.parametrize(
    "name", few(["data/../../outside.txt", ".git/config", "../outside.txt", "/etc/hostname"], 2)
)
def test_a_list_that_no_build_wrote_removes_nothing(place: Path, name: str) -> None:
    write(place, {"outside.txt": "mine"})
    build(place)
    edit_json(place / "public" / ".alps-site.json", lambda listed: listed.update({name: "0" * 64}))
    before = files_of(place / "public")
    assert ".alps-site.json: lists files that no build writes" in refused(place)
    assert files_of(place / "public") == before
    assert (place / "outside.txt").read_text() == "mine"


@pytest.mark.release
def test_folders_beside_a_site_are_nobodys_scratch(place: Path) -> None:
    write(place, {".site.unfinished/thesis.txt": "mine", ".public.unfinished/thesis.txt": "mine"})
    for out in ("site", "public"):
        build(place, out)
        assert (place / f".{out}.unfinished" / "thesis.txt").read_text() == "mine"
