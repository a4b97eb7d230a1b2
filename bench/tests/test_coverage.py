"""The simulation of intervals: what it draws, what it counts, and what it calls a miss."""

import importlib.util
import sys

import numpy as np
import pytest
from scipy.stats import binom

from alps.ext.audits.intervals import clopper_pearson
from alps.stats.bootstrap import clustered_mean
from tests.conftest import ROOT


@pytest.fixture
def bench(monkeypatch):
    """The module of the benchmark, under another name: that of the measurer of tests hides it."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "bench")])
    file = ROOT / "bench" / "coverage.py"
    spec = importlib.util.spec_from_file_location("bench_of_intervals", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def printed(bench):
    """The module of what is drawn."""
    return importlib.import_module("printed")


def test_what_is_simulated_has_the_rate_and_the_correlation_of_its_setting(printed):
    generator = np.random.default_rng(3)
    for rates in (printed.beta_rates, printed.latent_rates):
        own = rates(generator, 0.9, 0.3, (200_000, 1))
        assert own.mean() == pytest.approx(0.9, abs=0.003)
        assert own.var() / 0.09 == pytest.approx(0.3, abs=0.01)


def test_many_samples_at_once_have_the_intervals_that_runs_print(printed):
    generator, layout = np.random.default_rng(4), printed.Layout(25, 5)
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


def test_the_exact_width_is_that_of_clopper_and_pearson(printed):
    widths = [clopper_pearson(k, 11) for k in range(12)]
    expected = sum(binom.pmf(k, 11, 0.8) * (one.high - one.low) for k, one in enumerate(widths))
    assert printed.exact_width(0.8, 11.0) == pytest.approx(expected)
    assert printed.exact_width(0.8, 12.0) < printed.exact_width(0.8, 11.4) < expected


def test_a_bound_that_is_missed_is_said(bench, printed):
    setting = "rate", "rate 0.9", printed.Layout(25, 25), 0.0, 2_000
    good, bad = (printed.Outcome(*setting, covered, 0.2, 0.19) for covered in (0.95, 0.85))
    wide = printed.Outcome(*setting, 0.95, 0.3, 0.2)
    layout = printed.Layout(8, 8)
    quiet, loud = (printed.Alarm(layout, 2_000, share, 0.1, 0.3) for share in (0.03, 0.08))

    def unkept(*rows, alarm=quiet):
        return [bound.what for bound in bench.bounds(rows, [alarm]) if not bound.held]

    assert unkept(good) == []
    lacking = ["scores: covered in the worst setting", "scores: covered on average"]
    assert unkept(good, bad) == lacking
    assert unkept(wide) == ["rates: width beside the exact one's", "the same, n 25"]
    assert unkept(good, alarm=loud) == ["tables of equal runs with a bold p"]
