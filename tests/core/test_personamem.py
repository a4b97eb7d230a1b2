"""`task=personamem`, as a user runs it: published answers, generated users, and a served model;
what `alps show` and the report say of its records.
"""

import json
import shutil
import sys
from hashlib import sha256
from itertools import takewhile

import pytest

from alps.tasks.personamem import drawn
from alps.tasks.personamem.release import open_personamem
from tests.few import few
from tests.loopback import Answer, serve
from tests.pages import Page
from tests.persona_runs import (
    PUBLISHED,
    asked_of,
    figures,
    is_judge,
    published,
    rows,
    run,
    score_published,
    served,
    settings_of,
    summary,
)

TYPES = {
    "recalling_facts_mentioned_by_the_user": (0.176, 0.765, 0.471),
    "recall_user_shared_facts": (0.434, 0.667, 0.667),
    "suggest_new_ideas": (0.333, 0.538, 0.258),
    "track_full_preference_evolution": (0.655, 0.640, 0.576),
    "recalling_the_reasons_behind_previous_updates": (0.737, 0.758, 0.768),
    "provide_preference_aligned_recommendations": (0.309, 0.636, 0.673),
    "generalizing_to_new_scenarios": (0.088, 0.526, 0.649),
}
"""What the benchmark's authors published of GPT-4o without memory, with RAG and with Mem0."""


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@published
@pytest.mark.parametrize(
    ("name", "place", "micro", "macro"),
    few([("none", 0, 0.469, 0.390), ("rag", 1, 0.642, 0.647), ("mem0", 2, 0.591, 0.580)]),
)
def test_published_answers_get_their_published_figures(alps, tmp_path, name, place, micro, macro):
    score_published(alps, name)
    found = figures(tmp_path / "run")
    expected = {kind: values[place] for kind, values in TYPES.items()}
    expected |= {"accuracy": micro, "macro_accuracy": macro}
    assert {kind: round(found[kind], 3) for kind in expected} == expected


@pytest.mark.release
@published
def test_length_alone_gets_what_is_known_and_nothing_once_it_is_adjusted_for(alps, tmp_path):
    run(alps, f"data={PUBLISHED}", "model=floor/longest")
    found = figures(tmp_path / "run")
    by_type = summary(tmp_path / "run")["floors"]["floor/length-by-type"]["scores"]
    assert (round(found["accuracy"], 3), round(found["macro_accuracy"], 3)) == (0.505, 0.587)
    assert by_type["accuracy"]["value"] == pytest.approx(0.661, abs=0.0005)
    assert found["leak_adjusted"] == pytest.approx(0, abs=0.02)
    assert by_type["leak_adjusted"]["value"] == pytest.approx(0, abs=0.02)


def test_the_samples_need_no_data_and_no_network(alps, tmp_path):
    done = run(alps, "model=oracle")
    found = summary(tmp_path / "run")
    assert found["n"] == found["scored"] == 210
    assert set(figures(tmp_path / "run").values()) == {1.0}
    assert "judged by" not in done.stdout
    floors = {name: floor["scores"]["accuracy"]["value"] for name, floor in found["floors"].items()}
    assert "floor/length-by-type" in floors
    assert all(0.1 < value < 0.4 for value in floors.values()), floors


@pytest.fixture
def asked(alps):
    """Run 14 questions against a served model; return what it was asked."""

    def ask(*words, answer=lambda request: Answer('{"choice": "a"}'), code=0):
        limit = () if any(word.startswith("limit=") for word in words) else ("limit=14",)
        _, server = served(alps, *limit, *words, answer=answer, code=code)
        return [asked_of(request) for request in server.requests]

    return ask


def timeline_answer(request):
    """Answer from what the history says, as a careful reader would, where it can tell."""
    shown = asked_of(request)
    told = " ".join(turn["text"] for turn in shown["history"] if turn["role"] == "user")
    places = {letter: told.rfind(text) for letter, text in names_in(shown["options"]).items()}
    return Answer(json.dumps({"choice": max(places, key=places.get), "reason": "said last"}))


def names_in(options):
    """Return of each option what the others don't have: the words that tell them apart."""
    texts = list(options.values())
    start, end = alike(texts), alike([text[::-1] for text in texts])
    return {letter: text[start : len(text) - end] for letter, text in options.items()}


def alike(texts):
    """Return how many letters all of the texts begin with together."""
    together = zip(*texts, strict=False)
    return sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, together))


