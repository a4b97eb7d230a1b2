"""What is made once a session, whichever worker of pytest-xdist needs it first."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def shared(factory: pytest.TempPathFactory) -> Path:
    """Return the temporary folder of all workers."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder `name` that all workers share; the first to ask fills it by `make`.

    Nobody may change what is in it.
    """
    folder = shared(factory) / "once" / name
    folder.parent.mkdir(exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            begun = folder.with_suffix(".begun")
            begun.mkdir()
            make(begun)
            begun.rename(folder)
    return folder
