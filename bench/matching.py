"""Measure our matching beside the published scorer.

    python bench/matching.py [records=10000] [write=yes]

Both score the same records, each in a process of its own with one thread. Records are made by a
seeded generator whose sizes, lengths and shares are those counted in the AlpsBench sample (170
records of tasks 1 and 2 with the recorded model's output). The sample's own records are timed as
well, where it is here (`ALPS_SAMPLE` names its folder). Prints seconds, memory, and how the cost
grows with the lists; exits 1 where a bound is missed.
"""

import asyncio
import gc
import json
import math
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

from document import Bound, Section, missed, terminal, write_section
from sample import sample_folder
from words import read_words, whole

from alps.judges.embedded import LexicalJudge
from alps.judges.matching import assign
from alps.judges.relate import match_memories
from alps.schema import CANONICAL_LABELS, Memory, read_gold, read_memories
from alps.tasks.authors_v1 import algorithm_score
from alps.tasks.extraction import precision_recall_f1

TIMES = 20.0
WORDS = {"records": "10000", "part": "", "a_side": "", "sample": ""}
CHUNK = 500
LONG = {10: 200, 30: 40, 100: 6, 300: 1}
"""Memories a side, and how many such records are timed."""
PART, TRACKS = "part", ("task1", "task2")
Record = tuple[tuple[Memory, ...], tuple[Memory, ...]]

# Counted in the sample: gold/predicted memories of a record, and how many records of the track have
# just these.
SIZES = {
    "task1": """1/0*1 1/1*2 1/2*1 1/4*1 1/6*1 2/0*3 2/1*7 2/2*1 2/3*5 2/4*5 2/5*2 2/7*2 2/9*1
        3/0*5 3/1*6 3/2*1 3/3*4 3/4*5 3/5*2 3/6*1 3/8*1 3/9*1 4/3*2 4/4*4 4/5*4 4/6*1 4/7*2
        4/9*1 5/0*2 5/3*1 5/6*2 5/7*1 5/15*1 6/0*1 6/2*1 6/6*1 6/11*1 8/10*1""",
    "task2": """2/1*5 2/2*2 2/6*1 3/0*2 3/2*10 3/3*4 3/4*2 3/5*2 4/0*3 4/3*10 4/4*7 4/5*4 4/6*1
        4/9*1 5/0*1 5/4*4 5/5*8 5/6*1 6/0*2 6/2*1 6/5*5 6/6*3 6/7*1 7/0*1 7/6*2 7/8*1 8/7*1
        8/8*1""",
}
# The least, the nine deciles and the most of the characters of a value.
GOLD_CHARACTERS = {
    "task1": (6, 22, 38, 47, 55, 63, 69, 76, 88, 105, 185),
    "task2": (11, 38, 52, 61, 72, 82, 94, 103, 120, 146, 289),
}
PREDICTED_CHARACTERS = {
    "task1": (6, 32, 49, 62, 76, 93, 107, 135, 155, 187, 309),
    "task2": (4, 34, 49, 60, 69, 82, 95, 103, 122, 157, 311),
}
IDENTICAL = {"task1": 0.0, "task2": 146 / 307}
"""Share of the predictions whose value is that of a gold memory."""
SHARED_WORDS = {
    "task1": (0.0, 0.0, 0.04, 0.06, 0.07, 0.10, 0.12, 0.15, 0.21, 0.32, 0.75),
    "task2": (0.0, 0.04, 0.07, 0.10, 0.14, 0.17, 0.21, 0.26, 0.33, 0.47, 0.86),
}
"""Jaccard index of the words of a prediction and of the likest gold value, neither identical:
least, deciles, most.
"""
CAPITALS, COMMAS = 0.15, 0.06
"""About how many words are names, and how many have a comma behind them."""
OWN_SCRIPT, NEGATED, NUMBERED, POSSESSIVE = 48 / 1056, 198 / 1056, 164 / 1056, 138 / 1056
ACCENTED, ACRONYM = 60 / 1056, 224 / 1056
"""Shares of the 1,056 different values: in a script without spaces, with a negation, a number, an
apostrophe; in Latin letters with some that are not ASCII, with a word in capitals."""
FRAME_WORDS = 5040 / 14107
"""Share of the words that are function words or the phrasing of memories."""

