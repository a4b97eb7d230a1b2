"""The question that a judge is asked, whatever it is about.

Its kinds are `MatchQuestion`, `SupportQuestion`, `RubricQuestion` and `OptionQuestion`, each next
to the verdict that answers it.
"""

from typing import Any, ClassVar, Generic, TypeVar

from alps.schema import Outcome

V = TypeVar("V")


class Question(Generic[V]):
    """One thing that a judge is asked; `V` is the verdict that answers it.

    Attributes:
        unanswered: Why a judge that can't answer it does not.
    """

    unanswered: ClassVar[str]

    def payload(self) -> dict[str, Any]:
        """Return the question as an LLM is shown it."""
        raise NotImplementedError

    def failed(self, outcome: Outcome, error: str | None, raw: tuple[str, ...] = ()) -> V:
        """Return the verdict where there is none: nothing may be concluded from it."""
        raise NotImplementedError

    def refused(self) -> V:
        """Return the verdict of a judge that can't answer it."""
        return self.failed("invalid", self.unanswered)
