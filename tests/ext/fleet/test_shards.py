"""A run in shards, on as many machines: merged, it is the run that was never divided."""

import json
import shutil
from pathlib import Path
from random import Random

import pytest

from alps.errors import RunFolderError, UsageError
from alps.ext.fleet.merge import merge
from alps.judges.admission import DRAWN
from alps.parsing import parse_words
from alps.run.start import run as carry_out
from alps.settings import RunSettings
from tests.endtoend import JOURNALS, finish, rows, run, start, wait_until
from tests.few import few
from tests.loopback import Answer, serve

COUNT = 3
TIMED = ("seconds", "seconds_per_query", "phases", "answers", "bytes_per_1000_turns", "calls")
TIMED += ("admission",)
OFF = {"ALPS_CACHE": "off", "OPENAI_API_KEY": "none"}
MEMORY = json.dumps({"memories": [{"label": "UNMAPPED", "value": "Lives in a house"}]})
VERDICT = json.dumps({"pairs": []})


def ran(folder, *words):
    return carry_out(parse_words([*words, f"out={folder}"], RunSettings)).folder


def untimed(value):
    """Return a summary without its times and costs."""
    if isinstance(value, list):
        return [untimed(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: untimed(item) for name, item in value.items() if name not in TIMED}


def is_the_same(merged, whole):
    for path in whole.rglob("*.jsonl"):
        if path.name in JOURNALS:
            assert (merged / path.relative_to(whole)).read_bytes() == path.read_bytes(), path
    assert json.loads((merged / "manifest.json").read_text()) == json.loads(
        (whole / "manifest.json").read_text()
    )
    ours, theirs = (json.loads((folder / "summary.json").read_text()) for folder in (merged, whole))
    assert untimed(ours) == untimed(theirs)
    return ours, theirs


DIVIDED = {
    "repeated": ("task=extraction,update", "model=rules", "repeats=2", "limit=9"),
    "memory": ("task=utilization,forgetting", "model=rules", "memory=bm25", "limit=9"),
    "pools": ("task=retrieval", "model=bm25", "distractors=100", "limit=9"),
    "sizes": (
        *("task=utilization", "model=rules", "max_context_tokens=100,1k"),
        *("ability=pa", "limit=9"),
    ),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "words", few({name: (words,) for name, words in DIVIDED.items()}, plain={"repeated", "pools"})
)
def test_merged_shards_are_the_undivided_run(words, tmp_path):
    whole = ran(tmp_path / "whole", *words)
    shards = []
    for number in range(1, COUNT + 1):
        shards.append(ran(tmp_path / f"s{number}", *words, f"shard={number}/{COUNT}"))
    sizes = [len(rows(shard / "predictions.jsonl")) for shard in shards]
    assert all(sizes)
    Random(0).shuffle(shards)
    finished = merge(tmp_path / "merged", shards)
    assert finished.folder == tmp_path / "merged"
    ours, theirs = is_the_same(finished.folder, whole)
    names = [[check["name"] for check in one.get("admission", ())] for one in (ours, theirs)]
    assert names[0] == names[1]
    assert sum(sizes) == len(rows(whole / "predictions.jsonl"))
    repeating = (finished.folder / "config.toml").read_text()
    assert "shard =" not in repeating


def answer(request):
    is_judge = request["model"] == "judge"
    return Answer(VERDICT if is_judge else MEMORY, delay=0.01)


@pytest.mark.release
def test_shards_asked_over_http_and_killed_are_the_undivided_run(tmp_path):
    with serve(answer) as server:
        words = (
            *("run", "task=extraction", "model=openai/scripted", f"api_base={server.url}"),
            *("judge=openai/judge", f"judge_api_base={server.url}", "concurrency=2"),
            *("limit=12", "baseline_records=3", "structured=json", "judge_structured=json"),
        )
        assert run(tmp_path, *words, "out=whole", **OFF).returncode == 0
        asked = len(server.requests)
        for number in range(1, COUNT + 1):
            shard = (*words, f"shard={number}/{COUNT}", f"out=s{number}")
            if number == 2:
                process = start(tmp_path, *shard, **OFF)
                path = tmp_path / "s2" / "predictions.jsonl"
                wait_until(lambda path=path: path.exists() and path.read_bytes().count(b"\n") > 2)
                process.kill()
                finish(process)
                done = run(tmp_path, "merge", "merged", "s1", "s2")
                assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
                assert "s2: not finished" in done.stderr
            assert run(tmp_path, *shard, **OFF).returncode == 0
        in_shards = len(server.requests) - asked
    # What was under way at the kill may be asked again, and nothing else.
    assert asked <= in_shards <= asked + 4
    # The servers are gone and no key is set: nothing is asked any more.
    done = run(tmp_path, "merge", "merged", "s3", "s1", "s2")
    assert done.returncode == 0, done.stderr
    ours, theirs = is_the_same(tmp_path / "merged", tmp_path / "whole")
    if in_shards == asked:
        # Each shard checks its judge by the known items of two rubrics.
        known = 2 * DRAWN
        assert ours["calls"]["http"] == theirs["calls"]["http"] + (COUNT - 1) * known
    told = run(tmp_path, "merge", "merged", "s3", "s1", "s2")
    assert told.stderr.endswith("already exists; choose another folder\n")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    words = ("task=extraction", "model=rules", "limit=8")
    for number in (1, 2):
        ran(folder / f"s{number}", *words, f"shard={number}/2")
    ran(folder / "other", "task=extraction", "model=oracle", "limit=8", "shard=2/2")
    ran(folder / "of-three", *words, "shard=2/3")
    ran(folder / "whole", *words)
    shutil.copytree(folder / "s1", folder / "twin")
    return folder


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["s1"], "2 shards are needed; add these: 2"),
        (["s1", "s2", "twin"], "twin: shard 1/2 appears twice, also in "),
        (["s1", "other"], "other: not from the same run as "),
        (["s1", "of-three"], "is one of 3 shards, but "),
        (["s1", "whole"], "whole: not a shard; this run was made without shard="),
        ([], "name the run folders of the shards"),
    ],
)
def test_what_are_not_all_shards_of_one_run_is_refused(shards, tmp_path, names, said):
    with pytest.raises((UsageError, RunFolderError)) as caught:
        merge(tmp_path / "merged", [shards / name for name in names])
    assert said in str(caught.value)
    assert list(Path(tmp_path).iterdir()) == []


