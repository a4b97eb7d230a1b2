"""Lines of JSON, which the processes of a run send each other."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

ENTRY = ("-P", "-m", "alps.ext.fleet.worker")
"""What Python is started with for a worker; -P: no file of the working folder is a library."""
LONGEST = 1 << 20
"""Bytes; no message holds more than an error."""


def as_line(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line."""
    return json.dumps(message).encode() + b"\n"


class Lines:
    """Lines of a stream whose own buffer is small: only what one line needs is kept."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader, self._rest = reader, bytearray()

    async def next(self, longest: int = LONGEST) -> bytes:
        """Return the next line with its end; empty at the end of the stream.

        Raises:
            ValueError: If it has more than `longest` bytes.
        """
        looked_at = 0
        while (end := self._rest.find(b"\n", looked_at)) < 0 and len(self._rest) <= longest:
            looked_at = len(self._rest)
            more = await self._reader.read(longest + 1 - looked_at)
            if not more:
                return b""
            self._rest += more
        if not 0 <= end < longest:
            raise ValueError(f"a line of more than {longest} bytes")
        line = bytes(self._rest[: end + 1])
        del self._rest[: end + 1]
        return line
