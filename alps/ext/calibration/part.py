"""The part of calibrations in a run: its scores are corrected by those of its judge."""

from contextlib import closing
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from alps.ext.calibration.correction import Chosen, choose, with_corrections
from alps.ext.calibration.settings import CorrectionKeys
from alps.llm.ledger import Ledger
from alps.rows import Summary
from alps.run.parts import Course, RunPart
from alps.run.services import Services, open_judge
from alps.run.shared import close_cache
from alps.run.source import Data
from alps.settings import RunSettings


class Part(RunPart):
    """The calibrations that correct the scores of one run."""

    def __init__(self, settings: RunSettings) -> None:
        super().__init__(settings)
        self._calibration = CorrectionKeys.of(settings).calibration
        self._chosen = Chosen({})

    def check(self, data: Data, *, generate: bool, keys: bool) -> None:
        """Refuse a calibration that does not fit, before anything is written or paid for."""
        if self._calibration is None or not keys:
            return
        with TemporaryDirectory() as scratch, closing(Ledger(Path(scratch) / "calls.jsonl")) as own:
            services = open_judge(self.settings, own)
            try:
                choose(self._calibration, services.judge, data, today=date.today())
            finally:
                close_cache(services.cache)

    async def begin(self, services: Services, data: Data, *, generate: bool) -> None:
        """Find the calibrations of the judge."""
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
        session = course.session
        return with_corrections(summary, session.folder, session.data, self._chosen)
