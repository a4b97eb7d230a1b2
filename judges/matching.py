"""One-to-one matching of predicted memories to gold memories, by meaning.

A judge names the relation of pairs of memories. Identical values pair without asking it. Out of the
named relations the best one-to-one set is picked; which relations count as a match is a policy,
declared and reported.

A memory says one thing, once. A prediction that states several facts is a `bundle`, and matches
nothing. A value that is longer than any memory is an invalid item: it counts as a prediction and
matches nothing. A near copy of another prediction is that prediction again: both count as one.

A prediction that is `narrower` than a gold memory adds detail to it. Whether the user bore that
detail out is asked in a second question, against the dialogue: detail that was made up does not
match. Whether the dialogue supports a memory also tells a hallucination from a memory that the
annotators missed.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

from alps.judges.base import (
    POLICIES,
    SUPPORTS,
    Dialogue,
    Item,
    Judge,
    Judgement,
    MatchQuestion,
    Pair,
    Relation,
    SupportQuestion,
    fingerprint_id,
)
from alps.judges.rubric import MATCHING, SUPPORT, rubric
from alps.schema import CANONICAL_LABELS, LONGEST_VALUE, UNMAPPED, Memory
from alps.similarity import features, numbers_of, similar_pairs
from alps.text import fold, fold_value, length_in_letters, shown_value

# The most memories a side in one call to a judge.
BLOCK = 30
# Lexical similarity from which two predictions are one. Among the same 14,879 values 194 pairs
# within an answer reach it, 190 of them word for word; from .9 down, pairs begin to differ in a
# name or a term.
NEAR_COPY = 0.95
# Predictions that an answer may have beyond the number of gold memories; the longest of 4,662 real
# lists has 31.
MOST_EXTRA = 300


@dataclass(frozen=True)
class Match:
    """One accepted pair, by positions in the gold and the predicted list."""

    gold: int
    predicted: int
    relation: Relation


@dataclass(frozen=True)
class Screening:
    """Predicted memories that are set aside before a judge sees them, by their positions.

    Attributes:
        identical: Pairs of a gold and a predicted memory with the same value.
        too_long: Invalid items: they count as predictions, and match nothing.
        too_many: Those at the end of an endless list, invalid as well.
        copies: Near copies, and the prediction that each repeats; they do not count.
        gold: The gold memories that are left to be asked about.
        asked: The predictions that are left to be asked about.
    """

    identical: tuple[Pair, ...]
    too_long: tuple[int, ...]
    too_many: tuple[int, ...]
    copies: Mapping[int, int]
    gold: tuple[int, ...]
    asked: tuple[int, ...]

    def counted(self, predictions: int) -> int:
        """Return how many of so many predictions count."""
        return predictions - len(self.copies)


def screen(gold: Sequence[Memory], predicted: Sequence[Memory]) -> Screening:
    """Pair identical values, and set aside what is no memory or stands in the list twice."""
    if not predicted:
        return Screening((), (), (), {}, tuple(range(len(gold))), ())
    right = tuple(shown_value(memory.value) for memory in gold)
    return _screen(right, tuple(shown_value(memory.value) for memory in predicted))


@lru_cache(maxsize=64)
def _screen(gold: tuple[str, ...], predicted: tuple[str, ...]) -> Screening:
    # Kept for a while, as the same two lists are judged, checked and scored.
    most = len(gold) + MOST_EXTRA
    too_long = tuple(
        n for n, value in enumerate(predicted[:most]) if length_in_letters(value) > LONGEST_VALUE
    )
    too_many = tuple(range(most, len(predicted)))
    positions = left_over(min(most, len(predicted)), too_long)
    values = [predicted[position] for position in positions]
    identical, matched, rows_found = [], set(), set()
    for pair in identical_pairs(gold, values):
        identical.append(replace(pair, predicted=positions[pair.predicted]))
        matched.add(positions[pair.predicted])
        rows_found.add(pair.gold)
    # What is identical to a gold memory is no copy: gold may hold two that are nearly alike.
    copies = _near_copies(predicted, positions, matched)
    rows = left_over(len(gold), rows_found)
    asked = tuple(n for n in positions if n not in matched and n not in copies)
    return Screening(tuple(identical), too_long, too_many, copies, tuple(rows), asked)


def _near_copies(
    predicted: Sequence[str], positions: Sequence[int], matched: set[int]
) -> dict[int, int]:
    """Return the predictions that nearly repeat an earlier or a matched one, and which."""
    order = sorted(positions, key=lambda position: (position not in matched, position))
    near = _near(tuple(predicted[position] for position in order))
    copies: dict[int, int] = {}
    for copy, originals in sorted(near.items()):
        kept = [order[original] for original in originals if order[original] not in copies]
        if kept and order[copy] not in matched:
            copies[order[copy]] = kept[0]
    return copies


# A trivial baseline answers the same to every record.
@lru_cache(maxsize=256)
def _near(values: tuple[str, ...]) -> dict[int, list[int]]:
    """Return the values that nearly repeat an earlier one, by position, and which they repeat."""
    near: dict[int, list[int]] = {}
    if len(values) > 1:
        for original, copy, _ in similar_pairs(values, values, NEAR_COPY, later=True):
            near.setdefault(copy, []).append(original)
    return near


RUBRICS = (rubric(MATCHING), rubric(SUPPORT))

_WORD = re.compile(r"[^\W_]+")


def question_about(
    gold: Sequence[Memory], predicted: Sequence[Memory], screening: Screening
) -> MatchQuestion:
    """Return what is left to ask about two lists; a judge is asked where neither is empty."""
    asked = items_at(gold_items(gold), screening.gold)
    return MatchQuestion(asked, items_at(predicted_items(predicted), screening.asked))


async def match_memories(
    gold: Sequence[Memory], predicted: Sequence[Memory], *, judge: Judge, about: str
) -> Judgement:
    """Relate two lists of memories; a judge is asked about values that are not identical."""
    screening = screen(gold, predicted)
    identical = screening.identical
    if not screening.gold or not screening.asked:
        return Judgement("ok", identical)
    judged = await judge.answer(question_about(gold, predicted, screening), about=about)
    if not judged.pairs and not identical:
        return judged
    pairs = list(identical)
    for pair in judged.pairs:
        row, column = screening.gold[pair.gold], screening.asked[pair.predicted]
        pairs.append(replace(pair, gold=row, predicted=column))
    return replace(judged, pairs=tuple(pairs))


@dataclass(frozen=True)
class Relations:
    """What a verdict comes to.

    Attributes:
        pairs: The relations that count: `narrower` only where nothing speaks against it.
        unsupported: Pairs named `narrower` whose added detail the dialogue does not bear out.
        screening: What was set aside before the judge was asked.
        support: What the dialogue says of predictions, by their positions.
        extras_checked: Whether that was asked of the predictions that match nothing, too.
        unchecked: Whether it was to be asked, and the judge failed.
    """

    pairs: tuple[Pair, ...]
    unsupported: tuple[Pair, ...]
    screening: Screening
    support: Mapping[int, str]
    extras_checked: bool = False
    unchecked: bool = False

    @property
    def bundles(self) -> list[int]:
        """The positions of the predictions that state several facts."""
        return sorted({pair.predicted for pair in self.pairs if pair.relation == "bundle"})

    @property
    def undetailed(self) -> list[int]:
        """The positions of the predictions whose added detail the dialogue does not bear out."""
        return sorted({pair.predicted for pair in self.unsupported})

    def support_counts(self, extras: Sequence[int]) -> dict[str, float]:
        """Count what the dialogue says of the predictions at `extras`, which match nothing."""
        if self.unchecked:
            return {"unchecked": 1}
        if not self.extras_checked:
            return {}
        counts = Counter(map(self.support.get, extras))
        of_each: dict[str, float] = {name: counts[name] for name in SUPPORTS}
        return {**of_each, "extras": sum(of_each.values())}


async def relate(
    gold: Sequence[Memory],
    predicted: Sequence[Memory],
    dialogue: Dialogue,
    *,
    judge: Judge,
    about: str,
    extras: bool = False,
) -> dict[str, Any]:
    """Return the verdict row: the relations, and what the dialogue says of added detail.

    With `extras`, the predictions that are the same as no gold memory are checked against the
    dialogue, too. A judge that does not read dialogues is not asked; a check that fails fails the
    verdict if a match hangs on it.
    """
    reads_dialogues = SupportQuestion in judge.answers
    judged = await match_memories(gold, predicted, judge=judge, about=about)
    if reads_dialogues:
        judged = replace(judged, pairs=_with_detail_named(judged.pairs, gold, predicted, dialogue))
    verdict = _row(judged, judge)
    if not reads_dialogues or judged.outcome != "ok":
        return verdict
    pairs = bundles_named(judged.pairs, gold)
    detailed = {pair.predicted for pair in pairs if pair.relation == "narrower"}
    others = _not_the_same(screen(gold, predicted), judged.pairs) if extras else set()
    checked = sorted(detailed | others)
    support: dict[str, Any] = {"outcome": "ok", "items": [], "error": None, "raw": None}
    if checked:
        question = SupportQuestion(dialogue, items_at(predicted_items(predicted), checked))
        support = (await judge.answer(question, about=about)).row()
    verdict["support"] = {**support, "extras": extras}
    if detailed and support["outcome"] != "ok":
        verdict |= {"outcome": support["outcome"], "error": support["error"]}
    return verdict


def _row(judged: Judgement, judge: Judge) -> dict[str, Any]:
    """Return a matching verdict as it is written to a file."""
    row: dict[str, Any] = {
        "outcome": judged.outcome,
        "judge": fingerprint_id(judge.fingerprint_for(RUBRICS)),
        "pairs": pairs_as_rows(judged.pairs),
        "notes": list(judged.notes),
        "error": judged.error,
        "raw": list(judged.raw),
    }
    return row if judged.agreement is None else {**row, "agreement": judged.agreement}


def in_other_words(memory: Memory) -> Memory:
    """Return what a prediction may say of a gold memory: as long, and not in its words."""
    # In the words of the gold it would pair with it before a judge is asked, and an estimate counts
    # what a judge is asked: so the value stands there backwards.
    return memory.model_copy(update={"value": shown_value(memory.value)[::-1]})


class _KnownText:
    """What is known, of which the numbers and the words are looked up: folded when first needed."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The numbers in it."""
        return numbers_of(self._text)

    @cached_property
    def folded(self) -> str:
        """It as `fold` gives it."""
        return fold(self._text)


