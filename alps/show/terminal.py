"""Terminal output and tables: as wide as the terminal up to a bound, no blanks at line ends."""

import html
import io
import sys
from collections.abc import Callable
from typing import Any, TextIO, cast

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from alps.show.formatting import visible
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


def close_table(title: str) -> Table:
    """Return a table without columns, with cells so close that many fit."""
    shape: Any = {"box": box.SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0)}
    width = min(WIDTH, len(title))
    return Table(title=Text(title, style="bold"), title_justify="left", min_width=width, **shape)


def figures_table(title: str, first: str, *columns: str) -> Table:
    """Return a close table: names in the first column, whole figures at the right of the others."""
    table = close_table(visible(title))
    table.add_column(first)
    for name in columns:
        table.add_column(Text(name), justify="right", no_wrap=True)
    return table
