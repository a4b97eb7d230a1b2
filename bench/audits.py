"""Simulated audits on recorded answers of real models: how often intervals hold the truth.

    python bench/audits.py [draws=1000] [write=yes]

The answers are those of seven models on the sessions beside the checkout (`shared/alpsbench_full`,
or what `ALPS_FULL` names), the cheap judge is `lexical`. The truth is what the AlpsBench authors'
judge said, where it judged (`shared/alpsbench_sample`), and else that of a scripted judge: it calls
a pair the same with the frequency with which theirs did at that lexical similarity, and always
decides alike. Every record is judged by both once; then sessions are drawn, and audits of them,
thousands of times, and each goes through the function that runs use.

Exits 1 where a bound is missed; `write=yes` writes the section of bench/RESULTS.md.
"""

import asyncio
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from document import Bound, Section, finish
from numpy.typing import NDArray
from words import full_folder, read_words, rows, sample_folder, whole

from alps.ext.adapters.recorded_verdicts import RecordedJudge
from alps.ext.audits.corrections import powered_difference
from alps.ext.audits.draws import LEAST
from alps.ext.audits.records import Pairs, corrected_score
from alps.judges.base import Judge, Judgement, MatchQuestion, Pair, Question, Relation
from alps.judges.embedded import EmbeddedJudge, LexicalJudge
from alps.judges.matching import gold_items
from alps.rows import Figure
from alps.schema import Prediction
from alps.similarity import similarity
from alps.tasks.base import JUST_THE_SCORE
from alps.tasks.registry import load_task

Floats = NDArray[np.float64]
MATCHES = frozenset({"EQUIVALENT", "LABEL_WRONG", "TYPE_WRONG", "UNDERGENERAL"})
BANDS = 10
SIZES, SHARES = (84, 300, 654), (0.1, 0.2, 0.3)
LOWEST, HIGHEST = 0.93, 0.97
TOGETHER = 3
"""Answers of a session, where sessions have several: those of three models."""
SEED = 20_251
TASK = load_task("extraction")


