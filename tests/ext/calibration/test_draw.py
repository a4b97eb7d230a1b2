"""Label folders drawn from a run: what is drawn, how it is told, and what is refused."""

import json
import shutil

import pytest

from alps.data.release import write_track
from alps.errors import RunFolderError, UsageError
from alps.ext.calibration.judge_of_run import asked_in, population_hash
from alps.ext.calibration.labels import read_labels
from alps.ext.calibration.sample import draw_labels
from alps.judges.base import RELATIONS
from alps.run.source import open_data
from alps.run.start import run
from alps.settings import RunSettings, parse_settings
from alps.similarity import similarity
from tests.endtoend import rows, write_rows
from tests.tracks import TALK, pool_row, target_row, write_ability
from tests.visitors import memory_items

SIZES = (100, 300, 500, 700, 1000)
MATCHED = {
    "relations": (
        ["Runs on Sundays", "Moves to Porto in May"],
        ["Likes sport", "Moves to Porto in March"],
    ),
    "identical": (["Keeps bees", "Plays the cello"], ["keeps  BEES", "Has a cello"]),
    "unjudged": (["Is a baker"], ["Bakes bread", "Is a baker in Graz"]),
    "apart": (["Is allergic to cashews"], ["Owns a kite", "Rides a tram"]),
    "right": (["Lives in Graz"], ["Lives in Graz"]),
    "silent": (["Is tall"], []),
    "withheld": (None, ["Is a judge"]),
    "refused": (["Is a spy"], "refused"),
    "truncated": (["Is shy"], "truncated"),
    "unheard": (["Is a diver"], "transport"),
}
"""By id: gold, None where it is withheld, and what was predicted, or how that failed."""
RELATED = {f"task1/relations/g{n}-p{n}" for n in (1, 2)} | {"task1/identical/g2-p2"}


def carry_out(folder, **settings):
    where = {"data": str(folder / "data"), "out": str(folder / "run"), "max_failures": 1}
    return run(parse_settings({**where, **settings}, RunSettings)).folder


@pytest.fixture(scope="module")
def matched(tmp_path_factory):
    """A run of extraction and update with recorded relations, a judgement that failed, and failed
    predictions.
    """
    folder = tmp_path_factory.mktemp("matched")
    said, verdicts = [], []
    both = [{"gold_id": f"m{n}", "pred_id": f"m{n}", "error_type": "OVERGENERAL"} for n in (1, 2)]
    reviewed = {"relations": both, "identical": both[1:], "unjudged": None}
    for name, (_, predicted) in MATCHED.items():
        failed = isinstance(predicted, str)
        items = {"memory_items": memory_items(*(() if failed else predicted))}
        answer = {"track": "task1", "outcome": predicted} if failed else items
        said.append({"benchmark_id": name, **answer})
        judged = {"model_output": items, "judge_output": {"pair_reviews": reviewed.get(name, [])}}
        verdicts.append({"benchmark_id": name, **judged})
    said.append({"benchmark_id": "moved", "memory_items": memory_items("Has a home in Graz")})
    extraction = [extraction_rows(name, gold) for name, (gold, _) in MATCHED.items()]
    write_track(folder / "data" / "dev" / "task1", extraction)
    write_track(folder / "data" / "dev" / "task2", [update_rows("moved")])
    model = write_rows(folder / "said.jsonl", said)
    judge = write_rows(folder / "judged.jsonl", verdicts)
    by = {"model": f"predictions:{model}", "judge": f"recorded:{judge}"}
    return carry_out(folder, task="extraction,update", **by)


def extraction_rows(name, gold):
    ids = {"benchmark_id": name, "session_id": f"session of {name}", "task": "task1"}
    answer = {"gold": {"memory_items": memory_items(*gold)}} if gold is not None else None
    return {**ids, "input": {"dialogue": list(TALK)}}, answer and {**ids, **answer}


