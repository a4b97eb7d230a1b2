"""Agreement of two people on gold, part by part, with intervals over sessions; matching rules.

Of lists: the F1 of the two sets of items under a matching rule, and over the matched pairs the
agreement on what is said of an item. Where a draft is known that both people started from, the
share of it in their items stands beside, and the agreement on what was not in it: people who leave
a draft as it is agree with it, and not with each other.

A rule says which texts of two people are the same. `publishers` is that of the AlpsBench authors:
values that are the same but for case and white space, then greedily, one to one, those whose
ROUGE-L F1 over words is highest, down to .5. Every other rule is a judge: it relates memories as it
does those of a run, and the best one-to-one set of them is taken.

ROUGE-L: Lin, ROUGE, ACL workshop on text summarization (2004) 74.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from alps.errors import UsageError
from alps.event_loop import stopping_together
from alps.ext.people.agreement_rows import (
    AGREED,
    AgreementFigure,
    DraftRow,
    GoldAgreement,
    PairCounts,
    PartRow,
)
from alps.ext.people.annotations import (
    SAID,
    TITLES,
    AnnotatedMemory,
    AnnotatedQuery,
    AnnotatedSession,
    Sessions,
    TwoPeople,
)
from alps.judges.base import Judge, fingerprint_id
from alps.judges.matching import RUBRICS, assign, match_memories
from alps.schema import Outcome
from alps.stats.bootstrap import (
    Estimate,
    Floats,
    cluster_index,
    clustered_mean,
    clustered_ratio,
    name_estimates,
    ratio,
    resampled_figure,
)

PUBLISHERS = "publishers"
LEAST = 0.5
"""ROUGE-L F1 from which the publishers' rule takes two values for one."""
_WORD = re.compile(r"\w+")

Pairs = list[tuple[int, int]]
"""Positions in both lists."""

FIELDS = ("type", "label", "time_scope")
"""What is compared of matched memories, beside their confidence."""
UNSAID = "(none)"
"""The label of an item without one: it agrees with others of those alone."""
Item = AnnotatedMemory | AnnotatedQuery
Figures = dict[str, AgreementFigure]
Both = Mapping[str, tuple[AnnotatedSession, AnnotatedSession]]
"""What two people say, by session."""


@dataclass(frozen=True)
class Matched:
    """The pairs of two lists; unless `ok`, the rule gave no result."""

    pairs: Pairs
    outcome: Outcome = "ok"


Match = Callable[[Sequence[AnnotatedMemory], Sequence[AnnotatedMemory], str], Awaitable[Matched]]
"""Says which items of two lists are the same, one to one; the last names the session."""


@dataclass(frozen=True)
class SameRule:
    """A rule that matches memories.

    Attributes:
        row: The rule as files have it.
        title: The rule in words.
    """

    row: Mapping[str, Any]
    title: str
    match: Match


def folded(value: str) -> str:
    """Return a value without case and extra white space, as the publishers compare values."""
    return " ".join(value.lower().split())


def by_texts(pairs_of: Callable[[Sequence[str], Sequence[str]], Pairs]) -> Match:
    """Return what matches two lists by their texts alone."""

    async def match(
        first: Sequence[AnnotatedMemory], second: Sequence[AnnotatedMemory], about: str
    ) -> Matched:
        return Matched(pairs_of([item.value for item in first], [item.value for item in second]))

    return match


def publishers_pairs(first: Sequence[str], second: Sequence[str]) -> Pairs:
    """Match two lists of texts by the publishers' rule."""
    pairs = identical(first, second)
    rows, columns = {row for row, _ in pairs}, {column for _, column in pairs}
    words = [[_WORD.findall(value.lower()) for value in side] for side in (first, second)]
    scored = []
    for row, one in enumerate(words[0]):
        for column, other in enumerate(words[1]):
            if row not in rows and column not in columns:
                scored.append((-rouge_l(one, other), row, column))
    for score, row, column in sorted(scored):
        if -score >= LEAST and row not in rows and column not in columns:
            pairs.append((row, column))
            rows.add(row)
            columns.add(column)
    return sorted(pairs)


def identical(first: Sequence[str], second: Sequence[str]) -> Pairs:
    """Match texts that are the same but for case and white space, in their order."""
    waiting: dict[str, list[int]] = {}
    for column, value in enumerate(map(folded, second)):
        waiting.setdefault(value, []).append(column)
    pairs = []
    for row, value in enumerate(map(folded, first)):
        if same := waiting.get(value):
            pairs.append((row, same.pop(0)))
    return pairs


def rouge_l(first: Sequence[str], second: Sequence[str]) -> float:
    """Return the F1 of the longest common subsequence of two lists of words, in [0, 1]."""
    if not first or not second:
        return 0.0
    return 2 * LCSseq.similarity(first, second) / (len(first) + len(second))


