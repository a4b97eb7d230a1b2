"""Batches as files, as in OpenAI's API: upload, submit, poll, download.

litellm says what each request is sent as, and with which address and key. Its functions for batches
are not used: they look for both in other places, `aretrieve_batch` downloads all results once more
in the background, and those for Azure order again by themselves after an error (1.105). The openai
package asks, as it does for litellm.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, Field

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
from alps.llm.types import TransportError
from alps.llm.wire import following_none, libraries
from alps.sizes import LARGEST_REPLY

# The name under which a batch is found again where the answer to its order was lost
_TAG = "alps"
_LISTED = 100
# By the documentation of OpenAI's batches: 50,000 requests in a file of at most 200 MB
_FORM = BatchForm(most=50_000, largest=200_000_000)
# Seconds for a file of 200 MB
_TIMEOUT = 600.0
# Seconds for one request with all of its answer: a file of 1 GB at 300 kB a second
_LONGEST = 3_600.0
_ENDED = ("completed", "failed", "expired", "cancelled")
_BY_CLIENT = """
accept accept-encoding api-key authorization connection content-length content-type host user-agent
x-stainless
"""


class FileBatches:
    """The batches of an OpenAI-shaped endpoint.

    Args:
        model: A model of it, by its litellm name.
        draft: How a request to that model is sent.
    """

    tagged = True
    form = _FORM

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
        """Return a line of the file."""
        path = self._path(line.draft.url)
        head = as_json({"custom_id": line.key, "method": "POST", "url": path})
        return head[:-1] + b',"body":' + line.draft.body + b"}\n"

    async def create(
        self, spool: Spool, tag: str, *, placed: Callable[[str], Awaitable[None]]
    ) -> str:
        """Upload the requests, and order a batch of them."""
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
        """Return a hundred batches."""
        more = {} if after is None else {"after": after}
        asked = self._client.batches.with_raw_response.list(limit=_LISTED, **more)
        page = await self._read(asked)
        rows = []
        for batch in rows_of(page, "data"):
            if is_name(name := part_of(batch, "id")):
                at = time_of(batch, "created_at")
                size = count_of(part_of(batch, "request_counts"), "total")
                tag = part_of(part_of(batch, "metadata"), _TAG)
                rows.append(ListedBatch(name, at, size, tag))
        over = page.get("has_more") is False or not rows
        return Page(tuple(rows), None if over else rows[-1].id)

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

    async def results(self, batch: str, state: State, keys: Iterable[str]) -> Results:
        """Download the files of a batch: its answers, and its errors."""
        found, known = Results(), list(keys)
        for file in state.files:
            asked = self._client.files.content(file)
            content = await self._ask(asked, largest=largest_results(len(known)))
            found.read(content.content, known, _result)
        return found

    async def cancel(self, batch: str) -> None:
        """Ask for the end of a batch."""
        await self._ask(self._client.batches.cancel(batch))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _read(self, asked: Awaitable[Any]) -> dict[str, Any]:
        return read_object((await self._ask(asked)).content)

    async def _ask(self, asked: Awaitable[Any], *, largest: int = LARGEST_REPLY) -> Any:
        with following_none() as exchange:
            exchange.largest = largest
            try:
                # Every byte sets the clock of a client back.
                async with asyncio.timeout(_LONGEST):
                    return await asked
            except Exception as error:  # whatever a client raises, no answer was heard
                if exchange.redirect is not None:
                    raise redirected(exchange) from error
                kinds = libraries().litellm.exceptions
                raise transport_error(kinds, error, self._model, exchange) from error


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


class _Row(BaseModel):
    """One line of a file of results."""

    custom_id: str
    response: _Response | None = None
    error: _Error | None = None


def _result(row: Any) -> BatchResult:
    line = _Row.model_validate(row)
    if line.response is not None:
        return BatchResult(line.custom_id, line.response.status_code, as_json(line.response.body))
    if line.error is None:
        raise ValueError("the line has neither an answer nor an error")
    lost = line.error.message or line.error.code or "the provider gives no reason"
    return BatchResult(line.custom_id, lost=lost[:300])
