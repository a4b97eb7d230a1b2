"""Limits and a budget on the side of a worker: each request is leased from their owner."""

import asyncio
import itertools
import json
import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from alps.ext.fleet.lines import LONGEST, as_line
from alps.ext.fleet.messages import Where
from alps.ext.fleet.owner import SILENT
from alps.llm.budget import Budget, Spending, wanted
from alps.llm.ledger import Call, Totals
from alps.llm.limiter import EndpointDown, Limiter
from alps.llm.prices import price_of
from alps.llm.types import Request
from alps.run.shared import Shared
from alps.settings import AskSettings

if TYPE_CHECKING:
    from alps.llm.client import Endpoint

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Addresses that are another machine on each machine."""

Answer = dict[str, Any]


class OwnerLostError(Exception):
    """The connection to the owner is lost: nothing may be asked any more."""


@asynccontextmanager
async def connected(address: Mapping[str, Any], shard: str) -> "AsyncIterator[Connection]":
    """Connect to an owner, as who carries out a shard.

    Raises:
        OwnerLostError: If nobody answers there.
    """
    host, port = address["host"], address["port"]
    try:
        opening = asyncio.open_connection(host, port, limit=LONGEST)
        reader, writer = await asyncio.wait_for(opening, SILENT)
    except (OSError, TimeoutError) as error:
        raise OwnerLostError(f"{host}:{port}: {error}") from error
    writer.write(address["token"].encode() + b"\n")
    connection = Connection(writer, shard)
    listening = asyncio.ensure_future(connection.listen(reader))
    living = asyncio.ensure_future(connection.live())
    try:
        yield connection
    finally:
        for task in (listening, living):
            task.cancel()
        # First: a cancellation is lost where an answer comes in the same moment (Python 3.11), and
        # the end of the connection is not.
        connection.close()
        await asyncio.gather(listening, living, return_exceptions=True)
        with suppress(OSError):
            await writer.wait_closed()


class Connection:
    """A connection to the owner; `lost` is done once it is lost."""

    def __init__(self, writer: asyncio.StreamWriter, shard: str) -> None:
        self._writer, self._shard = writer, shard
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._undoing: dict[int, Callable[[Answer], None]] = {}
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        """Close the connection: what was leased is given back."""
        self._writer.close()

    def tell(self, do: str, **fields: Any) -> None:
        """Tell the owner something."""
        self._writer.write(as_line({"do": do, **fields}))

    async def ask(self, do: str, *, undo: Callable[[Answer], None], **fields: Any) -> Answer:
        """Ask the owner something; `undo` takes an answer that nobody waits for any more."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.tell(do, id=number, **fields)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled():
                undo(answer.result())
            else:
                self._undoing[number] = undo
            raise

    async def listen(self, reader: asyncio.StreamReader) -> None:
        """Take the owner's answers until the connection is lost."""
        try:
            while line := await asyncio.wait_for(reader.readline(), SILENT):
                answer = json.loads(line)
                number = answer["id"]
                waiting = self._waiting.pop(number, None)
                if waiting is None:  # what was given back is answered, too
                    continue
                if (undo := self._undoing.pop(number, None)) is not None:
                    undo(answer)
                elif not waiting.done():
                    waiting.set_result(answer)
        except (OSError, ValueError, TimeoutError):
            pass
        finally:
            if not self.lost.done():
                self.lost.set_result(None)

    async def live(self) -> None:
        """Say now and then that the worker is there, and hear that the owner is."""
        while True:
            await self.ask("live", undo=_nothing)
            await asyncio.sleep(SILENT / 6)

    @contextmanager
    def watched(self, title: str, total: int, totals: Totals) -> Iterator[Callable[[bool], None]]:
        """Tell the owner of each record that is done."""

        def done(scored: bool) -> None:
            spent = {"cost": totals.cost, "unpriced": totals.unpriced}
            self.tell("record", shard=self._shard, scored=scored, **spent)

        yield done


@dataclass
class Leased(Shared):
    """What the runs of all workers share, as one of them sees it.

    Attributes:
        owner: The connection to who has it.
        here: Whether all workers are on one machine.
    """

    owner: Connection | None = None
    here: bool = True
    _leased: "dict[Where, Endpoint]" = field(default_factory=dict)

    def endpoint(
        self, where: Where, settings: AskSettings, per_minute: int | None = None
    ) -> "Endpoint":
        """Return what all clients of an endpoint share.

        A server on the loopback address of its machine is another one on each machine.
        """
        from alps.llm.client import Endpoint

        own = urlsplit(where[0] or "").hostname in LOOPBACK and not self.here
        if self.owner is None or own:
            return super().endpoint(where, settings, per_minute)
        if where not in self._leased:
            self._leased[where] = Endpoint(LeasedLimiter(self.owner, where, settings))
        self._leased[where].limiter.keep_to(per_minute)
        return self._leased[where]


