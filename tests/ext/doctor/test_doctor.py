import importlib.metadata
import io
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from rich.cells import cell_len
from rich.console import Console

import alps
from alps.data.release import open_split, write_track
from alps.ext.doctor import examination as doctor
from alps.tasks import TASKS
from tests.tracks import pool_row, target_row, write_ability


def examined(*, width: int = 80) -> tuple[int, str]:
    out = io.StringIO()
    code = doctor.examine(Console(file=out, width=width))
    text = out.getvalue()
    assert max(cell_len(line) for line in text.splitlines()) <= width
    return code, " ".join(text.split())


def test_a_sound_installation_has_nothing_bad():
    code, text = examined()
    assert code == 0
    assert f"alps {alps.__version__} on Python {sys.version.split()[0]}" in text
    assert f"litellm {importlib.metadata.version('litellm')}" in text
    assert all(f" for {task}" in text for task in TASKS)
    assert "nothing bad" in text


@pytest.mark.parametrize(
    ("name", "version", "state"),
    [
        ("litellm", "1.106.0", "bad"),
        ("litellm", "1.106.2", "bad"),
        ("litellm", "1.89.9", "bad"),
        ("litellm", "1.105.3", None),
        ("litellm", "1.107.0.dev1", None),
        ("litellm", "2.0", None),
        ("instructor", "1.15.4", "bad"),
        ("instructor", "1.16.0", None),
        ("rich", "15.0.0rc1", "bad"),
        ("rich", "14.3.4", None),
        ("numpy", "0.1", "bad"),
    ],
)
def test_releases_known_to_fail_are_bad_and_say_how_to_fix(name, version, state):
    requirements = map(Requirement, importlib.metadata.requires(doctor.PACKAGE) or ())
    needed = next(one for one in requirements if one.name == name)
    finding = doctor.check_library(needed, version)
    assert (finding.state if finding else None) == state
    if finding:
        assert version in finding.text
        assert finding.fix.startswith("pip install")


def test_a_bad_release_and_a_missing_library_make_the_exit_code(monkeypatch):
    def version(name):
        if name == "scipy":
            raise importlib.metadata.PackageNotFoundError(name)
        return {"litellm": "1.106.1"}.get(name, importlib.metadata.version(name))

    monkeypatch.setattr(doctor, "version", version)
    code, text = examined()
    assert code == 1
    assert "litellm 1.106.1: with 1.106, every tool call fails" in text
    assert "scipy is not installed → pip install scipy" in text
    assert "2 bad" in text


KEY = "sk-very-secret-value"
SURROUNDINGS = {
    "no key": ({}, "note the environment has no provider key"),
    "a key": ({"OPENAI_API_KEY": KEY}, "keys in the environment: OPENAI_API_KEY"),
    "a key with white space around it": (
        {"OPENAI_API_KEY": f"{KEY}\n"},
        "OPENAI_API_KEY begins or ends with white space or quotes",
    ),
    "no cache": ({"ALPS_CACHE": "off"}, "note the reply cache is off"),
}


@pytest.mark.parametrize(("variables", "told"), SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_surroundings_are_told_and_no_key_is_shown(monkeypatch, variables, told):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code, text = examined()
    assert code == 0
    assert told in text
    assert "very-secret" not in text


def test_a_blank_key_is_not_set(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GEMINI_API_KEY", "   ")
    assert "GEMINI_API_KEY" in examined()[1].partition("not set")[2]


def test_no_cache_yet_tells_where_it_will_be(monkeypatch, tmp_path):
    monkeypatch.setenv("ALPS_CACHE", str(tmp_path / "deep" / "down"))
    code, text = examined(width=300)
    assert code == 0
    assert str(tmp_path / "deep" / "down" / "replies.sqlite") in text
    assert not (tmp_path / "deep").exists()


def test_a_cache_that_cannot_be_written_is_bad(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ALPS_CACHE", str(tmp_path / "file" / "cache"))
    code, text = examined()
    assert code == 1
    assert "can't be written" in text


def test_the_four_folders_are_told_apart(tmp_path, monkeypatch):
    package = tmp_path / "alps"
    package.mkdir()
    (tmp_path / "tasks").mkdir()
    (package / "tasks").symlink_to("../tasks")
    (package / "judges").mkdir()
    (package / "data").write_text("../data")  # how git leaves a link where there are none
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(alps, "__path__", [str(package), str(tmp_path)])
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: object())
    found = {finding.text: finding for finding in doctor._links(package)}
    assert found["alps/tasks: a link"].state == "ok"
    assert found["alps/judges: a folder"].state == "ok"
    assert found["alps/data: found through the repository root"].state == "ok"
    assert found["the link alps/leaderboard is broken"].state == "bad"
    assert found["the link alps/leaderboard is broken"].fix


def test_unreadable_samples_are_bad(monkeypatch):
    def nowhere(data, split):
        raise alps.errors.UsageError("no such folder")

    monkeypatch.setattr(doctor, "open_split", nowhere)
    code, text = examined()
    assert code == 1
    assert "samples for extraction can't be read: no such folder" in text


def test_the_samples_of_every_task_are_counted_and_a_missing_track_is_bad(tmp_path, monkeypatch):
    rows = [target_row(f"t{n}", queries=("Why?", "How?")[: 1 + (n == 5)]) for n in range(6)]
    for number in range(1, 6):
        write_ability(tmp_path, number, rows[number])
    split = tmp_path / "dev"
    query, gold = pool_row("q", ["Keeps bees"], 0)
    write_track(split / "task3", [({**query, "input": {"query": "What do I keep?"}}, gold)])
    monkeypatch.setattr(doctor, "open_split", lambda data, name: open_split(str(tmp_path), name))
    code, text = examined()
    assert code == 1
    assert "1 for retrieval, 6 for utilization" in text
    assert "samples for extraction can't be read" in text
    (split / "task4_ability3" / "model_input.jsonl").unlink()
    assert "samples for utilization can't be read" in examined()[1]


def test_ways_to_look_stay_light():
    looking = ("record_text", "listing", "report_page")
    names = [*(f"ext.looking.{name}" for name in looking), "ext.doctor.examination", "show.charts"]
    probe = (
        f"import sys, io, {', '.join(f'alps.{name}' for name in names)}; "
        "from rich.console import Console; "
        "before = set(sys.modules); "
        "alps.ext.doctor.examination.examine(Console(file=io.StringIO())); "
        "print([name for name in ('litellm', 'sklearn', 'scipy', 'instructor', 'datasets') if "
        "name in sys.modules], "
        "'jinja2' in before)"
    )
    command = [sys.executable, "-c", probe]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert finished.stdout.split() == ["[]", "False"]
