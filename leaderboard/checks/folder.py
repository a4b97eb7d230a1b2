"""The folder of a submission: the files that belong there and nothing else, each a plain file
within its size.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from alps.leaderboard.findings import Findings
from alps.leaderboard.reading import LARGEST_CARD, LARGEST_FILE
from alps.leaderboard.submission import CARD, REVIEW, STAGES, TRACK_NAME
from alps.leaderboard.wording import shown

MOST_FILES = 100
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}\Z")
_TRACK = re.compile(rf"{TRACK_NAME}\Z")
_KINDS = {
    stat.S_ISLNK: "a symbolic link",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}
_ONLY = f"only {CARD} and TRACK/{{{','.join(STAGES)}}}.jsonl belong there: remove it"


def check_folder(folder: Path, findings: Findings) -> None:
    """Look at the names, kinds and sizes of everything in `folder`, without opening anything."""
    try:
        found = folder.lstat()
    except OSError as error:
        findings.serious(
            "folder",
            shown(folder.name),
            error.strerror or "can't be read",
            "name a submission's folder",
        )
        return
    if not stat.S_ISDIR(found.st_mode):
        what = f"{_kind(found.st_mode)}, not a folder"
        findings.serious(
            "folder", shown(folder.name), what, "a submission is a plain folder: unpack it first"
        )
        return
    files = size = 0
    for path, where in _walk(folder, findings):
        files += 1
        if files > MOST_FILES:
            findings.serious("too_many_files", "the folder", f"more than {MOST_FILES} files", _ONLY)
            break
        size += _check_file(path, where, findings)
    findings.checked["files"] = f"{files} plain files, {size:,} bytes"


def _walk(folder: Path, findings: Findings) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Yield what may be read; whatever else lies there is a finding, and not looked into."""
    for entry in _entries(folder):
        where = _named(entry.name)
        if not _NAME.match(entry.name):
            findings.serious(
                "name",
                where,
                "a name outside A–Z a–z 0–9 . _ -, or one that begins with a dot",
                _ONLY,
            )
        elif _TRACK.match(entry.name):
            yield from _walk_track(entry, findings)
        elif entry.name in (CARD, REVIEW):
            yield entry, where
        else:
            findings.serious("stray", where, "does not belong to a submission", _ONLY)


def _walk_track(
    track: os.DirEntry[str], findings: Findings
) -> Iterator[tuple[os.DirEntry[str], str]]:
    if not stat.S_ISDIR(mode := track.stat(follow_symlinks=False).st_mode):
        findings.serious(
            "kind", track.name, f"{_kind(mode)} where a folder should be", "make it a plain folder"
        )
        return
    for entry in _entries(Path(track.path)):
        where = f"{track.name}/{_named(entry.name)}"
        if not _NAME.match(entry.name):
            findings.serious(
                "name",
                where,
                "a name outside A–Z a–z 0–9 . _ -, or one that begins with a dot",
                _ONLY,
            )
        elif entry.name not in [f"{stage}.jsonl" for stage in STAGES]:
            findings.serious("stray", where, "does not belong to a submission", _ONLY)
        else:
            yield entry, where


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what lies in `folder`, in order; many more than may lie there are not even listed."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            found.append(entry)
            if len(found) > MOST_FILES:
                break
    return sorted(found, key=lambda entry: entry.name)


def _check_file(entry: os.DirEntry[str], where: str, findings: Findings) -> int:
    """Return the size of a file that may be read; else 0."""
    found = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        findings.serious(
            "kind", where, f"{_kind(found.st_mode)}, not a plain file", "put the file itself there"
        )
        return 0
    if found.st_nlink > 1:
        findings.serious(
            "kind", where, "a hard link: the file has another name, too", "put a copy there"
        )
    most = LARGEST_CARD if entry.name in (CARD, REVIEW) else LARGEST_FILE
    if found.st_size > most:
        findings.serious(
            "size",
            where,
            f"{found.st_size:,} bytes; at most {most:,}",
            "leave out raw texts and calls",
        )
    return found.st_size


def _named(name: str) -> str:
    """Return a file's name so that what only looks like another letter shows."""
    return shown(name.encode("ascii", "backslashreplace").decode())


def _kind(mode: int) -> str:
    named = next((name for test, name in _KINDS.items() if test(mode)), None)
    return named or ("a folder" if stat.S_ISDIR(mode) else "a file")
