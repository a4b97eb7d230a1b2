"""The commit of a data set of the hub, decided once for a run and kept by its folder."""

from pathlib import Path

import click

from alps.data.hub import HubName, hub_name, label, open_hub
from alps.run.manifest import MANIFEST, read_manifest
from alps.settings import RunSettings

DATA_ASKED = "data_asked"
"""Where the manifest keeps what `data=` said: the branch that it names may have moved on since."""


def pin_data(settings: RunSettings, folder: Path) -> RunSettings:
    """Name the hub's data by their commit: the run in `folder` keeps its own, wherever a branch is.

    Raises:
        UsageError: If what `data=` says can't be read or resolved, or no split is named.
        RunFolderError: If the manifest in `folder` can't be read.
    """
    name = hub_name(settings.data)
    if name is None:
        return settings
    data = _kept(name, folder)
    if data is None:
        data = open_hub(settings.data, settings.split).data
    elif name.commit is None:
        kept = f"{folder} keeps to {label(data)}; for another commit name another out="
        click.echo(f"alps: {kept}", err=True)
    return settings.model_copy(update={"data": data})


def _kept(name: HubName, folder: Path) -> str | None:
    """Return the data of the run in `folder`, if `name` means them; else None."""
    if not (folder / MANIFEST).is_file():
        return None
    manifest = read_manifest(folder)
    data = str(manifest["settings"].get("data"))
    there = hub_name(data)
    if there is None or there.commit is None or there.repository != name.repository:
        return None
    asked_then = hub_name(str(manifest.get(DATA_ASKED)))
    the_same = asked_then is not None and asked_then.branch == name.branch
    return data if the_same or name.may_be(there.commit) else None
