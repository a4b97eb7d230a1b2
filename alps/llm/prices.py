"""What a model costs and how much it can answer: the user's price file first, then litellm's table.

The price file is TOML, one table a model, in US dollars per million tokens:

    ["openai/my-model"]
    input = 0.40
    cached_input = 0.10
    cache_write = 0.50
    output = 1.60
    reasoning = 1.60
    max_output_tokens = 8192
    batch = { input = 0.20, output = 0.80 }
    above = [{ tokens = 200_000, input = 0.80, output = 2.40 }]

`cached_input` is for tokens of a prompt that the provider had in its cache, `cache_write` for those
that it put there; without them they cost as much as others. `reasoning` is for thought, which
otherwise costs what `output` does. `batch`, `flex` and `priority` are the rates of requests that
are served so, and `above` those of all tokens of a request whose prompt is longer than that; what
they leave out stays as it is. A model that is free has `input = 0` and `output = 0`.
"""

import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from alps.errors import DataError, UsageError
from alps.folders import user_folder
from alps.llm.price_table import listed_price
from alps.llm.rates import Price, Rates, Tier

_PER = 1_000_000
_SERVICES = ("batch", "flex", "priority")
_Dollars = Annotated[float, Field(ge=0)]


class _Rates(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    input: _Dollars
    output: _Dollars
    cached_input: _Dollars | None = None
    cache_write: _Dollars | None = None
    reasoning: _Dollars | None = None

    def over(self, base: dict[str, float]) -> dict[str, float]:
        """Return the rates in dollars a token, with those of `base` where they leave something out."""
        given = self.model_dump(include=set(_Rates.model_fields), exclude_none=True)
        return base | {name: value / _PER for name, value in given.items()}


class _Tier(_Rates):
    tokens: Annotated[int, Field(ge=1)]


class _Entry(_Rates):
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    above: list[_Tier] = []
    batch: _Rates | None = None
    flex: _Rates | None = None
    priority: _Rates | None = None

    def price(self) -> Price:
        """Return the entry as a price."""
        base = self.over({})
        longer = sorted(self.above, key=lambda tier: tier.tokens)
        tiers = tuple(Tier(tier.tokens, Rates(**tier.over(base))) for tier in longer)
        services = {name: rates for name in _SERVICES if (rates := getattr(self, name)) is not None}
        return Price(
            **base,
            max_output_tokens=self.max_output_tokens,
            source="your price file",
            tiers=tiers,
            services={name: (Rates(**rates.over(base)), ()) for name, rates in services.items()},
        )


def price_file() -> Path:
    """Return where the user's price file lies: `ALPS_PRICES`, else `prices.toml` in the user's
    config folder.
    """
    if chosen := os.environ.get("ALPS_PRICES"):
        return Path(chosen)
    return (user_folder("config") or Path(os.devnull)) / "prices.toml"


def price_of(model: str) -> Price:
    """Return the price of `model`.

    Raises:
        UsageError: If `ALPS_PRICES` names a file that does not exist.
        DataError: If the price file can't be read.
    """
    return _price_of(model, price_file())


@cache
def _price_of(model: str, path: Path) -> Price:
    own = _own_prices(path).get(model)
    return own.price() if own is not None else listed_price(model)


def check_priced(key: str, model: str) -> None:
    """Refuse a cap on dollars that nothing can enforce.

    Raises:
        UsageError: If the price of the model is not known.
    """
    if not price_of(model).known:
        raise UsageError(
            f"{key}={model}: its price is unknown, so max_cost= can't hold; give max_total_tokens= instead, or write "
            f"its price into {price_file()}"
        )


def has_own_price(model: str) -> bool:
    """Tell whether the user's price file names `model`."""
    return model in _own_prices(price_file())


@cache
def _own_prices(path: Path) -> dict[str, _Entry]:
    if not os.path.isfile(
        path
    ):  # unlike `Path.is_file` it takes a folder that is not ours for none
        if os.environ.get("ALPS_PRICES"):
            raise UsageError(f"ALPS_PRICES={path}: no such file")
        return {}
    try:
        return TypeAdapter(dict[str, _Entry]).validate_python(
            tomllib.loads(path.read_text(encoding="utf-8"))
        )
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"not TOML ({error})", path=path) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(
            first["msg"], path=path, field=".".join(str(part) for part in first["loc"])
        ) from error
    except OSError as error:
        raise DataError(error.strerror or "can't be read", path=path) from error