def publishers_rule() -> SameRule:
    """Return the matching rule of the publishers (see the module docstring)."""
    row = {"rule": PUBLISHERS, "version": 1, "rouge_l": LEAST}
    title = f"{PUBLISHERS} (same text, or ROUGE-L F1 of at least {LEAST}; best match first)"
    return SameRule(row, title, by_texts(publishers_pairs))


def judge_rule(judge: Judge) -> SameRule:
    """Return the rule of a judge, which is shown the memories of the first person as gold."""

    async def match(
        first: Sequence[AnnotatedMemory], second: Sequence[AnnotatedMemory], about: str
    ) -> Matched:
        gold, predicted = ([item.as_memory() for item in side] for side in (first, second))
        judged = await match_memories(gold, predicted, judge=judge, about=about)
        if judged.outcome != "ok":
            return Matched([], judged.outcome)
        # As a run matches, so that the figure is what one person would score on the gold of the
        # other.
        matches = assign(judged.pairs, "lenient")
        return Matched([(match.gold, match.predicted) for match in matches])

    row = {"rule": judge.name, "judge": fingerprint_id(judge.fingerprint_for(RUBRICS))}
    return SameRule(row, f"{judge.name}, as in a run", match)


@dataclass(frozen=True)
class GoldDraft:
    """The draft that both people started from; none is known where it has no name."""

    name: str | None = None
    sessions: Sessions = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """A kind of items that people leave in a part of a session.

    Attributes:
        name: As files have it.
        items: Those of a session in a part; None where the person left none.
        match: By what they are matched.
    """

    name: str
    items: Callable[[AnnotatedSession, str], Sequence[Item] | None]
    match: Match


def _kinds(rule: SameRule) -> tuple[Kind, ...]:
    queries = by_texts(publishers_pairs)  # judges relate memories, and a query is none
    return (
        Kind("memories", lambda session, part: session.memories.get(part), rule.match),
        Kind("memory", lambda session, part: session.chosen.get(part), by_texts(identical)),
        Kind("queries", lambda session, part: session.queries.get(part), queries),
    )


@dataclass(frozen=True)
class PairedLists:
    """The items of two people on one session, and the pairs of them that match.

    `drafted` holds the folded texts of the session's draft, None where it has none. Unless the
    outcome is ok, the rule said nothing of them.
    """

    session: str
    first: Sequence[Item]
    second: Sequence[Item]
    pairs: Pairs
    drafted: frozenset[str] | None
    outcome: Outcome = "ok"

    @property
    def matched(self) -> list[tuple[Item, Item]]:
        """The items that match."""
        return [(self.first[row], self.second[column]) for row, column in self.pairs]

    @property
    def sides(self) -> tuple[Sequence[Item], Sequence[Item]]:
        """The items of each."""
        return self.first, self.second


async def gold_agreement(
    people: TwoPeople,
    rule: SameRule,
    draft: GoldDraft,
    *,
    done: Callable[[bool], None] = lambda _: None,
) -> GoldAgreement:
    """Measure how far two people agree on the sessions that both annotated.

    `rule` matches memories; `done` is called after each two lists with whether it could be asked.

    Raises:
        UsageError: If no session was annotated by both.
    """
    first, second = people.sessions
    both = {name: (first[name], second[name]) for name in first if name in second}
    if not both:
        names = " and ".join(people.names)
        raise UsageError(f"{names} share no sessions: compare their session_id values")
    parts: dict[str, PartRow] = {}
    unjudged: Counter[str] = Counter()
    for part, title in TITLES.items():
        row = PartRow(title=title)
        for kind in _kinds(rule):
            lists = await _lists(kind, part, both, draft, done)
            # Where the judge failed nobody knows whether people agree: such lists are counted
            # apart.
            heard = [one for one in lists if one.outcome == "ok"]
            unjudged.update(one.outcome for one in lists if one.outcome != "ok")
            if heard:
                _measure(row, kind, heard)
        if row.figures:
            parts[part] = row
    if not parts and not unjudged:
        names = " and ".join(people.names)
        raise UsageError(
            f"{names} have nothing to compare: each line must have memories, memory or queries "
            f"under one of {', '.join(TITLES)}"
        )
    return GoldAgreement(
        annotators=people.names,
        rule=dict(rule.row),
        matching=rule.title,
        sessions=len(both),
        alone=len(first.keys() ^ second.keys()),
        draft=draft.name,
        unjudged=dict(unjudged),
        parts=parts,
    )


