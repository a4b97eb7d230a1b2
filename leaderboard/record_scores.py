"""Scores of the records of a track, as boards compare them: what was not heard is worst."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from alps.ext.memory.no_memory import failed_share, too_many_failed
from alps.run.engine import NO_GOLD
from alps.schema import UNHEARD
from alps.show.shared_records import SharedRecords
from alps.stats.bootstrap import Estimate
from alps.tasks import Metric


def record_scores(
    rows: Iterable[Mapping[str, Any]], metrics: Sequence[Metric]
) -> dict[str, dict[str, float]]:
    """Return what was scored on each record by metric; of several answers to it, their mean.

    A failed answer, or one without a verdict, has the worst score: whoever calls wrong answers lost
    gains nothing.
    """
    values_of: dict[str, dict[str, list[float]]] = {}
    lost: list[str] = []
    for row in rows:
        if _is_unscored(row):
            lost.append(row["benchmark_id"])
        for metric in metrics:
            if (value := _number(row.get("scores"), metric.name)) is not None:
                records = values_of.setdefault(metric.name, {})
                records.setdefault(row["benchmark_id"], []).append(value)
    means: dict[str, dict[str, float]] = {}
    for metric in metrics:
        if records := values_of.get(metric.name, {}):
            worst = metric.highest if metric.lower_is_better else metric.lowest
            for name in lost:
                records.setdefault(name, []).append(worst)
            means[metric.name] = {name: sum(own) / len(own) for name, own in records.items()}
    return means


def ahead_of(
    rows: Iterable[Mapping[str, Any]],
    others: Iterable[Mapping[str, Any]],
    metric: Metric,
    sessions: Mapping[str, str],
) -> dict[str, Any]:
    """Return how far the scores of `rows` are ahead of those without memory, record by record.

    Records without a known session stand alone. There is no value where too many answers failed.

    Args:
        rows: The scores of the run with a memory.
        others: Those of the run without.
        metric: What is compared.
        sessions: The session of each record.
    """
    rows, others = list(rows), list(others)
    reason = too_many_failed(failed_share(rows), failed_share(others))
    if reason is not None:
        return Estimate(None, None, None, 0, reason).row
    both = [record_scores(one, [metric]).get(metric.name, {}) for one in (rows, others)]
    ids = sorted(both[0].keys() & both[1].keys())
    own = {name: sessions.get(name, name) for name in ids}
    return SharedRecords.of(metric, ids, both, own).difference(*both).estimate.row


def _number(scores: object, name: str) -> float | None:
    # Of a submission that nobody verified anything may stand there.
    value = scores.get(name) if isinstance(scores, dict) else None
    return value if type(value) in (int, float) else None


def _is_unscored(row: Mapping[str, Any]) -> bool:
    """Tell whether an answer has no score though its gold is here."""
    outcome, stage = row.get("outcome"), row.get("stage")
    return (stage == "generate" and outcome in UNHEARD) or (stage == "judge" and outcome != NO_GOLD)
