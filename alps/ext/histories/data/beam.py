"""BEAM: chats of up to ten million tokens, with two questions of each of ten abilities a chat.

Tavakoli et al., ICLR 2026. A chat is a folder, `chats/SIZE/N`; where its authors cut a chat, they
ask about the cut one. Batches are sessions, dated by their first message that has a date. On the
hub a chat is a row, its batches are lists, and its questions a literal of Python; `datasets`
reads one row at a time.

Source of the authors' score: `src/evaluation` of mohammadtavakoli78/BEAM. Its code cuts every half
mark to nothing in nine of ten abilities, and takes for the tenth no nuggets but the agreement of
two orders. Others keep half marks throughout: both are scored, and kept apart.
"""

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from alps.errors import DataError
from alps.ext.histories.files import (
    SetChoice,
    SetFiles,
    Together,
    as_list,
    as_text,
    listed,
    role,
    text,
)
from alps.ext.histories.model import (
    Authors,
    CitedSet,
    HistorySession,
    Marks,
    Message,
    SetQuestion,
    Story,
    when,
)
from alps.ext.histories.task import tracks_of
from alps.tasks.metrics import MacroRatio, Metric, Needs

ASKED_OF = {"100K": 40, "500K": 70, "1M": 70, "10M": 20}
SIZES = tuple(ASKED_OF)
GOLDS = ("answer", "ideal_response", "ideal_answer", "ideal_summary", "expected_compliance")
CHATS, ASKED = ("chat_trunecated.json", "chat.json"), "probing_questions/probing_questions.json"
# Two of three messages of users end in the place that their generator gave them.
_MARK = re.compile(r"\s*->->\s*[\d,.\s]*$")


def _files(data: Path, choice: SetChoice) -> SetFiles:
    size = choice.size or SIZES[0]
    found = [*(data / size).glob("*"), *(data / "chats" / size).glob("*")]
    chats = []
    for folder in sorted(found, key=lambda path: (len(path.name), path.name)):
        chat = [folder / name for name in CHATS if (folder / name).is_file()]
        if chat and (folder / ASKED).is_file():
            chats.append(Together(f"{size}-{folder.name}", (chat[0], folder / ASKED)))
    if not chats and (tables := sorted(data.rglob(f"*{size}*.parquet"))):
        return SetFiles(tuple(_rows_of(tables, _of_hub)), tables)
    return SetFiles(tuple(chats), [path for chat in chats for path in chat.paths])


def _of_hub(name: str, row: Mapping[str, Any]) -> tuple[str, Any, Any]:
    return name, [{"turns": [batch]} for batch in row["chat"]], _literal(row["probing_questions"])


def _story(node: tuple[str, Any, Mapping[str, Any]]) -> Story:
    name, chat, asked = node
    sessions = tuple(_session(batch, n) for n, batch in enumerate(_batches(chat), start=1))
    return Story(name, sessions, tuple(_questions(asked, name)))


