"""Extensions: each can be deleted, and a stranger's hangs on by its own package alone."""

import os
import re
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.core.test_layout import BUILT, LINKS, outside
from tests.endtoend import environment, finish, run
from tests.few import few
from tests.warm import Home, WarmProcess

EXTENSIONS = sorted(path.parent.name for path in (ROOT / "alps" / "ext").glob("*/__init__.py"))
IMPORT_ALL = """
import importlib, pkgutil, alps
from alps.extension import extensions
there = {one.name for one in extensions()}
def is_left_out(name):
    parts = [part for part in name.split(".")[1:] if part != "ext"]
    return name.startswith(("alps.ext.", "alps.leaderboard")) and parts[0] not in there
for module in pkgutil.walk_packages(alps.__path__, "alps."):
    if not module.name.endswith("__main__") and not is_left_out(module.name):
        importlib.import_module(module.name)
"""
"""Imports everything but extensions that need one that is not there."""
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
TASKS_OF_BOARDS = """
from alps.tasks import board_tracks
print(sorted({"odd", "bad", "task1"} & board_tracks().keys()), board_tracks()["task1"].name)
"""
TASK_FOLDERS = sorted(path.parent.name for path in (ROOT / "tasks").glob("*/__init__.py"))
RUN = ("run", "task=extraction", "model=rules", "data=samples", "limit=2", "out=out")


def python(folder, package, *words, **variables):
    # Behind it lies this checkout, which need not be the one that is installed.
    return outside(f"{package}{os.pathsep}{ROOT}", folder, *words, **variables)


def copied(folder):
    """Copy the package alone, as it is installed: nothing of it is a link."""

    def left_out(inside, names):
        # A folder of an extension may be called as one that is linked.
        links = LINKS if Path(inside) == ROOT / "alps" else ()
        return shutil.ignore_patterns(*links, *BUILT)(inside, names)

    shutil.copytree(ROOT / "alps", folder / "alps", ignore=left_out)
    for name in LINKS:
        shutil.copytree(ROOT / name, folder / "alps" / name, ignore=shutil.ignore_patterns(*BUILT))
    return folder


@pytest.fixture
def reduced(tmp_path):
    """Delete a part of a copy of the package; all else must be imported, run, and make boards."""

    def without(*place, task, boards):
        package = copied(tmp_path / "package")
        shutil.rmtree(package.joinpath("alps", *place))
        imported = python(tmp_path, package, "-c", IMPORT_ALL)
        assert imported.returncode == 0, imported.stderr
        done = python(tmp_path, package, "-m", "alps", "run", f"task={task}", *RUN[2:])
        assert done.returncode == 0, done.stderr
        sent = next((ROOT / "leaderboard" / "submissions").glob("*rules*"))
        shutil.copytree(sent, tmp_path / "sent" / sent.name)
        made = python(tmp_path, package, "-c", boards, "sent")
        assert made.returncode == 0, made.stderr
        return done, made.stdout, lambda *words: python(tmp_path, package, "-m", "alps", *words)

    return without


@pytest.mark.parametrize("name", few({name: name for name in EXTENSIONS}, plain={"looking"}))
@pytest.mark.release
def test_without_an_extension_all_else_is_imported_and_runs(reduced, tmp_path, name):
    done, _, command = reduced("ext", name, task="extraction", boards=BOARDS)
    assert "extraction: F1 " in done.stdout
    shown = command("show", "out")
    # `alps show` is of the extension looking: without it, the word is refused in one line.
    assert shown.returncode == (2 if name == "looking" else 0), shown.stderr
    assert ("No such command 'show'" in shown.stderr) is (name == "looking")
    assert "Traceback" not in shown.stderr
    listed = command("--help").stdout
    assert "Run a system on a task" in listed
    assert ("alps completion" in listed) is (name != "completion")
    scorings = command("run", "--help", "scoring").stdout
    # That scoring reads recorded verdicts, which the adapters bring.
    assert ("authors-v1" in scorings) is (name not in ("published", "adapters"))
    # The page of records builds on looking, too: without it no command is left to advise.
    advice = re.findall(r"^Next: .*", done.stdout, re.MULTILINE)
    assert len(advice) == (name != "looking")
    unknown = command("compare", "out", "nowhere").stderr
    page = tmp_path / "page.html"
    assert command("report", "out", f"out={page}").returncode == (2 if name == "looking" else 0)
    said = f"{advice} {command().stdout} {unknown} {page.read_text() if page.exists() else ''}"
    for word in set(re.findall(r"\balps (ls|view|show|report|doctor|calibrate|annotate) ?", said)):
        assert re.search(rf"^ *{word} ", listed, re.MULTILINE), f"{word} is not there"


