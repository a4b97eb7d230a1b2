"""The static site: a pure function of the submissions, of what the paper reports, and of the
package's own samples.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from alps.errors import UsageError
from alps.leaderboard.boards import build_boards
from alps.leaderboard.downloads import write_downloads
from alps.leaderboard.pages.changes import write_changes
from alps.leaderboard.pages.common import Content, Renderer
from alps.leaderboard.pages.judge import write_judges
from alps.leaderboard.pages.overview import write_overview
from alps.leaderboard.pages.records import write_records
from alps.leaderboard.pages.system import write_systems
from alps.leaderboard.pages.task import write_tasks
from alps.leaderboard.site_data import PUBLISHED, load, read_published
from alps.leaderboard.site_files import check_out, put

ASSETS = Path(__file__).with_name("assets")
_PARTS = (
    write_overview,
    write_tasks,
    write_systems,
    write_judges,
    write_records,
    write_changes,
    write_downloads,
)


@dataclass(frozen=True)
class Built:
    """A site that was written: where, of how many submissions, and how large it is.

    `left` names files of an earlier build that it has no longer, and that stay as they have changed
    since.
    """

    out: Path
    submissions: int
    boards: int
    pages: int
    bytes: int
    left: tuple[str, ...] = ()


def build(submissions: Path, out: Path, *, base: Path = PUBLISHED) -> Built:
    """Write the site of all submissions below `submissions`; the same files give the same bytes.

    A site that lies in `out` already is replaced, once the new one is whole; files that no build
    wrote stay.

    Args:
        submissions: The folder that holds a folder for each submission.
        out: The folder to write.
        base: What the paper reports, as a file in the form of `published.json`.

    Raises:
        UsageError: If there are no submissions to read, something else than a site lies in `out`,
            or a file that no build wrote is in the way.
        DataError: If a submission can't be read; names the file.
    """
    before = check_out(out)
    systems, published = load(submissions), read_published(base)
    content = Content(systems, build_boards(systems, published), published)
    parent = out.resolve().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(
            prefix=".alps-site-", dir=parent, ignore_cleanup_errors=True
        ) as scratch:
            unfinished = Path(scratch) / "site"
            renderer = Renderer(unfinished, content)
            for write in _PARTS:
                write(renderer)
            shutil.copytree(
                ASSETS, unfinished / "assets", ignore=shutil.ignore_patterns("__pycache__")
            )
            (unfinished / ".nojekyll").write_bytes(b"")
            left = put(unfinished, out, before)
    except OSError as error:
        raise UsageError(f"out={out}: {error.strerror or error}; choose another folder") from error
    return Built(out, len(systems), len(content.boards), renderer.pages, renderer.bytes, left)
