"""Checks of the files: the folder, the hashes on the card, and what else a change touches."""

import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from alps.leaderboard.checks import PACK_AGAIN, Findings, some_of
from alps.leaderboard.submission import (
    BESIDE,
    CARD,
    DIARY,
    LEDGER,
    MEMORY_FOLDER,
    REVIEW,
    STAGES,
    File,
    PublishedTrack,
    Submission,
    memory_folder,
    only,
)
from alps.leaderboard.untrusted import LARGEST_CARD, LARGEST_FILE, MEBIBYTE, open_plain, shown
from alps.show.formatting import counted
from alps.tasks import board_tracks

# Where submissions lie in the repository.
SUBMISSIONS = Path("leaderboard") / "submissions"
# A card, a review, and four files of each of at most 20 tracks are 82; with six rows beside a
# memory system on all of them, 564.
MOST_FILES = 600
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}\Z")
_TRACK_FILES = tuple(f"{stage}.jsonl" for stage in STAGES)
_KINDS = {
    stat.S_ISLNK: "a symbolic link",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISDIR: "a folder",
}
_MEMORY = re.compile(rf"{MEMORY_FOLDER}[0-9]{{1,2}}\Z")
_ROW = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_ONLY = "remove everything that alps leaderboard submit did not write"
_BAD_NAME = "the name begins with a dot, or has a character other than A–Z a–z 0–9 . _ -"
# Anything that begins with a hyphen would be an option of git.
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@^~-]{0,199}\Z")
# The checkout is a stranger's: its configuration must start no helper, and reach no network.
_GIT = ("git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "protocol.allow=never")
_DIFF = ("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")


def check_folder(folder: Path, findings: Findings) -> None:
    """Look at the names, kinds and sizes of everything in `folder`, without opening anything."""
    # Of the folder itself: a link to a submission is none, as it may lead anywhere by tomorrow.
    try:
        mode = folder.lstat().st_mode
    except OSError as error:
        reason = error.strerror or "can't be read"
        findings.serious("folder", shown(folder.name), reason, "name the folder of a submission")
        return
    if not stat.S_ISDIR(mode):
        mend = "name a plain folder; unpack an archive first"
        findings.serious("folder", shown(folder.name), f"{_kind(mode)}, not a folder", mend)
        return
    files = size = 0
    for entry, where in _walk(folder, findings):
        files += 1
        if files > MOST_FILES:
            findings.serious("too_many_files", "the folder", f"more than {MOST_FILES} files", _ONLY)
            break
        size += _check_size(entry, where, findings)
    findings.checked["files"] = f"{counted(files, 'plain file')}, {counted(size, 'byte')}"


def _walk(
    folder: Path, findings: Findings, inside: tuple[str, ...] = ()
) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Yield what may be read; whatever else lies there is a finding, and not looked into."""
    expected = _files_in(inside)
    for entry in _entries(folder):
        # What only looks like an ASCII letter shows as an escape.
        name = shown(entry.name.encode("ascii", "backslashreplace").decode())
        where = "/".join((*inside, name))
        if not _NAME.match(entry.name):
            findings.serious("name", where, _BAD_NAME, _ONLY)
        elif _is_folder_in(inside, entry.name):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                yield from _walk(Path(entry.path), findings, (*inside, entry.name))
            else:
                what = f"{_kind(mode)} where a folder should be"
                findings.serious("kind", where, what, "replace it with a plain folder")
        elif entry.name in expected:
            yield entry, where
        else:
            findings.serious("stray", where, "does not belong to a submission", _ONLY)


def _files_in(inside: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the files that a folder may hold."""
    if not inside:
        return CARD, REVIEW
    if inside[-1] in board_tracks():
        return _TRACK_FILES
    return (DIARY, LEDGER) if len(inside) == 1 else ()


def _is_folder_in(inside: tuple[str, ...], name: str) -> bool:
    """Tell whether a folder may hold one of this name: tracks, memory systems, rows beside them."""
    if inside and inside[-1] in board_tracks():
        return False
    if len(inside) == 1:
        return name == BESIDE
    if len(inside) == 2:
        return _ROW.match(name) is not None
    return name in board_tracks() or (not inside and _MEMORY.match(name) is not None)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    # Many more than may lie there are not even listed.
    with os.scandir(folder) as listing:
        return sorted(islice(listing, MOST_FILES + 1), key=lambda entry: entry.name)


def _check_size(entry: os.DirEntry[str], where: str, findings: Findings) -> int:
    """Return the size of a file that may be read; else 0."""
    status = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode):
        what = f"{_kind(status.st_mode)}, not a plain file"
        findings.serious("kind", where, what, "replace it with the file itself")
        return 0
    # It would change with whatever goes by its other name, after it was checked.
    if status.st_nlink > 1:
        what = "a hard link: the file also has another name"
        findings.serious("kind", where, what, "replace it with a copy")
    most = LARGEST_CARD if entry.name in (CARD, REVIEW) else LARGEST_FILE
    if status.st_size > most:
        what = f"{status.st_size:,} bytes; the limit is {most:,} bytes"
        findings.serious("size", where, what, "pack again without raw texts and calls (calls=no)")
    return status.st_size


