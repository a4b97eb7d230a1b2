"""`alps.calibrate`: what the command does, as a function."""

from pathlib import Path
from typing import Any

from alps.api import called, plain
from alps.ext.calibration.calibrate import Calibrated, calibrate_judge
from alps.ext.calibration.settings import CalibrateSettings
from alps.parsing import parse_settings


def calibrate(*, judge: str, labels: str | Path, **settings: Any) -> Calibrated:
    """Compare a judge with people's labels, rubric by rubric.

    Args:
        judge: A litellm model, or `lexical`.
        labels: A folder of labels, or `stress`: items whose answers are known.
        settings: Any other setting of `alps calibrate`.

    Raises:
        AlpsError: If labels, judge or folder can't be used.
    """
    given = {"judge": judge, "labels": str(labels), **settings}
    parsed = parse_settings(plain(given), CalibrateSettings)
    return called(lambda: calibrate_judge(parsed))
