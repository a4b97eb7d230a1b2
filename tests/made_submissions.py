"""Made-up submissions: systems of growing skill under two judges, on tracks of the samples."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from alps.leaderboard.checks.files import file_card
from alps.leaderboard.gold_data import SampleTrack, own_track
from alps.leaderboard.submission import STAGES, checksum_of
from alps.tasks import all_tracks

KINDS = ("llm", "llm", "llm", "memory", "retriever", "program", "recorded")
JUDGES = (
    {"id": "0a1b2c3d4e5f", "judge": "openai/judge-2026-01-01"},
    {"id": "f5e4d3c2b1a0", "judge": "other/judge@2"},
)
UNKNOWN = "0" * 64
Row = dict[str, Any]
Made = tuple[Row, Row, Row, Row]
"""An answer, its verdict, its scores and its counts."""


def synthesise(
    out: Path, count: int, *, seed: int = 0, tracks: Sequence[str] | None = None
) -> None:
    """Write `count` made-up submissions on `tracks`, or on all of them.

    Systems of growing skill, two judges.
    """
    # What a memory system kept and found is not made up here.
    makeable = [name for name, task in all_tracks().items() if task.name in _MAKE]
    known = [track for name in tracks or makeable if (track := own_track(name)) is not None]
    for n in range(count):
        generator = np.random.default_rng((seed, n))
        _write(out / f"system-{n:03}", n, n / max(count - 1, 1), known, generator)


def _write(
    folder: Path, n: int, skill: float, tracks: Sequence[SampleTrack], generator: Generator
) -> None:
    judge = JUDGES[0] if n % 10 else JUDGES[1]
    system = {"kind": KINDS[n % len(KINDS)], "model": f"maker/model-{n}", "snapshot": None}
    system |= {"settings": {"temperature": 0}, "open_weights": (True, False, None)[n % 3]}
    card: Row = {"format": 1, "slug": folder.name, "name": f"Model {n}", "org": f"Maker {n % 7}"}
    card |= {"url": None, "submitted": f"2026-{1 + n % 11:02}-{1 + n % 28:02}", "alps": "0.1.0"}
    card |= {"notes": None, "system": system, "runs": [_run(judge, n)], "tracks": {}}
    words = _own_words(generator)
    for track in tracks:
        lines = zip(*_records(track, skill, generator, judge["id"], words), strict=True)
        files, place = {}, folder / track.task.track
        place.mkdir(parents=True)
        for stage, rows in zip(STAGES, lines, strict=False):
            text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
            (place / f"{stage}.jsonl").write_bytes(text.encode())
            files[stage] = file_card(place / f"{stage}.jsonl").model_dump()
        card["tracks"][track.task.track] = _track(track, rows, judge, files)
    card["checksum"] = checksum_of(card)
    (folder / "submission.json").write_text(f"{json.dumps(card, indent=1)}\n", encoding="utf-8")


def _own_words(generator: Generator) -> str:
    """Return what only one of the systems says in each of its answers.

    Systems with the same answers are one.
    """
    letters = generator.spawn(1)[0].choice(list("abcdefghijklmnopqrstuvwxyz"), (24, 6))
    return " ".join("".join(word) for word in letters)


def _run(judge: Mapping[str, str], n: int) -> Row:
    cost = None if n % 4 == 0 else round(0.31 * (n + 1), 4)
    tokens = {"prompt_tokens": 900_000 + n, "completion_tokens": 70_000 + 3 * n}
    calls = {"http": 550, "cached": 0, **tokens}
    return {
        "settings": {"task": "all", "seed": 0},
        "prompts": {"extraction/2": UNKNOWN},
        "data": {"name": "samples", "split": "dev", "commit": None, "public": True},
        "judge": dict(judge),
        "calls": {**calls, "cost": cost, "unpriced": 550 if cost is None else 0},
        "seconds": None if n % 5 == 0 else 600.5 + n,
    }


def _track(track: SampleTrack, rows: Sequence[Row], judge: Mapping[str, str], files: Row) -> Row:
    values: dict[str, list[float]] = {}
    counts = Counter[str]()
    for row in rows:
        counts.update(row["counts"])
        for name, value in row["scores"].items():
            values.setdefault(name, []).append(value)
    scores = {name: _score(own) for name, own in values.items()}
    lead, judged_by = next(iter(values)), {"judge": judge["judge"]}
    floors = {"floor/made-up": {"lead": lead, **judged_by, "scores": _floor(scores)}}
    if track.task.name == "utilization":
        headline = scores[track.task.headline.name]
        headline["corrected"] = _corrected(headline, len(rows))
    failed = sum(row["outcome"] == "refused" for row in rows)
    return {
        "run": 0,
        "task": track.task.name,
        "conditions": {"pools": {"seed": 0}} if track.task.data.pool_size else {},
        "n": len(rows),
        "scored": len(rows),
        "unscored": 0,
        "failed_predictions": {"refused": failed} if failed else {},
        "failed_judgements": {},
        "data_sha256": track.sha256,
        "judge_fingerprint": judge["id"],
        **judged_by,
        "comparable": True,
        "scores": scores,
        "counts": counts,
        "floors": floors,
        "files": files,
    }


def _score(values: Sequence[float]) -> Row:
    mean, spread = float(np.mean(values)), 1.96 * float(np.std(values)) / len(values) ** 0.5
    low, high = max(mean - spread, 0.0), min(mean + spread, 5.0 if max(values) > 1 else 1.0)
    return {"value": mean, "low": low, "high": high, "n": len(values)}


def _floor(scores: Mapping[str, Row]) -> Row:
    low = {"value": 0.02, "low": 0.0, "high": 0.05}
    return {name: {**low, "n": score["n"]} for name, score in scores.items()}


def _corrected(score: Row, judged: int) -> Row:
    moved = {name: 0.95 * score[name] for name in ("value", "low", "high")}
    rest = {"labelled": 60, "judged": judged, "n": judged, "outside": False}
    about = {"method": "ppi", "status": "corrected"}
    return {**about, **moved, **rest, "calibration": {"made-up": UNKNOWN}}


def _records(
    track: SampleTrack, skill: float, generator: Generator, judge: str, words: str
) -> Iterator[tuple[Row, Row, Row]]:
    """Yield prediction, verdict and score of every sample."""
    for name, sample in track.samples.items():
        ids = {"benchmark_id": name, "track": track.task.track}
        good, refused = {**ids, "outcome": "ok"}, {**ids, "outcome": "refused"}
        if generator.random() < 0.02 and track.task.name != "utilization":
            zeros = dict.fromkeys(_METRICS[track.task.name], 0.0)
            failed = {**refused, "repaired": False, "prediction": None, "raw": None}
            yield failed, good, {**refused, "scores": zeros, "counts": {}}
            continue
        answer, verdict, scores, counts = _MAKE[track.task.name](track, sample, skill, generator)
        _say(answer, words)
        yield (
            {**good, "repaired": False, "prediction": answer, "raw": None},
            {**good, "judge": judge, **verdict},
            {**good, "stage": "score", "scores": scores, "counts": counts},
        )


def _say(answer: Row, words: str) -> None:
    """Let an answer say a system's own words, too."""
    for item in answer.get("memory_items", ()):
        item["value"] = f"{' '.join(item['value'].split()[:3])} {words}"
    if "answer" in answer:
        answer["answer"] = f"{answer['answer']} {words}".strip()
    if "choice" in answer:
        answer["reason"] = words


