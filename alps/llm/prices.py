"""Prices: what a model costs and how much it can answer.

The user's price file comes first, then litellm's table. The price file is TOML, one table a model,
in US dollars per million tokens:

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
they leave out stays as it is. Where nobody says what a batch costs, it is half of the rest. A model
that is free has `input = 0` and `output = 0`.

litellm's table is read from the file in its package: importing litellm takes 2.6 s, this 50 ms. Its
`get_model_info` answers for a name that its table lacks with the family that the name looks like,
at a price of 0. So a name counts as known here only where it is a key of the table: as it stands,
or without its provider where the entry is of that provider.
"""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from alps.errors import DataError, UsageError, first_fault
from alps.extension import is_served
from alps.folders import typed_path, user_folder
from alps.llm.options import may_think
from alps.slips import read_toml

_SAME_RATES = {"fast": "priority"}
# Ways of being served that cost more than the standard one: what is not priced by itself has no
# known price there.
_DEARER = ("priority", "ultrafast")
BATCH = "batch"
"""How a request in a batch is served; at half the price wherever anybody publishes one."""


@dataclass(frozen=True)
class ReplyTokens:
    """The tokens of a reply, as far as it counted them.

    All are from 0, and parts are at most their whole.

    Attributes:
        prompt: All that was sent; `cached` of them the provider had in its cache, `cache_write` it
            put there, and of those `cache_write_hour` for an hour.
        completion: All that was answered; `reasoning` of them are thought.
        service: How the request was served, as `flex` or `batch`, None for the ordinary way.
    """

    prompt: int
    completion: int
    cached: int = 0
    cache_write: int = 0
    cache_write_hour: int = 0
    reasoning: int = 0
    service: str | None = None


@dataclass(frozen=True)
class Rates:
    """US dollars per token; without one, cached and written cost as input, thought as output."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    cache_write_hour: float | None = None
    reasoning: float | None = None

    def cost(self, used: ReplyTokens) -> float:
        """Return the dollars for what was used."""
        cached = min(used.cached, used.prompt)
        written = min(used.cache_write, used.prompt - cached)
        for_an_hour = min(used.cache_write_hour, written)
        thought = min(used.reasoning, used.completion)
        write = _or(self.cache_write, self.input)
        parts = (
            (used.prompt - cached - written, self.input),
            (cached, _or(self.cached_input, self.input)),
            (written - for_an_hour, write),
            (for_an_hour, _or(self.cache_write_hour, write)),
            (used.completion - thought, self.output),
            (thought, _or(self.reasoning, self.output)),
        )
        return sum(tokens * rate for tokens, rate in parts)

    def halved(self) -> "Rates":
        """Return half of each rate."""
        return Rates(**{name: rate and rate / 2 for name, rate in vars(self).items()})


@dataclass(frozen=True)
class Tier:
    """The rates of all tokens of a request whose prompt has more than `above` tokens."""

    above: int
    rates: Rates


Rated = tuple[Rates, tuple[Tier, ...]]


@dataclass(frozen=True)
class Price:
    """What a model costs, and the most tokens that it can answer; None where it is not known.

    Attributes:
        tiers: The rates of longer prompts, the shortest first.
        services: By how a request is served, its rates and their tiers.
    """

    rates: Rates | None
    max_output_tokens: int | None
    source: str
    tiers: tuple[Tier, ...] = ()
    services: Mapping[str, Rated] = field(default_factory=dict)

    def cost(self, used: ReplyTokens) -> float | None:
        """Return the dollars for what was used, or None where the price is not known.

        A way of being served without rates of its own has the standard ones, unless it is known to
        cost more; a batch has half of them.
        """
        if self.rates is None:
            return None
        rates, tiers = self.rates, self.tiers
        service = (used.service or "standard").lower()
        service = _SAME_RATES.get(service, service)
        if service in self.services:
            rates, tiers = self.services[service]
        elif service == BATCH:
            rates = rates.halved()
            tiers = tuple(Tier(tier.above, tier.rates.halved()) for tier in tiers)
        elif service in _DEARER:
            return None
        reached = [tier.rates for tier in tiers if used.prompt > tier.above]
        return (reached[-1] if reached else rates).cost(used)


def _or(rate: float | None, otherwise: float) -> float:
    return otherwise if rate is None else rate


_FILE = "model_prices_and_context_window_backup.json"
_PROVIDERS_FILE = "provider_endpoints_support_backup.json"
_KEYS = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cached_input": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "cache_write_hour": "cache_creation_input_token_cost_above_1hr",
    "reasoning": "output_cost_per_reasoning_token",
}
# By how a request is served, what the table's keys end in
_KEY_ENDINGS = {"batch": "_batches"}
_KEY_ENDINGS |= {name: f"_{name}" for name in ("flex", "balanced", "priority", "ultrafast")}
_THRESHOLD = re.compile(
    rf"^(?P<key>{'|'.join(_KEYS.values())})_above_(?P<number>\d+)(?P<thousands>k?)_tokens"
)
# Providers whose entries name a part of them, as `bedrock_converse`
_FAMILIES = ("vertex_ai", "bedrock", "fireworks_ai")
# What may stand between `bedrock/` and a model, and says only by which interface it is asked
_BEDROCK_ROUTE = re.compile(r"\A(?:converse|invoke)/")
# Providers that charge the higher tier once its threshold is reached, not passed (litellm's cost
# calculator).
_REACHED_COUNTS = ("xai",)


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """Return litellm's table by its keys; empty where its file can't be read."""
    return {key: entry for key, entry in _read(_FILE).items() if isinstance(entry, dict)}


@cache
def providers() -> Set[str]:
    """Return the names of the providers that litellm knows, as they begin a model's name."""
    listed = _read(_PROVIDERS_FILE).get("providers")
    prefixes = {key.partition("/")[0] for key in table() if "/" in key}
    return prefixes.union(listed if isinstance(listed, dict) else ())


