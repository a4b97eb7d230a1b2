"""Keys of sets of histories and questions."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from alps.keys import Keys


class HistoriesKeys(Keys):
    """The keys of a run that are about sets of histories and questions."""

    GROUPS: ClassVar[Mapping[str, str]] = {"task": "set"}

    set: str | None = Field(
        None, description="oracle, s or m (longmemeval); medium or long (halumem)"
    )