async def _lists(
    kind: Kind, part: str, both: Both, draft: GoldDraft, done: Callable[[bool], None]
) -> list[PairedLists]:
    """Match what two people left of a kind in a part, where both left any."""
    left: list[PairedLists] = []
    for name, (one, other) in both.items():
        first, second = kind.items(one, part), kind.items(other, part)
        if first is not None and second is not None:
            drafted = _drafted(kind, part, draft.sessions.get(name))
            left.append(PairedLists(name, first, second, [], drafted))

    async def match(one: PairedLists) -> Matched:
        first, second = ([_as_memory(item) for item in side] for side in one.sides)
        matched = await kind.match(first, second, one.session)
        done(matched.outcome == "ok")
        return matched

    async with stopping_together(match(one) for one in left) as asked:
        matches = await asyncio.gather(*asked)
    lists = []
    for unmatched, matched in zip(left, matches, strict=True):
        lists.append(replace(unmatched, pairs=matched.pairs, outcome=matched.outcome))
    return lists


def _drafted(kind: Kind, part: str, session: AnnotatedSession | None) -> frozenset[str] | None:
    items = None if session is None else kind.items(session, part)
    return None if items is None else frozenset(folded(text_of(item)) for item in items)


def text_of(item: Item) -> str:
    """Return what an item says."""
    return item.value if isinstance(item, AnnotatedMemory) else item.queryText


def _as_memory(item: Item) -> AnnotatedMemory:
    """Return an item as rules take it."""
    return item if isinstance(item, AnnotatedMemory) else AnnotatedMemory(value=text_of(item))


def _measure(row: PartRow, kind: Kind, lists: Sequence[PairedLists]) -> None:
    """Add the figures of one kind of items to those of its part."""
    row.counts[kind.name] = PairCounts(
        sessions=len(lists),
        items=(sum(len(one.first) for one in lists), sum(len(one.second) for one in lists)),
        pairs=sum(len(one.pairs) for one in lists),
    )
    # The F1 of both sets of items: the mean over sessions, and of all items.
    row.figures[AGREED[kind.name]] = _f1(lists)
    if kind.name != "memory":  # of lists of one both are the same
        row.figures[f"{AGREED[kind.name]}_micro"] = _f1_micro(lists)
    if kind.name == "memories":
        row.figures["identical"] = _f1(_identical(lists))
        row.figures.update(_label_figures(lists, FIELDS))
        row.figures.update(_confidence(lists))
    if kind.name == "queries":
        row.figures.update(_label_figures(lists, tuple(SAID)))
    # Of the published annotations 82 % and 79 % of each person's items are the draft's own words.
    # Of all other items in task 1 the F1 is .09, next to .76 of all.
    drafted = [one for one in lists if one.drafted is not None]
    if drafted:
        shares = (_verbatim(drafted, 0), _verbatim(drafted, 1))
        row.drafts[kind.name] = DraftRow(verbatim=shares, without=_without(kind.name, drafted))


def _f1(lists: Sequence[PairedLists]) -> AgreementFigure:
    values = []
    for one in lists:
        items = len(one.first) + len(one.second)
        # Two people who both leave nothing agree.
        values.append(2 * len(one.pairs) / items if items else 1.0)
    mean = clustered_mean(np.array(values), [one.session for one in lists])
    return AgreementFigure.of(mean, "sessions")


def _f1_micro(lists: Sequence[PairedLists]) -> AgreementFigure:
    matched = np.array([2.0 * len(one.pairs) for one in lists])
    items = np.array([float(len(one.first) + len(one.second)) for one in lists])
    ratio = clustered_ratio(matched, items, [one.session for one in lists])
    return AgreementFigure.of(ratio, "sessions")


def _identical(lists: Sequence[PairedLists]) -> list[PairedLists]:
    """Return lists whose pairs are the items with the same text alone."""
    matched = []
    for one in lists:
        first, second = (list(map(text_of, side)) for side in one.sides)
        matched.append(replace(one, pairs=identical(first, second)))
    return matched


def _label_figures(lists: Sequence[PairedLists], fields: Sequence[str]) -> Figures:
    """Return kappa and alpha of what is said of matched items; nothing where nobody says it."""
    figures: Figures = {}
    for name in fields:
        first: list[str] = []
        second: list[str] = []
        sessions: list[str] = []
        for one in lists:
            for item, other in one.matched:
                first.append(getattr(item, name) or UNSAID)
                second.append(getattr(other, name) or UNSAID)
                sessions.append(one.session)
        if {*first, *second} <= {UNSAID}:
            continue
        estimates = name_estimates(first, second, sessions)
        for figure in ("agreement", "kappa", "alpha"):
            figures[f"{figure}_{name}"] = AgreementFigure.of(estimates[figure], "pairs")
    return figures


