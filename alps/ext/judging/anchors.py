"""Anchors: the answers of an old run, byte for byte, judged once more and never from the cache.

A reply that was kept from the first time says what the judge said then, and hides its drift.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from alps.errors import UsageError
from alps.run.finished import Finished
from alps.run.finished_predictions import PREDICTIONS
from alps.run.folder import write_json
from alps.run.opened import Run, open_run
from alps.run.services import AskedAs
from alps.run.session import OF_THE_JUDGE
from alps.run.start import score_again

MARK = "anchors.json"
"""The file of a folder in which every question was asked anew."""


def judge_anchors(old: Path, new: Path, folder: Path, given: Mapping[str, Any]) -> Finished:
    """Judge the answers of a finished run once more, each question anew; what was begun goes on.

    Args:
        old: The run.
        new: A run whose judge is asked.
        folder: Where the verdicts land.
        given: The settings that were typed; how the judge is asked is else as in `new`.

    Raises:
        AlpsError: If the folder holds anything else, or the judge can't be used.
    """
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise UsageError(f"anchors={folder}: no finished run, and no anchors; name a new folder")
    open_run(old).finished  # noqa: B018 - refused before a folder is made
    then, judging = open_run(new).manifest.settings, dict(given)
    for name in ("judge", "judge_structured", *OF_THE_JUDGE):
        if then.get(name) is not None and name not in judging:
            judging[name] = then[name]
    told = f"are judged once more by {judging['judge']}, without the cache"
    click.echo(f"Nothing is generated: the answers of {old} {told}.", err=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / MARK, {"cache": "off"})
    own = {**judging, "out": str(folder), "extras": "none"}
    return score_again(old, own, asked_as=AskedAs(cached=False))


def check_anchors(old: Run, anchors: Run) -> None:
    """Refuse anchors that can't tell what the judge does now.

    Raises:
        UsageError: If they are other answers, were not judged again, or were answered by the cache.
    """
    name = f"anchors={anchors.folder}"
    if (old.folder / PREDICTIONS).read_bytes() != (anchors.folder / PREDICTIONS).read_bytes():
        raise UsageError(f"{name}: not the answers of {old.folder}, byte for byte")
    if anchors.folder.resolve() == old.folder.resolve() or anchors.manifest.predictions is None:
        raise UsageError(
            f"{name}: a run with answers of its own; name a folder that is not there, and the "
            f"answers of {old.folder} are judged once more"
        )
    kept = anchors.finished.calls.cached
    if kept and not (anchors.folder / MARK).is_file():
        raise UsageError(
            f"{name}: {kept:,} replies came from the cache, which hides a drift; name a folder "
            "that is not there, and they are judged without it"
        )
