"""A memory system that is refused says the way out, and is admitted by the same command after it.

Each command is the real one, in an empty folder with the files of a memory system in it.
"""

import json
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from alps.ext.memory.admission import CHECKS, DECLARATIONS
from tests.conftest import ROOT
from tests.core.test_edited_code import MEMORY, RECALL
from tests.endtoend import Finished, one_line, rows, run
from tests.few import few
from tests.loopback import running
from tests.memory_ways import KeptServer

BOTH = "both roles are ingested"
DECLARED = f'{{"declares": ["{BOTH}"]}}'
EVERY_TURN = "        for turn in session.turns:\n"
USERS_ALONE = EVERY_TURN + "            if getattr(turn, 'role') != 'user': continue\n"
AS_CLASS = f"{MEMORY}    settings = {{}}\nSAYS = None\n"
SPOKEN = """import json, sys
from types import SimpleNamespace
from memory import M, SAYS
memory = M()
def objects(row):
    return json.loads(json.dumps(row), object_hook=lambda fields: SimpleNamespace(**fields))
def call(method, told):
    if method == "open":
        memory.open(None)
        return SAYS
    return getattr(memory, method)(**vars(objects(told)))
def answer(row):
    method = row["method"]
    if sys.argv[1] == "program":
        return call(method, {key: row[key] for key in row if key not in ("id", "method")})
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}}
    if method == "tools/list":
        return {"tools": [{"name": name} for name in ("open", "ingest", "search", "reset")]}
    if method == "ping":
        return {}
    value = call(row["params"]["name"], row["params"]["arguments"])
    return {"content": [], "structuredContent": {"result": value}}
for line in sys.stdin:
    row = json.loads(line)
    if "id" in row:
        print(json.dumps({"jsonrpc": "2.0", "id": row["id"], "result": answer(row)}), flush=True)
"""


class Server(KeptServer):
    """The system over HTTP; `declares` is what it answers where it is asked for that."""

    declares = None

    def answered(self, path, row):
        """Answer /declares, too."""
        if path == "/declares" and self.declares is not None:
            return 200, json.dumps({"data": self.declares})
        return super().answered(path, row)


@contextmanager
def kept_of_users_alone(way: str, folder: Path):
    """Yield the word that names the system, what mends it, and what declares it."""
    if way == "http":
        with running(Server(folder)) as server:
            every, server.keeps = server.keeps, ("user",)
            yield (
                server.url,
                lambda: setattr(server, "keeps", every),
                lambda: setattr(server, "declares", [BOTH]),
            )
        return
    file = folder / "memory.py"
    file.write_text(AS_CLASS.replace(EVERY_TURN, USERS_ALONE))
    (folder / "spoken.py").write_text(SPOKEN)
    kind = "program" if way == "program" else "tools"
    name = f"{way}:{sys.executable} spoken.py {kind}"
    old, new = "SAYS = None", f"SAYS = {DECLARED}"
    if way == "python":
        name, old, new = "python:memory:M", "settings = {}", f"settings = {DECLARED}"
    yield (
        name,
        lambda: file.write_text(AS_CLASS),
        lambda: file.write_text(file.read_text().replace(old, new)),
    )


HOW = {
    "python": f"settings = {DECLARED} in the class",
    "program": f"answer `open` with {DECLARED}",
    "mcp": f"answer `open` with {DECLARED}",
    "http": f'answer POST /declares with {{"data": ["{BOTH}"]}}',
}


def asked(folder: Path, memory: str, *words: str) -> Finished:
    return run(folder, "run", *RECALL, f"memory={memory}", "out=out", *words)


@pytest.mark.few(1)
@pytest.mark.parametrize("way", few(list(HOW)))
@pytest.mark.parametrize("declared", [False, True], ids=["mended", "declared"])
def test_what_keeps_facts_of_users_alone_learns_the_way_out_and_is_admitted_by_the_same_command(
    way, declared, tmp_path
):
    with kept_of_users_alone(way, tmp_path) as (memory, mend, declare):
        refused = one_line(asked(tmp_path, memory))
        assert f"{BOTH}: the assistant's turn is not found; if, by design, the system " in refused
        assert (
            f"stores only what users say, declare this: {HOW[way]}; all checks: alps doctor"
            in refused
        )
        (declare if declared else mend)()
        done = asked(tmp_path, memory)
        assert done.returncode == 0, done.stderr
        assert "reused" not in done.stdout
        # A server is taken to declare that runs are kept apart by their users.
        declares = [BOTH] * declared + ["runs are kept apart"] * (way == "http")
        passed = 24 - 2 * len(declares)  # before the run and after it
        assert f"memory admitted ({passed} of {passed})" in done.stdout
        says = f"The system declares these checks as not applicable: {', '.join(declares)}."
        shown = run(tmp_path, "show", "out").stdout
        assert (says in " ".join(shown.split())) is bool(declares)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    names = {check["name"] for check in summary["admission"]}
    assert (f"{BOTH} (declared otherwise)" in names) is declared
    assert {row["phase"] for row in rows(tmp_path / "out" / "memory.jsonl")} >= {"admission"}


