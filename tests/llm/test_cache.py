"""The cache of replies: what its keys depend on, damage, locks, full disks, other processes."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from alps.errors import UsageError
from alps.llm.cache import Cache, cache_key, default_path
from alps.llm.types import Reply, Request
from alps.tasks.personamem.likelihood import Echoed
from tests.desk import JUDGED, Habits
from tests.endtoend import run, run_cold

FULL = Reply("said\ud83d ♟", "stop", "declined", prompt_tokens=11, completion_tokens=7, cost=0.25)
IS_ROOT = not hasattr(os, "geteuid") or os.geteuid() == 0
no_root = pytest.mark.skipif(IS_ROOT, reason="root writes into files and folders of all modes")
no_windows = pytest.mark.skipif(sys.platform == "win32", reason="there are no limits to set")


def asking(role: str = "user", content: str = "One word?") -> tuple[dict[str, str], ...]:
    return ({"role": role, "content": content}, {"role": "user", "content": "Please."})


SAMPLING = {"temperature": 0, "seed": 1}
REQUEST = Request("openai/tiny", asking(), JUDGED, SAMPLING)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "down" / "replies.sqlite"


@contextmanager
def opened(path: Path) -> Iterator[Cache]:
    cache = Cache(path)
    try:
        yield cache
    finally:
        cache.close()


def fill(path: Path, count: int = 300) -> None:
    with opened(path) as cache:
        for number in range(count):
            cache.put(f"key {number}", Reply(f"reply {number} " + "x" * 500))


def works(cache: Cache) -> bool:
    cache.put("new", FULL)
    return cache.get("new") == FULL and cache.get("never stored") is None


def test_the_last_reply_stored_comes_back_and_is_there_in_the_next_run(path: Path):
    with opened(path) as cache:
        cache.put("key", Reply("first"))
        cache.put("key", FULL)
        assert cache.get("key") == FULL
    cache.put("after the end", FULL)
    assert cache.get("key") is None
    with opened(path) as again:
        assert (again.get("key"), again.get("after the end"), again.rebuilt) == (FULL, None, False)
    assert not path.with_suffix(".broken").exists()


@pytest.fixture
def _open_to_all() -> Iterator[None]:
    """Let new files be open to everybody, unless whoever makes them closes them."""
    if os.name != "posix":
        pytest.skip("modes of files are those of POSIX")
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_to_all")
@pytest.mark.parametrize("before", ["nothing", "open to all", "damaged"])
def test_cache_files_are_of_their_user_alone_whatever_the_umask(path: Path, before: str):
    if before != "nothing":
        path.parent.mkdir(parents=True)
        path.write_bytes(b"" if before == "open to all" else b"no database" * 100)
        path.with_name(f"{path.name}-wal").touch()
    with opened(path) as cache:
        cache.put("key", FULL)
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert {f"{path.name}{suffix}" for suffix in ("", "-wal", "-shm")} <= set(modes)
    assert set(modes.values()) == {0o600}
    assert before != "nothing" or path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("_open_to_all")
def test_what_a_run_keeps_is_of_its_user_alone_whatever_the_umask(tmp_path: Path):
    words = "run", "task=personamem", "size=32k", "limit=1", "model=rules", "out=out"
    assert run_cold(tmp_path, *words, ALPS_CACHE="cache").returncode == 0
    kept = [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]
    assert len(kept) > 5
    open_to_others = [path for path in kept if path.stat().st_mode & 0o077]
    assert open_to_others == []


CHANGED = {
    "the model": replace(REQUEST, model="openai/small"),
    "the endpoint": replace(REQUEST, api_base="http://127.0.0.1:8/v1"),
    "a message": replace(REQUEST, messages=asking(content="One word")),
    "half an emoji": replace(REQUEST, messages=asking(content="\ud83d")),
    "the other half": replace(REQUEST, messages=asking(content="\udf36")),
    "a role": replace(REQUEST, messages=asking("system")),
    "the number of messages": replace(REQUEST, messages=REQUEST.messages * 2),
    "the order of the messages": replace(REQUEST, messages=REQUEST.messages[::-1]),
    "the temperature": replace(REQUEST, sampling={**SAMPLING, "temperature": 0.1}),
    "a parameter less": replace(REQUEST, sampling={"temperature": 0}),
    "a parameter more": replace(REQUEST, sampling={**SAMPLING, "top_p": 1}),
    "the schema": replace(REQUEST, answer=replace(JUDGED, schema=Habits)),
    "no schema": replace(REQUEST, answer=None),
    "the repeat": replace(REQUEST, repeat=1),
    "an option of the provider": replace(REQUEST, extra={"reasoning_effort": "low"}),
    "its value": replace(REQUEST, extra={"reasoning_effort": "high"}),
    "where probabilities are asked from": replace(REQUEST, form=Echoed(3)),
    "the place of those": replace(REQUEST, form=Echoed(4)),
}
THE_SAME = {
    "the purpose": replace(REQUEST, purpose="judge"),
    "the record": replace(REQUEST, about="record 7"),
    "the order of the parameters": replace(REQUEST, sampling=dict(reversed(SAMPLING.items()))),
    "the order in a message": replace(
        REQUEST, messages=tuple(dict(reversed(one.items())) for one in REQUEST.messages)
    ),
}


def test_whatever_can_change_the_answer_changes_the_key_and_nothing_else_does():
    keys = {name: cache_key(request) for name, request in CHANGED.items()}
    assert len({*keys.values(), cache_key(REQUEST)}) == len(CHANGED) + 1, keys
    assert {name: cache_key(one) for name, one in THE_SAME.items()} == dict.fromkeys(
        THE_SAME, cache_key(REQUEST)
    )


def test_the_cache_lies_in_the_users_cache_folder_unless_told_otherwise(monkeypatch, tmp_path):
    monkeypatch.setenv("ALPS_CACHE", "off")
    assert default_path() is None
    monkeypatch.setenv("ALPS_CACHE", str(tmp_path))
    found = default_path()
    assert found is not None
    assert found.parent == tmp_path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ALPS_CACHE", "")
    empty = default_path()
    monkeypatch.delenv("ALPS_CACHE")
    assert empty == default_path()
    assert empty is not None
    assert "alps" in empty.parts


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda data: b"no database " * 1000,
    "cut in half": lambda data: data[: len(data) // 2],
    "header overwritten": lambda data: data[:20] + bytes(80) + data[100:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_broken_file_is_put_aside_and_begun_anew(path: Path, damage: Callable[[bytes], bytes]):
    fill(path)
    broken = damage(path.read_bytes())
    path.write_bytes(broken)
    with opened(path) as cache:
        assert cache.rebuilt
        assert works(cache)
    assert [other.read_bytes() for other in path.parent.glob("*.broken")] == [broken]


def test_a_file_whose_damage_shows_only_in_use_does_not_end_the_run(path: Path):
    fill(path)
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * (path.stat().st_size - 4096))
    with opened(path) as cache:
        assert cache.get("key 5") is None
        assert works(cache)


STORED: dict[str, object] = {
    "cut off": '{"text": "cut o',
    "of a later version": '{"text": "said", "a_field_of_a_later_version": 1}',
    "of another shape": '["said"]',
    "a number": 7,
    "bytes": b"\xff\xfe",
    "deep": "[" * 20_000 + "]" * 20_000,
    "a text that is a number": '{"text": 7}',
    "a text that is an object": '{"text": {"a": 1}}',
    "tokens in words": '{"text": "said", "prompt_tokens": "7"}',
    "negative tokens": '{"text": "said", "prompt_tokens": -7}',
    "endless tokens": '{"text": "said", "completion_tokens": 1e999}',
    "400 digits": f'{{"text": "said", "completion_tokens": {"9" * 400}}}',
    "a cost that is no number": '{"text": "said", "cost": NaN}',
    "a cost in words": '{"text": "said", "cost": "0.1"}',
    "a refusal as an object": '{"text": "said", "refusal": {"why": 7}}',
    "a thought as a list": '{"text": "said", "thought": [1]}',
    "a service as a number": '{"text": "said", "service": 7}',
}


@pytest.mark.few(4)
@pytest.mark.parametrize("stored", STORED.values(), ids=STORED)
def test_a_stored_reply_that_can_not_be_read_counts_as_not_stored(path: Path, stored: object):
    fill(path, 3)
    database = sqlite3.connect(path)
    database.execute("UPDATE replies SET reply = ? WHERE key = 'key 1'", (stored,))
    database.commit()
    database.close()
    with opened(path) as cache:
        assert cache.get("key 1") is None
        assert cache.get("key 2") == Reply("reply 2 " + "x" * 500)


FULL_DISK = """
import resource, sys
from contextlib import suppress
from pathlib import Path
from alps.llm.cache import Cache
from alps.llm.types import Reply
cache = Cache(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
with suppress(Exception):
    for number in range(100):
        cache.put(f"late {number}", Reply("x" * 5000))
"""


@pytest.mark.release
@no_windows
def test_a_full_disk_does_not_cost_the_replies_already_stored(path: Path):
    fill(path, 30)
    subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], check=True, timeout=300)
    assert list(path.parent.glob("*.broken")) == []
    with opened(path) as cache:
        assert cache.get("key 29") is not None
        assert not cache.rebuilt


PUTTING = """
import sys
from pathlib import Path
from alps.llm.cache import Cache
from alps.llm.types import Reply
cache = Cache(Path(sys.argv[1]))
for n in range(200):
    cache.put(f"{sys.argv[2]} {n}", Reply(f"{sys.argv[2]} {n}"))
"""


@pytest.mark.release
def test_runs_and_processes_share_the_cache_at_the_same_time(path: Path):
    with opened(path) as one, opened(path) as other:
        one.put("from one", FULL)
        other.put("from the other", FULL)
        assert (one.get("from the other"), other.get("from one")) == (FULL, FULL)
    command = [sys.executable, "-c", PUTTING, str(path)]
    processes = [subprocess.Popen([*command, name]) for name in ("one", "two")]
    assert [process.wait(300) for process in processes] == [0, 0]
    with opened(path) as cache:
        assert not cache.rebuilt
        for key in ("one 0", "one 199", "two 0", "two 199"):
            assert cache.get(key) == Reply(key)


@pytest.mark.few(1)
@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_run_that_starts_while_another_one_begins_the_cache_waits_for_it(path: Path, lock: str):
    path.parent.mkdir(parents=True)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE unrelated (number INTEGER)")
    other.execute(f"BEGIN {lock}")
    other.execute("INSERT INTO unrelated VALUES (1)")
    timer = threading.Timer(0.1, other.commit)
    timer.start()
    try:
        cache = Cache(path)
    finally:
        timer.join()
        other.close()
    assert not cache.rebuilt
    assert works(cache)
    cache.close()


# What can't be a cache is refused at once, in one line that helps


def refused(path: Path) -> str:
    started = time.monotonic()
    with pytest.raises(UsageError) as caught:
        Cache(path)
    message = str(caught.value)
    assert time.monotonic() - started < 5
    assert "\n" not in message
    assert [part for part in (str(path), "ALPS_CACHE", "off") if part not in message] == []
    return message


def test_a_file_for_a_folder_and_a_folder_for_a_file_are_refused(path: Path, tmp_path: Path):
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    path.mkdir(parents=True)
    for place in ("file/replies.sqlite", "file/deeper/replies.sqlite", path):
        refused(tmp_path / place)
    words = ("task=extraction", "model=openai/tiny", "api_base=http://127.0.0.1:9/v1")
    done = run(tmp_path, "run", *words, "data=samples", ALPS_CACHE=str(tmp_path / "file"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "ALPS_CACHE" in done.stderr


@no_windows
def test_a_cache_that_can_not_be_begun_on_a_full_disk_is_refused(path: Path):
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    path.parent.mkdir(parents=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, allowed[1]))
    try:
        refused(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)


@no_root
def test_a_file_or_a_folder_that_may_not_be_written_is_refused(path: Path, tmp_path: Path):
    path.parent.mkdir(parents=True)
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE unrelated (number INTEGER)")
    other.close()
    path.chmod(0o400)
    assert "readonly" in refused(path)
    (tmp_path / "closed").mkdir(0o500)
    refused(tmp_path / "closed" / path.name)
