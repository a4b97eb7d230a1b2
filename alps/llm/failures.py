"""Errors of litellm: what one means, and whether and when to ask again.

OpenAI and most others send `x-ratelimit-remaining-requests` and `x-ratelimit-reset-requests`
(`6m0s`, `17ms`, `2.5`, or a time), Anthropic `anthropic-ratelimit-requests-remaining` and `-reset`
(RFC 3339), Azure `retry-after-ms`, Google a `RetryInfo` in the body, others a sentence.
"""

import math
import os
import re
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from alps.errors import AlpsError, CredentialError, QuotaError, UsageError, causes_of
from alps.llm.secrets import redact
from alps.llm.types import TransportError
from alps.llm.wire import Exchange

# Seconds; a provider that asks for more has a quota for the day
_LONGEST_WAIT = 3600.0
_TRANSIENT = (408, 409, 425, 429)
_OUR_FAULTS: tuple[type[Exception], ...] = (ImportError, TypeError, AttributeError, LookupError)
_OUR_FAULTS += (NotImplementedError, ValueError, NameError)
_OF_THE_REQUEST = (400, 413, 422)
# What providers say where an account has no money left, whatever the status
_NO_MONEY = re.compile(
    r"insufficient[ _-]?(quota|balance|funds?|credits?)|(credit|account|prepaid) balance"
    r"|balance is (too low|not enough)|(no|out of|not enough|run out of|more) credits?\b"
    r"|billing[ _-]?(hard[ _-]?limit|not[ _-]?active)|in arrears"
    r"|payment (is )?required|spend(ing)?[ _-]?limit|budget has been exceeded",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size|limit)|maximum (input|prompt|sequence|model) (length|tokens)"
    r"|(prompt|input|request|message)s? (is|are)? ?too (long|large)|too many (input "
    r"|prompt )?tokens|maximum number of (input )?tokens|input tokens? (count )?.{0,40}exceed"
    r"|string too long|payload too large|reduce the (length|size) of|request (entity )?too large",
    re.IGNORECASE,
)
_OF_THE_ANSWER = re.compile(
    r"max_(completion_|output_)?tokens['\"`]? (is too large|must be|cannot|can not|exceeds)"
)
# How providers and gateways say that their filter declined one request
_DECLINED = re.compile(
    r"(?:code|type)\\*[\"']: *\\*[\"']content_filter\b|content_policy_violation"
    r"|ResponsibleAIPolicyViolation|content management policy|data_inspection_failed"
    r"|requires moderation|input was flagged"
)
# Errors of the clouds' own clients
_NO_CREDENTIALS = re.compile(
    r"NoCredentials|PartialCredentials|DefaultCredentials|NoAuthToken|CredentialRetrieval"
)
# Errors that clients raise before they ask; what a server answers is of a class below, or of
# litellm.
_LOCAL = ("openai.OpenAIError", "builtins.ValueError")
_SAYS_SO = re.compile(r"\bcredentials\b|\b(?:API|JWT|access) ?key\b|_API_KEY\b", re.IGNORECASE)
# How they say that a header can't be sent as it is
_BAD_HEADER = re.compile(r"detected in headers|[Ii]llegal header value|'ascii' codec can't encode")
# Packages whose name is not that of the module that is missed
_PACKAGES = {"google": "google-auth", "botocore": "boto3", "vertexai": "google-cloud-aiplatform"}
# litellm puts all of it into its messages.
_WHERE = "Traceback (most recent call last)"


