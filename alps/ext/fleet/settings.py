"""Keys of engines and shards."""

from typing import Literal

from pydantic import Field, field_validator

from alps.ext.fleet import HERE
from alps.keys import RunKeys
from alps.values import shard_of


class FleetKeys(RunKeys):
    """What carries out a run, and which part of it."""

    shard: str | None = Field(
        None, description="3/8: only the third of eight parts of the sessions, for alps merge"
    )
    engine: Literal["asyncio", "processes", "dask"] = Field(
        HERE, description="processes: shards in processes of this machine; dask: of a cluster"
    )
    workers: int | None = Field(
        None, ge=1, le=1024, description="how many processes, or workers of the cluster [all]"
    )
    scheduler: str | None = Field(None, description="the address of the scheduler of engine=dask")

    @field_validator("shard")
    @classmethod
    def _of_a_whole(cls, shard: str | None) -> str | None:
        if shard is not None:
            shard_of(shard)
        return shard
