"""Lines of JSON, which the processes of a run send each other."""

import json
from collections.abc import Mapping
from typing import Any

ENTRY = ("-P", "-m", "alps.fleet.worker")
"""What Python is started with for a worker; -P: no file of the working folder is a library."""
LONGEST = 1 << 20
"""Bytes; no message holds more than an error."""


def as_line(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line."""
    return json.dumps(message).encode() + b"\n"
