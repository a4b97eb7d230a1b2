"""The user's own folders: the cache, the configuration, the data; nobody has to have any."""

import os
from pathlib import Path
from typing import Literal


def user_folder(kind: Literal["cache", "config", "data"]) -> Path | None:
    """Return the user's folder for what `alps` keeps; None for a user without a home."""
    import platformdirs

    try:
        folder: Path = getattr(platformdirs, f"user_{kind}_path")("alps")
    except RuntimeError:
        return None
    # Without a home it would be a folder of the working directory.
    return folder if folder.is_absolute() else None


def cache_folder() -> Path | None:
    """Return the folder of what can be made again: `ALPS_CACHE`, else the user's cache folder.

    None where that is `off`, or no home is known.
    """
    chosen = os.environ.get("ALPS_CACHE", "")
    if chosen == "off":
        return None
    return Path(chosen) if chosen else user_folder("cache")


def can_be_kept(folder: Path) -> bool:
    """Tell whether `folder` is there, or can be made, and files can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)
