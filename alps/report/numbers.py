"""How figures are written, wherever people read them."""

from collections.abc import Mapping
from typing import Any


def interval(score: Mapping[str, Any]) -> str:
    """Return `[.123, .456]`, or what stands for no interval."""
    if score["low"] is None or score["high"] is None:
        return "–"
    return f"[{number(score['low'])}, {number(score['high'])}]"


def number(value: float | None) -> str:
    """Return three decimals without the leading zero, or `–`."""
    if value is None:
        return "–"
    text = f"{value:.3f}"
    if text.strip("-0.") == "":
        return ".000"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def signed(value: float | None) -> str:
    """Return `number` with its sign, except for what rounds to nothing."""
    return f"+{number(value)}" if value is not None and value >= 0.0005 else number(value)


def counted(count: int, one: str, several: str = "") -> str:
    """Return `1 record` or `2 records`; `several` is the plural where it is not made by an s."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def spent(calls: Mapping[str, Any]) -> str:
    """Return the sentence on calls, tokens and cost."""
    cost = "–" if calls["cost"] is None else f"${calls['cost']:.4f}"
    hits = calls.get("cached_tokens", 0)
    kept = (
        f" ({hits / calls['prompt_tokens']:.0%} of the prompts from the provider's cache)"
        if hits
        else ""
    )
    tokens = f"{calls['prompt_tokens']:,} + {calls['completion_tokens']:,} tokens{kept}"
    return f"{counted(calls['http'], 'call')} ({calls['cached']:,} more from the cache), {tokens}, cost {cost}."
