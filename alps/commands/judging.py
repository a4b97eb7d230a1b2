"""Commands about judges and the people who label.

`labels`, `agreement`, `calibrate`, `sensitivity`, `judges`.
"""

import sys
from pathlib import Path
from typing import Any

import click

from alps.commands.common import (
    allow_typed,
    command,
    console,
    group,
    print_as,
    say,
    stop_at_budget,
    takes_time,
    typed_settings,
)
from alps.completion import takes, words_of
from alps.waiting import tell


@group()
def labels() -> None:
    """Prepare label folders, which judges are calibrated on."""


@labels.command("draw")
@click.argument("run_folder", metavar="RUN", shell_complete=words_of(runs=True))
@takes("out=DIR [n=…] [seed=…]", "alps.calibration.settings:DrawSettings")
def labels_draw(run_folder: str, settings: tuple[str, ...]) -> None:
    """Draw answers of a run at random for people to label.

    What its judge was asked, without what it said.

    \b
      alps labels draw runs/utilization-rules-samples n=100 out=labels
    """
    from alps.calibration.sample import draw_labels
    from alps.calibration.settings import DrawSettings
    from alps.parsing import parse_words
    from alps.run.opened import find_run

    parsed = parse_words(allow_typed(settings), DrawSettings)
    drawn = draw_labels(find_run(run_folder), n=parsed.n, out=Path(parsed.out), seed=parsed.seed)
    for rubric, counts in drawn.rubrics.items():
        how = "at random" if counts.random else "the likeliest half chosen, so no random sample"
        say(f"{rubric}: {counts.drawn:,} of {counts.population:,} drawn, {how}")
    say(f"{drawn.folder}: {drawn.items:,} items to label; its README.md says how")


@command()
@takes(
    "LABELS… [rule=…] [draft=…] [out=FILE] [format=json]",
    "alps.agreement.settings:AgreementSettings",
    folders=True,
)
@takes_time
def agreement(words: tuple[str, ...]) -> None:
    """Measure how far people agree with each other, beside the draft that they started from.

    LABELS is a folder with the annotations of two people in the release layout, their two files,
    or a label folder.

    \b
      alps agreement annotations
      alps agreement annotations rule=lexical out=agreement.json
      alps agreement labels
    """
    from alps.agreement.measure import measure
    from alps.agreement.settings import AgreementSettings
    from alps.agreement.table import print_agreement
    from alps.parsing import parse_words, part_words

    folders, settings = part_words(words)
    parsed = parse_words(settings, AgreementSettings)
    measured = measure(folders, parsed)
    print_as(measured, parsed.format, print_agreement)
    if parsed.out is not None:
        say(f"wrote {parsed.out}", err=True)
    stop_at_budget(measured)
    if measured.too_many_unjudged:
        sys.exit(1)


@command()
@takes(
    "judge=… labels=DIR [out=DIR] [verdicts=FILE]", "alps.calibration.settings:CalibrateSettings"
)
@takes_time
def calibrate(settings: tuple[str, ...]) -> None:
    """Hold a judge against people's labels, rubric by rubric.

    The judge is asked about the labelled items, unless its verdicts are recorded. `labels=stress`
    are items of our own whose answers are known.

    \b
      alps calibrate judge=lexical labels=stress
      alps calibrate judge=openai/gpt-4.1 labels=DIR
      alps calibrate judge=gpt-4 labels=DIR verdicts=FILE out=calibrated

    With fit=yes a cheap judge learns from the verdicts that a run holds:

    \b
      alps calibrate fit=yes labels=RUN out=cheap.json
    """
    from alps.calibration.calibrate import calibrate_judge
    from alps.calibration.page import write_calibration_page
    from alps.calibration.settings import CalibrateSettings
    from alps.calibration.table import print_account, print_calibration
    from alps.llm.secrets import redact
    from alps.parsing import parse_words

    parsed = parse_words(settings, CalibrateSettings)
    tell(f"calibrating {redact(parsed.judge)}, loading", announced=True)
    if parsed.fit:
        from alps.calibration.fit import fit_judge, print_fit

        print_fit(fit_judge(parsed), console())
        return
    done = calibrate_judge(parsed)
    screen = console()
    print_calibration(done.reports, judge=done.judge, console=screen)
    print_account(done, screen)
    if done.folder is not None:
        page = write_calibration_page(done.row, done.folder / "calibration.html")
        say(f"wrote {done.folder / 'calibration.json'}")
        say(f"wrote {page}")
    for line in done.following:
        say(line)
    stop_at_budget(done)
    if done.too_many_unheard:
        sys.exit(1)


