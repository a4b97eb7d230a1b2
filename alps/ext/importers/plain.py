"""Rows of any project: objects with a question, an answer and a verdict, wherever a file has them.

What a field is follows from its name and from the names beside it: `answer` is the gold next to a
`response`, and the system's next to a `golden_answer`. What can be read in two ways is refused.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from alps.errors import DataError
from alps.ext.importers.benchmarks import ABSTENTION, ADVERSARIAL, CATEGORIES, OF_MEM0
from alps.ext.importers.marks import score_of
from alps.ext.importers.reading import UNKNOWN, ImportedAnswer, Numbered, read_tree
from alps.ext.importers.verdicts import MOST, folded, leaves, looking_like_verdicts
from alps.show.formatting import counted

_QUESTIONS = ("question", "query", "question_input", "question_text", "user_query", "q")
_GOLDS = (
    *("golden_answer", "gold_answer", "gold", "ground_truth", "groundtruth", "expected_answer"),
    *("expected", "expect", "reference_answer", "reference", "correct_answer", "original_answer"),
)
_SAID = (
    *("response", "ai_response", "prediction", "predicted", "predicted_answer", "hypothesis"),
    *("generated_answer", "system_response", "system_answer", "model_answer", "model_response"),
    *("llm_response", "llm_output", "model_output", "reply", "pred", "agent_answer"),
)
_EITHER = "answer"
_AMBIGUOUS = "`answer` is ambiguous (gold or system); rename it golden_answer or response"
_KINDS = ("category", "question_type", "type", "ability", "dim")
_IDS = ("question_id", "query_id", "id", "question_index", "question_idx")
# The last one may name a part of a conversation, and counts where no other is there.
_HISTORIES = (
    *("sample_id", "conversation_id", "conv_id", "item_id", "user_id", "uuid", "session_id"),
)
# What rows have that say of an id whether it was answered right, and nothing else.
_BARE = ("passed", "correct", "is_correct", "success")
_OUTCOMES = frozenset(("correct", "hallucination", "omission"))
_CLAIMS = ("accuracy_percentage", "accuracy", "overall_accuracy", "mean_accuracy")
_SLACK = 6e-4
"""How far a claim may be from the rows: it may be rounded to a tenth of a percent."""
# Backboard and MemoryLake publish a file for each of LoCoMo's ten conversations.
_NUMBER = re.compile(r"[\W_]*\d+\Z")
_HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])")
_LOCOMO = {"single-hop", "multi-hop", "open-domain", "temporal", ADVERSARIAL}
_DEEPEST = 8
# An error beside an answer that is missing says why the system gave none, unless it is the judge's.
_OF_SYSTEM = re.compile(
    r"(?!.*(judg|grad|(?<!retri)eval|verdict|scor|rater)).*(error|exception)", re.I
)
_NO_CONVERSATION, _ALL = "", "all"
# Two conversations may ask in the same words; two systems that answer one set share most of it.
_FEW_SHARED = 0.1


@dataclass(frozen=True)
class _Entry:
    """An entry of a list with rows.

    Attributes:
        within: The list, as a dotted path; empty for the file as a whole.
        place: The number, from 1, or the key, under which it stands there.
        conversation: That of its list; empty where nothing names one.
        fields: None for an entry that is no row.
    """

    within: str
    place: int | str
    conversation: str
    fields: Mapping[str, Any] | None

    def __str__(self) -> str:
        return f"{self.within}, entry {self.place}" if self.within else f"entry {self.place}"


def read_plain(path: Path, system: str) -> tuple[list[ImportedAnswer], list[str]]:
    """Read the rows of a file, without a verdict: which field that is, `verdict=` says.

    Returns:
        The answers, of which those without a conversation await `as_systems`, and what is in doubt.

    Raises:
        DataError: If there are no rows, or two fields of one may be the answer, or the gold.
    """
    found, doubts = _found(path)
    rows = [_in_words(fields) for _, fields in found]
    is_gold = _is_gold(rows, path)
    answers, numbered = [], Numbered()
    for row, (conversation, fields) in zip(rows, found, strict=True):
        said, gold = _answer_and_gold(row, path, is_gold=is_gold)
        question, kind = _first(row, _QUESTIONS), _first(row, _KINDS)
        history = _first(row, _HISTORIES) or conversation
        name = numbered.of(history, question) if question else str(_first(row, _IDS))
        category = CATEGORIES.get(kind or "", kind or UNKNOWN)
        answers.append(
            ImportedAnswer(
                system=system,
                id=name,
                conversation=history,
                category=category,
                question=question,
                gold=gold,
                answer=said,
                abstains=category == ADVERSARIAL or ABSTENTION in str(_first(row, _IDS)),
                unread=_unread(fields, is_missing=not (said or "").strip()),
            )
        )
    return answers, [*(f"{path.name}: {one}" for one in (*doubts, *_missing(answers)))]


def _unread(fields: Mapping[str, Any], *, is_missing: bool) -> dict[str, Any]:
    """Return the fields that are not read yet: verdicts, what judges say, and others."""
    used = {*_QUESTIONS, *_GOLDS, *_SAID, _EITHER, *_KINDS, *_IDS, *_HISTORIES}
    left = {key: one for key, one in fields.items() if _snake(key) not in used}
    # A system that failed is wrong where its judge says so; a judge that failed says nothing.
    return {key: one for key, one in left.items() if not (is_missing and _OF_SYSTEM.match(key))}


def _missing(answers: Sequence[ImportedAnswer]) -> Iterator[str]:
    """Say how many answers are missing in a file that has others."""
    count = sum(one.answer is None for one in answers)
    if 0 < count < len(answers):
        rows = counted(len(answers), "row")
        yield (
            f"{count:,} of {rows} have no answer; their verdicts count, but token F1 and judging "
            "again leave them out"
        )


def the_verdict(answers: Sequence[ImportedAnswer]) -> str | None:
    """Return the field that looks like a verdict, as `verdict=` takes it.

    None where none looks so, or several do that differ; of two that agree, the one that is empty
    more often, because it says where the judge failed.
    """
    looks = looking_like_verdicts([answer.unread for answer in answers])
    scores = {}
    for name, given in looks.items():
        if len(looks) == 1 and _OUTCOMES.issuperset(map(folded, given)):
            return f"{name}:correct=1,hallucination=0,omission=0"
        scores[name] = [score_of(_value(answer, name)) for answer in answers]
    known = (set(row) - {None} for row in zip(*scores.values(), strict=True))
    # Two verdicts that differ: the user says which one counts.
    if not looks or any(len(row) > 1 for row in known):
        return None
    return max(scores, key=lambda name: scores[name].count(None))


def contradicted(path: Path, answers: Sequence[ImportedAnswer]) -> Iterator[str]:
    """Hold the accuracy that a file says of itself at its top against the scores of its rows."""
    tree = read_tree(path)
    scores = [answer.score for answer in answers if answer.score is not None]
    if not isinstance(tree, dict) or not scores:
        return
    own = fmean(scores)
    for name in _CLAIMS:
        share = _claimed_share(name, tree.get(name))
        if share is not None and abs(share - own) > _SLACK:
            yield f"{path.name}: {name} is {share:.2%}, but the rows give {own:.2%}"


def _claimed_share(name: str, said: object) -> float | None:
    """Read what a file says under a name as a share; None where it is neither that nor percent."""
    if not isinstance(said, int | float) or isinstance(said, bool) or not 0 <= said <= 100:
        return None
    # 1 is one percent under a name of percentages, and everything under other names.
    return said / 100 if said > 1 or name == _CLAIMS[0] else said


def with_outcomes(answers: Sequence[ImportedAnswer], verdict: str) -> list[ImportedAnswer]:
    """Return answers with what their judge sorted them as, where that is one of HaluMem's words."""
    sorted_as = []
    for answer in answers:
        word = folded(_value(answer, verdict.partition(":")[0]))
        own = {"outcome": word} if word in _OUTCOMES else {}
        sorted_as.append(answer.model_copy(update=own))
    return sorted_as


