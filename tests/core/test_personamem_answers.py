"""How questions of PersonaMem are answered: freely, under several orders of their options, and as
the authors' parsers read a reply.
"""

import asyncio
import csv
import json
import re
import sys
import textwrap
from collections import Counter
from types import SimpleNamespace

import pytest

from alps.judges.embedded import LexicalJudge
from alps.judges.repeated import majority
from alps.judges.rubric import OptionQuestion, OptionVerdict
from alps.systems import resolve_system
from alps.tasks import TaskOptions, load_task
from alps.tasks.personamem.formats import orders_of
from alps.tasks.personamem.results import PARSERS
from tests import persona_runs
from tests.echoing import echo
from tests.endtoend import one_line
from tests.few import few
from tests.loopback import Answer, serve
from tests.persona_runs import (
    asked_of,
    figures,
    is_judge,
    published,
    rows,
    run,
    settings_of,
    summary,
)

QUESTIONS = 3
FIRST_ONES = (f"limit={QUESTIONS}", "memory=none")


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def shown_to_judge(request):
    text = request["messages"][1]["content"]
    return json.loads(text[text.index('{"kind"') :])


def judged(letter):
    return Answer(json.dumps({"reason": "so", "option": letter}))


def choosing(letter):
    return Answer(json.dumps({"choice": letter, "reason": "so"}))


def served(alps, *words, answer, code=0, out="run"):
    """Run some questions against a served model; return the finished command and its requests."""
    done, server = persona_runs.served(alps, *FIRST_ONES, *words, answer=answer, code=code, out=out)
    return done, server.requests


def freely(alps, verdict, *, said="Something quiet.", judge="judge", code=0, out="run"):
    """Have some questions answered freely and judged; return what the model and the judge were
    asked.
    """
    with serve(lambda one: verdict(one) if is_judge(one) else Answer(said)) as server:
        model = ("model=openai/scripted", f"api_base={server.url}", "answer=free")
        judging = (f"judge=openai/{judge}", f"judge_api_base={server.url}", "baseline_records=0")
        run(alps, *FIRST_ONES, *model, *judging, code=code, out=out)
    model_was_asked = [one for one in server.requests if not is_judge(one)]
    return model_was_asked, [one for one in server.requests if is_judge(one)]


def test_a_model_that_is_asked_freely_is_shown_no_options(alps, tmp_path):
    requests, _ = freely(alps, lambda request: judged("none"))
    assert [list(asked_of(one)) for one in requests] == [["history", "message"]] * QUESTIONS
    answers = {row["prediction"]["answer"] for row in rows(tmp_path / "run")}
    assert answers == {"Something quiet."}
    found = figures(tmp_path / "run")
    assert (found["accuracy"], found["no_option"]) == (0.0, 1.0)
    assert "agrees with no option" in alps("show", "run").stdout


def test_a_judge_sees_the_options_in_another_order_and_no_mark_of_the_right_one(alps, tmp_path):
    run(alps, "model=oracle", "answer=free", f"limit={QUESTIONS}", out="oracle")
    right = {row["prediction"]["answer"] for row in rows(tmp_path / "oracle")}

    def name_the_right_one(request):
        options = shown_to_judge(request)["options"]
        return judged(next(letter for letter, text in options.items() if text in right))

    _, requests = freely(alps, name_the_right_one)
    found = figures(tmp_path / "run")
    assert (found["accuracy"], found["no_option"]) == (1.0, 0.0)
    _, in_file = served(alps, answer=lambda request: choosing("a"), out="choice")
    files = [tuple(asked_of(one)["options"].values()) for one in in_file]
    shown = [shown_to_judge(one) for one in requests]
    orders = [tuple(one["options"].values()) for one in shown]
    assert {frozenset(order) for order in orders} == {frozenset(order) for order in files}
    assert set(orders).isdisjoint(files)
    assert [list(one) for one in shown] == [["kind", "message", "answer", "options"]] * QUESTIONS


