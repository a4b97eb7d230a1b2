"""System and judge of a run: opened for it, closed when it ends.

Runs of one process share the reply cache, the connections, the limits of endpoints and the budget.
"""

import asyncio
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from alps.errors import UsageError, closest, one_line
from alps.extension import is_served, sender_of
from alps.folders import can_be_kept
from alps.judges.base import Judge
from alps.judges.embedded import (
    EMBEDDED_JUDGES,
    beginnings_of_judges,
    embedded_judge,
    is_embedded_judge,
)
from alps.keys import AskSettings
from alps.llm.ledger import Ledger, Totals
from alps.llm.secrets import redact
from alps.llm.types import EndpointCalls
from alps.prompts import Prompt
from alps.run.folder import Capped
from alps.run.parts import Parts
from alps.run.source import RunData
from alps.settings import RunSettings
from alps.systems import PROGRAM, System, is_local, resolve_systems
from alps.systems.base import LlmSystem
from alps.systems.resolve import beginnings_of_systems
from alps.tasks import Task
from alps.waiting import erase

if TYPE_CHECKING:
    from alps.llm.budget import Budget
    from alps.llm.cache import Cache
    from alps.llm.client import Client, Endpoint
    from alps.llm.structured import Ladder
    from alps.llm.types import Gathering

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


@dataclass(frozen=True)
class AskedAs:
    """How an LLM judge is asked where the same answers are judged several times.

    Attributes:
        rubrics: By their names, those that are said in other words.
        draw: Which of its independent draws, from 0.
        cached: Whether replies may come from the cache.
    """

    rubrics: Mapping[str, Prompt] = field(default_factory=dict)
    draw: int = 0
    cached: bool = True


AS_EVER = AskedAs()


@dataclass(frozen=True)
class Services:
    """Who is asked in a run, and what they share.

    Attributes:
        systems: A row for every track, in their order, with the system once per repeat.
        cache: The reply cache; None where no LLM is asked, or it is off.
        clients: Who asks LLMs; None where nobody does.
        shared: What other runs of the process use, too.
        batches: Where requests wait to be sent together.
        parts: The parts of extensions, which are closed with the rest.
    """

    systems: tuple[tuple[System, ...], ...]
    judge: Judge
    cache: "Cache | None"
    clients: "Clients | None" = None
    ladder: "Ladder | None" = None
    shared: Shared | None = None
    batches: "Gathering | None" = None
    parts: Parts = ()

    async def aclose(self) -> None:
        """Give up what is still asked, and end the processes and connections that were opened."""
        if self.clients is not None:
            await self.clients.give_up()
        if self.batches is not None:
            await self.batches.aclose()
        shared = (_innermost(system) for row in self.systems for system in row)
        for system in {id(system): system for system in shared}.values():
            close = getattr(system, "aclose", None)
            if close is not None:
                await close()
        for part in self.parts:
            await part.aclose()
        # Other runs go on with what they share.
        if self.shared is None:
            await close_connections()
            close_cache(self.cache)


def _innermost(system: Any) -> Any:
    """Return what holds processes and connections, within what it is asked through."""
    while hasattr(system, "system"):
        system = system.system
    return system


class Limits(Capped, Protocol):
    """The limits that a client keeps to, as settings have them."""

    @property
    def at_once(self) -> int | None:
        """The most requests under way at each endpoint."""

    @property
    def timeout(self) -> float:
        """Seconds for one request."""

    @property
    def patience(self) -> float:
        """Seconds for which failures that may pass are tried again."""


