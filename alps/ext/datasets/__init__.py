"""Data sets without a run: an audit without a model, and retrieval pools in the release layout."""

import sys
from typing import TYPE_CHECKING

import click

from alps.commands import command, group, print_as
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
    from alps.ext.datasets.write_pools import write_pools

    sizes = None if settings.distractors == "all" else (int(settings.distractors),)
    source, out = (settings.data, settings.split), settings.out
    for written in write_pools(*source, out=out, sizes=sizes, seed=settings.seed):
        click.echo(written)


EXTENSION = Extension("datasets", commands={"data": "alps.ext.datasets:data"}, heading="Data")
