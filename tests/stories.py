"""Short stories of commands, carried out once a session: what they write and what they print is
compared by test_goldens.py and test_printed.py.

Everything goes through the command, as a user has it; what lies beside is written by hand.
"""

import hashlib
import json
import random
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.annotated import write_annotations
from tests.endtoend import rows, run
from tests.loopback import Answer, Script, serve
from tests.once import shared
from tests.report_runs import make_hard_run, make_tracks_run
from tests.tracks import payload_of
from tests.visitors import write_visitors

FAULT = "fault"
"""What ended a story early, for all who ask for it."""


@dataclass(frozen=True)
class Alps:
    """One command; `{server}` in its words is the address of the scripted server.

    `prints` names the printed text that it is part of; a command without one must end with 0.
    Its stdout is written to the file `into`. With `log` its progress is printed as in a log.
    """

    words: str
    prints: str = ""
    into: str = ""
    log: bool = False


Step = Alps | Callable[[Path], object]


@dataclass(frozen=True)
class Story:
    """Steps in one folder, and the folders whose files are held as hashes.

    `also` names the printed texts of steps that are functions. `pages` are files, by the names
    under which the text of their first screens is held.
    """

    steps: tuple[Step, ...]
    written: tuple[str, ...] = ()
    script: Script = field(default=lambda _: Answer("not asked"))
    also: tuple[str, ...] = ()
    pages: Mapping[str, str] = field(default_factory=dict)

    def printed(self) -> list[str]:
        """Return the names of the printed texts, each once, in order."""
        names = [step.prints for step in self.steps if isinstance(step, Alps) and step.prints]
        return list(dict.fromkeys([*names, *self.also]))