class Clients:
    """The clients of a run, one an endpoint, as each keeps to `concurrency` alone."""

    def __init__(
        self, settings: Limits, ledger: Ledger, sharing: Shared, batches: "Gathering | None" = None
    ) -> None:
        self._settings, self._ledger, self._sharing = settings, ledger, sharing
        self._batches = batches
        self._clients: dict[tuple[str | None, str], Client] = {}

    def of(self, api_base: str | None, model: str, per_minute: int | None = None) -> "Client":
        """Return who asks a model at an endpoint, `per_minute` times at most."""
        served = is_served(model)
        where = api_base, model if served else model.partition("/")[0]
        at_once, patience = self._settings.at_once, self._settings.patience
        endpoint = self._sharing.endpoint(where, at_once, patience, per_minute)
        if where not in self._clients:
            from alps.llm.client import Client

            settings, totals = self._settings, self._ledger.totals
            limiter = endpoint.limiter
            asking = EndpointCalls(model, api_base, settings.timeout, limiter, totals, say_once)
            self._clients[where] = Client(
                concurrency=settings.at_once,
                ledger=self._ledger,
                cache=self._sharing.cache,
                timeout=settings.timeout,
                budget=self._sharing.budget,
                patience=patience,
                notice=say_once,
                ladder=self._sharing.ladder,
                endpoint=endpoint,
                batches=self._batches,
                sender=sender_of(asking),
            )
        return self._clients[where]

    async def give_up(self) -> None:
        """Give up what is still asked."""
        for client in self._clients.values():
            await client.aclose()


@dataclass(frozen=True)
class UsedModel:
    """An LLM that is to be asked, by the `key` of its settings, and with what."""

    key: str
    name: str
    api_base: str | None
    sampling: Mapping[str, Any]
    extra: Mapping[str, Any] | None


def _model_of(settings: RunSettings) -> UsedModel:
    sampling, extra = settings.sampling(), settings.request
    return UsedModel("model", settings.model, settings.api_base, sampling, extra)


def _judge_of(settings: AskSettings) -> UsedModel:
    sampling, extra = settings.judge_sampling(), settings.judge_request
    return UsedModel("judge", settings.judge, settings.judge_api_base, sampling, extra)


def asked_models(
    settings: RunSettings, tasks: Sequence[Task], parts: Parts = ()
) -> list[UsedModel]:
    """Return the LLMs that a run asks, those of its parts first."""
    asked = [one for part in parts for one in part.asked()]
    asked += [] if is_local(settings.model, tasks) else [_model_of(settings)]
    return asked + ([] if is_embedded_judge(settings.judge) else [_judge_of(settings)])


def open_services(
    settings: RunSettings,
    tasks: Sequence[Task],
    ledger: Ledger,
    folder: Path | None,
    asked_as: AskedAs = AS_EVER,
    *,
    id_key: str = "",
    shared: Shared | None = None,
    parts: Parts = (),
) -> Services:
    """Set up system and judge; litellm is only ever imported where one of them is an LLM.

    `id_key` makes the ids that programs and classes are shown. `shared` is what other runs use,
    too; `parts` are those of extensions, which are opened by `open_parts`.

    Raises:
        AlpsError: If one of them is unknown, or the budget can't be enforced.
    """
    asking = asked_models(settings, tasks, parts)
    if not asking:
        systems = _local(settings, tasks, folder, id_key)
        return Services(systems, embedded_judge(settings.judge), None, shared=shared, parts=parts)
    from alps.llm.structured import Ladder

    sharing = shared
    if sharing is None:
        cache = open_cache() if asked_as.cached else None
        sharing = Shared(cache, capped(settings, ledger.totals, asking), Ladder())
    batches = None
    if folder is not None:
        for part in parts:
            batches = batches or part.gather(folder, sharing)
    clients = Clients(settings, ledger, sharing, batches)
    if is_local(settings.model, tasks):
        systems = _local(settings, tasks, folder, id_key)
    else:
        systems = _llm_systems(settings, tasks, clients)
    embedded = is_embedded_judge(settings.judge)
    judge = embedded_judge(settings.judge) if embedded else _llm_judge(settings, clients, asked_as)
    return Services(
        systems,
        judge,
        sharing.cache,
        clients,
        sharing.ladder,
        shared=shared,
        batches=batches,
        parts=parts,
    )


