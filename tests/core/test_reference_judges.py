import pytest

from alps.ext.calibration.agreement import LabelScale
from alps.ext.calibration.controls import by_rank, references, texts_of
from alps.ext.calibration.labels import read_labels, read_verdicts
from alps.ext.calibration.matrix import label_matrix
from alps.ext.calibration.report import plain
from tests.label_folders import BINARY, FIVE, binary, write

PAIR = {"kind": "nominal", "values": [1, 2]}
RELATIONS = {"kind": "nominal", "values": ["same", "partial", "unrelated"]}


def found(folder, rubric, scale, rows):
    """Return the reference judges of a folder of one rubric."""
    labels = read_labels(write(folder, {rubric: scale}, rows))
    verdicts = read_verdicts(folder / "verdicts.jsonl", labels=labels)
    return plain(references(label_matrix(labels, rubric, verdicts), seed=0))


def values(row):
    return {name: figure["value"] for name, figure in row.items() if isinstance(figure, dict)}


def answers(*rows):
    return [
        binary(truth, 1, payload={"response": response, "memory": memory})
        for truth, response, memory in rows
    ]


def test_always_met_accepts_everything(tmp_path):
    row = found(tmp_path, "pa", BINARY, [binary(1, 1)] * 3 + [binary(0, 1)])["always-met"]
    assert values(row) == {"sensitivity": 1, "specificity": 0, "kappa": 0, "agreement": 0.75}


def test_the_longest_responses_are_positive_as_often_as_people_say_so(tmp_path):
    rows = answers(
        (1, "tea" * 9, "tea"), (0, "tea" * 8, "tea"), (1, "tea" * 7, "tea"), (0, "tea", "tea")
    )
    row = found(tmp_path, "pa", BINARY, rows)["longest"]
    assert values(row) == {"sensitivity": 0.5, "specificity": 0.5, "kappa": 0, "agreement": 0.5}


def test_on_an_ordinal_scale_people_s_own_marks_are_handed_out_by_length(tmp_path):
    rows = [
        ("ei", {"anna": mark}, 1, {"payload": {"response": "w" * mark}}) for mark in (5, 1, 3, 3, 2)
    ]
    row = found(tmp_path, "ei", FIVE, rows)["longest"]
    assert values(row) == {"kappa": 1, "agreement": 1, "mae": 0}


def test_of_two_outputs_the_longer_one_is_taken_and_of_equal_ones_none(tmp_path):
    texts = (("long one", "short", 1), ("short", "long one", 1), ("equal", "equal", 2))
    rows = []
    for one, other, truth in texts:
        payload = {"output_1": one, "output_2": other}
        rows.append(("q", {"anna": truth}, 1, {"payload": payload}))
    row = found(tmp_path, "q", PAIR, rows)["longest"]
    assert (row["n"], row["agreement"]["value"]) == (2, 0.5)


def test_lexical_accepts_what_is_worded_like_its_reference(tmp_path):
    memory = "The user likes green tea from Japan"
    said = ((1, "green tea from Japan"), (0, "black coffee from Peru"), (1, "a hot drink"))
    rows = answers(*((truth, response, memory) for truth, response in said))
    row = found(tmp_path, "pa", BINARY, rows)["lexical"]
    expected = {"sensitivity": 0.5, "specificity": 1, "kappa": 0.4, "agreement": 2 / 3}
    assert values(row) == pytest.approx(expected)


def test_lexical_takes_the_closest_of_several_answers(tmp_path):
    gold = ["the Washington area", "Landover in Maryland"]
    payload = {"candidate": "Landover, Maryland", "gold_answers": gold}
    row = found(tmp_path, "pa", BINARY, [binary(1, 1, payload=payload)])["lexical"]
    assert row["sensitivity"]["value"] == 1


def test_lexical_names_relations_of_memories(tmp_path):
    rows = []
    for predicted, truth in (("likes green tea", "same"), ("owns a red boat", "unrelated")):
        payload = {"gold": {"value": "likes green tea"}, "predicted": {"value": predicted}}
        rows.append(("m", {"anna": truth}, "same", {"payload": payload}))
    row = found(tmp_path, "m", RELATIONS, rows)
    assert values(row["lexical"]) == {"kappa": 1, "agreement": 1}
    assert values(row["always-met"])["agreement"] == 0.5
    assert row["longest"]["reason"] == "the values of the scale have no order"


def test_each_person_is_held_against_what_the_others_say(tmp_path):
    given = ((1, 1, 1), (1, 1, 0), (0, 0, 0), (0, 1, 0))
    rows = [("pa", dict(zip(("anna", "ben", "carla"), labels, strict=True)), 1) for labels in given]
    row = found(tmp_path, "pa", BINARY, rows)["people"]
    # Of an item where one of three stands alone, this one is wrong, and each of the others half
    # right.
    assert (row["n"], row["agreement"]["value"]) == (12, pytest.approx((3 + 1 + 3 + 1) / 12))


def test_a_third_opinion_that_only_settles_disputes_does_not_flatter_people(tmp_path):
    rows = [("pa", {"anna": n % 2, "ben": n % 2}, 1) for n in range(8)]
    rows += [("pa", {"anna": 1, "ben": 0, "carla": third}, 1) for third in (1, 0)]
    row = found(tmp_path, "pa", BINARY, rows)["people"]
    assert row["agreement"]["value"] == pytest.approx((16 + 2 * 1) / 22)


def test_what_a_payload_lacks_is_a_reason_and_no_number(tmp_path):
    rows = found(tmp_path / "a", "pa", BINARY, [("pa", {"anna": 1}, 1), ("pa", {"anna": 0}, 1)])
    reasons = {
        "longest": "no item has a response in its payload",
        "lexical": "no item has a response and a reference in its payload",
        "people": "no item was labelled by two people or more",
    }
    for name, reason in reasons.items():
        assert rows[name] == {"n": 0, "reason": reason}
    pairs = found(tmp_path / "b", "q", PAIR, [("q", {"anna": 1}, 1)])
    assert pairs["longest"]["reason"] == "no item has output_1 and output_2 in its payload"


def test_items_without_a_response_are_left_out_of_what_needs_one():
    scale = LabelScale("nominal", (0, 1))
    assert by_rank([3.0, None, 1.0], [0, 1, 1], scale) == [1, None, 0]


@pytest.mark.parametrize(
    ("payload", "texts"),
    [
        ({"response": "a", "memory": {"value": "m", "label": "x"}}, ("a", ("m",), None)),
        ({"candidate": "a", "gold_answers": ["b", "c", None]}, ("a", ("b", "c"), None)),
        ({"gold": {"value": "g"}, "predicted": {"value": "p"}}, ("p", ("g",), None)),
        ({"output_1": "a", "output_2": "b"}, (None, (), ("a", "b"))),
        ({"response": None, "memory": 3, "output_1": "a"}, (None, (), None)),
    ],
)
def test_the_texts_of_a_payload(payload, texts):
    read = texts_of(payload)
    assert (read.response, read.references, read.outputs) == texts
