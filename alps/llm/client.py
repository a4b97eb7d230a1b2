"""The typed completion: cache, single flight, limiter, retries, re-asks, repair and ledger in one place."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from alps.llm import provider
from alps.llm.cache import Cache, cache_key
from alps.llm.ledger import Call, Ledger
from alps.llm.limiter import Limiter
from alps.llm.repair import looks_like_refusal, readings
from alps.llm.types import AnswerType, Completion, Reply, Request, TransportError
from alps.prompts import load_prompt
from alps.schema import Outcome

T = TypeVar("T")
Send = Callable[[Request[Any], list[dict[str, str]]], Awaitable[Reply]]

_ATTEMPTS = 8
_RE_ASKS = 2
_QUOTED = 8_000
_BACKOFF = wait_random_exponential(multiplier=0.5, max=30)
REASK = load_prompt("alps.llm", "prompts", "reask")


class Client:
    """Asks one endpoint.

    Args:
        concurrency: The most requests under way at once.
        ledger: Where every HTTP attempt is written.
        cache: Replies of earlier runs, None for none.
        timeout: Seconds after which a request counts as unanswered.
        send: Makes one HTTP request; another one can be given where no provider should be asked.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        ledger: Ledger,
        cache: Cache | None,
        timeout: float = 120.0,
        send: Send = provider.send,
    ) -> None:
        self._limiter = Limiter(concurrency)
        self._ledger = ledger
        self._cache = cache
        self._timeout = timeout
        self._send = send
        self._flights: dict[str, asyncio.Task[Completion[Any]]] = {}

    async def complete(self, request: Request[T]) -> Completion[T]:
        """Answer `request` from the cache, from an identical request under way, or from the model.

        Raises:
            CredentialError: If the provider refuses the key.
            UsageError: If the endpoint does not have the model.
        """
        key = cache_key(request)
        flight = self._flights.get(key)
        if flight is None:
            flight = asyncio.ensure_future(self._answer(request, key))
            self._flights[key] = flight
            flight.add_done_callback(lambda _: self._flights.pop(key, None))
        return await asyncio.shield(flight)

    async def _answer(self, request: Request[T], key: str) -> Completion[T]:
        if self._cache is not None and (stored := self._cache.get(key)) is not None:
            self._ledger.totals.cached += 1
            return understand(stored, request.answer)
        messages = [dict(message) for message in request.messages]
        for ask in range(1 + _RE_ASKS):
            try:
                reply, completion = await self._ask(request, messages, key=key, ask=ask)
            except TransportError as error:
                return Completion(outcome="refused" if error.refused else "transport", error=str(error))
            if completion.outcome == "ok":
                if self._cache is not None:
                    self._cache.put(key, reply)
                break
            if completion.outcome == "refused":
                break
            messages = _with_problem(request, completion)
        return replace(completion, notes=(*completion.notes, f"after {ask} re-asks")) if ask else completion

    async def _ask(
        self, request: Request[T], messages: list[dict[str, str]], *, key: str, ask: int
    ) -> tuple[Reply, Completion[T]]:
        """Get one reply to `messages`, trying again while the failure may pass."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, TransportError) and error.transient),
            stop=stop_after_attempt(_ATTEMPTS),
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
    ) -> tuple[Reply, Completion[T]]:
        def record(outcome: str, **details: Any) -> None:
            seconds = round(time.perf_counter() - started, 4)
            empty = {"status": None, "prompt_tokens": None, "completion_tokens": None, "cost": None}
            place = {"about": request.about, "model": request.model, "ask": ask, "attempt": attempt}
            row = {**empty, **place, **details, "purpose": request.purpose, "outcome": outcome}
            self._ledger.record(Call(key=key[:16], seconds=seconds, **row))

        async with self._limiter:
            started = time.perf_counter()
            try:
                reply = await self._send_in_time(request, messages)
            except TransportError as error:
                if error.status == 429:
                    self._limiter.throttled(error.retry_after)
                record("transport", status=error.status, error=str(error))
                raise
            self._limiter.succeeded()
        completion = understand(reply, request.answer)
        record(
            completion.outcome,
            status=200,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            cost=reply.cost,
            error=completion.error,
        )
        return reply, completion

    async def _send_in_time(self, request: Request[T], messages: list[dict[str, str]]) -> Reply:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._send(request, messages)
        except TimeoutError as error:
            raise TransportError(f"no answer within {self._timeout:g} s", transient=True, status=408) from error


def understand(reply: Reply, answer: AnswerType[T] | None) -> Completion[T]:
    """Turn a reply into a typed answer, or into the kind of failure that it is."""
    text = reply.text
    if text is None or not text.strip():
        declined = reply.refusal is not None or reply.finish_reason == "content_filter"
        outcome: Outcome = "refused" if declined else "truncated" if reply.finish_reason == "length" else "empty"
        return Completion(outcome=outcome, raw=reply.refusal or text, error=f"the model gave no text ({outcome})")
    cut = reply.finish_reason == "length"
    if answer is None:
        return Completion(outcome="ok", value=text, raw=text, truncated=cut)  # type: ignore[arg-type]
    problem, found_json = "it holds no JSON", False
    for reading in readings(text):
        try:
            read = answer.read(reading.node)
        except ValueError as error:
            problem, found_json = str(error), True
            cut = cut or reading.truncated
            continue
        truncated = reading.truncated or (cut and not read.value)
        if truncated and not (answer.partial and read.value):
            cut = True
            continue
        notes = (*((reading.how,) if reading.how else ()), *read.notes)
        return Completion("ok", read.value, text, reading.repaired, reading.truncated, notes)
    if cut:
        return Completion("truncated", raw=text, error="the answer was cut off before anything usable")
    if looks_like_refusal(text) and not found_json:
        return Completion("refused", raw=text, error="the model declined in prose")
    return Completion("invalid" if found_json else "unparsable", raw=text, error=problem)


def _with_problem(request: Request[Any], completion: Completion[Any]) -> list[dict[str, str]]:
    messages = [dict(message) for message in request.messages]
    if completion.raw:
        messages.append({"role": "assistant", "content": completion.raw[:_QUOTED]})
    problem = completion.error or completion.outcome
    return [*messages, {"role": "user", "content": REASK.text.replace("{problem}", problem)}]


def _wait(state: RetryCallState) -> float:
    """Back off exponentially with jitter, and never less than the server asked for."""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = error.retry_after if isinstance(error, TransportError) else None
    return max(asked or 0.0, _BACKOFF(state))
