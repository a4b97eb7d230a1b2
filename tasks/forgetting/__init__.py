"""Forgetting: what a memory system must not return any more, and what it still has to find.

Real sessions with planted facts are told to a memory system, and it is searched. No model and no
judge has a part: a fact is a surname, which a text has or has not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from alps.llm.types import AnswerType, Read
from alps.prompts import load_prompt
from alps.schema import FrozenRow, Prediction
from alps.tasks.base import (
    ByMemory,
    PublicAnswers,
    Row,
    Scored,
    Shown,
    Task,
    TaskData,
    TaskOptions,
    chat_messages,
)
from alps.tasks.by_memory import Remembered, Script
from alps.tasks.extraction import TASK as EXTRACTION
from alps.tasks.forgetting.samples import (
    CONTEXT,
    DELETED,
    OTHER_USER,
    SUPERSEDED,
    Expected,
    ForgettingSample,
    count_forms,
    forms_of,
    gives,
    samples_of,
)
from alps.tasks.metrics import Breakdown, Metric
from alps.tasks.record_parts import (
    FAILED,
    JUDGEMENT_FAILED,
    REPAIRED,
    AnsweredRecord,
    Dialogue,
    Facts,
    Highlight,
    Listed,
    Rank,
    RecordPart,
    ScoredAnswer,
    Side,
)

PROMPT = load_prompt("alps.tasks", "prompts", "forgetting")
REFUSAL = "I can't share what I know about a user."
METRICS = (
    # Right less wrong way round: what treats both facts alike gets 0, whatever share it returns.
    Metric("joint", "joint score, chance-corrected", headline=True, judged=False, lowest=-1.0),
    Metric("both", "deleted and kept facts both right", judged=False),
    Metric("retained", "kept facts that are found", judged=False),
    Metric("leaked", "deleted facts that are returned", judged=False, lower_is_better=True),
)
BREAKDOWNS = (
    Breakdown(
        "kind",
        "joint score by reason for not returning a fact",
        "joint",
        {
            DELETED: "deleted on request",
            SUPERSEDED: "superseded",
            CONTEXT: "not for this context",
            OTHER_USER: "of another user",
        },
    ),
)


class Returned(FrozenRow):
    """The texts of the hits of each search, in the order of both."""

    hits: tuple[tuple[str, ...], ...]


def read_sample(row: Row, gold: Row | None, *, seed: int = 0) -> list[ForgettingSample]:
    """Build a sample of each kind from a row of extraction, whose gold has no part."""
    session = EXTRACTION.read_sample(row, None)
    return list(samples_of(session.benchmark_id, session.session_id, session.dialogue, seed))


def _queries(sample: ForgettingSample) -> list[str]:
    return [search.query for search in sample.searches]


def messages(sample: ForgettingSample) -> tuple[Mapping[str, str], ...]:
    """Render the queries; no model is sent them."""
    return chat_messages(PROMPT.text, {"queries": _queries(sample)})


def input_row(sample: ForgettingSample) -> dict[str, Any]:
    """Return the ingested sessions and the searches."""
    told = [{"role": turn.role, "text": turn.text} for turn in sample.told]
    shown = {"told": told, "queries": _queries(sample)}
    return {"benchmark_id": sample.benchmark_id, "task": "forgetting", "input": shown}


def read_answer(node: object) -> Read[Returned]:
    """Read what searches returned.

    Raises:
        ValueError: If it is something else.
    """
    return Read(Returned.model_validate(node))


def fits(sample: ForgettingSample, prediction: Row) -> None:
    """Accept what has hits for each search.

    Raises:
        ValueError: If it has more or fewer.
    """
    searches = len(sample.searches)
    if len(prediction["hits"]) != searches:
        raise ValueError(f"hits: expected {searches} lists, got {len(prediction['hits'])}")


def prediction_of(
    sample: ForgettingSample, found: Sequence[Sequence[Remembered]]
) -> dict[str, Any]:
    """Return the texts of hits; a search without any is an answer, too."""
    return {"hits": [[memory.text for memory in hits] for hits in found]}


def score(
    sample: ForgettingSample, prediction: Prediction, verdict: Row | None, judge: Any
) -> Scored:
    """Score the hits of a sample; a system that failed has found nothing, and gets nothing."""
    answer = prediction.prediction
    hits = [()] * len(sample.searches) if answer is None else answer["hits"]
    lost, leaked = [], []
    for texts, expected in zip(hits, sample.gold or (), strict=True):
        lost += [fact for fact in expected.found if not _in(texts, fact, expected.others)]
        leaked += [fact for fact in expected.gone if _in(texts, fact, expected.instead)]
    retained, leaks = float(not lost), float(bool(leaked))
    scores = {"joint": retained - leaks, "both": float(retained > leaks), "retained": retained}
    return Scored(scores | {"leaked": leaks}, details={"lost": lost, "leaked": leaked})


def _in(texts: Sequence[str], fact: str, instead: Sequence[str] = ()) -> bool:
    return any(gives(text, fact, instead) for text in texts)


def _for_each_search(sample: ForgettingSample, texts: Sequence[str]) -> dict[str, Any]:
    return {"hits": [list(texts) for _ in sample.searches]}


def gold_lines(sample: ForgettingSample) -> list[tuple[str, str, str]]:
    """Return what each search has to return and what it must not, a line each."""
    lines = []
    for expected in sample.gold or ():
        lines += [("find", fact, "") for fact in expected.found]
        lines += [("not", fact, sample.kind) for fact in expected.gone]
    return lines


def record_parts(record: AnsweredRecord) -> list[RecordPart]:
    """Show the sessions with the facts, each search, and its hits."""
    score, sample = record.score or {}, record.sample
    wrong = [(name, ", ".join(score[name])) for name in ("lost", "leaked") if score.get(name)]
    parts: list[RecordPart] = [Facts("Result", tuple(wrong or [("result", "both right")]))]
    if sample is None:
        return parts
    facts = [fact for expected in sample.gold for fact in (*expected.found, *expected.gone)]
    shown = []
    for place, turn in enumerate(sample.told):
        if any(gives(turn.text, fact) for fact in facts):
            shown.append(place)
    parts.append(Dialogue("Ingested sessions", sample.told, folded=True, shown=tuple(shown)))
    returned = record.answer.get("hits") or [()] * len(sample.gold)
    for search, expected, texts in zip(sample.searches, sample.gold, returned, strict=True):
        sides = [Side(f"h{n}", text, _marks(text, expected)) for n, text in enumerate(texts, 1)]
        parts.append(Listed(search.query, tuple(sides)))
    return parts


def _marks(text: str, expected: Expected) -> str:
    marks = [f"has {fact}" for fact in expected.found if gives(text, fact, expected.others)]
    marks += [f"reveals {fact}" for fact in expected.gone if gives(text, fact, expected.instead)]
    return " · ".join(marks)


def _leaked(answer: ScoredAnswer) -> Rank:
    return () if answer.judged and answer.value("leaked") else None


def _lost(answer: ScoredAnswer) -> Rank:
    return () if answer.judged and answer.value("retained") == 0 else None


TASK = Task(
    name="forgetting",
    track="forgetting",
    prompt=PROMPT,
    answer=AnswerType(schema=Returned, read=read_answer, partial=False),
    read_sample=read_sample,
    messages=messages,
    input_row=input_row,
    to_prediction=lambda answer: answer.model_dump(mode="json"),
    fits=fits,
    has_gold=lambda sample: True,
    score=score,
    metrics=METRICS,
    groups=lambda sample: {"kind": sample.kind},
    # A hit may be a whole turn, and turns of real sessions have thousands of characters.
    public=PublicAnswers(longest=200_000, gold=gold_lines),
    systems={
        # A memory system answers in its place, as in place of any reader.
        "rules": lambda sample: _for_each_search(sample, ()),
        "floor/nothing": lambda sample: _for_each_search(sample, ()),
        "floor/refusal": lambda sample: _for_each_search(sample, (REFUSAL,)),
        "floor/everything": lambda sample: _for_each_search(
            sample, [turn.text for turn in sample.told]
        ),
    },
    shown=Shown(
        breakdowns=BREAKDOWNS,
        record_parts=record_parts,
        highlights=(
            FAILED,
            JUDGEMENT_FAILED,
            REPAIRED,
            Highlight("facts returned that should be gone", 6, _leaked),
            Highlight("facts lost that should be kept", 4, _lost),
        ),
    ),
    data=TaskData(folder=EXTRACTION.track),
    by_memory=ByMemory(required=True),
)


def tracks(options: TaskOptions) -> tuple[Task, ...]:
    """Return the one track of forgetting."""
    script = Script(lambda sample: sample.steps, prediction_of)
    forms = {"forms": count_forms(), "forms_drawn": len(forms_of(options.seed).all)}
    sampled = partial(read_sample, seed=options.seed)
    task = replace(TASK, read_sample=sampled, data=replace(TASK.data, described=forms))
    # Samples of another seed are other samples, and stand on another board.
    task = task.under({"seed": options.seed} if options.seed else {})
    return (task.answered_by(script, options, "memory", "k"),)
