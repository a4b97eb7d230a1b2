"""Measure the retrievers: python bench/retrieval.py [bm25] [tfidf] [minilm] [write=yes].

Measures those that are named, or all that are installed. Prints, on the real pools of 100
distractors (`ALPS_SAMPLE` names the folder of the sample), how often the gold is among the first 1,
5 and 10, the mean reciprocal rank, and milliseconds a query; then, for bm25, the time and the peak
memory of 1,429 queries over 1,001 candidates each. Exits 1 where a bound is exceeded, and
`write=yes` writes the section of docs/benchmarks.md. Without the sample, only the last.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from document import Bound, Section, terminal, write_section
from numpy.typing import NDArray
from sample import sample_folder

from alps.errors import UsageError
from alps.systems.minilm import MiniLM
from alps.systems.retrievers import BM25, TfIdf
from alps.text import fold

RETRIEVERS: dict[str, Callable[[], "Retriever"]] = {"bm25": BM25, "tfidf": TfIdf, "minilm": MiniLM}
QUERIES, CANDIDATES = 1_429, 1_001
SCORING_SECONDS, GROWN_MEGABYTES = 2.0, 8.0
KNOWN_VALUES, WORDS, WORDS_PER_VALUE, WORDS_PER_QUERY = 20_000, 20_000, 10, 43


class Retriever(Protocol):
    """What is measured."""

    def rank(self, query: str, values: list[str]) -> list[int]:
        """Return the positions of all `values`, the best first."""
        ...


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
    """Return the pools of the track task3/d100, each without values that are nearly the same.

    Such values differ only in case, form or white space.
    """

    def rows(name: str) -> list[dict[str, Any]]:
        with (sample / "benchmark_data" / "dev" / "task3" / "d100" / name).open(
            encoding="utf-8"
        ) as lines:
            return [json.loads(line) for line in lines]

    golds = {
        row["benchmark_id"]: row["gold"]["selected_memory"]["value"]
        for row in rows("reference_output.jsonl")
    }
    pools = []
    for row in rows("model_input.jsonl"):
        distinct: dict[str, str] = {}
        for memory in row["input"]["candidate_memories"]:
            distinct.setdefault(fold(memory["value"]), memory["value"])
        gold = list(distinct).index(fold(golds[row["benchmark_id"]]))
        pools.append(Pool(row["input"]["query"], list(distinct.values()), gold))
    return pools


def measure(retriever: Retriever, pools: list[Pool]) -> Figures:
    """Return the figures of `retriever` on `pools`; what it loads on first use is not timed."""
    retriever.rank("warm", ["up", "first"])
    started = time.perf_counter()
    orders = [retriever.rank(pool.query, pool.values) for pool in pools]
    seconds = time.perf_counter() - started
    ranks = np.array(
        [order.index(pool.gold) + 1 for order, pool in zip(orders, pools, strict=True)]
    )
    at_1, at_5, at_10 = (float((ranks <= depth).mean()) for depth in (1, 5, 10))
    return Figures(at_1, at_5, at_10, float((1 / ranks).mean()), seconds / len(pools))


def synthetic_texts(
    generator: np.random.Generator, words: NDArray[np.str_], count: int, length: int
) -> list[str]:
    """Return `count` texts of `length` words, drawn as often as words are in natural text."""
    frequency = 1 / np.arange(1, len(words) + 1)
    drawn = generator.choice(words, (count, length), p=frequency / frequency.sum())
    return [" ".join(row) for row in drawn.tolist()]


def synthetic_pools(*, shared: bool, queries: int = QUERIES) -> Iterator[tuple[str, list[str]]]:
    """Yield queries with candidates out of 20,000 values, or, without `shared`, all new ones."""
    generator = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(
        ["".join(generator.choice(letters, size)) for size in generator.integers(3, 11, WORDS)]
    )
    known = synthetic_texts(generator, words, KNOWN_VALUES, WORDS_PER_VALUE)
    for query in synthetic_texts(generator, words, queries, WORDS_PER_QUERY):
        if shared:
            yield (
                query,
                [known[at] for at in generator.choice(KNOWN_VALUES, CANDIDATES, replace=False)],
            )
        else:
            yield query, synthetic_texts(generator, words, CANDIDATES, WORDS_PER_VALUE)


def peak_megabytes() -> float:
    """Return the most memory that this process has taken."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def speed(label: str, *, shared: bool) -> list[Bound]:
    """Time bm25, print what was seen, and return it beside the bounds."""
    # Seconds of the processor, which is one thread's work here: a busy machine moves them less than
    # the clock's.
    retriever, tokenising, scoring, halfway = BM25(), 0.0, 0.0, 0.0
    for number, (query, values) in enumerate(synthetic_pools(shared=shared)):
        started = time.process_time()
        retriever.tokenise(values)
        tokenised = time.process_time()
        retriever.rank(query, values)
        scoring += time.process_time() - tokenised
        tokenising += tokenised - started
        if number == QUERIES // 2:
            halfway = peak_megabytes()
    grown = peak_megabytes() - halfway
    print(
        f"bm25, {QUERIES:,} x {CANDIDATES:,}, {label}: tokenising {tokenising:.2f} s, scoring "
        f"{scoring:.2f} s "
        f"(bound {SCORING_SECONDS}), peak {halfway + grown:.0f} MB, {grown:.1f} MB of it in the "
        "second half "
        f"(bound {GROWN_MEGABYTES:.0f})"
    )
    fast, small, times = (
        scoring <= SCORING_SECONDS,
        grown <= GROWN_MEGABYTES,
        f"{QUERIES:,} × {CANDIDATES:,}, {label}",
    )
    return [
        Bound(f"bm25, {times}: scoring", f"≤ {SCORING_SECONDS:g} s", f"{scoring:.2f} s", fast),
        Bound(
            f"bm25, {times}: grown in the second half",
            f"≤ {GROWN_MEGABYTES:.0f} MB",
            f"{grown:.1f} MB",
            small,
        ),
    ]


