"""Keys: they are looked for, asked for by name, and never written, nor given to programs."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

from alps.errors import UsageError

_SECRET_NAME = re.compile(
    r"KEY(?!BOARD|MAP)|TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH(?!ORS?(?:_|$))"
    r"|JWT|COOKIE|BEARER|PASS(?:_|$)|(?:^|_)PAT(?:_|$)|^(?!OLDPWD$).+PWD$",
    re.IGNORECASE,
)
# Names whose value is the secret; `KEY_TYPE` and `TOKEN_LIMIT` are about one, and their short
# values are no secret.
_NAMES_ITS_VALUE = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASS|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH|JWT|COOKIE|BEARER|PAT"
    r"|PWD)S?_?\d*$",
    re.IGNORECASE,
)
_SECRET_SHAPE = re.compile(
    r"(?i:\bbearer\s+)[\w.~+/=-]{8,}|\b(?:(?:sk|pk|rk|hf|gsk|xai)[-_]|AIza)[\w-]{8,}"
)
# An address with a password, in which signs may stand as they are, and no port; or one for the web
# with a user, which may be a key.
_IN_ADDRESS = re.compile(
    r"(://[^\s/?#@:\"\0]*:)(?!\d{1,5}(?:[/?#,]|$))[^\s\"\0]+@"
    r"|(\b(?:http|ws)s?://)[^\s/?#\"\0]+@",
    re.IGNORECASE,
)
_MASK = "[secret]"
_NEEDED = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TMP|TEMP|XDG_\w+|PYTHON\w*"
    r"|VIRTUAL_ENV|CONDA_\w+|NODE_PATH|JAVA_HOME|LD_LIBRARY_PATH|DYLD_\w+|CUDA_\w+|NVIDIA_\w+"
    r"|OMP_\w+|MKL_\w+|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
)
_DUMPABLE = 4  # PR_SET_DUMPABLE: without it /proc/PID/environ and /proc/PID/mem are root's
# Characters. From here on a value is masked wherever it stands, in the middle of words, too.
_LONG = 8
# Characters of what can be a secret at all: less is tried out in seconds, and stands in every
# second answer.
_SHORTEST, _SHORTEST_NUMBER = 3, 6
_WORDS = """
    true false yes no on off none null nil empty unset undefined default auto enabled disabled
    unused n/a dummy test testing example sample demo placeholder changeme change-me fake anything
    whatever local localhost ollama lm-studio vllm root user admin guest public private basic
    bearer oauth oauth2 key token secret password api-key apikey api_key no-key nokey no_key
    not-needed notneeded not_needed
