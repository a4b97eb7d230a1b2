"""PersonaMem: a long history and a message in, one of four answers out; scored without a judge.

The questions are those of Jiang et al. (COLM 2025, arXiv 2504.14225), or generated ones in their
files.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from alps.data.audit_findings import AuditReport
from alps.data.hub import hub_name
from alps.errors import UsageError
from alps.llm.types import A_CHOICE, AnswerType
from alps.prompts import load_prompt
from alps.schema import Turn
from alps.tasks.base import (
    DEFAULTS,
    Asking,
    ByMemory,
    PublicAnswers,
    Records,
    Row,
    Shown,
    Task,
    TaskData,
    TaskOptions,
    chat_messages,
    memory_conditions,
)
from alps.tasks.by_memory import History, HistoryPlace, Recall
from alps.tasks.personamem.audit import audit_personamem
from alps.tasks.personamem.formats import as_authors, free, in_orders
from alps.tasks.personamem.likelihood import by_likelihood
from alps.tasks.personamem.personas import sample_set
from alps.tasks.personamem.release import LETTERS, PersonaQuestion, find_folder, open_personamem
from alps.tasks.personamem.results import check_results, read_results
from alps.tasks.personamem.samples import (
    ChoiceAnswer,
    ChoiceSample,
    StoredChoice,
    evidence,
    evidence_position,
    for_class,
    needed,
    read_answer,
)
from alps.tasks.personamem.scores import (
    BREAKDOWNS,
    ERRORS,
    METRICS,
    PAPER,
    SYSTEMS,
    by_length_and_type,
    groups_of,
    score,
)
from alps.tasks.record_parts import (
    FAILED,
    JUDGEMENT_FAILED,
    REPAIRED,
    AnsweredRecord,
    Dialogue,
    Facts,
    Highlight,
    Listed,
    Passage,
    Rank,
    RecordPart,
    ScoredAnswer,
    Side,
)

LAST_TURNS = 4
"""Turns that are shown of a history in which no evidence is found."""
_BEFORE, _AFTER = 1, 2
_WIDTH = 44


def record_parts(record: AnsweredRecord) -> list[RecordPart]:
    """Show the history around the evidence, the message, the options and the choice."""
    score, sample = record.score or {}, record.sample
    chosen, error = score.get("choice"), score.get("error")
    given = [("chosen", str(chosen or "none of the options"))]
    if error is not None:
        given.append(("problem", ERRORS.get(error, str(error))))
    given += _answers(record)
    if sample is None:
        return [Facts("Answer", (("gold", str(score.get("gold"))), *given))]
    question = sample.question
    position = evidence_position(sample)
    shown = (record.prediction or {}).get("shown")
    return [
        Facts("Question", tuple(_about(question, position))),
        *_history_around(sample, position),
        Passage("Message", question.message),
        Listed("Options", tuple(_options(sample, chosen))),
        Facts("Answer", (*given, *_seen(shown, position))),
        Passage("Reason", str(record.answer.get("reason") or "")),
        Passage("Free answer", str(record.answer.get("answer") or "")),
    ]


def _about(question: PersonaQuestion, position: int | None) -> Iterator[tuple[str, str]]:
    yield "type", f"{question.type} (in the paper: {PAPER.get(question.type, '–')})"
    yield "topic", question.topic
    length = f"{question.end:,} messages"
    if question.tokens is not None:
        length += f", {question.tokens:,} tokens"
    yield "history", length
    back, total = question.tokens_back, question.tokens
    if back is not None:
        sessions = question.sessions_back
        apart = "" if sessions is None else f", {sessions} session{'s' * (sessions != 1)}"
        at = "not found in the history" if position is None else f"message {position}"
        yield "evidence", f"{at}; {back:,} tokens{apart} before the question"
    if back is not None and total:
        yield "", drawn(back, total)


def drawn(back: int, total: int) -> str:
    """Draw a history as a line, with a dot `back` of its `total` tokens before the question."""
    share = 1 - min(1.0, back / total)
    place = round(share * (_WIDTH - 1))
    return f"├{'─' * place}●{'─' * (_WIDTH - 1 - place)}┤ question"


def _history_around(sample: ChoiceSample, position: int | None) -> Iterator[RecordPart]:
    question = sample.question
    if not sample.files.holds(question):
        return
    turns = sample.files.history(question)
    if position is None:
        first, title = max(0, len(turns) - LAST_TURNS), "History, last turns"
        yield Dialogue(title, turns, folded=True, shown=tuple(range(first, len(turns))))
        return
    around = range(max(0, position - _BEFORE), min(len(turns), position + 1 + _AFTER))
    places = [place for place in around if turns[place].role != "system" or place == position]
    yield Dialogue(
        "History, around the evidence",
        turns,
        folded=True,
        shown=tuple(places),
        labels={position: "evidence"},
    )


def _options(sample: ChoiceSample, chosen: str | None) -> Iterator[Side]:
    question = sample.question
    kinds, by_length = sample.files.kinds_of(question), by_length_and_type(question)
    for place, option in enumerate(question.options):
        letter = LETTERS[place]
        marks = ["gold"] if place == question.gold else []
        marks += ["chosen"] if letter == chosen else []
        marks += ["the length rule's pick"] if place in by_length else []
        if place < len(kinds) and place != question.gold:
            marks.append(ERRORS.get(kinds[place], kinds[place]))
        yield Side(letter, option, " · ".join(marks))


def _answers(record: AnsweredRecord) -> Iterator[tuple[str, str]]:
    """Yield what was chosen under each order of the options, or how likely each option is."""
    choices = record.answer.get("choices")
    if choices:
        letters = [str(choice.get("choice") or "–") for choice in choices]
        yield "under each order", " ".join(letters)
    logprobs = record.answer.get("logprobs")
    if logprobs:
        means = [
            f"{letter} {row['mean']:.3f}" for letter, row in zip(LETTERS, logprobs, strict=True)
        ]
        yield "log-probability", f"{', '.join(means)} (per token)"


def _seen(shown: object, position: int | None) -> Sequence[tuple[str, str]]:
    """Return what a memory showed of the history, and whether the evidence was in it."""
    if not isinstance(shown, dict):
        return ()
    kept = [f"{shown[name]:,} {name}" for name in ("turns", "memories") if shown.get(name)]
    told = f"{', '.join(kept) or 'nothing'} ({shown.get('tokens', 0):,} tokens)"
    if left_out := shown.get("left_out"):
        told += f", {left_out:,} left out to fit the context limit"
    places = shown.get("positions")
    if places and position is not None:
        told += f", {'with' if position in places else 'without'} the evidence"
    return (("shown", told),)


def _wrong_by_length(answer: ScoredAnswer) -> Rank:
    """The length rule would have got it: what the history says was missed."""
    leaked = answer.value("leak_adjusted") is None
    return () if answer.judged and leaked and answer.value("accuracy") == 0 else None


def _right_against_length(answer: ScoredAnswer) -> Rank:
    return () if answer.judged and answer.value("leak_adjusted") == 1 else None


def _wrong_against_length(answer: ScoredAnswer) -> Rank:
    return () if answer.judged and answer.value("leak_adjusted") == 0 else None


HIGHLIGHTS = (
    FAILED,
    JUDGEMENT_FAILED,
    REPAIRED,
    Highlight("wrong where the length rule is wrong", 5, _wrong_against_length),
    Highlight("wrong where the length rule is right", 3, _wrong_by_length),
    Highlight("right where the length rule is wrong", 2, _right_against_length),
)


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
            raise UsageError(f"memory=oracle: data={data} has no evidence annotations")
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
    raise ValueError("PersonaMem's questions are CSV files, not JSON lines")


def _history(sample: ChoiceSample) -> History:
    """Part a history into its sessions: a system turn with the biography begins each."""
    sessions: list[list[Turn]] = []
    for turn in sample.history():
        if turn.role == "system" or not sessions:
            sessions.append([])
        sessions[-1].append(turn)
    return History(tuple(map(tuple, sessions)))


def _place(sample: ChoiceSample) -> HistoryPlace:
    question = sample.question
    if not sample.hidden:
        return HistoryPlace(question.history, question.end, question.message)
    return HistoryPlace(f"{question.history} hidden", len(sample.history()), question.message)


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
        why = f"answer={options.answer} shows no options; leave out orders="
        raise UsageError(f"orders={options.orders} would change nothing: {why}")
    if options.parser != DEFAULTS.parser and (options.answer != "choice" or options.orders > 1):
        other = f"orders={options.orders}" if options.orders > 1 else f"answer={options.answer}"
        raise UsageError(
            f"parser={options.parser}: the authors' parser reads a choice in one order; "
            f"leave out {other}"
        )
    task = _choice_task(options, conditions)
    if options.parser != DEFAULTS.parser:
        return (as_authors(task, options.parser),)
    if options.answer == "logprob":
        return (by_likelihood(task),)
    if options.answer == "free":
        return (free(task),)
    return (task if options.orders == 1 else in_orders(task, options.orders, options.seed),)


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
            within=A_CHOICE,
        ),
        read_sample=unread,
        messages=messages,
        input_row=input_row,
        to_prediction=lambda answer: answer.model_dump(),
        has_gold=lambda sample: True,
        score=score,
        metrics=METRICS,
        groups=lambda sample: groups_of(sample.question),
        conditions=conditions,
        asking=Asking(for_class=for_class),
        public=PublicAnswers(
            longest=2_000,
            texts=lambda answer: (answer["reason"],),
            choice=lambda answer: (answer["choice"], ()),
            gold=gold_as_text,
            schema=StoredChoice,
        ),
        systems=SYSTEMS,
        shown=Shown(
            title="PersonaMem",
            breakdowns=BREAKDOWNS,
            record_parts=record_parts,
            highlights=HIGHLIGHTS,
        ),
        data=TaskData(
            hub=HUB,
            open_records=open_records,
            read_results=read_results,
            check_results=_check_results,
            check_shown=None if options.memory == "none" else _check_shown,
            audit=_audit,
        ),
        by_memory=ByMemory(recall=RECALL),
    )
