"""The official data set and judge of all boards, as `official.toml` names them.

The file is a `config=` of `alps run`. Systems under its judge, and scores that need no judge, come
first on every page; those under other LLM judges follow, and embedded judges, which are for
debugging, come last.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

from alps.judges.calibration_file import read_calibration
from alps.judges.embedded import is_embedded_judge

OFFICIAL = Path(__file__).with_name("official.toml")
CALIBRATIONS = Path(str(files("alps.judges"))) / "calibrations"

JudgedBy = Literal["official", "llm", "embedded"]
"""Who decides a score: the official judge or none, another LLM, or an embedded judge."""
ORDER: tuple[JudgedBy, ...] = ("official", "llm", "embedded")


@dataclass(frozen=True)
class Official:
    """The settings that all boards share, and whether a calibration of the judge passes."""

    data: str
    split: str
    judge: str
    calibrated: bool


@cache
def official() -> Official:
    """Return what `official.toml` names."""
    rows = tomllib.loads(OFFICIAL.read_text(encoding="utf-8"))
    judge = str(rows["judge"])
    return Official(str(rows["data"]), str(rows["split"]), judge, _passes(judge))


def judged_by(judge: str, *, decides: bool) -> JudgedBy:
    """Tell who decides a score of a run with a judge; `decides` is whether it has a part in it."""
    if not decides or judge == official().judge:
        return "official"
    return "embedded" if is_embedded_judge(judge) else "llm"


def _passes(judge: str) -> bool:
    """Tell whether any calibration of the package shows a judge to be fit for a rubric."""
    for path in calibrations_in(CALIBRATIONS):
        calibration = read_calibration(path)
        verdicts = {rubric.verdict for rubric in calibration.rubrics.values()}
        if calibration.judge == judge and verdicts - {"fail", "?"}:
            return True
    return False


def calibrations_in(folder: Path) -> list[Path]:
    """Return the files of the calibrations in a folder."""
    return sorted({*folder.glob("*.json"), *folder.glob("*/calibration.json")})
