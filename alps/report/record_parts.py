"""Parts of a record as terminal, page and site show them, task by task."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alps.jsonl import Row
from alps.judges.rubric import DIMENSIONS
from alps.rejection import shown_value
from alps.report.dialogue import (
    Dialogue,
    dialogue_about,
    dialogue_part,
    locate,
)
from alps.report.formatting import number
from alps.schema import Memory
from alps.tasks.update_actions import compare


@dataclass(frozen=True)
class Side:
    """A memory as it is shown; `value` is None where its text is not at hand."""

    id: str
    value: str | None
    detail: str = ""


@dataclass(frozen=True)
class Pairing:
    """One row of gold beside prediction.

    `kind` is `matched`, `missed` (gold alone), `extra` (prediction alone), `kept` (a prediction
    that keeps an old memory which should be gone), `repeated` (a near copy of another prediction),
    or `unjudged`. `remarks` tell what else the judge said of the memories in it.
    """

    kind: str
    gold: Side | None = None
    predicted: Side | None = None
    relation: str = ""
    reason: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listed:
    """Some memories, one below the other."""

    title: str
    sides: tuple[Side, ...]


@dataclass(frozen=True)
class Paired:
    """Gold beside prediction."""

    pairings: tuple[Pairing, ...]


@dataclass(frozen=True)
class Said:
    """A text that somebody wrote: a query, or an answer."""

    title: str
    text: str


@dataclass(frozen=True)
class Facts:
    """Named facts, one a line."""

    title: str
    rows: tuple[tuple[str, str], ...]


Part = Dialogue | Listed | Paired | Said | Facts

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
    """Return the predicted memories by the ids that verdicts give them, without deleted ones."""
    memories = {}
    items = ((prediction or {}).get("prediction") or {}).get("memory_items", ())
    for n, item in enumerate(items, start=1):
        if item.get("action") != "delete":
            fields = {name: item[name] for name in Memory.model_fields if name in item}
            memories[f"p{n}"] = Memory.model_validate(fields)
    return memories


def _numbered(memories: Iterable[Memory]) -> dict[str, Memory]:
    """Return gold memories by the ids that verdicts give them."""
    return {f"g{n}": memory for n, memory in enumerate(memories, start=1)}


def extraction_pairings(
    sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> list[Pairing]:
    """Align the gold memories of a dialogue with the predicted ones."""
    golds, predictions = {}, {}
    for name, memory in _numbered(getattr(sample, "gold", None) or ()).items():
        golds[name] = memory_side(name, memory, annotated=True)
    for name, memory in predicted_memories(prediction).items():
        predictions[name] = memory_side(name, memory)
    return align(golds, predictions, verdict, score)


def update_pairings(
    sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> list[Pairing]:
    """Align the gold list with the predicted one, each with its actions, changes first."""
    details = score or {}
    old, gold = (getattr(sample, "memory", None) or (), getattr(sample, "gold", None) or ())
    lists = compare(old, gold)
    golds, predictions, gone = {}, {}, {}
    for (name, memory), change in zip(_numbered(gold).items(), lists.changes, strict=True):
        action = str(change.action)
        if change.action == "modify" and change.old is not None:
            action += f" {old[change.old].memory_id}"
        golds[name] = memory_side(name, memory, action=action, annotated=True)
    for n, index in enumerate(lists.gone, start=len(gold) + 1):
        value = shown_value(old[index].value)
        gone[f"g{n}"] = Side(f"old {old[index].memory_id}", value, "should be gone")
    actions = dict(enumerate(details.get("actions", ()), start=1))
    for name, memory in predicted_memories(prediction).items():
        predictions[name] = memory_side(name, memory, action=actions.get(int(name[1:]), ""))
    stayed = set()
    for n, action in enumerate(details.get("gold_actions", ()), start=1):
        if action == "retain":
            stayed.add(f"g{n}")

    def is_unchanged(row: Pairing) -> bool:
        return row.kind == "matched" and row.gold is not None and row.gold.id in stayed

    known = gone if sample is not None else None
    return sorted(align(golds, predictions, verdict, score, gone=known), key=is_unchanged)


def align(
    golds: _Sides,
    predictions: _Sides,
    verdict: Row | None,
    score: Row | None,
    *,
    gone: _Sides | None = None,
) -> list[Pairing]:
    """Put gold next to prediction.

    Matched pairs come first, then missed gold, then old memories that were kept, then extra
    predictions.

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
    judged = {(pair["gold"], pair["predicted"]): pair for pair in pairs}
    rows = []
    partners: dict[str, str] = {}
    for g, p, relation in score["matched"]:
        gold = golds.get(g) or Side(g, None)
        reason = _reason(judged.pop((g, p), None))
        rows.append(Pairing("matched", gold, predictions.get(p), relation, reason))
        partners |= {g: p, p: g}
    kept = []
    for item in score.get("kept", ()):
        pairing, pair = _kept(item, pairs, predictions, gone or {})
        kept.append(pairing)
        if pair is not None:
            judged.pop((pair["gold"], pair["predicted"]), None)
    # What is left are pairs that the judge related but that were not matched.
    names = {name: side.id for name, side in (gone or {}).items()}
    others = [{**pair, "gold": names.get(pair["gold"], pair["gold"])} for pair in judged.values()]
    for item in score["missed"]:
        gold = golds.get(item["id"]) or Side(item["id"], item["value"])
        remarks = _remarks(item["id"], "gold", others, partners)
        rows.append(Pairing("missed", gold=gold, remarks=remarks))
    return [*rows, *kept, *_unmatched(score, verdict, predictions, others, partners)]


