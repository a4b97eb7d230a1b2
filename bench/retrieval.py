"""Measure the retrievers: python bench/retrieval.py [bm25] [tfidf] [minilm] [e5].

Measures those that are named, or all that are installed. Prints, on the real pools of 100
distractors (`ALPS_SAMPLE` names the folder of the sample), how often the gold is among the first 1,
5 and 10, the mean reciprocal rank, and milliseconds a query.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from document import terminal
from words import rows, sample_folder

from alps.errors import UsageError
from alps.systems.retrievers import BM25, TfIdf, e5, minilm
from alps.text import fold

RETRIEVERS: dict[str, Callable[[], Any]] = {}
RETRIEVERS |= {"bm25": BM25, "tfidf": TfIdf, "minilm": minilm, "e5": e5}


class Pool(NamedTuple):
    """A query, its distinct candidates, and the position of the gold among them."""

    query: str
    values: list[str]
    gold: int


class Figures(NamedTuple):
    """What a retriever reaches on a list of pools."""

    recall_at_1: float
    recall_at_5: float
    recall_at_10: float
    mrr: float
    seconds_per_query: float


def read_pools(sample: Path) -> list[Pool]:
    """Return the pools of task3/d100, without values that differ in case or white space alone."""
    folder = sample / "benchmark_data" / "dev" / "task3" / "d100"
    golds = {}
    for row in rows(folder / "reference_output.jsonl"):
        golds[row["benchmark_id"]] = row["gold"]["selected_memory"]["value"]
    pools = []
    for row in rows(folder / "model_input.jsonl"):
        distinct: dict[str, str] = {}
        for memory in row["input"]["candidate_memories"]:
            distinct.setdefault(fold(memory["value"]), memory["value"])
        gold = list(distinct).index(fold(golds[row["benchmark_id"]]))
        pools.append(Pool(row["input"]["query"], list(distinct.values()), gold))
    return pools


def measure(retriever: Any, pools: list[Pool]) -> Figures:
    """Return the figures of `retriever` on `pools`; what it loads on first use is not timed."""
    retriever.rank("warm", ["up", "first"])
    started = time.perf_counter()
    orders = [retriever.rank(pool.query, pool.values) for pool in pools]
    seconds = time.perf_counter() - started
    places = [order.index(pool.gold) + 1 for order, pool in zip(orders, pools, strict=True)]
    ranks = np.array(places)
    at_1, at_5, at_10 = (float((ranks <= depth).mean()) for depth in (1, 5, 10))
    return Figures(at_1, at_5, at_10, float((1 / ranks).mean()), seconds / len(pools))


def main() -> None:
    """Measure, and print."""
    sample = sample_folder()
    if sample is None:
        sys.exit("The real sample is not here: set ALPS_SAMPLE to its folder.")
    pools = read_pools(sample)
    cells = [["retriever", "recall@1", "recall@5", "recall@10", "MRR", "ms a query"]]
    for name in sys.argv[1:] or RETRIEVERS:
        try:
            found = measure(RETRIEVERS[name](), pools)
        except UsageError as error:
            print(f"{name}: skipped: {error}")
            continue
        milliseconds = f"{found.seconds_per_query * 1000:.1f}"
        cells.append([name, *(f"{value:.3f}" for value in found[:4]), milliseconds])
    print(terminal(cells))


if __name__ == "__main__":
    main()
