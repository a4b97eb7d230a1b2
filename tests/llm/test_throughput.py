"""What makes a run fast, and must not change what it gives: shared flushes, requests apart, one
shape a schema.
"""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from alps.jsonl import Appender, scan
from alps.judges.matching import Item, MatchQuestion
from alps.judges.rubric import MATCH_ANSWER
from alps.llm import structured
from alps.llm.cache import Cache, cache_key
from alps.llm.client import Client
from alps.llm.ledger import Call, Ledger
from alps.llm.limiter import Pace
from alps.llm.provider import send
from alps.llm.replies import schema_of
from alps.llm.types import Reply, Request
from alps.run.journal import Journal, journal_key
from alps.run.services import open_services
from alps.settings import RunSettings
from alps.tasks import load_tracks
from tests.builders import extraction_sample
from tests.loopback import Answer, asked_over_http, serve


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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


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


def test_a_writer_that_is_interrupted_leaves_the_others_their_flush_and_a_disk_that_fails_none(
    path: Path, monkeypatch
):
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
    assert len(Journal(path)) == 2
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