def carried_out(name: str, factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a story; workers of pytest-xdist share it, and one carries it out."""
    folder = shared(factory) / "stories" / name
    folder.parent.mkdir(exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            folder.mkdir()
            printed_by(folder).mkdir()
            try:
                carry_out(STORIES[name], folder)
            except AssertionError as fault:
                (printed_by(folder) / FAULT).write_text(str(fault), encoding="utf-8")
    if (fault := printed_by(folder) / FAULT).exists():
        pytest.fail(fault.read_text(encoding="utf-8"), pytrace=False)
    return folder


def printed_by(folder: Path) -> Path:
    """Return the folder that holds what the commands of a story printed, beside its own."""
    return folder.with_name(f"{folder.name}-printed")


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
    progress = {"ALPS_PROGRESS": "3600"} if step.log else {}
    finished = run(folder, *words, OPENAI_API_KEY="not-needed", **progress)
    said = f"$ alps {step.words}\n{finished.stdout}"
    said += f"[stderr]\n{finished.stderr}" if finished.stderr else ""
    said += f"[exit {finished.returncode}]\n" if finished.returncode else ""
    assert step.prints or finished.returncode == 0, said
    if step.into:
        (folder / step.into).write_text(finished.stdout, encoding="utf-8")
    if step.prints:
        with (printed_by(folder) / f"{step.prints}.txt").open("a", encoding="utf-8") as file:
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


def generous(body: dict[str, Any]) -> Answer:
    """Find every gold memory the same as the first prediction that shares a longer word; support
    what is short.
    """
    payload, pairs = payload_of(body), []
    if payload["kind"] == "support":
        items = []
        for item in payload["items"]:
            said = ("supported", "unsupported", "not_about_user")[len(item["value"]) // 40 % 3]
            items.append({"reason": "so it reads", "id": item["id"], "support": said})
        return Answer(json.dumps({"items": items}))
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


def write_wordings(folder: Path) -> None:
    """Write one other wording of the rubric."""
    (folder / "wordings").mkdir()
    (folder / "wordings/lenient.md").write_text("<!-- id: mine/1 -->\n\nBe lenient.\n")


def write_plan(folder: Path) -> None:
    """Write a plan of systems and tasks, one of which fails: nobody is at its address."""
    (folder / "plan.toml").write_text(PLAN)


def write_results(folder: Path) -> None:
    """Write results of two conversations as mem0 has them; every text is invented."""
    asked = (
        ("Which instrument does Ines practise?", "A viola", "She plays the viola.", 1),
        ("Where did Bo leave the canoe?", "At Lake Orrin", "In the garage", 0),
        ("When is the flower market?", "7 May 2031", "7 May 2031", 1),
    )
    found = {}
    for talk in ("0", "1"):
        found[talk] = []
        for place, (question, gold, said, score) in enumerate(asked):
            own = {"question": question, "answer": gold, "response": said, "llm_score": score}
            found[talk].append(
                {**own, "category": "142"[place], "bleu_score": 0.1, "f1_score": 0.2}
            )
    (folder / "results.json").write_text(json.dumps(found))


def write_what_slips_name(folder: Path) -> None:
    """Write data of one split and of two, an empty folder, and files that are none of these."""
    write_visitors(folder / "data", 2)
    for split in ("dev", "validation"):
        write_visitors(folder / "splits", 1, split=split)
    (folder / "holiday").mkdir()
    (folder / "file").write_text("a file")
    (folder / "bad.jsonl").write_text('{"benchmark_id": "visitor_00", "memory_items": 7}\n')


def ask_help_of_all(folder: Path) -> None:
    """Print the help of every command that the help names, and of those inside."""
    ask_help(folder, "")


def ask_help(folder: Path, group: str) -> None:
    """Print the help of every command of a group."""
    listed = run(folder, *group.split(), "--help").stdout.partition("\nCommands:\n")[2]
    for name in re.findall(r"^  (\S+)  ", listed, re.MULTILINE):
        command = f"{group} {name}".strip()
        if command != "run":
            _command(Alps(f"{command} --help", "help-commands"), folder, "")
            ask_help(folder, command)


SLIPS = """
run task=extraction modle=rules
run task=extractoin model=rules
run task=summaries model=rules
run task=extraction model=rules data=sample
run task=extraction model=rules data=holiday
run task=extraction model=rules data=nowhere
run task=extraction model=rules data=splits
run task=extraction model=rules data=data split=devv
run task=extraction model=rules split=test
run task=extraction model=ruls
run task=extraction model=rules judge=lexcial
run task=extraction model=rules limit
run task=extraction model=rules limit=0
run task=extraction model=rules limit=1.5
run task=extraction model=rules limit=none
run task=extraction model=rules --limit 3
run task=extraction model=rules temperature=hot
run task=extraction model=rules temperature=nan
run task=extraction model=rules max_failures=200%
run task=extraction model=rules max_failures=some
run task=extraction model=rules model=oracle
run task=extraction model=rules ability=pa
run task=extraction model=rules out=file
run model=rules
run task=extraction
run task=extraction model=predictions:nowhere.jsonl
run task=extraction model=predictions:bad.jsonl data=data
run task=extraction model=anthropic/claude-sonnet-4-5
run task=extraction model=rules judge=anthropic/claude-sonnet-4-5
run task=extraction model=opnai/gpt-4.1-mini
run task=extraction model=pyhton:mine:Mine
run task=extraction model=recorded:runs/mine
run task=extraction model=rules judge=predictions:judged.jsonl
run task=extraction model=openai/my-model api_base=localhost:1/v1
rnu task=extraction model=rules
scroe folder
transport one two
ranks
score holiday judge=lexical
score
show nothing
compare nothing
"""
TASKS = "task=extraction,update,retrieval,utilization"
"""By name: a task more must not change a byte of what is written of these."""
PLAN = """
out = "swept"
limit = 4

[matrix]
model = ["rules", "oracle"]
task = ["extraction", "update"]

[[model]]
name = "openai/one"
task = ["extraction"]
api_base = "http://127.0.0.1:9/v1"
patience = 0
"""
JUDGED = "judge_api_base={server} max_failures=100%"
LLMS = f"model=openai/one api_base={{server}} judge=openai/two {JUDGED}"
SMALL = "limit=3 baseline_records=2 extras=judge"
AUDIT = "audit_judge=openai/auditor audit_judge_api_base={server} audit=80%"
DETAILS = "org=Graz url=https://example.org/rules notes='One line.' date=2026-01-31"
PA = "task=utilization ability=pa baseline_records=4"
CHEAP = "judge=openai/cheap judge_api_base={server}"
BETTER = "judge=openai/better judge_api_base={server} max_total_tokens=500000 date=2026-02-01"
STRICT = "judge=openai/strict judge_api_base={server}"
HARD = (
    *("relations", "long", "arabic", "steering", "nothing-to-find", "mended", "unjudged"),
    *("withheld", "refused", "truncated", "unparsable", "invalid", "empty", "unheard"),
)
OF_TRACKS = (
    "update/anna",
    "retrieval@300/anna",
    "retrieval@300/cleo",
    "constraints/1",
    "ability5:1",
)
SIZES = "memory=bm25 max_context_tokens=256,1k size=32k"

STORIES = {
    # All tracks by embedded systems under the lexical judge, and their comparison.
    "embedded": Story(
        (
            Alps(f"run {TASKS} model=rules out=rules", "run-tasks"),
            Alps("run task=retrieval distractors=all model=bm25 out=bm25", "run-retrieval"),
            Alps("run task=extraction model=oracle out=oracle", "run-extraction"),
            Alps("run task=extraction model=oracle out=oracle", "run-resumed"),
            Alps("compare rules oracle format=json", into="compared.json"),
            Alps("compare rules oracle", "compare-two"),
            Alps("run task=extraction model=floor/excerpts out=floor"),
            Alps("compare rules oracle floor", "compare-three"),
            Alps("show rules", "show-run"),
            Alps("show rules extraction/3", "show-record"),
            Alps("show rules update/2", "show-record"),
            Alps("show bm25 retrieval@100/1", "show-record"),
            Alps("show rules preference-following/1 --full", "show-record"),
            Alps("ls .", "ls"),
            Alps("report rules oracle out=report.html", "pages"),
            Alps("report rules out=tasks.html", "pages"),
            Alps("report oracle out=task.html", "pages"),
            Alps("view rules oracle out=view", "pages"),
            Alps("export rules oracle format=csv out=tables", "export"),
        ),
        written=("rules", "bm25", "oracle", "compared.json"),
        pages={
            "report-one": "task.html",
            "report-tasks": "tasks.html",
            "report-two": "report.html",
            "view": "view/index.html",
        },
    ),
    # All tracks under LLMs as model and judge, judged again by another.
    "asked": Story(
        (
            Alps(f"run {TASKS} {LLMS} {SMALL} out=llm", "run-llm"),
            Alps(f"score llm judge=openai/three {JUDGED} out=again"),
            Alps(f"run {TASKS} {LLMS} limit=3 out=dry dry_run=yes", "dry-run"),
            Alps(
                "run task=extraction model=openai/gpt-4.1-mini judge=openai/gpt-4.1 dry_run=yes",
                "dry-run",
            ),
            Alps(
                "run task=extraction model=openai/one api_base={server} limit=3 out=logged",
                "progress",
                log=True,
            ),
            Alps("show llm", "show-llm"),
            Alps("show llm persona-awareness/1", "show-llm"),
            Alps("compare llm again", "compare-judges"),
        ),
        written=("llm", "again"),
        script=scripted,
    ),
    # A calibration on the items whose answers are known.
    "calibrated": Story(
        (Alps("calibrate judge=lexical labels=stress out=calibrated", "calibrate-known-items"),),
        written=("calibrated",),
        pages={"calibration": "calibrated/calibration.html"},
    ),
    # The leaderboard's site of the submissions in the repository.
    "site": Story(
        (Alps("leaderboard build out=site", "leaderboard-build"),),
        written=("site",),
        pages={
            "site": "site/index.html",
            "site-board": "site/extraction.html",
            "site-system": "site/systems/rules.html",
            "site-submit": "site/about.html#submit",
        },
    ),
    # Labels of two people on answers of a run, and its scores corrected by them.
    "corrected": Story(
        (
            Alps(f"run {PA} model=rules {STRICT} out=mine", "run-utilization"),
            Alps("annotate draw mine n=16 out=labels", "labels-draw"),
            label_answers,
            Alps("annotate agreement labels", "agreement"),
            write_annotations,
            Alps("annotate agreement annotations", "agreement"),
            Alps(f"calibrate {STRICT} labels=labels out=known-today", "calibrate"),
            Alps("score mine calibration=known-today", "score-corrected"),
            Alps("calibrate list known-today labels=labels out=trust.html", "calibrations"),
            write_wordings,
            Alps(f"run {PA} model=floor/parrot {STRICT} out=other"),
            Alps(
                "judges mine other judge=openai/strict,openai/mild judge_api_base={server} "
                "prompts=wordings out=judged",
                "judges",
            ),
            Alps("judges mine other anchors=anchors", "drift"),
            Alps(f"judges mine other {STRICT} prompts=wordings out=worded", "sensitivity"),
        ),
        written=("mine", "known-today"),
        pages={"trust": "trust.html", "calibration-labels": "known-today/calibration.html"},
        script=strict_or_mild,
    ),
    # A memory system at two sizes of the context, and one that is told to forget.
    "remembered": Story(
        (
            Alps(f"run task=personamem model=rules {SIZES} limit=12 out=sizes", "run-memory"),
            Alps(
                "run task=forgetting model=rules memory=bm25 limit=6 out=forgets", "run-forgetting"
            ),
            Alps("show sizes", "show-memory"),
            Alps(
                "run task=personamem model=rules memory=last:50 max_context_tokens=256,1k size=32k "
                "limit=12 out=others"
            ),
            Alps("compare sizes others", "compare-sizes"),
            Alps("show sizes 1", "show-memory"),
            Alps("memory diagnose sizes", "diagnose"),
            Alps("memory diagnose sizes 1", "diagnose"),
            Alps("memory list", "memory-list"),
            Alps("doctor memory=bm25", "doctor"),
            Alps("doctor", "doctor"),
        ),
        written=("sizes", "forgets"),
    ),
    # Two halves of a run and the whole of it.
    "sharded": Story(
        (
            Alps("run task=extraction,update model=rules shard=1/2 out=first"),
            Alps("run task=extraction,update model=rules shard=2/2 out=second"),
            Alps("merge whole first second", "merge"),
            Alps("ls .", "merge"),
        ),
        written=("first", "whole"),
    ),
    # A submission of each kind, verified, judged again and on a site.
    "submitted": Story(
        (
            Alps("run task=extraction model=rules out=plain"),
            Alps("leaderboard submit plain dry_run=yes date=2026-01-31", "submit"),
            Alps(f"leaderboard submit plain name=Rules {DETAILS} out=sent/plain", "submit"),
            Alps(f"score plain {AUDIT}", "run-audited"),
            Alps("show plain 1", "run-audited"),
            Alps(f"score plain {CHEAP} extras=judge out=cheap", "score"),
            Alps(f"leaderboard submit plain name=Twice {DETAILS} out=sent/audited", "submit"),
            Alps("data personas n=2 size=32k out=personas", "data-personas"),
            Alps(
                "run task=personamem model=rules memory=bm25 k=2 size=32k data=personas out=memory"
            ),
            Alps("memory compare memory rows=none,placebo", "beside"),
            Alps(
                f"leaderboard submit memory name=Memory {DETAILS} data=personas out=sent/memory",
                "submit",
            ),
            Alps("leaderboard verify sent/plain format=json", into="plain.json"),
            Alps("leaderboard verify sent/audited format=json", into="audited.json"),
            Alps("leaderboard verify sent/memory data=personas format=json", into="memory.json"),
            Alps("leaderboard verify sent/plain", "verify"),
            Alps("leaderboard verify sent/audited", "verify"),
            Alps("leaderboard verify sent/memory data=personas", "verify"),
            Alps("leaderboard build submissions=sent out=site"),
            Alps(f"leaderboard rescore sent/plain {BETTER}", "rescore"),
        ),
        written=(
            *("plain", "memory", "sent", "site"),
            *("plain.json", "audited.json", "memory.json"),
        ),
        script=generous,
    ),
    # Systems times tasks by one plan.
    "swept": Story(
        (
            write_plan,
            Alps("sweep plan.toml", "sweep"),
            Alps("sweep plan.toml only=failed", "sweep"),
            Alps("run task=extraction model=openai/one api_base={server} limit=3", "run-failed"),
        ),
        script=lambda _: Answer(status=400, error="no such model"),
        pages={"sweep": "swept/plan.html"},
    ),
    # Files of other benchmarks, and a data set that is looked into.
    "brought": Story(
        (
            write_results,
            Alps("import mem0 results.json reported=70% out=imported", "import"),
            Alps("data audit data=samples", "data-audit"),
            Alps("data pools data=samples out=pools", "data-pools"),
        )
    ),
    # Records of which everything went wrong, and some of every task.
    "hard": Story(
        (
            make_hard_run,
            *(Alps(f"show hard-run {name}", "show-hard") for name in HARD),
            Alps("show hard-run", "show-hard"),
            Alps("ls .", "ls-hard"),
            make_tracks_run,
            *(Alps(f"show tracks-run {name}", "show-tracks") for name in OF_TRACKS),
            Alps("run task=retrieval model=bm25 data=all-tasks out=ranked"),
            Alps("show ranked cleo", "show-tracks"),
        )
    ),
    # What a stranger sees first, and what is said of slips.
    "met": Story(
        (
            Alps("", "alps"),
            Alps("--help", "help"),
            Alps("--version", "help"),
            Alps("run --help", "help-run"),
            ask_help_of_all,
            Alps("data", "help"),
        ),
        also=("help-commands",),
    ),
    # What is said of slips, each in one line.
    "slipped": Story(
        (write_what_slips_name, *(Alps(words, "slips") for words in SLIPS.strip().splitlines()))
    ),
}
