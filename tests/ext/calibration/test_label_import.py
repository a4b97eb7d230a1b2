"""Public sets of labels that `bench/label_sets.py` converts: small files of each form."""

import json

import pytest

from alps.errors import DataError, UsageError
from alps.ext.calibration.labels import read_crowd, read_labels, read_verdicts
from bench.label_sets import import_labels

HEADER = "dataset,dimension,scale_min,scale_max,conversation_id,rater,rater_kind,rating"


def answer(row, **fields):
    return {
        "row": row,
        "question_id": "7",
        "question": "who wrote it",
        "gold_answers": ["Ada"],
        "candidate": "ada 💡",
        "human": {"adjudicated": True, "annotator1": True, "annotator2": False, "annotator3": None},
        "judges": {"gpt-4": None, "BEM": False},
        "judge_raw": {"gpt-4": "I can't tell.", "BEM_p_equiv_max": 0.25},
    } | fields


def rating(rater, value, *, kind="llm", top=5, conversation="c1"):
    return f"Lend an Ear,self_oriented,1,{top},{conversation},{rater},{kind},{value}"


RATINGS = [
    rating("expert1", 2.0, kind="human_expert"),
    rating("experts", 3.0, kind="derived_expert_median"),
    rating("crowd", 2.6666666666666665, kind="human_crowd_mean"),
    rating("gpt", 5.0),
    rating("llm", 4.0),
    rating("gpt", 1.0, conversation="c2"),
]


def pair(number, **fields):
    return {
        "subset": "Natural",
        "i": number,
        "input": "Say hello.",
        "output_1": "Hello!",
        "output_2": "Why?",
        "label": 1,
        "verdicts": {"GPT-4/CoT": [1, 2], "PaLM2/CoT": [None, 1]},
    } | fields


def written(path, rows):
    """Write rows, or lines as they are."""
    lines = []
    for row in rows:
        text = row if isinstance(row, str | bytes) else json.dumps(row, ensure_ascii=False)
        lines.append(text if isinstance(text, bytes) else text.encode())
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def convert(folder, name, rows):
    out = folder / "out"
    return import_labels(name, written(folder / "source", rows), out), out


def test_answers_become_items_labels_and_verdicts(tmp_path):
    done, out = convert(tmp_path, "openqa_eval", [answer(0), answer(1, question_id="8")])
    found = read_labels(out)
    assert found.rubrics == ("answer_match",)
    item = found.items["row-0000"]
    assert (item.cluster, item.language, item.system) == ("7", "en", None)
    shown = answer(0)
    assert item.payload == {n: shown[n] for n in ("question", "gold_answers", "candidate")}
    assert found.labels_of("row-0001") == {"adjudicated": 1, "annotator1": 1, "annotator2": 0}
    assert found.annotators_of("answer_match") == ("annotator1", "annotator2")
    assert found.annotators_of("answer_match", derived=True) == ("adjudicated",)
    verdict = read_verdicts(out / "verdicts.jsonl", "BEM", labels=found).by_item["row-0000"]
    assert (verdict.value, verdict.raw, verdict.probability) == (0, None, 0.25)
    unparsed = read_verdicts(out / "verdicts.jsonl", "gpt-4", labels=found).by_item
    assert {name: one.value for name, one in unparsed.items()} == {
        "row-0000": None,
        "row-0001": None,
    }
    assert unparsed["row-0000"].raw == "I can't tell."
    assert (done.items, done.labels, done.verdicts, done.unparsed, done.means) == (2, 6, 4, 2, 0)
    assert done.annotators == ("adjudicated", "annotator1", "annotator2")
    assert done.judges == ("gpt-4", "BEM")


def test_ratings_become_a_rubric_a_dimension_on_the_declared_scale(tmp_path):
    done, out = convert(tmp_path, "empathy", [HEADER, *RATINGS])
    found = read_labels(out)
    assert found.rubrics == done.rubrics == ("lend_an_ear/self_oriented",)
    assert found.scales["lend_an_ear/self_oriented"].kind == "ordinal"
    assert found.scales["lend_an_ear/self_oriented"].values == (1, 2, 3, 4, 5)
    assert [item.cluster for item in found.items.values()] == ["c1", "c2"]
    first, second = found.items
    assert found.labels_of(first) == {"expert1": 2, "experts": 3}
    assert [found.annotators[name] for name in ("expert1", "experts")] == ["person", "derived"]
    assert read_crowd(out / "crowd.jsonl", found) == {"crowd": {first: 2.6666666666666665}}
    assert done.judges == ("gpt", "gemini")
    judged = read_verdicts(out / "verdicts.jsonl", "gpt", labels=found).by_item
    assert {name: row.value for name, row in judged.items()} == {first: 5, second: 1}
    assert (done.items, done.labels, done.verdicts, done.means) == (2, 2, 3, 1)


def test_pairs_become_a_rubric_a_subset_with_verdicts_in_either_order(tmp_path):
    done, out = convert(tmp_path, "llmbar", [pair(0), pair(0, subset="Manual", label=2)])
    found = read_labels(out)
    assert found.rubrics == ("llmbar/natural", "llmbar/manual")
    assert found.items["manual/0"].cluster == "manual/0"
    shown = {"input": "Say hello.", "output_1": "Hello!", "output_2": "Why?"}
    assert found.items["natural/0"].payload == shown
    assert [found.labels_of(name) for name in found.items] == [{"gold": 1}, {"gold": 2}]
    assert found.annotators["gold"] == "derived"
    said = {}
    for judge in done.judges:
        verdicts = read_verdicts(out / "verdicts.jsonl", judge, labels=found).by_item
        said[judge] = verdicts["natural/0"].value
    in_turn = {"GPT-4/CoT": 1, "PaLM2/CoT": None}
    assert said == {**in_turn, "GPT-4/CoT#swapped": 2, "PaLM2/CoT#swapped": 1}
    assert (done.items, done.labels, done.verdicts, done.unparsed) == (2, 2, 8, 2)


