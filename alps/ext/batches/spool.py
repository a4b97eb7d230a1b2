"""Request files of batches: each request is written at once and kept only there."""

from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from alps.ext.batches.interface import BatchForm, BatchLine

_PIECE = 1 << 20


class Spool:
    """The requests of one batch, in a file without a name, which is gone with its process.

    Args:
        folder: Where the file lies.
        form: How the interface has it.

    Attributes:
        url: Where each of the requests would have been sent.
        keys: The ids of the requests.
        betas: What of an interface's betas the requests ask for, each as its header has it.
        size: Bytes that are written.
    """

    def __init__(self, folder: Path, form: BatchForm) -> None:
        self._form = form
        # open until the batch is submitted
        self._file: IO[bytes] = TemporaryFile(dir=folder)  # noqa: SIM115
        self.url, self.size = "", 0
        self.keys: list[str] = []
        self.betas: set[str] = set()
        self._write(form.opening)

    def takes(self, row: bytes) -> bool:
        """Tell whether one more request fits into the batch; into an empty one any does."""
        size = self.size + len(self._form.between) + len(row) + len(self._form.closing)
        fits = len(self.keys) < self._form.most and size <= self._form.largest
        return fits or not self.keys

    def add(self, line: BatchLine, row: bytes) -> None:
        """Write a request."""
        self._write(self._form.between if self.keys else b"")
        self._write(row)
        self.url = line.draft.url
        self.keys.append(line.key)
        self.betas.add(line.draft.headers.get("anthropic-beta", ""))

    def finish(self) -> None:
        """Write the end: no request comes after it."""
        self._write(self._form.closing)

    def opened(self) -> IO[bytes]:
        """Return the file at its beginning; the reader leaves it open."""
        self._file.seek(0)
        return self._file

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield what the file holds."""
        file = self.opened()
        while piece := file.read(_PIECE):
            yield piece

    def close(self) -> None:
        """Forget the requests."""
        self._file.close()

    def _write(self, part: bytes) -> None:
        self.size += self._file.write(part)
