"""`summary.json`, which finishes a run: what it found, and what to say where too much of it failed.

What it found has intervals, failures by kind, bounds and the floors.
Breakdowns tell a metric by groups of records, some also with every group's mix made alike.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alps.data.release import GOLD
from alps.jsonl import Row
from alps.judges.admission import refusal_of
from alps.judges.base import Judge, SupportQuestion, fingerprint_id
from alps.judges.rubric import RubricQuestion
from alps.llm.ledger import Totals
from alps.llm.secrets import redact
from alps.rows import (
    BreakdownRow,
    Calls,
    CurvePoint,
    Floor,
    GroupRow,
    Interval,
    Pools,
    Score,
    ServedBy,
    Summary,
    TokensShown,
    TrackSummary,
)
from alps.run.collector import Outcome, RunPlan, is_unrated
from alps.run.engine import TrackPlan
from alps.run.folder import write_summary
from alps.run.parts import Parts
from alps.run.scores import RecordScores
from alps.run.source import RunData
from alps.schema import FAILURES
from alps.settings import RunSettings
from alps.stats.bootstrap import Estimate, Floats, clustered_mean, ratio, resampled_statistic
from alps.systems.base import STDERR, TRACEBACKS
from alps.systems.embedded import Retriever
from alps.tasks import Breakdown, Metric, Task
from alps.tasks.base import rubrics_of
from alps.tasks.registry import PYTHON, recorded

if TYPE_CHECKING:
    from alps.run.course import RunResult
    from alps.run.session import RunSession

Members = Mapping[str, NDArray[np.bool_]]
"""Which records belong to each group."""
FEWEST = 10
"""Records that a standardised figure needs for an interval: of fewer most strata have none."""


def summarise_track(plan: RunPlan, track: TrackPlan, outcome: Outcome) -> TrackSummary:
    """Return the summary of one track; n = scored + unscored = all samples asked for."""
    task, board = track.task, outcome.board
    scores = {
        metric.name: _score(outcome, plan.judge, metric, task)
        for metric in _shown(plan, task, board)
    }
    scored = board.scored
    if is_unrated(task, plan.judge):
        scored = sum(board.failed_predictions[kind] for kind in FAILURES)
    # What only some runs have is set in those alone: the others' files lack it.
    own: dict[str, Any] = {}
    if len(track.systems) > 1:
        lead = leading_metric(task, plan.judge) or task.headline
        own |= {"repeats": len(track.systems), "by_repeat": {lead.name: board.by_repeat(lead)}}
    if board.distinct is not None:
        own["distinct"] = board.distinct
    if task.shown.breakdowns:
        own["breakdowns"] = break_down(board, task, without=refused_metrics(task, plan.judge))
    if outcome.shown:
        own["tokens_shown"] = _tokens_shown(outcome.shown)
    system = track.systems[0]
    if isinstance(system, Retriever) and system.queries:
        own["seconds_per_query"] = system.seconds / system.queries
    return TrackSummary(
        task=task.name,
        **task.conditions,
        judge_fingerprint=fingerprint_id(plan.judge.fingerprint_for(task.rubrics)),
        n=board.scored + board.unscored,
        scored=scored,
        unscored=board.scored + board.unscored - scored,
        failed_predictions=dict(sorted(board.failed_predictions.items())),
        failed_judgements=dict(sorted(board.failed_judgements.items())),
        scores=scores,
        **own,
        repaired=outcome.repaired,
        truncated=outcome.truncated,
        empty_vs_empty=board.total("empty_vs_empty"),
        rejected_gold=board.total_once("rejected_gold"),
        unchecked=board.total("unchecked"),
        counts=board.totals(),
        notes=dict(sorted(outcome.notes.items(), key=lambda item: (-item[1], item[0]))[:20]),
        errors={kind: error for kind, (_, error) in sorted(outcome.errors.items())},
        floors={name: _floor(plan, track.task, outcome, name) for name in outcome.floors},
    )


def _tokens_shown(tokens: Sequence[int]) -> TokensShown:
    ordered = sorted(tokens)

    def at(share: float) -> int:
        """Return the nearest rank: a size that an answer did have."""
        return ordered[ceil(share * len(ordered)) - 1]

    return TokensShown(median=at(0.5), p95=at(0.95), most=ordered[-1])


def served(totals: Totals) -> dict[str, list[ServedBy]]:
    """Return the served models by purpose, as reported by providers."""
    by_purpose = {}
    for purpose, answered in sorted(totals.served.items()):
        rows = [ServedBy(model=name or None, fingerprint=b or None) for name, b in sorted(answered)]
        by_purpose[purpose] = rows
    return by_purpose


def served_row(totals: Totals) -> Row:
    """Return the same as in files; empty if no provider reported any."""
    rows: Row = {}
    for purpose, answered in served(totals).items():
        rows[purpose] = [one.row() for one in answered]
    return {"served": rows} if rows else {}


def summarise_calls(totals: Totals) -> Calls:
    """Return what the calls of a run came to."""
    return Calls(
        http=totals.calls,
        cached=totals.cached,
        prompt_tokens=totals.prompt_tokens,
        completion_tokens=totals.completion_tokens,
        cost=None if totals.unpriced else totals.cost,
        unpriced=totals.unpriced,
        without_price=sorted(totals.without_price),
        cached_tokens=totals.cached_tokens,
        reasoning_tokens=totals.reasoning_tokens,
    )


def leading_metric(
    task: Task, judge: Judge, among: Sequence[Metric] | None = None
) -> Metric | None:
    """Return the headline, or the first of `among` that `judge` can score; None if it can none."""
    metrics = task.metrics if among is None else among
    scorable = [metric for metric in metrics if _beyond(metric, judge, task) is None]
    return next((metric for metric in scorable if metric.headline), next(iter(scorable), None))


def _beyond(metric: Metric, judge: Judge, task: Task) -> str | None:
    """Say what keeps `judge` from scoring a metric of a task; None where nothing does."""
    if metric.needs.support and SupportQuestion not in judge.answers:
        return f"judge {judge.name} does not read dialogues"
    if metric.needs.rating and RubricQuestion not in judge.answers:
        return f"judge {judge.name} cannot rate answers by a rubric"
    if lacking := ", ".join(sorted(metric.needs.relations - judge.relations)):
        return f"judge {judge.name} cannot tell '{lacking}' from 'same'"
    return _refused(metric, judge, task)


def refused_metrics(task: Task, judge: Judge) -> list[str]:
    """Return the names of the metrics that `judge` is not admitted for."""
    return [metric.name for metric in task.metrics if _refused(metric, judge, task)]


def _refused(metric: Metric, judge: Judge, task: Task) -> str | None:
    """Say why `judge` is not admitted for a rubric that a metric depends on; None where it is."""
    return refusal_of(judge, task.rubrics_behind(metric)) if metric.judged else None


def _shown(plan: RunPlan, task: Task, board: RecordScores) -> list[Metric]:
    """Return the metrics to report: the optional ones only where they were asked for.

    There is always one: a task whose only figures need a system that ranks has a row without a
    value.
    """

    def belongs(metric: Metric) -> bool:
        if metric.needs.ranking:
            return board.total("ranked") > 0
        if metric.optional:
            # Failures alone are no figure of answers.
            asked = not metric.needs.rating or board.total("asked") > 0
            return plan.options.extras if metric.needs.support else board.has(metric.name) and asked
        return True

    return [metric for metric in task.metrics if belongs(metric)] or [task.headline]


def _score(outcome: Outcome, judge: Judge, metric: Metric, task: Task) -> Score:
    reason = _beyond(metric, judge, task)
    if metric.needs.ranking and not outcome.board.total("ranked"):
        reason = reason or "the system returns no ranking"
    if reason:
        return _unscored(reason)
    estimate = outcome.board.estimate(metric)
    row = estimate.row
    bounds = outcome.board.bounds(metric, estimate)
    if outcome.board.unscored and bounds is not None:
        row["worst_case"], row["best_case"] = bounds
    return Score(**row)


def _unscored(reason: str) -> Score:
    return Score(value=None, low=None, high=None, n=0, unscored=reason)


def _floor(plan: RunPlan, task: Task, outcome: Outcome, name: str) -> Floor:
    """Return a floor's scores, and how far the run is above it on the records that both have.

    Where its judge can score none of them the headline stands there without a value, and why.
    """
    board, floor, judge = outcome.board, outcome.floors[name], plan.floor_judge
    shown = []
    for metric in task.metrics:
        asked = _beyond(metric, judge, task) is None and (metric.headline or not metric.optional)
        if asked and (not metric.needs.ranking or floor.total("ranked")):
            shown.append(metric)
    lead = leading_metric(task, judge, shown)
    if lead is None:
        headline = task.headline
        reason = _beyond(headline, judge, task) or f"{name} returns no ranking"
        scores = {headline.name: _unscored(reason)}
        return Floor(judge=judge.name, lead=headline.name, scores=scores)
    scores = {metric.name: Score(**floor.estimate(metric).row) for metric in shown}
    # Unless only recorded verdicts are at hand.
    same_judge = plan.judge.fingerprint == judge.fingerprint
    own: dict[str, Any] = {}
    # An empty answer is judged alike by all.
    if same_judge or not lead.judged or not floor.total("predicted"):
        own["above"] = Interval(**board.difference(floor, lead).row)
        differences = {}
        for metric in shown:
            if metric.inference.baseline_differences:
                differences[metric.name] = Interval(**board.difference(floor, metric).row)
        own |= {"differences": differences} if differences else {}
    return Floor(judge=judge.name, lead=lead.name, scores=scores, **own)


def summarise_run(
    settings: RunSettings,
    data: RunData,
    plan: RunPlan,
    outcomes: Mapping[str, Outcome],
    totals: Totals,
) -> Summary:
    """Return the summary of a run before extensions add to it.

    Args:
        settings: Those of the run.
        data: What was asked about.
        plan: What was evaluated.
        outcomes: What came out of each track, by its name.
        totals: What the calls came to.
    """
    tracks = {}
    for planned, described in zip(plan.tracks, data.tracks, strict=True):
        own: dict[str, Any] = {}
        if (pools := described.description.get("pools")) is not None:
            own["pools"] = Pools(**pools)
        # A user's own task must be shown later without importing its code.
        if PYTHON in settings.task:
            own["shown_by"] = recorded(described.task)
        track = summarise_track(plan, planned, outcomes[planned.task.track])
        tracks[described.task.track] = track.model_copy(update=own)
    # What only some runs have is set in those alone: the others' files lack it.
    own = {}
    if answered := served(totals):
        own["served"] = answered
    if left_out := data.description.get("left_out"):
        own["left_out"] = left_out
    return Summary(
        judge=plan.judge.name,
        judge_fingerprint=fingerprint_id(plan.judge.fingerprint_for(rubrics_of(data.tasks))),
        comparable=plan.judge.comparable,
        model=redact(settings.model),
        tracks=tracks,
        calls=summarise_calls(totals),
        **own,
    )


def break_down(
    board: RecordScores, task: Task, *, without: Collection[str] = ()
) -> dict[str, BreakdownRow]:
    """Return a task's breakdowns that have records, `without` those of metrics called so."""
    metrics = {metric.name: metric for metric in task.metrics}
    rows = {}
    for breakdown in task.shown.breakdowns:
        members = board.members(breakdown.name)
        if not members or breakdown.metric in without:
            continue
        if breakdown.metric is None:
            title, groups = "share", _shares(board, members)
        else:
            metric = metrics[breakdown.metric]
            title, groups = metric.title.strip(), _figures(board, breakdown, metric, members)
        # What only some breakdowns have is set in those alone.
        own: dict[str, Any] = {"warning": breakdown.warning} if breakdown.warning else {}
        own |= {"standardised": breakdown.standardised} if breakdown.standardised else {}
        listed = _listed(breakdown, members, groups)
        row = BreakdownRow(title=breakdown.title, metric=title, groups=listed, **own)
        rows[breakdown.name] = row
    return rows