def _value(answer: ImportedAnswer, field: str) -> Any:
    return dict(leaves(answer.unread)).get(field)


def as_systems(answers: Sequence[ImportedAnswer]) -> tuple[list[ImportedAnswer], list[str]]:
    """Return answers by system: files that differ in a number, and share no question, are one.

    Such files hold a conversation each, whose name is that of the file where the rows name none.
    Categories of LoCoMo get the names of its authors.
    """
    files: dict[str, set[str]] = {}
    for answer in answers:
        files.setdefault(answer.system, set()).add(answer.id)
    alike: dict[str, list[str]] = {}
    for name in files:
        alike.setdefault(_NUMBER.sub("", name) or name, []).append(name)
    names, doubts = {name: name for name in files}, []
    for stem, own in alike.items():
        if len(own) > 1 and (why := _one_system([files[name] for name in own])):
            names |= dict.fromkeys(own, stem)
            doubts.append(f"{stem}: {why}, so alps reads them as one system")
    kept = [_placed(one, names[one.system]) for one in answers]
    doubts += _without_conversation(answers, kept)
    return _with_authors_names(kept, doubts), doubts


def _without_conversation(
    read: Sequence[ImportedAnswer], kept: Sequence[ImportedAnswer]
) -> Iterator[str]:
    """Say which systems have questions of no conversation, a line each."""
    asked = Counter(answer.system for answer in kept)
    lacking = Counter[str]()
    for before, after in zip(read, kept, strict=True):
        if before.conversation == _NO_CONVERSATION and after.conversation == _ALL:
            lacking[after.system] += 1
    for system, count in lacking.items():
        questions = counted(asked[system], "question")
        yield (
            f"{system}: {count:,} of {questions} without a conversation, so they count as "
            f"one conversation; name theirs in a field such as {_HISTORIES[1]}"
        )