def update_rows(name):
    ids = {"benchmark_id": name, "session_id": f"session of {name}", "task": "task2"}
    (moved,) = memory_items("Lives in Porto")
    moved |= {"evidence": {"session_id": None, "utterance_index": 0, "text": "we moved to Porto"}}
    talks = {"old_dialogue": list(TALK), "new_dialogue": list(TALK)}
    gold = {"answer": [{**moved, "memory_id": "m1_updated"}]}
    given = {**talks, "memory": memory_items("Lives in Graz")}
    return {**ids, "input": given}, {**ids, "gold": gold}


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    """A run of utilization with two answers to every query, under a judge that rates nothing."""
    folder = tmp_path_factory.mktemp("rated")
    asked = [target_row(f"pa{n}", queries=(f"What shall I cook {n}?",)) for n in range(6)]
    write_ability(folder / "data", 1, *asked, (target_row("withheld")[0], None))
    feeling = target_row("ei", stratum="zh", queries=("Why me?", "Why now?"))
    write_ability(folder / "data", 5, feeling)
    for number in (2, 3, 4):
        write_ability(folder / "data", number, target_row(f"other{number}"))
    return carry_out(folder, task="utilization", model="rules", repeats=2)


def retrieved(folder, answer):
    """Run retrieval over pools of every size; every answer but the last, which says nothing, is
    `answer`.
    """
    values = ("Plants crocuses", "Rides a tram", "Keeps bees")
    for size in SIZES:
        pools = [pool_row(f"q{n}", values, 1, query=f"What {n}?") for n in range(4)]
        write_track(folder / "data" / "dev" / "task3" / f"d{size}", pools)
    chosen = {"selected_memory_id": "c001", "answer": answer}
    said = [{"benchmark_id": f"q{n}", **chosen} for n in range(3)]
    said.append({"benchmark_id": "q3", "selected_memory_id": "c002"})
    path = write_rows(folder / "answers.jsonl", said)
    return carry_out(folder, task="retrieval", model=f"predictions:{path}", distractors="all")


def items_of(folder, rubric=None):
    return [row for row in rows(folder / "items.jsonl") if rubric in (None, row["rubric"])]


def ids_of(folder):
    return {row["item_id"] for row in items_of(folder)}


def sample_of(folder):
    return json.loads((folder / "sample.json").read_text(encoding="utf-8"))


