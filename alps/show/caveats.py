"""Caveats of scores: below a trivial baseline, or by an unchecked judge."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from alps.judges.admission import DRAWN, is_admitted
from alps.judges.embedded import is_embedded_judge
from alps.rows import Interval, RubricCheck, Score, Summary, TrackSummary
from alps.run.opened import RunFolder
from alps.show.formatting import interval, number, signed
from alps.tasks import Metric

BELOW_MARK = "↓"
"""What marks a row of a table that is below a trivial baseline."""
_DIGITS = 3
# The highest score of which tables say that it is about 0.
_ABOUT_ZERO = 0.05


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


def strongest_above(differences: Mapping[str, float], *, lower_is_better: bool) -> str | None:
    """Return the trivial baseline that a system is furthest below, by its differences to each."""
    sign = -1.0 if lower_is_better else 1.0
    # What is written as a difference of .000 is none.
    losses = {name: sign * round(value, _DIGITS) for name, value in differences.items()}
    worst = min(losses, key=lambda name: losses[name], default=None)
    return worst if worst is not None and losses[worst] < 0 else None


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


def baselines_title(scores: Iterable[Score]) -> str:
    """Return the title of a table of trivial baselines; it says where all score about 0."""
    values = [score.value for score in scores]
    about_zero = bool(values)
    for value in values:
        about_zero = about_zero and value is not None and abs(value) < _ABOUT_ZERO
    return "Trivial baselines" + (" (expected to score about 0)" if about_zero else "")


NOT_CHECKED = "not checked"
"""What scores are marked with whose judge answered no known items."""


def share_of_known(judge: str, checks: Mapping[str, RubricCheck] | None) -> str:
    """Return how many known items a judge got right: `known items 23/24`, or that nobody asked.

    Nothing for an embedded judge, whose errors calibrations tell.
    """
    if is_embedded_judge(judge):
        return ""
    if not checks:
        return NOT_CHECKED
    right = sum(share.right for share in checks.values())
    return f"known items {right}/{DRAWN * len(checks)}"


def judge_mark(summary: Summary) -> str:
    """Return the same in brackets, to follow the name of a run's judge in a title."""
    share = share_of_known(summary.judge, summary.judge_check)
    if summary.judge_check_before:
        known = share_of_known(summary.judge, summary.judge_check_before)
        refused = not all(map(is_admitted, summary.judge_check_before.values()))
        share = f"{known}, not admitted" if refused else known
    return f" ({share})" if share else ""


def judge_of(run: RunFolder) -> str:
    """Return the name of a run's judge, with the same mark once the run is finished."""
    return run.judge if run.summary is None else f"{run.judge}{judge_mark(run.summary)}"


def judge_check_lines(summary: Summary) -> Iterator[str]:
    """Say how many items a run's judge got right by rubric, or that its scores rest on no check."""
    checks = summary.judge_check or summary.judge_check_before
    yield from known_item_lines(summary.judge, checks)


def known_item_lines(judge: str, checks: Mapping[str, RubricCheck] | None) -> Iterator[str]:
    """Say how many items a judge got right by rubric, or that nobody asked it any."""
    if is_embedded_judge(judge):
        return
    if not checks:
        yield (
            f"Judge {judge} was {NOT_CHECKED} on items with known answers, so it may be unable to "
            "tell good answers from bad ones."
        )
        return
    parts = []
    for name, share in checks.items():
        failed = "" if is_admitted(share) else " (not admitted)"
        parts.append(f"{name} {share.right}/{DRAWN}{failed}")
    yield f"Items with known answers that judge {judge} got right: {', '.join(parts)}."
