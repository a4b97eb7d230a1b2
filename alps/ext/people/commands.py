"""Commands about people who label: `annotate`, `annotate export`, `agreement`."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alps.commands.common import command, console, print_as, say, stop_at_budget
from alps.completion import ExplainedGroup, words_of

if TYPE_CHECKING:
    from alps.ext.people.agreement.settings import AgreementSettings
    from alps.ext.people.annotate.settings import ExportSettings


class _Annotate(ExplainedGroup):
    """A group whose first word may be a folder: that is served."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; any other word is the folder to be served."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["serve", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_Annotate, subcommand_metavar="FOLDER [SETTINGS]...")
def annotate() -> None:
    """Label in a page on this machine: rate, relate, verify gold, write queries.

    \b
      alps annotate work job=rate from=runs/utilization-rules-samples as=anna
      alps annotate work as=ben                goes on in the same folder
      alps annotate export work out=labels     then: alps calibrate labels=labels
    """


@command(
    "[job=… from=RUN|DATA] [as=NAME]",
    "alps.ext.people.annotate.settings:AnnotateSettings",
    name="serve",
    group=annotate,
    quick=True,
)
@click.argument("folder", shell_complete=words_of(folders=True))
def annotate_serve(folder: str, settings: Any) -> None:
    """Make a folder, or go on with it, and serve its page until Ctrl-C.

    \b
      alps annotate work job=match from=runs/extraction-rules-samples as=anna
    """
    _serve(Path(folder).expanduser(), settings)


def _serve(folder: Path, parsed: Any) -> None:
    from alps.ext.people.annotate.making import begin
    from alps.ext.people.annotate.purpose import lines_at_start
    from alps.ext.people.annotate.seat import Seat
    from alps.ext.people.annotate.server import application
    from alps.loopback import address_of, listen, new_token, require_packages, server_of

    require_packages("alps annotate")
    with listen(parsed.port) as bound:
        begin(folder, parsed)
        seat = Seat(folder, parsed.person, adjudicate=parsed.adjudicate)
        try:
            token = new_token()
            lines = [] if parsed.adjudicate else lines_at_start(seat)
            server = server_of(application(seat, token, lines))
            click.echo(f"{folder}: {seat.done:,} of {len(seat.order):,} items finished")
            for line in lines:
                click.echo(line)
            click.echo(f"{address_of(bound, token)} (Ctrl-C ends it)")
            with suppress(KeyboardInterrupt):  # how the page is closed
                server.run(sockets=[bound])
        finally:
            seat.close()


@command(
    "out=DIR [labels=first|revised]",
    "alps.ext.people.annotate.settings:ExportSettings",
    name="export",
    group=annotate,
    quick=True,
)
@click.argument("folder", shell_complete=words_of(folders=True))
def annotate_export(folder: str, settings: "ExportSettings") -> None:
    """Write what labels become: a label folder, gold with a log of changes, or queries.

    \b
      alps annotate export work out=labels
    """
    from alps.ext.people.annotate.export import export
    from alps.ext.people.annotate.table import print_export

    done = export(Path(folder).expanduser(), Path(settings.out), settings.labels)
    print_export(done, console())


@command(
    "LABELS… [rule=…] [draft=…] [out=FILE] [format=json]",
    "alps.ext.people.agreement.settings:AgreementSettings",
    folders=True,
)
def agreement(folders: list[str], settings: "AgreementSettings") -> None:
    """Measure how far people agree with each other, beside the draft that they started from.

    LABELS is a folder with the annotations of two people in the release layout, their two files,
    or a label folder.

    \b
      alps agreement annotations
      alps agreement annotations rule=lexical out=agreement.json
      alps agreement labels
    """
    from alps.ext.people.agreement.measure import measure
    from alps.ext.people.agreement.table import print_agreement

    measured = measure(folders, settings)
    print_as(measured, settings.format, print_agreement)
    if settings.out is not None:
        say(f"wrote {settings.out}", err=True)
    stop_at_budget(measured)
    if measured.too_many_unjudged:
        sys.exit(1)
