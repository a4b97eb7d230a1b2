"""What was asked, and what it cost: one row per HTTP attempt."""

import json
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

from alps.jsonl import Appender, scan

_RESULTS = ("summary.json", "calibration.json")
"""What a finished session leaves beside its ledger; its `calls.cached` is there alone."""


@dataclass(frozen=True)
class Call:
    """One HTTP attempt; `structured` is how a typed answer was asked for, `strict` whether it was valid as it came.

    `cost` is in US dollars, None where the model's price is unknown. `assumed_tokens` and `assumed_cost` stand for an
    attempt that brought no answer but may have been billed; they count against a budget and nowhere else.
    """

    key: str
    purpose: str
    about: str
    model: str
    ask: int
    attempt: int
    outcome: str
    status: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    seconds: float = 0.0
    error: str | None = None
    assumed_tokens: int = 0
    assumed_cost: float = 0.0
    structured: str | None = None
    strict: bool | None = None


@dataclass
class Totals:
    """Sums over the calls of a run; `unpriced` counts answered calls whose cost is unknown."""

    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    assumed_tokens: int = 0
    assumed_cost: float = 0.0

    def add(self, call: Call) -> None:
        """Count `call`."""
        self.calls += 1
        self.prompt_tokens += call.prompt_tokens or 0
        self.completion_tokens += call.completion_tokens or 0
        self.cost += call.cost or 0.0
        self.assumed_tokens += call.assumed_tokens
        self.assumed_cost += call.assumed_cost
        self.unpriced += call.cost is None and call.completion_tokens is not None


class Ledger:
    """Appends calls to `calls.jsonl` and keeps their totals, earlier sessions of the run included.

    An answer from the cache is no HTTP attempt and has no row: of those, sessions that ended before their result was
    written are not counted.
    """

    def __init__(self, path: Path) -> None:
        self._file = Appender(path)
        self.totals = Totals(cached=_cached_before(path.parent))
        known = {field.name for field in fields(Call)}
        for _, _, row in scan(path):
            with suppress(TypeError):  # a row of another version counts as far as it is understood
                self.totals.add(Call(**{name: value for name, value in (row or {}).items() if name in known}))

    def record(self, call: Call) -> None:
        """Write `call`; only the crash of the machine can lose it until it is `flushed`."""
        self._file.write(call.__dict__)
        self.totals.add(call)

    async def flushed(self) -> None:
        """Wait until every call is on disk; calls that end at about the same time are flushed together."""
        await self._file.flushed()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _cached_before(folder: Path) -> int:
    """Return how many answers came from the cache in the sessions whose result stands in `folder`."""
    for name in _RESULTS:
        with suppress(OSError, ValueError, RecursionError, LookupError, TypeError):
            counted = json.loads((folder / name).read_bytes())["calls"]["cached"]
            if type(counted) is int and counted > 0:
                return counted
    return 0