def _batches(chat: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for part in chat:
        # Ten million tokens come as plans, each a list of batches under its name.
        for batches in [[part]] if "turns" in part else part.values():
            yield from batches


def _session(batch: Mapping[str, Any], number: int) -> HistorySession:
    messages, written = [], ""
    for turn in listed(batch, "turns"):
        for one in as_list(turn, "turns"):
            said = _MARK.sub("", text(one, "content"))
            messages.append(Message(role(one), said, text(one, "id")))
            written = written or str(one.get("time_anchor") or "")
    return HistorySession(f"b{number}", when(written, "%B-%d-%Y"), tuple(messages), written)


def _questions(asked: Mapping[str, Any], history: str) -> Iterator[SetQuestion]:
    for ability, questions in asked.items():
        for number, one in enumerate(as_list(questions, ability), start=1):
            question = text(one, "question")
            yield SetQuestion(
                id=f"{history}:{ability}:{number}",
                history=history,
                text=question,
                answer=next((str(one[name]) for name in GOLDS if one.get(name)), ""),
                kind=ability,
                evidence=tuple(map(str, _ids(one.get("source_chat_ids")))),
                abstains=ability == ABILITIES[0],
                scoring="points",
                points=tuple(as_text(point, "rubric") for point in listed(one, "rubric")),
            )


def _ids(given: Any) -> list[Any]:
    """Return the ids of messages, which stand in a list, or in lists by what they are."""
    lists = given.values() if isinstance(given, dict) else [given or []]
    return [name for own in lists for name in (own if isinstance(own, list) else [own])]


@dataclass(frozen=True)
class _HubRow:
    """One row of a file, and what is made of its fields and of a name for it."""

    path: Path
    place: int
    name: str
    make: Callable[[str, Mapping[str, Any]], Any]

    def read(self) -> Any:
        """Read the row.

        Raises:
            DataError: If the file is no Parquet.
        """
        return self.make(self.name, _opened(self.path)[self.place])


@lru_cache(maxsize=2)
def _opened(path: Path) -> Any:
    from datasets import Dataset, disable_progress_bars
    from datasets.utils import logging

    disable_progress_bars()
    # What goes wrong is said in one line of ours.
    logging.set_verbosity(logging.CRITICAL)
    try:
        return Dataset.from_parquet(str(path))
    except Exception as error:  # whatever its reader raises
        raise DataError(f"not a Parquet file ({type(error).__name__})", path=path) from error


def _rows_of(
    paths: Sequence[Path], make: Callable[[str, Mapping[str, Any]], Any]
) -> Iterator[_HubRow]:
    """Yield the rows of the files of a split, named after it and numbered from 1."""
    number = 0
    for path in paths:
        for place in range(len(_opened(path))):
            number += 1
            yield _HubRow(path, place, f"{path.stem.partition('-')[0]}-{number}", make)


def _literal(text: str) -> Any:
    """Return the value of a Python literal.

    Raises:
        ValueError: If it is none.
    """
    try:
        return ast.literal_eval(text)
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("not a Python literal") from error


ORDERING = "event_ordering"
ABILITIES = (
    *("abstention", "contradiction_resolution", ORDERING, "information_extraction"),
    *("instruction_following", "knowledge_update", "multi_session_reasoning"),
    *("preference_following", "summarization", "temporal_reasoning"),
)
ALIGNED = "aligned"


def order_agreement(nuggets: Sequence[str], lines: Sequence[str], found: Sequence[int]) -> float:
    """Return (τ_b + 1) / 2 between the order of nuggets and of the lines of an answer.

    What is in one of them alone is ranked last in the other, all of it tied.

    Args:
        nuggets: In their order.
        lines: Those of the answer.
        found: For each line the nugget that it tells, by position, or -1.
    """
    from scipy.stats import kendalltau

    named = list(lines)
    for number, place in enumerate(found):
        if place >= 0:
            named[number] = nuggets[place]
    union = list(dict.fromkeys((*nuggets, *named)))
    last = len(union) + 1
    ranks = []
    for one in (nuggets, named):
        places = {item: place for place, item in enumerate(one, start=1)}
        ranks.append([places.get(item, last) for item in union])
    tau = float(kendalltau(ranks[0], ranks[1], variant="b").statistic)
    # Where all ranks of one side are equal there is no τ.
    return 0.0 if math.isnan(tau) else (tau + 1) / 2


def _lines_of(answer: str) -> list[str]:
    """Return the lines of an answer, the empty ones too."""
    return answer.split("\n")


def _paired(question: SetQuestion, answer: str) -> tuple[Sequence[str], Sequence[str]]:
    return (question.points, _lines_of(answer)) if question.kind == ORDERING else ((), ())


def _score(
    question: SetQuestion, answer: str | None, marks: Marks
) -> tuple[dict[str, float], dict[str, float]]:
    points = [marks[name] for name in marks if name.startswith("point ")]
    if answer is not None and not points:
        return {}, {}
    n = len(points) or 1
    half = sum(points) / 2 / n
    counts = {f"half_{question.kind}": half, f"asked_{question.kind}": 1.0}
    whole = sum(mark == 2 for mark in points) / n
    if question.kind == ORDERING:
        whole = _ordered(question, answer, marks)
    return {"half_marks": half}, {**counts, f"int_{question.kind}": whole}


def _ordered(question: SetQuestion, answer: str | None, marks: Marks) -> float:
    if answer is None:
        return 0.0
    lines = _lines_of(answer)
    found = [int(marks.get(f"{ALIGNED} {place}", -1)) for place in range(len(lines))]
    return order_agreement(question.points, lines, found)


def _mean(name: str, title: str, counted: str) -> Metric:
    groups = tuple(((f"{counted}_{kind}", f"asked_{kind}"),) for kind in ABILITIES)
    return Metric(name, title, MacroRatio(groups), optional=True, needs=Needs(rating=True))


PUBLISHED = Authors(
    metrics=(
        Metric("half_marks", "nuggets, half marks", optional=True),
        _mean("half_marks_mean", "  mean of the abilities", "half"),
        _mean("authors", "authors' score: no half marks, and τ", "int"),
    ),
    rubrics=lambda question: (),
    score=_score,
    judged="half_marks",
    paired=_paired,
)


SET = CitedSet(
    name="beam",
    title="BEAM",
    licence="CC BY-SA 4.0",
    language="English",
    source="mohammadtavakoli78/BEAM, chats/; hub:Mohammadta/BEAM, for 10M BEAM-10M",
    hub="Mohammadta/BEAM",
    wanted=lambda choice: (f"*{choice.size or SIZES[0]}*.parquet",),
    files=_files,
    story=_story,
    kinds=dict.fromkeys(ABILITIES, ""),
    authors=PUBLISHED,
    rubrics=("point", "aligned"),
    expected=lambda choice: dict.fromkeys(ABILITIES, ASKED_OF[choice.size or SIZES[0]]),
    chosen={"size": SIZES},
)
tracks = tracks_of(SET)
