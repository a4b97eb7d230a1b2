"""Measure our matching beside the published scorer.

    python bench/matching.py [records=10000] [write=yes]

Both score the same records, each in a process of its own with one thread. Records are made by a
seeded generator whose sizes, lengths and shares are those counted in the AlpsBench sample (170
records of tasks 1 and 2 with the recorded model's output). The sample's own records are timed as
well, where it is here (`ALPS_SAMPLE` names its folder). Prints seconds and memory; exits 1 where
a bound is missed.
"""

import asyncio
import gc
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

from document import Bound, Section, finish
from processes import taken
from words import read_words, sample_folder, whole
from words import rows as file_rows

from alps.ext.published.authors_v1 import algorithm_score
from alps.judges.embedded import LexicalJudge
from alps.judges.matching import assign, match_memories
from alps.schema import CANONICAL_LABELS, Memory, read_gold, read_memories
from alps.tasks.extraction import precision_recall_f1

TIMES = 20.0
WORDS = {"records": "10000", "part": "", "sample": ""}
CHUNK = 500
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

_FRAME = """
user the prefers to and in of for with a interested likes wants is has on from about asks uses as or
such specific detailed seeking help
"""
_STARTS = "b br c ch d dr f fl g gr h j k l m n p pl pr qu r s sh st t th tr v w"
FRAME, STARTS = tuple(_FRAME.split()), tuple(_STARTS.split(" "))
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
        made = []
        for n in kinds:
            made.append("".join(spell.choice(STARTS) + spell.choice(VOWELS) for _ in range(n)))
        self.words = [word + spell.choice(ENDS) for word in made]
        shares = (1 / (rank + self.FLATNESS) for rank in range(self.VOCABULARY))
        self.weights = list(accumulate(shares))

    def value(
        self, deciles: Sequence[int], start: Sequence[str] = (), *, own_script: bool | None = None
    ) -> str:
        """Return a value whose length falls into the `deciles`, with the words of `start`."""
        length = self.spread(deciles)
        if own_script or (own_script is None and self.random.random() < OWN_SCRIPT):
            count = max(2, int(length / 4) - len("".join(start)))
            body = "".join(self.random.choice(HAN) for _ in range(count))
            return self.random.choice(HAN_FRAMES) + "".join(start) + body
        words = list(start)
        year = str(self.random.randint(2, 2030))
        for extra, share in (("not", NEGATED), (year, NUMBERED), ("'s", POSSESSIVE)):
            if self.random.random() < share:
                words.append(self.word() + extra if extra == "'s" else extra)
        if self.random.random() < ACRONYM:
            words.append(self.word()[:3].upper())
        if self.random.random() < ACCENTED:
            words.append(f"{self.word()}é")
        while sum(map(len, words)) + len(words) - 1 < length:
            framed = self.random.random() < FRAME_WORDS
            words.append(self.random.choice(FRAME) if framed else self.word())
        self.random.shuffle(words)
        return " ".join(map(self.spelled, words))

    def spelled(self, word: str) -> str:
        """Return `word` as it may stand in a sentence."""
        capital = not word.isupper() and self.random.random() < CAPITALS
        shown = word.capitalize() if capital else word
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
        count = min(len(words), round(2 * share / (1 + share) * len(words)))
        return self.value(deciles, self.random.sample(words, count), own_script=False)

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
        types = ("direct", "direct", "direct", "indirect", "indirect")
        made = []
        for number, value in enumerate(values, start=1):
            row = {**empty, "memory_id": f"m{number}", "type": choose(types), "value": value}
            row |= {"label": choose(CANONICAL_LABELS), "confidence": choose((0.95, 0.8, 0.65, 0.5))}
            made.append(Memory.model_validate(row))
        return tuple(made)

    def records(self, count: int) -> Iterator[Record]:
        """Yield `count` records of real sizes, of both tracks in turn."""
        tables = {track: list(map(_size, text.split())) for track, text in SIZES.items()}
        for number in range(count):
            track = TRACKS[number % 2]
            sizes = [size[:2] for size in tables[track]]
            shares = [size[2] for size in tables[track]]
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


Scorer = Callable[[Sequence[Record]], list[float]]
SCORERS: dict[str, Scorer] = {"published": published, "ours": ours}


def recorded(sample: Path) -> Iterator[Record]:
    """Yield the records of the sample, with the memories that the recorded model gave."""
    for track, place in zip(TRACKS, ("memory_items", "answer"), strict=True):
        gold = sample / "benchmark_data" / "dev" / track / "reference_output.jsonl"
        known = {row["benchmark_id"]: row["gold"][place] for row in file_rows(gold)}
        for row in file_rows(sample / "recorded" / track / "records.jsonl"):
            said = (row["model_output"] or {}).get("memory_items") or []
            yield read_gold(known[row["benchmark_id"]]), read_memories(said).memories


