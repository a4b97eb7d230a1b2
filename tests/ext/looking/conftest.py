"""The runs that most tests here look at."""

import shutil
from pathlib import Path

import pytest

from tests.report_runs import make_hard_run, make_samples_run


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with a run on the samples, and one in which everything went wrong."""
    folder = tmp_path_factory.mktemp("looking")
    make_samples_run(folder)
    make_hard_run(folder)
    return folder


@pytest.fixture
def hard_run(place, monkeypatch):
    """The run in which everything went wrong, where its data are found."""
    monkeypatch.chdir(place)
    return place / "hard-run"


@pytest.fixture
def copied_run(hard_run, tmp_path):
    """A copy of it that may be changed."""
    return Path(shutil.copytree(hard_run, tmp_path / "copy"))
