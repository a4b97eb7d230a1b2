"""Commands on data sets: `data audit`, `data pools`, `data personas`."""

import sys

import click

from alps.commands.common import group, print_as
from alps.completion import takes


@group()
def data() -> None:
    """Look into a data set, or build one."""


@data.command("audit")
@takes("data=… [split=…] [format=json]", "alps.settings:AuditSettings")
def data_audit(settings: tuple[str, ...]) -> None:
    """Find leaks, duplicates and broken rows without a model.

    Exit 1 when something serious is found.

    \b
      alps data audit data=samples
      alps data audit data=FOLDER split=dev format=json
    """
    from alps.parsing import parse_words
    from alps.settings import AuditSettings
    from alps.show.data_audit import print_audit
    from alps.tasks.registry import audit_data

    parsed = parse_words(settings, AuditSettings)
    report = audit_data(parsed.data, parsed.split)
    print_as(report, parsed.format, print_audit)
    sys.exit(1 if report.serious else 0)


@data.command("pools")
@takes("out=DIR [data=…] [distractors=…] [seed=…]", "alps.settings:PoolSettings")
def data_pools(settings: tuple[str, ...]) -> None:
    """Write the retrieval pools of a data set in the release layout.

    The same seed gives the same bytes.

    \b
      alps data pools data=samples distractors=300 out=pools
    """
    from alps.data.pools import write_pools
    from alps.parsing import parse_words
    from alps.settings import PoolSettings

    parsed = parse_words(settings, PoolSettings)
    sizes = None if parsed.distractors == "all" else (int(parsed.distractors),)
    for written in write_pools(
        parsed.data, parsed.split, out=parsed.out, sizes=sizes, seed=parsed.seed
    ):
        click.echo(written)
