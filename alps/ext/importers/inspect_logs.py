"""Logs of Inspect, read by its own library."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

from inspect_ai.log import EvalLog, EvalSample, read_eval_log

from alps.errors import DataError, UsageError
from alps.ext.importers.reading import (
    LARGEST_FILE,
    LARGEST_PACKED,
    UNKNOWN,
    ImportedAnswer,
    first_of,
)
from alps.sizes import TooLarge, check_size, too_large

# What Inspect's scorers write for correct, incorrect, partial and no answer, and what its metrics
# take for right and wrong.
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_CONVERSATIONS = ("session", "conversation", "conversation_id")
_CATEGORIES = ("category", "question_type", "subject")
_CHUNK = 1 << 12  # bytes of an archive, of which zstd makes some 30,000 times as many
_Place = tuple[str, str | None]
"""A scorer, and a name within its values where it gives several."""


def read_inspect(path: Path) -> tuple[list[ImportedAnswer], list[str]]:
    """Read a log, `.eval` or `.json`, and what is in doubt about it.

    The score is the first value of a scorer that lies between 0 and 1 in all of the log: taken for
    each sample, ratings from 1 to 5 would be right where they are worst.

    Raises:
        UsageError: If there is no such file.
        DataError: If it is no log of Inspect, or too large.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    try:
        _check_unpacked(path)
        log = read_eval_log(str(path))
    except TooLarge as error:
        raise DataError(str(error), path=path) from error
    # A damaged archive raises what its reader of the day raises.
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"not an Inspect log ({reason})", path=path) from error
    samples = log.samples or []
    scored = _scored_by(samples)
    answers = [_answer(log.eval.model, sample, scored) for sample in samples]
    return answers, list(_doubts(path, log, scored))


def _check_unpacked(path: Path) -> None:
    """Refuse a log that is too large once it is unpacked, whatever sizes an archive declares.

    Raises:
        TooLarge: Says how to give it in parts.
        BadZipFile: If the archive is damaged.
    """
    check_size(path.stat().st_size, LARGEST_FILE, "the log")
    if not is_zipfile(path):
        return
    left = LARGEST_PACKED
    with ZipFile(path) as archive:
        for member in archive.infolist():
            member.file_size = sys.maxsize  # else no more is unpacked than the archive declares
            with archive.open(member) as file:
                while data := file.read(_CHUNK):
                    left -= len(data)
                    if left < 0:
                        unpacked = f"{too_large(LARGEST_PACKED)} unpacked"
                        raise TooLarge(f"{unpacked}; unpack it: inspect log convert --to json")


def _doubts(path: Path, log: EvalLog, scored: _Place | None) -> Iterator[str]:
    if scored is None and any(sample.scores for sample in log.samples or []):
        what = "no score is between 0 and 1 for every answer"
        yield f"{path.name}: {what}, so alps leaves all answers unscored"
    if log.status != "success":
        yield f"{path.name}: the evaluation did not succeed ({log.status})"
    samples = log.samples or []
    # A log that was stopped has the scores of its first samples, which look like a whole one's.
    planned = (log.eval.dataset.samples or 0) * (log.eval.config.epochs or 1)
    if log.results is not None:
        planned = log.results.total_samples
    if planned > len(samples):
        yield f"{path.name}: the log has {len(samples):,} of {planned:,} planned answers"
    failed = 0
    for sample in samples:
        failed += sample.error is not None and _score(sample, scored) is None
    if failed:
        yield f"{path.name}: {failed:,} of {len(samples):,} answers unscored because of an error"


def _answer(model: str, sample: EvalSample, scored: _Place | None) -> ImportedAnswer:
    again = f"#{sample.epoch}" if sample.epoch > 1 else ""
    target = sample.target if isinstance(sample.target, str) else "\n".join(sample.target)
    return ImportedAnswer(
        system=model,
        id=f"{sample.id}{again}",
        conversation=first_of(sample.metadata, _CONVERSATIONS) or str(sample.id),
        category=first_of(sample.metadata, _CATEGORIES) or UNKNOWN,
        question=_question(sample),
        gold=target or None,
        answer=sample.output.completion,
        score=_score(sample, scored),
        reasons=_reasons(sample, scored),
        # Epochs are further answers to one question, and no question that was asked twice.
        repeat=sample.epoch - 1,
    )


def _reasons(sample: EvalSample, scored: _Place | None) -> dict[str, Any]:
    score = None if scored is None else (sample.scores or {}).get(scored[0])
    return {} if score is None else {"explanation": score.explanation, **(score.metadata or {})}


def _question(sample: EvalSample) -> str | None:
    if isinstance(sample.input, str):
        return sample.input
    return sample.input[-1].text if sample.input else None


def _scored_by(samples: Sequence[EvalSample]) -> _Place | None:
    """Return where the score of a log stands: the first place with numbers from 0 to 1 alone."""
    found: dict[_Place, list[float]] = {}
    for sample in samples:
        for scorer, score in (sample.scores or {}).items():
            # A scorer may give several values under names.
            names = list(score.value) if isinstance(score.value, dict) else [None]
            for name in names:
                value = _score(sample, (scorer, name))
                found.setdefault((scorer, name), []).extend([] if value is None else [value])
    for place, values in found.items():
        if values and all(0 <= value <= 1 for value in values):
            return place
    return None


def _score(sample: EvalSample, scored: _Place | None) -> float | None:
    if scored is None or scored[0] not in (sample.scores or {}):
        return None
    value = (sample.scores or {})[scored[0]].value
    if isinstance(value, dict) != (scored[1] is not None):
        return None
    return _number(value[scored[1]] if isinstance(value, dict) and scored[1] in value else value)


def _number(value: Any) -> float | None:
    """Read a value as Inspect's own metrics do, but for words that they take for 0."""
    if isinstance(value, str):
        value = _LETTERS.get(value, _WORDS.get(value.lower(), value))
    try:
        return None if isinstance(value, list | dict) or value is None else float(value)
    except ValueError:
        return None
