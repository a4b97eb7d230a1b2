"""Settings of `alps data personas`."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from alps.keys import (
    Address,
    AskSettings,
    Concurrency,
    FrozenSettings,
    HomePath,
    RunKeys,
    Seconds,
    Temperature,
    as_of,
    given_temperature,
)
from alps.llm.options import SAMPLING, Extra
from alps.llm.secrets import redact
from alps.llm.types import Structured


class PersonaSettings(FrozenSettings):
    """Settings of `alps data personas`."""

    out: HomePath = Field(description="folder to write")
    n: int = Field(20, ge=1, le=10_000, description="number of personas, with 35 questions each")
    size: Literal["32k", "128k", "1M"] = Field("32k", description="tokens of each history")
    language: Literal["en", "zh"] = Field("en", description="en or zh")
    seed: int = Field(0, ge=0, description="seed of every random draw")
    model: str = Field("templates", description="writer of the texts: templates or PROVIDER/MODEL")
    # Without any history a model answers 49.2 % of PersonaMem's questions at 128k.
    filter: str | None = Field(
        None, description="PROVIDER/MODEL; drops questions that it answers without history"
    )
    filter_api_base: Address = Field(None, description="endpoint of the filter")
    api_base: Address = as_of(RunKeys, "api_base")
    structured: Structured | None = as_of(RunKeys, "structured")
    temperature: Annotated[Temperature | None, BeforeValidator(given_temperature)] = as_of(
        RunKeys, "temperature"
    )
    max_tokens: int | None = as_of(RunKeys, "max_tokens")
    reasoning_effort: str | None = as_of(RunKeys, "reasoning_effort")
    request: Extra = as_of(RunKeys, "request")
    concurrency: Concurrency = as_of(AskSettings, "concurrency")
    timeout: float = as_of(AskSettings, "timeout")
    patience: Seconds = as_of(AskSettings, "patience")
    max_cost: float | None = as_of(AskSettings, "max_cost")
    max_total_tokens: int | None = as_of(AskSettings, "max_total_tokens")

    @property
    def at_once(self) -> int | None:
        """The most requests under way at each endpoint, None for as many as it is found to take."""
        return None if self.concurrency == "auto" else self.concurrency

    def sampling(self) -> dict[str, Any]:
        """Return the sampling settings of the model that were given."""
        given = {name: getattr(self, name, None) for name in SAMPLING}
        return {name: value for name, value in given.items() if value is not None}

    def content(self) -> dict[str, Any]:
        """Return what the texts depend on: how they are asked for and paid is left out."""
        asking = {"out", "concurrency", "timeout", "patience", "max_cost", "max_total_tokens"}
        values = self.model_dump(exclude=asking, exclude_defaults=True)
        for key in {"model", "filter"} & set(values):
            values[key] = redact(values[key])
        return values
