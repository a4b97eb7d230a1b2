"""Measure embedded judges on recorded pair reviews: python bench/lexical_judge.py SAMPLE_FOLDER.

Figures are Cohen's kappa; folds and bootstrap draws keep the pairs of a session together. A pair
matches where the recorded review says EQUIVALENT, LABEL_WRONG, TYPE_WRONG, UNDERGENERAL or
OVERGENERAL: the published labels' own rule. Under the rule of `alps` over-general predictions match
nothing; the same figures by that rule stand below.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from words import rows

from alps.embeddings import DECIMALS, MINILM
from alps.errors import UsageError
from alps.judges.embedded import MINILM_THRESHOLD
from alps.schema import read_memories
from alps.similarity import THRESHOLD, similarity
from alps.text import shown_value

MATCHING = frozenset({"EQUIVALENT", "LABEL_WRONG", "TYPE_WRONG", "UNDERGENERAL", "OVERGENERAL"})
OVERGENERAL = frozenset({"OVERGENERAL"})
GOLD_FIELD = {"task1": "memory_items", "task2": "answer"}
GRID = np.round(np.arange(0.0, 1.0001, 0.01), 2)
HALF_BAND = 0.1
FOLDS, SEEDS, DRAWS = 10, 10, 2000
ROUNDING = 1e-9

Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]
Groups = NDArray[np.int64]


class Pair(NamedTuple):
    """A gold and a predicted value that the recorded judge compared."""

    session: str
    gold: str
    predicted: str
    review: str


def read_pairs(sample: Path) -> Iterator[Pair]:
    """Yield the judged pairs of both extraction tracks of `sample`."""

    def values(items: list[dict[str, Any]] | None) -> dict[str, str]:
        return {memory.memory_id: memory.value for memory in read_memories(items or []).memories}

    for track, field in GOLD_FIELD.items():
        references = rows(sample / f"benchmark_data/dev/{track}/reference_output.jsonl")
        golds = {row["benchmark_id"]: values(row["gold"][field]) for row in references}
        for record in rows(sample / "recorded" / track / "records.jsonl"):
            session, gold = record["benchmark_id"].split("__")[0], golds[record["benchmark_id"]]
            predicted = values(record["model_output"].get("memory_items"))
            for review in (record["judge_output"] or {}).get("pair_reviews", []):
                texts = gold[review["gold_id"]], predicted[review["pred_id"]]
                yield Pair(session, *texts, review["error_type"])


def kappa(cells: Numbers) -> Numbers:
    """Return kappa; the last axis of `cells` is as `cells_of` returns it."""
    both, extra, missed, neither = np.moveaxis(cells / cells.sum(-1)[..., None], -1, 0)
    predicted, actual = both + extra, both + missed
    chance = predicted * actual + (1 - predicted) * (1 - actual)
    return np.asarray((both + neither - chance) / np.maximum(1 - chance, 1e-12), dtype=np.float64)


def cells_of(decided: Flags, truth: Flags) -> Numbers:
    """Return 0 or 1 for true positive, false positive, false negative and true negative."""
    cells = (decided & truth, decided & ~truth, ~decided & truth, ~decided & ~truth)
    return np.stack(cells, axis=-1).astype(np.float64)


def kappa_curve(scores: Numbers, truth: Flags) -> Numbers:
    """Return the kappa of each threshold of `GRID`."""
    return kappa(cells_of(scores >= GRID[:, None] - ROUNDING, truth[None, :]).sum(axis=1))


def best_threshold(scores: Numbers, truth: Flags) -> float:
    """Return the centre of the band of thresholds with the highest mean kappa."""
    curve = kappa_curve(scores, truth)
    # A single best grid point hangs on one or two pairs; a band does not.
    bands = [curve[abs(GRID - centre) <= HALF_BAND + ROUNDING].mean() for centre in GRID]
    return float(GRID[int(np.argmax(bands))])


def cross_validated(scores: Numbers, truth: Flags, groups: Groups) -> tuple[Flags, list[float]]:
    """Return the out-of-fold decisions, one row per seed, and all thresholds used."""
    decided = np.zeros((SEEDS, len(truth)), dtype=np.bool_)
    thresholds = []
    for seed in range(SEEDS):
        folds = np.random.default_rng(seed).permutation(groups.max() + 1)[groups] % FOLDS
        for held_out in folds == np.arange(FOLDS)[:, None]:
            thresholds.append(best_threshold(scores[~held_out], truth[~held_out]))
            decided[seed, held_out] = scores[held_out] >= thresholds[-1] - ROUNDING
    return decided, thresholds


def interval_text(decided: Flags, truth: Flags, groups: Groups) -> str:
    """Return kappa, averaged over the rows of `decided`, with its clustered 95 % interval."""
    every = cells_of(decided, truth[None, :])
    cells = np.stack([every[:, groups == group].sum(axis=1) for group in np.unique(groups)])
    count = len(cells)
    draws = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), DRAWS)
    drawn = kappa(np.einsum("dg,gsc->dsc", draws, cells, optimize=True)).mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{kappa(cells.sum(axis=0)).mean():.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    """Print the figures of the judges, by either rule."""
    pairs = list(read_pairs(Path(sys.argv[1])))
    print_figures(pairs, MATCHING)
    print("\nWhere over-general predictions match nothing, as alps scores:")
    print_figures(pairs, MATCHING - OVERGENERAL)


def print_figures(pairs: list[Pair], matching: frozenset[str]) -> None:
    """Print the figures where the reviews in `matching` are matches."""
    truth = np.array([pair.review in matching for pair in pairs])
    groups = np.unique([pair.session for pair in pairs], return_inverse=True)[1].astype(np.int64)

    shown = [(shown_value(pair.gold), shown_value(pair.predicted)) for pair in pairs]
    scores = np.array([similarity(*values) for values in shown])
    plain = [[text.strip().lower() for text in (pair.gold, pair.predicted)] for pair in pairs]
    differing = np.array([gold != predicted for gold, predicted in plain])
    decided, used = cross_validated(scores, truth, groups)
    shipped, by_rule = scores[None, :] >= THRESHOLD, best_threshold(scores, truth)
    print(f"threshold {THRESHOLD}, by rule {by_rule:.2f}, folds {min(used):.2f} to {max(used):.2f}")
    for label, kept in (("all", np.ones_like(differing)), ("non-identical", differing)):
        print(f"{label}: n {kept.sum()}, sessions {len(np.unique(groups[kept]))}")
        for name, flags in (("cross-validated", decided), ("shipped threshold", shipped)):
            print(f"  {name:24s}{interval_text(flags[:, kept], truth[kept], groups[kept])}")
        for line in minilm_lines(
            [pair for pair, one in zip(pairs, kept, strict=True) if one], truth[kept], groups[kept]
        ):
            print(line)


def minilm_lines(pairs: list[Pair], truth: Flags, groups: Groups) -> Iterator[str]:
    """Yield the figures of the semantic judge at its threshold, where its extra is installed."""
    try:
        MINILM.require()
    except UsageError as error:
        yield f"  {error}"
        return
    gold = MINILM.embed([shown_value(pair.gold) for pair in pairs]).astype(np.float64)
    predicted = MINILM.embed([shown_value(pair.predicted) for pair in pairs]).astype(np.float64)
    decided = (gold * predicted).sum(axis=1).round(DECIMALS) >= MINILM_THRESHOLD
    yield f"  {'minilm':24s}{interval_text(decided[None, :], truth, groups)}"


if __name__ == "__main__":
    main()
