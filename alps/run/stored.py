"""Rows of a finished journal, read one by one, and what they say became of a record.

Only the offsets of rows are in memory.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from alps.jsonl import Row, parse_json, scan
from alps.run.opened import AnswerKey, key_of

Stored = Mapping[str, Any]


class StoredRows(Mapping[AnswerKey, Row]):
    """The last readable row of each answer in a journal, in the order of their first rows.

    Each is read anew whenever it is asked for: a row of 100,000 takes a few hundred bytes here, and
    ten times as many as a dictionary of dictionaries.

    Args:
        file: The journal; None where there is none.
        offsets: Where each row begins.
    """

    def __init__(self, file: BinaryIO | None, offsets: Mapping[AnswerKey, int]) -> None:
        self._file, self._offsets = file, offsets

    def __getitem__(self, key: AnswerKey) -> Row:
        offset = self._offsets[key]
        assert self._file is not None
        self._file.seek(offset)
        row: Row = parse_json(self._file.readline())
        return row

    def __iter__(self) -> Iterator[AnswerKey]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def on(self, track: str) -> "StoredRows":
        """Return the rows of one track."""
        own = {key: offset for key, offset in self._offsets.items() if key.track == track}
        return StoredRows(self._file, own)


@contextmanager
def stored_rows(path: Path, *, track: str = "") -> Iterator[StoredRows]:
    """Open a journal for as long as its rows are read; `track` is that of rows without one."""
    if not path.exists():
        yield StoredRows(None, {})
        return
    offsets: dict[AnswerKey, int] = {}
    for offset, _, row in scan(path):
        key = None if row is None else key_of(row, track)
        if key is not None:
            offsets[key] = offset
    with path.open("rb") as file:
        yield StoredRows(file, offsets)


def state_of(score: Stored | None, prediction: Stored | None) -> str:
    """Return what became of a record in one word.

    `ok`, `repaired`, a kind of failed prediction, `judge:KIND` for a failed judgement, `unrated`
    for an answer that its judge could not rate by its rubric, or `unfinished`.
    """
    if score is None:
        return "unfinished"
    if score.get("stage") == "judge":
        return f"judge:{score['outcome']}"
    if score.get("stage") == "generate":
        return str(score["outcome"])
    # A judge that rates nothing leaves the name of the rubric and no score.
    if score.get("rubric") and not score.get("scores"):
        return "unrated"
    return "repaired" if prediction is not None and prediction.get("repaired") else "ok"
