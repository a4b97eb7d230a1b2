"""Keys of sets of histories, and settings of `alps data list`, `data convert`, `data answers`."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from alps.keys import DATA, Format, FrozenSettings, HomePath, Keys


class HistoriesKeys(Keys):
    """The keys of a run that are about sets of histories and questions."""

    GROUPS: ClassVar[Mapping[str, str]] = {"task": "set"}

    set: str | None = Field(
        None, description="oracle, s or m (longmemeval); medium or long (halumem)"
    )


class ListSettings(FrozenSettings):
    """Settings of `alps data list`."""

    format: Format = Field("table", description="table or json")


class ConvertSettings(FrozenSettings):
    """Settings of `alps data convert`."""

    task: str = Field(description="name of the data set")
    data: str = Field("samples", description=DATA)
    out: HomePath = Field(description="folder to write")
    set: str | None = Field(None, description="file of the data set, if it has several")
    size: str | None = Field(None, description="size of the data set, if it has several")


class AnswersSettings(ConvertSettings):
    """Settings of `alps data answers`."""

    imported: HomePath = Field(description="the folder that alps import wrote")
    system: str | None = Field(
        None, description="system whose answers to convert, if there are several"
    )
