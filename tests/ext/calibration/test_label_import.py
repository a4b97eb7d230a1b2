import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from alps.errors import DataError, UsageError
from alps.ext.calibration.labels import read_crowd, read_labels, read_verdicts
from bench.label_sets import Imported, import_labels
from tests.conftest import real_sample_folder

Row = dict[str, Any]
FILES = {
    "openqa_eval": "openqa_eval/joined.jsonl",
    "empathy": "empathy_experts_llm/long.csv",
    "llmbar": "llmbar/llmbar_with_verdicts.jsonl",
}
HEADER = "dataset,dimension,scale_min,scale_max,conversation_id,rater,rater_kind,rating"


def answer(row: int, **fields: Any) -> Row:
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


def rating(
    rater: str, value: object, *, kind: str = "llm", top: object = 5, conversation: str = "c1"
) -> str:
    return f"Lend an Ear,self_oriented,1,{top},{conversation},{rater},{kind},{value}"


RATINGS = [
    rating("expert1", 2.0, kind="human_expert"),
    rating("experts", 3.0, kind="derived_expert_median"),
    rating("crowd", 2.6666666666666665, kind="human_crowd_mean"),
    rating("gpt", 5.0),
    rating("llm", 4.0),
    rating("gpt", 1.0, conversation="c2"),
]


def pair(number: int, **fields: Any) -> Row:
    return {
        "subset": "Natural",
        "i": number,
        "input": "Say hello.",
        "output_1": "Hello!",
        "output_2": "Why?",
        "label": 1,
        "verdicts": {"GPT-4/CoT": [1, 2], "PaLM2/CoT": [None, 1]},
    } | fields