def _unmatched(
    score: Row,
    verdict: Row | None,
    predictions: _Sides,
    others: Sequence[Row],
    partners: Mapping[str, str],
) -> Iterator[Pairing]:
    """Yield the predictions that match nothing: extra ones, then those that repeat another."""
    support = ((verdict or {}).get("support") or {}).get("items", ())
    supported = {item["id"]: item for item in support}
    aside = {item["id"]: item for item in score.get("set_aside", ())}
    for item in score["extra"]:
        side = predictions.get(item["id"]) or Side(item["id"], item["value"])
        remarks = [*_support_remark(supported.get(item["id"]))]
        if aside.get(item["id"], {}).get("reason") == "too long":
            remarks.insert(0, "too long to be one memory")
        remarks += _remarks(item["id"], "predicted", others, partners)
        yield Pairing("extra", predicted=side, remarks=tuple(remarks))
    for item in aside.values():
        if item["reason"].startswith("repeats "):
            side = predictions.get(item["id"]) or Side(item["id"], item["value"])
            remark = f"{item['reason']}: counted once"
            yield Pairing("repeated", predicted=side, remarks=(remark,))


def _kept(
    item: Row, pairs: Sequence[Row], predictions: _Sides, gone: _Sides
) -> tuple[Pairing, Row | None]:
    """Return the row of an old memory that was kept, and the judge's pair behind it."""
    pair = next((p for p in pairs if p["predicted"] == item["id"] and p["gold"] in gone), None)
    side = gone[pair["gold"]] if pair is not None else Side("old", item["value"], "should be gone")
    predicted = predictions.get(item["id"]) or Side(item["id"], None)
    return Pairing("kept", side, predicted, pair["relation"] if pair else "", _reason(pair)), pair


def _reason(pair: Row | None) -> str:
    return str(pair["reason"]) if pair is not None else ""


def _support_remark(item: Row | None) -> tuple[str, ...]:
    """Say whether the dialogue supports a prediction that no gold memory matches."""
    if item is None:
        return ()
    reason = f" – {item['reason']}" if item.get("reason") else ""
    return (f"{_SUPPORT.get(item['support'], item['support'])}{reason}",)


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


FIRST_OF_RANKING = 5


_NOT_RATED = "none: the judge rates no answers by a rubric"


