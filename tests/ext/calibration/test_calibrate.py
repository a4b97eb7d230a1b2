"""`alps calibrate` on recorded verdicts and on the stress set: figures, gates, and what is said."""

import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from alps.errors import UsageError
from alps.ext.calibration.agreement import LabelScale, disagreement, kappa_of, pair_table
from alps.ext.calibration.calibrate import Calibrated, rubric_reports
from alps.ext.calibration.labels import Verdict, Verdicts, read_labels, truth_of
from alps.ext.calibration.page import write_calibration_page
from alps.ext.calibration.report import FAIL, LIMITS, PASS
from alps.ext.calibration.settings import Gates
from alps.ext.calibration.table import lines_of, print_account, print_calibration
from alps.rows import Calls
from tests.label_folders import BINARY, FIVE, binary, report_of, reports, write
from tests.tracks import alps_here

NAMES = {"kind": "nominal", "values": ["yes", "partly", "no"]}
GOOD = [binary(n % 2, n % 2) for n in range(120)]


def printed(found):
    file = io.StringIO()
    print_calibration(list(found.values()), judge="j", console=Console(width=100, file=file))
    return file.getvalue()


def recorded(folder, *more):
    """Calibrate by the verdicts in `labels`, into `out`."""
    words = (f"labels={folder / 'labels'}", f"out={folder / 'out'}", "details=yes")
    ran = alps_here("calibrate", *words, *more)
    assert "Traceback" not in ran.err
    return ran


def page_of(folder):
    return (folder / "out" / "calibration.html").read_text()


def test_the_cells_and_rates_of_a_binary_judge(tmp_path):
    rows = [binary(1, 1)] * 60 + [binary(1, 0)] * 20 + [binary(0, 1)] * 10
    report = report_of(tmp_path, rows + [binary(0, 0)] * 50 + [binary(1, None)] * 2)
    counted = {"n": 140, "unparsed": 2, "unlabelled": 0, "tp": 60, "fn": 20, "fp": 10, "tn": 50}
    assert report.counts == counted
    expected = {
        "sensitivity": 60 / 80,
        "specificity": 50 / 60,
        "ppv": 60 / 70,
        "npv": 50 / 70,
        "sensitivity_unparsed_wrong": 60 / 82,
        "people_kappa": 1,
        "pabak": 2 * 110 / 140 - 1,
        "prevalence_index": 10 / 140,
        "bias_index": -10 / 140,
    }
    assert {name: report.figures[name].value for name in expected} == pytest.approx(expected)
    assert report.details.base_rates["people"]["1"] == pytest.approx(80 / 140)
    assert report.row()["confusion"] == {"values": [0, 1], "counts": [[50, 10], [20, 60]]}


def test_where_nearly_everything_is_negative_kappa_has_company(tmp_path):
    rows = [binary(0, 0)] * 118 + [binary(0, 1)] * 5 + [binary(1, 0)] * 2
    figures = report_of(tmp_path, rows).figures
    expected = {"agreement": 0.944, "kappa": -0.0234, "ac1": 0.9408, "pabak": 0.888}
    expected["prevalence_index"] = -0.944
    assert {name: figures[name].value for name in expected} == pytest.approx(expected, abs=5e-5)
    assert figures["pabak"].low < 0.888 < figures["pabak"].high


def test_rates_have_wilson_s_interval_few_the_exact_one_and_a_width_in_clusters(tmp_path):
    rows = [binary(1, 1)] * 45 + [binary(1, 0)] * 5 + [binary(0, 0)] * 20
    figures = report_of(tmp_path / "alone", rows).figures
    ends = [(figures[name].low, figures[name].high) for name in ("sensitivity", "specificity")]
    assert ends[0] == pytest.approx((0.7864, 0.9565), abs=5e-5)
    assert ends[1] == pytest.approx((0.8316, 1), abs=5e-5)
    rows = [binary(n % 2, n % 2, cluster=f"user{n // 4}") for n in range(120)]
    sensitivity = report_of(tmp_path / "clusters", rows).figures["sensitivity"]
    assert (sensitivity.value, sensitivity.high) == (1, 1)
    assert 0.8 < sensitivity.low < 0.93


