"""The typed completion: cache, single flight, limiter, retries, re-asks, repair and ledger in one place."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    wait_random_exponential,
)

from alps.llm import provider
from alps.llm.budget import Budget, may_be_billed, spending_of
from alps.llm.cache import Cache, cache_key
from alps.llm.ledger import Call, Ledger
from alps.llm.limiter import Limiter
from alps.llm.pace import Pace
from alps.llm.secrets import masked
from alps.llm.structured import Ladder
from alps.llm.thought import part_thought
from alps.llm.types import Completion, Reply, Request, TransportError
from alps.llm.understanding import understand
from alps.prompts import load_prompt
from alps.schema import Outcome

T = TypeVar("T")
Send = Callable[[Request[Any], list[dict[str, str]]], Awaitable[Reply]]

_ATTEMPTS = 8
_HUNG_ATTEMPTS = 3
_RE_ASKS = 2
_QUOTED = 8_000
_BACKOFF = wait_random_exponential(multiplier=0.5, max=30)
REASK = load_prompt("alps.llm", "prompts", "reask")
REASK_TEXT = load_prompt("alps.llm", "prompts", "reask_text")


class _BudgetSpent(Exception):
    """The next call does not fit into the budget any more."""


class Client:
    """Asks one endpoint.

    Args:
        concurrency: The most requests under way at once.
        ledger: Where every HTTP attempt is written.
        cache: Replies of earlier runs, None for none.
        timeout: Seconds after which a request counts as unanswered.
        budget: What the whole run may spend, None for no cap.
        send: Makes one HTTP request; another one can be given where no provider should be asked.
        ladder: How models are asked for typed answers; clients of one run share it.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        ledger: Ledger,
        cache: Cache | None,
        timeout: float = 120.0,
        budget: Budget | None = None,
        send: Send = provider.send,
        ladder: Ladder | None = None,
    ) -> None:
        self._limiter = Limiter(concurrency)
        self._pace = Pace()
        self._ledger = ledger
        self._cache = cache
        self._timeout = timeout
        self._budget = budget
        self._send = send
        self._ladder = ladder or Ladder()
        self._flights: dict[str, asyncio.Task[Completion[Any]]] = {}

    async def complete(self, request: Request[T]) -> Completion[T]:
        """Answer `request` from the cache, from an identical request under way, or from the model.

        Raises:
            CredentialError: If the provider refuses the key.
            QuotaError: If the provider asks to wait for longer than an hour, as where the quota of the day is used up.
            UsageError: If the endpoint does not have the model.
        """
        request = self._ladder.on_its_step(request)
        key = cache_key(request)
        flight = self._flights.get(key)
        if flight is None:
            flight = asyncio.ensure_future(self._answer(request, key))
            self._flights[key] = flight
            flight.add_done_callback(lambda ended: self._landed(key, ended))
        else:
            self._ledger.totals.cached += 1  # answered by a call that another one pays for
        return await asyncio.shield(flight)

    async def aclose(self) -> None:
        """Give up what is under way, before its connections are closed."""
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    def _landed(self, key: str, ended: asyncio.Task[Completion[Any]]) -> None:
        """Forget a flight; an error that nobody waits for any more, since another one has ended the run, is heard."""
        self._flights.pop(key, None)
        if not ended.cancelled():
            ended.exception()

    async def _answer(self, request: Request[T], key: str) -> Completion[T]:
        if self._cache is not None and (stored := self._cache.get(key)) is not None:
            completion = understand(_without_secrets(stored, request.messages), request.answer)
            if completion.outcome == "ok":
                self._ledger.totals.cached += 1
                return completion
        messages = [dict(message) for message in request.messages]
        heard: Completion[T] | None = None
        for ask in range(1 + _RE_ASKS):
            try:
                completion = await self._ask(request, messages, key=key, ask=ask)
            except TransportError as error:
                if error.shape_refused and (lower := self._ladder.one_lower(request, str(error))) is not None:
                    return await self._answer(lower, cache_key(lower))
                if error.fatal is not None:
                    raise error.fatal from error
                outcome: Outcome = "refused" if error.refused else "transport"
                return heard or Completion(outcome, error=str(error))
            except _BudgetSpent:
                return heard or Completion("budget", error="what the run may spend is spent")
            heard = replace(completion, notes=(*completion.notes, f"after {ask} re-asks")) if ask else completion
            if heard.outcome in ("ok", "refused"):
                break
            messages = _with_problem(request, completion)
        assert heard is not None
        return heard

    async def _ask(self, request: Request[T], messages: list[dict[str, str]], *, key: str, ask: int) -> Completion[T]:
        """Get one reply to `messages`, trying again while the failure may pass."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, TransportError) and error.transient),
            stop=_stop,
            wait=_wait,
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                number = attempt.retry_state.attempt_number
                return await self._attempt(request, messages, key=key, ask=ask, attempt=number)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _attempt(
        self, request: Request[T], messages: list[dict[str, str]], *, key: str, ask: int, attempt: int
    ) -> Completion[T]:
        """Make one HTTP attempt: in its turn, within the budget, and written into the ledger whatever comes of it.

        What was paid for is kept before anything is waited for: a process that is killed then need not ask again.
        """
        async with self._limiter:
            await self._pace.turn()
            self._ladder.check(request)
            ticket = await self._budget.reserve(request, messages) if self._budget is not None else -1
            if ticket is None:
                raise _BudgetSpent
            await self._limiter.pause_over()
            started = time.perf_counter()
            call = Call(
                key=key[:16],
                purpose=request.purpose,
                about=request.about,
                model=request.model,
                ask=ask,
                attempt=attempt,
                outcome="transport",
                structured=request.structured,
            )
            try:
                reply = await self._send_in_time(request, messages)
            except TransportError as error:
                if error.status == 429:
                    self._limiter.throttled(error.retry_after)
                call = replace(call, status=error.status, error=str(error))
                await self._record(call, started, ticket, billed=None if may_be_billed(error) else False)
                await self._ledger.flushed()
                raise
            except asyncio.CancelledError:  # the run is interrupted, the provider may answer all the same
                call = replace(call, error="interrupted before the answer came")
                await self._record(call, started, ticket, billed=None)
                raise
            self._limiter.succeeded()
            self._ladder.taken(request)
        completion = understand(reply, request.answer)
        call = replace(
            call,
            outcome=completion.outcome,
            status=200,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            cost=reply.cost,
            error=completion.error,
            strict=completion.strict,
        )
        await self._record(call, started, ticket, billed=True)
        if completion.outcome == "ok" and self._cache is not None:
            self._cache.put(key, reply)
        await self._ledger.flushed()
        return completion

    async def _record(self, call: Call, started: float, ticket: int, *, billed: bool | None) -> None:
        """Write `call` into the ledger and settle its budget; `billed` is None where nobody can know."""
        call = replace(call, seconds=round(time.perf_counter() - started, 4))
        if self._budget is not None:
            known = spending_of(call) if billed is not None and (call.prompt_tokens or not billed) else None
            counted = await self._budget.settle(ticket, known)
            if known is None:
                call = replace(call, assumed_tokens=counted.tokens, assumed_cost=counted.cost)
        self._ledger.record(call)

    async def _send_in_time(self, request: Request[T], messages: list[dict[str, str]]) -> Reply:
        try:
            async with asyncio.timeout(self._timeout):
                return _without_secrets(await self._send(request, messages), messages)
        except TimeoutError as error:
            raise TransportError(f"no answer within {self._timeout:g} s", transient=True, status=408) from error


def _without_secrets(reply: Reply, messages: Sequence[Mapping[str, str]]) -> Reply:
    """Mask secrets that an endpoint repeats, before its reply is read, stored, or quoted in the next question."""

    def asked() -> str:
        return "\n".join(message["content"] for message in messages)

    own = {"text": reply.text, "refusal": reply.refusal, "thought": reply.thought}
    return replace(reply, **{name: masked(text, asked) for name, text in own.items()})


def _with_problem(request: Request[Any], completion: Completion[Any]) -> list[dict[str, str]]:
    messages = [dict(message) for message in request.messages]
    said = part_thought(completion.raw or "", typed=request.answer is not None).answer
    if said:
        messages.append({"role": "assistant", "content": said[:_QUOTED]})
    problem = completion.error or completion.outcome
    prompt = REASK if request.answer is not None else REASK_TEXT
    return [*messages, {"role": "user", "content": prompt.text.replace("{problem}", problem)}]


def _stop(state: RetryCallState) -> bool:
    """Give up after so many attempts; sooner where each of them takes the whole timeout."""
    error = state.outcome.exception() if state.outcome is not None else None
    hung = isinstance(error, TransportError) and error.status == 408
    return state.attempt_number >= (_HUNG_ATTEMPTS if hung else _ATTEMPTS)


def _wait(state: RetryCallState) -> float:
    """Back off exponentially with jitter, and never less than the server asked for."""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = error.retry_after if isinstance(error, TransportError) else None
    return max(asked or 0.0, _BACKOFF(state))
