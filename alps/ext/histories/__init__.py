"""Histories: sets of histories and questions by which memories are compared in public."""

import pkgutil
from operator import attrgetter
from pathlib import Path

from alps.extension import Extension

READERS, LEVELS_OF_SETS = "alps.ext.histories.data", "alps.ext.histories.levels"


def _modules(folder: str) -> tuple[str, ...]:
    found = pkgutil.iter_modules([str(Path(__file__).with_name(folder))])
    return tuple(module.name for module in found)


# The name of a task is that of its module: one that is added to a folder is a task.
SETS, LEVELS = _modules("data"), _modules("levels")

EXTENSION = Extension(
    "histories",
    needs=("datasets", "memory"),
    tasks={
        **{name: f"{READERS}.{name}:tracks" for name in SETS},
        **{name: f"{LEVELS_OF_SETS}.{name}:tracks" for name in LEVELS},
    },
    task_keys=("set", "size", "memory", "max_context_tokens", "k"),
    settings="alps.ext.histories.settings:HistoriesKeys",
    commands={
        "data list": "alps.ext.histories.commands:data_list",
        "data convert": "alps.ext.histories.commands:data_convert",
        "data answers": "alps.ext.histories.commands:data_answers",
    },
    part="alps.ext.histories.part:Part",
    # A summary without a part of ours has no note of ours.
    shows=attrgetter("parts"),
    shown="alps.ext.histories.tables:Shown",
    references="alps.ext.histories:published.json",
)
