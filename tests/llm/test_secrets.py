"""Secrets: what is masked; what programs, classes and endpoints may say; what they are told beside
their question.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from alps.data.release import write_track
from alps.ext.adapters.asking import alias
from alps.llm.secrets import masked, redact, secret_in
from tests.endtoend import environment, extraction, finish, one_line, rows, run, start_cold
from tests.few import few
from tests.loopback import Answer, serve
from tests.tracks import target_row, write_ability
from tests.visitors import good, is_judging, memory_items, write_visitors

NAMES = """OPENAI_API_KEY HF_TOKEN AWS_SECRET_ACCESS DATABASE_PASSWORD PROXY_AUTH
GOOGLE_CREDENTIAL_TEXT lower_case_key"""


def test_the_value_of_a_secret_variable_is_masked_wherever_it_stands_and_no_other(monkeypatch):
    said = "refused: ordinary looking words (ordinary looking words), bye"
    for name in NAMES.split():
        monkeypatch.setenv(name, "ordinary looking words")
        assert redact(said) == "refused: [secret] ([secret]), bye", name
        monkeypatch.delenv(name)
    monkeypatch.setenv("ALPS_COLOUR", "ordinary looking words")
    monkeypatch.setenv("SOME_API_KEY", "none")
    monkeypatch.setenv("A_KEY", "python")
    for text in (said, "none of it", "program:python x.py"):
        assert redact(text) == text


def test_a_secret_that_begins_like_another_one_is_masked_as_a_whole(monkeypatch):
    values = ("shared-start", "shared-start-and-the-rest", "shared-start-and")
    for name, value in zip(("A_KEY", "B_KEY", "C_KEY"), values, strict=True):
        monkeypatch.setenv(name, value)
    assert "rest" not in redact("the key shared-start-and-the-rest was refused")


SHAPES = (
    "sk-abcdefgh12345678",
    "sk-proj-abc_DEF-12345678",
    "sk-ant-api03-abcdefgh_12345678",
    "sk-or-v1-abcdef0123456789",
    "hf_AbCdEfGhIjKlMnOp",
    "gsk_abcdefgh12345678",
    "xai-abcdefgh12345678",
    "AIzaSyA1234567890abcdefghijklmnopqrstuvw",
)
PLACES = ("the key {} was refused", "key={}&x=1", '{{"key": "{}"}}', "{}", "({}).", "key:{}\n")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://anna:hunter22@host:81/x", "http://[secret]@host:81/x"),
        ("https://hunter22@host", "https://[secret]@host"),
        ("postgres://anna:hunt@er22@host/db", "postgres://anna:[secret]@host/db"),
        ("redis://:hunter22@host", "redis://:[secret]@host"),
        ("http://anna:hun/ter22@host", "http://anna:[secret]@host"),
        ("postgresql://anna:hun#ter22@host/db", "postgresql://anna:[secret]@host/db"),
        ("ws://hunter22@host", "ws://[secret]@host"),
        ("http://host:8080/@anna", "http://host:8080/@anna"),
        ("https://example.org/@anna", "https://example.org/@anna"),
        ("ssh://git@example.org/x", "ssh://git@example.org/x"),
        (
            "http://127.0.0.1:8000 and anna@example.org",
            "http://127.0.0.1:8000 and anna@example.org",
        ),
    ],
)
def test_a_password_in_an_address_is_masked(address, shown):
    assert redact(f"could not reach {address}, gave up") == f"could not reach {shown}, gave up"


def test_what_is_shaped_like_a_key_or_follows_bearer_is_masked_and_ordinary_text_left():
    for secret in SHAPES:
        for place in PLACES:
            assert secret[-8:] not in redact(place.format(secret)), secret
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert "opaque" not in redact(f"Authorization: {scheme} opaque.token+of/any=kind-1")
    for text in (
        "A risk-averse person with task-oriented habits",
        "desk_organizers and disk-encryption",
        "bearer of bad news",
        "the model openai/gpt-4.1-mini at http://127.0.0.1:8000/v1",
        "住在成都 🌶",
        "",
    ):
        assert redact(text) == text


@pytest.mark.parametrize(
    ("name", "value", "said", "shown"),
    [
        ("A_KEY", "abc", "abc, not abcd", "[secret], not abcd"),
        ("A_KEY", "abc1", "xabc1 abc12 住abc1在", "xabc1 abc12 住[secret]在"),
        ("A_KEY", "a-longer-value", "prefixa-longer-valuesuffix", "prefix[secret]suffix"),
        ("A_KEY", "1", "1 cat", "1 cat"),
        ("A_KEY", "us", "us and them", "us and them"),
        ("A_KEY", "4096", "has 4096 stamps", "has 4096 stamps"),
        ("A_KEY", "482193", "has 482193 stamps", "has [secret] stamps"),
        ("A_KEY", "True", "True love", "True love"),
        ("A_KEY", "xxxxxxxxxx", "xxxxxxxxxx", "xxxxxxxxxx"),
        ("OPENAI_API_KEY", "not-needed", "a car is not-needed", "a car is not-needed"),
        ("KEY_TYPE", "beagle", "a beagle", "a beagle"),
        ("TOKENIZERS_PARALLELISM", "parallel-or-not", "parallel-or-not", "parallel-or-not"),
        ("GIT_AUTHOR_NAME", "Ann Example", "Ann Example", "Ann Example"),
        ("KEYBOARD_LAYOUT", "portuguese", "portuguese", "portuguese"),
        ("PWD", "/srv/somewhere", "/srv/somewhere", "/srv/somewhere"),
        ("OLDPWD", "/srv/somewhere", "/srv/somewhere", "/srv/somewhere"),
        ("PGPWD", "hush-hush", "hush-hush", "[secret]"),
    ],
)
def test_what_is_taken_for_a_secret_and_where(monkeypatch, name, value, said, shown):
    monkeypatch.setenv(name, value)
    assert masked({"value": [said]}) == {"value": [shown]}
    assert (secret_in(said) == name) == (said != shown)


def test_what_the_dialogue_says_may_be_said_again(monkeypatch):
    monkeypatch.setenv("ROUTER_PASSWORD", "saffron")
    assert masked("Grows saffron", lambda: "I grow saffron.") == "Grows saffron"
    assert masked("Grows saffron", lambda: "I grow tulips.") == "Grows [secret]"


# A program, a class or an endpoint that says a key: it is in no file, and real answers stay whole

KEYS = {
    "VLLM_API_KEY": "token-abc123",
    "OPENAI_API_KEY": "hush7",
    "WIKI_PASSWORD": 'quo"ted\\pass',
    "SOME_TOKEN": "schlüssel-ü",
    "PROXY_OF_MINE": "http://me:pass-in-url@proxy:1",
    "BUILD_SECRET": "a+b/c=d&e?f",
}
SAID = ["token-abc123", "hush7", 'quo"ted\\pass', "schlüssel-ü", "pass-in-url", "a+b/c=d&e?f"]
ESCAPED = [
    form
    for text in SAID
    for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
]
SWITCHES = {"DEBUG_KEY": "1", "SOME_AUTH": "true", "MAX_TOKENS": "4096"}
SWITCHES |= {"KEY_TYPE": "beagle", "EMPTY_KEY": "none"}
PROGRAM = """
import json, sys
said = json.load(open("said.json"))
for line in sys.stdin:
    row = json.loads(line)
    items = [{"value": "The key is " + text, "label": text, \
text: 1, "reasoning": text} for text in said]
    items += [{"value": "Keeps 1 beagle, true to its 4096 friends, and none other"}]
    print("calling with", *said, flush=True)
    print(*said, file=sys.stderr, flush=True)
    print(json.dumps({"benchmark_id": row["benchmark_id"], "memory_items": items}), flush=True)
