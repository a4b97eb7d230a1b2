"""What a command is started with: closed or broken streams, a narrow terminal, no home folder,
dashes before settings.

Nothing is wrong with the run in any of these: there is no traceback, and the exit code is the
command's own.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from alps.jsonl import parse_json
from tests import label_folders
from tests.endtoend import contents, environment, install, run
from tests.few import few
from tests.tracks import Ran, alps_here

RUN = "run task=extraction model=rules limit=3 out=runs/new"
EVERY = (RUN, "ls", "show runs/a 1", "compare runs/a runs/b", "report runs/a", "--help", "doctor")
WRITING = (RUN, "ls", "report runs/a")
READING = (RUN, "show runs/a 1", "--help")
STREAMS = {
    "stdout closed": ("{} >&-", WRITING),
    "stdout and stderr closed": ("{} >&- 2>&-", WRITING),
    "all three closed": ("{} <&- >&- 2>&-", EVERY),
    "stderr closed": ("{} 2>&-", WRITING),
    "a reader that goes away": ("{} | head -c 1 > /dev/null", READING),
    "a reader of both that goes away": ("{} 2>&1 | head -c 0", WRITING),
    "no home folder": ("env -u HOME {}", WRITING),
    "a home folder that can't be made": ("HOME=/proc/nothing {}", (RUN, "doctor")),
    "a user without a name": ("env -u HOME unshare -U --map-user=12345 {}", (*WRITING, "doctor")),
}
"""How a command is started, and the commands for which that may make a difference."""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="speaks to a POSIX shell")


def has_namespaces() -> bool:
    unshare = shutil.which("unshare")
    words = [str(unshare), "-U", "--map-user=12345", "true"]
    return bool(unshare) and subprocess.run(words, check=False).returncode == 0


def shell(folder: Path, line: str, command: str) -> subprocess.CompletedProcess[str]:
    variables = environment(folder)
    for name in ("ALPS_CACHE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        variables.pop(name, None)
    alps = f"{shlex.quote(sys.executable)} -P -m alps {command}"
    if "| head" in line:  # nothing of its start: tests/core/test_cli.py has a cold one
        alps = f"{shlex.quote(str(install(folder) / 'alps'))} {command}"
    words = ["bash", "-c", f"set -o pipefail; {line.format(alps)}"]
    return subprocess.run(
        words, check=False, cwd=folder, env=variables, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("surroundings")
    for name, model in {"a": "rules", "b": "oracle"}.items():
        words = ("task=extraction", f"model={model}", "limit=3", f"out=runs/{name}")
        assert run(folder, "run", *words).returncode == 0
    return folder


@pytest.mark.release
@pytest.mark.parametrize(("line", "commands"), few(STREAMS, plain={"stderr closed"}))
def test_no_command_breaks_off_for_what_it_was_started_with(two_runs, line, commands):
    if "unshare" in line and not has_namespaces():
        pytest.skip("no user namespaces here")
    for command in commands:
        done = shell(two_runs, line, command)
        said = f"{done.stdout}{done.stderr}"
        assert "Traceback" not in said, f"{command}: {said}"
        assert "Exception ignored" not in said, f"{command}: {said}"
        assert done.returncode == 0 or (command == "doctor" and done.returncode == 1), (
            f"{command}: {said}"
        )


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("command", "columns"),
    [(RUN, "1"), ("show runs/a 1", "3"), ("compare runs/a runs/b", "1"), ("report runs/a", "1")],
)
def test_no_command_breaks_off_in_a_terminal_of_few_columns(two_runs, command, columns):
    done = run(two_runs, *command.split(), COLUMNS=columns)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0


@pytest.mark.release
def test_with_stdout_closed_a_run_writes_what_it_writes_else(two_runs):
    """The number of a closed stream goes to the next file that is opened: what is printed must not
    land there.
    """
    assert shell(two_runs, "{} >&- 2>&-", RUN.replace("new", "closed")).returncode == 0
    assert contents(two_runs / "runs/closed") == contents(two_runs / "runs/a")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
def test_a_full_disk_behind_stdout_is_one_line(two_runs):
    done = shell(two_runs, "{} > /dev/full", "ls")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("run --task extraction --model rules", "write task=extraction"),
        ("run --model=rules", "write model=rules"),
        ("run task=extraction -m rules", "write model=rules"),
        ("run -mrules", "write model=rules"),
        ("run --max-cost 5", "write max_cost=5"),
        ("run --modle rules", "write model=rules"),
        ("run --task", "write task=…"),
        ("run --frobnicate 3", "settings are written key=value"),
        ("calibrate --labels stress", "write labels=stress"),
        ("compare runs/a runs/b --format json", "write format=json"),
        ("data audit --data samples", "write data=samples"),
        ("leaderboard build --out site", "write out=site"),
        ("--task extraction run", "settings follow a command: alps run task=extraction"),
        ("task=extraction model=rules", "settings follow a command: alps run task=extraction"),
        ("run --api-key sk-1234567890abcdef", "set API keys in the environment"),
    ],
)
def test_a_setting_that_is_typed_as_an_option_is_told_as_a_setting(words, hint):
    said = alps_here(*words.split()).one_line
    assert hint in said
    assert "sk-1234567890" not in said


def calibrate(*words: str) -> Ran:
    return alps_here("calibrate", "out=calibrated", *words)


@pytest.fixture
def labelled(tmp_path, monkeypatch) -> Path:
    """Two judges' recorded verdicts on one set of labels, and another set of labels."""
    monkeypatch.chdir(tmp_path)
    items = [label_folders.binary(n % 2, 1) for n in range(4)]
    label_folders.write(tmp_path / "labels", {"pa": label_folders.BINARY}, items)
    label_folders.write(tmp_path / "others", {"pa": label_folders.BINARY}, items[:2])
    lines = (tmp_path / "labels" / "verdicts.jsonl").read_text().splitlines()
    more = [json.dumps({**json.loads(line), "judge": "k"}) for line in lines]
    (tmp_path / "labels" / "verdicts.jsonl").write_text("\n".join([*lines, *more]) + "\n")
    return tmp_path


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("judge=k", "labels=labels"), "holds a calibration of another judge (j, not k)"),
        (("judge=j", "labels=others"), "holds a calibration of other labels"),
        (("judge=lexical", "labels=stress"), "holds a calibration from recorded verdicts"),
    ],
)
def test_a_calibration_is_not_written_over_another(labelled, words, told):
    assert calibrate("judge=j", "labels=labels").code == 0
    before = (labelled / "calibrated" / "calibration.json").read_bytes()
    assert told in calibrate(*words).one_line
    assert (labelled / "calibrated" / "calibration.json").read_bytes() == before
    assert calibrate("judge=j", "labels=labels").code == 0


@pytest.mark.release
def test_a_calibration_that_was_asked_for_is_not_written_over_by_a_recorded_one(labelled):
    assert calibrate("judge=lexical", "labels=stress").code == 0
    refused = calibrate("judge=j", "labels=labels").one_line
    assert "holds a run or a calibration" in refused
    assert calibrate("judge=lexical", "labels=stress").code == 0


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("depth", [101, 500, 3_000, 100_000])
def test_json_is_read_to_the_same_depth_by_every_python(depth):
    assert parse_json(nested(100)) is not None
    with pytest.raises(ValueError, match="more than 100 deep"):
        parse_json(nested(depth))


def test_an_audit_of_a_row_that_is_nested_deeply_finds_it(tmp_path):
    track = tmp_path / "data" / "dev" / "task1"
    track.mkdir(parents=True)
    (track / "model_input.jsonl").write_text(f'{{"benchmark_id": "a", "input": {nested(900)}}}\n')
    (track / "reference_output.jsonl").write_text('{"benchmark_id": "a", "gold": {}}\n')
    done = run(tmp_path, "data", "audit", "data=data")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert "the line is not a JSON object" in " ".join(done.stdout.split())
