"""A program, a class or an endpoint that says a key: it is in no file of the run, and real answers
stay whole.
"""

import json
import sys
from pathlib import Path

import pytest

from alps.llm.secrets import masked, redact, secret_in
from tests.endtoend import environment, extraction, rows, run
from tests.loopback import Answer, serve
from tests.visitors import is_judging, memory_items, write_visitors

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
SWITCHES = {
    "DEBUG_KEY": "1",
    "SOME_AUTH": "true",
    "MAX_TOKENS": "4096",
    "KEY_TYPE": "beagle",
    "EMPTY_KEY": "none",
}
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


def leaking(folder: Path) -> list[tuple[str, str]]:
    """Return the files below a folder that hold one of the keys in any form, with the form."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [
        (path.name, form)
        for path in files
        for form in ESCAPED
        if form.encode() in path.read_bytes()
    ]


@pytest.fixture
def here(tmp_path):
    """A folder with dialogues, and in a folder beside it what the systems say."""
    write_visitors(tmp_path / "data", 2)
    (tmp_path / "said.json").write_text(json.dumps(SAID))
    (tmp_path / "echo.py").write_text(PROGRAM)
    (tmp_path / "echo_class.py").write_text(CLASS)
    return tmp_path


@pytest.mark.parametrize(
    "model", [f"program:{sys.executable} -S echo.py", "python:echo_class:Echo"]
)
def test_a_system_that_says_keys_leaves_none_in_any_file_and_other_answers_whole(here, model):
    words = ("run", "task=extraction", "data=data", f"model={model}", "out=out", "max_failures=50%")
    done = run(here, *words, **KEYS, **SWITCHES)
    assert done.returncode == 0, done.stderr
    assert leaking(here / "out") == []
    predictions = rows(here / "out" / "predictions.jsonl")
    values = [item["value"] for item in predictions[1]["prediction"]["memory_items"]]
    assert values[: len(SAID)] == ["The key is [secret]"] * len(SAID)
    assert values[-1].startswith("Keeps 1 beagle, true to its")
    page = run(here, "report", "out", "out=page.html", **KEYS)
    assert page.returncode == 0, page.stderr
    assert [form for form in ESCAPED if form in (here / "page.html").read_text()] == []
    assert [
        form for form in ESCAPED if form in done.stdout + done.stderr + page.stdout + page.stderr
    ] == []


def test_an_endpoint_that_says_keys_leaves_none_in_answers_verdicts_ledger_or_cache(here):
    def echoing(body):
        if is_judging(body):
            return Answer(json.dumps({"pairs": [], "note": " ".join(SAID)}))
        return Answer(
            json.dumps({"memory_items": memory_items(*(f"The key is {text}" for text in SAID))})
        )

    with serve(echoing) as server:
        done = run(here, *extraction(server.url, "out=out", "max_failures=100%"), **KEYS)
        assert done.returncode == 0, done.stderr
        asked = json.dumps(server.requests, ensure_ascii=False)
    assert leaking(here / "out") == []
    assert leaking(Path(environment(here)["ALPS_CACHE"])) == []
    assert [form for form in ESCAPED if form in asked] == []  # the judge is told the masked answers
    values = [
        item["value"]
        for item in rows(here / "out" / "predictions.jsonl")[0]["prediction"]["memory_items"]
    ]
    assert values == ["The key is [secret]"] * len(SAID)


def test_a_key_that_is_set_later_is_refused_when_answers_are_packed_at_any_length(here):
    """A run that was made without the variable keeps what was said; who packs it with the variable
    is told.
    """
    words = (
        "run",
        "task=extraction",
        "data=data",
        f"model=program:{sys.executable} -S echo.py",
        "out=out",
    )
    assert run(here, *words).returncode == 0
    packing = ("submit", "out", "name=Echo", "out=packed", "date=2026-01-31")
    for name, value in KEYS.items():
        done = run(here, *packing, **{name: value})
        assert done.returncode == 2, (name, done)
        assert f"the value of {name}" in done.stderr
        assert [form for form in ESCAPED if form in done.stdout + done.stderr] == []
        assert not (here / "packed").exists()
    done = run(here, *packing, **SWITCHES)
    assert "the value of" not in done.stderr


def test_what_is_passed_by_name_is_secret_whatever_it_is_called(here):
    (here / "said.json").write_text('["xq9-1"]')
    command = f"model=program:{sys.executable} -S echo.py"
    done = run(
        here, "run", "task=extraction", "data=data", command, "out=out", "env=TITLE", TITLE="xq9-1"
    )
    assert done.returncode == 0, done.stderr
    assert not [path for path in (here / "out").iterdir() if b"xq9-1" in path.read_bytes()]


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


def test_settings_of_ours_lose_long_values_alone(monkeypatch):
    monkeypatch.setenv("A_KEY", "python")
    assert redact("program:python x.py") == "program:python x.py"