FRAME = (
    *(
        "user",
        "the",
        "prefers",
        "to",
        "and",
        "in",
        "of",
        "for",
        "with",
        "a",
        "interested",
        "likes",
        "wants",
        "is",
    ),
    *(
        "has",
        "on",
        "from",
        "about",
        "asks",
        "uses",
        "as",
        "or",
        "such",
        "specific",
        "detailed",
        "seeking",
        "help",
    ),
)
STARTS = (
    *("b", "br", "c", "ch", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "l", "m", "n"),
    *("p", "pl", "pr", "qu", "r", "s", "sh", "st", "t", "th", "tr", "v", "w"),
)
VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "io", "ou")
ENDS = ("", "", "n", "r", "s", "t", "l", "m", "ck", "nd", "st", "ng")
HAN = (
    "川菜北京工作学习语言编程音乐电影旅行家庭健康计划孩子医生"
    "老师公司城市历史文化小说游戏运动茶酒山水"
)
HAN_FRAMES = ("用户喜欢", "用户想要", "用户对", "偏好", "用户不")


class Maker:
    """Makes records out of one seed.

    Words follow Zipf's law, with as many different ones as the sample has.
    """

    VOCABULARY, FLATNESS = 40_000, 25

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        spell = random.Random(0)
        kinds = (spell.choices((1, 2, 3, 4), (2, 5, 4, 1))[0] for _ in range(self.VOCABULARY))
        made = [
            "".join(spell.choice(STARTS) + spell.choice(VOWELS) for _ in range(n)) for n in kinds
        ]
        self.words = [word + spell.choice(ENDS) for word in made]
        self.weights = list(
            accumulate(1 / (rank + self.FLATNESS) for rank in range(self.VOCABULARY))
        )

    def value(
        self, deciles: Sequence[int], start: Sequence[str] = (), *, own_script: bool | None = None
    ) -> str:
        """Return a value whose length falls into the `deciles`, with the words of `start`."""
        length = self.spread(deciles)
        if own_script or (own_script is None and self.random.random() < OWN_SCRIPT):
            body = "".join(
                self.random.choice(HAN)
                for _ in range(max(2, int(length / 4) - len("".join(start))))
            )
            return self.random.choice(HAN_FRAMES) + "".join(start) + body
        words = list(start)
        for extra, share in (
            ("not", NEGATED),
            (str(self.random.randint(2, 2030)), NUMBERED),
            ("'s", POSSESSIVE),
        ):
            if self.random.random() < share:
                words.append(self.word() + extra if extra == "'s" else extra)
        if self.random.random() < ACRONYM:
            words.append(self.word()[:3].upper())
        if self.random.random() < ACCENTED:
            words.append(f"{self.word()}é")
        while sum(map(len, words)) + len(words) - 1 < length:
            words.append(
                self.random.choice(FRAME) if self.random.random() < FRAME_WORDS else self.word()
            )
        self.random.shuffle(words)
        return " ".join(map(self.spelled, words))

    def spelled(self, word: str) -> str:
        """Return `word` as it may stand in a sentence."""
        shown = (
            word.capitalize() if not word.isupper() and self.random.random() < CAPITALS else word
        )
        return f"{shown}," if self.random.random() < COMMAS else shown

    def word(self) -> str:
        """Return a content word."""
        return self.random.choices(self.words, cum_weights=self.weights)[0]

    def spread(self, deciles: Sequence[float]) -> float:
        """Return a number between two neighbouring deciles."""
        at = self.random.randrange(len(deciles) - 1)
        return self.random.uniform(deciles[at], deciles[at + 1])

    def paraphrase(self, value: str, track: str) -> str:
        """Return another value that shares as many words with `value` as in the sample.

        There, they are shared by a gold value and the likest prediction.
        """
        share, deciles = self.spread(SHARED_WORDS[track]), PREDICTED_CHARACTERS[track]
        if not value.isascii():
            kept = value[4 : 4 + round(share * len(value))]
            return self.value(deciles, [kept], own_script=True)
        words = value.lower().replace(",", "").split()
        kept_words = self.random.sample(
            words, min(len(words), round(2 * share / (1 + share) * len(words)))
        )
        return self.value(deciles, kept_words, own_script=False)

    def record(self, track: str, gold: int, predicted: int) -> Record:
        """Return the gold and the predicted memories of one record."""
        golds = [self.value(GOLD_CHARACTERS[track]) for _ in range(gold)]
        order = self.random.sample(range(gold), gold)
        values = []
        for number in range(predicted):
            if number < gold and self.random.random() < IDENTICAL[track]:
                values.append(golds[order[number]])
            elif number < gold:
                values.append(self.paraphrase(golds[order[number]], track))
            else:
                values.append(self.value(PREDICTED_CHARACTERS[track]))
        return self.memories(golds), self.memories(values)

    def memories(self, values: Sequence[str]) -> tuple[Memory, ...]:
        """Return memories that say `values`."""
        empty = dict.fromkeys(Memory.model_fields)
        choose = self.random.choice
        return tuple(
            Memory.model_validate(
                {
                    **empty,
                    "memory_id": f"m{number}",
                    "type": choose(("direct", "direct", "direct", "indirect", "indirect")),
                    "label": choose(CANONICAL_LABELS),
                    "value": value,
                    "confidence": choose((0.95, 0.8, 0.65, 0.5)),
                }
            )
            for number, value in enumerate(values, start=1)
        )

    def records(self, count: int) -> Iterator[Record]:
        """Yield `count` records of real sizes, of both tracks in turn."""
        tables = {track: list(map(_size, text.split())) for track, text in SIZES.items()}
        for number in range(count):
            track = TRACKS[number % 2]
            sizes, shares = (
                [size[:2] for size in tables[track]],
                [size[2] for size in tables[track]],
            )
            yield self.record(track, *self.random.choices(sizes, shares)[0])


