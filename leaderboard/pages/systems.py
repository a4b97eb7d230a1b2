"""Pages of systems and of judges."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from pydantic_core import from_json

from alps.judges.embedded import AGREEMENTS, is_embedded_judge
from alps.leaderboard.pages import NOTHING, FilePlace, bounds, figure, pair, whole
from alps.leaderboard.pages.board_table import (
    corrected,
    delta_of,
    foreign,
    known_items,
    metric_title,
    rank_of,
)
from alps.leaderboard.pages.charts import matrix_of, score_whisker
from alps.leaderboard.pages.common import Content, Renderer, judge_id, page_of, records_folder, view
from alps.leaderboard.pages.multiples import beside_of, multiples_of
from alps.leaderboard.parts import parts_of
from alps.leaderboard.ranking import Board, RankedSystem
from alps.leaderboard.site_data import CALIBRATIONS, SiteSystem, calibrations_in
from alps.leaderboard.submission import histories
from alps.show.charts import axis_of
from alps.show.svg import Axis, axis_labels
from alps.tasks import Metric, Task, board_tracks

# What a calibration's page shows of each rubric.
FIGURES = {
    "kappa": "kappa with people",
    "people_kappa": "inter-annotator agreement (kappa)",
    "agreement": "agreement",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "mae": "mean absolute error",
}


# What a template shows of one thing, by the names that it has there.
Shown = dict[str, Any]


@dataclass(frozen=True)
class NamedJudge:
    """A judge as submissions name it."""

    id: str
    name: str
    comparable: bool
    parts: list[tuple[str, str]]
    systems: list[SiteSystem]
    boards: list[Board]
    calibrations: list[FilePlace]
    used: list[tuple[str, str]]

    @property
    def fit(self) -> bool:
        """Whether people's labels have shown it to be fit for any rubric."""
        verdicts = []
        for place in self.calibrations:
            verdicts += [rubric["verdict"].value for _, rubric in place["rubrics"].items()]
        return any(verdict != "fail" for verdict in verdicts)

    @property
    def badge(self) -> str:
        """How far its scores can be trusted, in two words."""
        if self.fit:
            return "calibrated"
        return "debugging only" if is_embedded_judge(self.name) else "not calibrated"

    @property
    def agreement(self) -> str:
        """Measured agreement of an embedded judge with others; else empty."""
        return AGREEMENTS.get(self.name, "")

    @property
    def trust(self) -> str:
        """How far its scores can be trusted, in a sentence."""
        if self.fit:
            return (
                "This judge passed a calibration against human labels for at least one rubric; "
                "the judge's page shows the result for each rubric."
            )
        if self.calibrations or self.agreement:
            whom = "human labels" if self.calibrations else "LLM verdicts"
            return (
                f"Use this judge only for debugging: its agreement with {whom} is too low for "
                "ranking."
            )
        unknown = "This judge has not been compared with human labels"
        if self.comparable:
            return f"{unknown}, so its accuracy is unknown."
        alone = "only submitters have used it, so no maintainer has confirmed its scores."
        return f"{unknown}, and {alone}"


def write_systems(renderer: Renderer) -> None:
    """Write the page of every system, and the list of them."""
    content = renderer.content
    renderer.write("systems.html", "systems.html", systems=content.systems)
    # Versions by the day they came, then by name: the same submissions give the same page.
    ordered = sorted(content.systems, key=lambda one: (one.card.submitted, one.slug))
    links = {}
    for system in ordered:
        # Only a maintainer's word joins histories: name and organisation are free for all to take.
        review = system.entry.review
        links[system.slug] = review.continues if review else None
    joined = histories(links)
    for system in content.systems:
        versions = [other for other in ordered if other.slug in joined[system.slug]]
        _write_system(renderer, system, versions if len(versions) > 1 else [])


