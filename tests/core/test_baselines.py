"""Trivial baselines: who judges them, on how many records and at what cost, and runs below them."""

import json
import re

import pytest

from tests.endtoend import extraction, rows, run, task1
from tests.loopback import Answer, serve
from tests.visitors import is_judging, memory_items, values_of, visitor, write_visitors

COUNT, DRAWN = 8, 3
FLUENT = "The user has interests and preferences"


def obliging(body):
    """Answer as a model that finds both memories, and as a judge that takes «x» for the first gold
    memory.
    """
    if not is_judging(body):
        return Answer(json.dumps({"memory_items": memory_items(*values_of(visitor(body)))}))
    text = body["messages"][1]["content"]
    payload = json.loads(text[text.index("{") :])
    gold = sorted(item["id"] for item in payload["gold"])
    predicted = sorted(payload["predicted"], key=lambda item: item["id"])
    if FLUENT in (item["value"] for item in predicted):
        return Answer(json.dumps({"pairs": []}))
    named = predicted[:1] if predicted[0]["value"] == "x" else predicted
    pairs = [
        {"reason": "", "gold": name, "predicted": item["id"], "relation": "same"}
        for name, item in zip(gold, named, strict=False)
    ]
    return Answer(json.dumps({"pairs": pairs}))


def judged(body):
    text = body["messages"][1]["content"]
    return is_judging(body) and ('"value": "x"' in text or FLUENT in text)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("baselines")
    write_visitors(folder / "data", COUNT)
    with serve(obliging) as server:
        words = extraction(server.url, "out=out", f"baseline_records={DRAWN}")
        first = run(folder, *words, OPENAI_API_KEY="none", ALPS_CACHE="off")
        asked = [body for body in server.requests if judged(body)]
        before = (folder / "out" / "summary.json").read_bytes()
        total = len(server.requests)
        again = run(folder, *words, OPENAI_API_KEY="none", ALPS_CACHE="off")
        later = len(server.requests) - total
        other = run(folder, *extraction(server.url, "out=other"), OPENAI_API_KEY="none")
        words = extraction(server.url, "out=twice", "repeats=2", f"baseline_records={DRAWN}")
        twice = run(folder, *words, OPENAI_API_KEY="none")
    ended = (first.returncode, again.returncode, other.returncode, twice.returncode)
    assert ended == (0, 0, 0, 0), first.stderr
    return folder, first, asked, before, later


def test_the_judge_of_the_run_judges_baselines_on_the_records_that_were_drawn(finished):
    folder, first, asked, _, _ = finished
    floors = task1(folder / "out")["floors"]
    assert {floor["judge"] for floor in floors.values()} == {"openai/scripted-judge"}
    assert "judged by openai/scripted-judge" in first.stdout
    assert len(asked) == 2 * DRAWN
    figures = {}
    for name, floor in floors.items():
        f1 = floor["scores"]["f1"]
        figures[name.removeprefix("floor/")] = f1["n"], f1["value"]
    # One of two, and one copy.
    assert figures["content-free"] == (DRAWN, pytest.approx(2 / 3))
    assert figures["content-free-fluent"] == (DRAWN, 0)
    # An empty list costs nothing, and is scored on every record.
    assert figures["empty"] == (COUNT, 0)
    # The difference is taken on the records that both have.
    above = floors["floor/content-free"]["above"]
    assert (above["n"], above["value"]) == (DRAWN, pytest.approx(1 - 2 / 3))


def test_verdicts_on_baselines_are_kept_and_not_asked_again(finished):
    folder, _, _, before, later = finished
    there = rows(folder / "out" / "baselines.jsonl")
    kept = [(row["benchmark_id"], row["baseline"]) for row in there]
    # Fixed items of two kinds, and excerpts; nothing is asked of an empty list.
    assert len(kept) == len(set(kept)) == 3 * DRAWN
    assert kept == sorted(kept)
    assert later == 0
    assert json.loads(before)["tracks"]["task1"]["floors"] == task1(folder / "out")["floors"]


