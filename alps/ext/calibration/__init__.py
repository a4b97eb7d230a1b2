"""Calibration of judges against people: label folders, asking, figures, gates and reports."""

from pathlib import Path
from typing import Any

from alps.extension import Extension

OFF = "off"
"""`calibration=off`: no score is corrected."""
FITTED = "fitted:"


def _has_part(settings: Any, folder: Path) -> bool:
    # The lexical judge rates nothing, so that there is no score of its own to correct.
    nothing = settings.calibration is None and settings.judge == "lexical"
    return not nothing and settings.calibration != OFF


def _next_step(finished: Any) -> str:
    """Name the command by which people check the LLM that judged."""
    if "/" not in finished.summary.judge:
        return ""
    from alps.ext.calibration.next_steps import after_run

    command = after_run(finished.folder, finished.summary, finished.tasks)
    return f"People can check this judge: {command}" if command else ""


def _shows(summary: Any) -> bool:
    for track in summary.tracks.values():
        if any(score.corrected is not None for score in track.scores.values()):
            return True
    return False


EXTENSION = Extension(
    "calibration",
    needs=("audits",),
    commands={"calibrate": "alps.ext.calibration.commands:calibrate"},
    heading="Judge",
    moved={"calibrations": "calibrate list"},
    removed={
        "transport": "audit the run instead, with audit_judge=… audit=20% or audit_labels=FOLDER"
    },
    exports={"calibrate": "alps.ext.calibration.api:calibrate"},
    has_part=_has_part,
    next_step=_next_step,
    part="alps.ext.calibration.part:Part",
    judging="alps.ext.calibration.settings:CorrectionKeys",
    judges={
        FITTED: "alps.ext.calibration.fitted:FittedJudge",
        "people:": "alps.ext.calibration.people:PeopleJudge",
    },
    operational=("calibration",),
    rescores=lambda typed: set(typed) == {"calibration"},
    rescore="alps.ext.calibration.correct_again:correct_again",
    shows=_shows,
    shown="alps.ext.calibration.table:Shown",
    board="alps.ext.calibration.board:BOARD",
    on_card="corrected",
)
