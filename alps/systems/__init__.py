"""What is evaluated: any litellm model, the embedded systems, the floors, and predictions that were made elsewhere."""

from alps.systems.base import System
from alps.systems.resolve import EMBEDDED, FLOORS, is_embedded, resolve_system

__all__ = ["EMBEDDED", "FLOORS", "System", "is_embedded", "resolve_system"]
