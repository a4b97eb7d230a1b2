"""Made-up submissions: systems of growing skill under two judges, on tracks of the samples."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from alps.leaderboard.gold_data import SampleTrack, own_track
from alps.leaderboard.submission import checksum_of
from alps.tasks import all_tracks

KINDS = ("llm", "llm", "llm", "memory", "retriever", "program", "recorded")
JUDGES = (
    {"id": "0a1b2c3d4e5f", "judge": "openai/judge-2026-01-01"},
    {"id": "f5e4d3c2b1a0", "judge": "other/judge@2"},
)
UNKNOWN = "0" * 64
Row = dict[str, Any]


def synthesise(
    out: Path, count: int, *, seed: int = 0, tracks: Sequence[str] | None = None
) -> None:
    """Write `count` made-up submissions on `tracks`, or on all of them.

    Systems of growing skill, two judges.
    """
    # What a memory system kept and found is not made up here.
    makeable = [name for name, task in all_tracks().items() if task.name in _MAKE]
    known = [own_track(name) for name in tracks or makeable]
    for n in range(count):
        generator = np.random.default_rng((seed, n))
        _write(
            out,
            n,
            n / max(count - 1, 1),
            [track for track in known if track is not None],
            generator,
        )


def _write(
    out: Path, n: int, skill: float, tracks: Sequence[SampleTrack], generator: np.random.Generator
) -> None:
    slug, kind = f"system-{n:03}", KINDS[n % len(KINDS)]
    judge = JUDGES[0] if n % 10 else JUDGES[1]
    system = {
        "kind": kind,
        "model": f"maker/model-{n}",
        "snapshot": None,
        "settings": {"temperature": 0},
    }
    card: Row = {
        "format": 1,
        "slug": slug,
        "name": f"Model {n}",
        "org": f"Maker {n % 7}",
        "url": None,
        "submitted": f"2026-{1 + n % 11:02}-{1 + n % 28:02}",
        "alps": "0.1.0",
        "notes": None,
        "system": {**system, "open_weights": (True, False, None)[n % 3]},
        "runs": [_run(judge, n)],
        "tracks": {},
    }
    words = _own_words(generator)
    for track in tracks:
        lines = list(_records(track, skill, generator, judge["id"], words))
        files = {}
        for stage, place in (("predictions", 0), ("verdicts", 1), ("scores", 2)):
            data = "".join(
                f"{json.dumps(line[place], ensure_ascii=False)}\n" for line in lines
            ).encode()
            path = out / slug / track.task.track / f"{stage}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            files[stage] = {
                "sha256": hashlib.sha256(data).hexdigest(),
                "bytes": len(data),
                "rows": len(lines),
            }
        card["tracks"][track.task.track] = _track(track, [line[2] for line in lines], judge, files)
    card["checksum"] = checksum_of(card)
    (out / slug / "submission.json").write_text(f"{json.dumps(card, indent=1)}\n", encoding="utf-8")


def _own_words(generator: np.random.Generator) -> str:
    """Return what only one of the systems says in each of its answers.

    Systems with the same answers are one.
    """
    letters = generator.spawn(1)[0].choice(list("abcdefghijklmnopqrstuvwxyz"), (24, 6))
    return " ".join("".join(word) for word in letters)


def _run(judge: Mapping[str, str], n: int) -> Row:
    cost = None if n % 4 == 0 else round(0.31 * (n + 1), 4)
    calls = {
        "http": 550,
        "cached": 0,
        "prompt_tokens": 900_000 + n,
        "completion_tokens": 70_000 + 3 * n,
    }
    return {
        "settings": {"task": "all", "seed": 0},
        "prompts": {"extraction/2": UNKNOWN},
        "data": {"name": "samples", "split": "dev", "commit": None, "public": True},
        "judge": dict(judge),
        "calls": {**calls, "cost": cost, "unpriced": 550 if cost is None else 0},
        "seconds": None if n % 5 == 0 else 600.5 + n,
    }


def _track(track: SampleTrack, rows: Sequence[Row], judge: Mapping[str, str], files: Row) -> Row:
    names = dict.fromkeys(name for row in rows for name in row["scores"])
    counts: dict[str, int] = {}
    for row in rows:
        for name, count in row["counts"].items():
            counts[name] = counts.get(name, 0) + count
    scores = {
        name: _score([row["scores"][name] for row in rows if name in row["scores"]], len(rows))
        for name in names
    }
    if track.task.name == "utilization":
        lead = track.task.headline.name
        scores[lead]["corrected"] = _corrected(scores[lead], len(rows))
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
        "judge": judge["judge"],
        "comparable": True,
        "scores": scores,
        "counts": counts,
        "floors": {
            "floor/made-up": {
                "lead": next(iter(names)),
                "judge": judge["judge"],
                "scores": _floor(scores),
            }
        },
        "files": files,
    }


def _score(values: Sequence[float], total: int) -> Row:
    mean, spread = float(np.mean(values)), 1.96 * float(np.std(values)) / len(values) ** 0.5
    top = 5.0 if max(values) > 1 else 1.0
    row: Row = {
        "value": mean,
        "low": max(mean - spread, 0.0),
        "high": min(mean + spread, top),
        "n": len(values),
    }
    return row


def _floor(scores: Mapping[str, Row]) -> Row:
    return {
        name: {"value": 0.02, "low": 0.0, "high": 0.05, "n": score["n"]}
        for name, score in scores.items()
    }


def _corrected(score: Row, judged: int) -> Row:
    moved = {name: 0.95 * score[name] for name in ("value", "low", "high")}
    rest = {
        "labelled": 60,
        "judged": judged,
        "n": judged,
        "outside": False,
        "calibration": {"made-up": UNKNOWN},
    }
    return {"method": "ppi", "status": "corrected", **moved, **rest}


def _records(
    track: SampleTrack, skill: float, generator: np.random.Generator, judge: str, words: str
) -> Iterator[tuple[Row, Row, Row]]:
    """Yield prediction, verdict and score of every sample."""
    for name, sample in track.samples.items():
        ids = {"benchmark_id": name, "track": track.task.track}
        if generator.random() < 0.02 and track.task.name != "utilization":
            zeros = dict.fromkeys(_METRICS[track.task.name], 0.0)
            failed = {
                **ids,
                "outcome": "refused",
                "repaired": False,
                "prediction": None,
                "raw": None,
            }
            yield (
                failed,
                {**ids, "outcome": "ok"},
                {**ids, "outcome": "refused", "scores": zeros, "counts": {}},
            )
            continue
        answer, verdict, scores, counts = _MAKE[track.task.name](track, sample, skill, generator)
        _say(answer, words)
        yield (
            {**ids, "outcome": "ok", "repaired": False, "prediction": answer, "raw": None},
            {**ids, "outcome": "ok", "judge": judge, **verdict},
            {**ids, "outcome": "ok", "stage": "score", "scores": scores, "counts": counts},
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


def _listed(
    track: SampleTrack, sample: Any, skill: float, generator: np.random.Generator
) -> tuple[Row, Row, Row, Row]:
    gold = sample.gold or ()
    found = generator.random(len(gold)) < 0.15 + 0.7 * skill
    items = [_memory(memory, track) for memory, hit in zip(gold, found, strict=True) if hit]
    items += [_memory(memory, track, "Likes something that nobody said") for memory in gold[:1]]
    hits = int(found.sum())
    golden = [n for n, hit in enumerate(found, start=1) if hit]
    pairs = [
        {"gold": f"g{g}", "predicted": f"p{p}", "relation": "same", "reason": "says the same"}
        for p, g in enumerate(golden, start=1)
    ]
    precision, recall = hits / max(len(items), 1), hits / max(len(gold), 1)
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    noise = generator.random()
    values = (f1, precision, recall, 0.9 * f1, min(1.0, recall + 0.1 * noise))
    counts = {"gold": len(gold), "predicted": len(items), "matched": hits}
    if track.task.name == "update":
        values = (f1, precision, recall, min(1.0, f1 + 0.2), precision)
        counts |= {
            "cell_retain_retain": hits,
            "cell_retain_none": len(gold) - hits,
            "cell_none_add": 1,
        }
    return (
        {"memory_items": items},
        {"pairs": pairs},
        dict(zip(_METRICS[track.task.name], values, strict=True)),
        counts,
    )


def _memory(memory: Any, track: SampleTrack, value: str | None = None) -> Row:
    row: Row = memory.model_dump()
    row |= {"value": value or memory.value, "reasoning": None}
    return {**row, "action": "retain", "replaces": None} if track.task.name == "update" else row


def _retrieved(
    track: SampleTrack, sample: Any, skill: float, generator: np.random.Generator
) -> tuple[Row, Row, Row, Row]:
    pool = [candidate.id for candidate in sample.candidates]
    right = generator.random() < 0.2 + 0.75 * skill - 0.0001 * len(pool)
    others = [
        pool[place] for place in generator.permutation(len(pool))[:10] if pool[place] != sample.gold
    ]
    place = 0 if right else int(generator.integers(1, 9))
    ranking = [*others[:place], sample.gold, *others[place:]]
    answer = {"selected_memory_id": ranking[0], "answer": "", "reason": "", "ranking": ranking}
    values = (float(place < 1), float(place < 5), float(place < 10), 1 / (place + 1))
    counts = {"ranked": 1, "candidates": len(pool)}
    return answer, {}, dict(zip(_METRICS["retrieval"], values, strict=True)), counts


def _answered(
    track: SampleTrack, sample: Any, skill: float, generator: np.random.Generator
) -> tuple[Row, Row, Row, Row]:
    answer = {
        "answer": f"Since you told me so ({sample.gold.memory}), here is what I would do about it."
    }
    lead = track.task.headline.name
    if lead == "ei":
        marks = {
            name: int(np.clip(round(1 + 4 * skill + generator.normal()), 1, 5))
            for name in ("resonation", "expression", "reception")
        }
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


def _chosen(
    track: SampleTrack, sample: Any, skill: float, generator: np.random.Generator
) -> tuple[Row, Row, Row, Row]:
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
