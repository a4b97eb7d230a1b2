"""Extensions: each can be deleted, and a stranger's hangs on by its own package alone."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.conftest import ROOT
from tests.core.test_layout import BUILT, LINKS
from tests.endtoend import environment

EXTENSIONS = sorted(path.parent.name for path in (ROOT / "alps" / "ext").glob("*/__init__.py"))
IMPORT_ALL = """
import importlib, pkgutil, alps
for module in pkgutil.walk_packages(alps.__path__, "alps."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
BOARDS = """
import sys
from pathlib import Path
from alps.leaderboard.site import build
from alps.leaderboard.verify import verify
found = verify(next(Path(sys.argv[1]).iterdir()))
assert found.consistent, found.findings
assert build(Path(sys.argv[1]), Path("site")).submissions == 1
assert not [name for name in sys.modules if name.startswith("alps.ext.") and ".board_" in name]
"""
RUN = ("run", "task=extraction", "model=rules", "data=samples", "limit=2", "out=out")


def python(folder, package, *words):
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment(folder, PYTHONPATH=str(package)),
        capture_output=True,
        text=True,
        check=False,
    )


def copied(folder):
    """Copy the package alone, as it is installed: nothing of it is a link."""
    shutil.copytree(ROOT / "alps", folder / "alps", ignore=shutil.ignore_patterns(*LINKS, *BUILT))
    for name in LINKS:
        shutil.copytree(ROOT / name, folder / "alps" / name, ignore=shutil.ignore_patterns(*BUILT))
    return folder


@pytest.mark.parametrize("name", EXTENSIONS)
def test_without_an_extension_all_else_is_imported_and_runs(tmp_path, name):
    package = copied(tmp_path / "package")
    shutil.rmtree(package / "alps" / "ext" / name)
    imported = python(tmp_path, package, "-c", IMPORT_ALL)
    assert imported.returncode == 0, imported.stderr
    done = python(tmp_path, package, "-m", "alps", *RUN)
    assert done.returncode == 0, done.stderr
    assert "F1 (macro)" in done.stdout
    shown = python(tmp_path, package, "-m", "alps", "show", "out")
    assert shown.returncode == 0, shown.stderr
    listed = python(tmp_path, package, "-m", "alps", "--help").stdout
    assert "Run a system on a task" in listed
    sent = next((ROOT / "leaderboard" / "submissions").glob("*rules*"))
    shutil.copytree(sent, tmp_path / "sent" / sent.name)
    boards = python(tmp_path, package, "-c", BOARDS, "sent")
    assert boards.returncode == 0, boards.stderr


PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8").partition("## An extension")[2]
STRANGER = PAGE.partition("```python\n")[2].partition("```")[0]


def installed(folder, module, text, entry):
    """Install a module as pip would, with one entry point."""
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(text)
    told = folder / f"{module}-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(f"[alps.extensions]\n{module} = {entry}\n")
    return folder


def test_a_package_of_a_stranger_brings_commands(tmp_path):
    entry = re.search(r'counting = "(.+)"', PAGE)[1]
    package = installed(tmp_path / "site", "counting", STRANGER, entry)
    assert python(tmp_path, package, "-m", "alps", *RUN).returncode == 0
    listed = python(tmp_path, package, "-m", "alps", "--help").stdout
    assert "count         Count the answers of a run." in listed
    counted = python(tmp_path, package, "-m", "alps", "count", "out")
    assert (counted.returncode, counted.stdout) == (0, "2\n"), counted.stderr
    assert python(tmp_path, package, "-m", "alps", "data", "count", "out").stdout == "2\n"


LONGEST = PAGE.partition('title="longest.py"\n')[2].partition("```")[0]


def test_a_package_of_a_stranger_adds_a_table_wherever_a_run_is_shown(tmp_path):
    package = installed(tmp_path / "site", "longest", LONGEST, "longest:EXTENSION")
    done = python(tmp_path, package, "-m", "alps", *RUN)
    assert done.returncode == 0, done.stderr
    answers = (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()
    size = f"{max(map(len, answers)):,}"
    shown = python(tmp_path, package, "-m", "alps", "show", "out").stdout
    for printed in (done.stdout, shown):
        assert "Sizes of answers\n" in printed
        assert re.search(rf"(?m)^longest answer +{size}$", printed)
    assert python(tmp_path, package, "-m", "alps", "report", "out", "out=page.html").returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert "<caption>Sizes of answers</caption>" in page
    assert f">{size}</data>" in page
    # Without the package the run is read as it is.
    assert "Sizes of answers" not in python(tmp_path, tmp_path, "-m", "alps", "show", "out").stdout


SHOWN = """
import sys
from alps.show.breakdowns import show_whole_run
from pathlib import Path
show_whole_run(Path("out"))
print(*(name for name in sys.modules if name.startswith("alps.ext.") and name.count(".") > 2))
"""


def test_what_is_shown_of_a_plain_run_loads_nothing_of_an_extension(tmp_path):
    assert python(tmp_path, ROOT, "-m", "alps", *RUN).returncode == 0
    shown = python(tmp_path, ROOT, "-c", SHOWN)
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, ""), shown.stderr


BROKEN = {
    "no module of it": ("", "elsewhere:EXTENSION", "No module named 'elsewhere'"),
    "it raises": ("raise RuntimeError('two\\nlines')", "broken:EXTENSION", "RuntimeError: two"),
    "no such name": ("", "broken:EXTENSION", "AttributeError"),
    "another kind of thing": ("EXTENSION = 3", "broken:EXTENSION", "no alps.extension.Extension"),
}


@pytest.mark.parametrize(("text", "entry", "why"), BROKEN.values(), ids=BROKEN)
def test_a_broken_one_is_named_in_a_line_and_left_out(tmp_path, text, entry, why):
    package = installed(tmp_path / "site", "broken", text, entry)
    done = python(tmp_path, package, "-m", "alps", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert version("alps-eval") in done.stdout
    listed = python(tmp_path, package, "-m", "alps", "--help")
    assert listed.returncode == 0
    line = listed.stderr.splitlines()
    assert len(line) == 1
    assert "extension broken" in line[0]
    assert why in line[0]


def test_a_command_of_the_spine_stays_its_own(tmp_path):
    text = STRANGER.replace('"count"', '"ls"', 1)
    package = installed(tmp_path / "site", "counting", text, "counting:EXTENSION")
    (tmp_path / "runs").mkdir()
    done = python(tmp_path, package, "-m", "alps", "ls", "--help")
    assert "List the runs in a folder" in done.stdout
