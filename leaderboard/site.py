"""The static site: a pure function of the submissions, of what the paper reports, and of the package's own samples."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from alps.errors import UsageError
from alps.leaderboard.boards import build_boards
from alps.leaderboard.downloads import INDEX, write_downloads
from alps.leaderboard.loading import load
from alps.leaderboard.pages.changes import write_changes
from alps.leaderboard.pages.common import Content, Renderer
from alps.leaderboard.pages.judge import write_judges
from alps.leaderboard.pages.overview import write_overview
from alps.leaderboard.pages.records import write_records
from alps.leaderboard.pages.system import write_systems
from alps.leaderboard.pages.task import write_tasks
from alps.leaderboard.published import PUBLISHED, read_published

ASSETS = Path(__file__).with_name("assets")
_PARTS = (write_overview, write_tasks, write_systems, write_judges, write_records, write_changes, write_downloads)


@dataclass(frozen=True)
class Built:
    """A site that was written: where, of how many submissions, and how large it is."""

    out: Path
    submissions: int
    boards: int
    pages: int
    bytes: int


def build(submissions: Path, out: Path, *, base: Path = PUBLISHED) -> Built:
    """Write the site of all submissions below `submissions`; the same files give the same bytes.

    A site that lies in `out` already is replaced, once the new one is whole.

    Args:
        submissions: The folder that holds a folder for each submission.
        out: The folder to write.
        base: What the paper reports, as a file in the form of `published.json`.

    Raises:
        UsageError: If there are no submissions to read, or something else than a site lies in `out`.
        DataError: If a submission can't be read; names the file.
    """
    if out.exists() and not (out.is_dir() and ((out / INDEX).is_file() or not any(out.iterdir()))):
        raise UsageError(f"out={out}: something else than a site is there; choose another folder")
    systems, published = load(submissions), read_published(base)
    content = Content(systems, build_boards(systems, published), published)
    whole = out if out.name not in ("", "..") else out.resolve()
    unfinished = whole.with_name(f".{whole.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        renderer = Renderer(unfinished, content)
        for write in _PARTS:
            write(renderer)
        shutil.copytree(ASSETS, unfinished / "assets", ignore=shutil.ignore_patterns("__pycache__"))
        (unfinished / ".nojekyll").write_bytes(b"")
        _put(unfinished, out)
    except OSError as error:
        raise UsageError(f"out={out}: {error.strerror or error}; choose another folder") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return Built(out, len(systems), len(content.boards), renderer.pages, renderer.bytes)


def _put(site: Path, out: Path) -> None:
    """Move a whole site to `out`.

    A folder that is there stays, and what of it the site has not goes: it may be the working folder, a link, or a
    mounted disk. The index comes first, as it says that the folder holds a site, which the next one may replace.
    """
    if not out.exists():
        site.replace(out)
        return
    files = sorted((path for path in site.rglob("*") if path.is_file()), key=lambda path: path != site / INDEX)
    kept = {parent for path in files for parent in (path, *path.parents)}
    for path in sorted(out.rglob("*"), reverse=True):
        if site / path.relative_to(out) not in kept:
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in files:
        place = out / path.relative_to(site)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, place)
