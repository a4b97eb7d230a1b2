"""Message batches of Anthropic: submitted by one POST, polled by one GET.

litellm has no function that orders one. It says what each request is sent as, address and headers
included, and here that is put together.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from alps.ext.batches.interface import (
    BatchForm,
    BatchLine,
    BatchResult,
    ListedBatch,
    Page,
    Results,
    Spool,
    State,
    as_json,
    count_of,
    is_name,
    largest_results,
    name_of,
    part_of,
    read_object,
    rows_of,
    text_of,
    time_of,
)
from alps.llm.failures import redirected, transport_error
from alps.llm.provider import DraftRequest
from alps.llm.wire import following_none, libraries
from alps.sizes import LARGEST_REPLY

# By the documentation of Anthropic's batches: 100,000 requests, or 256 MB
_FORM = BatchForm(100_000, 256_000_000, opening=b'{"requests":[', between=b",", closing=b"]}")
_LISTED = 100
_TIMEOUT = 600.0
# Seconds for one request with all of its answer: results of 1 GB at 300 kB a second
_LONGEST = 3_600.0
_OF_ONE = ("content-length", "host", "accept-encoding", "connection", "anthropic-beta")
_BETA = "anthropic-beta"
_Content = bytes | AsyncIterator[bytes] | None
_NONE: Mapping[str, str] = {}
# The HTTP status that each type of error has where a message is asked for by itself
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class MessageBatches:
    """The batches of Anthropic, or of a gateway that speaks as it does; see `FileBatches`."""

    tagged = False
    form = _FORM

    def __init__(self, model: str, draft: DraftRequest) -> None:
        self._model = model
        self._url = f"{draft.url.partition('?')[0]}/batches"
        kept = {name: text for name, text in draft.headers.items() if name.lower() not in _OF_ONE}
        self._headers = {**kept, "content-type": "application/json"}

    def row(self, line: BatchLine) -> bytes:
        """Return an entry of `requests`."""
        head = as_json({"custom_id": line.key})
        return head[:-1] + b',"params":' + line.draft.body + b"}"

    async def create(
        self, spool: Spool, tag: str, *, placed: Callable[[str], Awaitable[None]]
    ) -> str:
        """Order a batch."""
        headers = {"content-length": str(spool.size)}
        if betas := _betas(spool.betas):
            headers[_BETA] = betas
        ordered = await self._ask("POST", self._url, spool.pieces(), headers)
        return name_of(ordered)

    async def listed(self, after: str | None = None) -> Page:
        """Return a hundred batches."""
        more = "" if after is None else f"&after_id={quote(after, safe='')}"
        page = await self._ask("GET", f"{self._url}?limit={_LISTED}{more}")
        rows = []
        for batch in rows_of(page, "data"):
            if is_name(name := part_of(batch, "id")):
                at = time_of(batch, "created_at")
                rows.append(ListedBatch(name, at, sum(_counts(batch).values())))
        over = page.get("has_more") is False or not rows
        return Page(tuple(rows), None if over else rows[-1].id)

    async def state(self, batch: str) -> State:
        """Tell how far a batch is."""
        found = await self._ask("GET", self._url_of(batch))
        counts = _counts(found)
        done = sum(counts.values()) - counts.get("processing", 0)
        return State(text_of(found, "processing_status") == "ended", done)

    async def results(self, batch: str, state: State, keys: Iterable[str]) -> Results:
        """Download the results of a batch."""
        found = Results()
        # Not from the address that the batch names: whoever wrote it there would get the key.
        known = list(keys)
        address = f"{self._url_of(batch)}/results"
        content = await self._bytes("GET", address, largest=largest_results(len(known)))
        found.read(content, known, _result)
        return found

    async def cancel(self, batch: str) -> None:
        """Ask for the end of a batch."""
        await self._ask("POST", f"{self._url_of(batch)}/cancel", b"")

    async def aclose(self) -> None:
        """Close nothing: each request has its own connection."""

    def _url_of(self, batch: str) -> str:
        return f"{self._url}/{quote(batch, safe='')}"

    async def _ask(
        self, method: str, url: str, content: _Content = None, more: Mapping[str, str] = _NONE
    ) -> Any:
        return read_object(await self._bytes(method, url, content, more))

    async def _bytes(
        self,
        method: str,
        url: str,
        content: _Content = None,
        more: Mapping[str, str] = _NONE,
        *,
        largest: int = LARGEST_REPLY,
    ) -> bytes:
        import httpx

        litellm = libraries().litellm
        headers = {**self._headers, **more}
        with following_none() as exchange:
            exchange.largest = largest
            try:
                # Every byte sets the clock of a client back.
                async with asyncio.timeout(_LONGEST), httpx.AsyncClient(timeout=_TIMEOUT) as client:
                    answer = await client.request(method, url, content=content, headers=headers)
                    answer.raise_for_status()
                    return answer.content
            except Exception as error:  # as in provider.send
                if exchange.redirect is not None:
                    raise redirected(exchange) from error
                kinds = litellm.exceptions
                raise transport_error(kinds, error, self._model, exchange) from error


def _betas(headers: Iterable[str]) -> str:
    """Return what of the interface's betas any of the requests needs."""
    named: set[str] = set()
    for header in headers:
        named.update(header.replace(" ", "").split(","))
    return ",".join(sorted(filter(None, named)))


def _counts(batch: Any) -> dict[str, int]:
    counts = part_of(batch, "request_counts")
    return {name: count_of(counts, name) for name in counts} if isinstance(counts, dict) else {}


class _Outcome(BaseModel):
    type: str
    message: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class _Row(BaseModel):
    """One line of the results."""

    custom_id: str
    result: _Outcome


def _result(row: Any) -> BatchResult:
    line = _Row.model_validate(row)
    key, kind, error = line.custom_id, line.result.type, line.result.error
    if kind == "succeeded":
        if line.result.message is None:
            raise ValueError("no message")
        return BatchResult(key, 200, as_json(line.result.message))
    if kind == "errored":
        inner = part_of(error, "error") or error
        status = _STATUSES.get(str(part_of(inner, "type")), 500)
        return BatchResult(key, status, as_json(error))
    return BatchResult(
        key, lost=f"the batch was {kind}" if kind == "canceled" else f"the request {kind[:100]}"
    )
