"""Verdicts under names that a format does not know, and judgements that are errors of the judge.

No verdict is dropped in silence: where a format reads none, and the rows have a field that looks
like one, the user says which it is.

A field is called by the words of its name, the last of which says what it is: `grade_model` is a
model, and `model_grade` a grade.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from alps.errors import UsageError, shown
from alps.ext.importers.marks import (
    MarkScale,
    first_values,
    flattened,
    how_to_map,
    inside,
    is_mark,
    read_scale,
    score_of,
    with_letters,
)
from alps.ext.importers.reading import ImportedAnswer
from alps.show.formatting import counted

NONE = "none"
"""What `verdict=` takes where no field is a verdict."""
_REASON = re.compile(r"reason|error|explan|judg|(?<!retri)eval|raw|message|feedback|comment", re.I)
# Next to a verdict, a field of this name says that the judge failed, whatever it says.
_FAILED = re.compile(
    r"(judge|judging|llm_judge|grader|grading|eval(uation)?)_?(error|exception)", re.I
)
# In a published file of LoCoMo-Plus all 2,240 rows are «correct» with score 1, and the reason of
# each is an API error 401.
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


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_JUDGES = _set(
    "judge judges judged judging judgement judgements judgment judgments verdict verdicts grade "
    "grades graded grader grading eval evals evaluation evaluations evaluated evaluator scorer "
    "rater llmjudge autoeval assessment assessments urteil bewertung"
)
# Names of verdicts, whatever their values are
_STRONG = _JUDGES | _set(
    "correct incorrect correctness iscorrect label labels score scores scored pass passed right "
    "wrong accuracy accurate acc success mark marks rating ratings rated match matched matches "
    "quality points stars wertung korrekt richtig"
)
# Names under which a few short values are verdicts
_WEAK = _set(
    "result results outcome human annotation review vote votes thumbs opinion status hit ok "
    "valid satisfied helpful agree faithful faithfulness ergebnis note"
)
_TEXTS = _set("answer answers response responses output outputs text raw reply content message")
_REASONS = _set(
    "reason reasons reasoning rationale explanation explanations comment feedback justification "
    "thoughts analysis why"
)
_COUNTS = _set("num n count total has from use used with")
# What a verdict may be of, or by, and is not itself
_OTHERS = _set(
    "answer answers option options choice gold golden target reference truth question prompt "
    "prompts template instruction model models provider name names id ids uid uuid key index "
    "idx number num n count counts total size length len type types kind category categories "
    "version date time times timestamp duration latency cost price usd tokens usage seed set "
    "split dataset source path file url config settings temperature lang language memory "
    "memories message messages context contexts hop hops level difficulty speaker user session "
    "conversation group arm rank threshold k turn day importance cached cache truncated "
    "abstention adversarial answerable unanswerable invalid retry retries stream streaming"
)
_RETRIEVED = _set(
    "search searched retrieve retrieved retrieval retriever memory memories context contexts "
    "hits hit chunk chunks doc docs document documents passage passages evidence sources "
    "citation citations haystack usage config metadata_filter"
)
_FIGURE = re.compile(
    r"f1|bleu|rouge|meteor|bert|similar|cosine|precision|recall|duration|ndcg|mrr|token|latency"
    r"|time|perplex|logprob|distance|edit_dist|embedding",
    re.I,
)
_VERDICT = re.compile(r"(llm_|judge_)?(score|grade|verdict|rating|mark|judge?ment)", re.I)
_TYPE = re.compile(r"(result|memory_update)_type")
_RUNNING = _set("success succeeded failed failure error ok done completed skipped")
_OPINIONS = re.compile(
    r"(very |mostly |partially |not )?(good|bad|excellent|fair|poor|great|(un|in)?acceptable|"
    r"(un)?supported|hallucinat\w+|omission|omitted|attempted|(in|dis)?agree\w*|(in)?valid|"
    r"(un)?faithful|(un)?satisf\w+|(un)?helpful|better|worse|tie)\W*",
    re.I,
)
_EMPTY = frozenset(("", "none", "null", "nan", "n/a"))
_DEEPEST = 5
_SHORT = 30
_FEW = 12
MOST = 0.5
"""The share of rows in which a field is one of the file's, and no oddity of some rows."""