def _with_detail_named(
    pairs: Sequence[Pair], gold: Sequence[Memory], predicted: Sequence[Memory], dialogue: Dialogue
) -> tuple[Pair, ...]:
    """Return `pairs` with `narrower` for `same` where a prediction adds a name or a number."""
    # A judge easily takes one word more for the same; a name or number that neither the gold memory
    # nor the user has said is detail, and is checked as such.
    said = _KnownText(" ".join(turn.text for turn in dialogue if turn.role == "user"))
    named = []
    for pair in pairs:
        memory, answer = gold[pair.gold], predicted[pair.predicted]
        quote = memory.evidence.text if memory.evidence else ""
        known = (_KnownText(f"{memory.value} {quote}"), said)
        is_detail = pair.relation == "same" and _adds_name_or_number(answer.value, known)
        named.append(replace(pair, relation="narrower") if is_detail else pair)
    return tuple(named)


def _adds_name_or_number(value: str, known: Sequence[_KnownText]) -> bool:
    """Tell whether `value` has a number, or a capitalised later word, that nothing known has."""
    for number in features(value).numbers:
        if not any(number in said.numbers for said in known):
            return True
    # The first word is a capital in any sentence.
    for word in _WORD.findall(value)[1:]:
        if word[0].isupper() and not any(fold(word) in said.folded for said in known):
            return True
    return False


