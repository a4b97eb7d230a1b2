import pytest

from tests.conftest import ROOT
from tests.endtoend import one_line, rows, run_cold, summary, write_rows

SAMPLES = ROOT / "data" / "samples" / "dev"
ABILITIES = {
    f"task4_ability{n}": name for n, name in enumerate(("pa", "pf", "vra", "cf", "ei"), start=1)
}
TRACKS = ("task1", "task2", "task3_d100", *ABILITIES, "personamem")
TASKS = {"task1": "extraction", "task2": "update", "task3_d100": "retrieval"}
TASKS |= {**dict.fromkeys(ABILITIES, "utilization"), "personamem": "personamem"}
# Six generated users, asked seven types of questions about five topics each.
GENERATED = 6 * 7 * 5


def count(track):
    """Return how many answers a track of the samples asks for: one a row, of emotional intelligence
    one a query.
    """
    if track == "personamem":
        return GENERATED
    found = rows(SAMPLES / track.replace("task3_d100", "task3") / "model_input.jsonl")
    return sum(len(row["input"].get("queries", [None])) for row in found)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("all")
    return folder, run_cold(folder, "run", "task=all", "model=rules", "out=out")


def test_every_task_runs_offline_on_the_samples(whole):
    folder, finished = whole
    assert (finished.returncode, finished.stderr) == (0, "")
    assert tuple(summary(folder / "out")["tracks"]) == TRACKS


@pytest.mark.parametrize("track", TRACKS)
def test_scored_and_unscored_add_up_to_what_the_data_asks(whole, track):
    found = summary(whole[0] / "out")["tracks"][track]
    assert found["task"] == TASKS[track]
    assert found["n"] == found["scored"] + found["unscored"] == count(track)
    assert found["scored"] == (0 if track in ABILITIES else count(track))
    written = [row for row in rows(whole[0] / "out" / "scores.jsonl") if row["track"] == track]
    assert len(written) == found["n"]
    assert len({row["benchmark_id"] for row in written}) == found["n"]


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        (("task=update,extraction", "limit=2"), {"task2": 2, "task1": 2}),
        (("task=utilization", "ability=cf", "limit=3"), {"task4_ability4": 3}),
    ],
    ids=["several with commas", "an ability alone"],
)
def test_tasks_are_run_alone_where_they_are_named(alps, tmp_path, words, counts):
    finished = alps("run", *words, "model=rules", "out=out")
    assert finished.returncode == 0, finished.stderr
    tracks = summary(tmp_path / "out")["tracks"]
    assert {name: track["n"] for name, track in tracks.items()} == counts


BM25, NOT_OF_ALL = "model=bm25", "not a system for extraction, only for retrieval (built-in systems"
REFUSED = {
    "task=retreival model=bm25": "did you mean 'retrieval'",
    "task=retrieval model=bm25 distractors=200": "distractors=200",
    "task=utilization model=rules ability=pb": "ability=pb",
    "task=utilization model=rules condition=gold": "condition=gold",
    "task=retrieval model=bm25 scoring=authors-v1": "is defined only for extraction and update",
    "task=python:nowhere model=rules": "importing it raised ModuleNotFoundError",
    "task=python:json model=rules": "json has no function tracks",
    "task=python:leaving model=rules": "importing it raised SystemExit",
    f"task=all {BM25}": f"{BM25}: {NOT_OF_ALL}: rules",
}


@pytest.mark.few(3)
@pytest.mark.parametrize(("words", "said"), REFUSED.items(), ids=REFUSED)
def test_what_a_task_does_not_take_is_one_line(alps, tmp_path, words, said):
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit()\n", encoding="utf-8")
    assert said in one_line(alps("run", *words.split()))


def test_all_tasks_on_data_without_some_of_them_leave_those_out_and_say_so(alps, tmp_path):
    folder = tmp_path / "data" / "dev" / "task1"
    folder.mkdir(parents=True)
    for name in ("model_input.jsonl", "reference_output.jsonl"):
        (folder / name).write_bytes((SAMPLES / "task1" / name).read_bytes())
    finished = alps("run", "task=all", "model=rules", "data=data", "limit=2", "out=out")
    assert finished.returncode == 0, finished.stderr
    assert list(summary(tmp_path / "out")["tracks"]) == ["task1"]
    assert "Left out: update" in finished.stdout
    assert "no task2/model_input.jsonl here" in one_line(
        alps("run", "task=update", "model=rules", "data=data")
    )


@pytest.mark.real
def test_the_audit_of_the_real_sample_ends_with_exit_1(alps, sample):
    finished = alps("data", "audit", f"data={sample}")
    assert finished.returncode == 1
    assert "85 of 85 pools" in finished.stdout
    assert "16 of 259 gold items" in finished.stdout


@pytest.mark.few(1)
@pytest.mark.parametrize("answer", ["", "  \n"])
def test_an_empty_answer_from_a_file_or_a_class_is_empty_and_scores_nothing(alps, tmp_path, answer):
    asked = rows(SAMPLES / "task4_ability3" / "model_input.jsonl")[:2]
    write_rows(
        tmp_path / "answers.jsonl",
        [{"benchmark_id": row["benchmark_id"], "answer": answer} for row in asked],
    )
    (tmp_path / "silent.py").write_text(
        f"class Silent:\n    def predict(self, sample):\n        return {answer!r}\n"
    )
    words = ("run", "task=utilization", "ability=vra", "limit=2")
    for number, model in enumerate(("predictions:answers.jsonl", "python:silent:Silent")):
        finished = alps(*words, f"model={model}", f"out=out{number}")
        assert finished.returncode == 1, finished.stderr
        assert "2 of 2 predictions failed" in finished.stderr
        found = summary(tmp_path / f"out{number}")["tracks"]["task4_ability3"]
        assert (found["failed_predictions"], found["scored"]) == ({"empty": 2}, 2)
