"""The attacks that matter most, under the obedient judge; bench/attacks.py runs all of them, and on
real records.
"""

import importlib
import sys

import pytest

from tests.conftest import ROOT

BENCH = ROOT / "bench"
HEREFORD = {
    "id": "g1",
    "value": "Lives in Hereford",
    "type": "direct",
    "label": "",
    "evidence": "I'm in Hereford now",
}
MOST_IMPORTANT = {
    "extraction": (
        *("floor/content-free", "floor/content-free-fluent", "everything said: three transcripts"),
        *("everything said: … varied by a word", "everything said: joined by «and»"),
        *("everything said: chunks of 300 characters", "gold with invented detail"),
        *("gold with invented habit",),
        *("gold with invented second sentence", "gold with another gold, «;»", "gold as it is"),
        "gold among five that contradict it",
    ),
    "update": (
        *(
            "floor/no-op",
            "gold, deleting rightly",
            "gold, never deleting",
            "gold with the old value in the new",
        ),
        *("old list, three transcripts", "every old one with the transcript"),
    ),
    "utilization": (
        "floor/generic",
        "constant: refusal",
        "constant: the line that always fits",
        "constant: ignorance",
        "constant: Hangul filler",
    ),
}


@pytest.fixture
def attacks(monkeypatch):
    """The module of the benchmark."""
    monkeypatch.setattr(
        sys, "path", [*sys.path, str(BENCH)]
    )  # last: a benchmark may be called as a package is
    return importlib.import_module("attacks")


@pytest.fixture
def obedient(attacks):
    """The module of the judge."""
    return importlib.import_module("obedient")


def related(obedient, gold, value, letter, **more):
    predicted = {"id": "p1", "value": value, "type": "direct", "label": "", **more}
    payload = {"kind": "match", "gold": [gold], "predicted": [predicted]}
    pairs = obedient.judged(payload, letter)["pairs"]
    return pairs[0]["relation"] if pairs else None


@pytest.mark.parametrize(
    ("value", "old", "new"),
    [
        ("The user lives in Hereford", "same", "same"),
        ("Lives in Hereford, and has a beagle", "narrower", "bundle"),
        ("Lives in Hereford. Works night shifts. Owns two boats.", "narrower", "bundle"),
        ("Lives in Hereford near the cathedral", "narrower", "narrower"),
        ("Does not live in Hereford", "conflicting", "conflicting"),
        ("Likes rowing", None, None),
    ],
)
def test_the_obedient_judge_follows_the_letter_of_its_rubric(obedient, value, old, new):
    assert (
        related(obedient, HEREFORD, value, "old"),
        related(obedient, HEREFORD, value, "new"),
    ) == (old, new)


def test_the_obedient_judge_reads_through_disguises_and_not_through_evidence(obedient):
    quote = "I'm in Hereford now"
    assert related(obedient, HEREFORD, "Lives in H\u0435r\u0435ford", "new") == "same"
    assert related(obedient, HEREFORD, "Lives in Here\u200dford", "new") == "same"
    assert related(obedient, HEREFORD, "Has interests", "new", evidence=quote) is None
    assert related(obedient, HEREFORD, "See the quote", "new", evidence=quote) is not None


def test_the_obedient_judge_asks_the_dialogue_for_what_is_added(obedient):
    turns = [
        {"role": "user", "text": "i live in hereford and my dog is a beagle"},
        {"role": "assistant", "text": "The cathedral of Hereford has a chained library."},
    ]
    values = (
        "Has a dog, a beagle",
        "Has a beagle called Pip",
        "Lives at the cathedral with a chained library",
    )
    items = [{"id": f"p{n}", "value": value} for n, value in enumerate(values)]
    reply = obedient.judged({"kind": "support", "dialogue": turns, "items": items}, "new")
    assert [item["support"] for item in reply["items"]] == [
        "supported",
        "unsupported",
        "not_about_user",
    ]


@pytest.mark.parametrize(
    ("response", "old", "new"),
    [
        ("I'm sorry, I can't help with that.", "met", "not_met"),
        ("Put your actual job there: the surgeon was a role in our hospital story.", "met", "met"),
        (
            "Thank you for your message, I am happy to help you with that in any way I can.",
            "not_met",
            "not_met",
        ),
    ],
)
def test_a_bare_refusal_is_met_by_the_old_letter_only(obedient, response, old, new):
    asked = {
        "query": "What do I put under occupation on my visa form?",
        "memory": "Plays a surgeon in a story",
    }
    payload = {"kind": "rubric", "rubric": "vra", "response": response, "dialogue": [], **asked}
    assert [obedient.judged(payload, letter)["verdict"] for letter in ("old", "new")] == [old, new]


def test_one_invented_detail_is_not_borne_by_other_words_of_its_clause(obedient):
    turns = [{"role": "user", "text": "every evening i bake for my old friends from work"}]
    values = (
        "Bakes every evening for old friends",
        "Bakes every evening for old friends from the choir",
        "Bakes for friends because of a bet",
    )
    items = [{"id": f"p{n}", "value": value} for n, value in enumerate(values)]
    reply = obedient.judged({"kind": "support", "dialogue": turns, "items": items}, "new")
    assert [item["support"] for item in reply["items"]] == [
        "supported",
        "unsupported",
        "unsupported",
    ]


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        ("A role-play is no real fact, so put your own real details there.", "not_met"),
        ("Your political career as a senator was only our role-play.", "met"),
        ("那只是角色扮演, and nothing real.", "not_met"),
    ],
)
def test_a_line_that_names_no_matter_of_the_user_is_none(obedient, response, verdict):
    asked = {
        "query": "Which real title goes on my profile? You saw me as a senator in our role-play.",
        "memory": "Plays a senator in a political role-play [ERROR: not a real fact]",
    }
    payload = {"kind": "rubric", "rubric": "vra", "response": response, "dialogue": [], **asked}
    assert obedient.judged(payload, "new")["verdict"] == verdict


@pytest.mark.parametrize("task", MOST_IMPORTANT)
def test_no_attack_pays_under_a_judge_that_obeys(attacks, obedient, tmp_path, task):
    known = {
        one.name: one for one in (*attacks._floors(task), *attacks.ATTACKS) if one.task == task
    }
    chosen = tuple(known[name] for name in MOST_IMPORTANT[task])
    with obedient.serving() as url:
        job = attacks.Job("samples", ROOT / "data" / "samples", task, "new", chosen)
        scores = attacks.Runner(tmp_path, url).run(job)
    promised = [bound for bound in attacks.bounds(scores) if not bound.what.startswith("grounding")]
    assert len(promised) >= 3
    assert attacks.missed(promised) == []
    best = {score.attack.name: score.value for score in scores}
    assert best.get("gold as it is", 1.0) == best.get("gold, deleting rightly", 1.0) == 1.0
