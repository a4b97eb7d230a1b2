"""Whether audits of some systems hold for another: a system that fools the cheap judge is found."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from alps.run.audited_records import Pairs
from alps.run.transport import of_metric
from alps.stats.transport import Residuals, transport
from alps.tasks import all_tracks
from tests.conftest import ROOT
from tests.desk import QUIET_LITELLM
from tests.loopback import Answer, serve
from tests.tracks import alps_here, payload_of

pytestmark = QUIET_LITELLM

LABELS, MARGIN, DRAWS = 60, 0.05, 300
F1 = all_tracks()["task1"].headline


def drawn(draw, *, fooling=0.0, count=LABELS):
    """Residuals of a system: the cheap judge misses some of what the better one sees."""
    truth = np.where(draw.random(count) < 0.4, 0.0, draw.beta(1.5, 2.5, count))
    missed = np.where(draw.random(count) < 0.5, 1.0, draw.random(count))
    cheap = np.clip(truth * missed + fooling * (draw.random(count) < 0.6), 0, 1)
    return truth - cheap


def verdicts(fooling):
    found = []
    for seed in range(DRAWS):
        draw = np.random.default_rng(seed)
        names = list(range(LABELS))
        others = {name: Residuals(drawn(draw), names) for name in "abc"}
        own = Residuals(drawn(draw, fooling=fooling), names)
        found.append(transport(own, others, MARGIN).verdict)
    return found


def test_a_system_that_fools_the_cheap_judge_fails_and_an_exchangeable_one_does_not():
    assert verdicts(0.5).count("fail") >= 0.95 * DRAWS
    calm = verdicts(0.0)
    assert calm.count("fail") <= 0.05 * DRAWS
    assert calm.count("pass") > calm.count("fail")


def test_the_interval_is_that_of_a_plain_bootstrap_over_shared_sessions():
    draw = np.random.default_rng(7)
    count = 400
    shared = draw.normal(0, 0.2, count)
    own = shared + draw.normal(0.1, 0.1, count)
    others = [shared + draw.normal(0.02, 0.1, count) for _ in range(2)]
    names = list(range(count))
    residuals = {str(n): Residuals(one, names) for n, one in enumerate(others)}
    found = transport(Residuals(own, names), residuals, MARGIN)
    differences = []
    for _ in range(2_000):
        taken = draw.integers(0, count, count)
        mean = np.mean([one[taken].mean() for one in others])
        differences.append(own[taken].mean() - mean)
    assert (found.low, found.high) == pytest.approx(
        np.percentile(differences, [2.5, 97.5]), abs=2e-3
    )
    assert (found.n, found.sessions, found.verdict) == (count, count, "fail")


def test_a_small_difference_is_known_only_from_many_audits():
    draw = np.random.default_rng(1)
    few, many = (draw.normal(0, 0.3, count) for count in (25, 4_000))
    base = draw.normal(0, 0.3, 4_000)
    other = {"a": Residuals(base, [f"a{n}" for n in range(4_000)])}
    for values, verdict in ((few, "inconclusive"), (many, "pass")):
        own = Residuals(values, list(range(len(values))))
        assert transport(own, other, MARGIN).verdict == verdict


def test_without_answers_nothing_is_tested():
    one = Residuals(np.array([0.1]), ["s"])
    with pytest.raises(ValueError, match="each side"):
        transport(one, {}, MARGIN)
    assert transport(one, {"a": one}, MARGIN).verdict == "inconclusive"


def pairs_of(cheap, audited=30):
    """Answers with these cheap scores, each a session, of which the first are audited."""
    cheap = np.asarray(cheap, dtype=float)
    audit = np.where(np.arange(len(cheap)) < audited, cheap * 0.9, np.nan)
    names = list(range(len(cheap)))
    return Pairs(cheap, audit, ~np.isnan(audit), names, (0.0, 1.0))


def test_scores_where_no_other_system_has_an_audit_are_refused():
    draw = np.random.default_rng(3)
    others = {"a": pairs_of(draw.uniform(0.1, 0.5, 60)), "b": pairs_of(draw.uniform(0.2, 0.6, 60))}
    within = of_metric("task1", F1, pairs_of(draw.uniform(0.2, 0.4, 60)), others, MARGIN)
    assert (within.found is not None, within.refused) == (True, None)
    beyond = of_metric("task1", F1, pairs_of(draw.uniform(0.4, 1.0, 60)), others, MARGIN)
    assert beyond.found is None
    assert "% of the scores are outside: audits of the others are from 0.1" in beyond.refused


def exact(body):
    """Find a gold memory the same as a prediction that starts with the same word."""
    payload, pairs = payload_of(body), []
    for gold in payload["gold"]:
        for item in payload["predicted"]:
            if item["value"].split()[:2] == gold["value"].split()[:2]:
                names = {"gold": gold["id"], "predicted": item["id"]}
                pairs.append({"reason": "its words", **names, "relation": "same"})
                break
    return Answer(json.dumps({"pairs": pairs}))


def test_a_run_is_held_to_the_audits_of_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with serve(exact) as server:
        audit = ("audit_judge=openai/a", f"audit_judge_api_base={server.url}", "audit=90%")
        for model in ("rules", "oracle"):
            done = alps_here("run", "task=extraction", f"model={model}", *audit, f"out={model}")
            assert done.code == 0, done.err
    alps_here("run", "task=extraction", "model=rules", "out=plain")
    done = alps_here("transport", "rules", "rules")
    assert done.code == 0
    assert "Error of judge lexical here less there; margin 0.05" in done.out
    # Held to itself: no spread of differences, of which nothing can be told.
    assert "inconclusive" in done.out
    told = json.loads(alps_here("transport", "oracle", "rules", "format=json").out)
    f1 = next(row for row in told["rows"] if row["metric"] == "f1")
    assert f1["found"] is not None or "outside" in f1["refused"]
    # The same ids with another gold, and the same judge with other settings, under the same names.
    shutil.copytree(ROOT / "data" / "samples", "data")
    gold = Path("data/dev/task1/reference_output.jsonl")
    gold.write_text(gold.read_text("utf-8").replace("Lives", "Lived"), "utf-8")
    with serve(exact) as server:
        audit = ("audit_judge=openai/a", f"audit_judge_api_base={server.url}", "audit=90%")
        words = ("run", "task=extraction", "model=rules", *audit)
        assert alps_here(*words, "data=data", "out=other").code == 0
    refused = alps_here("transport", "rules", "other")
    assert (refused.code, "its data have another hash" in refused.err) == (2, True)
    manifest = json.loads(Path("oracle/summary.json").read_text("utf-8"))
    for place in (manifest, *manifest["tracks"].values()):
        if "judge_fingerprint" in place:
            place["judge_fingerprint"] = "0" * 12
    Path("oracle/summary.json").write_text(json.dumps(manifest), "utf-8")
    refused = alps_here("transport", "rules", "oracle")
    assert (refused.code, "its judge has another fingerprint" in refused.err) == (2, True)
    refused = alps_here("transport", "plain", "rules")
    assert (refused.code, "plain: no audits" in refused.err) == (2, True)
    assert alps_here("transport", "rules").code == 2
