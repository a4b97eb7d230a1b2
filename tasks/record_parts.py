"""Parts of a record that a task shows, and highlights: the records to look at first.

Both are plain data, the same for terminal and page; `alps.show` draws them. Matched, missed and
extra memories of the tasks that compare lists are put next to each other here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from alps.schema import FAILURES, Memory, Turn
from alps.text import shown_value

Row = Mapping[str, Any]


@dataclass(frozen=True)
class AnsweredRecord:
    """A record, and the rows of a valid answer, its verdict and score; None where not at hand."""

    sample: Any | None
    prediction: Row | None
    verdict: Row | None
    score: Row | None

    @property
    def answer(self) -> Row:
        """The prediction itself; empty where there is none."""
        answer: Row = (self.prediction or {}).get("prediction") or {}
        return answer

    @property
    def items(self) -> Sequence[Row]:
        """The predicted memories, with those marked as deleted."""
        return self.answer.get("memory_items") or ()

    def of_sample(self, name: str) -> Any:
        """Return a field of the sample, or nothing where the data is not at hand."""
        return getattr(self.sample, name, None) or ()


@dataclass(frozen=True)
class Side:
    """A memory as it is shown; `value` is None where its text is not at hand."""

    id: str
    value: str | None
    detail: str = ""


@dataclass(frozen=True)
class Pairing:
    """One row of gold and prediction, side by side.

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
class Paired:
    """Gold and prediction, side by side."""

    pairings: tuple[Pairing, ...]


@dataclass(frozen=True)
class Listed:
    """Some memories, one below the other."""

    title: str
    sides: tuple[Side, ...]


@dataclass(frozen=True)
class Passage:
    """A free text: a query or an answer."""

    title: str
    text: str


@dataclass(frozen=True)
class Facts:
    """Named facts, one a line."""

    title: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Dialogue:
    """A dialogue, of which the turns that matter most are shown.

    Attributes:
        title: What it is.
        turns: All of them.
        quoted: The memories that quote it, by the ids they are shown under.
        about: A memory that no turn is quoted for: the turns nearest to its words matter most.
        folded: Whether the terminal, too, shows no more than those turns.
        shown: The turns that matter most, where the task knows them.
        labels: Labels next to a turn.
    """

    title: str
    turns: Sequence[Turn]
    quoted: Mapping[str, Memory] | None = None
    about: str | None = None
    folded: bool = False
    shown: tuple[int, ...] = ()
    labels: Mapping[int, str] = field(default_factory=dict)


RecordPart = Dialogue | Listed | Paired | Passage | Facts

_RELATED_GOLD = {
    "same": "{other} says the same",
    "narrower": "{other} says the same and adds detail",
    "bundle": "{other} states several facts, so it matches nothing",
    "broader": "{other} is too general to match",
    "conflicting": "{other} conflicts with it",
    "related": "{other} is only related to it",
}
_RELATED_PREDICTION = {
    "same": "says the same as {other}",
    "narrower": "says the same as {other} and adds detail",
    "bundle": "states several facts, including {other}",
    "broader": "is broader than {other}",
    "conflicting": "conflicts with {other}",
    "related": "is only related to {other}",
}
_SUPPORT = {
    "supported": "supported by the dialogue; annotators may have missed this memory",
    "unsupported": "not supported by the dialogue",
    "not_about_user": "not about the user",
}
_NOT_RATED = "not rated: the judge cannot rate answers"
_Sides = Mapping[str, Side]


def no_parts(record: AnsweredRecord) -> Sequence[RecordPart]:
    """Show no parts: readers see the prediction as it is."""
    return ()


def memory_side(name: str, memory: Memory, *, action: str = "", annotated: bool = False) -> Side:
    """Return a memory under `name` with its facts; a rejected value is `annotated` as such."""
    facts = [action] if action else []
    facts += [memory.type or "no type", memory.label_suggestion or memory.label]
    if memory.confidence is not None:
        facts.append(f"{memory.confidence:.3f}".strip("0"))
    # A system may write the mark itself: only gold is shown without it.
    value = shown_value(memory.value) if annotated else memory.value
    if value != memory.value:
        facts.append("marked as rejected by annotators")
    return Side(name, value, " · ".join(facts))


