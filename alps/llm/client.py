"""The typed completion: cache, limiter, retries, re-asks, repair and ledger in one place."""

import asyncio
import functools
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from alps.llm import provider
from alps.llm.cache import Cache, cache_key
from alps.llm.ledger import Call, Ledger, told_by
from alps.llm.limiter import EndpointDown, Limiter, Pace
from alps.llm.prices import BATCH
from alps.llm.retries import AUTO_MOST, AUTO_START, PATIENCE, Permanent, Tries, as_time, unreachable
from alps.llm.secrets import masked
from alps.llm.structured import Ladder
from alps.llm.types import Completion, Reply, Request, Sender, TransportError
from alps.llm.understanding import part_thought, understand
from alps.prompts import load_prompt
from alps.schema import Outcome, UsedToAnswer

if TYPE_CHECKING:
    from alps.llm.budget import Budget
    from alps.llm.types import Gathering

T = TypeVar("T")
Send = Callable[[Request[Any], list[dict[str, str]]], Awaitable[Reply]]

# Times that a reply which can't be read is asked for again, and what is quoted of it
_RE_ASKS = 2
_QUOTED = 8_000
# Seconds without any answer after which the user is told what is waited for
_A_WHILE = 15.0
# Seconds of attempts below which nobody asks how long they took
_A_MOMENT = 0.5
REASK = load_prompt("alps.llm", "prompts", "reask")
REASK_TEXT = load_prompt("alps.llm", "prompts", "reask_text")


@dataclass(frozen=True)
class _Attempt:
    """One attempt under way.

    Attributes:
        started: When it began, by the clock of `time.perf_counter`.
        in_ledger: Whether a session that was killed has counted it, or it was no attempt.
    """

    call: Call
    started: float
    ticket: int
    in_ledger: bool = False


class _BudgetSpent(Exception):
    """The next call does not fit into the budget any more."""


@dataclass(frozen=True)
class Endpoint:
    """What clients of one endpoint share: its limits, the pace, and the requests under way."""

    limiter: Limiter
    pace: Pace = field(default_factory=Pace)
    flights: dict[str, asyncio.Task[Completion[Any]]] = field(default_factory=dict)

    @classmethod
    def of(cls, concurrency: int | None, patience: float) -> "Endpoint":
        """Return a new endpoint; see `Client` for the arguments."""
        limiter = Limiter(
            AUTO_MOST if concurrency is None else concurrency,
            start=AUTO_START if concurrency is None else None,
            patience=patience,
        )
        return cls(limiter)