@pytest.mark.parametrize("name", few(TASK_FOLDERS))
@pytest.mark.release
def test_without_a_task_that_has_its_own_folder_all_else_is_imported_and_runs(reduced, name):
    # What was sent has tracks of all tasks, and is not read without one of them.
    done, printed, command = reduced("tasks", name, task="all", boards=TASKS_OF_BOARDS)
    assert printed == "['task1'] extraction\n"
    assert "tasks, not averaged" in done.stdout
    shown = command("show", "out")
    assert (shown.returncode, shown.stderr) == (0, "")
    gone = command("run", f"task={name}", "model=rules")
    assert (gone.returncode, "unknown task" in gone.stderr) == (2, True), gone.stderr


PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8").partition("## An extension")[2]
BRIEF = dict(re.findall(r"```python title=\"(brief/\w+.py)\"\n(.*?)^```", PAGE, re.S | re.M))


def installed(folder, name, files, entry):
    """Install a package as pip would, with one entry point."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    told = folder / f"{name}-1.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(f"[alps.extensions]\n{name} = {entry}\n")
    return folder


@pytest.fixture(scope="module")
def brief(tmp_path_factory):
    """The extension of the page, installed; nothing else is touched."""
    folder = tmp_path_factory.mktemp("stranger")
    entry = re.search(r'brief = "(.+)"', PAGE)[1]
    return installed(folder / "site", "brief", BRIEF, entry)


@pytest.fixture(scope="module")
def alps(brief):
    """Run the command where that extension is installed, forked from a parent that has `alps`."""
    home = Home(light=True, PYTHONPATH=str(brief))

    def command(folder, *words, **variables):
        given = environment(folder, PYTHONPATH=str(brief), **variables)
        return finish(WarmProcess(home.place.address, words, folder, given))

    yield command
    home.close()


def test_a_strangers_extension_has_a_key_a_wrap_a_table_and_a_command(tmp_path, alps):
    plain = alps(tmp_path, *RUN[:-1], "out=plain")
    cut = alps(tmp_path, *RUN[:-1], "most=1", "out=cut")
    assert (plain.returncode, cut.returncode) == (0, 0), plain.stderr + cut.stderr
    assert "memories kept" not in plain.stdout
    assert "memories kept 1" in cut.stdout
    again = alps(tmp_path, "show", "cut").stdout
    assert "Brief answers\n" in again
    assert re.search(r"(?m)^ ?memories that were kept +1$", again)
    said = alps(tmp_path, "brief", "cut")
    assert (said.returncode, said.stdout) == (0, "0.5 memories an answer\n"), said.stderr
    assert alps(tmp_path, "report", "cut", "out=page.html").returncode == 0
    assert "<caption>Brief answers</caption>" in (tmp_path / "page.html").read_text()
    lacks = alps(tmp_path, "brief", "plain")
    said = "alps: plain: it keeps whole answers; name a run with most=\n"
    assert (lacks.returncode, lacks.stderr) == (2, said)
    # Without the package the run is read as it is.
    without = python(tmp_path, tmp_path, "-m", "alps", "show", "cut")
    assert (without.returncode, "Brief answers" in without.stdout) == (0, False), without.stderr


GONE = {
    "score": ("score", "cut", "out=again"),
    "judges": ("judges", "cut", "judge=lexical,minilm", "out=again"),
    "labels": ("annotate", "draw", "cut", "out=again"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("words", GONE.values(), ids=GONE)
def test_without_its_extension_a_run_with_its_key_is_refused_by_name(tmp_path, alps, words):
    assert alps(tmp_path, *RUN[:-1], "most=1", "out=cut").returncode == 0
    done = run(tmp_path, *words)
    what = "cut was made with most=, a key of an extension that is not installed"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"alps: {what}; install it again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("counts", [True, False])
def test_a_dry_run_counts_the_calls_behind_a_wrap_or_says_that_it_can_not(tmp_path, counts):
    part = BRIEF["brief/part.py"]
    part = part if counts else part.replace("    def on(self", "    def other(self")
    entry = re.search(r'brief = "(.+)"', PAGE)[1]
    package = installed(tmp_path / "site", "brief", {**BRIEF, "brief/part.py": part}, entry)
    words = ("run", "extraction", "model=openai/gpt-4.1", "limit=2", "most=1", "dry_run=yes")
    said = python(tmp_path, package, "-m", "alps", *words, OPENAI_API_KEY="none").stdout
    assert said.startswith("Likely cost $" if counts else "Cost unknown; "), said
    assert re.search(rf"openai/gpt-4.1, answers +{2 if counts else '[?]'} ", said), said


SCORING = """
from dataclasses import replace

