"""Figures and words that say the same wherever they are printed."""

import pytest

from tests.endtoend import run

LETTERS = "share a letter"


def folded(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    for name, model in (("one", "bm25"), ("two", "rules"), ("three", "floor/random")):
        words = ("task=retrieval", f"model={model}", "data=samples", f"out=runs/{name}")
        assert run(folder, "run", *words).returncode == 0
    return folder


def test_a_sweep_counts_the_unscored_as_the_list_of_runs_does(tmp_path):
    (tmp_path / "plan.toml").write_text(
        'data = "samples"\n[matrix]\nmodel = ["floor/generic"]\ntask = ["utilization"]\n'
    )
    done = run(tmp_path, "sweep", "plan.toml")
    listed = folded(run(tmp_path, "ls").stdout)
    assert "n 140, 140 unscored" in listed
    assert "140 unscored" in done.stderr, done.stderr
    assert " 0 unscored" not in done.stderr
    assert LETTERS not in folded(done.stdout)


def test_letters_are_explained_where_there_are_any(folder):
    pair, three = ("runs/one", "runs/two"), ("runs/one", "runs/two", "runs/three")
    for named, lettered in ((pair, False), (three, True)):
        compared = folded(run(folder, "compare", *named).stdout)
        assert ((LETTERS in compared), (" ties " in compared)) == (lettered, lettered)
        assert run(folder, "report", *named, "out=page.html").returncode == 0
        assert (LETTERS in (folder / "page.html").read_text("utf-8")) == lettered


def test_a_baseline_without_an_interval_is_named_as_the_baseline(tmp_path):
    words = ("task=retrieval,personamem", "model=rules", "data=samples", "out=out")
    assert "No interval" not in run(tmp_path, "run", *words).stdout
    text = folded(run(tmp_path, "show", "out").stdout)
    assert (
        "No interval of floor/length-by-type (personamem): too few sessions, or no variance" in text
    )
    assert "No interval of personamem" not in text
