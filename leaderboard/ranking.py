"""Boards of systems that may be compared, and their rank classes.

Systems share a board where data, conditions and judge are the same.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import nan
from typing import Any, Protocol

import numpy as np

from alps.judges.base import fingerprint_id
from alps.judges.embedded import LexicalJudge
from alps.leaderboard.checks.copies import AnswerHashes, answers_of, originals
from alps.leaderboard.comparison import (
    Rank,
    StrongestBaseline,
    SystemLead,
    above,
    rank_classes,
    record_scores,
    strongest,
)
from alps.leaderboard.gold_data import needs_reader, task_under
from alps.leaderboard.pages import FilePlace
from alps.leaderboard.parts import BoardDifference, BoardPart, fields_of, part_of, parts_of
from alps.leaderboard.references import ReferenceFile, Reported
from alps.leaderboard.site_data import ORDER, JudgedBy, SiteSystem, judged_by
from alps.leaderboard.submission import without
from alps.tasks import Metric, Task, board_tracks

# Scores of one system on one track: by metric and record.
Scores = dict[str, dict[str, float]]


@dataclass(frozen=True)
class BoardKey:
    """What systems of one board have in common.

    `judge` is None where no judge has a part in it. `setup` is how systems were run by which an
    extension keeps them apart, as JSON, and `field` that of its part; empty on other boards.
    """

    track: str
    metric: str
    data: str
    conditions: str
    n: int
    judge: str | None
    setup: str = ""
    field: str = ""

    @property
    def id(self) -> str:
        """A name for pages and files."""
        setup = [self.setup] if self.setup else []
        rest = json.dumps([self.data, self.conditions, self.n, self.judge, *setup])
        # By content, not by a number: a board keeps its address when other boards come and go.
        digest = hashlib.sha256(rest.encode()).hexdigest()[:8]
        return f"{self.track}-{self.metric}-{digest}".replace("_", "-")


@dataclass(frozen=True)
class RankedSystem:
    """A system on a board; `rank` is None where nothing was tested.

    `recomputed` says whether the score that the board is about was recomputed: one that was not is
    its submitter's word, stands below the others, and is never ranked. `copy_of` names the
    submission whose answers these are: both are one system to the tests, and have one rank. `again`
    is the place of a maintainer's score under the same judge, which replaces the submitted one.
    `difference` is how far it is ahead of its own run without what the board is about, where that
    sorts by it. `above` is how far any system is above the strongest trivial baseline there.
    `records` is what is tested, by record.
    """

    system: SiteSystem
    track: FilePlace
    rank: Rank | None
    recomputed: bool
    copy_of: str | None = None
    again: FilePlace | None = None
    difference: BoardDifference = field(default_factory=BoardDifference)
    above: SystemLead | None = None
    records: Mapping[str, float] = field(default_factory=dict, repr=False)

    @property
    def ahead(self) -> FilePlace | None:
        """The place of the difference."""
        return self.difference.value

    @property
    def withheld(self) -> str:
        """The check that a memory system was not admitted by; empty where it was."""
        memory = self.system.card.memory_of(self.track["run"].value)
        return "" if memory is None else memory.withheld or ""

    def score(self, metric: str) -> FilePlace:
        """Return the origin of one of its submitted scores."""
        return self.track["scores"][metric]

    def lead(self, metric: str) -> FilePlace:
        """Return the score that a board is about: a maintainer's where there is one."""
        return self.again if self.again is not None else self.score(metric)

    def counted(self, metric: str) -> FilePlace:
        """Return the figure that a board sorts by: a failed answer counts as the worst."""
        score = self.lead(metric)
        return score["worst_case"] if score["worst_case"] else score["value"]


@dataclass(frozen=True)
class RowBeside:
    """The reader of a memory system with another memory: never ranked."""

    memory: str
    track: FilePlace
    ahead: FilePlace

    def score(self, metric: str) -> FilePlace:
        """Return the place of one of its scores."""
        return self.track["scores"][metric]


