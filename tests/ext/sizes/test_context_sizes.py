"""Runs at several sizes of the context: a curve, its area, its files, kills, and judging again."""

import json
import os
import re
import shutil
import sys
from math import log2
from statistics import NormalDist

import numpy as np
import pytest

from alps import evaluate
from alps.errors import UsageError
from alps.ext.looking.report_page import write_report
from alps.ext.memory.built_in import Turns
from alps.ext.sizes.part import area_under, area_weights, folder_of
from alps.ext.sizes.tables import fronts, rival_of
from alps.run.estimate import dry_run
from alps.run.opened import open_run
from alps.run.start import score_again
from alps.settings import RunSettings, parse_settings
from alps.show.compare import compare_runs
from alps.show.formatting import number
from alps.stats.bootstrap import clustered_mean
from alps.stats.paired import Spot, front_of
from tests.conftest import ROOT
from tests.endtoend import JOURNALS, finish, rows, start, summary, wait_until, write_rows
from tests.few import few
from tests.loopback import Answer, serve

SIZES = (256, 1024, 4096)
WORDS = {"task": "personamem", "model": "rules", "memory": "bm25"}
WORDS |= {"size": "32k", "k": 50, "limit": 40}


def run(out, **words):
    return evaluate(**{**WORDS, "max_context_tokens": "256,1k,4k", "out": str(out), **words})


def curve_in(folder):
    return summary(folder)["tracks"]["personamem"]["curve"]


def untimed_curve(folder):
    """Return a curve without what its answers took, which is the clock's."""
    curve = curve_in(folder)
    for point in curve["points"]:
        point["seconds"] = point["cost"] = None
    return curve


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes") / "run"
    run(folder)
    return folder


def test_each_point_is_the_run_at_that_size_alone(ran, tmp_path):
    points = curve_in(ran)["points"]
    assert [point["max_context_tokens"] for point in points] == list(SIZES)
    for point, inside in (points[0], folder_of(ran, 256)), (points[2], ran):
        size = point["max_context_tokens"]
        alone = run(tmp_path / str(size), max_context_tokens=size).folder
        track = summary(alone)["tracks"]["personamem"]
        assert "curve" not in track
        assert point["score"] == track["scores"]["accuracy"]
        for name in JOURNALS:
            assert (inside / name).read_bytes() == (alone / name).read_bytes()
    shown = [point["tokens"] for point in points]
    assert shown == sorted(shown)
    assert shown[0] <= 256 * 1.5
    # The history was told and searched once for all sizes; answers have times of their own.
    phases = [row["phase"] for row in rows(ran / "memory.jsonl")]
    assert phases.count("search") == 40
    assert not list(ran.glob("contexts/*/memory.jsonl"))
    assert summary(ran)["answers"]["calls"] == 40
    assert all(point["seconds"] > 0 and point["cost"] == 0 for point in points)


def test_the_area_is_that_of_trapezoids_over_log2_of_the_size(ran):
    curve = curve_in(ran)
    small, middle, large = (point["score"]["value"] for point in curve["points"])
    width = log2(4096) - log2(256)
    by_hand = (small + middle) / 2 * (log2(1024) - log2(256)) / width
    by_hand += (middle + large) / 2 * (log2(4096) - log2(1024)) / width
    assert curve["area"]["value"] == pytest.approx(by_hand)
    assert area_weights([100, 200, 800]).tolist() == pytest.approx([1 / 6, 1 / 2, 1 / 3])


def test_the_interval_of_an_area_takes_a_record_with_its_values_at_all_sizes():
    rises = np.array([[0.0, 0.5, 1.0]] * 6 + [[1.0, 0.5, 0.0]] * 6)
    sessions = list(range(12))
    # Each record has an area of a half: drawn apart by size, they would spread.
    area = area_under(rises, [100, 200, 400], sessions)
    assert area.value == 0.5
    assert 0.3 < area.low < 0.5 < area.high < 0.7
    area = area_under(np.repeat([[0.0], [1.0]], 6, axis=0) * np.ones(3), [100, 200, 800], sessions)
    assert area.value == 0.5
    assert 0.0 <= area.low < 0.3 < 0.7 < area.high <= 1.0
    # It has more room than that of scores, most of all near an end.
    values = np.array([[0.0, 0.5, 1.0]] * 6 + [[0.0, 0.5, 0.5]] * 6)
    area = area_under(values, [100, 200, 400], sessions)
    scores = clustered_mean(values @ area_weights([100, 200, 400]), sessions)
    assert area.low < scores.low
    assert area.high > scores.high
    values = np.zeros((40, 3))
    values[:2, 2] = 1.0
    area = area_under(values, [100, 200, 400], range(40))
    scores = clustered_mean(values @ area_weights([100, 200, 400]), range(40))
    assert area.value == scores.value
    assert area.low <= scores.low
    assert area.high > scores.high


