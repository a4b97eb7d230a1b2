"""PersonaMem: a long history and a message in, one of four answers out; scored without a judge.

The questions are those of Jiang et al. (COLM 2025, arXiv 2504.14225), or generated ones in their
files.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from alps.data.personamem import LETTERS, open_personamem
from alps.data.personamem_results import check_results, read_results
from alps.data.personas import sample_set
from alps.errors import UsageError
from alps.llm.types import AnswerType, Read
from alps.prompts import load_prompt
from alps.tasks.base import PublicAnswers, Records, Row, Task, TaskOptions, chat_messages
from alps.tasks.personamem_scores import METRICS, SYSTEMS, ChoiceSample, score

PROMPT = load_prompt("alps.tasks", "prompts", "personamem")
Letter = Literal["a", "b", "c", "d"]


class ChoiceAnswer(BaseModel):
    """A system's answer: the letter of one option, and why."""

    model_config = ConfigDict(extra="forbid")

    choice: Letter
    reason: Annotated[str, Field(max_length=2_000)] = ""


def messages(sample: ChoiceSample) -> tuple[Mapping[str, str], ...]:
    """Render what an LLM is asked: the instructions, then history, message and options as JSON.

    The history comes first: questions that share it share the beginning, which providers cache.
    """
    return chat_messages(PROMPT.text, _asked(sample))


def _asked(sample: ChoiceSample) -> dict[str, Any]:
    history = [{"role": turn.role, "text": turn.content} for turn in sample.shown()]
    options = dict(zip(LETTERS, sample.question.options, strict=True))
    return {"history": history, "message": sample.question.message, "options": options}


def input_row(sample: ChoiceSample) -> dict[str, Any]:
    """Return what an external program is given: what an LLM is shown."""
    return {"benchmark_id": sample.benchmark_id, "task": "personamem", "input": _asked(sample)}


def read_answer(node: object) -> Read[ChoiceAnswer]:
    """Read a choice: an object with the letter under `choice` or `answer`, or a bare letter.

    Raises:
        ValueError: If it names no option, or several.
    """
    given = node if isinstance(node, dict) else {"choice": node}
    letter = next((given[key] for key in ("choice", "answer") if given.get(key) is not None), None)
    if not isinstance(letter, str):
        raise ValueError("expected an object with `choice`: the letter of one option")
    bare = letter.strip().strip("()").rstrip(".:").strip().lower()
    if bare not in tuple(LETTERS):
        raise ValueError(f"choice: '{letter.strip()[:40]}' is none of the letters a, b, c, d")
    notes = () if bare == letter else (f"'{letter.strip()[:8]}' read as '{bare}'",)
    reason = given.get("reason")
    answer = ChoiceAnswer.model_validate({"choice": bare, "reason": str(reason or "")[:2_000]})
    return Read(answer, notes)


def open_records(data: str, options: TaskOptions) -> Records:
    """Find the questions of one size in the folder that `data=` names, and check all of them.

    Raises:
        UsageError: If there are none, or `memory=` is not known.
        DataError: If a row can't be read.
    """
    _check_memory(options.memory)
    samples = data == "samples"
    folder = sample_set(options.size or "32k") if samples else Path(data).expanduser()
    files = open_personamem(folder, options.size)
    letters = Counter(LETTERS[question.gold] for question in files.read())
    most = max(letters.values(), default=0)
    frequent = tuple(sorted(letter for letter, count in letters.items() if count == most))
    digest = sha256(files.questions.read_bytes())
    for histories in files.histories:
        digest.update(histories.sha256.encode())

    def read() -> Iterator[ChoiceSample]:
        for question in files.read():
            yield ChoiceSample(question, files, options.memory, options.window, frequent)

    return Records(read, digest.hexdigest(), {"size": files.size})


def _check_memory(memory: str) -> None:
    last = memory.removeprefix("last:")
    if memory in ("full", "none") or (last != memory and last.isdigit() and int(last) > 0):
        return
    raise UsageError(f"memory={memory}: unknown (known: full, none, last:N)")


def _check_results(path: Path, samples: Iterable[ChoiceSample]) -> Sequence[str]:
    return check_results(path, [sample.question for sample in samples])


def _check_shown(sample: ChoiceSample) -> None:
    if sample.memory != "none":
        sample.files.check(sample.question)


def unread(row: Row, gold: Row | None) -> Any:
    """Refuse a row of the release layout: PersonaMem has files of its own.

    Raises:
        ValueError: Always.
    """
    raise ValueError("PersonaMem's questions are CSV")


def tracks(options: TaskOptions) -> tuple[Task, ...]:
    """Return the one track of the size that is asked for."""
    conditions: dict[str, Any] = {} if options.memory == "full" else {"memory": options.memory}
    conditions |= {} if options.window is None else {"window": options.window}
    if options.answer != "choice":
        raise UsageError(f"answer={options.answer}: not in this version; leave it out")
    return (
        Task(
            name="personamem",
            track="personamem",
            prompt=PROMPT,
            answer=AnswerType(
                schema=ChoiceAnswer,
                read=read_answer,
                partial=False,
                decision=lambda answer: answer.choice,
            ),
            read_sample=unread,
            open_records=open_records,
            read_results=read_results,
            check_results=_check_results,
            check_shown=_check_shown,
            messages=messages,
            input_row=input_row,
            to_prediction=lambda answer: answer.model_dump(),
            has_gold=lambda sample: True,
            score=score,
            metrics=METRICS,
            conditions=conditions,
            options=("size", "memory", "window", "answer"),
            title="PersonaMem",
            form=ChoiceAnswer,
            public=PublicAnswers(longest=2_000, texts=lambda answer: (answer["reason"],)),
            systems=SYSTEMS,
        ),
    )
