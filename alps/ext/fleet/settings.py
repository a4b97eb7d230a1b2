"""Keys of engines and shards."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from alps.ext.fleet import HERE
from alps.keys import RunKeys, shard_of


class FleetKeys(RunKeys):
    """What carries out a run, and which part of it."""

    GROUPS: ClassVar[Mapping[str, str]] = {"scale": "shard engine workers scheduler"}

    shard: str | None = Field(
        None, description="3/8: the third of eight shards of the sessions, for alps merge"
    )
    engine: Literal["asyncio", "processes", "dask"] = Field(
        HERE, description="processes: shards in processes of this machine; dask: on a cluster"
    )
    workers: int | None = Field(
        None, ge=1, le=1024, description="number of processes, or of workers of the cluster [all]"
    )
    scheduler: str | None = Field(None, description="address of the scheduler of engine=dask")

    @field_validator("shard")
    @classmethod
    def _of_a_whole(cls, shard: str | None) -> str | None:
        if shard is not None:
            shard_of(shard)
        return shard
