"""PersonaMem: a long history and a message in, one of four answers out; scored without a judge.

The questions are those of Jiang et al. (COLM 2025, arXiv 2504.14225), or generated ones in their
files.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from alps.data.audit_findings import AuditReport
from alps.data.hub import hub_name
from alps.errors import UsageError
from alps.llm.types import AnswerType
from alps.prompts import load_prompt
from alps.schema import Turn
from alps.tasks.base import (
    DEFAULTS,
    PublicAnswers,
    Records,
    Row,
    Task,
    TaskOptions,
    chat_messages,
    memory_conditions,
)
from alps.tasks.personamem import orders
from alps.tasks.personamem.answers import ChoiceAnswer, StoredChoice, read_answer
from alps.tasks.personamem.audit import audit_personamem
from alps.tasks.personamem.authors import as_authors
from alps.tasks.personamem.evidence import evidence, evidence_position, needed
from alps.tasks.personamem.figures import BREAKDOWNS
from alps.tasks.personamem.free import free
from alps.tasks.personamem.likelihood import by_likelihood
from alps.tasks.personamem.personas import sample_set
from alps.tasks.personamem.record import HIGHLIGHTS, record_parts
from alps.tasks.personamem.release import LETTERS, find_folder, open_personamem
from alps.tasks.personamem.results import check_results, read_results
from alps.tasks.personamem.scores import METRICS, SYSTEMS, ChoiceSample, for_class, score
from alps.tasks.recall import History, Place, Recall

HUB = "bowen-upenn/PersonaMem"
PROMPT = load_prompt("alps.tasks", "prompts", "personamem")


def gold_as_text(sample: ChoiceSample) -> tuple[tuple[str, str, str], ...]:
    """Return the options as lines, the right one marked."""
    lines = []
    for letter, option in zip(LETTERS, sample.question.options, strict=True):
        lines.append((letter, option, "right" if letter == sample.gold else ""))
    return tuple(lines)


def messages(sample: ChoiceSample) -> tuple[Mapping[str, str], ...]:
    """Render what an LLM is asked: the instructions, then history, message and options as JSON.

    The history comes first: questions that share it share the beginning, which providers cache.
    """
    return chat_messages(PROMPT.text, _asked(sample))


def _asked(sample: ChoiceSample) -> dict[str, Any]:
    shown = sample.seen()
    history = [{"role": turn.role, "text": turn.text} for turn in shown.turns]
    known = {"known_about_user": list(shown.memories)} if shown.memories else {}
    options = dict(zip(LETTERS, sample.question.options, strict=True))
    return {"history": history, **known, "message": sample.question.message, "options": options}


def input_row(sample: ChoiceSample) -> dict[str, Any]:
    """Return what an external program is given: what an LLM is shown."""
    return {"benchmark_id": sample.benchmark_id, "task": "personamem", "input": _asked(sample)}


def open_records(data: str, options: TaskOptions) -> Records:
    """Find the questions of one size in the folder that `data=` names, and check all of them.

    Raises:
        UsageError: If there are none.
        DataError: If a row can't be read.
    """
    samples = data == "samples"
    folder = (
        sample_set(options.size or "32k") if samples else find_folder(data, options.size).absolute()
    )
    files = open_personamem(folder, options.size, name=data)
    letters = Counter(LETTERS[question.gold] for question in files.read())
    most = max(letters.values(), default=0)
    frequent = tuple(sorted(letter for letter, count in letters.items() if count == most))
    # Questions name their histories by a hash: who has no histories can still hold answers against
    # the same gold.
    digest = sha256(files.questions.read_bytes())
    histories = sha256("".join(one.sha256 for one in files.histories).encode())

    hidden = options.persona == "hidden"
    needs_evidence = options.memory == "oracle"

    def read() -> Iterator[ChoiceSample]:
        for question in files.read():
            name, persona = question.id, question.persona
            sample = ChoiceSample(name, persona, question, files, frequent, hidden=hidden)
            if not needs_evidence or evidence_position(sample) is not None:
                yield sample

    described: dict[str, Any] = {"histories": histories.hexdigest()} if files.histories else {}
    if needs_evidence:
        located = sum(1 for _ in read())
        described["evidence"] = {"located": located, "of": sum(letters.values())}
        if not located:
            raise UsageError(f"memory=oracle: data={data} doesn't tell where any evidence is")
    return Records(read, digest.hexdigest(), described, {"size": files.size})


def _check_results(path: Path, samples: Iterable[ChoiceSample]) -> Sequence[str]:
    # memory=oracle leaves questions out, and a published table has them all.
    first = next(iter(samples), None)
    return () if first is None else check_results(path, tuple(first.files.read()))


def _check_shown(sample: ChoiceSample) -> None:
    sample.files.check(sample.question)


def _audit(data: str, split: str | None) -> AuditReport | None:
    name = hub_name(data)
    if name is not None and name.repository != HUB:
        return None
    return audit_personamem(data, find_folder(data, split, "split"), split)


def unread(row: Row, gold: Row | None) -> Any:
    """Refuse a row of the release layout: PersonaMem has files of its own.

    Raises:
        ValueError: Always.
    """
    raise ValueError("PersonaMem's questions are CSV")


def _history(sample: ChoiceSample) -> History:
    """Part a history into its sessions: a system turn with the biography begins each."""
    sessions: list[list[Turn]] = []
    for turn in sample.history():
        if turn.role == "system" or not sessions:
            sessions.append([])
        sessions[-1].append(turn)
    return History(tuple(map(tuple, sessions)))


def _place(sample: ChoiceSample) -> Place:
    question = sample.question
    if not sample.hidden:
        return Place(question.history, question.end, question.message)
    return Place(f"{question.history} hidden", len(sample.history()), question.message)


RECALL = Recall(
    _history, _place, lambda sample, shown: replace(sample, shown=shown), evidence, needed
)


def tracks(options: TaskOptions) -> tuple[Task, ...]:
    """Return the one track of the size that is asked for."""
    conditions = memory_conditions(options)
    conditions |= {} if options.size is None else {"size": options.size}
    if options.persona != DEFAULTS.persona:
        conditions["persona"] = options.persona
    if options.answer != "choice" and options.orders > 1:
        why = f"answer={options.answer} shows no options side by side; leave it out"
        raise UsageError(f"orders={options.orders} would change nothing: {why}")
    if options.parser != DEFAULTS.parser and (options.answer != "choice" or options.orders > 1):
        other = f"orders={options.orders}" if options.orders > 1 else f"answer={options.answer}"
        raise UsageError(
            f"parser={options.parser}: the authors ask for a choice under one order; leave {other} "
            "out"
        )
    task = _choice_task(options, conditions)
    if options.parser != DEFAULTS.parser:
        return (as_authors(task, options.parser),)
    if options.answer == "logprob":
        return (by_likelihood(task),)
    if options.answer == "free":
        return (free(task),)
    return (task if options.orders == 1 else _in_orders(task, options.orders, options.seed),)


def _in_orders(task: Task, n: int, seed: int) -> Task:
    """Return the same task with each question asked under `n` orders of its options."""
    return replace(
        task,
        variants=partial(orders.variants, n=n, seed=seed),
        joined=partial(orders.joined, n=n, seed=seed),
        fits=partial(orders.fits, n=n, seed=seed),
        score=orders.score,
        metrics=(*METRICS, *orders.METRICS),
        form=orders.OrderedChoices,
        public=replace(
            task.public, longest=n * 2_500, texts=orders.reasons, choice=orders.first_choice
        ),
        conditions={**task.conditions, "orders": n},
    )


def _choice_task(options: TaskOptions, conditions: Mapping[str, Any]) -> Task:
    """Return the task of choosing one of the options as they stand."""
    return Task(
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
        check_shown=None if options.memory == "none" else _check_shown,
        audit=_audit,
        hub=HUB,
        messages=messages,
        input_row=input_row,
        to_prediction=lambda answer: answer.model_dump(),
        for_class=for_class,
        has_gold=lambda sample: True,
        score=score,
        metrics=METRICS,
        conditions=conditions,
        recall=RECALL,
        title="PersonaMem",
        chance=1 / len(LETTERS),
        form=StoredChoice,
        public=PublicAnswers(
            longest=2_000,
            texts=lambda answer: (answer["reason"],),
            choice=lambda answer: (answer["choice"], ()),
            gold=gold_as_text,
        ),
        systems=SYSTEMS,
        breakdowns=BREAKDOWNS,
        record_parts=record_parts,
        highlights=HIGHLIGHTS,
    )
