"""Count what makes code hard to read, for this project and for others beside it.

    python bench/house.py [FOLDER…]

prints a table with a row a FOLDER, whose modules are counted with those below it. The first row is
this project: `alps`, `tasks`, `judges`, `data` and `leaderboard`, or of another checkout that
`project=FOLDER` names. Functions count with their methods and without nested ones, whose branches
count for the outer one; their cyclomatic complexity is radon's.
"""

import ast
import io
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from radon.visitors import ComplexityVisitor

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("alps", "tasks", "judges", "data", "leaderboard")
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
            f"{1000 * self.comprehensions / self.lines:.1f}",
            f"{100 * self.comments / self.lines:.2f}",
            str(self.long),
            f"{100 * self.complex_ / self.functions:.1f}",
            f"{self.functions:,}",
        )


def modules(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield every module once: `alps` holds links to the other rooms of the project."""
    seen = set()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            real = path.resolve()
            if "__pycache__" not in path.parts and real not in seen:
                seen.add(real)
                yield real


def complexities(text: str) -> list[int]:
    """Return radon's cyclomatic complexity of each function and method."""
    visitor = ComplexityVisitor.from_code(text)
    methods = [method for found in visitor.classes for method in found.methods]
    return [function.complexity for function in (*visitor.functions, *methods)]


def count(folders: Iterable[Path]) -> Counts:
    """Count all modules of `folders` together."""
    sums = [0] * 7
    for path in modules(folders):
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


def main(words: list[str]) -> None:
    """Print the table."""
    named = [word.removeprefix("project=") for word in words if word.startswith("project=")]
    project = Path(named[0]) if named else ROOT
    rows = [count(project / room for room in ROOMS).row("alps")]
    for word in words:
        if not word.startswith("project="):
            folder = Path(word)
            rows.append(count([folder]).row("/".join(folder.parts[-2:])))
    table = [HEAD, UNITS, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        numbers = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        print("  ".join([cells[0].ljust(widths[0]), *numbers[1:]]).rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])
