"""Records of `task=personamem` as `alps show` and the report page have them."""

import pytest

from alps.tasks.personamem.task import drawn
from tests.loopback import Answer, serve
from tests.pages import Page
from tests.persona_runs import PUBLISHED, published

FIRST = "acd74206"


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
    file = PUBLISHED / "predictions" / "pred_32k_none_gpt-4o.csv"
    words = (f"data={PUBLISHED}", f"model=predictions:{file}", "out=run")
    assert alps("run", "task=personamem", *words).returncode == 0
    text = show(alps, "run", FIRST)
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
    assert alps("run", "task=personamem", "model=floor/longest", "out=run").returncode == 0
    done = alps("report", "run", "out=page.html")
    assert done.returncode == 0, done.stderr
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    for said in ("History, around the evidence", "◂ evidence", "the length rule's pick", "├─"):
        assert said in page.text
    assert "where the length rule is" in page.text


def test_without_its_data_a_record_still_says_what_was_chosen(alps, tmp_path):
    assert alps("data", "personas", "out=made", "n=1").returncode == 0
    words = ("data=made", "model=floor/longest", "limit=3", "out=run")
    assert alps("run", "task=personamem", *words).returncode == 0
    (tmp_path / "made" / "questions_32k.csv").rename(tmp_path / "gone.csv")
    text = show(alps, "run", "1")
    assert "data not readable, so dialogues and gold are not shown" in text
    assert "chosen" in text
    assert "gold" in text


def test_a_record_says_what_a_memory_showed(alps, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    words = ("task=personamem", "model=openai/scripted", "limit=1")
    answer = '{"choice": "a", "reason": "It was said so."}'
    with serve(lambda request: Answer(answer)) as server:
        for memory, out in (("bm25", "found"), ("last:4", "last"), ("oracle", "told")):
            address = (f"api_base={server.url}", f"memory={memory}", f"out={out}")
            done = alps("run", *words, *address)
            assert done.returncode == 0, done.stderr
    assert "5 memories (" in show(alps, "found", "1")
    assert "4 turns (" in show(alps, "last", "1")
    assert "2 turns (" in show(alps, "told", "1")
    assert ", with the evidence" in show(alps, "told", "1")
    assert "It was said so." in show(alps, "told", "1")