def leaves(row: Mapping[str, Any], within: str = "", deep: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a row, and those in objects by dotted names, next to the objects.

    What a text holds as JSON counts as the object; of a list of objects a field is the list of its
    values.
    """
    for name, value in row.items():
        yield f"{within}{name}", value
        node = _opened(value)
        if isinstance(node, dict) and deep < _DEEPEST:
            yield from leaves(node, f"{within}{name}.", deep + 1)


def _opened(value: object) -> object:
    """Return what a text holds as JSON, and a list of objects as an object of lists."""
    node = inside(value) if isinstance(value, str) else value
    if not (isinstance(node, list) and node and all(isinstance(one, dict) for one in node)):
        return node
    shared = set(node[0]).intersection(*node[1:])
    return {key: [one[key] for one in node] for key in node[0] if key in shared}


def looking_like_verdicts(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the fields that look like verdicts, with their values, in the order of the rows."""
    looks: dict[str, list[Any]] = {}
    reasons: dict[str, list[Any]] = {}
    for name, given in _values_by_field(rows).items():
        within = any(name.startswith(f"{outer}.") for outer in looks)
        if within or len(given) < MOST * len(rows) or not _looks(name, given):
            continue
        (reasons if words_of(name)[-1:] and words_of(name)[-1] in _REASONS else looks)[name] = given
    # What a judge says for its verdict is one only where no other field is.
    return looks or reasons


def _values_by_field(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in leaves(row):
            if not _is_empty(value):
                values.setdefault(name, []).append(value)
    return values


def _is_empty(value: object) -> bool:
    """Return whether a value is none: null, nothing in it, or a text that says so."""
    if isinstance(value, str):
        return value.strip().casefold() in _EMPTY
    return value is None or value in ([], {}) or value != value  # noqa: PLR0124 -- of NaN alone


def words_of(name: str) -> list[str]:
    """Return the words of a field's own name in small letters, without numbers."""
    own = name.rpartition(".")[2]
    apart = re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", own)
    return [word.casefold() for word in re.split(r"[\W\d_]+", apart) if word]


def _looks(name: str, values: Sequence[Any]) -> bool:
    outer, _, own = name.rpartition(".")
    within, words = _words_of_all(outer), words_of(name)
    if _is_something_else(own, words, within, values):
        return False
    scores = {score_of(value) for value in values}
    if _VERDICT.fullmatch(own) and None not in scores:
        return True
    strong, marks = bool(_STRONG.intersection(words)), all(map(is_mark, values))
    if strong and marks:
        return True
    if _is_of_another(own, words, within):
        return False
    if marks and len(scores) > 1:
        return not _COUNTS.intersection(words[:1])
    return _has_values_of(words, bool(_STRONG.intersection((*words, *within))), values)


def _words_of_all(names: str) -> list[str]:
    return [word for name in names.split(".") for word in words_of(name)]


def _is_something_else(
    own: str, words: Sequence[str], within: Sequence[str], values: Sequence[Any]
) -> bool:
    """Return whether a field is a figure, part of what was retrieved, or how a request ended."""
    if _FIGURE.search(own) or _RETRIEVED.intersection(within) or any(map(_holds_others, values)):
        return True
    return words[-1:] == ["status"] and _RUNNING.issuperset(map(folded, values))


def _holds_others(value: object) -> bool:
    """Return whether an object has fields that are no verdicts, so that it is none as a whole."""
    if not isinstance(value, dict):
        return False
    names = [name.rpartition(".")[2] for name, _ in leaves(value)]
    return any(_FIGURE.search(name) or _is_of_another(name, words_of(name), ()) for name in names)


def folded(value: object) -> str:
    """Return a text without case and outer white space; the empty text for what is none."""
    return value.strip().casefold() if isinstance(value, str) else ""


def _is_of_another(own: str, words: Sequence[str], within: Sequence[str]) -> bool:
    """Return whether a name says that its field is no verdict, but what one is of, or by."""
    # HaluMem's are called a type.
    if not words or _TYPE.fullmatch(own):
        return not words
    if words[-1] in (_TEXTS | _REASONS):
        return not _JUDGES.intersection((*words, *within))
    return words[-1] in _OTHERS or own.endswith("_at")


def _has_values_of(words: Sequence[str], strong: bool, values: Sequence[Any]) -> bool:
    """Return whether values are those of a field that is, or is not, called like a verdict."""
    flat = list(flattened(values))
    if not flat or any(isinstance(one, dict) for one in flat):
        return False
    if not all(isinstance(one, str) for one in flat):
        return strong
    if any(inside(one) is not None for one in flat):
        return False
    return _has_texts_of(words, strong, flat)


def _has_texts_of(words: Sequence[str], strong: bool, given: Sequence[str]) -> bool:
    texts = set(map(folded, given))
    if _are_choices(texts) and (_are_letters(texts) or all(map(_OPINIONS.fullmatch, texts))):
        return True
    if strong:
        # The same text in all rows is the name of a judge, or of a set of questions.
        return len(texts) > 1 or _are_letters(texts)
    weak = _WEAK.intersection(words) or words[-1:] == ["type"]
    return bool(weak) and _are_choices(texts) and len(texts) < max(len(given), 3)


def _are_choices(texts: set[str]) -> bool:
    """Return whether a judge may have chosen between texts: a few short ones that differ."""
    return 1 < len(texts) <= _FEW and all(len(text) <= _SHORT for text in texts)


def _are_letters(texts: set[str]) -> bool:
    signs = {text.strip("()[].*+-") for text in texts}
    return all(len(sign) == 1 and sign.isalpha() for sign in signs)


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
    # Zep's file has its verdicts under `grade`: read past it, nobody would have judged 1,540
    # answers.
    looks = looking_like_verdicts(rows)
    if not looks:
        return
    looks = dict(list(looks.items())[:_NAMED])
    listed = ", ".join(looks)
    fields = f"the fields {listed} look" if len(looks) > 1 else f"the field {listed} looks"
    named = " or ".join(f"verdict={name}" for name in looks)
    first = "; ".join(f"{name}: {first_values(given)}" for name, given in looks.items())
    raise UsageError(
        f"{path}: {counted(len(unscored), 'answer')} without a verdict, but {fields} like a "
        f"verdict; add {named}, or verdict={NONE} (first values of {first})"
    )


def _contradicted(answers: Sequence[ImportedAnswer]) -> Iterator[str]:
    """Name the fields that are called verdicts, and give other scores than those that are read."""
    scored = [answer for answer in answers if answer.score is not None]
    for name in looking_like_verdicts([answer.unread for answer in scored]):
        known = _scores_beside(scored, name)
        differ = sum(own != other for own, other in known)
        # A second judge of some rows is an oddity of the file; one of most rows may be the one that
        # was published.
        if differ and len(known) >= MOST * len(scored):
            yield (
                f"{answers[0].system}: the field {name} also looks like a verdict but differs "
                f"from the score on {differ:,} of {counted(len(known), 'answer')}; to read "
                f"this field, add verdict={name}"
            )


def _scores_beside(
    scored: Sequence[ImportedAnswer], field: str
) -> list[tuple[float | None, float]]:
    """Return the scores of answers with those that a field gives, where it gives one."""
    pairs = []
    for answer in scored:
        other = score_of(dict(leaves(answer.unread)).get(field))
        if other is not None:
            pairs.append((answer.score, other))
    return pairs


def _read_verdicts(
    path: Path, answers: Sequence[ImportedAnswer], verdict: str
) -> tuple[list[ImportedAnswer], list[str]]:
    """Return the answers with the verdicts of one field, and how its values are read."""
    scale = read_scale(verdict)
    fields = [dict(leaves(answer.unread)) for answer in answers]
    # A field may have a colon in its own name.
    if any(verdict in own for own in fields):
        scale = MarkScale(verdict, {})
    elif not any(scale.field in own for own in fields):
        raise _no_such_field(path, answers, verdict)
    values = [own.get(scale.field) for own in fields]
    scale, how = with_letters(scale, _filled(values))
    scores = [scale.of(value) for value in values]
    _refuse_unreadable(f"verdict={verdict}: {path}", scale.field, values, scores)
    judged = []
    for answer, own, score in zip(answers, fields, scores, strict=True):
        judged.append(answer.model_copy(update={"score": score}) if scale.field in own else answer)
    return judged, [f"{path.name}: {how}"] if how else []


def _no_such_field(path: Path, answers: Sequence[ImportedAnswer], verdict: str) -> UsageError:
    looks = looking_like_verdicts([answer.unread for answer in answers])
    hint = f"; these fields look like verdicts: {', '.join(looks)}" if looks else ""
    return UsageError(
        f"verdict={verdict}: {path} has no such field, or alps already reads it{hint}"
    )


def _filled(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if not _is_empty(value)]


def _refuse_unreadable(
    where: str, field: str, values: Sequence[Any], scores: Sequence[float | None]
) -> None:
    """Refuse values that are neither a verdict, with a score, nor an error of the judge."""
    unreadable = {}
    for number, (value, score) in enumerate(zip(values, scores, strict=True), start=1):
        if score is None and not _is_empty(value) and not is_error(value):
            unreadable[number] = value
    if not unreadable:
        return
    number, value = next(iter(unreadable.items()))
    others = first_values(list(unreadable.values()))
    more = f" ({len(unreadable):,} such values: {others})" if len(unreadable) > 1 else ""
    hint = how_to_map(field, _filled(values))
    raise UsageError(
        f"{where}, answer {number}: {shown(value)} is not a verdict{more}; "
        f"use true or false, a number from 0 to 1, or a word such as correct or wrong{hint}"
    )


def _without_errors(answers: Sequence[ImportedAnswer]) -> tuple[list[ImportedAnswer], list[str]]:
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
        texts = _texts_in(value)
        if _FAILED.fullmatch(own) and texts:
            return texts[0]
        for text in texts if _REASON.search(own) else []:
            if is_error(text):
                return text
    return None


def _texts_in(value: object) -> list[str]:
    given = value if isinstance(value, list) else [value]
    return [one for one in given if isinstance(one, str) and one.strip()]


def is_error(value: object) -> bool:
    """Return whether a value is a text that says how a request to a judge failed."""
    return isinstance(value, str) and _ERROR.match(value) is not None