from click.shell_completion import CompletionItem

from alps.extension import Extension
from alps.tasks import Metric, Scored

EXTENSION = Extension("half", scorings={"half": "half:rescored"}, on_tab="half:answers")


def answers(context, parameter, text, *, runs, folders):
    return [CompletionItem("half-run")] if runs and "half-run".startswith(text) else []


def rescored(tasks):
    def score(*about):
        return Scored({"half": tasks[0].score(*about).scores.get("f1", 0) / 2})

    metrics = (Metric("half", "half of F1", headline=True),)
    public = replace(tasks[0].public, paired=None)
    conditions = {"scoring": "half"}
    changed = {"score": score, "metrics": metrics, "public": public, "conditions": conditions}
    return (replace(tasks[0], **changed),)
"""


def test_a_run_is_scored_in_the_way_of_an_extension(tmp_path):
    package = installed(tmp_path / "site", "half", {"half.py": SCORING}, "half:EXTENSION")

    def alps(*words, **variables):
        return python(tmp_path, package, "-m", "alps", *words, **variables)

    ran = alps(*RUN[:-1], "scoring=half", "out=half")
    assert (ran.returncode, "half of F1" in ran.stdout) == (0, True), ran.stderr
    assert "authors-v1" not in ran.stdout
    assert "half: by an extension" in alps("run", "--help", "scoring").stdout
    assert "must be 'alps', 'half' or 'authors-v1'" in alps(*RUN, "scoring=hlf").stderr
    tab = {"COMP_WORDS": "alps score half scoring=", "_ALPS_COMPLETE": "bash_complete"}
    assert alps(**tab).stdout.split() == ["alps", "half", "authors-v1"]
    assert alps(**{**tab, "COMP_WORDS": "alps score half-"}).stdout.split() == ["half-run"]


def test_a_model_that_is_served_and_that_nothing_sends_to_is_refused(tmp_path):
    serves = "Extension('own', serves=lambda model: model.startswith('own/'))"
    files = {"own.py": f"from alps.extension import Extension\nEXTENSION = {serves}"}
    package = installed(tmp_path / "site", "own", files, "own:EXTENSION")
    for key, other in {"model": "api_base=http://localhost:9/v1", "judge": "model=rules"}.items():
        done = python(tmp_path, package, "-m", "alps", "run", "extraction", other, f"{key}=own/x")
        said = f"alps: {key}=own/x: the extension that serves it lacks a sender (sends)"
        assert (done.returncode, done.stderr.splitlines()[-1]) == (2, said), done.stderr


CALLED = """
import alps
run = alps.evaluate(task="extraction", model="rules", limit=2, most=1)
print(run.folder, run.summary["parts"]["brief"]["memories"])
"""


def test_a_strangers_key_is_known_wherever_keys_are(tmp_path, brief, alps):
    helped = alps(tmp_path, "run", "--help", "all").stdout
    assert "most=" in helped
    assert "keep the first N memories of each answer" in helped
    typo = alps(tmp_path, *RUN, "mosst=1")
    assert (typo.returncode, "did you mean 'most'?" in typo.stderr) == (2, True)
    wrong = alps(tmp_path, *RUN, "most=0")
    assert "most=0: must be 1 or more" in wrong.stderr
    tab = {"COMP_WORDS": "alps run mos", "_ALPS_COMPLETE": "bash_complete"}
    assert alps(tmp_path, **tab).stdout == "most=\n"
    (tmp_path / "run.toml").write_text("most = 1\nlimit = 2\n")
    words = ("run", "task=extraction", "model=rules", "config=run.toml", "out=by-config")
    assert "memories kept 1" in alps(tmp_path, *words).stdout
    called = python(tmp_path, brief, "-c", CALLED)
    folder, kept = called.stdout.split()
    assert kept == "1", called.stderr
    plain = python(tmp_path, brief, "-c", CALLED.replace(", most=1", "").replace("print", "0 and "))
    assert plain.returncode == 0, plain.stderr
    others = {path.name for path in (tmp_path / "runs").iterdir()} - {Path(folder).name}
    assert len(others) == 1, "a run with another key has another folder"


KEYS = """
from pydantic import Field
from alps.keys import Keys
class Own(Keys):
    {key}