@dataclass(frozen=True)
class PeopleRow:
    """How far two people agree on what a board is about.

    Attributes:
        names: What the two are called.
        scores: The places of the figures, by metric.
        sessions: On how many sessions.
        rule: What matched their memories; empty where none are matched.
        verbatim: The share of each person's items that are the draft's; None where none is known.
        without: The agreement on all other items; None where there are none.
    """

    names: tuple[str, str]
    scores: dict[str, FilePlace]
    sessions: FilePlace
    rule: str
    verbatim: tuple[FilePlace, FilePlace] | None
    without: FilePlace | None


class People(Protocol):
    """How far two people agree, as an agreement file has it."""

    def on(self, metrics: Iterable[Metric]) -> PeopleRow | None:
        """Return the row on a board of `metrics`; None where there is no figure for them."""


@dataclass(frozen=True)
class RankedFloor:
    """A trivial baseline that a submission comes with; `judge` is who judged it."""

    name: str
    scores: FilePlace
    judge: str


@dataclass(frozen=True)
class Board:
    """Systems by their score on one metric, the best first.

    Floors, reported rows and that of people are apart; `baseline` is the strongest floor.
    """

    key: BoardKey
    task: Task
    metric: Metric
    standings: tuple[RankedSystem, ...]
    floor_systems: tuple[RankedSystem, ...]
    floors: tuple[RankedFloor, ...]
    reported: tuple[Reported, ...]
    judge_known: bool = True
    beside: tuple[RowBeside, ...] = ()
    people: PeopleRow | None = None
    baseline: StrongestBaseline | None = None

    @property
    def by_difference(self) -> bool:
        """Whether it sorts by the paired difference from no memory, and not by the score."""
        return _by_difference(self.key, self.task, self.metric)

    @property
    def id(self) -> str:
        """Its name."""
        return self.key.id

    @property
    def any(self) -> RankedSystem:
        """One of its systems, to read from it what is the same for all."""
        return (*self.standings, *self.floor_systems)[0]

    @property
    def comparable(self) -> bool:
        """Whether its judge compares: not where nobody but submitters has asked it."""
        known = self.judge_known and bool(self.any.track["comparable"].value)
        return known or self.key.judge is None

    @property
    def judged_by(self) -> JudgedBy:
        """Who decides its scores."""
        return judged_by(str(self.any.track["judge"].value), decides=self.key.judge is not None)

    @cached_property
    def has_corrected(self) -> bool:
        """Whether corrected scores are shown too: where a judge's marks are averaged."""
        name = self.metric.name
        for row in (*self.standings, *self.floor_systems):
            if row.score(name)["corrected"] or row.track["audit"]["scores"][name]:
                return True
        return bool(self.metric.rubrics)

    @cached_property
    def has_worst_case(self) -> bool:
        """Whether any of its systems has records without a score."""
        return any(row.score(self.metric.name)["worst_case"] for row in self.standings)

    @cached_property
    def others(self) -> tuple[Metric, ...]:
        """The other metrics that any of its systems has a value of, in the order of the task.

        Those next to the headline that not every judge can tell are there without one, too.
        """
        rows = (*self.standings, *self.floor_systems)
        others = []
        for metric in self.task.metrics:
            fits = metric.judged == (self.key.judge is not None)
            scored = any(row.score(metric.name)["value"] for row in rows)
            scored |= (
                bool(metric.needs.relations) and metric.name in self.metric.on_boards.companions
            )
            if fits and scored and metric.name != self.metric.name:
                others.append(metric)
        return tuple(others)


def build_boards(
    systems: Sequence[SiteSystem], references: ReferenceFile, people: People | None = None
) -> list[Board]:
    """Return every board, by track; those under the official judge and with more systems first."""
    groups: dict[BoardKey, list[RankedSystem]] = {}
    for system in systems:
        for track, place in system.tracks.items():
            for metric in _leads(system, track, place):
                standing = RankedSystem(system, place, None, system.recomputed(track, metric))
                groups.setdefault(_key(system, track, metric, place), []).append(standing)
    order, known = list(board_tracks()), known_judges(systems)
    boards: list[Board] = []
    for track in order:
        # Read once for all boards of the track, and let go of before the next track.
        files = _Files(track, {}, {})
        held = _differences(systems, track)
        for key, rows in groups.items():
            if key.track == track:
                board = _board(key, rows, files, references, known, held=held)
                of_people = None if people is None else people.on(_printed(board))
                boards.append(replace(board, people=of_people))
    return sorted(boards, key=lambda board: _precedence(board, order))


