"""The part of a set in a run: what its files hold, and what its right answers took, in the summary.

A right answer has a price in dollars and seconds, and a turn from which a memory costs less.

A turn is a question about a history. With, of one history on average,

    I  dollars of the models that a memory asks while it ingests the history,
    m  dollars of a question: what its search asks of models, and the answer,
    F  dollars of an answer with the whole history in the prompt, which the provider's cache then
       keeps: its tokens at the price of writing there, where the provider has one,
    C  the same once the cache has it: its tokens at the price of cached ones,

`n` turns cost `I + n m` with the memory, and `F + (n - 1) C` without one. The memory costs less for
good from the smallest `n` on with `n (C - m) > I - F + C`; never, where `m` is `C` or more. The
prompt with the whole history is the one that was metered, with the tokens that the memory showed
replaced by those of the history, both at four bytes each. A cache that forgets, or takes no prompt
that short, makes reading dearer than that. Judges, and the admission of a memory, take no part.

What a memory system asks of models is metered as one: a history has its share of all turns.
Intervals resample histories.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from alps.ext.histories import SETS
from alps.ext.histories.sample import HistorySample, history_of
from alps.ext.memory import ANSWERS, CALLS, FILE
from alps.ext.memory.journal import rows_in, shown_in
from alps.llm.prices import Price, ReplyTokens, price_of
from alps.rows import Fields, Interval, Summary
from alps.run.parts import Course, RunPart
from alps.show.shared_records import values_in
from alps.stats.bootstrap import Estimate, Floats, cluster_sums, ratio, resampled_figures
from alps.tasks.base import keeps_memories
from alps.tasks.by_memory import Context

NAME, ECONOMY = "histories", "economy"
UNRATED, NO_GOLD = "unrated", "without_gold"
NEVER = 0
"""What stands for no turn."""
TURNS = (1, 2, 4, 8, 16, 32, 64)
"""Those at which the curve has its points."""
INGESTING = ("ingest", "settle")


class TurnCost(Fields):
    """Dollars of a turn, on average over the first `turn` ones: with a memory, and without one."""

    turn: int
    memory: Interval
    whole: float


class Even(Fields):
    """When a memory becomes the way that costs less.

    Attributes:
        turn: The turn from which on it does; `NEVER` where there is none, in its interval too.
        reason: Why there is no interval.
        ingested: I of the formula, `each` m, `first` F and `again` C.
        tokens: Of a whole history, on average over the questions.
        cached: Whether the price of cached prompts is known.
    """

    turn: int
    low: int | None = None
    high: int | None = None
    reason: str | None = None
    ingested: float
    each: float
    first: float
    again: float
    tokens: float
    cached: bool
    curve: list[TurnCost]


class Economy(Fields):
    """What a right answer took.

    Attributes:
        dollars: Of models, without a value where a price is not known, or nobody metered.
        seconds: Of calls of the memory and the reader, each after the other.
        even: None where no memory system ingested anything, or reading has no known price.
    """

    dollars: Interval
    seconds: Interval
    even: Even | None = None


@dataclass(frozen=True)
class _Took:
    """What an answer, or a search, took: NaN where nobody knows."""

    seconds: float = math.nan
    cost: float = math.nan
    prompt: int = 0
    completion: int = 0


def economy_of(
    folder: Path, track: str, samples: Sequence[HistorySample], model: str, memory: str
) -> Economy | None:
    """Return cost and time of a run's right answers; None if nothing was judged or recorded."""
    values = values_in(folder / "scores.jsonl", track=track).get(track, {})
    judged = [one for one in samples if "right" in values.get(one.benchmark_id, {})]
    if not judged:
        return None
    right = np.array([values[one.benchmark_id]["right"] for one in judged])
    histories = [one.session_id for one in judged]
    counts = Counter(histories)
    # A history is ingested once: each of its questions carries a share, which resamples keep whole.
    share = np.array([1 / counts[name] for name in histories])
    answers = _answers(folder, track)
    took = [answers.get(one.benchmark_id, _Took()) for one in judged]
    ingested, searched = _memory(folder, track, judged)
    # A kept reply took no time that could be known: it has that of the others on average.
    seconds = _filled([one.seconds for one in took]) + _column(searched, "seconds")
    cost = np.array([one.cost for one in took]) + _column(searched, "cost")
    ingesting = np.array([[ingested[name].cost, ingested[name].seconds] for name in histories])
    features = np.stack([right, cost, seconds, share, *(ingesting * share[:, None]).T], axis=1)
    dollars, spent = _for_each_right(features, histories)
    if dollars.value is None and spent.value is None:
        return None
    price = price_of(model)
    even = None
    if dollars.value is not None and price.rates is not None and keeps_memories(memory):
        shown = {key.id: tokens for key, tokens in shown_in(folder, track)}
        read = _read_whole(judged, took, shown, price)
        even = _even(features, read, histories, cached=price.rates.cached_input is not None)
    return Economy(dollars=dollars, seconds=spent, even=even)


