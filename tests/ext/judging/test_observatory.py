"""The same answers under several judges and prompts, beside trivial judges: judges on loopback are
as strict as their name and their system message say.
"""

import json
from typing import Any

import numpy as np
import pytest

from alps.ext.judging.judges import (
    BOTH,
    JUDGE,
    NOISE,
    PROMPT,
    fixed_rank_correlation,
    variance_components,
)
from alps.ext.people.gold import rank_correlation
from tests.endtoend import write_rows
from tests.few import few
from tests.loopback import Answer, LoopbackServer, serve
from tests.pages import Page, barriers, browser, look, tab_of
from tests.tracks import Ran, alps_done, alps_here, met, payload_of, target_row, write_ability

__all__ = ["browser"]  # a fixture

LENIENT = "Be lenient."
ANSWERS = {"steady": ("exact",) * 4 + ("wrong",) * 4, "loose": ("close",) * 6 + ("wrong",) * 2}
STRICT, MILD = "openai/strict", "openai/mild"


def judge(body: dict[str, Any]) -> Answer:
    if body["model"] == "mute" and payload_of(body)["response"].endswith("7"):
        return Answer("I'd rather not say.")
    liked = ["exact"]
    if body["model"] == "mild" or body["messages"][0]["content"] == LENIENT:
        liked.append("close")
    return met("met" if payload_of(body)["response"].split()[0] in liked else "not_met")


@pytest.fixture(scope="module")
def server():
    with serve(judge) as running:
        yield running


@pytest.fixture(scope="module")
def observed(server, tmp_path_factory):
    """Two runs over eight records from eight sessions, and one wording; the current folder."""
    folder = tmp_path_factory.mktemp("observed")
    rows = (target_row(f"r{n}", session_id=f"s{n}") for n in range(8))
    write_ability(folder / "data", 1, *rows)
    (folder / "words").mkdir()
    (folder / "words" / "lenient.md").write_text(f"<!-- id: mine/1 -->\n\n{LENIENT}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ALPS_CACHE", "off")
        patch.setenv("OPENAI_API_KEY", "none")
        for name, answers in ANSWERS.items():
            said = [f"{answer} {name} {n}" for n, answer in enumerate(answers)]
            given = [{"benchmark_id": f"r{n}", "answer": answer} for n, answer in enumerate(said)]
            write_rows(folder / f"{name}.jsonl", given)
            words = ("data=data", f"model=predictions:{name}.jsonl", f"out={name}")
            assert alps_here("run", "task=utilization", "ability=pa", *words).code == 0
        yield folder


def ask(server: LoopbackServer, *words: str) -> Ran:
    base = f"judge_api_base={server.url}"
    return alps_here("judges", *ANSWERS, f"judge={STRICT},{MILD}", base, *words)


def test_judges_prompts_and_trivial_judges_stand_beside_each_other(server, observed):
    ran = ask(server, "prompts=words", "draws=2", "out=cells", "format=json")
    assert ran.code == 0, ran.err
    track = json.loads(ran.out)["tracks"]["task4_ability1"]
    scores = {(one["judge"], one["prompt"]): one["scores"] for one in track["judged"]}
    mild = {"A": 0.5, "B": 0.75}
    assert scores == {
        (STRICT, "ours"): {"A": 0.5, "B": 0},
        (STRICT, "lenient"): mild,
        (MILD, "ours"): mild,
        (MILD, "lenient"): mild,
        ("always-yes", "ours"): {"A": 1, "B": 1},
        ("always-no", "ours"): {"A": 0, "B": 0},
    }
    assert [one["counts"] for one in track["judged"]] == [True] * 4 + [False] * 2
    assert (track["figure"], track["n"], track["clusters"]) == ("kappa", 8, 8)
    kappas = {(p["first"], p["second"]): p["estimate"]["value"] for p in track["agreements"]}
    assert kappas[1, 2] == kappas[2, 3] == 1
    # Of 16 answers 4 are accepted by the strict one, and 10, these among them, by the others.
    by_chance = (4 * 10 + 12 * 6) / 16**2
    assert kappas[0, 1] == pytest.approx((10 / 16 - by_chance) / (1 - by_chance))
    assert kappas[0, 4] == 0
    (swap,) = track["swaps"]
    assert (swap["ahead"], swap["behind"]) == (0.25, 0.75)
    assert swap["swapped"] == pytest.approx(2 * 1 * 3 / (4 * 3))
    winner = track["winner"]
    assert winner["A"] + winner["B"] == pytest.approx(1)
    assert 0.25 < winner["A"] < winner["B"]
    steady, loose = track["sources"]
    assert {name: one["deviation"] for name, one in steady["components"].items()} == (
        pytest.approx(dict.fromkeys(steady["components"], 0), abs=1e-6)
    )
    assert loose["draws"] == pytest.approx(0, abs=1e-6)
    shares = [one["share"]["value"] for one in loose["components"].values()]
    assert sum(shares) == pytest.approx(1)
    asked = len(server.requests)
    assert asked == 2 * 8 * 4 * 2  # runs, records, judges and prompts, draws
    table = ask(server, "prompts=words", "draws=2", "out=cells")
    assert (table.code, len(server.requests)) == (0, asked)


