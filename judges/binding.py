"""What a calibration is bound to: one judge, one rubric and a span of time. Under anything else it says nothing.

Calibrations are files in the form of `calibration.json`. They are looked for in `judges/calibrations/` of the package
and in the user's own folder: `ALPS_CALIBRATIONS`, else `calibrations` among the user's data of alps.
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

from alps.errors import DataError, UsageError
from alps.judges.asking import rubric_of
from alps.judges.base import Judge, fingerprint_id

VALID_DAYS = 180
"""For how long a calibration counts unless it says otherwise: providers change models without a new name."""

_SNAPSHOT = re.compile(r"\d{4}-?\d{2}-?\d{2}|[-@]\d{4}\b|@[0-9a-f]{7,}")


@dataclass(frozen=True)
class Calibration:
    """A calibration as it was written, and the file that it stands in."""

    row: Mapping[str, Any]
    path: Path

    @property
    def judge(self) -> str:
        """The name of the judge that was calibrated."""
        return str(self.row["judge"])

    @property
    def rubrics(self) -> Mapping[str, Mapping[str, Any]]:
        """What was found, by rubric."""
        found: Mapping[str, Mapping[str, Any]] = self.row["rubrics"]
        return found


def is_pinned(judge: Judge) -> bool:
    """Tell whether a judge's name holds a dated snapshot; embedded judges are pinned by their code."""
    name = str(judge.fingerprint.get("judge", judge.name))
    return "/" not in name or (_SNAPSHOT.search(name) is not None and "latest" not in name)


def bound(row: Mapping[str, Any], judge: Judge, *, today: date, days: int = VALID_DAYS) -> dict[str, Any]:
    """Bind the row of a calibration to the judge that it is of, to its rubrics and to the time that it counts."""
    rubrics = {name: {**found, "rubric_sha256": _rubric_hash(judge, name)} for name, found in row["rubrics"].items()}
    return {
        **row,
        "fingerprint": fingerprint_id(judge.fingerprint),
        "judge_fingerprint": dict(judge.fingerprint),
        "pinned": is_pinned(judge),
        "made": today.isoformat(),
        "expires": (today + timedelta(days=days)).isoformat(),
        "rubrics": rubrics,
    }


def differing_part(calibration: Calibration, judge: Judge, rubric: str, *, today: date) -> str | None:
    """Say what keeps a calibration from being used for `judge` under `rubric`; None where nothing does."""
    row = calibration.row
    then, now = row.get("judge_fingerprint"), json.loads(json.dumps(judge.fingerprint))
    if not isinstance(then, dict):
        return "it is of recorded verdicts, which are bound to no judge"
    for name in sorted({*then, *now}):
        if then.get(name) != now.get(name):
            return f"judge.{name} was {_short(then.get(name))}, and is {_short(now.get(name))}"
    found = calibration.rubrics.get(rubric)
    if found is None:
        return f"it holds no rubric {rubric}"
    if found.get("rubric_sha256") != _rubric_hash(judge, rubric):
        return f"the text of rubric {rubric} has changed since"
    expires = row.get("expires")
    if isinstance(expires, str) and expires < today.isoformat():
        return f"it expired on {expires}"
    return None


def user_folder() -> Path:
    """Return where the user's own calibrations lie."""
    if chosen := os.environ.get("ALPS_CALIBRATIONS"):
        return Path(chosen)
    from platformdirs import user_data_path

    return user_data_path("alps") / "calibrations"


def calibration_files() -> list[Path]:
    """Return the calibrations of the user's folder, then those of the package, each in the order of their paths."""
    shipped = Path(str(files("alps.judges"))) / "calibrations"
    return [path for folder in (user_folder(), shipped) for path in _files(folder)]


def read_calibration(path: Path) -> Calibration:
    """Read a calibration: a file, or the `calibration.json` of a folder.

    Raises:
        UsageError: If there is none.
        DataError: If it is not the row of a calibration.
    """
    file = path / "calibration.json" if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"calibration={path}: no calibration there; alps calibrate writes one")
    try:
        row = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError("not JSON; calibrate again", path=file) from error
    rubrics = row.get("rubrics") if isinstance(row, dict) else None
    if not isinstance(rubrics, dict) or not all(isinstance(found, dict) for found in rubrics.values()):
        raise DataError("no rubrics in it: not a calibration; calibrate again", path=file)
    if not isinstance(row.get("judge"), str):
        raise DataError("names no judge; calibrate again", path=file, field="judge")
    return Calibration(row, file)


def _files(folder: Path) -> Iterable[Path]:
    return sorted({*folder.glob("*.json"), *folder.glob("*/calibration.json")}) if folder.is_dir() else ()


def _rubric_hash(judge: Judge, name: str) -> str | None:
    """Return the hash of what the judge is told under a rubric; None for judges that read none."""
    hashes = judge.fingerprint_for((rubric_of(name),)).get("rubrics")
    return str(next(iter(hashes.values()))) if hashes else None


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}…"
