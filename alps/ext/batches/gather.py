"""Gathering of requests into batches, and the way of a batch from its order to its results.

Requests come one by one, as the run works on its records. Once no more have come for a while, all
that wait are ordered as one batch, and each gets its answer when the batch has ended. So a run is
two batches, answers and then judgements, and needs to know nothing of it.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from alps.errors import AlpsError, CredentialError, UsageError
from alps.ext.batches import DAY
from alps.ext.batches.interface import (
    MESSAGES,
    BatchLine,
    BatchResult,
    DraftRequest,
    ListedBatch,
    Results,
    Spool,
    State,
    provider_of,
)
from alps.ext.batches.part import BatchEntry, BatchJournal, Room
from alps.ext.batches.providers import FileBatches, Interface, MessageBatches
from alps.llm import provider
from alps.llm.prices import BATCH
from alps.llm.retries import PATIENCE, Tries
from alps.llm.types import JUDGE_CHECK, Reply, Request, TransportError
from alps.show.formatting import counted

T = TypeVar("T")
Endpoint = tuple[str, str | None]
"""A model and the address that it is asked at."""

# Seconds without another request after which those that wait are sent. Each batch under way doubles
# them: where requests come slowly, as from a memory that works a minute on each record, batches of
# one would follow each other.
_QUIET, _LONGEST_QUIET = 2.0, 300.0
# Seconds between two questions after a batch: a tenth of its age
_SOONEST, _LATEST, _SHARE = 0.2, 60.0, 0.1
# Seconds by which the clock of a provider may differ from ours
_SKEW = 300.0
# Seconds for which a batch that was just ordered may not be there yet
_APPEARING = 60.0
# Seconds for which the end of a batch that was cancelled is waited for
_ENDING = 3_600.0
# Pages of a list of batches, of a hundred each: OpenAI lets 2,000 be ordered an hour
_MOST_PAGES = 1_000
_DRAFTED_AT_ONCE = 16
# What endpoints without a batch interface answer
_NOT_THERE = (404, 405, 501)


@dataclass(frozen=True)
class BatchAnswer:
    """The result of one request, and the provider's name of the batch that it came in."""

    result: BatchResult
    batch: str


@dataclass
class _Gathering:
    """Requests that wait to be sent together: those of one model, asked at one address."""

    endpoint: Endpoint
    spool: Spool
    timer: asyncio.TimerHandle | None = None