def test_rubrics_are_never_pooled(tmp_path):
    rows = [*GOOD[:40], ("ei", {"anna": 3, "ben": 4}, 3), ("ei", {"anna": 5}, 5)]
    found = reports(write(tmp_path, {"pa": BINARY, "ei": FIVE}, rows))
    assert {name: report.counts["n"] for name, report in found.items()} == {"pa": 40, "ei": 2}
    assert found["ei"].figures["mae"].value == 0
    assert "sensitivity" not in found["ei"].figures
    assert "all rubrics (not pooled)" in printed(found)


def test_on_a_scale_that_says_what_is_accepted_the_rates_of_accepting_are_told(tmp_path):
    marks = ((5, 4), (4, 3), (4, 5), (2, 1), (1, 5))
    rows = [("ei", {"anna": truth}, said) for truth, said in marks]
    found = report_of(tmp_path, rows, FIVE | {"positive": [4, 5]}).row()["at_threshold"]
    assert [found[cell] for cell in ("tp", "fn", "fp", "tn")] == [2, 1, 1, 1]
    assert found["sensitivity"]["value"] == pytest.approx(2 / 3)


def test_what_is_accepted_says_on_how_many_items_and_a_kappa_of_one_has_no_interval(tmp_path):
    marks = [("ei", {"anna": 1 + n % 5, "ben": 1 + n % 5}, 1 + n % 5) for n in range(20)]
    report = report_of(tmp_path / "labels", marks, FIVE | {"positive": [4, 5]})
    accepted = dict(lines_of(report))["accepted"]
    assert "(n 8)" in accepted
    assert "(n 12)" in accepted
    ran = recorded(tmp_path)
    lines = map(str.strip, ran.out.splitlines())
    kappa = next(line for line in lines if line.startswith("kappa with people"))
    assert kappa.split()[-3:] == ["1.000", "–", "20"]
    assert "[1.000, 1.000]" not in ran.out + page_of(tmp_path)


def test_every_two_people_and_the_judge_with_each_stand_beside_each_other(tmp_path):
    labels = np.random.default_rng(1).integers(0, 2, (60, 3))
    rows = []
    for n, (a, b, c) in enumerate(labels.tolist()):
        rows.append(("pa", {"anna": a, "ben": b} | ({"carla": c} if n < 10 else {}), a))
    pairs = report_of(tmp_path, rows).row()["pairs"]
    judge = [(pair["one"], pair["other"], pair["kappa"]["n"]) for pair in pairs if pair["judge"]]
    assert judge == [("j", "anna", 60), ("j", "ben", 60), ("j", "carla", 10)]
    people = [pair for pair in pairs if not pair["judge"]]
    names = [(pair["one"], pair["other"]) for pair in people]
    assert names == [("anna", "ben"), ("anna", "carla"), ("ben", "carla")]
    scale = LabelScale("nominal", (0, 1))
    table = pair_table(labels[:, 0].tolist(), labels[:, 1].tolist(), scale)
    expected = kappa_of(table, disagreement(scale, "unweighted"))
    assert people[0]["kappa"]["value"] == pytest.approx(float(expected))
    assert pairs[0]["kappa"]["value"] == 1


def test_how_far_people_agree_does_not_hang_on_the_order_of_their_labels(tmp_path):
    people = {"anna": [0, 0, 1, 1, 0, 1], "ben": [0, 0, 1, 1, 1, 1], "cleo": [1, 0, 1, 0, 0, 1]}
    for names in (["anna", "ben", "cleo"], ["cleo", "anna", "ben"], ["ben", "cleo", "anna"]):
        given = [{who: people[who][n] for who in names} for n in range(6)]
        report = report_of(tmp_path / names[0], [("pa", row, row["anna"]) for row in given])
        ceiling = report.figures["people_kappa"]
        assert (ceiling.value, ceiling.n) == (pytest.approx((2 / 3 + 1 / 3 + 0) / 3), 6)


def test_the_items_are_laid_open_for_corrections(tmp_path):
    rows = [binary(1, 0, cluster="user"), binary(0, None), ("pa", {"anna": 1, "ben": 0}, 1)]
    row = report_of(tmp_path, rows).row()
    assert row["labelled"] == [
        ["i0", "user", 1, 0, 1.0],
        ["i1", "i1", 0, None, 0.0],
        ["i2", "i2", None, 1, 0.5],
    ]
    assert (row["scale"], row["sample"], row["clusters"]) == (BINARY, None, 3)


