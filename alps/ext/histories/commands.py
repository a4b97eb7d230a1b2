"""The command `alps data list`."""

from typing import TYPE_CHECKING

from alps.commands.common import command, print_as

if TYPE_CHECKING:
    from alps.ext.histories.listing import ListSettings


@command("[format=json]", "alps.ext.histories.listing:ListSettings", name="list", quick=True)
def data_list(settings: "ListSettings") -> None:
    """List the sets of histories and questions: licence, language, size, and where they are.

    \b
      alps data list
    """
    from alps.ext.histories.listing import list_sets, print_sets

    print_as(list_sets(), settings.format, print_sets)