def test_records_that_a_judge_did_not_score_are_counted(server, observed):
    words = (f"judge={STRICT},openai/mute", f"judge_api_base={server.url}", "out=muted")
    ran = alps_here("judges", "steady", *words)
    assert ran.code == 1
    lost = "(not scored by every judge on persona awareness): 1 of 8 records (mute--ours 1)."
    assert f"Left out {lost}" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("judge=lexical,lexical",), "judge=lexical: named twice"),
        (("judge=lexical,",), "a name is missing between two commas"),
        (("judge=lexical", "prompts=words"), "prompts=words would change nothing"),
        (("judge=lexical", "draws=2"), "draws=2 would change nothing"),
        (("judge=lexical", "level=.01"), "level=0.01 would change nothing without anchors=DIR"),
    ],
)
def test_what_can_not_be_judged_is_said_in_one_line(observed, words, said):
    assert said in alps_here("judges", "steady", *words).one_line


def test_anchors_split_a_drift_into_judge_and_system(server, observed):
    base = f"judge_api_base={server.url}"
    for run, judge_then, out in (
        ("steady", STRICT, "old"),
        ("steady", MILD, "now"),
        ("loose", STRICT, "then"),
        ("loose", MILD, "new"),
    ):
        words = ("score", run, f"judge={judge_then}", base, f"out={out}", "baseline_records=0")
        assert alps_here(*words).code == 0
    ran = alps_here("judges", "then", "new", "anchors=new", "format=json")
    drift = json.loads(ran.out)["tracks"]["task4_ability1"]
    assert (drift["change"]["value"], drift["judge"]["value"]) == (0.75, 0.75)
    assert drift["system"]["value"] == 0
    ran = alps_done("judges", "old", "new", "anchors=now")
    shown = " ".join(ran.out.split())
    for told in ("the judge .000", "the system +.250", "the fingerprints differ"):
        assert told in shown
    assert "needs two runs" in alps_here("judges", "old", "anchors=now").one_line


@pytest.fixture(scope="module")
def page(server, observed):
    assert ask(server, "prompts=words", "draws=2", "out=cells").code == 0
    return observed / "cells" / "judges.html"


def test_the_page_shows_what_the_tables_show(page, server):
    shown = Page(page.read_text())
    words = " ".join(shown.text.split())
    told = ("always-yes", "lenient", "judge × prompt", "Cohen's kappa", "swapped", "P(winner)")
    assert [part for part in (*told, "is best with probability") if part not in words] == []
    assert ("persona awareness" in shown.text, "task4" in shown.text) == (True, False)
    first = page.read_bytes()
    assert ask(server, "prompts=words", "draws=2", "out=cells").code == 0
    assert page.read_bytes() == first


@pytest.mark.parametrize(("width", "scheme"), few([(375, "dark"), (768, "light"), (1280, "dark")]))
def test_the_page_fits_and_follows_the_colour_scheme(page, browser, width, scheme):
    look(browser, page, width=width, scheme=scheme)


