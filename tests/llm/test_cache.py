import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from alps.errors import UsageError
from alps.llm.cache import Cache, cache_key, default_path
from alps.llm.types import AnswerType, Read, Reply, Request
from tests.endtoend import run_cold

FULL = Reply("said\ud83d ♟", "stop", "declined", prompt_tokens=11, completion_tokens=7, cost=0.25)


class Word(BaseModel):
    word: str


class OtherWord(BaseModel):
    word: str
    language: str


def read_word(node: object) -> Read[str]:
    return Read(str(node))


ANSWER = AnswerType(schema=Word, read=read_word, partial=False)
REQUEST = Request(
    "openai/tiny",
    ({"role": "user", "content": "One word?"},),
    ANSWER,
    {"temperature": 0, "seed": 1},
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "down" / "replies.sqlite"


def fill(path: Path, count: int = 300) -> None:
    cache = Cache(path)
    for number in range(count):
        cache.put(f"key {number}", Reply(f"reply {number} " + "x" * 500))
    cache.close()


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
@pytest.mark.parametrize("before", ["nothing", "open to all", "damaged"])
def test_cache_files_are_of_their_user_alone_whatever_the_umask(path: Path, before: str):
    umask = os.umask(0)
    try:
        if before != "nothing":
            path.parent.mkdir(parents=True)
            path.write_bytes(b"" if before == "open to all" else b"no database" * 100)
            path.with_name(f"{path.name}-wal").touch()
        cache = Cache(path)
        cache.put("key", FULL)
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        cache.close()
    finally:
        os.umask(umask)
    assert {f"{path.name}{suffix}" for suffix in ("", "-wal", "-shm")} <= set(modes)
    assert set(modes.values()) == {0o600}
    assert before != "nothing" or path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_what_a_run_keeps_is_of_its_user_alone_whatever_the_umask(tmp_path: Path):
    words = "run", "task=personamem", "size=32k", "limit=1", "model=rules", "out=out"
    before = os.umask(0)
    try:
        assert run_cold(tmp_path, *words, ALPS_CACHE="cache").returncode == 0
    finally:
        os.umask(before)
    kept = [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]
    assert len(kept) > 5
    open_to_others = [path for path in kept if path.stat().st_mode & 0o077]
    assert open_to_others == []


def test_a_reply_that_comes_after_the_end_is_not_kept_and_what_was_kept_stays(path: Path):
    cache = Cache(path)
    cache.put("before", FULL)
    cache.close()
    cache.put("after", FULL)
    assert cache.get("before") is None
    again = Cache(path)
    assert (again.get("before"), again.get("after"), again.rebuilt) == (FULL, None, False)
    assert not path.with_suffix(".broken").exists()
    again.close()


def works(cache: Cache) -> bool:
    cache.put("new", FULL)
    found = cache.get("new") == FULL and cache.get("never stored") is None
    cache.close()
    return found


def test_a_reply_comes_back_as_it_was_stored(path: Path):
    cache = Cache(path)
    cache.put("key", FULL)
    assert cache.get("key") == FULL
    assert not cache.rebuilt
    cache.close()


def test_a_reply_is_still_there_in_the_next_run(path: Path):
    fill(path, 3)
    cache = Cache(path)
    assert cache.get("key 2") == Reply("reply 2 " + "x" * 500)
    assert not cache.rebuilt
    cache.close()


def test_the_last_reply_stored_counts(path: Path):
    cache = Cache(path)
    cache.put("key", Reply("first"))
    cache.put("key", Reply("second"))
    assert cache.get("key") == Reply("second")
    cache.close()


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(replace(REQUEST, model="openai/small"), id="the model"),
        pytest.param(replace(REQUEST, api_base="http://127.0.0.1:8/v1"), id="the endpoint"),
        pytest.param(
            replace(REQUEST, messages=({"role": "user", "content": "One word"},)), id="a message"
        ),
        pytest.param(
            replace(REQUEST, messages=({"role": "system", "content": "One word?"},)), id="a role"
        ),
        pytest.param(replace(REQUEST, messages=REQUEST.messages * 2), id="the number of messages"),
        pytest.param(
            replace(REQUEST, sampling={"temperature": 0.1, "seed": 1}), id="the temperature"
        ),
        pytest.param(replace(REQUEST, sampling={"temperature": 0}), id="a parameter less"),
        pytest.param(
            replace(REQUEST, sampling={"temperature": 0, "seed": 1, "top_p": 1}),
            id="a parameter more",
        ),
        pytest.param(replace(REQUEST, answer=replace(ANSWER, schema=OtherWord)), id="the schema"),
        pytest.param(replace(REQUEST, answer=None), id="no schema"),
        pytest.param(replace(REQUEST, repeat=1), id="the repeat"),
    ],
)
def test_whatever_can_change_the_answer_changes_the_key(changed: Request[str]):
    assert cache_key(changed) != cache_key(REQUEST)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(replace(REQUEST, purpose="judge"), id="the purpose"),
        pytest.param(replace(REQUEST, about="record 7"), id="the record"),
        pytest.param(
            replace(REQUEST, sampling={"seed": 1, "temperature": 0}),
            id="the order of the parameters",
        ),
        pytest.param(
            replace(REQUEST, messages=({"content": "One word?", "role": "user"},)),
            id="the order in a message",
        ),
    ],
)
def test_what_can_not_change_the_answer_leaves_the_key(changed: Request[str]):
    assert cache_key(changed) == cache_key(REQUEST)