def test_a_verdict_that_is_none_of_the_letters_is_asked_for_again_and_fails(alps, tmp_path):
    freely(alps, lambda request: judged("e"), code=1)
    found = summary(tmp_path / "run")
    assert found["failed_judgements"] == {"invalid": QUESTIONS}
    assert found["scored"] == 0


def test_an_empty_answer_is_wrong_without_a_judge(alps, tmp_path):
    _, of_the_judge = freely(alps, lambda request: judged("a"), said="", code=1)
    assert of_the_judge == []
    assert figures(tmp_path / "run")["accuracy"] == 0.0
    assert summary(tmp_path / "run")["counts"]["invalid_no_answer"] == QUESTIONS


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
    question = OptionQuestion("Which film?", answer, FILMS)
    verdict = asyncio.run(LexicalJudge().answer(question, about="x"))
    assert (verdict.outcome, verdict.option) == ("ok", option)


@pytest.mark.parametrize(
    ("named", "option", "agreement"),
    [([0, 0, 1], 0, 1 / 3), ([0, 1], None, 0.0), ([None, None, 2], None, 1 / 3), ([3, 3], 3, 1.0)],
)
def test_of_several_draws_the_majority_decides_and_a_tie_is_no_agreement(named, option, agreement):
    verdict = majority([OptionVerdict("ok", place) for place in named])
    assert (verdict.option, verdict.agreement) == (option, pytest.approx(agreement))


def test_no_judge_has_a_part_in_log_probabilities_and_a_generic_answer_says_nothing():
    compared = load_task("personamem", TaskOptions(answer="logprob"))
    assert {"accuracy_by_sum", "margin"} <= compared.unjudged
    free = load_task("personamem", TaskOptions(answer="free"))
    generic = resolve_system("floor/generic", free)
    answer = generic.answer_at_once(free, SimpleNamespace(benchmark_id="x"))
    assert answer.prediction["answer"].startswith("Thank you for your message")


@pytest.mark.release
def test_three_settings_of_the_same_questions_stand_in_one_table(alps):
    served(alps, answer=lambda request: choosing("a"), out="choice")
    served(alps, "answer=logprob", answer=echo, out="logprob")
    freely(alps, lambda request: judged("c"), out="free")
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
    run(alps, "model=floor/longest", *FIRST_ONES, out="choice")
    for name in ("first", "second"):
        freely(alps, lambda request: judged("a"), judge=name, out=name)
    done = alps("compare", "choice", "first", "second")
    assert done.returncode == 2
    assert "different judges" in done.stderr


def test_a_class_that_is_asked_freely_sees_no_options(alps, tmp_path):
    (tmp_path / "reader.py").write_text(
        "class Reader:\n"
        "    def predict(self, sample):\n"
        "        return {'answer': f'{len(sample.options)} options'}\n"
    )
    run(alps, "answer=free", "model=python:reader:Reader", *FIRST_ONES)
    assert {row["prediction"]["answer"] for row in rows(tmp_path / "run")} == {"0 options"}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("model", "setting"), [("oracle", "answer=free"), ("floor/length-by-type", "orders=4")]
)
def test_a_run_under_another_setting_can_be_submitted_and_verified(alps, model, setting):
    run(alps, f"model={model}", setting)
    for words in (
        ("leaderboard", "submit", "run", "out=packed", "public=yes", "date=2026-01-01"),
        ("leaderboard", "verify", "packed", "data=samples"),
    ):
        done = alps(*words)
        assert done.returncode == 0, done.stderr + done.stdout


# Several orders of the options


def first_by_text(request):
    """Choose an option for what it says, wherever it stands."""
    options = asked_of(request)["options"]
    return choosing(min(options, key=options.get))


def by_text_unless_it_stands_first(otherwise):
    """Choose by what options say, but answer otherwise where the chosen one is the first."""

    def answer(request):
        options = asked_of(request)["options"]
        first = options["a"] == min(options.values())
        return otherwise if first else first_by_text(request)

    return answer


