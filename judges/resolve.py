"""From `judge=` to a judge."""

from alps.errors import UsageError, closest
from alps.judges.base import Judge
from alps.judges.lexical import LexicalJudge

EMBEDDED_JUDGES = ("lexical",)


def is_embedded_judge(name: str) -> bool:
    """Tell whether `name` is a judge that needs no LLM client."""
    return name in EMBEDDED_JUDGES


def embedded_judge(name: str) -> Judge:
    """Return the embedded judge called `name`.

    Raises:
        UsageError: If there is none.
    """
    if name == "lexical":
        return LexicalJudge()
    known = ", ".join(EMBEDDED_JUDGES)
    raise UsageError(f"judge={name}: unknown judge{closest(name, EMBEDDED_JUDGES)} (embedded: {known})")
