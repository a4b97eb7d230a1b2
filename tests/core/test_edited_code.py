"""Code of the user's: edited between two runs in one folder, never the old score for it, and
nothing lost; or leaving the working folder, where files of the run stay where they were.

Each command is the real one, in an empty folder with a project of the user's in it.
"""

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

import alps
from alps.run.fresh import code_of
from tests.conftest import ROOT
from tests.endtoend import (
    Finished,
    end,
    files_of,
    one_line,
    results,
    rows,
    run,
    start,
    summary,
    wait_until,
)
from tests.few import few

TASK = ("task=extraction", "limit=2")
ANSWER = 'class S:\n    def predict(self, sample):\n        return [{"value": "old"}]\n'
PROGRAM = """import json, sys
for line in sys.stdin:
    name = json.loads(line)["benchmark_id"]
    print(json.dumps({"benchmark_id": name, "memories": []}), flush=True)
"""
MEMORY = """class M:
    def open(self, opening): self.kept = {}
    def ingest(self, user, session):
        for turn in session.turns:
            self.kept.setdefault(user, {})[turn.at] = turn.text
    def settle(self, user, timeout): return "ready"
    def reset(self, user): self.kept.pop(user, None)
    def search(self, user, query, k, at):
        asked = set(query.lower().split())
        texts = self.kept.get(user, {}).items()
        best = sorted(texts, key=lambda one: -len(asked & set(one[1].lower().split())))
        return [{"id": when, "text": text, "created_at": when} for when, text in best[:k]]
"""
SPOKEN = """import json, sys
from types import SimpleNamespace
from memory import M
memory = M()
for line in sys.stdin:
    row = json.loads(line, object_hook=lambda fields: SimpleNamespace(**fields))
    told = {name: value for name, value in vars(row).items() if name not in ("id", "method")}
    told = {"opening": None} if row.method == "open" else told
    print(json.dumps({"id": row.id, "result": getattr(memory, row.method)(**told)}), flush=True)
"""
OWN_TASK = "from alps.tasks.extraction import tracks\n"
RECALL = ("task=utilization", "ability=pa", "limit=2", "model=rules")
PLUGINS = """\
for found in pkgutil.iter_modules(plug.__path__):
    importlib.import_module(f"plug.{found.name}")
"""
GLOBBED = "TEXTS = [*(Path(__file__).parent / 'texts').glob('*.md')]\n"
MOVES = "import os\nfrom pathlib import Path\nHERE = Path(__file__).parent / 'elsewhere'\n"
LEAVING = f"""{MOVES}
class AtFirst:
    def __init__(self): os.chdir(HERE)
    def predict(self, sample):
        return Path("answer.txt").read_text()

class Later:
    def predict(self, sample):
        os.chdir(HERE)
        return []

class Async(Later):
    async def predict(self, sample):
        os.chdir(HERE)
        return []
"""
LEAVING_MEMORY = MOVES + MEMORY.replace("self.kept = {}", "self.kept = {}; os.chdir(HERE)")
PROJECT = {
    "own.py": ANSWER,
    "uses.py": f"import helper\n{ANSWER}",
    "lazy.py": f"{ANSWER}        import helper\n",
    "named.py": f"import importlib\nimportlib.import_module('helper')\n{ANSWER}",
    "tries.py": f"try:\n    import later\nexcept ImportError:\n    pass\n{ANSWER}",
    "prompted.py": f"from pathlib import Path\n{ANSWER}\nText = Path('x') / 'texts' / 'ask.md'\n",
    "helper.py": "",
    "texts/ask.md": "Ask.",
    "pack/__init__.py": "from .inner import S\n",
    "pack/inner.py": f"from . import deep\n{ANSWER}",
    "pack/deep.py": "",
    "pack/__main__.py": f"from . import deep\n{PROGRAM}",
    "tools/program.py": f"import beside\n{PROGRAM}",
    "tools/beside.py": "",
    "adds.py": f"import sys\nsys.path.insert(0, 'tools')\nimport beside\n{ANSWER}",
    "spaced.py": f"{ANSWER}        import plain.deep.module\n",
    "plain/deep/module.py": "",
    "settings.json": "{}",
    "run.sh": f"#!/bin/sh\nexec {sys.executable} tools/program.py\n",
    "start.sh": f'exec {sys.executable} "$(dirname "$0")/tools/program.py"\n',
    "variable.py": f"import importlib\nNAME = 'helper'\nimportlib.import_module(NAME)\n{ANSWER}",
    "plugins.py": f"import importlib, pkgutil, plug\n{PLUGINS}{ANSWER}",
    "plug/__init__.py": "",
    "plug/one.py": "",
    "globbed.py": f"from pathlib import Path\n{GLOBBED}{ANSWER}",
    "memory.py": MEMORY,
    "spoken.py": SPOKEN,
    "owntask.py": OWN_TASK,
    "leaving.py": LEAVING,
    "leaving_memory.py": LEAVING_MEMORY,
    "verdicts.jsonl": "",
    "elsewhere/answer.txt": "A",
}
PYTHON = f"program:{sys.executable}"
IN_TOOLS = f"cd tools; exec {sys.executable} program.py"
CHANGES = [
    ((*TASK, "model=python:own:S"), "own.py"),
    ((*TASK, "model=python:uses:S"), "helper.py"),
    ((*TASK, "model=python:lazy:S"), "helper.py"),
    ((*TASK, "model=python:named:S"), "helper.py"),
    ((*TASK, "model=python:prompted:S"), "texts/ask.md"),
    ((*TASK, "model=python:pack:S"), "pack/deep.py"),
    ((*TASK, "model=python:spaced:S"), "plain/deep/module.py"),
    ((*TASK, f"model=program:sh -c '{IN_TOOLS}'"), "tools/beside.py"),
    ((*TASK, f"model={PYTHON} tools/program.py"), "tools/program.py"),
    ((*TASK, f"model={PYTHON} tools/program.py"), "tools/beside.py"),
    ((*TASK, f"model={PYTHON} tools/program.py --settings=settings.json"), "settings.json"),
    ((*TASK, f"model={PYTHON} -u -m pack"), "pack/deep.py"),
    ((*TASK, "model=program:./run.sh"), "run.sh"),
    ((*TASK, "model=program:sh -c 'exec ./run.sh'"), "run.sh"),
    ((*TASK, "model=program:./run.sh"), "tools/program.py"),
    ((*TASK, "model=program:sh run.sh"), "tools/beside.py"),
    ((*TASK, "model=program:sh start.sh"), "tools/beside.py"),
    ((*TASK, "model=python:variable:S"), "helper.py"),
    ((*TASK, "model=python:plugins:S"), "plug/one.py"),
    ((*TASK, "model=python:globbed:S"), "texts/ask.md"),
    ((*TASK, "model=python:adds:S"), "tools/beside.py"),
    ((*RECALL, "memory=python:memory:M"), "memory.py"),
    ((*RECALL, f"memory={PYTHON} spoken.py"), "memory.py"),
    (("task=python:owntask", "limit=2", "model=rules"), "owntask.py"),
]


