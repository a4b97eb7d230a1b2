"""Settings of `alps view`."""

from pydantic import Field

from alps.keys import FrozenSettings
from alps.values import HomePath


class ViewSettings(FrozenSettings):
    """Settings of `alps view`."""

    out: HomePath = Field("view", description="the folder that the page is written into")
    serve: bool = Field(
        False, description="serve the page on this machine instead, and show runs as they go on"
    )
    port: int = Field(0, ge=0, le=65535, description="where it is served; 0: any that is free")
