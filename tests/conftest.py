"""What tests share: a private cache folder, no keys from outside, the command, and the real sample
where it is.
"""

import gc
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from alps.llm.cache import Cache
from tests import warm
from tests.desk import Desk
from tests.endtoend import begin, finish
from tests.programs import diary, make, no_grace

__all__ = ["diary", "make", "no_grace"]  # fixtures of one module's tests

LONGEST = (
    *("test_real", "test_docs", "test_engines", "test_faults", "test_surroundings", "test_outages"),
    *("test_references", "test_site_browser", "test_client", "test_money", "test_preflight"),
    *("test_annotate_browser", "test_memory_transports", "test_personamem_likelihood"),
    *("test_goldens", "test_extensions", "test_earned_scores", "test_workflow", "test_batches"),
    *("test_personamem", "test_hub", "test_verify", "test_secrets", "test_site", "test_export"),
    *("test_personamem_answers", "test_personas_written", "test_report", "test_tasks_together"),
    *("test_memory_products", "test_personamem_boards", "test_rules", "test_docs_site"),
    *("test_memory_tasks", "test_forgetting", "test_endings", "test_provider", "test_welcome"),
    *("test_correction", "test_shards", "test_audited_runs", "test_judge_check"),
    *("test_first_screens", "test_printed"),
)
"""The files that take longest; the first of them mostly wait for servers. The last two look at
stories that are carried out for test_goldens: side by side, they would wait for it.
"""
hypothesis.settings.register_profile("few", max_examples=25)
ROOT = Path(__file__).resolve().parent.parent

# Tests run side by side: with a thread for every core, OpenBLAS spent five times the processor time
# on the small products of a bootstrap, and three times the seconds.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Lines of progress have tests of their own; others look at what else a command says.
os.environ.setdefault("ALPS_PROGRESS", "off")
# Else every command that a test starts compiles the package anew: a second of it each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_configure(config: pytest.Config) -> None:
    """Hear Ctrl-C, and let the commands hear it: a shell has what it starts in the background
    ignore it. Workers of pytest-xdist share one parent of commands.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Under nohup, too, commands must hear a hang-up: what handles a signal here is not inherited.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    if config.getoption("numprocesses", None):
        warm.share()
    if "not release" in config.option.markexpr:
        hypothesis.settings.load_profile("few")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and leave what was collected out of its later rounds.

    It took a quarter of the collection, and a twentieth of the tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what a browser shows, and most cases of `few(n)`, to a release; begin with the longest
    files.

    None of those is then left to one worker at the end.
    """
    tables: dict[object, list[pytest.Item]] = {}
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("release")
        if item.get_closest_marker("few") and not item.get_closest_marker("release"):
            tables.setdefault((item.path, getattr(item, "originalname", "")), []).append(item)
    for cases in tables.values():
        (count,) = cases[0].get_closest_marker("few").args
        spread = (len(cases) - 1) / max(count - 1, 1)
        kept = {round(place * spread) for place in range(count)}
        for place, case in enumerate(cases):
            if place not in kept:
                case.add_marker("release")
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONGEST)))


def pytest_sessionfinish() -> None:
    """End the parent of warm processes, where this process started it."""
    warm.stop()


@pytest.fixture(scope="session")
def _cache_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders numbered here: `mktemp` reads the whole folder for every number, and there are
    thousands of tests.
    """
    place = tmp_path_factory.mktemp("caches")
    return (place / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _private_environment(_cache_folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    cache_folder = next(_cache_folders)
    cache_folder.mkdir()
    monkeypatch.setenv("ALPS_CACHE", str(cache_folder))
    for name, value in warm.LOCAL.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def alps(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command as a user does, in an empty folder."""

    def command(
        *words: str, cwd: Path = tmp_path, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        return finish(begin(cwd, words, {**os.environ, "COLUMNS": "80"}), timeout)

    return command


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A client's desk, where nobody waits long between attempts."""
    monkeypatch.setattr("alps.llm.retries._backoff", lambda _: 0.001)
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
