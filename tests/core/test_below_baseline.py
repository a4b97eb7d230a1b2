"""Runs below a trivial baseline are marked; only baselines near 0 are said to be expected there."""

import pytest

from tests.endtoend import run

ABOUT_ZERO = "(expected to score about 0)"


@pytest.mark.parametrize(
    ("task", "below", "about_zero"),
    [
        ("update", "F1 of changed memories (macro) .038, floor/positional .052 (Δ -.014", False),
        ("retrieval", "", True),
        ("personamem", "accuracy .271, floor/length-by-type .282 (Δ -.011", False),
    ],
)
def test_a_run_below_a_baseline_is_marked_in_its_table_and_in_its_report(
    tmp_path, task, below, about_zero
):
    done = run(tmp_path, "run", f"task={task}", "model=rules", "data=samples", "out=out")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert (ABOUT_ZERO in text) == about_zero
    assert ("↓ Warning, below a trivial baseline: " in text) == bool(below)
    assert below in text
    assert run(tmp_path, "report", "out", "out=page.html").returncode == 0
    header = (tmp_path / "page.html").read_text("utf-8").partition("</header>")[0]
    assert ("below a trivial baseline" in header) == bool(below)
    assert below in header
    assert (ABOUT_ZERO in (tmp_path / "page.html").read_text("utf-8")) == about_zero


def test_the_table_of_several_tasks_marks_those_below_a_baseline(tmp_path):
    done = run(tmp_path, "run", "task=update,retrieval", "model=rules", "data=samples", "out=out")
    table = " ".join(done.stdout[done.stdout.index("every task") :].split())
    assert table.index("Update: F1 of changed") < table.index("↓") < table.index("Retrieval, 100")
    assert "recall@1 ↓" not in table
    assert "↓ Warning, below a trivial baseline: Update: F1 of changed memories" in table
