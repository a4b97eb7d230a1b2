"""Files that commands write, held as hashes: whoever moves code sees which file it changed.

Figures are rounded to nine digits, as libraries differ in the last ones. What a machine, a day or a
port decides is left out. `ALPS_GOLDENS=write` writes the hashes anew; the commit says why.
"""

import hashlib
import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.endtoend import run
from tests.loopback import Answer, serve

GOLDENS = ROOT / "tests" / "goldens.json"
WRITE = os.environ.get("ALPS_GOLDENS") == "write"
TASKS = "task=extraction,update,retrieval,utilization"
"""By name: a task more must not change a byte of what is written of these."""
LEFT_OUT = {
    "seconds",
    "at",
    "alps",
    "versions",
    "seconds_per_query",
    "created",
    "date",
    "expires",
    "key",
}
"""Keys of what differs from day to day and from machine to machine."""
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
DAY = re.compile(r"\b20\d\d-\d\d-\d\d\b")


def filled(schema: Any, whole: Any, draw: random.Random, words: list[str]) -> Any:
    """Return what a schema asks for, drawn from the words of the prompt."""
    if "$ref" in schema:
        return filled(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, draw, words)
    if "anyOf" in schema:
        return filled(draw.choice(schema["anyOf"]), whole, draw, words)
    if "enum" in schema:
        return draw.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    if kind == "object":
        parts = schema.get("properties", {}).items()
        return {name: filled(part, whole, draw, words) for name, part in parts}
    if kind == "array":
        return [filled(schema["items"], whole, draw, words) for _ in range(draw.randint(1, 4))]
    if kind in ("integer", "number"):
        return draw.randint(0, 3)
    if kind == "boolean":
        return draw.random() < 0.5
    if kind == "null":
        return None
    start = draw.randrange(max(1, len(words) - 6))
    return " ".join(words[start : start + 6])


def scripted(body: dict[str, Any]) -> Answer:
    """Answer by the question alone, in whatever order questions come; one in nine is prose."""
    asked = json.dumps(body["messages"], sort_keys=True)
    draw = random.Random(hashlib.sha256(asked.encode()).hexdigest())
    words = body["messages"][-1]["content"].split()
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    if schema is None or draw.random() < 1 / 9:
        return Answer("I would say " + " ".join(draw.sample(words, min(12, len(words)))))
    return Answer(json.dumps(filled(schema, schema, draw, words)))


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items() if name not in LEFT_OUT}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return DAY.sub("DAY", ADDRESS.sub("ADDRESS", value)) if isinstance(value, str) else value


def hashed(path: Path) -> str:
    """Return the hash of a file; of a log of calls, whatever their order was."""
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    if path.suffix == ".json":
        text = json.dumps(plain(json.loads(text)))
    elif path.suffix == ".jsonl":
        lines = [json.dumps(plain(json.loads(line))) for line in text.splitlines()]
        text = "\n".join(sorted(lines) if path.name == "calls.jsonl" else lines)
    else:
        text = DAY.sub("DAY", ADDRESS.sub("ADDRESS", text))
    return hashlib.sha256(text.encode("utf-8", errors="surrogateescape")).hexdigest()[:12]


def tree(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashed(path) for path in paths}


def done(folder: Path, *words: str, codes: tuple[int, ...] = (0,), **variables: str) -> str:
    finished = run(folder, *words, **variables)
    assert finished.returncode in codes, finished.stderr
    return finished.stdout


def embedded(folder: Path) -> dict[str, str]:
    """Runs of all tracks by embedded systems under the lexical judge, and their comparison."""
    done(folder, "run", TASKS, "model=rules", "out=rules")
    done(folder, "run", "task=retrieval", "distractors=all", "model=bm25", "out=bm25")
    done(folder, "run", "task=extraction", "model=oracle", "out=oracle")
    compared = done(folder, "compare", "rules", "oracle", "format=json")
    (folder / "compared.json").write_text(compared)
    found: dict[str, str] = {}
    for name in ("rules", "bm25", "oracle"):
        found |= {f"{name}/{path}": value for path, value in tree(folder / name).items()}
    return {**found, "compared.json": hashed(folder / "compared.json")}


def asked(folder: Path) -> dict[str, str]:
    """A run of all tracks whose model and judge are LLMs, judged again by another."""
    with serve(scripted) as server:
        key = {"OPENAI_API_KEY": "not-needed"}
        model = ("model=openai/one", f"api_base={server.url}")
        judge = ("judge=openai/two", f"judge_api_base={server.url}", "max_failures=100%")
        size = ("limit=3", "baseline_records=2", "extras=judge")
        done(folder, "run", TASKS, *model, *judge, *size, "out=llm", **key)
        again = ("judge=openai/three", f"judge_api_base={server.url}", "max_failures=100%")
        done(folder, "score", "llm", *again, "out=again", **key)
    found = {f"llm/{path}": value for path, value in tree(folder / "llm").items()}
    return found | {f"again/{path}": value for path, value in tree(folder / "again").items()}


def calibrated(folder: Path) -> dict[str, str]:
    """A calibration on the items whose answers are known."""
    done(folder, "calibrate", "judge=lexical", "labels=stress", "out=calibrated")
    return {
        name: value for name, value in tree(folder / "calibrated").items() if "html" not in name
    }


def site(folder: Path) -> dict[str, str]:
    """The leaderboard's site of the submissions in the repository."""
    done(folder, "leaderboard", "build", "out=site")
    return tree(folder / "site")


MADE: dict[str, Callable[[Path], dict[str, str]]] = {
    "embedded": embedded,
    "asked": asked,
    "calibrated": calibrated,
    "site": site,
}


@pytest.mark.parametrize("name", MADE)
def test_every_file_is_written_as_before(tmp_path, name):
    files = MADE[name](tmp_path)
    goldens = json.loads(GOLDENS.read_text()) if GOLDENS.exists() else {}
    if WRITE:
        GOLDENS.write_text(json.dumps(goldens | {name: files}, indent=1, sort_keys=True) + "\n")
        pytest.skip(f"{len(files)} hashes of {name} were written")
    moved = {
        path for path in files.keys() | goldens[name] if files.get(path) != goldens[name].get(path)
    }
    assert moved == set()
