"""Systems under test: litellm models, embedded systems, programs, classes and recordings."""

from alps.systems.base import System
from alps.systems.embedded import Unheard
from alps.systems.resolve import (
    NO_SYSTEM,
    PROGRAM,
    floor_systems,
    is_embedded,
    is_local,
    resolve_system,
    resolve_systems,
)

__all__ = [
    "NO_SYSTEM",
    "PROGRAM",
    "System",
    "Unheard",
    "floor_systems",
    "is_embedded",
    "is_local",
    "resolve_system",
    "resolve_systems",
]
