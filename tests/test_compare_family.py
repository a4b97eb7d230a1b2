"""Comparing many runs: every p that is shown is of one family, and equal runs rarely have a bold
one.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from alps.stats.paired import holm
from tests.test_compare import (
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


@pytest.mark.usefixtures("runs")
def test_of_tables_of_equal_runs_one_in_twenty_has_a_bold_p_at_most() -> None:
    """Three runs and three metrics: a reader looks through nine p for a bold one."""
    generator = np.random.default_rng(20)
    bold = raw = 0
    for _ in range(100):
        for name in ("rules", "empty", "oracle"):
            own = generator.random(RECORDS)
            columns = {
                metric: ((own + generator.random(RECORDS)) / 2).tolist() for metric in METRICS
            }
            set_scores(Path(name), columns)
        contrasts = with_p(compared("rules", "empty", "oracle"))
        assert len(contrasts) == 9
        bold += any(found.corrected <= 0.05 for found in contrasts)
        raw += any(found.p <= 0.05 for found in contrasts)
    assert raw > 20
    assert bold <= 5


@pytest.mark.usefixtures("runs")
def test_every_pair_of_runs_is_of_one_family_and_ties_follow_from_its_p() -> None:
    generator = np.random.default_rng(5)
    for place, name in enumerate(("rules", "empty", "oracle")):
        columns = {
            metric: (generator.random(RECORDS) * 0.4 + (0, 0.05, 0.5)[place]).tolist()
            for metric in METRICS
        }
        set_scores(Path(name), columns)
    found = compared("rules", "empty", "oracle")
    contrasts = with_p(found)
    assert [c.corrected for c in contrasts] == pytest.approx(holm([c.p for c in contrasts]))
    assert found.family == 9 == found.as_json()["family"]
    assert "Holm-corrected for 9 tests, all that are shown" in folded(shown(found))
    for metric in found.tracks[0].metrics:
        letters = {one.name: set(one.letters) for one in metric.ranked}
        for one in (found for found in metric.contrasts if found.p is not None):
            assert bool(letters[one.first] & letters[one.second]) == (one.corrected > 0.05)
    assert len({c.corrected <= 0.05 for c in contrasts}) == 2


@pytest.mark.usefixtures("runs")
def test_a_second_p_is_not_printed_beside_the_table() -> None:
    set_scores(
        Path("rules"),
        {"f1": [1.0] * 8 + [0.0] + [1.0] * 15, "recall": [n % 3 / 3 for n in range(RECORDS)]},
    )
    set_scores(
        Path("empty"),
        {"f1": [0.0] * 8 + [1.0] + [1.0] * 15, "recall": [n % 4 / 4 for n in range(RECORDS)]},
    )
    clustered = folded(shown(compared("rules", "empty")))
    assert "8 only in A, 1 only in B." in clustered
    assert "McNemar" not in clustered
    shutil.rmtree("data")
    alone = compared("rules", "empty")
    assert contrast(alone).corrected == pytest.approx(2 * 0.0390625)
    assert "exact McNemar p .078." in folded(shown(alone))