def numbered_gold(memories: Iterable[Memory]) -> dict[str, Memory]:
    """Return gold memories by the ids that verdicts give them."""
    return {f"g{n}": memory for n, memory in enumerate(memories, start=1)}


def predicted_sides(record: AnsweredRecord, actions: Mapping[int, str]) -> dict[str, Side]:
    """Return predicted memories by their ids in verdicts, with actions, without deleted ones."""
    sides = {}
    for n, item in enumerate(record.items, start=1):
        if item.get("action") != "delete":
            fields = {name: item[name] for name in Memory.model_fields if name in item}
            memory = Memory.model_validate(fields)
            sides[f"p{n}"] = memory_side(f"p{n}", memory, action=actions.get(n, ""))
    return sides


def align(
    record: AnsweredRecord, golds: _Sides, predictions: _Sides, gone: _Sides | None = None
) -> list[Pairing]:
    """Put gold next to prediction.

    Matched pairs come first, then missed gold, then old memories that were kept, then extra
    predictions.

    Args:
        record: Its verdict gives relations and reasons; without details in its score nothing was
            judged.
        golds: By the ids that verdicts give them, as all sides.
        predictions: What was predicted.
        gone: Old memories that should be gone, as verdicts name them.
    """
    score = record.score
    if score is None or "matched" not in score:
        return [*_unjudged(golds, predictions)]
    pairs = (record.verdict or {}).get("pairs", ())
    # What is left in it are pairs that the judge related but that were not matched.
    related = {(pair["gold"], pair["predicted"]): pair for pair in pairs}
    rows = []
    # Who a memory was matched with: of another that is related to it readers ask where it went.
    partners: dict[str, str] = {}
    for g, p, relation in score["matched"]:
        gold = golds.get(g) or Side(g, None)
        reason = _reason(related.pop((g, p), None))
        rows.append(Pairing("matched", gold, predictions.get(p), relation, reason))
        partners |= {g: p, p: g}
    kept = []
    for item in score.get("kept", ()):
        pairing, pair = _kept(item, pairs, predictions, gone or {})
        kept.append(pairing)
        if pair is not None:
            related.pop((pair["gold"], pair["predicted"]), None)
    others = _with_shown_ids(related.values(), gone or {})
    for item in score["missed"]:
        gold = golds.get(item["id"]) or Side(item["id"], item["value"])
        rows.append(Pairing("missed", gold=gold, remarks=_of_gold(item["id"], others, partners)))
    extra = _extra(record, predictions, others, partners)
    return [*rows, *kept, *extra, *_repeated(score, predictions)]


def _unjudged(golds: _Sides, predictions: _Sides) -> Iterator[Pairing]:
    for side in golds.values():
        yield Pairing("unjudged", gold=side)
    for side in predictions.values():
        yield Pairing("unjudged", predicted=side)


def _with_shown_ids(pairs: Iterable[Row], gone: _Sides) -> list[Row]:
    """Name old memories in pairs as readers see them: verdicts number them behind the gold."""
    shown = []
    for pair in pairs:
        side = gone.get(pair["gold"])
        shown.append(pair if side is None else {**pair, "gold": side.id})
    return shown


def _extra(
    record: AnsweredRecord, predictions: _Sides, others: Sequence[Row], partners: Mapping[str, str]
) -> Iterator[Pairing]:
    """Yield the predictions that match nothing."""
    score, support = record.score or {}, (record.verdict or {}).get("support") or {}
    supported = {item["id"]: item for item in support.get("items", ())}
    aside = {item["id"]: item["reason"] for item in score.get("set_aside", ())}
    for item in score["extra"]:
        name = item["id"]
        # No judge was asked about it, so nothing else would say why it matches nothing.
        remarks = ["too long to be one memory"] if aside.get(name) == "too long" else []
        if (answer := supported.get(name)) is not None:
            reason = f" – {answer['reason']}" if answer.get("reason") else ""
            remarks.append(f"{_SUPPORT.get(answer['support'], answer['support'])}{reason}")
        remarks += _of_prediction(name, others, partners)
        side = predictions.get(name) or Side(name, item["value"])
        yield Pairing("extra", predicted=side, remarks=tuple(remarks))


