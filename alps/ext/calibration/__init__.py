"""Calibration of judges against people: label folders, asking, figures, gates and reports."""

from pathlib import Path
from typing import Any

from alps.extension import Extension

OFF = "off"
"""`calibration=off`: no score is corrected."""


def _has_part(settings: Any, folder: Path) -> bool:
    return bool(settings.calibration != OFF)


EXTENSION = Extension(
    "calibration",
    needs=("audits",),
    commands={
        "labels": "alps.ext.calibration.commands:labels",
        "calibrate": "alps.ext.calibration.commands:calibrate",
        "calibrations": "alps.ext.calibration.commands:calibrations",
    },
    has_part=_has_part,
    part="alps.ext.calibration.part:Part",
    rescores=lambda typed: set(typed) == {"calibration"},
    rescore="alps.ext.calibration.correct_again:correct_again",
    board="alps.ext.calibration.board:BOARD",
    on_card="corrected",
)
