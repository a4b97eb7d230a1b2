"""Boards: systems that may be compared, because data, conditions and judge are the same; and their rank classes."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import nan
from typing import Any

import numpy as np

from alps.leaderboard.classes import Rank, rank_classes
from alps.leaderboard.loading import System
from alps.leaderboard.origin import Place
from alps.leaderboard.published import Published, Reported
from alps.leaderboard.samples import tasks
from alps.leaderboard.submission import NO_JUDGE
from alps.tasks import Metric, Task

BESIDE = {"pf": ("pf_general", "pf_interaction"), "ei": ("ei_en", "ei_zh"), "f1_changed": ("f1",)}
"""Metrics that stand beside a board's own, because the paper reports them."""

Scores = dict[str, dict[str, float]]
"""Scores of one system on one track: by metric and record."""


@dataclass(frozen=True)
class Key:
    """What must be the same for systems to stand on one board; `judge` is None where no judge has a part in it."""

    track: str
    metric: str
    data: str
    conditions: str
    n: int
    judge: str | None

    @property
    def id(self) -> str:
        """A name for pages and files."""
        rest = json.dumps([self.data, self.conditions, self.n, self.judge])
        return f"{self.track}-{self.metric}-{hashlib.sha256(rest.encode()).hexdigest()[:8]}".replace("_", "-")


@dataclass(frozen=True)
class Standing:
    """A system on a board; `rank` is None where nothing was tested.

    `recomputed` says whether the score that the board is about came out again: one that did not is its submitter's
    word, stands below the others, and is never ranked.
    """

    system: System
    track: Place
    rank: Rank | None
    recomputed: bool

    def score(self, metric: str) -> Place:
        """Return the place of one of its scores."""
        return self.track["scores"][metric]


@dataclass(frozen=True)
class FloorRow:
    """A floor that stands in a submission; `judge` is who judged it."""

    name: str
    scores: Place
    judge: str


@dataclass(frozen=True)
class Board:
    """Systems by their score on one metric, the best first; floors and reported rows stand apart and unranked."""

    key: Key
    task: Task
    metric: Metric
    standings: tuple[Standing, ...]
    floor_systems: tuple[Standing, ...]
    floors: tuple[FloorRow, ...]
    reported: tuple[Reported, ...]

    @property
    def id(self) -> str:
        """Its name."""
        return self.key.id

    @property
    def any(self) -> Standing:
        """One of its systems, to read from it what is the same for all."""
        return (*self.standings, *self.floor_systems)[0]

    @property
    def comparable(self) -> bool:
        """Whether ranks under its judge mean anything beyond it."""
        return self.key.judge is None or bool(self.any.track["comparable"].value)

    @cached_property
    def others(self) -> tuple[Metric, ...]:
        """The other metrics that any of its systems has a value of, in the order of the task."""
        rows = (*self.standings, *self.floor_systems)
        return tuple(
            metric
            for metric in self.task.metrics
            if metric.name != self.metric.name
            and (metric.name in NO_JUDGE) == (self.key.judge is None)
            and any(row.score(metric.name)["value"] for row in rows)
        )


def build_boards(systems: Sequence[System], published: Published) -> list[Board]:
    """Return every board, by track; those under judges that compare and with more systems first."""
    groups: dict[Key, list[Standing]] = {}
    for system in systems:
        for track, place in system.tracks.items():
            for metric in _leads(track, place):
                standing = Standing(system, place, None, system.recomputed(track, metric))
                groups.setdefault(_key(track, metric, place), []).append(standing)
    order = list(tasks())
    boards: list[Board] = []
    for track in order:
        found = {key: rows for key, rows in groups.items() if key.track == track}
        scores = _read_scores({row.system.slug: row.system for rows in found.values() for row in rows}, track)
        boards += [_board(key, rows, scores, published) for key, rows in found.items()]
    return sorted(boards, key=lambda board: _precedence(board, order))


def _leads(track: str, place: Place) -> Iterator[str]:
    """Yield the metrics that a submission stands on a board for."""
    known = {metric.name: metric.headline for metric in tasks()[track].metrics}
    names = [name for name, is_headline in known.items() if is_headline or name == "memory_used"]
    scored = [name for name in names if place["scores"][name]["value"]]
    others = [name for name in known if place["scores"][name]["value"]]
    yield from scored or others[:1]


