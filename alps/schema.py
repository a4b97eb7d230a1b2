"""Schemas of everything that is stored, shown to a model, and judged.

`Memory` is one schema for three uses: the file format, the payload of the judge, and what the tasks
score. It is strict. An LLM is asked for less, as its task says: all of that is bounded, and nothing
is in it that is known anyway. Predictions of real models are not strict, so `read_memories` reads
them tolerantly: what can be understood is kept and normalised, and every liberty is reported.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

CANONICAL_LABELS = (
    "Personal_Background/Identity",
    "Personal_Background/Education",
    "Personal_Background/Occupation",
    "Personal_Background/Location",
    "States_Experiences/Physical_State",
    "States_Experiences/Mental_State",
    "States_Experiences/Past_Experience",
    "Possessions/Important_Items",
    "Possessions/Pet",
    "Possessions/House",
    "Possessions/Car",
    "Preferences/Food",
    "Preferences/Entertainment",
    "Preferences/Sports",
    "Preferences/Reading",
    "Preferences/Music",
    "Preferences/Travel_Mode",
    "Preferences/Shopping",
    "Preferences/Interaction_Preferences",
    "Thoughts/Opinions/Positive",
    "Thoughts/Opinions/Negative",
    "Thoughts/Curiosity",
    "Thoughts/Goals/Short_Term",
    "Thoughts/Goals/Long_Term",
    "Plans/Schedule",
    "Plans/Commitments",
    "Social_Relationships/Family",
    "Social_Relationships/Friends",
    "Social_Relationships/Colleagues",
    "Social_Relationships/Partners",
    "Social_Relationships/Adversarial",
    "Constraints_and_Boundaries/Disliked_Topics",
    "Constraints_and_Boundaries/Sensitive_Topics",
    "Constraints_and_Boundaries/Do_Not_Remember",
)
UNMAPPED = "UNMAPPED"
LONGEST_VALUE = 1_000
"""Letters of the longest value that can be a memory; a wide character counts as two. The longest
gold value of the AlpsBench authors' public records has 311 letters; of 14,879 values that seven
real models predicted for 654 sessions the longest has 848, and 99.9 % have 467 at most.
"""

# Outcomes of a system or judge that was not heard: unscored.
UNHEARD = ("transport", "budget")
# Outcomes of a system that was heard and failed: the scale's minimum.
FAILURES = ("refused", "too_long", "truncated", "unparsable", "invalid", "empty")
Outcome = Literal[
    "ok",
    "transport",
    "budget",
    "refused",
    "too_long",
    "truncated",
    "unparsable",
    "invalid",
    "empty",
]

_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
# What models call their list, the most telling name first. Of 15 answers in another form than was
# asked for, 12 held usable memories.
_LIST_KEYS = (
    *("memory_items", "memories", "updated_memories", "existing_memories"),
    *("items", "answer"),
)


class FrozenRow(BaseModel):
    """A frozen row: unknown fields and numbers that are not finite are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


Record = FrozenRow
"""The name by which tasks of users import it from before."""


class Turn(FrozenRow):
    """One utterance of a dialogue."""

    role: Literal["user", "assistant", "system"]
    text: str


class Evidence(FrozenRow):
    """Where in a dialogue a memory was said."""

    session_id: str | None
    utterance_index: Annotated[int, Field(ge=0)] | None
    text: str


class Memory(FrozenRow):
    """One memory of a user: twelve fields, all of them written, some of them null.

    `label` is a path of the taxonomy (`CANONICAL_LABELS`), any other path, or `UNMAPPED` with a
    `label_suggestion`. `time_scope`, `emotion` and `preference_attitude` are open vocabularies.
    """

    memory_id: str
    type: Literal["direct", "indirect"] | None
    label: str
    label_suggestion: str | None
    value: Annotated[str, Field(min_length=1)]
    reasoning: str | None
    evidence: Evidence | None
    confidence: Annotated[float, Field(ge=0, le=1)] | None
    time_scope: str | None
    emotion: str | None
    preference_attitude: str | None
    updated_at: str | None


def memory_fields(value: str, **known: Any) -> dict[str, Any]:
    """Return the fields of a memory of which no others are known."""
    return dict.fromkeys(Memory.model_fields) | {"label": UNMAPPED, "value": value} | known


class MemoryList(FrozenRow):
    """What a prediction of extraction is in files."""

    memory_items: tuple[Memory, ...]


