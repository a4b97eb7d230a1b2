"""The part of engines and shards in a run: which records are its own."""

from alps.errors import UsageError
from alps.ext.fleet import HERE
from alps.ext.fleet.settings import FleetKeys
from alps.keys import shard_of
from alps.run.parts import RunPart
from alps.run.source import RunData
from alps.settings import RunSettings


class Part(RunPart):
    """The shard of one run, and its engine."""

    def __init__(self, settings: RunSettings) -> None:
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

    def narrow(self, data: RunData) -> RunData:
        """Return the records of the shard."""
        shard = self._keys.shard
        return data if shard is None else data.shard(*shard_of(shard))