def open_judge(settings: AskSettings, ledger: Ledger) -> Services:
    """Set up a judge alone.

    Raises:
        AlpsError: If it is unknown, its key is missing, or the budget can't be enforced.
    """
    check_judge(settings)
    if is_embedded_judge(settings.judge):
        return Services((), embedded_judge(settings.judge), None)
    sharing = Shared(open_cache(), capped(settings, ledger.totals, [_judge_of(settings)]))
    clients = Clients(settings, ledger, sharing)
    return Services((), _llm_judge(settings, clients), sharing.cache, clients)


def check_models(
    asked: Iterable[UsedModel], embedded: Collection[str] = (), *, keys: bool = True
) -> None:
    """Refuse, with an AlpsError, LLMs that are unknown, have no key, or take other options."""
    for one in asked:
        _check_llm(one, embedded, keys=keys)


def check_judge(settings: AskSettings, *, keys: bool = True) -> None:
    """Refuse a judge that is unknown, has no key, or takes other options.

    Nothing is written before.

    Raises:
        AlpsError: What is unknown, missing or not taken, in one line.
    """
    if is_embedded_judge(settings.judge):
        embedded_judge(settings.judge)
        return
    embedded = (*EMBEDDED_JUDGES, *beginnings_of_judges())
    _check_llm(_judge_of(settings), embedded, keys=keys)


def check_names(
    settings: RunSettings, data: RunData, parts: Parts, *, generate: bool, keys: bool = True
) -> None:
    """Refuse unknown systems and judges, and LLMs whose key is missing or that take other options.

    Nothing is written before.

    Args:
        settings: What names them.
        data: What is asked about.
        parts: Of extensions, which check what is theirs.
        generate: Whether the system is asked.
        keys: Whether keys are asked for: a dry run needs none, and does not import litellm to find
            one.

    Raises:
        AlpsError: What is unknown, missing or not taken, in one line.
    """
    tasks = data.tasks
    for part in parts:
        part.check(data, generate=generate, keys=keys)
    if generate and not is_local(settings.model, tasks):
        known = [name for task in tasks for name in task.systems]
        known += beginnings_of_systems()
        _check_llm(_model_of(settings), known, keys=keys)
    elif generate and not settings.model.startswith(PROGRAM):  # a program starts in its run folder
        for system in dict.fromkeys(resolve_systems(settings.model, tasks)):
            if hasattr(system, "check_data"):
                system.check_data(data)
    elif generate:
        from alps.llm.secrets import program_environment

        program_environment(settings.passed)
    for task in tasks if generate else ():
        if task.asking.own_system is not None:
            local = is_local(settings.model, tasks)
            task.asking.own_system.check(settings.model, api_base=settings.api_base, local=local)
    if generate and settings.scoring != "alps" and settings.extras != "none":
        why = f"scoring={settings.scoring} uses no judge; leave out extras="
        raise UsageError(f"extras={settings.extras}: {why}")
    if settings.scoring != "alps" and not is_embedded_judge(settings.judge):
        why = f"scoring={settings.scoring} uses no judge; leave out judge=, or set recorded:FILE"
        raise UsageError(f"judge={settings.judge}: {why}")
    check_judge(settings, keys=keys)


def _local(
    settings: RunSettings, tasks: Sequence[Task], folder: Path | None, id_key: str
) -> tuple[tuple[System, ...], ...]:
    systems = resolve_systems(
        settings.model,
        tasks,
        timeout=settings.timeout,
        folder=folder,
        env=settings.passed,
        id_key=id_key,
    )
    return tuple((system,) * settings.repeats for system in systems)


def _llm_systems(
    settings: RunSettings, tasks: Sequence[Task], clients: Clients
) -> tuple[tuple[System, ...], ...]:
    from alps.llm.prices import longest_budget

    client = clients.of(settings.api_base, settings.model, settings.requests_per_minute)
    most = longest_budget(settings.model, settings.sampling(), settings.request)
    budgets = {task.track: task.answer.within for task in tasks if task.answer.within is not None}
    asked: dict[str, Any] = {"client": client, "api_base": settings.api_base}
    asked["extra"] = settings.request
    by_messages = partial(
        LlmSystem,
        sampling=settings.sampling(),
        structured=settings.structured,
        budgets={} if most is None else budgets,
        most=most,
    )
    systems = []
    for task in tasks:
        made = partial(task.asking.own_system or by_messages, settings.model, **asked)
        systems.append(tuple(made(repeat=repeat) for repeat in range(settings.repeats)))
    return tuple(systems)


