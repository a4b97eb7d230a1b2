"""The owner of a run's limits and budget, and what strangers and odd workers say to it."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from alps.ext.fleet.leased import LeasedBudget, LeasedLimiter, connected
from alps.ext.fleet.owner import STRANGERS, Owner
from alps.llm.budget import Budget
from alps.llm.ledger import Totals
from alps.llm.prices import price_of
from alps.llm.types import Request
from alps.settings import AskSettings

CAP = 10_000
ASKED = Request("openai/m", (), None)
WHERE = ["http://there", "openai"]
CALL = {"model": "m", "purpose": "p", "size": 100, "most": 50}
Address = dict[str, Any]


def owner() -> Owner:
    caps = {"max_cost": None, "max_total_tokens": CAP}
    return Owner(Budget(**caps, spent=Totals(), price=price_of), lambda news: None)


def served(visit: Callable[[Address, Owner], Coroutine[Any, Any, None]]) -> None:
    async def serving() -> None:
        own = owner()
        async with own.serving("127.0.0.1") as address:
            await asyncio.wait_for(visit(address, own), 120)

    price_of(ASKED.model)  # reads the list of prices, which takes its time
    asyncio.run(serving())


def spent(own: Owner) -> int:
    """Return the tokens that are spent."""
    assert own.budget is not None
    return int(own.budget.account.partition(": ")[2].partition(" of ")[0].replace(",", ""))


async def closed(reader: asyncio.StreamReader) -> bool:
    """Wait until the owner closes a connection."""
    try:
        return not await reader.read()
    except OSError:
        return True


@pytest.mark.parametrize("sent", [b"", b"guessed", b"x" * 300_000], ids=["silent", "half", "long"])
def test_strangers_are_few_and_keep_no_worker_out(sent: bytes) -> None:
    async def visit(address: Address, own: Owner) -> None:
        there = address["host"], address["port"]
        strangers = []
        for _ in range(3 * STRANGERS):
            reader, writer = await asyncio.open_connection(*there)
            writer.write(sent)
            strangers.append((reader, writer))
        async with connected(address, "1/1") as worker:
            assert await LeasedBudget(worker).reserve(ASKED, ()) is not None
        # Those that came first, or that sent more than a token has, are gone.
        ended = [asyncio.ensure_future(closed(reader)) for reader, _ in strangers]
        gone = len(ended) if len(sent) > 1_000 else 2 * STRANGERS - 1
        await asyncio.gather(*ended[:gone])
        for task in ended[gone:]:
            task.cancel()
        for _, writer in strangers:
            writer.close()

    served(visit)


def settling(**used: Any) -> list[Any]:
    """Reserve a part of the budget, and settle it by what is no use."""
    return [
        {"do": "reserve", "id": 1, "call": CALL},
        {"do": "settle", "id": 2, "ticket": 1, "used": used, "billed": True},
    ]


def reserving(**fields: Any) -> list[Any]:
    return [{"do": "reserve", "id": 1, "call": {**CALL, **fields}}]


NONSENSE = {
    "tokens below zero": settling(prompt_tokens=-(10**6), completion_tokens=0),
    "tokens of an answer below zero": settling(prompt_tokens=0, completion_tokens=-1),
    "tokens that are endless": settling(prompt_tokens=float("inf")),
    "tokens of 400 digits": settling(prompt_tokens=10**400, completion_tokens=1),
    "a cost that is no number": settling(cost=float("nan")),
    "a cost below zero": settling(cost=-5.0),
    "a call of no size": reserving(size=0),
    "a call of a size below zero": reserving(size=-(10**6)),
    "an answer below zero": reserving(most=-(10**6)),
    "a call without a model": reserving(model=None),
    "a place that nobody took": [{"do": "leave", "at": WHERE}],
    "an endpoint that nobody asked": [{"do": "told", "at": WHERE, "remaining": 1, "seconds": 1}],
    "a deed that is none": [{"do": "__init__", "at": WHERE, "sent": 0, "how": {}}],
    "a list": [[1, 2]],
    "nothing": [None],
}


@pytest.mark.parametrize("messages", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_of_a_worker_ends_its_connection_and_makes_no_budget(messages: list[Any]) -> None:
    async def visit(address: Address, own: Owner) -> None:
        reader, writer = await asyncio.open_connection(address["host"], address["port"])
        writer.write(address["token"].encode() + b"\n")
        for message in messages:
            writer.write(json.dumps(message).encode() + b"\n")
        await closed(reader)
        writer.close()
        # What was reserved counts as paid, and nothing was given back that was not taken.
        assert 0 <= spent(own) <= CAP // 2
        async with connected(address, "1/1") as worker:
            assert await LeasedBudget(worker).reserve(ASKED, ()) is not None

    served(visit)


def test_a_ticket_is_settled_once_and_by_its_worker_alone() -> None:
    async def visit(address: Address, own: Owner) -> None:
        async with connected(address, "1/2") as worker, connected(address, "2/2") as other:
            ticket = await LeasedBudget(worker).reserve(ASKED, ())
            used = {"prompt_tokens": 3_000, "completion_tokens": 0}
            for connection in (other, worker, worker):
                settled = {"ticket": ticket, "used": used, "billed": True}
                await connection.ask("settle", undo=lambda answer: None, **settled)
            assert spent(own) == 3_000

    served(visit)


def test_a_worker_whose_request_was_throttled_keeps_its_connection() -> None:
    async def visit(address: Address, own: Owner) -> None:
        settings = AskSettings(concurrency=2)
        async with connected(address, "1/1") as worker:
            limiter = LeasedLimiter(worker, ("http://there", "openai"), settings)
            await limiter.__aenter__()
            limiter.sent(1.0)
            limiter.throttled(None, 1.0)
            await limiter.__aexit__()
            assert await LeasedBudget(worker).reserve(ASKED, ()) is not None
            assert not worker.lost.done()

    served(visit)