def _write_system(renderer: Renderer, system: SiteSystem, versions: list[SiteSystem]) -> None:
    settings = []
    for name, value in sorted(system.card.system.settings.items()):
        if value is not None:
            settings.append((name, text_of(value)))
    further: list[Markup] = []
    for part in parts_of(system.card):
        further += part.on_page(renderer, system)
    renderer.write(
        f"systems/{system.slug}.html",
        "system.html",
        system=system,
        card=system.card,
        boarded={page_of(board.task) for board in renderer.content.boards},
        runs=[system.root["runs"][n] for n in range(len(system.card.runs))],
        settings=settings,
        further=further,
        tracks=[_track(renderer.content, system, n) for n in board_tracks() if n in system.tracks],
        versions=versions,
        tiles=list(_tiles(renderer.content, system)),
        multiples=list(multiples_of(renderer.content, system)),
        besides=list(beside_of(renderer.content, system)),
    )


def _tiles(content: Content, system: SiteSystem) -> Iterator[Shown]:
    """Yield a tile for the leading board of every track: the score, its rank and difference."""
    seen = set()
    for board, row in content.by_system.get(system.slug, ()):
        score = row.lead(board.metric.name)
        if board.key.track in seen or row.withheld or not score["value"]:
            continue
        seen.add(board.key.track)
        rank = Markup("not ranked · ")
        if written := rank_of(board, row):
            rank = Markup("rank {} · ").format(written)
        judge = Markup("no judge needed")
        if board.key.judge is not None:
            judge = Markup("judged by {}").format(foreign(str(row.track["judge"].value)))
        delta = delta_of(row, board)
        yield {
            "title": board.task.heading,
            "page": page_of(board.task),
            "metric": metric_title(board.metric),
            "value": figure(score["value"]),
            "bounds": bounds(score),
            "delta": Markup("{} · ").format(delta) if delta else delta,
            "rank": rank,
            "n": figure(score["n"], whole),
            "judged": judge,
        }