"""
CLASS = """
import json
class Echo:
    def predict(self, sample):
        said = json.load(open("said.json"))
        if "visitor 0." in sample.dialogue[0].text:
            raise ValueError(" ".join(said))
        return [{"value": "The key is " + text, text: 1} for text in said] + \
["Keeps 1 beagle, true to its friends"]
"""
ECHO = f"model=program:{sys.executable} -S echo.py"
EXTRACT = ("run", "task=extraction", "data=data", "out=out")


def forms_in(text: str) -> list[str]:
    """Return the forms of keys in a text."""
    return [form for form in ESCAPED if form in text]


def leaking(folder: Path) -> list[str]:
    """Return the files below a folder that hold one of the keys in any form."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if any(f.encode() in path.read_bytes() for f in ESCAPED)]


def values_in(folder: Path, place: int) -> list[str]:
    row = rows(folder / "predictions.jsonl")[place]
    return [item["value"] for item in row["prediction"]["memory_items"]]


@pytest.fixture
def here(tmp_path):
    """A folder with dialogues, and in a folder beside it what the systems say."""
    write_visitors(tmp_path / "data", 2)
    (tmp_path / "said.json").write_text(json.dumps(SAID))
    (tmp_path / "echo.py").write_text(PROGRAM)
    (tmp_path / "echo_class.py").write_text(CLASS)
    return tmp_path