def _size(text: str) -> tuple[int, int, int]:
    sizes, _, times = text.partition("*")
    gold, _, predicted = sizes.partition("/")
    return int(gold), int(predicted), int(times)


def ours(records: Sequence[Record]) -> list[float]:
    """Return the F1 of each record by the lexical judge.

    Identical values, similar pairs, best one-to-one set.
    """
    judge = LexicalJudge()

    async def every() -> list[float]:
        return [await one(gold, predicted) for gold, predicted in records]

    async def one(gold: Sequence[Memory], predicted: Sequence[Memory]) -> float:
        judged = await match_memories(gold, predicted, judge=judge, about="record")
        matches = assign(judged.pairs, "lenient")
        return precision_recall_f1(len(matches), gold=len(gold), predicted=len(predicted))["f1"]

    return asyncio.run(every())


def published(records: Sequence[Record]) -> list[float]:
    """Return the F1 of each record by the scores that the authors published."""
    return [algorithm_score(gold, predicted).f1 for gold, predicted in records]


SCORERS: dict[str, Callable[[Sequence[Record]], list[float]]] = {
    "published": published,
    "ours": ours,
}


def recorded(sample: Path) -> Iterator[Record]:
    """Yield the records of the sample, with the memories that the recorded model gave."""
    for track, place in zip(TRACKS, ("memory_items", "answer"), strict=True):
        gold = sample / "benchmark_data" / "dev" / track / "reference_output.jsonl"
        known = {row["benchmark_id"]: row["gold"][place] for row in lines(gold)}
        for row in lines(sample / "recorded" / track / "records.jsonl"):
            said = (row["model_output"] or {}).get("memory_items") or []
            yield read_gold(known[row["benchmark_id"]]), read_memories(said).memories


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file."""
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def chunks(words: dict[str, str]) -> Iterator[list[Record]]:
    """Yield the records that are to be timed, a part at a time: making them is not."""
    maker, count = Maker(1), int(words["records"])
    if words["sample"]:
        yield list(recorded(Path(words["sample"])))
        return
    if words["a_side"]:
        size = int(words["a_side"])
        yield [maker.record(TRACKS[number % 2], size, size) for number in range(count)]
        return
    made = maker.records(count)
    while chunk := [record for _, record in zip(range(CHUNK), made, strict=False)]:
        yield chunk


def work(words: dict[str, str]) -> None:
    """Time one scorer in this process, and print what it took as JSON."""
    import numpy  # noqa: F401
    from scipy.optimize import linear_sum_assignment  # noqa: F401

    scorer, scores, pairs = SCORERS[words[PART]], [], 0
    scorer(
        [Maker(2).record("task1", 3, 4)]
    )  # what is loaded and compiled once a process is not timed
    wall = cpu = 0.0
    for chunk in chunks(words):
        gc.collect()
        # the records stand for parsed rows; a collector that walks them would be timed on both
        # sides
        gc.freeze()
        clock, spent = time.perf_counter(), time.process_time()
        scores += scorer(chunk)
        wall, cpu = wall + time.perf_counter() - clock, cpu + time.process_time() - spent
        pairs += sum(len(gold) * len(predicted) for gold, predicted in chunk)
        gc.unfreeze()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {
                "wall": wall,
                "cpu": cpu,
                "peak": peak,
                "n": len(scores),
                "pairs": pairs,
                "f1": fmean(scores),
            }
        )
    )


def timed(part: str, **words: object) -> dict[str, Any]:
    """Return what `part` took in a process of its own, with one thread."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    given = [f"{name}={value}" for name, value in {PART: part, **words}.items()]
    command = [sys.executable, str(Path(__file__).resolve()), *given]
    ran = subprocess.run(
        command, check=False, env={**os.environ, **one_thread}, capture_output=True, text=True
    )
    if ran.returncode:
        sys.exit(f"{part}: exit {ran.returncode}; it said:\n{ran.stderr[-1_500:]}")
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def overlap(count: int) -> str:
    """Return the deciles of the shared words of what is made, to compare with the sample's."""
    best = []
    for gold, predicted in (record for record in Maker(1).records(count)):
        texts = [set(memory.value.lower().split()) for memory in predicted]
        own = (set(memory.value.lower().split()) for memory in gold)
        best += [
            max(len(words & text) / len(words | text) for text in texts) for words in own if texts
        ]
    best.sort()
    return " ".join(f"{best[round(place * (len(best) - 1) / 10)]:.2f}" for place in range(11))