def _confidence(lists: Sequence[PairedLists]) -> Figures:
    """Return how far the confidences of matched memories agree, where both have one."""
    first: list[float] = []
    second: list[float] = []
    sessions: list[str] = []
    for one in lists:
        for item, other in one.matched:
            sure, sure_too = (getattr(side, "confidence", None) for side in (item, other))
            if sure is not None and sure_too is not None:
                first.append(sure)
                second.append(sure_too)
                sessions.append(one.session)
    if not sessions:
        return {}
    apart = np.abs(np.array(first) - np.array(second))
    estimates = {
        "spearman_confidence": rank_correlation(first, second, sessions),
        "mae_confidence": clustered_mean(apart, sessions),
    }
    return {name: AgreementFigure.of(one, "pairs") for name, one in estimates.items()}


def _verbatim(lists: Sequence[PairedLists], side: int) -> AgreementFigure:
    """Return the share of one person's items that are the draft's, word for word."""
    kept = []
    for one in lists:
        items = one.sides[side]
        kept.append(sum(folded(text_of(item)) in (one.drafted or ()) for item in items))
    total = np.array([float(len(one.sides[side])) for one in lists])
    share = clustered_ratio(np.array(kept, dtype=np.float64), total, [one.session for one in lists])
    return AgreementFigure.of(share, "sessions")


def _without(kind: str, lists: Sequence[PairedLists]) -> Figures:
    """Return the F1 of what is not in the draft: of all such items, and where both have some."""
    left = []
    for one in lists:
        first, second = (_not_drafted(side, one.drafted or frozenset()) for side in one.sides)
        if first or second:
            pairs = [pair for pair in one.pairs if pair[0] in first and pair[1] in second]
            own = [one.first[place] for place in first], [one.second[place] for place in second]
            left.append(replace(one, first=own[0], second=own[1], pairs=pairs))
    if not left:
        return {}
    figures = {f"{AGREED[kind]}_micro": _f1_micro(left)}
    # Where one person alone added something the F1 is 0 whatever it says.
    several = [one for one in left if one.first and one.second]
    return {**figures, AGREED[kind]: _f1(several)} if several else figures


def _not_drafted(items: Sequence[Item], drafted: frozenset[str]) -> list[int]:
    return [place for place, item in enumerate(items) if folded(text_of(item)) not in drafted]


# How many weights of items in resamples are looked at at once: 16 MB of them.
_BLOCK = 2_000_000


def rank_correlation(
    first: Sequence[float], second: Sequence[float], clusters: Sequence[Hashable]
) -> Estimate:
    """Estimate Spearman's correlation of two raters' numbers, by their middle ranks.

    It has no value where either gives one number throughout.

    Raises:
        ValueError: If lengths differ.
    """
    if not len(first) == len(second) == len(clusters):
        raise ValueError(f"lengths differ: {len(first)}, {len(second)}, {len(clusters)}")
    index = cluster_index(clusters)
    sides = [np.asarray(side, dtype=np.float64) for side in (first, second)]
    figure = partial(_spearman, sides=[_Ranked(side) for side in sides], index=index)
    return resampled_figure(figure, clusters)


class _Ranked:
    """Numbers in their order, of which resamples take middle ranks."""

    def __init__(self, numbers: Floats) -> None:
        self._order = np.argsort(numbers, kind="stable")
        ordered = numbers[self._order]
        # NaN differs from everything, so the first number starts a group of equal ones.
        starts = np.flatnonzero(np.diff(ordered, prepend=np.nan) != 0)
        ends = np.append(starts[1:], len(ordered)) - 1
        group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(ordered))))
        self._first = np.empty(len(numbers), dtype=np.int64)
        self._last = np.empty(len(numbers), dtype=np.int64)
        self._first[self._order], self._last[self._order] = starts[group], ends[group]

    def ranks(self, weights: Floats) -> Floats:
        """Return the middle rank of each number where each counts by its weight; (…, numbers)."""
        # A resample repeats items. Cumulated weights give the ranks of the repeated list without
        # sorting it again.
        upto = np.cumsum(weights[..., self._order], axis=-1)
        below = np.concatenate([np.zeros((*upto.shape[:-1], 1)), upto[..., :-1]], axis=-1)
        return np.asarray((upto[..., self._last] + below[..., self._first]) / 2)


def _spearman(times: Floats, sides: Sequence[_Ranked], index: NDArray[np.int64]) -> Floats:
    """Correlate the ranks of items whose clusters are taken `times` often; shape (…)."""
    flat = times.reshape(-1, times.shape[-1])
    rows = max(1, _BLOCK // max(1, len(index)))
    parts = []
    for start in range(0, len(flat), rows):
        weights = flat[start : start + rows][:, index]
        # The mean of middle ranks.
        half = weights.sum(axis=-1, keepdims=True) / 2
        one, other = (side.ranks(weights) - half for side in sides)
        together = (weights * one * other).sum(axis=-1)
        spread = (weights * one**2).sum(axis=-1) * (weights * other**2).sum(axis=-1)
        parts.append(ratio(together, np.sqrt(spread)))
    return np.concatenate(parts).reshape(times.shape[:-1])
