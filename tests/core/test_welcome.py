"""What `alps` says when it is asked nothing."""

import re

from click import Context

from alps.cli import CAME_FOR, cli, welcome
from tests.core.test_cli import HEAVY, modules_after
from tests.endtoend import run
from tests.tracks import alps_here


def test_the_first_command_works_without_key_and_network_and_its_run_is_kept(tmp_path):
    nowhere = "http://127.0.0.1:9"
    first = next(iter(CAME_FOR.values()))
    finished = run(tmp_path, *first.split()[1:], http_proxy=nowhere, https_proxy=nowhere)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout
    assert next((tmp_path / "runs").glob("*/scores.jsonl")).stat().st_size > 0


def test_every_command_that_it_names_exists():
    named = set(re.findall(r"\balps ([a-z]+)", alps_here().out))
    assert {"run", "calibrate", "doctor"} <= named
    assert named <= set(cli.list_commands(Context(cli)))


def test_it_is_styled_for_a_terminal_unless_that_is_not_wanted(monkeypatch):
    assert "\x1b[" in welcome()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in welcome()


def test_it_imports_nothing_heavy(tmp_path):
    assert modules_after(tmp_path).isdisjoint({*HEAVY, "numpy", "pydantic", "scipy", "rich"})