_METRICS = {
    "extraction": ("f1", "precision", "recall", "f1_strict", "recall_direct"),
    "update": ("f1_changed", "precision_changed", "recall_changed", "f1", "action_accuracy"),
    "personamem": ("accuracy",),
    "retrieval": ("recall_at_1", "recall_at_5", "recall_at_10", "mrr"),
}


def _listed(track: SampleTrack, sample: Any, skill: float, generator: Generator) -> Made:
    gold = sample.gold or ()
    found = generator.random(len(gold)) < 0.15 + 0.7 * skill
    items = [_memory(memory, track) for memory, hit in zip(gold, found, strict=True) if hit]
    items += [_memory(memory, track, "Likes something that nobody said") for memory in gold[:1]]
    hits = int(found.sum())
    golden = [n for n, hit in enumerate(found, start=1) if hit]
    same = {"relation": "same", "reason": "says the same"}
    pairs = [{"gold": f"g{g}", "predicted": f"p{p}", **same} for p, g in enumerate(golden, start=1)]
    precision, recall = hits / max(len(items), 1), hits / max(len(gold), 1)
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    noise = generator.random()
    values = (f1, precision, recall, 0.9 * f1, min(1.0, recall + 0.1 * noise))
    counts = {"gold": len(gold), "predicted": len(items), "matched": hits}
    if track.task.name == "update":
        values = (f1, precision, recall, min(1.0, f1 + 0.2), precision)
        counts |= {"cell_retain_retain": hits, "cell_retain_none": len(gold) - hits}
        counts["cell_none_add"] = 1
    scores = dict(zip(_METRICS[track.task.name], values, strict=True))
    return {"memory_items": items}, {"pairs": pairs}, scores, counts


