"""From `judge=` to a judge."""

from pathlib import Path

from alps.errors import UsageError, closest
from alps.judges.base import Judge
from alps.judges.lexical import LexicalJudge
from alps.judges.recorded import RecordedJudge

EMBEDDED_JUDGES = ("lexical",)
RECORDED = "recorded:"


def is_embedded_judge(name: str) -> bool:
    """Tell whether `name` is a judge that needs no LLM client."""
    return name in EMBEDDED_JUDGES or name.startswith(RECORDED)


def embedded_judge(name: str) -> Judge:
    """Return the embedded judge, or the recorded verdicts, that `name` names.

    Raises:
        UsageError: If there is none.
        DataError: If the recorded verdicts can't be read.
    """
    if name.startswith(RECORDED):
        return RecordedJudge(Path(name.removeprefix(RECORDED)).expanduser())
    if name == "lexical":
        return LexicalJudge()
    known = ", ".join(EMBEDDED_JUDGES)
    raise UsageError(
        f"judge={name}: unknown judge{closest(name, EMBEDDED_JUDGES)} (embedded: {known})"
    )
