"""Settings of `alps reference`."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from alps.values import HomePath


class ReferenceSettings(BaseModel):
    """What `alps reference` can be told beside the folders."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: HomePath | None = Field(
        None, description="the reference tables; else those of the package"
    )
    only: str | None = Field(None, description="the id of the one table that is recomputed")
    check: bool = Field(
        False, description="yes: exit 1 where a figure is not equal to that of the file"
    )
    out: HomePath | None = Field(None, description="the file that is written, with all tables")
    format: Literal["table", "json"] = Field("table", description="table or json")