def test_copies_of_one_question_are_one_cluster_unless_they_have_their_own(tmp_path):
    def copies(clusters):
        rows = []
        for n in range(60):
            own = {"cluster": f"c{n}"} if clusters else {}
            shown = {"response": f"said {n % 10}"}
            rows.append(binary(n % 10 < 5, n % 10 < 4, payload=shown, **own))
        return rows

    same, apart = (report_of(tmp_path / f"{own}", copies(own)) for own in (False, True))
    bare = report_of(tmp_path / "bare", GOOD[:20])
    assert [report.details.clusters for report in (same, apart, bare)] == [10, 60, 20]
    wide, narrow = (report.figures["sensitivity"] for report in (same, apart))
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_probabilities_or_else_verdicts_are_held_against_what_people_say(tmp_path):
    rows = [binary(n < 3, 1, probability=0.95) for n in range(4)]
    rows += [binary(n < 1, 0, probability=0.15) for n in range(4)]
    marks = [("ei", {"anna": truth}, said) for truth, said in ((1, 2), (3, 2), (5, 4), (4, 4))]
    sure = report_of(tmp_path / "sure", rows).row()["reliability"]
    plain = report_of(tmp_path / "plain", marks, FIVE).row()["reliability"]
    bins = [
        [(one["judge"], one["people"], one["n"]) for one in part["bins"]] for part in (sure, plain)
    ]
    assert bins[0] == [(pytest.approx(0.15), 0.25, 4), (pytest.approx(0.95), 0.75, 4)]
    assert sure["calibration_error"] == pytest.approx((0.1 + 0.2) / 2)
    assert bins[1] == [(2, 2, 2), (4, 4.5, 2)]
    assert (plain["by"], "calibration_error" in plain) == ("verdict", False)


WRONG = [binary(n % 2, n % 3 == 0) for n in range(240)]
WAVERING = [binary(n % 2, n % 2, draws=[n % 2, n % 2, (n % 2) ^ (n < 24)]) for n in range(120)]
FLIPS = "repeated verdicts contradict each other in 13.3% of items, more than 5%"
EASY = Gates(rate=0.0, below_people=2.0, heterogeneity=0.0)
OF_ONE_CLASS = "every labelled item is 1, so specificity and kappa are unknown"
GATED = {
    "says what people say": (GOOD, Gates(), {PASS}, None),
    "few items": (GOOD[:40], Gates(), {LIMITS}, "sensitivity: 20 items, but 50 are needed"),
    "wrong verdicts": (WRONG, Gates(), {FAIL}, "sensitivity below 0.75"),
    "wrong verdicts at easy gates": (WRONG, EASY, {PASS, LIMITS}, None),
    "all of one class": ([binary(1, n > 2) for n in range(100)], Gates(), {LIMITS}, OF_ONE_CLASS),
    "contradicts itself": (WAVERING, Gates(), {FAIL}, FLIPS),
    "may contradict itself": (WAVERING, Gates(self_flip=0.2), {PASS}, None),
}


@pytest.mark.parametrize(("rows", "gates", "verdicts", "said"), GATED.values(), ids=GATED)
def test_what_keeps_a_judge_from_a_pass(tmp_path, rows, gates, verdicts, said):
    report = report_of(tmp_path, rows, gates=gates)
    assert report.verdict in verdicts
    assert (report.verdict == PASS) == (not report.reasons)
    assert said is None or said in report.reasons
    if rows is WAVERING:
        assert report.figures["self_agreement"].value == pytest.approx(1 - 0.2 * 2 / 3)
        assert len(report.reasons) == (gates.self_flip < 0.1)