def data_of(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    return open_data(parse_settings(manifest["settings"], RunSettings))


def with_first(source, copy, **changes):
    """Copy a run, and change its first prediction; return the copy and what the row was."""
    shutil.copytree(source, copy)
    first, *others = rows(source / "predictions.jsonl")
    write_rows(copy / "predictions.jsonl", [{**first, **changes}, *others])
    return copy, first


def refusal(error, folder, out, **more):
    with pytest.raises(error) as caught:
        draw_labels(folder, **{"n": 3, "out": out, **more})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_item_holds_what_a_judge_is_asked_and_who_answered(rated, tmp_path):
    draw_labels(rated, n=100, out=tmp_path / "labels")
    drawn = {row["item_id"]: row for row in items_of(tmp_path / "labels", "pa")}
    said = {}
    for row in rows(rated / "predictions.jsonl"):
        said[row["benchmark_id"]] = row["prediction"]["answer"]
    names = [f"task4_ability1/pa{n}" for n in range(6)]
    assert set(drawn) == {*names, *(f"{name}#2" for name in names)}
    assert drawn["task4_ability1/pa3#2"] == {
        "item_id": "task4_ability1/pa3#2",
        "rubric": "pa",
        "system": "rules",
        "cluster": "session of pa3",
        "language": None,
        "payload": {
            "query": "What shall I cook 3?",
            "response": said["pa3"],
            "memory": "Grows saffron on the balcony",
            "dialogue": list(TALK),
        },
    }


def test_an_answer_to_a_feeling_gives_three_items_that_stand_together(rated, tmp_path):
    drawn = draw_labels(rated, n=2, out=tmp_path / "labels")
    found = [row for row in items_of(tmp_path / "labels") if row["rubric"].startswith("ei_")]
    parts = ["resonation", "expression", "reception"]
    assert [row["rubric"] for row in found] == [f"ei_{part}" for part in parts] * 2
    for three in (found[:3], found[3:]):
        (name,) = {row["item_id"].rpartition(":")[0] for row in three}
        assert [row["item_id"] for row in three] == [f"{name}:{part}" for part in parts]
        assert {row["language"] for row in three} == {"zh"}
        assert three[0]["payload"] == three[2]["payload"]
    assert (drawn.rubrics["ei_reception"].population, drawn.rubrics["ei_reception"].drawn) == (4, 2)


def test_no_more_is_drawn_than_there_is_and_the_readme_says_how_to_label(rated, tmp_path):
    out = tmp_path / "labels"
    drawn = draw_labels(rated, n=10, out=out)
    counts = {name: (found.drawn, found.population) for name, found in drawn.rubrics.items()}
    assert (counts["pa"], counts["cf"]) == ((10, 12), (2, 2))
    assert drawn.items == len(items_of(out)) == sum(found for found, _ in counts.values())
    text = (out / "README.md").read_text(encoding="utf-8")
    said = ("| pa | 10 of 12 |", "| cf | all 2 |", "> You judge persona awareness")
    said += ("rated from 1 to 5", f"alps calibrate labels={out} judge=")
    assert [part for part in said if part not in text] == []
    assert text.count("> You judge emotional intelligence") == 1
    assert "The reply" not in text
    line = next(line for line in text.splitlines() if '"annotator"' in line)
    example = json.loads(line.strip(" `"))
    assert example["item_id"] in ids_of(out)
    assert set(example) == {"item_id", "annotator", "label"}


def test_the_draw_depends_on_the_seed_and_not_on_the_order_of_the_files(rated, tmp_path):
    turned = tmp_path / "turned" / rated.name
    shutil.copytree(rated, turned)
    write_rows(turned / "predictions.jsonl", reversed(rows(rated / "predictions.jsonl")))
    for name, folder, seed in (("a", rated, 4), ("b", turned, 4), ("c", rated, 5)):
        draw_labels(folder, n=5, out=tmp_path / name, seed=seed)
    for file in ("items.jsonl", "sample.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert ids_of(tmp_path / "a") != ids_of(tmp_path / "c")
    assert sample_of(tmp_path / "c")["seed"] == 5


def test_over_many_seeds_every_answer_is_drawn_equally_often_and_none_always_first(rated, tmp_path):
    firsts, times = set(), dict.fromkeys((f"pa{n}" for n in range(6)), 0)
    for seed in range(30):
        draw_labels(rated, n=4, out=tmp_path / f"{seed}", seed=seed)
        drawn = items_of(tmp_path / f"{seed}", "pa")
        firsts.add(drawn[0]["item_id"])
        for row in drawn:
            times[row["item_id"].rpartition("/")[2].removesuffix("#2")] += 1
    assert len(firsts) > 6
    assert all(12 <= count <= 28 for count in times.values()), times  # 20 expected


def test_matching_gives_pairs_that_the_judge_related_and_the_most_similar_others(matched, tmp_path):
    sides = []
    for n in (4, 1000):
        drawn_of_all = draw_labels(matched, n=n, out=tmp_path / f"{n}")
        sides.append({row["item_id"]: row["payload"] for row in items_of(tmp_path / f"{n}")})
    drawn, whole = sides
    assert len(items_of(tmp_path / "1000")) == len(whole) == 11
    likeness = {}
    for name, shown in whole.items():
        likeness[name] = similarity(shown["gold"]["value"], shown["predicted"]["value"])
    others = sorted(likeness.keys() - RELATED, key=likeness.__getitem__, reverse=True)
    assert len(drawn.keys() & RELATED) == 2
    assert drawn.keys() - RELATED == set(others[:2])
    assert "task1/unjudged/g1-p2" in others[:2]
    assert whole["task1/relations/g2-p2"] == {
        "gold": {"value": "Moves to Porto in May", "type": "direct", "label": "UNMAPPED"},
        "predicted": {"value": "Moves to Porto in March", "type": "direct", "label": "UNMAPPED"},
    }
    assert whole["task2/moved/g1-p1"]["gold"]["evidence"] == "we moved to Porto"
    # An old memory that should be gone.
    assert whole["task2/moved/g2-p1"]["gold"]["value"] == "Lives in Graz"
    # All are pairs that a judge is asked about.
    names = [name.split("/")[1] for name in whole]
    counts = {name: names.count(name) for name in names}
    assert counts == {"relations": 4, "identical": 1, "unjudged": 2, "apart": 2, "moved": 2}
    found = drawn_of_all.rubrics["matching"]
    assert (found.population, found.drawn, found.random) == (11, 11, False)
    entry = sample_of(tmp_path / "1000")["rubrics"]["matching"]
    assert (entry["random"], entry["track"]) == (False, None)
    tracks = {name: (part["population"], part["drawn"]) for name, part in entry["tracks"].items()}
    assert tracks == {"task1": (9, 9), "task2": (2, 2)}


def test_other_pairs_fill_up_where_the_judge_related_too_few_and_may_stand_first(matched, tmp_path):
    drawn = draw_labels(matched, n=10, out=tmp_path / "labels")
    assert drawn.rubrics["matching"].drawn == 10
    assert ids_of(tmp_path / "labels") > RELATED
    firsts = set()
    for seed in range(6):
        draw_labels(matched, n=6, out=tmp_path / f"{seed}", seed=seed)
        assert ids_of(tmp_path / f"{seed}") > RELATED
        firsts.add(items_of(tmp_path / f"{seed}")[0]["item_id"] in RELATED)
    assert firsts == {True, False}


def test_an_answer_that_failed_is_not_in_the_population(rated, tmp_path):
    changed, row = with_first(rated, tmp_path / "run", outcome="refused", prediction=None)
    drawn = draw_labels(changed, n=100, out=tmp_path / "labels")
    assert drawn.rubrics["pa"].population == 11
    assert f"task4_ability1/{row['benchmark_id']}" not in ids_of(tmp_path / "labels")


def test_the_population_is_known_again_by_its_answers(rated, tmp_path):
    draw_labels(rated, n=3, out=tmp_path / "labels")
    entry = sample_of(tmp_path / "labels")["rubrics"]["pa"]
    answers = [one.about for one in asked_in(rated, data_of(rated)) if one.rubric == "pa"]
    predictions = [row["prediction"] for row in rows(rated / "predictions.jsonl")]
    given = {prediction["answer"] for prediction in predictions if prediction}
    assert all(json.loads(answer.shown)["response"] in given for answer in answers)
    assert entry == {
        "track": "task4_ability1",
        "population": 12,
        "drawn": 3,
        "random": True,
        "predictions": population_hash(reversed(answers)),
    }
    other_gold = answers[0].shown.replace('"memory":"', '"memory":"not ')
    assert other_gold != answers[0].shown
    for others in (answers[1:], [answers[0]._replace(shown=other_gold), *answers[1:]]):
        assert population_hash(others) != entry["predictions"]
    assert sample_of(tmp_path / "labels")["run"] == "run"


def test_a_filled_folder_can_be_read(rated, matched, tmp_path):
    scales = {}
    for folder, label in ((rated, 1), (matched, "unrelated")):
        out = tmp_path / str(label)
        draw_labels(folder, n=4, out=out)
        files = ["README.md", "items.jsonl", "sample.json", "scale.json"]
        assert sorted(path.name for path in out.iterdir()) == files
        by_anna = {"annotator": "anna", "label": label}
        given = [{"item_id": row["item_id"], **by_anna} for row in items_of(out)]
        write_rows(out / "labels.jsonl", given)
        found = read_labels(out)
        assert len(found.labels) == len(given)
        scales |= {name: (scale.kind, scale.values) for name, scale in found.scales.items()}
    assert scales["pa"] == ("nominal", (0, 1))
    assert scales["ei_expression"] == ("ordinal", (1, 2, 3, 4, 5))
    assert scales["matching"] == ("nominal", (*RELATIONS, "unrelated"))


def test_answers_of_retrieval_are_drawn_where_there_are_any_and_told_apart_by_track(tmp_path):
    folder = retrieved(tmp_path, "Crocuses, as you have a tram to catch.")
    drawn = draw_labels(folder, n=6, out=tmp_path / "labels")
    entry = sample_of(tmp_path / "labels")["rubrics"]["memory_used"]
    assert drawn.rubrics["memory_used"].population == entry["population"] == 15
    assert entry["random"]
    assert (entry["track"], entry["predictions"]) == (None, None)
    assert set(entry["tracks"]) == {f"task3_d{size}" for size in SIZES}
    assert sum(part["drawn"] for part in entry["tracks"].values()) == 6
    assert {part["population"] for part in entry["tracks"].values()} == {3}
    item = items_of(tmp_path / "labels")[0]
    assert item["rubric"] == "memory_used"
    assert item["payload"]["memory"] == "Rides a tram"
    assert item["payload"]["dialogue"] == []


def test_a_run_without_anything_to_judge_is_refused(tmp_path):
    folder = retrieved(tmp_path, "")
    assert "no answer of this run needs a judge" in refusal(UsageError, folder, tmp_path / "labels")
    assert not (tmp_path / "labels").exists()


def test_what_is_no_finished_run_or_has_other_data_now_is_refused(rated, tmp_path):
    copy, data, out = tmp_path / "run", tmp_path / "data", tmp_path / "labels"
    assert "no run here" in refusal(UsageError, tmp_path, out)
    shutil.copytree(rated.parent / "data", data)
    shutil.copytree(rated, copy)
    manifest = json.loads((rated / "manifest.json").read_text())
    manifest["settings"]["data"] = str(data)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    draw_labels(copy, n=1, out=tmp_path / "before")
    write_ability(data, 1, *(target_row(f"pa{n}", queries=("Other?",)) for n in range(6)))
    assert "not the data of" in refusal(RunFolderError, copy, out)
    (copy / "summary.json").unlink()
    assert "not finished" in refusal(UsageError, copy, out)


def test_a_folder_that_is_in_use_and_a_draw_of_nothing_are_refused(rated, tmp_path):
    (tmp_path / "labels").mkdir()
    draw_labels(rated, n=1, out=tmp_path / "labels")
    before = (tmp_path / "labels" / "items.jsonl").read_bytes()
    assert f"out={tmp_path / 'labels'}" in refusal(UsageError, rated, tmp_path / "labels", seed=1)
    assert (tmp_path / "labels" / "items.jsonl").read_bytes() == before
    (tmp_path / "file").write_text("")
    assert "already exists" in refusal(UsageError, rated, tmp_path / "file")
    assert "n=0" in refusal(UsageError, rated, tmp_path / "new", n=0)


@pytest.mark.parametrize(
    "broken", [{"outcome": "fine"}, {"prediction": {"x": 1}}, {"prediction": {"answer": [1]}}]
)
def test_a_prediction_that_can_not_be_read_is_named(rated, tmp_path, broken):
    changed, row = with_first(rated, tmp_path / "run", **broken)
    said = refusal(RunFolderError, changed, tmp_path / "x")
    assert f"{row['track']}/{row['benchmark_id']}" in said
