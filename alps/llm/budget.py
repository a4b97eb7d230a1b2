"""What a run may spend, checked before each call against the worst case of everything in flight."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alps.errors import UsageError
from alps.llm.ledger import Call, Totals
from alps.llm.prices import Price
from alps.llm.schemas import schema_of
from alps.llm.types import Request, TransportError

_PER_MESSAGE = 32
_PER_REQUEST = 64


@dataclass(frozen=True)
class Spending:
    """Tokens, and the dollars they cost; `cost` is 0 where the price is not known."""

    tokens: int = 0
    cost: float = 0.0


class Budget:
    """Caps on the tokens and dollars of a whole run, earlier sessions of it included.

    A call may start only if everything spent, the worst case of every call in flight and its own worst case stay under
    the caps; otherwise it waits for calls in flight to turn out cheaper, and is refused once none is left.

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
        self._tokens = spent.prompt_tokens + spent.completion_tokens + spent.assumed_tokens
        self._cost = spent.cost + spent.assumed_cost
        self._flights: dict[int, Spending] = {}
        self._landed = asyncio.Condition()
        self._next = 0

    @property
    def bounded(self) -> bool:
        """Whether there is any cap at all."""
        return self._max_cost is not None or self._max_tokens is not None

    async def reserve(self, request: Request[Any], messages: Sequence[Mapping[str, str]]) -> int | None:
        """Set the worst case of a call aside and return its ticket; None if it does not fit any more."""
        if not self.bounded:
            return -1
        worst = worst_case(request, messages, self._price(request.model))
        async with self._landed:
            while not self._fits(worst):
                if not self._flights:
                    return None
                await self._landed.wait()
            self._next += 1
            self._flights[self._next] = worst
            return self._next

    async def settle(self, ticket: int, spending: Spending | None) -> Spending:
        """Replace the worst case behind `ticket` by what was spent; None keeps the worst case, and returns it."""
        if ticket not in self._flights:
            return Spending()
        async with self._landed:
            worst = self._flights.pop(ticket)
            counted = worst if spending is None else spending
            self._tokens += counted.tokens
            self._cost += counted.cost
            self._landed.notify_all()
        return counted

    def _fits(self, worst: Spending) -> bool:
        tokens = self._tokens + worst.tokens + sum(flight.tokens for flight in self._flights.values())
        cost = self._cost + worst.cost + sum(flight.cost for flight in self._flights.values())
        return (self._max_tokens is None or tokens <= self._max_tokens) and (
            self._max_cost is None or cost <= self._max_cost
        )


def worst_case(request: Request[Any], messages: Sequence[Mapping[str, str]], price: Price) -> Spending:
    """Return the most that a call can use.

    A token of a byte-level vocabulary is at least one byte, so the bytes of the prompt and of the schema bound its
    tokens; the answer is bounded by `max_tokens`, or by what the model can answer at most.
    """
    prompt = prompt_bytes(request, messages)
    answer = answer_bound(request, price) or 0
    return Spending(prompt + answer, price.cost(prompt, answer) or 0.0)


def prompt_bytes(request: Request[Any], messages: Sequence[Mapping[str, str]]) -> int:
    """Return an upper bound on the prompt tokens of a call: its bytes, and what a provider wraps around them."""
    schema = schema_of(request.answer.schema) if request.answer is not None else ""
    text = sum(len(message["content"].encode(errors="surrogatepass")) + _PER_MESSAGE for message in messages)
    return text + len(schema.encode()) + _PER_REQUEST


def answer_bound(request: Request[Any], price: Price) -> int | None:
    """Return the most tokens the model may answer to `request`, None where nothing bounds it."""
    given = request.sampling.get("max_tokens")
    return int(given) if given is not None else price.max_output_tokens


def check_bounded(key: str, model: str, *, max_tokens: int | None, price: Price) -> None:
    """Refuse a budget that nothing can enforce.

    Raises:
        UsageError: If nothing bounds the length of the model's answers.
    """
    if max_tokens is None and price.max_output_tokens is None:
        raise UsageError(
            f"{key}={model}: how much it can answer is not known, so no budget can hold; give "
            f"{'judge_' if key == 'judge' else ''}max_tokens=, or its max_output_tokens in a price file"
        )


def spending_of(call: Call) -> Spending:
    """Return what an answered call used."""
    return Spending((call.prompt_tokens or 0) + (call.completion_tokens or 0), call.cost or 0.0)


def may_be_billed(error: TransportError) -> bool:
    """Tell whether an attempt without an answer may have been answered, and billed, all the same."""
    return not error.unsent and error.status in (None, 408)
