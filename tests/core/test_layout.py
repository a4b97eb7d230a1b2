"""What is imported from where, what files hold, and what docs/architecture.md says of it."""

import ast
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import NamedTuple, get_args
from xml.etree import ElementTree

import pytest

from alps.extension import Extension, extensions
from alps.keys import Ability
from alps.tasks import TASKS, all_tracks
from alps.tasks.utilization import ABILITIES
from tests.conftest import ROOT
from tests.endtoend import environment

FOLDERS = ("alps", "tasks", "judges", "data", "leaderboard", "tests", "bench", "docs", ".ci")
LINKS = ("tasks", "judges", "data", "leaderboard")
DRAWN = {".png"}
EXTENSION_LAYER = ("ext", "leaderboard")
"""What hangs on the spine: nothing below imports it."""
BUILT = {"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}


def project_files():
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            inside = path.relative_to(ROOT)
            if path.is_file() and BUILT.isdisjoint(inside.parts) and inside.parts[:2] not in LINKED:
                found.append(path)
    return [path for path in found if path.name != ".git" and path.suffix not in DRAWN]


LINKED = {("alps", name) for name in LINKS}
FILES = project_files()
MODULES = [path for path in FILES if path.suffix == ".py"]


def names(paths):
    return [str(path.relative_to(ROOT)) for path in paths]


def matching(pattern, paths=FILES):
    found = re.compile(pattern).search
    return names(
        path for path in paths if found(path.read_text(encoding="utf-8", errors="replace"))
    )


def test_the_folders_of_the_project_are_looked_at():
    some = {"alps/cli.py", "tasks/extraction.py", "judges/llm.py", "data/release.py", "README.md"}
    assert some <= set(names(FILES))
    assert len(MODULES) > 40


@pytest.mark.parametrize("name", LINKS)
def test_a_folder_at_the_top_is_a_package_that_a_relative_link_leads_to(name):
    link = ROOT / "alps" / name
    if link.is_symlink():
        assert link.readlink() == Path("..") / name
    else:
        assert link.is_dir() or link.read_text() == f"../{name}"
    assert read(ROOT / name / "__init__.py").docstring


def room(path):
    inside = path.relative_to(ROOT).with_suffix("")
    return inside.parts[1] if inside.parts[0] == "alps" else inside.parts[0]


class Read(NamedTuple):
    """What is asked of a module: the modules of `alps` that it imports, wherever in it, its
    docstring, and the lines of its texts.
    """

    imports: list[str]
    docstring: str | None
    texts: list[tuple[int, str]]


@cache
def read(path):
    parsed, texts = ast.parse(path.read_text(encoding="utf-8")), []
    nodes = list(ast.walk(parsed))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append((node.lineno, node.value))
    return Read(list(imports(nodes)), ast.get_docstring(parsed), texts)


def imports(nodes):
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "alps":
            inside = [name.name for name in node.names if not name.name.startswith("__")]
            yield from (f"alps.{name}" for name in inside)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("alps."):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("alps."))


def packages():
    """Return the modules of the package with what each imports of it."""
    found = {}
    for path in MODULES:
        if path.parts[len(ROOT.parts)] in {"alps", *LINKS}:
            found[path] = [to for to in read(path).imports if to.count(".") > 0]
    return found


def spine():
    return {path: to for path, to in packages().items() if room(path) not in EXTENSION_LAYER}


def test_rooms_of_the_spine_import_each_other_in_no_circle():
    below = {}
    for path, names in spine().items():
        here = room(path)
        others = {to.split(".")[1] for to in names} - {here, *EXTENSION_LAYER}
        below.setdefault(here, set()).update(others)
    while below:
        free = {name for name, others in below.items() if not others & below.keys()}
        assert free, f"these import each other: {sorted(below)}"
        below = {name: others - free for name, others in below.items() if name not in free}


def test_the_spine_imports_no_extension():
    wrong = set()
    for path, names in spine().items():
        inside = path.relative_to(ROOT)
        for to in names:
            if to.split(".")[1] in EXTENSION_LAYER and to != "alps.ext":
                wrong.add(f"{inside}: {'.'.join(to.split('.')[:3])}")
    assert sorted(wrong) == []


