"""Label folders, verdicts and means of a crowd: what is read, and what is refused and where."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alps.errors import AlpsError, DataError, UsageError
from alps.ext.calibration.labels import Verdict, read_crowd, read_labels, read_verdicts
from tests.ext.calibration.test_label_import import written

SCALES = {
    "right": {"kind": "nominal", "values": [0, 1]},
    "warmth": {"kind": "ordinal", "values": [1, 2, 3]},
    "tone": {"kind": "nominal", "values": ["warm", "cold"]},
    "unused": {"kind": "interval", "values": [0, 0.5, 1]},
}
PEOPLE = {
    "guidelines": "One reading, no discussion.",
    "annotators": {
        "ada": {"expertise": "nurse", "blind": True},
        "both": {"kind": "derived", "how": "ada, where they differ"},
    },
}


def item(item_id, rubric="right", **fields):
    optional = dict.fromkeys(("system", "cluster", "language"))
    return {"item_id": item_id, "rubric": rubric, **optional, "payload": {}, **fields}


def label(item_id, annotator, value):
    return {"item_id": item_id, "annotator": annotator, "label": value}


def verdict(item_id, judge, value, **fields):
    return {"item_id": item_id, "judge": judge, "verdict": value, **fields}


ITEMS = [
    item("q1", system="gpt", cluster="u1", language="en", payload={"query": "Wie geht's? 你好"}),
    item("w1", "warmth"),
    item("q2", cluster="u1"),
    item("t1", "tone"),
]
LABELS = [
    label("q1", "ada", True),
    label("q1", "ben", 0),
    label("w1", "ada", 2.0),
    label("q2", "ben", False),
    label("q1", "both", 1),
    label("t1", "ben", "cold"),
]


def write(folder, *, items=ITEMS, labels=LABELS, scale=SCALES, people=PEOPLE):
    folder.mkdir(exist_ok=True)
    written(folder / "items.jsonl", items)
    written(folder / "labels.jsonl", labels)
    written(folder / "scale.json", [scale])
    written(folder / "people.json", [people])
    return folder


def refusal(read, *arguments, **keywords):
    with pytest.raises(DataError) as caught:
        read(*arguments, **keywords)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "labels")


def test_items_rubrics_and_scales_come_as_they_were_written(folder):
    found = read_labels(folder)
    assert list(found.items) == ["q1", "w1", "q2", "t1"]
    first = found.items["q1"]
    about = (first.rubric, first.system, first.cluster, first.language)
    assert about == ("right", "gpt", "u1", "en")
    assert first.payload == {"query": "Wie geht's? 你好"}
    assert found.items["w1"].cluster is None
    assert found.rubrics == ("right", "warmth", "tone")  # the others have no items
    assert [item.item_id for item in found.items_of("right")] == ["q1", "q2"]
    with pytest.raises(UsageError, match="did you mean 'warmth'"):
        found.items_of("warmht")
    assert (found.scales["warmth"].kind, found.scales["warmth"].values) == ("ordinal", (1, 2, 3))
    assert found.scales["unused"].values == (0, 0.5, 1)


def test_labels_are_values_of_the_scale_and_derived_ones_are_kept_apart(folder):
    found = read_labels(folder)
    given = [found.labels_of(name) for name in ("q1", "q2", "w1", "t1")]
    assert given == [{"ada": 1, "ben": 0, "both": 1}, {"ben": 0}, {"ada": 2}, {"ben": "cold"}]
    assert [type(value) for row in given[:3] for value in row.values()] == [int] * 5
    assert found.annotators_of("right") == ("ada", "ben")
    assert found.annotators_of("right", derived=True) == ("both",)
    assert found.annotators == {"ada": "person", "ben": "person", "both": "derived"}
    # Without a word on people everybody is one.
    (folder / "people.json").unlink()
    assert read_labels(folder).annotators_of("right") == ("ada", "ben", "both")


def test_the_hash_is_of_what_the_labels_mean(folder, tmp_path):
    found = read_labels(folder).sha256
    written(folder / "verdicts.jsonl", [verdict("q1", "j", 1)])
    assert read_labels(folder).sha256 == found == read_labels(write(tmp_path / "copy")).sha256
    others = [
        write(tmp_path / "1", labels=[*LABELS[:-1], label("t1", "ben", "warm")]),
        write(tmp_path / "2", items=[item("q1"), *ITEMS[1:]]),
        write(tmp_path / "3", people={}),
        write(tmp_path / "4", scale={**SCALES, "unused": SCALES["right"]}),
    ]
    assert len({found, *(read_labels(other).sha256 for other in others)}) == 5


def cy(item_id, value):
    return label(item_id, "cy", value)


QUOTED = "must be a string, got 1: write it in quotes"
TWICE = '{"item_id":"q1","annotator":"cy","label":0,"label":1}'
NO_ANNOTATOR = {"item_id": "q1", "anotator": "cy", "label": 1}
INFINITE = '{"item_id": "w1", "annotator": "cy", "label": 1e999}'
# By what is wrong: what is added, the field that is named, and words of what is said.
BAD_LABELS = {
    "off the scale": (
        cy("w1", 4),
        "label",
        "4 is not on the scale [1, 2, 3]",
        '"warmth"',
        "declare",
    ),
    "a number in quotes": (cy("w1", "2"), "label", "write it without quotes"),
    "a misspelt name": (cy("t1", "warn"), "label", "did you mean 'warm'"),
    "true on a scale of three": (cy("w1", True), "label", "true is not on the scale"),
    "null": (cy("w1", None), "label", "null is not on the scale"),
    "infinity": (INFINITE, "label", "1e999 is too large"),
    "an unknown item": (cy("q9", 1), "item_id", 'unknown item "q9"', "items.jsonl"),
    "an annotator twice": (
        *(label("q1", "ada", 1), "annotator"),
        *('"ada" labelled item "q1" above', "keep one"),
    ),
    "a misspelt field": (NO_ANNOTATOR, "annotator", "is missing", "did you mean 'anotator'"),
    "an empty annotator": (label("q1", " ", 1), "annotator", "must not be empty"),
    "a number for an id": (cy(1, 1), "item_id", QUOTED),
    "a field twice": (TWICE, "label", "appears twice"),
    "no object": ("[1]", "", "expected a JSON object, got [1]"),
    "a torn line": ('{"item_id": "q1", "ann', "", "not JSON"),
}
BARE = {"item_id": "x", "rubric": "right"}
FAR_INSIDE = '{"item_id": "x", "rubric": "right", "payload": {"a": [1, {"b": NaN}]}}'
BAD_ITEMS = {
    "an item twice": (item("q1"), "item_id", '"q1" appears twice', "a unique id"),
    "no scale": (
        *(item("x", "rigth"), "rubric"),
        *('"rigth" has no scale', "did you mean 'right'", "scale.json"),
    ),
    "a misspelt optional field": ({**BARE, "payload": {}, "sytem": "a"}, "sytem", "system"),
    "a payload in text": (item("x", payload="hi"), "payload", 'must be an object, got "hi"'),
    "no payload": (BARE, "payload", "is missing"),
    "a cluster in numbers": (item("x", cluster=7), "cluster", "must be a string or null, got 7"),
    "NaN far inside": (FAR_INSIDE, "payload.a.1.b", "NaN is not a number in JSON"),
}


def scale(kind="ordinal", values=(1, 2), **more):
    return {**SCALES, "extra": {"kind": kind, "values": values, **more}}


KINDS = ("nominal, ordinal, interval", "did you mean 'ordinal'")
NAN_SCALE = '{"extra": {"kind": "ordinal", "values": [1, NaN]}}'
TURNED, LAST = scale("nominal", [1, 0], positive=[1]), "write the positive value last"
BAD_SCALES = {
    "one value": (scale(values=[1]), "extra.values", "two or more values", "unused values"),
    "a value twice": (scale(values=[1, 2, 2.0]), "extra.values.2", "2.0 appears twice"),
    "a kind that is none": (scale(kind="ordnial"), "extra.kind", *KINDS),
    "no kind": ({"extra": {"values": [1, 2]}}, "extra.kind", "is missing"),
    "values in text": (scale(values="1-5"), "extra.values", "must be a list"),
    "true and false": (scale("nominal", [False, True]), "extra.values.0", "write 0 and 1"),
    "null": (scale(values=[1, None]), "extra.values.1", "must be a number or text, got null"),
    "descending numbers": (scale(values=[2, 1]), "extra.values", "ascend"),
    "an interval of names": (scale("interval", ["low", "high"]), "extra.values", "numbers"),
    "the positive one of two values first": (TURNED, "extra.positive", LAST),
    "no object": ({"extra": [0, 1]}, "extra", "must be an object"),
    "NaN": (NAN_SCALE, "extra.values.1", "NaN is not a number"),
}


def ada(**about):
    return {"annotators": {"ada": about}}


BLIND = "true, false or null"
BAD_PEOPLE = {
    "somebody who labelled nothing": (
        *({"annotators": {"bot": {"kind": "derived"}}}, "annotators.bot", "'both'"),
    ),
    "a kind that is none": (ada(kind="human"), "annotators.ada.kind", "person or derived"),
    "a misspelt field": (ada(expertize="x"), "annotators.ada.expertize", "'expertise'"),
    "blind in words": (ada(blind="yes"), "annotators.ada.blind", BLIND),
    "expertise in numbers": (ada(expertise=3), "annotators.ada.expertise", "got 3"),
    "a list": ({"annotators": ["ada"]}, "annotators", "must be an object"),
    "a misspelt list": ({"annotator": {}}, "annotator", "did you mean 'annotators'"),
}
PLACES_OF_BAD = {
    "label": (BAD_LABELS, "labels.jsonl, line 7", lambda row: {"labels": [*LABELS, row]}),
    "item": (BAD_ITEMS, "items.jsonl, line 5", lambda row: {"items": [*ITEMS, row]}),
    "scale": (BAD_SCALES, "scale.json", lambda scales: {"scale": scales}),
    "people": (BAD_PEOPLE, "people.json", lambda people: {"people": people}),
}
BAD = []
for part, (table, place, within) in PLACES_OF_BAD.items():
    for name, (bad, *says) in table.items():
        BAD.append(pytest.param(within(bad), place, says, id=f"{part}: {name}"))


@pytest.mark.parametrize(("files", "place", "says"), BAD)
def test_what_is_bad_is_refused_with_its_file_line_and_field(tmp_path, files, place, says):
    said = refusal(read_labels, write(tmp_path, **files))
    field = f", {says[0]}" if says[0] else ""
    assert said.startswith(f"{tmp_path / place}{field}: ")
    assert [part for part in says if part not in said] == []


@pytest.mark.parametrize("name", ["items.jsonl", "labels.jsonl", "scale.json", "people.json"])
def test_an_empty_or_missing_file_is_named(folder, name):
    (folder / name).write_text("\n \n")
    assert refusal(read_labels, folder).startswith(f"{folder / name}: is empty")
    (folder / name).unlink()
    if name != "people.json":
        missing = "is missing: write human labels"
        what = missing if name == "labels.jsonl" else "can't be read (No such file"
        assert refusal(read_labels, folder).startswith(f"{folder / name}: {what}")


@pytest.mark.parametrize("name", ["Ada", "ada ", "\uff41da"])
def test_one_person_under_two_names_is_refused(tmp_path, name):
    said = refusal(read_labels, write(tmp_path, labels=[*LABELS, label("w1", name, 1)]))
    assert f'"ada" and "{name}" differ only in case or spaces: use one name' in said


def test_the_folder_in_which_people_label_is_to_be_exported_first(folder):
    (folder / "labels.jsonl").unlink()
    (folder / "annotate.json").write_text("{}")
    assert f"alps annotate export {folder} out=DIR" in refusal(read_labels, folder)


def test_a_folder_that_is_not_there_and_a_file_without_a_scale_are_refused(folder):
    with pytest.raises(UsageError, match="no such folder"):
        read_labels(folder / "nowhere")
    path = folder / "scale.json"
    path.write_text("{}")
    assert "has no scale" in refusal(read_labels, folder)
    path.write_text('{\n "right": {\n  "kind": nominal\n}}')
    assert f"{path}, line 3: not JSON" in refusal(read_labels, folder)


VERDICTS = [
    verdict("q1", "gpt", True, raw="Yes."),
    verdict("q1", "bem", 0.0, probability=0.25),
    verdict("q2", "gpt", None, raw="Hm."),
    verdict("w1", "gpt", 2.0),
]


def test_verdicts_of_one_judge_come_by_item_on_the_scale(folder):
    path, labels = written(folder / "verdicts.jsonl", VERDICTS), read_labels(folder)
    found = read_verdicts(path, "gpt", labels=labels)
    assert found.judge == "gpt"
    assert found.by_item == {"q1": Verdict(1, "Yes."), "q2": Verdict(None, "Hm."), "w1": Verdict(2)}
    assert [type(row.value) for row in found.by_item.values()] == [int, type(None), int]
    assert read_verdicts(path, "bem", labels=labels).by_item == {"q1": Verdict(0, None, 0.25)}
    # The only judge needs no name.
    alone = written(folder / "v.jsonl", [VERDICTS[1]])
    assert read_verdicts(alone, labels=labels).judge == "bem"


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (None, r"name one with judge= \(found: gpt, bem\)$"),
        ("bme", r"judge=bme: .* did you mean 'bem'\? \(found: gpt, bem\)"),
    ],
)
def test_several_judges_are_listed_on_one_line(folder, judge, said):
    path, labels = written(folder / "v.jsonl", VERDICTS), read_labels(folder)
    with pytest.raises(UsageError, match=said) as caught:
        read_verdicts(path, judge, labels=labels)
    assert "\n" not in str(caught.value)


def test_the_hash_of_verdicts_is_of_their_file(folder):
    labels = read_labels(folder)
    found = []
    for n, rows in enumerate((VERDICTS, VERDICTS, VERDICTS[:1])):
        path = written(folder / f"{n}.jsonl", rows)
        found.append(read_verdicts(path, "gpt", labels=labels).sha256)
    first, same, other = found
    assert first == same != other


CHANCE = ["probability", "from 0 to 1"]
SEEN = 'an earlier line has a verdict by "gpt" on "q1"'
MEANT = "did you mean 'probability'"


def new(item_id, value, **fields):
    return verdict(item_id, "new", value, **fields)


BAD_VERDICTS = {
    "off the scale": (new("w1", 4), ["verdict", "4 is not on the scale"]),
    "an object": (new("q1", {"met": 1}), ["verdict", '{"met": 1} is not on the scale']),
    "an unknown item": (new("x", 1), ["item_id", 'unknown item "x"']),
    "a judge twice": (verdict("q1", "gpt", 1), ["judge", SEEN]),
    "no verdict": ({"item_id": "q1", "judge": "new"}, ["verdict", "is missing"]),
    "raw in numbers": (new("q1", 1, raw=3), ["raw", "must be a string or null, got 3"]),
    "a chance above one": (new("q1", 1, probability=1.2), CHANCE),
    "a chance in words": (new("q1", 1, probability="high"), CHANCE),
    "a misspelt chance": (new("q1", 1, probablity=0.5), ["probablity", MEANT]),
}


@pytest.mark.parametrize(("row", "says"), BAD_VERDICTS.values(), ids=BAD_VERDICTS)
def test_a_bad_verdict_of_any_judge_is_refused_with_its_line_and_field(folder, row, says):
    path = written(folder / "verdicts.jsonl", [*VERDICTS, row])
    said = refusal(read_verdicts, path, "bem", labels=read_labels(folder))
    assert said.startswith(f"{path}, line 5, {says[0]}: ")
    assert [part for part in says if part not in said] == []


def test_empty_and_missing_verdicts_say_so(folder):
    labels = read_labels(folder)
    assert "is empty" in refusal(read_verdicts, written(folder / "v.jsonl", []), labels=labels)
    with pytest.raises(UsageError, match="no such file"):
        read_verdicts(folder / "w.jsonl", labels=labels)


def mean(item_id, value):
    return {"item_id": item_id, "annotator": "crowd", "mean": value}


BAD_MEANS = [
    (mean("q2", 1.5), "mean: must be a number from 0 to 1, got 1.5"),
    (mean("q2", "1"), 'mean: must be a number from 0 to 1, got "1"'),
    (mean("t1", 0.5), 'mean: the scale ["warm", "cold"] has names, so it has no mean'),
    (mean("w1", 2), 'annotator: an earlier line has a mean by "crowd" for "w1"'),
    (mean("x", 2), 'item_id: unknown item "x"'),
]


@pytest.mark.parametrize(("row", "says"), BAD_MEANS)
def test_means_of_a_crowd_lie_between_the_values_of_the_scale(folder, row, says):
    path = written(folder / "crowd.jsonl", [mean("w1", 2.6), mean("q1", 0)])
    assert read_crowd(path, read_labels(folder)) == {"crowd": {"w1": 2.6, "q1": 0.0}}
    written(path, [mean("w1", 2.6), row])
    assert f"{path}, line 2, {says}" in refusal(read_labels, folder)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.just(10**400) | st.text()


def inside(inner):
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)


ANYTHING = st.recursive(LEAVES, inside, max_leaves=6)
PLACES = (
    *("item_id", "rubric", "system", "payload", "annotator", "label", "kind", "values", "value"),
    *("about", "verdict"),
)


@pytest.mark.release
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(PLACES), ANYTHING)
def test_whatever_a_field_holds_is_read_or_refused_in_a_line(tmp_path_factory, place, anything):
    folder = tmp_path_factory.getbasetemp() / "anything"
    changed = {place: anything}
    scales = {**SCALES, "right": {"kind": "nominal", "values": [0, 1]} | changed}
    if place == "value":
        scales["right"]["values"] = [0, 1, anything]
    people = {"annotators": {"ada": anything}} if place == "about" else {}
    rows = [item("q1") | changed, *ITEMS[1:]]
    labels = [json.dumps(LABELS[0] | changed)]
    write(folder, items=map(json.dumps, rows), labels=labels, scale="{}", people="{}")
    (folder / "scale.json").write_text(json.dumps(scales))
    (folder / "people.json").write_text(json.dumps(people))
    (folder / "verdicts.jsonl").write_text(json.dumps(verdict("q1", "j", 1) | changed))
    said = ""
    try:
        read_verdicts(folder / "verdicts.jsonl", labels=read_labels(folder))
    except AlpsError as error:
        said = str(error)
    assert "\n" not in said
    assert said.encode().decode() == said
