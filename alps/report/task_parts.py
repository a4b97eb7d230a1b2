"""What of a record is shown, task by task."""

from collections.abc import Callable
from typing import Any

from alps.jsonl import Row
from alps.judges.rubric import DIMENSIONS
from alps.rejection import shown_value
from alps.report.evidence import locate
from alps.report.numbers import number
from alps.report.pairing import extraction_pairings, memory_side, update_pairings
from alps.report.parts import Facts, Listed, Paired, Part, Said, Side, dialogue_about, dialogue_part
from alps.schema import Memory
from alps.tasks.update_actions import compare

FIRST_OF_RANKING = 5
_NOT_RATED = "none: the judge rates no answers by a rubric"


def parts_of(
    task: str, sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> tuple[Part, ...]:
    """Return what is shown of a record of `task`; any of the rows, and the sample, may be missing.

    `prediction` is the journal's row of an answer that was heard.
    """
    found = _PARTS[task](sample, prediction, verdict, score) if task in _PARTS else []
    return tuple(part for part in found if not _is_empty(part))


def _extraction(
    sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> list[Part]:
    gold = {
        f"g{n}": memory for n, memory in enumerate(getattr(sample, "gold", None) or (), start=1)
    }
    turns = getattr(sample, "dialogue", ())
    paired = Paired(tuple(extraction_pairings(sample, prediction, verdict, score)))
    return [dialogue_part("Dialogue", turns, locate(gold, turns)), paired]


def _update(
    sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> list[Part]:
    """Show the old list with what becomes of it, both dialogues, and the new list beside the
    predicted one.
    """
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
    """Forget which turn the evidence of a new memory names: releases count those of the new
    dialogue differently.
    """
    if memory.evidence is None:
        return memory
    return memory.model_copy(
        update={"evidence": memory.evidence.model_copy(update={"utterance_index": None})}
    )


def _retrieval(
    sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> list[Part]:
    """Show the query, the gold candidate and the chosen one, the beginning of the ranking, and the
    answer.
    """
    given = (prediction or {}).get("prediction") or {}
    ranking, chosen = list(given.get("ranking") or ()), given.get("selected_memory_id")
    values = {candidate.id: candidate.value for candidate in getattr(sample, "candidates", ())}
    for known in ((score or {}).get("gold"), (score or {}).get("chosen")):
        values |= {known["id"]: known["value"]} if known and known.get("id") else {}
    gold = sample.gold if sample is not None else ((score or {}).get("gold") or {}).get("id")
    size = (
        len(sample.candidates)
        if sample is not None
        else (score or {}).get("counts", {}).get("candidates")
    )
    right = "the right one" if chosen == gold else "not the gold"
    sides = [Side(gold, values.get(gold), "the gold")] if gold else []
    sides += (
        [Side(chosen, values.get(chosen), f"chosen: {right}" if gold else "chosen")]
        if chosen
        else []
    )
    rows = [("pool", f"{size:,} candidates")] if size else []
    if len(ranking) > 1 and gold:
        place = (
            f"{ranking.index(gold) + 1} of {len(ranking)}"
            if gold in ranking
            else f"not among {len(ranking)}"
        )
        rows.append(("rank of the gold", place))
    if used := (verdict or {}).get("used"):
        rows += _verdict_rows("memory used", used)
    first = [
        Side(name, values.get(name), "the gold" if name == gold else "")
        for name in ranking[:FIRST_OF_RANKING]
    ]
    return [
        Said("Query", getattr(sample, "query", "")),
        Listed("Gold and choice", tuple(sides)),
        Facts("Figures", tuple(rows)),
        Listed(f"The first {len(first)} of the ranking", tuple(first) if len(ranking) > 1 else ()),
        Said("Answer", str(given.get("answer") or "")),
        Said("Reason given", str(given.get("reason") or "")),
    ]


def _utilization(
    sample: Any | None, prediction: Row | None, verdict: Row | None, score: Row | None
) -> list[Part]:
    """Show the dialogue around what the target memory says, the query, the target, the response and
    its verdict.
    """
    target = getattr(sample, "gold", None)
    memory = target.memory if target is not None else str((score or {}).get("memory") or "")
    name = (verdict or {}).get("rubric") or (
        target.rubric if target is not None else (score or {}).get("rubric")
    )
    rows = [("rubric", str(name))] if name else []
    rows += (
        _verdict_rows("verdict", verdict)
        if verdict is not None and verdict["outcome"] == "ok"
        else []
    )
    if (named := (score or {}).get("grounding")) is not None:
        rows.append(
            ("grounding (proxy)", f"{number(named)} of the memory's words stand in the response")
        )
    shown = getattr(sample, "memories", ())
    turns = getattr(sample, "dialogue", ())
    return [
        dialogue_about(memory, turns),
        Said("Query", getattr(sample, "query", "")),
        Said("Target memory", memory),
        Listed(
            "Memories shown to the system", tuple(Side("•", shown_value(value)) for value in shown)
        ),
        Said("Response", str(((prediction or {}).get("prediction") or {}).get("answer") or "")),
        Facts("Verdict", tuple(rows)),
    ]


def _verdict_rows(title: str, verdict: Row) -> list[tuple[str, str]]:
    """Return the marks of a rating, the reason for them, and the hard rule that overruled the
    judge.
    """
    marks = verdict.get("marks") or {}
    if not marks:
        return [
            (
                title,
                f"the judgement failed ({verdict['outcome']})"
                if verdict["outcome"] != "ok"
                else _NOT_RATED,
            )
        ]
    if "met" in marks:
        said = "met" if marks["met"] else "not met"
    else:
        said = (
            ", ".join(f"{name} {marks[name]}" for name in DIMENSIONS if name in marks)
            + ", each of 1–5"
        )
    rows = [(title, said)]
    rows += [
        (
            "overruled",
            f"the judge said otherwise, but by a hard rule of the rubric {verdict['enforced']}",
        )
    ] * bool(verdict.get("enforced"))
    return [*rows, ("reason", str(verdict["reason"]))] if verdict.get("reason") else rows


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
