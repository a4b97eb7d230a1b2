"""Verdicts under names that a format does not know, and judgements that are errors of the judge.

No verdict is dropped in silence: where a format reads none, and the rows have a field that looks
like one, the user says which it is.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from alps.errors import UsageError, shown
from alps.ext.importers.rows import ImportedAnswer

NONE = "none"
"""What `verdict=` takes where no field is a verdict."""
_WORDS = {
    1.0: "correct right true yes pass passed met accurate success accepted",
    0.5: "partial partially_correct partly_correct half",
    0.0: "incorrect wrong false no fail failed not_met inaccurate failure rejected not_correct",
}
_MEANINGS = {word: score for score, words in _WORDS.items() for word in words.split()}
_MARKS = (0, 0.5, 1)
# A field that is the same in all rows is a verdict only if it is called like one.
_CALLED = re.compile(
    r"grade|correct|verdict|judg|label|score|pass|right|accura|eval|success|mark|rating", re.I
)
# Under these names a share between marks is a verdict, too.
_VERDICT = re.compile(r"(llm_|judge_)?(score|grade|verdict|rating|mark|judge?ment)", re.I)
_FIGURE = re.compile(r"f1|bleu|rouge|meteor|bert|similar|precision|recall|token|latency|time", re.I)
_REASON = re.compile(r"reason|error|explan|judg|eval|raw|message|feedback|comment", re.I)
_ERROR = re.compile(
    r"""\W*((api|llm|judge|judging|evaluation|server|request|connection|openai|http\w*)\W+)+
    (\w*error\b|\w*exception\b|timed?\W*out|fail(ed|ure)\b)
    |\W*[\w.]*(error|exception)\s*[:(]
    |\W*(traceback|timed?\W*out|unauthorized|rate\W?limit)
    |.*(error\ code|http|status(\ code)?)\W{1,3}[45]\d\d\b
    |.*(invalid|incorrect)\ api\ key""",
    re.I | re.X | re.S,
)
_DEEPEST = 3
_MOST = 0.5


def with_verdicts(
    path: Path, answers: Sequence[ImportedAnswer], verdict: str | None
) -> tuple[list[ImportedAnswer], list[str]]:
    """Return the answers with the verdicts of a file, and what is in doubt about these.

    Args:
        path: The file.
        answers: What its format reads of it.
        verdict: The field that is the verdict; `none` for no field.

    Raises:
        UsageError: If the format reads no verdict of most answers, and a field that it does not
            read looks like one; or if `verdict` is no such field.
    """
    if verdict == NONE:
        return _without_errors(answers)
    if verdict is not None:
        if all(verdict not in dict(_leaves(one.unread)) for one in answers):
            looks = _candidates(answers)
            hint = f"; these look like one: {', '.join(looks)}" if looks else ""
            raise UsageError(f"verdict={verdict}: {path} has no such field that is not read{hint}")
        judged = [_judged(path, number, one, verdict) for number, one in enumerate(answers, 1)]
        return _without_errors(judged)
    for part in dict.fromkeys(answer.part for answer in answers):
        _refuse_unread(path, [answer for answer in answers if answer.part == part])
    return _without_errors(answers)


def _refuse_unread(path: Path, answers: Sequence[ImportedAnswer]) -> None:
    """Refuse answers of which most have no score, and a field that looks like their verdict."""
    unscored = [answer for answer in answers if answer.score is None]
    looks = _candidates(unscored) if len(unscored) >= _MOST * len(answers) else []
    if looks:
        many = len(looks) > 1
        fields = f"the fields {', '.join(looks)} look" if many else f"the field {looks[0]} looks"
        named = " or ".join(f"verdict={name}" for name in looks)
        raise UsageError(
            f"{path}: no verdict is read of {len(unscored):,} answers, and {fields} like one; add "
            f"{named}, or verdict={NONE}"
        )


def _judged(path: Path, number: int, answer: ImportedAnswer, verdict: str) -> ImportedAnswer:
    fields = dict(_leaves(answer.unread))
    if verdict not in fields:
        return answer
    value = fields[verdict]
    score = score_of(value)
    if score is None and not _is_empty(value):
        raise UsageError(
            f"verdict={verdict}: {path}, answer {number}: {shown(value)} is no verdict: true or "
            "false, a number from 0 to 1, or a word such as correct or wrong"
        )
    return answer.model_copy(update={"score": score})


def score_of(value: object) -> float | None:
    """Return a verdict as a number from 0 to 1, of several draws the mean; None where it is none.

    The empty text and null are no verdict: the judge failed.
    """
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        draws = [score for score in map(score_of, value) if score is not None]
        return fmean(draws) if draws and len(draws) == len(value) else None
    if isinstance(value, str):
        word = re.sub(r"[\s_-]+", "_", value.strip().casefold().rstrip("."))
        if word in _MEANINGS:
            return _MEANINGS[word]
        try:
            value = float(word)
        except ValueError:
            return None
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return float(value)
    return None


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _leaves(row: Mapping[str, Any], within: str = "", deep: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a row, those in objects by their dotted names, and these objects."""
    for name, value in row.items():
        yield f"{within}{name}", value
        if isinstance(value, dict) and deep < _DEEPEST:
            yield from _leaves(value, f"{within}{name}.", deep + 1)


def _candidates(answers: Sequence[ImportedAnswer]) -> list[str]:
    """Return the fields that look like verdicts in the rows that no verdict is read of."""
    values: dict[str, list[Any]] = {}
    for answer in answers:
        for name, value in _leaves(answer.unread):
            if not _is_empty(value):
                values.setdefault(name, []).append(value)
    looks: list[str] = []
    for name, given in values.items():
        within = any(name.startswith(f"{outer}.") for outer in looks)
        if not within and len(given) >= _MOST * len(answers) and _looks(name, given):
            looks.append(name)
    return looks


def _looks(name: str, values: Sequence[Any]) -> bool:
    own = name.rpartition(".")[2]
    if _FIGURE.search(own):
        return False
    scores = {score_of(value) for value in values}
    if _VERDICT.fullmatch(own) and None not in scores:
        return True
    return all(map(_is_mark, values)) and (len(scores) > 1 or bool(_CALLED.search(own)))


def _is_mark(value: object) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return bool(value) and all(map(_is_mark, value))
    return score_of(value) in _MARKS


def _without_errors(
    answers: Sequence[ImportedAnswer],
) -> tuple[list[ImportedAnswer], list[str]]:
    """Take away the scores that an error of the judge left; return why, a line a system."""
    kept: list[ImportedAnswer] = []
    errors: dict[str, list[str]] = {}
    for answer in answers:
        why = None if answer.score is None else _error_of(answer)
        if why is not None:
            errors.setdefault(answer.system, []).append(why)
        kept.append(answer if why is None else answer.model_copy(update={"score": None}))
    doubts = []
    for system, reasons in errors.items():
        said = " ".join(reasons[0].split())
        said = said if len(said) <= 80 else f"{said[:79]}…"
        count = f"{len(reasons):,} judgements are errors of the judge, and unscored"
        doubts.append(f"{system}: {count}: {said}")
    return kept, doubts


def _error_of(answer: ImportedAnswer) -> str | None:
    """Return the error that stands where a judge gives its reason; None where there is none."""
    for name, value in _leaves(answer.unread):
        own = name.rpartition(".")[2]
        if isinstance(value, str) and _REASON.search(own) and _ERROR.match(value):
            return value
    return None