def test_a_served_model_is_shown_the_history_before_the_question(asked, tmp_path):
    shown = asked(answer=timeline_answer)
    assert {tuple(one) for one in shown} == {("history", "message", "options")}
    assert min(len(one["history"]) for one in shown) > 100
    assert summary(tmp_path / "run")["failed_predictions"] == {}
    scored = rows(tmp_path / "run", "scores")
    assert "recalling_facts_mentioned_by_the_user" in {row["type"] for row in scored}
    assert all(set(row["scores"].values()) <= {0.0, 1.0} for row in scored)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("memory", "length"), [("none", [0]), ("last:3", [3]), ("full", range(100, 1000))]
)
def test_memory_says_what_of_the_history_is_shown(asked, tmp_path, memory, length):
    assert {len(one["history"]) for one in asked(f"memory={memory}")} <= set(length)
    assert settings_of(tmp_path / "run").get("memory", "full") == memory


def test_a_memory_shows_what_it_finds_or_what_the_data_name(asked, tmp_path):
    shown = asked("memory=bm25", "k=3")
    assert {(len(one["history"]), len(one["known_about_user"])) for one in shown} == {(0, 3)}
    told = [row["shown"] for row in rows(tmp_path / "run")]
    assert all(one["memories"] == 3 and one["tokens"] > 0 for one in told)
    assert summary(tmp_path / "run")["memory"] == "bm25"
    shutil.rmtree(tmp_path / "run")
    assert {len(one["history"]) for one in asked("memory=oracle")} == {2}
    told = [row["shown"] for row in rows(tmp_path / "run")]
    assert all(len(one["positions"]) == one["turns"] for one in told)


def test_a_bound_of_tokens_cuts_the_oldest_messages(asked):
    for one in asked("max_context_tokens=500"):
        assert 0 < len(one["history"]) < 100
        assert sum(len(turn["text"].encode()) for turn in one["history"]) <= 2_000


def test_the_biography_is_left_out_where_the_persona_is_hidden(asked):
    shown = asked("persona=hidden", "limit=3")
    assert all(turn["role"] != "system" for one in shown for turn in one["history"])


@pytest.mark.release
def test_a_comparison_knows_that_questions_of_one_persona_belong_together(alps, tmp_path):
    for name in ("longest", "random"):
        run(alps, f"model=floor/{name}", out=name)
    done = alps("compare", "longest", "random", "metrics=all")
    assert done.returncode == 0, done.stderr
    assert "210 shared records from 6 sessions" in done.stdout
    assert alps("report", "longest", "random", "out=page.html").returncode == 0
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    # The name of the task has the size already.
    assert "PersonaMem 32k: scores and baselines" in page.text


def test_personas_are_written_by_a_command(alps, tmp_path):
    done = alps("data", "personas", "out=made", "n=2", "language=zh")
    assert done.stdout == "70 questions about 2 personas: made\n", done.stderr
    run(alps, "data=made", "model=oracle")
    assert summary(tmp_path / "run")["n"] == 70


WITH_GOLD = """
class Peeks:
    settings = {}

    def predict(self, sample):
        known = {name: getattr(sample, name) for name in dir(sample) if name[0] != "_"}
        assert set(known) == {
            "benchmark_id", "session_id", "history", "memories", "message", "options"
        }, sorted(known)
        return {"choice": "abcd"[len(sample.history) % 4]}
"""
ECHO = """
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    assert set(row["input"]) == {"history", "message", "options"}, row
    print(json.dumps({"benchmark_id": row["benchmark_id"], "choice": "b"}), flush=True)
"""


def test_a_class_and_a_program_are_shown_history_message_and_options_alone(alps, tmp_path):
    (tmp_path / "peeks.py").write_text(WITH_GOLD)
    (tmp_path / "echo.py").write_text(ECHO)
    models = {"class": "python:peeks:Peeks", "program": f"program:{sys.executable} echo.py"}
    for name, model in models.items():
        run(alps, f"model={model}", "limit=20", out=name)
        assert [row["outcome"] for row in rows(tmp_path / name)] == ["ok"] * 20


# A record, as it is shown


def show(alps, *words):
    done = alps("show", *words)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    return done.stdout


@pytest.mark.parametrize(
    ("back", "total", "place"), [(100, 100, 0), (0, 100, 43), (50, 100, 22), (120, 100, 0)]
)
def test_the_evidence_is_drawn_where_it_lies(back, total, place):
    line = drawn(back, total)
    assert line.index("●") == place + 1
    assert line.index("┤") == 45


