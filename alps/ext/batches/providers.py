"""Batches of the two shapes of providers: files of requests, as OpenAI's, and Anthropic's messages.

Files are uploaded, a batch of one is ordered, asked after and downloaded. Message batches are
ordered by one POST, and asked after by one GET.

litellm says what each request is sent as, and with which address, headers and key. Its functions
for batches of files are not used: they look for address and key in other places,
`aretrieve_batch` downloads all results once more in the background, and those for Azure order again
by themselves after an error (1.105). The openai package asks, as it does for litellm. For message
batches litellm has no function.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, urlsplit

from pydantic import BaseModel, Field

from alps.ext.batches.interface import (
    BatchForm,
    BatchLine,
    BatchResult,
    DraftRequest,
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
from alps.llm.types import TransportError
from alps.llm.wire import following_none, libraries
from alps.sizes import LARGEST_REPLY

# The name under which a batch is found again where the answer to its order was lost
_TAG = "alps"
_LISTED = 100
# By the documentation of OpenAI's batches: 50,000 requests in a file of at most 200 MB
_FILES = BatchForm(most=50_000, largest=200_000_000)
# By the documentation of Anthropic's batches: 100,000 requests, or 256 MB
_MESSAGES = BatchForm(100_000, 256_000_000, opening=b'{"requests":[', between=b",", closing=b"]}")
# Seconds for a file of 200 MB
_TIMEOUT = 600.0
# Seconds for one request with all of its answer: results of 1 GB at 300 kB a second
_LONGEST = 3_600.0
_ENDED = ("completed", "failed", "expired", "cancelled")
_BY_CLIENT = """
accept accept-encoding api-key authorization connection content-length content-type host user-agent
x-stainless
"""
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


@asynccontextmanager
async def _bounded(model: str, largest: int) -> AsyncIterator[None]:
    """Follow no redirect of what is asked within, and read no more bytes than the largest answer.

    Raises:
        TransportError: If no answer was heard, whatever a client raises.
    """
    with following_none() as exchange:
        exchange.largest = largest
        try:
            # Every byte sets the clock of a client back.
            async with asyncio.timeout(_LONGEST):
                yield
        except Exception as error:
            if exchange.redirect is not None:
                raise redirected(exchange) from error
            kinds = libraries().litellm.exceptions
            raise transport_error(kinds, error, model, exchange) from error


def _page_of(answer: dict[str, Any], listed: Callable[[str, Any], ListedBatch]) -> Page:
    """Read a page of a list of batches, each of them by `listed`."""
    rows = []
    for batch in rows_of(answer, "data"):
        if is_name(name := part_of(batch, "id")):
            rows.append(listed(name, batch))
    over = answer.get("has_more") is False or not rows
    return Page(tuple(rows), None if over else rows[-1].id)


class FileBatches:
    """The batches of an OpenAI-shaped endpoint; every method raises a TransportError if it fails.

    Args:
        model: A model of it, by its litellm name.
        draft: How a request to that model is sent.

    Attributes:
        tagged: Whether a batch is listed with the tag that it was ordered with.
        form: Of its batches.
    """

    tagged = True
    form = _FILES

    def __init__(self, model: str, draft: DraftRequest) -> None:
        import openai

        self._model = model
        base, _ = _parts(draft.url)
        version = parse_qs(urlsplit(draft.url).query).get("api-version")
        self._azure = version is not None
        options: dict[str, Any] = {"timeout": _TIMEOUT, "max_retries": 0}
        options |= {"default_headers": _extra(draft.headers), **_credentials(draft.headers)}
        if version is None:
            self._client: Any = openai.AsyncOpenAI(base_url=base, **options)
        else:
            endpoint = base.partition("/openai")[0]
            self._client = openai.AsyncAzureOpenAI(
                azure_endpoint=endpoint, api_version=version[0], **options
            )

    def row(self, line: BatchLine) -> bytes:
        """Return a request as a batch has it: a line of the file."""
        path = self._path(line.draft.url)
        head = as_json({"custom_id": line.key, "method": "POST", "url": path})
        return head[:-1] + b',"body":' + line.draft.body + b"}\n"

    async def create(
        self, spool: Spool, tag: str, *, placed: Callable[[str], Awaitable[None]]
    ) -> str:
        """Upload the requests, and return the id of a batch of them.

        Before it is ordered, `placed` is called with the file.
        """
        file = f"alps-{tag}.jsonl", spool.opened()
        files, batches = self._client.files, self._client.batches
        try:
            upload = files.with_raw_response.create(file=file, purpose="batch")
            uploaded = name_of(await self._read(upload))
        except TransportError as error:  # no file costs anything, nor is a batch of it ordered
            raise replace(error, billed=False) from error
        await placed(uploaded)
        order = batches.with_raw_response.create(
            completion_window="24h",
            endpoint=self._path(spool.url),
            input_file_id=uploaded,
            metadata={_TAG: tag},
        )
        return name_of(await self._read(order))

    def _path(self, url: str) -> str:
        # as the documentation of either has it
        return f"{'' if self._azure else '/v1'}/{_parts(url)[1]}"

    async def listed(self, after: str | None = None) -> Page:
        """Return a hundred of the latest batches, or of those before the batch `after`."""
        more = {} if after is None else {"after": after}
        asked = self._client.batches.with_raw_response.list(limit=_LISTED, **more)
        return _page_of(await self._read(asked), _listed_files)

    async def state(self, batch: str) -> State:
        """Tell how far a batch is."""
        found = await self._read(self._client.batches.with_raw_response.retrieve(batch))
        status = text_of(found, "status")
        counts = part_of(found, "request_counts")
        done = count_of(counts, "completed") + count_of(counts, "failed")
        files = [part_of(found, name) for name in ("output_file_id", "error_file_id")]
        there = tuple(file for file in files if is_name(file))
        failed = _why(found) if status == "failed" and not there else None
        return State(status in _ENDED, done, failed, there)

    async def results(self, batch: str, state: State, keys: Sequence[str]) -> Results:
        """Download the files of a batch that has ended: its answers, and its errors."""
        found = Results()
        for file in state.files:
            asked = self._client.files.content(file)
            content = await self._ask(asked, largest=largest_results(len(keys)))
            found.read(content.content, keys, _result_in_file)
        return found

    async def cancel(self, batch: str) -> None:
        """Ask for the end of a batch; finished results stay."""
        await self._ask(self._client.batches.cancel(batch))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _read(self, asked: Awaitable[Any]) -> dict[str, Any]:
        return read_object((await self._ask(asked)).content)

    async def _ask(self, asked: Awaitable[Any], *, largest: int = LARGEST_REPLY) -> Any:
        async with _bounded(self._model, largest):
            return await asked


def _listed_files(name: str, batch: Any) -> ListedBatch:
    size = count_of(part_of(batch, "request_counts"), "total")
    tag = part_of(part_of(batch, "metadata"), _TAG)
    return ListedBatch(name, time_of(batch, "created_at"), size, tag)


def _parts(url: str) -> tuple[str, str]:
    """Return the address of an API, and what of it a request is sent to."""
    whole = url.partition("?")[0]
    ending = "responses" if whole.endswith("/responses") else "chat/completions"
    return whole.removesuffix(f"/{ending}"), ending


def _credentials(headers: Mapping[str, str]) -> dict[str, str]:
    if key := headers.get("api-key"):
        return {"api_key": key}
    return {"api_key": headers.get("authorization", "").removeprefix("Bearer ")}


def _extra(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that the user's options added to a request."""
    own = tuple(_BY_CLIENT.split())
    return {name: text for name, text in headers.items() if not name.lower().startswith(own)}