def _listed(
    breakdown: Breakdown, members: Members, groups: Mapping[str, GroupRow]
) -> list[GroupRow]:
    """Put groups into the order of the task, others by their size, and give them their names."""
    places = {group: place for place, group in enumerate(breakdown.groups)}
    last = len(places)

    def rank(group: str) -> tuple[int, int, str]:
        return places.get(group, last), -int(members[group].sum()), group

    listed = []
    for group in sorted(groups, key=rank):
        also = breakdown.groups.get(group, "")
        listed.append(groups[group].model_copy(update={"also": also} if also else {}))
    return listed


def _shares(board: RecordScores, members: Members) -> dict[str, GroupRow]:
    """Return the share of each group among the records that are in one."""
    any_of = np.logical_or.reduce(list(members.values()))
    clusters, rows = board.clusters()[any_of], {}
    for group, inside in members.items():
        share = clustered_mean(inside[any_of].astype(float), clusters, resampled=True)
        # `n` is how many are in the group: of how many, the others tell.
        row = {**share.row, "n": int(inside.sum())}
        rows[group] = GroupRow(group=group, figure=Interval(**row))
    return rows


def _figures(
    board: RecordScores, breakdown: Breakdown, metric: Metric, members: Members
) -> dict[str, GroupRow]:
    values, clusters = board.values(metric), board.clusters()
    defined = ~np.isnan(values)
    strata = board.members(breakdown.standardised) if breakdown.standardised else {}
    rows = {}
    for group, inside in members.items():
        chosen = inside & defined
        figure = clustered_mean(
            values[chosen],
            clusters[chosen],
            bounds=metric.bounds,
            resampled=metric.inference.resampled,
        )
        own: dict[str, Any] = {}
        if strata:
            weights = {name: float((among & defined).sum()) for name, among in strata.items()}
            within = {name: among[chosen] for name, among in strata.items()}
            estimate = standardise(values[chosen], clusters[chosen].tolist(), within, weights)
            own["standardised"] = Interval(**estimate.row)
            if lacking := [name for name, among in within.items() if not among.any()]:
                own["lacking"] = sorted(lacking)
        rows[group] = GroupRow(group=group, figure=Interval(**figure.row), **own)
    return rows


