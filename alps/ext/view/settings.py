"""Settings of `alps view`."""

from pydantic import Field

from alps.keys import FrozenSettings, HomePath


class ViewSettings(FrozenSettings):
    """Settings of `alps view`."""

    out: HomePath = Field("view", description="folder for the page")
    serve: bool = Field(
        False, description="yes: serve the page on this machine, and follow runs in progress"
    )
    port: int = Field(0, ge=0, le=65535, description="port on loopback; 0: any free port")
