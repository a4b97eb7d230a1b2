"""The audit of pools: what of ids, places, lengths and neighbours gives their gold away."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from alps.data.audit_findings import (
    ALPHA,
    MOST_EXAMPLES,
    DataFinding,
    FoundPlace,
    Severity,
    Tally,
    above_chance,
    chance_of,
    shorten,
)
from alps.data.pools import BANK
from alps.data.release import Row, read_rows
from alps.ext.datasets.audit_records import MISALIGNED, at, dicts_at, folded_values, text_at
from alps.similarity import BOILERPLATE_WEIGHT, THRESHOLD, features, similarity
from alps.text import fold, fold_loosely, shown_value

Key = tuple[tuple[int, int, str], ...]


@lru_cache(maxsize=8192)
def natural(identifier: str) -> Key:
    """Return a key that sorts ids as people count: m2 before m10."""
    return tuple(_part(part) for part in re.split(r"(\d+)", identifier) if part)


def _part(part: str) -> tuple[int, int, str]:
    if not part.isdecimal():
        return 0, 0, part
    # Digits may be of any script, and too many for one number.
    digits = "".join(str(int(digit)) for digit in part).lstrip("0")
    return 1, len(digits), digits


def _own_form(ids: Sequence[str], once: Sequence[str], session: str) -> str | None:
    forms: dict[str, list[str]] = {}
    for identifier in ids:
        forms.setdefault(re.sub(r"\d+", "0", identifier), []).append(identifier)
    alone = [of_form[0] for of_form in forms.values() if len(of_form) == 1]
    return alone[0] if len(alone) == 1 and len(forms) > 1 else None


def _own_session(ids: Sequence[str], once: Sequence[str], session: str) -> str | None:
    named = [identifier for identifier in ids if session and session in identifier]
    return named[0] if len(named) == 1 else None


# Where every id occurs once, the first and the last of these are places, no matter of ids.
# Rules that pick a candidate by ids alone; of two that do equally well the first is reported.
ID_RULES: dict[str, Callable[[Sequence[str], Sequence[str], str], str | None]] = {
    "the lowest id that occurs once": lambda _, once, __: min(once, key=natural, default=None),
    "the highest id that occurs once": lambda _, once, __: max(once, key=natural, default=None),
    "the only id that occurs once": lambda _, once, __: once[0] if len(once) == 1 else None,
    "the first id that occurs once": lambda ids, once, _: (
        once[0] if 0 < len(once) < len(ids) else None
    ),
    "the last id that occurs once": lambda ids, once, _: (
        once[-1] if 0 < len(once) < len(ids) else None
    ),
    "the lowest id": lambda ids, _, __: min(set(ids), key=natural),
    "the highest id": lambda ids, _, __: max(set(ids), key=natural),
    "the only id of its form": _own_form,
    "the only id that contains the session id": _own_session,
}
SAME_ID = "always the same id"


def picks(ids: Sequence[str], session: str) -> dict[str, int]:
    """Return the place that each rule picks, for the rules that pick one."""
    counts = Counter(ids)
    once = [identifier for identifier in ids if counts[identifier] == 1]
    places = {}
    for name, rule in ID_RULES.items():
        chosen = rule(ids, once, session) if ids else None
        if chosen is not None and counts[chosen] == 1:
            places[name] = ids.index(chosen)
    return places


_PLACES = ("the first candidate", "the last candidate")
_LENGTHS = ("the longest value", "the shortest value")
_OVER_BANK = "queries over a bank"
_MOST_NEIGHBOURS = 3
# The Kolmogorov-Smirnov distance from uniform that counts.
LEAST_DISTANCE = 0.2
# The shift of the mean rank of the gold, from the middle (.5), that counts.
LEAST_SHIFT = 0.15


@dataclass(frozen=True)
class Pool:
    """One pool: the folded values of its candidates, and the place of the gold among them."""

    name: str
    session: str
    gold: Row
    gold_value: str
    candidates: Sequence[Row]
    folded: Sequence[str]
    place: int


class PoolAudit:
    """Audits the pools of one track, one at a time.

    `known` maps a session to the folded values that other tracks say its user has. Rows without
    candidates have their pools built by the program, with ids and places of its own, from
    `bank.jsonl` beside them and the memories of the other tracks. What the bank offers to each
    query is then looked at in place of a pool; that it holds equal values, or some like the gold,
    is only a note, as the builder leaves them out.
    """

    def __init__(self, folder: Path, tally: Tally, known: Mapping[str, Set[str]]) -> None:
        self._tally, self._known = tally, known
        self._bank = _read_bank(folder)
        self._sizes: list[int] = []
        self._hits: Counter[str] = Counter()
        self._hit_examples: dict[str, list[FoundPlace]] = {}
        self._gold_ids: Counter[str] = Counter()
        self._fixed_places: Counter[int] = Counter()
        self._places: list[float] = []
        self._value_sizes: list[int] = []
        self._ranks: list[float] = []

    def look(self, name: str, row: Row, gold: Row | None) -> None:
        """Look at the pool of one row."""
        candidates = dicts_at(row, "input", "candidate_memories")
        if not candidates:
            if self._bank is None and not self._known:
                what = f"neither candidates nor {BANK} nor memories of other tasks"
                self._tally.find("empty-row", "serious", "no candidates", name, what)
            elif self._bank is not None and gold is not None:
                self._look_at_bank(name, row, gold)
            return
        self._tally.look("pools")
        folded = folded_values(candidates)
        pool = self._find_gold(name, row, gold, candidates, folded)
        self._duplicates(name, candidates, folded, pool.gold_value if pool else None)
        if pool is None:
            return
        self._cues(pool)
        self._lengths(name, len(pool.gold_value), [len(value) for value in folded])
        self._neighbours(pool)
        self._same_user(pool)

    def _find_gold(
        self,
        name: str,
        row: Row,
        gold: Row | None,
        candidates: Sequence[Row],
        folded: Sequence[str],
    ) -> Pool | None:
        selected = at(gold, "gold", "selected_memory")
        chosen = text_at(gold, "gold", "selected_memory_id") or text_at(selected, "memory_id")
        value = fold(text_at(selected, "value"))
        if not chosen:
            return None
        named = [place for place, item in enumerate(candidates) if candidate_id(item) == chosen]
        right = [place for place in named if not value or folded[place] == value]
        if not right:
            other = " (the id is there, with another value)" if named else ""
            detail, what = "the gold is not in its pool", f"{chosen}: “{value}”{other}"
            self._tally.find(MISALIGNED, "serious", detail, name, what)
            return None
        place = right[0]
        memory = {**candidates[place], **(selected if isinstance(selected, dict) else {})}
        return Pool(
            name, text_at(row, "session_id"), memory, folded[place], candidates, folded, place
        )

    def _duplicates(
        self, name: str, candidates: Sequence[Row], folded: Sequence[str], gold: str | None
    ) -> None:
        """Count pools in which values are equal after folding."""
        # Serious where the gold has a twin, else a warning.
        again = {value: count - 1 for value, count in Counter(folded).items() if count > 1}
        if not again:
            return
        twin = gold is not None and gold in again
        severity: Severity = "serious" if twin else "warning"
        detail = "the gold's value appears twice" if twin else "distractors have equal values"
        value = gold if twin and gold else max(again, key=lambda value: again[value])
        spare = f"{sum(again.values())} of {len(candidates)} candidates are duplicates"
        what = f"{spare}; {again[value] + 1} times “{value}”"
        self._tally.find("duplicate-candidate", severity, detail, name, what, unit="pools")

    def _cues(self, pool: Pool) -> None:
        """Note which rules that read nothing but ids or places find the gold of this pool."""
        ids = [candidate_id(candidate) for candidate in pool.candidates]
        size = len(ids)
        self._sizes.append(size)
        for rule, place in picks(ids, pool.session).items():
            if place == pool.place:
                self._hit(rule, pool.name, f"{ids[place]} is the gold")
        if ids.count(ids[pool.place]) == 1:
            self._gold_ids[ids[pool.place]] += 1
        self._places.append((pool.place + 0.5) / size)
        self._fixed_places[pool.place] += 1
        for rule, place in zip(_PLACES, (0, size - 1), strict=True):
            if place == pool.place:
                self._hit(rule, pool.name, f"place {place + 1} of {size}")

    def _lengths(self, name: str, gold: int, lengths: Sequence[int]) -> None:
        """Note where the length of the gold stands among those of its pool, its own among them."""
        if len(lengths) < 2:
            return
        shorter, equal = sum(n < gold for n in lengths), lengths.count(gold) - 1
        self._value_sizes.append(len(lengths))
        self._ranks.append((shorter + equal / 2) / (len(lengths) - 1))
        if equal == 0 and shorter in (0, len(lengths) - 1):
            self._hit(_LENGTHS[0] if shorter else _LENGTHS[1], name, f"{gold} characters")

    def _neighbours(self, pool: Pool) -> None:
        """Count pools in which a distractor says nearly what the gold says: a warning."""
        # Nearly is a lexical similarity of `THRESHOLD` or more; values equal after folding are
        # `duplicate-candidate`.
        others = [
            text_at(candidate, "value")
            for candidate, folded in zip(pool.candidates, pool.folded, strict=True)
            if folded != pool.gold_value
        ]
        if close := near(text_at(pool.gold, "value"), others):
            detail = f"a distractor's similarity to the gold is {THRESHOLD:g} or more"
            code = "near-duplicate-of-gold"
            self._tally.find(code, "warning", detail, pool.name, close, unit="pools")

    def _same_user(self, pool: Pool) -> None:
        """Count pools with a distractor of the gold's own user."""
        # Serious where session or user ids on candidates say so; a warning where another track's
        # gold says that the user has a memory of that very value, which two users may share.
        owners = _owners(pool.gold) | ({pool.session} - {""})
        known = self._known.get(pool.session, frozenset())
        for place, candidate in enumerate(pool.candidates):
            if place == pool.place or pool.folded[place] == pool.gold_value:
                continue
            severity: Severity
            if _owners(candidate) & owners:
                severity, detail = "serious", "a distractor has the gold's session or user"
            elif pool.folded[place] in known:
                severity = "warning"
                detail = "a distractor's value is a gold value of the same session"
            else:
                continue
            code = "same-session-distractor"
            what = f"{candidate_id(candidate)}: “{text_at(candidate, 'value')}”"
            self._tally.find(code, severity, detail, pool.name, what, unit="pools")
            return

    def _look_at_bank(self, name: str, row: Row, gold: Row) -> None:
        """Look at what the bank offers a query."""
        # The memories of other users, without those equal to the gold.
        selected = at(gold, "gold", "selected_memory") or {}
        value = text_at(selected, "value")
        length = len(fold(value))
        self._tally.look(_OVER_BANK)
        own = {text_at(row, "session_id")} - {""} | _owners(selected)
        offered = [(item, folded) for item, folded in self._bank or () if not _owners(item) & own]
        others = [text_at(item, "value") for item, folded in offered if folded != fold(value)]
        self._lengths(name, length, [length, *(len(folded) for _, folded in offered)])
        if close := near(value, others):
            detail = f"{BANK} has a similar memory of another user, outside the gold's pool"
            self._tally.find("near-duplicate-of-gold", "note", detail, name, close, unit=_OVER_BANK)

    def _hit(self, rule: str, name: str, what: str) -> None:
        self._hits[rule] += 1
        kept = self._hit_examples.setdefault(rule, [])
        if len(kept) < MOST_EXAMPLES:
            kept.append(FoundPlace(name, shorten(f"{rule}: {what}")))

    @property
    def _unit(self) -> str:
        return "pools" if self._sizes else _OVER_BANK

    def findings(self) -> list[DataFinding]:
        """Return the findings over all pools: `id-leak`, `position-cue`, `length-cue`."""
        cues = [self._id_leak(), self._position_cue(), self._length_cue(), self._bank_duplicates()]
        return list(filter(None, cues))

    def _id_leak(self) -> DataFinding | None:
        """Test every rule over ids alone; the one that finds most is reported, as serious."""
        # Test: `above_chance` over all pools with at least two candidates, corrected for the number
        # of rules; for «always the same id» also for the ids that could have been it (the size of
        # the largest pool).
        tried = len(ID_RULES) + 1
        rules = dict.fromkeys(ID_RULES, tried)
        if self._gold_ids:
            self._hits[SAME_ID] = self._gold_ids.most_common(1)[0][1]
            rules[SAME_ID] = tried * max(self._sizes)
        return self._by_rule("id-leak", rules, self._sizes)

    def _position_cue(self) -> DataFinding | None:
        """Test where the gold stands: serious."""
        # Tests: `above_chance` for the first, the last and the most frequent place (corrected for
        # all of these), and `far_from_uniform` over the relative places.
        if not self._sizes:
            return None
        largest = max(self._sizes)
        place, count = self._fixed_places.most_common(1)[0]
        most_frequent = f"candidate {place + 1}"
        self._hits[most_frequent] = count
        rules = dict.fromkeys((*_PLACES, most_frequent), largest + 2)
        if finding := self._by_rule("position-cue", rules, self._sizes):
            return finding
        if uneven := far_from_uniform(self._places):
            distance, p = uneven
            figures = f"distance {distance:.2f}, p {_p(p)} (Kolmogorov-Smirnov)"
            detail, n = f"positions are far from uniform: {figures}", len(self._places)
            return self._tally.finding("position-cue", "serious", (n, n), "pools", detail)
        return None

    def _length_cue(self) -> DataFinding | None:
        """Test the length of the gold's value among those of its pool."""
        # Serious: the longest, or the shortest, is the gold (`above_chance`). Warning: its mean
        # rank is off (`shifted`).
        rules = dict.fromkeys(_LENGTHS, len(_LENGTHS))
        if finding := self._by_rule("length-cue", rules, self._value_sizes):
            return finding
        if off := shifted(self._ranks, self._value_sizes):
            mean, p = off
            kind = "longer" if mean > 0.5 else "shorter"
            figures = f"mean rank {mean:.2f}, expected .50, p {_p(p)} (z test)"
            detail, n = f"the gold tends to be {kind} than its pool: {figures}", len(self._ranks)
            count = sum((rank > 0.5) == (mean > 0.5) and rank != 0.5 for rank in self._ranks)
            return self._tally.finding("length-cue", "warning", (count, n), self._unit, detail)
        return None

    def _by_rule(
        self, code: str, rules: Mapping[str, int], sizes: Sequence[int]
    ) -> DataFinding | None:
        """Test the rule that hits most; `rules` are mapped to how many were tried with each."""
        rule = max(rules, key=self._hits.__getitem__)
        hits = self._hits[rule]
        p = above_chance(hits, sizes, tried=rules[rule])
        if p is None:
            return None
        chance = chance_of(sizes)
        detail = f"{rule} is the gold: chance {chance:.1%}, p {_p(p)} (binomial)"
        share, examples = (hits, len(sizes)), self._hit_examples.get(rule, ())
        return self._tally.finding(code, "serious", share, self._unit, detail, *examples)

    def _bank_duplicates(self) -> DataFinding | None:
        bank = self._bank or ()
        counts = Counter(folded for _, folded in bank)
        spare, examples = len(bank) - len(counts), []
        for value, count in counts.items():
            if count > 1:
                examples.append(FoundPlace(BANK, shorten(f"{count} times “{value}”")))
        if not spare:
            return None
        code, detail = (
            "duplicate-candidate",
            f"{BANK} has equal values; a pool gets only one of them",
        )
        return self._tally.finding(code, "note", (spare, len(bank)), "bank rows", detail, *examples)