def _kind(mode: int) -> str:
    for is_kind, name in _KINDS.items():
        if is_kind(mode):
            return name
    return "a file"


def check_files(folder: Path, card: Submission, findings: Findings) -> None:
    """Compare the bytes, rows and hash of every file with the card."""
    seen, tracks = _check_tracks(folder, "", card.tracks, findings), len(card.tracks)
    for memory in card.memory or ():
        inside = memory_folder(memory)
        for name, file in ((DIARY, memory.diary), (LEDGER, memory.calls)):
            seen += _check_file(folder / inside / name, f"{inside}/{name}", file, findings)
        for row, other in memory.beside.items():
            place = f"{inside}/{BESIDE}/{row}"
            seen += _check_tracks(folder / place, f"{place}/", other.tracks, findings)
            tracks += len(other.tracks)
        _check_unnamed(folder / inside / BESIDE, memory.beside, findings)
    known = {memory_folder(memory) for memory in card.memory or ()}
    _check_unnamed(folder, known, findings, prefix=MEMORY_FOLDER)
    findings.checked["hashes"] = (
        f"{counted(seen, 'file')} of {counted(tracks, 'task')}: sha256, bytes and rows"
    )


def _check_tracks(
    folder: Path, inside: str, tracks: Mapping[str, PublishedTrack], findings: Findings
) -> int:
    """Hold the files of tracks in a folder against their cards; return how many are there."""
    seen = 0
    for name, track in tracks.items():
        named = track.files.present()
        for stage in STAGES:
            file = f"{name}/{stage}.jsonl"
            seen += _check_file(folder / file, f"{inside}{file}", named.get(stage), findings)
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name in board_tracks() and path.name not in tracks and path.is_dir():
            what = "the card has no such task"
            findings.serious("stray", f"{inside}{path.name}", what, "remove it, or pack again")
    return seen


def _check_unnamed(
    folder: Path, named: Collection[str], findings: Findings, *, prefix: str = ""
) -> None:
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name.startswith(prefix) and path.name not in named:
            what = "it is not on the card"
            findings.serious("stray", shown(path.name), what, "remove it, or pack again")


def _check_file(path: Path, where: str, printed: File | None, findings: Findings) -> bool:
    """Hold a file against the card; return whether it is there, and the card names it."""
    there = os.path.lexists(path)
    if printed is None:
        if there:
            what = "it is not on the card"
            findings.serious("stray", where, what, "remove it, or pack again")
        return False
    if not there:
        what = "the card lists this file, but it is missing"
        findings.serious("missing_file", where, what, "pack again")
        return False
    _check_hash(path, where, printed, findings)
    return True


def file_card(path: Path) -> File:
    """Return the card of a file.

    Raises:
        ValueError: If it is not a plain file within its size.
    """
    digest, size, lines = hashlib.sha256(), 0, 0
    with open_plain(path, LARGEST_FILE) as file:
        while chunk := file.read(MEBIBYTE):
            digest.update(chunk)
            size += len(chunk)
            lines += chunk.count(b"\n")
    return File(sha256=digest.hexdigest(), bytes=size, rows=lines)


def _check_hash(path: Path, where: str, printed: File, findings: Findings) -> None:
    try:
        actual = file_card(path)
    except ValueError as error:
        findings.serious("file", where, str(error), PACK_AGAIN)
        return
    for name in ("bytes", "rows", "sha256"):
        before, now = getattr(printed, name), getattr(actual, name)
        if before != now:
            what = f"the card has {_short(before)}, but the file has {_short(now)}: one of them "
            what += "has changed since packing"
            findings.serious("hash", f"{where}: {name}", what, PACK_AGAIN)


