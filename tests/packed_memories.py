"""Memory systems to submit: one asks an embedder, one swallows k; and their runs, packed."""

import json
import urllib.request
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from alps.errors import UsageError
from alps.ext.memory.built_in import Turns
from alps.ext.memory.comparison import run_beside
from alps.leaderboard.cards import SubmitterDetails
from alps.leaderboard.packing import pack
from alps.leaderboard.submission import REVIEW
from alps.tasks.personamem.personas import write_set
from tests.submissions import make_run

TRACK, DAY = "personamem", "2026-01-31"
QUESTIONS = 14


class Embedding(Turns):
    """Asks the embedder for each session, and ranks by words all the same."""

    def __init__(self) -> None:
        super().__init__("bm25")

    def open(self, opening: Any) -> None:
        super().open(opening)
        self._embedder = opening.embedder

    def ingest(self, user: str, session: Any) -> None:
        words = {"model": self._embedder.model, "input": [turn.text for turn in session.turns[:1]]}
        key = f"Bearer {self._embedder.api_key}"
        headers = {"Authorization": key, "Content-Type": "application/json"}
        address = f"{self._embedder.api_base}/embeddings"
        request = urllib.request.Request(address, json.dumps(words).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as reply:
            reply.read()
        super().ingest(user, session)


class SwallowsK(Turns):
    """Returns ten hits, however many it is asked for."""

    def __init__(self) -> None:
        super().__init__("bm25")

    def search(self, user: str, query: str, k: int, at: str) -> Any:
        return super().search(user, query, 10, at)


RUNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "embedding": (
        (f"memory=python:{__name__}:Embedding", "memory_embedder=hash"),
        ("none", "placebo"),
    ),
    "bm25": (("memory=bm25",), ("none", "placebo")),
    "tfidf": (("memory=tfidf",), ("none",)),
    "two": (("memory=bm25", "k=2"), ("none",)),
    "alone": (("memory=rules",), ()),
    "swallows": ((f"memory=python:{__name__}:SwallowsK",), ()),
}
"""The words of each run, and the rows beside it."""


def write_questions(folder: Path, count: int = QUESTIONS) -> Path:
    """Write `count` questions of two users, and their histories."""
    write_set(folder, personas=2, size="32k", seed=5)
    path = folder / "questions_32k.csv"
    head, *lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join([head, *lines[:: len(lines) // count][:count]]), "utf-8")
    return folder


def run_memory(folder: Path, data: Path, name: str) -> Path:
    """Carry out a run, and the rows beside it; return its folder."""
    words, beside = RUNS[name]
    refused = pytest.raises(UsageError, match="not admitted")
    with refused if name == "swallows" else nullcontext():
        make_run(folder, f"task={TRACK}", "model=rules", f"data={data}", "size=32k", *words)
    if beside:
        run_beside(folder, beside, {}, typed={})
    return folder


def pack_memory(run: Path, folder: Path, name: str) -> Path:
    """Pack a run as the submission `name`."""
    return pack([run], SubmitterDetails(name=name, submitted=DAY), out=folder / name).folder


def submit_memory(run: Path, folder: Path, name: str) -> Path:
    """Pack a run, with a maintainer's word that its scores were recomputed.

    Its records are no samples of the package.
    """
    packed = pack_memory(run, folder, name)
    review = {"status": "format-checked", "date": "2026-02-01", "tracks": {}, "note": None}
    (packed / REVIEW).write_text(json.dumps({**review, "recomputed": [TRACK]}))
    return packed