@command()
@takes(
    "[DIR…] [labels=DIR] [out=FILE]",
    "alps.calibration.settings:TrustSettings",
    folders=True,
    none=True,
)
def calibrations(words: tuple[str, ...]) -> None:
    """Write a page of calibrations: may I trust this judge for this rubric?

    DIR are folders that alps calibrate wrote, or a folder of such; without any, those that runs
    find. Judges are ranked; with labels= the page shows where they differ from people.

    \b
      alps calibrations known labels=labels out=trust.html
    """
    from datetime import date

    from alps.calibration.settings import TrustSettings
    from alps.calibration.trust_page import find_calibrations, write_trust_page
    from alps.parsing import parse_words, part_words

    folders, settings = part_words(words)
    parsed = parse_words(settings, TrustSettings)
    labels = None if parsed.labels is None else Path(parsed.labels)
    found = find_calibrations(folders)
    page = write_trust_page(found, labels, Path(parsed.out), today=date.today())
    say(f"wrote {page}")


@command()
@takes(
    "RUN… judge=… prompts=DIR [out=DIR] [format=json]",
    "alps.settings:SensitivitySettings",
    runs=True,
)
@takes_time
def sensitivity(words: tuple[str, ...]) -> None:
    """Judge the same predictions under several wordings of a judge's rubrics.

    The result shows how far the scores move.

    DIR holds a folder a wording, with a file RUBRIC.md for each rubric that it says in other words;
    our own wording always stands among them.

    \b
      alps sensitivity runs/extraction-rules-samples judge=openai/gpt-4.1 prompts=wordings
    """
    from alps.parsing import parse_words, part_words
    from alps.report.sensitivity import find_sensitivity, print_sensitivity
    from alps.run.cells import judge_cells
    from alps.run.opened import find_run
    from alps.run.sensitivity import plan_wordings
    from alps.settings import SensitivitySettings

    runs, settings = part_words(allow_typed(words))
    parsed = parse_words(settings, SensitivitySettings)
    plan = plan_wordings([find_run(word) for word in runs], parsed)
    say(plan.announcement, err=True)
    done = judge_cells(plan, typed_settings(parsed))
    print_as(find_sensitivity(done), parsed.format, print_sensitivity)
    stop_at_budget(done)
    if done.too_many_unscored:
        sys.exit(1)


@command()
@takes(
    "RUN… judge=a,b [prompts=DIR] [draws=…] [out=DIR] [format=json]",
    "alps.settings:JudgesSettings",
    runs=True,
)
@takes_time
def judges(words: tuple[str, ...]) -> None:
    """Judge the same predictions by several judges, and with several prompts.

    The result shows how far they agree, whether judge, prompt or noise moves a score, and how often
    two runs swap places. lexical and two judges that always say the same stand beside.

    With anchors=DIR the answers of OLD are judged once more into DIR, without the cache, and the
    change from OLD to NEW is split into that of the judge and that of the system.

    \b
      alps judges runs/extraction-rules-samples judge=openai/gpt-4.1,openai/gpt-4o
      alps judges runs/a runs/b judge=openai/gpt-4.1 prompts=wordings draws=3
      alps judges runs/old runs/new anchors=runs/old-judged-now
    """
    from alps.parsing import parse_words, part_words
    from alps.report.observatory import observe
    from alps.report.observatory_page import FILE, write_observatory_page
    from alps.report.observatory_table import print_observatory
    from alps.run.cells import judge_cells
    from alps.run.observatory import plan_judges
    from alps.run.opened import find_run
    from alps.settings import JudgesSettings

    runs, settings = part_words(allow_typed(words))
    parsed = parse_words(settings, JudgesSettings)
    if parsed.anchors is not None:
        _drift([find_run(word) for word in runs], parsed)
        return
    plan = plan_judges([find_run(word) for word in runs], parsed)
    say(plan.announcement, err=True)
    done = judge_cells(plan, typed_settings(parsed))
    observed = observe(done)
    print_as(observed, parsed.format, print_observatory)
    page = write_observatory_page(observed, plan.out / FILE)
    say(f"wrote {page}", err=parsed.format == "json")
    stop_at_budget(done)
    if done.too_many_unscored:
        sys.exit(1)


def _drift(folders: list[Path], parsed: Any) -> None:
    """Split the change between two runs; judge the anchors where they are not judged yet."""
    from alps.errors import UsageError
    from alps.report.drift import find_drift, print_drift
    from alps.run.anchors import judge_anchors
    from alps.run.opened import SUMMARY

    if len(folders) != 2:
        raise UsageError(f"anchors= takes two runs, the old and the new one, got {len(folders)}")
    anchors, typed, ours = Path(parsed.anchors), typed_settings(parsed), ("anchors", "format")
    finished = (anchors / SUMMARY).is_file()
    nothing = {"prompts", "draws", "out"} | (typed.keys() - {*ours, "level"} if finished else set())
    if others := sorted(nothing & typed.keys()):
        raise UsageError(f"{others[0]}= would change nothing beside anchors={anchors}")
    if not finished:
        judging = {name: value for name, value in typed.items() if name not in (*ours, "level")}
        done = judge_anchors(folders[0], folders[1], anchors, judging)
        stop_at_budget(done)
        if done.too_many_unscored:
            sys.exit(1)
    print_as(find_drift(folders, anchors, parsed.level), parsed.format, print_drift)