RESET = "    def reset(self, user): self.kept.pop(user, None)\n"
NEVER_AFTER_A_QUESTION = """    worn = False
    def reset(self, user):
        if not M.worn: self.kept.pop(user, None)
    def search(self, user, query, k, at):
        M.worn = M.worn or not {"code", "plum"} & set(query.split())
        return self.found(user, query, k, at)
"""


def test_a_run_that_is_refused_at_its_end_leaves_no_answer_to_go_on_from(tmp_path):
    worn = MEMORY.replace("def search", "def found").replace(RESET, NEVER_AFTER_A_QUESTION)
    (tmp_path / "memory.py").write_text(worn)
    refused = one_line(asked(tmp_path, "python:memory:M"))
    assert "not admitted after the run, so alps gives no scores: a reset is complete" in refused
    assert len(rows(tmp_path / "out" / "predictions.jsonl")) == 2
    (tmp_path / "memory.py").write_text(MEMORY)
    done = asked(tmp_path, "python:memory:M")
    assert done.returncode == 0, done.stderr
    assert "reused" not in done.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("both roles are ingestd", "no such check — did you mean 'both roles are ingested'?"),
        ("users are kept apart", "this check is mandatory; remove it from declares"),
    ],
)
def test_a_declaration_that_is_none_is_refused_by_its_name(name, said, tmp_path):
    (tmp_path / "memory.py").write_text(f"{MEMORY}    settings = {{'declares': ['{name}']}}\n")
    refused = one_line(asked(tmp_path, "python:memory:M"))
    assert f"opens: declares '{name}': {said}" in refused


def test_an_id_that_no_submission_may_have_is_refused_by_the_run(tmp_path):
    (tmp_path / "memory.py").write_text(MEMORY.replace('"id": when', '"id": when + "x" * 800'))
    refused = one_line(asked(tmp_path, "python:memory:M"))
    assert "hits[0].id: 825 characters, but at most 500 are allowed" in refused


def test_the_documentation_lists_every_check_and_every_declaration():
    page = (ROOT / "docs" / "memory-systems.md").read_text()
    listed: dict[str, bool] = {}
    rows = re.findall(r"^\| `([^`]+)` \| [^|]{20,} \| ([^|]*)\|$", page, re.MULTILINE)
    for name, declared_if in rows:
        if name in CHECKS:
            listed[name] = bool(declared_if.strip())
    assert list(listed) == list(CHECKS)
    assert {name for name, declarable in listed.items() if declarable} == set(DECLARATIONS)


def test_a_submission_and_its_page_say_what_a_program_declares(tmp_path):
    with kept_of_users_alone("program", tmp_path) as (memory, _, declare):
        declare()
        words = [word for word in RECALL if not word.startswith("limit=")]
        done = run(tmp_path, "run", *words, f"memory={memory}", "out=out")
        assert done.returncode == 0, done.stderr
    about = ("name=Users", "org=A lab", "date=2026-01-31")
    packed = run(tmp_path, "leaderboard", "submit", "out", *about, "out=boards/users")
    assert packed.returncode == 0, packed.stderr
    card = json.loads((tmp_path / "boards" / "users" / "submission.json").read_text())
    assert card["memory"][0]["settings"]["declares"] == [BOTH]
    verified = run(tmp_path, "leaderboard", "verify", "boards/users")
    assert "is missing" not in verified.stdout + verified.stderr
    built = run(tmp_path, "leaderboard", "build", "submissions=boards", "out=site")
    assert built.returncode == 0, built.stderr
    pages = [path.read_text() for path in (tmp_path / "site").rglob("*.html")]
    assert any(f"declared as not applicable: {BOTH}" in page for page in pages)