def _key(track: str, metric: str, place: Place) -> Key:
    row = place.value
    conditions = json.dumps(row["conditions"], sort_keys=True, ensure_ascii=False)
    judge = None if metric in NO_JUDGE else row["judge_fingerprint"]
    return Key(track, metric, row["data_sha256"], conditions, row["n"], judge)


def _precedence(board: Board, order: Sequence[str]) -> tuple[Any, ...]:
    is_headline = board.metric.headline
    return order.index(board.key.track), not is_headline, not board.comparable, -len(board.standings), board.id


def _board(key: Key, rows: list[Standing], scores: Mapping[str, Scores], published: Published) -> Board:
    task = tasks()[key.track]
    metric = next((m for m in task.metrics if m.name == key.metric), Metric(key.metric, key.metric))
    rows.sort(key=lambda row: _worth(row, key.metric))
    own = [row for row in rows if not row.system.is_floor]
    ranked = [row for row in own if row.recomputed]
    records = [scores[row.system.slug].get(key.metric, {}) for row in ranked]
    ranks = _ranks(records, rows[0].system.sessions(key.track))
    ranks += [None] * (len(own) - len(ranked))
    beside = {key.metric, *BESIDE.get(key.metric, ())}
    return Board(
        key=key,
        task=task,
        metric=metric,
        standings=tuple(replace(row, rank=rank) for row, rank in zip(own, ranks, strict=True)),
        floor_systems=tuple(row for row in rows if row.system.is_floor),
        floors=tuple(_floors(rows, key)),
        reported=tuple(row for row in published.on(key.track) if beside & row.scores.keys()),
    )


def _worth(row: Standing, metric: str) -> tuple[Any, ...]:
    """Return what a board is sorted by: scores that came out again first, then those of all records, then the best."""
    score, scored = row.score(metric), row.track["scored"].value
    return not row.recomputed, score["n"].value < scored, -float(score["value"].value), row.system.slug


def _floors(rows: Sequence[Standing], key: Key) -> Iterator[FloorRow]:
    """Yield each floor once: on one board they are the same for all, so the first submission's stand for all.

    Those of a submission that nobody could recompute are its own word, and left out.
    """
    rows = [row for row in rows if row.recomputed]
    seen = {row.system.card.system.model for row in rows if row.system.is_floor}
    for row in sorted(rows, key=lambda row: row.system.slug):
        for name, floor in row.track["floors"].items():
            if name not in seen and floor["scores"][key.metric]["value"]:
                seen.add(name)
                yield FloorRow(name, floor["scores"], str(floor["judge"].value))


def _ranks(records: Sequence[Mapping[str, float]], sessions: Mapping[str, str]) -> list[Rank | None]:
    names = sorted({name for own in records for name in own})
    if len(records) < 2 or not names or not all(records):
        return [None] * len(records)
    matrix = np.array([[own.get(name, nan) for name in names] for own in records])
    ranks = rank_classes(matrix, clusters_of(names, sessions))
    return [None] * len(records) if ranks is None else list(ranks)


def clusters_of(names: Sequence[str], sessions: Mapping[str, str]) -> list[str]:
    """Return the session of every record; where that is not known, each row of the data stands alone."""
    return [sessions.get(name, name.partition(":")[0]) for name in names]


def _read_scores(systems: Mapping[str, System], track: str) -> dict[str, Scores]:
    """Read what each system scored on each record of a track; of several answers to a record, their mean."""
    wanted = {metric.name for metric in tasks()[track].metrics if metric.headline} | {"memory_used"}
    found: dict[str, Scores] = {}
    for slug, system in systems.items():
        sums: dict[str, dict[str, list[float]]] = {}
        for row in system.rows(track, "scores"):
            scores = row.get("scores")
            for metric, value in scores.items() if isinstance(scores, dict) else ():
                if metric in wanted and type(value) in (int, float):
                    sums.setdefault(metric, {}).setdefault(row["benchmark_id"], []).append(value)
        found[slug] = {
            metric: {name: sum(values) / len(values) for name, values in records.items()}
            for metric, records in sums.items()
        }
    return found
