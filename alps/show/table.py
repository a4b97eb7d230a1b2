"""Tables as data: one object that a terminal and a page show alike, and that terminal.

What is found becomes a `Table` of typed cells, or a `Line`; nothing else knows how either looks.
"""

import html
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TextIO, cast

from markupsafe import Markup
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from alps.rows import Figure
from alps.show.formatting import interval, number, signed, visible
from alps.waiting import end

WIDTH, LEAST, MOST = 80, 20, 120
"""How wide a table is where no terminal says it, the narrowest, and the widest: below 20 columns
there is none left for some cells, and lines of more than 120 are hard to follow.
"""


def terminal() -> Console:
    """Return stdout as tables are printed on it; a narrower terminal gets narrower tables.

    What is shown of work under way ends.
    """
    end()
    # A table that is piped is pasted or compared, where blanks at the ends of lines are noise.
    piped = None if sys.stdout.isatty() else cast(TextIO, _Trimmed(sys.stdout))
    width = max(LEAST, min(MOST, Console().width))
    # Names and texts of others may hold square brackets, which are no markup.
    return Console(file=piped, width=width, highlight=False, emoji=False, markup=False)


def as_html(show: Callable[[Console], None]) -> str:
    """Return what `show` prints as a block of HTML, for a notebook."""
    printed = io.StringIO()
    piped = cast(TextIO, _Trimmed(printed))
    plain = Console(
        file=piped,
        width=WIDTH,
        highlight=False,
        emoji=False,
        markup=False,
        force_jupyter=False,  # it would show the table itself, beside what is returned
        force_terminal=False,
    )
    show(plain)
    return f"<pre>{html.escape(printed.getvalue())}</pre>"


class _Trimmed:
    """A text stream that drops the blanks at the ends of lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write("\n".join(line.rstrip(" \t") for line in text.split("\n")))

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


class Cell(NamedTuple):
    """A cell that is more than its text.

    Attributes:
        text: What is read.
        value: The number that it writes, unrounded; None where it writes none.
        note: Dim text below.
        style: Of a terminal, as `bold`.
        drawn: What only a page shows behind the text.
    """

    text: str
    value: float | None = None
    note: str = ""
    style: str = ""
    drawn: Markup = Markup()


Cells = str | Cell


class Column(NamedTuple):
    """A column: its heading, and how it is laid out.

    Attributes:
        right: Whether its cells are aligned right, as numbers are.
        wraps: How a cell that is too long is broken: `word`, `fold` (anywhere), or `no`.
        from_width: A terminal of fewer columns leaves it out.
    """

    title: str = ""
    right: bool = False
    wraps: str = "word"
    from_width: int = 0


def named(title: str = "", wraps: str = "word") -> Column:
    """Return a column of names."""
    return Column(title, wraps=wraps)


def figures(*titles: str, from_width: int = 0) -> list[Column]:
    """Return columns of whole figures at the right."""
    return [Column(title, right=True, wraps="no", from_width=from_width) for title in titles]


class Row(NamedTuple):
    """A row of a table, with as many cells at most; `ends` tells whether a part ends with it."""

    cells: Sequence[Cells]
    style: str = ""
    ends: bool = False


def row_of(*cells: Cells, style: str = "", ends: bool = False) -> Row:
    """Return a row of some cells."""
    return Row(cells, style, ends)


@dataclass(frozen=True)
class Line:
    """A sentence between tables, or below one."""

    text: str
    style: str = ""


def dim(text: str) -> Line:
    """Return a sentence of less weight."""
    return Line(text, "dim")


BLANK = Line("")


@dataclass(frozen=True)
class Table:
    """What was found, in rows and columns.

    Attributes:
        title: Its subject; empty if a heading above names it.
        columns: From left to right.
        rows: From top to bottom.
        notes: Remarks on its rows.
        layout: How a terminal lays it out: `close`, `roomy` (cells further apart), `plain` and
            `bare` (without a rule below the head), `list`, `points` or `legend` (without a head,
            notes behind the text).
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    notes: Sequence[Line] = ()
    layout: str = "close"


Part = Table | Line
"""What reports are made of: a renderer takes any of them."""


def scored(figure: Figure) -> Cell:
    """Return the cell of a score."""
    return Cell(number(figure.value), figure.value)


def with_interval(figure: Figure) -> tuple[Cell, str]:
    """Return the cells of a score and its interval."""
    return scored(figure), interval(figure)


def change(figure: Figure) -> tuple[Cell, str]:
    """Return the cells of a difference and its interval."""
    return Cell(signed(figure.value), figure.value), interval(figure)


def both(figure: Figure, mark: str = "") -> Cell:
    """Return one cell of a score and its interval."""
    return Cell(f"{number(figure.value)} {interval(figure)}{mark}", figure.value)


def thousands(n: int) -> Cell:
    """Return the cell of a number of things."""
    return Cell(f"{n:,}", n)


def ungrouped(n: int) -> Cell:
    """Return the cell of a number without a separator of thousands."""
    return Cell(str(n), n)


