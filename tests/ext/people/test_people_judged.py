"""Agreement on gold where an LLM judge, served on loopback, says which memories match."""

import json
import re
from typing import Any

import pytest

from tests.annotated import write_annotations
from tests.loopback import Answer, serve
from tests.tracks import JUDGE, alps_here, payload_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_annotations(tmp_path_factory.mktemp("release"))


def agreement(folder, script, *words):
    """Return what the command said, and how often the judge was asked."""
    with pytest.MonkeyPatch.context() as patch, serve(script) as server:
        patch.setenv("OPENAI_API_KEY", "none")
        patch.setenv("ALPS_CACHE", "off")
        rule = (f"rule={JUDGE}", f"judge_api_base={server.url}", "patience=0")
        return alps_here("annotate", "agreement", folder, *rule, *words), len(server.requests)


def donkeys_are_stamps(body: dict[str, Any]) -> Answer:
    asked = payload_of(body)
    pairs = []
    for gold in asked["gold"]:
        if "donkeys" in gold["value"]:
            about = {"gold": gold["id"], "predicted": asked["predicted"][0]["id"]}
            pairs.append({"reason": "both are kept", **about, "relation": "same"})
    return Answer(json.dumps({"pairs": pairs}))


def test_a_judge_is_asked_where_texts_differ_and_its_matches_count(folder):
    ran, asked = agreement(folder, donkeys_are_stamps, "format=json")
    assert ran.code == 0, ran.err
    row = json.loads(ran.out)
    assert asked == 6  # in two of eight sessions only one person has anything left
    assert row["rule"]["rule"] == JUDGE
    assert len(row["rule"]["judge"]) == 12
    figures = row["parts"]["task1"]["figures"]
    assert figures["set_f1_micro"]["value"] == pytest.approx(2 * 16 / 40)
    assert figures["identical"]["value"] < figures["set_f1"]["value"]


def test_lists_that_the_judge_said_nothing_of_are_in_no_figure(folder):
    ran, _ = agreement(folder, lambda body: Answer("no verdict at all"))
    assert ran.code == 1  # six of the lists: more than max_failures
    assert "No metric includes the lists for which matching failed: unparsable 6." in ran.out
    assert re.search(r"set F1 \(mean over sessions\) .* 2  sessions", ran.out)


def test_a_spent_budget_ends_with_its_own_exit_code(folder):
    ran, asked = agreement(folder, donkeys_are_stamps, "max_total_tokens=0")
    assert (ran.code, asked) == (3, 0)
    assert "budget" in ran.err


def test_a_judge_without_a_key_is_refused(folder, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ran = alps_here("annotate", "agreement", folder, f"rule={JUDGE}")
    assert (ran.code, ran.out) == (2, "")
    assert "OPENAI_API_KEY" in ran.err
