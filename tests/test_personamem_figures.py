"""Figures of `task=personamem`: intervals by persona, paired differences, duplicates."""

import json

import numpy as np
import pytest

from alps.stats.bootstrap import RESAMPLED, clustered_mean, resampled_statistic
from tests.conftest import ROOT

PUBLISHED = ROOT.parent / "shared" / "personamem_sample"
published = pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"no {PUBLISHED.name} beside it")


def summary(folder):
    return json.loads((folder / "summary.json").read_text())["tracks"]["personamem"]


def run_published(alps, *names):
    for name in names:
        file = PUBLISHED / "predictions" / f"pred_32k_{name}_gpt-4o.csv"
        words = (f"data={PUBLISHED}", f"model=predictions:{file}", f"out={name}")
        done = alps("run", "task=personamem", *words)
        assert done.returncode == 0, done.stderr
    return done.stdout


def share_of(sums):
    return sums[..., 0] / sums[..., 1]


def few_large_clusters(shares, size=100):
    values = [[float(place < share * size) for place in range(size)] for share in shares]
    names = [name for name in range(len(shares)) for _ in range(size)]
    return np.array(values).ravel(), names


def test_few_large_clusters_have_an_interval_only_where_it_is_asked_for():
    values, names = few_large_clusters([0.2, 0.4, 0.5, 0.6, 0.8])
    bare, own = clustered_mean(values, names), clustered_mean(values, names, resampled=True)
    assert (bare.low, bare.method) == (None, None)
    assert bare.reason == "5 sessions are too few for 500 records"
    assert bare.value == own.value == 0.5
    # Student's between clusters: 2.776 · sqrt(.05 / 5) = .278
    assert (own.low, own.high) == (pytest.approx(0.222, abs=0.05), pytest.approx(0.778, abs=0.05))
    assert own.method == RESAMPLED


def test_clusters_that_agree_have_no_interval_of_no_width():
    values, names = few_large_clusters([1.0, 1.0, 1.0])
    estimate = clustered_mean(values, names, resampled=True)
    assert (estimate.value, estimate.low, estimate.method) == (1.0, None, None)
    assert estimate.reason


def test_expanded_percentiles_cover_what_they_promise():
    draw, covered = np.random.default_rng(7), 0
    for _ in range(200):
        hits = draw.binomial(30, draw.beta(5, 5, size=20))
        features = np.stack([hits, np.full(20, 30)], axis=1).astype(float)
        estimate = resampled_statistic(
            features, range(20), lambda sums: sums[..., 0] / sums[..., 1]
        )
        covered += estimate.low <= 0.5 <= estimate.high
    assert 0.9 <= covered / 200 <= 0.99


@published
def test_a_published_run_has_intervals_by_persona_and_counts_duplicates_once(alps, tmp_path):
    printed = run_published(alps, "rag")
    found = summary(tmp_path / "rag")
    accuracy = found["scores"]["accuracy"]
    assert accuracy["method"] == RESAMPLED
    assert accuracy["low"] == pytest.approx(0.588, abs=0.0015)
    assert accuracy["high"] == pytest.approx(0.688, abs=0.0015)
    assert found["scores"]["leak_adjusted"]["value"] == pytest.approx(0.584, abs=0.0005)
    assert found["scores"]["leak_adjusted"]["n"] == 190
    assert found["distinct"] == 400
    assert "400 distinct questions" in printed
    assert "bootstrap over clusters" in printed


@published
def test_a_published_run_is_compared_with_every_baseline_by_every_figure(alps, tmp_path):
    printed = run_published(alps, "rag")
    scores, floors = (summary(tmp_path / "rag")[name] for name in ("scores", "floors"))
    figures = ["accuracy", "macro_accuracy", "leak_adjusted", "length_balanced"]
    for floor in floors.values():
        assert list(floor["differences"]) == figures
        for name, apart in floor["differences"].items():
            own = scores[name]["value"] - floor["scores"][name]["value"]
            assert apart["value"] == pytest.approx(own)
            assert apart["low"] < apart["value"] < apart["high"]
    by_length = floors["floor/length-by-type"]["differences"]["accuracy"]
    assert by_length["value"] == pytest.approx(-0.020, abs=0.0005)
    lines = [line.split() for line in printed.splitlines()]
    assert ["floor/length-by-type", ".661"] in [words[:2] for words in lines]


@published
def test_rag_and_mem0_differ_by_the_published_sign_test_and_by_an_interval_of_ours(alps):
    run_published(alps, "rag", "mem0")
    printed = " ".join(alps("compare", "rag", "mem0").stdout.split())
    assert "89 only in A, 59 only in B; exact sign test of single records" in printed
    assert "uncorrected: p .017" in printed
    found = json.loads(alps("compare", "rag", "mem0", "format=json").stdout)
    contrast = found["tracks"]["personamem"]["metrics"]["accuracy"]["differences"][0]
    assert contrast["mcnemar"]["p"] == pytest.approx(0.017, abs=0.0005)
    assert contrast["difference"]["value"] == pytest.approx(30 / 589)
    assert contrast["difference"]["method"] == RESAMPLED
    assert 0 < contrast["difference"]["low"] < 30 / 589 < contrast["difference"]["high"]


def test_other_tasks_have_no_such_keys(alps, tmp_path):
    done = alps("run", "task=extraction", "model=rules", "limit=8", "out=run")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "run" / "summary.json").read_text()
    for key in ('"method"', '"differences"', '"distinct"', '"breakdowns"'):
        assert key not in text
