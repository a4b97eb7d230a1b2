"""The ledger: its rows, its totals, damage, and what counts against a budget."""

import asyncio
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from alps.errors import AlpsError
from alps.jsonl import Appender, Journal, journal_key, scan
from alps.judges.base import Item, MatchQuestion
from alps.judges.rubric import MATCH_ANSWER
from alps.llm import structured
from alps.llm.cache import Cache, cache_key
from alps.llm.client import Client
from alps.llm.ledger import Call, Ledger, Totals, counted_in
from alps.llm.limiter import Pace
from alps.llm.provider import send
from alps.llm.replies import schema_of
from alps.llm.types import Reply, Request
from alps.run.services import open_services
from alps.settings import RunSettings
from alps.tasks import load_tracks
from tests.builders import extraction_sample
from tests.loopback import Answer, asked_over_http, serve


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


# What makes a run fast, and must not change what it gives: shared flushes, requests apart, one
# shape a schema


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes that files had when they were flushed, in their order; the flushes are real."""
    sizes: list[int] = []
    really = os.fsync

    def fsync(file: int) -> None:
        sizes.append(os.fstat(file).st_size)
        really(file)

    monkeypatch.setattr(os, "fsync", fsync)
    return sizes


def row(number: int) -> dict[str, Any]:
    return {"benchmark_id": f"b{number}", "track": "task1", "text": "x" * number}


def test_rows_that_come_together_share_a_flush_and_each_waits_for_one_that_holds_it(path, flushed):
    journal, durable = Journal(path), {}

    async def write(number: int) -> None:
        await journal.append_together(row(number))
        durable[f"b{number}"] = max(flushed)

    async def write_all() -> None:
        await asyncio.gather(*(write(number) for number in range(40)))

    asyncio.run(write_all())
    assert 1 <= len(flushed) <= 3
    ends = {found["benchmark_id"]: at + length for at, length, found in scan(path) if found}
    assert list(ends) == [f"b{number}" for number in range(40)]
    assert all(durable[name] >= end for name, end in ends.items())
    assert journal.get(journal_key("task1", "b7")) == row(7)
    journal.close()


def test_what_is_written_is_on_disk_when_it_is_flushed_and_on_closing(path, flushed):
    ledger = Ledger(path)
    ledger.record(Call("k", "judge", "b1", "m", 0, 1, outcome="ok", prompt_tokens=3))
    assert flushed == []
    asyncio.run(ledger.flushed())
    assert flushed == [path.stat().st_size]
    assert json.loads(path.read_text())["prompt_tokens"] == 3
    assert (ledger.totals.calls, ledger.totals.prompt_tokens) == (1, 3)
    ledger.close()
    file = Appender(path.with_name("other.jsonl"))
    file.write(row(1))
    before = len(flushed)
    file.close()
    assert flushed[before:] == [path.with_name("other.jsonl").stat().st_size]


def test_a_paid_reply_is_kept_before_the_disk_is_waited_for(tmp_path: Path, monkeypatch):
    cache, ledger = Cache(tmp_path / "replies.sqlite"), Ledger(tmp_path / "calls.jsonl")
    request = Request[str]("m", ({"role": "user", "content": "Hello"},), None)
    kept: list[tuple[Reply | None, int]] = []

    async def answer(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        return Reply("Good morning", prompt_tokens=1, completion_tokens=2)

    def fsync(file: int) -> None:
        seen = Cache(tmp_path / "replies.sqlite")  # as another process would see it
        kept.append((seen.get(cache_key(request)), os.fstat(file).st_size))
        seen.close()

    monkeypatch.setattr(os, "fsync", fsync)
    asyncio.run(Client(concurrency=1, ledger=ledger, cache=cache, send=answer).complete(request))
    ((reply, size),) = kept
    assert reply is not None
    assert reply.text == "Good morning"
    assert size == (tmp_path / "calls.jsonl").stat().st_size > 0
    ledger.close()
    cache.close()


def test_an_interrupted_writer_leaves_others_their_flush_and_a_failing_disk_none(path, monkeypatch):
    def broken(_: int) -> None:
        raise OSError(5, "Input/output error")

    journal = Journal(path)

    async def write_all(numbers: range, *, interrupted: int) -> list[Any]:
        writing = [asyncio.ensure_future(journal.append_together(row(n))) for n in numbers]
        await asyncio.sleep(0)
        for task in writing[:interrupted]:
            task.cancel()
        return await asyncio.gather(*writing[interrupted:], return_exceptions=True)

    assert asyncio.run(write_all(range(2), interrupted=1)) == [None]
    assert len(Journal(path).keys()) == 2
    monkeypatch.setattr(os, "fsync", broken)
    failed = asyncio.run(write_all(range(2, 5), interrupted=0))
    assert [type(found) for found in failed] == [OSError] * 3
    journal.close()


def test_requests_that_cost_the_processor_start_apart():
    async def starts() -> list[float]:
        pace, found = Pace(), []
        await pace.turn()
        until = time.process_time() + 0.03
        while time.process_time() < until:
            pass
        for _ in range(4):
            await pace.turn()
            found.append(asyncio.get_running_loop().time())
        return found

    found = asyncio.run(starts())
    assert found == sorted(found)
    assert found[-1] - found[0] > 0.015  # of thirty milliseconds that the first one cost


def test_the_model_and_its_judge_at_one_endpoint_keep_to_concurrency_together(tmp_path: Path):
    texts = {"extract": '{"memory_items": []}', "judge": '{"pairs": []}'}
    ledger, tasks = Ledger(tmp_path / "calls.jsonl"), load_tracks("extraction")
    with serve(lambda body: Answer(texts[body["model"]], delay=0.05)) as server:
        words = {"model": "openai/extract", "judge": "openai/judge", "api_base": server.url}
        settings = RunSettings(task="extraction", judge_api_base=server.url, concurrency=3, **words)
        services = open_services(settings, tasks, ledger, tmp_path)

        async def ask_both() -> None:
            ((system,),) = services.systems
            samples = [extraction_sample((), f"I have {n} cats.") for n in range(6)]
            asked = [system.answer(tasks[0], sample) for sample in samples]
            questions = [MatchQuestion([_item("g", n)], [_item("p", n)]) for n in range(6)]
            judged = [services.judge.answer(question, about="b") for question in questions]
            await asyncio.gather(*asked, *judged)
            await services.aclose()

        asyncio.run(ask_both())
    ledger.close()
    assert (len(server.requests), server.most_under_way) == (12, 3)


def _item(side: str, number: int) -> Item:
    return Item(f"{side}1", f"{side} {number}", "direct", "UNMAPPED", None)


def test_a_typed_request_is_shaped_by_instructor_once_a_mode_and_schema(monkeypatch):
    from instructor import v2

    messages = [{"role": "system", "content": "Relate."}, {"role": "user", "content": "{}"}]
    handlers = v2.mode_registry.get_handlers(v2.Provider.OPENAI, v2.Mode.JSON_SCHEMA)
    shape, schemas = handlers.request_handler, []

    def counted(schema: Any, options: dict[str, Any]) -> Any:
        schemas.append(schema.__name__)
        return shape(schema, options)

    monkeypatch.setattr(handlers, "request_handler", counted)
    structured._options.cache_clear()

    async def ask(url: str) -> None:
        for model in ("openai/m", "openai/m", "openai/other"):
            await send(Request(model, (), MATCH_ANSWER, {"temperature": 0}, url), messages)

    with serve(lambda _: Answer('{"pairs": []}')) as server:
        asked_over_http(ask(server.url))
    first, second, _ = server.requests
    assert first == second
    assert schemas == ["MatchReply"]
    schema = json.loads(schema_of(MATCH_ANSWER.schema, lengths=True))
    sent = first["response_format"]["json_schema"]
    assert sent == {"name": "MatchReply", "schema": schema, "strict": True}
