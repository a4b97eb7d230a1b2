"""Runs without memory of one reader on the same data, held against each other.

The difference of a memory system is from its own run without memory, which its submitter made. Of
one reader, asked alike, all such runs have the same expected score.
"""

import json
from collections.abc import Mapping, Sequence
from statistics import fmean

from alps.leaderboard.gold_data import needs_reader, task_under
from alps.leaderboard.memory_setup import reader_of
from alps.leaderboard.record_scores import record_scores
from alps.leaderboard.site_data import System
from alps.leaderboard.submission import without_memory
from alps.report.formatting import number
from alps.stats.paired import holm, mcnemar
from alps.tasks import Task
from alps.tasks.base import OF_MEMORY

SIGNIFICANCE = 0.01
"""The p, by Holm's method over the runs of one reader, at which two of them differ."""


def _asked_alike(system: System, track: str, task: Task) -> str | None:
    """Return what runs without memory share that are held against each other.

    None where there is none beside the run of a track, or no reader.
    """
    card = system.card
    row = card.tracks[track]
    memory = card.memory_of(row.run)
    if memory is None or not needs_reader(task) or without_memory(memory, track) is None:
        return None
    conditions = {name: part for name, part in row.conditions.items() if name not in OF_MEMORY}
    judge = row.judge_fingerprint if task.headline.judged else None
    reader = reader_of(card.runs[row.run], task)
    shared = [row.data_sha256, row.n, conditions, judge, reader]
    return json.dumps(shared, sort_keys=True, ensure_ascii=False)


def unlike_others(systems: Sequence[System], track: str) -> dict[str, str]:
    """Return by slug the systems whose run without memory differs from another's, and from whose.

    Raises:
        AlpsError: If a row of one can't be read.
    """
    groups: dict[str, list[System]] = {}
    for system in systems:
        if track in system.tracks and system.card.memory is not None:
            task = task_under(track, system.card.tracks[track].conditions)
            key = _asked_alike(system, track, task)
            if key is not None:
                groups.setdefault(key, []).append(system)
    apart: dict[str, str] = {}
    for group in groups.values():
        if len(group) > 1:
            apart |= _in_words(group, track)
    return apart


def _in_words(group: Sequence[System], track: str) -> dict[str, str]:
    headline = task_under(track, group[0].card.tracks[track].conditions).headline
    scores: dict[str, Mapping[str, float]] = {}
    for system in group:
        rows = record_scores(system.rows_without_memory(track), [headline])
        if own := rows.get(headline.name):
            scores[system.slug] = own
    words = {}
    for slug, other in differing(scores).items():
        mine, others = (number(fmean(scores[name].values())) for name in (slug, other))
        words[slug] = f"without memory its reader scores {mine}, and the same reader {others} in "
        words[slug] += f"{other}; they differ significantly (p ≤ {SIGNIFICANCE})"
    return words


def differing(scores: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """Return the systems whose run without memory differs, each with one that it differs from.

    That is the run of the median score. Of two that differ nobody can tell which is wrong: both
    are named.

    Args:
        scores: By system, what its reader scored on each record without memory.
    """
    order = sorted(scores, key=lambda name: (fmean(scores[name].values()), name))
    if len(order) < 2:
        return {}
    middle = order.pop(len(order) // 2)
    ps = holm([_sign_test(scores[name], scores[middle]) for name in order])
    apart = {}
    for name, p in zip(order, ps, strict=True):
        if p <= SIGNIFICANCE:
            apart[name] = middle
    if apart and len(order) == 1:
        apart[middle] = order[0]
    return apart


def _sign_test(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    # Between two runs of one reader only its own chance is left, which is drawn record by record:
    # records of one session are as independent as others.
    shared = one.keys() & other.keys()
    higher = sum(one[name] > other[name] for name in shared)
    lower = sum(one[name] < other[name] for name in shared)
    return mcnemar(higher, lower).p