def _one_system(files: Sequence[set[str]]) -> str | None:
    """Say why files, of which the ids of questions are given, are a conversation each, if so."""
    held = Counter(one for ids in files for one in ids)
    shared = [one for one, count in held.items() if count > 1]
    if not shared:
        return f"{len(files)} files share no question"
    # Questions of conversations without a name are the same where their words are.
    by_words = all(one.startswith(f"{_NO_CONVERSATION}/") for one in shared)
    if not by_words or len(shared) > _FEW_SHARED * len(held):
        return None
    return f"{len(files)} files share only {len(shared):,} of {len(held):,} questions"


def _placed(answer: ImportedAnswer, system: str) -> ImportedAnswer:
    """Return an answer of a system, in a conversation."""
    changed = {"system": system}
    if answer.conversation == _NO_CONVERSATION:
        # A file that is a part of its system is a conversation of its own.
        own = _ALL if system == answer.system else answer.system
        changed["conversation"] = own
        if answer.question:
            changed["id"] = f"{own}{answer.id}"
    return answer.model_copy(update=changed)


def _with_authors_names(
    answers: Sequence[ImportedAnswer], doubts: list[str]
) -> list[ImportedAnswer]:
    plain = {one.category: _plain(one.category) for one in answers}
    if not {"single-hop", "multi-hop"} <= set(plain.values()) <= _LOCOMO:
        return list(answers)
    counts = Counter(plain[one.category] for one in answers)
    # The most questions are about one message: those that Mem0 calls open-domain.
    if counts["open-domain"] > max(counts["single-hop"], counts["multi-hop"]):
        plain = {given: OF_MEM0.get(name, name) for given, name in plain.items()}
        doubts.append(
            "the file uses Mem0's category names; the table uses the LoCoMo authors' names"
        )
    renamed = []
    for one in answers:
        name = plain[one.category]
        renamed.append(one.model_copy(update={"category": name, "abstains": name == ADVERSARIAL}))
    return renamed


def _plain(category: str) -> str:
    words = re.sub(r"[\W_]+", "-", category.casefold()).strip("-")
    return "temporal" if words == "temporal-reasoning" else words


def _found(path: Path) -> tuple[list[tuple[str, Mapping[str, Any]]], list[str]]:
    """Return the rows with the names of their conversations, and what is left out, in words."""
    kept: list[tuple[str, Mapping[str, Any]]] = []
    seen, others, copies = dict[str, str](), list[_Entry](), list[_Entry]()
    tree = read_tree(path)
    for entry in _entries(tree, "", _NO_CONVERSATION, 0):
        if entry.fields is None:
            others.append(entry)
            continue
        # Files that list rows by type may list all of them once more.
        written = json.dumps(entry.fields, sort_keys=True)
        if seen.setdefault(written, entry.within) == entry.within:
            kept.append((entry.conversation, entry.fields))
        else:
            copies.append(entry)
    if not kept:
        why = "the file has no rows with a question and an answer"
        raise DataError(_AMBIGUOUS if _is_unclear(tree, 0) else why, path=path)
    return kept, [*_told(others, "without a question or id"), *_told(copies, "listed twice")]


def _told(entries: Sequence[_Entry], why: str) -> Iterator[str]:
    if entries:
        count = counted(len(entries), "entry", "entries")
        yield f"left out {count} {why}, the first is {entries[0]}"


def _is_unclear(node: Any, deep: int) -> bool:
    """Return whether something asks a question and has an `answer` that may be anybody's."""
    if not isinstance(node, dict | list) or deep > _DEEPEST:
        return False
    inner: Iterable[Any] = node
    if isinstance(node, dict):
        if _EITHER in node and any(isinstance(node.get(name), str) for name in _QUESTIONS):
            return True
        inner = node.values()
    return any(_is_unclear(one, deep + 1) for one in inner)