def standardise(
    values: Floats, clusters: Sequence[int], strata: Members, weights: Mapping[str, float]
) -> Estimate:
    """Estimate the mean over strata of the mean within each, by given weights.

    Direct standardisation: two groups of records then differ by what happens within strata, and not
    by how they are mixed. Strata without a record are left out, with their weight.

    Args:
        values: Shape (records,).
        clusters: Shape (records,).
        strata: Which records belong to each, shape (records,).
        weights: Of each stratum; not negative.
    """
    shares = np.array([weights[name] for name in strata])
    columns = []
    for among in strata.values():
        columns += [np.where(among, values, 0.0), among.astype(float)]

    def statistic(sums: Floats) -> Floats:
        means = ratio(sums[..., 0::2], sums[..., 1::2])
        weighted = np.where(np.isnan(means), 0.0, shares)
        return ratio((weighted * np.nan_to_num(means)).sum(axis=-1), weighted.sum(axis=-1))

    estimate = resampled_statistic(np.stack(columns, axis=1), clusters, statistic)
    if estimate.n < FEWEST and estimate.low is not None:
        reason = f"too few records for a standardised interval ({estimate.n})"
        return Estimate(estimate.value, None, None, estimate.n, reason)
    return estimate


@dataclass(frozen=True)
class Finished:
    """A finished run.

    Attributes:
        too_many_unscored: Whether a larger share of the records than `max_failures` is unscored.
        complaint: What to say of a run of which a larger share failed or is unscored, with the
            first error; else None.
        resumed: How many of its answers an earlier command had left in the folder.
        former: Where the run is that this one took the place of; None where it took none.
    """

    folder: Path
    summary: Summary
    tasks: tuple[Task, ...]
    too_many_unscored: bool
    budget_spent: bool
    complaint: str | None = None
    resumed: int = 0
    former: Path | None = None


