"""The checks of a submission, one concept a module; each adds what it finds to `Findings`.

And the result of all of them: a `Verification` says what they found, and what they could and could
not check.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

Severity = Literal["serious", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note")
PACK_AGAIN = "pack the runs again with alps leaderboard submit"
# How many of many alike one finding names, and how many findings of one kind are kept: a file of
# 5,000 bad lines must not give 5,000 lines; the others are counted.
MOST_EXAMPLES, MOST_OF_A_KIND = 5, 25


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or that a maintainer should look at.

    Attributes:
        severity: `serious` where the submission can't be taken, `warning` where a person must look,
            else `note`.
        code: What kind of thing it is.
        where: The file, the track or the field.
        what: What is wrong, in one line.
        mend: What the submitter can do about it; empty where there is nothing to do.
    """

    severity: Severity
    code: str
    where: str
    what: str
    mend: str = ""


@dataclass
class Findings:
    """Collects findings while the checks run; of many of one kind only the first are kept.

    `checked` says in words what was checked, by the name of the check; `unchecked` what could not
    be, and why.
    """

    kept: list[Finding] = field(default_factory=list)
    checked: dict[str, str] = field(default_factory=dict)
    unchecked: list[str] = field(default_factory=list)
    _counts: Counter[tuple[Severity, str]] = field(default_factory=Counter)

    def serious(self, code: str, where: str, what: str, mend: str = "") -> None:
        """Add what keeps a submission from being taken."""
        self._add(Finding("serious", code, where, what, mend))

    def warn(self, code: str, where: str, what: str, mend: str = "") -> None:
        """Add what a person must look at."""
        self._add(Finding("warning", code, where, what, mend))

    def note(self, code: str, where: str, what: str) -> None:
        """Add what is worth knowing."""
        self._add(Finding("note", code, where, what))

    def take(self, others: "Findings", inside: str = "") -> None:
        """Add all that others found; `inside` is where they looked, if that was a part."""
        prefix = f"{inside}: " if inside else ""
        for finding in others.kept:
            self._add(replace(finding, where=f"{prefix}{finding.where}"))
        self.unchecked += [f"{prefix}{what}" for what in others.unchecked]
        for kind, count in others._counts.items():
            # Those that were kept are counted again by `_add`.
            self._counts[kind] += max(0, count - MOST_OF_A_KIND)

    @property
    def refused(self) -> bool:
        """Whether anything serious was found."""
        return _is_serious(self.kept)

    @property
    def codes(self) -> set[str]:
        """What kinds of things were found."""
        return {finding.code for finding in self.kept}

    def ordered(self) -> tuple[Finding, ...]:
        """Return the findings, serious ones first, then a line for each kind only counted."""
        findings = list(self.kept)
        for (severity, code), count in self._counts.items():
            if count > MOST_OF_A_KIND:
                more = f"and {count - MOST_OF_A_KIND:,} more of this kind"
                findings.append(Finding(severity, code, "", more))
        return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))

    def _add(self, finding: Finding) -> None:
        kind = finding.severity, finding.code
        self._counts[kind] += 1
        if self._counts[kind] <= MOST_OF_A_KIND:
            self.kept.append(finding)


@dataclass(frozen=True)
class Verification:
    """The result of verifying a submission.

    Attributes:
        folder: The name of its folder.
        status: How far it is confirmed: one of `alps.leaderboard.submission.STATUSES`.
        consistent: Whether every printed score follows from predictions and verdicts.
        checked: What was checked, by the name of the check.
        unchecked: What could not be checked, and why.
        recomputed: The tracks whose every score was recomputed.
    """

    folder: str
    status: str
    consistent: bool
    findings: tuple[Finding, ...]
    checked: Sequence[tuple[str, str]]
    unchecked: tuple[str, ...]
    recomputed: tuple[str, ...] = ()

    @property
    def counts(self) -> Counter[Severity]:
        """How many findings there are of each severity."""
        return Counter(finding.severity for finding in self.findings)

    @property
    def serious(self) -> bool:
        """Whether anything serious was found."""
        return _is_serious(self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain lists and dicts."""
        counts = self.counts
        return {
            "folder": self.folder,
            "status": self.status,
            "serious": self.serious,
            "consistent": self.consistent,
            "recomputed": list(self.recomputed),
            "found": {severity: counts[severity] for severity in SEVERITIES},
            "checked": [{"check": check, "what": what} for check, what in self.checked],
            "unchecked": list(self.unchecked),
            "findings": [asdict(finding) for finding in self.findings],
        }


def _is_serious(findings: Iterable[Finding]) -> bool:
    return any(finding.severity == "serious" for finding in findings)


def some_of(names: Iterable[str]) -> str:
    """Name the first few of many, and count the others."""
    listed = list(names)
    more = f" and {len(listed) - MOST_EXAMPLES:,} more" if len(listed) > MOST_EXAMPLES else ""
    return f"{', '.join(listed[:MOST_EXAMPLES])}{more}"
