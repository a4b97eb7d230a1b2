"""Rows of a finished journal, read one by one; only their offsets are in memory."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from alps.jsonl import Row, parse_json, scan
from alps.run.opened import AnswerKey, key_of


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