def printed(parts: Iterable[Part], width: int = WIDTH) -> Iterator[RenderableType]:
    """Yield what a terminal of so many columns shows of tables and lines."""
    for part in parts:
        if isinstance(part, Line):
            yield Text(visible(part.text), part.style)
        else:
            yield _in_terminal(part, width)
            yield from printed(part.notes)


def show_parts(console: Console, parts: Iterable[Part]) -> None:
    """Print tables and lines; never wider than a page of text."""
    console.print(Group(*printed(parts, console.width)), width=min(WIDTH, console.width))


def print_parts(console: Console, parts: Iterable[Part], below: Iterable[Line] = ()) -> None:
    """Print tables and, below them, lines on what they show; never wider than a page of text."""
    show_parts(console, [*parts, BLANK, *below])


_GRID: dict[str, Any] = {
    "box": None,
    "pad_edge": False,
    "collapse_padding": True,
    "show_header": False,
    "show_edge": False,
}
_LAYOUTS: dict[str, dict[str, Any]] = {
    "close": {"box": box.SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0)},
    "roomy": {"box": box.SIMPLE_HEAD, "pad_edge": False},
    "plain": {"box": None},
    "bare": {"box": None, "pad_edge": False},
    "list": {**_GRID, "padding": (0, 2, 0, 0)},
    "points": {**_GRID, "padding": (0, 1, 0, 0)},
    "legend": {**_GRID, "padding": (0, 2)},
}


def _in_terminal(table: Table, width: int) -> RichTable:
    title = visible(table.title)
    shape = dict(_LAYOUTS[table.layout])
    if title:
        shape |= {"title": Text(title, style="bold"), "title_justify": "left"}
        shape["min_width"] = min(WIDTH, len(title))
    drawn = RichTable(**shape)
    kept = [n for n, column in enumerate(table.columns) if width >= column.from_width]
    for n in kept:
        column = table.columns[n]
        justify = "right" if column.right else "left"
        how: dict[str, Any] = {"justify": justify, "no_wrap": column.wraps == "no"}
        if column.wraps == "fold":
            how["overflow"] = "fold"
        drawn.add_column(Text(visible(column.title)), **how)
    apart = "  " if table.layout == "legend" else "\n  "
    for one in table.rows:
        cells = [_text(one.cells[n], apart) for n in kept if n < len(one.cells)]
        drawn.add_row(*cells, style=one.style, end_section=one.ends)
    return drawn


def _text(cell: Cells, apart: str) -> Text:
    if isinstance(cell, str):
        return Text(visible(cell))
    text = Text(visible(cell.text), cell.style)
    if cell.note:
        text.append(f"{apart}{visible(cell.note)}", style="dim")
    return text


def on_page(part: Part) -> Markup:
    """Return a table, or a line, as a page holds it."""
    if isinstance(part, Line):
        return (
            Markup('<p class="note">{}</p>').format(visible(part.text)) if part.text else Markup()
        )
    notes = " ".join(line.text for line in part.notes if line.text)
    caption = ". ".join(filter(None, (part.title.strip(), notes)))
    heads = Markup()
    if any(column.title for column in part.columns):
        heads = Markup("<thead><tr>{}</tr></thead>\n").format(_headings(part.columns))
    rows = Markup("\n").join(_page_row(one, part.columns) for one in part.rows)
    return Markup(
        '<table class="stackable">\n<caption>{}</caption>\n{}<tbody>\n{}\n</tbody>\n</table>'
    ).format(visible(caption), heads, rows)


def _headings(columns: Iterable[Column]) -> Markup:
    heads = Markup()
    for column in columns:
        style = Markup(' class="figure"') if column.right else ""
        # A heading without words is none to those who have it read to them.
        tag = '<th scope="col"{}>{}</th>' if column.title.strip() else "<td{}>{}</td>"
        heads += Markup(tag).format(style, visible(column.title))
    return heads


def _page_row(one: Row, columns: Sequence[Column]) -> Markup:
    first, *others = one.cells
    text = first if isinstance(first, str) else first.text
    sub = Markup(' class="sub"') if text.startswith(" ") else ""
    cells = Markup('<th scope="row"{}>{}</th>').format(sub, _page_cell(first))
    for cell, column in zip(others, columns[1:], strict=False):
        style = "figure inline" if column.right else "inline"
        label = Markup(' data-label="{}"').format(visible(column.title)) if column.title else ""
        cells += Markup('<td class="{}"{}>{}</td>').format(style, label, _page_cell(cell))
    return Markup("<tr{}>{}</tr>").format(
        Markup(' class="headline"') if one.style == "bold" else "", cells
    )


def _page_cell(cell: Cells) -> Markup:
    if isinstance(cell, str):
        return Markup("{}").format(visible(cell))
    text = Markup("{}").format(visible(cell.text))
    if cell.value is not None:
        text = Markup('<data value="{}">{}</data>').format(cell.value, text)
    if cell.note:
        text += Markup(' <span class="note">{}</span>').format(visible(cell.note))
    return text + cell.drawn