def rows(
    real: dict[str, dict[str, dict[str, Any]]], long: dict[int, dict[str, dict[str, Any]]]
) -> list[list[str]]:
    """Return the heading and the rows of the table."""
    cells = [["what", "n", "scorer", "ms a record", "CPU s", "wall s", "peak MB", "×", "exponent"]]
    for what, found in real.items():
        for part, figures in found.items():
            times = found["published"]["cpu"] / figures["cpu"]
            each = 1000 * figures["cpu"] / figures["n"]
            spent = [
                f"{each:.3f}",
                f"{figures['cpu']:.2f}",
                f"{figures['wall']:.2f}",
                f"{figures['peak']:.0f}",
            ]
            cells.append([what, f"{figures['n']:,}", part, *spent, f"{times:.1f}", ""])
    for part in SCORERS:
        before: tuple[int, float] | None = None
        for size, both in long.items():
            figures = both[part]
            each = figures["cpu"] / figures["n"]
            grown = (
                f"{math.log(each / before[1]) / math.log(size / before[0]):.2f}" if before else ""
            )
            spent = [
                f"{1000 * each:.2f}",
                f"{figures['cpu']:.2f}",
                f"{figures['wall']:.2f}",
                f"{figures['peak']:.0f}",
            ]
            times = both["published"]["cpu"] / both["published"]["n"] / each
            cells.append(
                [f"{size} a side", f"{figures['n']:,}", part, *spent, f"{times:.1f}", grown]
            )
            before = size, each
    return cells


def section(
    cells: list[list[str]], promised: list[Bound], notes: list[str], records: int
) -> Section:
    """Return the section of the page."""
    text = (
        "The published scorer (`scoring=authors-v1`) beside ours, from parsed records to the F1 of "
        "every record.\nPublished: each gold with each predicted memory by label path, type, "
        "confidence and value, the value by the words it\nshares and by `difflib.SequenceMatcher`, "
        "folded anew for every pair; then greedily from the best pair down. Ours\n"
        "(`judge=lexical`): identical values first, then weighted pieces of words, compared only "
        "for pairs that the words of the\ngold value, sought in the prediction, do not rule out; "
        "then the best one-to-one set. They are two measures; both are\nwhat a user waits for. "
        "Records have the sizes, the lengths and the overlap of the AlpsBench sample; their text "
        "is made\nup. One process and one thread each; loading modules is not timed. × is against "
        "the published scorer by CPU seconds,\nthe exponent is the growth since the row above."
    )
    command = f"python bench/matching.py records={records} write=yes"
    return Section("matching", "Matching", text, promised, command, cells, notes)


def main() -> None:
    """Measure, print, write, and compare with the bound."""
    words = read_words(sys.argv[1:], WORDS)
    records = whole(words, "records")
    if words[PART]:
        work(words)
        return
    found = {part: timed(part, records=records) for part in SCORERS}
    long = {
        size: {
            part: timed(part, records=count * (1 if part == "published" else 5), a_side=size)
            for part in SCORERS
        }
        for size, count in LONG.items()
    }
    by_cpu, by_wall = (
        found["published"][clock] / found["ours"][clock] for clock in ("cpu", "wall")
    )
    times = min(by_cpu, by_wall)
    measured = f"{times:.1f} × (CPU {by_cpu:.1f}, wall {by_wall:.1f})"
    promised = [
        Bound(
            f"{records:,} records of real sizes: against the published scorer",
            f"≥ {TIMES:g} ×",
            measured,
            times >= TIMES,
        )
    ]
    real = {"real sizes": found}
    if sample := sample_folder():
        real["the sample's"] = {part: timed(part, sample=sample) for part in SCORERS}
    cells = rows(real, long)
    f1 = ", ".join(f"{part} {figures['f1']:.3f}" for part, figures in found.items())
    notes = [
        f"{found['ours']['pairs']:,} pairs of memories; mean F1: {f1}",
        "Shared words of a gold value and the likest prediction, deciles: "
        f"{overlap(min(records, 1000))}",
    ]
    for theirs, our in [(each["published"], each["ours"]) for each in list(real.values())[1:]]:
        notes.append(
            f"On the {our['n']} records of the sample itself, which the bound is not about, it is "
            f"{theirs['cpu'] / our['cpu']:.1f} ×: more of their pairs are near enough to be "
            "compared in full"
        )
    misses = missed(promised)
    print(terminal(cells), *notes, *(misses or [f"Every bound is held: {measured}."]), sep="\n")
    if words["write"]:
        write_section(section(cells, promised, notes, records))
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
