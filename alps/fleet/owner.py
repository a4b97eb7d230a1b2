"""The owner of what the workers of a run share: the limits of endpoints, and the budget.

A worker leases each request that it makes: a place at the endpoint, and what the request may cost.
Leases last as long as the connection of the worker. What a worker held that is lost is free again,
and what it was asking counts as paid. Who begins again after the owner was lost goes on from the
ledgers of the shards.
"""

import asyncio
import hmac
import json
import math
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from alps.fleet.lines import LONGEST, as_line
from alps.fleet.shards import Divided
from alps.llm.ledger import Call, Totals, counted_in
from alps.run.services import budget_within, check_priced_models

if TYPE_CHECKING:
    from alps.llm.budget import Budget
    from alps.llm.limiter import Limiter

SILENT = 60.0
"""Seconds without a word after which a connection counts as lost; each end says one more often."""
_ENDS = ("interrupted", "answered", "succeeded", "throttled", "failed")

Where = tuple[str | None, str]
"""An endpoint: its address, where it is not the provider's, and the provider."""
Message = Mapping[str, Any]


def owner_of(run: Divided, heard: "Callable[[Message], None]") -> "Owner":
    """Return the owner of what the workers of a run share; what its shards spent is spent.

    Raises:
        UsageError: If a model has no price, and the budget is in dollars.
    """
    given = run.settings
    if given.max_cost is not None:
        check_priced_models(given, run.data.tasks)
    tokens, cost = counted_in(run.shards)
    spent = Totals(prompt_tokens=tokens, cost=cost)
    return Owner(budget_within(given.max_cost, given.max_total_tokens, spent), heard)


@dataclass
class Owner:
    """What all workers share.

    Attributes:
        budget: What all of them together may spend; None for no cap.
        heard: Is given what workers say of each record.
    """

    budget: "Budget | None"
    heard: Callable[[Message], None]
    limiters: "dict[Where, Limiter]" = field(default_factory=dict)
    _token: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @asynccontextmanager
    async def serving(self, host: str) -> AsyncIterator[dict[str, Any]]:
        """Serve workers at an address of this machine, and yield what they need to connect."""
        connections: set[asyncio.Task[None]] = set()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(reader, writer))
            connections.add(task)
            task.add_done_callback(connections.discard)

        server = await asyncio.start_server(connected, host, 0, limit=LONGEST)
        try:
            yield {"host": host, "port": server.sockets[0].getsockname()[1], "token": self._token}
        finally:
            server.close()
            for task in connections:
                task.cancel()
            await asyncio.gather(*connections, return_exceptions=True)
            await server.wait_closed()

    def limiter(
        self, where: Where, *, most: int | None, patience: float, per_minute: int | None
    ) -> "Limiter":
        """Return the limiter of an endpoint, a new one where nobody asked it yet."""
        from alps.llm.client import Endpoint

        if where not in self.limiters:
            self.limiters[where] = Endpoint.of(most, patience).limiter
        self.limiters[where].keep_to(per_minute)
        return self.limiters[where]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        leases = _Leases(self, writer)
        try:
            token = await asyncio.wait_for(reader.readline(), SILENT)
            if hmac.compare_digest(token.strip(), self._token.encode()):
                while line := await asyncio.wait_for(reader.readline(), SILENT):
                    await leases.take(json.loads(line))
        except (OSError, ValueError, TimeoutError):
            pass  # a worker that was killed, or that speaks something else
        finally:
            await leases.expire()
            writer.close()


class _Leases:
    """What one worker holds."""

    def __init__(self, owner: Owner, writer: asyncio.StreamWriter) -> None:
        self._owner, self._writer = owner, writer
        self._places: Counter[Where] = Counter()
        self._under_way: dict[tuple[Where, float], float] = {}
        self._tickets: set[int] = set()
        self._waiting: set[asyncio.Task[None]] = set()

    async def take(self, message: Message) -> None:
        """Take a message of the worker: a question is answered as soon as it can be."""
        if "id" in message:
            answering = asyncio.ensure_future(self._answer(message))
            self._waiting.add(answering)
            answering.add_done_callback(self._waiting.discard)
        elif message["do"] == "record":
            self._owner.heard(message)
        else:
            await self._note(message)

    async def expire(self) -> None:
        """Give back all that the worker held."""
        waiting = list(self._waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for (where, _), began in self._under_way.items():
            self._owner.limiters[where].interrupted(began)
        for where, count in self._places.items():
            for _ in range(count):
                await self._owner.limiters[where].__aexit__()
        for ticket in list(self._tickets):
            await self._settle(ticket, _call({}), billed=None)

    async def _note(self, message: Message) -> None:
        what, where = message["do"], _where(message)
        limiter = self._owner.limiters[where]
        if what == "leave":
            self._places[where] -= 1
            await limiter.__aexit__()
        elif what == "told":
            limiter.told(message["remaining"], message["seconds"])
        elif what == "sent":
            # By the clock of the owner: that of each machine begins elsewhere.
            began = asyncio.get_running_loop().time()
            self._under_way[where, message["sent"]] = began
            limiter.sent(began)
        elif what in _ENDS:
            began = self._under_way.pop((where, message["sent"]), -math.inf)
            getattr(limiter, what)(began, **message["how"])

    async def _answer(self, message: Message) -> None:
        answer = await self._answer_to(message)
        self._writer.write(as_line({"id": message["id"], **answer}))

    async def _answer_to(self, message: Message) -> dict[str, Any]:
        what, budget = message["do"], self._owner.budget
        if what == "enter":
            return {"down": not await self._enter(message)}
        if what == "pause":
            await self._owner.limiters[_where(message)].pause_over()
        elif what == "reserve" and budget is not None:
            from alps.llm.budget import Wanted

            ticket = await budget.set_aside(Wanted(**message["call"]))
            if ticket is None:
                return {"ticket": None, "account": budget.account}
            self._tickets.add(ticket)
            return {"ticket": ticket}
        elif what == "settle":
            call = _call(message["used"])
            return await self._settle(message["ticket"], call, billed=message["billed"])
        return {}

    async def _enter(self, message: Message) -> bool:
        from alps.llm.limiter import EndpointDown

        where = _where(message)
        asked = {name: message[name] for name in ("most", "patience", "per_minute")}
        limiter = self._owner.limiter(where, **asked)
        try:
            await limiter.__aenter__()
        except EndpointDown:
            return False
        self._places[where] += 1
        return True

    async def _settle(self, ticket: int, call: Call, *, billed: bool | None) -> dict[str, Any]:
        if ticket not in self._tickets or self._owner.budget is None:
            return {}
        self._tickets.discard(ticket)
        return asdict(await self._owner.budget.settle(ticket, call, billed=billed))


def _where(message: Message) -> Where:
    address, provider = message["at"]
    return address, provider


def _call(used: Mapping[str, Any]) -> Call:
    """Return a call with what it used; the rest of it a budget does not look at."""
    return Call(key="", purpose="", about="", model="", ask=0, attempt=0, outcome="", **used)
