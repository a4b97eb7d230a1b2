"""Keys of memories, and settings of `alps beside`, `alps diagnose` and `alps doctor memory=`."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator, model_validator

from alps.keys import EnvNames, FrozenSettings, Keys, RunKeys, as_of
from alps.llm.options import MemoryExtra
from alps.values import Address, ContextSizes, Format, largest_context

_MEMORY = "memory:"


class MemoryModels(Keys):
    """The models that a memory system is given."""

    memory_llm: str | None = Field(
        None, description="a litellm model: whom a memory system may ask"
    )
    memory_llm_api_base: Address = Field(None, description="endpoint of memory_llm")
    memory_embedder: str | None = Field(
        None,
        description="hash, minilm or a litellm model: what embeds for a memory system",
    )
    memory_embedder_api_base: Address = Field(None, description="endpoint of memory_embedder")


class MemoryKeys(MemoryModels, RunKeys):
    """What of a history is shown, and what finds it."""

    memory: str = Field(
        "full",
        description="what of a history is shown: full, none, last:N, bm25, tfidf, minilm, oracle, "
        "python:MODULE:CLASS, program:CMD, http://… or mcp:CMD",
    )
    memory_options: MemoryExtra = Field(
        None, description="memory.NAME=VALUE: what a memory system is opened with"
    )
    reader: str | None = Field(
        None, description="who answers behind model=memory:NAME: what model= takes [rules]"
    )
    max_context_tokens: ContextSizes = Field(
        None,
        description="tokens of history at most: the oldest turns go; several with commas, as "
        "256,1k,4k, for a curve (utilization, personamem)",
    )
    k: int = Field(5, ge=1, le=1_000, description="how many turns or memories a memory finds")

    @model_validator(mode="before")
    @classmethod
    def _memory_first(cls, values: Any) -> Any:
        """Read `model=memory:NAME reader=READER` as `model=READER memory=NAME`."""
        if not isinstance(values, Mapping) or not str(values.get("model", "")).startswith(_MEMORY):
            return values
        # Two ways to write one run: both have the same folder and the same settings.
        others = {name: value for name, value in values.items() if name != "reader"}
        reader = values.get("reader") or "rules"
        return {**others, "model": reader, "memory": values["model"].removeprefix(_MEMORY)}

    @field_validator("reader")
    @classmethod
    def _behind_a_memory(cls, reader: str | None) -> str | None:
        if reader is not None:
            raise ValueError("it goes with model=memory:NAME; else the reader is model=")
        return reader

    @property
    def most_context(self) -> int | None:
        """The most tokens of a history that are shown; None for any number."""
        return largest_context(self.max_context_tokens)


class DoctorKeys(MemoryModels):
    """The memory system that `alps doctor` examines."""

    memory: str | None = Field(None, description="a memory system, as alps run takes it")
    memory_options: MemoryExtra = as_of(MemoryKeys, "memory_options")
    env: EnvNames = as_of(RunKeys, "env")
    timeout: float = Field(120.0, gt=0, description="seconds for one call of it")


_TYPED_AGAIN = "that of the run, to be typed where it is code or a server of yours"


class BesideSettings(FrozenSettings):
    """What `alps beside` can be told beside the run."""

    model: str | None = Field(None, description=_TYPED_AGAIN)
    rows: str = Field(
        "none,last:10,full,bm25,oracle,placebo", description="memories, as alps run takes them"
    )
    max_cost: float | None = Field(None, ge=0, description="US dollars for each row")
    format: Format = Field("table", description="table or json")


class DiagnoseSettings(FrozenSettings):
    """What `alps diagnose` can be told beside the run."""

    model: str | None = Field(None, description=_TYPED_AGAIN)
    memory: str | None = Field(None, description=_TYPED_AGAIN)
    format: Format = Field("table", description="table or json")