def test_a_baseline_counts_once_where_a_record_is_answered_twice(finished):
    folder, *_ = finished
    once, twice = (task1(folder / out)["floors"] for out in ("out", "twice"))
    assert {name: floor["scores"] for name, floor in once.items()} == {
        name: floor["scores"] for name, floor in twice.items()
    }


def test_a_verdict_on_a_baseline_that_failed_is_told(tmp_path):
    def busy(body):
        return Answer(status=400, error="too busy") if judged(body) else obliging(body)

    write_visitors(tmp_path / "data", 3)
    with serve(busy) as server:
        words = extraction(server.url, "out=out", "baseline_records=3")
        done = run(tmp_path, *words, OPENAI_API_KEY="none")
    told = "First error, verdict on floor/content-free: BadRequestError: too busy"
    assert told in " ".join(done.stdout.split()), done.stderr
    assert done.returncode == 0


def test_no_records_no_calls(finished):
    folder, *_ = finished
    f1 = task1(folder / "other")["floors"]["floor/content-free"]["scores"]["f1"]
    assert (f1["value"], f1["low"], f1["high"], f1["n"]) == (None, None, None, 0)


def test_a_dry_run_counts_them(tmp_path):
    write_visitors(tmp_path / "data", COUNT)
    words = extraction("http://127.0.0.1:9/v1", "dry_run=yes", f"baseline_records={DRAWN}")
    told = run(tmp_path, *words, OPENAI_API_KEY="none")
    assert told.returncode == 0, told.stderr
    (line,) = (line for line in told.stdout.splitlines() if ", baselines " in line)
    assert line.partition(", baselines ")[2].split()[:3] == ["up", "to", str(6 * DRAWN)]


ABOUT_ZERO = "(expected to score about 0)"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("task", "below", "about_zero"),
    [
        ("update", ("F1 of changes", "positional", ".038", ".052", "-.014"), False),
        ("retrieval", (), True),
        ("personamem", ("accuracy", "length-by-type", ".271", ".282", "-.011"), False),
    ],
)
def test_a_run_below_a_baseline_is_marked_in_its_table_and_in_its_report(
    tmp_path, task, below, about_zero
):
    done = run(tmp_path, "run", f"task={task}", "model=rules", "data=samples", "out=out")
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert first.endswith("below a trivial baseline") == bool(below)
    assert (ABOUT_ZERO in run(tmp_path, "show", "out").stdout) == about_zero
    if below:
        title, baseline, own, its, apart = below
        assert f" {own} [" in first
        rows = [line.split() for line in others]
        (best,) = (row for row in rows if row[:3] == ["best", "baseline", its])
        assert best[-1] == f"floor/{baseline}"
        assert [row for row in rows if row[:4] == ["Δ", "vs.", "baseline", apart]]
    assert run(tmp_path, "report", "out", "out=page.html").returncode == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    header = page.partition("</header>")[0]
    assert ("below a trivial baseline" in header) == bool(below)
    if below:
        warning = f" {own}, below trivial baseline {baseline} {its}, Δ {apart} ["
        assert re.search(rf"<li>↓ {task}.*{re.escape(warning)}", header, re.IGNORECASE)
        assert f"best trivial baseline {its}" in header  # the tick in the plot
        assert title in page
    assert (ABOUT_ZERO in page) == about_zero


def test_a_baseline_without_an_interval_is_named_as_the_baseline(tmp_path):
    words = ("task=retrieval,personamem", "model=rules", "data=samples", "out=out")
    assert "No interval" not in run(tmp_path, "run", *words).stdout
    text = " ".join(run(tmp_path, "show", "out").stdout.split())
    floor = "floor/length-by-type (PersonaMem 32k)"
    assert f"No interval for {floor}: too few sessions, or no variance" in text
    assert "No interval for PersonaMem" not in text
