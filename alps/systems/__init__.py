"""Systems under test: litellm models, embedded systems, programs, classes and recordings."""

from alps.systems.base import System
from alps.systems.embedded import Unheard
from alps.systems.resolve import (
    EMBEDDED,
    FLOORS,
    NO_SYSTEM,
    PROGRAM,
    embedded_names,
    floor_systems,
    is_local,
    resolve_system,
    resolve_systems,
)

__all__ = [
    "EMBEDDED",
    "FLOORS",
    "NO_SYSTEM",
    "PROGRAM",
    "System",
    "Unheard",
    "embedded_names",
    "floor_systems",
    "is_local",
    "resolve_system",
    "resolve_systems",
]
