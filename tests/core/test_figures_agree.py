"""Figures and words that say the same wherever they are printed."""

from tests.endtoend import run

LETTERS = "share a letter"


def folded(text: str) -> str:
    return " ".join(text.split())


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


def test_a_baseline_without_an_interval_is_named_as_the_baseline(tmp_path):
    words = ("task=retrieval,personamem", "model=rules", "data=samples", "out=out")
    assert "No interval" not in run(tmp_path, "run", *words).stdout
    text = folded(run(tmp_path, "show", "out").stdout)
    floor = "floor/length-by-type (PersonaMem 32k)"
    assert f"No interval for {floor}: too few sessions, or no variance" in text
    assert "No interval for PersonaMem" not in text
