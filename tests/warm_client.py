"""The client of warm processes: asks the parent for a command (`python -I -S FILE SOCKET WORDS`).

It imports little, as the commands of the documentation start it by the hundred.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing and pathlib would take longer than all the rest
    from collections.abc import Mapping, Sequence
    from pathlib import Path

NUMBER = struct.Struct("=i")
"""How a pid and an exit code are sent."""


def ask(
    address: str,
    words: Sequence[str],
    folder: Path | str,
    environment: Mapping[str, str],
    files: Sequence[int],
) -> socket.socket:
    """Ask the parent at `address` for a command on `files`; return the line on which pid and exit
    code come.

    The child is killed when the line is closed before its end.
    """
    asked = {"words": list(words), "folder": str(folder), "environment": dict(environment)}
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(address)
    socket.send_fds(line, [json.dumps(asked).encode()], list(files))
    return line


def read_number(line: socket.socket) -> int:
    """Read a pid or an exit code, minus the signal that ended the process."""
    found = line.recv(NUMBER.size)
    if len(found) != NUMBER.size:
        raise RuntimeError(
            "the warm parent is gone: its own words stand in the stderr of the tests"
        )
    return int(NUMBER.unpack(found)[0])


def run_by(address: str, *words: str) -> int:
    """Run a command as the installed `alps` does, in this folder and on these files; return what a
    shell would.
    """
    with ask(address, words, os.getcwd(), os.environ, (0, 1, 2)) as line:
        read_number(line)
        code = read_number(line)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(run_by(*sys.argv[1:]))
