"""Histories: sets of histories and questions by which memories are compared in public."""

import pkgutil
from pathlib import Path
from typing import Any

from alps.extension import Extension

READERS = "alps.ext.histories.data"
# The name of a task is that of its reader's module: one that is added here is a task.
SETS = tuple(
    module.name for module in pkgutil.iter_modules([str(Path(__file__).with_name("data"))])
)


def _has_part(settings: Any, folder: Path) -> bool:
    return not set(SETS).isdisjoint(settings.task.split(","))


EXTENSION = Extension(
    "histories",
    tasks={name: f"{READERS}.{name}:tracks" for name in SETS},
    task_keys=("set", "size", "memory", "max_context_tokens", "k"),
    settings="alps.ext.histories.settings:HistoriesKeys",
    commands={
        "data list": "alps.ext.histories.commands:data_list",
        "data convert": "alps.ext.histories.commands:data_convert",
        "data answers": "alps.ext.histories.commands:data_answers",
    },
    has_part=_has_part,
    part="alps.ext.histories.part:Part",
    shows=lambda summary: "histories" in summary.parts,
    shown="alps.ext.histories.tables:Shown",
)
