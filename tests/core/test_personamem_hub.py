"""PersonaMem on the hub: one size is fetched, at one commit, and read as a folder is."""

import json

import pytest

from alps.tasks.personamem.personas import write_set
from tests import endtoend
from tests.endtoend import one_line
from tests.loopback_hub import serve_hub

NAME = "bowen-upenn/PersonaMem"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files of a data set with two sizes, as a commit has them."""
    folder = tmp_path_factory.mktemp("personas")
    write_set(folder, personas=2, size="32k", seed=3)
    made = {
        path.name: path.read_bytes() for path in folder.iterdir() if "timeline" not in path.name
    }
    made |= {name.replace("32k", "128k"): content for name, content in made.items()}
    return {**made, "README.md": b"# PersonaMem\n"}


@pytest.fixture
def hub(files):
    with serve_hub() as hub:
        hub.push(files, repository=NAME)
        yield hub


def run(hub, tmp_path, *words):
    place = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
    return endtoend.run(tmp_path, *words, **place)


def fetched(hub):
    return {path.rpartition("/")[2] for _, path in hub.requests if "/resolve/" in path}


RUN = ("run", "task=personamem", "model=oracle", "out=out")


def test_only_the_size_that_is_asked_for_is_fetched_at_one_commit(hub, tmp_path):
    done = run(hub, tmp_path, *RUN, "data=hub", "size=32k")
    assert done.returncode == 0, done.stderr
    assert fetched(hub) == {"questions_32k.csv", "shared_contexts_32k.jsonl"}
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    commit = hub.branches[NAME, "main"]
    assert manifest["settings"]["data"] == f"hub:{NAME}@{commit}"
    assert manifest["data"]["commit"] == commit
    assert manifest["data"]["tracks"]["personamem"]["n"] == 70


@pytest.mark.release
def test_a_run_keeps_its_commit_when_the_branch_moves(hub, tmp_path, files):
    words = (*RUN, "data=hub", "size=32k")
    assert run(hub, tmp_path, *words).returncode == 0
    commit = hub.branches[NAME, "main"]
    kept = (tmp_path / "out" / "predictions.jsonl").read_bytes()
    (tmp_path / "out" / "predictions.jsonl").write_bytes(kept.splitlines(True)[0])
    (tmp_path / "out" / "summary.json").unlink()
    questions = b"".join(files["questions_32k.csv"].splitlines(True)[:-1])
    hub.push({**files, "questions_32k.csv": questions}, repository=NAME)
    done = run(hub, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert "out uses hub:bowen-upenn/PersonaMem@" in done.stderr
    assert (tmp_path / "out" / "predictions.jsonl").read_bytes() == kept
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["data"]["commit"] == commit


def test_any_data_set_with_these_files_is_read_at_any_revision(hub, tmp_path, files):
    commit = hub.push(files, repository="mine/own", branch="v2")
    done = run(hub, tmp_path, *RUN, "data=hub:mine/own@v2", "size=128k")
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["settings"]["data"] == f"hub:mine/own@{commit}"
    assert fetched(hub) == {"questions_128k.csv", "shared_contexts_128k.jsonl"}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("data=hub",), "name a size with size= (32k, 128k, 1M)"),
        (("data=hub", "size=1M"), "no questions_1M.csv in it"),
        (("data=hub@nosuch", "size=32k"), f"{NAME} has no such revision"),
        (("data=hub:no/such", "size=32k"), "the data set does not exist or is private"),
    ],
)
def test_what_is_not_there_is_one_line(hub, tmp_path, words, said):
    done = run(hub, tmp_path, *RUN, *words)
    assert said in one_line(done)
    assert not (tmp_path / "out").exists()


def test_the_audit_reads_it_too(hub, tmp_path):
    words = ("data", "audit", f"data=hub:{NAME}", "split=32k", "format=json")
    done = run(hub, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tracks"] == [{"track": "32k", "rows": 70, "with_gold": 70}]
    done = run(hub, tmp_path, *words[:3])
    assert "name a size with split= (32k, 128k, 1M)" in one_line(done)
