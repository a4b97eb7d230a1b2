"""Replies to questions of PersonaMem read as the authors do, and kinds of invalid responses."""

import csv
import re
from collections import Counter

import pytest

from alps.tasks.personamem.results import PARSERS
from tests.loopback import Answer, serve
from tests.persona_runs import PUBLISHED, published, rows, summary

REPLIES = [
    # A reply about the right letter g and a wrong one w; right by the newer parser, by the older
    # one, and by a reading that takes one letter of a reply.
    ("<final_answer>({g}) I understand", True, False, True),
    ("<final_answer>({g})</final_answer>", True, True, True),
    ("Let me think. <final_answer> {g}", True, True, True),
    ("<final_answer>({g}) or ({w})", False, False, False),
    ("No reply suits me.", False, False, False),
    ("I would take ({g}).", True, False, True),
    ("({w}) was once right. <final_answer> {g}", True, True, True),
    ("({g}) is what I like now. <final_answer> {w}", True, False, False),
    ("<final_answer>({w})", False, False, False),
]


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture
def golds(alps, tmp_path):
    """The right letters of the first questions, by their ids."""
    limit = f"limit={len(REPLIES)}"
    done = alps("run", "task=personamem", "model=oracle", limit, "out=golds")
    assert done.returncode == 0, done.stderr
    return {row["benchmark_id"]: row["gold"] for row in rows(tmp_path / "golds", "scores")}


def reply_to(gold, template):
    return template.format(g=gold, w="b" if gold == "a" else "a")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "column"), [(["parser=authors"], 1), (["parser=authors-older"], 2), ([], 3)]
)
def test_a_published_file_of_replies_is_read_by_either_parser(alps, tmp_path, golds, words, column):
    with (tmp_path / "eval_results_x.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["score", "question_id", "model_response"])
        for (name, gold), reply in zip(golds.items(), REPLIES, strict=True):
            table.writerow([reply[1], name, reply_to(gold, reply[0])])
    done = alps(
        *("run", "task=personamem", "model=predictions:eval_results_x.csv", "out=run", *words),
        *(f"limit={len(REPLIES)}", "max_failures=100%"),
    )
    assert done.returncode == 0, done.stderr
    scores = {
        row["benchmark_id"]: row["scores"]["accuracy"] for row in rows(tmp_path / "run", "scores")
    }
    expected = {name: float(reply[column]) for name, reply in zip(golds, REPLIES, strict=True)}
    assert scores == expected
    counts = summary(tmp_path / "run")["counts"]
    assert (counts["invalid_two_answers"], counts["invalid_no_answer"]) == (1, 1)


@pytest.mark.few(1)
@published
@pytest.mark.parametrize("parser", PARSERS)
def test_letters_alone_are_read_alike_by_all_parsers(alps, tmp_path, parser):
    file = PUBLISHED / "predictions" / "pred_32k_rag_gpt-4o.csv"
    done = alps(
        *("run", "task=personamem", f"data={PUBLISHED}", f"model=predictions:{file}", "out=run"),
        f"parser={parser}",
    )
    assert done.returncode == 0, done.stderr
    scores = summary(tmp_path / "run")["scores"]
    assert round(scores["accuracy"]["value"], 3) == 0.642
    assert round(scores["macro_accuracy"]["value"], 3) == 0.647


def test_a_model_is_asked_for_plain_text_and_a_tag(alps, tmp_path):
    def answer(request):
        assert "response_format" not in request
        *_, last = request["messages"]
        assert last["role"] == "user"
        assert "<final_answer>" in last["content"]
        assert "(a) " in last["content"]
        return Answer("I see. <final_answer>(c)")

    with serve(answer) as server:
        done = alps(
            *("run", "task=personamem", "model=openai/scripted", f"api_base={server.url}"),
            *("parser=authors", "limit=3", "out=run"),
        )
        assert done.returncode == 0, done.stderr
        assert all(len(request["messages"]) > 100 for request in server.requests)
    assert {row["choice"] for row in rows(tmp_path / "run", "scores")} == {"c"}
    assert "parser authors" in done.stdout.splitlines()[1]


TYPED = [
    (Answer('{"choice": "b", "reason": ""}'), None),
    (Answer(""), "no_answer"),
    (Answer('{"choice": null, "reason": ""}'), "no_answer"),
    (Answer('{"choice": "a or b", "reason": ""}'), "two_answers"),
    (Answer('{"choice": "a"} {"choice": "b"}'), "two_answers"),
    (Answer('{"choice": "e", "reason": ""}'), "not_an_option"),
    (Answer("I'm sorry, but I can't help with that."), "refusal"),
    (Answer('{"choice": ', finish_reason="length"), "cut_off"),
    (Answer("It must be the second one."), "format"),
]
PLAIN = [
    (Answer("<final_answer>(b)"), None),
    (Answer(""), "no_answer"),
    (Answer("Hm, no idea."), "no_answer"),
    (Answer("<final_answer>(a), (b)"), "two_answers"),
    (Answer("I'm sorry, but I can't help with that."), "refusal"),
    (Answer("Let me first think about", finish_reason="length"), "cut_off"),
]


@pytest.mark.parametrize(("cases", "words"), [(TYPED, ()), (PLAIN, ("parser=authors",))])
def test_kinds_of_invalid_responses_are_told_apart(alps, tmp_path, cases, words):
    asked: dict[str, int] = {}

    def answer(request):
        first = next(turn["content"] for turn in request["messages"] if turn["role"] == "user")
        return cases[asked.setdefault(first, len(asked))][0]

    with serve(answer) as server:
        done = alps(
            *("run", "task=personamem", "model=openai/scripted", f"api_base={server.url}"),
            *(f"limit={len(cases)}", "concurrency=1", "memory=none", "out=run", *words),
        )
    kinds = [kind for _, kind in cases]
    assert [row.get("invalid") for row in rows(tmp_path / "run", "scores")] == kinds
    counts = summary(tmp_path / "run")["counts"]
    found = {name: n for name, n in counts.items() if name.startswith("invalid_")}
    assert found == Counter(f"invalid_{kind}" for kind in kinds if kind is not None)
    assert done.stdout.splitlines()
    said = alps("show", "run").stdout
    most = max(found.values())
    assert re.search(rf"Invalid responses by kind: [^(]+\({most}\)", said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("orders=4",), "the authors' parser reads a choice in one order; leave out orders=4"),
        (("answer=free",), "leave out answer=free"),
    ],
)
def test_what_the_authors_do_not_ask_is_refused(alps, words, said):
    done = alps("run", "task=personamem", "model=oracle", "parser=authors", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
