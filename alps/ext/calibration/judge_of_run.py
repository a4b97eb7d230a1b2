"""The judge of a run, kept with its verdicts: a calibration by them is bound to that judge.

`judge.json` lies in a folder to annotate, and in the label folder that is exported from it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from alps.errors import DataError
from alps.jsonl import parse_json
from alps.judges.calibration_file import ServedRow
from alps.judges.rubric import Rubric

JUDGE = "judge.json"
_NOT_PART = ("id", "rubrics", "wording")


class JudgeOfRun(BaseModel):
    """The judge of a run, as recorded.

    Attributes:
        run: The folder of the run, as it was named.
        name: As the user called the judge.
        fingerprint: Everything that all its verdicts depend on.
        rubrics: By the id of each rubric, the hash of its text.
        api_base: The endpoint that was asked.
        served: The models that answered, by the purpose of the calls.
        day: When it was asked.
        verdicts: The sha256 of the file of its verdicts; None before they are exported.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: str
    name: str
    fingerprint: dict[str, Any]
    rubrics: dict[str, str]
    api_base: str | None
    served: dict[str, tuple[ServedRow, ...]]
    day: date
    verdicts: str | None = None

    def said(self, verdicts: Path, judge: str) -> bool:
        """Tell whether a file holds what this judge said, unchanged."""
        return judge == self.name and self.verdicts == _hash(verdicts)

    def with_verdicts(self, verdicts: Path) -> "JudgeOfRun":
        """Return the same judge, with the file that holds what it said."""
        return self.model_copy(update={"verdicts": _hash(verdicts)})


class PinnedJudge:
    """A judge that is not asked: its fingerprint is known from the run that it judged."""

    def __init__(self, of_run: JudgeOfRun) -> None:
        self.name = of_run.name
        self.fingerprint: Mapping[str, Any] = of_run.fingerprint
        self._rubrics = of_run.rubrics

    def fingerprint_for(self, rubrics: Sequence[Rubric]) -> Mapping[str, Any]:
        """Return everything that verdicts under `rubrics` depended on."""
        hashes = {one.id: self._rubrics[one.id] for one in rubrics if one.id in self._rubrics}
        return {**self.fingerprint, "rubrics": hashes} if hashes else self.fingerprint


def read_judge_of_run(folder: Path) -> JudgeOfRun | None:
    """Read the judge whose verdicts a folder holds; None where the folder names none.

    Raises:
        DataError: If the file is not what `alps annotate` writes.
    """
    path = folder / JUDGE
    if not path.is_file():
        return None
    try:
        return JudgeOfRun.model_validate(parse_json(path.read_bytes()))
    except (ValueError, ValidationError, OSError) as error:
        raise DataError(
            "not what alps annotate wrote; export the labels again", path=path
        ) from error


def without_rubrics(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a run's fingerprint of its judge that no rubric changes."""
    return {name: part for name, part in fingerprint.items() if name not in _NOT_PART}


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