def text_of(value: object) -> str:
    """Return a setting in words."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _failures(place: FilePlace) -> list[tuple[str, FilePlace]]:
    """Return how many answers failed by kind, then how many judgements."""
    failures = list(place["failed_predictions"].items())
    for kind, count in place["failed_judgements"].items():
        failures.append((f"judgement: {kind}", count))
    return failures


def _track(content: Content, system: SiteSystem, name: str) -> Shown:
    task, place = board_tracks()[name], system.tracks[name]
    standings = []
    for board, row in content.by_system.get(system.slug, ()):
        if board.key.track == name:
            standings.append((board, row))
    again = system.review["tracks"][name]["scores"]
    known = system.on_pages(name)
    matrix = matrix_of(place["counts"])
    scores, withheld = dict(place["scores"].items()), system.card.withheld(name)
    unproven = has_corrected = False
    drawn = system.audit_is_drawn(name)
    for metric, score in scores.items():
        has_corrected |= bool(score["corrected"] or place["audit"]["scores"][metric])
        unproven |= bool(score["value"]) and not system.recomputed(name, metric)
    return {
        "task": task,
        "title": task.heading,
        "place": place,
        "run": system.run(name),
        "judge": judge_id(system, name),
        "scales": [] if withheld else list(_scales(task, place, standings, again, drawn)),
        "floors": list(_floors(place)),
        "failures": _failures(place),
        "matrix": matrix if matrix.rows else None,
        "boards": [board for board, _ in standings],
        "records": f"records/{records_folder(task)}/" if known is not None else "",
        "has_corrected": has_corrected,
        "has_again": bool(again),
        "recomputed": not unproven,
        "known": known_items(system, task),
    }


def _scales(
    task: Task,
    place: FilePlace,
    standings: list[tuple[Board, RankedSystem]],
    again: FilePlace,
    drawn: bool,
) -> Iterator[tuple[Markup, list[Shown]]]:
    """Yield the metrics by the axis that they are drawn on."""
    scores = dict(place["scores"].items())
    metrics = {metric.name: metric for metric in task.metrics if metric.name in scores}
    # A card may hold figures that this version no longer measures: they stand last.
    for name in scores:
        metrics.setdefault(name, Metric(name, name))
    by_axis: dict[Axis, list[Shown]] = {}
    for name, metric in metrics.items():
        shown = NOTHING
        if metric.judged:
            shown = corrected(scores[name], place["audit"], metric, task, drawn=drawn)
        row = _row(metric, scores[name], standings, again[name], shown)
        by_axis.setdefault(axis_of(metric), []).append(row)
    for axis, rows in by_axis.items():
        yield axis_labels(axis), rows


def _row(
    metric: Metric,
    score: FilePlace,
    standings: list[tuple[Board, RankedSystem]],
    again: FilePlace,
    shown: Markup,
) -> Shown:
    own = [one for one in standings if one[0].metric.name == metric.name]
    ranks = [rank_of(board, standing) for board, standing in own[:1]]
    return {
        "title": metric_title(metric),
        "lead": metric.headline,
        "lower": metric.lower_is_better,
        "value": figure(score["value"]),
        "bounds": bounds(score),
        "drawn": score_whisker(score, axis_of(metric)),
        "corrected": shown,
        "again": pair(again),
        "rank": next(filter(None, ranks), NOTHING),
        "n": score["n"],
        "unscored": str(score["unscored"].value or ""),
        "reason": str(score["reason"].value or ""),
    }


def _floors(place: FilePlace) -> Iterator[tuple[str, str, Markup]]:
    for name, floor in place["floors"].items():
        # The run's own figure may be one that the judge of the baseline can't tell.
        lead = str(floor["lead"].value)
        yield name, str(floor["judge"].value), pair(floor["scores"][lead])


def write_judges(renderer: Renderer) -> None:
    """Write the page of every judge, and the list of them."""
    judges = _judges(renderer.content)
    renderer.write("judges.html", "judges.html", judges=judges)
    for judge in judges:
        renderer.write(
            f"judges/{judge.id}.html",
            "judge.html",
            judge=judge,
            views=[view(board, root="../", most=0, brief=True) for board in judge.boards],
            figures=FIGURES,
        )


def _judges(content: Content) -> list[NamedJudge]:
    """Return the judges of all submissions, those that compare first."""
    tracks: dict[str, list[tuple[SiteSystem, str]]] = {}
    for system in content.systems:
        for track in system.tracks:
            tracks.setdefault(judge_id(system, track), []).append((system, track))
    judges = [_judge(content, name, rows) for name, rows in tracks.items()]
    return sorted(judges, key=lambda one: (not one.comparable, -len(one.systems), one.id))


def _judge(content: Content, name: str, rows: list[tuple[SiteSystem, str]]) -> NamedJudge:
    # A fingerprint is of the judge and its rubrics, so that any of its tracks tells them.
    system, track = rows[0]
    place, parts = system.tracks[track], system.run(track)["judge"]
    boards = [board for board in content.boards if board.key.judge == name]
    # A run names its judge where no score needs one, too.
    judged = {one.slug: one for one, track in rows if board_tracks()[track].judged}
    return NamedJudge(
        id=name,
        name=str(place["judge"].value),
        comparable=bool(place["comparable"].value) and all(board.judge_known for board in boards),
        parts=[(key, text_of(part.value)) for key, part in parts.items() if key != "id"],
        systems=list(judged.values()),
        boards=boards,
        calibrations=list(_calibrations(parts.value)),
        used=sorted(_used_calibrations(rows)),
    )


def _used_calibrations(rows: Sequence[tuple[SiteSystem, str]]) -> set[tuple[str, str]]:
    """Return the calibrations, with their hashes, that scores of these tracks were corrected by."""
    used = set()
    for system, track in rows:
        for _, score in system.tracks[track]["scores"].items():
            for calibration, sha in score["corrected"]["calibration"].items():
                used.add((calibration, str(sha.value)))
    return used


def _calibrations(parts: Mapping[str, Any]) -> Iterator[FilePlace]:
    """Yield the package's own calibrations of a judge: those whose parts are all its own."""
    for path in calibrations_in(CALIBRATIONS):
        name = f"judges/calibrations/{path.relative_to(CALIBRATIONS).as_posix()}"
        root = FilePlace(name, "", from_json(path.read_bytes()))
        # One that names no parts would fit every judge.
        bound = root["judge_fingerprint"].value
        if not isinstance(bound, dict) or not bound:
            continue
        if all(parts.get(key) == part for key, part in bound.items()):
            yield root
