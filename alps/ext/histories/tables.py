"""Tables of a run on a set: files read, basis of intervals, cost of answers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from alps.ext.histories.economy_shown import (
    EXPLANATION,
    charts,
    compared,
    economy_in,
    fact,
    table_of,
)
from alps.ext.histories.part import NAME
from alps.rows import Summary
from alps.show.formatting import counted
from alps.show.parts import More, ShownPart
from alps.show.table import Table
from alps.tasks import Metric
from alps.tasks.registry import track_title

if TYPE_CHECKING:
    from alps.run.opened import RunFolder
    from alps.show.charts import Chart
    from alps.show.parts import ChartedTrack

FEW = 15
"""Histories of which there are so few that an interval between them is rough."""


class Shown(ShownPart):
    """Tables, charts and notes of runs on sets."""

    def facts(self, summary: Summary) -> Iterator[str]:
        """Yield what a right answer took."""
        for track in summary.parts.get(NAME, {}):
            if (took := economy_in(summary, track)) is not None:
                yield fact(took)

    def tables(self, summary: Summary, track: str, metrics: Sequence[Metric]) -> Iterator[Table]:
        """Yield what right answers took."""
        if (took := economy_in(summary, track)) is not None:
            yield table_of(took)

    def charts(self, sections: "Sequence[ChartedTrack]") -> "Iterable[Chart]":
        """Draw what a turn costs over turns."""
        return charts(sections)

    def more(
        self,
        runs: "Mapping[str, RunFolder]",
        track: str,
        metric: Metric,
        sessions: Mapping[str, str],
    ) -> More | None:
        """Return what right answers of several runs took."""
        row, parts = compared(runs, track)
        return More(row, parts, EXPLANATION) if parts else None

    def notes(self, summary: Summary) -> Iterable[str]:
        """Say what the files are, what is known to be wrong in them, and what intervals tell."""
        for track, held in summary.parts.get(NAME, {}).items():
            task = track_title(track)
            yield _files(task, held)
            yield from _wrong(task, held)
            if held["histories"] < FEW < held["questions"]:
                number = counted(held["histories"], "history", "histories")
                yield (
                    f"{task}: {number}: intervals resample histories and are rough; a difference "
                    "of a few points may be chance"
                )


def _files(task: str, held: Mapping[str, Any]) -> str:
    histories = counted(held["histories"], "history", "histories")
    digest = str(held.get("sha256"))[:12]
    said = f"{task}: {counted(held['questions'], 'question')} on {histories}, sha256 {digest}"
    if official := held.get("not_official"):
        said += f"; not the official set: {official} questions, or of other kinds"
    return said


def _wrong(task: str, held: Mapping[str, Any]) -> Iterable[str]:
    wrong = held["wrong_golds"]
    if wrong:
        total, of = sum(wrong.values()), held["answerable"]
        by_kind = []
        for kind, count in sorted(wrong.items()):
            by_kind.append(f"{kind} {100 - 100 * count / held['kinds'][kind]:.2f}")
        yield (
            f"{task}: {total} of {of:,} gold answers are known to be wrong, so a correct system "
            f"scores at most {100 - 100 * total / of:.2f} % on answerable questions (by kind: "
            f"{', '.join(by_kind)})"
        )