class BriefMemory(FrozenRow):
    """One memory in the six fields that the recall-minded extraction prompt asks for."""

    type: Literal["direct", "indirect"]
    label: str
    label_suggestion: str | None
    value: Annotated[str, Field(min_length=1)]
    confidence: Annotated[float, Field(ge=0, le=1)]
    evidence_text: str


class BriefMemoryList(FrozenRow):
    """What a system answers in extraction under `prompt=recall`."""

    memory_items: tuple[BriefMemory, ...]


Action = Literal["retain", "add", "modify", "delete"]


class UpdatedMemory(Memory):
    """A memory of an updated list: what was done with it, and the id of the one it replaces."""

    action: Action | None
    replaces: str | None


class UpdatedMemoryList(FrozenRow):
    """A prediction of update in files: the whole list, where deleted memories may be absent."""

    memory_items: tuple[UpdatedMemory, ...]


class ExtractionSample(FrozenRow):
    """One dialogue to extract memories from; `gold` is None where the reference is withheld."""

    benchmark_id: str
    session_id: str
    dialogue: tuple[Turn, ...]
    gold: tuple[Memory, ...] | None


class UpdateSample(FrozenRow):
    """Old memories, and a dialogue that may change them; `gold` is the whole list afterwards."""

    benchmark_id: str
    session_id: str
    old_dialogue: tuple[Turn, ...]
    new_dialogue: tuple[Turn, ...]
    memory: tuple[Memory, ...]
    gold: tuple[Memory, ...] | None


class Candidate(FrozenRow):
    """One memory of a pool, under an id that means nothing outside it."""

    id: str
    value: str


class RetrievalSample(FrozenRow):
    """A query and the pool that the one right memory, `gold` by its id, is to be found in.

    `told` is the conversation that the right memory comes from, where the data have it: it is
    told to memory systems alone.
    """

    benchmark_id: str
    session_id: str
    query: str
    candidates: tuple[Candidate, ...]
    gold: str | None
    told: tuple[Turn, ...] = ()


class RetrievalAnswer(FrozenRow):
    """What a system answers in retrieval: the memory it chose, and what it makes of it."""

    # In the order of the prompt: a server that writes by the schema would else choose before it
    # gives its reason.
    reason: Annotated[str, Field(max_length=600)]
    selected_memory_id: Annotated[str, Field(max_length=200)]
    answer: Annotated[str, Field(max_length=2_000)]


class Target(FrozenRow):
    """What a response is judged by: a memory, all that is known of the user, the whole dialogue.

    `rubric` names the judge's rubric, `language` the language of the query where scores are
    reported by it.
    """

    memory: str
    memories: tuple[str, ...]
    dialogue: tuple[Turn, ...]
    rubric: str
    language: str | None


class UtilizationSample(FrozenRow):
    """A past dialogue and a new query; `memories` are shown under the condition `gold_memory`."""

    benchmark_id: str
    session_id: str
    query: str
    dialogue: tuple[Turn, ...]
    memories: tuple[str, ...]
    gold: Target | None


class TextAnswer(FrozenRow):
    """What a system answers in utilization, where it is not an LLM that answers in plain text."""

    answer: str


class ShownToReader(FrozenRow):
    """How much of a history a reader was shown through a memory.

    `tokens` are counted at 4 bytes each, and one more for each turn or memory; `left_out` is how
    many of those a budget of tokens left out or shortened. `positions` are those of the turns in
    the history, None where they are its end.
    """

    turns: int
    memories: int = 0
    tokens: int
    left_out: int = 0
    positions: tuple[int, ...] | None = None