def _why(batch: Any) -> str:
    errors = rows_of(part_of(batch, "errors"), "data")
    messages = [str(part_of(error, "message") or "") for error in errors]
    return next(filter(None, messages), "the provider gives no reason")[:300]


class _Response(BaseModel):
    status_code: Annotated[int, Field(ge=100, le=599)]
    body: Any


class _Error(BaseModel):
    message: str | None = None
    code: str | None = None


class _FileRow(BaseModel):
    """One line of a file of results."""

    custom_id: str
    response: _Response | None = None
    error: _Error | None = None


def _result_in_file(row: Any) -> BatchResult:
    line = _FileRow.model_validate(row)
    if line.response is not None:
        return BatchResult(line.custom_id, line.response.status_code, as_json(line.response.body))
    if line.error is None:
        raise ValueError("the line has neither an answer nor an error")
    lost = line.error.message or line.error.code or "the provider gives no reason"
    return BatchResult(line.custom_id, lost=lost[:300])


class MessageBatches:
    """The batches of Anthropic, or of a gateway that speaks as it does; see `FileBatches`."""

    tagged = False
    form = _MESSAGES

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
        return name_of(await self._ask("POST", self._url, spool.pieces(), headers))

    async def listed(self, after: str | None = None) -> Page:
        """Return a hundred batches."""
        more = "" if after is None else f"&after_id={quote(after, safe='')}"
        page = await self._ask("GET", f"{self._url}?limit={_LISTED}{more}")
        return _page_of(page, _listed_messages)

    async def state(self, batch: str) -> State:
        """Tell how far a batch is."""
        found = await self._ask("GET", self._url_of(batch))
        counts = _counts(found)
        done = sum(counts.values()) - counts.get("processing", 0)
        return State(text_of(found, "processing_status") == "ended", done)

    async def results(self, batch: str, state: State, keys: Sequence[str]) -> Results:
        """Download the results of a batch."""
        found = Results()
        # Not from the address that the batch names: whoever wrote it there would get the key.
        address = f"{self._url_of(batch)}/results"
        content = await self._bytes("GET", address, largest=largest_results(len(keys)))
        found.read(content, keys, _result_of_message)
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

        headers = {**self._headers, **more}
        async with _bounded(self._model, largest), httpx.AsyncClient(timeout=_TIMEOUT) as client:
            answer = await client.request(method, url, content=content, headers=headers)
            answer.raise_for_status()
            return answer.content


def _listed_messages(name: str, batch: Any) -> ListedBatch:
    return ListedBatch(name, time_of(batch, "created_at"), sum(_counts(batch).values()))


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


class _MessageRow(BaseModel):
    """One line of the results."""

    custom_id: str
    result: _Outcome


def _result_of_message(row: Any) -> BatchResult:
    line = _MessageRow.model_validate(row)
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


Interface = FileBatches | MessageBatches
"""One endpoint's way to take batches."""