@pytest.mark.few(1)
@pytest.mark.parametrize("n", [4, 24])
def test_each_option_stands_at_each_letter_equally_often_and_a_letter_chosen_for_its_place_is_seen(
    alps, tmp_path, n
):
    _, requests = served(alps, f"orders={n}", answer=lambda request: choosing("b"))
    asked = [asked_of(request) for request in requests]
    assert len(asked) == n * QUESTIONS
    shown = Counter(tuple(one["options"].values()) for one in asked)
    assert set(shown.values()) == {1}
    places = Counter((letter, text) for one in asked for letter, text in one["options"].items())
    assert set(places.values()) == {n // 4}
    found, values = summary(tmp_path / "run"), figures(tmp_path / "run")
    assert (values["accuracy"], values["consistency"], values["letter_pull"]) == (0.25, 0.0, 0.75)
    assert found["counts"]["letter_b"] == found["counts"]["letters"] == n * QUESTIONS
    told = "Share of choices per letter, over all orders of the options: a 0%, b 100%, c 0%, d 0%."
    assert told in " ".join(alps("show", "run").stdout.split())
    assert found["floors"]["floor/frequent-letter"]["scores"]["accuracy"]["value"] == 0.25


def test_a_choice_of_the_same_option_under_all_orders_is_consistent(alps, tmp_path):
    served(alps, "orders=4", answer=first_by_text)
    values = figures(tmp_path / "run")
    assert (values["consistency"], values["letter_pull"]) == (1.0, 0.0)
    for row in rows(tmp_path / "run"):
        choices = row["prediction"]["choices"]
        assert len({choice["order"] for choice in choices}) == 4
        assert len({choice["choice"] for choice in choices}) == 1


@pytest.mark.release
def test_one_order_is_the_question_as_it_stands(alps, tmp_path):
    served(alps, "orders=4", answer=first_by_text, out="several")
    served(alps, answer=first_by_text, out="one")
    served(alps, "orders=1", answer=first_by_text, out="given")
    for name in ("predictions.jsonl", "scores.jsonl"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "given" / name).read_bytes()
    assert "orders" not in settings_of(tmp_path / "given")
    several = {row["benchmark_id"]: row for row in rows(tmp_path / "several")}
    for row in rows(tmp_path / "one"):
        choices = several[row["benchmark_id"]]["prediction"]["choices"]
        assert {choice["choice"] for choice in choices} == {row["prediction"]["choice"]}


@pytest.mark.release
def test_a_failed_order_is_wrong_and_the_others_count(alps, tmp_path):
    failing = by_text_unless_it_stands_first(choosing("a or b"))
    served(alps, "orders=4", answer=failing)
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
    failing = by_text_unless_it_stands_first(Answer(status=500))
    served(alps, "orders=4", "patience=0", answer=failing, code=1)
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
    run(alps, f"model=program:{sys.executable} {program}", "orders=4", *FIRST_ONES)
    assert figures(tmp_path / "run")["letter_pull"] == 0.75
    by_name = Counter(row["benchmark_id"] for row in rows(tmp_path, "seen"))
    assert list(by_name.values()) == [4] * QUESTIONS
    known = {row["benchmark_id"] for row in rows(tmp_path / "run")}
    assert by_name.keys().isdisjoint(known)


def test_a_prediction_that_lacks_an_order_is_asked_for_again(alps, tmp_path):
    words = ("model=floor/longest", "orders=4", "limit=2")
    run(alps, *words)
    path = tmp_path / "run" / "predictions.jsonl"
    whole = path.read_bytes()
    first, second = rows(tmp_path / "run")
    first["prediction"]["choices"].pop()
    path.write_text("".join(json.dumps(row) + "\n" for row in (first, second)))
    run(alps, *words)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("words", "answers", "verdicts"),
    [
        (("orders=1",), QUESTIONS, None),
        (("orders=4",), 4 * QUESTIONS, None),
        (("orders=24",), 24 * QUESTIONS, None),
        (("answer=free", "judge=openai/judge", "baseline_records=0"), QUESTIONS, QUESTIONS),
    ],
)
def test_a_dry_run_counts_every_order_and_a_call_of_the_judge_for_each_question(
    alps, words, answers, verdicts
):
    done = run(alps, "model=openai/scripted", "dry_run=true", *FIRST_ONES, *words)
    counted = re.findall(r", (answers|verdicts) +((?:up to )?\d+) ", done.stdout)
    judging = [] if verdicts is None else [("verdicts", f"up to {verdicts}")]
    assert counted == [("answers", str(answers)), *judging]


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