def is_listed(model: str) -> bool:
    """Tell whether litellm knows where a name is sent, by an entry or the name of a provider."""
    provider, slash, rest = model.partition("/")
    return entry_of(model) is not None or bool(slash and rest and provider in providers())


def listed_price(model: str) -> Price:
    """Return the table's entry of `model`; rates are None if it has no price."""
    source, entry = _source(), entry_of(model)
    if entry is None:
        return Price(None, None, source)
    longest = _number(entry.get("max_output_tokens"))
    most = int(longest) if longest is not None and longest >= 1 else None
    inclusive = entry.get("litellm_provider") in _REACHED_COUNTS
    standard = _of_ranges(entry) or _of_keys(entry, "", inclusive=inclusive)
    if standard is None:
        return Price(None, most, source)
    services: dict[str, Rated] = {}
    for name, suffix in _KEY_ENDINGS.items():
        if rates := _of_keys(entry, suffix, inclusive=inclusive):
            services[name] = rates
    base, tiers = standard
    return Price(base, most, source, tiers, services)


@cache
def _source() -> str:
    """Return whose table it is; cached, as finding a version takes 2 ms."""
    try:
        return f"litellm {version('litellm')}"
    except PackageNotFoundError:
        return "litellm is not installed"


def entry_of(model: str) -> Mapping[str, Any] | None:
    """Return the entry of `model`, None where no key is exactly its name."""
    entries = table()
    entry = entries.get(model)
    prefix, slash, rest = model.partition("/")
    if entry is not None and (not slash or prefix not in providers() or _is_of(entry, prefix)):
        return entry
    if not slash:
        return None
    if prefix == "bedrock":
        rest = _BEDROCK_ROUTE.sub("", rest)
    own = entries.get(rest)
    return own if own is not None and _is_of(own, prefix) else None


def _is_of(entry: Mapping[str, Any], prefix: str) -> bool:
    """Tell whether an entry is of the provider that `prefix` names."""
    provider = str(entry.get("litellm_provider")).replace("-", "_")
    prefix = prefix.replace("-", "_")  # `amazon-nova` is `amazon_nova` in its entries
    return provider == prefix or (prefix in _FAMILIES and provider.startswith(prefix))


def _of_keys(entry: Mapping[str, Any], suffix: str, *, inclusive: bool) -> Rated | None:
    """Return the rates of a way of being served, if any, and dearer ones for long prompts.

    What it does not price has the standard price, as litellm's cost calculator has it.
    """

    def rate(key: str) -> float | None:
        return _number(entry.get(key + suffix))

    if suffix and rate(_KEYS["input"]) is None and rate(_KEYS["output"]) is None:
        return None
    base = _rates({name: _first(rate(key), _number(entry.get(key))) for name, key in _KEYS.items()})
    if base is None:
        return None
    if suffix and rate(_KEYS["reasoning"]) is None and rate(_KEYS["output"]) is not None:
        base = Rates(**{**vars(base), "reasoning": None})
    return base, tuple(_tiers(entry, suffix, base, inclusive=inclusive))


def _tiers(
    entry: Mapping[str, Any], suffix: str, below: Rates, *, inclusive: bool
) -> Iterator[Tier]:
    """Yield the rates of longer prompts, the shortest first; each begins with those `below` it."""
    for tokens, words in sorted(_thresholds(entry)):
        above: dict[str, float] = {}
        for name, key in _KEYS.items():
            priced = f"{key}_above_{words}_tokens"
            rate = _first(_number(entry.get(priced + suffix)), _number(entry.get(priced)))
            if rate is not None:
                above[name] = rate
        if above:
            below = Rates(**{**vars(below), **above})
            yield Tier(tokens - inclusive, below)


def _thresholds(entry: Mapping[str, Any]) -> set[tuple[int, str]]:
    """Return the lengths of a prompt from which an entry has other prices, with their words."""
    thresholds = set()
    for match in filter(None, map(_THRESHOLD.match, entry)):
        tokens = int(match["number"]) * (1_000 if match["thousands"] else 1)
        thresholds.add((tokens, match["number"] + match["thousands"]))
    return thresholds


