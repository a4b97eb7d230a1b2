"""Settings of `alps report`."""

from pydantic import Field

from alps.keys import FrozenSettings, HomePath


class ReportSettings(FrozenSettings):
    """Settings of `alps report`."""

    out: HomePath | None = Field(None, description="file for the page")