def summarised(session: "RunSession", ran: "RunResult", totals: Totals) -> Summary:
    """Summarise a run and write its summary."""
    data, course = session.data, ran.course
    summary = summarise_run(session.settings, data, course.plan, course.outcomes, totals)
    if ran.judge_check is not None:
        told = {"judge_check": ran.judge_check, "judge_check_before": ran.judge_check_before}
        summary = summary.model_copy(update=told)
    for part in session.parts:
        summary = part.summarise(summary, course)
    write_summary(session.folder, summary)
    return summary


def concluded(session: "RunSession", summary: Summary, *, stopped: bool, resumed: int) -> Finished:
    """Finish a run with what extensions made of it, in earlier commands, too."""
    folder, whole = session.folder, summary
    for part in session.parts:
        whole = part.conclusions(whole, session)
    if whole is not summary:
        write_summary(folder, whole)
    done = finished(
        folder,
        whole,
        session.data.tasks,
        session.settings.max_failures,
        budget_spent=stopped,
        resumed=resumed,
        parts=session.parts,
    )
    folders = [one.place for one in session.data.tracks if isinstance(one.place, Path)]
    absent = [place / GOLD for place in folders if not (place / GOLD).is_file()]
    if done.complaint is None or not absent:
        return done
    return replace(done, complaint=f"{done.complaint}; no gold, since {absent[0]} is not there")


