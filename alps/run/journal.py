"""Journal: one row a record, on disk before the next stage begins, found again on resume."""

import os
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

from alps.jsonl import Appender, Row, dump, scan

# The outcome of a row that takes back those before it; only the file of a run that is not finished
# has such rows.
WITHDRAWN = "withdrawn"
# The offset of a record without a row.
_NOWHERE = -1


def journal_key(track: str, benchmark_id: str, repeat: int = 0) -> str:
    """Return the key of a row: track, `benchmark_id`, and which of several answers it is."""
    return f"{track}\x00{benchmark_id}\x00{repeat}"


def key_of(row: Row) -> str | None:
    """Return the key of a row of any journal of a run; None where it is about no record."""
    if not isinstance(row.get("benchmark_id"), str):
        return None
    return journal_key(str(row.get("track", "")), row["benchmark_id"], row.get("repeat", 0))


class Journal:
    """Rows of one stage, by their key: `journal_key`, unless another is given.

    The last row of a record counts.

    Opening it cuts off a torn last line and leaves out lines that can't be read: their records are
    done again.

    Args:
        key: Returns the key of a row; None where it is about no record.
        numbers: The numbers that keys have. Journals about the same records share one, and add to
            it: so each keeps no more than a few bytes a record.
    """

    def __init__(
        self,
        path: Path,
        key: Callable[[Row], str | None] = key_of,
        *,
        numbers: dict[str, int] | None = None,
    ) -> None:
        self.path = path
        self._key = key
        self._numbers = {} if numbers is None else numbers
        self._file = Appender(path)
        self._offsets, self._lengths = array("q"), array("I")
        for offset, length, row in scan(path):
            if row is not None and (name := key(row)) is not None:
                self._remember(name, row, offset, length)

    def write(self, row: Row) -> None:
        """Write `row`, which is on disk once the journal is settled: it can be made again.

        It replaces an earlier row of the same record.
        """
        name = self._key(row)
        if name is None:
            raise ValueError(f"a row without its keys: {sorted(row)}")
        before = self._file.size
        self._file.write(row)
        self._remember(name, row, before, self._file.size - before)

    async def append_together(self, row: Row) -> None:
        """Write `row` durably; rows that come at about the same time share a flush to disk."""
        self.write(row)
        await self._file.flushed()

    async def withdraw(self, about: Row) -> None:
        """Take back, durably, what the journal holds of the record that `about` names.

        `settle` leaves no trace of it.

        Args:
            about: A row with nothing but what it is about.
        """
        name = self._key(about)
        if name is not None and self._holds(name):
            await self.append_together({**about, "outcome": WITHDRAWN})

    def _remember(self, name: str, row: Row, offset: int, length: int) -> None:
        number = self._numbers.setdefault(name, len(self._numbers))
        while len(self._offsets) <= number:
            self._offsets.append(_NOWHERE)
            self._lengths.append(0)
        self._offsets[number] = _NOWHERE if row.get("outcome") == WITHDRAWN else offset
        self._lengths[number] = length

    def get(self, name: str) -> Row | None:
        """Return the row under the key `name`."""
        return self._read(self._numbers[name]) if self._holds(name) else None

    def keys(self) -> list[str]:
        """Return the keys of the records that have a row."""
        return [name for name in self._numbers if self._holds(name)]

    def settle(self, order: Iterable[str]) -> None:
        """Rewrite the file with exactly one row a record, in `order`, in one atomic step.

        The file of a finished run does not depend on which record was finished first.
        """
        wanted = array("q", (self._numbers[name] for name in order if self._holds(name)))
        if self._is_settled(wanted):
            self._file.flush()
            return
        temporary = self.path.with_name(self.path.name + ".tmp")
        offsets, lengths = array("q", [_NOWHERE]) * len(self._offsets), array("I", self._lengths)
        offset = 0
        with temporary.open("wb") as file:
            for number in wanted:
                line = dump(self._read(number))
                file.write(line)
                offsets[number], lengths[number] = offset, len(line)
                offset += len(line)
            file.flush()
            os.fsync(file.fileno())
        self._file.close()  # Windows replaces no file that is open
        try:
            temporary.replace(self.path)
            self._offsets, self._lengths = offsets, lengths
        finally:
            self._file = Appender(self.path)

    def _is_settled(self, wanted: Sequence[int]) -> bool:
        """Tell whether the file has exactly the lines that are wanted, in their order."""
        offset = 0
        with self.path.open("rb") as file:
            for number, line in zip_longest(wanted, file):
                if number is None or line is None or self._place(number) != (offset, len(line)):
                    return False
                offset += len(line)
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _holds(self, name: str) -> bool:
        number = self._numbers.get(name)
        return (
            number is not None and number < len(self._offsets) and self._offsets[number] != _NOWHERE
        )

    def _place(self, number: int) -> tuple[int, int]:
        return self._offsets[number], self._lengths[number]

    def _read(self, number: int) -> Row:
        return self._file.read(*self._place(number))
