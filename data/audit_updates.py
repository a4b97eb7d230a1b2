"""Audits update records: can what changed be told without reading what was said?"""

from collections import Counter

from alps.data.audit_cues import ALPHA
from alps.data.audit_findings import Example, Finding, Tally, shorten
from alps.data.audit_rows import dicts_at, gold_memories, text_at
from alps.data.release import Row
from alps.text import fold

FEWEST = 20
"""So many records are needed before a share of them says anything."""
USUAL = 0.9
"""From this share on, a count is the same in nearly every record."""
NEAR = 2
"""A rule may point at so many turns."""
LEAST_SHARE = 0.8
"""Those turns must hold the evidence of this share of the changes."""
LEAST_GAIN = 0.2
"""And that share must be so far above what the same number of turns holds by chance."""


class UpdateAudit:
    """Audits the records of one update track, one at a time.

    | code | severity | what it is |
    |---|---|---|
    | `update-position-cue` | serious | evidence of changes lies at the same few distances from the end |
    | `update-count-cue` | warning | nearly every record has the same number of new and of missing values |
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._distances: Counter[int] = Counter()
        self._user_turns: list[int] = []
        self._changes: Counter[tuple[int, int]] = Counter()
        self._examples: list[Example] = []

    def look(self, name: str, row: Row, gold: Row | None) -> None:
        """Look at one record: how many values changed, and where the evidence of new ones stands."""
        if gold is None:
            return
        old = {fold(text_at(item, "value")) for item in dicts_at(row, "input", "memory")}
        items = gold_memories(gold)
        kept = {fold(text_at(item, "value")) for item in items}
        new = [item for item in items if fold(text_at(item, "value")) not in old]
        self._changes[len(new), len(old - kept)] += 1
        turns = [
            turn for turn in dicts_at(row, "input", "new_dialogue") if turn.get("role") == "user"
        ]
        texts = [fold(text_at(turn, "text")) for turn in turns]
        for item in new:
            quote = fold(text_at(item, "evidence", "text"))
            holding = [place for place, text in enumerate(texts) if quote and quote in text]
            if len(holding) == 1:
                distance = len(texts) - holding[0]
                self._distances[distance] += 1
                self._user_turns.append(len(texts))
                example = Example(name, shorten(f"user turn {distance} from the end: «{quote}»"))
                self._examples.append(example)

    def findings(self) -> list[Finding]:
        """Return what the records have in common that gives their changes away."""
        found = [self._position_cue(), self._count_cue()]
        return [finding for finding in found if finding is not None]

    def _position_cue(self) -> Finding | None:
        """Compare the commonest distances from the end with as many turns drawn by chance.

        One-sided exact binomial test against the mean share that `NEAR` turns have of a dialogue's
        user turns, times the number of pairs of distances that could have been the commonest; p <
        `ALPHA`.
        """
        n = sum(self._distances.values())
        if n < FEWEST:
            return None
        commonest = sorted(distance for distance, _ in self._distances.most_common(NEAR))
        hits = sum(self._distances[distance] for distance in commonest)
        chance = sum(min(1.0, NEAR / turns) for turns in self._user_turns) / n
        if hits / n < LEAST_SHARE or hits / n - chance < LEAST_GAIN:
            return None
        from scipy.stats import binom

        longest = max(self._user_turns)
        p = min(1.0, longest * (longest - 1) / 2 * float(binom.sf(hits - 1, n, chance)))
        if p >= ALPHA:
            return None
        turns = " or ".join(str(distance) for distance in commonest)
        detail = (
            f"the evidence of a new memory lies in user turn {turns} from the end of the new dialogue "
            f"(by chance {chance:.0%}, p = {p:.1g})"
        )
        examples = tuple(self._examples[:3])
        return Finding(
            "update-position-cue",
            "serious",
            self._tally.track,
            hits,
            n,
            "changes",
            detail,
            examples,
        )

    def _count_cue(self) -> Finding | None:
        n = sum(self._changes.values())
        if n < FEWEST:
            return None
        (new, gone), hits = self._changes.most_common(1)[0]
        if hits / n < USUAL:
            return None
        detail = f"{_memories(new)} new and {_memories(gone)} gone: a system can know how many to look for"
        return Finding(
            "update-count-cue", "warning", self._tally.track, hits, n, "rows", detail, ()
        )


def _memories(count: int) -> str:
    return f"{count} {'memory is' if count == 1 else 'memories are'}"
