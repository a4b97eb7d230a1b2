import importlib.util
import json
import sys

import numpy as np
import pytest
from scipy.stats import binom

from alps.stats.bootstrap import clustered_mean
from alps.stats.intervals import Confusion, clopper_pearson
from tests.conftest import ROOT

FILE = ROOT / "bench" / "coverage.py"


@pytest.fixture(scope="module")
def bench():
    # Under another name: one that the measurer of test coverage has would hide it.
    sys.path.append(str(FILE.parent))  # last: a benchmark may be called as a package is
    spec = importlib.util.spec_from_file_location("bench_of_intervals", FILE)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_samples_without_an_interval_are_misses_and_have_no_width(bench):
    said = [(0.2, 0.4, False), (0.3, 0.7, False), (None, None, False), (0.9, 1.2, True)]
    found = bench.figures([bench.Interval(*interval) for interval in said], 0.35)
    assert (found.coverage, found.none, found.outside) == (0.5, 0.25, 0.25)
    assert (found.given, found.width) == (pytest.approx(2 / 3), pytest.approx(0.3))
    assert found.error == pytest.approx(0.25)
    nothing = bench.figures([bench.Interval(None, None)], 0.35)
    assert (nothing.coverage, nothing.given, nothing.width, nothing.none) == (0, None, None, 1)


@pytest.mark.parametrize("together", [False, True])
def test_what_is_drawn_has_the_rates_of_its_setting(bench, together):
    setting, generator, count = (
        bench.Setting(0.7, 0.9, 0.8, 1, 1),
        np.random.default_rng(0),
        200_000,
    )
    if together:
        truth, judge, names = bench.clustered_items(generator, setting, count)
        assert (np.bincount(names) == bench.CLUSTER).all()
        assert np.corrcoef(truth[::5], truth[1::5])[0, 1] == pytest.approx(bench.TOGETHER, abs=0.02)
        both = truth[::5] & truth[1::5]
        assert np.corrcoef(judge[::5][both], judge[1::5][both])[0, 1] == pytest.approx(
            bench.TOGETHER, abs=0.02
        )
        rates = truth.mean(), judge[truth].mean(), 1 - judge[~truth].mean()
    else:
        cells = bench.counted(generator, setting, count)
        positive, negative = cells.tp + cells.fn, cells.tn + cells.fp
        rates = positive / count, cells.tp / positive, cells.tn / negative
    assert rates == pytest.approx((0.7, 0.9, 0.8), abs=0.01)


def test_labels_alone_show_their_own_noise_only(bench):
    low, high, _ = bench.labels_alone(
        np.random.default_rng(0), 0.6, Confusion(tp=50, fn=0, fp=0, tn=50)
    )
    assert (low, high) == pytest.approx((0.6, 0.6))
    low, high, _ = bench.labels_alone(
        np.random.default_rng(0), 0.6, Confusion(tp=45, fn=5, fp=5, tn=45)
    )
    assert 0.5 < low < 0.625 < high < 0.75
    assert (
        bench.labels_alone(np.random.default_rng(0), 0.6, Confusion(tp=9, fn=1, fp=0, tn=0)).low
        is None
    )


def test_bounds_are_missed_in_a_setting_or_on_average_and_only_by_ours(bench):
    def table(*shares):
        rows = [bench.Figures(share, 0, share, 0.1, 0, 0) for share in shares]
        return {
            setting: {"ours": row, "x bad": rows[0]}
            for setting, row in zip(bench.SETTINGS, rows, strict=False)
        }

    assert bench.misses(table(0.93, 0.96)) == []
    assert [miss.split(" at ")[0] for miss in bench.misses(table(0.91, 0.99))] == [
        "ours: 0.910 (s.e. 0.0000)"
    ]
    assert bench.misses(table(0.93, 0.94)) == ["ours: 0.935 (s.e. 0.0000) on average"]