def transport_error(kinds: Any, error: Any, model: str, exchange: Exchange) -> TransportError:
    """Return what `error`, raised by whatever client litellm used, means; `kinds` are litellm's.

    What the server answered, `exchange`, is believed rather than what litellm makes of it.
    """
    status, unsent = _http_status(kinds, error, exchange)
    answered = status is not None and status < 300
    message = f"{type(error).__name__}: {_detail(error, exchange)}"
    answer_text = f"{error} {exchange.body.decode(errors='replace')}"
    if answered:
        message = f"HTTP {status}: the body can't be read: {_detail(error, exchange)}"
        message += _beginning(exchange)
        answer_text = ""
    elif unsent:
        message = _unreached(error) or message
    elif status is not None and (status >= 500 or status in (404, 429)):
        # Who is asked is not always who was named: a proxy, or an address of the environment.
        message = f"HTTP {status}{_asked_at(error)}: {_detail(error, exchange)}"
    message = redact(message).splitlines()[0][:300]
    retry_after = _retry_after(error, exchange, status)
    too_long = _is_too_long(kinds, error, status, answer_text)
    declined = _is_declined(kinds, error, status, answer_text)
    fatal: AlpsError | None = None
    if not (too_long or answered or declined):
        who = f"model '{model}'"
        fatal = _of_quota(who, message, retry_after, status, answer_text)
        fatal = fatal or _fatal(kinds, error, who, message)
    transient = answered or _may_pass(kinds, error, status, exchange)
    return TransportError(
        message,
        transient=transient and fatal is None and not too_long,
        status=status,
        unsent=unsent,
        retry_after=retry_after,
        refused=declined,
        too_long=too_long,
        billed=answered,
        fatal=fatal,
    )


def redirected(exchange: Exchange) -> TransportError:
    """Return the error for an endpoint that answers with a redirect."""
    where = redact(exchange.redirect or "")[:200]
    what = f"the endpoint redirects to {where}; use that address"
    if not where:
        what = "the endpoint redirects without naming an address; correct the base URL"
    message = f"HTTP {exchange.status}: {what}"
    return TransportError(message, transient=False, status=exchange.status)


def _detail(error: Any, exchange: Exchange) -> str:
    if exchange.problem is not None:
        return exchange.problem
    text = str(error)  # litellm puts the names of its classes before, and where it failed behind
    text = (text.partition("Exception - ")[2] or text).partition(_WHERE)[0].strip()
    return text or type(error).__name__


def _beginning(exchange: Exchange) -> str:
    """Say how a body begins that can't be read: a page of a proxy shows what it is."""
    text = " ".join(exchange.body.decode(errors="replace").split())
    return f"; it begins {redact(text)[:80]!r}" if text and exchange.problem is None else ""


def _unreached(error: Any) -> str | None:
    """Say to which address no connection came about, and why; None where nobody names one."""
    reasons: list[str] = []
    for cause in causes_of(error):
        number = getattr(cause, "errno", None)
        if isinstance(cause, OSError) and isinstance(number, int):
            # What the look-up of a name returns is no number of the system.
            reason = str(cause.strerror) if isinstance(cause, socket.gaierror) else None
            reasons.append((reason or os.strerror(number)).lower())
    address = _asked_at(error).removeprefix(" from ")
    if not address:
        return None
    # The innermost cause says it best.
    return f"cannot connect to {address} ({reasons[-1] if reasons else 'no connection'})"


def _asked_at(error: Any) -> str:
    """Return ` from http://HOST:PORT`, the address that was asked; nothing where none is known."""
    for cause in causes_of(error):
        url = getattr(getattr(cause, "_request", None), "url", None)
        if url is not None:
            port = f":{url.port}" if url.port is not None else ""
            host = f"[{url.host}]" if ":" in url.host else url.host
            return f" from {url.scheme}://{host}{port}"
    return ""


def _of_quota(
    who: str, message: str, retry_after: float | None, status: int | None, answer_text: str
) -> QuotaError | None:
    """Return the error of a quota of the day, or of an account without money, if it is one."""
    refused = status is not None and 400 <= status < 500
    if retry_after is not None and retry_after > _LONGEST_WAIT:
        what = f"the provider requires a wait of {retry_after / 3600:,.1f} hours"
    elif refused and (status == 402 or _NO_MONEY.search(answer_text)):
        what = "the account has no credit or quota left"
    else:
        return None
    return QuotaError(f"{who}: {what} ({message}); after that, run the same command again")


def _fatal(kinds: Any, error: Any, who: str, message: str) -> AlpsError | None:
    """Return what to end the run with, where no later call can go through either."""
    if (missing := _missing_module(error)) is not None:
        package = _PACKAGES.get(missing, missing)
        what = f"a Python package is missing: pip install {package}"
        return UsageError(f"{who}: {what} ({message})")
    if _lacks_credentials(error):
        return CredentialError(f"{who}: no credentials were found ({message})")
    own = (cause for cause in causes_of(error) if type(cause).__module__ in ("builtins", "httpx"))
    if any(_BAD_HEADER.search(str(cause)) for cause in own):
        what = "the key, or another header, has a line break or a character that HTTP can't send"
        return CredentialError(f"{who}: {what}; set it again without that")
    if isinstance(error, (kinds.AuthenticationError, kinds.PermissionDeniedError)):
        return CredentialError(f"{who}: the provider refused the key ({message})")
    if isinstance(error, kinds.NotFoundError):
        what = "the endpoint has no such model, or the base URL is wrong"
        return UsageError(f"{who}: {what} ({message})")
    return None