class UsedToAnswer(FrozenRow):
    """What a model used for an answer, re-asks included; that of a kept reply is what it once took.

    `cost` is in US dollars, None where it is not known; `cached` tells that nobody was asked.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = 0.0
    cached: bool = False

    def and_also(self, other: "UsedToAnswer") -> "UsedToAnswer":
        """Return what both took together."""
        known = self.cost is not None and other.cost is not None
        return UsedToAnswer(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost=(self.cost or 0.0) + (other.cost or 0.0) if known else None,
            cached=self.cached and other.cached,
        )


class Prediction(FrozenRow):
    """What one system gave for one sample; `repeat` tells several answers to the same sample apart.

    `prediction` is the typed answer in the release's form (extraction: `{"memory_items": […]}`),
    None unless the outcome is `ok`. `raw` is the text as it came, `thought` what a model thought
    before it answered: never judged. `notes` say what was mended or normalised to read it, `strict`
    whether a model's reply was valid by its schema as it came, `shown` what a memory showed. `used`
    is what a model took for it, and stands in no file of answers.
    """

    benchmark_id: str
    track: str
    repeat: Annotated[int, Field(ge=0)] = 0
    outcome: Outcome
    repaired: bool = False
    truncated: bool = False
    strict: bool | None = None
    prediction: dict[str, Any] | None = None
    raw: str | None = None
    thought: str | None = None
    notes: tuple[str, ...] = ()
    error: str | None = None
    shown: ShownToReader | None = None
    used: Annotated[UsedToAnswer | None, Field(exclude=True)] = None

    def row(self) -> dict[str, Any]:
        """Return the row of `predictions.jsonl`, without what only some systems have."""
        absent = {name for name in ("thought", "strict", "shown") if getattr(self, name) is None}
        return self.model_dump(exclude=absent)


_KNOWN_KEYS = frozenset(Memory.model_fields) | {"id", "evidence_text", "turn"}


@dataclass(frozen=True)
class ReadMemories:
    """Memories that were read tolerantly, with a note for every liberty taken."""

    memories: tuple[Memory, ...]
    notes: tuple[str, ...]
    given: tuple[Mapping[str, object], ...] = ()


def read_memories(node: object, *, also: frozenset[str] = frozenset()) -> ReadMemories:
    """Read memories out of parsed JSON as real models write it.

    Accepts a list, a list under one of the usual keys, or a single memory. Unknown types become
    null, objects in place of a text are flattened, duplicate ids are renamed, what can't be kept is
    left out; each is noted. `given` has the items as they came; `also` are fields that a task reads
    from there.

    Raises:
        ValueError: If nothing in `node` can be a list of memories.
    """
    try:
        return _read_all(*_find_list(node), also)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def _read_all(items: Sequence[object], notes: list[str], also: frozenset[str]) -> ReadMemories:
    counts: Counter[str] = Counter()
    memories: list[Memory] = []
    given: list[Mapping[str, object]] = []
    taken: set[str] = set()
    for position, item in enumerate(items, start=1):
        memory = _read_memory(item, position=position, taken=taken, notes=counts, also=also)
        if memory is not None:
            memories.append(memory)
            given.append(item if isinstance(item, dict) else {})
            taken.add(memory.memory_id)
    if items and not memories:
        what = f"none of the {len(items)} items has a value: each memory needs a non-empty `value`"
        raise ValueError(what)
    notes += [f"{count} × {note}" if count > 1 else note for note, count in counts.items()]
    return ReadMemories(tuple(memories), tuple(notes), tuple(given))


class GoldNeeded(ValueError):
    """A row lacks nothing but the gold that it can't be read without."""


def read_gold(node: object, field: str = "gold.memory_items") -> tuple[Memory, ...]:
    """Read the memories of a data set: fields as tolerantly as any, but no memory may be lost.

    Args:
        node: A list of memories, as JSON has it.
        field: What an error calls it, as a dotted path.

    Raises:
        ValueError: If an item can't be read; names the field.
    """
    try:
        read = read_memories(node)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
    lost = next((note for note in read.notes if "left out: an item" in note), None)
    # Of a prediction an item without a value is left out; gold that is left out changes the score.
    if lost is not None:
        raise ValueError(f"{field}: {lost.partition('left out: ')[2]}")
    return read.memories


def _find_list(node: object) -> tuple[list[object], list[str]]:
    if isinstance(node, list):
        return node, ["a bare list"]
    if not isinstance(node, dict):
        raise ValueError(f"expected an object with `memory_items`, got {type(node).__name__}")
    lists = {key: value for key, value in node.items() if isinstance(value, list)}
    for key in _LIST_KEYS:
        if key in lists:
            notes = [f"left out: a second list under `{other}`" for other in lists if other != key]
            notes += [] if key == "memory_items" else [f"the list was under `{key}`"]
            return lists[key], notes
    if "value" in node:
        return [node], ["a single memory without a list"]
    return _find_inside(node, lists)


def _find_inside(
    node: Mapping[str, object], lists: Mapping[str, list[object]]
) -> tuple[list[object], list[str]]:
    if len(lists) == 1:
        ((key, items),) = lists.items()
        if all(isinstance(item, dict) and "value" in item for item in items):
            return items, [f"the list was under `{key}`"]
    if len(node) == 1:
        ((key, inner),) = node.items()
        if isinstance(inner, dict):
            items, notes = _find_list(inner)
            return items, [*notes, f"wrapped in `{key}`"]
    what = "no list of memories found: answer with an object whose `memory_items` is a list"
    raise ValueError(what)


