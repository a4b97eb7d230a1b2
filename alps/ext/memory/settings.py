"""Keys of memories, and settings of `alps memory compare`, `diagnose` and `alps doctor`."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from alps.extension import EVERYDAY
from alps.keys import (
    Address,
    EnvNames,
    Format,
    FrozenSettings,
    Keys,
    RunKeys,
    as_of,
    largest_context,
)
from alps.llm.options import HEADERS, check_secret, leaves, one_header
from alps.text import whole_number

_MEMORY = "memory:"
_LEAST_CONTEXT = 100


def _context_sizes(value: object) -> object:
    """Read `256,1k,4k` as (256, 1024, 4096), and `1k` as 1024; a k is 1,024 tokens."""
    if isinstance(value, str):
        value = [_thousands(part) for part in value.split(",")]
    if not isinstance(value, list | tuple):
        return value
    if not all(isinstance(size, int) and size >= _LEAST_CONTEXT for size in value):
        example = "such as 4000, or several sizes, such as 256,1k,4k,16k"
        raise ValueError(f"must be {_LEAST_CONTEXT} tokens or more, {example}")
    sizes = tuple(sorted(set(value)))
    return sizes if len(sizes) > 1 else sizes[0]


def _thousands(text: str) -> object:
    number, size = text.strip().casefold(), 1
    if number.endswith("k"):
        number, size = number[:-1], 1_024
    tokens = whole_number(number)
    return text if tokens is None else tokens * size


def _options(value: Any) -> Any:
    """Return the options of a memory as texts by their names, a dot between those of tables.

    Raises:
        ValueError: If it is no table, or an option would hold a secret.
    """
    if value is None or value == {}:
        return None
    if not isinstance(value, Mapping):
        raise ValueError("write single options, such as memory.size=7")
    options: dict[str, str] = {}
    for path, leaf in leaves(value):
        text = str(leaf).casefold() if isinstance(leaf, bool) else str(leaf)
        name = path.removeprefix(f"{HEADERS}.")
        options[path] = text if name == path else one_header(name, text)
        if name == path:
            check_secret(path, text)
    return options


MemoryExtra = Annotated[dict[str, str] | None, BeforeValidator(_options)]
ContextSizes = Annotated[
    Annotated[int, Field(ge=_LEAST_CONTEXT)] | tuple[int, ...] | None,
    BeforeValidator(_context_sizes),
]


class MemoryModels(Keys):
    """The models that a memory system is given."""

    memory_llm: str | None = Field(
        None, description="PROVIDER/MODEL: LLM that the memory system can call"
    )
    memory_llm_api_base: Address = Field(None, description="base URL of memory_llm")
    memory_embedder: str | None = Field(
        None,
        description="hash, minilm, local (e5) or PROVIDER/MODEL: embedder for the memory system",
    )
    memory_embedder_api_base: Address = Field(None, description="base URL of memory_embedder")


class MemoryKeys(MemoryModels, RunKeys):
    """What of a history is shown, and what finds it."""

    GROUPS: ClassVar[Mapping[str, str]] = {
        EVERYDAY: "memory",
        "memory": "memory k max_context_tokens memory_options reader memory_llm memory_embedder "
        "memory_llm_api_base memory_embedder_api_base",
    }

    memory: str = Field(
        "full",
        description="history shown to the model: full, none, last:N, bm25, tfidf, minilm, e5, "
        "oracle, python:MODULE:CLASS, program:CMD, http://… or mcp:CMD",
    )
    memory_options: MemoryExtra = Field(
        None, description="memory.NAME=VALUE: option of the memory system"
    )
    reader: str | None = Field(None, description="reader of model=memory:NAME [rules]")
    max_context_tokens: ContextSizes = Field(
        None,
        description="limit on history tokens; alps drops the oldest turns; several values, such as "
        "256,1k,4k, compare context sizes (utilization, personamem)",
    )
    k: int = Field(5, ge=1, le=1_000, description="memories to retrieve")

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
            raise ValueError("use it only with model=memory:NAME; otherwise, model= is the reader")
        return reader

    @property
    def most_context(self) -> int | None:
        """The most tokens of a history that are shown; None for any number."""
        return largest_context(self.max_context_tokens)


class DoctorKeys(MemoryModels):
    """The memory system that `alps doctor` examines."""

    memory: str | None = Field(None, description="memory system, as in alps run")
    memory_options: MemoryExtra = as_of(MemoryKeys, "memory_options")
    env: EnvNames = as_of(RunKeys, "env")
    timeout: float = Field(120.0, gt=0, description="seconds for one call of the memory system")


_TYPED_AGAIN = "as in the run; needed only if it names your code or server"


class BesideSettings(FrozenSettings):
    """Settings of `alps memory compare`."""

    model: str | None = Field(None, description=_TYPED_AGAIN)
    rows: str = Field(
        "none,last:10,full,bm25,oracle,placebo", description="values of memory= to compare"
    )
    max_cost: float | None = Field(None, ge=0, description="limit for each row, in US dollars")
    format: Format = Field("table", description="table or json")


class DiagnoseSettings(FrozenSettings):
    """Settings of `alps memory diagnose`."""

    model: str | None = Field(None, description=_TYPED_AGAIN)
    memory: str | None = Field(None, description=_TYPED_AGAIN)
    format: Format = Field("table", description="table or json")
