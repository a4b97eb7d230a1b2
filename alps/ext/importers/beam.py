"""Results on BEAM: `evaluation-NAME.json` of each conversation, next to the answers in `NAME.json`.

Source: `run_evaluation.py`, `evaluation.py` and `answer_generation.py` of
mohammadtavakoli78/BEAM.
"""

from pathlib import Path
from statistics import fmean
from typing import Any

from alps.errors import DataError
from alps.ext.importers.reading import Foreign, ImportedAnswer, Score, Text, read_file

ABSTENTION = "abstention"
_PREFIXES = ("evaluation-results-", "evaluation-")
_SLACK = 5e-5


class _Judged(Foreign):
    """The mean of the judge's marks over the items of a question's rubric, and these."""

    llm_judge_score: Score
    llm_judge_responses: Any = None

    @property
    def is_cut(self) -> bool:
        """Whether the marks give a higher score."""
        if self.llm_judge_score is None or not isinstance(self.llm_judge_responses, list):
            return False
        marks = [one.get("score") for one in self.llm_judge_responses if isinstance(one, dict)]
        known = [mark for mark in marks if isinstance(mark, int | float)]
        same = len(known) == len(self.llm_judge_responses) > 0
        return same and fmean(known) > self.llm_judge_score + _SLACK


class _Asked(Foreign):
    question: Text
    llm_response: Text
    ideal_response: Text | None = None
    ideal_answer: Text | None = None
    answer: Text | None = None


def read_beam(path: Path) -> tuple[list[ImportedAnswer], list[str]]:
    """Read the verdicts on one conversation, and whether the marks in them give its scores.

    The folder names the conversation, and the file the system.

    The score is `llm_judge_score` for all ten abilities; for event ordering the authors have a
    second one, of ranks.

    Raises:
        DataError: If it has another form.
    """
    judged: dict[str, list[_Judged]] = read_file(path, dict[str, list[_Judged]])
    prefix = next((start for start in _PREFIXES if path.name.startswith(start)), "")
    beside = path.with_name(path.name.removeprefix(prefix))
    asked: dict[str, list[_Asked]] = {}
    if prefix and beside.is_file():
        asked = read_file(beside, dict[str, list[_Asked]])
    # Conversations have numbers of their own at each length: results/1M/7.
    conversation = "/".join(path.resolve().parent.parts[-2:])
    answers = []
    for ability, rows in judged.items():
        questions = asked.get(ability, [])
        if asked and len(questions) != len(rows):
            what = f"{len(rows):,} verdicts on {len(questions):,} answers in {beside.name}"
            raise DataError(f"{what}; evaluate it again", path=path, field=ability)
        for number, row in enumerate(rows):
            if row.llm_judge_score is not None and not 0 <= row.llm_judge_score <= 1:
                field = f"{ability}.{number}.llm_judge_score"
                raise DataError("no score from 0 to 1", path=path, field=field)
            known = questions[number] if number < len(questions) else None
            answers.append(
                ImportedAnswer(
                    system=beside.stem,
                    id=f"{conversation}/{ability}/{number + 1}",
                    conversation=conversation,
                    category=ability.replace("_", " "),
                    question=None if known is None else known.question,
                    gold=_gold(known),
                    answer=None if known is None else known.llm_response,
                    score=row.llm_judge_score,
                    abstains=ability == ABSTENTION,
                    reasons=row.unread | {"llm_judge_responses": row.llm_judge_responses},
                )
            )
    if not any(row.is_cut for rows in judged.values() for row in rows):
        return answers, []
    why = "BEAM's script counts half marks as 0, except for event ordering"
    return answers, [f"{beside.stem}: scores are below the judge's marks: {why}"]


def _gold(asked: _Asked | None) -> str | None:
    if asked is None:
        return None
    return asked.ideal_response or asked.ideal_answer or asked.answer
