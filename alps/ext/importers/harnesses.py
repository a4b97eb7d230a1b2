"""Results of harnesses that run several benchmarks: the Agent Memory Benchmark, and OmniMemEval.

Sources: `src/memory_bench/models.py` and `dataset/` of vectorize-io/agent-memory-benchmark, one
JSON file a run, gzipped or not; `scripts/locomo/locomo_eval.py` and `scripts/longmemeval/` of
MemTensor/OmniMemEval, `…_locomo_judged.json` and `…_lme_judged.json`.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from alps.ext.importers.benchmarks import ABSTENTION, ADVERSARIAL, CATEGORIES, OF_MEM0
from alps.ext.importers.reading import (
    UNKNOWN,
    Foreign,
    ImportedAnswer,
    Listed,
    Numbered,
    Text,
    first_of,
    read_file,
    refuse_off_scale,
)

_CONVERSATIONS = ("sample_id", "conversation_id", "user_id")
_TYPES = ("question_type", "question_category", "category")
_LOCOMO = "locomo"
_ABSTENTION = "abstention"
_LONGMEMEVAL = "longmemeval"
_SLACK = 5e-5
"""How far a file's own accuracy may be from that of its rows: it may be rounded."""

# On LongMemEval; the run's own version stands before the number of the question.
_USER = re.compile(r"\A(lme_exper_user_)(?:.*_)?(\d+)\Z", re.DOTALL)


class _AmbResult(Foreign):
    query_id: Text
    query: Text
    answer: Text
    gold_answers: Listed[Text]
    correct: bool | None
    score: float | None = None
    meta: dict[str, Any] = Field(default_factory=dict)


class _AmbRun(Foreign):
    """A run; older ones have no name but that of their memory."""

    run_name: str | None = None
    memory_provider: str | None = None
    dataset: str
    accuracy: float
    results: Listed[_AmbResult]


def read_amb(path: Path, system: str) -> tuple[list[ImportedAnswer], list[str]]:
    """Read the answers of a run, and whether the accuracy that it says of itself is theirs.

    The score is the continuous one where the data set has one (BEAM), else right or wrong.

    Raises:
        DataError: If it has another form.
    """
    run: _AmbRun = read_file(path, _AmbRun)
    answers: list[ImportedAnswer] = []
    # As there, the rows without one then do not count.
    continuous = any(row.score is not None for row in run.results)
    for number, row in enumerate(run.results):
        refuse_off_scale(row.score, path, f"results.{number}.score")
        category = first_of(row.meta, _TYPES) or UNKNOWN
        if run.dataset == _LOCOMO:
            category = OF_MEM0.get(category, category)
        answers.append(
            ImportedAnswer(
                system=run.run_name or run.memory_provider or system,
                part=run.dataset,
                id=row.query_id,
                conversation=first_of(row.meta, _CONVERSATIONS) or row.query_id,
                category=category,
                question=row.query,
                gold="\n".join(row.gold_answers) or None,
                answer=row.answer,
                score=row.score if continuous or row.correct is None else float(row.correct),
                abstains=_abstains(run, row, category),
                unread=row.unread,
            )
        )
    return answers, list(_own_accuracy(path, answers, run.accuracy))


def _abstains(run: _AmbRun, row: _AmbResult, category: str) -> bool:
    # LongMemEval has no type for such questions: their ids tell them.
    return category == _ABSTENTION or (run.dataset == _LONGMEMEVAL and ABSTENTION in row.query_id)


def _own_accuracy(path: Path, answers: Sequence[ImportedAnswer], said: float) -> Iterator[str]:
    """Hold the accuracy that a file says of itself against its rows."""
    scores = [answer.score for answer in answers if answer.score is not None]
    share = fmean(scores) if scores else 0.0
    if abs(share - said) > _SLACK:
        yield f"{path.name}: the stated accuracy is {said:.2%}, but the rows give {share:.2%}"


class _Graded(Foreign):
    """One answer with the verdict of each draw of the judge; without any where it was skipped."""

    question: Text
    category: Text
    answer: Text | None = None
    llm_judgments: dict[str, bool | None] = Field(default_factory=dict)
    golden_answer: Text | None


def _as_list(value: object) -> object:
    # LoCoMo has a list for each conversation, LongMemEval one answer, or a list of one.
    return [value] if isinstance(value, dict) else value


_Grades = Annotated[Listed[_Graded], BeforeValidator(_as_list)]


def read_omnimemeval(path: Path, system: str) -> list[ImportedAnswer]:
    """Read judged answers: the score is the share of the judge's draws that call it correct.

    Raises:
        DataError: If it has another form.
    """
    groups: dict[str, list[_Graded]] = read_file(path, dict[str, _Grades])
    answers, numbered = [], Numbered()
    for user, graded in groups.items():
        # Two runs would have no question in common.
        conversation = _USER.sub(r"\1\2", user)
        for row in graded:
            draws = [draw for draw in row.llm_judgments.values() if draw is not None]
            category = CATEGORIES.get(row.category, row.category)
            answers.append(
                ImportedAnswer(
                    system=system,
                    id=numbered.of(conversation, row.question),
                    conversation=conversation,
                    category=category,
                    question=row.question,
                    gold=row.golden_answer,
                    answer=row.answer,
                    score=fmean(draws) if draws else None,
                    abstains=category == ADVERSARIAL,
                    unread=row.unread,
                )
            )
    return answers