def project(folder: Path) -> Path:
    for name, text in PROJECT.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "run.sh").chmod(0o755)
    return folder


def edit(folder: Path, name: str) -> None:
    """Change a file in a way that no test of its size and date would see."""
    path = folder / name
    before = path.stat()
    with path.open("a") as file:
        file.write("{}" if name.endswith(".json") else "\n# edited\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def alps_run(folder: Path, *words: str) -> Finished:
    return run(folder, "run", "out=out", "max_failures=100%", *words)


@pytest.mark.parametrize(("words", "file"), few(CHANGES, plain={2, 20, 23}))
def test_edited_code_is_refused_by_its_name_and_answers_anew_where_that_is_asked(
    words, file, tmp_path
):
    project(tmp_path)
    done = alps_run(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    there = files_of(tmp_path / "out")
    edit(tmp_path, file)
    refused = one_line(alps_run(tmp_path, *words))
    ways = "to answer again, set fresh=yes (same folder) or out=NEW (new folder)"
    # A folder that the code adds to the path is where its modules are at home.
    shown = file.removeprefix("tools/") if "model=python:adds:S" in words else file
    assert refused == f"alps: out: {shown} changed since this run; {ways}\n"
    assert files_of(tmp_path / "out") == there
    fresh = alps_run(tmp_path, "fresh=yes", *words)
    assert fresh.returncode == 0, fresh.stderr
    assert "reused" not in fresh.stdout
    assert "The previous run is kept in out.old until the next run with fresh=yes" in fresh.stdout
    assert files_of(tmp_path / "out.old") == {**there, ".lock": b""}


@pytest.mark.parametrize(
    ("kind", "files"),
    [("program:", {"spoken.py", "memory.py"}), ("mcp:", {"spoken.py", "memory.py"}), ("http:", {})],
)
def test_the_files_of_a_command_are_found_whatever_it_is_for(kind, files, tmp_path, monkeypatch):
    monkeypatch.chdir(project(tmp_path))
    memory = f"{kind}{sys.executable} spoken.py"
    code = code_of({"task": "personamem", "memory": memory, "model": "rules"})
    assert code.get("memory", {}).keys() == set(files)


def test_where_nothing_changed_nothing_is_said_of_it(tmp_path):
    project(tmp_path)
    words = (*TASK, "model=python:uses:S")
    done = alps_run(tmp_path, *words)
    there = files_of(tmp_path / "out")
    again = alps_run(tmp_path, *words)
    assert results(again) == results(done)
    assert "2 answers reused" in again.stdout
    assert (again.stderr, again.returncode) == (done.stderr, 0)
    assert files_of(tmp_path / "out") == there


def test_files_that_are_new_or_gone_are_named(tmp_path):
    project(tmp_path)
    words = (*TASK, "model=python:tries:S")
    assert alps_run(tmp_path, *words).returncode == 0
    (tmp_path / "unrelated.py").write_text("")
    (tmp_path / "__pycache__" / "later.cpython-311.pyc").parent.mkdir(exist_ok=True)
    assert alps_run(tmp_path, *words).returncode == 0
    (tmp_path / "later.py").write_text("")
    assert "out: later.py is new since this run;" in one_line(alps_run(tmp_path, *words))
    assert alps_run(tmp_path, "fresh=yes", *words).returncode == 0
    (tmp_path / "later.py").unlink()
    assert "out: later.py is gone since this run;" in one_line(alps_run(tmp_path, *words))


def test_a_run_without_code_of_the_users_has_none_in_its_manifest(tmp_path):
    assert alps_run(tmp_path, *TASK, "model=rules").returncode == 0
    assert "code" not in json.loads((tmp_path / "out" / "manifest.json").read_text())


SLOW = ANSWER.replace("        return", "        import time; time.sleep(0.3)\n        return")


@pytest.mark.release
def test_a_killed_fresh_run_loses_neither_run_and_goes_on(tmp_path):
    (tmp_path / "own.py").write_text(ANSWER)
    words = ("task=extraction", "model=python:own:S")
    assert alps_run(tmp_path, *words).returncode == 0
    old = files_of(tmp_path / "out")
    (tmp_path / "own.py").write_text(SLOW)
    process = start(tmp_path, "run", "out=out", "max_failures=100%", "fresh=yes", *words)
    answers = tmp_path / "out" / "predictions.jsonl"
    try:
        wait_until(lambda: (tmp_path / "out.old").exists() and answers.exists())
        wait_until(lambda: answers.stat().st_size > 0)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        end(process)
    kept = {**old, ".lock": files_of(tmp_path / "out.old")[".lock"]}
    assert files_of(tmp_path / "out.old") == kept
    assert 0 < len(answers.read_bytes().splitlines()) < 26
    (tmp_path / "own.py").write_text(ANSWER)
    assert "own.py changed" in one_line(alps_run(tmp_path, *words))
    (tmp_path / "own.py").write_text(SLOW)
    done = alps_run(tmp_path, "fresh=yes", *words)
    assert re.search(r"\d+ answers? reused", done.stdout)
    assert "The previous run is kept in out.old" in done.stdout
    assert files_of(tmp_path / "out.old") == kept
    assert len(rows(answers)) == 26


def test_one_judges_finished_answers_again_whatever_became_of_the_code(tmp_path):
    project(tmp_path)
    assert alps_run(tmp_path, *TASK, "model=python:own:S").returncode == 0
    edit(tmp_path, "own.py")
    for _ in range(2):
        judged = run(tmp_path, "score", "out", "judge=lexical", "out=again", "max_failures=100%")
        assert judged.returncode == 0, judged.stderr


def test_rows_beside_a_run_are_of_the_same_code(tmp_path):
    project(tmp_path)
    words = ("task=personamem", "size=32k", "limit=2", "model=python:own:S", "memory=bm25")
    assert alps_run(tmp_path, *words).returncode == 0
    edit(tmp_path, "own.py")
    refused = one_line(run(tmp_path, "memory", "compare", "out", "rows=none", "model=python:own:S"))
    assert "out: own.py changed since this run; first repeat the same alps run" in refused


@pytest.mark.parametrize(
    "words",
    [
        ("model=python:own:S,python:uses:S",),
        pytest.param(("model=python:own:S", "engine=processes"), marks=pytest.mark.release),
    ],
)
def test_sweeps_and_engines_refuse_edited_code_and_answer_anew(words, tmp_path):
    project(tmp_path)
    assert alps_run(tmp_path, *TASK, *words).returncode == 0
    edit(tmp_path, "own.py")
    done = alps_run(tmp_path, *TASK, *words)
    assert done.returncode == 2
    assert "own.py changed since this run; to answer again, set fresh=yes" in done.stderr
    done = alps_run(tmp_path, *TASK, *words, "fresh=yes")
    assert done.returncode == 0, done.stderr
    assert "The previous run is kept in out" in done.stdout


@pytest.mark.release
def test_shards_of_other_code_are_not_merged(tmp_path):
    project(tmp_path)
    for number in (1, 2):
        words = (*TASK, "model=python:own:S", f"shard={number}/2")
        assert run(tmp_path, "run", *words, f"out=s{number}", "max_failures=100%").returncode == 0
        edit(tmp_path, "own.py")
    refused = one_line(run(tmp_path, "merge", "whole", "s1", "s2"))
    assert refused == "alps: s2: not from the same run as s1: own.py changed\n"


def test_the_api_answers_with_the_code_that_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "api_own.py").write_text(ANSWER)
    words = {"task": "extraction", "model": "python:api_own:S", "limit": 2, "out": "out"}
    words["max_failures"] = 1.0

    def answered():
        return [record.prediction for record in alps.evaluate(**words).records()]

    before = answered()
    (tmp_path / "api_own.py").write_text(ANSWER.replace("old", "new"))
    with pytest.raises(alps.AlpsError, match=r"api_own\.py changed since this run"):
        answered()
    words["fresh"] = True
    after = answered()
    assert ("old" in str(before), "new" in str(after), "old" in str(after)) == (True, True, False)


EXTRACTION, UTILIZATION = ("task=extraction", "limit=3"), ("task=utilization", "ability=pa")
RUNS = [
    (*EXTRACTION, "model=python:leaving:Later"),
    (*EXTRACTION, "model=python:leaving:Async"),
    (*EXTRACTION, "model=python:leaving:AtFirst,python:leaving:Later"),
    (*EXTRACTION, "model=python:leaving:AtFirst", "engine=processes", "workers=2"),
    ("task=retrieval", "limit=3", "model=python:leaving:Later"),
    (*UTILIZATION, "limit=3", "model=rules", "memory=python:leaving_memory:M"),
    (*UTILIZATION, "limit=3", "model=python:leaving:AtFirst", f"memory={PYTHON} spoken.py"),
    (*EXTRACTION, "model=python:leaving:AtFirst", "judge=recorded:verdicts.jsonl"),
    ("task=personamem", "size=32k", "limit=3", "model=python:leaving:AtFirst", "memory=bm25"),
]


@pytest.mark.parametrize("words", few([(words,) for words in RUNS], plain={1}))
def test_a_class_that_changes_the_working_folder_moves_nobody_elses_files(words, tmp_path):
    project(tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data" / "samples")
    data = () if "task=personamem" in words else ("data=data",)
    command = ("run", *words, *data, "out=out/mine", "max_failures=100%")
    done = run(tmp_path, *command, ALPS_CACHE="cache")
    assert done.returncode == 0, done.stderr
    assert "out/mine" in done.stdout
    assert str(tmp_path) not in done.stdout
    assert files_of(tmp_path / "elsewhere") == {"answer.txt": b"A"}
    folders = [path.parent for path in (tmp_path / "out").rglob("summary.json")]
    for folder in folders:
        assert all(track["n"] == 3 for track in summary(folder)["tracks"].values())
    assert len(folders) == (2 if "," in words[2] else 1)