class Client:
    """Asks one endpoint.

    Args:
        concurrency: The most requests under way at once; None: as many as the endpoint is found to
            take.
        timeout: Seconds after which a request counts as unanswered.
        patience: Seconds for which a request is tried again, and for which an endpoint may answer
            nothing.
        send: Makes one HTTP request; another one can be given where no provider should be asked.
        sender: What an extension has send them, which keeps the time itself; None for nothing.
        ladder: How models are asked for typed answers; clients of one run share it.
        endpoint: What it shares with other clients of the endpoint; None where there are none.
        batches: Where requests wait to be sent together, None where each is sent by itself.
    """

    def __init__(
        self,
        *,
        concurrency: int | None,
        ledger: Ledger,
        cache: Cache | None,
        timeout: float | None = 120.0,
        budget: "Budget | None" = None,
        patience: float = PATIENCE,
        notice: Callable[[str], None] | None = None,
        send: Send | None = None,
        sender: Sender | None = None,
        ladder: Ladder | None = None,
        endpoint: Endpoint | None = None,
        batches: "Gathering | None" = None,
    ) -> None:
        endpoint = endpoint or Endpoint.of(concurrency, patience)
        self._limiter, self._pace = endpoint.limiter, endpoint.pace
        self._patience, self._permanent = patience, Permanent()
        self._notice, self._noticed = notice, False
        self._failure = ""
        self._ledger = ledger
        self._cache = cache
        self._sender, self._timeout = sender, timeout if sender is None else None
        self._budget = budget
        self._send = (
            sender
            or send
            or functools.partial(provider.send, timeout=timeout, told=self._limiter.told)
        )
        self._ladder = ladder or Ladder()
        self._batches = batches
        self._flights = endpoint.flights
        self._own: set[asyncio.Task[Completion[Any]]] = set()

    async def complete(self, request: Request[T]) -> Completion[T]:
        """Answer `request` from the cache, from an identical request under way, or from the model.

        Raises:
            CredentialError: If the provider refuses the key.
            QuotaError: If the provider asks to wait for longer than an hour, as where the quota of
                the day is used up.
            UsageError: If the endpoint does not have the model.
        """
        request = self._ladder.on_its_step(request)
        key = cache_key(request)
        while (flight := self._flights.get(key)) is not None:
            try:
                completion = await asyncio.shield(flight)
            except asyncio.CancelledError:
                waiting = asyncio.current_task()
                if not flight.cancelled() or (waiting is not None and waiting.cancelling()):
                    raise
                continue  # another run asked for it, and was ended
            # answered by a call that another one pays for
            self._ledger.totals.note_cached(request.purpose)
            return replace(completion, cached=True)
        flight = asyncio.ensure_future(self._answer(request, key))
        self._flights[key] = flight
        self._own.add(flight)
        flight.add_done_callback(lambda ended: self._landed(key, ended))
        return await asyncio.shield(flight)

    async def aclose(self) -> None:
        """Give up what is under way, before its connections are closed."""
        flights = list(self._own)
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        if self._sender is not None:
            await self._sender.aclose()

    def _landed(self, key: str, ended: asyncio.Task[Completion[Any]]) -> None:
        """Forget a flight, and hear its error, which nobody waits for where the run has ended."""
        self._flights.pop(key, None)
        self._own.discard(ended)
        if not ended.cancelled():
            ended.exception()

    def _stored(self, request: Request[T], key: str) -> Completion[T] | None:
        """Return what a reply of the cache answers, where it can be read as an answer."""
        stored = self._cache.get(key) if self._cache is not None else None
        if stored is None or not _has_form(stored, request):
            return None
        completion = _understood(_without_secrets(stored, request.messages), request)
        if completion.outcome != "ok":
            return None
        totals = self._ledger.totals
        totals.note_cached(request.purpose)
        totals.note_served(request.purpose, stored.served_model, stored.fingerprint)
        return replace(completion, cached=True)

    async def _answer(self, request: Request[T], key: str) -> Completion[T]:
        if (stored := self._stored(request, key)) is not None:
            return stored
        messages = [dict(message) for message in request.messages]
        last: Completion[T] | None = None
        for ask in range(1 + _RE_ASKS):
            try:
                completion = await self._ask(request, messages, key=key, ask=ask)
            except TransportError as error:
                if (otherwise := self._ladder.otherwise(request, error)) is not None:
                    return await self._answer(otherwise, cache_key(otherwise))
                self._permanent.check(request.model, error)
                heard: Outcome = "refused" if error.refused else "transport"
                return last or Completion("too_long" if error.too_long else heard, error=str(error))
            except _BudgetSpent as error:
                return last or Completion("budget", error=str(error))
            if completion.starved and request.longest is not None:
                unbounded = self._ladder.unbounded(request)
                return _using(await self._answer(unbounded, cache_key(unbounded)), completion)
            if ask:
                notes = (*completion.notes, f"after {ask} re-asks")
                completion = replace(completion, notes=notes)
            last = completion = _using(completion, last)
            if completion.outcome in ("ok", "refused"):
                break
            messages = _with_problem(request, completion)
        assert last is not None
        return last

    async def _ask(
        self, request: Request[T], messages: list[dict[str, str]], *, key: str, ask: int
    ) -> Completion[T]:
        """Get one reply to `messages`, trying again while the failure may pass."""
        if ask == 0 and self._batches is not None and self._batches.takes(request, key):
            completion = await self._in_batch(self._batches, request, messages, key)
            if completion is not None:
                return completion
        loop, tries = asyncio.get_running_loop(), Tries(self._patience)
        began = loop.time()
        for number in itertools.count(1):
            sent = loop.time()
            try:
                return await self._attempt(request, messages, key=key, ask=ask, attempt=number)
            except TransportError as error:
                last_answer = self._limiter.breaker.last_answer
                failing_for = self._limiter.breaker.failing_for(loop.time())
                nobody = unreachable(
                    request.model, error, failing_for=failing_for, last_answer=last_answer
                )
                if nobody is not None:
                    raise nobody from error
                pause = tries.pause_after(
                    error, sent=sent, now=loop.time(), last_answer=last_answer
                )
                if pause is None:
                    self._add_seconds(error, loop.time() - began)
                    raise
                self._failure = str(error)
                self._say_what_is_waited_for(request.model, error)
            except EndpointDown as error:
                silent = f"the endpoint has not answered for {as_time(self._patience)}"
                why = f" ({self._failure}; to wait longer, set patience=)" if self._failure else ""
                raise TransportError(
                    f"not sent: {silent}{why}", transient=False, unsent=True
                ) from error
            await asyncio.sleep(pause)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _add_seconds(self, error: TransportError, seconds: float) -> None:
        """Add to an error that no further attempt follows for how long there were some."""
        if not error.transient or seconds < _A_MOMENT:
            return
        self._failure = str(error)
        tried = f"tried for {as_time(round(seconds))}; to wait longer, set patience="
        error.message = f"{error} ({tried})"
        error.args = (error.message,)  # what an exception is written as

    async def _in_batch(
        self, batches: "Gathering", request: Request[T], messages: list[dict[str, str]], key: str
    ) -> Completion[T] | None:
        """Get the reply of a batch; None where the request is to be sent by itself."""
        self._ladder.check(request)
        sent = batches.is_sent(key)
        # before the budget: whoever waits for that holds its texts, too
        batches.note(messages)
        ticket = await self._reserve(request, messages, service=BATCH, sent=sent)
        started, call = time.perf_counter(), _call(request, key, service=BATCH)
        answered = None
        try:
            answered = await batches.answered(request, messages, key)
        finally:
            if answered is None and self._budget is not None:
                await self._budget.settle(ticket, call, billed=False)
        if answered is None:
            return None
        result, call = answered.result, replace(call, request_id=answered.batch)
        in_ledger = batches.is_billed(key, answered.batch)
        try:
            reply = _without_secrets(await batches.read(request, messages, answered), messages)
        except TransportError as error:
            call = replace(call, status=error.status, error=str(error))
            billed = result.billed if result.lost else (None if error.billed else False)
            await self._record(_Attempt(call, started, ticket, in_ledger), billed=billed)
            await self._ledger.flushed()
            batches.taken(answered)
            if error.transient:
                return None
            raise
        self._ladder.taken(request)
        self._permanent.answered(request.model)
        attempt = _Attempt(call, started, ticket, in_ledger)
        completion = await self._heard(request, reply, key, attempt)
        batches.taken(answered)
        return completion

    async def _attempt(
        self,
        request: Request[T],
        messages: list[dict[str, str]],
        *,
        key: str,
        ask: int,
        attempt: int,
    ) -> Completion[T]:
        """Make one HTTP attempt, in its turn and within the budget, and write it down."""
        if self._sender is not None:
            await self._sender.ready()
        async with self._limiter:
            await self._pace.turn()
            self._ladder.check(request)
            ticket = await self._reserve(request, messages)
            await self._limiter.pause_over()
            sent, started = asyncio.get_running_loop().time(), time.perf_counter()
            call = _call(request, key, ask=ask, attempt=attempt)
            self._limiter.breaker.sent(sent)
            try:
                reply = await self._send_in_time(request, messages)
            except TransportError as error:
                self._tell_limiter(error, sent)
                call = replace(call, status=error.status, error=str(error))
                billed = None if error.may_be_billed else False
                withheld = error.unsent and error.too_long
                await self._record(_Attempt(call, started, ticket, withheld), billed=billed)
                await self._ledger.flushed()
                raise
            except asyncio.CancelledError:
                # the run is interrupted, the provider may answer all the same
                self._limiter.breaker.ended(sent)
                call = replace(call, error="interrupted before the answer came")
                await self._record(_Attempt(call, started, ticket), billed=None)
                raise
            self._limiter.succeeded(sent, asyncio.get_running_loop().time() - sent)
            self._permanent.answered(request.model)
            self._noticed = False
            self._ladder.taken(request)
        return await self._heard(request, reply, key, _Attempt(call, started, ticket))

    async def _heard(
        self, request: Request[T], reply: Reply, key: str, attempt: _Attempt
    ) -> Completion[T]:
        """Understand a reply, write it down and keep it."""
        completion = _understood(reply, request)
        fields = {**told_by(reply), "error": completion.error, "strict": completion.strict}
        call = replace(attempt.call, outcome=completion.outcome, status=200, **fields)
        await self._record(replace(attempt, call=call), billed=True)
        # kept before anything is waited for: a process that is killed then need not ask again
        kept = completion.outcome == "ok" and not (completion.starved and request.longest)
        if kept and self._cache is not None:
            self._cache.put(key, reply)
        await self._ledger.flushed()
        return completion

    async def _reserve(
        self,
        request: Request[T],
        messages: list[dict[str, str]],
        *,
        service: str | None = None,
        sent: bool = False,
    ) -> int:
        """Set aside what a call is likely to use; return its ticket.

        What a session that was killed has `sent` is paid for, whether or not it fits.

        Raises:
            _BudgetSpent: If it does not fit into the budget any more.
        """
        if self._budget is None:
            return -1
        ticket = await self._budget.reserve(request, messages, service=service, sent=sent)
        if ticket is None:
            raise _BudgetSpent(self._budget.account)
        return ticket

    def _tell_limiter(self, error: TransportError, sent: float) -> None:
        if error.transient and error.status == 429:
            self._limiter.throttled(error.retry_after, sent)
        elif error.transient:
            self._limiter.failed(sent, hung=error.status == 408, retry_after=error.retry_after)
        elif error.status is not None:
            self._limiter.answered(sent)
        else:
            self._limiter.breaker.ended(sent)

    def _say_what_is_waited_for(self, model: str, error: TransportError) -> None:
        failing = self._limiter.breaker.failing_for(asyncio.get_running_loop().time())
        if self._notice is not None and not self._noticed and failing >= _A_WHILE:
            self._noticed = True
            wait = f"retrying for {as_time(self._patience)} (patience=)"
            self._notice(f"{model} has not answered for {failing:.0f} s ({error}): {wait}")

    async def _record(self, attempt: _Attempt, *, billed: bool | None) -> None:
        """Write an attempt down and settle its budget; `billed` is None where nobody can know."""
        seconds = round(time.perf_counter() - attempt.started, 4)
        call = replace(attempt.call, seconds=seconds)
        if self._budget is not None:
            told = call
            if attempt.in_ledger:
                told = replace(call, prompt_tokens=None, completion_tokens=None, cost=None)
            billed = False if attempt.in_ledger else billed
            assumed = await self._budget.settle(attempt.ticket, told, billed=billed)
            call = replace(call, assumed_tokens=assumed.tokens, assumed_cost=assumed.cost)
        if not attempt.in_ledger:
            self._ledger.record(call)

    async def _send_in_time(self, request: Request[T], messages: list[dict[str, str]]) -> Reply:
        try:
            async with asyncio.timeout(self._timeout):
                with self._ledger.totals.waiting():
                    return _without_secrets(await self._send(request, messages), messages)
        except TimeoutError as error:
            late = f"no answer within {self._timeout:g} s"
            raise TransportError(late, transient=True, status=408) from error