def _read_memory(
    item: object, *, position: int, taken: set[str], notes: Counter[str], also: frozenset[str]
) -> Memory | None:
    if isinstance(item, str):
        notes["a plain text instead of an object"] += 1
        item = {"value": item}
    if not isinstance(item, dict):
        notes[f"left out: an item that is {type(item).__name__}, not an object"] += 1
        return None
    value = _text(item.get("value"), "value", notes)
    if not value:
        notes["left out: an item without a value"] += 1
        return None
    for name in item.keys() - _KNOWN_KEYS - also:
        notes[f"left out: the unknown field {_short(name)}"] += 1
    return Memory(
        memory_id=_memory_id(item, position, taken, notes),
        type=_type(item.get("type"), notes),
        label=_text(item.get("label"), "label", notes) or UNMAPPED,
        label_suggestion=_text(item.get("label_suggestion"), "label_suggestion", notes),
        value=value,
        reasoning=_text(item.get("reasoning"), "reasoning", notes),
        evidence=_evidence(item, notes),
        confidence=_confidence(item.get("confidence"), notes),
        time_scope=_text(item.get("time_scope"), "time_scope", notes),
        emotion=_text(item.get("emotion"), "emotion", notes),
        preference_attitude=_text(item.get("preference_attitude"), "preference_attitude", notes),
        updated_at=_text(item.get("updated_at"), "updated_at", notes),
    )


def _memory_id(
    item: Mapping[str, object], position: int, taken: set[str], notes: Counter[str]
) -> str:
    given = item.get("memory_id", item.get("id"))
    name = str(given) if isinstance(given, (str, int)) and str(given) else f"p{position}"
    if name not in taken:
        return name
    # Updates and recorded verdicts name memories by their ids: two of one id would be one.
    notes[f"duplicate id '{name}' renamed"] += 1
    return next(new for n in range(2, position + 2) if (new := f"{name}~{n}") not in taken)


def _type(given: object, notes: Counter[str]) -> Literal["direct", "indirect"] | None:
    folded = given.strip().casefold() if isinstance(given, str) else given
    if folded == "direct":
        return "direct"
    if folded == "indirect":
        return "indirect"
    notes["missing type" if given is None else f"unknown type {_short(given)} read as null"] += 1
    return None


def _confidence(given: object, notes: Counter[str]) -> float | None:
    if given is None:
        notes["missing confidence"] += 1
        return None
    try:
        number = float(str(given).rstrip("%")) / (100 if str(given).endswith("%") else 1)
    except ValueError:
        number = math.nan
    if isinstance(given, bool) or not 0 <= number <= 1:
        notes[f"confidence {_short(given)} read as null"] += 1
        return None
    return number


def _text(given: object, field: str, notes: Counter[str]) -> str | None:
    """Return text as it is, other things flattened to text, and None for nothing."""
    if given is None:
        return None
    text = given if isinstance(given, str) else _flat(given)
    if not isinstance(given, str):
        kind = "an object" if isinstance(given, dict) else type(given).__name__
        notes[f"{field} is {kind}, read as text"] += 1
    if _LONE_SURROGATE.search(text):
        notes[f"{field} has an incomplete character, read as \ufffd"] += 1
        text = _LONE_SURROGATE.sub("\ufffd", text)
    return text.strip() or None


def _flat(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_flat(part)}" for key, part in value.items())
    if isinstance(value, Sequence) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False)


def _evidence(item: Mapping[str, object], notes: Counter[str]) -> Evidence | None:
    given = item.get("evidence") or item.get("evidence_text")
    if isinstance(given, dict):
        index = _turn_index(given.get("utterance_index"), notes)
        return Evidence(
            session_id=_text(given.get("session_id"), "evidence.session_id", notes),
            utterance_index=index,
            text=_text(given.get("text"), "evidence.text", notes) or "",
        )
    text, turn = _text(given, "evidence", notes), _turn_index(item.get("turn"), notes)
    if text is None and turn is None:
        return None
    return Evidence(session_id=None, utterance_index=turn, text=text or "")


def _turn_index(given: object, notes: Counter[str]) -> int | None:
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    if given is not None:
        notes[f"evidence.utterance_index {_short(given)} read as null"] += 1
    return None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…'"
