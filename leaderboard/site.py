"""The static site: built from the submissions, put into a folder, served on loopback.

It is a pure function of the submissions, of reference rows, of an agreement file, and of the
package's samples. A build changes and removes only what a build wrote: every site holds a list of
its files with their hashes, `.alps-site.json`. What it does not list is somebody else's: the `.git`
and `CNAME` of the checkout that a site is published from, and whatever else lies there.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import TypeAdapter, ValidationError

from alps.errors import UsageError
from alps.leaderboard.pages.common import Content, Renderer
from alps.leaderboard.pages.downloads import write_downloads
from alps.leaderboard.pages.overview import write_overview, write_references
from alps.leaderboard.pages.records import write_compared, write_records
from alps.leaderboard.pages.systems import write_judges, write_systems
from alps.leaderboard.pages.tasks import write_changes, write_tasks
from alps.leaderboard.parts import PEOPLE, needed
from alps.leaderboard.ranking import build_boards
from alps.leaderboard.references import read_references
from alps.leaderboard.site_data import load

LIST, AGREEMENT = ".alps-site.json", "agreement.json"
ASSETS = Path(__file__).with_name("assets")
_FILES = TypeAdapter(dict[str, str])
_PARTS = (
    write_overview,
    write_tasks,
    write_systems,
    write_judges,
    write_references,
    write_records,
    write_compared,
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


def build(submissions: Path, out: Path, *, people: Path | None = None) -> Built:
    """Write the site of all submissions below `submissions`; the same files give the same bytes.

    A site that lies in `out` already is replaced, once the new one is whole; files that no build
    wrote stay. `people` is the file of `alps annotate agreement out=`; None for no row of people.

    Raises:
        UsageError: If there are no submissions to read, something else than a site lies in `out`,
            or a file that no build wrote is in the way.
        DataError: If a submission can't be read; names the file.
    """
    before = _check_out(out)
    systems, rows = load(submissions), read_references()
    own = needed(PEOPLE).people(people) if people is not None else None
    content = Content(systems, build_boards(systems, rows, own), rows)
    parent = out.resolve().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        # On the disk of `out`: what stops half-way leaves the site that was there.
        with TemporaryDirectory(
            prefix=".alps-site-", dir=parent, ignore_cleanup_errors=True
        ) as scratch:
            unfinished = Path(scratch) / "site"
            renderer = Renderer(unfinished, content)
            for write in _PARTS:
                write(renderer)
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ASSETS, unfinished / "assets", ignore=ignored)
            # Where a site is published, Jekyll would leave out what begins with an underscore.
            (unfinished / ".nojekyll").write_bytes(b"")
            left = _put(unfinished, out, before)
    except OSError as error:
        raise UsageError(f"out={out}: {error.strerror or error}; choose another folder") from error
    return Built(out, len(systems), len(content.boards), renderer.pages, renderer.bytes, left)


def _check_out(out: Path) -> dict[str, str]:
    """Return what an earlier build wrote into `out`, as sha256 by path.

    Raises:
        UsageError: If `out` is no folder, its list can't be read, or it is neither empty, nor a
            checkout, nor a site.
    """
    if not out.exists() and not out.is_symlink():
        return {}
    if not out.is_dir():
        raise UsageError(f"out={out}: not a folder; choose another path")
    if (out / LIST).is_file():
        return _read_list(out)
    names = {path.name for path in out.iterdir()}
    visible = [name for name in names - {"CNAME"} if not name.startswith(".")]
    # A checkout that a site is published from may hold a README; nothing of it is touched.
    if visible and ".git" not in names:
        fault = f"the folder has files, but no {LIST} of a site build"
        raise UsageError(f"out={out}: {fault}; choose another folder, or empty this one")
    return {}


def _put(site: Path, out: Path, before: Mapping[str, str]) -> tuple[str, ...]:
    """Move a whole site to `out`; return stale files that are left there, as they have changed.

    The folder stays: it may be the working folder, a link, or a mounted disk. `before` is what an
    earlier build wrote there.

    Raises:
        UsageError: If a file that no build wrote is in the way.
    """
    files = sorted(path for path in site.rglob("*") if path.is_file())
    hashes = {path.relative_to(site).as_posix(): _hash(path) for path in files}
    hashes = dict(sorted(hashes.items()))
    out.mkdir(parents=True, exist_ok=True)
    _check_way(out, hashes, before)
    # Both lists together first: a build that is killed here must know its files, the old and the
    # new, the next time.
    _write_list(out, {**before, **hashes})
    left = []
    for name in before:
        if name not in hashes and not _remove(out, name, before[name]):
            left.append(name)
    for name in hashes:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(site / name, out / name)
    _write_list(out, hashes)
    return tuple(left)


def _check_way(out: Path, names: Iterable[str], before: Mapping[str, str]) -> None:
    for name in names:
        path, blocked = out / name, None
        # A link would lead the build out of the site, into a folder that is not its own.
        for parent in path.relative_to(out).parents[:-1]:
            if (out / parent).is_symlink() or (out / parent).is_file():
                blocked = out / parent
        if blocked is None and os.path.lexists(path) and (name not in before or path.is_dir()):
            blocked = path
        if blocked is not None:
            fault = "not written by a site build; move it, or choose another out="
            raise UsageError(f"{blocked}: {fault}")


def _remove(out: Path, name: str, sha256: str) -> bool:
    """Remove a stale file if it is as it was built; return False where it is left."""
    path = out / name
    if not os.path.lexists(path):
        return True
    inside = path.parent.resolve().is_relative_to(out.resolve())
    if path.is_symlink() or not path.is_file() or not inside or _hash(path) != sha256:
        return False
    path.unlink()
    for parent in path.relative_to(out).parents:
        folder = out / parent
        if folder != out and not any(folder.iterdir()):
            folder.rmdir()
    return True


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_list(out: Path) -> dict[str, str]:
    try:
        files = _FILES.validate_python(json.loads((out / LIST).read_bytes()))
    except (OSError, ValueError, ValidationError) as error:
        raise UsageError(f"{out / LIST}: not written by a build; choose another out=") from error
    # The list may come with a stranger's checkout: what it names is removed when it is stale.
    for name in files:
        parts = PurePosixPath(name).parts
        hidden = any(part.startswith(".") for part in parts) and name != ".nojekyll"
        if not parts or hidden or name.startswith("/") or "\\" in name or "\0" in name:
            raise UsageError(f"{out / LIST}: lists files that no build writes; choose another out=")
    return files


def _write_list(out: Path, files: Mapping[str, str]) -> None:
    text = json.dumps(dict(sorted(files.items())), indent=0)
    temporary = out / f"{LIST}.tmp"
    temporary.write_text(f"{text}\n", encoding="utf-8")
    temporary.replace(out / LIST)


_SECONDS = 20.0
"""For how long a connection may send nothing; each has a thread."""


class _Handler(SimpleHTTPRequestHandler):
    """Serves files alone: no lists of folders, no log, nothing kept by the browser."""

    timeout = _SECONDS

    def list_directory(self, path: Any) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def end_headers(self) -> None:
        # The next reload must show a site that was built again meanwhile.
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()


class _Server(ThreadingHTTPServer):
    """Has room for a page's requests, and writes nothing of connections that break off."""

    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def check_site(site: Path) -> None:
    """Check that a folder holds a site.

    Raises:
        UsageError: If it does not.
    """
    if not (site / "index.html").is_file():
        raise UsageError(f"{site}: no site in this folder; build one with alps leaderboard build")


def serve(site: Path, *, port: int = 0) -> ThreadingHTTPServer:
    """Return a server of `site` on loopback that is bound and waits for `serve_forever`.

    The site may be built before it runs; 0 is any free port.

    Raises:
        UsageError: If the port is taken.
    """
    try:
        return _Server(("127.0.0.1", port), partial(_Handler, directory=str(site)))
    except OSError as error:
        fault = f"{error.strerror or error}; choose another port, or 0 for any"
        raise UsageError(f"port={port}: {fault}") from error
