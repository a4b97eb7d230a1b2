import numpy as np
import pytest
from scipy.stats import chi2_contingency

from alps.ext.calibration.controls import LENGTHS
from tests.label_folders import BINARY, FIVE, binary, reports, write

PAIR = {"kind": "nominal", "values": [1, 2]}


def report(folder, rows, *, rubric="pa", scale=BINARY):
    return reports(write(folder, {rubric: scale}, rows))[rubric]


def said(length):
    return {"response": "w" * length}


def test_a_judge_that_is_worse_on_one_system_is_said_to_be(tmp_path):
    rows = [binary(n % 2, n % 2, system="a") for n in range(100)]
    rows += [binary(n % 2, (n % 2) ^ (n % 3 == 0), system="b") for n in range(100)]
    found = report(tmp_path, rows)
    test = found.row()["heterogeneity"]["system"]
    assert test["agreement"] == {"a": 1.0, "b": 0.66}
    assert test["p"] == pytest.approx(
        chi2_contingency([[100, 0], [66, 34]], correction=False).pvalue
    )
    rates = test["rates"]["b"]
    assert (rates["sensitivity"]["value"], rates["sensitivity"]["n"]) == (pytest.approx(0.66), 50)
    assert any("not equally good for every system" in reason for reason in found.reasons)


def test_a_few_items_a_group_are_tested_over_random_tables(tmp_path):
    rows = [binary(1, 1, language="en"), binary(1, 1, language="en"), binary(1, 0, language="de")]
    test = report(tmp_path, rows).row()["heterogeneity"]["language"]
    # One of three orders is as extreme; the chi-square distribution would say .083.
    assert test["p"] == pytest.approx(1 / 3, abs=0.02)


def test_lengths_are_thirds_of_the_responses(tmp_path):
    rows = [binary(n % 2, (n % 2) ^ (n >= 80), payload=said(n + 1)) for n in range(90)]
    test = report(tmp_path, rows).row()["heterogeneity"]["length"]
    assert test["bounds"] == [30, 60]
    assert test["agreement"] == pytest.approx(dict(zip(LENGTHS, (1, 1, 2 / 3), strict=True)))
    assert test["p"] < 0.001


def test_one_group_or_no_disagreement_is_not_tested(tmp_path):
    alone = [binary(n % 2, n % 3 == 0, system="a") for n in range(12)]
    assert report(tmp_path / "alone", alone).details.heterogeneity == {}
    perfect = [binary(n % 2, n % 2, system=f"s{n % 3}") for n in range(12)]
    assert report(tmp_path / "perfect", perfect).details.heterogeneity == {}


def test_systems_are_ranked_by_their_mean_verdicts(tmp_path):
    marks = {"a": (1, 2), "b": (3, 3), "c": (2, 5)}
    rows = []
    for name, (truth, mark) in marks.items():
        rows += [("ei", {"anna": truth}, mark, {"system": name})] * 4
    ranking = report(tmp_path, rows, rubric="ei", scale=FIVE).row()["system_ranking"]
    assert (ranking["n"], ranking["spearman"]) == (3, pytest.approx(0.5))
    assert ranking["kendall"] == pytest.approx(1 / 3)
    assert ranking["systems"]["c"] == {"judge": 5, "people": 2, "n": 4}


def test_two_systems_have_no_ranking_and_equal_ones_no_correlation(tmp_path):
    two = [binary(n % 2, n % 2, system=f"s{n % 2}") for n in range(12)]
    assert report(tmp_path / "two", two).details.system_ranking is None
    equal = [binary(n // 3 % 2, 1, system=f"s{n % 3}") for n in range(12)]
    assert report(tmp_path / "equal", equal).row()["system_ranking"]["spearman"] is None


def test_a_liking_of_long_answers_is_told_net_of_people_s_own(tmp_path):
    # People like the longer half better, too; the judge lifts a further half of it.
    rows = [("ei", {"anna": 2}, 2, {"payload": said(5 + n)}) for n in range(20)]
    rows += [("ei", {"anna": 4}, 4 + n % 2, {"payload": said(50 + n)}) for n in range(20)]
    found = report(tmp_path, rows, rubric="ei", scale=FIVE).row()["length_preference"]
    assert (found["by"], found["value"], found["n"]) == ("halves", 0.5, 40)
    assert (found["longer"]["value"], found["shorter"]["value"]) == (0.5, 0)
    assert 0 < found["low"] < 0.5 < found["high"]


def test_of_pairs_the_shares_that_prefer_the_longer_output_are_set_side_by_side(tmp_path):
    long, short = "w" * 100, "w" * 10
    texts = [(long, short, 1, 1), (short, long, 1, 2), (long, short, 2, 1), (short, long, 1, 1)]
    rows = []
    for one, two, truth, verdict in (*texts, (long, long + "w", 1, 2)):
        payload = {"output_1": one, "output_2": two}
        rows.append(("q", {"anna": truth}, verdict, {"payload": payload}))
    found = report(tmp_path, rows, rubric="q", scale=PAIR).row()["length_preference"]
    assert (found["by"], found["n"]) == ("pairs", 4)
    assert [found["judge"]["value"], found["people"]["value"], found["value"]] == [0.75, 0.25, 0.5]


def test_clusters_widen_the_interval_of_the_preference(tmp_path):
    lifted = np.random.default_rng(3).integers(0, 2, 30)
    rows = []
    for n in range(180):
        about = {"cluster": f"u{n // 6}", "payload": said(10 + n)}
        rows.append(("ei", {"anna": 3}, 3 + int(lifted[n // 6]), about))
    apart = [(*row, {**about, "cluster": None}) for *row, about in rows]
    wide, narrow = (
        report(tmp_path / name, given, rubric="ei", scale=FIVE).row()["length_preference"]
        for name, given in (("wide", rows), ("narrow", apart))
    )
    assert wide["value"] == narrow["value"]
    assert wide["high"] - wide["low"] > 1.5 * (narrow["high"] - narrow["low"])


def test_without_responses_there_is_no_preference(tmp_path):
    found = report(tmp_path, [binary(n % 2, n % 2) for n in range(12)])
    assert found.details.length_preference is None
