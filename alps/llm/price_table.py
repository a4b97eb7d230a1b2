"""litellm's own table of prices, read from the file in its package: importing litellm takes 2.6 s,
this 50 ms.

litellm's `get_model_info` answers for a name that its table lacks with the family that the name
looks like, at a price of 0. So a name counts as known here only where it is a key of the table: as
it stands, or without its provider where the entry is of that provider.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from alps.llm.rates import Price, Rates, Tier

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
_SERVICES = {
    "batch": "_batches",
    "flex": "_flex",
    "balanced": "_balanced",
    "priority": "_priority",
    "ultrafast": "_ultrafast",
}
"""By how a request is served, what the table's keys end in."""
_THRESHOLD = re.compile(
    rf"^(?P<key>{'|'.join(_KEYS.values())})_above_(?P<number>\d+)(?P<thousands>k?)_tokens"
)
_FAMILIES = ("vertex_ai", "bedrock", "fireworks_ai")
"""Providers whose entries name a part of them, as `bedrock_converse`."""
_BEDROCK_ROUTES = ("converse/", "invoke/")
"""What may stand between `bedrock/` and a model, and says only by which of its interfaces it is
asked.
"""
_REACHED_COUNTS = ("xai",)
"""Providers that charge the higher tier once its threshold is reached, not passed (litellm's cost
calculator).
"""


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """Return litellm's table by its keys.

    Empty where litellm is not installed, or its file can't be read.
    """
    read = _read(_FILE)
    return {key: entry for key, entry in read.items() if isinstance(entry, dict)}


@cache
def providers() -> frozenset[str]:
    """Return the names of the providers that litellm knows, as they stand before the `/` of a
    model.
    """
    listed = _read(_PROVIDERS_FILE).get("providers")
    return frozenset(listed if isinstance(listed, dict) else ()) | {
        key.partition("/")[0] for key in table() if "/" in key
    }


def is_listed(model: str) -> bool:
    """Tell whether litellm's files say where a name is sent: it has an entry, or a provider that
    they list.
    """
    provider, slash, rest = model.partition("/")
    return entry_of(model) is not None or bool(slash and rest and provider in providers())


def listed_price(model: str) -> Price:
    """Return what the table says of `model`; its rates are None where the table does not price it."""
    source, entry = _source(), entry_of(model)
    if entry is None:
        return Price(None, None, None, source)
    longest = _number(entry.get("max_output_tokens"))
    most = int(longest) if longest is not None and longest >= 1 else None
    inclusive = entry.get("litellm_provider") in _REACHED_COUNTS
    standard = _of_ranges(entry) or _of_keys(entry, "", inclusive=inclusive)
    if standard is None:
        return Price(None, None, most, source)
    services = {
        name: _of_keys(entry, suffix, inclusive=inclusive) for name, suffix in _SERVICES.items()
    }
    return Price(
        **vars(standard[0]),
        max_output_tokens=most,
        source=source,
        tiers=standard[1],
        services={
            name: (rates[0], rates[1]) for name, rates in services.items() if rates is not None
        },
    )


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
        rest = next(
            (rest.removeprefix(route) for route in _BEDROCK_ROUTES if rest.startswith(route)), rest
        )
    own = entries.get(rest)
    return own if own is not None and _is_of(own, prefix) else None


def _is_of(entry: Mapping[str, Any], prefix: str) -> bool:
    """Tell whether an entry is of the provider that `prefix` names."""
    provider = str(entry.get("litellm_provider")).replace("-", "_")
    prefix = prefix.replace("-", "_")  # `amazon-nova` is `amazon_nova` in its entries
    return provider == prefix or (prefix in _FAMILIES and provider.startswith(prefix))


Rated = tuple[Rates, tuple[Tier, ...]]


def _of_keys(entry: Mapping[str, Any], suffix: str, *, inclusive: bool) -> Rated | None:
    """Return the rates for a way of being served, dearer ones for long prompts with them.

    None where there are none.

    What a way of being served does not price has the standard price, as litellm's cost calculator
    has it.
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
    tiers = []
    below = base
    for tokens, words in sorted(_thresholds(entry)):
        above = {
            name: _first(
                rate(f"{key}_above_{words}_tokens"),
                _number(entry.get(f"{key}_above_{words}_tokens")),
            )
            for name, key in _KEYS.items()
        }
        if all(value is None for value in above.values()):
            continue
        kept = {
            **vars(below),
            **{name: value for name, value in above.items() if value is not None},
        }
        below = Rates(**kept)
        tiers.append(Tier(tokens - inclusive, below))
    return base, tuple(tiers)


def _thresholds(entry: Mapping[str, Any]) -> set[tuple[int, str]]:
    """Return from how many tokens of a prompt on an entry has other prices, with the word that its
    keys have for it.
    """
    matches = [match for key in entry if (match := _THRESHOLD.match(key))]
    return {
        (
            int(match["number"]) * (1_000 if match["thousands"] else 1),
            match["number"] + match["thousands"],
        )
        for match in matches
    }


def _of_ranges(entry: Mapping[str, Any]) -> Rated | None:
    """Return the rates of an entry that lists its ranges of prompt lengths.

    None where it lists none.
    """
    ranges = entry.get("tiered_pricing")
    if not isinstance(ranges, list):
        return None
    found = list(_ranges(ranges))
    return (found[0].rates, tuple(found[1:])) if found else None


def _ranges(ranges: list[Any]) -> Iterator[Tier]:
    for row in ranges:
        bounds = row.get("range") if isinstance(row, dict) else None
        if not isinstance(bounds, list) or not bounds or (above := _number(bounds[0])) is None:
            continue
        rates = _rates({name: _number(row.get(key)) for name, key in _KEYS.items()})
        if rates is not None:
            yield Tier(int(above), rates)


def _rates(values: Mapping[str, float | None]) -> Rates | None:
    """Return the rates of which `values` are by name.

    None where tokens have no price, or none but 0.

    Where both are 0 nobody told the price: a model that is free is written into a price file.
    """
    per_input, per_output = values["input"], values["output"]
    if per_input is None or per_output is None or not (per_input or per_output):
        return None
    thought = None if values["reasoning"] == per_output else values["reasoning"]
    cached = {name: values[name] for name in ("cached_input", "cache_write", "cache_write_hour")}
    return Rates(per_input, per_output, **cached, reasoning=thought)


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _number(value: Any) -> float | None:
    """Return a finite number from 0; None for anything else."""
    is_number = (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    )
    return float(value) if is_number and value >= 0 else None


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
