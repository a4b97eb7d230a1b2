"""Count what makes code hard to read, and hold the budgets of the spine.

    python bench/house.py [FOLDER…]
    python bench/house.py budgets=yes

The first prints a table with a row a FOLDER, whose modules are counted with those below it. Its
first rows are this project: all of it, the spine, the tasks in folders of their own (`tasks/NAME/`:
they can be deleted, as an extension can, and are not of the spine), and each extension;
`project=FOLDER` names another checkout. Functions count with their methods and without nested ones,
whose branches count for the outer one; their cyclomatic complexity is radon's.

`budgets=yes` prints what is bounded, and exits 1 where a budget is passed that holds for every
change: the lines of the spine, the modules whose functions one plain run calls, that it imports and
that hold its settings before a sample, and the length and imports of `alps/run/start.py`. The plain
run is one record of extraction, answered and judged by an LLM on a loopback server. The totals are
printed beside them.
"""

import ast
import io
import json
import os
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from radon.visitors import ComplexityVisitor

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("alps", "tasks", "judges", "data", "leaderboard")
SPINE = ("alps", "tasks", "judges", "data")
EXTENSIONS, START = Path("alps") / "ext", Path("alps") / "run" / "start.py"
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LONGEST, COMPLEX = 100, 10
HEAD = ("", "modules", "lines", "comprehensions", "comments", "long lines", "CC > 10", "functions")
UNITS = ("", "", "", "a 1,000 lines", "a 100 lines", "> 100", "%", "")


@dataclass(frozen=True)
class Counts:
    """Sums over modules; `complex_` are the functions whose complexity is over 10."""

    modules: int = 0
    lines: int = 0
    comprehensions: int = 0
    comments: int = 0
    long: int = 0
    functions: int = 0
    complex_: int = 0

    def row(self, name: str) -> tuple[str, ...]:
        """Return the cells of the table."""
        return (
            name,
            str(self.modules),
            f"{self.lines:,}",
            f"{1000 * self.comprehensions / max(self.lines, 1):.1f}",
            f"{100 * self.comments / max(self.lines, 1):.2f}",
            str(self.long),
            f"{100 * self.complex_ / max(self.functions, 1):.1f}",
            f"{self.functions:,}",
        )


def modules(folders: Iterable[Path], *, but: Path | None = None) -> Iterator[Path]:
    """Yield every module once: `alps` holds links to the other rooms of the project.

    Those below the folder `but` are left out.
    """
    seen = set()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            real = path.resolve()
            if "__pycache__" in path.parts or real in seen:
                continue
            if but is None or not real.is_relative_to(but.resolve()):
                seen.add(real)
                yield real


def complexities(text: str) -> list[int]:
    """Return radon's cyclomatic complexity of each function and method."""
    visitor = ComplexityVisitor.from_code(text)
    methods = [method for found in visitor.classes for method in found.methods]
    return [function.complexity for function in (*visitor.functions, *methods)]


def count(folders: Iterable[Path], *, but: Path | None = None) -> Counts:
    """Count all modules of `folders` together, without those below `but`."""
    sums = [0] * 7
    for path in modules(folders, but=but):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        complexity = complexities(text)
        one = (
            1,
            len(lines),
            sum(isinstance(node, COMPREHENSIONS) for node in ast.walk(ast.parse(text))),
            sum(token.type == tokenize.COMMENT for token in tokens),
            sum(len(line) > LONGEST for line in lines),
            len(complexity),
            sum(value > COMPLEX for value in complexity),
        )
        sums = [total + value for total, value in zip(sums, one, strict=True)]
    return Counts(*sums)


def of_project(project: Path) -> list[tuple[str, ...]]:
    """Return the rows of a checkout: all of it, its spine, then extensions, the largest first."""
    rows = [count(project / room for room in ROOMS).row("alps")]
    inside = project / EXTENSIONS
    if inside.is_dir():
        rows.append(_spine(project).row("spine"))
        rows.append(_tasks_in_folders(project).row("tasks in folders"))
        found = [(count([folder]), folder.name) for folder in inside.iterdir() if folder.is_dir()]
        for counts, name in sorted(found, key=lambda one: (-one[0].lines, one[1])):
            if counts.modules:
                rows.append(counts.row(f"ext/{name}"))
        rows.append(count([project / "leaderboard"]).row("leaderboard"))
    return rows


def _tasks_in_folders(project: Path) -> Counts:
    return count(path.parent for path in (project / "tasks").glob("*/__init__.py"))


def _spine(project: Path) -> Counts:
    # The links in `alps` lead to the other rooms; the leaderboard is none of the spine.
    folders = [path for path in (project / "alps").iterdir() if not path.is_symlink()]
    roots = [folder for folder in folders if folder.is_dir() and folder.name != "ext"]
    spine = count([*roots, *(project / room for room in SPINE[1:])])
    alone = [len(path.read_text("utf-8").splitlines()) for path in folders if path.suffix == ".py"]
    apart = _tasks_in_folders(project)
    modules, lines = spine.modules - apart.modules, spine.lines - apart.lines
    return replace(spine, modules=modules + len(alone), lines=lines + sum(alone))


