"""Results of OmniMemEval: `…_locomo_judged.json` and `…_lme_judged.json`.

Source: `scripts/locomo/locomo_eval.py` and `scripts/longmemeval/` of MemTensor/OmniMemEval.
"""

import re
from pathlib import Path
from statistics import fmean
from typing import Annotated

from pydantic import BeforeValidator, Field

from alps.ext.importers.locomo import ADVERSARIAL, CATEGORIES
from alps.ext.importers.reading import Foreign, ImportedAnswer, Listed, Numbered, Text, read_file

# On LongMemEval; the run's own version stands before the number of the question.
_USER = re.compile(r"\A(lme_exper_user_)(?:.*_)?(\d+)\Z", re.DOTALL)


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
