"""Rows of any project: objects with a question, an answer and a verdict, wherever a file has them.

What a field is follows from its name and from the names beside it: `answer` is the gold next to a
`response`, and the system's next to a `golden_answer`. What can be read in two ways is refused.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from alps.errors import DataError
from alps.ext.importers.benchmarks import ABSTENTION, ADVERSARIAL, CATEGORIES, OF_MEM0
from alps.ext.importers.finding import (
    AMBIGUOUS,
    EITHER,
    GOLDS,
    HISTORIES,
    IDS,
    NO_CONVERSATION,
    QUESTIONS,
    SAID,
    Entry,
    find_rows,
    first_text,
    has_any,
    snake,
    text_of,
)
from alps.ext.importers.marks import score_of
from alps.ext.importers.reading import UNKNOWN, ImportedAnswer, Numbered, read_tree
from alps.ext.importers.verdicts import folded, leaves, looking_like_verdicts
from alps.show.formatting import counted

_KINDS = ("category", "question_type", "type", "ability", "dim")
_OUTCOMES = frozenset(("correct", "hallucination", "omission"))
_CLAIMS = ("accuracy_percentage", "accuracy", "overall_accuracy", "mean_accuracy")
_SLACK = 6e-4
"""How far a claim may be from the rows: it may be rounded to a tenth of a percent."""
# Backboard and MemoryLake publish a file for each of LoCoMo's ten conversations.
_NUMBER = re.compile(r"[\W_]*\d+\Z")
_LOCOMO = {"single-hop", "multi-hop", "open-domain", "temporal", ADVERSARIAL}
# An error beside an answer that is missing says why the system gave none, unless it is the judge's.
_OF_SYSTEM = re.compile(
    r"(?!.*(judg|grad|(?<!retri)eval|verdict|scor|rater)).*(error|exception)", re.I
)
_ALL = "all"
# Two conversations may ask in the same words; two systems that answer one set share most of it.
_FEW_SHARED = 0.1


def read_plain(path: Path, system: str) -> tuple[list[ImportedAnswer], list[str]]:
    """Read the rows of a file, without a verdict: which field that is, `verdict=` says.

    Returns:
        The answers, of which those without a conversation await `as_systems`, and what is in doubt.

    Raises:
        DataError: If there are no rows, or two fields of one may be the answer, or the gold.
    """
    entries, doubts = find_rows(path)
    is_gold = _is_gold(entries, path)
    answers, numbered = [], Numbered()
    for entry in entries:
        row = entry.row
        said, gold = _answer_and_gold(entry, path, is_gold=is_gold)
        question, kind = first_text(row, QUESTIONS), first_text(row, _KINDS)
        history = first_text(row, HISTORIES) or entry.conversation
        name = numbered.of(history, question) if question else str(first_text(row, IDS))
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
                abstains=category == ADVERSARIAL or ABSTENTION in str(first_text(row, IDS)),
                unread=_unread(entry.content, is_missing=not (said or "").strip()),
            )
        )
    return answers, [*(f"{path.name}: {one}" for one in (*doubts, *_missing(answers)))]


def _unread(fields: Mapping[str, Any], *, is_missing: bool) -> dict[str, Any]:
    """Return the fields that are not read yet: verdicts, what judges say, and others."""
    used = {*QUESTIONS, *GOLDS, *SAID, EITHER, *_KINDS, *IDS, *HISTORIES}
    left = {key: one for key, one in fields.items() if snake(key) not in used}
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
        if before.conversation == NO_CONVERSATION and after.conversation == _ALL:
            lacking[after.system] += 1
    for system, count in lacking.items():
        questions = counted(asked[system], "question")
        yield (
            f"{system}: {count:,} of {questions} without a conversation, so they count as "
            f"one conversation; name theirs in a field such as {HISTORIES[1]}"
        )


def _one_system(files: Sequence[set[str]]) -> str | None:
    """Say why files, of which the ids of questions are given, are a conversation each, if so."""
    held = Counter(one for ids in files for one in ids)
    shared = [one for one, count in held.items() if count > 1]
    if not shared:
        return f"{len(files)} files share no question"
    # Questions of conversations without a name are the same where their words are.
    by_words = all(one.startswith(f"{NO_CONVERSATION}/") for one in shared)
    if not by_words or len(shared) > _FEW_SHARED * len(held):
        return None
    return f"{len(files)} files share only {len(shared):,} of {len(held):,} questions"


def _placed(answer: ImportedAnswer, system: str) -> ImportedAnswer:
    """Return an answer of a system, in a conversation."""
    changed = {"system": system}
    if answer.conversation == NO_CONVERSATION:
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


def _is_gold(entries: Iterable[Entry], path: Path) -> bool:
    """Return whether `answer` is the gold in rows with neither a response nor a gold beside it.

    Where a system failed, a row may lack what tells in the others of the file.
    """
    # The first row of each kind: with a response, and with a gold, beside its `answer`.
    beside: dict[tuple[bool, bool], Entry] = {}
    for entry in entries:
        if EITHER in entry.row:
            beside.setdefault((has_any(entry.row, SAID), has_any(entry.row, GOLDS)), entry)
    alone, gold, said = map(beside.get, ((False, False), (True, False), (False, True)))
    if alone and gold and said:
        where = f"it is the gold in {gold}, the system's in {said}, and either in {alone}"
        raise DataError(f"{AMBIGUOUS}; {where}", path=path)
    return gold is not None


def _answer_and_gold(entry: Entry, path: Path, *, is_gold: bool) -> tuple[str | None, str | None]:
    said, gold = _one_of(entry, SAID, path), _one_of(entry, GOLDS, path)
    either = text_of(entry.row.get(EITHER))
    has_said, has_gold = has_any(entry.row, SAID), has_any(entry.row, GOLDS)
    # The fields beside it decide what `answer` is: by its name alone it may be either.
    if not has_said and (has_gold or not is_gold):
        return either, gold
    return said, gold if has_gold else either


def _one_of(entry: Entry, names: Sequence[str], path: Path) -> str | None:
    found = {name: text for name in names if (text := text_of(entry.row.get(name))) is not None}
    if len(set(found.values())) > 1:
        why = f"{' and '.join(found)} have the same role but differ; keep one"
        raise DataError(why, path=path, field=str(entry))
    return next(iter(found.values()), None)
