"""Settings of engines and shards, and what they mean in a run: which records are its own."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator

from alps.errors import UsageError
from alps.ext.fleet import HERE
from alps.keys import RunKeys
from alps.run.parts import RunPart

if TYPE_CHECKING:
    from alps.run.source import RunData
    from alps.settings import RunSettings


class FleetKeys(RunKeys):
    """What carries out a run, and which part of it."""

    GROUPS: ClassVar[Mapping[str, str]] = {"scale": "shard engine workers scheduler"}

    shard: str | None = Field(
        None, description="3/8: run the third of eight shards; alps merge joins them"
    )
    engine: Literal["asyncio", "processes", "dask"] = Field(
        HERE, description="processes: run shards in processes on this machine; dask: on a cluster"
    )
    workers: int | None = Field(
        None, ge=1, le=1024, description="number of processes, or of cluster workers [all]"
    )
    scheduler: str | None = Field(None, description="address of the scheduler of engine=dask")

    @field_validator("shard")
    @classmethod
    def _of_a_whole(cls, shard: str | None) -> str | None:
        if shard is not None:
            shard_of(shard)
        return shard


class FleetRunPart(RunPart):
    """The shard of one run, and its engine."""

    def __init__(self, settings: "RunSettings") -> None:
        super().__init__(settings)
        self._keys = FleetKeys.of(settings)

    def refuse(self) -> None:
        """Refuse what the engine does not ask."""
        keys, without = self._keys, "leave it out"
        if keys.engine == HERE:
            idle, why = ["workers", "scheduler"], f"engine={HERE} runs in this process"
            without = "leave it out, or add engine="
        elif keys.engine == "dask":
            if keys.scheduler is None:
                raise UsageError("engine=dask needs an address: scheduler=tcp://HOST:8786")
            return
        else:
            idle, why = ["scheduler"], f"engine={keys.engine} uses no scheduler"
        for key in idle:
            if (value := getattr(keys, key)) is not None:
                raise UsageError(f"{key}={value} would change nothing: {why}; {without}")

    def narrow(self, data: "RunData") -> "RunData":
        """Return the records of the shard."""
        shard = self._keys.shard
        return data if shard is None else shard_data(data, *shard_of(shard))


def shard_of(text: str) -> tuple[int, int]:
    """Read `3/8`, the third of eight shards.

    Raises:
        ValueError: If it is no such fraction.
    """
    match = re.fullmatch("([1-9][0-9]{0,4})/([1-9][0-9]{0,4})", text)
    if match is None or int(match[1]) > int(match[2]):
        raise ValueError("expected NUMBER/COUNT, such as 3/8")
    return int(match[1]), int(match[2])


def records_by_session(data: "RunData") -> Counter[str]:
    """Return how many records each session has: all of the data are read for it."""
    records: Counter[str] = Counter()
    for track in data.tracks:
        records.update(record.session_id for record in track.named())
    return records


def shard_data(data: "RunData", number: int, count: int) -> "RunData":
    """Return one of `count` parts of data, so that each session is in one of them alone.

    Sessions and not records: intervals are between sessions, and a memory system is told the
    history of a session once. They are dealt in the order of their hashes, so that no part gets
    the long ones of a sorted file.

    Raises:
        UsageError: If there are fewer sessions than parts.
    """
    records = records_by_session(data)
    if len(records) < count:
        raise UsageError(
            f"shard={number}/{count}: more shards than sessions ({len(records)}); use fewer"
        )
    dealt = sorted(records, key=lambda name: sha256(name.encode()).digest())
    own = dealt[number - 1 :: count]
    return replace(data, sessions=frozenset(own), part=sum(records[name] for name in own))
