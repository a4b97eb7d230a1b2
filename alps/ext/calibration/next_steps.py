"""The way from a run to a corrected score: what labels can do, and the command of each next step.

Commands are printed to be pasted: they name folders that are there, or that are free.
"""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from alps.errors import AlpsError
from alps.ext.calibration import is_corrected, is_rated
from alps.judges.admission import is_admitted
from alps.judges.rubric import MATCHING
from alps.rows import Summary
from alps.tasks import Task

if TYPE_CHECKING:
    from alps.ext.calibration.judge_of_run import JudgeOfRun

_RATES = "alps uses these labels to calibrate the judge of {run} and to correct the run's scores."
_RELATES = (
    "alps uses these labels to calibrate the judge of {run}. To correct F1, precision or recall, "
    "audit the run instead."
)
_AUDITS = "alps uses these labels to audit {run} and to correct its scores, including F1."


def purpose_of(source: str, *, pairs: bool, audit: bool) -> str:
    """Return what labels of a run can do: of `pairs` of memories or ratings, of whole sessions."""
    if audit:
        return _AUDITS.format(run=source)
    return (_RELATES if pairs else _RATES).format(run=source)


def after_run(folder: Path, summary: Summary, tasks: Sequence[Task]) -> str:
    """Return the command that has people check the judge of a run.

    Empty where no LLM judged, or was not admitted, or its scores are corrected already.
    """
    # A judge that can't tell known items apart gave no verdicts to check.
    if not all(map(is_admitted, (summary.judge_check or {}).values())):
        return ""
    judged = [task for task in tasks if task.judged]
    if "/" not in summary.judge or not judged or summary.audit is not None or is_corrected(summary):
        return ""
    work = free_folder(Path(f"work-{folder.resolve().name}"))
    job = "rate" if any(map(is_rated, judged)) else "match"
    return f"alps annotate {_word(work)} job={job} from={_word(folder)}"


def how_to_correct_f1(source: str, person: str = "") -> str:
    """Return what corrects the F1 of a run: the command of an audit, or why there is none."""
    from alps.ext.audits.draws import LEAST, least_share
    from alps.run.opened import find_run, open_run
    from alps.run.source import open_again

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


def after_export(source: str, labels: Path, *, audit: bool) -> str:
    """Return the command that takes the labels of a run."""
    if audit:
        return f"alps score {_word(source)} audit_labels={_word(labels)}"
    return f"alps calibrate labels={_word(labels)}"


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
