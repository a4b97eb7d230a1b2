"""Rate limits as providers tell of them: how long to wait, and how many requests are left.

OpenAI and most others send `x-ratelimit-remaining-requests` and `x-ratelimit-reset-requests`
(`6m0s`, `17ms`, `2.5`, or a time), Anthropic `anthropic-ratelimit-requests-remaining` and `-reset`
(RFC 3339), Azure `retry-after-ms`, Google a `RetryInfo` in the body, others a sentence.
"""

import math
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

_LONGEST_RESET = 3600.0
_AN_EPOCH = 1e9
_LIMIT = re.compile(
    r"(?:^|-)ratelimit-(?:(?P<what>remaining|reset)(?:-(?P<kind>[a-z-]+))?|(?P<kind2>[a-z-]+)-(?P<what2>remaining|reset))$"
)
_DURATION = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)(?![a-z])"
)
_UNITS = {"ms": 0.001, "mi": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_IN_WORDS = re.compile(
    r"(?:try again|retry|reset)s?\s+(?:in|after)\s+((?:\d+(?:\.\d+)?\s*"
    r"(?:ms|milliseconds?|s|sec|seconds?|m|min|minutes?|h|hours?)(?![a-z])[\s,]*(?:and\s*)?)+)",
    re.IGNORECASE,
)
_RETRY_INFO = re.compile(r'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"')


@dataclass(frozen=True)
class Limit:
    """One limit: how much of it is left, and in how many seconds it is whole again.

    None where that is not said.
    """

    remaining: float | None = None
    reset: float | None = None


def limits(headers: Mapping[str, str], now: float | None = None) -> dict[str, Limit]:
    """Return the limits that headers tell of: `requests`, `tokens` and the like.

    Args:
        headers: By their names in lower case.
        now: Seconds since 1970, by default the time.
    """
    now = time.time() if now is None else now
    told: dict[str, dict[str, float | None]] = {}
    for name, value in headers.items():
        part = _LIMIT.search(name)
        if part is not None:
            kind = part["kind"] or part["kind2"] or "requests"
            what = part["what"] or part["what2"]
            told.setdefault(kind, {})[what] = (
                _number(value) if what == "remaining" else _until(value, now)
            )
    return {kind: Limit(parts.get("remaining"), parts.get("reset")) for kind, parts in told.items()}


def seconds_asked(headers: Mapping[str, str], body: str = "") -> float | None:
    """Return the seconds that the server asks to wait, by its headers or else by its words.

    None where it does not.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    if "retry-after" in headers:
        return _retry_after(headers["retry-after"])
    info = _RETRY_INFO.search(body)
    if info is not None:
        return float(info[1])
    words = _IN_WORDS.search(body)
    return None if words is None else _duration(words[1])


def seconds_to_reset(headers: Mapping[str, str]) -> float | None:
    """Return in how many seconds the limits that are used up are whole again.

    None where none is, or nothing is said.

    Where a limit fills up steadily, requests may go through sooner: it is an upper bound.
    """
    resets = [
        limit.reset
        for limit in limits(headers).values()
        if limit.remaining is not None and limit.remaining < 1 and limit.reset is not None
    ]
    return min(max(resets), _LONGEST_RESET) if resets else None


def requests_left(headers: Mapping[str, str]) -> tuple[float, float] | None:
    """Return how many requests are left, and in how many seconds the limit is whole again.

    None where nobody says.
    """
    limit = (
        limits(headers).get("requests") if any("ratelimit" in name for name in headers) else None
    )
    if limit is None or limit.remaining is None or limit.reset is None:
        return None
    return max(0.0, limit.remaining), min(limit.reset, _LONGEST_RESET)


def _retry_after(value: str) -> float | None:
    seconds = _number(value)
    if seconds is not None:
        return max(0.0, seconds)
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    return None


def _until(value: str, now: float) -> float | None:
    """Return the seconds to a reset, told as a duration, as seconds, as a time since 1970 or as a
    date.
    """
    number = _number(value)
    if number is not None and number >= _AN_EPOCH:
        number = number / (1000 if number >= 1000 * _AN_EPOCH else 1) - now
    if number is not None:
        return max(0.0, number)
    with suppress(ValueError, OverflowError):
        return max(0.0, datetime.fromisoformat(value.strip()).timestamp() - now)
    return _duration(value)


def _duration(text: str) -> float | None:
    """Read `6m0s`, `17ms`, `2m59.56s` or `20 seconds`."""
    parts = _DURATION.findall(text.strip().lower())
    if not parts:
        return None
    return sum(float(number) * _UNITS.get(unit[:2], _UNITS[unit[:1]]) for number, unit in parts)


def _number(value: str) -> float | None:
    with suppress(ValueError):
        number = float(value)
        return number if math.isfinite(number) else None
    return None