@pytest.mark.few(1)
@pytest.mark.parametrize("model", [ECHO, "model=python:echo_class:Echo"], ids=["program", "class"])
def test_a_system_that_says_keys_leaves_none_in_any_file_and_other_answers_whole(here, model):
    done = run(here, *EXTRACT, model, "max_failures=50%", **KEYS, **SWITCHES)
    assert done.returncode == 0, done.stderr
    assert leaking(here / "out") == []
    values = values_in(here / "out", 1)
    assert values[: len(SAID)] == ["The key is [secret]"] * len(SAID)
    assert values[-1].startswith("Keeps 1 beagle, true to its")
    page = run(here, "report", "out", "out=page.html", **KEYS)
    assert page.returncode == 0, page.stderr
    shown = (here / "page.html").read_text() + done.stdout + done.stderr + page.stdout + page.stderr
    assert forms_in(shown) == []


def test_an_endpoint_that_says_keys_leaves_none_in_answers_verdicts_ledger_or_cache(here):
    def echoing(body):
        if is_judging(body):
            return Answer(json.dumps({"pairs": [], "note": " ".join(SAID)}))
        items = memory_items(*(f"The key is {text}" for text in SAID))
        return Answer(json.dumps({"memory_items": items}))

    with serve(echoing) as server:
        done = run(here, *extraction(server.url, "out=out", "max_failures=100%"), **KEYS)
        assert done.returncode == 0, done.stderr
        asked = json.dumps(server.requests, ensure_ascii=False)
    assert leaking(here / "out") == []
    assert leaking(Path(environment(here)["ALPS_CACHE"])) == []
    assert forms_in(asked) == []  # the judge is told the masked answers
    assert values_in(here / "out", 0) == ["The key is [secret]"] * len(SAID)


@pytest.mark.release
def test_a_key_that_is_set_later_is_refused_when_answers_are_packed_at_any_length(here):
    """A run that was made without the variable keeps what was said; who packs it with the variable
    is told.
    """
    assert run(here, *EXTRACT, ECHO).returncode == 0
    packing = ("leaderboard", "submit", "out", "name=Echo", "out=packed", "date=2026-01-31")
    for name, value in KEYS.items():
        done = run(here, *packing, **{name: value})
        assert done.returncode == 2, (name, done)
        assert f"the value of {name}" in done.stderr
        assert forms_in(done.stdout + done.stderr) == []
        assert not (here / "packed").exists()
    assert "the value of" not in run(here, *packing, **SWITCHES).stderr