@pytest.mark.parametrize("rate", [0.05, 0.98])
@pytest.mark.parametrize("sessions", few([20, 40]))
def test_the_interval_of_an_area_near_an_end_holds_the_truth(rate, sessions):
    held, draws = 0, 200
    for seed in range(draws):
        hard = np.random.default_rng([seed, sessions]).random((sessions, 1))
        values = (hard < [rate / 2, rate * 0.75, rate]) * 1.0
        area = area_under(values, [256, 1024, 4096], list(range(sessions)))
        held += area.low is not None and area.low <= rate * 0.75 <= area.high
    assert held >= 0.93 * draws


@pytest.mark.release
def test_an_area_near_an_end_allows_for_records_that_fail_at_every_size():
    """Those that were seen failed at one size of five, and say little of the others."""
    sizes = [1, 2, 4, 8, 16]
    rates = np.array([0.95, 0.97, 0.98, 0.99, 0.995])
    truth, held, draws = float(rates @ area_weights(sizes)), 0, 400
    for seed in range(draws):
        generator = np.random.default_rng(seed)
        hard = generator.normal(size=(60, 1)) * 0.99**0.5
        hard = hard + generator.normal(size=(60, 5)) * 0.01**0.5
        values = (hard < [NormalDist().inv_cdf(rate) for rate in rates]) * 1.0
        area = area_under(values, sizes, range(60))
        held += area.low <= truth <= area.high
    assert held >= 0.93 * draws


@pytest.mark.release
def test_a_killed_run_goes_on_and_ends_the_same(ran, tmp_path):
    words = [f"{name}={value}" for name, value in WORDS.items()]
    words += ["max_context_tokens=256,1k,4k", "out=out"]
    half_way = folder_of(tmp_path / "out", 1024) / "scores.jsonl"
    cache = {"ALPS_CACHE": os.environ["ALPS_CACHE"]}
    process = start(tmp_path, "run", *words, **cache)

    def is_half_way():
        return half_way.exists() and half_way.read_bytes().count(b"\n") > 5

    wait_until(lambda: process.poll() is not None or is_half_way())
    process.kill()
    process.communicate()
    diary = (tmp_path / "out" / "memory.jsonl").read_bytes()
    assert not (tmp_path / "out" / "summary.json").exists()
    assert finish(start(tmp_path, "run", *words, **cache)).returncode == 0
    for path in [*ran.glob("*.jsonl"), *ran.glob("contexts/*/*.jsonl")]:
        if path.name in JOURNALS:
            assert (tmp_path / "out" / path.relative_to(ran)).read_bytes() == path.read_bytes()
    assert untimed_curve(tmp_path / "out") == untimed_curve(ran)
    grown = (tmp_path / "out" / "memory.jsonl").read_bytes()
    assert b'"search"' not in grown.removeprefix(diary)


def test_judging_again_judges_every_size(ran, tmp_path):
    source = shutil.copytree(ran, tmp_path / "source")
    again = score_again(source, {"judge": "lexical", "out": str(tmp_path / "again")})
    assert curve_in(again.folder) == untimed_curve(ran)


