"""Free answers to questions of PersonaMem, and settings compared, as a user runs them."""

import asyncio
import json
import re

import pytest

from alps.judges.embedded import LexicalJudge
from alps.judges.options import OptionQuestion, OptionVerdict, majority
from tests.echoing import echo
from tests.loopback import Answer, serve
from tests.persona_runs import rows, summary

QUESTIONS = 4


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def is_judge(request):
    return '"kind": "options"' in request["messages"][1]["content"]


def shown_to_judge(request):
    text = request["messages"][1]["content"]
    return json.loads(text[text.index('{"kind"') :])


def judged(letter):
    return Answer(json.dumps({"reason": "so", "option": letter}))


def served(alps, *words, answer, verdict=None, out="run"):
    """Run some questions against a served model and, where `verdict` is given, a served judge."""

    def script(request):
        if "prompt" in request:  # completions, whose tokens are echoed
            return answer(request)
        return verdict(request) if is_judge(request) else answer(request)

    with serve(script) as server:
        judge = () if verdict is None else ("judge=openai/judge", f"judge_api_base={server.url}")
        done = alps(
            *("run", "task=personamem", "model=openai/scripted", f"api_base={server.url}", *judge),
            *(f"out={out}", f"limit={QUESTIONS}", "memory=none", "baseline_records=0", *words),
        )
        return done, server.requests


def options_of(alps, tmp_path):
    """Return the options of the first questions in the order of their file, and the gold."""
    alps("run", "task=personamem", "model=oracle", f"limit={QUESTIONS}", "out=oracle")
    alps(
        *("run", "task=personamem", "model=oracle", "answer=free", f"limit={QUESTIONS}"),
        "out=oracle-free",
    )
    letters = {row["benchmark_id"]: row["gold"] for row in rows(tmp_path / "oracle", "scores")}
    texts = {
        row["benchmark_id"]: row["prediction"]["answer"]
        for row in rows(tmp_path / "oracle-free", "predictions")
    }
    return letters, texts


def naming(text):
    """Judge an answer to agree with the option of this text, wherever it stands."""

    def verdict(request):
        options = shown_to_judge(request)["options"]
        named = [letter for letter, option in options.items() if option == text(request)]
        return judged(named[0] if named else "none")

    return verdict


def test_a_model_that_is_asked_freely_is_shown_no_options(alps, tmp_path):
    done, requests = served(
        alps,
        "answer=free",
        answer=lambda request: Answer("Something quiet."),
        verdict=lambda request: judged("none"),
    )
    assert done.returncode == 0, done.stderr
    asked = [json.loads(one["messages"][1]["content"]) for one in requests if not is_judge(one)]
    assert [list(one) for one in asked] == [["history", "message"]] * QUESTIONS
    assert {row["prediction"]["answer"] for row in rows(tmp_path / "run", "predictions")} == {
        "Something quiet."
    }
    scores = summary(tmp_path / "run")["scores"]
    assert (scores["accuracy"]["value"], scores["no_option"]["value"]) == (0.0, 1.0)
    assert "agrees with no option" in alps("show", "run").stdout


def test_a_judge_sees_the_options_in_another_order_and_no_mark_of_the_right_one(alps, tmp_path):
    _, texts = options_of(alps, tmp_path)
    right = set(texts.values())
    done, requests = served(
        alps,
        "answer=free",
        answer=lambda request: Answer("Something quiet."),
        verdict=naming(
            lambda request: next(
                text for text in shown_to_judge(request)["options"].values() if text in right
            )
        ),
    )
    assert done.returncode == 0, done.stderr
    scores = summary(tmp_path / "run")["scores"]
    assert (scores["accuracy"]["value"], scores["no_option"]["value"]) == (1.0, 0.0)
    _, in_file = served(
        alps, answer=lambda request: Answer('{"choice": "a", "reason": ""}'), out="choice"
    )
    files = [
        tuple(json.loads(one["messages"][1]["content"])["options"].values()) for one in in_file
    ]
    shown = [shown_to_judge(one) for one in requests if is_judge(one)]
    orders = [tuple(one["options"].values()) for one in shown]
    assert {frozenset(order) for order in orders} == {frozenset(order) for order in files}
    assert set(orders).isdisjoint(files)
    assert [list(one) for one in shown] == [["kind", "message", "answer", "options"]] * QUESTIONS


def test_a_verdict_that_is_none_of_the_letters_is_asked_for_again_and_fails(alps, tmp_path):
    served(
        alps,
        "answer=free",
        answer=lambda request: Answer("Something quiet."),
        verdict=lambda request: judged("e"),
    )
    found = summary(tmp_path / "run")
    assert found["failed_judgements"] == {"invalid": QUESTIONS}
    assert found["scored"] == 0


def test_an_empty_answer_is_wrong_without_a_judge(alps, tmp_path):
    _, requests = served(
        alps, "answer=free", answer=lambda request: Answer(""), verdict=lambda request: judged("a")
    )
    assert not any(map(is_judge, requests))
    found = summary(tmp_path / "run")
    assert found["scores"]["accuracy"]["value"] == 0.0
    assert found["counts"]["invalid_no_answer"] == QUESTIONS


