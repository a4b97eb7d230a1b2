"""Verdicts under names that a format does not know, and judgements that are errors of the judge.

No verdict is dropped in silence: where a format reads none, and the rows have a field that looks
like one, the user says which it is.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from alps.errors import UsageError, shown
from alps.ext.importers.looks import MOST, is_empty, leaves, looking_like_verdicts
from alps.ext.importers.marks import (
    MarkScale,
    first_values,
    how_to_map,
    read_scale,
    score_of,
    with_letters,
)
from alps.ext.importers.rows import ImportedAnswer
from alps.show.formatting import counted

NONE = "none"
"""What `verdict=` takes where no field is a verdict."""
_REASON = re.compile(r"reason|error|explan|judg|(?<!retri)eval|raw|message|feedback|comment", re.I)
# Next to a verdict, a field of this name says that the judge failed, whatever it says.
_FAILED = re.compile(
    r"(judge|judging|llm_judge|grader|grading|eval(uation)?)_?(error|exception)", re.I
)
_ERROR = re.compile(
    r"""\W*((api|llm|judge|judging|evaluation|server|request|connection|openai|http\w*)\W+)+
    (\w*error\b|\w*exception\b|timed?\W*out|fail(ed|ure)\b)
    |\W*[\w.]*(error|exception)\s*[:(]
    |\W*[\w.]*(error|exception|timeout)\W*\Z
    |\W*(traceback|timed\W*out|time[-_]?out\b
        |unauthorized|rate\W?limit|too\ many\ requests|insufficient_quota
        |service\ unavailable|bad\ gateway|gateway\ time|internal\ server\ error|overloaded
        |connection\ (refused|reset|aborted|closed)|max(imum)?\ retries|expecting\ value:
        |(you\ )?exceeded\ your\ current\ quota|you\ exceeded|'?nonetype'?\ object)
    |\W*(error\W{1,3})?[45]\d\d\W{1,3}(\w+\ )?(error|unauthorized|forbidden|not\ found|too\ many
        |bad|internal|service|gateway|client|server|\{)
    |\W*error\W{1,3}[45]\d\d\b
    |\W*no\ (response|reply|output|verdict)\ from\ (the\ )?(judge|llm|api|server|grader|evaluator)
    |\W*(failed\ to|unable\ to|could\ not|couldn't|cannot|can't)\ (
        (parse|decode|read)\ (the\ )?(json|judge|verdict|score|response|reply|output|llm)
        |(connect\ to|reach|call)\ (the\ )?(judge|llm|api|server|host|model|openai))
    |.*(error\ code|http|status(\ code)?)\W{1,3}[45]\d\d\b
    |.*(invalid|incorrect)\ api\ key""",
    re.I | re.X | re.S,
)
_NAMED = 6


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
        judged, doubts = _read_verdicts(path, answers, verdict)
        kept, errors = _without_errors(judged)
        return kept, doubts + errors
    kept, doubts = _without_errors(answers)
    for part in dict.fromkeys(answer.part for answer in answers):
        own = [answer for answer in answers if answer.part == part]
        doubts += _refuse_unread(path, own)
    return kept, doubts


def _refuse_unread(path: Path, answers: Sequence[ImportedAnswer]) -> Iterator[str]:
    """Refuse answers of which most have no score, and a field that looks like their verdict.

    Where most have one, yield what other field contradicts it.
    """
    unscored = [answer for answer in answers if answer.score is None]
    if len(unscored) < MOST * len(answers):
        yield from _contradicted(answers)
        return
    # A judge that failed on all of a file said nothing.
    rows = [answer.unread for answer in unscored if _error_of(answer) is None]
    looks = looking_like_verdicts(rows)
    if not looks:
        return
    looks = dict(list(looks.items())[:_NAMED])
    listed = ", ".join(looks)
    fields = f"the fields {listed} look" if len(looks) > 1 else f"the field {listed} looks"
    named = " or ".join(f"verdict={name}" for name in looks)
    first = "; ".join(f"{name}: {first_values(given)}" for name, given in looks.items())
    raise UsageError(
        f"{path}: {counted(len(unscored), 'answer')} without a verdict, but {fields} like "
        f"one; add {named}, or verdict={NONE} (first values of {first})"
    )


def _contradicted(answers: Sequence[ImportedAnswer]) -> Iterator[str]:
    """Name the fields that are called verdicts, and give other scores than those that are read."""
    scored = [answer for answer in answers if answer.score is not None]
    for name in looking_like_verdicts([answer.unread for answer in scored]):
        others = [score_of(dict(leaves(answer.unread)).get(name)) for answer in scored]
        pairs = zip([answer.score for answer in scored], others, strict=True)
        known = [(own, other) for own, other in pairs if other is not None]
        differ = sum(own != other for own, other in known)
        if differ and len(known) >= MOST * len(scored):
            yield (
                f"{answers[0].system}: the field {name} also looks like a verdict but differs "
                f"from the score on {differ:,} of {counted(len(known), 'answer')}; to read "
                f"this field, add verdict={name}"
            )


def _read_verdicts(
    path: Path, answers: Sequence[ImportedAnswer], verdict: str
) -> tuple[list[ImportedAnswer], list[str]]:
    """Return the answers with the verdicts of one field, and how its values are read."""
    scale = read_scale(verdict)
    fields = [dict(leaves(answer.unread)) for answer in answers]
    if all(verdict not in own for own in fields) and all(scale.field not in own for own in fields):
        looks = looking_like_verdicts([answer.unread for answer in answers])
        hint = f"; these look like one: {', '.join(looks)}" if looks else ""
        raise UsageError(
            f"verdict={verdict}: {path} has no such field, or alps already reads it{hint}"
        )
    if any(verdict in own for own in fields):
        scale = MarkScale(verdict, {})
    name = scale.field
    values = [own[name] for own in fields if not is_empty(own.get(name))]
    scale, how = with_letters(scale, values)
    judged, unreadable = [], []
    for number, (answer, own) in enumerate(zip(answers, fields, strict=True), start=1):
        value = own.get(name)
        score = scale.of(value)
        if score is None and not is_empty(value) and not is_error(value):
            unreadable.append((number, value))
        judged.append(answer.model_copy(update={"score": score}) if name in own else answer)
    if unreadable:
        number, value = unreadable[0]
        others = first_values([one for _, one in unreadable])
        more = f" ({len(unreadable):,} such: {others})" if len(unreadable) > 1 else ""
        hint = how_to_map(name, values)
        raise UsageError(
            f"verdict={verdict}: {path}, answer {number}: {shown(value)} is no verdict{more}: use "
            f"true or false, a number from 0 to 1, or a word such as correct or wrong{hint}"
        )
    return judged, [f"{path.name}: {how}"] if how else []


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
        are = "is unscored" if len(reasons) == 1 else "are unscored"
        count = f"{counted(len(reasons), 'judgement')} {are} because the judge failed"
        doubts.append(f"{system}: {count}: {said}")
    return kept, doubts


def _error_of(answer: ImportedAnswer) -> str | None:
    """Return the error that stands where a judge gives its reason; None where there is none."""
    for name, value in leaves({**answer.unread, **answer.reasons}):
        own = name.rpartition(".")[2]
        given = value if isinstance(value, list) else [value]
        texts = [one for one in given if isinstance(one, str) and one.strip()]
        if _FAILED.fullmatch(own) and texts:
            return texts[0]
        for text in texts if _REASON.search(own) else []:
            if is_error(text):
                return text
    return None


def is_error(value: object) -> bool:
    """Return whether a value is a text that says how a request to a judge failed."""
    return isinstance(value, str) and _ERROR.match(value) is not None