def test_what_is_passed_by_name_is_secret_whatever_it_is_called(here):
    (here / "said.json").write_text('["xq9-1"]')
    done = run(here, *EXTRACT, ECHO, "env=TITLE", TITLE="xq9-1")
    assert done.returncode == 0, done.stderr
    assert not [path for path in (here / "out").iterdir() if b"xq9-1" in path.read_bytes()]


# What a program or a class is told beside its question: no key, no id of the data, no ability

NOTING = """
import json, os, sys
with open("heard", "a") as file:
    file.write(json.dumps({"argv": sys.argv, "environment": dict(os.environ)}) + "\\n")
    for line in sys.stdin:
        file.write(line)
        file.flush()
        row = json.loads(line)
        given = row["input"]
        answer = {
            "task1": {"memory_items": [{"value": "Noted under " + row["benchmark_id"]}]},
            "task2": {"memory_items": given.get("memory")},
            "task3": {"selected_memory_id": given.get("candidate_memories", [{"id": ""}])[0]["id"]},
            "task4": {"answer": "Noted."},
        }
        print(json.dumps({"benchmark_id": row["benchmark_id"], **answer[row["task"]]}), flush=True)
"""
NOTING_CLASS = """
class Noting:
    def predict(self, sample):
        with open("heard", "a") as file:
            file.write(sample.model_dump_json() + "\\n")
        return {"memory_items": [{"value": "Noted under " + sample.benchmark_id}]}
"""
NEEDED = {
    "LANG": "C.UTF-8",
    "LC_TIME": "de_DE.UTF-8",
    "TMPDIR": "/tmp",
    "PYTHONPATH": "mine",
    "VIRTUAL_ENV": "/venv",
    "CONDA_PREFIX": "/conda",
    "LD_LIBRARY_PATH": "/lib",
    "XDG_CACHE_HOME": "/cache",
    "TZ": "UTC",
}
NOT_NEEDED = {
    "OPENAI_API_KEY": "canary-told-1",
    "AWS_SESSION_TOKEN": "canary-told-2",
    "DATABASE_URL": "postgres://me:canary-told-3@db/x",
    "HTTPS_PROXY": "http://me:canary-told-4@proxy:1",
    "ALPS_CACHE_OF": "canary-told-5",
    "PYTHON_REGISTRY_TOKEN": "canary-told-6",
    "CONDA_TOKEN": "canary-told-7",
    "XDG_MIRROR": "https://me:canary-told-8@mirror",
    "SOMETHING_ELSE": "canary-told-9",
}


def heard(folder: Path) -> list[dict]:
    lines = (folder / "heard").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def words_of(folder: Path, *more: str) -> tuple[str, ...]:
    (folder / "noting.py").write_text(NOTING)
    return ("run", f"model=program:{sys.executable} -S noting.py", "out=out", *more)


def test_a_program_gets_what_it_needs_of_the_environment_and_what_is_passed_by_name(tmp_path):
    write_visitors(tmp_path / "data", 1)
    plain = words_of(tmp_path, "task=extraction", "data=data")
    words = (*plain, "env=SOMETHING_ELSE,OPENAI_API_KEY")
    done = finish(start_cold(tmp_path, *words, **NEEDED, **NOT_NEEDED))
    assert done.returncode == 0, done.stderr
    given = heard(tmp_path)[0]["environment"]
    assert {name: given.get(name) for name in NEEDED} == NEEDED
    assert given["PATH"] == os.environ["PATH"]
    passed = {"SOMETHING_ELSE", "OPENAI_API_KEY"}
    assert {name: given.get(name) for name in passed} == {n: NOT_NEEDED[n] for n in passed}
    assert not (NOT_NEEDED.keys() - passed) & given.keys()
    assert not [name for name in given if name.startswith("ALPS_") or "LITELLM" in name]
    manifest = (tmp_path / "out" / "manifest.json").read_text()
    assert json.loads(manifest)["settings"]["env"] == "OPENAI_API_KEY,SOMETHING_ELSE"
    assert not [text for text in NOT_NEEDED.values() if text in manifest]
    assert 'env = "OPENAI_API_KEY,SOMETHING_ELSE"' in (tmp_path / "out" / "config.toml").read_text()
    other = one_line(run(tmp_path, *plain, **NOT_NEEDED))
    assert "out holds another run: settings.env is" in other
    shutil.rmtree(tmp_path / "out")
    assert run(tmp_path, *plain).returncode == 0
    assert "env" not in json.loads((tmp_path / "out" / "manifest.json").read_text())["settings"]