"""
# Values that switch something, or stand where a key is not needed; they are words of ordinary
# answers.
_NO_SECRETS = frozenset(_WORDS.split())

_VARIABLE = re.compile(r"[A-Za-z_]\w*")

_passed: set[str] = set()


def keep_secret(names: Iterable[str]) -> None:
    """Count variables that the user gave to a program by name as secret in this process."""
    _passed.update(names)


def is_secret(name: str, value: str) -> bool:
    """Tell whether a variable holds a secret, by its name or by a password in an address."""
    return name in _passed or bool(_SECRET_NAME.search(name)) or bool(_password_of(value))


def redact(text: str) -> str:
    """Mask long secret values, key-shaped words and passwords in addresses in what we write."""
    long = {value for value in _secrets().values() if len(value) >= _LONG}
    for secret in sorted(long, key=len, reverse=True):  # a secret may begin like a shorter one
        text = text.replace(secret, _MASK)
    return _SECRET_SHAPE.sub(_MASK, _IN_ADDRESS.sub(rf"\1\2{_MASK}@", text))


def masked(answer: Any, asked: Callable[[], str] = str) -> Any:
    """Mask the values of secret variables in every text and key of an answer as plain JSON.

    Values of fewer than 8 characters are masked as whole words alone. What stands in what was
    `asked` stays: an answer that repeats the dialogue tells nobody anything, and a short value may
    well be a word of it.
    """
    pattern = _pattern(frozenset(_secrets().values()))
    if pattern is None:
        return answer

    def of(node: Any) -> Any:
        if isinstance(node, str):
            return pattern.sub(lambda match: match[0] if match[0] in asked() else _MASK, node)
        if isinstance(node, dict):
            return {of(key): of(value) for key, value in node.items()}
        return [of(value) for value in node] if isinstance(node, list | tuple) else node

    return of(answer)


def secret_in(text: str, *, also: Iterable[str] = ()) -> str | None:
    """Return the name of a variable whose secret value, of any length, is in `text`, if any.

    `also` names variables that are secret whatever their names say.
    """
    for name, value in _secrets(also).items():
        pattern = _pattern(frozenset({value}))
        if pattern is not None and pattern.search(text):
            return name
    return None


def _secrets(also: Iterable[str] = ()) -> Mapping[str, str]:
    """Return the values that are secret, by the names of their variables."""
    return _secrets_in(_environment(), frozenset((*_passed, *also)))


_held: dict[Any, Any] = {}
_decoded: list[frozenset[tuple[str, str]]] = []


def _environment() -> frozenset[tuple[str, str]]:
    """Return the variables of the environment, decoded again only where one has changed."""
    # Every answer is searched several times: decoding all variables took a tenth of a run that
    # asks no model. What `os.environ` holds is compared as it is kept.
    held = getattr(os.environ, "_data", None)
    if held is None:
        return frozenset(os.environ.items())
    if not _decoded or held != _held:
        _held.clear()
        _held.update(held)
        _decoded[:] = [frozenset(os.environ.items())]
    return _decoded[0]


@lru_cache(maxsize=8)  # each reply is searched for them several times
def _secrets_in(environment: frozenset[tuple[str, str]], own: frozenset[str]) -> Mapping[str, str]:
    secrets = {}
    for name, text in sorted(environment):
        if (secret := _secret_of(name, text.strip(), own=name in own)) is not None:
            secrets[name] = secret
    return secrets


@lru_cache(maxsize=1024)  # every answer is searched for those of the whole environment
def _secret_of(name: str, value: str, *, own: bool) -> str | None:
    if own or _SECRET_NAME.search(name):
        names_it = own or _NAMES_ITS_VALUE.search(name) is not None
        return value if _may_be_one(value, names_it=names_it) else None
    password = _password_of(value)
    return password if password and _may_be_one(password, names_it=True) else None


def _may_be_one(value: str, *, names_it: bool) -> bool:
    if value.casefold() in _NO_SECRETS or len(set(value)) <= 1:
        return False
    shortest = _SHORTEST_NUMBER if value.isdecimal() else _SHORTEST
    return len(value) >= (shortest if names_it else _LONG)


def _password_of(value: str) -> str | None:
    """Return the password in an address such as that of a proxy or a database."""
    if "://" not in value or "@" not in value:
        return None
    try:
        return urlsplit(value).password
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    """Return what finds secrets in a text, as JSON and addresses escape them, the longest first."""
    if not secrets:
        return None
    forms = {form for secret in secrets for form in _forms(secret)}
    ordered = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile("|".join(_as_found(form) for form in ordered))


def _forms(secret: str) -> set[str]:
    escaped = {json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    return {secret, quote(secret, safe=""), *escaped}


def _as_found(form: str) -> str:
    word = re.escape(form)
    return word if len(form) >= _LONG else rf"(?<![A-Za-z0-9]){word}(?![A-Za-z0-9])"


def names_in(text: str) -> tuple[str, ...]:
    """Read `NAME,NAME`, sorted and each once.

    Raises:
        ValueError: If one is no name of a variable; its text is not repeated, as it may hold a
            value.
    """
    names = tuple(sorted({name.strip() for name in text.split(",")}))
    if not all(_VARIABLE.fullmatch(name) for name in names):
        takes = "must be names of environment variables, without values"
        raise ValueError(f"{takes}, separated by commas")
    return names


def check_address(url: str) -> None:
    """Check that an endpoint's address can be read, and that no secret is part of it.

    Raises:
        ValueError: If it is no http address, or holds a user, a password, a query or a key:
            addresses get into files.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address must start with http:// or https://")
    instead = "put the key in the environment"
    if parts.username or parts.password or parts.query:
        raise ValueError(f"an address must not contain a user, password or query; {instead}")
    if redact(url) != url:
        raise ValueError(f"an address must not contain a key; {instead}")
    _ = parts.port  # raises where it is no number


def conceal() -> None:
    """Keep programs of the same user from reading this process, whose environment holds keys.

    On Linux alone; a program of root, or with CAP_SYS_PTRACE, reads everything all the same.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)


def program_environment(passed: Sequence[str]) -> dict[str, str]:
    """Return the environment of a program: what it needs, no secrets, and variables passed by name.

    From then on programs can't look up the rest of it in this process, see `conceal`.

    Raises:
        UsageError: If one of the names is not set.
    """
    conceal()
    if missing := [name for name in passed if name not in os.environ]:
        raise UsageError(f"env={','.join(passed)}: {missing[0]} is not set in the environment")
    variables = {"PYTHONUNBUFFERED": "1"}  # else what a Python program prints stays in its buffer
    for name, text in os.environ.items():
        if name in passed or (_NEEDED.fullmatch(name) and not is_secret(name, text)):
            variables[name] = text
    return variables
