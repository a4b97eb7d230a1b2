"""Questions of PersonaMem under several orders of their options, as a user runs them."""

import json
import sys
import textwrap
from collections import Counter

import pytest

from alps.tasks import TaskOptions, load_task
from alps.tasks.personamem.formats import orders_of
from tests.loopback import Answer, serve
from tests.persona_runs import rows, summary

QUESTIONS = 3


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def asked_of(request):
    return json.loads(request["messages"][1]["content"])


def choosing(letter):
    return Answer(json.dumps({"choice": letter, "reason": "so"}))


def served(alps, *words, answer, out="run"):
    with serve(answer) as server:
        done = alps(
            *("run", "task=personamem", "model=openai/scripted", f"api_base={server.url}"),
            *(f"out={out}", f"limit={QUESTIONS}", "memory=none", *words),
        )
        return done, [asked_of(request) for request in server.requests]


def first_by_text(request):
    """Choose an option for what it says, wherever it stands."""
    options = asked_of(request)["options"]
    return choosing(min(options, key=options.get))


@pytest.mark.few(1)
@pytest.mark.parametrize("n", [4, 24])
def test_each_option_stands_at_each_letter_equally_often(alps, n):
    done, asked = served(alps, f"orders={n}", answer=lambda request: choosing("a"))
    assert done.returncode == 0, done.stderr
    assert len(asked) == n * QUESTIONS
    shown = Counter(tuple(one["options"].values()) for one in asked)
    assert set(shown.values()) == {1}
    places = Counter((letter, text) for one in asked for letter, text in one["options"].items())
    assert set(places.values()) == {n // 4}


def test_a_letter_chosen_for_its_place_is_seen(alps, tmp_path):
    served(alps, "orders=4", answer=lambda request: choosing("b"))
    found = summary(tmp_path / "run")
    values = {name: score["value"] for name, score in found["scores"].items()}
    assert (values["accuracy"], values["consistency"], values["letter_pull"]) == (0.25, 0.0, 0.75)
    assert found["counts"]["letter_b"] == found["counts"]["letters"] == 4 * QUESTIONS
    assert (
        "Share of choices per letter, over all orders of the options: a 0%, b 100%, c 0%, d 0%."
        in " ".join(alps("show", "run").stdout.split())
    )
    assert found["floors"]["floor/frequent-letter"]["scores"]["accuracy"]["value"] == 0.25


def test_a_choice_of_the_same_option_under_all_orders_is_consistent(alps, tmp_path):
    served(alps, "orders=4", answer=first_by_text)
    scores = summary(tmp_path / "run")["scores"]
    assert (scores["consistency"]["value"], scores["letter_pull"]["value"]) == (1.0, 0.0)
    for row in rows(tmp_path / "run", "predictions"):
        choices = row["prediction"]["choices"]
        assert len({choice["order"] for choice in choices}) == 4
        assert len({choice["choice"] for choice in choices}) == 1


@pytest.mark.release
def test_one_order_is_the_question_as_it_stands(alps, tmp_path):
    served(alps, "orders=4", answer=first_by_text)
    several = {row["benchmark_id"]: row for row in rows(tmp_path / "run", "predictions")}
    served(alps, answer=first_by_text, out="one")
    served(alps, "orders=1", answer=first_by_text, out="given")
    for name in ("predictions.jsonl", "scores.jsonl"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "given" / name).read_bytes()
    settings = json.loads((tmp_path / "given" / "manifest.json").read_text())["settings"]
    assert "orders" not in settings
    for row in rows(tmp_path / "one", "predictions"):
        choices = several[row["benchmark_id"]]["prediction"]["choices"]
        assert {choice["choice"] for choice in choices} == {row["prediction"]["choice"]}


@pytest.mark.release
def test_a_failed_order_is_wrong_and_the_others_count(alps, tmp_path):
    def answer(request):
        options = asked_of(request)["options"]
        first = options["a"] == min(options.values())
        return choosing("a or b") if first else first_by_text(request)

    served(alps, "orders=4", answer=answer)
    found = summary(tmp_path / "run")
    assert found["n"] == found["scored"] == QUESTIONS
    assert found["counts"]["invalid_two_answers"] == QUESTIONS
    assert f"Invalid responses by kind: two answers ({QUESTIONS})." in alps("show", "run").stdout
    assert set(found["scores"]) > {"consistency"}
    assert found["scores"]["consistency"]["value"] == 0.0
    credits = {row["scores"]["accuracy"] for row in rows(tmp_path / "run", "scores")}
    assert credits <= {0.0, 0.75}


@pytest.mark.release
def test_an_order_that_was_not_heard_leaves_the_question_unscored(alps, tmp_path):
    def answer(request):
        options = asked_of(request)["options"]
        first = options["a"] == min(options.values())
        return Answer(status=500) if first else first_by_text(request)

    served(alps, "orders=4", "patience=0", answer=answer)
    found = summary(tmp_path / "run")
    assert (found["scored"], found["unscored"]) == (0, QUESTIONS)


def test_a_program_is_not_told_which_order_it_sees(alps, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import json, sys
        for line in sys.stdin:
            with open("seen.jsonl", "a") as file:
                file.write(line)
            name = json.loads(line)["benchmark_id"]
            print(json.dumps({"benchmark_id": name, "choice": "c"}), flush=True)
        """)
    )
    done = alps(
        *("run", "task=personamem", f"model=program:{sys.executable} {program}", "orders=4"),
        *("memory=none", f"limit={QUESTIONS}", "out=run"),
    )
    assert done.returncode == 0, done.stderr
    found = summary(tmp_path / "run")
    assert found["scores"]["letter_pull"]["value"] == 0.75
    seen = next(tmp_path.rglob("seen.jsonl"))
    by_name = {}
    for line in seen.read_text().splitlines():
        row = json.loads(line)
        by_name.setdefault(row["benchmark_id"], []).append(row["input"]["options"])
    assert [len(options) for options in by_name.values()] == [4] * QUESTIONS
    known = {row["benchmark_id"] for row in rows(tmp_path / "run", "predictions")}
    assert by_name.keys().isdisjoint(known)


def test_a_prediction_that_lacks_an_order_is_asked_for_again(alps, tmp_path):
    words = ("run", "task=personamem", "model=floor/longest", "orders=4", "limit=2", "out=run")
    alps(*words)
    whole = (tmp_path / "run" / "predictions.jsonl").read_bytes()
    first, second = rows(tmp_path / "run", "predictions")
    first["prediction"]["choices"].pop()
    lines = "".join(json.dumps(row) + "\n" for row in (first, second))
    (tmp_path / "run" / "predictions.jsonl").write_text(lines)
    done = alps(*words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "predictions.jsonl").read_bytes() == whole


def test_a_dry_run_counts_every_order(alps):
    for n in (1, 4, 24):
        done = alps(
            *("run", "task=personamem", "model=openai/scripted", "dry_run=true", "memory=none"),
            *(f"orders={n}", f"limit={QUESTIONS}"),
        )
        assert done.returncode == 0, done.stderr
        line = next(line for line in done.stdout.splitlines() if ", answers " in line)
        assert line.partition(", answers ")[2].split()[0] == str(n * QUESTIONS)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("model=oracle", "orders=3"), "orders=3: must be 1, 4 or 24"),
        (
            ("model=predictions:known", "orders=4"),
            "several variants of each record (orders=4, size=32k)",
        ),
        (("model=rules", "task=extraction", "orders=4"), "only task personamem uses orders="),
        (("model=oracle", "answer=free", "orders=4"), "would change nothing: answer=free"),
    ],
)
def test_orders_that_cannot_be_asked_are_one_line(alps, words, said):
    alps("run", "task=personamem", "model=oracle", "limit=1", "out=known")
    task = () if any(word.startswith("task=") for word in words) else ("task=personamem",)
    done = alps("run", *task, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_answers_under_other_orders_than_those_that_were_asked_are_refused():
    task = load_task("personamem", TaskOptions(orders=4))
    sample = next(task.data.open_records("samples", TaskOptions(orders=4)).samples())
    orders = ["".join("abcd"[place] for place in order) for order in orders_of(sample, n=4, seed=0)]
    choices = [{"order": order, "choice": "a"} for order in orders]
    task.fits(sample, {"choices": choices[::-1]})
    for wrong in (
        choices[1:],
        [*choices[1:], choices[1]],
        [*choices[1:], {**choices[0], "order": "badc"}],
    ):
        with pytest.raises(ValueError, match="expected one for each of the 4 orders"):
            task.fits(sample, {"choices": wrong})
