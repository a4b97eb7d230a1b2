"""Models on one's own machine: a small one that comes with it, and any file of llama.cpp's."""

from pathlib import Path
from typing import Any

from alps.extension import Extension

MODEL, FILE = "local", "local:"
"""The name of the model that comes with it, and how the name of another one's file begins."""
SERVED = ("model", "judge", "memory_llm")
"""Settings that may name such a model."""


def serves(name: str) -> bool:
    """Tell whether `model=` or `judge=` names a model that is served for the run alone."""
    return name == MODEL or name.startswith(FILE)


def _has_part(settings: Any, folder: Path) -> bool:
    return any(serves(str(getattr(settings, key, None))) for key in SERVED)


EXTENSION = Extension(
    "local",
    needs=("memory",),
    heading="Scale",
    commands={"local": "alps.ext.local.commands:local"},
    examine="alps.ext.local.doctor:examine",
    has_part=_has_part,
    part="alps.ext.local.part:Part",
    serves=serves,
    references="alps.ext.local:local.json",
    sends="alps.ext.local.sending:sender",
)