def parts_of(
    task: str, sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> tuple[Part, ...]:
    """Return what is shown of a record of `task`; any of the rows, and the sample, may be missing.

    `prediction` is the journal's row of a valid answer.
    """
    parts = _PARTS[task](sample, prediction, verdict, score) if task in _PARTS else []
    return tuple(part for part in parts if not _is_empty(part))


def _extraction(
    sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> list[Part]:
    gold = _numbered(getattr(sample, "gold", None) or ())
    turns = getattr(sample, "dialogue", ())
    paired = Paired(tuple(extraction_pairings(sample, prediction, verdict, score)))
    return [dialogue_part("Dialogue", turns, locate(gold, turns)), paired]


def _update(
    sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> list[Part]:
    """Show the old list and what happens to it, both dialogues, and the new lists."""
    parts: list[Part] = []
    if sample is not None:
        lists = compare(sample.memory, sample.gold or ())
        changes = list(enumerate(zip(sample.gold or (), lists.changes, strict=True), start=1))
        after = {change.old: f"g{n}" for n, (_, change) in changes if change.old is not None}
        old = {memory.memory_id: memory for memory in sample.memory}
        new = {
            f"g{n}": _anywhere(memory)
            for n, (memory, change) in changes
            if change.action != "retain"
        }
        known = sample.gold is not None
        listed = [
            memory_side(
                m.memory_id, m, action=_fate(n, lists.gone, after) if known else "", annotated=True
            )
            for n, m in enumerate(sample.memory)
        ]
        parts += [
            Listed("Old memories", tuple(listed)),
            dialogue_part(
                "Old dialogue", sample.old_dialogue, locate(old, sample.old_dialogue), folded=True
            ),
            dialogue_part("New dialogue", sample.new_dialogue, locate(new, sample.new_dialogue)),
        ]
    parts.append(Paired(tuple(update_pairings(sample, prediction, verdict, score))))
    items = ((prediction or {}).get("prediction") or {}).get("memory_items", ())
    deleted = [
        Side(item["memory_id"], item["value"]) for item in items if item.get("action") == "delete"
    ]
    return [*parts, Listed("Deleted by the prediction", tuple(deleted))]


def _fate(place: int, gone: tuple[int, ...], after: dict[int, str]) -> str:
    """Say what should become of an old memory."""
    if place not in gone:
        return f"stays as {after[place]}" if place in after else "stays"
    return f"replaced by {after[place]}" if place in after else "withdrawn"


def _anywhere(memory: Memory) -> Memory:
    """Remove the turn that the evidence of a new memory names.

    Releases count the turns of the new dialogue differently.
    """
    if memory.evidence is None:
        return memory
    return memory.model_copy(
        update={"evidence": memory.evidence.model_copy(update={"utterance_index": None})}
    )


def _retrieval(
    sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> list[Part]:
    """Show the query, gold and choice, the beginning of the ranking, and the answer."""
    answer = (prediction or {}).get("prediction") or {}
    details = score or {}
    ranking, chosen = list(answer.get("ranking") or ()), answer.get("selected_memory_id")
    values = {candidate.id: candidate.value for candidate in getattr(sample, "candidates", ())}
    for known in (details.get("gold"), details.get("chosen")):
        values |= {known["id"]: known["value"]} if known and known.get("id") else {}
    if sample is not None:
        gold, size = sample.gold, len(sample.candidates)
    else:
        gold = (details.get("gold") or {}).get("id")
        size = details.get("counts", {}).get("candidates")
    sides = [Side(gold, values.get(gold), "the gold")] if gold else []
    if chosen:
        right = ": the right one" if chosen == gold else ": not the gold"
        sides.append(Side(chosen, values.get(chosen), f"chosen{right if gold else ''}"))
    rows = [("pool", f"{size:,} candidates")] if size else []
    if len(ranking) > 1 and gold:
        rows.append(("rank of the gold", _rank(gold, ranking)))
    if used := (verdict or {}).get("used"):
        rows += _verdict_rows("memory used", used)
    first = []
    for name in ranking[:FIRST_OF_RANKING] if len(ranking) > 1 else ():
        first.append(Side(name, values.get(name), "the gold" if name == gold else ""))
    return [
        Said("Query", getattr(sample, "query", "")),
        Listed("Gold and choice", tuple(sides)),
        Facts("Metrics", tuple(rows)),
        Listed(f"The first {len(first)} of the ranking", tuple(first)),
        Said("Answer", str(answer.get("answer") or "")),
        Said("Reason given", str(answer.get("reason") or "")),
    ]


def _rank(gold: str, ranking: Sequence[str]) -> str:
    if gold not in ranking:
        return f"not among {len(ranking)}"
    return f"{ranking.index(gold) + 1} of {len(ranking)}"


def _utilization(
    sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> list[Part]:
    """Show the dialogue near the target memory, the query, the response and its verdict."""
    target = getattr(sample, "gold", None)
    if target is not None:
        memory, rubric = target.memory, target.rubric
    else:
        memory, rubric = str((score or {}).get("memory") or ""), (score or {}).get("rubric")
    rubric = (verdict or {}).get("rubric") or rubric
    rows = [("rubric", str(rubric))] if rubric else []
    if verdict is not None and verdict["outcome"] == "ok":
        rows += _verdict_rows("verdict", verdict)
    if (grounding := (score or {}).get("grounding")) is not None:
        share = f"{number(grounding)} of the memory's words are in the response"
        rows.append(("grounding (proxy)", share))
    shown = [Side("•", shown_value(value)) for value in getattr(sample, "memories", ())]
    return [
        dialogue_about(memory, getattr(sample, "dialogue", ())),
        Said("Query", getattr(sample, "query", "")),
        Said("Target memory", memory),
        Listed("Memories shown to the system", tuple(shown)),
        Said("Response", str(((prediction or {}).get("prediction") or {}).get("answer") or "")),
        Facts("Verdict", tuple(rows)),
    ]


def _verdict_rows(title: str, verdict: Row) -> Iterator[tuple[str, str]]:
    """Yield the marks of a rating, the hard rule that overruled it, and its reason."""
    marks = verdict.get("marks") or {}
    if not marks:
        failed = f"the judgement failed ({verdict['outcome']})"
        yield title, failed if verdict["outcome"] != "ok" else _NOT_RATED
        return
    if "met" in marks:
        yield title, "met" if marks["met"] else "not met"
    else:
        dimensions = (f"{name} {marks[name]}" for name in DIMENSIONS if name in marks)
        yield title, f"{', '.join(dimensions)}, each of 1–5"
    if verdict.get("enforced"):
        rule = f"by a hard rule of the rubric {verdict['enforced']}"
        yield "overruled", f"the judge said otherwise, but {rule}"
    if verdict.get("reason"):
        yield "reason", str(verdict["reason"])


def _is_empty(part: Part) -> bool:
    match part:
        case Said():
            return not part.text
        case Facts():
            return not part.rows
        case Listed():
            return not part.sides
        case Paired():
            return not part.pairings
        case _:
            return not part.turns


_PARTS: dict[str, Callable[[Any | None, Row | None, Row | None, Row | None], list[Part]]] = {
    "extraction": _extraction,
    "update": _update,
    "retrieval": _retrieval,
    "utilization": _utilization,
}