def _lacks_credentials(error: BaseException) -> bool:
    """Tell whether a client found no credentials and sent no request."""
    # litellm takes most such errors for a server's: without this they would be tried again, for
    # half a minute a record.
    for cause in causes_of(error):
        kind = type(cause)
        is_local = f"{kind.__module__}.{kind.__name__}" in _LOCAL
        if _NO_CREDENTIALS.search(kind.__name__) or (is_local and _SAYS_SO.search(str(cause))):
            return True
    return False


def _is_too_long(kinds: Any, error: Any, status: int | None, answer_text: str) -> bool:
    """Tell whether the request itself is too long, so that asking again can't change it."""
    if status == 413:
        return True
    if status is not None and status not in (*_OF_THE_REQUEST, 429):
        return False
    if isinstance(error, kinds.ContextWindowExceededError):
        return True
    if status == 429:  # one request that is larger than the limit of a minute
        return "request too large" in answer_text.lower()
    if status is None or _OF_THE_ANSWER.search(answer_text):
        return False
    return _TOO_LONG.search(answer_text) is not None


def _is_declined(kinds: Any, error: Any, status: int | None, answer_text: str) -> bool:
    """Tell whether a content filter declined the request, whoever passes on what it says."""
    by_filter = status in (*_OF_THE_REQUEST, 403) and _DECLINED.search(answer_text) is not None
    by_class = isinstance(error, kinds.ContentPolicyViolationError)
    return by_filter or (by_class and (status is None or status >= 300))


def _may_pass(kinds: Any, error: Any, status: int | None, exchange: Exchange) -> bool:
    by_status = status is not None and (status >= 500 or status in _TRANSIENT)
    if exchange.status is not None:
        return by_status
    if _is_of_our_side(error):
        return False
    by_limit = (kinds.RateLimitError, kinds.Timeout, kinds.APIConnectionError)
    of_server = (kinds.InternalServerError, kinds.ServiceUnavailableError, kinds.BadGatewayError)
    return by_status or isinstance(error, by_limit + of_server)


def _is_of_our_side(error: BaseException) -> bool:
    """Tell whether code of this machine failed before anything was sent, as it would each time."""
    import httpx

    causes = list(causes_of(error))
    if any(isinstance(cause, httpx.TransportError | OSError) for cause in causes):
        return False
    ours = [cause for cause in causes if type(cause).__module__ in ("builtins", "pydantic_core")]
    return any(isinstance(cause, _OUR_FAULTS) for cause in ours)


def _missing_module(error: BaseException) -> str | None:
    """Return the top-level name of a module that is not installed, where that is what failed."""
    for cause in causes_of(error):
        if isinstance(cause, ImportError):
            name = cause.name or str(cause)
            return name.partition(".")[0] or None
    named = re.search(r"No module named '(\w+)", str(error))
    return named[1] if named is not None else None


def _http_status(kinds: Any, error: Any, exchange: Exchange) -> tuple[int | None, bool]:
    """Return the status that a server gave, and whether it was never reached."""
    import httpx

    if exchange.status is not None:
        return exchange.status, False
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) else None
    if isinstance(error, kinds.Timeout):
        return status or 408, False
    unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
    for cause in causes_of(error):
        if isinstance(cause, httpx.TransportError):  # litellm makes up a status for it
            return None, isinstance(cause, unsent)
    return status, False


def _retry_after(error: Any, exchange: Exchange, status: int | None) -> float | None:
    """Return the seconds that the server asks to wait, or those until its limit is reset."""
    headers = dict(exchange.headers)
    of_response = getattr(getattr(error, "response", None), "headers", None)
    for more in (getattr(error, "litellm_response_headers", None), of_response):
        for name, value in (more or {}).items():
            headers.setdefault(str(name).lower(), str(value))
    body = exchange.body.decode(errors="replace") if status == 429 else ""
    asked = seconds_asked(headers, body)
    return seconds_to_reset(headers) if asked is None and status == 429 else asked


