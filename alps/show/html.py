"""HTML pages of one file each: the template environment, and writing a page whole or not at all."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from alps.errors import RunFolderError, UsageError
from alps.show.formatting import folded_away, interval, number, visible
from alps.show.table import Part, on_page

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDED_VALUE, FOLDED_RAW = 400, 1_200
MOST_PAIRINGS = 40
TEMPLATES = Path(__file__).with_name("templates")
_MARKS = (b"<!doctype html>", b'<meta name="referrer" content="no-referrer">')
"""What the beginning of every page of ours holds."""
_BEGINNING = 4_096


def page_environment(templates: Path = TEMPLATES) -> "Environment":
    """Return the environment that every page is rendered in: autoescaped, strict about names.

    The templates of the report are found after those in `templates`, so that any page can import
    the macros of `record_view.html`, which draw a `RecordCard` of `record_card`.
    """
    # Imported here: most commands write no page, and jinja2 would slow all of them down.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([templates, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    from alps.tasks.registry import track_title

    environment.filters.update(number=number, interval=interval, track_title=track_title)
    environment.globals.update(
        folded=_folded, folded_away=folded_away, FOLDED_RAW=FOLDED_RAW, MOST_PAIRINGS=MOST_PAIRINGS
    )
    return environment


def _finalize(value: Any) -> Any:
    """Make whatever is printed safe to encode; our own markup stays as it is."""
    # Here once, so that no template can forget it for a text of a model or a user.
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _folded(text: str, limit: int = FOLDED_VALUE) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]} {folded_away(len(text) - limit, 'characters')}"


def write_tables_page(
    path: Path,
    *,
    kind: str,
    title: str,
    lede: str = "",
    sections: Iterable[tuple[str, Iterable[Part]]],
    notes: Iterable[str] = (),
) -> Path:
    """Write a page of tables, the same that a terminal shows.

    Args:
        path: The file.
        kind: Name of this kind of page.
        title: Its heading.
        lede: The answer in a sentence.
        sections: Headings, each with the tables and lines below it.
        notes: Remarks on the whole page.

    Raises:
        RunFolderError: If it can't be written.
    """
    drawn = [(heading, list(map(on_page, parts))) for heading, parts in sections]
    template = page_environment().get_template("tables.html")
    page = template.render(kind=kind, title=title, lede=lede, sections=drawn, notes=list(notes))
    return write_page(page.lstrip(), path)


def refuse_other_file(path: Path) -> None:
    """Refuse to write a page over a file that is no page of ours.

    Raises:
        UsageError: If it is one, or can't be read.
    """
    if not os.path.lexists(path):
        return
    try:
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING)
    except OSError as error:
        raise UsageError(f"out={path}: {error.strerror or error}; name another file") from error
    if beginning and not all(mark in beginning for mark in _MARKS):
        raise UsageError(f"out={path}: this file exists and is not a report; choose another name")


def write_page(page: str, path: Path) -> Path:
    """Write `page` in one atomic step; what UTF-8 can't hold is replaced.

    Raises:
        RunFolderError: If the file can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Beside the page, as only a rename within one file system is atomic.
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        # A lone surrogate, which JSON of a model may hold, must not cost the whole page.
        temporary.write_bytes(page.encode(errors="replace"))
        temporary.replace(path)
    except OSError as error:
        raise RunFolderError(f"{path}: {error.strerror or error}; choose another out=") from error
    return path
