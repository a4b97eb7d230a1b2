"""What a system is to the engine."""

from collections.abc import Mapping
from typing import Any, Protocol

from alps.schema import Prediction


class System(Protocol):
    """Something that answers samples.

    Attributes:
        name: What the user called it.
        settings: Everything that can change its answers; written into the manifest.
    """

    name: str
    settings: Mapping[str, Any]

    async def predict(self, sample: Any) -> Prediction:
        """Answer one sample. A failure to answer is a `Prediction` with its outcome, not an exception."""
        ...
