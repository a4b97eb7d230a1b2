"""Binding of a calibration, when it is made, to its judge, its rubrics and a span of time."""

import re
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any

from alps.ext.calibration.calibration_file import rubric_of
from alps.judges.base import Identified, fingerprint_id
from alps.judges.rubric import Rubric

# For how long a calibration counts unless it says otherwise: providers change models without a new
# name.
VALID_DAYS = 180
_MONTH, _DAY = "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
_SNAPSHOT = re.compile(
    rf"20\d\d-?{_MONTH}-?{_DAY}|[-@](?:{_MONTH}{_DAY}|2\d{_MONTH})(?!\d)|@[0-9a-f]{{7,}}"
)


def bound(
    row: Mapping[str, Any],
    judge: Identified,
    *,
    today: date,
    days: int = VALID_DAYS,
    api_base: str | None = None,
    own: Iterable[Rubric] = (),
) -> dict[str, Any]:
    """Bind the row of a calibration to its judge, its rubrics, `own` among them, and its time."""
    rubrics = {}
    for name, of_rubric in row["rubrics"].items():
        rubrics[name] = {**of_rubric, "rubric_sha256": _rubric_hash(judge, rubric_of(name, own))}
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


def is_pinned(judge: Identified) -> bool:
    """Tell whether a judge is embedded, and pinned by its code, or its name holds a snapshot."""
    name = str(judge.fingerprint.get("judge", judge.name))
    return "/" not in name or (_SNAPSHOT.search(name) is not None and "latest" not in name)


def _rubric_hash(judge: Identified, rubric: Rubric) -> str | None:
    """Return the hash of the judge's instructions under a rubric; None if it reads none."""
    hashes = judge.fingerprint_for((rubric,)).get("rubrics")
    return str(next(iter(hashes.values()))) if hashes else None
