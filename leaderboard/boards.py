"""Boards: systems that may be compared, because data, conditions and judge are the same.

And their rank classes.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import nan
from typing import Any

import numpy as np

from alps.judges.base import fingerprint_id
from alps.judges.lexical import LexicalJudge
from alps.leaderboard.classes import Rank, rank_classes
from alps.leaderboard.copies import Answers, answers_of, originals
from alps.leaderboard.gold_data import all_tracks
from alps.leaderboard.provenance import Place
from alps.leaderboard.site_data import Published, Reported, System
from alps.leaderboard.submission import NO_JUDGE
from alps.run.engine import NO_GOLD
from alps.schema import UNHEARD
from alps.tasks import Metric, Task

BESIDE = {"pf": ("pf_general", "pf_interaction"), "ei": ("ei_en", "ei_zh"), "f1_changed": ("f1",)}
"""Metrics that stand beside a board's own, because the paper reports them."""

Scores = dict[str, dict[str, float]]
"""Scores of one system on one track: by metric and record."""


@dataclass(frozen=True)
class Key:
    """What must be the same for systems to stand on one board.

    `judge` is None where no judge has a part in it.
    """

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
        return (
            f"{self.track}-{self.metric}-{hashlib.sha256(rest.encode()).hexdigest()[:8]}".replace(
                "_", "-"
            )
        )


@dataclass(frozen=True)
class Standing:
    """A system on a board; `rank` is None where nothing was tested.

    `recomputed` says whether the score that the board is about came out again: one that did not is
    its submitter's word, stands below the others, and is never ranked. `copy_of` names the
    submission whose answers these are: both are one system to the tests, and have one rank. `again`
    is the place of a maintainer's score under the same judge, which stands for the submitted one.
    """

    system: System
    track: Place
    rank: Rank | None
    recomputed: bool
    copy_of: str | None = None
    again: Place | None = None

    def score(self, metric: str) -> Place:
        """Return the place of one of its scores, as it was submitted."""
        return self.track["scores"][metric]

    def lead(self, metric: str) -> Place:
        """Return the place of the score that a board is about: a maintainer's where there is one."""
        return self.again if self.again is not None else self.score(metric)

    def counted(self, metric: str) -> Place:
        """Return the place of the figure that a board sorts by: an answer that was not heard counts
        as the worst.
        """
        score = self.lead(metric)
        return score["worst_case"] if score["worst_case"] else score["value"]


@dataclass(frozen=True)
class FloorRow:
    """A floor that stands in a submission; `judge` is who judged it."""

    name: str
    scores: Place
    judge: str


@dataclass(frozen=True)
class Board:
    """Systems by their score on one metric, the best first.

    Floors and reported rows stand apart and unranked.
    """

    key: Key
    task: Task
    metric: Metric
    standings: tuple[Standing, ...]
    floor_systems: tuple[Standing, ...]
    floors: tuple[FloorRow, ...]
    reported: tuple[Reported, ...]
    judge_known: bool = True

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
        """Whether ranks under its judge mean anything beyond it: not where nobody but submitters
        has asked it.
        """
        return self.key.judge is None or (
            self.judge_known and bool(self.any.track["comparable"].value)
        )

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
    order, known = list(all_tracks()), known_judges(systems)
    boards: list[Board] = []
    for track in order:
        found = {key: rows for key, rows in groups.items() if key.track == track}
        members = {row.system.slug: row.system for rows in found.values() for row in rows}
        held = _Held(_read_scores(members, track), _read_answers(members, track))
        boards += [_board(key, rows, held, published, known) for key, rows in found.items()]
    return sorted(boards, key=lambda board: _precedence(board, order))


@dataclass(frozen=True)
class _Held:
    """What the files of the systems on one track say, by their slugs: scores by record, and
    answers.
    """

    scores: Mapping[str, Scores]
    answers: Mapping[str, Answers]


def known_judges(systems: Sequence[System]) -> frozenset[str]:
    """Return the fingerprints of judges that somebody else than submitters has asked: the embedded
    one, maintainers'.

    Anybody can name a judge and invent its verdicts. A maintainer's review under it is what lets
    its board compare.
    """
    reviews = (system.entry.review for system in systems)
    seen = (found for review in reviews if review is not None for found in review.tracks.values())
    asked = {found.judge_fingerprint for found in seen if found.judge_fingerprint is not None}
    return frozenset({fingerprint_id(LexicalJudge().fingerprint), *asked})


def _leads(track: str, place: Place) -> Iterator[str]:
    """Yield the metrics that a submission stands on a board for."""
    known = {metric.name: metric.headline for metric in all_tracks()[track].metrics}
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
    """Return what boards of a track are sorted by: those under a judge that nobody knows are last,
    however full.
    """
    order_of_trust = (not board.judge_known, not board.metric.headline, not board.comparable)
    return order.index(board.key.track), *order_of_trust, -len(board.standings), board.id


def _board(
    key: Key, rows: list[Standing], held: _Held, published: Published, known: frozenset[str]
) -> Board:
    task = all_tracks()[key.track]
    metric = next((m for m in task.metrics if m.name == key.metric), Metric(key.metric, key.metric))
    rows = [replace(row, again=row.system.again(key.track, key.metric)) for row in rows]
    rows.sort(key=lambda row: _worth(row, metric))
    own = [row for row in rows if not row.system.is_floor]
    ranked = _with_ranks(
        [row for row in own if row.recomputed and not row.system.refuted], key, metric, held
    )
    beside = {key.metric, *BESIDE.get(key.metric, ())}
    return Board(
        key=key,
        task=task,
        metric=metric,
        standings=(*ranked, *own[len(ranked) :]),
        floor_systems=tuple(row for row in rows if row.system.is_floor),
        floors=tuple(_floors(rows, key)),
        reported=tuple(row for row in published.on(key.track) if beside & row.scores.keys()),
        judge_known=key.judge is None or key.judge in known,
    )


