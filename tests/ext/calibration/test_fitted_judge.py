"""`alps calibrate fit=yes`: a cheap judge that learns from the verdicts of a run."""

import json
import re

import pytest

from alps.data.release import write_track
from alps.event_loop import run_loop
from alps.judges.base import Item, MatchQuestion
from alps.judges.embedded import embedded_judge
from tests.endtoend import summary, write_rows
from tests.tracks import alps_done, alps_here

PLACES = ("Oslo", "Lima", "Porto", "Turin", "Ghent", "Basel", "Cairo", "Delhi", "Kyoto", "Quito")
SPORTS = ("rowing", "archery", "fencing", "curling", "judo", "sailing", "boxing", "golf", "karate")
LABELS = ("Personal_Background/Location", "Preferences/Sports")
RUN = ("run", "task=extraction", "model=predictions:records.jsonl", "data=data")


def memory(name, value, label):
    return {"memory_id": name, "type": "direct", "value": value, "label": label}


def session(number):
    """Two memories each: one is the same in other words, one another in nearly the same words."""
    place, sport = PLACES[number % len(PLACES)], SPORTS[number % len(SPORTS)]
    gold = [
        memory("g-home", f"Lives near the old harbour of {place}", LABELS[0]),
        memory("g-sport", f"Does {sport} before breakfast twice a week", LABELS[1]),
    ]
    predicted = [
        memory("p-home", f"Is at home in {place}", LABELS[0]),
        memory("p-sport", f"Does {sport} before breakfast twice a month", LABELS[1]),
    ]
    reviews = [
        {"gold_id": "g-home", "pred_id": "p-home", "error_type": "EQUIVALENT"},
        {"gold_id": "g-sport", "pred_id": "p-sport", "error_type": "VALUE_DRIFT"},
    ]
    model = {"model_output": {"memory_items": predicted}}
    return gold, {**model, "judge_output": {"pair_reviews": reviews}}


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A folder with a run that recorded verdicts judged, and the judge that was fitted to it."""
    folder = tmp_path_factory.mktemp("fitted")
    pairs, records = [], []
    for number in range(24):
        gold, output = session(number)
        about = {"benchmark_id": f"r{number}", "session_id": f"s{number}"}
        dialogue = [{"role": "user", "text": one["value"]} for one in gold]
        asked, answer = {"dialogue": dialogue}, {"memory_items": gold}
        pairs.append(({**about, "input": asked}, {**about, "gold": answer}))
        records.append({**about, **output})
    write_track(folder / "data" / "dev" / "task1", pairs)
    write_rows(folder / "records.jsonl", records)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        alps_done(*RUN, "judge=recorded:records.jsonl", "out=judged")
        fitted = alps_done("calibrate", "fit=yes", "labels=judged", "out=cheap.json")
    return folder, fitted.out


@pytest.fixture
def here(judged, monkeypatch):
    monkeypatch.chdir(judged[0])
    return judged[0]


def test_it_prints_its_agreement_on_unseen_sessions_beside_that_of_lexical(judged):
    figures = 3 * r" +(\S+ \[.*?\])"
    row = re.search(rf"^ *named +(\S+){figures}", judged[1], re.MULTILINE)
    assert row, judged[1]
    fitted, lexical = float(row[2].split()[0]), float(row[3].split()[0])
    assert row[1] == "48"
    assert fitted >= lexical + 0.2
    difference, low = row[4].split(", ")[0].split(" [")
    assert float(difference) == pytest.approx(fitted - lexical, abs=0.011)
    assert 0 < float(low) <= float(difference)


def test_the_file_is_plain_json_and_says_what_it_was_fitted_on(here):
    fitted = json.loads((here / "cheap.json").read_text(encoding="utf-8"))
    assert fitted["fitted_on"]["named"] == 48
    assert fitted["fitted_on"]["matches"] == 24
    assert fitted["fitted_on"]["sessions"] == 24
    # None of the texts that it learnt from.
    assert not any(place in json.dumps(fitted) for place in PLACES)


def test_it_judges_a_run_is_never_comparable_and_tells_its_agreement(here):
    alps_done(*RUN, "judge=fitted:cheap.json", "out=cheap")
    found = summary(here / "cheap")
    assert found["comparable"] is False
    # Of two memories each, the one that says the same in other words matches.
    assert found["tracks"]["task1"]["scores"]["f1"]["value"] == pytest.approx(0.5, abs=0.05)
    assert "Agreement of this judge: kappa" in " ".join(alps_here("show", "cheap").out.split())


def test_its_fingerprint_is_that_of_the_files_content(here, tmp_path):
    before = embedded_judge("fitted:cheap.json").fingerprint
    other = tmp_path / "other.json"
    other.write_bytes((here / "cheap.json").read_bytes())
    assert embedded_judge(f"fitted:{other}").fingerprint == before
    fitted = json.loads(other.read_text(encoding="utf-8"))
    fitted["same"]["bias"] += 1
    other.write_text(json.dumps(fitted), encoding="utf-8")
    assert embedded_judge(f"fitted:{other}").fingerprint != before


def test_the_order_of_the_memories_changes_no_verdict(here):
    gold = [Item("g1", "Lives in Oslo", "direct", LABELS[0], None)]
    gold += [Item("g2", "Does judo 3 times a week", "direct", LABELS[1], None)]
    predicted = [Item("p1", "Has a home in Oslo", "direct", LABELS[0], None)]
    predicted += [Item("p2", "Does judo", "direct", LABELS[1], None)]
    judge = embedded_judge("fitted:cheap.json")

    def named(golds, answers):
        found = run_loop(judge.answer(MatchQuestion(golds, answers), about="one"))
        return {(golds[pair.gold].id, answers[pair.predicted].id) for pair in found.pairs}

    assert named(gold, predicted) == named(gold[::-1], predicted[::-1])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("labels=judged",), "out="),
        (("labels=judged", "out=records.jsonl"), "already exists"),
        (("labels=judged", "judge=lexical", "out=x.json"), "leave judge= and verdicts= out"),
        (("labels=nowhere", "out=x.json"), "nowhere"),
        (("labels=plain", "out=x.json"), "cannot train a judge"),
        (
            ("labels=few", "out=x.json"),
            "12 matches, in 12 sessions; at least 20 in 10 sessions are needed",
        ),
    ],
)
def test_what_can_not_be_fitted_is_refused_in_one_line(here, words, said):
    if "labels=plain" in words:
        assert alps_here(*RUN, "out=plain").code == 0
    if "labels=few" in words:
        judge = "judge=recorded:records.jsonl"
        assert alps_here(*RUN, "limit=12", judge, "out=few").code == 0
    assert said in alps_here("calibrate", "fit=yes", *words).one_line


@pytest.mark.parametrize("text", ["{}", "no JSON", '{"judge": "fitted", "version": 99}'])
def test_a_file_that_is_no_fitted_judge_is_refused_before_a_run(here, tmp_path, text):
    path = tmp_path / "odd.json"
    path.write_text(text, encoding="utf-8")
    done = alps_here("run", "task=extraction", "model=rules", f"judge=fitted:{path}", "out=odd")
    assert "not a fitted judge" in done.one_line
    assert not (here / "odd").exists()