_AN_EPOCH = 1e9
_LIMIT = re.compile(
    r"(?:^|-)ratelimit-(?:(?P<what>remaining|reset)(?:-(?P<kind>[a-z-]+))?|(?P<kind2>[a-z-]+)-"
    r"(?P<what2>remaining|reset))$"
)
_DURATION = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)(?![a-z])"
)
_UNITS = {"ms": 0.001, "mi": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_IN_WORDS = re.compile(
    r"(?:try again|retry|reset)s?\s+(?:in|after)\s+((?:\d+(?:\.\d+)?\s*"
    r"(?:ms|milliseconds?|s|sec|seconds?|m|min|minutes?|h|hours?)(?![a-z])[\s,]*(?:and\s*)?)+)",
    re.IGNORECASE,
)
_RETRY_INFO = re.compile(r'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"')


@dataclass(frozen=True)
class Limit:
    """How much of one limit is left, and in how many seconds it is whole again; None: not said."""

    remaining: float | None = None
    reset: float | None = None


def limits(headers: Mapping[str, str], now: float | None = None) -> dict[str, Limit]:
    """Return the limits of `requests`, `tokens` and the like that headers in lower case tell of."""
    now = time.time() if now is None else now
    by_kind: dict[str, dict[str, float | None]] = {}
    for name, value in headers.items():
        part = _LIMIT.search(name)
        if part is not None:
            kind = part["kind"] or part["kind2"] or "requests"
            if (part["what"] or part["what2"]) == "remaining":
                by_kind.setdefault(kind, {})["remaining"] = _number(value)
            else:
                by_kind.setdefault(kind, {})["reset"] = _until(value, now)
    return {kind: Limit(**parts) for kind, parts in by_kind.items()}


def seconds_asked(headers: Mapping[str, str], body: str = "") -> float | None:
    """Return the seconds that headers, or else words, ask to wait; None where they do not."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    if "retry-after" in headers:
        return _seconds_or_date(headers["retry-after"])
    info = _RETRY_INFO.search(body)
    if info is not None:
        return float(info[1])
    words = _IN_WORDS.search(body)
    return None if words is None else _duration(words[1])


def seconds_to_reset(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until the limits that are used up are whole again, None where none is.

    Where a limit fills up steadily, requests may go through sooner: it is an upper bound.
    """
    resets = []
    for limit in limits(headers).values():
        if limit.remaining is not None and limit.remaining < 1 and limit.reset is not None:
            resets.append(limit.reset)
    return min(max(resets), _LONGEST_WAIT) if resets else None


def requests_left(headers: Mapping[str, str]) -> tuple[float, float] | None:
    """Return how many requests are left, and the seconds until their limit is reset, if said."""
    if not any("ratelimit" in name for name in headers):  # most answers: spares the expression
        return None
    limit = limits(headers).get("requests")
    if limit is None or limit.remaining is None or limit.reset is None:
        return None
    return max(0.0, limit.remaining), min(limit.reset, _LONGEST_WAIT)


def _seconds_or_date(value: str) -> float | None:
    seconds = _number(value)
    if seconds is not None:
        return max(0.0, seconds)
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    return None


def _until(value: str, now: float) -> float | None:
    """Return the seconds to a reset: a duration, seconds, a time since 1970 or a date."""
    number = _number(value)
    if number is not None and number >= _AN_EPOCH:
        number = number / (1000 if number >= 1000 * _AN_EPOCH else 1) - now
    if number is not None:
        return max(0.0, number)
    with suppress(ValueError, OverflowError):
        return max(0.0, datetime.fromisoformat(value.strip()).timestamp() - now)
    return _duration(value)


def _duration(text: str) -> float | None:
    """Read `6m0s`, `17ms`, `2m59.56s` or `20 seconds`."""
    parts = _DURATION.findall(text.strip().lower())
    if not parts:
        return None
    return sum(float(number) * _UNITS.get(unit[:2], _UNITS[unit[:1]]) for number, unit in parts)


def _number(value: str) -> float | None:
    with suppress(ValueError):
        number = float(value)
        return number if math.isfinite(number) else None
    return None