def _repeated(score: Row, predictions: _Sides) -> Iterator[Pairing]:
    """Yield the predictions that repeat another: they don't count, and so are no extras."""
    for item in score.get("set_aside", ()):
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


def _of_gold(name: str, others: Sequence[Row], partners: Mapping[str, str]) -> tuple[str, ...]:
    """Say how the judge related a missed gold memory to predictions, with its reasons."""
    remarks = []
    for pair in others:
        if pair["gold"] == name:
            remark = _related(_RELATED_GOLD, pair["relation"], pair["predicted"], partners)
            # The reason stands with the gold memory alone, so that it is read once.
            remarks.append(f"{remark} – {pair['reason']}" if pair["reason"] else remark)
    return tuple(remarks)


def _of_prediction(name: str, others: Sequence[Row], partners: Mapping[str, str]) -> Iterator[str]:
    """Yield how the judge related an extra prediction to gold memories."""
    for pair in others:
        if pair["predicted"] == name:
            yield _related(_RELATED_PREDICTION, pair["relation"], pair["gold"], partners)


def _related(
    phrases: Mapping[str, str], relation: str, other: str, partners: Mapping[str, str]
) -> str:
    remark = phrases.get(relation, "{other}: {relation}").format(other=other, relation=relation)
    return f"{remark}, but {other} matched {partners[other]}" if other in partners else remark


def rating_rows(title: str, verdict: Row) -> Iterator[tuple[str, str]]:
    """Yield the marks of a rating, the hard rule that overruled it, and its reason."""
    marks = verdict.get("marks") or {}
    if not marks:
        failed = f"judging failed ({verdict['outcome']})"
        yield title, failed if verdict["outcome"] != "ok" else _NOT_RATED
        return
    if "met" in marks:
        yield title, "met" if marks["met"] else "not met"
    else:
        dimensions = (f"{name} {mark}" for name, mark in marks.items())
        yield title, f"{', '.join(dimensions)}, each from 1 to 5"
    if verdict.get("enforced"):
        rule = f"a hard rule of the rubric applies: {verdict['enforced']}"
        yield "overruled", f"the judge decided otherwise, but {rule}"
    if verdict.get("reason"):
        yield "reason", str(verdict["reason"])


# Groups of instructive records: what a reader of a run should look at first. A task lists its own,
# and ranks answers by their counts and scores.

Rank = tuple[float, ...] | None
"""Where an answer stands in a group: the larger, the earlier; None where it does not belong."""


@dataclass(frozen=True)
class ScoredAnswer:
    """One answer of a run: its outcome in a word, and the row of its score."""

    state: str
    score: Mapping[str, Any]

    def count(self, name: str) -> int:
        """Return one of the counts of its score."""
        return int(self.score.get("counts", {}).get(name, 0))

    def value(self, metric: str) -> float | None:
        """Return one of its scores, None where it is not defined for it."""
        value: float | None = self.score.get("scores", {}).get(metric)
        return value

    @property
    def judged(self) -> bool:
        """Whether it was answered and judged."""
        return self.state in ("ok", "repaired")


@dataclass(frozen=True)
class Highlight:
    """One group of instructive records.

    Attributes:
        title: What they are.
        quota: How many of them at most, before places that other groups leave empty are given out.
        rank: Rank of an answer in it.
    """

    title: str
    quota: int
    rank: Callable[[ScoredAnswer], Rank]


def _failed(answer: ScoredAnswer) -> Rank:
    return () if answer.state in FAILURES else None


def _judgement_failed(answer: ScoredAnswer) -> Rank:
    return () if answer.state.startswith("judge:") and answer.state != "judge:no_gold" else None


def _repaired(answer: ScoredAnswer) -> Rank:
    return () if answer.state == "repaired" else None


FAILED = Highlight("invalid responses", 5, _failed)
JUDGEMENT_FAILED = Highlight("judging failed", 2, _judgement_failed)
REPAIRED = Highlight("repaired responses", 3, _repaired)
OF_ANY_TASK = (
    Highlight(FAILED.title, 10, _failed),
    Highlight(JUDGEMENT_FAILED.title, 5, _judgement_failed),
    Highlight(REPAIRED.title, 5, _repaired),
)
