"""`alps annotate agreement` on the annotations of two people, hand-made and real ones, by a rule or
an LLM judge served on loopback; and on label folders, hand-made and public ones.
"""

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from alps.ext.people.gold import publishers_pairs, rouge_l
from tests.annotated import PEOPLE, SESSIONS, session, write_annotations
from tests.conftest import ROOT
from tests.endtoend import write_rows
from tests.label_folders import BINARY, FIVE, write
from tests.loopback import Answer, serve
from tests.tracks import JUDGE, Ran, alps_here, payload_of

REAL = ROOT.parent / "shared" / "alpsbench_full"
PUBLIC = ROOT.parent / "shared" / "human_labels"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_annotations(tmp_path_factory.mktemp("release"))


def agreement(*words: object) -> Ran:
    return alps_here("annotate", "agreement", *map(str, words))


def measured(*words: object) -> dict:
    ran = agreement(*words, "format=json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


@pytest.fixture(scope="module")
def row(folder):
    return measured(folder)


def figures(row: dict, part: str) -> dict[str, float]:
    return {name: figure["value"] for name, figure in row["parts"][part]["figures"].items()}


@pytest.mark.parametrize(
    ("one", "other", "score"),
    [
        pytest.param("police killed the gunman", "police kill the gunman", 0.75, id="Lin, S2"),
        pytest.param("police killed the gunman", "the gunman kill police", 0.5, id="Lin, S3"),
        pytest.param("", "police", 0.0, id="no words"),
    ],
)
def test_rouge_l_of_the_paper_that_defines_it(one, other, score):
    assert rouge_l(one.split(), other.split()) == score


def test_the_publishers_rule_takes_the_same_text_first_and_then_the_most_alike():
    first = ["Likes red tea", "Likes tea", "Likes  green TEA", "Has a dog"]
    second = ["likes green tea", "likes red tea a lot", "Owns a dog", "Rides a horse"]
    # «Likes tea» is as near to the second, but «Likes red tea» is nearer.
    assert publishers_pairs(first, second) == [(0, 1), (2, 0), (3, 2)]


def test_sets_agree_by_their_pairs_over_their_items(row):
    extraction = figures(row, "task1")
    # Three items against two: two pairs in two sessions, one in the six others.
    assert extraction["set_f1"] == pytest.approx((2 * 4 / 5 + 6 * 2 / 5) / 8)
    assert extraction["set_f1_micro"] == pytest.approx(2 * 10 / 40)
    assert extraction["identical"] == extraction["set_f1"]
    assert row["parts"]["task1"]["counts"]["memories"] == {
        "sessions": SESSIONS,
        "items": [24, 16],
        "pairs": 10,
    }


def test_labels_and_confidence_of_matched_pairs_are_compared(row):
    extraction = figures(row, "task1")
    # One pair of ten differs; nine are direct and direct, one direct and indirect.
    assert extraction["agreement_type"] == 0.9
    assert extraction["kappa_type"] == 0
    # Two of ten lack a label on both sides: they agree on it.
    assert extraction["kappa_label"] == extraction["alpha_time_scope"] == 1
    assert extraction["mae_confidence"] == 0
    assert extraction["spearman_confidence"] == pytest.approx(1)


def test_choice_and_queries_are_compared_session_by_session(row):
    retrieval = figures(row, "task3")
    assert retrieval["same_memory"] == 7 / 8
    assert retrieval["query_f1"] == 7 / 8
    utilization = figures(row, "task4")
    assert utilization["same_memory"] == 1
    assert utilization["kappa_overallVerdict"] is None  # all of them are reasonable
    assert "kappa_abilityPurity" not in utilization  # nobody said anything of it


def test_the_share_of_the_draft_and_the_agreement_without_it(row):
    draft = row["parts"]["task1"]["drafts"]["memories"]
    assert [share["value"] for share in draft["verbatim"]] == [8 / 24, 8 / 16]
    # Of 16 and 8 items that are not the draft's two pairs match; both left some in every session.
    assert draft["without"]["set_f1_micro"]["value"] == pytest.approx(4 / 24)
    assert draft["without"]["set_f1"]["value"] == pytest.approx(2 * (2 / 3) / 8)
    assert row["draft"] == "benchmark_data"
    chosen = row["parts"]["task3"]["drafts"]["memory"]
    assert [share["value"] for share in chosen["verbatim"]] == [1, 7 / 8]


def test_a_draft_may_be_named_or_left_out(folder, tmp_path):
    first = [session(n, 0) for n in range(SESSIONS)]
    write_rows(tmp_path / "draft.jsonl", first)
    named = measured(folder, f"draft={tmp_path / 'draft.jsonl'}")
    shares = named["parts"]["task1"]["drafts"]["memories"]["verbatim"]
    assert [share["value"] for share in shares] == [1, 10 / 16]
    splits = measured(folder, f"draft={folder.parent / 'benchmark_data'}")
    assert splits["parts"]["task1"]["drafts"] == measured(folder)["parts"]["task1"]["drafts"]
    others = [row | {"session_id": f"t{n}"} for n, row in enumerate(first)]
    write_rows(tmp_path / "other.jsonl", others)
    said = agreement(folder, f"draft={tmp_path / 'other.jsonl'}").out
    assert "other.jsonl; it has none of these sessions" in said
    without = measured(folder, "draft=off")
    assert without["draft"] is None
    assert without["parts"]["task1"]["drafts"] == {}
    assert "to name it, set draft=" in " ".join(agreement(folder, "draft=off").out.split())


def test_intervals_are_over_sessions_and_few_have_none(row, tmp_path):
    figure = row["parts"]["task1"]["figures"]["set_f1"]
    assert figure["low"] < figure["value"] < figure["high"]
    assert (figure["n"], figure["unit"]) == (SESSIONS, "sessions")
    for who, name in enumerate(PEOPLE):
        write_rows(tmp_path / f"{name}.jsonl", [session(n, who) for n in range(3)])
    few = measured(tmp_path)["parts"]["task1"]["figures"]["kappa_label"]
    assert (few["low"], few["reason"]) == (None, "3 sessions are too few to resample")


def test_the_lexical_judge_may_match(folder):
    row = measured(folder, "rule=lexical")
    assert row["rule"]["rule"] == "lexical"
    assert figures(row, "task1")["set_f1_micro"] == pytest.approx(2 * 10 / 40)


def test_two_files_may_be_named_and_sessions_of_one_person_are_left_out(folder, tmp_path):
    other = tmp_path / "second.jsonl"
    write_rows(other, [session(n, 1) for n in range(2, SESSIONS + 2)])
    row = measured(folder / "annotator_1.jsonl", other)
    assert (row["sessions"], row["alone"]) == (6, 4)
    assert row["annotators"] == ["annotator_1", "second"]
    said = agreement(folder / "annotator_1.jsonl", other).out
    assert "left out, annotated by only one of them: 4" in " ".join(said.split())


def test_the_result_can_be_kept(folder, tmp_path, row):
    path = tmp_path / "kept" / "agreement.json"
    ran = agreement(folder, f"out={path}")
    assert json.loads(path.read_text(encoding="utf-8")) == row
    assert f"wrote {path}" in ran.err


FAULTS = {
    "a confidence above one": (
        lambda rows: rows[2]["task1"]["memories"][1].update(confidence=1.5),
        "annotator_2.jsonl, line 3, task1.memories.1.confidence: input should be less than",
    ),
    "a memory without a value": (
        lambda rows: rows[4]["task2"]["memories"][0].pop("value"),
        "annotator_2.jsonl, line 5, task2.memories.0.value: missing; it has",
    ),
    "a list in place of a part": (
        lambda rows: rows[1].update(task1=[]),
        "annotator_2.jsonl, line 2, task1: expected an object, got []",
    ),
    "an empty query": (
        lambda rows: rows[7]["task4"]["queries"][0].update(queryText=" "),
        "annotator_2.jsonl, line 8, task4.queries.0.queryText: must not be empty",
    ),
    "a session twice": (
        lambda rows: rows[3].update(session_id="s0"),
        'annotator_2.jsonl, line 4, session_id: "s0" appears twice',
    ),
    "other sessions": (
        lambda rows: [row.update(session_id=f"t{n}") for n, row in enumerate(rows)],
        "annotator_1 and annotator_2 share no sessions",
    ),
}


@pytest.mark.parametrize(("change", "said"), FAULTS.values(), ids=FAULTS)
def test_what_can_not_be_read_is_refused_by_line_and_field(tmp_path, change, said):
    folder = write_annotations(tmp_path, draft=False)
    rows = json.loads(json.dumps([session(n, 1) for n in range(SESSIONS)]))
    change(rows)
    write_rows(folder / "annotator_2.jsonl", rows)
    assert said in agreement(folder).one_line


def test_other_words_are_refused(folder, tmp_path):
    for words, said in (
        ((folder, "rule=publisher"), "did you mean 'publishers'?"),
        ((folder, "judge=lexical"), "write rule=lexical"),
        ((folder, "draft=nowhere"), "draft=nowhere: no such file or folder"),
        ((folder, f"draft={tmp_path}"), "no reference_output.jsonl with sessions in this folder"),
        ((folder / "annotator_1.jsonl",), "name two files (found: annotator_1.jsonl)"),
        ((tmp_path,), "neither a label folder nor a folder with annotator_….jsonl"),
        ((tmp_path / "gone",), "gone: no such file or folder"),
        (("rule=lexical",), "name a folder with annotations"),
    ):
        assert said in agreement(*words).one_line, words


@pytest.fixture(scope="module")
def real():
    if not (REAL / "annotations").is_dir():
        pytest.skip("the real annotations are not here: they lie beside the checkout")
    return measured(REAL / "annotations")


@pytest.mark.release
@pytest.mark.real
def test_the_published_agreement_comes_out_of_the_real_annotations(real):
    expected = {
        "task1": {"set_f1": 0.758, "kappa_type": 0.913, "kappa_label": 0.870},
        "task2": {"set_f1": 0.829, "kappa_type": 0.887, "kappa_label": 0.849},
        "task3": {"same_memory": 0.824},
    }
    expected["task1"]["kappa_time_scope"] = 0.707
    expected["task2"]["kappa_time_scope"] = 0.725
    for part, values in expected.items():
        found = figures(real, part)
        for name, value in values.items():
            assert found[name] == pytest.approx(value, abs=0.005), (part, name)
    pairs = [real["parts"][part]["counts"]["memories"]["pairs"] for part in ("task1", "task2")]
    assert pairs == [672, 1_040]


@pytest.mark.real
def test_most_of_the_real_annotations_is_the_draft(real):
    draft = real["parts"]["task1"]["drafts"]["memories"]
    shares = [share["value"] for share in draft["verbatim"]]
    assert shares == pytest.approx([0.82, 0.79], abs=0.005)
    without = draft["without"]
    assert without["set_f1_micro"]["value"] == pytest.approx(0.088, abs=0.005)
    assert without["set_f1"]["value"] == pytest.approx(0.257, abs=0.005)


def judged_by(script, folder, *words):
    """Return what the command said, and how often the judge was asked."""
    with pytest.MonkeyPatch.context() as patch, serve(script) as server:
        patch.setenv("OPENAI_API_KEY", "none")
        patch.setenv("ALPS_CACHE", "off")
        rule = (f"rule={JUDGE}", f"judge_api_base={server.url}", "patience=0")
        return agreement(folder, *rule, *words), len(server.requests)


def donkeys_are_stamps(body: dict[str, Any]) -> Answer:
    asked = payload_of(body)
    pairs = []
    for gold in asked["gold"]:
        if "donkeys" in gold["value"]:
            about = {"gold": gold["id"], "predicted": asked["predicted"][0]["id"]}
            pairs.append({"reason": "both are kept", **about, "relation": "same"})
    return Answer(json.dumps({"pairs": pairs}))


def test_a_judge_is_asked_where_texts_differ_and_its_matches_count(folder):
    ran, asked = judged_by(donkeys_are_stamps, folder, "format=json")
    assert ran.code == 0, ran.err
    row = json.loads(ran.out)
    assert asked == 6  # in two of eight sessions only one person has anything left
    assert row["rule"]["rule"] == JUDGE
    assert len(row["rule"]["judge"]) == 12
    figures = row["parts"]["task1"]["figures"]
    assert figures["set_f1_micro"]["value"] == pytest.approx(2 * 16 / 40)
    assert figures["identical"]["value"] < figures["set_f1"]["value"]


def test_lists_that_the_judge_said_nothing_of_are_in_no_figure(folder):
    ran, _ = judged_by(lambda body: Answer("no verdict at all"), folder)
    assert ran.code == 1  # six of the lists: more than max_failures
    assert "No metric includes the lists for which matching failed: unparsable 6." in ran.out
    assert re.search(r"set F1 \(mean over sessions\) .* 2  sessions", ran.out)


def test_a_spent_budget_ends_with_its_own_exit_code(folder):
    ran, asked = judged_by(donkeys_are_stamps, folder, "max_total_tokens=0")
    assert (ran.code, asked) == (3, 0)
    assert "budget" in ran.err


def test_a_judge_without_a_key_is_refused(folder, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "OPENAI_API_KEY" in agreement(folder, f"rule={JUDGE}").one_line


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """Labels of two people, and of a third on the last item alone."""
    table = [(0, 0)] * 15 + [(0, 1)] * 10 + [(1, 0)] * 5 + [(1, 1)] * 20
    rows = [("pa", {"anna": first, "ben": second}, 1) for first, second in table]
    rows[-1][1]["cleo"] = 1
    rows += [("tone", {"anna": mark, "ben": min(5, mark + 1)}, 3) for mark in (1, 2, 3, 4, 5) * 3]
    rows.append(("alone", {"anna": 1}, 1))
    scales = {"pa": BINARY, "tone": FIVE, "alone": BINARY}
    return write(tmp_path_factory.mktemp("labels") / "labels", scales, rows)


def test_each_rubric_that_two_people_labelled_has_kappa_and_alpha(labels):
    rubrics = measured(labels)["rubrics"]
    assert list(rubrics) == ["pa", "tone"]
    pa, tone = rubrics.values()
    assert (pa["items"], pa["twice"], pa["people"]) == (50, 50, ["anna", "ben", "cleo"])
    # The textbook table of Cohen's kappa: .4 [.151, .649].
    kappa = pa["figures"]["kappa"]
    assert kappa["value"] == pytest.approx(0.4)
    assert (kappa["low"], kappa["high"]) == pytest.approx((0.151, 0.649), abs=0.04)
    assert kappa["n"] == 50
    assert 0 < pa["figures"]["alpha"]["value"] < 1
    # The pairs that share most items are first.
    pairs = [pair["people"] for pair in pa["pairs"]]
    assert pairs == [["anna", "ben"], ["anna", "cleo"], ["ben", "cleo"]]
    (pair,) = tone["pairs"]
    assert pair["people"] == ["anna", "ben"]
    assert pair["figures"]["mae"]["value"] == pytest.approx(0.8)
    assert pair["figures"]["kappa"]["value"] > 0.7 > pair["figures"]["agreement"]["value"]
    out = agreement(labels).out
    assert "3 people, 50 items, 50 labelled twice or more" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("word", ["rule=lexical", "draft=off"])
def test_what_has_no_effect_on_labels_is_refused(labels, word):
    assert f"{word} would change nothing" in agreement(labels, word).one_line


def test_labels_of_one_person_are_refused(tmp_path):
    folder = write(tmp_path / "labels", {"pa": BINARY}, [("pa", {"anna": 1}, 1)])
    assert "agreement needs items that two people labelled" in agreement(folder).one_line


@pytest.mark.real
def test_the_published_agreement_on_answers_comes_out_of_the_public_labels(tmp_path):
    joined = PUBLIC / "openqa_eval" / "joined.jsonl"
    if not joined.is_file():
        pytest.skip("the public labels are not here: they lie beside the checkout")
    words = ("format=openqa_eval", f"file={joined}", f"out={tmp_path / 'labels'}")
    converter = str(ROOT / "bench" / "label_sets.py")
    subprocess.run([sys.executable, converter, *words], check=True, capture_output=True)
    figures = measured(tmp_path / "labels")["rubrics"]["answer_match"]["figures"]
    assert figures["kappa"]["value"] == pytest.approx(0.735, abs=5e-4)
    assert figures["kappa"]["n"] == 1_483
    assert figures["alpha"]["value"] == pytest.approx(0.731, abs=5e-4)
