"""Extraction: a whole dialogue in, the user's memories out.

Scored by one-to-one matching with the gold memories.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field

from alps.judges.base import Judge
from alps.judges.matching import (
    RUBRICS,
    Match,
    Relations,
    assign,
    counted_extras,
    in_other_words,
    left_over,
    relate,
    relation_counts,
    relations_of,
    set_aside,
)
from alps.llm.types import AnswerType, OutputBudget, Read
from alps.prompts import Prompt, load_prompt
from alps.schema import (
    CANONICAL_LABELS,
    LONGEST_VALUE,
    UNMAPPED,
    BriefMemoryList,
    ExtractionSample,
    FrozenRow,
    Memory,
    MemoryList,
    Prediction,
    read_gold,
    read_memories,
)
from alps.tasks.base import (
    AGREEMENT,
    JUST_THE_SCORE,
    JudgingOptions,
    Overlap,
    PublicAnswers,
    Row,
    Scored,
    Shown,
    Task,
    TaskOptions,
    agreement_score,
    chat_messages,
)
from alps.tasks.by_memory import History, MemoryProbes, Probe, as_memories
from alps.tasks.metrics import Metric, MicroRatio, Needs, OnBoards
from alps.tasks.record_parts import (
    FAILED,
    JUDGEMENT_FAILED,
    REPAIRED,
    AnsweredRecord,
    Dialogue,
    Highlight,
    Paired,
    Rank,
    RecordPart,
    ScoredAnswer,
    align,
    memory_side,
    numbered_gold,
    predicted_sides,
)
from alps.text import is_rejected, shown_value

# Precision first, as extra items cost precision; `prompt=recall` asks as the paper does, recall
# first.
PROMPT = load_prompt("alps.tasks", "prompts", "extraction")
RECALL_PROMPT = load_prompt("alps.tasks", "prompts", "extraction_recall")

# Twice the dialogue, whose memories it quotes and says again: of 4,660 recorded answers of real
# models to 654 sessions, each has at most half of that.
WITHIN = OutputBudget(2_048, a_byte=0.5)

if TYPE_CHECKING:
    Label = str
else:
    Label = Literal[(*CANONICAL_LABELS, UNMAPPED)]
TimeScope = Literal["long_term", "short_term", "past", "future", "unknown"]
Attitude = Literal["like", "dislike", "prefer", "avoid", "require"]
# Of 15,186 memories that real models wrote the longest suggestion has 93 characters, the longest
# reason 264; of 4,662 lists the longest has 31.
Path = Annotated[str, Field(max_length=140)]
Reason = Annotated[str, Field(max_length=400)]
Word = Annotated[str, Field(max_length=60)]
Id = Annotated[str, Field(max_length=80)]
MOST_ITEMS = 100


class WrittenMemory(FrozenRow):
    """One memory as an LLM is asked for it: everything bounded, its ids and its quote left out."""

    turn: Annotated[int, Field(ge=0)]
    type: Literal["direct", "indirect"]
    label: Label
    label_suggestion: Path | None
    value: Annotated[str, Field(min_length=1, max_length=LONGEST_VALUE)]
    reasoning: Reason
    confidence: Annotated[float, Field(ge=0, le=1)]
    time_scope: TimeScope
    emotion: Word | None
    preference_attitude: Attitude | None


class WrittenMemories(FrozenRow):
    """What an LLM answers in extraction."""

    memory_items: Annotated[tuple[WrittenMemory, ...], Field(max_length=MOST_ITEMS)]


_STRICT = frozenset({"narrower"})
_UNANNOTATED: dict[str, Any] = {"needs": Needs(support=True), "optional": True}
_EXTRAS: dict[str, Any] = {**_UNANNOTATED, "lower_is_better": True}
METRICS = (
    # Macro: a long session with many memories weighs no more than a short one.
    Metric(
        "f1",
        "F1",
        headline=True,
        on_boards=OnBoards(people="task1.set_f1", companions=("f1_strict",)),
    ),
    # Next to it: added detail, and an excerpt that only contains a memory, match under the other.
    Metric("f1_strict", "F1, strict policy", needs=Needs(relations=_STRICT)),
    Metric("precision", "precision"),
    Metric("recall", "recall"),
    Metric("recall_direct", "recall, direct memories"),
    Metric("recall_indirect", "recall, indirect memories"),
    Metric("f1_micro", "F1 (micro)", MicroRatio({"matched": 2}, {"gold": 1, "predicted": 1})),
    Metric("precision_micro", "precision (micro)", MicroRatio({"matched": 1}, {"predicted": 1})),
    Metric("recall_micro", "recall (micro)", MicroRatio({"matched": 1}, {"gold": 1})),
    Metric("label_similarity", "label-path similarity of matches"),
    Metric("type_accuracy", "type accuracy of matches"),
    Metric("confidence_error", "confidence error of matches", lower_is_better=True),
    AGREEMENT,
    Metric(
        "hallucination_rate",
        "hallucinated share",
        MicroRatio({"unsupported": 1}, {"checked": 1}),
        **_EXTRAS,
    ),
    Metric(
        "misattribution_rate",
        "share about other people",
        MicroRatio({"not_about_user": 1}, {"checked": 1}),
        **_EXTRAS,
    ),
    Metric(
        "unannotated_share",
        "supported share of extra memories",
        MicroRatio({"supported": 1}, {"extras": 1}),
        **_UNANNOTATED,
    ),
    Metric(
        "precision_supported",
        "precision, supported extras counted as correct",
        MicroRatio({"checked": 1, "unsupported": -1, "not_about_user": -1}, {"checked": 1}),
        **_UNANNOTATED,
    ),
)


def read_sample(row: Row, gold: Row | None) -> ExtractionSample:
    """Build a sample from rows of `task1` in the release layout."""
    # Only the dialogue is ever shown to a system: `stratum` and `audit_context` give away what the
    # gold is about.
    if not isinstance(row["input"], dict):
        raise ValueError(f"input must be an object, got {type(row['input']).__name__}")
    return ExtractionSample.model_validate(
        {
            "benchmark_id": row["benchmark_id"],
            "session_id": row.get("session_id") or row["benchmark_id"],
            "dialogue": row["input"]["dialogue"],
            "gold": read_gold(gold["gold"]["memory_items"]) if gold is not None else None,
        }
    )


def messages(sample: ExtractionSample, prompt: Prompt = PROMPT) -> tuple[Mapping[str, str], ...]:
    """Render what an LLM is asked: the dialogue as JSON."""
    turns = []
    for n, turn in enumerate(sample.dialogue):
        turns.append({"turn": n, "role": turn.role, "text": turn.text})
    return chat_messages(with_labels(prompt), {"conversation": turns})


def with_labels(prompt: Prompt) -> str:
    """Return the text of a prompt with the list of labels in its place."""
    labels = "\n".join(f"- {label}" for label in (*CANONICAL_LABELS, UNMAPPED))
    return prompt.text.replace("{labels}", labels)


def dumped(items: Iterable[BaseModel]) -> list[dict[str, Any]]:
    """Return memories or turns as rows of the release."""
    return [item.model_dump() for item in items]


def input_row(sample: ExtractionSample) -> dict[str, Any]:
    """Return what an external program is given: the dialogue, in the release layout."""
    given = {"dialogue": dumped(sample.dialogue)}
    return {"benchmark_id": sample.benchmark_id, "task": "task1", "input": given}


def read_answer(node: object) -> Read[tuple[Memory, ...]]:
    """Read a system's answer tolerantly.

    Raises:
        ValueError: If there is no list of memories in it.
    """
    read = read_memories(node)
    return Read(read.memories, read.notes)


def to_prediction(memories: Sequence[Memory]) -> dict[str, Any]:
    """Return the release's form of a prediction."""
    return {"memory_items": dumped(memories)}


