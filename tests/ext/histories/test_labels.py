"""Labels of people on runs on sets: which of them can check the judge, and how that is told."""

import pytest

from tests.endtoend import rows, write_rows
from tests.ext.histories.sets import Script, judged_by, read_by, run
from tests.loopback import serve
from tests.tracks import alps_here

LEFT_OUT = "outcome: left out, because it has other verdicts than met and not_met"


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Return what makes a run on a set by a judge that is scripted, once for each set."""
    made = {}

    def of(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name) / "out"
            with pytest.MonkeyPatch.context() as patch, serve(Script(name)) as server:
                patch.setenv("OPENAI_API_KEY", "test")
                made[name] = folder, run(folder, name, *read_by(server), *judged_by(server))
        folder, done = made[name]
        assert done.code == 0, done.err
        return folder, done.out

    return of


@pytest.mark.parametrize("name", ["longmemeval", "beam"])
def test_no_command_is_told_that_would_be_refused(judged, name):
    assert "People can check this judge" not in judged(name)[1]


def test_drawn_items_come_with_the_rubrics_by_which_a_judge_is_compared(
    judged, tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    labels = tmp_path / "labels"
    drawn = alps_here("annotate", "draw", str(judged("longmemeval")[0]), f"out={labels}")
    assert drawn.code == 0, drawn.err
    items = rows(labels / "items.jsonl")
    known = {path.stem for path in (labels / "rubrics").iterdir()}
    assert {item["rubric"] for item in items} == known
    said = [{"item_id": one["item_id"], "annotator": "a", "label": 1} for one in items]
    write_rows(labels / "labels.jsonl", said)
    with serve(Script("longmemeval")) as server:
        words = (*judged_by(server), f"labels={labels}", f"out={tmp_path / 'calibrated'}")
        done = alps_here("calibrate", *words)
    assert f"{len(known)} rubrics" in done.out, done.err
    assert len(rows(tmp_path / "calibrated" / "verdicts.jsonl")) == len(items)


def test_items_of_other_marks_are_left_out_and_named(judged, tmp_path):
    labels = tmp_path / "labels"
    drawn = alps_here("annotate", "draw", str(judged("halumem")[0]), f"out={labels}")
    assert (drawn.code, LEFT_OUT in drawn.out) == (0, True), drawn.err
    names = [item["item_id"] for item in rows(labels / "items.jsonl")]
    assert len(set(names)) == len(names) > 0
    assert "outcome" not in (labels / "README.md").read_text(encoding="utf-8")


OTHER_MARKS = "its rubrics (point) have other verdicts than met and not_met"
REFUSED = {
    "a page of a set's rubric": (
        "longmemeval", ("out",), "no page for the rubric", "draw the items with alps annotate draw"
    ),
    "a page of other marks": ("beam", ("out",), OTHER_MARKS, ""),
    "a draw of other marks": ("beam", ("draw",), OTHER_MARKS, ""),
}  # fmt: skip


@pytest.mark.parametrize(("name", "way", "why", "fix"), REFUSED.values(), ids=REFUSED)
def test_what_people_can_not_label_is_refused_in_a_line(judged, tmp_path, name, way, why, fix):
    folder, _ = judged(name)
    work = tmp_path / "work"
    words = ("annotate", "draw", str(folder), f"out={work}")
    if way == ("out",):
        words = ("annotate", str(work), "job=rate", f"from={folder}")
    line = alps_here(*words).one_line
    assert why in line
    assert fix in line
    assert not work.exists()
