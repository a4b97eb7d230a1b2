"""The trivial baseline that a run scores below on a track, as a page warns of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from alps.rows import Interval, Score, TrackSummary
from alps.show.caveats import strongest_above
from alps.show.formatting import interval, number, signed
from alps.tasks import Metric


@dataclass(frozen=True)
class Below:
    """A trivial baseline that a run scores below; `difference` is on the records that both have."""

    metric: Metric
    score: Score
    baseline: str
    its_score: Score
    difference: Interval

    @property
    def line(self) -> str:
        """Both scores and the difference, in one line."""
        apart = f"Δ {signed(self.difference.value)}"
        if self.difference.low is not None:
            apart += f" {interval(self.difference)}"
        # A judge that costs money rates baselines on a part of the records.
        if 0 < self.difference.n < self.score.n:
            apart += f" on {self.difference.n:,} shared records"
        ours, theirs = number(self.score.value), number(self.its_score.value)
        return f"{self.metric.title.strip()} {ours}, {self.baseline} {theirs} ({apart})"


def below_baseline(track: TrackSummary, metrics: Sequence[Metric]) -> Below | None:
    """Return the trivial baseline that a run scores furthest below on a track, if there is one."""
    by_name = {metric.name: metric for metric in metrics}
    for lead in dict.fromkeys(floor.lead for floor in track.floors.values()):
        differences: dict[str, float] = {}
        for name, floor in track.floors.items():
            # Under another judge they are not compared.
            if floor.lead == lead and floor.above is not None and floor.above.value is not None:
                differences[name] = floor.above.value
        metric = by_name[lead]
        strongest = strongest_above(differences, lower_is_better=metric.lower_is_better)
        if strongest is not None:
            floor = track.floors[strongest]
            assert floor.above is not None
            return Below(metric, track.scores[lead], strongest, floor.scores[lead], floor.above)
    return None
