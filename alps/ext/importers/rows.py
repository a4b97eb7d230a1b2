"""Row of an imported answer, whatever file it comes from."""

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any

from pydantic import Field

from alps.schema import FrozenRow


class ImportedAnswer(FrozenRow):
    """One answer of a system to one question of a benchmark.

    Attributes:
        part: What of the benchmark it belongs to, where that measures several things.
        id: Of the question; the same in all files of a benchmark.
        conversation: Whose questions are not independent: intervals resample it.
        gold: What was expected; None where the file does not say.
        answer: What the system said; None where the file does not say.
        score: Between 0 and 1, as the file's judge gave it; None where there is none.
        outcome: What the judge sorted it as, where that says more than right or wrong.
        abstains: Whether the right answer is that nothing is known.
        repeat: Which of several answers to the question, from 0.
        of_system: Whether the system itself wrote what is rated, so that no other has the same.
        reasons: What the judge says next to its verdict, in fields that the format knows; not
            written.
        unread: The fields of its row that the format does not know; not written.
    """

    system: str
    part: str = ""
    id: str
    conversation: str
    category: str
    question: str | None = None
    gold: str | None = None
    answer: str | None = None
    score: Annotated[float, Field(ge=0, le=1)] | None = None
    outcome: str | None = None
    abstains: bool = False
    repeat: int = 0
    of_system: bool = False
    reasons: Mapping[str, Any] = Field(default_factory=dict, exclude=True, repr=False)
    unread: Mapping[str, Any] = Field(default_factory=dict, exclude=True, repr=False)


class Numbered:
    """Ids for questions without one: conversation and position in it.

    A question that stands in its conversation twice gets two ids.
    """

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str]] = Counter()

    def of(self, conversation: str, question: str) -> str:
        """Return the id of the next question of this wording."""
        # By its words: files of two systems need not have the same order.
        digest = sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        self._seen[conversation, question] += 1
        count = self._seen[conversation, question]
        return f"{conversation}/{digest}" + (f"-{count}" if count > 1 else "")