def _of_ranges(entry: Mapping[str, Any]) -> Rated | None:
    """Return the rates of an entry that lists its ranges of prompt lengths, None for others."""
    ranges, tiers = entry.get("tiered_pricing"), []
    for row in ranges if isinstance(ranges, list) else ():
        bounds = row.get("range") if isinstance(row, dict) else None
        above = _number(bounds[0]) if isinstance(bounds, list) and bounds else None
        if above is not None:
            rates = _rates({name: _number(row.get(key)) for name, key in _KEYS.items()})
            tiers += [Tier(int(above), rates)] if rates is not None else []
    return (tiers[0].rates, tuple(tiers[1:])) if tiers else None


def _rates(values: Mapping[str, float | None]) -> Rates | None:
    """Return the rates of which `values` are by name; None where tokens have no price but 0."""
    per_input, per_output = values["input"], values["output"]
    # Where both are 0 nobody told the price: a model that is free is written into a price file.
    if per_input is None or per_output is None or not (per_input or per_output):
        return None
    thought = None if values["reasoning"] == per_output else values["reasoning"]
    cached = {name: values[name] for name in ("cached_input", "cache_write", "cache_write_hour")}
    return Rates(per_input, per_output, **cached, reasoning=thought)


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _number(value: Any) -> float | None:
    """Return a finite number from 0; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < math.inf else None


def _read(name: str) -> dict[str, Any]:
    """Read a JSON file of litellm's package, without importing it."""
    spec = find_spec("litellm")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        try:
            read = json.loads((Path(folder) / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(read, dict):
            return read
    return {}


_PER = 1_000_000
_SERVICES = ("batch", "flex", "priority")
_Dollars = Annotated[float, Field(ge=0)]


class _FileRates(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    input: _Dollars
    output: _Dollars
    cached_input: _Dollars | None = None
    cache_write: _Dollars | None = None
    reasoning: _Dollars | None = None

    def over(self, base: dict[str, float]) -> dict[str, float]:
        """Return the rates in dollars per token; missing ones come from `base`."""
        rates = self.model_dump(include=set(_FileRates.model_fields), exclude_none=True)
        return base | {name: value / _PER for name, value in rates.items()}


class _FileTier(_FileRates):
    tokens: Annotated[int, Field(ge=1)]


class _FileEntry(_FileRates):
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    above: list[_FileTier] = []
    batch: _FileRates | None = None
    flex: _FileRates | None = None
    priority: _FileRates | None = None

    def price(self) -> Price:
        base = self.over({})
        longer = sorted(self.above, key=lambda tier: tier.tokens)
        tiers = tuple(Tier(tier.tokens, Rates(**tier.over(base))) for tier in longer)
        services: dict[str, Rated] = {}
        for name in _SERVICES:
            if (rates := getattr(self, name)) is not None:
                services[name] = Rates(**rates.over(base)), ()
        return Price(Rates(**base), self.max_output_tokens, "your price file", tiers, services)


def price_file() -> Path:
    """Return the user's price file: `ALPS_PRICES`, else `prices.toml` in the config folder."""
    if chosen := os.environ.get("ALPS_PRICES"):
        return typed_path(chosen)
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
    if own is None and is_served(model):
        return Price(Rates(0.0, 0.0), None, "your own machine")
    return own.price() if own is not None else listed_price(model)


def longest_budget(
    model: str, sampling: Mapping[str, Any], extra: Mapping[str, Any] | None
) -> int | None:
    """Return the most that an output budget of `model` may come to; None where it is sent none.

    None is sent where `max_tokens` is given, and to a model that reasons, by litellm's table or by
    the options of its requests: thought counts as output, and nobody knows how long it gets.
    """
    said = may_think({**sampling, **(extra or {})})
    # Behind a gateway the model is asked for by a longer name.
    entries = (entry_of(name) or {} for name in (model, model.partition("/")[2]))
    reasons = any(entry.get("supports_reasoning") for entry in entries)
    if sampling.get("max_tokens") is not None or (reasons if said is None else said):
        return None
    return price_of(model).max_output_tokens or 1_000_000


def check_priced(key: str, model: str) -> None:
    """Refuse a cap on dollars that nothing can enforce.

    Raises:
        UsageError: If the price of the model is not known.
    """
    if price_of(model).rates is None:
        fix = f"give max_total_tokens= instead, or write its price into {price_file()}"
        what = "its price is unknown, so max_cost= can't be enforced"
        raise UsageError(f"{key}={model}: {what}; {fix}")


@cache
def _own_prices(path: Path) -> dict[str, _FileEntry]:
    if not os.path.isfile(path):  # `Path.is_file` raises where a folder is not ours
        if os.environ.get("ALPS_PRICES"):
            raise UsageError(f"ALPS_PRICES={path}: no such file")
        return {}
    try:
        return TypeAdapter(dict[str, _FileEntry]).validate_python(read_toml(path))
    except ValidationError as error:
        said, field = first_fault(error)
        raise DataError(said, path=path, field=field) from error
    except OSError as error:
        raise DataError(error.strerror or "can't be read", path=path) from error