@pytest.mark.release
@published
def test_a_published_question_is_shown_with_its_evidence_and_marked_options(alps):
    score_published(alps, "none")
    text = show(alps, "run", "acd74206")  # the first one
    assert "message 14; 25,010 tokens, 5 sessions before the question" in text
    assert "14 user  ◂ evidence" in text
    assert "├───●─" in text
    lines = [line.strip() for line in text.splitlines()]
    marks = {}
    for place, line in enumerate(lines):
        if line in ("chosen", "gold", "the length rule's pick"):
            before = [earlier[0] for earlier in lines[:place] if earlier[1:2] == " "]
            marks[line] = before[-1]
    assert marks == {"chosen": "b", "gold": "c", "the length rule's pick": "d"}
    # Of the other personas the histories are not in the sample.
    other = show(alps, "run", "589")
    assert "History" not in other
    assert "not found in the history" in other


@pytest.mark.release
def test_a_page_shows_the_same_parts(alps, tmp_path):
    run(alps, "model=floor/longest")
    done = alps("report", "run", "out=page.html")
    assert done.returncode == 0, done.stderr
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    for said in ("History, around the evidence", "◂ evidence", "the length rule's pick", "├─"):
        assert said in page.text
    assert "where the length rule is" in page.text


def test_without_its_data_a_record_still_says_what_was_chosen(alps, tmp_path):
    assert alps("data", "personas", "out=made", "n=1").returncode == 0
    run(alps, "data=made", "model=floor/longest", "limit=3")
    (tmp_path / "made" / "questions_32k.csv").rename(tmp_path / "gone.csv")
    text = show(alps, "run", "1")
    assert "data not readable, so dialogues and gold are not shown" in text
    assert "chosen" in text
    assert "gold" in text


def test_a_record_says_what_a_memory_showed(alps):
    def answer(request):
        return Answer('{"choice": "a", "reason": "It was said so."}')

    showed = {
        "bm25": ["5 memories ("],
        "last:4": ["4 turns ("],
        "oracle": ["2 turns (", ", with the evidence", "It was said so."],
    }
    for memory, parts in showed.items():
        out = memory.replace(":", "-")
        served(alps, f"memory={memory}", "limit=1", answer=answer, out=out)
        text = show(alps, out, "1")
        assert [part for part in parts if part not in text] == []


# Every question whose real history is there, from file to score


def by_what_was_asked(request):
    """Answer by what was asked alone: as a judge, with a letter and why, or in plain words."""
    text = request["messages"][1]["content"]
    letter = "abcd"[sha256(text.encode()).digest()[0] % 4]
    if is_judge(request):
        return Answer(json.dumps({"reason": "so it says", "option": letter}))
    shown = asked_of(request)
    reason = f"{len(shown['history'])} messages were read"
    if "options" not in shown:
        return Answer(f"As you like it now: {letter}, as {reason}.")
    return Answer(json.dumps({"choice": letter, "reason": reason}))


@pytest.mark.release
@published
@pytest.mark.parametrize("setting", ["choice", "free"])
def test_every_question_is_asked_with_exactly_its_history_answered_and_scored(
    alps, tmp_path, monkeypatch, setting
):
    monkeypatch.setenv("ALPS_CACHE", "off")  # some are asked again with the same history
    with serve(by_what_was_asked) as server:
        model = ("model=openai/scripted", f"api_base={server.url}", f"answer={setting}")
        judge = ("judge=openai/judge", f"judge_api_base={server.url}", "baseline_records=0")
        words = (*model, *(judge if setting == "free" else ()))
        run(alps, f"data={PUBLISHED}", "limit=17", *words)
    opened = open_personamem(PUBLISHED)
    questions = [question for question in opened.read() if opened.holds(question)]
    shown = [asked_of(request) for request in server.requests if not is_judge(request)]
    letters = [sum(len(turn["text"]) for turn in one["history"]) for one in shown]
    assert len(shown) == len(questions) == 17
    assert sorted(zip([one["message"] for one in shown], letters, strict=True)) == sorted(
        (question.message, question.letters) for question in questions
    )
    options = {len(one.get("options", ())) for one in shown}
    assert options == ({4} if setting == "choice" else {0})
    found = summary(tmp_path / "run")
    assert found["n"] == found["scored"] == 17
    gold = {question.id: "abcd"[question.gold] for question in questions}
    for row in rows(tmp_path / "run", "scores"):
        assert row["gold"] == gold[row["benchmark_id"]]
        assert row["scores"]["accuracy"] == float(row["choice"] == row["gold"])
