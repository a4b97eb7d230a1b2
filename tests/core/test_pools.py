import json
import re
from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from scipy.stats import binom, chisquare

from alps.data.pools import PoolSource
from alps.data.release import open_split, read_track, write_track
from alps.errors import UsageError
from alps.ext.datasets import write_pools
from alps.ext.datasets.audit import audit
from alps.similarity import THRESHOLD, similarity
from alps.systems import floor_systems
from alps.tasks import load_task
from alps.tasks.retrieval import read_sample
from alps.text import fold
from tests.builders import memory
from tests.endtoend import files_of, write_rows
from tests.few import few
from tests.tracks import alps_here, scores_of, track_of

RETRIEVAL = load_task("retrieval")
SYLLABLES = ("ka", "lo", "mi", "ru", "te", "va", "zo", "pe", "nu", "si")
SESSION = "session_{:03}"
SELECTED = "reference_output.jsonl, line 2, gold.selected_memory:"


def word(number):
    """Return a word of its own for every number below a thousand."""
    return "".join(SYLLABLES[number // 10**place % 10] for place in range(3)) + "n"


def value(number):
    """Return a value that is not nearly any other below a thousand."""
    return f"The {word(number)} of {word((7 * number + 3) % 1000)}"


def wanted(number):
    """Return what the gold of a query says."""
    return value(500 + number)


def query_row(number, *, text=None, session=None, said=None):
    name = f"q{number:03}"
    ids = {"benchmark_id": name, "task": "task3", "session_id": session or SESSION.format(number)}
    chosen = {"memory_id": "m2", "value": said or wanted(number), "label": "x"}
    gold = {**ids, "gold": {"selected_memory_id": "m2", "selected_memory": chosen}}
    return {**ids, "input": {"query": text or f"Query {number}?", "dialogue": []}}, gold


def talk_row(number, *values):
    ids = {"benchmark_id": f"t{number:03}", "task": "task1", "session_id": SESSION.format(number)}
    items = [memory(text, memory_id=f"m{n}").model_dump() for n, text in enumerate(values, start=1)]
    return {**ids, "input": {"dialogue": [{"role": "user", "text": "hi"}]}}, {
        **ids,
        "gold": {"memory_items": items},
    }


def write(folder, *more, queries, memories, each=4):
    """Write `queries` queries, and `more` talks before `memories` memories, `each` a session,
    beginning with those of the queries.
    """
    numbers = range(0, memories, each)
    talks = [
        talk_row(n, *map(value, range(k, min(k + each, memories)))) for n, k in enumerate(numbers)
    ]
    write_track(folder / "dev" / "task1", [*more, *talks])
    write_track(folder / "dev" / "task3", [query_row(n) for n in range(queries)])
    return folder


def source(folder, seed=0):
    return PoolSource(open_split(str(folder), None), seed=seed)


def pools(folder, size, seed=0):
    """Return the candidates' values of every pool, and the place of its gold."""
    found = {}
    for row, gold in source(folder, seed).rows(size):
        ids = [item["memory_id"] for item in row["input"]["candidate_memories"]]
        values = [item["value"] for item in row["input"]["candidate_memories"]]
        found[row["benchmark_id"]] = values, ids.index(gold["gold"]["selected_memory_id"])
    return found


def drawn(folder, size, seed=0):
    return {
        name: [*values[:place], *values[place + 1 :]]
        for name, (values, place) in pools(folder, size, seed).items()
    }


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Commands work in the folder of the test."""
    monkeypatch.chdir(tmp_path)


def test_the_same_seed_gives_the_same_bytes_and_another_one_other_pools(tmp_path):
    write(tmp_path / "data", queries=12, memories=160)
    data = str(tmp_path / "data")
    for out, seed in (("one", 5), ("two", 5), ("three", 6)):
        list(write_pools(data, None, out=str(tmp_path / out), sizes=[100], seed=seed))
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    one, three = (drawn(tmp_path / "data", 100, seed) for seed in (5, 6))
    assert all(set(one[name]) != set(three[name]) for name in one)


def test_a_pool_does_not_depend_on_the_other_queries_order(tmp_path):
    write(tmp_path / "one", queries=6, memories=160)
    write(tmp_path / "two", queries=6, memories=160)
    write_track(tmp_path / "two" / "dev" / "task3", [query_row(n) for n in reversed(range(6))])
    one, two = pools(tmp_path / "one", 100), pools(tmp_path / "two", 100)
    assert list(one) == list(reversed(two))
    assert all(place == two[name][1] for name, (_, place) in one.items())


def test_pools_have_their_size_and_opaque_ids_in_order_and_the_gold_once(tmp_path):
    write(tmp_path, queries=5, memories=160)
    for row, gold in source(tmp_path).rows(100):
        pool = row["input"]["candidate_memories"]
        assert [item["memory_id"] for item in pool] == [f"c{n:03}" for n in range(1, 102)]
        assert {tuple(item) for item in pool} == {("memory_id", "value")}
        name = gold["gold"]["selected_memory_id"]
        chosen = next(item for item in pool if item["memory_id"] == name)
        assert chosen == gold["gold"]["selected_memory"]
        number = int(row["benchmark_id"][1:])
        assert chosen["value"] == wanted(number)
        assert [item["value"] for item in pool].count(chosen["value"]) == 1
        assert row["input"]["query"] == f"Query {number}?"


@pytest.mark.parametrize("seed", few([0, 1, 2], plain={0}))
def test_the_place_of_the_gold_is_uniform_and_so_is_that_of_a_distractor(tmp_path, seed):
    write(tmp_path, queries=400, memories=24, each=1)
    size = 9
    found = pools(tmp_path, size, seed)
    golds = Counter(place for _, place in found.values())
    assert chisquare([golds[place] for place in range(size + 1)]).pvalue > 0.001
    pools_with_it = [values for values, _ in found.values() if value(23) in values]
    watched = Counter(values.index(value(23)) for values in pools_with_it)
    even = chisquare([watched[place] for place in range(size + 1)]).pvalue > 0.001
    assert even or len(pools_with_it) < 20


def test_generated_memories_come_in_only_where_the_others_do_not_suffice_and_stand_anywhere(
    tmp_path,
):
    write(tmp_path, queries=300, memories=24, each=1)
    made = source(tmp_path)
    del made._shapes[24:]
    for shape in made._shapes[12:]:
        shape.memory = replace(shape.memory, generated=True)
    known = {one.value for one in made.bank[:12]}
    places = Counter()
    for row, _ in made.rows(18):
        shown = [item["value"] for item in row["input"]["candidate_memories"]]
        places.update(n for n, text in enumerate(shown) if text in known)
        own = {value(int(row["benchmark_id"][1:]))} & known
        assert known - own <= set(shown)
    assert chisquare([places[place] for place in range(19)]).pvalue > 0.001
    assert 0.3 < made.generated_share(18) < 0.45


def test_nothing_comes_from_the_session_of_the_query(tmp_path):
    write(tmp_path, queries=30, memories=240, each=6)
    for name, values in drawn(tmp_path, 180).items():
        number = int(name[1:])
        own = {value(n) for n in range(6 * number, 6 * number + 6)}
        assert not own & set(values)
    assert len({value for values in drawn(tmp_path, 180).values() for value in values}) > 200


def test_a_memory_that_is_gold_elsewhere_stands_in_other_pools_so_that_being_rare_tells_nothing(
    tmp_path,
):
    write(tmp_path, queries=60, memories=120)
    found = pools(tmp_path, 100)
    times = Counter(value for values, _ in found.values() for value in values)
    golds = [values[place] for values, place in found.values()]
    rarest = [min(values, key=lambda text: (times[text], text)) for values, _ in found.values()]
    hits = sum(one == gold for one, gold in zip(rarest, golds, strict=True))
    assert min(times[gold] for gold in golds) > 10
    assert binom.sf(hits - 1, len(golds), 1 / 101) > 0.001


def test_no_value_stands_twice_or_nearly_twice_in_a_pool_and_none_is_like_the_gold(tmp_path):
    twins = talk_row(900, value(7).upper(), f"The user has {value(8)}", f" {value(9)} ")
    near_gold = talk_row(901, f"Would like {wanted(0)}", wanted(1).upper().replace(" ", "  "))
    write(tmp_path, twins, near_gold, queries=3, memories=120)
    for name, (values, place) in pools(tmp_path, 115).items():
        assert len({fold(text) for text in values}) == len(values)
        assert max(similarity(*pair) for pair in combinations(values, 2)) < THRESHOLD
        assert values[place] == wanted(int(name[1:]))


def test_the_distractors_of_a_smaller_pool_stand_in_every_larger_one(tmp_path):
    write(tmp_path, queries=8, memories=330)
    small, middle, large = (drawn(tmp_path, size) for size in (20, 100, 300))
    for name in small:
        assert set(small[name]) < set(middle[name]) < set(large[name])


def test_rejected_memories_are_no_distractors_and_a_rejected_gold_does_not_show_its_mark(tmp_path):
    marked = talk_row(950, "Owns a yacht [ERROR: a joke]", "Owns a barge")
    write(tmp_path, marked, queries=3, memories=120)
    golds = [query_row(0, said=" Flies a kite [ERROR: unclear] "), query_row(1)]
    write_track(tmp_path / "dev" / "task3", golds)
    found = pools(tmp_path, 110)
    values, place = found["q000"]
    assert values[place] == "Flies a kite"
    everything = {text for values, _ in found.values() for text in values}
    assert "Owns a barge" in everything
    assert not [text for text in everything if "ERROR" in text or "yacht" in text]
    assert {text.strip() for text in everything} == everything


def test_memories_come_from_every_task_and_from_the_session_that_their_row_names(tmp_path):
    split = tmp_path / "dev"
    write_track(
        split / "task3", [query_row(0, session="s-update"), query_row(1, session="s-other")]
    )
    item = [memory(value(n), memory_id=f"m{n}").model_dump() for n in range(8)]
    update = {"benchmark_id": "u1", "session_id": "s-update"}
    write_track(
        split / "task2",
        [({**update, "input": {"memory": item[:2]}}, {**update, "gold": {"answer": item[1:4]}})],
    )
    use = {"benchmark_id": "p1", "session_id": "s-use"}
    known = {"selected_memory": item[4], "extracted_memory": item[4:7]}
    write_track(
        split / "task4_ability3", [({**use, "input": {"query": "?"}}, {**use, "gold": known})]
    )
    write_track(split / "task1", [({"benchmark_id": "alone", "input": {}}, None)])
    of_update = {value(n) for n in range(4)}
    of_use = {value(n) for n in range(4, 7)}
    assert set(drawn(tmp_path, 4)["q000"]) == of_use | {wanted(1)}
    write_track(split / "task3", [query_row(1, session="s-other")])
    assert set(drawn(tmp_path, 7)["q001"]) == of_update | of_use


def test_a_bank_beside_the_queries_gives_memories_with_their_sessions_and_its_bad_lines_are_named(
    tmp_path,
):
    write(tmp_path / "data", queries=2, memories=8)
    bank = tmp_path / "data" / "dev" / "task3" / "bank.jsonl"
    values = [value(100 + n) for n in range(10)]
    lines = []
    for n, text in enumerate(values):
        name = {"memory_id": f"b{n}", "session_id": SESSION.format(n % 2)}
        lines.append({**name, "value": text, "label": "Possessions/Pet"})
    write_rows(bank, lines)
    found = drawn(tmp_path / "data", 10)
    banked = {name: set(texts) & set(values) for name, texts in found.items()}
    assert banked == {f"q00{n}": {value(100 + k) for k in range(10) if k % 2 != n} for n in (0, 1)}
    bank.write_text(bank.read_text() + '{"memory_id": "b99", "value": ""}\n')
    words = ("data", "pools", "data=data", "out=out")
    assert "bank.jsonl, line 11" in alps_here(*words).one_line


@pytest.mark.parametrize("name", floor_systems(RETRIEVAL))
def test_floors_find_no_more_than_chance_in_built_pools(tmp_path, name):
    write(tmp_path, queries=150, memories=130)
    hits = total = 0
    for row, gold in source(tmp_path).rows(100):
        asked = read_sample(row, gold)
        answer = floor_systems(RETRIEVAL)[name].answer_at_once(RETRIEVAL, asked)
        hits += answer.prediction["selected_memory_id"] == asked.gold
        total += 1
    assert total == 150
    assert binom.sf(hits - 1, total, 1 / 101) > 0.001


def test_written_pools_have_the_release_layout_and_run_gives_the_scores_of_pools_built_on_the_fly(
    tmp_path,
):
    write(tmp_path / "data", queries=10, memories=160)
    made = alps_here("data", "pools", "data=data", "distractors=100", "out=new/pools")
    assert made.code == 0, made.err
    assert "pools/dev/task3/d100: 10 pools of 100 distractors" in made.out
    folder = tmp_path / "new" / "pools" / "dev" / "task3" / "d100"
    names = {path.name for path in folder.iterdir()}
    assert names == {"model_input.jsonl", "reference_output.jsonl"}
    for data, out in (("data", "fly"), ("new/pools", "written")):
        words = ("run", "task=retrieval", "model=bm25", f"data={data}", f"out={out}")
        assert alps_here(*words).code == 0
    fly, written = (scores_of(tmp_path / name) for name in ("fly", "written"))
    assert fly == written
    assert len(fly) == 10
    one, other = (tmp_path / name / "predictions.jsonl" for name in ("fly", "written"))
    assert one.read_bytes() == other.read_bytes()
    built = track_of(tmp_path / "fly", "task3_d100")
    assert built["pools"] == {"seed": 0, "generated": 0.0}
    assert built["scores"] == track_of(tmp_path / "written", "task3_d100")["scores"]


def test_another_seed_of_a_run_is_another_experiment_on_other_pools(tmp_path):
    write(tmp_path / "data", queries=10, memories=160)
    words = ("run", "task=retrieval", "model=floor/random", "data=data")
    assert alps_here(*words, "out=out").code == 0
    assert "settings.seed" in alps_here(*words, "seed=1", "out=out").one_line
    alps_here(*words, "seed=1", "out=other")
    manifests = [json.loads(Path(name, "manifest.json").read_text()) for name in ("out", "other")]
    assert manifests[0]["data"] != manifests[1]["data"]


def test_an_audit_of_written_pools_finds_nothing_serious(tmp_path):
    write(tmp_path / "data", queries=60, memories=340)
    made = alps_here("data", "pools", "data=data", "out=pools", "seed=3")
    assert made.code == 0, made.err
    assert len(made.out.splitlines()) == 5
    report = audit(str(tmp_path / "pools"), None)
    assert [looked.track for looked in report.tracks] == ["task3/d100", "task3/d300"]
    assert [finding for finding in report.findings if finding.severity == "serious"] == []


@pytest.mark.parametrize("command", ["data pools", "run task=retrieval model=bm25"])
@pytest.mark.parametrize(
    ("given", "memories", "size"), [("300", 160, "300"), ("all", 60, "100")], ids=["one", "all"]
)
def test_too_few_memories_are_said_in_one_line_with_their_number_and_nothing_is_written(
    tmp_path, command, given, memories, size
):
    write(tmp_path / "data", queries=3, memories=memories)
    words = (*command.split(), f"distractors={given}", "data=data", "out=out")
    error = alps_here(*words).one_line
    assert f"distractors={size}" in error
    assert re.search(rf" has {memories // 10 - 1}\d memories ", error)
    assert "q000" in error
    assert not (tmp_path / "out").exists()


def test_sizes_that_the_memories_do_not_reach_are_left_out_by_name(tmp_path):
    write(tmp_path / "data", queries=3, memories=160)
    made = alps_here("data", "pools", "data=data", "out=pools")
    words = ("run", "task=retrieval", "model=bm25", "distractors=all")
    ran = alps_here(*words, "data=data", "out=out")
    assert (made.code, ran.code) == (0, 0)
    assert [path.name for path in (tmp_path / "pools" / "dev" / "task3").iterdir()] == ["d100"]
    for size in (300, 500, 700, 1000):
        assert f"{size} distractors: left out" in made.out
        assert f"Left out: retrieval@{size}" in ran.out


def test_an_out_that_holds_pools_already_is_refused_before_anything_is_written(tmp_path):
    write(tmp_path / "data", queries=3, memories=340)
    words = ("data", "pools", "data=data", "out=pools")
    assert alps_here(*words, "distractors=300").code == 0
    before = files_of(tmp_path / "pools")
    assert "already exists" in alps_here(*words, "distractors=300", "seed=9").one_line
    assert "already exists" in alps_here(*words, "distractors=all").one_line
    assert files_of(tmp_path / "pools") == before
    assert alps_here(*words, "distractors=100").code == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row, gold: row["input"].pop("query"), "model_input.jsonl, line 2, input.query:"),
        (lambda row, gold: row.pop("input"), "model_input.jsonl, line 2, input.query:"),
        (lambda row, gold: gold["gold"].pop("selected_memory"), SELECTED),
        (lambda row, gold: gold["gold"]["selected_memory"].update(value=None), SELECTED),
        (lambda row, gold: gold.update(gold=None), SELECTED),
    ],
)
def test_a_query_that_can_not_be_read_is_named_on_one_line(tmp_path, change, said):
    write(tmp_path / "data", queries=3, memories=160)
    row, gold = query_row(1)
    change(row, gold)
    write_track(tmp_path / "data" / "dev" / "task3", [query_row(0), (row, gold)])
    error = alps_here("data", "pools", "data=data", "out=pools").one_line
    assert said in error
    assert "q001" in error


def test_withheld_gold_gives_no_pool_and_data_without_queries_say_what_is_missing(tmp_path):
    write(tmp_path / "data", queries=3, memories=160)
    write_track(tmp_path / "data" / "dev" / "task3", [query_row(0), (query_row(1)[0], None)])
    words = ("data", "pools", "data=data", "out=pools")
    assert "'q001' has no gold" in alps_here(*words).one_line
    for path in (tmp_path / "data" / "dev" / "task3").iterdir():
        path.unlink()
    assert "retrieval needs queries" in alps_here(*words).one_line


def test_pools_of_another_size_are_built_from_the_queries_of_given_pools(tmp_path):
    write(tmp_path / "data", queries=4, memories=340)
    alps_here("data", "pools", "data=data", "out=data", "distractors=100")
    for path in (tmp_path / "data" / "dev" / "task3").glob("*.jsonl"):
        path.unlink()
    with_300 = drawn(tmp_path / "data", 300)
    assert {len(values) for values in with_300.values()} == {300}
    given = read_track(tmp_path / "data" / "dev" / "task3" / "d100")
    assert set(with_300) == {pair.input["benchmark_id"] for pair in given}


def test_a_source_that_can_not_give_a_pool_says_so_only_when_it_is_asked(tmp_path):
    write(tmp_path, queries=2, memories=40)
    made = source(tmp_path)
    assert len(list(made.rows(30))) == 2
    # Less than the smallest pool: there is no fewer to choose.
    with pytest.raises(UsageError, match="of 'q000'; add memories to the data as"):
        list(made.rows(100))


def test_fewer_distractors_are_proposed_where_a_smaller_pool_can_be_given(tmp_path):
    write(tmp_path, queries=2, memories=140)
    with pytest.raises(UsageError, match="choose fewer distractors, or add memories"):
        list(source(tmp_path).rows(300))
