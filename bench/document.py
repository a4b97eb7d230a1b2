"""bench/RESULTS.md: a section by each benchmark, and above them every bound in one table."""

import datetime
import os
import platform
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

PAGE = "ALPS_BENCHMARKS_PAGE"
"""The environment variable that names another file to write into, as bench/all.py does for each
benchmark.
"""
DOCUMENT = Path(os.environ.get(PAGE) or Path(__file__).resolve().with_name("RESULTS.md"))
_ORDER = """
harness throughput startup matching scale soak crashes fuzz outages coverage audits
leaderboard attacks
"""
ORDER = tuple(_ORDER.split())
"""The sections in the order of the document: speed, endurance, then what single parts cost."""
PREFACE = """# Benchmarks

Every figure on this page was written by the command that its section names, none by hand. \
`make bench` runs them all,
one after another, and writes the page; `bench/all.py` lists the other harnesses that it takes. \
Print the versions of your
machine, to compare:

```console
$ export PATH="$PWD/.venv/bin:$PATH"
$ alps doctor
```

«The AlpsBench sample» is the authors' human-check export that the [docs]\
(../docs/index.md#the-authors-export) describe;
`ALPS_SAMPLE` names its folder. What is measured on its records is left out without it.
"""
WIDTH = 118
HEAD = ("what", "bound", "measured", "")
HELD, MISSED = "held", "**missed**"


@dataclass(frozen=True)
class Bound:
    """What a benchmark promises, and whether it is held.

    Such as «peak memory», «≤ 150 MB», «91 MB».
    """

    what: str
    limit: str
    measured: str
    held: bool

    @property
    def sentence(self) -> str:
        """What is printed where the bound is missed."""
        return f"{self.what}: {self.measured} (bound {self.limit})."


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes:
        name: One of `ORDER`.
        title: Its heading.
        text: What was done and how; it is folded here.
        bounds: What it promises.
        command: What writes it again.
        table: Heading and rows of its figures; the first column is aligned left, the others right.
        notes: Sentences on the circumstances; date and machine are added.
    """

    name: str
    title: str
    text: str
    bounds: Sequence[Bound]
    command: str
    table: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()


def at_most(what: str, limit: float, measured: float, form: str = "{:,}") -> Bound:
    """Return the bound of a figure that is not to pass `limit`; `form` is such as `{:.1f} s`."""
    return Bound(what, f"≤ {_limit(limit, form)}", form.format(measured), measured <= limit)


def at_least(what: str, limit: float, measured: float, form: str = "{:,}") -> Bound:
    """Return the bound of a figure that is to reach `limit`."""
    return Bound(what, f"≥ {_limit(limit, form)}", form.format(measured), measured >= limit)


def _limit(limit: float, form: str) -> str:
    shown = f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"
    return shown + form.rpartition("}")[2]


def missed(bounds: Iterable[Bound]) -> list[str]:
    """Return a sentence for every bound that is missed."""
    return [bound.sentence for bound in bounds if not bound.held]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Lay out heading and rows as a table of Markdown."""
    head, *body = rows
    ruled = "|".join(("---", *("---:" for _ in head[1:])))
    return "\n".join(
        (f"| {' | '.join(head)} |", f"|{ruled}|", *(f"| {' | '.join(row)} |" for row in body))
    )