"""
FAULTY = {
    "one of the spine": ("limit: int = 3", "the key limit exists already"),
    "one of an extension": ("batch: bool = False", "the key batch exists already"),
    "one without a default": ("needed: int", "the key needed has no default"),
    "keys of no class": ("pass\ndef Own(): pass", "TypeError: it is no alps.keys.Keys"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize(("key", "why"), FAULTY.values(), ids=FAULTY)
def test_keys_that_can_not_be_added_are_named_and_left_out(tmp_path, key, why):
    own = "Extension('odd', settings='odd_keys:Own')"
    text = f"from alps.extension import Extension\nEXTENSION = {own}"
    files = {"odd.py": text, "odd_keys.py": KEYS.format(key=key)}
    package = installed(tmp_path / "site", "odd", files, "odd:EXTENSION")
    done = python(tmp_path, package, "-m", "alps", *RUN)
    assert done.returncode == 0, done.stderr
    assert sum(why in line for line in done.stderr.splitlines()) == 1
    assert "extraction: F1 " in done.stdout


BRINGS = """
from alps.extension import Extension
TASKS = {"odd": "odd:tracks"}
EXTENSION = Extension("odd", tasks=TASKS, task_keys=("own",), settings="odd_keys:Own")
"""


def test_a_key_of_tasks_names_those_alone_that_have_it(tmp_path):
    files = {"odd.py": BRINGS, "odd_keys.py": KEYS.format(key="own: int | None = None")}
    package = installed(tmp_path / "site", "odd", files, "odd:EXTENSION")
    done = python(tmp_path, package, "-m", "alps", *RUN, "own=1", "dry_run=yes")
    what = "own=1: only task odd uses own=; leave it out, or add odd to task="
    assert (done.returncode, done.stderr) == (2, f"alps: {what}\n")


SHOWN = """
import sys
from alps.ext.looking.whole_run import show_whole_run
from pathlib import Path
show_whole_run(Path("out"))
ours = ("alps.ext.", "alps.ext.looking")
loaded = [name for name in sys.modules if name.startswith(ours[0]) and name.count(".") > 2]
loaded = [name for name in loaded if not name.startswith(ours[1])]
print(*sorted(name for name in loaded if not name.endswith(".settings")))
"""
# They tell how far people agree with the judge of the run.
CALIBRATIONS = "alps.ext.calibration.calibration_file"


@pytest.mark.release
def test_what_is_shown_of_a_plain_run_loads_of_extensions_their_keys_and_calibrations(tmp_path):
    assert python(tmp_path, ROOT, "-m", "alps", *RUN).returncode == 0
    shown = python(tmp_path, ROOT, "-c", SHOWN)
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, CALIBRATIONS), shown.stderr


OWN = "broken:EXTENSION"
BROKEN = {
    "no module of it": ("", "elsewhere:EXTENSION", "No module named 'elsewhere'"),
    "it raises": ("raise RuntimeError('two\\nlines')", OWN, "RuntimeError: two"),
    "no such name": ("", OWN, "AttributeError"),
    "another kind of thing": ("EXTENSION = 3", OWN, "not an alps.extension.Extension"),
    "it exits": ("raise SystemExit(3)", OWN, "SystemExit: 3"),
}
ODD = {
    "'own', commands=['a']": "commands=['a'] has the wrong type",
    "'own', part_if='limit'": "part_if='limit' has the wrong type",
    "'own', commands={'show': 'broken:show'}": "there is a command alps show already",
    "'own', moved={'run': 'show'}": "there is a command alps run already",
    "'own', commands={'none mine': 'broken:mine'}": "there is no group alps none",
    "'own', systems={'ru': 'broken:system'}": "the beginning ru is another's, or has no colon",
    "'own', judges={'fitted:': 'broken:judge'}": "the beginning fitted: is another's",
    "'own', systems={'predictions:': 'broken:s'}": "the beginning predictions: is another's",
    "'own', commands={'completion': 'broken:c'}": "there is a command alps completion already",
    "'own', commands={'sensitivity': 'broken:s'}": "there is a command alps sensitivity already",
    "'own', code={'program:': 'broken:c'}": "code: the name program: is another's",
    "'own', tasks={'extraction': 'broken:t'}": "tasks: the name extraction is another's",
    "'own', tasks={'locomo': 'broken:t'}": "tasks: the name locomo is another's",
    "'own', scorings={'alps': 'broken:s'}": "scorings: the name alps is another's",
    "'own', scorings={'authors-v1': 'broken:s'}": "scorings: the name authors-v1 is another's",
    "'own', exports={'evaluate': 'broken:e'}": "exports: the name evaluate is another's",
    "'own', board='broken:B', on_card='memory'": "on_card=memory: another extension has this",
    "'own', needs=('nothing',)": "needs nothing",
    "'memory'": "another extension is called memory",
}
for odd, why in ODD.items():
    BROKEN[odd] = f"from alps.extension import Extension\nEXTENSION = Extension({odd})", OWN, why


@pytest.mark.few(2)
@pytest.mark.parametrize(("text", "entry", "why"), BROKEN.values(), ids=BROKEN)
def test_a_broken_one_is_named_in_a_line_and_left_out(tmp_path, text, entry, why):
    package = installed(tmp_path / "site", "broken", {"broken.py": text}, entry)
    done = python(tmp_path, package, "-m", "alps", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert version("alps-eval") in done.stdout
    listed = python(tmp_path, package, "-m", "alps", "--help")
    assert listed.returncode == 0
    (line,) = listed.stderr.splitlines()
    assert re.search("extension (broken|own)", line)
    assert why in line


DECLARED = "from alps.extension import Extension\nEXTENSION = Extension('odd', {})"
PARTLY = {"part_if": ("limit",), "part": "odd_late:Part"}
RAISES = """from alps.run.parts import RunPart
class Part(RunPart):
    def check(self, data, **_):
        raise KeyError('lost')"""
KEYS_AND_PART = {"settings": "odd_late:Keys", "part_if": ("own",), "part": "odd_late:Part"}
NO_KEYS = "odd: its keys (odd_late:Keys) could not be loaded: ModuleNotFoundError"
NOT_LOADED = "the extension's odd_late:{} could not be loaded: {}"
LATE = {
    "a module of a command that is not there": (
        *({"commands": {"odd": "odd_late:odd"}}, "", ("--help",)),
        (0, NOT_LOADED.format("odd", "AttributeError")),
    ),
    "a removed command of two words": (
        *({"removed": {"data odd": "type data list"}}, "", ("data", "odd")),
        (2, "'alps data odd' was removed: type data list"),
    ),
    "a part that is none": (
        *(PARTLY, "class Part: pass", RUN),
        (2, "the extension's odd_late:Part is no alps.run.parts.RunPart"),
    ),
    "a part that raises": (PARTLY, RAISES, RUN, (2, "odd_late.py, line 4: KeyError: 'lost'")),
    "keys that can't be loaded, and a part": (KEYS_AND_PART, "import nothing", RUN, (0, NO_KEYS)),
    "a task that can't be made": (
        *({"tasks": {"odd": "odd_late:tracks"}}, "raise SystemExit(3)", ("run", "odd", *RUN[2:])),
        (2, NOT_LOADED.format("tracks", "SystemExit: 3")),
    ),
    "a task that says itself what is to be mended": (
        {"tasks": {"odd": "odd_late:tracks"}},
        "from alps.errors import UsageError\nraise UsageError('install odd data')",
        ("run", "odd", *RUN[2:]),
        (2, "alps: install odd data"),
    ),
}


@pytest.mark.parametrize(("fields", "text", "words", "said"), LATE.values(), ids=LATE)
def test_what_one_can_not_do_is_said_in_a_line(tmp_path, fields, text, words, said):
    declared = DECLARED.format(f"**{fields!r}")
    # A package, as the modules that it names are its own.
    files = {"odd/__init__.py": declared.replace("odd_late", "odd.odd_late")}
    files["odd/odd_late.py"] = text
    package = installed(tmp_path / "site", "odd", files, "odd:EXTENSION")
    done = python(tmp_path, package, "-m", "alps", *words)
    code, line = said
    assert done.returncode == code, done.stderr
    about = [one for one in done.stderr.splitlines() if "odd" in one]
    assert [line in one.replace("odd.odd_late", "odd_late") for one in about] == [True]
    assert "Traceback" not in done.stderr


LOOKS = """
from dataclasses import replace
from alps.extension import Extension
from alps.run.parts import RunPart
from alps.show.parts import ShownPart
EXTENSION = Extension(
    "odd", tasks={"odd": "odd:tracks"}, part_if=("seed",), part="odd:Part",
    shows=lambda summary: True, shown="odd:Shown",
)
class Part(RunPart):
    def open(self, services, data, folder):
        return {}["lost"] if self.settings.seed == 3 else services
