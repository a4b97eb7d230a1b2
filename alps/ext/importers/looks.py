"""Fields that look like verdicts: by what they are called, and by their values.

A field is called by the words of its name, the last of which says what it is: `grade_model` is a
model, and `model_grade` a grade.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from alps.ext.importers.marks import flattened, inside, is_mark, score_of


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
    r"f1|bleu|rouge|meteor|bert|similar|cosine|precision|recall|duration|ndcg|mrr|token|latency|time"
    r"|perplex|logprob|distance|edit_dist|embedding",
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
        node = inside(value) if isinstance(value, str) else value
        if isinstance(node, list) and node and all(isinstance(one, dict) for one in node):
            shared = set(node[0]).intersection(*node[1:])
            node = {key: [one[key] for one in node] for key in node[0] if key in shared}
        if isinstance(node, dict) and deep < _DEEPEST:
            yield from leaves(node, f"{within}{name}.", deep + 1)


def looking_like_verdicts(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the fields that look like verdicts, with their values, in the order of the rows."""
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in leaves(row):
            if not is_empty(value):
                values.setdefault(name, []).append(value)
    looks: dict[str, list[Any]] = {}
    reasons: dict[str, list[Any]] = {}
    for name, given in values.items():
        within = any(name.startswith(f"{outer}.") for outer in looks)
        if within or len(given) < MOST * len(rows) or not _looks(name, given):
            continue
        (reasons if words_of(name)[-1:] and words_of(name)[-1] in _REASONS else looks)[name] = given
    # What a judge says for its verdict is one only where no other field is.
    return looks or reasons


def is_empty(value: object) -> bool:
    """Return whether a value is none: null, nothing in it, or a text that says so."""
    if isinstance(value, str):
        return value.strip().casefold() in _EMPTY
    return value is None or value in ([], {}) or value != value  # noqa: PLR0124 -- of NaN alone


def words_of_all(names: str) -> list[str]:
    """Return the words of dotted names."""
    return [word for name in names.split(".") for word in words_of(name)]


def words_of(name: str) -> list[str]:
    """Return the words of a field's own name in small letters, without numbers."""
    own = name.rpartition(".")[2]
    apart = re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", own)
    return [word.casefold() for word in re.split(r"[\W\d_]+", apart) if word]


def _looks(name: str, values: Sequence[Any]) -> bool:
    outer, _, own = name.rpartition(".")
    within, words = words_of_all(outer), words_of(name)
    if _FIGURE.search(own) or _RETRIEVED.intersection(within) or any(map(_holds_others, values)):
        return False
    if words[-1:] == ["status"] and _RUNNING.issuperset(map(_small, values)):
        return False
    scores = {score_of(value) for value in values}
    if _VERDICT.fullmatch(own) and None not in scores:
        return True
    strong = bool(_STRONG.intersection(words))
    if all(map(is_mark, values)) and (len(scores) > 1 or strong):
        counts = bool(_COUNTS.intersection(words[:1]))
        return strong or not (counts or _is_of_another(own, words, within))
    if _is_of_another(own, words, within):
        return False
    return _has_values_of(words, strong or bool(_STRONG.intersection(within)), values)


def _holds_others(value: object) -> bool:
    """Return whether an object has fields that are no verdicts, so that it is none as a whole."""
    if not isinstance(value, dict):
        return False
    names = [name.rpartition(".")[2] for name, _ in leaves(value)]
    return any(_FIGURE.search(name) or _is_of_another(name, words_of(name), ()) for name in names)


def _small(value: object) -> str:
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
    texts = {_small(one) for one in flat}
    signs = {text.strip("()[].*+-") for text in texts}
    letters = all(len(sign) == 1 and sign.isalpha() for sign in signs)
    few = len(texts) <= _FEW and all(len(text) <= _SHORT for text in texts)
    several = len(texts) > 1
    if few and several and (letters or all(map(_OPINIONS.fullmatch, texts))):
        return True
    if strong:
        # The same text in all rows is the name of a judge, or of a set of questions.
        return several or letters
    weak = bool(_WEAK.intersection(words) or {"type"}.intersection(words[-1:]))
    return weak and few and several and len(texts) < max(len(flat), 3)
