"""Files that commands write, held as hashes: whoever moves code sees which file it changed.

Figures are rounded to nine digits, as libraries differ in the last ones. What a machine, a day or a
port decides is left out. `ALPS_GOLDENS=write` writes the hashes anew; the commit says why.
"""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.conftest import ROOT
from tests.stories import STORIES, carried_out

GOLDENS = ROOT / "tests" / "goldens.json"
WRITE = os.environ.get("ALPS_GOLDENS") == "write"
LEFT_OUT = {
    *("seconds", "at", "alps", "versions", "seconds_per_query"),
    *("created", "date", "expires", "key"),
    *("p50", "p95", "p99", "secret"),  # of what a memory system was asked
    *("diary", "checksum", "systems/memory.html"),  # hashes of files that hold seconds
    "audit_draw",  # a seed that nobody can foresee
    "known-today",  # the hash of a calibration with its day
}
"""Keys of what differs from day to day and from machine to machine."""
OTHERS = (
    (re.compile(r"http://127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\b20\d\d-\d\d-\d\d\b"), "DAY"),
    (re.compile(r"\bu[0-9a-f]{20}\b"), "USER"),
    (re.compile(r"\b\d+ plain files, [\d,]+ bytes"), "FILES"),
    (re.compile(r"<code><bdi>\d+\.\d+\.\d+</bdi></code>"), "VERSION"),
    (re.compile(r'<data value="[^"]*" data-from="([^"]*/(p50|p95|p99|seconds))">[^<]*<'), r"<\1<"),
)
"""Texts that differ so, wherever they are."""


def alike(text: str) -> str:
    """Return a text without what differs from day to day and from machine to machine."""
    for pattern, name in OTHERS:
        text = pattern.sub(name, text)
    return text


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items() if name not in LEFT_OUT}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return alike(value) if isinstance(value, str) else value


def hashed(path: Path) -> str:
    """Return the hash of a file; of a log of calls, whatever their order was."""
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    if path.suffix == ".json":
        text = json.dumps(plain(json.loads(text)))
    elif path.suffix == ".jsonl":
        lines = [json.dumps(plain(json.loads(line))) for line in text.splitlines()]
        text = "\n".join(sorted(lines) if path.name == "calls.jsonl" else lines)
    else:
        text = alike(text)
    return hashlib.sha256(text.encode("utf-8", errors="surrogateescape")).hexdigest()[:12]


def tree(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Return the hashes of all files in the folders of a story that are held, by their paths."""
    roots = [folder / name for name in names]
    paths = [path for root in roots for path in (root, *root.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): hashed(path) for path in sorted(paths)}


# Backwards: test_printed.py begins with the first, and whoever comes second waits.
@pytest.mark.parametrize("name", [name for name in reversed(STORIES) if STORIES[name].written])
def test_every_file_is_written_as_before(tmp_path_factory, name):
    files = tree(carried_out(name, tmp_path_factory), STORIES[name].written)
    if WRITE:
        with FileLock(tmp_path_factory.getbasetemp().parent / "goldens.lock"):
            goldens = json.loads(GOLDENS.read_text()) | {name: files}
            GOLDENS.write_text(json.dumps(goldens, indent=1, sort_keys=True) + "\n")
        pytest.skip(f"{len(files)} hashes of {name} were written")
    held = json.loads(GOLDENS.read_text()).get(name, {})
    moved = {path for path in files.keys() | held if files.get(path) != held.get(path)}
    assert moved == set()