class Shown(ShownPart):
    def tables(self, summary, track, metrics):
        raise KeyError("lost")
def tracks(options):
    from alps.tasks import load_task
    def record_parts(record):
        raise KeyError("lost")
    task = load_task("extraction")
    return (replace(task, name="odd", shown=replace(task.shown, record_parts=record_parts)),)
"""
IN_THE_WAY = {
    "the record": ("show", "out", "1"),
    "the page": ("report", "out", "out=page.html"),
    "a run of a sweep": ("run", "task=odd", "model=rules,floor/empty", "limit=2", "seed=3"),
}


def test_what_it_breaks_is_blamed_on_no_run_and_no_row(tmp_path):
    package = installed(tmp_path / "site", "odd", {"odd.py": LOOKS}, "odd:EXTENSION")
    made = python(tmp_path, package, "-m", "alps", "run", "task=odd", *RUN[2:])
    assert made.returncode == 0, made.stderr
    for what, words in IN_THE_WAY.items():
        done = python(tmp_path, package, "-m", "alps", *words)
        said = " ".join((done.stdout + done.stderr).split())
        parts = r"task=odd \(extension odd\): its record_parts raised KeyError: 'lost' \(odd.py,"
        assert re.search(f"the extension odd failed in|{parts}", said), what
        assert done.returncode != 0, what


def test_a_command_of_ours_stays_its_own(tmp_path):
    text = BRIEF["brief/__init__.py"].replace('{"brief": ', '{"ls": ')
    package = installed(tmp_path / "site", "brief", {"brief.py": text}, "brief:EXTENSION")
    (tmp_path / "runs").mkdir()
    done = python(tmp_path, package, "-m", "alps", "ls", "--help")
    assert "List the runs of a folder" in done.stdout


TASK = """
from dataclasses import replace
from alps.extension import Extension
from alps.tasks import load_task
EXTENSION = Extension("odd", tasks={"odd": "odd:tracks", "bad": "odd:raises"})
def tracks(options):
    task = replace(load_task("extraction"), name="odd")
    return (replace(task, track="odd"), task)
def raises(options):
    raise RuntimeError("no tracks")
"""


def test_a_strangers_task_has_boards_if_it_can_be_made_and_takes_none_of_ours(tmp_path):
    package = installed(tmp_path / "site", "odd", {"odd.py": TASK}, "odd:EXTENSION")
    done = python(tmp_path, package, "-c", TASKS_OF_BOARDS)
    assert (done.returncode, done.stdout) == (0, "['odd', 'task1'] extraction\n"), done.stderr
