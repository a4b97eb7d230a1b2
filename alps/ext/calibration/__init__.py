"""Calibration of judges against people: label folders, asking, figures, gates and reports."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alps.commands import command, console, say, stop_at_budget
from alps.explained import WithCommands
from alps.extension import Extension, has_command
from alps.waiting import tell

if TYPE_CHECKING:
    from alps.ext.calibration.settings import CalibrateSettings, TrustSettings

OFF = "off"
"""`calibration=off`: no score is corrected."""
FITTED = "fitted:"


def _has_part(settings: Any, folder: Path) -> bool:
    # The lexical judge rates nothing, so that there is no score of its own to correct.
    nothing = settings.calibration is None and settings.judge == "lexical"
    return not nothing and settings.calibration != OFF


def _next_step(finished: Any) -> str:
    """Name the command by which people check the LLM that judged."""
    if "/" not in finished.summary.judge or not has_command("annotate"):
        return ""
    from alps.ext.calibration.part import after_run

    command = after_run(finished.folder, finished.summary, finished.tasks)
    return f"People can check this judge: {command}" if command else ""


def is_rated(task: Any) -> bool:
    """Tell whether any score of a task is a mean of marks."""
    return any(metric.rubrics for metric in task.metrics)


def is_corrected(summary: Any) -> bool:
    """Tell whether any score of a run is corrected by a calibration."""
    for track in summary.tracks.values():
        if any(score.corrected is not None for score in track.scores.values()):
            return True
    return False


@WithCommands
@command(
    "judge=… labels=DIR [out=DIR] [verdicts=FILE]",
    "alps.ext.calibration.settings:CalibrateSettings",
    name="calibrate",
)
def measure(settings: "CalibrateSettings") -> None:
    """Measure a judge against human labels.

    The judge rates the labelled items, unless you give recorded verdicts. labels=stress names
    bundled items with known answers.

    \b
      alps calibrate judge=lexical labels=stress
      alps calibrate judge=openai/gpt-4.1 labels=DIR
      alps calibrate judge=gpt-4 labels=DIR verdicts=FILE out=calibrated

    With fit=yes, a cheap judge learns from the verdicts of a run:

    \b
      alps calibrate fit=yes labels=RUN out=cheap.json
    """
    from alps.ext.calibration.calibrate import calibrate_judge
    from alps.ext.calibration.page import write_calibration_page
    from alps.ext.calibration.short import print_short
    from alps.ext.calibration.table import print_account, print_calibration
    from alps.llm.secrets import redact

    what = redact(settings.judge) or f"by the verdicts of {settings.labels}"
    tell(f"calibrating {what}, loading", announced=True)
    if settings.fit:
        from alps.ext.calibration.fit import fit_judge, print_fit

        print_fit(fit_judge(settings), console())
        return
    done = calibrate_judge(settings)
    screen = console()
    if settings.details:
        print_calibration(done.reports, judge=done.judge, console=screen)
        print_account(done, screen)
        for line in done.following:
            say(line)
    else:
        print_short(done, screen)
    if done.folder is not None:
        page = done.folder / "calibration.html"
        say(f"Page: {write_calibration_page(done.row, page, examples=done.examples)}")
    stop_at_budget(done)
    if done.too_many_unheard:
        sys.exit(1)


@command(
    "[DIR…] [labels=DIR] [out=FILE]",
    "alps.ext.calibration.settings:TrustSettings",
    name="list",
    group=measure,
    folders=True,
    none=True,
    quick=True,
)
def calibrate_list(folders: list[str], settings: "TrustSettings") -> None:
    """Write a page that compares calibrated judges.

    Each DIR is a calibration or a folder of calibrations; by default, alps takes the calibrations
    that runs use. The page ranks judges; with labels=, it also shows where judges differ from
    people.

    \b
      alps calibrate list known labels=labels out=trust.html
    """
    from datetime import date

    from alps.ext.calibration.trust import answer_lines, find_calibrations, write_trust_page

    labels = None if settings.labels is None else Path(settings.labels)
    found = find_calibrations(folders)
    page = write_trust_page(found, labels, Path(settings.out), today=date.today())
    for line in answer_lines(found, today=date.today()):
        say(line)
    say(f"wrote {page}")


EXTENSION = Extension(
    "calibration",
    needs=("audits",),
    commands={"calibrate": "alps.ext.calibration:measure"},
    heading="Judge",
    moved={"calibrations": "calibrate list"},
    removed={
        "transport": "audit the run instead, with audit_judge=… audit=20% or audit_labels=FOLDER"
    },
    exports={"calibrate": "alps.ext.calibration.calibrate:calibrate"},
    has_part=_has_part,
    next_step=_next_step,
    part="alps.ext.calibration.part:CalibrationRunPart",
    judging="alps.ext.calibration.settings:CorrectionKeys",
    judges={
        FITTED: "alps.ext.calibration.judges:FittedJudge",
        "people:": "alps.ext.calibration.judges:PeopleJudge",
    },
    operational=("calibration",),
    rescores=lambda typed: set(typed) == {"calibration"},
    rescore="alps.ext.calibration.part:correct_again",
    shows=is_corrected,
    shown="alps.ext.calibration.table:CalibrationShownPart",
    agreement="alps.ext.calibration.calibration_file:CalibratedAgreement",
    board="alps.ext.calibration.board:BOARD",
    on_card="corrected",
)
