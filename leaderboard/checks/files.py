"""The files of the tracks: those that the card names, with the bytes, the rows and the hash that it
gives.
"""

import hashlib
from pathlib import Path

from alps.leaderboard.findings import Findings
from alps.leaderboard.reading import LARGEST_FILE, MEBIBYTE, open_plain
from alps.leaderboard.submission import STAGES, File, Submission


def check_files(folder: Path, card: Submission, findings: Findings) -> None:
    """Hold every file against the card."""
    seen = 0
    for name, track in card.tracks.items():
        named = track.files.present()
        for stage in STAGES:
            where, path = f"{name}/{stage}.jsonl", folder / name / f"{stage}.jsonl"
            there = path.is_symlink() or path.exists()
            if stage in named and not there:
                findings.serious(
                    "missing_file", where, "the card names it, but it is not there", "pack again"
                )
            elif stage not in named and there:
                findings.serious(
                    "stray", where, "the card does not name it", "remove it, or pack again"
                )
            elif stage in named:
                seen += 1
                _check_file(path, where, named[stage], findings)
    for path in folder.iterdir():
        if path.name.startswith("task") and path.name not in card.tracks and path.is_dir():
            findings.serious(
                "stray", path.name, "the card has no such track", "remove it, or pack again"
            )
    findings.checked["hashes"] = (
        f"{seen} files of {len(card.tracks)} tracks: sha256, bytes and rows"
    )


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


def _check_file(path: Path, where: str, printed: File, findings: Findings) -> None:
    try:
        found = file_card(path)
    except ValueError as error:
        findings.serious("file", where, str(error), "pack the runs again with alps submit")
        return
    for name in ("bytes", "rows", "sha256"):
        said, is_ = getattr(printed, name), getattr(found, name)
        if said != is_:
            what = f"printed {_short(said)}, found {_short(is_)}: the file or the card was changed after packing"
            findings.serious(
                "hash", f"{where}: {name}", what, "pack the runs again with alps submit"
            )


def _short(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{str(value)[:12]}…"