def _read_bank(folder: Path) -> list[tuple[Row, str]] | None:
    """Return the rows of the bank in or beside a folder, if any, with their folded values."""
    # Lines that can't be read are left out.
    for path in (folder / BANK, folder.parent / BANK):
        if path.is_file():
            rows = read_rows(path, on_fault=lambda fault: None)
            return [(row, fold(text_at(row, "value"))) for _, row in rows]
    return None


def candidate_id(candidate: Row) -> str:
    """Return the id of a candidate, under either of the two usual keys."""
    return text_at(candidate, "memory_id") or text_at(candidate, "id")


def near(gold: str, others: Sequence[str]) -> str | None:
    """Say which of `others` come near `gold`, None where none does; at most three are named."""
    # Two values can only reach `THRESHOLD` where a fair part of the pieces of the gold stand in the
    # other text, which is far cheaper to see than their similarity.
    gold = shown_value(gold)
    wanted = features(gold)
    pieces = list(wanted.content.items())
    # Dice = 2s / (G + T) with T >= s, so s >= G · THRESHOLD / (2 - THRESHOLD).
    least = (
        wanted.total * THRESHOLD / (2 - THRESHOLD)
        - BOILERPLATE_WEIGHT * len(wanted.boilerplate)
        - 1e-9
    )
    close = []
    for other in dict.fromkeys(map(shown_value, others)):
        # Pieces hold no comma: numbers lose theirs, and words end at one.
        text = (other.lower() if other.isascii() else fold_loosely(other)).replace(",", "")
        if math.fsum(weight for piece, weight in pieces if piece in text) < least:
            continue
        strength = similarity(gold, other)
        if strength >= THRESHOLD:
            close.append((strength, other))
    if not close:
        return None
    close.sort(key=lambda pair: -pair[0])
    named = "; ".join(f"{strength:.2f} “{other}”" for strength, other in close[:_MOST_NEIGHBOURS])
    return f"gold “{gold}”: {named}"


