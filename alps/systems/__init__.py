"""What is evaluated: any litellm model, the embedded systems, the floors, and predictions that were
made elsewhere.
"""

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
