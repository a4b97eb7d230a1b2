"""What a model costs and how much it can answer: the user's price file first, then litellm's table.

The price file is TOML, one table a model, in US dollars per million tokens:

    ["openai/my-model"]
    input = 0.40
    cached_input = 0.10
    output = 1.60
    max_output_tokens = 8192

`cached_input` is for tokens of a prompt that the provider had in its cache; without it they cost as much as others.
"""

import os
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from alps.errors import DataError, UsageError
from alps.folders import user_folder
from alps.llm.libraries import libraries

_PER = 1_000_000


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]
    cached_input: Annotated[float, Field(ge=0)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None


@dataclass(frozen=True)
class Price:
    """US dollars per token, and the most tokens the model can answer; None where it is not known."""

    input: float | None
    output: float | None
    max_output_tokens: int | None
    source: str
    cached_input: float | None = None

    def cost(self, prompt_tokens: int, completion_tokens: int, *, cached_tokens: int = 0) -> float | None:
        """Return the dollars for so many tokens, or None where the price is not known.

        Args:
            prompt_tokens: All that was sent.
            completion_tokens: All that was answered.
            cached_tokens: Those of the prompt that the provider had in its cache.
        """
        if self.input is None or self.output is None:
            return None
        cached = self.input if self.cached_input is None else self.cached_input
        sent = (prompt_tokens - cached_tokens) * self.input + cached_tokens * cached
        return sent + completion_tokens * self.output


def price_file() -> Path:
    """Return where the user's price file lies: `ALPS_PRICES`, else `prices.toml` in the user's config folder."""
    if chosen := os.environ.get("ALPS_PRICES"):
        return Path(chosen)
    return (user_folder("config") or Path(os.devnull)) / "prices.toml"


@cache
def price_of(model: str) -> Price:
    """Return the price of `model`.

    Raises:
        UsageError: If `ALPS_PRICES` names a file that does not exist.
        DataError: If the price file can't be read.
    """
    own = _own_prices(price_file()).get(model)
    if own is not None:
        cached = None if own.cached_input is None else own.cached_input / _PER
        return Price(own.input / _PER, own.output / _PER, own.max_output_tokens, "your price file", cached)
    facts = _facts(model)
    source = f"litellm {version('litellm')}"
    return Price(facts.get("input"), facts.get("output"), facts.get("max_output_tokens"), source)


def _facts(model: str) -> dict[str, Any]:
    """Return what litellm's table says of `model`: `input` and `output` in US dollars a token, `max_output_tokens`.

    What the table does not know is absent.
    """
    litellm = libraries().litellm
    try:
        info = litellm.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for a model that it does not know
        return {}
    names = {
        "input": "input_cost_per_token",
        "output": "output_cost_per_token",
        "max_output_tokens": "max_output_tokens",
    }
    return {short: info[name] for short, name in names.items() if info.get(name) is not None}


def has_own_price(model: str) -> bool:
    """Tell whether the user's price file names `model`."""
    return model in _own_prices(price_file())


@cache
def _own_prices(path: Path) -> dict[str, _Entry]:
    if not os.path.isfile(path):  # unlike `Path.is_file` it takes a folder that is not ours for none
        if os.environ.get("ALPS_PRICES"):
            raise UsageError(f"ALPS_PRICES={path}: no such file")
        return {}
    try:
        return TypeAdapter(dict[str, _Entry]).validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"not TOML ({error})", path=path) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(first["msg"], path=path, field=".".join(str(part) for part in first["loc"])) from error
    except OSError as error:
        raise DataError(error.strerror or "can't be read", path=path) from error
