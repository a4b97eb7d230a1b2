"""Keys of batches."""

from pydantic import Field

from alps.ext.batches import AT_ONCE
from alps.keys import JudgingKeys
from alps.llm.retries import DAY
from alps.values import Seconds


class BatchKeys(JudgingKeys):
    """Whether requests are asked in batches."""

    batch: bool = Field(False, description="yes: ask in batches, at half the price, within a day")
    batch_deadline: Seconds = Field(
        DAY, ge=0, description="what a batch has not answered by then is asked one by one"
    )

    @property
    def records_at_once(self) -> int:
        """How many records are worked on at once; with batches, as many as fill one."""
        return AT_ONCE if self.batch else super().records_at_once
