"""Every run folder holds the config file that repeats it."""

import tomllib

import pytest

import alps
from alps.run.folder import write_config
from alps.settings import RunSettings, read_config
from tests.endtoend import JOURNALS, contents
from tests.tracks import alps_here

RUN = ("run", "task=extraction,update", "model=rules", "limit=3", "max_failures=5%")
RUN += ("seed=7", "scoring=alps")
SAID = {"task": "extraction,update", "model": "rules", "limit": 3, "max_failures": 0.05}
SAID |= {"seed": 7, "scoring": "alps", "out": "runs/../first"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, and two from its config file: one elsewhere, one by the second's own file."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "runs").mkdir()
        assert alps_here(*RUN, "out=runs/../first").code == 0
        assert alps_here("run", "config=first/config.toml", "out=second").code == 0
        assert alps_here("run", "config=second/config.toml", "out=third").code == 0
    return folder


def settings_in(folder):
    return tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))


def test_the_file_says_what_was_given_nothing_else_and_how_to_use_it(made):
    assert settings_in(made / "first") == SAID
    written = (made / "first" / "config.toml").read_text()
    assert "alps run config=runs/../first/config.toml out=" in written


@pytest.mark.parametrize("name", ["second", "third"])
def test_a_run_by_the_file_is_equal_byte_by_byte_but_for_its_own_folder(made, name):
    files = (*JOURNALS, "summary.json", "manifest.json")
    assert contents(made / name, files) == contents(made / "first", files)
    assert (made / name / "scores.jsonl").stat().st_size > 0
    assert settings_in(made / name) == {**SAID, "out": name}


def test_words_come_before_the_file(made, monkeypatch):
    monkeypatch.chdir(made)
    assert alps_here("run", "config=first/config.toml", "task=update", "out=update").code == 0
    assert settings_in(made / "update") == {**SAID, "task": "update", "out": "update"}


def test_python_reads_the_file_too(made, monkeypatch):
    monkeypatch.chdir(made)
    alps.evaluate(config="first/config.toml", task="update", out="python")
    assert settings_in(made / "python") == {**SAID, "task": "update", "out": "python"}


def test_a_dry_run_in_the_folder_of_another_run_is_refused_as_the_run_would_be(made, monkeypatch):
    monkeypatch.chdir(made)
    words = ("run", "config=first/config.toml", "seed=8", "out=first")
    assert alps_here(*words, "dry_run=yes").one_line == alps_here(*words).one_line
    assert alps_here("run", "config=first/config.toml", "out=first", "dry_run=yes").code == 0


def test_a_run_that_is_resumed_keeps_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("run", "task=extraction", "model=rules", "limit=2", "out=out")
    assert alps_here(*words).code == 0
    path = tmp_path / "out" / "config.toml"
    before = path.read_bytes()
    assert alps_here(*words, "concurrency=2").code == 0
    assert path.read_bytes() == before
    path.unlink()
    assert alps_here(*words).code == 0
    assert path.read_bytes() == before


def test_another_run_in_the_same_folder_leaves_the_file_alone(made, monkeypatch):
    monkeypatch.chdir(made)
    before = (made / "first" / "config.toml").read_bytes()
    alps_here(*RUN, "out=first", "repeats=2").one_line  # noqa: B018 - it checks that the run is refused
    assert (made / "first" / "config.toml").read_bytes() == before


def test_a_run_that_was_judged_again_says_whose_predictions_it_has(made, monkeypatch):
    monkeypatch.chdir(made)
    assert alps_here("score", "first", "scoring=authors-v1", "out=again").code == 0
    given = {**SAID, "scoring": "authors-v1", "out": "again"}
    del given["max_failures"]  # how a run is carried out is no part of what it measured
    assert settings_in(made / "again") == given
    assert "scored the predictions of first" in (made / "again" / "config.toml").read_text()


@pytest.mark.release
def test_the_file_is_no_part_of_a_submission(made, monkeypatch):
    monkeypatch.chdir(made)
    assert alps_here("run", "task=update", "model=floor/no-op", "out=whole").code == 0
    assert (made / "whole" / "config.toml").is_file()
    named = ("name=Nothing", "org=Us", "date=2026-01-02", "out=nothing")
    assert alps_here("leaderboard", "submit", "whole", *named).code == 0
    assert list((made / "nothing").rglob("*.toml")) == []
    assert alps_here("leaderboard", "verify", "nothing").code == 0


def test_a_secret_does_not_get_into_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("DEMO_API_KEY", "canary-0123456789")
    given = {
        "model": "program:serve --key canary-0123456789",
        "judge": "sk-canary0123456789",
        "limit": 2,
    }
    write_config(tmp_path, given, told=["alps run canary-0123456789"])
    text = (tmp_path / "config.toml").read_text()
    assert "canary" not in text
    assert "alps masked a secret" in text
    assert settings_in(tmp_path)["model"].startswith("program:serve --key [")


@pytest.mark.parametrize(
    "model",
    [
        'program:sh -c "cat\t\\n"',
        "predictions:C:\\old\\new.jsonl",
        "predictions:日本 …\x7f\x01.jsonl",
        "a # ]",
        "''",
    ],
)
def test_whatever_was_typed_comes_back(tmp_path, model):
    kept = {"model": model, "temperature": 1e-07, "limit": 3}
    given = {**kept, "dry_run": True, "config": "x.toml", "split": None}
    write_config(tmp_path, given, told=[f"made by {model}\nin one line"])
    assert read_config(tmp_path / "config.toml", RunSettings) == kept
