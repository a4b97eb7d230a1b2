"""What tokens cost: rates by kind of token, by the length of the prompt, and by how a request is
served.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

_SAME_RATES = {"fast": "priority"}
_DEARER = ("priority", "ultrafast")
"""Ways of being served that cost more than the standard one: what is not priced by itself has no
known price there.
"""


@dataclass(frozen=True)
class Used:
    """The tokens of a reply, as far as it counted them.

    All are from 0, and parts are at most their whole.

    Attributes:
        prompt: All that was sent; `cached` of them the provider had in its cache, `cache_write` it
            put there, and of those `cache_write_hour` for an hour.
        completion: All that was answered; `reasoning` of them are thought.
        service: How the request was served, as `flex` or `batch`, None for the ordinary way.
    """

    prompt: int
    completion: int
    cached: int = 0
    cache_write: int = 0
    cache_write_hour: int = 0
    reasoning: int = 0
    service: str | None = None


@dataclass(frozen=True)
class Rates:
    """US dollars per token.

    None: cached and written tokens cost what input does, and thought what output does.
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    cache_write_hour: float | None = None
    reasoning: float | None = None

    def cost(self, used: Used) -> float:
        """Return the dollars for what was used."""
        cached = min(used.cached, used.prompt)
        written = min(used.cache_write, used.prompt - cached)
        for_an_hour = min(used.cache_write_hour, written)
        thought = min(used.reasoning, used.completion)
        write = _or(self.cache_write, self.input)
        parts = (
            (used.prompt - cached - written, self.input),
            (cached, _or(self.cached_input, self.input)),
            (written - for_an_hour, write),
            (for_an_hour, _or(self.cache_write_hour, write)),
            (used.completion - thought, self.output),
            (thought, _or(self.reasoning, self.output)),
        )
        return sum(tokens * rate for tokens, rate in parts)


@dataclass(frozen=True)
class Tier:
    """The rates of all tokens of a request whose prompt has more than `above` tokens."""

    above: int
    rates: Rates


@dataclass(frozen=True)
class Price:
    """US dollars per token, and the most tokens the model can answer; None where it is not known.

    Attributes:
        tiers: The rates of longer prompts, the shortest first.
        services: By how a request is served, its rates and their tiers.
    """

    input: float | None
    output: float | None
    max_output_tokens: int | None
    source: str
    cached_input: float | None = None
    cache_write: float | None = None
    cache_write_hour: float | None = None
    reasoning: float | None = None
    tiers: tuple[Tier, ...] = ()
    services: Mapping[str, tuple[Rates, tuple[Tier, ...]]] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether there is a price at all."""
        return self.input is not None and self.output is not None

    def cost(
        self, prompt_tokens: int, completion_tokens: int, *, cached_tokens: int = 0
    ) -> float | None:
        """Return the dollars for so many tokens in the ordinary way, or None where the price is not
        known.
        """
        return self.cost_of(Used(prompt_tokens, completion_tokens, cached_tokens))

    def cost_of(self, used: Used) -> float | None:
        """Return the dollars for what was used, or None where the price is not known.

        A way of being served without rates of its own has the standard ones, unless it is known to
        cost more.
        """
        if self.input is None or self.output is None:
            return None
        kinds = self.cached_input, self.cache_write, self.cache_write_hour, self.reasoning
        rates, tiers = Rates(self.input, self.output, *kinds), self.tiers
        service = (used.service or "standard").lower()
        service = _SAME_RATES.get(service, service)
        if service in self.services:
            rates, tiers = self.services[service]
        elif service in _DEARER:
            return None
        reached = [tier.rates for tier in tiers if used.prompt > tier.above]
        return (reached[-1] if reached else rates).cost(used)


def _or(rate: float | None, otherwise: float) -> float:
    return otherwise if rate is None else rate
