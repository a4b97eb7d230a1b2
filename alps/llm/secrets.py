"""Keys are looked for, asked for by name, and never written."""

import os
import re
from urllib.parse import urlsplit

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|AUTH", re.IGNORECASE)
_SECRET_SHAPE = re.compile(r"(?i:\bbearer\s+)[\w.~+/=-]{8,}|\b(?:(?:sk|pk|rk|hf|gsk|xai)[-_]|AIza)[\w-]{8,}")
_MASK = "[secret]"


def redact(text: str) -> str:
    """Replace every value of a secret-looking environment variable, and every key-shaped word, in `text`."""
    secrets = {value for name, value in os.environ.items() if len(value) >= 8 and _SECRET_NAME.search(name)}
    for secret in sorted(secrets, key=len, reverse=True):  # a secret may begin like a shorter one
        text = text.replace(secret, _MASK)
    return _SECRET_SHAPE.sub(_MASK, text)


def check_address(url: str) -> None:
    """Check that an endpoint's address can be read, and that no secret is part of it.

    Raises:
        ValueError: If it is no http address, or holds a user, a password, a query or a key: addresses get into files.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address starts with http:// or https://")
    if parts.username or parts.password or parts.query:
        raise ValueError("an address must hold no user, password or query; a key belongs in the environment")
    if redact(url) != url:
        raise ValueError("an address must hold no key; a key belongs in the environment")
    _ = parts.port  # raises where it is no number
