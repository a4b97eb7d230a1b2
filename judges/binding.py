"""What a calibration is bound to: one judge, one rubric and a span of time.

Under anything else it says nothing.

Calibrations are files in the form of `calibration.json`. They are looked for in
`judges/calibrations/` of the package and in the user's own folder: `ALPS_CALIBRATIONS`, else
`calibrations` among the user's data of alps.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from alps.folders import user_folder
from alps.judges.asking import rubric_of
from alps.judges.base import Judge, fingerprint_id
from alps.judges.calibration_file import CalibrationRow, RubricRow, read_calibration_row

VALID_DAYS = 180
"""For how long a calibration counts unless it says otherwise: providers change models without a new
name.
"""

_MONTH, _DAY = "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
_SNAPSHOT = re.compile(
    rf"20\d\d-?{_MONTH}-?{_DAY}|[-@](?:{_MONTH}{_DAY}|2\d{_MONTH})(?!\d)|@[0-9a-f]{{7,}}"
)


@dataclass(frozen=True)
class Calibration:
    """A calibration as it was written, and the file that it stands in."""

    row: CalibrationRow
    path: Path

    @property
    def judge(self) -> str:
        """The name of the judge that was calibrated."""
        return self.row.judge

    @property
    def rubrics(self) -> Mapping[str, RubricRow]:
        """What was found, by rubric."""
        return self.row.rubrics


def is_pinned(judge: Judge) -> bool:
    """Tell whether a judge's name holds a dated snapshot; embedded judges are pinned by their code."""
    name = str(judge.fingerprint.get("judge", judge.name))
    return "/" not in name or (_SNAPSHOT.search(name) is not None and "latest" not in name)


def bound(
    row: Mapping[str, Any],
    judge: Judge,
    *,
    today: date,
    days: int = VALID_DAYS,
    api_base: str | None = None,
) -> dict[str, Any]:
    """Bind the row of a calibration to the judge that it is of, to its rubrics and to the time that
    it counts.
    """
    rubrics = {
        name: {**found, "rubric_sha256": _rubric_hash(judge, name)}
        for name, found in row["rubrics"].items()
    }
    return {
        **row,
        "fingerprint": fingerprint_id(judge.fingerprint),
        "judge_fingerprint": dict(judge.fingerprint),
        "api_base": api_base,
        "pinned": is_pinned(judge),
        "made": today.isoformat(),
        "expires": (today + timedelta(days=days)).isoformat(),
        "rubrics": rubrics,
    }


def differing_part(
    calibration: Calibration, judge: Judge, rubric: str, *, today: date
) -> str | None:
    """Say what keeps a calibration from being used for `judge` under `rubric`.

    None where nothing does.
    """
    row = calibration.row
    then, now = row.judge_fingerprint, json.loads(json.dumps(judge.fingerprint))
    if then is None:
        return "it is of recorded verdicts, which are bound to no judge"
    for name in sorted({*then, *now}, key=lambda name: (name != "judge", name)):
        if then.get(name) != now.get(name):
            return f"judge.{name} was {_short(then.get(name))}, and is {_short(now.get(name))}"
    found = row.rubrics.get(rubric)
    if found is None:
        return f"it holds no rubric {rubric}"
    if found.acceptance is not None:
        return "it is of items made right or wrong on purpose, on which a judge errs otherwise"
    if found.rubric_sha256 != _rubric_hash(judge, rubric):
        return f"the text of rubric {rubric} has changed since"
    return _expired(row.expires, today)


def _expired(expires: str | None, today: date) -> str | None:
    try:
        last = date.fromisoformat(expires or "")
    except ValueError:
        return f"its expiry, {_short(expires)}, is no day"
    return f"it expired on {last.isoformat()}" if last < today else None


def own_calibrations() -> Path:
    """Return where the user's own calibrations lie."""
    if chosen := os.environ.get("ALPS_CALIBRATIONS"):
        return Path(chosen).expanduser()
    return (user_folder("data") or Path(os.devnull)) / "calibrations"


def calibration_files() -> list[Path]:
    """Return the calibrations of the user's folder, then those of the package, each in the order of
    their paths.
    """
    shipped = Path(str(files("alps.judges"))) / "calibrations"
    return [path for folder in (own_calibrations(), shipped) for path in _files(folder)]


def read_calibration(path: Path) -> Calibration:
    """Read a calibration: a file, or the `calibration.json` of a folder.

    Raises:
        UsageError: If there is none.
        DataError: If it is not what `alps calibrate` writes.
    """
    file = path / "calibration.json" if path.is_dir() else path
    return Calibration(read_calibration_row(file), file)


def _files(folder: Path) -> Iterable[Path]:
    readable = os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK)
    return sorted({*folder.glob("*.json"), *folder.glob("*/calibration.json")}) if readable else ()


def _rubric_hash(judge: Judge, name: str) -> str | None:
    """Return the hash of what the judge is told under a rubric; None for judges that read none."""
    hashes = judge.fingerprint_for((rubric_of(name),)).get("rubrics")
    return str(next(iter(hashes.values()))) if hashes else None


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}…"
