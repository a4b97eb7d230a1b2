"""What `alps` says when it is asked nothing."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from click import Context

from alps.cli import cli
from alps.welcome import CAME_FOR, welcome
from tests.core.test_cli import HEAVY, modules_after
from tests.endtoend import run
from tests.tracks import alps_here


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """Do what the face says, each command in an empty folder, without key or network."""
    nowhere = "http://127.0.0.1:9"
    offline = {"http_proxy": nowhere, "https_proxy": nowhere}
    with ThreadPoolExecutor(2) as pool:
        started = {}
        for _, command, _ in CAME_FOR:
            folder = tmp_path_factory.mktemp("empty")
            started[command] = folder, pool.submit(run, folder, *command.split()[1:], **offline)
        yield {command: (folder, future.result()) for command, (folder, future) in started.items()}


@pytest.mark.parametrize("command", [command for _, command, _ in CAME_FOR])
def test_a_command_that_it_shows_works_as_it_stands(followed, command):
    _, finished = followed[command]
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout


def test_the_commands_leave_what_they_promise(followed):
    ran, calibrated, built = (folder for folder, _ in followed.values())
    assert next((ran / "runs").glob("*/scores.jsonl")).stat().st_size > 0
    assert next((calibrated / "calibrations").glob("*/calibration.json")).stat().st_size > 0
    assert (built / "site" / "index.html").stat().st_size > 0


def test_it_shows_the_three_things_people_come_for():
    shown = alps_here()
    assert (shown.code, shown.err) == (0, "")
    assert re.findall(r"^   \$ (.*)$", shown.out, re.MULTILINE) == [
        command for _, command, _ in CAME_FOR
    ]
    assert [command.split()[1] for _, command, _ in CAME_FOR] == ["run", "calibrate", "leaderboard"]


def test_it_fits_a_terminal():
    lines = alps_here().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24


def test_every_command_that_it_names_exists():
    named = set(re.findall(r"\balps ([a-z]+)", alps_here().out))
    assert {"run", "calibrate", "leaderboard", "submit", "completion", "doctor"} <= named
    assert named <= set(cli.list_commands(Context(cli)))


def test_it_is_styled_for_a_terminal_unless_that_is_not_wanted(monkeypatch):
    assert "\x1b[" in welcome()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in welcome()


def test_it_imports_nothing_heavy(tmp_path):
    assert modules_after(tmp_path).isdisjoint({*HEAVY, "numpy", "pydantic", "scipy", "rich"})
