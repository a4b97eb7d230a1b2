"""Calibration of judges against people: label folders, asking, figures, gates and reports."""

from alps.extension import Extension

EXTENSION = Extension(
    "calibration",
    commands={
        "labels": "alps.ext.calibration.commands:labels",
        "calibrate": "alps.ext.calibration.commands:calibrate",
        "calibrations": "alps.ext.calibration.commands:calibrations",
    },
)
