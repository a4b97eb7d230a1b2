"""The budget of a run: before each call, what such calls cost is set aside for it."""

import asyncio
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from alps.llm.ledger import Call, Totals
from alps.llm.prices import Price, ReplyTokens
from alps.llm.replies import schema_of
from alps.llm.types import Request

# Tokens that a provider wraps around a message, and around a request
_PER_MESSAGE = 32
_PER_REQUEST = 64
# English has 4.2 bytes a token under today's vocabularies, Chinese and code about 3
_BYTES_A_TOKEN = 3
# Tokens that an answer is taken to have before enough were seen
_FIRST_ANSWER = 2_048
# Answers that are seen before less than the first guess is set aside
_ENOUGH = 8
_QUANTILE, _TIMES = 0.99, 2


@dataclass(frozen=True)
class Spending:
    """Tokens, and the dollars they cost; `cost` is 0 where the price is not known."""

    tokens: int = 0
    cost: float = 0.0


@dataclass
class _Seen:
    """What the calls of one model for one purpose have used so far."""

    answers: list[int] = field(default_factory=list)
    most_tokens_a_byte: float = 1 / _BYTES_A_TOKEN

    def add(self, size: int, spent: Call) -> None:
        """Note an answered call whose prompt took at most `size` bytes."""
        insort(self.answers, spent.completion_tokens or 0)
        a_byte = (spent.prompt_tokens or 0) / size
        self.most_tokens_a_byte = min(1.0, max(self.most_tokens_a_byte, a_byte))

    def answer(self) -> int:
        """Return the tokens to set aside for an answer: twice the 99th percentile of those seen."""
        if not self.answers:
            return _FIRST_ANSWER
        usual = _TIMES * self.answers[ceil(_QUANTILE * len(self.answers)) - 1]
        return usual if len(self.answers) >= _ENOUGH else max(usual, _FIRST_ANSWER)


@dataclass(frozen=True)
class _Flight:
    reserve: Spending
    seen: _Seen
    size: int


class Budget:
    """Caps on the tokens and dollars of a whole run, earlier sessions of it included.

    A call may start only if everything spent, what is set aside for the calls in flight and what is
    set aside for it stay under the caps; otherwise it waits for calls in flight to turn out
    cheaper, and is refused once none is left. What is set aside is what such calls have cost so
    far, not the most that the model could answer (128,000 tokens of gpt-5 are $1.28): a cap may be
    passed, by at most what is in flight when it is reached.

    Args:
        max_cost: US dollars, None for no cap.
        max_total_tokens: Prompt and completion tokens together, None for no cap.
        spent: What earlier sessions of the run spent.
        price: Looks up the price of a model.
    """

    def __init__(
        self,
        *,
        max_cost: float | None,
        max_total_tokens: int | None,
        spent: Totals,
        price: Callable[[str], Price],
    ) -> None:
        self._max_cost = max_cost
        self._max_tokens = max_total_tokens
        self._price = price
        self._tokens, self._cost = spent.counted
        self._assumed = Spending(spent.assumed_tokens, spent.assumed_cost)
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._flights: dict[int, _Flight] = {}
        self._landed = asyncio.Condition()
        self._next = 0
        self._refused = Spending()

    @property
    def account(self) -> str:
        """Describe the budget: spent, limit, and the estimate for another call."""
        parts, assumed = [], self._assumed
        if self._max_cost is not None:
            spent = f"${self._cost:.4f} of max_cost={self._max_cost:g} is spent"
            spent += f" (${assumed.cost:.4f} of it assumed)" if assumed.cost else ""
            parts.append(f"{spent}, and another call may cost ${self._refused.cost:.4f}")
        if self._max_tokens is not None:
            spent = f"{self._tokens:,} of max_total_tokens={self._max_tokens} are spent"
            spent += f" ({assumed.tokens:,} of them assumed)" if assumed.tokens else ""
            parts.append(f"{spent}, and another call may use {self._refused.tokens:,}")
        return f"not within the budget: {'; '.join(parts)}"

    async def reserve(
        self,
        request: Request[Any],
        messages: Sequence[Mapping[str, str]],
        *,
        service: str | None = None,
        sent: bool = False,
    ) -> int | None:
        """Set aside what a call is likely to use; return its ticket, None if it does not fit.

        `service` is how it will be served. What was `sent` before is set aside in any case.
        """
        price, size = self._price(request.model), prompt_bytes(request, messages)
        seen = self._seen.setdefault((request.model, request.purpose), _Seen())
        async with self._landed:
            while not self._fits(reserve := _reserve(request, size, price, seen, service)):
                if sent:
                    break
                if not self._flights:
                    self._refused = reserve
                    return None
                await self._landed.wait()
            self._next += 1
            self._flights[self._next] = _Flight(reserve, seen, size)
            return self._next

    async def settle(self, ticket: int, call: Call, *, billed: bool | None) -> Spending:
        """Replace what was set aside by what a call used; return what is counted without knowing.

        `billed` tells whether the call is on the bill, None where nobody can know.
        """
        async with self._landed:
            flight = self._flights.pop(ticket)
            is_counted = call.prompt_tokens is not None and call.completion_tokens is not None
            if billed and is_counted:
                flight.seen.add(flight.size, call)
            tokens = (call.prompt_tokens or 0) + (call.completion_tokens or 0)
            spent = Spending(tokens, call.cost or 0.0)
            assumed, reserve = Spending(), flight.reserve
            if billed is None or (billed and not is_counted):
                unknown = max(0, reserve.tokens - spent.tokens)
                assumed = Spending(unknown, max(0.0, reserve.cost - spent.cost))
            elif billed and call.cost is None:
                assumed = Spending(0, reserve.cost)
            self._tokens += spent.tokens + assumed.tokens
            self._cost += spent.cost + assumed.cost
            tokens, cost = self._assumed.tokens + assumed.tokens, self._assumed.cost + assumed.cost
            self._assumed = Spending(tokens, cost)
            self._landed.notify_all()
        return assumed

    def _fits(self, reserve: Spending) -> bool:
        flights = [flight.reserve for flight in self._flights.values()]
        tokens = self._tokens + reserve.tokens + sum(flight.tokens for flight in flights)
        cost = self._cost + reserve.cost + sum(flight.cost for flight in flights)
        if self._max_tokens is not None and tokens > self._max_tokens:
            return False
        return self._max_cost is None or cost <= self._max_cost


def _reserve(
    request: Request[Any], size: int, price: Price, seen: _Seen, service: str | None
) -> Spending:
    prompt, answer = ceil(size * seen.most_tokens_a_byte), seen.answer()
    if (most := answer_bound(request, price)) is not None:
        # Of a stranger's request, say, all that it may answer is set aside.
        answer = most if request.form is not None else min(answer, most)
    used = ReplyTokens(prompt, answer, service=service)
    return Spending(prompt + answer, price.cost(used) or 0.0)


def prompt_bytes(request: Request[Any], messages: Sequence[Mapping[str, str]]) -> int:
    """Return an upper bound on the prompt tokens of a call: its bytes, wrapping included."""
    schema = schema_of(request.answer.schema) if request.answer is not None else ""
    contents = [message["content"].encode(errors="surrogatepass") for message in messages]
    wrapped = _PER_REQUEST + _PER_MESSAGE * len(contents)
    return sum(map(len, contents)) + len(schema.encode()) + wrapped


def answer_bound(request: Request[Any], price: Price) -> int | None:
    """Return the most tokens the model may answer to `request`, None where nothing bounds it."""
    limit = request.decoding.get("max_tokens") if request.form is None else request.form.most
    return int(limit) if limit is not None else price.max_output_tokens
