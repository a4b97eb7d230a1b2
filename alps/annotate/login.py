"""Token of a person's page, in a file that its owner alone reads."""

import os
import secrets
import stat
from pathlib import Path

from alps.errors import UsageError


def token_for(folder: Path, person: str) -> str:
    """Return the token of a person's page, which is made once.

    A page that is started again still knows the browser that waits for it.

    Raises:
        UsageError: If it can't be kept.
    """
    path = folder / f".token-{person}"
    try:
        if _is_private(path) and (kept := path.read_text(encoding="ascii").strip()):
            return kept
        path.unlink(missing_ok=True)
        # Made without a right for others, rather than taking it away afterwards.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            token = secrets.token_urlsafe(24)
            file.write(token)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: the token can't be kept there ({error})") from error
    return token


def _is_private(path: Path) -> bool:
    """Tell whether a file is ours alone: another account may have laid one there."""
    if not path.is_file() or path.is_symlink():
        return False
    about = path.stat()
    mine = not hasattr(os, "getuid") or about.st_uid == os.getuid()
    return mine and (os.name == "nt" or not stat.S_IMODE(about.st_mode) & 0o077)