class ScriptedJudge(EmbeddedJudge):
    """Calls a pair the same as often as a recorded judge did at that lexical similarity."""

    name = "scripted"
    relations: frozenset[Relation] = frozenset({"same"})
    comparable = False

    def __init__(self, frequencies: Floats) -> None:
        self.fingerprint: Mapping[str, Any] = {"judge": self.name}
        self._frequencies = frequencies

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Name the pairs whose own number, made of both values, is below the frequency."""
        if not isinstance(question, MatchQuestion):
            return question.refused()
        pairs = []
        for row, gold in enumerate(question.gold):
            for column, item in enumerate(question.predicted):
                alike = similarity(gold.value, item.value)
                if _number(gold.value, item.value) < self._frequencies[_band(alike)]:
                    pairs.append(Pair(row, column, "same", "scripted", alike))
        return Judgement("ok", tuple(pairs))


def _number(first: str, second: str) -> float:
    digits = hashlib.sha256(f"{first}\x00{second}".encode(errors="surrogatepass")).hexdigest()
    return int(digits[:8], 16) / 2**32


def _band(alike: float) -> int:
    return min(BANDS - 1, int(BANDS * alike))


def _samples(folder: Path) -> dict[str, Any]:
    place = folder / "benchmark_data" / "dev" / "task1"
    golds = {row["benchmark_id"]: row for row in rows(place / "reference_output.jsonl")}
    samples = {}
    for row in rows(place / "model_input.jsonl"):
        samples[row["benchmark_id"]] = TASK.read_sample(row, golds[row["benchmark_id"]])
    return samples


def _prediction(row: dict[str, Any]) -> Prediction:
    output = row["model_output"] or {}
    read = TASK.answer.read({"memory_items": output.get("memory_items") or []})
    about = {"benchmark_id": row["benchmark_id"], "track": TASK.track, "outcome": "ok"}
    return Prediction(**about, prediction=TASK.to_prediction(read.value))


def _f1(sample: Any, prediction: Prediction, judge: Judge) -> float | None:
    verdict = asyncio.run(TASK.judge(sample, prediction, judge, JUST_THE_SCORE))
    if verdict["outcome"] != "ok":
        return None
    return float(TASK.score(sample, prediction, verdict, judge).scores["f1"])


def frequencies(folder: Path) -> Floats:
    """Return how often the recorded judge called a pair a match, by bands of lexical similarity."""
    samples, said, seen = _samples(folder), np.zeros(BANDS), np.zeros(BANDS)
    for row in rows(folder / "recorded" / "task1" / "records.jsonl"):
        if row["judge_output"] is None:
            continue
        matched = set()
        for review in row["judge_output"].get("pair_reviews") or []:
            if review["error_type"] in MATCHES:
                matched.add((review["gold_id"], review["pred_id"]))
        items = (_prediction(row).prediction or {})["memory_items"]
        for gold in gold_items(samples[row["benchmark_id"]].gold):
            for item in items:
                alike = similarity(gold.value, item["value"])
                if alike < 1:  # identical values pair without a judge
                    band = _band(alike)
                    seen[band] += 1
                    said[band] += (gold.memory_id, item["memory_id"]) in matched
    return said / np.maximum(seen, 1)


class Population(NamedTuple):
    """Records that samples are drawn from: cheap and true F1, shape (sessions, answers, 2)."""

    name: str
    values: Floats


def populations(sample: Path, full: Path) -> tuple[list[Population], Population]:
    """Return the records of each model under both judges, and those of the recorded judge."""
    lexical, recorded = LexicalJudge(), RecordedJudge(sample / "recorded/task1/records.jsonl")
    samples, judged = _samples(sample), []
    for row in rows(sample / "recorded/task1/records.jsonl"):
        of, prediction = samples[row["benchmark_id"]], _prediction(row)
        true = _f1(of, prediction, recorded)
        if true is not None:
            judged.append([[_f1(of, prediction, lexical), true]])
    scripted, sessions, models = ScriptedJudge(frequencies(sample)), _samples(full), []
    for folder in sorted((full / "outputs" / "task1").iterdir()):
        values = []
        for row in rows(folder / "records.jsonl"):
            of, prediction = sessions[row["benchmark_id"]], _prediction(row)
            values.append([[_f1(of, prediction, judge) for judge in (lexical, scripted)]])
        models.append(Population(folder.name, np.array(values, dtype=np.float64)))
    return models, Population("recorded verdicts", np.array(judged, dtype=np.float64))


@dataclass(frozen=True)
class AuditOutcome:
    """How corrected intervals did in one setting, over all its populations.

    Attributes:
        kind: What was estimated.
        audited: How many records were audited.
        covered: The share of intervals that held the truth.
        least: The same of the worst population.
        width: The mean width.
        alone: That of intervals of the audited records alone.
    """

    kind: str
    records: int
    share: float
    audited: int
    samples: int
    covered: float
    least: float
    width: float
    alone: float

    @property
    def held(self) -> bool:
        """Whether it covers as often as it says."""
        return LOWEST <= self.covered <= HIGHEST

    @property
    def shorter(self) -> float:
        """By which share the interval is shorter than that of the audits alone."""
        return 1 - self.width / self.alone


class Sampled(NamedTuple):
    """One interval: whether it held the truth, its width, and that of the audits alone."""

    held: bool
    width: float
    alone: float


def sampled(
    generator: np.random.Generator, values: Floats, records: int, share: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """Draw sessions with replacement, and which of them are audited; never below `LEAST` records.

    With replacement: the truth is that of all sessions, of which a run has some.
    """
    answers = values.shape[1]
    sessions = records // answers
    audited = max(-(-LEAST // answers), round(share * sessions))
    drawn = values[generator.integers(0, len(values), sessions)]
    chosen = np.zeros(sessions, dtype=np.bool_)
    chosen[generator.permutation(sessions)[:audited]] = True
    return drawn, chosen


def _pairs(drawn: Floats, chosen: NDArray[np.bool_]) -> Pairs:
    sessions, answers, _ = drawn.shape
    names = np.repeat(np.arange(sessions), answers).tolist()
    audited = np.repeat(chosen, answers)
    true = np.where(audited, drawn[..., 1].ravel(), np.nan)
    return Pairs(drawn[..., 0].ravel(), true, audited, names, (0.0, 1.0))


def score_of(generator: np.random.Generator, values: Floats, records: int, share: float) -> Sampled:
    """Correct the mean F1 of one sample."""
    found = corrected_score(_pairs(*sampled(generator, values, records, share)))
    assert found.alone is not None
    return _sampled(found, found.alone, float(values[..., 1].mean()))


def _sampled(found: Figure, alone: Figure, truth: float) -> Sampled:
    low, high = _ends(found)
    apart = _ends(alone)
    return Sampled(low <= truth <= high, high - low, apart[1] - apart[0])


def _ends(figure: Figure) -> tuple[float, float]:
    """Return the ends of an interval; of none, such as hold nothing."""
    if figure.low is None or figure.high is None:
        return np.inf, np.inf
    return figure.low, figure.high


def slice_of(generator: np.random.Generator, values: Floats, records: int, share: float) -> Sampled:
    """Correct the mean F1 of a third of the records, where that holds enough audits."""
    least = LEAST / share / records
    return score_of(generator, values, round(records * max(1 / 3, min(1.0, least))), share)


def difference_of(
    generator: np.random.Generator, values: Floats, records: int, share: float
) -> Sampled:
    """Correct the difference of two systems on one sample; shape (sessions, 1, 4) of `values`."""
    drawn, chosen = sampled(generator, values, records, share)
    first, second = _pairs(drawn[..., :2], chosen), _pairs(drawn[..., 2:], chosen)
    found = powered_difference(*first.less(second)).estimate
    known = first.where(chosen), second.where(chosen)
    apart = known[0].audit - known[1].audit
    alone = powered_difference(apart, apart * 0, apart[:0], (known[0].sessions, ())).estimate
    return _sampled(found, alone, float((values[..., 1] - values[..., 3]).mean()))


def _kinds(
    models: Sequence[Population], recorded: Population, records: int
) -> Iterator[tuple[str, Any, list[Floats]]]:
    """Yield what is estimated, how, and on which populations."""
    values = [model.values for model in models]
    own = [*values, recorded.values] if records == SIZES[0] else values
    yield "F1", score_of, own
    together, apart = [], []
    for place in range(len(values)):
        near = [values[(place + step) % len(values)] for step in range(TOGETHER)]
        together.append(np.concatenate(near, axis=1))
        apart.append(np.concatenate(near[:2], axis=2))
    yield f"F1, {TOGETHER} answers a session", score_of, together
    yield "difference", difference_of, apart
    yield "slice", slice_of, values


def simulate_audits(draws: int, seed: int) -> tuple[list[AuditOutcome], str | None]:
    """Return how intervals did in every setting, and a note where the data are not there."""
    sample, full = sample_folder(), full_folder()
    if sample is None or full is None:
        return [], "Audits are not simulated: the recorded answers are not beside the checkout"
    models, recorded = populations(sample, full)
    outcomes = []
    for records in SIZES:
        for share in SHARES:
            for number, (kind, estimate, values) in enumerate(_kinds(models, recorded, records)):
                generator = np.random.default_rng([seed, records, round(100 * share), number])
                each = -(-draws // len(values))
                of_each = []
                for one in values:
                    runs = [estimate(generator, one, records, share) for _ in range(each)]
                    of_each.append(np.array(runs, dtype=np.float64))
                outcomes.append(_outcome(kind, records, share, of_each))
    return outcomes, None


def _outcome(kind: str, records: int, share: float, of_each: Sequence[Floats]) -> AuditOutcome:
    every = np.concatenate(of_each)
    covered, width, alone = np.nanmean(every, axis=0).tolist()
    least = min(float(one[:, 0].mean()) for one in of_each)
    audited = max(LEAST, round(share * records))
    found = (kind, records, share, audited, len(every), covered, least, width, alone)
    return AuditOutcome(*found)


def audit_bounds(outcomes: Sequence[AuditOutcome]) -> list[Bound]:
    """Return what corrected intervals promise, and what came of it."""
    bounds = []
    for kind in dict.fromkeys(one.kind for one in outcomes):
        of_kind = [one for one in outcomes if one.kind == kind]
        low, high = min(one.covered for one in of_kind), max(one.covered for one in of_kind)
        limit = f"{LOWEST} to {HIGHEST}"
        held = all(one.held for one in of_kind)
        what = f"audited {kind}: covered in each setting"
        bounds.append(Bound(what, limit, f"{low:.3f} to {high:.3f}", held))
    shorter = [one.shorter for one in outcomes]
    if shorter:
        what = "interval shorter than that of the audits alone"
        measured = f"by {min(shorter):.0%} to {max(shorter):.0%}"
        bounds.append(Bound(what, "in each setting", measured, min(shorter) > 0))
    return bounds


HEAD = ["what", "records", "share", "audits", "covered", "worst", "width", "shorter"]
TEXT = f"""
How many 95 % intervals of corrected F1, of its differences and of its slices hold the truth, over
samples of each setting: sessions are drawn with replacement from recorded answers of seven
models, a share of them is audited, never fewer than {LEAST} records. The cheap judge is
`lexical`; the truth is what the AlpsBench authors' judge said, and else what a scripted judge
says that calls pairs the same as often as theirs did at that lexical similarity. «Shorter»: than
the interval of the audited records alone.
"""


def row(one: AuditOutcome) -> list[str]:
    """Return the row of a setting."""
    size = [one.kind, str(one.records), f"{one.share:.0%}", str(one.audited)]
    found = [f"{one.covered:.3f}", f"{one.least:.3f}", f"{one.width:.3f}"]
    return [*size, *found, f"{one.shorter:.0%}"]


def main() -> None:
    """Simulate, measure, print, and compare with the bounds."""
    words = read_words(sys.argv[1:], {"draws": "1000"})
    draws = whole(words, "draws")
    outcomes, note = simulate_audits(draws, SEED)
    bounds, table = audit_bounds(outcomes), [HEAD, *map(row, outcomes)]
    command, notes = f"python bench/audits.py draws={draws} write=yes", [note] if note else []
    section = Section("audits", "Audits of cheap judges", TEXT, bounds, command, table, notes)
    finish(section, write=words["write"] and outcomes)


if __name__ == "__main__":
    main()