# Replies as the authors read them, and kinds of invalid responses

REPLIES = [
    # A reply about the right letter g and a wrong one w; right by the newer parser, by the older
    # one, and by a reading that takes one letter of a reply.
    ("<final_answer>({g}) I understand", True, False, True),
    ("<final_answer>({g})</final_answer>", True, True, True),
    ("<final_answer>{g}</final_answer>", True, True, True),
    ("Let me think. <final_answer> {g}", True, True, True),
    ("<final_answer>({g}) or ({w})", False, False, False),
    ("({g}) or ({w})", False, False, False),
    ("({g}). <final_answer> I see", True, False, True),
    ("No reply suits me.", False, False, False),
    ("I would take ({g}).", True, False, True),
    ("({w}) was once right. <final_answer> {g}", True, True, True),
    ("({g}) is what I like now. <final_answer> {w}", True, False, False),
    ("<final_answer>({w})", False, False, False),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "column"), [(["parser=authors"], 1), (["parser=authors-older"], 2), ([], 3)]
)
def test_a_published_file_of_replies_is_read_by_either_parser(alps, tmp_path, words, column):
    limit = f"limit={len(REPLIES)}"
    run(alps, "model=oracle", limit, out="golds")
    golds = {row["benchmark_id"]: row["gold"] for row in rows(tmp_path / "golds", "scores")}
    with (tmp_path / "eval_results_x.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["score", "question_id", "model_response"])
        for (name, gold), reply in zip(golds.items(), REPLIES, strict=True):
            said = reply[0].format(g=gold, w="b" if gold == "a" else "a")
            table.writerow([reply[1], name, said])
    run(alps, "model=predictions:eval_results_x.csv", limit, "max_failures=100%", *words)
    scores = {
        row["benchmark_id"]: row["scores"]["accuracy"] for row in rows(tmp_path / "run", "scores")
    }
    expected = {name: float(reply[column]) for name, reply in zip(golds, REPLIES, strict=True)}
    assert scores == expected
    counts = summary(tmp_path / "run")["counts"]
    assert (counts["invalid_two_answers"], counts["invalid_no_answer"]) == (2, 1)


@pytest.mark.few(1)
@published
@pytest.mark.parametrize("parser", PARSERS)
def test_letters_alone_are_read_alike_by_all_parsers(alps, tmp_path, parser):
    persona_runs.score_published(alps, "rag", f"parser={parser}")
    found = figures(tmp_path / "run")
    assert (round(found["accuracy"], 3), round(found["macro_accuracy"], 3)) == (0.642, 0.647)


def test_a_model_is_asked_for_plain_text_and_a_tag(alps, tmp_path):
    def answer(request):
        assert "response_format" not in request
        *_, last = request["messages"]
        assert last["role"] == "user"
        assert "<final_answer>" in last["content"]
        assert "(a) " in last["content"]
        return Answer("I see. <final_answer>(c)")

    done, server = persona_runs.served(alps, "parser=authors", "limit=3", answer=answer)
    assert all(len(request["messages"]) > 100 for request in server.requests)
    assert {row["choice"] for row in rows(tmp_path / "run", "scores")} == {"c"}
    assert "parser authors" in done.stdout.splitlines()[1]


TYPED = [
    (Answer('{"choice": "(B)", "reason": ""}'), None, "ok"),
    (Answer(""), "no_answer", "empty"),
    (Answer('{"choice": null, "reason": ""}'), "no_answer", "invalid"),
    (Answer('{"choice": "a or b", "reason": ""}'), "two_answers", "invalid"),
    (Answer('{"choice": "a"} {"choice": "b"}'), "two_answers", "invalid"),
    (Answer('{"choice": "e", "reason": ""}'), "not_an_option", "invalid"),
    (Answer("I'm sorry, but I can't help with that."), "refusal", "refused"),
    (Answer('{"choice": ', finish_reason="length"), "cut_off", "truncated"),
    (Answer("It must be the second one."), "format", "unparsable"),
]
PLAIN = [
    (Answer("<final_answer>(b)"), None, "ok"),
    (Answer(""), "no_answer", "empty"),
    (Answer("Hm, no idea."), "no_answer", "ok"),
    (Answer("<final_answer>(a), (b)"), "two_answers", "ok"),
    (Answer("I'm sorry, but I can't help with that."), "refusal", "ok"),
    (Answer("Let me first think about", finish_reason="length"), "cut_off", "ok"),
]


@pytest.mark.parametrize(
    ("cases", "words"), [(TYPED, ()), (PLAIN, ("parser=authors",))], ids=["typed", "plain"]
)
def test_kinds_of_invalid_responses_are_told_apart(alps, tmp_path, cases, words):
    asked: dict[str, int] = {}

    def answer(request):
        first = next(turn["content"] for turn in request["messages"] if turn["role"] == "user")
        return cases[asked.setdefault(first, len(asked))][0]

    limits = (f"limit={len(cases)}", "concurrency=1", "memory=none")
    persona_runs.served(alps, *limits, *words, answer=answer, code=1)
    kinds = [kind for _, kind, _ in cases]
    assert [row.get("invalid") for row in rows(tmp_path / "run", "scores")] == kinds
    assert [row["outcome"] for row in rows(tmp_path / "run")] == [case[2] for case in cases]
    counts = summary(tmp_path / "run")["counts"]
    found = {name: n for name, n in counts.items() if name.startswith("invalid_")}
    assert found == Counter(f"invalid_{kind}" for kind in kinds if kind is not None)
    said = alps("show", "run").stdout
    most = max(found.values())
    assert re.search(rf"Invalid responses by kind: [^(]+\({most}\)", said)


# What cannot be asked

UNKNOWN = "memory=some: unknown — did you mean 'none'? (known: full, none, last:N, oracle"
ONE_ORDER = "the authors' parser reads a choice in one order; leave out orders=4"
LEAVE_OUT_FREE, ONLY_HERE = "leave out answer=free", "only task personamem uses"
OF_UTILIZATION = "memory=none: only tasks utilization, personamem, forgetting, "
VARIANTS = "several variants of each record (orders=4, size=32k)"
REFUSED = {
    "an unknown memory": ("memory=some", UNKNOWN),
    "no last message": ("memory=last:0", "memory=last:0: unknown"),
    "no questions": ("data=.", "no questions_32k.csv in it"),
    "a size of another task": ("task=extraction size=32k", "size=32k: only tasks personamem, "),
    "a memory of another task": ("task=extraction memory=none", OF_UTILIZATION),
    "three orders": ("orders=3", "orders=3: must be 1, 4 or 24"),
    "orders of known answers": ("model=predictions:known orders=4", VARIANTS),
    "orders of another task": ("task=extraction model=rules orders=4", f"{ONLY_HERE} orders="),
    "orders of free answers": ("answer=free orders=4", "would change nothing: answer=free"),
    "orders under the authors' parser": ("parser=authors orders=4", ONE_ORDER),
    "free answers under the authors' parser": ("parser=authors answer=free", LEAVE_OUT_FREE),
}
PLAIN_CASES = {"an unknown memory", "orders of known answers", "orders under the authors' parser"}
PLAIN_CASES |= {"orders of free answers", "free answers under the authors' parser"}


@pytest.mark.parametrize(("words", "said"), few(REFUSED, plain=PLAIN_CASES))
def test_what_cannot_be_asked_is_one_line(alps, words, said):
    run(alps, "model=oracle", "limit=1", out="known")
    given = {"task": "personamem", "model": "oracle"}
    given |= dict(word.split("=") for word in words.split())
    assert said in one_line(alps("run", *map("=".join, given.items())))
