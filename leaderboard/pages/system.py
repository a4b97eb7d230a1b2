"""The page of a system: its card, what it cost, what failed, every score of every track, and its
earlier versions.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from alps.leaderboard.boards import Board
from alps.leaderboard.figures import scale, whisker
from alps.leaderboard.gold_data import all_tracks, known_track
from alps.leaderboard.pages.common import Content, Renderer, judge_id, track_title
from alps.leaderboard.pages.matrix import Matrix, matrix_of
from alps.leaderboard.provenance import NOTHING, Place, bounds, computed, figure, pair
from alps.leaderboard.reviews import histories
from alps.leaderboard.site_data import System
from alps.leaderboard.submission import NO_JUDGE
from alps.leaderboard.tables import corrected, metric_title
from alps.tasks import Metric, Task


@dataclass(frozen=True)
class ScoreRow:
    """One metric of a track."""

    title: str
    lead: bool
    lower: bool
    value: Markup
    bounds: Markup
    drawn: Markup
    corrected: Markup
    again: Markup
    rank: Markup
    n: Place
    unscored: str
    reason: str


@dataclass(frozen=True)
class TrackView:
    """One track of a system."""

    task: Task
    title: str
    place: Place
    run: Place
    judge: str
    scales: list[tuple[Markup, list[ScoreRow]]]
    floors: list[tuple[str, str, Markup]]
    failures: list[tuple[str, Place]]
    matrix: Matrix | None
    boards: list[Board]
    records: str
    has_corrected: bool
    has_again: bool
    recomputed: bool


def write_systems(renderer: Renderer) -> None:
    """Write the page of every system, and the list of them."""
    content = renderer.content
    renderer.write("systems.html", "systems.html", systems=content.systems)
    ordered = sorted(content.systems, key=lambda one: (one.card.submitted, one.slug))
    reviews = {system.slug: system.entry.review for system in ordered}
    joined = histories(
        {slug: review.continues if review else None for slug, review in reviews.items()}
    )
    for system in content.systems:
        others = [other for other in ordered if other.slug in joined[system.slug]]
        renderer.write(
            f"systems/{system.slug}.html",
            "system.html",
            system=system,
            card=system.card,
            runs=[system.root["runs"][n] for n in range(len(system.card.runs))],
            settings=_settings(system.card.system.settings),
            tracks=[
                _track(content, system, name) for name in all_tracks() if name in system.tracks
            ],
            versions=others if len(others) > 1 else [],
        )


def _settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in sorted(settings.items())
        if value is not None
    ]


def _track(content: Content, system: System, name: str) -> TrackView:
    task, place = all_tracks()[name], system.tracks[name]
    boards = [board for board in content.by_system.get(system.slug, ()) if board.key.track == name]
    again = system.review["tracks"][name]["scores"]
    known = known_track(name, str(place["data_sha256"].value))
    matrix = matrix_of(place["counts"]) if task.name == "update" else None
    return TrackView(
        task=task,
        title=track_title(task),
        place=place,
        run=system.run(name),
        judge=judge_id(system, name),
        scales=list(_scales(task, place, boards, again, system.slug)),
        floors=list(_floors(place)),
        failures=[*place["failed_predictions"].items(), *_judgements(place)],
        matrix=matrix if matrix is not None and matrix.rows else None,
        boards=boards,
        records=f"records/{'task3' if task.pool_size else name}/" if known is not None else "",
        has_corrected=any(score["corrected"] for _, score in place["scores"].items()),
        has_again=bool(again),
        recomputed=all(
            system.recomputed(name, metric)
            for metric, score in place["scores"].items()
            if score["value"]
        ),
    )


def _judgements(place: Place) -> Iterator[tuple[str, Place]]:
    for kind, count in place["failed_judgements"].items():
        yield f"judgement: {kind}", count


def _scales(
    task: Task, place: Place, boards: list[Board], again: Place, slug: str
) -> Iterator[tuple[Markup, list[ScoreRow]]]:
    """Yield the metrics by the axis that they are drawn on."""
    known = {metric.name: metric for metric in task.metrics}
    held = [name for name, _ in place["scores"].items()]
    metrics = [metric for name, metric in known.items() if name in held]
    metrics += [Metric(name, name) for name in held if name not in known]
    for ends in dict.fromkeys((metric.lowest, metric.highest) for metric in metrics):
        of_scale = [metric for metric in metrics if (metric.lowest, metric.highest) == ends]
        yield (
            scale(*ends),
            [
                _row(metric, place["scores"][metric.name], boards, again, slug)
                for metric in of_scale
            ],
        )


def _row(metric: Metric, score: Place, boards: list[Board], again: Place, slug: str) -> ScoreRow:
    board = next((board for board in boards if board.metric.name == metric.name), None)
    standing = (
        next((s for s in board.standings if s.system.slug == slug), None)
        if board is not None
        else None
    )
    rank = NOTHING
    if board is not None and standing is not None and standing.rank is not None:
        rank = computed(standing.rank.best, "rank", board.id, slug, written=str(standing.rank))
    return ScoreRow(
        title=metric_title(metric),
        lead=metric.headline,
        lower=metric.lower_is_better,
        value=figure(score["value"]),
        bounds=bounds(score),
        drawn=whisker(score, lowest=metric.lowest, highest=metric.highest),
        corrected=corrected(score) if metric.name not in NO_JUDGE else NOTHING,
        again=pair(again[metric.name]),
        rank=rank,
        n=score["n"],
        unscored=str(score["unscored"].value or ""),
        reason=str(score["reason"].value or ""),
    )


def _floors(place: Place) -> Iterator[tuple[str, str, Markup]]:
    for name, floor in place["floors"].items():
        lead = str(floor["lead"].value)
        yield name, str(floor["judge"].value), pair(floor["scores"][lead])
