"""Logs of Inspect, read by its own library."""

from pathlib import Path
from typing import Any

from inspect_ai.log import EvalSample, read_eval_log

from alps.errors import DataError, UsageError
from alps.importers.rows import ImportedAnswer

# What Inspect's scorers write for correct, incorrect, partial and no answer.
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_CONVERSATIONS = ("session", "conversation", "conversation_id")
_CATEGORIES = ("category", "question_type", "subject")


def read_inspect(path: Path) -> list[ImportedAnswer]:
    """Read a log, `.eval` or `.json`; the score is the first that lies between 0 and 1.

    Raises:
        UsageError: If there is no such file.
        DataError: If it is no log of Inspect.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    try:
        log = read_eval_log(str(path))
    # A damaged archive raises what its reader of the day raises.
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"no log of Inspect ({reason})", path=path) from error
    return [_answer(log.eval.model, sample) for sample in log.samples or []]


def _answer(model: str, sample: EvalSample) -> ImportedAnswer:
    again = f"#{sample.epoch}" if sample.epoch > 1 else ""
    asked = sample.input if isinstance(sample.input, str) else sample.input[-1].text
    target = sample.target if isinstance(sample.target, str) else "\n".join(sample.target)
    return ImportedAnswer(
        system=model,
        id=f"{sample.id}{again}",
        conversation=_first(sample, _CONVERSATIONS) or str(sample.id),
        category=_first(sample, _CATEGORIES) or "unknown type",
        question=asked,
        gold=target or None,
        answer=sample.output.completion,
        score=_score(sample),
    )


def _first(sample: EvalSample, names: tuple[str, ...]) -> str | None:
    for name in names:
        if sample.metadata.get(name):
            return str(sample.metadata[name])
    return None


def _score(sample: EvalSample) -> float | None:
    for score in (sample.scores or {}).values():
        value: Any = _LETTERS.get(str(score.value), score.value)
        if isinstance(value, bool | int | float) and 0 <= value <= 1:
            return float(value)
    return None
