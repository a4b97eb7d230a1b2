"""The page of a judge: its fingerprint and parts, how far it is calibrated, and the boards that
hang on it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from alps.judges.lexical import AGREEMENT
from alps.leaderboard.boards import Board
from alps.leaderboard.pages.common import Content, Renderer, judge_id, view
from alps.leaderboard.provenance import Place
from alps.leaderboard.site_data import System

CALIBRATIONS = Path(str(files("alps.judges"))) / "calibrations"
FIGURES = {
    "kappa": "kappa with people",
    "people_kappa": "kappa of people with each other",
    "agreement": "agreement",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "mae": "mean absolute error",
}
"""What a calibration's page shows of each rubric."""


@dataclass(frozen=True)
class Judge:
    """A judge as submissions name it."""

    id: str
    name: str
    comparable: bool
    parts: list[tuple[str, str]]
    systems: list[System]
    boards: list[Board]
    calibrations: list[Place]
    used: list[tuple[str, str]]

    @property
    def badge(self) -> str:
        """How far its scores can be trusted, in two words."""
        if self.calibrations:
            return "calibrated"
        return "uncalibrated" if self.comparable else "not comparable"


def write_judges(renderer: Renderer) -> None:
    """Write the page of every judge, and the list of them."""
    judges = list(judges_of(renderer.content))
    renderer.write("judges.html", "judges.html", judges=judges)
    for judge in judges:
        renderer.write(
            f"judges/{judge.id}.html",
            "judge.html",
            judge=judge,
            views=[view(board, root="../", most=0, brief=True) for board in judge.boards],
            figures=FIGURES,
            agreement=AGREEMENT if judge.name == "lexical" else "",
        )


def judges_of(content: Content) -> Iterator[Judge]:
    """Yield the judges of all submissions, those that compare first."""
    held: dict[str, list[tuple[System, str]]] = {}
    for system in content.systems:
        for track in system.tracks:
            held.setdefault(judge_id(system, track), []).append((system, track))
    found = [_judge(content, name, rows) for name, rows in held.items()]
    yield from sorted(
        found, key=lambda judge: (not judge.comparable, -len(judge.systems), judge.id)
    )


def _judge(content: Content, name: str, rows: list[tuple[System, str]]) -> Judge:
    system, track = rows[0]
    place = system.tracks[track]
    used = {
        (calibration, str(sha.value))
        for one, on in rows
        for _, score in one.tracks[on]["scores"].items()
        for calibration, sha in score["corrected"]["calibration"].items()
    }
    boards = [board for board in content.boards if board.key.judge == name]
    return Judge(
        id=name,
        name=str(place["judge"].value),
        comparable=bool(place["comparable"].value) and all(board.judge_known for board in boards),
        parts=[
            (key, _said(part.value))
            for key, part in system.run(track)["judge"].items()
            if key != "id"
        ],
        systems=list({one.slug: one for one, _ in rows}.values()),
        boards=boards,
        calibrations=list(_calibrations(system.run(track)["judge"].value)),
        used=sorted(used),
    )


def _said(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _calibrations(parts: Mapping[str, Any]) -> Iterator[Place]:
    """Yield the package's own calibrations of a judge: those whose parts are all the same as its
    own.
    """
    for path in sorted({*CALIBRATIONS.glob("*.json"), *CALIBRATIONS.glob("*/calibration.json")}):
        name = f"judges/calibrations/{path.relative_to(CALIBRATIONS).as_posix()}"
        root = Place(name, "", from_json(path.read_bytes()))
        bound = root["judge_fingerprint"].value
        if (
            isinstance(bound, dict)
            and bound
            and all(parts.get(key) == part for key, part in bound.items())
        ):
            yield root
