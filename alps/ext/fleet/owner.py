"""The owner of what the workers of a run share: the limits of endpoints, and the budget.

A worker leases each request that it makes: a place at the endpoint, and what the request may cost.
Leases last as long as the connection of the worker. What a worker held that is lost is free again,
and what it was asking counts as paid. Who begins again after the owner was lost goes on from the
ledgers of the shards.
"""

import asyncio
import hmac
import math
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from alps.ext.fleet.lines import Lines, as_line
from alps.ext.fleet.messages import (
    Ended,
    Enter,
    Leave,
    News,
    Pause,
    Question,
    Record,
    Reserve,
    Sent,
    Settle,
    Told,
    Used,
    Where,
    read_message,
)
from alps.ext.fleet.shards import Divided
from alps.jsonl import parse_json
from alps.llm.ledger import Call, Totals, counted_in
from alps.run.parts import parts_of
from alps.run.services import budget_within, check_priced_models

if TYPE_CHECKING:
    from alps.llm.budget import Budget
    from alps.llm.limiter import Limiter

SILENT = 60.0
"""Seconds without a word after which a connection counts as lost; each end says one more often."""
STRANGERS = 64
"""Connections that may be without a token; of more, the oldest is closed."""
_TO_LOG_IN = 10.0
_LONGEST_TOKEN = 100

Message = Mapping[str, Any]


def owner_of(run: Divided, heard: "Callable[[Message], None]") -> "Owner":
    """Return the owner of what the workers of a run share; what its shards spent is spent.

    Raises:
        UsageError: If a model has no price, and the budget is in dollars.
    """
    given = run.settings
    if given.max_cost is not None:
        check_priced_models(given, run.data.tasks, parts_of(given, run.folder))
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
    _strangers: dict[asyncio.StreamWriter, None] = field(default_factory=dict)

    @asynccontextmanager
    async def serving(self, host: str) -> AsyncIterator[dict[str, Any]]:
        """Serve workers at an address of this machine, and yield what they need to connect."""
        connections: set[asyncio.Task[None]] = set()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(reader, writer))
            connections.add(task)
            task.add_done_callback(connections.discard)

        # Small: what strangers send lies in memory until it is read.
        server = await asyncio.start_server(connected, host, 0, limit=_LONGEST_TOKEN)
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
        leases, lines = _Leases(self, writer), Lines(reader)
        try:
            if await self._is_worker(lines, writer):
                while line := await asyncio.wait_for(lines.next(), SILENT):
                    await leases.take(parse_json(line))
        except (OSError, ValueError, TimeoutError):
            pass  # a worker that was killed, or that speaks something else
        finally:
            await leases.expire()
            writer.close()

    async def _is_worker(self, lines: Lines, writer: asyncio.StreamWriter) -> bool:
        """Wait for the token; of many who wait, the oldest is no worker."""
        self._strangers[writer] = None
        try:
            if len(self._strangers) > STRANGERS:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                oldest.transport.abort()
            token = await asyncio.wait_for(lines.next(_LONGEST_TOKEN), _TO_LOG_IN)
        finally:
            self._strangers.pop(writer, None)
        return hmac.compare_digest(token.strip(), self._token.encode())


class _Leases:
    """What one worker holds."""

    def __init__(self, owner: Owner, writer: asyncio.StreamWriter) -> None:
        self._owner, self._writer = owner, writer
        self._places: Counter[Where] = Counter()
        self._under_way: dict[tuple[Where, float], float] = {}
        self._tickets: set[int] = set()
        self._waiting: set[asyncio.Task[None]] = set()

    async def take(self, given: object) -> None:
        """Take a message of the worker: a question is answered as soon as it can be.

        Raises:
            ValueError: If it can't be right.
        """
        message = read_message(given)
        if isinstance(message, Record):
            self._owner.heard(message.model_dump())
        elif isinstance(message, Leave | Told | Sent | Ended):
            await self._note(message)
        else:
            answering = asyncio.ensure_future(self._answer(message))
            self._waiting.add(answering)
            answering.add_done_callback(self._waiting.discard)

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
            await self._settle(ticket, Used().call(), billed=None)

    async def _note(self, message: News) -> None:
        where = message.at
        limiter = self._owner.limiters.get(where)
        if limiter is None:
            raise ValueError("an endpoint that nobody entered")
        if isinstance(message, Leave):
            # Who leaves oftener than they entered would make room for more than the limit.
            if not self._places[where]:
                raise ValueError("a place that was not taken")
            self._places[where] -= 1
            await limiter.__aexit__()
        elif isinstance(message, Told):
            limiter.told(message.remaining, message.seconds)
        elif isinstance(message, Sent):
            # By the clock of the owner: that of each machine begins elsewhere.
            began = asyncio.get_running_loop().time()
            self._under_way[where, message.sent] = began
            limiter.sent(began)
        else:
            began = self._under_way.pop((where, message.sent), -math.inf)
            how = message.how.model_dump(exclude_unset=True)
            getattr(limiter, message.do)(started=began, **how)

    async def _answer(self, message: Question) -> None:
        answer = await self._answer_to(message)
        self._writer.write(as_line({"id": message.id, **answer}))

    async def _answer_to(self, message: Question) -> dict[str, Any]:
        budget = self._owner.budget
        if isinstance(message, Enter):
            return {"down": not await self._enter(message)}
        if isinstance(message, Pause):
            if (limiter := self._owner.limiters.get(message.at)) is not None:
                await limiter.pause_over()
        elif isinstance(message, Reserve) and budget is not None:
            ticket = await budget.set_aside(message.call.wanted())
            if ticket is None:
                return {"ticket": None, "account": budget.account}
            self._tickets.add(ticket)
            return {"ticket": ticket}
        elif isinstance(message, Settle):
            return await self._settle(message.ticket, message.used.call(), billed=message.billed)
        return {}

    async def _enter(self, message: Enter) -> bool:
        from alps.llm.limiter import EndpointDown

        where = message.at
        limiter = self._owner.limiter(
            where,
            most=message.most,
            patience=message.patience,
            per_minute=message.per_minute,
        )
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