ANNA = ("pa", {"anna": 1}, 1)
BOTH, ONE = "no item has both a label and a verdict", "every labelled item is"
PEOPLE = "human agreement is unknown, because"
UNTOLD = {
    "no verdict": ([("pa", {"anna": 1}, None)], BOTH),
    "a tie": ([("pa", {"anna": 1, "ben": 0}, 1)], BOTH),
    "1": ([("pa", {"anna": 1}, 1)] * 5, OF_ONE_CLASS),
    "0": ([binary(0, 1), binary(0, 0)], f"{ONE} 0, so sensitivity and kappa are unknown"),
    "3": ([("ei", {"anna": 3}, 3)] * 5, f"{ONE} 3, so agreement beyond chance is unknown"),
    "yes": ([("names", {"anna": "yes", "ben": "yes"}, "no")], f"{ONE} yes"),
    "one person": ([ANNA, ("pa", {"anna": 0}, 1)], f"{PEOPLE} only anna labelled these items"),
    "apart": ([ANNA, ("pa", {"ben": 0}, 1)], f"{PEOPLE} no two people labelled the same item"),
    "alike": ([binary(1, 1)] * 5, f"{PEOPLE} people gave one label to all items that they share"),
}


@pytest.mark.parametrize(("rows", "said"), UNTOLD.values(), ids=UNTOLD)
def test_what_can_not_be_told_is_a_sentence(tmp_path, rows, said):
    found = reports(write(tmp_path, {"pa": BINARY, "ei": FIVE, "names": NAMES}, rows))
    (report,) = found.values()
    assert any(said in reason for reason in report.reasons)
    assert report.verdict != PASS
    json.dumps(report.row(), allow_nan=False)
    assert not re.search(r"nan|None|inf\b", printed(found))


def test_items_that_people_do_not_settle_are_a_limit(tmp_path):
    split = ("pa", {"anna": 1, "ben": 0}, 1)
    some = report_of(tmp_path / "one", [*GOOD[:20], split])
    many = report_of(tmp_path / "many", [*GOOD[:20], split, split])
    assert not any("tie" in reason for reason in some.reasons)
    assert "people's labels are tied on 2 of 22 items (9%), which are left out" in many.reasons
    assert "2 on which people tie (9%)" in dict(lines_of(many))["items"]
    bare = report_of(tmp_path / "bare", [*GOOD[:20], split, ("pa", {}, 1)])
    assert "1 on which people tie (5%), 1 without a label" in dict(lines_of(bare))["items"]


def test_few_items_on_which_people_agree_are_not_called_chance(tmp_path):
    few = report_of(tmp_path / "few", [binary(n < 1, n < 1) for n in range(5)])
    assert few.figures["people_kappa"].value == 1
    assert not any("by chance" in reason for reason in few.reasons)

    def differ(both, apart):
        """Two people who say the same of `both` items, half of them good, and else the opposite."""
        rows = []
        for n in range(both):
            rows.append(("pa", {"anna": n % 2, "ben": n % 2, f"cleo{n}": n % 2}, n % 2))
        for n in range(apart):
            rows.append(("pa", {"anna": n % 2, "ben": 1 - n % 2, f"dora{n}": n % 2}, n % 2))
        return rows

    unsure = report_of(tmp_path / "unsure", differ(6, 4))
    never = report_of(tmp_path / "never", differ(4, 8))
    assert "people may agree no better than by chance (kappa .20)" in unsure.reasons
    assert "people agree with each other no better than by chance (kappa -.33)" in never.reasons


def test_verdicts_on_nothing_that_people_labelled_are_one_line(tmp_path):
    labels = read_labels(write(tmp_path, {"pa": BINARY}, [binary(1, 1), ("pa", {}, 1)]))
    unlabelled = r"no verdict \(1 in total\) is on a labelled item; compare the item ids"
    for said, why in (({"i1": Verdict(1)}, unlabelled), ({}, "gave no verdict")):
        with pytest.raises(UsageError, match=f"judge=j: {why}"):
            rubric_reports(labels, Verdicts("j", said, "0"))


YES_NO, MARKS = LabelScale("nominal", (0, 1)), LabelScale("ordinal", (1, 2, 3, 4, 5))


@pytest.mark.parametrize(
    ("labels", "scale", "truth"),
    [
        ({"a": 1, "b": 1, "c": 0}, YES_NO, 1),
        ({"a": 1, "b": 0}, YES_NO, None),
        ({"a": 0, "b": 0, "adjudicated": 1}, YES_NO, 1),
        ({}, YES_NO, None),
        # A tie on an ordinal scale is the median of its places rounded down, though nobody gave it.
        ({"a": 1, "b": 5}, MARKS, 3),
        ({"a": 2, "b": 4}, MARKS, 3),
        ({"a": 2, "b": 3}, MARKS, 2),
    ],
)
def test_the_truth_is_adjudicated_or_the_majority_or_the_median(labels, scale, truth):
    assert truth_of(labels, ("a", "b", "c"), ("adjudicated",), scale) == truth


