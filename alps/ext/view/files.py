"""Files of the page: an index to search in, and the records in parts that scripts fetch."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from alps.errors import RunFolderError, UsageError
from alps.ext.view.records import RecordLines
from alps.show.html import TEMPLATES as REPORT
from alps.show.html import page_environment

ASSETS = Path(__file__).with_name("assets")
TEMPLATES = Path(__file__).with_name("templates")
PAGE, INDEX, RECORDS = "index.html", "index.js", "records"
# A page that is read from a file may load scripts beside it, and nothing from elsewhere.
POLICY = (
    "default-src 'none'; style-src 'self' file:; script-src 'self' file:; connect-src 'self'; "
    "img-src data:; form-action 'none'; base-uri 'none'"
)
_MARK = '<meta name="generator" content="alps view">'


def assets() -> dict[str, Path]:
    """Return the files that the page loads whatever its records are, by their names."""
    paths = [*sorted(ASSETS.iterdir()), REPORT / "report.css"]
    return {path.name: path for path in paths}


def page(*, live: bool) -> bytes:
    """Return the page; `live` where a server says when there is more."""
    environment = page_environment(TEMPLATES)
    text = environment.get_template("view.html").render(policy=POLICY, live=live)
    return text.encode(errors="replace")


def index_script(records: RecordLines, version: int = 0) -> bytes:
    """Return the script that gives the page its index; `version` is that of a served page."""
    return _script("alpsIndex", {**records.index(), "version": version})


def chunk_script(records: RecordLines, number: int) -> bytes:
    """Return the script that gives the page a part of the records."""
    return _script(f"alpsRecords({number}, ", records.chunk(number))


def _script(call: str, content: Any) -> bytes:
    # A page that is read from a file can't fetch data: it can only load scripts that bring them.
    opening = call if call.endswith(", ") else f"{call}("
    return f"{opening}{json.dumps(content, ensure_ascii=False)});\n".encode(errors="replace")


def write_files(records: RecordLines, out: Path) -> Path:
    """Write the page and its files into `out`, and return the page.

    Raises:
        UsageError: If there is anything else in `out`.
        RunFolderError: If a file can't be written.
    """
    _refuse_others(out)
    records_folder = out / RECORDS
    try:
        records_folder.mkdir(parents=True, exist_ok=True)
        for old in records_folder.glob("*.js"):
            old.unlink()
        for name, path in assets().items():
            (out / name).write_bytes(path.read_bytes())
        (out / INDEX).write_bytes(index_script(records))
        for number in _shown(range(records.chunks)):
            (records_folder / f"{number}.js").write_bytes(chunk_script(records, number))
        (out / PAGE).write_bytes(page(live=False))
    except OSError as error:
        raise RunFolderError(f"{out}: {error.strerror or error}; choose another out=") from error
    return out / PAGE


def _shown(numbers: Sequence[int]) -> Iterable[int]:
    """Show on a line of the terminal how many of them are done; nothing where nobody watches."""
    if not sys.stderr.isatty():
        return numbers
    from rich.console import Console
    from rich.progress import track

    return track(numbers, "records", console=Console(stderr=True, emoji=False), transient=True)


def _refuse_others(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()):
        there = out / PAGE
        if there.is_file() and _MARK in there.read_text(encoding="utf-8", errors="replace"):
            return
        # A page is written last: what was cut off has an index and no page.
        if {path.name for path in out.iterdir()} <= {INDEX, RECORDS, *assets()}:
            return
        raise UsageError(f"out={out}: the folder holds something else; name another one")
    if out.exists() and not out.is_dir():
        raise UsageError(f"out={out}: a file is there; name a folder")
