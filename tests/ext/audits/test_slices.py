"""What a cheap judge is bent by: scripts, families, and least squares with errors between clusters,
against formulas by hand and a plain bootstrap.
"""

import numpy as np
import pytest

from alps.ext.audits.slices import Errors, bent_by, clustered_effects, family_of, script_of


def data(seed, sessions=120, each=2, slope=0.3):
    draw = np.random.default_rng(seed)
    names = np.repeat(np.arange(sessions), each)
    bends = np.repeat(draw.normal(size=sessions), each) + 0.3 * draw.normal(size=names.size)
    noise = np.repeat(draw.normal(size=sessions), each) * 0.5 + 0.5 * draw.normal(size=names.size)
    other = draw.normal(size=names.size)
    return slope * bends + noise, {"bends": bends, "other": other}, names


def test_records_alone_have_the_errors_of_huber_and_white_times_the_correction():
    values, covariates, _ = data(1, sessions=80, each=1)
    found = clustered_effects(values, covariates, range(80))
    scaled = [(one - one.mean()) / one.std() for one in covariates.values()]
    design = np.stack([np.ones(80), *scaled], axis=1)
    slopes, *_ = np.linalg.lstsq(design, values, rcond=None)
    left = values - design @ slopes
    bread = np.linalg.inv(design.T @ design)
    variance = bread @ (design.T * left**2) @ design @ bread * 80 / 77  # HC1
    assert [one.value for one in found] == pytest.approx(slopes[1:].tolist())
    halves = [(one.high - one.low) / 2 / 1.99045 for one in found]  # t(79), .975
    assert halves == pytest.approx(np.sqrt(np.diag(variance))[1:].tolist(), rel=1e-4)


def test_clustered_errors_are_those_of_a_plain_bootstrap_of_sessions():
    values, covariates, names = data(2)
    found = clustered_effects(values, covariates, names.tolist())[0]
    scaled = [(one - one.mean()) / one.std() for one in covariates.values()]
    design = np.stack([np.ones(len(values)), *scaled], axis=1)
    draw, slopes = np.random.default_rng(0), []
    for _ in range(800):
        rows = (2 * draw.integers(0, 120, 120)[:, None] + np.arange(2)).ravel()
        slopes.append(np.linalg.lstsq(design[rows], values[rows], rcond=None)[0][1])
    assert (found.high - found.low) / 2 / 1.98 == pytest.approx(np.std(slopes), rel=0.12)


def test_a_covariate_that_bends_is_found_and_one_that_does_not_rarely_is():
    wrong = 0
    for seed in range(60):
        bends, other = clustered_effects(*data(seed))
        assert bends.p_holm < 0.05
        wrong += other.p_holm < 0.05
    assert wrong <= 8


def test_what_does_not_vary_or_follows_from_others_is_left_out_and_few_sessions_tell_nothing():
    values, covariates, names = data(3)
    more = {**covariates, "flat": np.ones(len(values)), "twice": 2 * covariates["bends"]}
    assert [one.by for one in clustered_effects(values, more, names.tolist())] == list(covariates)
    values, covariates, names = data(4, sessions=5)
    assert clustered_effects(values, covariates, names.tolist()) == []


@pytest.mark.parametrize(
    ("text", "script"),
    [("I like tea", "Latin"), ("喜欢喝茶 OK", "CJK"), ("Люблю чай", "Cyrillic"), ("12 !", "none")],
)
def test_a_text_is_in_the_script_of_most_of_its_letters(text, script):
    assert script_of(text) == script


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("openai/gpt-4.1-mini", "gpt"),
        ("openrouter/openai/gpt-5", "gpt"),
        ("anthropic/claude-sonnet-4.5", "claude"),
        ("lexical", ""),
        ("predictions:/answers/gpt.jsonl", ""),
    ],
)
def test_models_of_one_maker_are_a_family(model, family):
    assert family_of(model) == family


def test_a_judge_that_favours_its_own_family_is_found_over_several_runs():
    draw = np.random.default_rng(0)
    runs = []
    for own in (True, False, False):
        errors = draw.normal(-0.2 * own, 0.2, 60)
        lengths = {"input length": draw.normal(size=60)}
        runs.append(Errors(errors, lengths, [f"s{n}" for n in range(60)], own))
    bent = {row.by: row for row in bent_by(runs)}
    # For one standard deviation of a share of a third: .2 times .471.
    assert bent["own family"].value == pytest.approx(-0.2 * 0.471, abs=0.03)
    assert bent["own family"].p_holm < 0.001
    assert bent["input length"].p_holm > 0.05
    assert "own family" not in {row.by for row in bent_by(runs[1:])}
