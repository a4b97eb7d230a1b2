"""Tab completion, asked as a shell asks: by environment variables; what bash makes of it, bash
itself says.
"""

import shutil
import subprocess
import sys

import pytest

from alps.cli import COMPLETE_VAR, cli
from alps.ext.completion import SHELLS
from alps.ext.completion.answers import script
from alps.extension import brought_tasks
from alps.settings import RunSettings
from alps.tasks.registry import TASKS
from tests.core.test_cli import HEAVY, PROBE
from tests.endtoend import environment
from tests.tracks import alps_here

COMMANDS = ("run", "score", "show", "report", "compare", "calibrate", "leaderboard", "completion")


@pytest.fixture
def tab(monkeypatch, tmp_path, capsys):
    """Press Tab at the end of a line, in an empty folder; answers the lines that the shell's script
    is given.
    """
    monkeypatch.chdir(tmp_path)

    def press(line, shell="bash"):
        *before, last = line.split(" ")
        words = {"bash": {}, "zsh": {"COMP_CWORD": str(len(before))}, "fish": {"COMP_CWORD": last}}[
            shell
        ]
        for name, value in {"COMP_WORDS": line, COMPLETE_VAR: f"{shell}_complete", **words}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as end:
            cli.main([], prog_name="alps", complete_var=COMPLETE_VAR)
        assert end.value.code == 0
        return [line for line in capsys.readouterr().out.splitlines() if line]

    return press


@pytest.fixture
def runs(tmp_path):
    """Two runs where runs lie, one in a folder of its own, and a folder that is none."""
    for name in ("runs/first", "runs/second", "mine/third", "notes"):
        (tmp_path / name).mkdir(parents=True)
        if name != "notes":
            (tmp_path / name / "manifest.json").write_text("{}")


def test_commands_and_keys_are_completed_and_what_must_be_given_comes_first(tab):
    assert set(COMMANDS) <= set(tab("alps "))
    assert "labels=" in tab("alps calibrate ")
    keys = tab("alps run ")
    assert keys[:2] == ["task=", "model="]
    assert set(keys) == {f"{name}=" for name in RunSettings.model_fields}
    assert set(keys) - set(tab("alps run task=update ")) == {"task="}, "it was given"


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("alps ca", ["calibrate"]),
        ("alps leaderboard ", ["submit", "verify", "rescore", "build", "serve"]),
        ("alps annotate ex", ["export"]),
        ("alps calibrate li", ["list"]),
        ("alps run task=u", ["update", "utilization"]),
        ("alps run u", ["update", "utilization"]),
        ("alps run ext", ["extraction", "extras=none", "extras=judge"]),
        ("alps run task=update,re", ["update,retrieval"]),
        ("alps run task=update model=ru", ["rules"]),
        ("alps run task=retrieval model=floor/", ["floor/random", "floor/lowest-unique-id"]),
        ("alps run task=retrieval,utilization model=o", ["openai/"]),
        ("alps run judge=l", ["lexical"]),
        ("alps run ability=", ["pa", "pf", "vra", "cf", "ei", "all"]),
        ("alps run distractors=1", ["100", "1000"]),
        ("alps run persona=h", ["hidden"]),
        ("alps run dry_run=", ["yes", "no"]),
        ("alps score runs/first scoring=", ["alps", "authors-v1"]),
        ("alps calibrate labels=s", ["stress"]),
        ("alps leaderboard submit runs/first kind=me", ["memory"]),
        ("alps leaderboard submit runs/first open_weights=", ["yes", "no"]),
        ("alps completion z", ["zsh"]),
        ("alps run nonsense=", []),
        ("alps run limit=", []),
    ],
)
def test_a_value_is_completed(tab, line, values):
    assert tab(line) == values


def test_a_key_that_alone_fits_gives_its_values_so_that_no_space_comes_between(tab):
    assert tab("alps run ta") == [f"task={name}" for name in (*TASKS, *brought_tasks(), "all")]


@pytest.mark.parametrize(
    "command", ["show", "score", "report", "compare", "leaderboard submit", "annotate draw"]
)
def test_run_folders_are_completed(tab, runs, command):
    assert tab(f"alps {command} runs/f") == ["runs/first"]
    offered = tab(f"alps {command} ")
    assert offered[:2] == ["runs/first", "runs/second"]
    assert {"mine/", "notes/"} <= set(offered)
    assert tab(f"alps {command} mine/") == ["mine/third"]


def test_paths_are_completed_where_a_path_is_meant(tab, runs, tmp_path):
    offered = tab("alps compare runs/first ")
    assert "runs/first" not in offered, "it was named"
    assert {"runs/second", "seed=", "format="} <= set(offered)
    assert tab("alps compare runs/first fo") == ["format=table", "format=json"]
    (tmp_path / "night ly.toml").write_text("")
    assert tab("alps run config=n") == ["night\\ ly.toml", "notes/"]
    assert tab("alps run model=predictions:mine/third/") == ["mine/third/manifest.json"]
    assert tab("alps run data=") == ["samples", "hub", "mine/", "notes/", "runs/"]
    assert tab("alps run data=nowhere/") == []


TOLD = "first N records"


@pytest.mark.parametrize(
    ("shell", "line", "answer"),
    [
        ("zsh", "task=u", ["plain", "task=update", "_", "plain", "task=utilization", "_"]),
        ("fish", "task=u", ["plain,task=update", "plain,task=utilization"]),
        ("zsh", "li", ["plain", "limit=", TOLD]),
        ("fish", "li", [f"plain,limit=\t{TOLD}"]),
    ],
)
def test_other_shells_are_given_whole_words_and_told_what_a_setting_is(tab, shell, line, answer):
    assert tab(f"alps run {line}", shell) == answer


def test_pressing_tab_imports_nothing_heavy(tmp_path):
    words = {"COMP_WORDS": "alps run task=extraction model=", COMPLETE_VAR: "bash_complete"}
    given = environment(tmp_path, **words)
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=tmp_path,
        env=given,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "rules" in done.stdout.split()
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "pydantic" in loaded
    assert loaded.isdisjoint({*HEAVY, "numpy", "scipy", "rich"})


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell_is_printed(shell):
    shown = alps_here("completion", shell)
    assert shown.code == 0
    assert shown.out == script(cli, shell) + "\n"
    assert f"{COMPLETE_VAR}={shell}_complete" in shown.out


@pytest.mark.few(1)
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash reads the script")
@pytest.mark.parametrize(
    ("line", "replies"),
    [
        ("alps run model=predictions:m", ["mine/"]),
        ("alps show runs/", ["runs/first", "runs/second"]),
    ],
)
def test_bash_takes_the_replies(tmp_path, runs, line, replies):
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "alps"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m alps "$@"\n')
    command.chmod(0o755)
    press = (
        'source /dev/stdin; COMP_LINE=$0 COMP_POINT=${#0}; _alps_completion "$1"; printf "%s\\n" '
        '"${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", press, line, str(command)],
        cwd=tmp_path,
        env=environment(tmp_path),
        input=script(cli, "bash"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == replies
    assert done.stderr == ""
