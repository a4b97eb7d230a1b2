"""Batches over loopback: a server of their interfaces, and how tests ask it."""

import asyncio
import time

import pytest

from alps.ext.batches import FILE, gather
from alps.ext.batches.gather import Batches
from alps.ext.batches.part import BatchJournal
from alps.llm.prices import price_of
from alps.llm.types import Request, TransportError
from alps.run.start import run
from alps.settings import RunSettings
from tests.endtoend import JOURNALS, rows
from tests.ext.batches import batch_server
from tests.loopback import running

KINDS = {"openai": gather.FileBatches, "anthropic": gather.MessageBatches}
SHAPES = {"openai": "openai/gpt-4.1-mini", "anthropic": "anthropic/claude-sonnet-4-5"}


@pytest.fixture
def server():
    with running(batch_server.Batched()) as served:
        yield served


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "a-key-of-the-tests")
    monkeypatch.setenv("ALPS_CACHE", "off")
    monkeypatch.setattr(gather, "_QUIET", 0.3)
    monkeypatch.setattr(gather, "_SOONEST", 0.01)
    monkeypatch.setattr("alps.llm.retries._backoff", lambda _: 0.01)


@pytest.fixture(params=SHAPES)
def shape(request):
    return request.param


def address(server, shape):
    return server.url if shape == "openai" else server.host


def questions(server, shape, n=6, **more):
    more |= {"api_base": address(server, shape)}
    asked = []
    for number in range(n):
        text = f"This is the question number_{number:04}"
        messages = ({"role": "user", "content": text},)
        asked.append(Request(SHAPES[shape], messages, None, about=text, **more))
    return asked


def ask(desk, requests, *, told=None, deadline=gather.DAY, gathering=True, patience=0.2, **options):
    """Ask as a client with batches does, and end as a run does."""
    batches = Batches(
        BatchJournal(desk.calls.parent),
        gather=gathering,
        deadline=deadline,
        patience=patience,
        notice=None if told is None else told.append,
    )

    async def together(client):
        try:
            return await asyncio.gather(*(client.complete(request) for request in requests))
        finally:
            await client.aclose()
            await batches.aclose()

    return desk.run(together, batches=batches, **options)


def bill(server, shape):
    rates = price_of(SHAPES[shape]).rates
    return pytest.approx(server.cost(rates.input, rates.output))


def ask_all(server, shape, desk, n=6, **options):
    """Ask, and get an answer to every question, at the price that the ledger says."""
    answers = ask(desk, questions(server, shape, n), **options)
    assert [answer.outcome for answer in answers] == ["ok"] * n
    assert desk.totals.cost == bill(server, shape)
    return answers


def ways_of(server):
    """Tell of each request that was answered whether a batch brought it."""
    return [batched for *_, batched in server.bill]


def run_on(server, shape, out, **more):
    model, base = SHAPES[shape], address(server, shape)
    settings = {"task": "extraction", "model": model, "judge": model, "limit": 2, **more}
    settings |= {"api_base": base, "judge_api_base": base, "baseline_records": 1, "out": str(out)}
    # Known items wait for no batch: `tests/core/test_judge_check.py` has them.
    settings |= {"judge_check": False}
    return run(RunSettings(**settings))


def journals(folder):
    return [(folder / name).read_bytes() for name in (*JOURNALS, "baselines.jsonl")]


def steps(folder):
    return [row["step"] for row in rows(folder / FILE)]


def lose_an_order(monkeypatch, kind, meanwhile=lambda: None):
    """Let the answer to the first order be lost, whatever else is ordered meanwhile."""
    real, lost = kind.create, []

    async def create(self, *arguments, **more):
        name = await real(self, *arguments, **more)
        if not lost:
            lost.append(name)
            meanwhile()
            raise TransportError("the line broke", transient=True)
        return name

    monkeypatch.setattr(kind, "create", create)
    return lost


def others_in(server, count):
    """Let an account have ordered other batches."""
    for number in range(count):
        other = f"other_{number}"
        server.batches[other] = batch_server.Batch(other, {"x": {}}, time.time())