def fits(sample: ExtractionSample, prediction: Mapping[str, Any]) -> None:
    """Check that what was kept of an answer is a list of memories.

    Raises:
        ValueError: If it is something else.
    """
    _memories_of(prediction)


def predicted_memories(prediction: Prediction) -> tuple[Memory, ...]:
    """Return the memories of a valid prediction; none for a failed one."""
    if prediction.prediction is None:
        return ()
    return _memories_of(prediction.prediction)


def _memories_of(prediction: Mapping[str, Any]) -> tuple[Memory, ...]:
    return tuple(Memory.model_validate(item) for item in prediction["memory_items"])


async def judge_prediction(
    sample: ExtractionSample,
    prediction: Prediction,
    judge: Judge,
    options: JudgingOptions = JUST_THE_SCORE,
) -> dict[str, Any]:
    """Relate predicted and gold memories; check `extras` that match none by the dialogue."""
    return await relate(
        sample.gold or (),
        predicted_memories(prediction),
        sample.dialogue,
        judge=judge,
        about=sample.benchmark_id,
        extras=options.extras,
    )


def likely_prediction(sample: ExtractionSample) -> dict[str, Any]:
    """Return the gold memories, reworded."""
    return to_prediction([in_other_words(memory) for memory in sample.gold or ()])