@dataclass(frozen=True)
class Budget:
    """What is bounded: more than `most` fails a build, where that is given.

    `aim` is what the design asks for; a budget is lowered towards it and never raised.
    """

    what: str
    aim: int
    measured: int
    most: int | None = None


def budgets(project: Path) -> list[Budget]:
    """Measure what is bounded."""
    start = (project / START).read_text(encoding="utf-8")
    imports = sum(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(start).body)
    run = plain_run(project)
    whole = count(project / room for room in ROOMS)
    return [
        Budget("lines of the spine", 32_000, _spine(project).lines, 32_000),
        Budget("modules that a plain run calls", 60, run["called"], 77),
        Budget("modules of ours that it imports", 100, run["imported"], 113),
        Budget(f"lines of {START}", 250, len(start.splitlines()), 131),
        Budget(f"imports of {START}", 14, imports, 14),
        Budget("modules that hold its settings before a sample", 14, run["holding"], 13),
        Budget("modules in all", 300, whole.modules),
        Budget("lines in all", 72_000, whole.lines),
        Budget("lines of tests", 36_000, count([project / "tests"]).lines),
        Budget("lines of benchmarks", 9_500, count([project / "bench"]).lines),
    ]


# What modules call while they are imported is not counted: it is no step of the run.
TRACED = """
import json, sys
from alps.cli import main
called, holding, importing, over = set(), set(), 0, False
def note(frame):
    held = (type(value).__name__ for value in list(frame.f_locals.values()))
    if "RunSettings" in held:
        holding.add(frame.f_globals.get("__name__", ""))

def look(frame, event, argument):
    global importing, over
    name = frame.f_globals.get("__name__") or ""
    if name.startswith("alps") and not importing and not over:
        if event == "return":  # all its variables are there
            note(frame)
        over = name.endswith(".engine") and frame.f_code.co_name == "evaluate"
        outer = frame if over else None
        while outer := outer and outer.f_back:  # those that are not left yet
            note(outer)
    if frame.f_code.co_name == "<module>":
        importing += (event == "call") - (event == "return")
    elif event == "call" and not importing:
        called.add(frame.f_globals.get("__name__", ""))

sys.argv = ["alps", *sys.argv[1:]]
sys.setprofile(look)
try:
    main()
except SystemExit as ended:
    code = ended.code
sys.setprofile(None)
ours = [name for name in sys.modules if name.partition(".")[0] == "alps"]
counts = {"called": len(called & set(ours)), "imported": len(ours)}
rows = {"code": code, **counts, "holding": len(holding & set(ours))}
open("traced.json", "w").write(json.dumps(rows))
"""


def plain_run(project: Path) -> dict[str, int]:
    """Return how many modules a plain run calls, imports, and lets hold its settings."""
    from server import running

    with running() as server, tempfile.TemporaryDirectory() as folder:
        words = (
            *("run", "task=extraction", "limit=1", "out=out"),
            *("model=openai/scripted", f"api_base={server.url}"),
            *("judge=openai/judge", f"judge_api_base={server.url}", "judge_check=no"),
        )
        own = {"PYTHONPATH": str(project), "OPENAI_API_KEY": "none", "ALPS_CACHE": "off"}
        done = subprocess.run(
            [sys.executable, "-c", TRACED, *words],
            cwd=folder,
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            check=False,
        )
        traced = Path(folder) / "traced.json"
        if not traced.exists():
            sys.exit(f"the plain run: {done.stderr}")
        rows: dict[str, int] = json.loads(traced.read_text())
        if rows["code"]:
            sys.exit(f"the plain run: exit {rows['code']}: {done.stderr}")
    return rows


def main(words: list[str]) -> None:
    """Print the table, or the budgets."""
    from document import terminal

    if "--help" in words:
        print(__doc__.strip())
        return
    named = [word.removeprefix("project=") for word in words if word.startswith("project=")]
    project = Path(named[0]) if named else ROOT
    if "budgets=yes" in words:
        measured = budgets(project)
        rows = [("what", "aim", "at most", "is")]
        for one in measured:
            most = "–" if one.most is None else f"{one.most:,}"
            rows.append((one.what, f"{one.aim:,}", most, f"{one.measured:,}"))
        print(terminal(rows))
        passed = []
        for one in measured:
            if one.most is not None and one.measured > one.most:
                passed.append(f"{one.what}: {one.measured:,} of {one.most:,}")
        sys.exit("\n".join(passed) or 0)
    more = []
    for folder in map(Path, (word for word in words if not word.startswith("project="))):
        if not (counts := count([folder])).modules:
            print(f"{folder}: no Python module in it; name a folder that has some", file=sys.stderr)
            sys.exit(2)
        more.append(counts.row("/".join(folder.parts[-2:])))
    rows = [*of_project(project), *more]
    print(terminal([HEAD, UNITS, *rows]))


if __name__ == "__main__":
    main(sys.argv[1:])
