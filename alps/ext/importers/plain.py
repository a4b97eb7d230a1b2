"""Rows of any project: objects with a question, an answer and a verdict, wherever a file has them.

What a field is follows from its name and from the names beside it: `answer` is the gold next to a
`response`, and the system's next to a `golden_answer`. What can be read in two ways is refused.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from alps.errors import DataError
from alps.ext.importers.benchmarks import ABSTENTION, ADVERSARIAL, CATEGORIES, OF_MEM0
from alps.ext.importers.marks import score_of
from alps.ext.importers.reading import UNKNOWN, ImportedAnswer, Numbered, read_tree
from alps.ext.importers.verdicts import folded, leaves, looking_like_verdicts

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
_KINDS = ("category", "question_type", "type", "ability", "dim")
_IDS = ("question_id", "query_id", "id", "question_index", "question_idx")
_HISTORIES = ("sample_id", "conversation_id", "conv_id", "item_id", "user_id", "uuid")
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


def read_plain(path: Path, system: str) -> list[ImportedAnswer]:
    """Read the rows of a file, without a verdict: which field that is, `verdict=` says.

    Raises:
        DataError: If there are no rows, or two fields of one may be the answer, or the gold.
    """
    answers, numbered = [], Numbered()
    for conversation, fields in _found(path, system):
        row = _in_words(fields)
        said, gold = _answer_and_gold(row, path)
        question, kind = _first(row, _QUESTIONS), _first(row, _KINDS)
        history = _first(row, _HISTORIES) or conversation
        name = numbered.of(history, question) if question else str(_first(row, _IDS))
        category = CATEGORIES.get(kind or "", kind or UNKNOWN)
        used = {*_QUESTIONS, *_GOLDS, *_SAID, _EITHER, *_KINDS, *_IDS, *_HISTORIES}
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
                unread={key: one for key, one in fields.items() if _snake(key) not in used},
            )
        )
    return answers


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

    Such files hold a conversation each. Categories of LoCoMo get the names of its authors.
    """
    files: dict[str, set[str]] = {}
    for answer in answers:
        files.setdefault(answer.system, set()).add(answer.id)
    alike: dict[str, list[str]] = {}
    for name in files:
        alike.setdefault(_NUMBER.sub("", name) or name, []).append(name)
    names, doubts = {name: name for name in files}, []
    for stem, own in alike.items():
        held = Counter(one for name in own for one in files[name])
        if len(own) > 1 and max(held.values()) == 1:
            names |= dict.fromkeys(own, stem)
            what = f"{len(own)} files share no question"
            doubts.append(f"{stem}: {what}, so alps reads them as one system")
    joined = [one.model_copy(update={"system": names[one.system]}) for one in answers]
    return _with_authors_names(joined, doubts), doubts


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


def _found(path: Path, system: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the rows with the names of their conversations; a copy in another list is left out."""
    kept, seen = [], dict[str, str]()
    unclear = False
    for where, conversation, node in _objects(read_tree(path), "", system, 0):
        if not _is_row(node):
            asks = any(isinstance(node.get(name), str) for name in _QUESTIONS)
            unclear = unclear or (asks and _EITHER in node)
            continue
        # Files that list rows by type may list all of them once more.
        written = json.dumps(node, sort_keys=True)
        if seen.setdefault(written, where) == where:
            kept.append((conversation, node))
    if not kept:
        why = "the file has no rows with a question and an answer"
        if unclear:
            why = "`answer` is ambiguous (gold or system); rename it golden_answer or response"
        raise DataError(why, path=path)
    return kept


def _objects(
    node: Any, where: str, name: str, deep: int
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield objects with their lists; several lists side by side are a conversation each."""
    if deep > _DEEPEST:
        return
    if isinstance(node, list):
        for one in node:
            if isinstance(one, dict) and _is_row(one):
                yield where, name, one
            else:
                yield from _objects(one, where, name, deep + 1)
    elif isinstance(node, dict):
        yield where, name, node
        # What holds the rows of a conversation may name it.
        name = _first(node, _HISTORIES) or name
        lists = sum(isinstance(one, list) for one in node.values())
        for key, one in node.items():
            own = key if isinstance(one, list) and lists > 1 else name
            yield from _objects(one, f"{where}.{key}", own, deep + 1)


def _snake(name: str) -> str:
    return _HUMP.sub("_", name).casefold()


def _in_words(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {_snake(name): value for name, value in fields.items()}


def _is_row(fields: Mapping[str, Any]) -> bool:
    node = _in_words(fields)
    asked = _first(node, (*_QUESTIONS, *_IDS)) is not None
    said = any(name in node for name in _SAID)
    said = said or any(isinstance(node.get(name), bool) for name in _BARE)
    return asked and (said or (_EITHER in node and any(name in node for name in _GOLDS)))


def _answer_and_gold(row: Mapping[str, Any], path: Path) -> tuple[str | None, str | None]:
    said, gold = _one_of(row, _SAID, path), _one_of(row, _GOLDS, path)
    either = _text(row.get(_EITHER))
    # The fields beside it decide what `answer` is: by its name alone it may be either.
    if not any(name in row for name in _SAID):
        return either, gold
    return said, gold if any(name in row for name in _GOLDS) else either


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
