"""What a run folder or a card names is never imported: only the module that the user types is."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.endtoend import Finished, one_line, run, run_cold
from tests.submissions import SLUG, forge, make_run, pack_rules, write_data

OWN = """\
from dataclasses import replace
from alps.systems import embedded
from alps.tasks.extraction import tracks as known
def tracks(options):
    systems = {"floor/none": embedded.empty, "floor/one": embedded.content_free}
    return [replace(task, name="mine", systems=systems, \
conditions={"mood": "calm"}) for task in known(options)]
"""
CANARY = "from pathlib import Path\nPath(__file__).with_name('was-run').touch()\n"
NAMES = ("python:stranger", "extraction,python:stranger", "python:stranger,python:other")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of a task of one's own, and a plain one, on small data."""
    folder = tmp_path_factory.mktemp("strangers")
    write_data(folder / "data")
    (folder / "stranger.py").write_text(OWN, encoding="utf-8")
    for model in ("none", "one"):
        words = ("task=python:stranger", f"model=floor/{model}", "data=data", f"out=runs/{model}")
        ended_well(run(folder, "run", *words))
    make_run(folder / "runs" / "plain", "task=extraction", "model=rules", f"data={folder / 'data'}")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy in which importing the module leaves a file."""
    copy = Path(shutil.copytree(made, tmp_path / "copy"))
    (copy / "stranger.py").write_text(CANARY + OWN, encoding="utf-8")
    (copy / "other.py").write_text(CANARY, encoding="utf-8")
    wording = copy / "wordings" / "short" / "matching.md"
    wording.parent.mkdir(parents=True)
    wording.write_text("<!-- id: matching/9 -->\nMatch.\n", encoding="utf-8")
    return copy


def ended_well(finished: Finished) -> Finished:
    assert finished.returncode == 0, (finished.args, finished.stderr)
    return finished


def was_run(folder: Path) -> bool:
    return bool(list(folder.rglob("was-run")))


def rename_task(run_folder: Path, **settings: str) -> None:
    path = run_folder / "manifest.json"
    manifest: dict[str, Any] = json.loads(path.read_bytes())
    manifest["settings"] |= settings
    path.write_text(json.dumps(manifest), encoding="utf-8")


LOOKS = {
    "ls": ("ls",),
    "show": ("show", "runs/one", "1"),
    "show all": ("show", "runs/one", "1", "--full"),
    "report": ("report", "runs/one", "out=page.html"),
    "report of two": ("report", "runs/one", "runs/none", "out=page.html"),
    "compare": ("compare", "runs/one", "runs/none", "format=json"),
}
REFUSED = {
    "submit": ("leaderboard", "submit", "runs/one", "dry_run=yes"),
    "score": ("score", "runs/one", "judge=lexical", "out=again"),
    "draw": ("annotate", "draw", "runs/one", "out=drawn"),
    "sensitivity": ("judges", "runs/one", "judge=openai/gpt-4.1", "prompts=wordings"),
}


@pytest.mark.release
def test_looking_at_a_run_of_a_task_of_ones_own_shows_it_and_imports_nothing(folder: Path) -> None:
    for words in LOOKS.values():
        ended_well(run(folder, *words))
        assert not was_run(folder), words


def test_what_is_shown_without_the_code_is_what_the_code_would_show(folder: Path) -> None:
    def figures(finished: Finished) -> list[str]:
        return [line for line in ended_well(finished).stdout.splitlines() if "F1" in line]

    def both(*words: str) -> list[Finished]:
        return [run(folder, *words, *typed) for typed in ((), ("task=python:stranger",))]

    closed, opened = both("show", "runs/one", "1")
    assert figures(closed) == figures(opened) != []
    assert "add task=python:stranger to the command" in " ".join(closed.stdout.split())
    assert "Dialogue" not in closed.stdout
    assert was_run(folder)
    closed, opened = both("compare", "runs/one", "runs/none")
    table = [line.split()[:4] for line in figures(closed)]
    assert table == [line.split()[:4] for line in figures(opened)] != []


def test_what_needs_the_code_is_refused_in_one_line(folder: Path) -> None:
    for words in REFUSED.values():
        said = one_line(run(folder, *words, OPENAI_API_KEY="sk-nobodys"))
        assert "task=python:stranger" in said, words
        assert not was_run(folder), words


def test_a_page_of_a_task_of_ones_own_is_refused_with_a_command_that_takes_the_task(folder: Path):
    said = one_line(run(folder, "annotate", "work", "job=rate", "from=runs/one"))
    assert "alps annotate draw runs/one task=python:stranger out=DIR" in said
    assert not (folder / "work").exists()


def test_the_module_that_the_user_types_is_imported(folder: Path) -> None:
    ended_well(run(folder, *REFUSED["score"], "task=python:stranger"))
    assert was_run(folder)


def test_another_module_than_the_typed_one_is_not_imported(folder: Path) -> None:
    rename_task(folder / "runs" / "one", task="python:stranger")
    ended_well(run(folder, "show", "runs/one", "1", "task=python:nowhere"))
    assert not was_run(folder)


def test_a_forged_manifest_gets_nothing_imported(folder: Path) -> None:
    plain = folder / "runs" / "plain"
    for place, words in enumerate([*LOOKS.values(), *REFUSED.values()]):
        task = NAMES[place % len(NAMES)]
        rename_task(plain, task=task, model="python:stranger:Stranger", judge="python:stranger")
        told = [word if not word.startswith("runs/") else "runs/plain" for word in words]
        finished = run(folder, *dict.fromkeys(told), OPENAI_API_KEY="sk-nobodys")
        assert "Traceback" not in finished.stderr, words
        assert not was_run(folder), words


@pytest.mark.release
def test_a_stranger_who_names_metrics_does_not_steer_the_terminal(folder: Path) -> None:
    path = folder / "runs" / "one" / "summary.json"
    summary = json.loads(path.read_bytes())
    track = summary["tracks"]["task1"]
    track["task"] = "extraction"
    for metric in track["shown_by"]["metrics"]:
        metric["title"] = "\x1b]0;owned\x07 [red]title"
    track["scores"]["\x1b[2J"] = track["scores"]["f1"]
    path.write_text(json.dumps(summary), encoding="utf-8")
    for words in LOOKS.values():
        finished = run(folder, *words)
        assert "Traceback" not in finished.stderr
        assert not {"\x1b", "\x07"} & set(finished.stdout + finished.stderr)


def test_a_file_in_the_working_folder_does_not_stand_in_for_a_library(folder: Path) -> None:
    for name in ("rich", "numpy", "click", "alps_extra"):
        (folder / f"{name}.py").write_text(CANARY, encoding="utf-8")
    assert "runs/one" in ended_well(run_cold(folder, "ls")).stdout
    assert not was_run(folder)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_rules(tmp_path_factory.mktemp("packed"))


@pytest.fixture
def submission(packed: Path, tmp_path: Path) -> Path:
    """A copy beside a module that leaves a file when it is imported."""
    (tmp_path / "stranger.py").write_text(CANARY + OWN, encoding="utf-8")
    return Path(shutil.copytree(packed, tmp_path / "submissions" / SLUG))


@pytest.mark.few(2)
@pytest.mark.parametrize("task", [NAMES[1], "all,python:stranger"])
@pytest.mark.parametrize("command", ["verify", "rescore"])
def test_a_card_gets_nothing_imported(
    submission: Path, tmp_path: Path, command: str, task: str
) -> None:
    (tmp_path / "other.py").write_text(CANARY, encoding="utf-8")
    forge(submission, lambda card: card["runs"][0]["settings"].update(task=task))
    judge = ["judge=lexical"] if command == "rescore" else []
    finished = run(tmp_path, "leaderboard", command, f"submissions/{SLUG}", *judge)
    assert finished.returncode != 0
    told = " ".join(finished.stdout.split()) if command == "verify" else one_line(finished)
    assert "runs.0.settings.task" in told
    assert "has no board" in told
    assert not was_run(tmp_path)
    assert not (submission / "review.json").exists()


@pytest.mark.parametrize(
    ("kind", "model"),
    [("python", "python:stranger:Stranger"), ("program", "program:touch was-run")],
)
def test_a_system_that_a_card_names_is_not_run_when_it_is_judged_again(
    submission: Path, tmp_path: Path, kind: str, model: str
) -> None:
    def rename(card: dict[str, Any]) -> None:
        card["system"] |= {"kind": kind, "model": model}
        card["runs"][0]["settings"]["model"] = model

    forge(submission, rename)
    ended_well(run(tmp_path, "leaderboard", "rescore", f"submissions/{SLUG}", "judge=lexical"))
    assert (submission / "review.json").is_file()
    assert not was_run(tmp_path)


@pytest.mark.release
def test_a_site_of_a_card_that_names_a_module_imports_nothing(
    submission: Path, tmp_path: Path
) -> None:
    forge(submission, lambda card: card["runs"][0]["settings"].update(task="python:stranger"))
    ended_well(run(tmp_path, "leaderboard", "build", "submissions=submissions", "out=site"))
    assert not was_run(tmp_path)
    assert os.listdir(tmp_path / "site" / "systems")
