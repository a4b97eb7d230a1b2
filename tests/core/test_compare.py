"""Comparing runs: records are paired, sessions resampled together, and many tests corrected."""

import io
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from alps.data.release import write_track
from alps.errors import UsageError
from alps.show.compare import Comparison, Contrast, compare_runs
from alps.show.compare_table import print_comparison
from alps.show.parts import CorrectedComparison
from alps.stats.paired import holm
from tests.core.test_cli import HEAVY, modules_after
from tests.endtoend import edit_json, rows, write_rows
from tests.report_runs import folded
from tests.tracks import alps_here
from tests.visitors import memory_items

pytestmark = pytest.mark.usefixtures("runs")
RECORDS, SESSIONS = 24, 6
METRICS = ("f1", "precision", "recall")
RUNS = {
    "rules": ("task=extraction", "model=rules", "data=data"),
    "oracle": ("task=extraction", "model=oracle", "data=data"),
    "empty": ("task=extraction", "model=floor/empty", "data=data"),
    "short": ("task=extraction", "model=rules", "data=data", "limit=10"),
    "samples": ("task=extraction,retrieval", "model=oracle", "data=samples", "limit=5"),
    "retrieval": ("task=retrieval", "model=bm25", "data=samples", "limit=5"),
    "aware": ("task=utilization", "ability=pa", "model=floor/generic", "data=samples", "limit=3"),
    "update": ("task=update", "model=rules", "data=samples", "limit=2"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of several systems; in `data`, four records come from each session."""
    folder = tmp_path_factory.mktemp("compared")
    write_track(folder / "data" / "dev" / "task1", (record(number) for number in range(RECORDS)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, words in RUNS.items():
            ran = alps_here("run", *words, f"out={name}")
            assert ran.code == 0, ran.err
    return folder


@pytest.fixture
def runs(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies of these runs, to be changed at will; the current folder."""
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def record(number: int, sessions: int = SESSIONS) -> tuple[dict[str, Any], dict[str, Any]]:
    session = f"s{number % sessions}"
    ids = {"benchmark_id": f"r{number:02}", "session_id": session, "task": "task1"}
    said = [
        {"role": "user", "text": f"I keep {number + 2} bees."},
        {"role": "assistant", "text": "How nice."},
    ]
    gold = {"memory_items": memory_items(f"Keeps {number} bees")}
    return {**ids, "input": {"dialogue": said}}, {**ids, "gold": gold}


def set_scores(run: Path, values: Mapping[str, Sequence[float | None]]) -> None:
    """Give the first records of a run these scores by metric, and no others; those without any are
    unscored.
    """
    path = run / "scores.jsonl"
    kept = []
    for place, row in enumerate(rows(path)):
        scores = {name: column[place] for name, column in values.items() if place < len(column)}
        there = {name: value for name, value in scores.items() if value is not None}
        kept.append({**row, "scores": there})
    write_rows(path, kept)


def compared(*names: str, seed: int = 0) -> Comparison:
    return compare_runs([Path(name) for name in names], seed=seed)


def contrast(comparison: Comparison, metric: str = "f1") -> Contrast:
    found = {one.metric.name: one for one in comparison.tracks[0].metrics}
    return found[metric].contrasts[0]


def with_p(comparison: Comparison) -> list[Contrast]:
    return [
        found
        for track in comparison.tracks
        for metric in track.metrics
        for found in metric.contrasts
        if found.p is not None
    ]


def shown(comparison: Comparison, *, whole: bool = True) -> str:
    out = io.StringIO()
    print_comparison(comparison, Console(file=out, width=200), whole=whole)
    assert max(cell_len(line) for line in out.getvalue().splitlines()) <= 80
    return out.getvalue()


def test_records_are_paired_by_their_ids_whatever_their_order() -> None:
    mine = [n / 25 for n in range(RECORDS)]
    set_scores(Path("rules"), {"f1": mine})
    set_scores(Path("empty"), {"f1": [value / 2 for value in mine]})
    scores = Path("empty/scores.jsonl")
    write_rows(scores, rows(scores)[::-1])
    found = contrast(compared("rules", "empty"))
    assert [score.value for score in found.scores] == pytest.approx([0.46, 0.23])
    assert found.difference.estimate.value == pytest.approx(0.23)
    assert found.difference.estimate.low > 0
    assert found.difference.estimate.n == RECORDS


def test_repeats_are_averaged() -> None:
    set_scores(Path("rules"), {"f1": [1.0] * RECORDS})
    once = rows(Path("rules/scores.jsonl"))
    again = [{**row, "repeat": 1, "scores": {"f1": 0.5}} for row in once[:12]]
    write_rows(Path("rules/scores.jsonl"), [*once, *again])
    found = contrast(compared("rules", "oracle"))
    assert found.scores[0].value == pytest.approx(0.875)
    assert found.difference.estimate.n == RECORDS


def test_the_records_of_a_session_are_resampled_together() -> None:
    """Where records of a session are alike, they tell less than as many that stand alone."""
    set_scores(Path("rules"), {"f1": [(n % SESSIONS) / 5 for n in range(RECORDS)]})
    set_scores(Path("empty"), {"f1": [0.25] * RECORDS})
    together = compared("rules", "empty")
    assert (together.tracks[0].clusters, contrast(together).clusters) == (SESSIONS, SESSIONS)
    shutil.rmtree("data")
    alone = compared("rules", "empty")
    assert alone.tracks[0].clusters is None
    assert "intervals and tests treat records as independent" in folded(shown(alone))
    assert width(contrast(together)) > 1.5 * width(contrast(alone))
    assert contrast(together).difference.detectable > 1.5 * contrast(alone).difference.detectable


def width(found: Contrast) -> float:
    estimate = found.difference.estimate
    return estimate.high - estimate.low


def test_data_that_changed_are_not_believed() -> None:
    write_track(Path("data/dev/task1"), (record(number) for number in range(1, RECORDS)))
    assert compared("rules", "empty").tracks[0].clusters is None


def test_binary_scores_of_records_that_stand_alone_have_an_exact_test_below_the_table() -> None:
    set_scores(
        Path("rules"),
        {"f1": [1.0] * 8 + [0.0] + [1.0] * 15, "recall": [0.5] + [1.0] * (RECORDS - 1)},
    )
    set_scores(Path("empty"), {"f1": [0.0] * 8 + [1.0] + [1.0] * 15, "recall": [1.0] * RECORDS})
    together = compared("rules", "empty")
    clustered = contrast(together)
    assert (clustered.mcnemar.first_only, clustered.mcnemar.second_only) == (8, 1)
    assert clustered.mcnemar.p == pytest.approx(0.0390625)
    assert not clustered.exact
    assert clustered.p == clustered.difference.estimate.p
    assert contrast(together, "recall").mcnemar is None, "a score between 0 and 1"
    said = folded(shown(together))
    assert "8 records score 1 only in A, 1 only in B." in said
    assert "McNemar" not in said
    shutil.rmtree("data")
    alone = compared("rules", "empty")
    assert contrast(alone).exact
    assert contrast(alone).mcnemar.p == pytest.approx(0.0390625)
    assert "8 records score 1 only in A, 1 only in B; exact McNemar p .039." in folded(shown(alone))


def test_pairs_of_a_headline_are_one_family_and_diagnostics_another() -> None:
    generator = np.random.default_rng(5)
    for name, lead in (("rules", 0), ("empty", 0.05), ("oracle", 0.5)):
        columns = {metric: (generator.random(RECORDS) * 0.4 + lead).tolist() for metric in METRICS}
        set_scores(Path(name), columns)
    found = compared("rules", "empty", "oracle")
    contrasts = with_p(found)
    for family in (contrasts[:3], contrasts[3:]):
        assert [c.corrected for c in family] == pytest.approx(holm([c.p for c in family]))
    assert found.family == 9 == found.as_json()["family"]
    assert found.diagnostics == 6 == found.as_json()["diagnostics"]
    nothing = CorrectedComparison("corrected", "by labels", "label", "", "")
    assert replace(found, corrected=(nothing,)).as_json() == found.as_json()
    assert "Holm's method treats the 6 tests of other metrics as one family" in folded(shown(found))
    for metric in found.tracks[0].metrics:
        letters = {one.name: set(one.letters) for one in metric.ranked}
        for one in (found for found in metric.contrasts if found.p is not None):
            assert bool(letters[one.first] & letters[one.second]) == (one.corrected > 0.05)
    assert len({c.corrected <= 0.05 for c in contrasts}) == 2
    two = compared("rules", "empty")
    headline, *others = with_p(two)
    assert headline.corrected == headline.p
    assert [c.corrected for c in others] == pytest.approx(holm([c.p for c in others]))
    assert len(others) == 2
    assert (two.diagnostics, two.as_json()["tests"]) == (len(others), {"A-B": 3})


@pytest.mark.release
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


def sessions_alike(generator: np.random.Generator) -> list[float]:
    of_session = generator.random(SESSIONS)
    return [float(of_session[n % SESSIONS] + generator.random()) / 2 for n in range(RECORDS)]


def binary(generator: np.random.Generator) -> list[float]:
    return (generator.random(RECORDS) < 0.6).astype(float).tolist()


@pytest.mark.parametrize(("drawn", "alone"), [(sessions_alike, False), (binary, True)])
def test_every_row_has_a_p_below_05_where_its_interval_leaves_out_0(drawn, alone) -> None:
    generator = np.random.default_rng(8)
    if alone:
        shutil.rmtree("data")
    both = set()
    for step in range(12):
        for name in ("rules", "empty"):
            shift = 0.03 * step if name == "rules" else 0.0
            columns = {}
            for metric in METRICS:
                columns[metric] = [min(1.0, value + shift) for value in drawn(generator)]
            set_scores(Path(name), columns)
        found = compared("rules", "empty")
        for line in (shown(found) + shown(found, whole=False)).splitlines():
            row = re.search(r"\[(-?[\d.]+), (-?[\d.]+)\] +(<?[\d.]+)", line)
            if row is None or {row[1], row[2], row[3]} & {".000", "-.000", ".050"}:
                continue  # too near the edge for three decimals
            outside = float(row[1]) > 0 or float(row[2]) < 0
            assert outside == (float(row[3].lstrip("<")) < 0.05), line
            both.add(outside)
    assert both == {True, False}


def test_equal_runs_differ_by_nothing_and_nothing_is_promised() -> None:
    shutil.copytree("rules", "rules-again")
    found = contrast(compared("rules", "rules-again"))
    assert (found.difference.estimate.value, found.corrected) == (0.0, 1.0)
    assert found.difference.detectable is None


def test_records_that_only_one_run_scored_are_counted() -> None:
    set_scores(Path("rules"), {"f1": [None, None, *[0.5] * (RECORDS - 2)]})
    found = compared("rules", "short")
    assert found.tracks[0].shared == 8
    rules, short = found.tracks[0].counts
    assert (rules.asked, rules.scored, rules.left_out) == (RECORDS, RECORDS - 2, 14)
    assert (short.asked, short.scored, short.left_out) == (10, 10, 2)
    for whole in (True, False):
        said = folded(shown(found, whole=whole))
        left_out = "14 of A's 22 scored records and 2 unscored records; 2 of B's 10 scored records"
        assert f"Left out: {left_out}." in said


def test_a_metric_is_compared_on_the_records_that_have_it_on_both_sides() -> None:
    set_scores(Path("rules"), {"f1": [0.5] * RECORDS, "precision": [None] * 4 + [0.5] * 20})
    set_scores(Path("oracle"), {"f1": [1.0] * RECORDS, "precision": [1.0] * 22 + [None] * 2})
    assert contrast(compared("rules", "oracle"), "precision").difference.estimate.n == 18


def test_of_three_runs_those_not_told_apart_share_a_letter() -> None:
    """With six sessions of one mind each, only a large and steady difference is found."""
    set_scores(Path("rules"), {"f1": [n % 2 * 0.1 for n in range(RECORDS)]})
    set_scores(Path("empty"), {"f1": [(n + 1) % 2 * 0.1 for n in range(RECORDS)]})
    set_scores(Path("oracle"), {"f1": [0.9 + n % 6 * 0.01 for n in range(RECORDS)]})
    found = compared("rules", "empty", "oracle")
    ranked = found.tracks[0].lead.ranked
    letters = {one.name: set(one.letters) for one in ranked}
    assert ranked[0].name == "C"
    assert letters["A"] & letters["B"]
    assert not letters["C"] & (letters["A"] | letters["B"])
    pairs = [c.first + c.second for c in found.tracks[0].lead.contrasts]
    assert pairs == ["AB", "AC", "BC"]
    assert "every pair" in shown(found)


def test_where_lower_is_better_the_lowest_comes_first() -> None:
    for name, error in (("rules", 0.3), ("empty", 0.1), ("oracle", 0.2)):
        set_scores(Path(name), {"confidence_error": [error + n * 0.001 for n in range(RECORDS)]})
    found = {one.metric.name: one for one in compared("rules", "empty", "oracle").tracks[0].metrics}
    ranked = found["confidence_error"].ranked
    assert [one.name for one in ranked] == ["B", "C", "A"]
    assert ranked[0].estimate.value == pytest.approx(0.1115)
    assert ranked[0].estimate.low < 0.1115 < ranked[0].estimate.high
    assert "confidence error of matches ↓" in shown(compared("rules", "empty"))


def test_many_runs_still_fit_the_terminal() -> None:
    names = ["rules", "oracle", "empty"]
    for number in range(4):
        names.append(
            f"another-run-with-a-name-that-goes-on-and-on-for-longer-than-anybody-would-like-it-{number}"
        )
        shutil.copytree("rules", names[-1])
    found = compared(*names)
    for text in (shown(found), shown(found, whole=False)):
        assert all(f"{letter} " in text for letter in "ABCDEFG")


def test_tracks_that_not_all_have_are_named() -> None:
    found = compared("samples", "retrieval")
    assert [track.track for track in found.tracks] == ["task3_d100"]
    assert "Left out of A (not in all runs): task1" in found.notes[0]
    short = folded(shown(found, whole=False))
    assert re.search(r"Left out of A \(not in all runs\): (extraction|\d tasks)", short)
    assert "(not measured in A): recall@5" in folded(shown(found))
    assert contrast(found, "recall_at_1").scores[0].value == 1.0


def other_judge(run: str) -> None:
    def change(summary: dict[str, Any]) -> None:
        for found in summary["tracks"].values():
            found["judge_fingerprint"] = "0123456789ab"

    edit_json(Path(run, "summary.json"), change)
    edit_json(Path(run, "manifest.json"), lambda manifest: manifest["judge"].update(threshold=0.7))


def test_recall_of_retrieval_needs_no_judge() -> None:
    other_judge("retrieval")
    assert contrast(compared("samples", "retrieval"), "recall_at_1").difference.estimate.n == 5


def pretend_rated(run: str) -> None:
    """Write marks into a run whose judge rates nothing, as one that rates would have."""
    score = {"value": 0.0, "low": 0.0, "high": 0.0, "n": 3}
    edit_json(
        Path(run, "summary.json"),
        lambda found: found["tracks"]["task4_ability1"].update(scores={"pa": score}),
    )
    path = Path(run, "scores.jsonl")
    write_rows(path, [{**row, "scores": {"pa": 0.0}} for row in rows(path)])


def other_setting(run: str, **settings: str) -> None:
    edit_json(Path(run, "manifest.json"), lambda manifest: manifest["settings"].update(settings))


def test_conditions_that_differ_are_said() -> None:
    pretend_rated("aware")
    shutil.copytree("aware", "told")
    assert "Different conditions" not in shown(compared("aware", "told"))
    other_setting("told", condition="gold_memory")
    for whole in (True, False):
        said = folded(shown(compared("aware", "told"), whole=whole))
        assert "Different conditions: A default settings, B memory=oracle" in said


def test_a_note_on_several_tasks_is_printed_once_with_their_names(tmp_path) -> None:
    tasks = "task=extraction,update,retrieval"
    for name, model in (("plain", "rules"), ("stored", "memory:bm25")):
        words = ("run", tasks, f"model={model}", "limit=2", f"out={tmp_path / name}")
        assert alps_here(*words).code == 0
    said = folded(shown(compared(tmp_path / "plain", tmp_path / "stored"), whole=False))
    assert said.count("Different conditions") == 1
    assert "extraction, update, retrieval@100: Different conditions: A default settings" in said


def other_data(run: str) -> None:
    edit_json(
        Path(run, "manifest.json"),
        lambda manifest: manifest["data"]["tracks"]["task1"].update(sha256="f" * 64),
    )


def no_track(run: str) -> None:
    edit_json(Path(run, "summary.json"), lambda summary: summary["tracks"].update(task1=None))


def unscored(run: str) -> None:
    journal = Path(run, "scores.jsonl")
    write_rows(journal, [{**row, "scores": {}} for row in rows(journal)])


def nothing(run: str) -> None:
    """Leave it as it is."""


def without(name: str) -> Callable[[str], None]:
    return lambda run: Path(run, name).unlink()


V1, LOST = "authors-v1", "24 of 24 rows are lost"
THRESHOLDS = "judge.threshold is 0.63 and 0.7"


@pytest.mark.parametrize(
    ("names", "damage", "said"),
    [
        (("rules",), nothing, ("at least two runs",)),
        (("rules", "./rules"), nothing, ("named twice",)),
        (("rules", "orcale"), nothing, ("orcale", "no such run")),
        (("rules", "oracle"), without("summary.json"), ("oracle", "not finished")),
        (("rules", "oracle"), no_track, ("oracle", "not a run of this alps")),
        (("rules", "oracle"), other_judge, ("different judges", "0123456789ab", THRESHOLDS)),
        (("rules", "oracle"), other_data, ("different data", "extraction", "ffffffffffff")),
        (("rules", "samples"), nothing, ("different data", "settings.data is data and samples")),
        (("rules", "oracle"), partial(other_setting, scoring=V1), ("scored differently", V1)),
        (("rules", "update"), nothing, ("no task", "extraction", "update")),
        (("rules", "oracle"), unscored, ("no record",)),
        (("rules", "oracle"), without("scores.jsonl"), (f"oracle/scores.jsonl: {LOST}",)),
        (("rules", "oracle", "sed=1"), nothing, ("did you mean 'seed'",)),
        (("rules", "oracle", "seed=-1"), nothing, ("seed=-1",)),
    ],
)
def test_what_can_not_be_compared_is_refused_on_one_line_that_names_it(names, damage, said) -> None:
    damage("oracle")
    line = alps_here("compare", *names).one_line
    assert all(part in line for part in said), line


def test_fewer_than_two_runs_are_refused() -> None:
    with pytest.raises(UsageError, match="got 0"):
        compare_runs([])


def test_the_command_writes_the_comparison_as_json() -> None:
    ran = alps_here("compare", "rules", "oracle", "empty", "seed=3", "format=json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found == compared("rules", "oracle", "empty", seed=3).as_json()
    track = found["tracks"]["task1"]
    assert track["counts"]["A"] == {"asked": RECORDS, "scored": RECORDS, "left_out": 0}
    assert {len(metric["differences"]) for metric in track["metrics"].values()} == {3}


def test_nothing_is_drawn_whatever_the_seed() -> None:
    set_scores(Path("rules"), {"f1": [n % 7 / 7 for n in range(RECORDS)]})
    set_scores(Path("empty"), {"f1": [n % 5 / 5 for n in range(RECORDS)]})
    one, other = (compared("rules", "empty", seed=seed) for seed in (0, 1))
    assert one.tracks == other.tracks


@pytest.mark.release
def test_comparing_imports_nothing_heavy(runs: Path) -> None:
    assert modules_after(runs, "compare", "rules", "oracle").isdisjoint(HEAVY)


def test_metrics_without_a_judge_are_never_doubted(runs: Path) -> None:
    shutil.copytree(runs / "retrieval", runs / "again")
    (track,) = compare_runs([runs / "retrieval", runs / "again"]).tracks
    contrasts = [one for metric in track.metrics for one in metric.contrasts]
    assert contrasts
    assert not any(one.doubted for one in contrasts)
