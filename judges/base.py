"""What a judge is to the tasks, and how a matching question reaches it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from alps.judges.matching import Item, Judgement, Relation, identical_pairs, items, left_over
from alps.schema import Memory


class Judge(Protocol):
    """Says how memories relate.

    Attributes:
        name: What the user called it.
        fingerprint: Everything its verdicts depend on: model, prompt and rubric hashes, decoding, parser version.
        relations: The relations it can tell apart; what needs another one is unscored.
        comparable: Whether its scores may stand beside those of LLM judges.
    """

    name: str
    fingerprint: Mapping[str, Any]
    relations: frozenset[Relation]
    comparable: bool

    async def match(self, gold: Sequence[Item], predicted: Sequence[Item], *, about: str) -> Judgement:
        """Name the relations between `gold` and `predicted`; neither is empty. `about` is for the ledger."""
        ...


def fingerprint_id(fingerprint: Mapping[str, Any]) -> str:
    """Return a short name of a fingerprint: the first 12 hex digits of the sha256 of its canonical JSON."""
    text = json.dumps(fingerprint, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


async def match_memories(gold: Sequence[Memory], predicted: Sequence[Memory], *, judge: Judge, about: str) -> Judgement:
    """Relate two lists of memories: identical values pair without a call, the judge is asked about the rest."""
    gold_items, predicted_items = items(gold, "g"), items(predicted, "p")
    identical = identical_pairs(gold_items, predicted_items)
    rows = left_over(len(gold), (pair.gold for pair in identical))
    columns = left_over(len(predicted), (pair.predicted for pair in identical))
    if not rows or not columns:
        return Judgement("ok", tuple(identical))
    judged = await judge.match([gold_items[g] for g in rows], [predicted_items[p] for p in columns], about=about)
    placed = (replace(pair, gold=rows[pair.gold], predicted=columns[pair.predicted]) for pair in judged.pairs)
    return replace(judged, pairs=(*identical, *placed))