class LeasedLimiter(Limiter):
    """The limiter of an endpoint, which the owner has.

    `breaker` knows what this worker has met, by which its retries go.
    """

    def __init__(self, owner: Connection, where: Where, settings: AskSettings) -> None:
        super().__init__(1)
        self._owner, self._where = owner, where
        self._asked = {"most": settings.at_once, "patience": settings.patience}
        self._per_minute: int | None = None

    def keep_to(self, per_minute: int | None) -> None:
        """Have the owner start at most so many requests a minute, of all workers together."""
        known = [most for most in (per_minute, self._per_minute) if most is not None]
        self._per_minute = min(known, default=None)

    async def __aenter__(self) -> None:
        """Wait for a place.

        Raises:
            EndpointDown: If the endpoint was given up.
        """

        def leave(answer: Answer) -> None:
            if not answer["down"]:
                self._tell("leave")

        asked = {**self._asked, "per_minute": self._per_minute}
        answer = await self._owner.ask("enter", undo=leave, at=self._where, **asked)
        if answer["down"]:
            raise EndpointDown

    async def __aexit__(self, *_: object) -> None:
        """Give the place back."""
        self._tell("leave")

    async def pause_over(self) -> None:
        """Wait, with a place taken, until the time is over that the server has asked for."""
        await self._owner.ask("pause", undo=_nothing, at=self._where)

    def sent(self, started: float) -> None:
        """Tell that a request is sent."""
        self._tell("sent", sent=started)

    def interrupted(self, started: float) -> None:
        """Tell that nobody waits for a request any more."""
        self._tell("interrupted", sent=started, how={})

    def answered(self, started: float = -math.inf) -> None:
        """Note that a request got an answer of whatever kind."""
        self.breaker.answered(started, _now())
        self._tell("answered", sent=started, how={})

    def succeeded(self, started: float = -math.inf, seconds: float | None = None) -> None:
        """Tell that a request was answered well, after so many seconds."""
        self.breaker.answered(started, _now())
        self._tell("succeeded", sent=started, how={"seconds": seconds})

    def throttled(self, retry_after: float | None, started: float = -math.inf) -> None:
        """Tell that the server answered 429."""
        self.breaker.failed(started, _now(), rejected=True)
        self._tell("throttled", sent=started, how={"retry_after": retry_after})

    def failed(
        self, started: float, *, hung: bool = False, retry_after: float | None = None
    ) -> None:
        """Note a failure that may pass."""
        self.breaker.failed(started, _now(), rejected=False)
        self._tell("failed", sent=started, how={"hung": hung, "retry_after": retry_after})

    def told(self, remaining: float, seconds: float) -> None:
        """Note what the server says is left of its limit."""
        self._tell("told", remaining=remaining, seconds=seconds)

    def _tell(self, do: str, **fields: Any) -> None:
        self._owner.tell(do, at=self._where, **fields)


class LeasedBudget(Budget):
    """The budget of a run, which the owner has."""

    def __init__(self, owner: Connection) -> None:
        super().__init__(max_cost=0.0, max_total_tokens=None, spent=Totals(), price=price_of)
        self._owner = owner
        self._account = ""

    @property
    def account(self) -> str:
        """Say what is spent of what, as the owner said it."""
        return self._account

    async def reserve(
        self,
        request: Request[Any],
        messages: Sequence[Mapping[str, str]],
        *,
        service: str | None = None,
        sent: bool = False,
    ) -> int | None:
        """Set aside what a call is likely to use; return its ticket, None if it does not fit."""

        def give_back(answer: Answer) -> None:
            if answer["ticket"] is not None:
                self._owner.tell("settle", id=-1, ticket=answer["ticket"], used={}, billed=False)

        call = asdict(wanted(request, messages, price_of(request.model), service=service))
        call["sent"] = sent
        answer = await self._owner.ask("reserve", undo=give_back, call=call)
        ticket: int | None = answer["ticket"]
        self._account = answer.get("account", "")
        return ticket

    async def settle(self, ticket: int, call: Call, *, billed: bool | None) -> Spending:
        """Replace what was set aside by what a call used; return what is counted unseen."""
        used = {
            "prompt_tokens": call.prompt_tokens,
            "completion_tokens": call.completion_tokens,
            "cost": call.cost,
        }
        fields = {"ticket": ticket, "used": used, "billed": billed}
        return Spending(**_spending(await self._owner.ask("settle", undo=_nothing, **fields)))


def _spending(answer: Answer) -> Answer:
    return {name: answer[name] for name in ("tokens", "cost") if name in answer}


def _nothing(answer: Answer) -> None:
    """Leave an answer that nobody waits for."""


def _now() -> float:
    return asyncio.get_running_loop().time()
