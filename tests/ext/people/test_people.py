"""`alps annotate agreement` on the annotations of two people: hand-made and real ones."""

import json
from pathlib import Path

import pytest

from alps.ext.people.agreement.gold import publishers_pairs, rouge_l
from tests.annotated import PEOPLE, SESSIONS, session, write_annotations, write_rows
from tests.conftest import ROOT
from tests.tracks import Ran, alps_here

REAL = ROOT.parent / "shared" / "alpsbench_full"


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


def test_labels_of_matched_pairs_have_kappa_and_alpha(row):
    extraction = figures(row, "task1")
    # One pair of ten differs; nine are direct and direct, one direct and indirect.
    assert extraction["agreement_type"] == 0.9
    assert extraction["kappa_type"] == 0
    # Two of ten lack a label on both sides: they agree on it.
    assert extraction["kappa_label"] == extraction["alpha_time_scope"] == 1


def test_confidence_is_compared_where_both_gave_one(row):
    extraction = figures(row, "task1")
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


def test_without_a_draft_the_table_says_how_to_name_one(folder):
    assert "to name it, set draft=" in " ".join(agreement(folder, "draft=off").out.split())


def test_the_result_can_be_kept(folder, tmp_path, row):
    path = tmp_path / "kept" / "agreement.json"
    ran = agreement(folder, f"out={path}")
    assert json.loads(path.read_text(encoding="utf-8")) == row
    assert f"wrote {path}" in ran.err


def faulty(tmp_path: Path, change) -> Ran:
    folder = write_annotations(tmp_path, draft=False)
    rows = json.loads(json.dumps([session(n, 1) for n in range(SESSIONS)]))
    change(rows)
    write_rows(folder / "annotator_2.jsonl", rows)
    return agreement(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            lambda rows: rows[2]["task1"]["memories"][1].update(confidence=1.5),
            "annotator_2.jsonl, line 3, task1.memories.1.confidence: input should be less than",
            id="a confidence above one",
        ),
        pytest.param(
            lambda rows: rows[4]["task2"]["memories"][0].pop("value"),
            "annotator_2.jsonl, line 5, task2.memories.0.value: field required",
            id="a memory without a value",
        ),
        pytest.param(
            lambda rows: rows[1].update(task1=[]),
            "annotator_2.jsonl, line 2, task1: input should be",
            id="a list in place of a part",
        ),
        pytest.param(
            lambda rows: rows[7]["task4"]["queries"][0].update(queryText=" "),
            "annotator_2.jsonl, line 8, task4.queries.0.queryText: must not be empty",
            id="an empty query",
        ),
        pytest.param(
            lambda rows: rows[3].update(session_id="s0"),
            'annotator_2.jsonl, line 4, session_id: "s0" appears twice',
            id="a session twice",
        ),
        pytest.param(
            lambda rows: [row.update(session_id=f"t{n}") for n, row in enumerate(rows)],
            "annotator_1 and annotator_2 share no sessions",
            id="other sessions",
        ),
    ],
)
def test_what_can_not_be_read_is_refused_by_line_and_field(tmp_path, change, said):
    ran = faulty(tmp_path, change)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1


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
        ran = agreement(*words)
        assert (ran.code, ran.out) == (2, ""), words
        assert said in ran.err


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
    counts = {part: real["parts"][part]["counts"]["memories"] for part in ("task1", "task2")}
    assert [counts[part]["pairs"] for part in counts] == [672, 1_040]


@pytest.mark.real
def test_most_of_the_real_annotations_is_the_draft(real):
    draft = real["parts"]["task1"]["drafts"]["memories"]
    shares = [share["value"] for share in draft["verbatim"]]
    assert shares == pytest.approx([0.82, 0.79], abs=0.005)
    without = draft["without"]
    assert without["set_f1_micro"]["value"] == pytest.approx(0.088, abs=0.005)
    assert without["set_f1"]["value"] == pytest.approx(0.257, abs=0.005)