def test_the_command_prints_a_table_and_writes_a_calibration(alps, tmp_path):
    rows = [binary(n % 2, n % 2, probability=0.1 + 0.8 * (n % 2)) for n in range(120)]
    write(tmp_path / "labels", {"pa": BINARY}, rows)
    finished = alps("calibrate", "labels=labels", "out=out")
    assert finished.returncode == 0, finished.stderr
    assert max(len(line) for line in finished.stdout.splitlines()) <= 80
    first = "j on pa: PASS, you may rank systems with it (120 labelled items)\n"
    assert finished.stdout.startswith(first)
    found = json.loads((tmp_path / "out" / "calibration.json").read_text())["rubrics"]["pa"]
    assert (found["sensitivity"]["value"], found["verdict"]) == (1, "pass")


def test_labels_of_one_value_leave_kappa_unknown_and_unprinted(alps, tmp_path):
    rows = [binary(1, n % 4 > 0) for n in range(60)]
    write(tmp_path / "labels", {"pa": BINARY}, rows)
    done = alps("calibrate", "labels=labels", "out=out")
    assert "every labelled item is 1, so specificity and kappa are unknown" in done.stdout
    assert not any(line.startswith(" kappa") for line in done.stdout.splitlines())
    found = json.loads((tmp_path / "out" / "calibration.json").read_text())["rubrics"]["pa"]
    assert (found["kappa"]["value"], found["sensitivity"]["value"]) == (None, 0.75)


@pytest.mark.parametrize(("kept", "verdict"), [(117, "pass"), (112, "limits")])
def test_labelled_items_without_a_recorded_verdict_are_counted_and_may_be_a_limit(
    tmp_path, kept, verdict
):
    path = write(tmp_path / "labels", {"pa": BINARY}, GOOD) / "verdicts.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:kept]))
    told = recorded(tmp_path).out
    missing = len(GOOD) - kept
    assert f"Left out: {missing} items without a response from the judge." in told
    limit = f"no verdict for {missing} labelled items"
    assert (limit in told) == (verdict == "limits")
    found = json.loads((tmp_path / "out" / "calibration.json").read_text())["rubrics"]["pa"]
    assert (found["unheard"], found["verdict"]) == (missing, verdict)


def test_names_of_an_ordinal_scale_have_a_page_as_well(tmp_path):
    levels = ["poor", "fair", "good"]
    rows = []
    for n in range(60):
        given = {"anna": levels[n % 3], "ben": levels[min(2, n % 3 + (n % 5 == 0))]}
        rows.append(("tone", given, levels[n % 3]))
    scale = {"kind": "ordinal", "values": levels, "positive": ["good"]}
    write(tmp_path / "labels", {"tone": scale}, rows)
    assert recorded(tmp_path).code == 0
    assert "<h1" in page_of(tmp_path)


def test_gates_of_ones_own_are_named_wherever_the_verdict_is(alps, tmp_path):
    rows = [binary(n % 2, n % 2 if n % 10 else 1 - n % 2) for n in range(60)]
    write(tmp_path / "labels", {"pa": BINARY}, rows)
    words = ("gate_items=10", "gate_rate=60%", "gate_below_people=1")
    done = alps("calibrate", "labels=labels", "out=own", *words)
    assert "PASS, you may rank systems with it" in done.stdout
    # By the default gates, twenty more items per class would be asked for.
    assert "more items" not in done.stdout
    own = json.loads((tmp_path / "own" / "calibration.json").read_text())["gates"]
    assert own == {"items": 10, "rate": 0.6, "below_people": 1}
    named = "not the default gates: gate_items=10, gate_rate=0.6, gate_below_people=1"
    page = (tmp_path / "own" / "calibration.html").read_text()
    details = alps("calibrate", "labels=labels", "out=own", "details=yes", *words)
    listed = alps("calibrate", "list", "own")
    for text in (done.stdout, page, details.stdout, listed.stdout):
        assert named in " ".join(text.split()).replace("Not the", "not the")
    alps("calibrate", "labels=labels", "out=usual")
    assert "gates" not in json.loads((tmp_path / "usual" / "calibration.json").read_text())