def _not_the_same(screening: Screening, pairs: Sequence[Pair]) -> set[int]:
    """Return what was asked about and is `same` as no gold memory in the best matching."""
    return set(screening.asked) - {match.predicted for match in assign(pairs, "strict")}


def relations_of(
    verdict: Mapping[str, Any] | None,
    gold: Sequence[Memory],
    predicted: Sequence[Memory],
    judge: Judge,
) -> Relations:
    """Read a verdict row; None means a failed prediction.

    Under a judge that reads dialogues `narrower` counts only where the dialogue supports it.
    """
    screening = screen(gold, predicted)
    if verdict is None:
        return Relations((), (), screening, {})
    support_row = verdict.get("support") or {}
    support = {int(item["id"][1:]) - 1: item["support"] for item in support_row.get("items", ())}
    pairs = bundles_named(pairs_from_rows(verdict["pairs"]), gold)
    usable = set(screening.asked) | {pair.predicted for pair in screening.identical}
    counted: list[Pair] = []
    unsupported: list[Pair] = []
    for pair in pairs:
        is_checked = pair.relation == "narrower" and SupportQuestion in judge.answers
        if is_checked and support.get(pair.predicted) != "supported":
            unsupported.append(pair)
        elif pair.predicted in usable:
            counted.append(pair)
    return Relations(
        tuple(counted),
        tuple(unsupported),
        screening,
        support,
        extras_checked=bool(support_row.get("extras")),
        unchecked=support_row.get("outcome", "ok") != "ok",
    )


def set_aside(predicted: Sequence[Memory], relations: Relations) -> dict[str, Any]:
    """Return, for the row of scores, the predictions that could not match, each with the reason."""
    screening = relations.screening
    rows: list[dict[str, str]] = []

    def add(reason: str, positions: Iterable[int], longest: int | None = None) -> None:
        for n in positions:
            value = predicted[n].value[:longest]
            rows.append({"id": f"p{n + 1}", "reason": reason, "value": value})

    add("too long", screening.too_long, 200)
    add("too many", screening.too_many, 200)
    for copy, original in sorted(screening.copies.items()):
        add(f"repeats p{original + 1}", (copy,))
    add("bundle", relations.bundles)
    add("unsupported detail", relations.undetailed)
    return {"set_aside": rows} if rows else {}


def relation_counts(
    relations: Relations, matches: Sequence[Match], judge: Judge
) -> dict[str, float]:
    """Count matches by relation, if `judge` tells them apart, and what could not match."""
    screening = relations.screening
    several = {
        "bundles": len(relations.bundles),
        "unsupported_detail": len(relations.undetailed),
        "invalid_items": len(screening.too_long) + len(screening.too_many),
        "repeated_items": len(screening.copies),
    }
    counts: dict[str, float] = {name: count for name, count in several.items() if count}
    # A judge that tells only what is the same would count every match under it.
    if "narrower" in judge.relations:
        by_relation = Counter(match.relation for match in matches)
        for name in POLICIES["lenient"]:
            counts[f"matched_{name}"] = by_relation[name]
    return counts


def counted_extras(predicted: int, relations: Relations, matches: Sequence[Match]) -> list[int]:
    """Return the positions of the predictions that count and match nothing."""
    matched = (match.predicted for match in matches)
    return left_over(predicted, [*matched, *relations.screening.copies])


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