def test_half_an_emoji_in_a_message_has_a_key():
    halves = [
        replace(REQUEST, messages=({"role": "user", "content": half},))
        for half in ("\ud83d", "\udf36", "?")
    ]
    assert len({cache_key(request) for request in halves}) == 3


def test_the_cache_can_be_switched_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ALPS_CACHE", "off")
    assert default_path() is None


def test_the_cache_can_be_put_into_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("ALPS_CACHE", str(tmp_path))
    found = default_path()
    assert found is not None
    assert found.parent == tmp_path


@pytest.mark.parametrize("value", [None, ""])
def test_the_cache_lies_in_the_users_cache_folder_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None
):
    monkeypatch.delenv("ALPS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    if value is not None:
        monkeypatch.setenv("ALPS_CACHE", value)
    found = default_path()
    assert found is not None
    assert "alps" in found.parts


def garbage(path: Path) -> None:
    path.write_bytes(b"no database " * 1000)


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def header_overwritten(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:20] + bytes(80) + data[100:])


@pytest.mark.parametrize("damage", [garbage, cut_in_half, header_overwritten])
def test_a_broken_file_is_put_aside_and_begun_anew(path: Path, damage: Callable[[Path], None]):
    fill(path)
    damage(path)
    broken = path.read_bytes()
    cache = Cache(path)
    assert cache.rebuilt
    assert works(cache)
    assert [other.read_bytes() for other in path.parent.glob("*.broken")] == [broken]


def test_a_file_whose_damage_shows_only_in_use_does_not_end_the_run(path: Path):
    fill(path)
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * (path.stat().st_size - 4096))
    cache = Cache(path)
    assert cache.get("key 5") is None
    assert works(cache)


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param('{"text": "cut o', id="cut off"),
        pytest.param('{"text": "said", "a_field_of_a_later_version": 1}', id="of a later version"),
        pytest.param('["said"]', id="of another shape"),
        pytest.param(7, id="a number"),
        pytest.param(b"\xff\xfe", id="bytes"),
        pytest.param("[" * 20_000 + "]" * 20_000, id="deep"),
        pytest.param('{"text": 7}', id="a text that is a number"),
        pytest.param('{"text": {"a": 1}}', id="a text that is an object"),
        pytest.param('{"text": "said", "prompt_tokens": "7"}', id="tokens in words"),
        pytest.param('{"text": "said", "prompt_tokens": -7}', id="negative tokens"),
        pytest.param('{"text": "said", "completion_tokens": 1e999}', id="endless tokens"),
        pytest.param(f'{{"text": "said", "completion_tokens": {"9" * 400}}}', id="400 digits"),
        pytest.param('{"text": "said", "cost": NaN}', id="a cost that is no number"),
        pytest.param('{"text": "said", "cost": "0.1"}', id="a cost in words"),
        pytest.param('{"text": "said", "refusal": {"why": 7}}', id="a refusal as an object"),
        pytest.param('{"text": "said", "thought": [1]}', id="a thought as a list"),
        pytest.param('{"text": "said", "service": 7}', id="a service as a number"),
    ],
)
def test_a_stored_reply_that_can_not_be_read_counts_as_not_stored(path: Path, stored: object):
    fill(path, 3)
    database = sqlite3.connect(path)
    database.execute("UPDATE replies SET reply = ? WHERE key = 'key 1'", (stored,))
    database.commit()
    database.close()
    cache = Cache(path)
    assert cache.get("key 1") is None
    assert cache.get("key 2") is not None
    cache.close()


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


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files to set")
def test_a_full_disk_does_not_cost_the_replies_already_stored(path: Path):
    fill(path, 30)
    subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], check=True, timeout=300)
    assert list(path.parent.glob("*.broken")) == []
    cache = Cache(path)
    assert cache.get("key 29") is not None
    assert not cache.rebuilt
    cache.close()


