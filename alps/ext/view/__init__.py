"""Page on which all records of runs are searched, filtered and read side by side."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from alps.commands import command, say
from alps.extension import EVERYDAY, Extension

if TYPE_CHECKING:
    from alps.ext.view.settings import ViewSettings


@command(
    "RUN… [out=DIR] [serve=yes]",
    "alps.ext.view.settings:ViewSettings",
    runs=True,
    own_task=True,
    quick=True,
)
def view(runs: list[Path], settings: "ViewSettings") -> None:
    """Browse records in a browser.

    Search and filter the records of one run, or of several runs side by side. The page and its
    files work without a server; serve=yes needs no files and follows runs in progress.

    \b
      alps view runs/extraction-rules-samples
      alps view runs/a runs/b serve=yes
    """
    idle = "out" if settings.serve else "port"
    if idle in settings.model_fields_set:
        state = "yes" if settings.serve else "no"
        raise click.UsageError(f"{idle}= would change nothing with serve={state}; leave it out")
    if settings.serve:
        _serve_view(runs, settings.port)
        return
    from alps.ext.view.page import RecordLines, write_files
    from alps.run.opened import open_run

    path = write_files(RecordLines([open_run(folder) for folder in runs]), Path(settings.out))
    say(f"wrote {path}")


def _serve_view(folders: Sequence[Path], port: int) -> None:
    from alps.ext.view.loopback import address_of, listen, new_token, require_packages, server_of
    from alps.ext.view.page import application

    require_packages("alps view serve=yes")
    token = new_token()
    with listen(port) as bound:
        server = server_of(application(folders, token))
        click.echo(f"{address_of(bound, token)} (Ctrl-C to stop)")
        with suppress(KeyboardInterrupt):  # how the page is closed
            server.run(sockets=[bound])


EXTENSION = Extension(
    "view",
    needs=("looking",),
    commands={"view": "alps.ext.view:view"},
    heading=EVERYDAY,
)
