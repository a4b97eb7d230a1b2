"""What an error of litellm means: whether to ask again, when, and whether any later call can go through."""

import math
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from alps.errors import AlpsError, CredentialError, QuotaError, UsageError
from alps.llm.keys import lacks_credentials
from alps.llm.redirects import Refused
from alps.llm.secrets import redact
from alps.llm.types import TransportError

_LONGEST_WAIT = 3600.0
"""Seconds; a provider that asks for more has a quota for the day."""


def transport_error(kinds: Any, error: Any, model: str) -> TransportError:
    """Return what `error`, raised by whatever client litellm used, means; `kinds` are litellm's exceptions."""
    status, unsent = _http_status(kinds, error)
    text = str(error)
    detail = text.partition("Exception - ")[2] or text  # litellm names its classes up to three times before
    message = redact(f"{type(error).__name__}: {detail}").splitlines()[0][:300]
    retry_after = _retry_after(error)
    fatal = _fatal(kinds, error, f"model '{model}'", message, retry_after)
    transient = isinstance(
        error,
        (
            kinds.RateLimitError,
            kinds.InternalServerError,
            kinds.ServiceUnavailableError,
            kinds.BadGatewayError,
            kinds.Timeout,
            kinds.APIConnectionError,
        ),
    ) or (status is not None and (status >= 500 or status in (408, 409, 425)))
    return TransportError(
        message,
        transient=transient and fatal is None,
        status=status,
        unsent=unsent,
        retry_after=retry_after,
        refused=isinstance(error, kinds.ContentPolicyViolationError),
        fatal=fatal,
    )


def redirected(refused: Refused) -> TransportError:
    """Return the error for an endpoint that answers with a redirect."""
    where = redact(refused.host)[:200] or "an address that it does not name"
    message = f"HTTP {refused.status}: the endpoint redirects to {where}, which is not followed; ask that one itself"
    return TransportError(message, transient=False, status=refused.status)


def _fatal(kinds: Any, error: Any, who: str, message: str, retry_after: float | None) -> AlpsError | None:
    """Return what to end the run with, where no later call can go through either."""
    if retry_after is not None and retry_after > _LONGEST_WAIT:
        wait = f"asks to wait {retry_after / 3600:,.1f} hours"
        return QuotaError(f"{who}: the provider {wait} ({message}); the same command goes on then")
    if lacks_credentials(error):
        return CredentialError(f"{who}: no credentials were found ({message})")
    if isinstance(error, (kinds.AuthenticationError, kinds.PermissionDeniedError)):
        return CredentialError(f"{who}: the provider refused the key ({message})")
    if isinstance(error, kinds.NotFoundError):
        return UsageError(f"{who}: the endpoint does not have it ({message})")
    return None


def _http_status(kinds: Any, error: Any) -> tuple[int | None, bool]:
    """Return the status that a server gave, None where it gave none, and whether it was never reached.

    litellm makes up a status for connections that broke.
    """
    import httpx

    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) else None
    if isinstance(error, kinds.Timeout):
        return status or 408, False
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, httpx.TransportError):
            return None, isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        cause = cause.__cause__ or cause.__context__
    return status, False


def _retry_after(error: Any) -> float | None:
    """Return the seconds that a Retry-After header asks for, given as seconds or as a date."""
    response = getattr(error, "response", None)
    for headers in (getattr(error, "litellm_response_headers", None), getattr(response, "headers", None)):
        value = (headers or {}).get("retry-after")
        if value is not None:
            return _seconds(value)
    return None


def _seconds(value: str) -> float | None:
    with suppress(ValueError):
        seconds = float(value)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    with suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    return None
