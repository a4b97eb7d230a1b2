"""Comparing many runs: the headline is a family of its pairs, diagnostics are another of all
their tests, and equal runs rarely have a bold p in either.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from alps.stats.paired import holm
from tests.core.test_compare import (
    METRICS,
    RECORDS,
    compared,
    contrast,
    folded,
    made,  # noqa: F401
    runs,  # noqa: F401
    set_scores,
    shown,
    with_p,
)  # fixtures of these tests, too


@pytest.mark.release
@pytest.mark.usefixtures("runs")
def test_of_tables_of_equal_runs_one_in_twenty_has_a_bold_p_at_most() -> None:
    """Four runs and three metrics: a headline of six pairs, and twelve tests of diagnostics."""
    generator = np.random.default_rng(20)
    bold, raw = [0, 0], 0
    shutil.copytree("rules", "again")
    shutil.rmtree("data")  # of few sessions intervals are wide, and hardly any p would be bold
    for _ in range(100):
        for name in ("rules", "empty", "oracle", "again"):
            own = generator.random(RECORDS)
            columns = {
                metric: ((own + generator.random(RECORDS)) / 2).tolist() for metric in METRICS
            }
            set_scores(Path(name), columns)
        contrasts = with_p(compared("rules", "empty", "oracle", "again"))
        assert len(contrasts) == 18
        for family, part in enumerate((contrasts[:6], contrasts[6:])):
            bold[family] += any(found.corrected <= 0.05 for found in part)
        raw += any(found.p <= 0.05 for found in contrasts)
    assert raw > 20, (raw, bold)
    assert max(bold) <= 5


@pytest.mark.usefixtures("runs")
def test_pairs_of_a_headline_are_one_family_and_diagnostics_another() -> None:
    generator = np.random.default_rng(5)
    for place, name in enumerate(("rules", "empty", "oracle")):
        columns = {
            metric: (generator.random(RECORDS) * 0.4 + (0, 0.05, 0.5)[place]).tolist()
            for metric in METRICS
        }
        set_scores(Path(name), columns)
    found = compared("rules", "empty", "oracle")
    contrasts = with_p(found)
    for family in (contrasts[:3], contrasts[3:]):
        assert [c.corrected for c in family] == pytest.approx(holm([c.p for c in family]))
    assert found.family == 9 == found.as_json()["family"]
    assert found.diagnostics == 6 == found.as_json()["diagnostics"]
    assert "Holm's method treats the 6 tests of other metrics as one family" in folded(shown(found))
    for metric in found.tracks[0].metrics:
        letters = {one.name: set(one.letters) for one in metric.ranked}
        for one in (found for found in metric.contrasts if found.p is not None):
            assert bool(letters[one.first] & letters[one.second]) == (one.corrected > 0.05)
    assert len({c.corrected <= 0.05 for c in contrasts}) == 2


@pytest.mark.usefixtures("runs")
def test_an_exact_p_is_printed_where_records_stand_alone() -> None:
    set_scores(
        Path("rules"),
        {"f1": [1.0] * 8 + [0.0] + [1.0] * 15, "recall": [n % 3 / 3 for n in range(RECORDS)]},
    )
    set_scores(
        Path("empty"),
        {"f1": [0.0] * 8 + [1.0] + [1.0] * 15, "recall": [n % 4 / 4 for n in range(RECORDS)]},
    )
    clustered = folded(shown(compared("rules", "empty")))
    assert "8 records score 1 only in A, 1 only in B." in clustered
    assert "McNemar" not in clustered
    shutil.rmtree("data")
    alone = compared("rules", "empty")
    assert contrast(alone).mcnemar.p == pytest.approx(0.0390625)
    assert "exact McNemar p .039." in folded(shown(alone))
