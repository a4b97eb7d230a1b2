"""Settings of the commands on data sets."""

from pydantic import Field

from alps.keys import DATA, SPLIT, Distractors, Format, FrozenSettings, HomePath


class DataSettings(FrozenSettings):
    """Which data."""

    data: str = Field("samples", description=DATA)
    split: str | None = Field(None, description=SPLIT)


class AuditSettings(DataSettings):
    """Settings of `alps data audit`."""

    task: str | None = Field(None, description="task whose files are audited [from their layout]")
    format: Format = Field("table", description="table or json")


class PoolSettings(DataSettings):
    """Settings of `alps data pools`."""

    out: HomePath = Field(description="folder to write")
    distractors: Distractors = Field("all", description="100, 300, 500, 700, 1000 or all")
    seed: int = Field(0, ge=0, description="seed of every random draw")