def _worth(row: Standing, metric: Metric) -> tuple[Any, ...]:
    """Return what a board is sorted by: scores that came out again first, then those of all
    records, then the best.
    """
    score, scored, counted = (
        row.score(metric.name),
        row.track["scored"].value,
        row.counted(metric.name).value,
    )
    partial = score["n"].value < scored and row.again is None
    return row.system.refuted, not row.recomputed, partial, -float(counted), row.system.slug


def _with_ranks(rows: list[Standing], key: Key, metric: Metric, held: _Held) -> list[Standing]:
    """Return the standings with their ranks.

    Copies of one submission are one system, and have its rank.
    """
    if not rows:
        return []
    seniority = sorted(range(len(rows)), key=lambda place: _seniority(rows[place]))
    firsts = originals([held.answers[rows[place].system.slug] for place in seniority])
    original = {place: seniority[first] for place, first in zip(seniority, firsts, strict=True)}
    distinct = [place for place in range(len(rows)) if original[place] == place]
    records = [_records(rows[place], metric, held.scores) for place in distinct]
    ranks = dict(zip(distinct, _ranks(records, rows[0].system.sessions(key.track)), strict=True))
    if len(distinct) == 1 and len(rows) > 1:
        ranks = {distinct[0]: Rank(1, 1)}
    names = [
        rows[original[place]].system.slug if original[place] != place else None
        for place in range(len(rows))
    ]
    return [
        replace(row, rank=ranks[original[place]], copy_of=names[place])
        for place, row in enumerate(rows)
    ]


def _seniority(row: Standing) -> tuple[Any, ...]:
    """Return what decides who of several with the same answers is called a copy: the reviewed and
    the earliest not.
    """
    return row.again is None, row.system.card.submitted, row.system.slug


def _records(row: Standing, metric: Metric, scores: Mapping[str, Scores]) -> dict[str, float]:
    """Return the scores by record that are tested.

    A maintainer's mean moves them, as its records are not here.
    """
    own = scores[row.system.slug].get(metric.name, {})
    if row.again is None or row.score(metric.name)["value"].value is None:
        return own
    moved = float(row.again["value"].value) - float(row.score(metric.name)["value"].value)
    return {name: value + moved for name, value in own.items()}


def _floors(rows: Sequence[Standing], key: Key) -> Iterator[FloorRow]:
    """Yield each floor once: on one board they are the same for all, so the first submission's
    stand for all.

    Those of a submission that nobody could recompute are its own word, and left out.
    """
    rows = [row for row in rows if row.recomputed]
    seen = {row.system.card.system.model for row in rows if row.system.is_floor}
    for row in sorted(rows, key=lambda row: row.system.slug):
        for name, floor in row.track["floors"].items():
            if name not in seen and floor["scores"][key.metric]["value"]:
                seen.add(name)
                yield FloorRow(name, floor["scores"], str(floor["judge"].value))


def _ranks(
    records: Sequence[Mapping[str, float]], sessions: Mapping[str, str]
) -> list[Rank | None]:
    names = sorted({name for own in records for name in own})
    if len(records) < 2 or not names or not all(records):
        return [None] * len(records)
    matrix = np.array([[own.get(name, nan) for name in names] for own in records])
    ranks = rank_classes(matrix, clusters_of(names, sessions))
    return [None] * len(records) if ranks is None else list(ranks)


def clusters_of(names: Sequence[str], sessions: Mapping[str, str]) -> list[str]:
    """Return the session of every record.

    Where that is not known, each row of the data stands alone.
    """
    return [sessions.get(name, name.partition(":")[0]) for name in names]


def _read_scores(systems: Mapping[str, System], track: str) -> dict[str, Scores]:
    """Read what each system scored on each record of a track.

    Of several answers to a record, their mean.

    An answer that was not heard, or not judged, has the worst score: whoever calls wrong answers
    lost gains nothing.
    """
    metrics = {metric.name: metric for metric in all_tracks()[track].metrics}
    wanted = {name for name, metric in metrics.items() if metric.headline} | {"memory_used"}
    found: dict[str, Scores] = {}
    for slug, system in systems.items():
        sums: dict[str, dict[str, list[float]]] = {}
        lost: list[str] = []
        for row in system.rows(track, "scores"):
            scores = row.get("scores")
            lost += [row["benchmark_id"]] if _is_unscored(row) else []
            for metric, value in scores.items() if isinstance(scores, dict) else ():
                if metric in wanted and type(value) in (int, float):
                    sums.setdefault(metric, {}).setdefault(row["benchmark_id"], []).append(value)
        for metric, records in sums.items():
            for name in lost:
                records.setdefault(name, []).append(_worst(metrics.get(metric)))
        found[slug] = {
            metric: {name: sum(values) / len(values) for name, values in records.items()}
            for metric, records in sums.items()
        }
    return found


def _is_unscored(row: Mapping[str, Any]) -> bool:
    """Tell whether an answer has no score though its gold is here."""
    outcome, stage = row.get("outcome"), row.get("stage")
    return (stage == "generate" and outcome in UNHEARD) or (stage == "judge" and outcome != NO_GOLD)


def _worst(metric: Metric | None) -> float:
    if metric is None:
        return 0.0
    return metric.highest if metric.lower_is_better else metric.lowest


def _read_answers(systems: Mapping[str, System], track: str) -> dict[str, Answers]:
    """Read what each system answered on a track."""
    task = all_tracks()[track].name
    return {
        slug: answers_of(system.rows(track, "predictions"), task)
        for slug, system in systems.items()
    }