def test_two_runs_share_the_cache_at_the_same_time(path: Path):
    one, other = Cache(path), Cache(path)
    one.put("from one", FULL)
    other.put("from the other", FULL)
    assert (one.get("from the other"), other.get("from one")) == (FULL, FULL)
    one.close()
    other.close()


def test_two_processes_share_the_cache_at_the_same_time(path: Path):
    program = (
        "import sys; from pathlib import Path; from alps.llm.cache import Cache; from "
        "alps.llm.types import Reply\n"
        "cache = Cache(Path(sys.argv[1]))\n"
        "for n in range(200): cache.put(f'{sys.argv[2]} {n}', Reply(f'{sys.argv[2]} {n}'))\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(path), name])
        for name in ("one", "two")
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    cache = Cache(path)
    assert not cache.rebuilt
    assert [cache.get(f"{name} {n}") for name in ("one", "two") for n in (0, 199)] == [
        Reply("one 0"),
        Reply("one 199"),
        Reply("two 0"),
        Reply("two 199"),
    ]
    cache.close()


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


def assert_one_line_that_helps(message: str, path: Path) -> None:
    assert "\n" not in message
    assert str(path) in message
    assert "ALPS_CACHE" in message
    assert "off" in message


def test_a_file_in_place_of_the_folder_is_refused_in_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    for path in (
        tmp_path / "file" / "replies.sqlite",
        tmp_path / "file" / "deeper" / "replies.sqlite",
    ):
        with pytest.raises(UsageError) as caught:
            Cache(path)
        assert_one_line_that_helps(str(caught.value), path)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files to set")
def test_a_cache_that_can_not_be_begun_on_a_full_disk_is_refused_at_once(path: Path):
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    path.parent.mkdir(parents=True)
    started = time.monotonic()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, allowed[1]))
    try:
        with pytest.raises(UsageError) as caught:
            Cache(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    assert time.monotonic() - started < 5
    assert_one_line_that_helps(str(caught.value), path)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes into files of all modes"
)
def test_a_file_that_may_not_be_written_is_refused_at_once(path: Path):
    path.parent.mkdir(parents=True)
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE unrelated (number INTEGER)")
    other.close()
    path.chmod(0o400)
    started = time.monotonic()
    with pytest.raises(UsageError, match="readonly") as caught:
        Cache(path)
    assert time.monotonic() - started < 5
    assert_one_line_that_helps(str(caught.value), path)


def test_a_folder_in_place_of_the_file_is_refused_in_one_line(path: Path):
    path.mkdir(parents=True)
    with pytest.raises(UsageError) as caught:
        Cache(path)
    assert_one_line_that_helps(str(caught.value), path)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="root writes into folders that nobody may write into",
)
def test_a_folder_that_may_not_be_written_is_refused_in_one_line(path: Path):
    path.parent.mkdir(parents=True)
    path.parent.chmod(0o500)
    try:
        with pytest.raises(UsageError) as caught:
            Cache(path)
    finally:
        path.parent.chmod(0o700)
    assert_one_line_that_helps(str(caught.value), path)


def test_the_command_says_in_one_line_that_the_cache_can_not_be_used(
    alps: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    monkeypatch.setenv("ALPS_CACHE", str(tmp_path / "file"))
    done = alps(
        "run",
        "task=extraction",
        "model=openai/tiny",
        "api_base=http://127.0.0.1:9/v1",
        "data=samples",
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "ALPS_CACHE" in done.stderr
