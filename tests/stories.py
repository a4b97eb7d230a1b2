"""Short stories of commands, carried out once a session: what they write and what they print is
compared by test_goldens.py and test_printed.py.

Everything goes through the command, as a user has it; what lies beside is written by hand.
"""

import hashlib
import json
import os
import random
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.endtoend import rows, run
from tests.loopback import Answer, Script, serve

PRINTED = "printed"
"""The folder of a story that holds what its commands printed."""
DONE = ".done"


@dataclass(frozen=True)
class Alps:
    """One command.

    `{server}` in its words is the address of the scripted server; `prints` names the printed text
    that it is part of, and `into` a file that its stdout is written to.
    """

    words: str
    prints: str = ""
    code: int = 0
    into: str = ""


Step = Alps | Callable[[Path], object]


@dataclass(frozen=True)
class Story:
    """Steps in one folder, and the folders whose files are held as hashes."""

    steps: tuple[Step, ...]
    written: tuple[str, ...] = ()
    script: Script = field(default=lambda _: Answer("not asked"))

    def printed(self) -> list[str]:
        """Return the names of the printed texts, each once, in order."""
        names = [step.prints for step in self.steps if isinstance(step, Alps) and step.prints]
        return list(dict.fromkeys(names))


def carried_out(name: str, factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a story; workers of pytest-xdist share it, and one carries it out."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = base / "stories" / name
    folder.parent.mkdir(exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / DONE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            (folder / PRINTED).mkdir(parents=True)
            carry_out(STORIES[name], folder)
            (folder / DONE).touch()
    return folder


def carry_out(story: Story, folder: Path) -> None:
    """Take every step of a story in a folder."""
    with serve(story.script) as server:
        for step in story.steps:
            if isinstance(step, Alps):
                _command(step, folder, server.url)
            else:
                step(folder)


def _command(step: Alps, folder: Path, url: str) -> None:
    words = [word.replace("{server}", url) for word in shlex.split(step.words)]
    finished = run(folder, *words, OPENAI_API_KEY="not-needed")
    said = f"$ alps {step.words}\n{finished.stdout}"
    said += f"[stderr]\n{finished.stderr}" if finished.stderr else ""
    said += f"[exit {finished.returncode}]\n" if finished.returncode else ""
    assert finished.returncode == step.code, said
    if step.into:
        (folder / step.into).write_text(finished.stdout, encoding="utf-8")
    if step.prints:
        with (folder / PRINTED / f"{step.prints}.txt").open("a", encoding="utf-8") as file:
            file.write(said)


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


def payload_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON object in the question to a judge."""
    text = body["messages"][1]["content"]
    return json.JSONDecoder().raw_decode(text, text.index("{"))[0]


def generous(body: dict[str, Any]) -> Answer:
    """Find every gold memory the same as the first prediction that shares a longer word."""
    payload, pairs = payload_of(body), []
    for gold in payload["gold"]:
        words = {word for word in gold["value"].lower().split() if len(word) > 4}
        for item in payload["predicted"]:
            if words & set(item["value"].lower().split()):
                names = {"gold": gold["id"], "predicted": item["id"]}
                pairs.append({"reason": "a word", **names, "relation": "same"})
                break
    return Answer(json.dumps({"pairs": pairs}))


def strict_or_mild(body: dict[str, Any]) -> Answer:
    """Rate answers by their text alone; mild models and lenient wordings are content with more."""
    content = payload_of(body)["response"]
    mark = int(hashlib.sha256(content.encode()).hexdigest(), 16) % 4
    lenient = body["model"] == "mild" or body["messages"][0]["content"].startswith("Be lenient")
    verdict = "met" if mark < 2 + lenient else "not_met"
    return Answer(json.dumps({"reason": "so it reads", "verdict": verdict}))


def label_answers(folder: Path) -> None:
    """Label what was drawn: anna by a rule, ben as anna but for every fifth item."""
    labels = []
    for number, item in enumerate(rows(folder / "labels" / "items.jsonl")):
        met = int(hashlib.sha256(item["item_id"].encode()).hexdigest(), 16) % 3 > 0
        for person, label in (("anna", met), ("ben", met ^ (number % 5 == 0))):
            labels.append({"item_id": item["item_id"], "annotator": person, "label": int(label)})
    text = "".join(json.dumps(row) + "\n" for row in labels)
    (folder / "labels" / "labels.jsonl").write_text(text)


TASKS = "task=extraction,update,retrieval,utilization"
"""By name: a task more must not change a byte of what is written of these."""
JUDGED = "judge_api_base={server} max_failures=100%"
MODEL = "model=openai/one api_base={server}"
AUDIT = "audit_judge=openai/auditor audit_judge_api_base={server} audit=80%"
DETAILS = "org=Graz url=https://example.org/rules notes='One line.' date=2026-01-31"
PA = "task=utilization ability=pa model=rules judge=openai/strict judge_api_base={server}"

STORIES = {
    # All tracks by embedded systems under the lexical judge, and their comparison.
    "embedded": Story(
        (
            Alps(f"run {TASKS} model=rules out=rules"),
            Alps("run task=retrieval distractors=all model=bm25 out=bm25"),
            Alps("run task=extraction model=oracle out=oracle"),
            Alps("compare rules oracle format=json", into="compared.json"),
        ),
        written=("rules", "bm25", "oracle", "compared.json"),
    ),
    # All tracks under LLMs as model and judge, judged again by another.
    "asked": Story(
        (
            Alps(
                f"run {TASKS} {MODEL} judge=openai/two {JUDGED} limit=3 baseline_records=2 "
                "extras=judge out=llm"
            ),
            Alps(f"score llm judge=openai/three {JUDGED} out=again"),
        ),
        written=("llm", "again"),
        script=scripted,
    ),
    # A calibration on the items whose answers are known.
    "calibrated": Story(
        (Alps("calibrate judge=lexical labels=stress out=calibrated"),),
        written=("calibrated",),
    ),
    # The leaderboard's site of the submissions in the repository.
    "site": Story((Alps("leaderboard build out=site"),), written=("site",)),
    # Labels of two people on answers of a run, and its scores corrected by them.
    "corrected": Story(
        (
            Alps(f"run {PA} baseline_records=4 out=mine"),
            Alps("labels draw mine n=16 out=labels"),
            label_answers,
            Alps(
                "calibrate judge=openai/strict judge_api_base={server} labels=labels out=known-today"
            ),
            Alps("score mine calibration=known-today"),
        ),
        written=("mine", "known-today"),
        script=strict_or_mild,
    ),
    # A memory system at two sizes of the context, and one that is told to forget.
    "remembered": Story(
        (
            Alps(
                "run task=personamem model=rules memory=bm25 max_context_tokens=256,1k size=32k "
                "limit=12 out=sizes"
            ),
            Alps("run task=forgetting model=rules memory=bm25 limit=6 out=forgets"),
        ),
        written=("sizes", "forgets"),
    ),
    # Two thirds of a run and the whole of it.
    "sharded": Story(
        (
            Alps("run task=extraction,update model=rules shard=1/2 out=first"),
            Alps("run task=extraction,update model=rules shard=2/2 out=second"),
            Alps("merge whole first second"),
        ),
        written=("first", "whole"),
    ),
    # A submission of each kind, verified, judged again and on a site.
    "submitted": Story(
        (
            Alps("run task=extraction model=rules out=plain"),
            Alps(f"submit plain name=Rules {DETAILS} out=sent/plain"),
            Alps(f"score plain {AUDIT}"),
            Alps(f"submit plain name=Twice {DETAILS} out=sent/audited"),
            Alps("data personas n=2 size=32k out=personas"),
            Alps(
                "run task=personamem model=rules memory=bm25 k=2 size=32k data=personas out=memory"
            ),
            Alps("beside memory rows=none,placebo"),
            Alps(f"submit memory name=Memory {DETAILS} data=personas out=sent/memory"),
            Alps("verify sent/plain format=json", into="plain.json"),
            Alps("verify sent/audited format=json", into="audited.json"),
            Alps("verify sent/memory data=personas format=json", into="memory.json"),
            Alps("leaderboard build submissions=sent out=site"),
        ),
        written=(
            *("plain", "memory", "sent", "site"),
            *("plain.json", "audited.json", "memory.json"),
        ),
        script=generous,
    ),
}