def written(path: Path, rows: list[Any]) -> Path:
    texts = (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def convert(folder: Path, name: str, rows: list[Any]) -> tuple[Imported, Path]:
    out = folder / "out"
    return import_labels(name, written(folder / "source", rows), out), out


def refusal(folder: Path, name: str, rows: list[Any]) -> str:
    with pytest.raises(DataError) as caught:
        convert(folder, name, rows)
    assert not (folder / "out").exists()
    return str(caught.value)


def test_answers_become_items_labels_and_verdicts(tmp_path: Path):
    done, out = convert(tmp_path, "openqa_eval", [answer(0), answer(1, question_id="8")])
    found = read_labels(out)
    assert found.rubrics == ("answer_match",)
    item = found.items["row-0000"]
    assert (item.cluster, item.language, item.system) == ("7", "en", None)
    assert item.payload == {
        "question": "who wrote it",
        "gold_answers": ["Ada"],
        "candidate": "ada 💡",
    }
    assert found.labels_of("row-0001") == {"adjudicated": 1, "annotator1": 1, "annotator2": 0}
    assert found.annotators_of("answer_match") == ("annotator1", "annotator2")
    assert found.annotators_of("answer_match", derived=True) == ("adjudicated",)
    verdict = read_verdicts(out / "verdicts.jsonl", "BEM", labels=found).by_item["row-0000"]
    assert (verdict.value, verdict.raw, verdict.probability) == (0, None, 0.25)
    unparsed = read_verdicts(out / "verdicts.jsonl", "gpt-4", labels=found)
    assert unparsed.unparsed == ("row-0000", "row-0001")
    assert unparsed.by_item["row-0000"].raw == "I can't tell."
    assert (done.items, done.labels, done.verdicts, done.unparsed, done.means) == (2, 6, 4, 2, 0)
    assert (done.annotators, done.judges) == (
        ("adjudicated", "annotator1", "annotator2"),
        ("gpt-4", "BEM"),
    )


def test_ratings_become_a_rubric_a_dimension_on_the_declared_scale(tmp_path: Path):
    done, out = convert(tmp_path, "empathy", [HEADER, *RATINGS])
    found = read_labels(out)
    assert found.rubrics == done.rubrics == ("lend_an_ear/self_oriented",)
    assert found.scales["lend_an_ear/self_oriented"].kind == "ordinal"
    assert found.scales["lend_an_ear/self_oriented"].values == (1, 2, 3, 4, 5)
    assert [item.cluster for item in found.items.values()] == ["c1", "c2"]
    first, second = found.items
    assert found.labels_of(first) == {"expert1": 2, "experts": 3}
    assert [found.annotators[name].derived for name in ("expert1", "experts")] == [False, True]
    assert read_crowd(out / "crowd.jsonl", found) == {"crowd": {first: 2.6666666666666665}}
    assert done.judges == ("gpt", "gemini")
    judged = read_verdicts(out / "verdicts.jsonl", "gpt", labels=found).by_item
    assert {name: row.value for name, row in judged.items()} == {first: 5, second: 1}
    assert (done.items, done.labels, done.verdicts, done.means) == (2, 2, 3, 1)


def test_pairs_become_a_rubric_a_subset_with_verdicts_in_either_order(tmp_path: Path):
    done, out = convert(tmp_path, "llmbar", [pair(0), pair(0, subset="Manual", label=2)])
    found = read_labels(out)
    assert found.rubrics == ("llmbar/natural", "llmbar/manual")
    assert found.items["manual/0"].cluster == "manual/0"
    assert found.items["natural/0"].payload == {
        "input": "Say hello.",
        "output_1": "Hello!",
        "output_2": "Why?",
    }
    assert [found.labels_of(name) for name in found.items] == [{"gold": 1}, {"gold": 2}]
    assert found.annotators["gold"].derived
    said = {
        judge: read_verdicts(out / "verdicts.jsonl", judge, labels=found) for judge in done.judges
    }
    assert {judge: verdicts.by_item["natural/0"].value for judge, verdicts in said.items()} == {
        "GPT-4/CoT": 1,
        "GPT-4/CoT#swapped": 2,
        "PaLM2/CoT": None,
        "PaLM2/CoT#swapped": 1,
    }
    assert (done.items, done.labels, done.verdicts, done.unparsed) == (2, 2, 8, 2)


@pytest.mark.parametrize(
    ("name", "rows", "files"),
    [
        pytest.param("openqa_eval", [answer(0)], {"verdicts.jsonl"}, id="openqa_eval"),
        pytest.param(
            "empathy", [HEADER, *RATINGS], {"verdicts.jsonl", "crowd.jsonl"}, id="empathy"
        ),
        pytest.param("empathy", [HEADER, RATINGS[0]], set(), id="only people"),
        pytest.param("llmbar", [pair(0)], {"verdicts.jsonl"}, id="llmbar"),
    ],
)
def test_the_same_file_gives_the_same_bytes(
    tmp_path: Path, name: str, rows: list[Any], files: set[str]
):
    source = written(tmp_path / "source", rows)
    folders = [tmp_path / "1", tmp_path / "two" / "2"]
    for folder in folders:
        import_labels(name, source, folder)
    first, second = (
        {path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders
    )
    assert first == second
    assert set(first) == {"items.jsonl", "labels.jsonl", "scale.json", "people.json"} | files
    assert b"\r" not in b"".join(first.values())


BAD = {
    "an item twice": (
        "openqa_eval",
        [answer(0), answer(0)],
        "line 2, human.adjudicated: ",
        '"row-0000" above',
    ),
    "a label in words": (
        "openqa_eval",
        [answer(0, human={"a": "yes"})],
        "line 1, human.a: ",
        "not on the scale [0, 1]",
    ),
    "a chance above one": (
        "openqa_eval",
        [answer(0, judge_raw={"BEM_p_equiv_max": 3})],
        "line 1, judge_raw.BEM_p_equiv_max: ",
        "from 0 to 1",
    ),
    "another set": ("openqa_eval", [pair(0)], "line 1, row: ", "is missing"),
    "a table for rows": ("llmbar", [HEADER, *RATINGS], "line 1: not JSON", ""),
    "a rating off the scale": (
        "empathy",
        [HEADER, rating("gpt", 6.0)],
        "line 2, rating: ",
        "6.0 is not on the scale",
    ),
    "a rating in words": (
        "empathy",
        [HEADER, rating("gpt", "high")],
        "line 2, rating: ",
        "must be a number",
    ),
    "a rating that is none": (
        "empathy",
        [HEADER, rating("gpt", "nan")],
        "line 2, rating: ",
        "NaN is not on the scale",
    ),
    "a mean outside the scale": (
        "empathy",
        [HEADER, rating("crowd", 5.1, kind="human_crowd_mean")],
        "line 2, rating: ",
        "from 1 to 5",
    ),
    "a rater twice": (
        "empathy",
        [HEADER, *RATINGS, RATINGS[3]],
        "line 8, rating: ",
        '"gpt" is on item',
    ),
    "a mean twice": (
        "empathy",
        [HEADER, *RATINGS, RATINGS[2]],
        "line 8, rating: ",
        '"crowd" is on item',
    ),
    "another kind of rater": (
        "empathy",
        [HEADER, rating("gpt", 1, kind="dog")],
        "line 2, rater_kind: ",
        "dog",
    ),
    "two scales": (
        "empathy",
        [HEADER, RATINGS[0], rating("gpt", 1, top=7)],
        "line 3: ",
        "had the scale [1, 2, 3, 4, 5]",
    ),
    "a scale too long": (
        "empathy",
        [HEADER, rating("gpt", 1, top=1000)],
        "line 2, scale_max: ",
        "ascending",
    ),
    "a cell too many": (
        "empathy",
        [HEADER, RATINGS[0] + ",1"],
        "line 2: ",
        "more cells than the header",
    ),
    "a quote left open": ("empathy", [HEADER, RATINGS[0], '"' + RATINGS[1]], "line 3: not CSV", ""),
    "one verdict of two": (
        "llmbar",
        [pair(0, verdicts={"j": [1]})],
        "line 1, verdicts.j: ",
        "two verdicts",
    ),
    "no label": ("llmbar", [pair(0, label=None)], "line 1, label: ", "not on the scale"),
    "nothing": ("llmbar", [], "is empty", ""),
}


@pytest.mark.parametrize(("name", "rows", "place", "says"), BAD.values(), ids=BAD)
def test_what_is_not_the_set_is_refused_with_its_line_and_nothing_is_written(
    tmp_path: Path, name: str, rows: list[Any], place: str, says: str
):
    said = refusal(tmp_path, name, rows)
    assert said.startswith(f"{tmp_path / 'source'}")
    assert place in said
    assert says in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("name", "raw", "says"),
    [
        pytest.param(
            "empathy",
            f"{HEADER}\n{RATINGS[0]}\n".encode() + b"\xff\n",
            "line 3: not in UTF-8",
            id="table",
        ),
        pytest.param(
            "llmbar",
            json.dumps(pair(0)).encode() + b'\n{"subset": "\xff"}\n',
            "line 2: not JSON",
            id="rows",
        ),
    ],
)
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, name: str, raw: bytes, says: str):
    (tmp_path / "source").write_bytes(raw)
    with pytest.raises(DataError, match=says):
        import_labels(name, tmp_path / "source", tmp_path / "out")