def test_no_barrier_is_found_in_the_page(page, browser):
    with tab_of(browser, width=375, height=700) as tab:
        tab.goto(page.as_uri())
        assert [(one["id"], one["nodes"][0]["html"][:120]) for one in barriers(tab)] == []


def crossed(generator, records, sizes, deviations, *, each=0.0):
    """Return values of records in a design whose levels lie apart by these deviations."""
    judges, prompts, _ = sizes
    values = np.broadcast_to(generator.normal(0.5, 0.2, (records, 1, 1, 1)), (records, *sizes))
    shapes = ((1, judges, 1, 1), (1, 1, prompts, 1), (1, judges, prompts, 1))
    for shape, deviation in zip(shapes, deviations, strict=True):
        levels = generator.normal(0, 1, shape)
        values = values + deviation * levels
    return values + generator.normal(0, each, (records, *sizes)) if each else values


def test_a_spread_of_prompts_alone_is_the_variance_of_their_scores():
    generator = np.random.default_rng(1)
    values = crossed(generator, 40, (3, 4, 1), (0, 0.1, 0))
    components, draws = variance_components(values, [n // 2 for n in range(40)])
    scores = values.mean(axis=(0, 1, 3))
    assert components[PROMPT].deviation == pytest.approx(scores.std(ddof=1))
    assert components[PROMPT].share.value == pytest.approx(1)
    assert components[JUDGE].deviation == pytest.approx(0, abs=1e-6)
    assert components[NOISE].deviation == pytest.approx(0, abs=1e-6)
    assert draws is None


def test_what_judge_and_prompt_do_together_is_no_part_of_either():
    values = crossed(np.random.default_rng(5), 40, (4, 3, 1), (0.1, 0.1, 0.05))
    components, _ = variance_components(values, range(40))
    scores = values.mean(axis=(0, 3))
    judges, prompts = scores.mean(axis=1), scores.mean(axis=0)
    left = scores - judges[:, None] - prompts + scores.mean()
    both = (left**2).sum() / (3 * 2)
    assert components[BOTH].deviation == pytest.approx(both**0.5)
    assert components[JUDGE].deviation == pytest.approx((judges.var(ddof=1) - both / 3) ** 0.5)
    assert components[PROMPT].deviation == pytest.approx((prompts.var(ddof=1) - both / 4) ** 0.5)


@pytest.mark.release
def test_planted_components_come_out_on_average():
    generator = np.random.default_rng(2)
    planted, records, each = (0.08, 0.05, 0.03), 60, 0.3
    found = []
    for _ in range(60):
        values = crossed(generator, records, (5, 5, 2), planted, each=each)
        components, draws = variance_components(values, range(records))
        variances = [components[name].deviation ** 2 for name in (JUDGE, PROMPT, BOTH, NOISE)]
        found.append([*variances, draws**2])
    noise = each / records**0.5
    assert np.mean(found, axis=0) ** 0.5 == pytest.approx((*planted, noise, noise), rel=0.15)


def test_a_factor_with_one_level_has_no_component_and_one_score_has_no_spread():
    generator = np.random.default_rng(3)
    values = crossed(generator, 20, (3, 1, 1), (0.1, 0, 0), each=0.1)
    assert set(variance_components(values, range(20))[0]) == {JUDGE, NOISE}
    assert variance_components(values[:, :1], range(20)) == ({}, None)


def test_ranks_that_resamples_keep_have_the_value_and_nearly_the_interval_of_spearman():
    generator = np.random.default_rng(4)
    first = generator.integers(0, 6, 120).astype(float)
    second = first + generator.integers(0, 6, 120)
    sessions = [n // 3 for n in range(120)]
    quick, slow = (f(first, second, sessions) for f in (fixed_rank_correlation, rank_correlation))
    assert quick.value == pytest.approx(slow.value)
    assert (quick.low, quick.high) == pytest.approx((slow.low, slow.high), abs=0.03)
