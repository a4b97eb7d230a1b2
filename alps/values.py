"""Values of settings: how they are typed, and what each may be."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from alps.llm.retries import seconds_of
from alps.llm.secrets import check_address
from alps.text import whole_number

_LEAST_CONTEXT = 100


def _share(value: object) -> object:
    """Read `5%` as 0.05."""
    if isinstance(value, str) and value.endswith("%"):
        try:
            return float(value[:-1]) / 100
        except ValueError:
            return value
    return value


def _word(value: object) -> object:
    """Read the number of a config file as the word of the command line."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _context_sizes(value: object) -> object:
    """Read `256,1k,4k` as (256, 1024, 4096), and `1k` as 1024; a k is 1,024 tokens."""
    if isinstance(value, str):
        value = [_thousands(part) for part in value.split(",")]
    if not isinstance(value, list | tuple):
        return value
    if not all(isinstance(size, int) and size >= _LEAST_CONTEXT for size in value):
        example = "such as 4000, or 256,1k,4k,16k"
        raise ValueError(f"numbers of tokens from {_LEAST_CONTEXT} on, {example}")
    sizes = tuple(sorted(set(value)))
    return sizes if len(sizes) > 1 else sizes[0]


def _thousands(text: str) -> object:
    number, size = text.strip().casefold(), 1
    if number.endswith("k"):
        number, size = number[:-1], 1_024
    tokens = whole_number(number)
    return text if tokens is None else tokens * size


def _seconds(value: object) -> object:
    """Read `30min` as 1800."""
    return seconds_of(value) if isinstance(value, str) else value


def shard_of(text: str) -> tuple[int, int]:
    """Read `3/8`, the third of eight shards.

    Raises:
        ValueError: If it is no such fraction.
    """
    match = re.fullmatch("([1-9][0-9]{0,4})/([1-9][0-9]{0,4})", text)
    if match is None or int(match[1]) > int(match[2]):
        raise ValueError("expected NUMBER/COUNT, as 3/8")
    return int(match[1]), int(match[2])


def largest_context(sizes: int | Sequence[int] | None) -> int | None:
    """Return the largest size of `max_context_tokens=`, which the scores of a run are of."""
    return max(sizes) if isinstance(sizes, list | tuple) else sizes  # type: ignore[return-value]


def _at_home(path: str) -> str:
    """Read a leading `~` as the home folder, which most shells leave alone behind a `key=`."""
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError as error:
        raise ValueError(f"no home folder for {Path(path).parts[0]}") from error


def _readable(address: str | None) -> str | None:
    if address is not None:
        check_address(address)
    return address


def unset(value: object) -> object:
    """Read nothing, and the word for it, as a setting that is not sent."""
    return "none" if isinstance(value, str) and value.strip().casefold() in ("", "none") else value


def given_temperature(value: object) -> object:
    """Read nothing, and the word for it, as no temperature."""
    return None if unset(value) == "none" else value


Address = Annotated[str | None, AfterValidator(_readable)]
Format = Literal["table", "json"]
# A path that may begin with `~`.
HomePath = Annotated[str, AfterValidator(_at_home)]
Distractors = Annotated[Literal["100", "300", "500", "700", "1000", "all"], BeforeValidator(_word)]
Orders = Annotated[
    Literal[1, 4, 24], BeforeValidator(lambda n: int(n) if n in ("1", "4", "24") else n)
]
ContextSizes = Annotated[
    Annotated[int, Field(ge=_LEAST_CONTEXT)] | tuple[int, ...] | None,
    BeforeValidator(_context_sizes),
]
Temperature = Annotated[float, Field(ge=0)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
Concurrency = Annotated[int, Field(ge=1, le=1024)] | Literal["auto"]
Share = Annotated[float, BeforeValidator(_share), Field(ge=0, le=1)]
