"""Paths as people give them: the folder they stand in, and `~`, which most shells leave alone
behind a `key=`.
"""

import hashlib
import json

import pytest

from alps.errors import UsageError
from alps.ext.calibration.settings import CalibrateSettings, DrawSettings
from alps.ext.datasets.settings import PoolSettings
from alps.ext.judging.settings import JudgesSettings
from alps.leaderboard.settings import RescoreSettings, ServeSettings, SiteSettings, SubmitSettings
from alps.settings import JudgeSettings, RunSettings, parse_words
from tests.endtoend import contents, files_of
from tests.tracks import alps_here

RULES = ("task=extraction", "model=rules", "limit=1")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The user's home; the working folder is another."""
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.chdir(here)
    return home


def done(*words):
    ran = alps_here(*words)
    assert ran.code == 0, ran.err
    return ran.out


def names_in(folder):
    return {path.name for path in folder.iterdir()}


WRITING = {RunSettings: RULES, JudgesSettings: ("judge=x", "prompts=x")}
WRITING |= {CalibrateSettings: ("labels=stress",)}
WRITING |= dict.fromkeys((JudgeSettings, PoolSettings, DrawSettings, SubmitSettings), ())
WRITING |= dict.fromkeys((RescoreSettings, SiteSettings, ServeSettings), ())


@pytest.mark.parametrize(("model", "needed"), WRITING.items())
def test_a_folder_to_write_may_begin_with_the_home_folder(home, model, needed):
    assert parse_words([*needed, "out=~/x"], model).out == str(home / "x")
    assert parse_words([*needed, "out=x~/y"], model).out == "x~/y"


def test_a_run_its_report_its_second_judgement_and_pools_lie_in_the_home_folder(home):
    done("run", *RULES, "out=~/x")
    done("report", "~/x", "out=~/x.html")
    done("score", "~/x", "out=~/again")
    done("data", "pools", "distractors=100", "out=~/pools")
    assert names_in(home) == {"x", "x.html", "again", "pools"}
    assert names_in(home.parent / "here") == set()


def test_the_home_folder_of_nobody_is_one_line(home):
    told = r"^out=~no-such-user/x: no home folder for ~no-such-user$"
    with pytest.raises(UsageError, match=told):
        parse_words([*RULES, "out=~no-such-user/x"], RunSettings)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("place", "word"),
    [("x", "."), ("x", "../x"), ("x", "../x/."), ("x", "../../runs/x"), ("x/notes", "..")],
)
def test_a_run_can_be_judged_again_from_inside(tmp_path, monkeypatch, place, word):
    runs = tmp_path / "runs"
    done("run", *RULES, f"out={runs / 'x'}")
    done("score", runs / "x")
    (beside,) = runs.glob("x--lexical-*")
    then = contents(beside)
    beside.rename(tmp_path / "then")
    (runs / place).mkdir(exist_ok=True)
    monkeypatch.chdir(runs / place)
    assert beside.name in done("score", word).replace("\n", "")
    assert contents(beside) == then
    assert names_in(runs) == {"x", beside.name}


def test_a_site_is_built_and_built_again_in_the_folder_one_stands_in(tmp_path, monkeypatch):
    here, submissions = tmp_path / "site", tmp_path / "submissions"
    here.mkdir()
    submissions.mkdir()
    monkeypatch.chdir(here)
    assert "0 submissions" in done("leaderboard", "build", f"submissions={submissions}", "out=.")
    built = files_of(here)
    names = ("data/stale.csv", "old/deep/page.html")
    stale = {name: f"of an older version: {name}" for name in names}
    for name, text in stale.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    listed = json.loads((here / ".alps-site.json").read_text())
    listed |= {name: hashlib.sha256(text.encode()).hexdigest() for name, text in stale.items()}
    (here / ".alps-site.json").write_text(json.dumps(listed))
    (here / "index.html").write_text("of an older version")
    done("leaderboard", "build", f"submissions={submissions}", "out=.")
    assert files_of(here) == files_of(tmp_path / "site") == built
    assert names_in(tmp_path) == {"site", "submissions"}
    assert not (here / "old").exists()
    assert here.samefile(".")


def test_a_site_behind_a_link_is_built_where_the_link_leads(tmp_path):
    (tmp_path / "submissions").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "site").symlink_to("real")
    words = (f"submissions={tmp_path / 'submissions'}", f"out={tmp_path / 'site'}")
    for _ in range(2):
        done("leaderboard", "build", *words)
    assert (tmp_path / "real" / "index.html").is_file()
    assert (tmp_path / "site").is_symlink()