@dataclass(frozen=True)
class _Files:
    """What the files of the systems on one track hold, by slug: scores by record, and answers."""

    track: str
    _scores: dict[str, Scores]
    _answers: dict[str, AnswerHashes]

    def scores(self, system: SiteSystem) -> Scores:
        """Return what a system scored on each record."""
        if system.slug not in self._scores:
            metrics = board_tracks()[self.track].metrics
            leading = [metric for metric in metrics if _leads_a_board(metric)]
            self._scores[system.slug] = record_scores(
                system.entry.rows(self.track, "scores"), leading
            )
        return self._scores[system.slug]

    def answers(self, system: SiteSystem) -> AnswerHashes:
        """Return the sketch of what a system answered."""
        if system.slug not in self._answers:
            task = task_under(self.track, system.card.tracks[self.track].conditions)
            self._answers[system.slug] = answers_of(
                system.entry.rows(self.track, "predictions"), task.public
            )
        return self._answers[system.slug]


def _differences(systems: Sequence[SiteSystem], track: str) -> dict[str, BoardDifference]:
    """Return the differences of a track by the slug of the system."""
    parts: dict[BoardPart, None] = {}
    for system in systems:
        if track in system.tracks:
            parts |= dict.fromkeys(parts_of(system.card))
    found: dict[str, BoardDifference] = {}
    for part in parts:
        found |= part.differences(systems, track)
    return found


def _printed(board: Board) -> Iterator[Metric]:
    """Yield the metric of a board, and those that are printed right beside it."""
    for metric in board.task.metrics:
        if metric is board.metric or metric.name in board.metric.on_boards.companions:
            yield metric


def known_judges(systems: Sequence[SiteSystem]) -> frozenset[str]:
    """Return the fingerprints of judges that others than submitters asked: ours, maintainers'."""
    # Anybody can name a judge and invent its verdicts. A maintainer's review under it is what lets
    # its board compare.
    known: set[str | None] = {fingerprint_id(LexicalJudge().fingerprint)}
    for system in systems:
        review = system.entry.review
        for track in review.tracks.values() if review is not None else ():
            known.add(track.judge_fingerprint)
    return frozenset(filter(None, known))


def _leads(system: SiteSystem, track: str, place: FilePlace) -> Iterator[str]:
    """Yield the metrics that a submission stands on a board for."""
    # One that was not admitted stands on the boards that it would have stood on.
    withheld = system.card.withheld(track)
    scores = place["scores"]
    metrics = [m for m in board_tracks()[track].metrics if withheld or scores[m.name]["value"]]
    leading = [metric for metric in metrics if _leads_a_board(metric)]
    for metric in leading or metrics[:1]:
        yield metric.name


def _leads_a_board(metric: Metric) -> bool:
    return metric.headline or metric.on_boards.own_board


def _key(system: SiteSystem, track: str, metric: str, place: FilePlace) -> BoardKey:
    row = place.value
    conditions, setup = row["conditions"], ""
    field_of_part = ""
    for name in fields_of(system.card):
        part = part_of(name)
        asked = part and part.setup(system.card, track, task_under(track, conditions))
        if asked:
            # Which system it is: what is compared on the board.
            conditions, field_of_part = without(conditions, name), name
            setup = json.dumps(asked, sort_keys=True, ensure_ascii=False)
    words = json.dumps(conditions, sort_keys=True, ensure_ascii=False)
    # What needs no judge is the same under all of them, and stands on one board.
    judge = None if metric in board_tracks()[track].unjudged else row["judge_fingerprint"]
    return BoardKey(track, metric, row["data_sha256"], words, row["n"], judge, setup, field_of_part)


def _by_difference(key: BoardKey, task: Task, metric: Metric) -> bool:
    return bool(key.setup) and metric.headline and needs_reader(task)


def _precedence(board: Board, order: Sequence[str]) -> tuple[Any, ...]:
    """Return what boards are sorted by: those under an unknown judge are last, however full."""
    by = ORDER.index(board.judged_by)
    # Anybody can name a judge: one that nobody but submitters has asked leads no page.
    trusted = (not board.metric.headline, not board.judge_known, by, not board.comparable)
    # Of how a memory system was run there are many ways, and what a track is about is none of them.
    order_of_trust = (bool(board.key.setup), *trusted)
    return order.index(board.key.track), *order_of_trust, -len(board.standings), board.id