def score(
    sample: ExtractionSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score one record; a failed prediction (no verdict) gets the scale's minimum."""
    gold, predicted = sample.gold or (), predicted_memories(prediction)
    relations = relations_of(verdict, gold, predicted, judge)
    lenient = assign(relations.pairs, "lenient")
    failed, counted = verdict is None, relations.screening.counted(len(predicted))
    scores = precision_recall_f1(len(lenient), gold=len(gold), predicted=counted, failed=failed)
    if judge.relations >= _STRICT:
        same = len(assign(relations.pairs, "strict"))
        strict = precision_recall_f1(same, gold=len(gold), predicted=counted, failed=failed)
        scores["f1_strict"] = strict["f1"]
    scores |= _recall_by_type(gold, {match.gold for match in lenient})
    scores |= _field_scores(gold, predicted, lenient)
    scores |= agreement_score(verdict)
    extras = counted_extras(len(predicted), relations, lenient)
    counts = {
        "matched": len(lenient),
        "gold": len(gold),
        "predicted": counted,
        "empty_vs_empty": int(not gold and not predicted and not failed),
        "rejected_gold": rejected(gold),
        **relation_counts(relations, lenient, judge),
        **relations.support_counts(extras),
    }
    # A share of predictions that were not looked at would count them as not hallucinated.
    if relations.extras_checked and not relations.unchecked:
        counts["checked"] = counted
    return Scored(scores, counts, _details(gold, predicted, lenient, relations, extras))


def rejected(memories: Iterable[Memory]) -> int:
    """Return how many of the gold memories their annotators marked as rejected."""
    # They stay gold, as in the paper; the mark is hidden from the judge, and the number printed.
    return sum(is_rejected(memory.value) for memory in memories)


def precision_recall_f1(
    matched: int, *, gold: int, predicted: int, failed: bool = False
) -> dict[str, float]:
    """Return precision, recall and F1 of one record; a failed prediction has 0 everywhere."""
    # Whoever fails must not fare better than who answers wrongly: recall is 0 without gold, too.
    if failed:
        return {"f1": 0.0, "precision": 0.0, "recall": 0.0}
    # To find nothing where there is nothing is right, and must not lower a mean over records.
    if not gold and not predicted:
        return {"f1": 1.0, "precision": 1.0, "recall": 1.0}
    precision = matched / predicted if predicted else 0.0
    scores = {"f1": 2 * matched / (gold + predicted), "precision": precision}
    # Without gold, recall is not defined: left out, it has no weight in the mean over records.
    return {**scores, "recall": matched / gold} if gold else scores


def _recall_by_type(gold: Sequence[Memory], found: set[int]) -> dict[str, float]:
    recalls = {}
    for kind in ("direct", "indirect"):
        hits = [n in found for n, memory in enumerate(gold) if memory.type == kind]
        if hits:
            recalls[f"recall_{kind}"] = sum(hits) / len(hits)
    return recalls


def label_similarity(one: Memory, other: Memory) -> float:
    """Return 2 · shared prefix / (length + length) of two label paths, in [0, 1].

    Unmapped ones by their suggestion.
    """
    first, second = _label_path(one), _label_path(other)
    shared = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        shared += 1
    return 2 * shared / (len(first) + len(second))


def _label_path(memory: Memory) -> list[str]:
    label = memory.label
    # A path of one's own in place of the 34 labels is read as if it were one of them.
    if label == UNMAPPED and memory.label_suggestion:
        label = memory.label_suggestion
    return [part.casefold() for part in label.split("/") if part] or [UNMAPPED.casefold()]


def _field_scores(
    gold: Sequence[Memory], predicted: Sequence[Memory], matches: Sequence[Match]
) -> dict[str, float]:
    """Score label, type and confidence over the matched pairs; a field nobody gave is left out."""
    # They decide no match. Where they carried six tenths of it, as in the paper, three items that
    # say «x» under common labels got an F1 of .48.
    values: dict[str, list[float]] = {}
    for match in matches:
        right, answer = gold[match.gold], predicted[match.predicted]
        values.setdefault("label_similarity", []).append(label_similarity(right, answer))
        if right.type is not None:
            values.setdefault("type_accuracy", []).append(right.type == answer.type)
        if right.confidence is not None and answer.confidence is not None:
            error = abs(right.confidence - answer.confidence)
            values.setdefault("confidence_error", []).append(error)
    order = ("label_similarity", "type_accuracy", "confidence_error")
    return {name: fmean(values[name]) for name in order if name in values}


def _details(
    gold: Sequence[Memory],
    predicted: Sequence[Memory],
    matches: Sequence[Match],
    relations: Relations,
    extras: Sequence[int],
) -> dict[str, Any]:
    missed = left_over(len(gold), (match.gold for match in matches))
    extra = memory_rows("p", extras, predicted)
    for n, row in zip(extras, extra, strict=True):
        if n in relations.support:
            row["support"] = relations.support[n]
    return {
        "matched": pairs_matched(matches),
        "missed": memory_rows("g", missed, gold),
        "extra": extra,
        **set_aside(predicted, relations),
    }


def pairs_matched(matches: Iterable[Match]) -> list[list[str]]:
    """Return matches for the row of a score: the ids that the judge was shown, and the relation."""
    return [[f"g{m.gold + 1}", f"p{m.predicted + 1}", m.relation] for m in matches]


def memory_rows(
    letter: str, positions: Iterable[int], memories: Sequence[Memory]
) -> list[dict[str, Any]]:
    """Return memories for the row of a score, with the ids that the judge was shown."""
    return [{"id": f"{letter}{n + 1}", "value": memories[n].value} for n in positions]


def values_of(answer: Row) -> list[str]:
    """Return the values of the memories in a prediction."""
    return [item["value"] for item in answer["memory_items"]]


def gold_lines(sample: Any) -> list[tuple[str, str, str]]:
    """Return the gold memories as a page lists them: number, value and label."""
    numbered = enumerate(sample.gold, start=1)
    return [(f"g{n}", shown_value(memory.value), memory.label) for n, memory in numbered]


def _overlap(sample: ExtractionSample, answer: Row) -> Overlap:
    golds = [shown_value(memory.value) for memory in sample.gold or ()]
    return Overlap(golds, values_of(answer), [turn.text for turn in sample.dialogue])


def _paired(sample: ExtractionSample, prediction: Prediction) -> tuple[int, int]:
    return len(sample.gold or ()), len(predicted_memories(prediction))


def record_parts(record: AnsweredRecord) -> list[RecordPart]:
    """Show the dialogue, and the gold memories next to the predicted ones."""
    gold = numbered_gold(record.of_sample("gold"))
    golds = {name: memory_side(name, memory, annotated=True) for name, memory in gold.items()}
    paired = Paired(tuple(align(record, golds, predicted_sides(record, {}))))
    return [Dialogue("Dialogue", record.of_sample("dialogue"), quoted=gold), paired]


def _none_matched(answer: ScoredAnswer) -> Rank:
    gold, matched = answer.count("gold"), answer.count("matched")
    return (gold,) if answer.judged and gold and not matched else None


def _extras(answer: ScoredAnswer) -> Rank:
    extras = answer.count("predicted") - answer.count("matched")
    return (extras,) if answer.judged and extras > 0 else None


def _best(answer: ScoredAnswer) -> Rank:
    gold, predicted, matched = (answer.count(name) for name in ("gold", "predicted", "matched"))
    if not matched or not answer.judged:
        return None
    return 2 * matched / (gold + predicted), gold


HIGHLIGHTS = (
    FAILED,
    JUDGEMENT_FAILED,
    Highlight("none of many gold memories found", 5, _none_matched),
    Highlight("most extra predictions", 3, _extras),
    REPAIRED,
    Highlight("best answers", 2, _best),
)

TASK = Task(
    name="extraction",
    track="task1",
    prompt=PROMPT,
    answer=AnswerType(schema=WrittenMemories, read=read_answer, partial=True, within=WITHIN),
    read_sample=read_sample,
    messages=messages,
    input_row=input_row,
    to_prediction=to_prediction,
    judge=judge_prediction,
    likely=likely_prediction,
    score=score,
    metrics=METRICS,
    fits=fits,
    rubrics=RUBRICS,
    public=PublicAnswers(
        schema=MemoryList,
        paired=_paired,
        texts=values_of,
        overlap=_overlap,
        gold=gold_lines,
        unit="predicted values",
    ),
    systems={
        "rules": "rules:extract",
        "oracle": "embedded:oracle",
        # The content-free ones must earn nothing: a matcher that pairs by labels gave them .30.
        "floor/empty": "embedded:empty",
        "floor/content-free": "embedded:content_free",
        "floor/content-free-fluent": "embedded:content_free_fluent",
        # An excerpt contains what a memory says: an obliging judge calls that a match.
        "floor/excerpts": "embedded:excerpts",
    },
    shown=Shown(record_parts=record_parts, highlights=HIGHLIGHTS),
)


_RECALL = replace(
    TASK,
    prompt=RECALL_PROMPT,
    messages=partial(messages, prompt=RECALL_PROMPT),
    answer=AnswerType(schema=BriefMemoryList, read=read_answer, partial=True, within=WITHIN),
    conditions={"prompt": "recall"},
)


BY_MEMORY = MemoryProbes(
    history=lambda sample: History((sample.dialogue,)),
    probes=lambda sample: (Probe(len(sample.dialogue)),),
    prediction=lambda sample, found: to_prediction(as_memories(found[0])),
)


def tracks(options: TaskOptions) -> tuple[Task, ...]:
    """Return the one track of extraction, asked in the words that `options` choose."""
    task = _RECALL if options.prompt == "recall" else TASK
    return (task.answered_by(BY_MEMORY, options, "memory"),)