def test_the_bench_prints_80_columns_and_writes_its_figures(bench, tmp_path, monkeypatch, capsys):
    # Without the outputs of models: seven runs are more than a test of the bench needs.
    monkeypatch.setattr(sys.modules["printed"], "BESIDE", tmp_path / "nothing")
    monkeypatch.setattr(sys.modules["printed"], "sample_folder", lambda: None)
    monkeypatch.delenv("ALPS_SAMPLE", raising=False)
    monkeypatch.setattr(sys, "argv", ["coverage.py", "draws=6", f"out={tmp_path / 'found.json'}"])
    code = 0
    try:
        bench.main()
    except SystemExit as ended:
        code = ended.code
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    found = json.loads((tmp_path / "found.json").read_text())
    assert [len(found[part]) for part in ("independent", "clustered")] == [5, 5]
    assert code == bool(found["missed"])
    covered = found["independent"][0]["methods"]["Rogan-Gladen"]["coverage"]
    assert 0.5 < covered <= 1
    assert f"Rogan-Gladen                     {covered:.3f}" in printed
    said = " ".join(printed.split())
    assert "alpsbench_full is not beside the checkout" in said
    assert "5 sessions are too few for 300 records: no interval is printed" in said
    kinds = {(row["kind"], row["method"]) for row in found["printed"]}
    assert {("rate", "ours"), ("mean", "ours"), ("marks", "ours"), ("difference", "ours")} <= kinds
    assert len(found["tables"]) == 15


@pytest.mark.parametrize("word", ["draws=0", "drws=5", "out=nowhere/found.json"])
def test_a_word_that_does_not_fit_is_one_line(bench, word, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["coverage.py", word])
    with pytest.raises(SystemExit) as ended:
        bench.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_is_simulated_has_the_rate_and_the_correlation_of_its_setting(bench):
    printed, generator = sys.modules["printed"], np.random.default_rng(3)
    for rates in (printed.beta_rates, printed.latent_rates):
        own = rates(generator, 0.9, 0.3, (200_000, 1))
        assert own.mean() == pytest.approx(0.9, abs=0.003)
        assert own.var() / 0.09 == pytest.approx(0.3, abs=0.01)


def test_many_samples_at_once_have_the_intervals_that_runs_print(bench):
    printed, generator = sys.modules["printed"], np.random.default_rng(4)
    layout = printed.Layout(25, 5)
    names = np.repeat(np.arange(5), layout.sizes)
    values = (generator.random((40, 25)) < 0.9).astype(np.float64)
    values[0] = 1
    sums = np.stack([np.bincount(names, weights=row) for row in values])
    share = values.mean(axis=1)
    moments = printed.moments_from(sums, layout, share * (1 - share) / 25)
    low, high = printed.bounded_interval(moments, 0.0, 1.0)
    for place, row in enumerate(values):
        estimate = clustered_mean(row, names)
        assert (low[place], high[place]) == pytest.approx((estimate.low, estimate.high))


def test_the_exact_width_is_that_of_clopper_and_pearson(bench):
    widths = [clopper_pearson(k, 11) for k in range(12)]
    expected = sum(binom.pmf(k, 11, 0.8) * (one.high - one.low) for k, one in enumerate(widths))
    printed = sys.modules["printed"]
    assert printed.exact_width(0.8, 11.0) == pytest.approx(expected)
    assert printed.exact_width(0.8, 12.0) < printed.exact_width(0.8, 11.4) < expected


def test_a_bound_that_is_missed_is_said(bench):
    printed = sys.modules["printed"]
    setting = "rate", "rate 0.9", printed.Layout(25, 25), 0.0, printed.OURS, 2_000
    good, bad = (printed.Outcome(*setting, covered, 0.2, 0.19) for covered in (0.95, 0.85))
    wide = printed.Outcome(*setting, 0.95, 0.3, 0.2)
    quiet, loud = (
        printed.Alarm(printed.Layout(8, 8), 2_000, share, 0.1, 0.3) for share in (0.03, 0.08)
    )

    def unkept(*rows, alarm=quiet):
        return [bound.what for bound in bench.Printed(rows, [alarm], []).bounds() if not bound.held]

    assert unkept(good) == []
    assert unkept(good, bad) == [
        "scores: covered in the worst setting",
        "scores: covered on average",
    ]
    assert unkept(wide) == ["rates: width beside the exact one's", "the same, n 25"]
    assert unkept(good, alarm=loud) == ["tables of equal runs with a bold p"]
