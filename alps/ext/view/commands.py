"""The command `alps view`."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from alps.commands.common import allow_typed, command, say
from alps.completion import takes


@command()
@takes(
    "RUN… [out=DIR] [serve=yes]", "alps.ext.view.settings:ViewSettings", own_task=True, runs=True
)
def view(words: tuple[str, ...]) -> None:
    """Search and filter all records of runs in a browser, those of several runs side by side.

    The page and its files work without a server; serve=yes needs none of them, and follows runs
    that are under way.

    \b
      alps view runs/extraction-rules-samples
      alps view runs/a runs/b serve=yes
    """
    from alps.ext.view.settings import ViewSettings
    from alps.parsing import parse_words, part_words
    from alps.run.opened import find_run

    runs, settings = part_words(allow_typed(words))
    parsed: Any = parse_words(settings, ViewSettings)
    folders = [find_run(run) for run in runs]
    if not folders:
        raise click.UsageError("name at least one run")
    idle = "out" if parsed.serve else "port"
    if idle in parsed.model_fields_set:
        state = "yes" if parsed.serve else "no"
        raise click.UsageError(f"{idle}=: it changes nothing with serve={state}; leave it out")
    if parsed.serve:
        _serve_view(folders, parsed.port)
        return
    from alps.ext.view.files import write_files
    from alps.ext.view.records import Records
    from alps.run.opened import open_run

    path = write_files(Records([open_run(folder) for folder in folders]), Path(parsed.out))
    say(f"wrote {path}")


def _serve_view(folders: Sequence[Path], port: int) -> None:
    from alps.ext.view.server import application
    from alps.loopback import address_of, listen, new_token, require_packages, server_of

    require_packages("alps view serve=yes")
    token = new_token()
    with listen(port) as bound:
        server = server_of(application(folders, token))
        click.echo(f"{address_of(bound, token)} (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):  # how the page is closed
            server.run(sockets=[bound])