def _entries(node: Any, within: str, name: str, deep: int) -> Iterator[_Entry]:
    """Yield the rows, and what stands among them and is none."""
    if deep > _DEEPEST:
        return
    if isinstance(node, list):
        yield from _in_list(node, within, name, deep)
    elif isinstance(node, dict):
        # What holds the rows of a conversation may name it.
        name = _first(node, _HISTORIES) or name
        if _is_row(node):
            yield _Entry(within, 1, name, node)
        lists = sum(isinstance(one, list) for one in node.values())
        fields = {}
        for key, one in node.items():
            own = key if isinstance(one, list) and lists > 1 else name
            fields[key] = one, own
        yield from _in_object(node, fields, within, deep)


def _in_object(
    node: Mapping[str, Any], fields: Mapping[str, tuple[Any, str]], within: str, deep: int
) -> Iterator[_Entry]:
    is_table = not _is_row(node) and _holds_rows(node)
    for key, (one, own) in fields.items():
        inner = list(_entries(one, f"{within}.{key}".strip("."), own, deep + 1))
        yield from inner
        if is_table and isinstance(one, dict) and not inner:
            asks = _asks(one, (*_QUESTIONS, *_IDS))
            yield _Entry(within, key, own, one if asks else None)


def _holds_rows(node: Mapping[str, Any]) -> bool:
    """Return whether most objects in an object are rows, which may stand under their ids."""
    objects = [one for one in node.values() if isinstance(one, dict)]
    asking = sum(_is_row(one) or _asks(one, _QUESTIONS) for one in objects)
    return any(map(_is_row, objects)) and asking >= MOST * len(objects)


def _in_list(node: Sequence[Any], within: str, name: str, deep: int) -> Iterator[_Entry]:
    """Yield the entries of a list that has rows, or of the lists in it."""
    holds = any(map(_is_row, node))
    for place, one in enumerate(node, start=1):
        is_row = _is_row(one) or (holds and _asks(one, _QUESTIONS))
        # What has an id alone may hold the rows of a conversation.
        inner = [] if is_row else list(_entries(one, within, name, deep + 1))
        yield from inner
        if holds and not inner:
            yield _Entry(within, place, name, one if is_row or _asks(one, _IDS) else None)


def _asks(node: Any, names: Sequence[str]) -> bool:
    return isinstance(node, dict) and bool(_first(_in_words(node), names))


def _snake(name: str) -> str:
    return _HUMP.sub("_", name).casefold()


def _in_words(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {_snake(name): value for name, value in fields.items()}


def _is_row(fields: Any) -> bool:
    if not _asks(fields, (*_QUESTIONS, *_IDS)):
        return False
    node = _in_words(fields)
    said = _has(node, _SAID) or any(isinstance(node.get(name), bool) for name in _BARE)
    return said or (_EITHER in node and _has(node, _GOLDS))


def _is_gold(rows: Sequence[Mapping[str, Any]], path: Path) -> bool:
    """Return whether `answer` is the gold in rows with neither a response nor a gold beside it.

    Where a system failed, a row may lack what tells in the others of the file.
    """
    # Whether a row has a response, and whether it has a gold, beside its `answer`.
    beside = {(_has(row, _SAID), _has(row, _GOLDS)) for row in rows if _EITHER in row}
    if {(False, False), (True, False), (False, True)} <= beside:
        raise DataError(_AMBIGUOUS, path=path)
    return (True, False) in beside


def _has(row: Mapping[str, Any], names: Sequence[str]) -> bool:
    return any(name in row for name in names)


def _answer_and_gold(
    row: Mapping[str, Any], path: Path, *, is_gold: bool
) -> tuple[str | None, str | None]:
    said, gold = _one_of(row, _SAID, path), _one_of(row, _GOLDS, path)
    either = _text(row.get(_EITHER))
    has_said, has_gold = _has(row, _SAID), _has(row, _GOLDS)
    # The fields beside it decide what `answer` is: by its name alone it may be either.
    if not has_said and (has_gold or not is_gold):
        return either, gold
    return said, gold if has_gold else either


def _one_of(row: Mapping[str, Any], names: Sequence[str], path: Path) -> str | None:
    found = {name: text for name in names if (text := _text(row.get(name))) is not None}
    if len(set(found.values())) > 1:
        listed = " and ".join(found)
        raise DataError(f"{listed} have the same role but differ; keep one", path=path)
    return next(iter(found.values()), None)


def _first(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((text for name in names if (text := _text(row.get(name))) is not None), None)


def _text(value: object) -> str | None:
    if isinstance(value, list):
        return "\n".join(map(str, value)) if value else None
    return None if value is None or isinstance(value, bool | dict) else str(value)
