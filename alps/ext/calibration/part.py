"""The part of calibrations in a run: its scores are corrected by those of its judge.

Those of a finished run are corrected again in its folder, without asking anybody.
"""

from collections.abc import Mapping
from contextlib import closing
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from alps.ext.calibration import is_rated
from alps.ext.calibration.settings import CorrectionKeys
from alps.llm.ledger import Ledger
from alps.rows import Json, Summary
from alps.run.finished import Finished
from alps.run.folder import locked_folder, write_summary
from alps.run.opened import open_run
from alps.run.parts import Course, RunPart
from alps.run.services import Services, open_judge
from alps.run.shared import close_cache
from alps.run.source import RunData, open_again
from alps.settings import RunSettings

if TYPE_CHECKING:
    from alps.ext.calibration.correction import Chosen


class CalibrationRunPart(RunPart):
    """The calibrations that correct the scores of one run."""

    def __init__(self, settings: RunSettings) -> None:
        super().__init__(settings)
        self._calibration = CorrectionKeys.of(settings).calibration
        self._chosen: Chosen | None = None

    def check(self, data: RunData, *, generate: bool, keys: bool) -> None:
        """Refuse a calibration that does not fit, before anything is written or paid for."""
        if self._calibration is None or not keys:
            return
        from alps.ext.calibration.correction import choose

        with TemporaryDirectory() as scratch, closing(Ledger(Path(scratch) / "calls.jsonl")) as own:
            services = open_judge(self.settings, own)
            try:
                choose(self._calibration, services.judge, data, today=date.today())
            finally:
                close_cache(services.cache)

    async def begin(self, services: Services, data: RunData, *, generate: bool) -> None:
        """Find the calibrations of the judge; none where no score is a mean of marks."""
        # Nothing is searched for: a calibration corrects means of ratings, and no F1.
        if self._calibration is None and not any(map(is_rated, data.tasks)):
            return
        from alps.ext.calibration.correction import choose

        endpoint = self.settings.judge_api_base
        self._chosen = choose(
            self._calibration, services.judge, data, today=date.today(), api_base=endpoint
        )

    def summarise(self, summary: Summary, course: Course) -> Summary:
        """Add the corrected scores."""
        if self._chosen is None:
            return summary
        from alps.ext.calibration.correction import with_corrections

        session = course.session
        return with_corrections(summary, session.folder, session.data, self._chosen)


def correct_again(folder: Path, typed: Mapping[str, Any]) -> Finished:
    """Correct the scores of a finished run in its folder, without requests.

    `typed` has a `calibration` of its judge; `off` takes corrections away.

    Raises:
        AlpsError: If the folder is no finished run, or the calibration is not of its judge.
    """
    from alps.ext.calibration.correction import choose, with_corrections
    from alps.ext.calibration.judge_of_run import PinnedJudge, judge_of_run

    run = open_run(folder)
    raw = _as_judged(run.finished.row())
    settings, data = open_again(folder, run.manifest)
    judge, endpoint = PinnedJudge(judge_of_run(run)), settings.judge_api_base
    chosen = choose(typed["calibration"], judge, data, today=date.today(), api_base=endpoint)
    with locked_folder(folder):
        summary = with_corrections(raw, folder, data, chosen)
        write_summary(folder, summary)
    return Finished(folder, summary, data.tasks, too_many_unscored=False, budget_spent=False)


def _as_judged(row: Json) -> Summary:
    """Return a summary without corrected scores."""
    tracks = {}
    for name, track in row["tracks"].items():
        scores = {metric: _without(score, "corrected") for metric, score in track["scores"].items()}
        tracks[name] = {**track, "scores": scores}
    raw = _without(row, "not_calibrated", "calibrated_otherwise")
    return Summary.model_validate({**raw, "tracks": tracks})


def _without(row: Json, *names: str) -> Json:
    return {name: value for name, value in row.items() if name not in names}