def terminal(rows: Sequence[Sequence[str]]) -> str:
    """Lay out heading and rows for a terminal: the first column left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    laid = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        laid.append("  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip())
    return "\n".join(laid)


def circumstances() -> list[str]:
    """Return the date, the machine and its load, as notes of a section."""
    machine = (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python "
        f"{platform.python_version()}"
    )
    return [
        f"{datetime.date.today()}; {machine}",
        "Load average over the last minute, this benchmark being part of it: "
        f"{os.getloadavg()[0]:.1f}",
    ]


def finish(*sections: Section, write: object) -> NoReturn:
    """Print figures and bounds, write the sections if they are to be, and end the process.

    The exit code is 1 where a bound is missed.
    """
    for section in sections:
        for rows in (section.table, [HEAD, *map(_cells, section.bounds)]):
            print(terminal(rows) if rows else "", end="\n\n")
        print(*section.notes, sep="\n")
        if write:
            write_section(section)
    bounds = [bound for section in sections for bound in section.bounds]
    misses = missed(bounds)
    print(*(misses or ["Every bound that was measured is held."]), sep="\n")
    sys.exit(1 if misses else 0)


def write_section(section: Section) -> None:
    """Put `section` into the page in place of its earlier self, and renew the table of bounds.

    Raises:
        ValueError: If its name is not in `ORDER`.
    """
    if section.name not in ORDER:
        raise ValueError(f"{section.name}: not a section of the page ({', '.join(ORDER)})")
    _put(section.name, _laid(section))


def take_over(name: str, page: Path) -> bool:
    """Put the section `name` of another page into this one; return whether that page has it."""
    found = _read(page).get(name)
    if found is not None:
        _put(name, found)
    return found is not None


def every_bound(page: Path, name: str) -> list[tuple[str, str, str, str]]:
    """Return what a section of `page` promises.

    What, the bound, what was measured, and `HELD` or `MISSED`.
    """
    return _bounds(_read(page).get(name, ""))


def _put(name: str, text: str) -> None:
    blocks = {name: _folded(text) for name, text in {**_read(DOCUMENT), name: text}.items()}
    kept = [(name, blocks[name]) for name in ORDER if name in blocks]
    marked = (f"<!-- begin {name} -->\n{text}<!-- end {name} -->\n" for name, text in kept)
    DOCUMENT.write_text("\n".join((PREFACE, _every_bound(kept), *marked)), encoding="utf-8")


def _read(page: Path) -> dict[str, str]:
    """Return the sections of `page` by their names; none where there is no page yet."""
    document = page.read_text(encoding="utf-8") if page.exists() else ""
    sections = re.finditer(r"<!-- begin (\w+) -->\n(.*?)<!-- end \1 -->\n", document, re.DOTALL)
    return {found[1]: found[2] for found in sections}


def _bounds(text: str) -> list[tuple[str, str, str, str]]:
    return re.findall(
        r"^\| (.*?) \| (.*?) \| (.*?) \| (held|\*\*missed\*\*) \|$", text, re.MULTILINE
    )


def _cells(bound: Bound) -> tuple[str, ...]:
    return bound.what, bound.limit, bound.measured, HELD if bound.held else MISSED


def _laid(section: Section) -> str:
    rows = [HEAD, *map(_cells, section.bounds)]
    text = textwrap.fill(" ".join(section.text.split()), WIDTH, break_on_hyphens=False)
    noted = (*section.notes, *circumstances(), f"Command: `{section.command}`")
    figures = [markdown(section.table)] if section.table else []
    notes = "\n".join(f"- {note}" for note in noted)
    return "\n\n".join((f"## {section.title}", text, markdown(rows), *figures, notes)) + "\n"


def _folded(text: str) -> str:
    """Fold the notes of a section, as all text of the project is."""
    folding = textwrap.TextWrapper(
        WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    lines = text.splitlines()
    return "".join(f"{folding.fill(x) if x.startswith('- ') else x}\n" for x in lines)


def _every_bound(blocks: Iterable[tuple[str, str]]) -> str:
    rows: list[Sequence[str]] = [HEAD]
    for _, text in blocks:
        title = text.splitlines()[0].removeprefix("## ")
        link = f"[{title}](#{re.sub(r'[^a-z0-9 -]', '', title.lower()).replace(' ', '-')})"
        rows += [(f"**{link}**", "", "", ""), *_bounds(text)]
    return "## Every bound\n\n" + markdown(rows) + "\n"
