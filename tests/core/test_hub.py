import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import constants

from alps.data import hub as module
from alps.data.hub import HubError, HubName, as_read, is_hub, label, open_hub, public_name
from alps.data.release import open_split, read_samples, track_hash
from alps.errors import RunFolderError, UsageError
from alps.ext.datasets.audit import audit
from alps.run.estimate import dry_run
from alps.run.source import open_data
from alps.run.start import run, score_again
from alps.settings import RunSettings, parse_settings
from alps.tasks.extraction import read_sample
from tests.conftest import ROOT
from tests.core.test_layout import outside
from tests.endtoend import edit_json, finish, start
from tests.few import few
from tests.loopback import Answer, serve
from tests.loopback_hub import Refusal, files_of, serve_hub

SAMPLES = ROOT / "data" / "samples"
TASK1 = "dataset/dev/task1/model_input.jsonl"
GOLD1 = "dataset/dev/task1/reference_output.jsonl"
WRITTEN = "write a hub data set as hub, hub@REVISION or hub:OWNER/NAME@REVISION"
LOG_IN = r"`hf auth login`, or set HF_TOKEN"

# A clock of the client's own: were `time.sleep` itself replaced, every thread of this process that
# sleeps until something happens would spin, and nothing else get on.
UNHURRIED = SimpleNamespace(**{**vars(time), "sleep": lambda _: None})


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with the samples as its release, which this process takes for the hub; nobody waits
    between attempts.
    """
    with serve_hub() as hub:
        hub.push(files_of(SAMPLES))
        monkeypatch.chdir(tmp_path)
        ask_at(hub.url, monkeypatch)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "snapshots" / "hub"))
        monkeypatch.setattr("huggingface_hub.utils._http.time", UNHURRIED)
        monkeypatch.setattr("huggingface_hub.file_download.time", UNHURRIED)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        forget()
        yield hub
        huggingface_hub.close_session()
        forget()


def ask_at(url, monkeypatch):
    """Do what HF_ENDPOINT does for a process that has not imported the client yet."""
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", url)


def forget():
    """Forget what this process has asked the hub, as another process does."""
    module._resolved.cache_clear()


def settings(*words, **more):
    given = {"task": "extraction", "model": "rules", "data": "hub", "split": "dev", "limit": "3"}
    return parse_settings(
        {**given, **dict(word.split("=", 1) for word in words), **more}, RunSettings
    )


def manifest(folder):
    return json.loads((Path(folder) / "manifest.json").read_text())


def commit_of(hub):
    """Return the commit that the branch is at."""
    return hub.branches["Cosineyx/Alpsbench", "main"]


def moved(hub):
    """Move the branch on to a commit with other records, and return that commit."""
    files = files_of(SAMPLES)
    for name in (TASK1, GOLD1):
        files[name] = b"".join(files[name].splitlines(True)[1:])
    forget()
    return hub.push(files)


def asked_of(hub):
    """Return the requests since this was asked last."""
    requests, hub.requests[:] = list(hub.requests), []
    return requests


# what is read


@pytest.mark.parametrize("lfs", [True, False])
def test_a_track_is_the_release_byte_for_byte(hub, lfs):
    hub.lfs = lfs
    fetched = open_hub("hub", "dev").track("task1")
    folder = open_split(str(SAMPLES), "dev").track("task1")
    assert list(read_samples(fetched, read_sample)) == list(read_samples(folder, read_sample))
    assert track_hash(fetched) == track_hash(folder)
    assert ("CDN" in {what for what, _ in hub.requests}) is lfs


@pytest.mark.parametrize("above", ["dataset", ""])
def test_any_data_set_in_the_release_layout_is_read(hub, above):
    commit = hub.push(files_of(SAMPLES, above), repository="mine/own", branch="v2")
    done = run(settings("data=hub:mine/own@v2", "out=out"))
    assert done.summary.tracks["task1"].n == 3
    assert manifest("out")["settings"]["data"] == f"hub:mine/own@{commit}"


def test_only_the_files_of_a_track_are_fetched_and_once_and_the_commit_is_written_down(hub):
    commit = commit_of(hub)
    run(settings("out=one"))
    paths = [path for _, path in asked_of(hub) if "/resolve/" in path]
    assert paths
    assert {"task1"} == {path.split("/")[-2] for path in paths}
    assert manifest("one")["settings"]["data"] == f"hub@{commit}"
    assert manifest("one")["data"]["commit"] == commit
    assert f'data = "hub@{commit}"' in Path("one/config.toml").read_text()
    run(settings("out=two"))
    assert asked_of(hub) == []


def test_the_gold_of_the_test_split_is_withheld(hub):
    dev = files_of(SAMPLES)
    del dev[GOLD1]
    hub.push({name.replace("/dev/", "/test/"): content for name, content in dev.items()})
    samples = list(read_samples(open_hub("hub", "test").track("task1"), read_sample))
    assert samples
    assert {sample.gold for sample in samples} == {None}


def test_an_audit_looks_at_the_tracks_that_are_there(hub):
    files = files_of(SAMPLES, "")
    kept = {name: content for name, content in files.items() if "task1" in name or "task2" in name}
    hub.push(kept, repository="mine/own")
    assert {looked.track for looked in audit("hub:mine/own", "dev").tracks} == {"task1", "task2"}
    with pytest.raises(UsageError, match=r"split=dav: not in hub:mine/own@\w{40} \(splits: dev\)"):
        audit("hub:mine/own", "dav")


# one commit


def test_a_branch_that_moves_while_a_track_is_read_mixes_no_commits(hub):
    first = commit_of(hub)

    def move(path):
        if path.endswith(("model_input.jsonl", "reference_output.jsonl")) and len(hub.commits) == 1:
            moved(hub)

    hub.refuse = move
    done = run(settings("out=out", limit=None))
    assert len(hub.commits) == 2
    assert manifest("out")["data"]["commit"] == first
    assert done.summary.tracks["task1"].unscored == 0


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("asked", "out"),
    [("hub", "out=out"), ("hub@v1", "limit=3"), ("SHORT", "out=out"), ("LONG", "limit=3")],
)
def test_the_same_command_resumes_after_the_branch_moved(hub, capsys, asked, out):
    commit = hub.push(files_of(SAMPLES), branch="v1")
    asked = {"SHORT": f"hub@{commit[:9]}", "LONG": f"hub@{commit}"}.get(asked, asked)
    folder = run(settings(f"data={asked}", out)).folder
    before = (folder / "predictions.jsonl").read_bytes()
    lines = before.splitlines(True)
    (folder / "predictions.jsonl").write_bytes(lines[0])
    (folder / "summary.json").unlink()
    hub.branches["Cosineyx/Alpsbench", "v1"] = moved(hub)
    assert run(settings(f"data={asked}", out)).folder == folder
    assert (folder / "predictions.jsonl").read_bytes() == before
    assert manifest(folder)["data"]["commit"] == commit
    assert ("uses hub@" in capsys.readouterr().err) is (len(asked) < 40)
    assert dry_run(settings(f"data={asked}", out))[0].calls == 0


def test_what_names_another_commit_is_another_run(hub):
    old = commit_of(hub)
    run(settings("out=out"))
    new = moved(hub)
    hub.branches["Cosineyx/Alpsbench", "v2"] = new
    for data in (f"hub@{new}", f"hub@{new[:8]}", "hub@v2"):
        other = f'settings.data is "hub@{old}" there, "hub@{new}" here'
        with pytest.raises(RunFolderError, match=other):
            run(settings(f"data={data}", "out=out"))
    run(settings(f"data=hub@{old}", "out=out"))
    run(settings("out=elsewhere"))
    assert manifest("elsewhere")["data"]["commit"] == new


def test_predictions_are_judged_again_on_the_commit_they_were_made_on(hub):
    folder = run(settings("out=out")).folder
    commit = manifest(folder)["data"]["commit"]
    moved(hub)
    again = score_again(folder, {"out": "again"})
    assert manifest(again.folder)["settings"]["data"] == f"hub@{commit}"
    # A run that names its commit beside the data is read at that commit, too.
    edit_json(folder / "manifest.json", lambda whole: whole["settings"].update(data="hub"))
    forget()
    assert run(settings("out=out")).folder == folder
    assert score_again(folder, {"out": "older"}).summary.tracks["task1"].unscored == 0


# without a network


@pytest.fixture(params=few(["HF_HUB_OFFLINE", "nobody answers", "every answer is 503"], plain=2))
def unreachable(request, hub, monkeypatch):
    """Put the hub out of reach, in one of three ways, when it is called."""

    def cut_off():
        forget()
        if request.param == "HF_HUB_OFFLINE":
            monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
            huggingface_hub.close_session()
        elif request.param == "nobody answers":
            ask_at("http://127.0.0.1:9", monkeypatch)
        else:
            hub.refuse = lambda _: Refusal(503)

    return cut_off


@pytest.mark.few(1)
def test_what_is_cached_is_read_without_the_hub(hub, unreachable):
    commit = commit_of(hub)
    run(settings("out=one"))
    run(settings(f"data=hub@{commit[:9]}", "out=short"))
    unreachable()
    for place, data in enumerate(["hub", "hub@main", f"hub@{commit}", f"hub@{commit[:9]}"]):
        run(settings(f"data={data}", f"out=offline{place}"))
        assert manifest(f"offline{place}")["settings"]["data"] == f"hub@{commit}"
    run(settings("out=one"))


@pytest.mark.few(1)
def test_what_is_not_cached_is_one_line_without_the_hub(hub, unreachable):
    commit = commit_of(hub)
    run(settings("out=one"))
    unreachable()
    others = ("task=update", "data=hub"), ("task=all", f"data=hub@{commit}"), ("data=hub@v7",)
    for words in others:
        with pytest.raises(HubError, match=r"^data=hub@.*data=FOLDER$"):
            run(settings(*words, "out=two"))
    assert not Path("two").exists()


# what goes wrong


def test_a_track_that_the_hub_fails_to_give_is_an_error_and_one_that_is_not_there_is_left_out(hub):
    files = files_of(SAMPLES)
    del files["dataset/dev/task2/model_input.jsonl"]
    hub.push(files)
    left_out = open_data(settings("task=all")).description["left_out"]
    assert "the data set has no dev/task2/model_input.jsonl" in left_out["task2"]
    assert "task4_ability3" not in left_out
    moved(hub)
    hub.refuse = lambda path: Refusal(503) if "task4_ability3" in path else None
    failed = r"dev/task4_ability3: not in the cache, and the hub answered HTTP 503"
    with pytest.raises(HubError, match=failed):
        open_data(settings("task=all"))


def test_gold_that_everybody_can_see_and_that_is_missing_is_an_error(hub):
    files = files_of(SAMPLES)
    del files[GOLD1]
    hub.push(files)
    with pytest.raises(HubError, match=r"has no dev/task1/reference_output\.jsonl"):
        open_data(settings("task=all"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param("hub@nosuch", "Cosineyx/Alpsbench has no such revision", id="a branch"),
        pytest.param("hub@" + "a" * 40, "Cosineyx/Alpsbench has no such revision", id="a commit"),
        pytest.param("hub:no/such", f"or is private: log in with {LOG_IN}", id="a data set"),
        pytest.param("hub:such", WRITTEN, id="no owner"),
        pytest.param("hub:", WRITTEN, id="no name"),
        pytest.param("hub@", WRITTEN, id="no revision"),
    ],
)
def test_what_is_not_on_the_hub_is_named(hub, data, why):
    with pytest.raises(UsageError, match=f"data={data}.*{why}"):
        open_data(settings(f"data={data}"))


@pytest.mark.parametrize("token", [None, "another"])
def test_who_is_not_let_in_is_told_to_log_in(hub, monkeypatch, token):
    hub.token = "sesame"
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)
    way = f"access is restricted: request it at http.*/datasets/.*, then log in with {LOG_IN}"
    with pytest.raises(HubError, match=way):
        open_data(settings())
    monkeypatch.setenv("HF_TOKEN", "sesame")
    assert open_data(settings()).n == 3


@pytest.mark.parametrize(
    ("status", "part"), [(401, "/revision/"), (403, "/tree/"), (403, "/resolve/")]
)
def test_a_refusal_anywhere_says_log_in(hub, status, part):
    hub.refuse = lambda path: Refusal(status) if part in path else None
    with pytest.raises(HubError, match=f"log in with {LOG_IN}"):
        open_data(settings())


def test_a_body_that_is_cut_off_is_read_on_and_never_left_half(hub):
    hub.cut = 2
    assert open_data(settings()).n == 3
    commit = moved(hub)
    hub.cut = 1000
    with pytest.raises(HubError, match="dev/task1: can't be fetched"):
        open_data(settings())
    hub.cut = 0
    whole = open_data(settings(limit=None))
    assert whole.description["commit"] == commit
    assert whole.n == len(hub.commits["Cosineyx/Alpsbench", commit][TASK1].splitlines())


@pytest.mark.parametrize("split", ["d[e]v", "*", "../dev"])
def test_a_split_is_a_name_and_no_pattern_and_must_be_given(hub, split):
    with pytest.raises(UsageError, match=r"name of one folder|has no \S+ \(splits: dev\)"):
        open_data(settings(f"split={split}"))
    assert [path for _, path in hub.requests if "/resolve/" in path] == []
    with pytest.raises(UsageError, match="split="):
        open_hub("hub", None)


# names


@pytest.mark.parametrize("name", ["snapshots", "snapshots/dataset", "hub_private", "hubs"])
def test_a_local_folder_may_be_called_as_those_of_the_hub(tmp_path, name):
    shutil.copytree(SAMPLES / "dev" / "task1", tmp_path / name / "dev" / "task1")
    found = open_data(settings(f"data={tmp_path / name}"))
    assert found.n > 0
    assert "commit" not in found.description
    assert not is_hub(name)


def test_data_of_the_hub_are_named_in_one_way():
    commit = "0123456789" * 4
    assert HubName("a/b", commit).resolved() == commit
    assert as_read("hub", commit) == as_read("hub@main", commit) == f"hub@{commit}"
    assert as_read(f"hub:a/b@{commit}", "f" * 40) == f"hub:a/b@{commit}"
    assert (as_read("samples", commit), as_read("hub", None)) == ("samples", "hub")
    assert label(f"hub:a/b@{commit}") == "hub:a/b@012345678901"
    assert (label("some/folder"), label("hub@main")) == ("folder", "hub@main")
    names = [public_name(name) for name in (f"hub@{commit}", "hub:a/b@v1", "x/y")]
    assert names == ["hub", "hub:a/b", "y"]


# the command


def test_the_command_with_a_cap_on_costs_fetches_data(tmp_path):
    words = ("run", "task=extraction", "model=openai/gpt-4.1-mini", "data=hub", "split=dev")
    with serve_hub() as hub, serve(lambda _: Answer('{"memory_items": []}')) as server:
        hub.push(files_of(SAMPLES))
        place = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "OPENAI_API_KEY": "k"}
        more = ("limit=1", "max_cost=1", f"api_base={server.url}", "out=out")
        done = finish(start(tmp_path, *words, *more, **place))
    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 1


@pytest.mark.release
def test_who_asks_models_fetches_no_tokenizer_and_leaves_the_hub_usable(tmp_path):
    program = """
from alps.llm.wire import libraries
count = libraries().litellm.token_counter
print([count(model=name, text="one two three") \
for name in ("llama-2-7b", "llama-3-8b", "command-r", "claude-2")])
import huggingface_hub.constants as hub, os
print(os.environ.get("HF_HUB_OFFLINE"), hub.HF_HUB_OFFLINE)
"""
    with serve_hub() as hub:
        place = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path)}
        done = outside(ROOT, tmp_path, "-c", program, **place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[3, 3, 3, 3]", "None False"]
    assert hub.requests == []
