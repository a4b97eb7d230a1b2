"""The ledger: what was asked and what it cost, one row per HTTP attempt."""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from alps.jsonl import Appender, scan
from alps.llm.types import JUDGE_CHECK, Reply, TransportError

# What a finished session leaves beside its ledger; its `calls.cached` is there alone
_RESULTS = ("summary.json", "calibration.json", "audit.json")


@dataclass(frozen=True)
class Call:
    """One HTTP attempt.

    `structured` is how a typed answer was asked for, `strict` whether it was valid as it came.
    `cost` is in US dollars, None where the model's price, or what was used, is unknown.
    `assumed_tokens` and `assumed_cost` stand for an attempt that may have been billed and did not
    say for what; they count against a budget and nowhere else. From `finish_reason` on it is what
    the reply told of itself, see `Reply`.
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
    finish_reason: str | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    served_model: str | None = None
    fingerprint: str | None = None
    request_id: str | None = None
    service: str | None = None


# What a reply tells of itself is called the same in the row of its call
_TOLD = tuple(part.name for part in fields(Reply) if part.name in Call.__dataclass_fields__)


def told_by(reply: Reply) -> dict[str, Any]:
    """Return the fields of a `Call` that its reply tells."""
    return {name: getattr(reply, name) for name in _TOLD}


Served = tuple[str, str]
"""A model that answered and its build, as the provider named them; empty where it did not."""


@dataclass
class Totals:
    """Sums over the calls of a run; `unpriced` counts answered calls whose cost is unknown.

    `without_price` names the models of those that said their tokens. `served` holds by purpose what
    answered, replies of the cache included. `under_way` counts requests that wait for an answer;
    `rate` tells how fast a slow server writes; `stage` what is asked before the first record.
    """

    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    assumed_tokens: int = 0
    assumed_cost: float = 0.0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    without_price: set[str] = field(default_factory=set)
    served: dict[str, set[Served]] = field(default_factory=dict)
    under_way: int = field(default=0, compare=False)
    rate: str = field(default="", compare=False)
    stage: str = field(default="", compare=False)
    _waits_since: float | None = field(default=None, compare=False)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a request as under way until it was answered, or brought no answer."""
        if self._waits_since is None:
            self._waits_since = time.monotonic()
        self.under_way += 1
        answered = True
        try:
            yield
        except TransportError as error:
            answered = error.status is not None and not error.transient
            raise
        finally:
            self.under_way -= 1
            if answered:
                self._waits_since = time.monotonic() if self.under_way else None

    def silent_for(self) -> float | None:
        """Return for how many seconds no answer has come; None where none is waited for."""
        return None if self._waits_since is None else time.monotonic() - self._waits_since

    @property
    def counted(self) -> tuple[int, float]:
        """The tokens and US dollars that count against a budget, assumed ones among them."""
        tokens = self.prompt_tokens + self.completion_tokens + self.assumed_tokens
        return tokens, self.cost + self.assumed_cost

    def add(self, call: Call) -> None:
        """Count `call`."""
        self.calls += 1
        self.prompt_tokens += call.prompt_tokens or 0
        self.completion_tokens += call.completion_tokens or 0
        self.cost += call.cost or 0.0
        self.assumed_tokens += call.assumed_tokens
        self.assumed_cost += call.assumed_cost
        self.cached_tokens += call.cached_tokens or 0
        self.reasoning_tokens += call.reasoning_tokens or 0
        if call.outcome != "transport":
            self.unpriced += call.cost is None
            counted = None not in (call.prompt_tokens, call.completion_tokens)
            self.without_price |= {call.model} if counted and call.cost is None else set()
            self.note_served(call.purpose, call.served_model, call.fingerprint)

    def add_all(self, calls: Iterable[Call]) -> None:
        """Count all of `calls`."""
        for call in calls:
            self.add(call)

    def note_cached(self, purpose: str) -> None:
        """Count a reply from the cache, but for the check of a judge, which is about no record."""
        self.cached += purpose != JUDGE_CHECK

    def note_served(self, purpose: str, model: str | None, fingerprint: str | None) -> None:
        """Keep what a reply, paid for or from the cache, was answered by."""
        if model or fingerprint:
            purpose = "judge" if purpose == JUDGE_CHECK else purpose
            self.served.setdefault(purpose, set()).add((model or "", fingerprint or ""))


class Ledger:
    """Appends calls to `calls.jsonl` and keeps their totals, earlier sessions of the run included.

    An answer from the cache is no HTTP attempt and has no row: of those, sessions that ended before
    their result was written are not counted.
    """

    def __init__(self, path: Path) -> None:
        self._file = Appender(path)
        self.totals = _totals_before(path.parent)
        self.totals.add_all(calls_in(path))

    def record(self, call: Call) -> None:
        """Write `call`; only the crash of the machine can lose it until it is `flushed`."""
        self._file.write(call.__dict__)
        self.totals.add(call)

    async def flushed(self) -> None:
        """Wait until every call is on disk; those that end together are flushed together."""
        await self._file.flushed()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def counted_in(folders: Iterable[Path]) -> tuple[int, float]:
    """Return the tokens and US dollars of run folders that count against a common budget."""
    totals = Totals()
    for folder in folders:
        totals.add_all(calls_in(folder / "calls.jsonl"))
    return totals.counted


def calls_in(path: Path) -> Iterator[Call]:
    """Yield the calls of a ledger; a row of another version as far as it is understood."""
    for _, _, row in scan(path):
        parts = (row or {}).items()
        known = {name: value for name, value in parts if name in Call.__dataclass_fields__}
        with suppress(TypeError):
            yield Call(**known)


def _totals_before(folder: Path) -> Totals:
    """Return what no row says of earlier sessions: answers from the cache, and who gave them."""
    totals = Totals()
    for name in _RESULTS:
        with suppress(OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
            result = json.loads((folder / name).read_bytes())
            counted = result["calls"]["cached"]
            if type(counted) is int and counted > 0:
                totals.cached = counted
            for purpose, rows in result["served"].items():
                for row in rows:
                    names = str(row["model"] or ""), str(row["fingerprint"] or "")
                    totals.note_served(purpose, *names)
            break
    return totals