def test_an_unknown_format_names_the_closest_and_all(tmp_path: Path):
    with pytest.raises(
        UsageError,
        match=r"^format=llmbra: .* did you mean 'llmbar'\?.*openqa_eval, empathy, llmbar",
    ):
        import_labels("llmbra", tmp_path / "x", tmp_path / "out")


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(UsageError, match=r"file=.*missing.jsonl: no such file"):
        import_labels("llmbar", tmp_path / "missing.jsonl", tmp_path / "out")


def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "items.jsonl").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        convert(tmp_path, "llmbar", [pair(0)])
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_an_empty_folder_is_taken_and_a_file_is_not(tmp_path: Path):
    (tmp_path / "out").mkdir()
    assert convert(tmp_path, "llmbar", [pair(0)])[0].items == 1
    with pytest.raises(UsageError, match="is a file"):
        import_labels("llmbar", tmp_path / "source", tmp_path / "source")


def real(name: str, folder: Path) -> tuple[Imported, Path]:
    beside = real_sample_folder()
    path = (
        beside.resolve().parent / "human_labels" if beside is not None else Path("human_labels")
    ) / FILES[name]
    if not path.is_file():
        pytest.skip(
            f"the public set is not here: {FILES[name]} of the human labels, beside the real sample"
        )
    return import_labels(name, path, folder / "out"), folder / "out"


