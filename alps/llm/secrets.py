"""Keys are looked for, asked for by name, and never written."""

import os
import re
from urllib.parse import urlsplit, urlunsplit

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|AUTH", re.IGNORECASE)
_SECRET_SHAPE = re.compile(r"(?i:\bbearer\s+)[\w.~+/=-]{8,}|\b(?:(?:sk|pk|rk|hf|gsk|xai)[-_]|AIza)[\w-]{8,}")
_MASK = "[secret]"


def redact(text: str) -> str:
    """Replace every value of a secret-looking environment variable, and every key-shaped word, in `text`."""
    secrets = {value for name, value in os.environ.items() if len(value) >= 8 and _SECRET_NAME.search(name)}
    for secret in sorted(secrets, key=len, reverse=True):  # a secret may begin like a shorter one
        text = text.replace(secret, _MASK)
    return _SECRET_SHAPE.sub(_MASK, text)


def redact_url(url: str) -> str:
    """Drop user, password and query from `url`: some gateways carry their key there."""
    parts = urlsplit(url)
    if not (parts.username or parts.password or parts.query):
        return url
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    netloc = f"{host}:{parts.port}" if parts.port else host
    return urlunsplit((parts.scheme, netloc, parts.path, "", ""))
