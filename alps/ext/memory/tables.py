"""Account of a run's memory system: its admission, how long its phases took, and what they used.

There is no difference from no memory where too many answers of either run failed: a failed answer
scores the minimum, so failures of the run without memory would be gains of the memory system.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from alps.ext.memory.admission import DECLARED, declared_in
from alps.rows import MemoryUsage, Phase, Summary
from alps.run.engine import NO_GOLD
from alps.run.opened import RunFolder
from alps.show.formatting import counted, duration
from alps.show.parts import Pair, ShownPart
from alps.show.table import Cell, Table, figures, named, row_of, thousands
from alps.tasks.by_memory import FULL, NOTHING

# As many as a submission may leave unscored.
MOST_FAILED = 0.05
"""The largest share of failed answers with which a run has a difference from no memory."""


class MemoryShownPart(ShownPart):
    """What is shown of memory systems."""

    def facts(self, summary: Summary) -> Iterator[str]:
        """Yield how many checks were passed, and how long a search takes."""
        if summary.admission:
            made = [check for check in summary.admission if not check.name.endswith(DECLARED)]
            passed = sum(check.passed for check in made)
            yield f"memory admitted ({passed} of {len(made)})"
        if search := summary.phases.get("search"):
            yield f"search {duration(search.p50)} (median)"

    def tables_of_run(self, summary: Summary) -> Iterator[Table]:
        """Yield the times of the phases."""
        if summary.phases:
            answered = {} if summary.answers is None else {"answer": summary.answers}
            yield _phases({**summary.phases, **answered})

    def notes(self, summary: Summary) -> Iterator[str]:
        """Say how many checks were passed, and how soon and how small it stores."""
        if summary.admission:
            took = sum(check.seconds for check in summary.admission)
            tests = [check.name for check in summary.admission]
            declared = [name for name in tests if name.endswith(DECLARED)]
            passed = counted(len(tests) - len(declared), "check")
            yield f"Admission of the memory system: {passed} passed in {took:.1f} s."
            if declared:
                not_for_it = ", ".join(declared_in(tests))
                yield f"The system declares these checks as not applicable: {not_for_it}."
        if settled := summary.phases.get("settle"):
            each = zip(("p50", "p95", "p99"), (settled.p50, settled.p95, settled.p99), strict=True)
            lag = ", ".join(f"{seconds:.4f} s ({name})" for name, seconds in each)
            yield f"Time from the end of ingestion until memories are searchable: {lag}."
        if summary.bytes_per_1000_turns is not None:
            size = f"{summary.bytes_per_1000_turns:,.0f} bytes"
            yield f"Storage per 1,000 ingested turns: {size}."

    def withheld(self, runs: Mapping[str, RunFolder], track: str) -> Mapping[Pair, str]:
        """Return the pairs that have no difference from no memory on a track, and why.

        Pairs are in the order of `runs`, which are by their letters.
        """
        memories = _memories(runs)
        if NOTHING not in memories.values():
            return {}
        shares = {name: _failed(run, track) for name, run in runs.items()}
        reasons = {}
        for pair in combinations(runs, 2):
            without = [name for name in pair if memories[name] == NOTHING]
            if len(without) == 1:
                own = pair[1] if without[0] == pair[0] else pair[0]
                reason = too_many_failed(shares[own], shares[without[0]])
                if reason is not None:
                    reasons[pair] = reason
        return reasons


def _failed(run: RunFolder, track: str) -> float:
    return failed_share(row for key, row in run.rows("scores").items() if key.track == track)


def _memories(runs: Mapping[str, RunFolder]) -> dict[str, str]:
    return {name: str(run.manifest.settings.get("memory", FULL)) for name, run in runs.items()}


def _phases(phases: Mapping[str, Phase]) -> Table:
    metered = any(phase.used for phase in phases.values())
    used = ("requests", "tokens", "cost") if metered else ()
    rows = []
    for name, phase in phases.items():
        each = (Cell(f"{took:.4f}", took) for took in (phase.p50, phase.p95, phase.p99))
        total = Cell(f"{phase.seconds:.1f}", phase.seconds)
        rows.append(row_of(name, thousands(phase.calls), *each, total, *_used(phase.used)))
    columns = [named(wraps="no"), *figures("calls", "p50", "p95", "p99", "total", *used)]
    title = "Memory system: latency per call (s)"
    return Table(title, columns, rows, layout="roomy")


def _used(used: MemoryUsage | None) -> tuple[Cell, Cell, Cell]:
    if used is None:
        return Cell("0", 0), Cell("0", 0), Cell("$0", 0)
    cost = "–" if used.cost is None else f"${used.cost:.4f}"
    both = used.prompt_tokens + used.completion_tokens
    return thousands(used.requests), thousands(both), Cell(cost, used.cost)


def failed_share(rows: Iterable[Mapping[str, Any]]) -> float:
    """Return the share of answers, by the rows of their scores, that failed or were not judged."""
    failed = total = 0
    for row in rows:
        if row.get("outcome") != NO_GOLD:
            total += 1
            failed += row.get("outcome") != "ok"
    return failed / total if total else 0.0


def too_many_failed(own: float, without: float) -> str | None:
    """Say why a run has no difference from the one without memory; None where it has one.

    `own` and `without` are the shares of their answers that failed.
    """
    if max(own, without) <= MOST_FAILED:
        return None
    shares = f"{own:.1%} of answers with memory and {without:.1%} without memory failed"
    return f"{shares} (limit: {MOST_FAILED:.0%})".replace("%", " %")
