"""`summary.json`: what a run found, with intervals, failures by kind, bounds and the floors."""

from typing import Any

from alps.judges.base import Judge, fingerprint_id
from alps.llm.ledger import Totals
from alps.run.board import Board
from alps.run.engine import Outcome, Plan
from alps.stats.bootstrap import Estimate
from alps.tasks import Metric


def summarise_track(plan: Plan, outcome: Outcome, *, seed: int) -> dict[str, Any]:
    """Return the summary of one track; n = scored + unscored = all samples asked for."""
    board = outcome.board
    scores = {metric.name: _score(outcome, plan.judge, metric, seed) for metric in _shown(plan, board)}
    headline = next(metric for metric in plan.task.metrics if metric.headline)
    repeats = {}
    if len(plan.systems) > 1:
        means = board.by_repeat(headline)
        repeats = {"repeats": len(plan.systems), "by_repeat": {headline.name: means}}
    return {
        "n": board.scored + board.unscored,
        "scored": board.scored,
        "unscored": board.unscored,
        "failed_predictions": dict(sorted(board.failed_predictions.items())),
        "failed_judgements": dict(sorted(board.failed_judgements.items())),
        "scores": scores,
        **repeats,
        "repaired": outcome.repaired,
        "truncated": outcome.truncated,
        "empty_vs_empty": board.total("empty_vs_empty"),
        "rejected_gold": board.total("rejected_gold"),
        "unchecked": board.total("unchecked"),
        "notes": dict(outcome.notes.most_common(20)),
        "errors": dict(sorted(outcome.errors.items())),
        "floors": {name: _floor(plan, outcome, name, seed) for name in outcome.floors},
    }


def _shown(plan: Plan, board: Board) -> list[Metric]:
    """Return the metrics to report: the optional ones only where they were asked for."""
    asked = plan.options.extras
    return [m for m in plan.task.metrics if not m.optional or (asked if m.support else board.has(m.name))]


def summarise_run(*, model: str, judge: Judge, tracks: dict[str, dict[str, Any]], totals: Totals) -> dict[str, Any]:
    """Return the whole summary of a run."""
    return {
        "judge": judge.name,
        "judge_fingerprint": fingerprint_id(judge.fingerprint),
        "comparable": judge.comparable,
        "model": model,
        "tracks": tracks,
        "calls": {
            "http": totals.calls,
            "cached": totals.cached,
            "prompt_tokens": totals.prompt_tokens,
            "completion_tokens": totals.completion_tokens,
            "cost": None if totals.unpriced else totals.cost,
            "unpriced": totals.unpriced,
        },
    }


def _score(outcome: Outcome, judge: Judge, metric: Metric, seed: int) -> dict[str, Any]:
    if metric.support and not judge.supports:
        reason = f"judge {judge.name} does not read dialogues"
        return {"value": None, "low": None, "high": None, "n": 0, "unscored": reason}
    if not metric.relations <= judge.relations:
        lacking = ", ".join(sorted(metric.relations - judge.relations))
        reason = f"judge {judge.name} does not tell '{lacking}'"
        return {"value": None, "low": None, "high": None, "n": 0, "unscored": reason}
    estimate = outcome.board.estimate(metric, seed=seed)
    row = _estimate(estimate)
    bounds = outcome.board.bounds(metric, estimate)
    if outcome.board.unscored and bounds is not None:
        row["worst_case"], row["best_case"] = bounds
    return row


def _floor(plan: Plan, outcome: Outcome, name: str, seed: int) -> dict[str, Any]:
    """Return a floor's scores, and how far the run is above it on the records that both have."""
    floor = outcome.floors[name]
    headline = next(metric for metric in plan.task.metrics if metric.headline)
    shown = [m for m in plan.task.metrics if m.relations <= plan.floor_judge.relations and not m.optional]
    row: dict[str, Any] = {
        "judge": plan.floor_judge.name,
        "scores": {metric.name: _estimate(floor.estimate(metric, seed=seed)) for metric in shown},
    }
    same_judge = fingerprint_id(plan.judge.fingerprint) == fingerprint_id(plan.floor_judge.fingerprint)
    if same_judge or not floor.total("predicted"):  # an empty answer is judged alike by all
        row["above"] = _estimate(outcome.board.difference(floor, headline, seed=seed))
    return row


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "n": estimate.n}