def _memory(memory: Any, track: SampleTrack, value: str | None = None) -> Row:
    row: Row = memory.model_dump()
    row |= {"value": value or memory.value, "reasoning": None}
    return {**row, "action": "retain", "replaces": None} if track.task.name == "update" else row


def _retrieved(track: SampleTrack, sample: Any, skill: float, generator: Generator) -> Made:
    pool = [candidate.id for candidate in sample.candidates]
    right = generator.random() < 0.2 + 0.75 * skill - 0.0001 * len(pool)
    drawn = [pool[place] for place in generator.permutation(len(pool))[:10]]
    others = [name for name in drawn if name != sample.gold]
    place = 0 if right else int(generator.integers(1, 9))
    ranking = [*others[:place], sample.gold, *others[place:]]
    answer = {"selected_memory_id": ranking[0], "answer": "", "reason": "", "ranking": ranking}
    values = (float(place < 1), float(place < 5), float(place < 10), 1 / (place + 1))
    counts = {"ranked": 1, "candidates": len(pool)}
    return answer, {}, dict(zip(_METRICS["retrieval"], values, strict=True)), counts


def _answered(track: SampleTrack, sample: Any, skill: float, generator: Generator) -> Made:
    told = f"Since you told me so ({sample.gold.memory}), here is what I would do about it."
    answer, lead = {"answer": told}, track.task.headline.name
    if lead == "ei":
        marks = {}
        for name in ("resonation", "expression", "reception"):
            marks[name] = int(np.clip(round(1 + 4 * skill + generator.normal()), 1, 5))
        mean = sum(marks.values()) / 3
        scores = {"ei": mean, f"ei_{sample.gold.language or 'en'}": mean, **marks}
        return (
            answer,
            {"rubric": "ei", "marks": marks, "reason": "made up"},
            scores,
            {"enforced": 0},
        )
    met = bool(generator.random() < 0.2 + 0.7 * skill)
    scores = {lead: float(met), **({sample.gold.rubric: float(met)} if lead == "pf" else {})}
    verdict = {"rubric": sample.gold.rubric, "marks": {"met": met}, "reason": "made up"}
    return answer, verdict, scores, {"enforced": 0}


def _chosen(track: SampleTrack, sample: Any, skill: float, generator: Generator) -> Made:
    right = generator.random() < 0.25 + 0.7 * skill
    wrong = [letter for letter in "abcd" if letter != sample.gold]
    choice = sample.gold if right else wrong[int(generator.integers(3))]
    return {"choice": choice, "reason": ""}, {}, {"accuracy": float(right)}, {}


_MAKE = {
    "extraction": _listed,
    "update": _listed,
    "retrieval": _retrieved,
    "utilization": _answered,
    "personamem": _chosen,
}