def _board(
    key: BoardKey,
    rows: list[RankedSystem],
    files: _Files,
    references: ReferenceFile,
    known: frozenset[str],
    *,
    held: Mapping[str, BoardDifference],
) -> Board:
    task = task_under(key.track, rows[0].track["conditions"].value)
    metric = next(metric for metric in task.metrics if metric.name == key.metric)
    by_difference = _by_difference(key, task, metric)
    found = []
    for row in rows:
        judged = replace(row, again=row.system.again(key.track, key.metric))
        if by_difference:
            judged = replace(judged, difference=held[row.system.slug])
        found.append(replace(judged, records=_records(judged, metric, files)))
    rows = sorted(found, key=lambda row: _worth(row, metric, by_difference))
    floors, proven, others = _parted(rows)
    beside = {key.metric, *metric.on_boards.companions}
    embedded = tuple(_floors(rows, key))
    baseline = strongest(list(_baselines(floors, embedded, metric)))
    standings = [*_with_ranks(proven, files), *others]
    board = Board(
        key=key,
        task=task,
        metric=metric,
        standings=tuple(_above(row, baseline, metric, key.track) for row in standings),
        floor_systems=tuple(floors),
        floors=embedded,
        baseline=baseline,
        reported=(),
        judge_known=key.judge is None or key.judge in known,
        beside=_rows_beside(proven, key.track) if by_difference else (),
    )
    printed = {one.name for one in (metric, *board.others)} & beside
    return replace(board, reported=tuple(_reported(key, printed, references)))


def _parted(
    rows: Sequence[RankedSystem],
) -> tuple[list[RankedSystem], list[RankedSystem], list[RankedSystem]]:
    """Return the trivial baselines, the systems that are ranked, and those that are not proven."""
    floors: list[RankedSystem] = []
    proven: list[RankedSystem] = []
    others: list[RankedSystem] = []
    for row in rows:
        if row.system.is_floor:
            floors.append(row)
        else:
            (proven if _is_proven(row) else others).append(row)
    return floors, proven, others


def _is_proven(row: RankedSystem) -> bool:
    """Tell whether a standing takes part in the ranks."""
    # A score that is only its submitter's word would push others down a rank.
    doubted = row.system.refuted or row.withheld or row.difference.reason
    return row.recomputed and not doubted


def _baselines(
    systems: Sequence[RankedSystem], embedded: Sequence[RankedFloor], metric: Metric
) -> Iterator[StrongestBaseline]:
    """Yield the trivial baselines of a board that were recomputed."""
    for row in systems:
        # The strongest one counts: a made-up baseline would leave no system above it.
        if row.recomputed and not row.system.refuted:
            card, score = row.system.card, row.lead(metric.name)
            yield StrongestBaseline(card.name, row.system.slug, score, row.records)
    for floor in embedded:
        yield StrongestBaseline(floor.name, "", floor.scores[metric.name], {})


def _above(
    row: RankedSystem, baseline: StrongestBaseline | None, metric: Metric, track: str
) -> RankedSystem:
    """Return a standing with how far it is above the strongest trivial baseline."""
    if baseline is None or row.withheld or row.ahead is not None:
        return row
    sessions = row.system.sessions(track) if baseline.records else {}
    found = above(baseline, row.lead(metric.name), row.records, sessions, metric)
    return replace(row, above=found)


def _rows_beside(rows: Sequence[RankedSystem], track: str) -> tuple[RowBeside, ...]:
    """Return the rows beside the systems of a board, each memory once, the furthest ahead first."""
    found: dict[str, RowBeside] = {}
    for row in sorted((row for row in rows if row.recomputed), key=lambda row: row.system.slug):
        for part in parts_of(row.system.card):
            for other in part.beside(row.system, track):
                found.setdefault(other.memory, other)
    return tuple(sorted(found.values(), key=lambda row: -(row.ahead["value"].value or 0.0)))


def _reported(key: BoardKey, metrics: Set[str], references: ReferenceFile) -> Iterator[Reported]:
    conditions = json.loads(key.conditions)
    for row in references.on(key.track):
        if metrics & row.scores.keys() and row.table.fits(conditions):
            yield row


