"""Logs of Inspect, read by its own library."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inspect_ai.log import EvalLog, EvalSample, read_eval_log

from alps.errors import DataError, UsageError
from alps.importers.rows import ImportedAnswer

# What Inspect's scorers write for correct, incorrect, partial and no answer, and what its metrics
# take for right and wrong.
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_CONVERSATIONS = ("session", "conversation", "conversation_id")
_CATEGORIES = ("category", "question_type", "subject")


def read_inspect(path: Path) -> tuple[list[ImportedAnswer], list[str]]:
    """Read a log, `.eval` or `.json`, and what is in doubt about it.

    The score is the first that lies between 0 and 1.

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
    answers = [_answer(log.eval.model, sample) for sample in log.samples or []]
    return answers, list(_doubts(path, log))


def _doubts(path: Path, log: EvalLog) -> Iterator[str]:
    if log.status != "success":
        yield f"{path.name}: its evaluation did not end well ({log.status})"
    samples = log.samples or []
    planned = (log.eval.dataset.samples or 0) * (log.eval.config.epochs or 1)
    if log.results is not None:
        planned = log.results.total_samples
    if planned > len(samples):
        yield f"{path.name}: {len(samples):,} answers of {planned:,} that were planned"
    failed = sum(sample.error is not None and _score(sample) is None for sample in samples)
    if failed:
        yield f"{path.name}: {failed:,} of {len(samples):,} answers ended in an error, unscored"


def _answer(model: str, sample: EvalSample) -> ImportedAnswer:
    again = f"#{sample.epoch}" if sample.epoch > 1 else ""
    target = sample.target if isinstance(sample.target, str) else "\n".join(sample.target)
    return ImportedAnswer(
        system=model,
        id=f"{sample.id}{again}",
        conversation=_first(sample, _CONVERSATIONS) or str(sample.id),
        category=_first(sample, _CATEGORIES) or "unknown type",
        question=_question(sample),
        gold=target or None,
        answer=sample.output.completion,
        score=_score(sample),
        repeat=sample.epoch - 1,
    )


def _question(sample: EvalSample) -> str | None:
    if isinstance(sample.input, str):
        return sample.input
    return sample.input[-1].text if sample.input else None


def _first(sample: EvalSample, names: tuple[str, ...]) -> str | None:
    for name in names:
        if sample.metadata.get(name):
            return str(sample.metadata[name])
    return None


def _score(sample: EvalSample) -> float | None:
    for score in (sample.scores or {}).values():
        # A scorer may give several values under names.
        values = score.value.values() if isinstance(score.value, dict) else [score.value]
        for value in map(_number, values):
            if value is not None and 0 <= value <= 1:
                return value
    return None


def _number(value: Any) -> float | None:
    """Read a value as Inspect's own metrics do, but for words that they take for 0."""
    if isinstance(value, str):
        value = _LETTERS.get(value, _WORDS.get(value.lower(), value))
    try:
        return None if isinstance(value, list) or value is None else float(value)
    except ValueError:
        return None
