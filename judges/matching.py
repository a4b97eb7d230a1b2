"""One-to-one matching of predicted memories to gold memories, by meaning.

A judge names the relation of pairs of memories. Identical values pair without asking it. Out of the
named relations the best one-to-one set is picked; which relations count as a match is a policy,
declared and reported. A memory says one thing: a prediction that states several facts is a
`bundle`, and matches nothing. A second question, whether the dialogue supports a memory, tells a
hallucination from a memory that the annotators missed.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from alps.judges.base import Question
from alps.schema import CANONICAL_LABELS, UNMAPPED, Memory, Outcome, Turn
from alps.similarity import features
from alps.text import fold_value, shown_value

Relation = Literal["same", "narrower", "bundle", "broader", "conflicting", "related"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)
UNRELATED = "unrelated"
"""What pairs are that a judge does not name."""
Support = Literal["supported", "unsupported", "not_about_user"]
SUPPORTS: tuple[Support, ...] = get_args(Support)
Dialogue = Sequence[Turn]

# Which relations count as a match, and which of them is preferred where a memory could match two
# others.
POLICIES: dict[str, dict[Relation, float]] = {
    "lenient": {"same": 1.0, "narrower": 0.9},
    "strict": {"same": 1.0},
}
# The most memories a side in one call to a judge.
BLOCK = 30


class Item(NamedTuple):
    """A memory as a judge sees it, under an id local to the call; `memory_id` is never shown."""

    id: str
    value: str
    type: str | None
    label: str
    evidence: str | None
    memory_id: str = ""

    def payload(self) -> dict[str, str]:
        """Return the item as the payload of a judge has it."""
        shown = {"id": self.id, "value": self.value, "type": self.type or "", "label": self.label}
        return {**shown, "evidence": self.evidence} if self.evidence else shown


@dataclass(frozen=True)
class Pair:
    """What a judge says of one gold and one predicted memory, by their positions."""

    gold: int
    predicted: int
    relation: Relation
    reason: str
    strength: float = 0.0


@dataclass(frozen=True)
class Judgement:
    """The relations a judge named, others being unrelated; unless `ok`, nothing may be concluded.

    `agreement` is how far a judge that was asked several times agrees with itself, in [0, 1];
    `draws` are the relations that it named each time, by positions.
    """

    outcome: Outcome
    pairs: tuple[Pair, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None
    raw: tuple[str, ...] = ()
    agreement: float | None = None
    draws: tuple[Mapping[tuple[int, int], Relation], ...] = ()


@dataclass(frozen=True)
class MatchQuestion(Question[Judgement]):
    """How do the memories of two lists relate? Neither list is empty."""

    gold: Sequence[Item]
    predicted: Sequence[Item]
    unanswered: ClassVar[str] = "this judge cannot compare memories"
    verdict: ClassVar[type] = Judgement

    def payload(self) -> dict[str, Any]:
        """Return the question as an LLM is shown it."""
        gold, predicted = map(Item.payload, self.gold), map(Item.payload, self.predicted)
        return {"kind": "match", "gold": list(gold), "predicted": list(predicted)}


@dataclass(frozen=True)
class SupportJudgement:
    """What a judge says of each item by its id; unless `ok`, nothing may be concluded."""

    outcome: Outcome
    support: Mapping[str, tuple[Support, str]] = field(default_factory=dict)
    error: str | None = None
    raw: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """Return the judgement as it is written to a file."""
        items = [
            {"id": name, "support": support, "reason": reason}
            for name, (support, reason) in self.support.items()
        ]
        raw = "\n".join(self.raw) if self.raw else None
        return {"outcome": self.outcome, "items": items, "error": self.error, "raw": raw}


@dataclass(frozen=True)
class SupportQuestion(Question[SupportJudgement]):
    """Of each of `items`: does `dialogue` support it?"""

    dialogue: Dialogue
    items: Sequence[Item]
    unanswered: ClassVar[str] = "this judge does not read dialogues"
    verdict: ClassVar[type] = SupportJudgement

    def payload(self) -> dict[str, Any]:
        """Return the question as an LLM is shown it."""
        return {
            "kind": "support",
            "dialogue": [turn.model_dump() for turn in self.dialogue],
            "items": [{"id": item.id, "value": item.value} for item in self.items],
        }


@dataclass(frozen=True)
class Match:
    """One accepted pair, by positions in the gold and the predicted list."""

    gold: int
    predicted: int
    relation: Relation


def gold_items(memories: Sequence[Memory]) -> list[Item]:
    """Show gold memories to a judge as `g1…`, without the marks of rejected ones."""
    items = []
    for number, memory in enumerate(memories, start=1):
        value, quote = shown_value(memory.value), memory.evidence
        evidence = quote.text if quote else None
        items.append(
            Item(f"g{number}", value, memory.type, memory.label, evidence, memory.memory_id)
        )
    return items


def predicted_items(memories: Sequence[Memory]) -> list[Item]:
    """Show predicted memories to a judge as `p1…`, with labels of the taxonomy or `UNMAPPED`."""
    items = []
    for number, memory in enumerate(memories, start=1):
        # Neither its evidence nor a label of its own making is shown: both are free text that
        # nobody checks, and a judge can be told there what the value does not say.
        label = memory.label if memory.label in CANONICAL_LABELS else UNMAPPED
        value = shown_value(memory.value)
        items.append(Item(f"p{number}", value, memory.type, label, None, memory.memory_id))
    return items


def identical_pairs(gold: Sequence[str], predicted: Sequence[str]) -> list[Pair]:
    """Pair values that are the same after folding, each at most once, in their order."""
    waiting: dict[str, list[int]] = {}
    for position, value in enumerate(map(fold_value, predicted)):
        waiting.setdefault(value, []).append(position)
    pairs = []
    for position, value in enumerate(map(fold_value, gold)):
        if twins := waiting.get(value):
            pairs.append(Pair(position, twins.pop(0), "same", "identical values", strength=1.0))
    return pairs


def bundles_named(pairs: Sequence[Pair], gold: Sequence[Memory]) -> list[Pair]:
    """Return `pairs` with `bundle` for predictions that state several gold memories."""
    # A judge that calls a transcript of the dialogue `narrower` than each gold memory thereby says
    # that it states all of them.
    implied: defaultdict[int, list[int]] = defaultdict(list)
    for pair in pairs:
        if pair.relation == "narrower":
            implied[pair.predicted].append(pair.gold)
    bundled = set()
    for column, rows in implied.items():
        if _several_matters([gold[row].value for row in rows]):
            bundled.add(column)
    named = []
    for pair in pairs:
        is_bundle = pair.relation == "narrower" and pair.predicted in bundled
        named.append(replace(pair, relation="bundle") if is_bundle else pair)
    return named


def _several_matters(values: Sequence[str]) -> bool:
    """Tell whether two of `values` share no content word."""
    # Gold memories that share one may be a single matter told twice: implying both is no bundle.
    words = [features(value).content.keys() for value in values]
    return any(one.isdisjoint(other) for one, other in combinations(words, 2))


def items_at(items: Sequence[Item], positions: Iterable[int]) -> list[Item]:
    """Return the items at `positions`, in that order."""
    return [items[position] for position in positions]


def left_over(count: int, taken: Iterable[int]) -> list[int]:
    """Return the positions below `count` that are not in `taken`."""
    return sorted(set(range(count)).difference(taken))


def blocks(
    gold: Sequence[int], predicted: Sequence[int], size: int = BLOCK
) -> list[tuple[list[int], list[int]]]:
    """Cut long lists into calls of at most `size` a side; every pair is in exactly one."""
    calls = []
    for row in range(0, len(gold), size):
        for column in range(0, len(predicted), size):
            calls.append((list(gold[row : row + size]), list(predicted[column : column + size])))
    return calls


def assign(pairs: Sequence[Pair], policy: str) -> list[Match]:
    """Pick the best one-to-one set out of `pairs` under `policy`; memories may stay unmatched.

    The number of matches counts first, then the preference among relations, then the strength the
    judge gave. The assignment is `scipy.optimize.linear_sum_assignment`.
    """
    counted = POLICIES[policy]
    usable = [pair for pair in pairs if pair.relation in counted]
    if not usable:
        return []
    rows: Counter[int] = Counter()
    columns: Counter[int] = Counter()
    for pair in usable:
        rows[pair.gold] += 1
        columns[pair.predicted] += 1
    chosen: list[Pair] = []
    contested: list[Pair] = []
    for pair in usable:
        # A pair whose memories are in no other one belongs to every best set.
        is_free = rows[pair.gold] == columns[pair.predicted] == 1
        (chosen if is_free else contested).append(pair)
    # This outweighs every preference, so that the number of matches counts first.
    one_match = 2.0 * len(usable)
    chosen += _solve(contested, lambda p: one_match + counted[p.relation] + 0.01 * p.strength)
    chosen.sort(key=lambda pair: (pair.gold, pair.predicted))
    return [Match(pair.gold, pair.predicted, pair.relation) for pair in chosen]


def _solve(pairs: Sequence[Pair], weight: Callable[[Pair], float]) -> list[Pair]:
    """Solve the assignment among contested pairs."""
    if not pairs:
        return []
    # Here, as most records have no contested pair and scipy takes a while to import.
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    rows, row_of = np.unique([pair.gold for pair in pairs], return_inverse=True)
    columns, column_of = np.unique([pair.predicted for pair in pairs], return_inverse=True)
    weights = np.zeros((len(rows), len(columns)))
    best: dict[tuple[int, int], Pair] = {}
    for pair, row, column in zip(pairs, row_of.tolist(), column_of.tolist(), strict=True):
        if weight(pair) > weights[row, column]:
            weights[row, column], best[row, column] = weight(pair), pair
    solved, solved_by = linear_sum_assignment(weights, maximize=True)
    places = zip(solved.tolist(), solved_by.tolist(), strict=True)
    return [best[place] for place in places if place in best]


def pairs_as_rows(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return `pairs` as they are written to a file, with the ids a judge saw."""
    rows = []
    for pair in pairs:
        row = {"gold": f"g{pair.gold + 1}", "predicted": f"p{pair.predicted + 1}"}
        judged = {"relation": pair.relation, "reason": pair.reason}
        rows.append({**row, **judged, "strength": round(pair.strength, 4)})
    return rows


def pairs_from_rows(rows: Sequence[dict[str, Any]]) -> list[Pair]:
    """Read back what `pairs_as_rows` wrote."""
    pairs = []
    for row in rows:
        gold, predicted = int(row["gold"][1:]) - 1, int(row["predicted"][1:]) - 1
        pairs.append(Pair(gold, predicted, row["relation"], row["reason"], row["strength"]))
    return pairs