NAMES_ALONE = "env=…: must be names of environment variables"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ((ECHO, "env=NOT_AT_ALL"), "env=NOT_AT_ALL: NOT_AT_ALL is not set in the environment"),
        ((ECHO, "env=SOMETHING=canary-told-9"), NAMES_ALONE),
        ((ECHO, "env=two words"), NAMES_ALONE),
        (("model=rules", "env=HOME"), "env=HOME would change nothing: only program:CMD uses it"),
    ],
    ids=["not set", "a value", "two words", "no program"],
)
def test_what_can_not_be_passed_is_refused_before_anything_is_written(here, given, complaint):
    error = one_line(run(here, *EXTRACT, *given))
    assert complaint in error
    assert "canary" not in error
    assert not (here / "out").exists()


def test_ids_and_order_tell_a_program_no_ability_and_files_keep_the_ids_of_the_data(tmp_path):
    for ability in range(1, 6):
        given_away = {"session_id": f"stratum_{ability}", "ability": f"ability{ability}"}
        samples = (
            target_row(f"ability{ability}_{n}", queries=[f"Question {ability}?"], **given_away)
            for n in range(1, 13)
        )
        write_ability(tmp_path / "data", ability, *samples)
    done = run(tmp_path, *words_of(tmp_path, "task=utilization", "data=data"))
    assert done.returncode == 0, done.stderr
    asked = heard(tmp_path)[1:]
    shown = {row["benchmark_id"] for row in asked}
    assert len(asked) == len(shown) == 60
    assert not [row for row in map(json.dumps, asked) if "ability" in row or "stratum" in row]
    abilities = [row["input"]["query"] for row in asked]
    assert abilities != sorted(abilities)
    assert all(len(set(abilities[place : place + 12])) >= 3 for place in range(0, 60, 12))
    predictions = rows(tmp_path / "out" / "predictions.jsonl")
    names = [f"ability{ability}_{number}" for ability in range(1, 6) for number in range(1, 13)]
    assert [row["benchmark_id"] for row in predictions] == names
    written = json.dumps(predictions)
    assert [name for name in shown if name in written] == []
    (tmp_path / "again").mkdir()
    words = words_of(tmp_path / "again", "task=utilization", "data=../data")
    again = run(tmp_path / "again", *words)
    assert again.returncode == 0, again.stderr
    assert {row["benchmark_id"] for row in heard(tmp_path / "again")[1:]} == shown


def test_a_class_is_shown_other_ids_and_its_answers_come_back_under_those_of_the_data(tmp_path):
    write_visitors(tmp_path / "data", 3)
    (tmp_path / "noting_class.py").write_text(NOTING_CLASS)
    assert run(tmp_path, *EXTRACT, "model=python:noting_class:Noting").returncode == 0
    shown = heard(tmp_path)
    for key in ("benchmark_id", "session_id"):
        assert len({sample[key] for sample in shown}) == 3
    told = json.dumps(shown)
    assert [name for name in ("visitor_", "session_0") if name in told] == []
    for number, row in enumerate(rows(tmp_path / "out" / "predictions.jsonl")):
        (item,) = row["prediction"]["memory_items"]
        assert item["value"] == f"Noted under visitor_0{number}"
        assert f"visitor_0{number}" in row["raw"]