def test_a_dry_run_counts_a_call_of_the_judge_for_each_question(alps):
    done = alps(
        *("run", "task=personamem", "model=openai/scripted", "judge=openai/judge", "answer=free"),
        *("dry_run=true", "memory=none", f"limit={QUESTIONS}", "baseline_records=0"),
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    counts = [line.split()[2:5] for line in lines if re.search(", (answers|verdicts)", line)]
    assert counts[0][0] == str(QUESTIONS)
    assert counts[1][:3] == ["up", "to", str(QUESTIONS)]


def ask(judge, answer, options):
    return asyncio.run(judge.answer(OptionQuestion("Which film?", answer, options), about="x"))


FILMS = ["You like westerns now.", "You like musicals now.", "You like thrillers now.", "You rest."]


@pytest.mark.parametrize(
    ("answer", "option"),
    [
        ("A western: you like them now.", 0),
        ("Musicals, as you like them now.", 1),
        ("Westerns or musicals.", None),
        ("You like films now.", None),
        ("you like THRILLERS now.", 2),
    ],
)
def test_the_lexical_judge_names_the_option_whose_own_words_an_answer_has(answer, option):
    verdict = ask(LexicalJudge(), answer, FILMS)
    assert verdict.outcome == "ok"
    assert verdict.option == option


@pytest.mark.parametrize(
    ("named", "option", "agreement"),
    [([0, 0, 1], 0, 1 / 3), ([0, 1], None, 0.0), ([None, None, 2], None, 1 / 3), ([3, 3], 3, 1.0)],
)
def test_of_several_draws_the_majority_decides_and_a_tie_is_no_agreement(named, option, agreement):
    verdict = majority([OptionVerdict("ok", place) for place in named])
    assert (verdict.option, verdict.agreement) == (option, pytest.approx(agreement))


@pytest.mark.release
def test_three_settings_of_the_same_questions_stand_in_one_table(alps, tmp_path):
    def choose(request):
        return Answer('{"choice": "a", "reason": ""}')

    served(alps, answer=choose, out="choice")
    served(alps, "answer=logprob", answer=echo, out="logprob")
    served(
        alps,
        "answer=free",
        answer=lambda request: Answer("Something quiet."),
        verdict=lambda request: judged("c"),
        out="free",
    )
    for runs in (("choice", "logprob", "free"), ("free", "logprob", "choice")):
        done = alps("compare", *runs, "format=json")
        assert done.returncode == 0, done.stderr
        track = json.loads(done.stdout)["tracks"]["personamem"]
        assert track["shared"] == QUESTIONS
        accuracy = track["metrics"]["accuracy"]
        pairs = [row["first"] + row["second"] for row in accuracy["differences"]]
        assert pairs == ["AB", "AC", "BC"]
        assert len(accuracy["ranked"]) == 3
    done = alps("compare", "choice", "logprob", "free")
    note = " ".join(done.stdout.split()).partition("Different conditions: ")[2]
    _, second, third = note.partition(".")[0].split(", ")
    assert "answer=logprob" in second
    assert "answer=free" in third


@pytest.mark.release
def test_free_answers_under_two_judges_are_not_compared(alps):
    def free(model, out):
        with serve(lambda request: judged("a") if is_judge(request) else Answer("So.")) as server:
            alps(
                *("run", "task=personamem", "answer=free", "limit=2", "baseline_records=0"),
                *("memory=none", "model=openai/scripted", f"api_base={server.url}", f"out={out}"),
                *(f"judge=openai/{model}", f"judge_api_base={server.url}"),
            )

    alps("run", "task=personamem", "model=floor/longest", "limit=2", "memory=none", "out=choice")
    free("one", "first")
    free("two", "second")
    done = alps("compare", "choice", "first", "second")
    assert done.returncode == 2
    assert "different judges" in done.stderr


def test_a_class_that_is_asked_freely_sees_no_options(alps, tmp_path):
    (tmp_path / "reader.py").write_text(
        "class Reader:\n"
        "    def predict(self, sample):\n"
        "        return {'answer': f'{len(sample.options)} options'}\n"
    )
    done = alps(
        *("run", "task=personamem", "answer=free", "model=python:reader:Reader"),
        *("limit=2", "memory=none", "out=run"),
    )
    assert done.returncode == 0, done.stderr
    answers = {row["prediction"]["answer"] for row in rows(tmp_path / "run", "predictions")}
    assert answers == {"0 options"}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("model", "setting"), [("oracle", "answer=free"), ("floor/length-by-type", "orders=4")]
)
def test_a_run_under_another_setting_can_be_submitted_and_verified(alps, model, setting):
    for words in (
        ("run", "task=personamem", f"model={model}", setting, "out=run"),
        ("leaderboard", "submit", "run", "out=packed", "public=yes", "date=2026-01-01"),
        ("leaderboard", "verify", "packed", "data=samples"),
    ):
        done = alps(*words)
        assert done.returncode == 0, done.stderr + done.stdout
