"""One-to-one matching of predicted memories to gold memories, by meaning.

A judge names the relation of pairs of memories. Identical values pair without asking it. Out of the
named relations the best one-to-one set is picked; which relations count as a match is a policy,
declared and reported. A memory says one
thing: a prediction that states several facts is a `bundle`, and matches nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from alps.judges.question import Question
from alps.rejection import shown_value
from alps.schema import CANONICAL_LABELS, UNMAPPED, Memory, Outcome
from alps.similarity import features
from alps.text import fold_value

Relation = Literal["same", "narrower", "bundle", "broader", "conflicting", "related"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)
UNRELATED = "unrelated"
"""What pairs are that a judge does not name."""

POLICIES: dict[str, dict[Relation, float]] = {
    "lenient": {"same": 1.0, "narrower": 0.9},
    "strict": {"same": 1.0},
}
"""Which relations count as a match, and which of them is preferred where a memory could match two
others.
"""

BLOCK = 30
"""The most memories a side in one call to a judge."""


class Item(NamedTuple):
    """A memory as a judge sees it: an id local to the call, and what it says.

    `memory_id` is never shown.
    """

    id: str
    value: str
    type: str | None
    label: str
    evidence: str | None
    memory_id: str = ""

    def payload(self) -> dict[str, str]:
        """Return the item as it stands in the payload of a judge."""
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
    """The relations a judge named.

    Pairs not named are unrelated; unless `ok`, nothing may be concluded.

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
    unanswered: ClassVar[str] = "this judge relates no memories"

    def payload(self) -> dict[str, Any]:
        """Return the question as an LLM is shown it."""
        gold = [item.payload() for item in self.gold]
        return {"kind": "match", "gold": gold, "predicted": [p.payload() for p in self.predicted]}

    def failed(self, outcome: Outcome, error: str | None, raw: tuple[str, ...] = ()) -> Judgement:
        """Return the verdict where there is none."""
        return Judgement(outcome, error=error, raw=raw)


@dataclass(frozen=True)
class Match:
    """One accepted pair, by positions in the gold and the predicted list."""

    gold: int
    predicted: int
    relation: Relation


def gold_items(memories: Sequence[Memory]) -> list[Item]:
    """Show gold memories to a judge.

    Ids `g1…`, and values without the mark of a rejected gold item.
    """
    return [_gold_item(f"g{number}", memory) for number, memory in enumerate(memories, start=1)]


def predicted_items(memories: Sequence[Memory]) -> list[Item]:
    """Show predicted memories to a judge.

    Ids `p1…`, type, value, and a label of the taxonomy or `UNMAPPED`.

    A prediction's evidence is not shown, nor a label of its own making: both are free text that
    nobody checks, and a judge that reads them can be told there what the value does not say.
    """
    return [
        _predicted_item(f"p{number}", memory) for number, memory in enumerate(memories, start=1)
    ]


def _gold_item(name: str, memory: Memory) -> Item:
    evidence = memory.evidence.text if memory.evidence else None
    return Item(
        name, shown_value(memory.value), memory.type, memory.label, evidence, memory.memory_id
    )


def _predicted_item(name: str, memory: Memory) -> Item:
    label = memory.label if memory.label in CANONICAL_LABELS else UNMAPPED
    return Item(name, shown_value(memory.value), memory.type, label, None, memory.memory_id)


def identical_pairs(gold: Sequence[str], predicted: Sequence[str]) -> list[Pair]:
    """Pair values that are the same after folding, each at most once, in their order."""
    folded, sought = (
        [fold_value(value) for value in predicted],
        [fold_value(value) for value in gold],
    )
    if set(folded).isdisjoint(sought):
        return []
    waiting: dict[str, list[int]] = {}
    for position, value in enumerate(folded):
        waiting.setdefault(value, []).append(position)
    pairs = []
    for position, value in enumerate(sought):
        if twins := waiting.get(value):
            pairs.append(Pair(position, twins.pop(0), "same", "identical values", strength=1.0))
    return pairs


