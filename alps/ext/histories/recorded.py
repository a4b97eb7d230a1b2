"""Answers and verdicts that others recorded, put to the questions of a set.

`alps import` reads result files of many forms into rows of one form; here each row finds its
question, so that the answers are scored as if they had been given here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from alps.errors import DataError, UsageError
from alps.ext.histories.book import Book, open_book
from alps.ext.histories.convert import SetSettings, set_of
from alps.ext.histories.files import SetChoice
from alps.ext.histories.judging import OUTCOMES
from alps.ext.histories.model import SetQuestion
from alps.jsonl import Row, dump, scan
from alps.keys import HomePath
from alps.show.formatting import counted
from alps.text import fold

ANSWERS, VERDICTS = "answers.jsonl", "verdicts.jsonl"


class AnswersSettings(SetSettings):
    """What `alps data answers` takes."""

    imported: HomePath = Field(description="the folder that alps import wrote")
    system: str | None = Field(
        None, description="system whose answers to convert, if there are several"
    )


def write_answers(settings: AnswersSettings) -> str:
    """Write answers and verdicts of a folder of imported rows; return what was written.

    Raises:
        UsageError: If the folder has no such answers, or none of them is to a question of the set.
        DataError: If a row can't be read.
    """
    path, out = Path(settings.imported) / ANSWERS, Path(settings.out)
    rows = _rows(path, settings.system)
    choice = SetChoice(settings.set, settings.size)
    book = open_book(set_of(settings.task), settings.data, choice)
    found = dict(_matched(rows, book))
    if not found:
        raise UsageError(
            f"imported={settings.imported}: no answer to a question of {settings.task}"
        )
    out.mkdir(parents=True, exist_ok=True)
    judged = 0
    with (out / ANSWERS).open("wb") as answers, (out / VERDICTS).open("wb") as verdicts:
        for name, row in found.items():
            answers.write(dump({"benchmark_id": name, "answer": row.get("answer") or ""}))
            if row.get("score") in (0, 1) or row.get("outcome"):
                judged += 1
                verdicts.write(dump(_verdict(name, row)))
    some = f"{len(found):,} of {counted(len(book.entries), 'answer')} ({judged:,} judged)"
    split = sum(row.get("score") not in (0, 1, None) for row in found.values())
    # A recorded verdict is a mark: shares of draws, and half marks, are none.
    shares = f", {split:,} with a fractional score and no verdict" if split else ""
    lacking = len(book.entries) - len(found)
    none = f"; answers counted as wrong because they are missing: {lacking:,}" if lacking else ""
    other = len(rows) - len(found)
    left_out = f"; answers left out because they match no question: {other:,}" if other else ""
    return (
        f"wrote {some}{shares}{none}{left_out}. To score: "
        f"model=predictions:{out / ANSWERS} judge=recorded:{out / VERDICTS}"
    )


def _rows(path: Path, system: str | None) -> list[Row]:
    if not path.is_file():
        raise UsageError(f"imported={path.parent}: no {path.name} in it; alps import writes one")
    rows = []
    for number, (_, _, row) in enumerate(scan(path), start=1):
        if row is None or "system" not in row or "id" not in row:
            raise DataError("not an imported answer; run alps import again", path=path, line=number)
        rows.append(row)
    systems = list(dict.fromkeys(str(row["system"]) for row in rows))
    if system is None and len(systems) > 1:
        raise UsageError(f"imported={path.parent}: set system= ({', '.join(systems)})")
    return [row for row in rows if row["system"] == (system or systems[0]) and not row["repeat"]]


def _matched(rows: Sequence[Row], book: Book) -> Iterator[tuple[str, Row]]:
    """Yield the answers with the ids of their questions: by id, else by words in a conversation."""
    questions = [entry.question for entry in book.entries]
    known = {question.id for question in questions}
    if any(row["id"] in known for row in rows):
        yield from ((row["id"], row) for row in rows if row["id"] in known)
        return
    by_history: dict[str, list[SetQuestion]] = defaultdict(list)
    for question in questions:
        by_history[question.history].append(question)
    by_conversation: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_conversation[str(row["conversation"])].append(row)
    for own in by_conversation.values():
        asked = Counter(fold(str(row["question"])) for row in own)
        history = max(by_history, key=lambda name: _shared(by_history[name], asked))
        yield from _in_history(own, by_history[history])


def _shared(questions: Sequence[SetQuestion], asked: Mapping[str, int]) -> int:
    return sum(fold(question.text) in asked for question in questions)


def _in_history(rows: Sequence[Row], questions: Sequence[SetQuestion]) -> Iterator[tuple[str, Row]]:
    free: dict[str, list[SetQuestion]] = defaultdict(list)
    for question in questions:
        free[fold(question.text)].append(question)
    for row in rows:
        same = free[fold(str(row["question"]))]
        # Of a question that is there twice the one with the same gold comes first.
        same.sort(key=lambda one: fold(one.answer) != fold(str(row.get("gold") or "")))
        if same:
            yield same.pop(0).id, row


def _verdict(name: str, row: Row) -> dict[str, Any]:
    said = str(row.get("answer") or "")
    outcome = row.get("outcome")
    given: dict[str, Any] = {"score": int(row["score"])}
    if outcome in OUTCOMES:
        # By HaluMem's rubric an answer that is wrong is made up, or leaves something out.
        given = {"marks": {"outcome": OUTCOMES.index(outcome)}}
    return {
        "benchmark_id": name,
        "model_output": {"responses": [{"response": said}]},
        "judge_output": [{**given, "response": said}],
    }
