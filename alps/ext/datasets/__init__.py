"""Data sets without a run: an audit without a model, and retrieval pools in the release layout."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from alps.commands import command, group, print_as
from alps.errors import UsageError
from alps.extension import Extension

if TYPE_CHECKING:
    from alps.ext.datasets.settings import AuditSettings, PoolSettings


@group()
def data() -> None:
    """Audit or generate data."""


@command(
    "data=… [split=…] [task=…] [format=json]",
    "alps.ext.datasets.settings:AuditSettings",
    name="audit",
    group=data,
    quick=True,
)
def data_audit(settings: "AuditSettings") -> None:
    """Find leaks, duplicates and broken rows without a model.

    The exit code is 1 if a finding is serious.

    \b
      alps data audit data=samples
      alps data audit data=FOLDER split=dev format=json
    """
    from alps.ext.datasets.audit import audit_data, print_audit

    report = audit_data(settings.data, settings.split, settings.task)
    print_as(report, settings.format, print_audit)
    sys.exit(1 if report.serious else 0)


@command(
    "out=DIR [data=…] [distractors=…] [seed=…]",
    "alps.ext.datasets.settings:PoolSettings",
    name="pools",
    group=data,
    quick=True,
)
def data_pools(settings: "PoolSettings") -> None:
    """Write the retrieval pools of a data set in the release layout.

    The same seed gives the same bytes.

    \b
      alps data pools data=samples distractors=300 out=pools
    """
    sizes = None if settings.distractors == "all" else (int(settings.distractors),)
    source, out = (settings.data, settings.split), settings.out
    for written in write_pools(*source, out=out, sizes=sizes, seed=settings.seed):
        click.echo(written)


def write_pools(
    data: str, split: str | None, *, out: str, sizes: Sequence[int] | None, seed: int
) -> Iterator[str]:
    """Write pools of the given sizes, or of every size that there is data for; yield a line each.

    Raises:
        UsageError: If the data can't give them, or `out` holds other pools already.
    """
    from alps.data.pools import QUERIES, SIZES, PoolSource
    from alps.data.release import Split, open_split, write_track

    opened = open_split(data, split)
    if not isinstance(opened, Split):
        raise UsageError(f"data={data}: alps builds pools from a local copy; name its folder")
    source = PoolSource(opened, seed=seed)
    folders = {size: Path(out) / opened.name / QUERIES / f"d{size}" for size in sizes or SIZES}
    if there := next(filter(Path.exists, folders.values()), None):
        raise UsageError(f"out={out}: {there} already exists; choose another folder")
    for number, (size, folder) in enumerate(folders.items()):
        try:
            pairs = list(source.rows(size))
        except UsageError as error:
            # With too few memories for the smallest pools there are none.
            if sizes is not None or number == 0:
                raise
            yield f"{size} distractors: left out ({error})"
            continue
        n, share = write_track(folder, pairs), source.generated_share(size)
        made = f", {share:.0%} of the distractors generated" if share else ""
        yield f"{folder}: {n} {'pool' if n == 1 else 'pools'} of {size} distractors{made}"


EXTENSION = Extension("datasets", commands={"data": "alps.ext.datasets:data"}, heading="Data")
