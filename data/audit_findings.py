"""What an audit finds, and the tally it is counted in."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["serious", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note")
MOST_EXAMPLES = 5
LONGEST_EXAMPLE = 160


@dataclass(frozen=True)
class Example:
    """One place where something was found."""

    benchmark_id: str
    what: str


@dataclass(frozen=True)
class Finding:
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
    examples: tuple[Example, ...]


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
    findings: tuple[Finding, ...]
    unchecked: tuple[str, ...]

    @property
    def serious(self) -> bool:
        """Tell whether anything serious was found."""
        return any(finding.severity == "serious" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain lists and dicts, with the number of findings by severity."""
        found = Counter(finding.severity for finding in self.findings)
        return {
            "data": self.data,
            "split": self.split,
            "serious": self.serious,
            "found": {severity: found[severity] for severity in SEVERITIES},
            "tracks": [asdict(track) for track in self.tracks],
            "findings": [
                {**asdict(f), "examples": [asdict(e) for e in f.examples]} for f in self.findings
            ],
            "unchecked": list(self.unchecked),
        }


class Tally:
    """Counts the findings of one track, and keeps the first few examples of each."""

    def __init__(self, track: str) -> None:
        self.track = track
        self._looked: Counter[str] = Counter()
        self._counts: Counter[tuple[str, Severity, str, str]] = Counter()
        self._examples: dict[tuple[str, Severity, str, str], list[Example]] = {}

    def look(self, unit: str, count: int = 1) -> None:
        """Count things looked at."""
        self._looked[unit] += count

    def looked(self, unit: str) -> int:
        """Return how many of a thing were looked at."""
        return self._looked[unit]

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
        """Count one find in the record `name`.

        Finds of one code, severity and detail are one finding.
        """
        key = code, severity, unit, detail
        self._counts[key] += 1
        kept = self._examples.setdefault(key, [])
        if len(kept) < MOST_EXAMPLES:
            kept.append(Example(name, shorten(what)))

    def findings(self) -> list[Finding]:
        """Return what was counted."""
        return [
            Finding(
                code,
                severity,
                self.track,
                count,
                self._looked[unit],
                unit,
                detail,
                tuple(self._examples[key]),
            )
            for key, count in self._counts.items()
            for code, severity, unit, detail in (key,)
        ]


def shorten(text: str, longest: int = LONGEST_EXAMPLE) -> str:
    """Return `text` on one line of at most `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1].rstrip()}…"
