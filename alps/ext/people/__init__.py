"""Human labels: the page to give them, their export, and their agreement."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alps.commands import command, console, print_as, say, stop_at_budget
from alps.explained import WithCommands, on_tab
from alps.extension import Extension

if TYPE_CHECKING:
    from alps.ext.calibration.settings import DrawSettings
    from alps.ext.people.settings import AgreementSettings, LabelExportSettings


@WithCommands
@command(
    "[job=… from=RUN|DATA] [as=NAME]",
    "alps.ext.people.settings:AnnotateSettings",
    name="annotate",
    quick=True,
)
@click.argument("folder", shell_complete=on_tab(folders=True))
def collect(folder: str, settings: Any) -> None:
    """Collect human labels on a local web page.

    alps creates the folder or continues in it, and serves the page until you press Ctrl-C. On the
    page, annotators rate answers, relate memories, verify gold or write queries.

    \b
      alps annotate work job=rate from=runs/utilization-rules-samples as=anna
      alps annotate work as=ben              (continues in the same folder)
      alps annotate export work out=labels   (next: alps calibrate labels=labels)
    """
    _serve(Path(folder).expanduser(), settings)


def _serve(folder: Path, parsed: Any) -> None:
    from alps.ext.people.annotate.making import begin
    from alps.ext.people.annotate.page import application
    from alps.ext.people.annotate.seat import Seat, lines_at_start
    from alps.ext.view.loopback import address_of, listen, new_token, require_packages, server_of
    from alps.show.formatting import counted

    require_packages("alps annotate")
    # A port that is taken is refused before a folder is made.
    with listen(parsed.port) as bound:
        begin(folder, parsed)
        seat = Seat(folder, parsed.person, adjudicate=parsed.adjudicate)
        try:
            token = new_token()
            lines = [] if parsed.adjudicate else lines_at_start(seat)
            server = server_of(application(seat, token, lines))
            of = counted(len(seat.order), "item")
            click.echo(f"{folder}: {seat.done:,} of {of} finished")
            for line in lines:
                click.echo(line)
            click.echo(f"{address_of(bound, token)} (Ctrl-C to stop)")
            with suppress(KeyboardInterrupt):  # how the page is closed
                server.run(sockets=[bound])
        finally:
            seat.close()


@command(
    "out=DIR [n=…] [seed=…]",
    "alps.ext.calibration.settings:DrawSettings",
    name="draw",
    group=collect,
    run=True,
    quick=True,
)
def annotate_draw(run: Path, settings: "DrawSettings") -> None:
    """Draw a random sample of judged answers to label.

    The label folder has the items that the judge rated, without its verdicts.

    \b
      alps annotate draw runs/utilization-rules-samples n=100 out=labels
    """
    from alps.ext.calibration.sample import draw_labels
    from alps.show.formatting import counted

    drawn = draw_labels(run, n=settings.n, out=Path(settings.out), seed=settings.seed)
    for rubric, counts in drawn.rubrics.items():
        how = "at random" if counts.random else "half of them likely matches, so not at random"
        say(f"{rubric}: {counts.drawn:,} of {counts.population:,} drawn, {how}")
    for rubric in drawn.left_out:
        say(f"{rubric}: left out, because it has other verdicts than met and not_met")
    items = counted(drawn.items, "item")
    say(f"{drawn.folder}: {items} to label; see {drawn.folder}/README.md")


@command(
    "out=DIR [labels=first|revised]",
    "alps.ext.people.settings:LabelExportSettings",
    name="export",
    group=collect,
    quick=True,
)
@click.argument("folder", shell_complete=on_tab(folders=True))
def annotate_export(folder: str, settings: "LabelExportSettings") -> None:
    """Export labels as a label folder, gold with a change log, or queries.

    \b
      alps annotate export work out=labels
    """
    from alps.ext.people.annotate.export import export, print_export

    done = export(Path(folder).expanduser(), Path(settings.out), settings.labels)
    print_export(done, console())


@command(
    "LABELS… [rule=…] [draft=…] [out=FILE] [format=json]",
    "alps.ext.people.settings:AgreementSettings",
    name="agreement",
    group=collect,
    folders=True,
)
def annotate_agreement(folders: list[str], settings: "AgreementSettings") -> None:
    """Measure inter-annotator agreement, and agreement with the draft.

    LABELS is a folder in the release layout with the annotations of two people, the two annotation
    files themselves, or a label folder.

    \b
      alps annotate agreement annotations
      alps annotate agreement annotations rule=lexical out=agreement.json
      alps annotate agreement labels
    """
    from alps.ext.people.agreement import measure, print_agreement

    measured = measure(folders, settings)
    print_as(measured, settings.format, print_agreement)
    if settings.out is not None:
        say(f"wrote {settings.out}", err=True)
    stop_at_budget(measured)
    if measured.too_many_unjudged:
        sys.exit(1)


EXTENSION = Extension(
    "people",
    needs=("audits", "calibration", "datasets", "view"),
    commands={"annotate": "alps.ext.people:collect"},
    heading="Judge",
    moved={
        "agreement": "annotate agreement",
        "annotate serve": "annotate",
        "labels draw": "annotate draw",
    },
    board="alps.ext.people.board:BOARD",
    on_card="people",
)