def _call(
    request: Request[Any], key: str, *, ask: int = 0, attempt: int = 1, service: str | None = None
) -> Call:
    return Call(
        key=key[:16],
        purpose=request.purpose,
        about=request.about,
        model=request.model,
        ask=ask,
        attempt=attempt,
        outcome="transport",
        structured=request.structured,
        service=service,
    )


def _understood(reply: Reply, request: Request[T]) -> Completion[T]:
    """Understand a reply; one of another form than a chat is for its form to understand."""
    used = UsedToAnswer(
        prompt_tokens=reply.prompt_tokens or 0,
        completion_tokens=reply.completion_tokens or 0,
        cost=reply.cost,
    )
    if request.form is None:
        completion = understand(reply, request.answer)
        thought = completion.thought is not None or bool(reply.reasoning_tokens)
        return replace(completion, starved=thought and reply.finish_reason == "length", used=used)
    return Completion("ok", reply.text, raw=reply.text, used=used)  # type: ignore[arg-type]


def _using(completion: Completion[T], before: Completion[T] | None) -> Completion[T]:
    """Return a completion with what it used, and what the one before it did."""
    if before is None or before.used is None or completion.used is None:
        return completion
    return replace(completion, used=before.used.and_also(completion.used))


def _has_form(reply: Reply, request: Request[Any]) -> bool:
    """Tell whether the text of a reply that was kept has the form that was written for such."""
    try:
        if request.form is not None:
            request.form.check(reply.text or "")
    except ValueError:
        return False
    return True


def _without_secrets(reply: Reply, messages: Sequence[Mapping[str, str]]) -> Reply:
    """Mask secrets that an endpoint repeats, before its reply is read, stored, or quoted."""

    def asked() -> str:
        return "\n".join(message["content"] for message in messages)

    text, refusal, thought = masked([reply.text, reply.refusal, reply.thought], asked)
    return replace(reply, text=text, refusal=refusal, thought=thought)


def _with_problem(request: Request[Any], completion: Completion[Any]) -> list[dict[str, str]]:
    messages = [dict(message) for message in request.messages]
    answer = part_thought(completion.raw or "", typed=request.answer is not None).answer
    if answer:
        messages.append({"role": "assistant", "content": answer[:_QUOTED]})
    problem = completion.error or completion.outcome
    prompt = REASK if request.answer is not None else REASK_TEXT
    return [*messages, {"role": "user", "content": prompt.text.replace("{problem}", problem)}]
