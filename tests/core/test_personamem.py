"""`task=personamem`, as a user runs it: published answers, generated users, and a served model."""

import json
import shutil
import sys
from itertools import takewhile

import pytest

from alps.tasks.personamem.results import read_reply
from tests.few import few
from tests.loopback import Answer, serve
from tests.persona_runs import PUBLISHED, published, rows, summary

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
    file = PUBLISHED / "predictions" / f"pred_32k_{name}_gpt-4o.csv"
    done = alps(
        "run", "task=personamem", f"data={PUBLISHED}", f"model=predictions:{file}", "out=run"
    )
    assert done.returncode == 0, done.stderr
    scores = summary(tmp_path / "run")["scores"]
    assert round(scores["accuracy"]["value"], 3) == micro
    assert round(scores["macro_accuracy"]["value"], 3) == macro
    assert {kind: round(scores[kind]["value"], 3) for kind in TYPES} == {
        kind: figures[place] for kind, figures in TYPES.items()
    }


@pytest.mark.release
@published
def test_length_alone_gets_what_is_known_and_nothing_once_it_is_adjusted_for(alps, tmp_path):
    done = alps("run", "task=personamem", f"data={PUBLISHED}", "model=floor/longest", "out=run")
    assert done.returncode == 0, done.stderr
    found = summary(tmp_path / "run")
    by_type = found["floors"]["floor/length-by-type"]
    assert [
        round(found["scores"]["accuracy"]["value"], 3),
        by_type["scores"]["accuracy"]["value"],
    ] == [0.505, pytest.approx(0.661, abs=0.0005)]
    assert round(found["scores"]["macro_accuracy"]["value"], 3) == 0.587
    assert found["scores"]["leak_adjusted"]["value"] == pytest.approx(0, abs=0.02)
    assert by_type["scores"]["leak_adjusted"]["value"] == pytest.approx(0, abs=0.02)


def test_the_samples_need_no_data_and_no_network(alps, tmp_path):
    done = alps("run", "task=personamem", "model=oracle", "out=run")
    assert done.returncode == 0, done.stderr
    found = summary(tmp_path / "run")
    assert found["n"] == found["scored"] == 210
    assert {name: score["value"] for name, score in found["scores"].items()} == dict.fromkeys(
        found["scores"], 1.0
    )
    assert "judged by" not in done.stdout
    floors = {name: floor["scores"]["accuracy"]["value"] for name, floor in found["floors"].items()}
    assert "floor/length-by-type" in floors
    assert all(0.1 < value < 0.4 for value in floors.values()), floors


A = '{"choice": "a"}'


def asked_of(request):
    return json.loads(request["messages"][1]["content"])


@pytest.fixture
def served(alps):
    """Run 14 questions against a served model; what was asked is returned, too."""

    def asked(*words, answer=lambda request: Answer(A), code=0):
        limit = () if any(word.startswith("limit=") for word in words) else ("limit=14",)
        with serve(answer) as server:
            model = ("model=openai/scripted", f"api_base={server.url}")
            done = alps("run", "task=personamem", *model, "out=run", *limit, *words)
            assert done.returncode == code, done.stderr
            return [asked_of(request) for request in server.requests]

    return asked


def timeline_answer(request):
    """Answer from what the history says, as a careful reader would, where it can tell."""
    asked = asked_of(request)
    told = " ".join(turn["text"] for turn in asked["history"] if turn["role"] == "user")
    places = {letter: told.rfind(text) for letter, text in names_in(asked["options"]).items()}
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


def test_a_served_model_is_shown_the_history_before_the_question(served, tmp_path):
    asked = served(answer=timeline_answer)
    assert {tuple(one) for one in asked} == {("history", "message", "options")}
    assert min(len(one["history"]) for one in asked) > 100
    assert summary(tmp_path / "run")["failed_predictions"] == {}
    scored = rows(tmp_path / "run", "scores")
    assert "recalling_facts_mentioned_by_the_user" in {row["type"] for row in scored}
    assert all(set(row["scores"].values()) <= {0.0, 1.0} for row in scored)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("memory", "length"), [("none", [0]), ("last:3", [3]), ("full", range(100, 1000))]
)
def test_memory_says_what_of_the_history_is_shown(served, tmp_path, memory, length):
    asked = served(f"memory={memory}")
    assert {len(one["history"]) for one in asked} <= set(length)
    settings = json.loads((tmp_path / "run" / "manifest.json").read_text())["settings"]
    assert settings.get("memory", "full") == memory