def section(bounds: list[Bound], cells: list[list[str]], pools: int) -> Section:
    """Return the section of the page."""
    text = (
        f"How fast the embedded retriever ranks {QUERIES:,} pools of {CANDIDATES:,} candidates "
        "that are in memory,\nonce of values that come back and once of values never seen before; "
        "seconds of the processor, without cutting values\ninto words. Below, how often the gold "
        f"is found in the {pools} real pools of 100 distractors; they are not part of the\n"
        "repository."
    )
    if not pools:
        text = text.partition(" Below,")[0]
    return Section(
        "retrieval",
        "Retrievers",
        text,
        bounds,
        "python bench/retrieval.py write=yes",
        cells if pools else (),
    )


def main() -> None:
    """Measure, print, and compare with the bounds."""
    # The values known beforehand come first: peak memory never falls again.
    bounds = [
        *speed("values that come back", shared=True),
        *speed("values never seen before", shared=False),
    ]
    sample = sample_folder()
    pools = read_pools(sample) if sample else []
    print(
        f"real pools: {len(pools)}"
        if pools
        else "the real sample is not here: set ALPS_SAMPLE to its folder"
    )
    cells = [["retriever", "recall@1", "recall@5", "recall@10", "MRR", "ms a query"]]
    for name in (
        [word for word in sys.argv[1:] if word != "write=yes"] or RETRIEVERS if pools else ()
    ):
        try:
            found = measure(RETRIEVERS[name](), pools)
        except UsageError as error:
            print(f"{name:8s}skipped: {error}")
            continue
        cells.append(
            [
                name,
                *(f"{value:.3f}" for value in found[:4]),
                f"{found.seconds_per_query * 1000:.1f}",
            ]
        )
    if pools:
        print(terminal(cells))
    if "write=yes" in sys.argv:
        write_section(section(bounds, cells, len(pools)))
    if not all(bound.held for bound in bounds):
        sys.exit(1)


if __name__ == "__main__":
    main()