def test_sessions_that_given_memories_come_from_go_by_other_names_and_come_back(tmp_path):
    turns = [{"role": "user", "text": "I live in Lyon."}]
    evidence = {"session_id": "sess_of_task2", "utterance_index": 0, "text": "I live in Lyon."}
    memory = {"memory_id": "m1", "value": "Lives in Lyon", "type": "direct", "evidence": evidence}
    head = {"benchmark_id": "sess_of_task2", "session_id": "sess_of_task2", "task": "task2"}
    given = {"old_dialogue": turns, "new_dialogue": turns, "memory": [memory]}
    pair = {**head, "input": given}, {**head, "gold": {"answer": [memory]}}
    write_track(tmp_path / "data" / "dev" / "task2", [pair])
    done = run(tmp_path, *words_of(tmp_path, "task=update", "data=data"))
    assert done.returncode == 0, done.stderr
    assert "sess_of_task2" not in json.dumps(heard(tmp_path)[1])
    assert heard(tmp_path)[1]["input"]["memory"][0]["value"] == "Lives in Lyon"
    (row,) = rows(tmp_path / "out" / "predictions.jsonl")
    assert row["prediction"]["memory_items"][0]["evidence"] == evidence


def test_an_alias_depends_on_the_data_and_says_nothing_of_what_it_stands_for():
    names = ("ability1_1", "ability1_2")
    made = {alias(key, track, name) for key in "ab" for track in ("t1", "t2") for name in names}
    assert len(made) == 8
    assert all(len(text) == 24 and set(text) <= set("0123456789abcdef") for text in made)
    assert alias("a", "t1", "ability1_1") in made


# A `.env` of the working folder is a stranger's file: nothing of it is read

STRANGE = "OPENAI_API_KEY=of-the-stranger\nOF_DOTENV=1\n"
IMPORTING = """
import os, sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
from alps.llm.wire import libraries
libraries()
import datasets, huggingface_hub, instructor
print([name for name in opened if os.path.basename(name).startswith(".env")])
print(os.environ.get("OF_DOTENV"), os.environ.get("LITELLM_MODE"), \
os.environ.get("PYTHON_DOTENV_DISABLED"))
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with a `.env` in and above it, and litellm in a virtual environment in it, as in
    most checkouts.

    python-dotenv searches the folders above the file that asks it, not the working folder.
    """
    checkout, installed = tmp_path / "checkout", tmp_path / "checkout" / "venv"
    installed.mkdir(parents=True)
    (installed / "litellm").symlink_to(Path(str(importlib.util.find_spec("litellm").origin)).parent)
    for folder in (tmp_path, checkout):
        (folder / ".env").write_text(STRANGE)
        (folder / ".env.local").write_text(STRANGE)
    return checkout


@pytest.mark.parametrize("mode", few([None, "DEV"], plain={0}))
def test_no_library_opens_a_dotenv_and_the_environment_stays_the_users(checkout: Path, mode):
    (checkout / "look.py").write_text(IMPORTING)
    own = {"LITELLM_MODE": mode} if mode else {}
    done = subprocess.run(
        [sys.executable, "look.py"],
        check=False,
        cwd=checkout,
        env=environment(checkout, PYTHONPATH=str(checkout / "venv"), **own),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.splitlines() == ["[]", f"None {mode} None"], done.stderr


@pytest.mark.release
def test_a_run_beside_a_strange_dotenv_asks_its_endpoint_without_the_strangers_key(checkout: Path):
    write_visitors(checkout / "data", 1)
    with serve(good) as server:
        words = extraction(server.url, "out=run")
        done = finish(start_cold(checkout, *words, PYTHONPATH=str(checkout / "venv")))
    assert done.returncode == 0, done
    sent = [{name.lower(): value for name, value in found.items()} for found in server.headers]
    assert {found.get("authorization") for found in sent} == {"Bearer not-needed"}
