"""The ledger: its rows, its totals, damage, and what counts against a budget."""

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from alps.errors import AlpsError
from alps.llm.ledger import Call, Ledger, Totals, counted_in


def call(**fields: Any) -> Call:
    ordinary: dict[str, Any] = {
        "key": "0123456789abcdef",
        "purpose": "generate",
        "about": "b1",
        "model": "openai/tiny",
        "ask": 0,
        "attempt": 1,
        "outcome": "ok",
        "status": 200,
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "cost": 0.5,
        "seconds": 0.25,
    }
    return Call(**ordinary | fields)


UNTOLD_CALL = {"prompt_tokens": None, "completion_tokens": None, "cost": None}
UNHEARD = {**UNTOLD_CALL, "outcome": "transport", "status": 500}
CALLS = [call(), call(attempt=2, cost=None), call(about="b2", **UNHEARD, error="no answer ♟\ud83d")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


def record(path: Path, *calls: Call) -> Totals:
    ledger = Ledger(path)
    for each in calls:
        ledger.record(each)
    ledger.close()
    return ledger.totals


def counted(totals: Totals) -> tuple[int, int, int, float, int]:
    tokens = (totals.prompt_tokens, totals.completion_tokens)
    return (totals.calls, *tokens, totals.cost, totals.unpriced)


def test_each_call_is_one_row_with_all_its_fields_and_the_next_session_goes_on_counting(path: Path):
    assert counted(record(path)) == (0, 0, 0, 0.0, 0)
    assert counted(record(path, *CALLS)) == (3, 200, 20, 0.5, 1)
    assert [json.loads(line) for line in path.read_bytes().splitlines()] == [
        asdict(each) for each in CALLS
    ]
    assert counted(record(path, call())) == (4, 300, 30, 1.0, 1)
    assert len(path.read_bytes().splitlines()) == 4


def test_only_an_answer_of_unknown_price_is_counted_as_one(tmp_path: Path):
    counts = {"unknown price": ({"cost": None}, 1), "never came": (UNHEARD, 0)}
    counts["free"] = ({"cost": 0.0}, 0)
    for name, (fields, unpriced) in counts.items():
        assert record(tmp_path / name, call(**fields)).unpriced == unpriced, name


def test_a_row_torn_by_a_crash_is_not_counted_and_the_next_one_is_whole(path: Path):
    record(path, *CALLS)
    path.write_bytes(path.read_bytes()[:-20])
    assert counted(record(path, call())) == (3, 300, 30, 1.0, 1)
    assert [json.loads(line)["attempt"] for line in path.read_bytes().splitlines()] == [1, 2, 1]
    with path.open("ab") as file:
        file.write(b"not JSON\n")
    assert counted(record(path, call())) == (4, 400, 40, 1.5, 1)


@pytest.mark.parametrize("row", [{**asdict(call()), "a_field_of_a_later_version": 1}, {"key": "0"}])
def test_a_row_of_another_shape_is_passed_over_or_refused(path: Path, row: dict[str, Any]):
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    with suppress(AlpsError):
        assert record(path, call()).calls >= 1


SUMMARIES = {
    '{"calls": {"http": 1, "cached": 3}}': 3,
    **dict.fromkeys(("", "[]", "{}", '{"calls": null}', '{"calls": {"cached": "3"}}'), 0),
    "[" * 100_000: 0,
}


@pytest.mark.parametrize(("text", "cached"), SUMMARIES.items(), ids=range(len(SUMMARIES)))
def test_the_next_session_goes_on_counting_what_came_from_the_cache(path: Path, text, cached):
    (path.parent / "summary.json").write_text(text)
    assert record(path).cached == cached


def test_what_counts_against_a_budget_of_several_runs_holds_what_was_not_told(tmp_path: Path):
    unread = call(**UNHEARD, assumed_tokens=40, assumed_cost=0.2)
    untold = call(**UNTOLD_CALL, assumed_tokens=30, assumed_cost=0.1)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        record(tmp_path / name / "calls.jsonl", call(), unread, untold)
    tokens, cost = counted_in([tmp_path / "one", tmp_path / "two", tmp_path / "none"])
    assert (tokens, cost) == (2 * (110 + 40 + 30), pytest.approx(2 * (0.5 + 0.2 + 0.1)))
    assert not (tmp_path / "none").exists()