def _short(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{str(value)[:12]}…"


class _ChangedFiles(NamedTuple):
    """A change: the submission's own folder and all changed files, as paths; is it in the base."""

    own: str
    paths: list[str]
    in_base: bool

    def inside(self) -> list[str]:
        """Return the changed files in the submission's own folder."""
        return [path for path in self.paths if path.startswith(f"{self.own}/")]


def check_changes(
    folder: Path,
    findings: Findings,
    *,
    base: str | None,
    changed: Iterable[str] | None,
    reviewed: bool,
    continues: str | None = None,
) -> bool:
    """Check that nothing outside `folder` changed; return whether anything in it may have.

    A submission that is in the base already is somebody's: nothing in a checkout tells who sends
    the change, so that a maintainer has to, by `continues`. Without `base` (a git reference, or
    another copy of the folder of submissions) and `changed` (paths in the repository) there is no
    change; a review may change where it is `reviewed`.
    """
    if base is None and changed is None:
        hint = "changes outside the folder; to check them, set base=REF, base=DIR or changed=FILE"
        findings.unchecked.append(hint)
        return False
    change = _change(folder.resolve(), base, changed, findings)
    if change is None:
        return True
    slug, review = folder.resolve().name, f"{change.own}/{REVIEW}"
    inside = change.inside()
    _check_outside(change, findings)
    if change.in_base and continues != slug:
        _check_modified(slug, inside, review if reviewed else "", findings)
    _check_taken_away(folder, review in inside and not reviewed, findings)
    against = f"compared with {shown(base)}" if base else "as listed in changed="
    findings.checked["changes"] = f"{counted(len(change.paths), 'changed file')}, {against}"
    return bool(inside)


def _check_taken_away(folder: Path, changed: bool, findings: Findings) -> None:
    # A submission that a maintainer refuted would be self-reported again without its review.
    if changed and not os.path.lexists(folder / REVIEW):
        findings.serious("changes", REVIEW, "only maintainers may remove a review", "restore it")


def _check_outside(change: _ChangedFiles, findings: Findings) -> None:
    own = set(change.inside())
    if outside := [path for path in change.paths if path not in own]:
        names = some_of(map(shown, outside))
        files = counted(len(outside), "file")
        what = f"{files} outside the submission's folder changed: {names}"
        mend = "change nothing outside your submission's folder"
        findings.serious("changes", "the change", what, mend)


def _check_modified(slug: str, paths: Sequence[str], allowed: str, findings: Findings) -> None:
    """Refuse a change of a submission by somebody else; the path `allowed` may change."""
    touched = [shown(path) for path in paths if path != allowed]
    if touched:
        what = f"modifies {some_of(touched)} of a submission that is already in the base"
        mend = "only its submitter may change a submission; a maintainer confirms the submitter "
        mend += f"with continues={shown(slug)}"
        findings.serious("changes", "the change", what, mend)


def _change(
    folder: Path, base: str | None, changed: Iterable[str] | None, findings: Findings
) -> _ChangedFiles | None:
    """Return what changed; None, with the reason among the findings, where it can't be seen."""
    slug = folder.name
    if changed is not None or base is None:
        what = "whether the submission is new; to check this, set base=REF or base=DIR"
        findings.unchecked.append(what)
        return _ChangedFiles((SUBMISSIONS / slug).as_posix(), list(changed or ()), False)
    if Path(base).is_dir():
        paths = _between(Path(base), folder.parent)
        return _ChangedFiles(slug, paths, os.path.lexists(Path(base) / slug))
    try:
        root = Path(_git(folder.parent, "rev-parse", "--show-toplevel").rstrip("\n")).resolve()
    except (OSError, ValueError, subprocess.SubprocessError):
        hint = "this is not a git checkout; give base=DIR or changed=FILE"
        findings.unchecked.append(f"changes outside the folder: {hint}")
        return None
    try:
        own = folder.relative_to(root).as_posix()
        paths = _changed_since(root, base)
        in_base = bool(_git(root, "ls-tree", "-z", "--name-only", base, "--", own))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        what = f"alps cannot list the changes: {shown(str(error), 160)}"
        findings.serious("changes", "the change", what, "fetch the base, with its history")
        return None
    return _ChangedFiles(own, paths, in_base)


def _changed_since(root: Path, base: str) -> list[str]:
    if not _REFERENCE.match(base) or ".." in base:
        raise ValueError(f"base={shown(base)} is not a git reference")
    return list(filter(None, _git(root, *_DIFF, f"{base}...HEAD", "--").split("\0")))


def _git(folder: Path, *words: str) -> str:
    # Variables as GIT_DIR or GIT_EXTERNAL_DIFF would make it look elsewhere, or start a program.
    environment = only(os.environ, ("PATH", "HOME", "SYSTEMROOT"))
    done = subprocess.run(
        [*_GIT, *words],
        cwd=folder,
        env={**environment, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip()[-120:] or "no error message"
        raise ValueError(f"git failed: {reason}")
    return done.stdout.decode(errors="replace")


def _between(base: Path, here: Path) -> list[str]:
    """Return what differs between two copies of the folder that submissions are in."""
    then, now = dict(_hashes(base)), dict(_hashes(here))
    return [path for path in sorted(then.keys() | now.keys()) if then.get(path) != now.get(path)]


def _hashes(folder: Path) -> Iterator[tuple[str, str]]:
    for parent, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in [*names, *links]:
            path = Path(parent) / name
            try:
                state = file_card(path).sha256
            except ValueError as error:
                state = str(error)
            yield path.relative_to(folder).as_posix(), state
