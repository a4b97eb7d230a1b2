"""Runs below a trivial baseline are marked; only baselines near 0 are said to be expected there."""

import re

import pytest

from tests.endtoend import run

ABOUT_ZERO = "(expected to score about 0)"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("task", "below", "about_zero"),
    [
        ("update", ("F1 of changes", "positional", ".038", ".052", "-.014"), False),
        ("retrieval", (), True),
        ("personamem", ("accuracy", "length-by-type", ".271", ".282", "-.011"), False),
    ],
)
def test_a_run_below_a_baseline_is_marked_in_its_table_and_in_its_report(
    tmp_path, task, below, about_zero
):
    done = run(tmp_path, "run", f"task={task}", "model=rules", "data=samples", "out=out")
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert first.endswith("below a trivial baseline") == bool(below)
    assert (ABOUT_ZERO in run(tmp_path, "show", "out").stdout) == about_zero
    if below:
        title, baseline, own, its, apart = below
        assert f" {own} [" in first
        rows = [line.split() for line in others]
        (best,) = (row for row in rows if row[:3] == ["best", "baseline", its])
        assert best[-1] == f"floor/{baseline}"
        assert [row for row in rows if row[:4] == ["Δ", "vs.", "baseline", apart]]
    assert run(tmp_path, "report", "out", "out=page.html").returncode == 0
    header = (tmp_path / "page.html").read_text("utf-8").partition("</header>")[0]
    assert ("below a trivial baseline" in header) == bool(below)
    if below:
        warning = f" {own}, below trivial baseline {baseline} {its}, Δ {apart} ["
        assert re.search(rf"<li>↓ {task}.*{re.escape(warning)}", header, re.IGNORECASE)
        assert f"best trivial baseline {its}" in header  # the tick in the plot
        assert title in (tmp_path / "page.html").read_text("utf-8")
    assert (ABOUT_ZERO in (tmp_path / "page.html").read_text("utf-8")) == about_zero