def finished(
    folder: Path,
    summary: Summary,
    tasks: tuple[Task, ...],
    max_failures: float,
    *,
    budget_spent: bool,
    resumed: int = 0,
    parts: Parts = (),
) -> Finished:
    """Return a run with its complaint, such as too many failures."""
    n = sum(track.n for track in counted_parts(summary))
    faults = (part.fault(summary) for part in parts)
    fault = next((fault for fault in faults if fault is not None), None)
    return Finished(
        folder,
        summary,
        tasks,
        too_many_unscored=lost_records(summary) > max_failures * n,
        budget_spent=budget_spent,
        complaint=_complaint(summary, max_failures, folder) or fault,
        resumed=resumed,
    )


def counted_parts(summary: Summary) -> list[TrackSummary | CurvePoint]:
    """Return the tracks of a run, and its points at smaller sizes of the context."""
    parts: list[TrackSummary | CurvePoint] = [*summary.tracks.values()]
    for track in summary.tracks.values():
        # The last point is the score of the run.
        parts += [] if track.curve is None else track.curve.points[:-1]
    return parts


def lost_records(summary: Summary) -> int:
    """Return how many records are unscored because a system or a judge was not heard."""
    # Answers that its judge can't rate by any rubric are unscored, and yet nothing went wrong.
    lost = 0
    for track in counted_parts(summary):
        kinds = track.failed_predictions.keys() - set(FAILURES)
        lost += sum(track.failed_predictions[kind] for kind in kinds)
        lost += sum(track.failed_judgements.values())
    return lost


def _complaint(summary: Summary, most: float, folder: Path) -> str | None:
    """Say that more than the share `most` failed or is unscored, with the first error."""
    tracks, unscored, failed = counted_parts(summary), lost_records(summary), 0
    n = sum(track.n for track in tracks)
    errors: list[str] = []
    for track in tracks:
        failed += sum(track.failed_predictions.get(kind, 0) for kind in FAILURES)
        for kind, error in track.errors.items():
            if not kind.startswith("floor/"):
                errors.append(f"; {kind}: {error}")
    if failed + unscored <= most * n:
        return None
    counts = [f"{failed} of {n} predictions failed"] if failed else []
    counts += [f"{unscored} of {n} {'is' if unscored == 1 else 'are'} unscored"] if unscored else []
    account = f"{', '.join(counts)}: more than max_failures={100 * most:g}%"
    logs = [folder / name for name in (TRACEBACKS, STDERR) if (folder / name).is_file()]
    more = f" (more in {logs[0]})" if logs else ""
    return f"{account}{''.join(errors[:1])}{more}"