def _worth(row: RankedSystem, metric: Metric, by_difference: bool) -> tuple[Any, ...]:
    """Return what a board is sorted by: recomputed scores, then those of all records, the best."""
    if row.withheld:
        return row.system.refuted, True, True, 0.0, row.system.slug
    n, scored = row.score(metric.name)["n"].value, row.track["scored"].value
    # A metric on fewer records than were scored, such as MRR, is of those that were ranked at will.
    partial = n < scored and row.again is None
    worth = -float(row.counted(metric.name).value)
    unproven = not row.recomputed
    if by_difference:
        unproven |= row.ahead is None
        worth = worth if row.ahead is None else -float(row.ahead["value"].value or 0.0)
    return row.system.refuted, unproven, partial, worth, row.system.slug


def _with_ranks(rows: list[RankedSystem], files: _Files) -> list[RankedSystem]:
    """Return the standings with their ranks; copies of a submission have its rank."""
    if not rows:
        return []
    original = _originals(rows, files)
    distinct = [row for row in rows if original[row.system.slug] == row.system.slug]
    ranks = _ranks([row.records for row in distinct], rows[0].system.sessions(files.track))
    # Copies of one system, alone on a board, share its one place.
    if len(distinct) == 1 and len(rows) > 1:
        ranks = [Rank(1, 1)]
    by_slug: dict[str, Rank | None] = {}
    for row, rank in zip(distinct, ranks, strict=True):
        by_slug[row.system.slug] = rank
    ranked = []
    for row in rows:
        first = original[row.system.slug]
        copy_of = None if first == row.system.slug else first
        ranked.append(replace(row, rank=by_slug[first], copy_of=copy_of))
    return ranked


def _originals(rows: Sequence[RankedSystem], files: _Files) -> dict[str, str]:
    """Return by its name the system that each has the answers of: itself where it is no copy."""
    # Who of several with the same answers is called a copy: the reviewed and the earliest not.
    order = sorted(
        rows, key=lambda row: (row.again is None, row.system.card.submitted, row.system.slug)
    )
    firsts = originals([files.answers(row.system) for row in order])
    slugs = [row.system.slug for row in order]
    return {slug: slugs[first] for slug, first in zip(slugs, firsts, strict=True)}


def _records(row: RankedSystem, metric: Metric, files: _Files) -> dict[str, float]:
    """Return what is tested by record: scores, moved to a maintainer's mean if any.

    On a board that sorts by the difference from no memory it is that difference.
    """
    own = files.scores(row.system).get(metric.name, {})
    submitted = row.score(metric.name)["value"].value
    if row.again is not None and submitted is not None:
        # A review has means alone; the tests need records, so all move by the same amount.
        moved = float(row.again["value"].value) - float(submitted)
        own = {name: value + moved for name, value in own.items()}
    if row.ahead is None:
        return own
    none = row.difference.scores.get(metric.name, {})
    return {name: value - none[name] for name, value in own.items() if name in none}


def _floors(rows: Sequence[RankedSystem], key: BoardKey) -> Iterator[RankedFloor]:
    """Yield each floor once: on one board they are the same for all submissions."""
    # Those of a submission that nobody could recompute are its own word, and left out.
    rows = sorted((row for row in rows if row.recomputed), key=lambda row: row.system.slug)
    seen = {row.system.card.system.model for row in rows if row.system.is_floor}
    for row in rows:
        for name, floor in row.track["floors"].items():
            if name not in seen and floor["scores"][key.metric]["value"]:
                seen.add(name)
                yield RankedFloor(name, floor["scores"], str(floor["judge"].value))


def _ranks(
    records: Sequence[Mapping[str, float]], sessions: Mapping[str, str]
) -> list[Rank | None]:
    unranked: list[Rank | None] = [None] * len(records)
    if len(records) < 2 or not all(records):
        return unranked
    names = sorted(set().union(*records))
    matrix = np.full((len(records), len(names)), nan)
    for n, own in enumerate(records):
        matrix[n] = [own.get(name, nan) for name in names]
    # Where sessions are not known, each row of the data is one of its own.
    clusters = [sessions.get(name, name.partition(":")[0]) for name in names]
    return list(rank_classes(matrix, clusters) or unranked)