def test_more_labels_are_asked_for_only_where_they_may_help(alps, tmp_path):
    """A rate below its gate is not lifted by labels that narrow its interval around it."""
    for name, items in (("few", 56), ("enough", 120)):
        rows = [binary(n % 2, int(n % 2 and n % 10 != 1 and n % 10 != 3)) for n in range(items)]
        write(tmp_path / name, {"pa": BINARY}, rows)
        words = (f"labels={name}", f"out=out-{name}", "gate_below_people=1")
        told = alps("calibrate", *words).stdout
        assert "below 0.75" in told
        more = re.search(r"label about (\S+) more items", told)
        # Fifty of each class instead of 28, and not twenty times as many.
        assert (more is not None and 44 <= int(more[1]) <= 45) == (name == "few")


def accounted(**found):
    file = io.StringIO()
    done = Calibrated("org/[bold]judge", (), found.pop("row", {}), None, **found)
    print_account(done, Console(width=200, file=file))
    return file.getvalue().splitlines()


def test_what_a_calibration_took_and_lacks_is_said_in_sentences():
    calls = {"http": 1, "cached": 1_200, "prompt_tokens": 3_000, "completion_tokens": 40}
    calls |= {"cost": None, "unpriced": 1}
    assert accounted() == []
    assert accounted(unheard=1, left_out=("pa", "pf"), calls=Calls(**calls)) == [
        "org/[bold]judge cannot apply these rubrics, so alps ignores their labels: pa, pf.",
        "Left out: 1 item without a response from the judge.",
        "1 call (1,200 more from the cache), 3,000 tokens in, 40 out, cost –.",
        "Cost unknown: some replies reported no token counts.",
    ]
    assert accounted(unheard=2) == ["Left out: 2 items without a response from the judge."]
    assert accounted(calls=Calls(**calls | {"http": 0, "cached": 0})) == []


def test_how_long_a_calibration_holds_is_said():
    (recorded,) = accounted(row={"made": "2026-01-01"})
    assert "alps reports agreement but corrects no scores" in recorded
    row = {"made": "2026-01-01", "expires": "9999-12-31", "pinned": True}
    assert accounted(row=row) == ["Valid for this judge with these settings until 9999-12-31."]
    (old,) = accounted(row={**row, "expires": "2026-02-01"})
    assert old.startswith(
        "The calibration expired on 2026-02-01, as the oldest verdict is from 2026-01-01; "
        "calibrate again in"
    )
    (unpinned,) = accounted(row={**row, "pinned": False})
    assert unpinned.endswith(
        "until 9999-12-31; the model name is undated, so the provider may change the model."
    )


@pytest.mark.release
def test_no_provider_and_no_learning_library_is_loaded_for_recorded_verdicts(tmp_path):
    write(tmp_path, {"pa": BINARY}, [binary(n % 2, n % 2, system=f"s{n % 3}") for n in range(60)])
    code = (
        "import sys; from tests.label_folders import reports; from pathlib import Path; "
        "reports(Path(sys.argv[1])); "
        "print([name for name in ('litellm', 'sklearn', 'datasets', 'torch') if name in "
        "sys.modules])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True
    )
    assert finished.stdout == "[]\n"


@pytest.mark.parametrize(
    ("largest", "mend"),
    [(10**9, ""), (1e200, "choose another unit"), (10**400, "choose another unit")],
)
def test_a_scale_of_large_numbers_has_a_page_and_immense_ones_are_refused(tmp_path, largest, mend):
    values = [0, 1, largest]
    given = [("pa", {"anna": value, "ben": value}, said) for value in values for said in values]
    write(tmp_path / "labels", {"pa": {"kind": "interval", "values": values}}, given)
    ran = recorded(tmp_path)
    assert mend in ran.one_line if mend else ran.code == 0
    assert (tmp_path / "out" / "calibration.html").is_file() == (not mend)


@pytest.mark.parametrize("error", [1e12, 1e200, 1.7e308])
def test_a_page_of_immense_errors_is_drawn(tmp_path, error):
    mae = {"value": error, "low": 0.0, "high": error, "n": 3}
    row = {"rubrics": {"pa": {"n": 3, "verdict": "limits", "mae": mae}}}
    assert "mean absolute error" in write_calibration_page(row, tmp_path / "page.html").read_text()


