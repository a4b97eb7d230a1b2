"""The part of calibrations in a run: its scores are corrected by those of its judge."""

from contextlib import closing
from datetime import date
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from alps.ext.calibration.settings import CorrectionKeys
from alps.llm.ledger import Ledger
from alps.rows import Summary
from alps.run.parts import Course, RunPart
from alps.run.services import Services, open_judge
from alps.run.shared import close_cache
from alps.run.source import RunData
from alps.settings import RunSettings

if TYPE_CHECKING:
    from alps.ext.calibration.correction import Chosen


class Part(RunPart):
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
        if self._calibration is None and not _rated(data):
            return
        from alps.ext.calibration.correction import choose

        endpoint = self.settings.judge_api_base
        self._chosen = choose(
            self._calibration,
            services.judge,
            data,
            today=date.today(),
            api_base=endpoint,
        )

    def summarise(self, summary: Summary, course: Course) -> Summary:
        """Add the corrected scores."""
        if self._chosen is None:
            return summary
        from alps.ext.calibration.correction import with_corrections

        session = course.session
        return with_corrections(summary, session.folder, session.data, self._chosen)


def _rated(data: RunData) -> bool:
    metrics = chain.from_iterable(task.metrics for task in data.tasks)
    return any(metric.rubrics for metric in metrics)
