"""Parts that runs of one process share: reply cache, connections, limits of endpoints, budget."""

import asyncio
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from alps.folders import can_be_kept

if TYPE_CHECKING:
    from alps.llm.budget import Budget
    from alps.llm.cache import Cache
    from alps.llm.client import Endpoint
    from alps.llm.structured import Ladder

T = TypeVar("T")


async def close_connections() -> None:
    """Close the connections to providers, if any were opened."""
    if "litellm" in sys.modules:
        from alps.llm import provider

        await provider.close()


def close_cache(cache: "Cache | None") -> None:
    """Close the reply cache, and say on stderr what was wrong with it: a run goes on without."""
    if cache is not None:
        cache.close()
        for trouble in cache.troubles:
            click.echo(f"alps: {trouble}", err=True)


def open_cache() -> "Cache | None":
    """Open the reply cache; None where it is off, or can't be kept."""
    from alps.llm.cache import Cache, default_path

    path, chosen = default_path(), os.environ.get("ALPS_CACHE")
    if not chosen and (path is None or not can_be_kept(path.parent)):
        where = "no home folder found" if path is None else f"{path.parent} can't be written"
        click.echo(
            f"alps: {where}: other runs can't reuse these replies; set ALPS_CACHE to a folder "
            "for them",
            err=True,
        )
        return None
    return Cache(path) if path is not None else None


@dataclass
class Shared:
    """What the runs of one process share.

    Attributes:
        budget: What all of them together may spend; None for no cap.
        endpoints: By address and provider, so that each limit is kept by all runs together.
        places: For the records that are worked on at once, by who answers them.
        ones: Objects of extensions, one of each class.
        summing: Is held by the run that is summarised.
    """

    cache: "Cache | None" = None
    budget: "Budget | None" = None
    ladder: "Ladder | None" = None
    endpoints: "dict[tuple[str | None, str], Endpoint]" = field(default_factory=dict)
    places: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    ones: dict[type, Any] = field(default_factory=dict)
    summing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def one(self, kind: type[T]) -> T:
        """Return the object of a class that all runs of the process share."""
        made: T = self.ones.setdefault(kind, kind())
        return made

    def endpoint(
        self,
        where: tuple[str | None, str],
        at_once: int | None,
        patience: float,
        per_minute: int | None = None,
    ) -> "Endpoint":
        """Return what all clients of an endpoint share.

        Args:
            where: Its address and provider.
            at_once: The most requests under way.
            patience: Seconds for which failures that may pass are tried again.
            per_minute: The most requests in a minute.
        """
        from alps.llm.client import Endpoint

        if where not in self.endpoints:
            self.endpoints[where] = Endpoint.of(at_once, patience)
        self.endpoints[where].limiter.keep_to(per_minute)
        return self.endpoints[where]

    def places_of(self, model: str, api_base: str | None, at_once: int) -> asyncio.Semaphore:
        """Return the places of the records, `at_once`, that an endpoint or a program answers.

        Each record under way is in memory: runs that wait for one endpoint may not add up.
        """
        provider, slash, _ = model.partition("/")
        answering = f"{api_base} {provider}" if slash else model
        return self.places.setdefault(answering, asyncio.Semaphore(at_once))

    async def aclose(self) -> None:
        """Close connections and cache, once all runs have ended."""
        await close_connections()
        close_cache(self.cache)
