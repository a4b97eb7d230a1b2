"""What tests share: a private cache folder, no keys from outside, the command, and the real sample where it is."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tenacity import wait_fixed

from alps.llm.cache import Cache
from tests.desk import Desk
from tests.programs import diary, make

__all__ = ["diary", "make"]  # fixtures of one module's tests

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _private_environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ALPS_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@pytest.fixture
def alps(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command as a user does, in an empty folder."""

    def command(*words: str, cwd: Path = tmp_path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "alps", *words],
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "COLUMNS": "80"},
        )

    return command


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A client's desk, where nobody waits long between attempts."""
    monkeypatch.setattr("alps.llm.client._BACKOFF", wait_fixed(0.001))
    return Desk(tmp_path)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    """A reply cache of its own."""
    cache = Cache(tmp_path / "replies.sqlite")
    yield cache
    cache.close()


def real_sample_folder() -> Path | None:
    """Return the folder of the real sample, or None where it is not there."""
    given = os.environ.get("ALPS_SAMPLE")
    folder = Path(given) if given else ROOT.parent / "shared" / "alpsbench_sample"
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def sample() -> Path:
    """The folder of the real sample; tests that need it are marked `real`."""
    folder = real_sample_folder()
    if folder is None:
        pytest.skip("the real sample is not here: set ALPS_SAMPLE to its folder")
    return folder.resolve()