class Batches:
    """The batches of a run.

    Args:
        journal: Where every step is written before the next.
        gather: Whether new requests are gathered; else only what is under way is taken up.
        room: Memory for the records whose requests wait.
        deadline: Seconds after which what is left of a batch is asked for in the ordinary way.
        patience: Seconds for which an interface that fails is tried again.
        notice: Is given a line for each batch that is submitted, and for each that has ended.
    """

    def __init__(
        self,
        journal: BatchJournal,
        *,
        gather: bool = True,
        room: Room | None = None,
        deadline: float = DAY,
        patience: float = PATIENCE,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self.journal = journal
        self.room = room or Room()
        self._gather, self._deadline, self._patience = gather, deadline, patience
        self._notice = notice or (lambda line: None)
        self._interfaces: dict[Endpoint, Interface] = {}
        self._gatherings: dict[tuple[Endpoint, str], _Gathering] = {}
        self._waiting: dict[str, asyncio.Future[BatchAnswer | None]] = {}
        self._kept: dict[str, BatchAnswer] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._drafting = asyncio.Semaphore(_DRAFTED_AT_ONCE)
        self._opening = asyncio.Lock()

    @property
    def places(self) -> Room | None:
        """The room that a record waits for before it is read; None where nothing is gathered."""
        return self.room if self._gather else None

    def note(self, messages: Sequence[Mapping[str, str]]) -> None:
        """Record the memory use of the current record's requests."""
        self.room.note(messages)

    def is_billed(self, key: str, batch: str) -> bool:
        """Tell whether the ledger has the answer of a batch already."""
        return self.journal.is_billed(key, batch)

    async def read(
        self, request: Request[Any], messages: list[dict[str, str]], answered: BatchAnswer
    ) -> Reply:
        """Return an answer of a batch as the reply of a single request.

        Raises:
            TransportError: If it was not answered, or answered with an error.
        """
        result = answered.result
        if result.status is None:
            raise TransportError(result.lost, transient=True)
        reply = await _read_kept(request, messages, result.status, result.body)
        # by these two a row of the ledger is known again
        return replace(reply, service=BATCH, request_id=answered.batch)

    def takes(self, request: Request[Any], key: str) -> bool:
        """Tell whether a batch answers a request: one under way, or the next."""
        if request.form is not None:
            return False
        # Nothing else is asked before a judge is checked: a batch would hold it alone.
        gathered = self._gather and request.purpose != JUDGE_CHECK
        return gathered or self.is_sent(key)

    def is_sent(self, key: str) -> bool:
        """Tell whether a request is in a batch under way, such as that of a run that was killed."""
        return self.journal.holding(key) is not None

    async def check(self, request: Request[Any]) -> None:
        """Ask an endpoint for its batches, so that nothing is paid for where it takes none.

        Raises:
            AlpsError: If it has none, refuses the key, or does not answer.
        """
        interface = await self._interface(request)
        try:
            await self._tried(interface.listed)
        except TransportError as error:
            if error.status in _NOT_THERE:
                what = f"the endpoint does not accept batches ({error}); remove batch="
                raise UsageError(f"model '{request.model}': {what}") from error
            raise _fatal(request.model, "alps could not list the batches", error) from error

    async def answered(
        self, request: Request[Any], messages: list[dict[str, str]], key: str
    ) -> BatchAnswer | None:
        """Return a batch's answer to a request; None if it is sent as a single request.

        Raises:
            AlpsError: If the provider refuses the batch, or its interface can't be reached.
            TransportError: If the request can't be sent at all.
        """
        endpoint = request.model, request.api_base
        await self._interface(request)
        while self._gather or self.is_sent(key):
            if (kept := self._kept.pop(key, None)) is not None:
                return kept
            future = self._waiting.get(key)
            if future is None:
                future = self._waiting[key] = asyncio.get_running_loop().create_future()
                entry = self.journal.holding(key)
                if entry is None:
                    async with self._drafting:
                        draft = await _draft(request, messages)
                    self._add(endpoint, BatchLine(key, draft))
                elif entry.tag not in self._under_way:
                    up = self._take_up(endpoint, entry)
                    self._begin(entry.tag, up, entry.model, entry.keys)
            answered = await asyncio.shield(future)
            if answered is not None:
                return answered
        return None

    def taken(self, answered: BatchAnswer) -> None:
        """Hear that an answer is in the ledger."""
        self.journal.note_billed(answered.result.key, answered.batch)

    async def aclose(self) -> None:
        """Stop waiting; submitted batches continue, and the same command resumes them."""
        for gathering in self._gatherings.values():
            gathering.spool.close()
            if gathering.timer is not None:
                gathering.timer.cancel()
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for interface in self._interfaces.values():
            await interface.aclose()
        kept = self._kept.values()
        unbilled = [one for one in kept if not self.journal.is_billed(one.result.key, one.batch)]
        if unbilled:
            what = f"unused in this run: {counted(len(unbilled), 'answer')} from earlier batches"
            self._notice(f"{what} (billed by the provider, but not counted in this run's cost)")
        self.journal.close()

    def _add(self, endpoint: Endpoint, line: BatchLine) -> None:
        """Have a request wait for others; those that wait are sent where it does not fit in."""
        where, interface = (endpoint, line.draft.url), self._interfaces[endpoint]
        row = interface.row(line)
        if where in self._gatherings and not self._gatherings[where].spool.takes(row):
            self._send(where)
        if where not in self._gatherings:
            spool = Spool(self.journal.folder, interface.form)
            self._gatherings[where] = _Gathering(endpoint, spool)
        gathering = self._gatherings[where]
        gathering.spool.add(line, row)
        if gathering.timer is not None:
            gathering.timer.cancel()
        quiet = min(_QUIET * 2 ** len(self._under_way), _LONGEST_QUIET)
        gathering.timer = asyncio.get_running_loop().call_later(quiet, self._send, where)

    def _send(self, where: tuple[Endpoint, str]) -> None:
        gathering = self._gatherings.pop(where)
        if gathering.timer is not None:
            gathering.timer.cancel()
        endpoint, spool = gathering.endpoint, gathering.spool
        self._begin(spool.keys[0], self._order(endpoint, spool), endpoint[0], spool.keys)

    def _begin(self, name: str, work: Awaitable[None], model: str, keys: Iterable[str]) -> None:
        async def watched() -> None:
            try:
                await work
            except TransportError as error:
                self._fail(keys, _fatal(model, "a batch failed", error))
            except Exception as error:  # whoever waits hears of it, a full disk included
                self._fail(keys, error)

        task = asyncio.ensure_future(watched())
        self._under_way[name] = task
        task.add_done_callback(lambda ended: self._under_way.pop(name, None))

    async def _order(self, endpoint: Endpoint, spool: Spool) -> None:
        """Order a batch, wait for its end, and hand its results out."""
        with closing(spool):
            spool.finish()
            entry = await self.journal.intend(endpoint[0], spool.keys)
            entry = await self._ordered(endpoint, entry, spool)
        await self._carry(endpoint, entry)

    async def _take_up(self, endpoint: Endpoint, entry: BatchEntry) -> None:
        """Take up a batch that an earlier session intended, or ordered."""
        if entry.id is None:
            name = await self._found(self._interfaces[endpoint], entry)
            if name is None:  # it was never ordered: its requests are gathered again
                await self._drop(entry)
                return
            entry = await self.journal.step(entry, "ordered", id=name)
        self._notice(f"resumed batch {entry.id} with {counted(len(entry.keys), 'request')}")
        await self._carry(endpoint, entry)

    async def _ordered(self, endpoint: Endpoint, entry: BatchEntry, spool: Spool) -> BatchEntry:
        """Send a batch until it is taken; it is never ordered twice as far as anybody can tell."""
        interface, loop = self._interfaces[endpoint], asyncio.get_running_loop()
        tries, unread = Tries(self._patience), None

        async def placed(file: str) -> None:
            await self.journal.step(entry, "placed", file=file)

        while True:
            sent = loop.time()
            try:
                if unread is not None:
                    raise unread
                name = await interface.create(spool, entry.tag, placed=placed)
                break
            except TransportError as error:
                # Answered with success: it is taken, though what it is called is yet to be found.
                unread = error if error.billed else None
                heard = error.status is not None and 400 <= error.status < 500
                pause = tries.pause_after(
                    error, sent=sent, now=loop.time(), last_answer=float("-inf")
                )
                if pause is None:
                    # what was not refused may have been taken: the same command looks for it
                    await self._refused(entry, error, never=heard and error.status != 408)
            await asyncio.sleep(pause or 0.0)
            if (taken := await self._found(interface, entry)) is not None:
                name = taken
                break
        entry = await self.journal.step(entry, "ordered", id=name)
        requests = counted(len(spool.keys), "request")
        about = f"submitted batch {name} with {requests} to {entry.model}"
        self._notice(f"{about}; if the run ends before the batch, repeat the same command")
        return entry

    async def _refused(self, entry: BatchEntry, error: TransportError, *, never: bool) -> None:
        if never:
            await self.journal.step(entry, "dropped")
        size = f"a batch of {counted(len(entry.keys), 'request')} could not be submitted"
        raise _fatal(entry.model, size, error) from error

    async def _carry(self, endpoint: Endpoint, entry: BatchEntry) -> None:
        """Wait for the end of a batch, and hand its results out."""
        interface = self._interfaces[endpoint]
        assert entry.id is not None
        try:
            state = await self._ended(interface, entry)
            if state.failed is not None:
                await self.journal.step(entry, "dropped")
                what = f"the provider refused batch {entry.id} ({state.failed}) and billed nothing"
                instead = "remove batch= to send single requests"
                raise UsageError(f"model '{entry.model}': {what}; {instead}")
            results = await self._tried(partial(interface.results, entry.id, state, entry.keys))
        except TransportError as error:
            if error.status != 404:
                raise _fatal(entry.model, f"batch {entry.id} failed", error) from error
            await self._lost(entry)
            return
        self._hand_out(entry, state, results)

    async def _lost(self, entry: BatchEntry) -> None:
        """Do without a batch that is not there any more."""
        if time.time() - entry.at > DAY:  # results are kept for a month
            self._notice(f"batch {entry.id} no longer exists; alps sends its requests again")
            await self._drop(entry)
            return
        # Another batch may be lost alike, and each may be on the bill.
        self._notice(f"batch {entry.id} no longer exists; alps sends its requests one by one")
        await self.journal.step(entry, "dropped")
        self._hand_out(entry, State(ended=True, done=len(entry.keys)), Results())

    async def _ended(self, interface: Interface, entry: BatchEntry) -> State:
        """Ask after a batch until it has ended; past the deadline it is cancelled."""
        cancelled_at, began = math.inf, time.monotonic()
        while True:
            state = await self._tried(partial(_state, interface, entry))
            if state.ended:
                return state
            if time.time() - entry.at >= self._deadline and cancelled_at == math.inf:
                cancelled_at = time.monotonic()
                await self._cancel(interface, entry, state)
            if time.monotonic() - cancelled_at > _ENDING:
                raise UsageError(
                    f"model '{entry.model}': batch {entry.id} was cancelled but has not ended; "
                    "to wait again, repeat the same command"
                )
            age = time.monotonic() - began
            await asyncio.sleep(min(max(_SOONEST, _SHARE * age), _LATEST))

    async def _cancel(self, interface: Interface, entry: BatchEntry, state: State) -> None:
        """End a batch early; its end is waited for all the same, so that nothing is paid twice."""
        left = len(entry.keys) - state.done
        try:
            await self._tried(partial(interface.cancel, str(entry.id)))
            then = "alps sends the rest as single requests"
        except TransportError as error:
            then = f"alps could not cancel the batch ({error}), so alps waits for its end"
        unanswered = counted(left, "unanswered request")
        passed = f"batch {entry.id} passed batch_deadline= with {unanswered}"
        self._notice(f"{passed}: {then}")

    async def _found(self, interface: Interface, entry: BatchEntry) -> str | None:
        """Return the provider's name of a batch whose order was not confirmed, if it was taken."""
        seen: set[str] = set()
        alike: list[ListedBatch] = []
        after: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._tried(partial(interface.listed, after))
            new = [batch for batch in page.rows if batch.id not in seen]
            for listed in new:
                if listed.tag == entry.tag:
                    return listed.id
                seen.add(listed.id)
                same = listed.size == len(entry.keys) and not _is_before(listed, entry)
                alike += [listed] if same and not interface.tagged else []
            # Some servers give their first page whatever is asked for.
            if page.after is None or not new or _is_beyond(new, entry):
                return await self._among(interface, alike, entry)
            after = page.after
        if (name := await self._among(interface, alike, entry)) is not None:
            return name
        batch = f"a batch of {counted(len(entry.keys), 'request')}"
        raise UsageError(
            f"model '{entry.model}': {batch} may have been submitted but is not among the "
            f"provider's latest {len(seen):,}; to submit it again, choose another out="
        )

    async def _among(
        self, interface: Interface, alike: Iterable[ListedBatch], entry: BatchEntry
    ) -> str | None:
        """Return which of the batches that look alike has our requests."""
        known = self.journal.known()
        left = [batch.id for batch in alike if batch.id not in known]
        # The first after ours was intended is most likely ours; the list has the newest first.
        left.reverse()
        began, waits = time.monotonic(), _SOONEST
        while left:
            under_way = []
            for name in left:
                state = await self._tried(partial(interface.state, name))
                if not state.ended:
                    under_way.append(name)
                elif await self._is_of(interface, name, state, entry):
                    return name
            left = under_way
            if left:
                # Somebody else's may be among them: it is waited for, and never cancelled.
                if time.time() - entry.at > DAY + _ENDING:
                    raise UsageError(
                        f"model '{entry.model}': a batch of {counted(len(entry.keys), 'request')} "
                        f"may have been submitted as {' or '.join(left[:3])}, still in progress; "
                        "to submit it again, choose another out="
                    )
                await asyncio.sleep(waits)
                waits = min(max(_SOONEST, _SHARE * (time.monotonic() - began)), _LATEST)
        return None

    async def _is_of(
        self, interface: Interface, name: str, state: State, entry: BatchEntry
    ) -> bool:
        """Tell whether the requests of a batch that has ended are ours."""
        try:
            results = await self._tried(partial(interface.results, name, state, entry.keys))
        except TransportError as error:
            if error.status == 404:
                return False
            raise
        return bool(results.by_key)

    async def _drop(self, entry: BatchEntry) -> None:
        """Forget a batch of which nothing will come; those who wait for it ask anew."""
        await self.journal.step(entry, "dropped")
        for key in entry.keys:
            if (future := self._waiting.pop(key, None)) is not None:
                future.set_result(None)

    def _hand_out(self, entry: BatchEntry, state: State, results: Results) -> None:
        absent = [key for key in entry.keys if key not in results.by_key]
        # what ended and is in no line that can be read was answered, and is on the bill
        billed = None if state.done > len(results.by_key) else False
        for key in entry.keys:
            lost = BatchResult(key, lost="the batch ended without this answer", billed=billed)
            answered = BatchAnswer(results.by_key.get(key, lost), str(entry.id))
            if (future := self._waiting.pop(key, None)) is not None:
                future.set_result(answered)
            else:
                self._kept[key] = answered
        odd = [(len(absent), "missing"), (results.unreadable, "unreadable")]
        odd += [(results.unknown, "with an unknown id"), (results.twice, "duplicated")]
        account = "".join(f", {count:,} {what}" for count, what in odd if count)
        received = counted(len(results.by_key), "result")
        self._notice(f"batch {entry.id} has ended: {received}{account}")

    def _fail(self, keys: Iterable[str], error: Exception) -> None:
        for key in keys:
            future = self._waiting.pop(key, None)
            if future is not None:
                future.set_exception(error)
                future.exception()  # heard: where the run has ended, nobody waits for it

    async def _interface(self, request: Request[Any]) -> Interface:
        """Return the interface of a request's endpoint; what it needs comes from a draft."""
        endpoint = request.model, request.api_base
        async with self._opening:
            if endpoint not in self._interfaces:
                self._interfaces[endpoint] = await _open(request)
        return self._interfaces[endpoint]

    async def _tried(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask an interface what changes nothing there, again while the failure may pass."""
        loop, tries = asyncio.get_running_loop(), Tries(self._patience)
        while True:
            sent = loop.time()
            try:
                return await ask()
            except TransportError as error:
                free = replace(error, billed=False)
                pause = tries.pause_after(
                    free, sent=sent, now=loop.time(), last_answer=float("-inf")
                )
                if pause is None:
                    raise
            await asyncio.sleep(pause)


async def _state(interface: Interface, entry: BatchEntry) -> State:
    """Ask after a batch; one that was just ordered may not be there yet."""
    try:
        return await interface.state(str(entry.id))
    except TransportError as error:
        appearing = error.status == 404 and time.time() - entry.at < _APPEARING
        raise replace(error, transient=error.transient or appearing) from error


async def _open(request: Request[Any]) -> Interface:
    words = ({"role": "user", "content": "."},)
    plain: Request[str] = replace(request, messages=words, answer=None, sampling={})
    draft = await _draft(plain, [dict(message) for message in plain.messages])
    kind = MessageBatches if provider_of(request.model) in MESSAGES else FileBatches
    return kind(request.model, draft)


def _is_beyond(page: Sequence[ListedBatch], entry: BatchEntry) -> bool:
    """Tell whether a page has older batches alone: an odd time of one of them tells nothing."""
    timed = [batch for batch in page if batch.at is not None]
    return bool(timed) and all(_is_before(batch, entry) for batch in timed)


def _is_before(listed: ListedBatch, entry: BatchEntry) -> bool:
    """Tell whether a batch was ordered before this one can have been."""
    return listed.at is not None and listed.at < entry.at - _SKEW


def _fatal(model: str, what: str, error: TransportError) -> AlpsError:
    """Return what to end the run with where a batch interface fails for good."""
    if error.fatal is not None:
        return error.fatal
    if error.status in (401, 403):
        return CredentialError(f"model '{model}': {what}: the provider refused the key ({error})")
    return UsageError(f"model '{model}': {what} ({error}); to resume, repeat the same command")


class _Drafted(BaseException):
    """Ends a request that was to be seen and not sent; no client takes it for an error."""


async def _draft(request: Request[Any], messages: list[dict[str, str]]) -> DraftRequest:
    """Return what `send` would send, without sending it.

    Raises:
        TransportError: If it could not even be sent.
    """
    drafts: list[DraftRequest] = []

    def keep(sent: Any) -> Any:
        drafts.append(DraftRequest(str(sent.url), dict(sent.headers), sent.content))
        raise _Drafted

    with suppress(_Drafted):
        await provider.send(request, messages, stand_in=keep)
    if not drafts:
        raise TransportError(
            "litellm sends no HTTP request for this model", transient=False, unsent=True
        )
    return drafts[0]


async def _read_kept(
    request: Request[Any], messages: list[dict[str, str]], status: int, body: bytes
) -> Reply:
    """Return the reply of a response that came by another way, as `send` would have.

    Raises:
        TransportError: As `send` does.
    """
    import httpx

    def kept(sent: Any) -> Any:
        headers = {"content-type": "application/json"}
        return httpx.Response(status, headers=headers, content=body, request=sent)

    return await provider.send(request, messages, stand_in=kept, service=BATCH)
