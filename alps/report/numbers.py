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
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"