def bundles_named(pairs: Sequence[Pair], gold: Sequence[Memory]) -> list[Pair]:
    """Return `pairs` with `bundle` for predictions that state several gold memories.

    It takes the place of `narrower`.

    A judge that calls a transcript of the dialogue `narrower` than each gold memory thereby says
    that it states all of them. Gold memories that share a content word may be one matter told
    twice: implying both is no bundle.
    """
    implied: defaultdict[int, list[int]] = defaultdict(list)
    for pair in pairs:
        if pair.relation == "narrower":
            implied[pair.predicted].append(pair.gold)
    bundled = {
        column
        for column, rows in implied.items()
        if _several_matters([gold[row].value for row in rows])
    }
    return [
        replace(pair, relation="bundle")
        if pair.relation == "narrower" and pair.predicted in bundled
        else pair
        for pair in pairs
    ]


def _several_matters(values: Sequence[str]) -> bool:
    """Tell whether two of `values` share no content word."""
    words = [features(value).content.keys() for value in values]
    return any(one.isdisjoint(other) for one, other in combinations(words, 2))


def left_over(count: int, taken: Iterable[int]) -> list[int]:
    """Return the positions below `count` that are not in `taken`."""
    used = set(taken)
    return [position for position in range(count) if position not in used]


def blocks(
    gold: Sequence[int], predicted: Sequence[int], size: int = BLOCK
) -> list[tuple[list[int], list[int]]]:
    """Cut long lists into calls of at most `size` a side.

    Every pair stands together in exactly one call.
    """
    return [
        (list(gold[row : row + size]), list(predicted[column : column + size]))
        for row in range(0, len(gold), size)
        for column in range(0, len(predicted), size)
    ]


def assign(pairs: Sequence[Pair], policy: str) -> list[Match]:
    """Pick the best one-to-one set out of `pairs` under `policy`.

    Leaving a memory unmatched is always allowed.

    The number of matches counts first, then the preference among relations, then the strength the
    judge gave. The assignment is `scipy.optimize.linear_sum_assignment`.
    """
    counted = POLICIES[policy]
    usable = [pair for pair in pairs if pair.relation in counted]
    if not usable:
        return []
    rows, columns = Counter(p.gold for p in usable), Counter(p.predicted for p in usable)
    free = [p for p in usable if rows[p.gold] == 1 and columns[p.predicted] == 1]
    contested = [p for p in usable if rows[p.gold] > 1 or columns[p.predicted] > 1]
    one_match = 2.0 * len(
        usable
    )  # outweighs every preference, so that the number of matches counts first
    chosen = free + _solve(contested, lambda p: one_match + counted[p.relation] + 0.01 * p.strength)
    return [
        Match(p.gold, p.predicted, p.relation)
        for p in sorted(chosen, key=lambda p: (p.gold, p.predicted))
    ]


def _solve(pairs: Sequence[Pair], weight: Callable[[Pair], float]) -> list[Pair]:
    """Solve the assignment among contested pairs; the uncontested ones are in every best set."""
    if not pairs:
        return []
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    rows = {gold: n for n, gold in enumerate(sorted({p.gold for p in pairs}))}
    columns = {predicted: n for n, predicted in enumerate(sorted({p.predicted for p in pairs}))}
    weights = np.zeros((len(rows), len(columns)))
    at: dict[tuple[int, int], Pair] = {}
    for pair in pairs:
        place = rows[pair.gold], columns[pair.predicted]
        if weight(pair) > weights[place]:
            weights[place], at[place] = weight(pair), pair
    chosen = zip(*linear_sum_assignment(weights, maximize=True), strict=True)
    return [at[place] for row, column in chosen if (place := (int(row), int(column))) in at]


def pairs_as_rows(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return `pairs` as they are written to a file, with the ids a judge saw."""
    return [
        {
            "gold": f"g{p.gold + 1}",
            "predicted": f"p{p.predicted + 1}",
            "relation": p.relation,
            "reason": p.reason,
            "strength": round(p.strength, 4),
        }
        for p in pairs
    ]


def pairs_from_rows(rows: Sequence[dict[str, Any]]) -> list[Pair]:
    """Read back what `pairs_as_rows` wrote."""
    return [
        Pair(
            int(r["gold"][1:]) - 1,
            int(r["predicted"][1:]) - 1,
            r["relation"],
            r["reason"],
            r["strength"],
        )
        for r in rows
    ]