def test_a_shard_with_the_records_of_another_is_refused_by_name(shards, tmp_path):
    shutil.copytree(shards / "s2", tmp_path / "s2")
    for name in ("predictions.jsonl", "verdicts.jsonl", "scores.jsonl"):
        shutil.copy(shards / "s1" / name, tmp_path / "s2" / name)
    done = run(tmp_path, "merge", "merged", str(shards / "s1"), "s2")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "s2: 4 answers to records outside shard 2/2, such as task1/" in done.stderr
    assert not (tmp_path / "merged").exists()


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["predictions.jsonl", "verdicts.jsonl", "scores.jsonl"])
@pytest.mark.parametrize("place", [".", "contexts/256"])
def test_so_is_one_of_whose_journals_one_has_them(sized_shards, tmp_path, place, name):
    shutil.copytree(sized_shards / "s2", tmp_path / "s2")
    strange = (sized_shards / "s1" / place / name).read_bytes()
    with (tmp_path / "s2" / place / name).open("ab") as journal:
        journal.write(strange)
    with pytest.raises(RunFolderError, match="records outside shard 2/2"):
        merge(tmp_path / "merged", [sized_shards / "s1", tmp_path / "s2"])
    assert not (tmp_path / "merged").exists()


@pytest.fixture(scope="module")
def sized_shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sized")
    words = ("task=utilization", "model=rules", "memory=bm25", "max_context_tokens=256,1k")
    for number in (1, 2):
        ran(folder / f"s{number}", *words, "baseline_records=0", "limit=2", f"shard={number}/2")
    return folder


@pytest.mark.few(2)
@pytest.mark.parametrize("shard", ["9/2", "²/2", ["1/2"], 7, "1" * 400])
def test_a_manifest_of_no_shard_is_one_line(shards, tmp_path, shard):
    shutil.copytree(shards / "s2", tmp_path / "s2")
    path = tmp_path / "s2" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["settings"]["shard"] = shard
    path.write_text(json.dumps(manifest))
    done = run(tmp_path, "merge", "merged", str(shards / "s1"), "s2")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "s2: manifest.json, settings.shard: expected NUMBER/COUNT" in done.stderr


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "1/0", "a/b", "1/3/5"])
def test_what_is_no_shard_is_refused(shard):
    with pytest.raises(UsageError, match="expected NUMBER/COUNT, such as 3/8"):
        parse_words(["task=extraction", "model=rules", f"shard={shard}"], RunSettings)


def test_more_shards_than_sessions_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"shard=1/9: more shards than sessions \(3\); use fewer"):
        ran(tmp_path / "s", "task=extraction", "model=rules", "limit=3", "shard=1/9")
