"""Keys of batches."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from alps.ext.batches import AT_ONCE, DAY
from alps.keys import JudgingKeys, Seconds


class BatchKeys(JudgingKeys):
    """Whether requests are asked in batches."""

    GROUPS: ClassVar[Mapping[str, str]] = {"scale": "batch batch_deadline"}

    batch: bool = Field(
        False, description="yes: send requests in batches, at half the price, within a day"
    )
    batch_deadline: Seconds = Field(
        DAY, ge=0, description="seconds to wait for a batch before sending single requests"
    )

    @property
    def records_at_once(self) -> int:
        """How many records are worked on at once; with batches, as many as fill one."""
        return AT_ONCE if self.batch else super().records_at_once
