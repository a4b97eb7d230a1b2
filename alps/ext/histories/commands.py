"""Commands on sets: `alps data list`, `alps data convert` and `alps data answers`."""

from typing import TYPE_CHECKING

from alps.commands import command, print_as, say

if TYPE_CHECKING:
    from alps.ext.histories.settings import AnswersSettings, ConvertSettings, ListSettings


@command("[format=json]", "alps.ext.histories.settings:ListSettings", name="list", quick=True)
def data_list(settings: "ListSettings") -> None:
    """List sets of histories: licence, language, size, source.

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
    """Write a set in the files of task=histories.

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
    """Score imported answers as the authors of a set do.

    \b
      alps import mem0 evaluation_metrics.json out=imported
      alps data answers task=locomo data=locomo10.json imported=imported out=theirs
    """
    from alps.ext.histories.sets import write_answers

    say(write_answers(settings))
