"""Contrasts of runs: a metric of two of them with its test, and one correction of all tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from alps.stats.bootstrap import Estimate
from alps.stats.paired import Difference, McNemar, Ranked, holm, shared_letters
from alps.tasks import Metric

if TYPE_CHECKING:
    from alps.show.parts import More

SIGNIFICANT = 0.05
"""The highest p that is bold, and tells two runs apart."""


@dataclass(frozen=True)
class Counts:
    """Records of one run on one track; `left_out` are scored in it, but not in all the others."""

    asked: int
    scored: int
    left_out: int


@dataclass(frozen=True)
class Contrast:
    """One metric of two runs, on the records for which both have it.

    Attributes:
        first: The letter of the one run.
        second: The letter of the other.
        scores: The means of both.
        difference: First less second; a `detectable` of a sample without any spread is None.
        mcnemar: Where every score is 0 or 1.
        p: Of this test alone, made as the interval of `difference`: below .05 where that leaves out
            0. Where there is no interval that of `difference`; None with fewer than two sessions.
        exact: Whether `mcnemar` holds: every record stands alone.
        corrected: `p` by Holm's method over its family: the headline of a track between any two of
            the runs, or all other metrics of all tracks.
        clusters: How many sessions the records come from.
        doubted: Whether nobody showed that the judge agrees with people: its p is never bold.
    """

    first: str
    second: str
    scores: tuple[Estimate, Estimate]
    difference: Difference
    mcnemar: McNemar | None
    p: float | None
    exact: bool
    clusters: int
    corrected: float | None = None
    doubted: bool = False

    @property
    def significant(self) -> bool:
        """Whether the difference is significant, under a judge that agrees with people."""
        return not self.doubted and self.corrected is not None and self.corrected <= SIGNIFICANT

    def withheld(self, reason: str) -> "Contrast":
        """Return it without a difference and a test, and why."""
        none = Estimate(None, None, None, self.difference.estimate.n, reason)
        return replace(
            self, difference=Difference(none, None, None), mcnemar=None, p=None, exact=False
        )


@dataclass(frozen=True)
class MetricComparison:
    """One metric: every pair of runs.

    Of more than two also their ranks, with the letters of ties, best first.
    """

    metric: Metric
    contrasts: tuple[Contrast, ...]
    ranked: tuple[Ranked, ...]


@dataclass(frozen=True)
class TrackComparison:
    """One track that all runs have.

    `clusters` is the number of sessions among the `shared` records, None where the sessions are not
    known. `counts` is in the order of the runs; `notes` say what was not compared, and why;
    `more` is what extensions add.
    """

    track: str
    shared: int
    clusters: int | None
    counts: tuple[Counts, ...]
    metrics: tuple[MetricComparison, ...]
    notes: tuple[str, ...]
    more: "tuple[More, ...]" = ()

    @property
    def lead(self) -> MetricComparison | None:
        """The headline, or what could be compared in its place."""
        for metric in self.metrics:
            if metric.metric.headline:
                return metric
        return self.metrics[0] if self.metrics else None


def contrasts_of(tracks: Sequence[TrackComparison]) -> list[Contrast]:
    """Return every contrast, in the order of the tables."""
    contrasts: list[Contrast] = []
    for track in tracks:
        for metric in track.metrics:
            contrasts += metric.contrasts
    return contrasts


def diagnostics_of(tracks: Sequence[TrackComparison]) -> list[Contrast]:
    """Return the tested contrasts of all metrics but the headlines."""
    contrasts: list[Contrast] = []
    for track in tracks:
        for metric in track.metrics:
            contrasts += metric.contrasts if metric is not track.lead else ()
    return [contrast for contrast in contrasts if contrast.p is not None]


def corrected_together(tracks: Sequence[TrackComparison]) -> tuple[TrackComparison, ...]:
    """Correct every p within its family; letters of ties follow from the same p.

    The headline of a track is what a comparison is made for: it is a family of its own, of all
    pairs of runs. All other metrics are diagnostics, and one family, since a reader looks through
    them for any bold p.
    """
    diagnostics = _by_holm(diagnostics_of(tracks))
    results = []
    for track in tracks:
        metrics = []
        for metric in track.metrics:
            family = _by_holm(metric.contrasts) if metric is track.lead else diagnostics
            contrasts = []
            for contrast in metric.contrasts:
                contrasts.append(replace(contrast, corrected=family.get(id(contrast))))
            ranked = _with_letters(metric.ranked, contrasts)
            metrics.append(replace(metric, contrasts=tuple(contrasts), ranked=ranked))
        results.append(replace(track, metrics=tuple(metrics)))
    return tuple(results)


def _by_holm(contrasts: Sequence[Contrast]) -> dict[int, float]:
    """Return the corrected p of each tested contrast of a family, by its identity."""
    tested = [contrast for contrast in contrasts if contrast.p is not None]
    corrected = holm([contrast.p for contrast in tested if contrast.p is not None])
    return {id(one): p for one, p in zip(tested, corrected, strict=True)}


def doubted(
    tracks: Sequence[TrackComparison], trusted: Callable[[str, Metric], bool]
) -> tuple[TrackComparison, ...]:
    """Mark the differences of judged metrics whose judge is not `trusted` on a track."""
    results = []
    for track in tracks:
        metrics = []
        for metric in track.metrics:
            doubt = metric.metric.judged and not trusted(track.track, metric.metric)
            contrasts = [replace(one, doubted=doubt) for one in metric.contrasts]
            metrics.append(replace(metric, contrasts=tuple(contrasts)))
        results.append(replace(track, metrics=tuple(metrics)))
    return tuple(results)


def _with_letters(ranked: Sequence[Ranked], contrasts: Sequence[Contrast]) -> tuple[Ranked, ...]:
    """Give runs the letters of their ties: those share one that do not differ significantly."""
    if not ranked:
        return ()
    positions = {one.name: position for position, one in enumerate(ranked)}
    different = []
    for contrast in contrasts:
        if contrast.corrected is not None and contrast.corrected <= SIGNIFICANT:
            different.append((positions[contrast.first], positions[contrast.second]))
    letters = shared_letters(len(ranked), different)
    return tuple(replace(one, letters=own) for one, own in zip(ranked, letters, strict=True))
