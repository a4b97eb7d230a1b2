"""One record of a run as people read it: the dialogue, and gold beside prediction with the verdict between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alps.jsonl import Row
from alps.judges.matching import shown_value
from alps.report.evidence import Evidence, locate
from alps.report.runs import MEANINGS, Key
from alps.report.tables import number
from alps.schema import FAILURES, UNHEARD, Memory, Turn


@dataclass(frozen=True)
class Side:
    """A memory as it is shown; `value` is None where its text is not at hand."""

    id: str
    value: str | None
    detail: str = ""


@dataclass(frozen=True)
class Pairing:
    """One row of gold beside prediction.

    `kind` is `matched`, `missed` (gold alone), `extra` (prediction alone), or `unjudged`. `remarks` tell what else the
    judge said of the memories in it.
    """

    kind: str
    gold: Side | None = None
    predicted: Side | None = None
    relation: str = ""
    reason: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordView:
    """Everything that is shown of one record."""

    key: Key
    state: str
    explanation: str
    dialogue: tuple[Turn, ...]
    evidence: Evidence
    pairings: tuple[Pairing, ...]
    scores: Mapping[str, float]
    prediction: Row | None
    verdict: Row | None
    notes: tuple[str, ...]
    error: str | None
    raw: str | None
    judge_error: str | None
    judge_raw: tuple[str, ...]

    def count(self, kind: str) -> int:
        """Return how many rows are of `kind`."""
        return sum(pairing.kind == kind for pairing in self.pairings)

    @property
    def gold_count(self) -> int:
        """How many gold memories there are."""
        return sum(pairing.gold is not None for pairing in self.pairings)


def state_of(score: Row | None, prediction: Row | None) -> str:
    """Return what became of a record in one word.

    `ok`, `mended`, a kind of failed prediction, `judge:KIND` for a failed judgement, or `unfinished`.
    """
    if score is None:
        return "unfinished"
    if score.get("stage") == "judge":
        return f"judge:{score['outcome']}"
    if score.get("stage") == "generate":
        return str(score["outcome"])
    return "mended" if prediction is not None and prediction.get("repaired") else "ok"


def explain(state: str) -> str:
    """Say in a sentence what became of a record."""
    if state == "ok":
        return "answered and judged"
    if state == "mended":
        return "answered, mended before it could be read, and judged"
    if state == "unfinished":
        return "not finished: the same alps run again goes on with it"
    if state == "judge:no_gold":
        return f"{MEANINGS['no_gold']}: unscored"
    if state.startswith("judge:"):
        kind = state.removeprefix("judge:")
        return f"the judgement failed ({kind}: {MEANINGS.get(kind, 'unknown')}): unscored"
    meaning = MEANINGS.get(state, "unknown")
    effect = "unscored" if state in UNHEARD else "heard, and scored as the worst" if state in FAILURES else "?"
    return f"{meaning}: {effect}"


def build_view(
    key: Key, *, sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> RecordView:
    """Put together what the journals and the data say of the answer `key`; any of them may be missing."""
    gold = _gold(sample)
    dialogue = tuple(getattr(sample, "dialogue", ()))
    state = state_of(score, prediction)
    answered = prediction if prediction is not None and prediction.get("outcome") == "ok" else None
    support = (verdict or {}).get("support") or {}
    said = [*(prediction or {}).get("notes", ()), *(verdict or {}).get("notes", ())]
    return RecordView(
        key=key,
        state=state,
        explanation=explain(state),
        dialogue=dialogue,
        evidence=locate(gold, dialogue),
        pairings=tuple(_pairings(gold, _predicted(answered), verdict, score)),
        scores=(score or {}).get("scores", {}),
        prediction=answered["prediction"] if answered is not None else None,
        verdict=verdict,
        notes=tuple(str(note) for note in said),
        error=(prediction or {}).get("error"),
        raw=(prediction or {}).get("raw"),
        judge_error=(verdict or {}).get("error") or support.get("error"),
        judge_raw=tuple(raw for raw in (*(verdict or {}).get("raw", ()), support.get("raw")) if raw),
    )


def _gold(sample: Any | None) -> dict[str, Memory]:
    memories = getattr(sample, "gold", None) or ()
    return {f"g{n}": memory for n, memory in enumerate(memories, start=1) if isinstance(memory, Memory)}


def _predicted(prediction: Row | None) -> dict[str, Memory]:
    items = ((prediction or {}).get("prediction") or {}).get("memory_items", ())
    return {f"p{n}": Memory.model_validate(item) for n, item in enumerate(items, start=1)}


def _pairings(
    gold: Mapping[str, Memory], predicted: Mapping[str, Memory], verdict: Row | None, score: Row | None
) -> list[Pairing]:
    """Align gold and prediction: matched pairs, then missed gold, then extra predictions."""
    details = score if score is not None and "matched" in score else None
    golds = {name: _side(name, memory) for name, memory in gold.items()}
    predictions = {name: _side(name, memory) for name, memory in predicted.items()}
    if details is None:
        unjudged = [Pairing("unjudged", gold=side) for side in golds.values()]
        return unjudged + [Pairing("unjudged", predicted=side) for side in predictions.values()]
    pairs = (verdict or {}).get("pairs", ())
    matches = {(g, p): relation for g, p, relation in details["matched"]}
    reasons = {(pair["gold"], pair["predicted"]): pair["reason"] for pair in pairs}
    rows = [
        Pairing("matched", golds.get(g) or Side(g, None), predictions.get(p), relation, reasons.get((g, p), ""))
        for (g, p), relation in matches.items()
    ]
    others = [pair for pair in pairs if (pair["gold"], pair["predicted"]) not in matches]
    taken = dict(matches.keys()) | {p: g for g, p in matches}
    for item in details["missed"]:
        side = golds.get(item["id"]) or Side(item["id"], item["value"])
        rows.append(Pairing("missed", gold=side, remarks=_remarks(item["id"], "gold", others, taken)))
    support = {item["id"]: item for item in ((verdict or {}).get("support") or {}).get("items", ())}
    for item in details["extra"]:
        side = predictions.get(item["id"]) or Side(item["id"], item["value"])
        remarks = (*_support(support.get(item["id"])), *_remarks(item["id"], "predicted", others, taken))
        rows.append(Pairing("extra", predicted=side, remarks=remarks))
    return rows


def _support(said: Row | None) -> tuple[str, ...]:
    """Say whether the dialogue supports a prediction that no gold memory matches."""
    if said is None:
        return ()
    reason = f" – {said['reason']}" if said.get("reason") else ""
    return (f"{_SUPPORT.get(said['support'], said['support'])}{reason}",)


def _remarks(name: str, role: str, others: Sequence[Row], taken: Mapping[str, str]) -> tuple[str, ...]:
    """Say how the judge related a memory that stayed alone to those that it was not paired with.

    The reason stands with the gold memory, so that it is read once.
    """
    remarks = []
    for pair in others:
        if pair[role] != name:
            continue
        other = pair["predicted" if role == "gold" else "gold"]
        text = _WORDS[role].get(pair["relation"], "{other}: {relation}").format(other=other, relation=pair["relation"])
        if other in taken:
            text += f", which went to {taken[other]}"
        if role == "gold" and pair["reason"]:
            text += f" – {pair['reason']}"
        remarks.append(text)
    return tuple(remarks)


_WORDS = {
    "gold": {
        "same": "{other} says the same",
        "narrower": "{other} is narrower",
        "broader": "{other} is broader: too general to match",
        "conflicting": "{other} conflicts",
        "related": "{other} is only related",
    },
    "predicted": {
        "same": "says the same as {other}",
        "narrower": "narrower than {other}",
        "broader": "broader than {other}",
        "conflicting": "conflicts with {other}",
        "related": "only related to {other}",
    },
}


_SUPPORT = {
    "supported": "the dialogue supports it: the annotators may have missed it",
    "unsupported": "the dialogue does not support it",
    "not_about_user": "not about the user",
}


def _side(name: str, memory: Memory) -> Side:
    label = memory.label_suggestion or memory.label
    facts = [memory.type or "no type", label]
    if memory.confidence is not None:
        facts.append(number(memory.confidence).rstrip("0"))
    value = shown_value(memory.value) if name.startswith("g") else memory.value
    if value != memory.value:
        facts.append("marked as rejected by its annotators")
    return Side(name, value, " · ".join(facts))