def _owners(memory: Row) -> set[str]:
    """Return the sessions and users that a memory names as its own."""
    owners = {text_at(memory, "session_id"), text_at(memory, "user_id")}
    return (owners | {text_at(memory, "evidence", "session_id")}) - {""}


def _p(p: float) -> str:
    return "< 1e-12" if p < 1e-12 else f"= {p:.1g}"


def far_from_uniform(places: Sequence[float]) -> tuple[float, float] | None:
    """Return (distance, p) where relative places in (0, 1) are far from uniform, else None.

    Two-sided exact Kolmogorov-Smirnov test, p < `ALPHA` and a distance of `LEAST_DISTANCE`. That
    places are discrete moves the distance by half a place at most.
    """
    if len(places) < 2:
        return None
    from scipy.stats import kstest

    result = kstest(places, "uniform")
    distance, p = float(result.statistic), float(result.pvalue)
    return (distance, p) if p < ALPHA and distance >= LEAST_DISTANCE else None


def shifted(ranks: Sequence[float], sizes: Sequence[int]) -> tuple[float, float] | None:
    """Return (mean rank, p) where the mean of relative ranks in [0, 1] is far from .5, else None.

    Two-sided z test (the rank sum test over pools): under no cue a rank among n has variance (n+1)
    / (12 (n-1)), less with ties, so ties only make the test cautious. p < `ALPHA` and a shift of
    `LEAST_SHIFT`.
    """
    if len(ranks) < 2:
        return None
    mean = math.fsum(ranks) / len(ranks)
    variance = math.fsum((n + 1) / (12 * (n - 1)) for n in sizes) / len(ranks) ** 2
    p = math.erfc(abs(mean - 0.5) / math.sqrt(2 * variance))
    return (mean, p) if p < ALPHA and abs(mean - 0.5) >= LEAST_SHIFT else None
