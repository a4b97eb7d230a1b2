"""The judge that a name stands for."""

from collections.abc import Mapping

from alps.errors import AlpsError, UsageError, closest
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
RECORDED, FITTED = "recorded:", "fitted:"
LABELLED = "people:"
"""A label folder, which is read as a judge where people audit a run."""


def known_agreement(name: str) -> str | None:
    """Return how far an embedded judge can be trusted, as it was measured; None if nobody knows."""
    if not name.startswith(FITTED):
        return AGREEMENTS.get(name)
    from alps.judges.fitted import read_fitted

    try:
        return read_fitted(typed_path(name.removeprefix(FITTED))).agreement
    except AlpsError:  # a run is shown long after, and elsewhere
        return None


def is_embedded_judge(name: str) -> bool:
    """Tell whether `name` is a judge that needs no LLM client."""
    embedded = name in (*EMBEDDED_JUDGES, *CONSTANT_JUDGES)
    return embedded or name.startswith((RECORDED, FITTED, LABELLED))


def embedded_judge(name: str) -> Judge:
    """Return the embedded or fitted judge, or the recorded verdicts, that `name` names.

    Raises:
        UsageError: If there is none, or it needs an extra that is not installed.
        DataError: If the recorded verdicts or the fitted judge can't be read.
    """
    if name.startswith(RECORDED):
        from alps.judges.recorded import RecordedJudge

        return RecordedJudge(typed_path(name.removeprefix(RECORDED)))
    if name.startswith(FITTED):
        from alps.judges.fitted import FittedJudge

        return FittedJudge(typed_path(name.removeprefix(FITTED)))
    if name.startswith(LABELLED):
        from alps.judges.people import PeopleJudge

        return PeopleJudge(typed_path(name.removeprefix(LABELLED)))
    if name == "lexical":
        return LexicalJudge()
    if name == "minilm":
        return MiniLMJudge()
    if name in CONSTANT_JUDGES:
        return ConstantJudge(name)
    known = ", ".join(EMBEDDED_JUDGES)
    raise UsageError(
        f"judge={name}: unknown judge{closest(name, EMBEDDED_JUDGES)} (embedded: {known})"
    )