def test_an_extension_imports_another_only_where_it_says_that_it_needs_it():
    needs = {extension.name: {extension.name, *extension.needs} for extension in extensions()}
    wrong = set()
    for path, names in packages().items():
        inside = path.relative_to(ROOT).parts
        own = inside[2] if inside[:2] == ("alps", "ext") and len(inside) > 3 else None
        for to in names:
            other = to.split(".")[2] if to.startswith("alps.ext.") else None
            if own is not None and other is not None and other not in needs[own]:
                wrong.add(f"{'/'.join(inside)}: {other}")
    assert sorted(wrong) == []


@pytest.fixture(scope="module")
def without_links(tmp_path_factory):
    copy = tmp_path_factory.mktemp("checkout") / "alps"
    for path in FILES:
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for name in LINKS:
        (copy / "alps" / name).write_text(f"../{name}")
    return copy


def outside(checkout, folder, *words, **variables):
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment(folder, PYTHONPATH=str(checkout), **variables),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", LINKS)
def test_every_package_is_imported_from_a_checkout_without_links(without_links, tmp_path, name):
    script = f"import alps.{name}; print(alps.{name}.__file__)"
    done = outside(without_links, tmp_path, "-c", script)
    assert done.stdout.strip() == str(without_links / name / "__init__.py"), done.stderr


def test_a_checkout_without_links_runs(without_links, tmp_path):
    words = ("run", "task=extraction", "model=rules", "data=samples", "limit=2", "out=out")
    done = outside(without_links, tmp_path, "-m", "alps", *words)
    assert done.returncode == 0, done.stderr
    assert "extraction: F1 " in done.stdout


def test_an_installed_package_does_not_look_for_packages_around_it(tmp_path):
    shutil.copytree(ROOT / "alps", tmp_path / "alps", ignore=shutil.ignore_patterns(*LINKS, *BUILT))
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "__init__.py").write_text("")
    done = outside(tmp_path, tmp_path, "-c", "import alps.tasks")
    assert "No module named 'alps.tasks'" in done.stderr


WROTE = "generated|written|authored|made"
NOWHERE = {
    "a path of a machine": r"(?<![\w/.…])/(home|root|Users|work|farm)/\w",
    "a registry's host": r"py[p]i[.]org|python[h]osted|registry[.]npm[j]s|deb[.]debi[a]n[.]org",
    "something left to do": r"\b(T[O]DO|F[I]XME|X[X]X)\b",
    "who wrote": rf"(?i)\b({WROTE}) (by|with) (an? )?(ai|llm|language model)\b",
}


@pytest.mark.parametrize("pattern", NOWHERE.values(), ids=NOWHERE)
def test_no_file_holds(pattern):
    assert matching(pattern) == []


def test_no_file_names_an_author_but_the_citation_whose_format_asks_for_one():
    author = r"(?im)^(__author__|authors?|maintainers?|co-authored-by)\s*[:=]"
    assert matching(author) == ["CITATION.cff"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(author + r'\n  - name: "The alps developers"\n(?!  -)', citation)


def test_no_module_is_longer_than_600_lines():
    long = [path for path in MODULES if len(path.read_bytes().splitlines()) > 600]
    assert names(long) == []


def test_no_class_name_has_two_meanings():
    places: dict[str, set[str]] = {}
    for path in packages():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, set()).add(str(path.relative_to(ROOT)))
    assert {name: sorted(paths) for name, paths in places.items() if len(paths) > 1} == {}


def test_every_module_of_the_package_says_what_it_is_for():
    ours = [path for path in MODULES if path.relative_to(ROOT).parts[0] != "tests"]
    bare = [path for path in ours if path.name != "__main__.py" and not read(path).docstring]
    assert names(bare) == []


def test_the_package_imports_its_parts_by_their_full_names():
    assert matching(rf"(?m)^\s*(from|import) ({'|'.join(LINKS)})\b", MODULES) == []


def test_requirements_are_pinned_by_name_and_version_alone():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert len(lines) > 30
    pinned = re.compile(r"[A-Za-z0-9][\w.-]*==[0-9][\w.+!]*")
    assert [line for line in lines if not pinned.fullmatch(line)] == []