def test_a_kind_whose_verdicts_can_not_be_parsed_is_shown(tmp_path):
    silent = [binary(0, None, kind="injection") for _ in range(5)]
    rest = [binary(n % 2, n % 2, kind="[red]vague\x1b") for n in range(8)]
    kinds = report_of(tmp_path / "labels", silent + rest).row()["acceptance"]
    assert (kinds["injection"]["n"], kinds["injection"]["unparsed"]) == (0, 5)
    ran = recorded(tmp_path)
    lines = ran.out.splitlines()
    assert next(line for line in lines if "injection" in line).split() == ["injection", *"00––05"]
    assert any("[red]vague␛" in line for line in lines)
    assert "\x1b" not in ran.out
    assert max(len(line) for line in lines if not line.startswith(("Page", "Next"))) <= 80
    assert "injection" in page_of(tmp_path)
    assert "not parsed" in page_of(tmp_path)


def on_stress(folder, *words):
    """Calibrate the lexical judge on the stress set; return its rubrics and what was printed."""
    ran = alps_here("calibrate", "judge=lexical", "labels=stress", *words, f"out={folder / 'out'}")
    assert (ran.code, ran.err) == (0, ""), ran
    return json.loads((folder / "out" / "calibration.json").read_text())["rubrics"], ran.out


@pytest.fixture(scope="module")
def stressed(tmp_path_factory):
    return on_stress(tmp_path_factory.mktemp("stress"), "details=yes")


def test_the_stress_set_tells_what_a_judge_accepts_of_each_kind_and_leaves_out(stressed):
    found, said = stressed
    assert found.keys() == {"matching"}
    left_out = (
        "lexical cannot apply these rubrics, so alps ignores their labels: cf, "
        "ei_resonation, ei_expression, ei_reception, memory_used, pa"
    )
    assert left_out in " ".join(said.split())
    kinds = found["matching"]["acceptance"]
    assert sum(row["n"] for row in kinds.values()) == found["matching"]["n"] >= 60
    assert kinds["same"]["right"] == kinds["same"]["n"]
    assert kinds["wrong_person"]["right"] == 0
    lines = said.splitlines()
    for name, row in kinds.items():
        line = next(line for line in lines if line.strip().startswith(name.replace("_", " ")))
        assert line.split()[-1] == str(row["n"])
        assert row["low"] <= row["accepted"] / row["n"] <= row["high"]
    assert max(map(len, lines)) <= 80


def test_a_judge_that_takes_wrong_for_right_fails_unless_gates_allow_it(stressed, tmp_path):
    matching = stressed[0]["matching"]
    assert matching["known_wrong"]["value"] > 0.1
    assert matching["verdict"] == "fail"
    assert any("known to be wrong" in reason for reason in matching["reasons"])
    gates = ("rate=0", "known_wrong=1", "items=0", "below_people=2", "omega=0", "unparsed=1")
    gates += ("heterogeneity=0", "epsilon=0.1", "self_flip=1")
    found, _ = on_stress(tmp_path, *(f"gate_{gate}" for gate in gates))
    assert found["matching"]["verdict"] != "fail"
    beyond = alps_here("calibrate", "judge=lexical", "labels=stress", "gate_rate=2")
    assert "gate_rate=2: must be 1 or less" in beyond.err


def test_answers_that_are_known_are_not_said_to_be_peoples(stressed, tmp_path):
    rows = [binary(n % 2, n % 2, kind="odd" if n % 2 else "even") for n in range(9)]
    write(tmp_path / "labels", {"pa": BINARY}, rows)
    starts = (" known labels", " judge's labels", " people's labels")
    said = [line.split()[0] for line in stressed[1].splitlines() if line.startswith(starts)]
    assert said == ["known", "judge's"]
    assert " people's labels" in recorded(tmp_path).out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("labels=stress",), "judge= is missing"),
        (("labels=nowhere", "judge=lexical"), "labels=nowhere: no such folder"),
        (("judge=lexical",), "labels= is missing"),
        (("labels=stress", "judge=lexicl"), "did you mean 'lexical'"),
    ],
)
def test_what_is_missing_is_one_line(words, said):
    assert said in alps_here("calibrate", *words).one_line