def test_a_bound_of_tokens_cuts_the_oldest_messages(served):
    for one in served("max_context_tokens=500"):
        assert 0 < len(one["history"]) < 100
        assert sum(len(turn["text"].encode()) for turn in one["history"]) <= 2_000


CHOICES = {
    '{"choice": "(B)"}': "ok",
    '{"choice": "a or b"}': "invalid",
    '{"choice": "e"}': "invalid",
    "I can't decide.": "refused",
}


def test_what_is_no_single_letter_is_an_invalid_answer(served, tmp_path):
    said, waiting = {}, iter(CHOICES)

    def answer(request):
        message = asked_of(request)["message"]
        if message not in said:  # else it is a re-ask
            said[message] = next(waiting)
        return Answer(said[message])

    served("limit=4", "concurrency=1", answer=answer, code=1)
    found = [row["outcome"] for row in rows(tmp_path / "run", "predictions")]
    assert sorted(found) == sorted(CHOICES.values())


@pytest.mark.release
def test_a_comparison_knows_that_questions_of_one_persona_belong_together(alps):
    for name in ("floor/longest", "floor/random"):
        done = alps("run", "task=personamem", f"model={name}", f"out={name[6:]}")
        assert done.returncode == 0, done.stderr
    done = alps("compare", "longest", "random", "metrics=all")
    assert done.returncode == 0, done.stderr
    assert "210 shared records from 6 sessions" in done.stdout


UNKNOWN = "memory=some: unknown — did you mean 'none'? (known: full, none, last:N, oracle"
REFUSED = [
    (("task=personamem", "memory=some"), {}, UNKNOWN),
    (("task=personamem", "memory=last:0"), {}, "memory=last:0: unknown"),
    (("task=personamem", "data=."), {}, "no questions_32k.csv in it"),
    (("task=extraction", "size=32k"), {}, "size=32k: only task personamem uses size="),
    (("task=extraction", "memory=none"), {}, "memory=none: only task utilization uses memory="),
    (("task=personamem", "data=."), {"questions_32k.csv": b"\xff\xfe\x00p"}, "questions_32k.csv"),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("words", "files", "said"), REFUSED)
def test_what_cannot_be_run_is_one_line(alps, tmp_path, words, files, said):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    model = () if any(word.startswith("model=") for word in words) else ("model=oracle",)
    done = alps("run", *words, *model)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


REPLIES = {
    "Surely (a)… <final_answer> (b)": "b",
    "<final_answer>c</final_answer>": "c",
    "<final_answer>(a) I understand": "a",
    "It is (d).": "d",
    "(a) or (b)": "ab",
    "no letter": "",
}


def test_a_published_reply_is_read_as_its_authors_do():
    assert {reply: read_reply(reply) for reply in REPLIES} == REPLIES


def test_personas_are_written_by_a_command(alps, tmp_path):
    done = alps("data", "personas", "out=made", "n=2", "language=zh")
    assert done.stdout == "70 questions about 2 personas: made\n", done.stderr
    done = alps("run", "task=personamem", "data=made", "model=oracle", "out=run")
    assert done.returncode == 0, done.stderr
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
    for model in ("python:peeks:Peeks", f"program:{sys.executable} echo.py"):
        done = alps("run", "task=personamem", f"model={model}", "limit=20", "out=run")
        assert done.returncode == 0, done.stdout + done.stderr
        answered = rows(tmp_path / "run", "predictions")
        assert [row["outcome"] for row in answered] == ["ok"] * 20
        shutil.rmtree(tmp_path / "run")


def test_a_memory_shows_what_it_finds_or_what_the_data_name(served, tmp_path):
    asked = served("memory=bm25", "k=3")
    assert {(len(one["history"]), len(one["known_about_user"])) for one in asked} == {(0, 3)}
    shown = [row["shown"] for row in rows(tmp_path / "run", "predictions")]
    assert all(one["memories"] == 3 and one["tokens"] > 0 for one in shown)
    assert summary(tmp_path / "run")["memory"] == "bm25"
    shutil.rmtree(tmp_path / "run")
    assert {len(one["history"]) for one in served("memory=oracle")} == {2}
    shown = [row["shown"] for row in rows(tmp_path / "run", "predictions")]
    assert all(len(one["positions"]) == one["turns"] for one in shown)


def test_the_biography_is_left_out_where_the_persona_is_hidden(served):
    asked = served("persona=hidden", "limit=3")
    assert all(turn["role"] != "system" for one in asked for turn in one["history"])
