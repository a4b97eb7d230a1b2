"""A run in shards, on as many machines: merged, it is the run that was never divided."""

import json
import shutil
from pathlib import Path
from random import Random

import pytest

from alps.errors import RunFolderError, UsageError
from alps.ext.fleet.merge import merge
from alps.judges.admission import DRAWN
from tests.endtoend import (
    JOURNALS,
    edit_json,
    finish,
    one_line,
    rows,
    run,
    start,
    summary,
    wait_until,
)
from tests.few import few
from tests.loopback import Answer, serve
from tests.submissions import changed, make_run

COUNT = 3
TIMED = ("seconds", "seconds_per_query", "phases", "answers", "bytes_per_1000_turns", "calls")
TIMED += ("admission",)
OFF = {"ALPS_CACHE": "off", "OPENAI_API_KEY": "none"}
MEMORY = json.dumps({"memories": [{"label": "UNMAPPED", "value": "Lives in a house"}]})
VERDICT = json.dumps({"pairs": []})


OVER_HTTP = ("concurrency=2", "limit=12", "baseline_records=3", "structured=json")


def asking(server, *words):
    """Return the words of a run whose model and judge are asked over HTTP."""
    asked = ("run", "task=extraction", "model=openai/scripted", f"api_base={server.url}")
    judge = ("judge=openai/judge", f"judge_api_base={server.url}", "judge_structured=json")
    return (*asked, *judge, *OVER_HTTP, *words)


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
    ours, theirs = (json.loads((one / "manifest.json").read_text()) for one in (merged, whole))
    assert ours == theirs
    assert untimed(summary(merged)) == untimed(summary(whole))
    return summary(merged), summary(whole)


DIVIDED = {
    "repeated": ("task=extraction,update", "model=rules", "repeats=2"),
    "memory": ("task=utilization,forgetting", "model=rules", "memory=bm25"),
    "pools": ("task=retrieval", "model=bm25", "distractors=100"),
    "sizes": ("task=utilization", "model=rules", "max_context_tokens=100,1k", "ability=pa"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("case", few({name: name for name in DIVIDED}, {"repeated", "pools"}))
def test_merged_shards_are_the_undivided_run(case, tmp_path):
    words = (*DIVIDED[case], "limit=9")
    whole = make_run(tmp_path / "whole", *words)
    shards = []
    for number in range(1, COUNT + 1):
        shards.append(make_run(tmp_path / f"s{number}", *words, f"shard={number}/{COUNT}"))
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
        assert run(tmp_path, *asking(server, "out=whole"), **OFF).returncode == 0
        asked = len(server.requests)
        for number in range(1, COUNT + 1):
            shard = asking(server, f"shard={number}/{COUNT}", f"out=s{number}")
            if number == 2:
                process = start(tmp_path, *shard, **OFF)
                path = tmp_path / "s2" / "predictions.jsonl"
                wait_until(lambda path=path: path.exists() and path.read_bytes().count(b"\n") > 2)
                process.kill()
                finish(process)
                said = one_line(run(tmp_path, "merge", "merged", "s1", "s2"))
                assert "s2: not finished" in said
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
        make_run(folder / f"s{number}", *words, f"shard={number}/2")
    make_run(folder / "other", "task=extraction", "model=oracle", "limit=8", "shard=2/2")
    make_run(folder / "of-three", *words, "shard=2/3")
    make_run(folder / "whole", *words)
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


@pytest.fixture
def spoilt(shards, tmp_path):
    """The second shard, which may be spoiled, and what merging it with the first one says."""

    def told():
        said = one_line(run(tmp_path, "merge", "merged", str(shards / "s1"), "s2"))
        assert not (tmp_path / "merged").exists()
        return said

    return Path(shutil.copytree(shards / "s2", tmp_path / "s2")), told


def test_a_shard_with_the_records_of_another_is_refused_by_name(shards, spoilt):
    folder, told = spoilt
    for name in JOURNALS:
        shutil.copy(shards / "s1" / name, folder / name)
    assert "s2: 4 answers to records outside shard 2/2, such as task1/" in told()


@pytest.mark.few(2)
@pytest.mark.parametrize("name", JOURNALS)
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
        make_run(
            folder / f"s{number}", *words, "baseline_records=0", "limit=2", f"shard={number}/2"
        )
    return folder


@pytest.mark.few(2)
@pytest.mark.parametrize("shard", ["9/2", "²/2", ["1/2"], 7, "1" * 400])
def test_a_manifest_of_no_shard_is_one_line(spoilt, shard):
    folder, told = spoilt
    edit_json(folder / "manifest.json", changed("settings.shard", shard))
    assert "s2: manifest.json, settings.shard: expected NUMBER/COUNT" in told()


NO_SHARD = "expected NUMBER/COUNT, such as 3/8"


@pytest.mark.parametrize(
    ("shard", "told"),
    [
        *((shard, NO_SHARD) for shard in ("0/3", "4/3", "1", "1/0", "a/b", "1/3/5")),
        ("1/9", r"shard=1/9: more shards than sessions \(3\); use fewer"),
    ],
)
def test_what_is_no_shard_is_refused(tmp_path, shard, told):
    words = ("task=extraction", "model=rules", "limit=3", f"shard={shard}")
    with pytest.raises(UsageError, match=told):
        make_run(tmp_path / "run", *words)
