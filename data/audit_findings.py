"""Findings of an audit, the tally they are counted in, and the tests for cues in pools."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["serious", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note")
MOST_EXAMPLES = 5
LONGEST_EXAMPLE = 160


@dataclass(frozen=True)
class FoundPlace:
    """One place where something was found."""

    benchmark_id: str
    what: str


@dataclass(frozen=True)
class DataFinding:
    """One thing that is wrong, or worth knowing, in one track.

    Attributes:
        code: What kind of thing it is.
        severity: `serious` where scores can't be trusted, `warning` where some records are
            doubtful, else `note`.
        track: The track it was found in.
        count: How often.
        of: Out of how many that were looked at.
        unit: What is counted (rows, pools, gold items, ...).
        detail: One sentence that holds for all of them; a statistical finding gives its chance
            level and p here.
        examples: The first few, at most `MOST_EXAMPLES`.
    """

    code: str
    severity: Severity
    track: str
    count: int
    of: int
    unit: str
    detail: str
    examples: tuple[FoundPlace, ...]


@dataclass(frozen=True)
class TrackLooked:
    """A track that was looked at: how many input rows it has, and how many of them have gold."""

    track: str
    rows: int
    with_gold: int


@dataclass(frozen=True)
class AuditReport:
    """All findings of one split, the serious ones first, and what could not be looked at."""

    data: str
    split: str
    tracks: tuple[TrackLooked, ...]
    findings: tuple[DataFinding, ...]
    unchecked: tuple[str, ...]

    @property
    def serious(self) -> bool:
        """Tell whether anything serious was found."""
        return any(finding.severity == "serious" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values, with the number of findings by severity."""
        counts = dict.fromkeys(SEVERITIES, 0) | Counter(one.severity for one in self.findings)
        found = {"serious": self.serious, "found": counts}
        return {"data": self.data, "split": self.split, **found, **asdict(self)}


class Tally:
    """Counts the findings of one track, and keeps the first few examples of each."""

    def __init__(self, track: str) -> None:
        self.track = track
        self._looked: Counter[str] = Counter()
        self._counts: Counter[tuple[str, Severity, str, str]] = Counter()
        self._examples: dict[tuple[str, Severity, str, str], list[FoundPlace]] = {}

    def look(self, unit: str, count: int = 1) -> None:
        """Count things looked at."""
        self._looked[unit] += count

    def find(
        self,
        code: str,
        severity: Severity,
        detail: str,
        name: str,
        what: str,
        *,
        unit: str = "rows",
    ) -> None:
        """Count one find in the record `name`; those of one code, severity and detail are one."""
        key = code, severity, unit, detail
        self._counts[key] += 1
        kept = self._examples.setdefault(key, [])
        if len(kept) < MOST_EXAMPLES:
            kept.append(FoundPlace(name, shorten(what)))

    def findings(self) -> list[DataFinding]:
        """Return what was counted."""
        findings = []
        for key, count in self._counts.items():
            code, severity, unit, detail = key
            of, examples = self._looked[unit], self._examples[key]
            findings.append(self.finding(code, severity, (count, of), unit, detail, *examples))
        return findings

    def finding(
        self,
        code: str,
        severity: Severity,
        share: tuple[int, int],
        unit: str,
        detail: str,
        *examples: FoundPlace,
    ) -> DataFinding:
        """Return a finding of this track; `share` is how often it is, out of how many."""
        count, of = share
        first = examples[:MOST_EXAMPLES]
        return DataFinding(code, severity, self.track, count, of, unit, detail, first)


def shorten(text: str) -> str:
    """Return `text` on one line of at most `LONGEST_EXAMPLE` characters."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_EXAMPLE else f"{line[: LONGEST_EXAMPLE - 1].rstrip()}…"


ALPHA = 0.001
# Characters from which a gold value that stands within a longer text gives itself away.
SHORTEST_INSIDE = 12
# A rule must find the gold in this share of the pools beyond chance.
LEAST_GAIN = 0.05


def chance_of(sizes: Sequence[float]) -> float:
    """Return the share of pools of these sizes whose gold a blind guess finds."""
    return math.fsum(1 / size for size in sizes) / len(sizes)


def above_chance(hits: int, sizes: Sequence[float], *, tried: int) -> float | None:
    """Return p where a rule that hit in `hits` pools is above chance, else None.

    Exact one-sided binomial test against the mean of 1/size over all pools (Hoeffding 1956: with
    unequal sizes its tail is never too small above the mean), times `tried`, the number of rules; p
    < `ALPHA` and a gain of `LEAST_GAIN`.
    """
    n = len(sizes)
    if not n:
        return None
    chance = chance_of(sizes)
    # Of thousands of pools any small gain is significant; what helps nobody is no leak.
    if hits / n - chance < LEAST_GAIN:
        return None
    from scipy.stats import binom

    p = min(1.0, tried * float(binom.sf(hits - 1, n, chance)))
    return p if p < ALPHA else None
