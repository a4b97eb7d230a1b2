"""Parts of extensions in what is shown: tables of a run, sections of a page, comparisons.

The tables of the spine call each method of those extensions that a summary has something of.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alps.extension import extensions, made
from alps.rows import Summary, TrackSummary
from alps.show.table import Part, Row
from alps.tasks import Metric, Task

if TYPE_CHECKING:
    from alps.run.opened import RunFolder
    from alps.show.charts import Chart
    from alps.show.compare import TrackComparison

Pair = tuple[str, str]
"""The letters of two runs."""


@dataclass(frozen=True)
class More:
    """What an extension adds to the comparison of a track.

    Attributes:
        row: As JSON has it, by key.
        parts: As tables.
        explanation: What their words mean.
    """

    row: Mapping[str, Any]
    parts: Sequence[Part]
    explanation: str = ""


@dataclass(frozen=True)
class CorrectedComparison:
    """The same comparison by other scores; its tests are families of their own.

    Attributes:
        key: What JSON calls it.
        by: What titles call it, as `corrected by audits`.
        unit: What records are sampled by, as `audited session`.
        method: How its differences are made.
        untested: Why some have no p.
        tracks: What was compared.
        notes: What was not, and why.
    """

    key: str
    by: str
    unit: str
    method: str
    untested: str
    tracks: "Sequence[TrackComparison]" = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class ChartedTrack:
    """A track of a run on a page, as charts read it.

    Attributes:
        letter: Of its run.
        colour: The number of its colour.
        found: What the summary says of it.
        metric: The metric that represents it.
    """

    letter: str
    colour: int
    run: "RunFolder"
    summary: Summary
    track: str
    task: Task
    found: TrackSummary
    metric: Metric

    @property
    def judged(self) -> bool:
        """Whether the headline metric depends on a judge."""
        return self.task.judged

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the judge on this track."""
        return self.run.judge_fingerprint(self.track)

    @property
    def comparable_with(self) -> tuple[str, ...]:
        """Properties that two sections must share to be on one axis."""
        return (
            self.task.name,
            self.track,
            self.metric.name,
            self.fingerprint if self.judged else "",
            str(self.run.tracks[self.track].sha256),
            # As many records: with limit= a run has a part of the same data.
            str(self.found.n),
            str(sorted(self.task.conditions.items())),
        )


class ShownPart:
    """What is shown of an extension; a method that it does not define shows nothing."""

    def rows(self, summary: Summary, track: str, metric: Metric) -> Iterable[Row]:
        """Yield rows of the short form of a run of one task: a name, score, interval and note."""
        return ()

    def facts(self, summary: Summary) -> Iterable[str]:
        """Yield what the short form says of a run next to its counts, in a few words each."""
        return ()

    def tables(self, summary: Summary, track: str, metrics: Sequence[Metric]) -> Iterable[Part]:
        """Yield the tables below the scores of a track, in `alps show` and on a page."""
        return ()

    def tables_of_run(self, summary: Summary) -> Iterable[Part]:
        """Yield the tables below those of all tracks."""
        return ()

    def notes(self, summary: Summary) -> Iterable[str]:
        """Yield what to know of a run, in sentences."""
        return ()

    def charts(self, sections: Sequence[ChartedTrack]) -> "Iterable[Chart]":
        """Yield charts of a page, over the tracks of all its runs."""
        return ()

    def withheld(self, runs: "Mapping[str, RunFolder]", track: str) -> Mapping[Pair, str]:
        """Return the pairs of runs that may not be compared on a track, and why."""
        return {}

    def more(
        self,
        runs: "Mapping[str, RunFolder]",
        track: str,
        metric: Metric,
        sessions: Mapping[str, str],
    ) -> More | None:
        """Return what else to say of runs on the records that they share.

        Args:
            runs: By their letters.
            track: The track.
            metric: What is compared on it.
            sessions: The session of each record.
        """
        return None

    def corrected(
        self, runs: "Mapping[str, RunFolder]", tracks: Sequence[str]
    ) -> CorrectedComparison | None:
        """Return the comparison by corrected scores; None where no run has any."""
        return None


def shown_parts(*summaries: Summary) -> list[ShownPart]:
    """Return the parts of the extensions that any of these summaries has something of."""
    parts = []
    # One that builds on another stands before it, as what it says comes first.
    for one in reversed(extensions()):
        if one.shown and any(map(one.shows, summaries)):
            parts.append(made(one.shown, ShownPart))
    return parts