def test_equal_contexts_are_asked_of_a_model_once(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with serve(lambda body: Answer('{"choice": "a"}')) as server:
        words = {"model": "openai/reader", "api_base": server.url, "limit": 10, "k": 1}
        sizes = {"max_context_tokens": "100,100k,200k"}
        (stage, *_) = dry_run(parse_settings({**WORDS, **words, **sizes}, RunSettings))
        run(tmp_path / "run", **words, **sizes)
        # One hit is always shown, whatever its length: all three sizes show the same.
        assert len(server.requests) == stage.calls == 10
    first, *others = curve_in(tmp_path / "run")["points"]
    assert all(one["score"] == first["score"] for one in others)


@pytest.mark.release
def test_answers_that_were_not_heard_at_a_smaller_size_fail_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    def answer(body):
        few = len(json.dumps(body)) < 20_000
        return Answer(status=400, error="no") if few else Answer('{"choice": "a"}')

    with serve(answer) as server:
        words = {"model": "openai/reader", "api_base": server.url, "limit": 5, "memory": "full"}
        with pytest.warns(UserWarning, match="unscored"):
            run(tmp_path / "run", **words, max_context_tokens="100,20k")
    small, large = curve_in(tmp_path / "run")["points"]
    assert small["failed_predictions"] == {"transport": 5}
    assert large["failed_predictions"] == {}


READ = [("4000", 4000), (4000, 4000), ("4k", 4096), ("16k, 256,1K", (256, 1024, 16_384))]
READ += [([256, 1024], (256, 1024)), ("1k,1024", 1024)]


@pytest.mark.parametrize(
    ("typed", "read"), [*READ, *((typed, None) for typed in ("99", "256,50", "1m", "256,,1k", "k"))]
)
def test_sizes_are_read_in_their_order_each_once_and_what_is_none_is_refused(typed, read):
    words = {"task": "personamem", "model": "rules", "max_context_tokens": typed}
    if read is not None:
        assert parse_settings(words, RunSettings).max_context_tokens == read
        return
    with pytest.raises(UsageError, match="max_context_tokens"):
        parse_settings(words, RunSettings)


def test_recorded_answers_are_of_one_size(ran):
    words = {"model": f"predictions:{ran}", "memory": "full"}
    with pytest.raises(UsageError, match="the recorded answers belong to one context size; set"):
        run(ran.parent / "recorded", **words)


def test_a_point_is_on_the_front_unless_one_is_better_for_no_more():
    spots = [Spot(1, 0.5), Spot(2, 0.5), Spot(2, 0.7), Spot(3, 0.6), Spot(1, 0.5), Spot(1, 0.4)]
    assert front_of(spots) == (0, 4, 2)
    assert [rival_of(place, spots, front_of(spots)) for place in (1, 3, 5)] == [2, 2, 0]


SESSIONS = 12


def with_scores(folder, score):
    """Give a run other scores at each size."""
    for inside in (folder, folder_of(folder, 256), folder_of(folder, 1024)):
        whole = rows(inside / "scores.jsonl")
        for place, row in enumerate(whole):
            row["scores"]["accuracy"] = score(inside.name, place)
        write_rows(inside / "scores.jsonl", whole)
    return folder


def test_what_is_beaten_and_cannot_be_told_from_the_front_ties_with_it(ran, tmp_path):
    def first(name, place):
        return 1.0 if name != "256" or place % 2 else 0.0

    def second(name, place):
        # At 256 as good as nothing; else behind in a tenth of the records.
        return 0.0 if name == "256" else float(place % 10 > 0)

    folders = {}
    for letter, score in {"A": first, "B": second}.items():
        folders[letter] = with_scores(shutil.copytree(ran, tmp_path / letter), score)
    runs = {letter: open_run(folder) for letter, folder in folders.items()}
    names = [row["benchmark_id"] for row in rows(ran / "scores.jsonl")]
    sessions = {name: str(place % SESSIONS) for place, name in enumerate(names)}
    metric = runs["A"].tasks["personamem"].headline
    by_axis = {front.axis: front for front in fronts(runs, "personamem", metric, sessions)}
    assert set(by_axis) == {"tokens", "seconds"}
    standing = {place.point.name: place for place in by_axis["tokens"].places}
    assert [name for name, place in standing.items() if place.rival is None] == ["A 256", "A 1,024"]
    assert standing["A 4,096"].standing == "ties with A 1,024"
    assert standing["B 256"].standing == "below A 256"
    assert standing["B 1,024"].rival is standing["A 1,024"].point
    behind = standing["B 1,024"].difference.estimate
    assert behind.value == pytest.approx(0.1)
    assert standing["B 1,024"].ties == (standing["B 1,024"].corrected > 0.05)


@pytest.mark.release
def test_compare_shows_the_fronts_of_runs_at_several_sizes(ran, tmp_path):
    other = run(tmp_path / "other", memory="last:50").folder
    comparison = compare_runs([ran, other])
    (front, *_) = comparison.as_json()["tracks"]["personamem"]["pareto"]
    shown = [point["tokens"] for point in front["points"]]
    assert shown == sorted(shown)
    assert sum(point["front"] for point in front["points"]) >= 1
    alone = run(tmp_path / "alone", max_context_tokens=256).folder
    twin = run(tmp_path / "twin", max_context_tokens=256, memory="last:50").folder
    assert "pareto" not in json.dumps(compare_runs([alone, twin]).as_json())


@pytest.mark.release
def test_the_page_draws_the_curves_of_several_runs_on_one_axis(ran, tmp_path):
    other = run(tmp_path / "other", memory="last:50").folder
    page = write_report([ran, other], tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("Equal context sizes: PersonaMem") == 1
    (told,) = re.findall(r'aria-label="accuracy by context size\. ([^"]+)"', page)
    for folder, name in (ran, "memory bm25"), (other, "memory last:50"):
        values = [point["score"]["value"] for point in curve_in(folder)["points"]]
        sizes = zip(SIZES, values, strict=True)
        each = ", ".join(f"{size}: {number(value)}" for size, value in sizes)
        assert f"rules, {name}: {each}" in told
        assert number(curve_in(folder)["area"]["value"]) in page


class Sized(Turns):
    def __init__(self):
        super().__init__("bm25")

    def size(self, user):
        return 10 * len(self.memories(user))


@pytest.mark.release
def test_a_system_that_declares_its_size_is_believed(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [str(ROOT), *sys.path])
    run(tmp_path / "run", memory=f"python:{__name__}:Sized", max_context_tokens=500)
    told = {}
    for row in rows(tmp_path / "run" / "memory.jsonl"):
        if row["phase"] == "settle":
            told[row["user"]] = row
    declared = sum(row["bytes"] for row in told.values())
    turns = sum(row["turns"] for row in told.values())
    found = summary(tmp_path / "run")["bytes_per_1000_turns"]
    assert found == pytest.approx(1000 * declared / turns)
    assert found > 0