@pytest.mark.parametrize(
    ("name", "rows", "files"),
    [
        ("openqa_eval", [answer(0)], {"verdicts.jsonl"}),
        ("empathy", [HEADER, *RATINGS], {"verdicts.jsonl", "crowd.jsonl"}),
        ("empathy", [HEADER, RATINGS[0]], set()),
        ("llmbar", [pair(0)], {"verdicts.jsonl"}),
    ],
    ids=["openqa_eval", "empathy", "only people", "llmbar"],
)
def test_only_files_with_rows_are_written_on_every_system_alike(tmp_path, name, rows, files):
    _, out = convert(tmp_path, name, rows)
    found = {path.name: path.read_bytes() for path in out.iterdir()}
    assert set(found) == {"items.jsonl", "labels.jsonl", "scale.json", "people.json"} | files
    assert b"\r" not in b"".join(found.values())


OFF, ABOVE, TWO = "not on the scale", "is on item", "two verdicts"
SURE = answer(0, judge_raw={"BEM_p_equiv_max": 3})
ABOVE_FIVE, SEVEN = rating("crowd", 5.1, kind="human_crowd_mean"), rating("gpt", 1, top=7)
# By the name of the set: rows, the place that is named, and what is said of it.
BAD = {
    "openqa_eval": {
        "an item twice": ([answer(0)] * 2, "line 2, human.adjudicated: ", '"row-0000" above'),
        "a label in words": ([answer(0, human={"a": "yes"})], "line 1, human.a: ", f"{OFF} [0, 1]"),
        "a chance above one": ([SURE], "line 1, judge_raw.BEM_p_equiv_max: ", "from 0 to 1"),
        "another set": ([pair(0)], "line 1, row: ", "is missing"),
    },
    "empathy": {
        "off the scale": ([rating("gpt", 6.0)], "line 2, rating: ", "6.0 is not on the scale"),
        "in words": ([rating("gpt", "high")], "line 2, rating: ", "must be a number"),
        "none": ([rating("gpt", "nan")], "line 2, rating: ", "NaN is not on the scale"),
        "a mean outside the scale": ([ABOVE_FIVE], "line 2, rating: ", "from 1 to 5"),
        "a rater twice": ([*RATINGS, RATINGS[3]], "line 8, rating: ", f'"gpt" {ABOVE}'),
        "a mean twice": ([*RATINGS, RATINGS[2]], "line 8, rating: ", f'"crowd" {ABOVE}'),
        "another kind of rater": ([rating("gpt", 1, kind="dog")], "line 2, rater_kind: ", "dog"),
        "two scales": ([RATINGS[0], SEVEN], "line 3: ", "had the scale [1, 2, 3, 4, 5]"),
        "a scale too long": ([rating("gpt", 1, top=1000)], "line 2, scale_max: ", "ascending"),
        "a cell too many": ([RATINGS[0] + ",1"], "line 2: ", "more cells than the header"),
        "a quote left open": ([RATINGS[0], '"' + RATINGS[1]], "line 3: not CSV", ""),
        "bytes": ([RATINGS[0], b"\xff"], "line 3: not in UTF-8", ""),
    },
    "llmbar": {
        "one verdict of two": ([pair(0, verdicts={"j": [1]})], "line 1, verdicts.j: ", TWO),
        "no label": ([pair(0, label=None)], "line 1, label: ", OFF),
        "a table for rows": ([HEADER, *RATINGS], "line 1: not JSON", ""),
        "nothing": ([], "is empty", ""),
        "a byte": ([pair(0), b'{"subset": "\xff"}'], "line 2: not JSON", ""),
    },
}
CASES = []
for name, cases in BAD.items():
    CASES += [pytest.param(name, *case, id=f"{name}: {what}") for what, case in cases.items()]


@pytest.mark.parametrize(("name", "rows", "place", "says"), CASES)
def test_what_is_not_the_set_is_refused_by_line_and_not_written(tmp_path, name, rows, place, says):
    header = [HEADER] if name == "empathy" else []
    with pytest.raises(DataError) as caught:
        convert(tmp_path, name, [*header, *rows])
    assert not (tmp_path / "out").exists()
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / 'source'}")
    assert place in said
    assert says in said
    assert "\n" not in said


def test_an_unknown_format_and_a_missing_file_are_named(tmp_path):
    known = r"^format=llmbra: .* did you mean 'llmbar'\?.*openqa_eval, empathy, llmbar"
    with pytest.raises(UsageError, match=known):
        import_labels("llmbra", tmp_path / "source", tmp_path / "out")
    with pytest.raises(UsageError, match=r"file=.*missing.jsonl: no such file"):
        import_labels("llmbar", tmp_path / "missing.jsonl", tmp_path / "out")


def test_an_empty_folder_is_taken_and_one_that_holds_something_is_left_as_it_is(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    assert convert(tmp_path, "llmbar", [pair(0)])[0].items == 1
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(UsageError, match="is not empty"):
        convert(tmp_path, "llmbar", [pair(1)])
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    with pytest.raises(UsageError, match="is a file"):
        import_labels("llmbar", tmp_path / "source", tmp_path / "source")
