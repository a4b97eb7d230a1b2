"""Histories: sets of histories and questions by which memories are compared in public."""

import pkgutil
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from alps.commands import command, print_as, say
from alps.extension import Extension

if TYPE_CHECKING:
    from alps.ext.histories.settings import AnswersSettings, ConvertSettings, ListSettings

READERS, LEVELS_OF_SETS = "alps.ext.histories.data", "alps.ext.histories.levels"


def _modules(folder: str) -> tuple[str, ...]:
    found = pkgutil.iter_modules([str(Path(__file__).with_name(folder))])
    return tuple(module.name for module in found)


# The name of a task is that of its module: one that is added to a folder is a task.
SETS, LEVELS = _modules("data"), _modules("levels")


@command("[format=json]", "alps.ext.histories.settings:ListSettings", name="list", quick=True)
def data_list(settings: "ListSettings") -> None:
    """List published data sets of histories, with licence and source.

    \b
      alps data list
    """
    from alps.ext.histories.sets import list_sets, print_sets

    print_as(list_sets(), settings.format, print_sets)


@command(
    "task=… out=DIR [data=…] [set=…] [size=…]",
    "alps.ext.histories.settings:ConvertSettings",
    name="convert",
    quick=True,
)
def data_convert(settings: "ConvertSettings") -> None:
    """Convert a published data set into files for task=histories.

    \b
      alps data convert task=locomo data=locomo10.json out=mine
    """
    from alps.ext.histories.sets import convert

    say(convert(settings))


@command(
    "task=… imported=DIR out=DIR [data=…] [system=…]",
    "alps.ext.histories.settings:AnswersSettings",
    name="answers",
    quick=True,
)
def data_answers(settings: "AnswersSettings") -> None:
    """Match imported answers to the questions of a data set.

    alps writes the answers and their verdicts, and prints the settings that score them.

    \b
      alps import mem0 evaluation_metrics.json out=imported
      alps data answers task=locomo data=locomo.json imported=imported out=theirs
    """
    from alps.ext.histories.sets import write_answers

    say(write_answers(settings))


EXTENSION = Extension(
    "histories",
    needs=("adapters", "datasets", "memory"),
    tasks={
        **{name: f"{READERS}.{name}:tracks" for name in SETS},
        **{name: f"{LEVELS_OF_SETS}.{name}:tracks" for name in LEVELS},
    },
    task_keys=("set", "size", "memory", "max_context_tokens", "k"),
    settings="alps.ext.histories.settings:HistoriesKeys",
    commands={
        "data list": "alps.ext.histories:data_list",
        "data convert": "alps.ext.histories:data_convert",
        "data answers": "alps.ext.histories:data_answers",
    },
    part="alps.ext.histories.part:HistoryRunPart",
    # A summary without a part of ours has no note of ours.
    shows=attrgetter("parts"),
    shown="alps.ext.histories.tables:HistoryShownPart",
    references="alps.ext.histories:published.json",
)