def table(out: Path, judge: str, rubric: str, truth: str) -> Counter[tuple[Any, Any]]:
    labels = read_labels(out)
    judged = read_verdicts(out / "verdicts.jsonl", judge, labels=labels).by_item
    return Counter(
        (judged[item.item_id].value, labels.labels_of(item.item_id).get(truth))
        for item in labels.items_of(rubric)
    )


@pytest.mark.release
@pytest.mark.real
def test_the_answers_are_all_there_and_the_judges_are_as_wrong_as_published(tmp_path: Path):
    done, out = real("openqa_eval", tmp_path)
    assert (done.items, done.labels, done.verdicts, done.unparsed) == (1490, 4686, 4470, 2)
    labels = read_labels(out)
    assert len({item.cluster for item in labels.items.values()}) == 301
    assert labels.annotators_of("answer_match") == ("annotator1", "annotator2", "annotator3")
    given = [labels.labels_of(item.item_id) for item in labels.items_of("answer_match")]
    assert sum("annotator1" in row and "annotator2" in row for row in given) == 1483
    found = {judge: table(out, judge, "answer_match", "adjudicated") for judge in done.judges}
    cells = ((1, 1), (0, 1), (1, 0), (0, 0))
    assert {judge: [counts[cell] for cell in cells] for judge, counts in found.items()} == {
        "gpt-4": [679, 137, 89, 583],
        "text-davinci-003": [667, 149, 93, 581],
        "BEM": [599, 217, 72, 602],
    }
    assert found["gpt-4"][None, 0] == 2
    bem = read_verdicts(out / "verdicts.jsonl", "BEM", labels=labels).by_item.values()
    assert all(row.value == (row.probability is not None and row.probability > 0.5) for row in bem)


@pytest.mark.real
def test_every_dimension_has_its_experts_its_crowd_and_three_judges(tmp_path: Path):
    done, out = real("empathy", tmp_path)
    assert (done.items, done.labels, done.verdicts, done.means, done.unparsed) == (
        1050,
        4200,
        3150,
        1050,
        0,
    )
    assert done.judges == ("gemini", "gpt", "claude")
    labels = read_labels(out)
    assert len(labels.rubrics) == 21
    assert {len(labels.items_of(rubric)) for rubric in labels.rubrics} == {50}
    assert {labels.annotators_of(rubric) for rubric in labels.rubrics} == {
        ("expert1", "expert2", "expert3")
    }
    ends = Counter(scale.values[:: len(scale.values) - 1] for scale in labels.scales.values())
    assert ends == {(1, 5): 9, (1, 7): 9, (0, 2): 3}
    for rubric in labels.rubrics:
        for item in labels.items_of(rubric):
            row = labels.labels_of(item.item_id)
            assert sorted(row[f"expert{number}"] for number in (1, 2, 3))[1] == row["experts"], item
    assert {len(means) for means in read_crowd(out / "crowd.jsonl", labels).values()} == {1050}


@pytest.mark.release
@pytest.mark.real
def test_every_pair_has_two_verdicts_a_judge_and_its_difficulty(tmp_path: Path):
    done, out = real("llmbar", tmp_path)
    assert (done.items, done.labels, len(done.rubrics), len(done.judges)) == (567, 567, 7, 48)
    judged = [
        (24 if "constraint" not in name and "negation" not in name else 18) for name in done.rubrics
    ]
    sizes = [len(read_labels(out).items_of(rubric)) for rubric in done.rubrics]
    assert done.verdicts == 2 * sum(
        size * judges for size, judges in zip(sizes, judged, strict=True)
    )
    right = {}
    for rubric in ("llmbar/natural", "llmbar/negation"):
        for judge in ("GPT-4/Vanilla", "GPT-4/Vanilla#swapped"):
            found = table(out, judge, rubric, "gold")
            right[rubric, judge] = (found[1, 1] + found[2, 2], found.total())
    assert list(right.values()) == [(95, 100), (96, 100), (58, 59), (57, 59)]
