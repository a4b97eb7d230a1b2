import io
import os
import shutil
import time
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from alps.errors import UsageError
from alps.ext.looking.listing import age, list_runs
from tests.endtoend import edit_json
from tests.report_runs import folded


@pytest.fixture
def runs(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("runs")
    for name in ("samples-run", "hard-run"):
        shutil.copytree(place / name, folder / name)
    return folder


def listed(root: Path, *, width: int = 80) -> str:
    out = io.StringIO()
    list_runs(root, Console(file=out, width=width))
    text = out.getvalue()
    assert max((cell_len(line) for line in text.splitlines()), default=0) <= width
    return text


def set_age(run: Path, seconds: float) -> None:
    then = time.time() - seconds
    for path in run.iterdir():
        os.utime(path, (then, then))


def test_the_newest_run_comes_first(runs):
    set_age(runs / "hard-run", 3 * 86_400)
    text = listed(runs)
    assert text.index("samples-run") < text.index("hard-run")
    assert "3 d ago" in text
    set_age(runs / "samples-run", 9 * 86_400)
    assert listed(runs).index("hard-run") < listed(runs).index("samples-run")


def test_an_unfinished_run_tells_how_far_it_is(runs):
    (runs / "hard-run" / "summary.json").unlink()
    text = folded(listed(runs))
    assert "17 of 17 answered, 14 scored unfinished –" in text


def test_an_unknown_cost_is_a_dash_and_a_known_one_is_shown(runs):
    for run, cost in (("samples-run", None), ("hard-run", 0.12345)):
        path = runs / run / "summary.json"
        edit_json(path, lambda value, cost=cost: value["calls"].update(http=3, cost=cost))
    text = folded(listed(runs))
    assert "finished –" in text
    assert "finished $0.1235" in text or "finished $0.1234" in text


def written(text):
    return lambda run: (run / "manifest.json").write_text(text)


def edited(name, change):
    return lambda run: edit_json(run / name, change)


OTHER_TASK = edited("manifest.json", lambda value: value["settings"].update(task="cooking"))
NO_TASK = edited("manifest.json", lambda value: value["settings"].pop("task"))
UNREADABLE = {
    "no JSON": (written("not JSON"), "hard-run"),
    "a list": (written("[]"), "hard-run"),
    "settings alone": (written('{"settings": {}}'), "hard-run"),
    "no objects": (written('{"settings": 1, "data": 2, "judge": 3}'), "hard-run"),
    "another task": (OTHER_TASK, "hard-run was made with task=cooking, a task of an extension"),
    "no task": (NO_TASK, "unknown task"),
    "no track": (
        edited("summary.json", lambda value: value.update(tracks={})),
        "not a run of this alps",
    ),
    "no manifest": (
        lambda run: (run / "manifest.json").unlink(),
        "hard-run: manifest.json is missing",
    ),
}


@pytest.mark.parametrize(("change", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_run_is_named_at_the_end(runs, change, reason):
    change(runs / "hard-run")
    readable, _, unreadable = folded(listed(runs)).partition("Unreadable: ")
    assert "samples-run" in readable
    assert reason in unreadable


def test_other_folders_are_named(runs):
    for number_ in range(12):
        (runs / f"other-{number_:02}").mkdir()
    text = folded(listed(runs))
    assert "Not runs: other-00, other-01" in text
    assert "and 2 more" in text


def test_a_run_folder_itself_can_be_listed(runs):
    text = listed(runs / "samples-run")
    assert "samples-run" in text
    assert "hard-run" not in text


@pytest.mark.parametrize("there", [False, True])
def test_no_runs_yet_says_how_to_make_one(there, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if there:
        (tmp_path / "runs").mkdir()
    assert "alps run task=extraction model=rules data=samples" in listed(Path("runs"))


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        listed(tmp_path / "nowhere")


def test_a_long_name_is_folded_and_hostile_names_steer_nothing(runs):
    name = "extraction-" + "x" * 120
    shutil.copytree(runs / "samples-run", runs / name)
    edit_json(
        runs / name / "manifest.json",
        lambda value: value["settings"].update(model="\x1b[2J[red]owned"),
    )
    text = listed(runs)
    assert "\x1b" not in text
    assert "␛[2J[red]owned" in text
    assert f"runs/{name}" in text.replace("\n", "")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (3_599, "59 min ago"),
        (7_200, "2 h ago"),
        (86_400, "1 d ago"),
        (15 * 86_400, "2 weeks ago"),
        (80 * 86_400, "2 months ago"),
        (800 * 86_400, "2 years ago"),
    ],
)
def test_ages_are_put_in_words(seconds, words):
    assert age(seconds) == words