def _column(took: Sequence[_Took], name: str) -> Floats:
    return np.array([getattr(one, name) for one in took])


def _filled(seconds: Sequence[float]) -> Floats:
    known = np.array(seconds)
    if np.isnan(known).all():
        return known
    return np.where(np.isnan(known), np.nanmean(known), known)


def _for_each_right(features: Floats, histories: Sequence[str]) -> tuple[Interval, Interval]:
    """Return dollars and seconds for each right answer."""
    sums = cluster_sums(features, histories)

    def figures(times: Floats) -> list[Floats]:
        right, cost, seconds, _, ingested, took = _drawn(times, sums)
        return [ratio(cost + ingested, right), ratio(seconds + took, right)]

    dollars, seconds = (Interval(**one.row) for one in resampled_figures(figures, histories))
    return dollars, seconds


def _drawn(times: Floats, sums: Floats) -> Floats:
    """Return the sums of resampled clusters, feature by feature."""
    # Added up, as a product rounds otherwise on other machines.
    return np.moveaxis(sums.sum(axis=0) if times.ndim == 1 else times @ sums, -1, 0)


def _even(features: Floats, read: Floats, histories: Sequence[str], *, cached: bool) -> Even:
    """Return when a memory is even with reading; `read` has F, C and tokens of each question."""
    sums = cluster_sums(np.concatenate([features, read], axis=1), histories)
    counts = cluster_sums(np.ones((len(features), 1)), histories)
    sums = np.concatenate([sums, counts], axis=1)

    def means(times: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        _, cost, _, number, ingested, _, first, again, _, asked = _drawn(times, sums)
        return ingested / number, cost / asked, first / asked, again / asked

    def figures(times: Floats) -> list[Floats]:
        ingested, each, first, again = means(times)
        # As 1 / n, which has a place for never between all others.
        return [1 / turn_of(ingested, each, first, again), *(ingested / n + each for n in TURNS)]

    reached, *spots = resampled_figures(figures, histories)
    ingested, each, first, again = (float(one) for one in means(np.ones(len(sums))))
    low, high = _turns_between(reached)
    turn = float(turn_of(*map(np.array, (ingested, each, first, again))))
    curve = []
    for n, spot in zip(TURNS, spots, strict=True):
        whole = (first + (n - 1) * again) / n
        curve.append(TurnCost(turn=n, memory=Interval(**spot.row), whole=whole))
    return Even(
        turn=NEVER if math.isinf(turn) else round(turn),
        low=low,
        high=high,
        reason=reached.reason,
        ingested=ingested,
        each=each,
        first=first,
        again=again,
        tokens=float(read[:, 2].mean()),
        cached=cached,
        curve=curve,
    )


def turn_of(ingested: Floats, each: Floats, first: Floats, again: Floats) -> Floats:
    """Return the turn from which on a memory costs less for good, infinite for never."""
    gain = again - each
    with np.errstate(divide="ignore", invalid="ignore"):
        turns = np.floor((ingested - first + again) / gain) + 1
    # The formula gives 0 or less where ingesting costs less than the first whole prompt.
    return np.where(gain > 0, np.maximum(turns, 1), np.inf)


def _turns_between(reached: Estimate) -> tuple[int | None, int | None]:
    if reached.low is None or reached.high is None:
        return None, None
    # Of 1 / n the lower bound is the upper one of n. A whole number that is turned into 1 / n and
    # back may miss itself by a rounding.
    high = NEVER if reached.low <= 0 else math.ceil(1 / reached.low - 1e-9)
    return (NEVER if reached.high <= 0 else math.floor(1 / reached.high + 1e-9)), high


def _read_whole(
    samples: Sequence[HistorySample],
    took: Sequence[_Took],
    shown: Mapping[str, int],
    price: Price,
) -> Floats:
    """Return what each answer costs with the whole history, first and again, and its tokens."""
    writes = price.rates is not None and price.rates.cache_write is not None
    rows = []
    for sample, one in zip(samples, took, strict=True):
        tokens = Context(history_of(sample).turns).tokens
        # The prompt is metered and the memories are estimated, so their difference may fall below
        # 0.
        prompt = max(0, one.prompt - shown.get(sample.benchmark_id, 0)) + tokens
        written = tokens if writes else 0
        first = price.cost(ReplyTokens(prompt, one.completion, cache_write=written))
        again = price.cost(ReplyTokens(prompt, one.completion, cached=tokens))
        rows.append((first or 0.0, again or 0.0, tokens))
    return np.array(rows, dtype=np.float64)


def _answers(folder: Path, track: str) -> dict[str, _Took]:
    """Return what the last answer to each question took."""
    found = {}
    for row in rows_in(folder / ANSWERS):
        of, _, name = row["sample"].partition(" ")
        if of == track:
            cost = row.get("cost")
            found[name] = _Took(
                math.nan if row.get("cached") else row["seconds"],
                math.nan if cost is None else cost,
                row.get("prompt_tokens", 0),
                row.get("completion_tokens", 0),
            )
    return found or _asked(folder)


def _asked(folder: Path) -> dict[str, _Took]:
    """Return the same of a reader without a memory, whose calls alone were noted."""
    found: dict[str, _Took] = {}
    for row in rows_in(folder / "calls.jsonl"):
        if row.get("purpose") == "generate":
            before, cost = found.get(row["about"], _Took(0.0, 0.0)), row.get("cost")
            found[row["about"]] = _Took(
                before.seconds + row["seconds"],
                before.cost + (math.nan if cost is None else cost),
            )
    return found


def _memory(
    folder: Path, track: str, samples: Sequence[HistorySample]
) -> tuple[dict[str, _Took], list[_Took]]:
    """Return what ingesting each history took, and each search."""
    ingesting: dict[str, float] = {}
    turns: dict[str, int] = {}
    users: dict[str, str] = {}
    searches: dict[str, float] = {}
    for row in rows_in(folder / FILE):
        phase = row.get("phase")
        if phase in INGESTING:
            ingesting[row["user"]] = ingesting.get(row["user"], 0.0) + row["seconds"]
            turns[row["user"]] = max(turns.get(row["user"], 0), row.get("turns", 0))
        elif phase == "search" and row["sample"].startswith(f"{track} "):
            name = row["sample"].partition(" ")[2]
            users[name], searches[name] = row["user"], row["seconds"]
    ingest_cost, search_cost = _spent(folder, INGESTING), _spent(folder, ("search",))
    every = sum(turns.values()) or 1
    ingested = {one.session_id: _Took(0.0, 0.0) for one in samples}
    for one in samples:
        if (user := users.get(one.benchmark_id)) is not None:
            cost = ingest_cost * turns.get(user, 0) / every
            ingested[one.session_id] = _Took(ingesting.get(user, 0.0), cost)
    of_search = search_cost / (len(searches) or 1)
    names = [one.benchmark_id for one in samples]
    return ingested, [_Took(searches.get(name, 0.0), of_search) for name in names]


def _spent(folder: Path, phases: Sequence[str]) -> float:
    """Return the dollars of models that a memory asked in some phases; NaN where not known."""
    costs = [row["cost"] for row in rows_in(folder / CALLS) if row.get("phase") in phases]
    # One call without a price makes the sum unknown; without that call it would be too low.
    return math.nan if None in costs else math.fsum(costs)


class HistoryRunPart(RunPart):
    """Counts what a run on a set was of, and what it took."""

    def summarise(self, summary: Summary, course: Course) -> Summary:
        """Add what the files hold, and what right answers took, by track."""
        found: dict[str, Any] = {}
        folder, asked = course.session.folder, vars(self.settings)
        for track in course.session.data.tracks:
            name = track.task.track
            # Levels have points of sessions, and neither kinds of questions nor right answers.
            if track.task.name in SETS:
                samples = list(track.samples())
                found[name] = _held(samples) | _without_score(folder, name, samples)
                found[name] |= {
                    key: track.description[key]
                    for key in ("sha256", "not_official", "undated")
                    if key in track.description
                }
                took = economy_of(folder, name, samples, asked["model"], asked["memory"])
                found[name] |= {} if took is None else {ECONOMY: took.row()}
        if not found:
            return summary
        return summary.model_copy(update={"parts": {**summary.parts, NAME: found}})


def _without_score(
    folder: Path, track: str, samples: Sequence[HistorySample]
) -> dict[str, dict[str, int] | int]:
    """Return how many answers have no score: for want of a gold, or of a judge that can rate them.

    The second are counted by how their questions are scored.
    """
    scoring = {one.benchmark_id: one.question.scoring for one in samples}
    unrated: Counter[str] = Counter()
    for row in rows_in(folder / "scores.jsonl"):
        given = row.get("stage") == "score" and row.get("track", track) == track
        if given and "right" not in (row.get("scores") or {}):
            unrated[scoring.get(row["benchmark_id"], "judged")] += 1
    lacking = sum(not one.has_gold for one in samples)
    return ({UNRATED: dict(unrated)} if unrated else {}) | ({NO_GOLD: lacking} if lacking else {})


def _held(samples: list[HistorySample]) -> dict[str, Any]:
    kinds = Counter(sample.question.kind for sample in samples)
    answerable = [sample for sample in samples if not sample.question.abstains]
    wrong = Counter(sample.question.kind for sample in samples if sample.wrong_gold)
    return {
        "questions": len(samples),
        "answerable": len(answerable),
        "histories": len({sample.session_id for sample in samples}),
        "kinds": dict(kinds),
        "wrong_golds": dict(wrong),
        "sound": sum(sample.sound for sample in samples),
    }
