"""Histories: sets of histories and questions by which memories are compared in public."""

import pkgutil
from functools import partial
from operator import attrgetter
from pathlib import Path

from alps.extension import Extension, runs_one_of

READERS = "alps.ext.histories.data"
# The name of a task is that of its reader's module: one that is added here is a task.
SETS = tuple(
    module.name for module in pkgutil.iter_modules([str(Path(__file__).with_name("data"))])
)

EXTENSION = Extension(
    "histories",
    needs=("datasets", "memory"),
    tasks={name: f"{READERS}.{name}:tracks" for name in SETS},
    task_keys=("set", "size", "memory", "max_context_tokens", "k"),
    settings="alps.ext.histories.settings:HistoriesKeys",
    commands={
        "data list": "alps.ext.histories.commands:data_list",
        "data convert": "alps.ext.histories.commands:data_convert",
        "data answers": "alps.ext.histories.commands:data_answers",
    },
    has_part=partial(runs_one_of, SETS),
    part="alps.ext.histories.part:Part",
    # A summary without a part of ours has no note of ours.
    shows=attrgetter("parts"),
    shown="alps.ext.histories.tables:Shown",
)