WORDS_OF_TASKS = {
    # The values that ability= takes, which help and Tab list without importing tasks.
    "alps/keys.py": {ability.name for ability in ABILITIES},
    # The parts of the release layout, those that have checks of their own, and what each needs.
    "alps/ext/datasets/audit.py": {"task2", "task3"},
    "alps/ext/datasets/audit_records.py": {"task1", "task2", "task3", "task4"},
    # The task whose files it writes, without which it is left out.
    "alps/ext/personas/__init__.py": {"personamem"},
    # The tasks that have published figures.
    "alps/ext/published/authors_v1.py": {"extraction", "update"},
    # The parts of an annotated session, as the release layout names them.
    "alps/ext/people/annotations.py": {"task1", "task2", "task3", "task4"},
    # An ability of BEAM, as its files name it.
    "alps/ext/histories/authors.py": {"preference_following"},
    # Rubrics that people label and judges are calibrated by, whatever task asks them.
    "judges/rubric.py": {"pa", "vra", "cf", "ei"},
}
"""The modules outside `tasks/` that hold a word of a task, and what it means there."""


def words_of_tasks():
    names = {*TASKS, *all_tracks()}
    names |= {task.place for task in all_tracks().values()}
    names |= {track.partition("_")[0] for track in all_tracks()}
    for ability in ABILITIES:
        names |= {ability.name, ability.title, ability.title.lower().replace(" ", "_")}
    return names


def test_no_module_outside_tasks_knows_a_task_a_track_or_an_ability_by_its_name():
    # The reading of the release layout in `data/` names its folders, and so do the tests.
    wrong, words = [], words_of_tasks()
    for path in MODULES:
        name = str(path.relative_to(ROOT))
        if not name.startswith(("alps/", "judges/", "leaderboard/")):
            continue
        for line, text in read(path).texts:
            if text in words - WORDS_OF_TASKS.get(name, set()):
                wrong.append(f"{name}, line {line}: {text}")
    assert wrong == []


def test_settings_list_the_abilities_that_there_are():
    assert get_args(Ability) == (*(ability.name for ability in ABILITIES), "all")


def test_no_template_asks_which_task_it_shows():
    quoted = "|".join(sorted(words_of_tasks(), key=len, reverse=True))
    templates = [path for path in FILES if path.suffix == ".html" and "templates" in path.parts]
    assert templates
    assert matching(rf"""(==|!=|\bin\b)\s*\(?["']({quoted})["']""", templates) == []


PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def listed_under(heading: str, entry: str) -> set[str]:
    """Return the entries of the table of the page that begins so."""
    table = PAGE.partition(heading)[2].partition("\n\n")[0]
    return set(re.findall(entry, table, re.MULTILINE))


def rooms() -> dict[str, str]:
    """Return the rooms of the spine, as people see them in the repository, by their names."""
    inside = {path.parent.name for path in (ROOT / "alps").glob("*/__init__.py")}
    # Of the command line there is one box: its modules are no room of their own.
    names = (inside | {*LINKS}) - {*EXTENSION_LAYER, "commands"}
    return {name: f"{name}/" if name in LINKS else f"alps/{name}/" for name in names}


def heights() -> dict[str, float]:
    """Return how far below the top of the picture each room stands."""
    root = ElementTree.parse(ROOT / "docs" / "architecture.svg").getroot()
    names = [text for text in root.iter() if text.get("class") == "name"]
    return {text.text or "": float(text.get("y", "")) for text in names}


def test_the_page_and_the_picture_name_every_room_of_the_spine_and_no_other() -> None:
    assert listed_under("| package |", r"^\| `([a-z/]+/)` \|") == set(rooms().values())
    drawn = {name for name in heights() if name.endswith("/") and "," not in name}
    assert drawn == set(rooms().values())


def test_a_room_stands_above_those_that_it_imports() -> None:
    names, shown = rooms(), heights()
    wrong = set()
    for path, imported in spine().items():
        here = names.get(room(path))
        for to in imported:
            other = names.get(to.split(".")[1])
            if here and other and here != other and shown[other] <= shown[here]:
                wrong.add(f"{here} imports {other}")
    assert sorted(wrong) == []


def test_the_page_names_every_extension_and_no_other() -> None:
    folders = {path.parent.name for path in (ROOT / "alps" / "ext").glob("*/__init__.py")}
    assert listed_under("| extension |", r"^\| `([a-z_]+)` \|") == folders


def test_the_page_of_extensions_names_every_field_of_one() -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    table = page.partition("| field |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(named) == sorted(field.name for field in fields(Extension))


def test_the_page_names_every_method_of_a_part() -> None:
    source = (ROOT / "alps" / "run" / "parts.py").read_text(encoding="utf-8")
    body = source.partition("class RunPart:")[2].partition("\nParts = ")[0]
    methods = set(re.findall(r"def ([a-z]\w*)\(self", body)) - {"aclose"}
    assert listed_under("| when |", r"`(\w+)`") == methods
