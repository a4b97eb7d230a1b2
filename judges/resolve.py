"""Judges by name."""

from collections.abc import Mapping

from alps.errors import AlpsError, UsageError, closest
from alps.extension import brought_judges, load
from alps.folders import typed_path
from alps.judges.base import Judge
from alps.judges.embedded import (
    AGREEMENT,
    CONSTANT_JUDGES,
    MINILM_AGREEMENT,
    ConstantJudge,
    LexicalJudge,
    MiniLMJudge,
)

EMBEDDED_JUDGES = ("lexical", "minilm")
AGREEMENTS: Mapping[str, str] = {"lexical": AGREEMENT, "minilm": MINILM_AGREEMENT}
"""How far embedded judges can be trusted, as it was measured."""
RECORDED = "recorded:"


def known_agreement(name: str) -> str | None:
    """Return how far an embedded judge can be trusted, as it was measured; None if nobody knows."""
    if not name.startswith(tuple(brought_judges())):
        return AGREEMENTS.get(name)
    try:
        return getattr(embedded_judge(name), "agreement", None)
    except AlpsError:  # a run is shown long after, and elsewhere
        return None


def is_embedded_judge(name: str) -> bool:
    """Tell whether `name` is a judge that needs no LLM client."""
    embedded = name in (*EMBEDDED_JUDGES, *CONSTANT_JUDGES)
    return embedded or name.startswith((RECORDED, *brought_judges()))


def embedded_judge(name: str) -> Judge:
    """Return the embedded judge, the recorded verdicts or an extension's judge of that name.

    Raises:
        UsageError: If there is none, or it needs an extra that is not installed.
        DataError: If what it reads can't be read.
    """
    if name.startswith(RECORDED):
        from alps.judges.recorded import RecordedJudge

        return RecordedJudge(typed_path(name.removeprefix(RECORDED)))
    for start, where in brought_judges().items():
        if name.startswith(start):
            made: Judge = load(where)(typed_path(name.removeprefix(start)))
            return made
    if name == "lexical":
        return LexicalJudge()
    if name == "minilm":
        return MiniLMJudge()
    if name in CONSTANT_JUDGES:
        return ConstantJudge(name)
    known = ", ".join(EMBEDDED_JUDGES)
    raise UsageError(
        f"judge={name}: unknown judge{closest(name, EMBEDDED_JUDGES)} (built-in: {known})"
    )
