"""Commands that measure judges against labels: `labels draw`, `calibrate`, `calibrations`."""

import sys
from pathlib import Path

import click

from alps.commands.common import (
    allow_typed,
    command,
    console,
    group,
    say,
    stop_at_budget,
    takes_time,
)
from alps.completion import takes, words_of
from alps.waiting import tell


@group()
def labels() -> None:
    """Prepare label folders, which judges are calibrated on."""


@labels.command("draw")
@click.argument("run_folder", metavar="RUN", shell_complete=words_of(runs=True))
@takes("out=DIR [n=…] [seed=…]", "alps.ext.calibration.settings:DrawSettings")
def labels_draw(run_folder: str, settings: tuple[str, ...]) -> None:
    """Draw answers of a run at random for people to label.

    What its judge was asked, without what it said.

    \b
      alps labels draw runs/utilization-rules-samples n=100 out=labels
    """
    from alps.ext.calibration.sample import draw_labels
    from alps.ext.calibration.settings import DrawSettings
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
    "judge=… labels=DIR [out=DIR] [verdicts=FILE]",
    "alps.ext.calibration.settings:CalibrateSettings",
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
    from alps.ext.calibration.calibrate import calibrate_judge
    from alps.ext.calibration.page import write_calibration_page
    from alps.ext.calibration.settings import CalibrateSettings
    from alps.ext.calibration.table import print_account, print_calibration
    from alps.llm.secrets import redact
    from alps.parsing import parse_words

    parsed = parse_words(settings, CalibrateSettings)
    tell(f"calibrating {redact(parsed.judge)}, loading", announced=True)
    if parsed.fit:
        from alps.ext.calibration.fit import fit_judge, print_fit

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
    "alps.ext.calibration.settings:TrustSettings",
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

    from alps.ext.calibration.settings import TrustSettings
    from alps.ext.calibration.trust import find_calibrations, write_trust_page
    from alps.parsing import parse_words, part_words

    folders, settings = part_words(words)
    parsed = parse_words(settings, TrustSettings)
    labels = None if parsed.labels is None else Path(parsed.labels)
    found = find_calibrations(folders)
    page = write_trust_page(found, labels, Path(parsed.out), today=date.today())
    say(f"wrote {page}")
