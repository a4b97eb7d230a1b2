import shutil

import pytest

from alps.data.hub import HubSplit, commit_of, open_hub
from alps.data.release import open_split, read_samples, track_hash
from alps.errors import DataError, UsageError
from alps.run.source import open_data
from alps.settings import RunSettings, parse_settings
from alps.tasks.extraction import read_sample
from tests.conftest import ROOT

SAMPLES = ROOT / "data" / "samples"


@pytest.fixture
def copy(tmp_path):
    """A copy of the hub's folder for one commit, as its cache lays it out."""
    folder = tmp_path / "snapshots" / ("0123456789" * 4) / "dataset"
    shutil.copytree(SAMPLES / "dev", folder / "dev")
    shutil.copytree(SAMPLES / "dev", folder / "test")
    (folder / "test" / "task1" / "reference_output.jsonl").unlink()
    return folder


def test_a_local_copy_is_read_as_the_folder_it_is_a_copy_of(copy):
    fetched = HubSplit("dev", str(copy)).track("task1")
    folder = open_split(str(SAMPLES), "dev").track("task1")
    assert list(read_samples(fetched, read_sample)) == list(read_samples(folder, read_sample))
    assert track_hash(fetched) == track_hash(folder)


def test_the_commit_that_was_read_is_known(copy):
    assert commit_of(HubSplit("dev", str(copy)).track("task1")) == "0123456789" * 4
    assert commit_of(SAMPLES) is None


def test_a_snapshot_of_something_else_than_a_commit_is_refused(tmp_path):
    with pytest.raises(DataError, match="main"):
        commit_of(tmp_path / "snapshots" / "main" / "dataset")


def test_a_cache_below_a_folder_of_the_same_name_is_read_as_any_other(copy, tmp_path):
    above = tmp_path / "disk" / "snapshots" / "huggingface"
    above.mkdir(parents=True)
    shutil.move(tmp_path / "snapshots", above)
    folder = HubSplit("dev", str(above / copy.relative_to(tmp_path))).track("task1")
    assert commit_of(folder) == "0123456789" * 4


@pytest.mark.parametrize("name", ["snapshots", "snapshots/dataset"])
def test_a_local_folder_may_be_called_as_those_of_the_hub(tmp_path, name):
    shutil.copytree(SAMPLES / "dev" / "task1", tmp_path / name / "dev" / "task1")
    words = {"task": "extraction", "model": "rules", "data": str(tmp_path / name)}
    found = open_data(parse_settings(words, RunSettings))
    assert found.n > 0
    assert "commit" not in found.description


def test_the_gold_of_the_test_split_is_withheld(copy):
    samples = list(read_samples(HubSplit("test", str(copy)).track("task1"), read_sample))
    assert samples
    assert {sample.gold for sample in samples} == {None}


def test_gold_that_is_missing_elsewhere_is_an_error(copy):
    (copy / "dev" / "task1" / "reference_output.jsonl").unlink()
    with pytest.raises(UsageError, match="reference_output"):
        HubSplit("dev", str(copy)).track("task1")


def test_a_track_that_is_not_there_is_named(copy):
    with pytest.raises(UsageError, match="task9/model_input"):
        HubSplit("dev", str(copy)).track("task9")


@pytest.mark.parametrize(
    ("data", "base"),
    [
        pytest.param("hub", "hf://datasets/Cosineyx/Alpsbench@main/dataset", id="the newest"),
        pytest.param("hub@0a1b2c3d", "hf://datasets/Cosineyx/Alpsbench@0a1b2c3d/dataset", id="a pinned commit"),
    ],
)
def test_the_revision_is_part_of_what_is_fetched(data, base):
    assert open_split(data, "dev") == HubSplit("dev", base)


def test_a_split_must_be_named():
    with pytest.raises(UsageError, match="split="):
        open_hub("hub", None)


def test_a_hub_out_of_reach_is_one_line_that_says_what_to_do(alps, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    finished = alps("run", "task=extraction", "model=rules", "data=hub", "split=dev")
    assert finished.returncode == 2
    assert len(finished.stderr.splitlines()) == 1
    assert "data=FOLDER" in finished.stderr