def _llm_judge(settings: AskSettings, clients: Clients, asked_as: AskedAs = AS_EVER) -> Judge:
    from alps.judges.llm import LlmJudge
    from alps.llm.prices import longest_budget

    most = settings.judge_requests_per_minute
    client = clients.of(settings.judge_api_base, settings.judge, most)
    first = asked_as.draw * settings.judge_repeats
    draws = [
        LlmJudge(
            settings.judge,
            client=client,
            api_base=settings.judge_api_base,
            sampling=settings.judge_sampling(),
            extra=settings.judge_request or {},
            repeat=repeat,
            seed=settings.seed,
            wording=asked_as.rubrics,
            structured=settings.judge_structured,
            most=longest_budget(settings.judge, settings.judge_sampling(), settings.judge_request),
        )
        for repeat in range(first, first + settings.judge_repeats)
    ]
    if len(draws) == 1:
        return draws[0]
    from alps.judges.repeated import RepeatedJudge

    return RepeatedJudge(draws)


def check_priced_models(asked: Iterable[UsedModel]) -> None:
    """Refuse, with a UsageError, models without a known price: no cap in dollars could be kept."""
    from alps.llm.prices import check_priced

    for one in asked:
        check_priced(one.key, one.name)


def capped(settings: Capped, spent: Totals, asked: Iterable[UsedModel] = ()) -> "Budget | None":
    """Return the budget that caps leave after what is spent; None without a cap.

    A cap in dollars needs a price for each model that is `asked`.
    """
    if settings.max_cost is not None:
        check_priced_models(asked)
    if settings.max_cost is None and settings.max_total_tokens is None:
        return None
    from alps.llm.budget import Budget
    from alps.llm.prices import price_of

    most = settings.max_total_tokens
    return Budget(max_cost=settings.max_cost, max_total_tokens=most, spent=spent, price=price_of)


def _check_llm(asked: UsedModel, embedded: Collection[str], *, keys: bool) -> None:
    from alps.llm.prices import price_of

    key, name = asked.key, asked.name
    if is_served(name):
        if sender_of(EndpointCalls(name, asked.api_base)) is None:
            raise UsageError(f"{key}={name}: the extension that serves it lacks a sender (sends)")
        return
    price_of(name)  # a price file that can't be read is told before anything is paid for
    guess = closest(name, embedded)
    if "," in name:
        raise UsageError(f"{key}={redact(name)}: a run has one model; run each separately")
    if name.endswith("/"):
        example = "write, for example, openai/gpt-4.1-mini"
        raise UsageError(f"{key}={name}: the model is missing; {example}")
    if guess and "/" not in name:
        raise UsageError(f"{key}={name}: unknown{guess} (LLMs are written provider/model)")
    from alps.llm.prices import is_listed

    if not keys and is_listed(name):
        return
    from alps.llm.preflight import check_model, check_name, check_options

    try:
        check_name(name)
    except UsageError as error:
        kinds = ", ".join(known for known in embedded if known.endswith(":"))
        others = f"; other kinds begin with {kinds}" if kinds and ":" in name else ""
        raise UsageError(f"{key}={name}: {error}{others}{guess}") from error
    if keys:
        check_model(name, api_base=asked.api_base, warn=say_once)
    prefix = "" if key == "model" else "judge_"
    check_options(name, asked.sampling, asked.extra or {}, prefix=prefix, keys=keys)


@cache
def say_once(line: str) -> None:
    """Say something on stderr, however often it is checked before a run begins."""
    erase()
    # What a provider says may stand in it.
    click.echo(f"alps: {one_line(line)}", err=True)
