"""Calibrations in a run: its scores are corrected, and what leads to a corrected score is told.

The scores of a finished run are corrected again in its folder, without asking anybody. What labels
of a run can do is told where people give them, with the command of each next step. Commands are
printed to be pasted: they name folders that are there, or that are free.
"""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from alps.errors import AlpsError
from alps.ext.calibration import is_corrected, is_rated
from alps.ext.calibration.settings import CorrectionKeys
from alps.judges.admission import is_admitted
from alps.judges.rubric import MATCHING
from alps.llm.ledger import Ledger
from alps.rows import Json, Summary
from alps.run.folder import locked_folder, write_summary
from alps.run.opened import find_run, open_run
from alps.run.parts import Course, RunPart
from alps.run.services import Services, close_cache, open_judge
from alps.run.source import RunData, open_again
from alps.run.summary import Finished
from alps.settings import RunSettings
from alps.tasks import Task

if TYPE_CHECKING:
    from alps.ext.calibration.correction import Chosen
    from alps.ext.calibration.judge_of_run import JudgeOfRun

_RATES = "alps uses these labels to calibrate the judge of {run} and to correct the run's scores."
_RELATES = (
    "alps uses these labels to calibrate the judge of {run}. To correct F1, precision or recall, "
    "audit the run instead."
)
_UNJUDGED = (
    "The judge of {run} gave no verdicts on these items; alps uses these labels to calibrate "
    "another judge."
)
_AUDITS = "alps uses these labels to audit {run} and to correct its scores, including F1."


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


def purpose_of(source: str, *, pairs: bool, audit: bool, judged: bool) -> str:
    """Return what labels of a run can do: of `pairs` of memories or ratings, of whole sessions."""
    if audit:
        return _AUDITS.format(run=source)
    if not judged:
        return _UNJUDGED.format(run=source)
    return (_RELATES if pairs else _RATES).format(run=source)


def after_run(folder: Path, summary: Summary, tasks: Sequence[Task]) -> str:
    """Return the command that has people check the judge of a run.

    Empty where no LLM judged, or was not admitted, or its scores are corrected already, and where
    people could neither rate nor relate what it judged.
    """
    # A judge that can't tell known items apart gave no verdicts to check.
    admitted = all(map(is_admitted, (summary.judge_check or {}).values()))
    if "/" not in summary.judge or not admitted:
        return ""
    if summary.audit is not None or is_corrected(summary):
        return ""
    # Ratings by the rubrics of others have no page, and correct no score.
    judged = [task for task in tasks if task.judged]
    by_rating = any(map(is_rated, judged))
    rubrics = {one.name for task in judged for one in task.rubrics}
    if not by_rating and MATCHING not in rubrics:
        return ""
    work = free_folder(Path(f"work-{folder.resolve().name}"))
    job = "rate" if by_rating else "match"
    return f"alps annotate {_word(work)} job={job} from={_word(folder)}"


def how_to_correct_f1(source: str, person: str = "") -> str:
    """Return what corrects the F1 of a run: the command of an audit, or why there is none."""
    from alps.ext.audits.draws import LEAST, least_share

    share: int | None = None
    with suppress(AlpsError):  # a run that is elsewhere by now is audited there
        run = find_run(source)
        _, data = open_again(run, open_run(run).manifest)
        shares = [least_share(track) for track in data.tracks if track.task.judged]
        share = None if None in shares else max((one for one in shares if one), default=None)
    if share is None:
        return f"To correct F1, audit at least {LEAST} records of {source}."
    folder = free_folder(Path(f"audit-{run.resolve().name}"))
    words = f"job=match from={_word(source)} audit={share}%"
    return f"To correct F1: alps annotate {_word(folder)} {words}{person and f' as={person}'}"


def export_command(work: Path) -> str:
    """Return the command that exports the labels of a folder."""
    labels = free_folder(work.with_name(f"{work.name}-labels"))
    return f"alps annotate export {_word(work)} out={_word(labels)}"


def adjudicating(work: Path) -> str:
    """Return the command by which a third person decides where people differ."""
    return f"alps annotate {_word(work)} as=NAME adjudicate=yes"


def after_export(source: str, labels: Path, *, audit: bool, judged: bool) -> str:
    """Return the command that takes the labels of a run, of which there may be no verdicts."""
    if audit:
        return f"alps score {_word(source)} audit_labels={_word(labels)}"
    judge = "" if judged else " judge=PROVIDER/MODEL"
    return f"alps calibrate labels={_word(labels)}{judge}"


def after_calibration(judge: "JudgeOfRun", rubrics: Sequence[str], folder: Path) -> list[str]:
    """Return what corrects the scores of the run whose judge was calibrated, a line each."""
    lines = []
    if any(rubric != MATCHING for rubric in rubrics):
        score = f"alps score {_word(judge.run)} calibration={_word(folder)}"
        lines.append(f"To correct the scores of {judge.run}: {score}")
    if MATCHING in rubrics:
        lines.append(how_to_correct_f1(judge.run))
    return lines


def _word(text: object) -> str:
    return shlex.quote(str(text))


def free_folder(folder: Path) -> Path:
    """Return a new or empty folder: the given one, or with a number appended."""
    free, number = folder, 2
    while free.exists() and not (free.is_dir() and not any(free.iterdir())):
        free = folder.with_name(f"{folder.name}-{number}")
        number += 1
    return free
