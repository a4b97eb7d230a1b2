"""Gold beside prediction: what was matched, missed, extra and kept, and what else the judge said of
it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from alps.jsonl import Row
from alps.rejection import shown_value
from alps.report.numbers import number
from alps.report.parts import Pairing, Side
from alps.schema import Memory
from alps.tasks.update_actions import compare

_WORDS = {
    "gold": {
        "same": "{other} says the same",
        "narrower": "{other} is narrower",
        "bundle": "{other} states it among other facts: a bundle matches nothing",
        "broader": "{other} is broader: too general to match",
        "conflicting": "{other} conflicts",
        "related": "{other} is only related",
    },
    "predicted": {
        "same": "says the same as {other}",
        "narrower": "narrower than {other}",
        "bundle": "states several facts, {other} among them",
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
_Sides = Mapping[str, Side]


def memory_side(name: str, memory: Memory, *, action: str = "", annotated: bool = False) -> Side:
    """Return a memory under `name` with its action, type, label and confidence.

    What annotators rejected is said.
    """
    facts = [action] if action else []
    facts += [memory.type or "no type", memory.label_suggestion or memory.label]
    if memory.confidence is not None:
        facts.append(number(memory.confidence).rstrip("0"))
    value = shown_value(memory.value) if annotated else memory.value
    if value != memory.value:
        facts.append("marked as rejected by its annotators")
    return Side(name, value, " · ".join(facts))


def predicted_memories(prediction: Row | None) -> dict[str, Memory]:
    """Return the predicted memories by the ids that verdicts give them.

    Those it deleted are not among them.
    """
    items = ((prediction or {}).get("prediction") or {}).get("memory_items", ())
    fields = [{name: item[name] for name in Memory.model_fields if name in item} for item in items]
    kept = (n for n, item in enumerate(items) if item.get("action") != "delete")
    return {f"p{n + 1}": Memory.model_validate(fields[n]) for n in kept}


def extraction_pairings(
    sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> list[Pairing]:
    """Align the gold memories of a dialogue with those that were found."""
    gold = {f"g{n}": m for n, m in enumerate(getattr(sample, "gold", None) or (), start=1)}
    golds = {name: memory_side(name, memory, annotated=True) for name, memory in gold.items()}
    predictions = {
        name: memory_side(name, memory) for name, memory in predicted_memories(prediction).items()
    }
    return align(golds, predictions, verdict, score)


def update_pairings(
    sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> list[Pairing]:
    """Align the gold list with the predicted one, each with its actions.

    What changed stands before what stayed.
    """
    details = score or {}
    old, gold = (getattr(sample, "memory", None) or (), getattr(sample, "gold", None) or ())
    lists = compare(old, gold)
    golds = {}
    for n, (memory, change) in enumerate(zip(gold, lists.changes, strict=True), start=1):
        before = (
            f" {old[change.old].memory_id}"
            if change.action == "modify" and change.old is not None
            else ""
        )
        golds[f"g{n}"] = memory_side(
            f"g{n}", memory, action=f"{change.action}{before}", annotated=True
        )
    gone = {
        f"g{len(gold) + n}": Side(
            f"old {old[place].memory_id}", shown_value(old[place].value), "should be gone"
        )
        for n, place in enumerate(lists.gone, start=1)
    }
    actions = dict(enumerate(details.get("actions", ()), start=1))
    predictions = {
        name: memory_side(name, memory, action=actions.get(int(name[1:]), ""))
        for name, memory in predicted_memories(prediction).items()
    }
    stayed = {
        f"g{n}"
        for n, action in enumerate(details.get("gold_actions", ()), start=1)
        if action == "retain"
    }
    rows = align(golds, predictions, verdict, score, gone=gone if sample is not None else None)
    return sorted(
        rows,
        key=lambda row: row.kind == "matched" and row.gold is not None and row.gold.id in stayed,
    )


def align(
    golds: _Sides,
    predictions: _Sides,
    verdict: Row | None,
    score: Row | None,
    *,
    gone: _Sides | None = None,
) -> list[Pairing]:
    """Put gold beside prediction: matched pairs, then missed gold, then old memories kept, then
    extra predictions.

    Args:
        golds: By the ids that verdicts give them, as all sides.
        predictions: What was predicted.
        verdict: The row of the verdict; it gives relations and reasons.
        score: The row of the score; without its details nothing was judged.
        gone: Old memories that should be gone, as verdicts name them.
    """
    if score is None or "matched" not in score:
        unjudged = [Pairing("unjudged", gold=side) for side in golds.values()]
        return unjudged + [Pairing("unjudged", predicted=side) for side in predictions.values()]
    pairs = (verdict or {}).get("pairs", ())
    reasons = {(pair["gold"], pair["predicted"]): pair for pair in pairs}
    matches = {(g, p): relation for g, p, relation in score["matched"]}
    rows = [
        Pairing(
            "matched",
            golds.get(g) or Side(g, None),
            predictions.get(p),
            relation,
            _reason(reasons.get((g, p))),
        )
        for (g, p), relation in matches.items()
    ]
    kept = [_kept(item, pairs, predictions, gone or {}) for item in score.get("kept", ())]
    standing = {(pair["gold"], pair["predicted"]) for _, pair in kept if pair is not None}
    names = {name: side.id for name, side in (gone or {}).items()}
    others = [
        {**pair, "gold": names.get(pair["gold"], pair["gold"])}
        for place, pair in reasons.items()
        if place not in matches and place not in standing
    ]
    taken = dict(matches.keys()) | {p: g for g, p in matches}
    for item in score["missed"]:
        side = golds.get(item["id"]) or Side(item["id"], item["value"])
        rows.append(
            Pairing("missed", gold=side, remarks=_remarks(item["id"], "gold", others, taken))
        )
    rows += [pairing for pairing, _ in kept]
    support = {item["id"]: item for item in ((verdict or {}).get("support") or {}).get("items", ())}
    aside = {item["id"]: item for item in score.get("set_aside", ())}
    for item in score["extra"]:
        side = predictions.get(item["id"]) or Side(item["id"], item["value"])
        too_long = (
            ("too long to be one memory",)
            if aside.get(item["id"], {}).get("reason") == "too long"
            else ()
        )
        remarks = _remarks(item["id"], "predicted", others, taken)
        rows.append(
            Pairing(
                "extra",
                predicted=side,
                remarks=(*too_long, *_support(support.get(item["id"])), *remarks),
            )
        )
    for item in aside.values():
        if item["reason"].startswith("repeats "):
            side = predictions.get(item["id"]) or Side(item["id"], item["value"])
            rows.append(
                Pairing("repeated", predicted=side, remarks=(f"{item['reason']}: counted once",))
            )
    return rows


def _kept(
    item: Row, pairs: Sequence[Row], predictions: _Sides, gone: _Sides
) -> tuple[Pairing, Row | None]:
    """Return the row of an old memory that should be gone and is still there, and the judge's pair
    that says so.
    """
    pair = next((p for p in pairs if p["predicted"] == item["id"] and p["gold"] in gone), None)
    side = gone[pair["gold"]] if pair is not None else Side("old", item["value"], "should be gone")
    predicted = predictions.get(item["id"]) or Side(item["id"], None)
    return Pairing("kept", side, predicted, pair["relation"] if pair else "", _reason(pair)), pair


def _reason(pair: Row | None) -> str:
    return str(pair["reason"]) if pair is not None else ""


def _support(said: Row | None) -> tuple[str, ...]:
    """Say whether the dialogue supports a prediction that no gold memory matches."""
    if said is None:
        return ()
    reason = f" – {said['reason']}" if said.get("reason") else ""
    return (f"{_SUPPORT.get(said['support'], said['support'])}{reason}",)


def _remarks(
    name: str, role: str, others: Sequence[Row], taken: Mapping[str, str]
) -> tuple[str, ...]:
    """Say how the judge related a memory that stayed alone to those that it was not paired with.

    The reason stands with the gold memory, so that it is read once.
    """
    remarks = []
    for pair in others:
        if pair[role] != name:
            continue
        other = pair["predicted" if role == "gold" else "gold"]
        text = (
            _WORDS[role]
            .get(pair["relation"], "{other}: {relation}")
            .format(other=other, relation=pair["relation"])
        )
        if other in taken:
            text += f", which went to {taken[other]}"
        if role == "gold" and pair["reason"]:
            text += f" – {pair['reason']}"
        remarks.append(text)
    return tuple(remarks)