def chunks(words: dict[str, str]) -> Iterator[list[Record]]:
    """Yield the records that are to be timed, a part at a time: making them is not."""
    maker, count = Maker(1), int(words["records"])
    if words["sample"]:
        yield list(recorded(Path(words["sample"])))
        return
    made = maker.records(count)
    while chunk := [record for _, record in zip(range(CHUNK), made, strict=False)]:
        yield chunk


def work(words: dict[str, str]) -> None:
    """Time one scorer in this process, and print what it took as JSON."""
    import numpy  # noqa: F401
    from scipy.optimize import linear_sum_assignment  # noqa: F401

    scorer, scores, pairs = SCORERS[words[PART]], [], 0
    # What is loaded and compiled once a process is not timed.
    scorer([Maker(2).record("task1", 3, 4)])
    wall = cpu = 0.0
    for chunk in chunks(words):
        gc.collect()
        # The records stand for parsed rows; a collector that walks them would be timed, too.
        gc.freeze()
        clock, spent = time.perf_counter(), time.process_time()
        scores += scorer(chunk)
        wall, cpu = wall + time.perf_counter() - clock, cpu + time.process_time() - spent
        pairs += sum(len(gold) * len(predicted) for gold, predicted in chunk)
        gc.unfreeze()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"wall": wall, "cpu": cpu, "peak": peak, "n": len(scores), "pairs": pairs}
    print(json.dumps({**found, "f1": fmean(scores)}))


def timed(part: str, **words: object) -> dict[str, Any]:
    """Return what `part` took in a process of its own, with one thread."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    given = [f"{name}={value}" for name, value in {PART: part, **words}.items()]
    command = [str(Path(__file__).resolve()), *given]
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = json.loads(taken(command, Path(folder), **one_thread).said)
    return found


def rows(real: dict[str, dict[str, dict[str, Any]]]) -> list[list[str]]:
    """Return the heading and the rows of the table."""
    cells = [["what", "n", "scorer", "ms a record", "CPU s", "wall s", "peak MB", "×"]]
    for what, found in real.items():
        for part, figures in found.items():
            times = found["published"]["cpu"] / figures["cpu"]
            each = 1000 * figures["cpu"] / figures["n"]
            spent = f"{each:.3f} {figures['cpu']:.2f} {figures['wall']:.2f} {figures['peak']:.0f}"
            shown = [*spent.split(), f"{times:.1f}"]
            cells.append([what, f"{figures['n']:,}", part, *shown])
    return cells


TEXT = """
The published scorer (`scoring=authors-v1`) beside ours, from parsed records to the F1 of every
record. Published: each gold with each predicted memory by label path, type, confidence and value,
the value by the words it shares and by `difflib.SequenceMatcher`, folded anew for every pair;
then greedily from the best pair down. Ours (`judge=lexical`): identical values first, then
weighted pieces of words, compared only for pairs that the words of the gold value, sought in the
prediction, do not rule out; then the best one-to-one set. They are two measures; both are what a
user waits for. Records have the sizes, the lengths and the overlap of the AlpsBench sample; their
text is made up. One process and one thread each; loading modules is not timed. × is against the
published scorer by CPU seconds.
"""


def main() -> None:
    """Measure, print, write, and compare with the bound."""
    words = read_words(sys.argv[1:], WORDS)
    records = whole(words, "records")
    if words[PART]:
        work(words)
        return
    real = {"real sizes": {part: timed(part, records=records) for part in SCORERS}}
    if sample := sample_folder():
        real["the sample's"] = {part: timed(part, sample=sample) for part in SCORERS}
    found = real["real sizes"]
    by_cpu, by_wall = (found["published"][of] / found["ours"][of] for of in ("cpu", "wall"))
    what = f"{records:,} records of real sizes: against the published scorer"
    form = f"{{:.1f}} × (CPU {by_cpu:.1f}, wall {by_wall:.1f})"
    measured = form.format(min(by_cpu, by_wall))
    bound = Bound(what, f"≥ {TIMES:g} ×", measured, min(by_cpu, by_wall) >= TIMES)
    f1 = ", ".join(f"{part} {figures['f1']:.3f}" for part, figures in found.items())
    notes = [f"{found['ours']['pairs']:,} pairs of memories; mean F1: {f1}"]
    for theirs, our in [(each["published"], each["ours"]) for each in list(real.values())[1:]]:
        notes.append(
            f"On the {our['n']} records of the sample itself, which the bound is not about, it is "
            f"{theirs['cpu'] / our['cpu']:.1f} ×: more of their pairs are near enough to be "
            "compared in full"
        )
    command = f"python bench/matching.py records={records} write=yes"
    about = ("matching", "Matching", TEXT, [bound], command, rows(real), notes)
    finish(Section(*about), write=words["write"])


if __name__ == "__main__":
    main()
