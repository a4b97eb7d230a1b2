import asyncio
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alps.errors import UsageError
from alps.ext.adapters.python_class import PythonSystem
from tests.builders import memory
from tests.conftest import ROOT
from tests.endtoend import rows, run, wait_until
from tests.programs import TASK, ask, facts, sample
from tests.tracks import alps_here

PRELUDE = """
import asyncio, threading, time
from alps.schema import Memory, MemoryList, Prediction
from tests.builders import heard, memory
seen = []
"""
_numbers = itertools.count()

Make = Callable[..., PythonSystem]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that does not exist yet; its folder is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return f"written_by_a_user_{next(_numbers)}"


@pytest.fixture
def make(module: str) -> Make:
    """Return a system whose class `Mine` has the given body."""

    def made(body: str, *, timeout: float = 20.0, in_flight: int = 16) -> PythonSystem:
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        Path(f"{module}.py").write_text(f"{PRELUDE}class Mine:\n{lines}\n")
        return PythonSystem(f"{module}:Mine", timeout=timeout, in_flight=in_flight)

    return made


def seen_by(asked: PythonSystem) -> list[Any]:
    seen: list[Any] = sys.modules[str(asked.settings["class"]).partition(":")[0]].seen
    return seen


def wait_for_threads() -> None:
    wait_until(lambda: "alps user code" not in {one.name for one in threading.enumerate()})


def test_the_object_is_shown_the_sample_without_its_gold(make):
    asked = make("def predict(self, sample):\n    seen.append(sample)\n    return []")
    assert facts(ask(asked, "a")["a"]) == []
    shown = seen_by(asked)[0]
    assert shown.dialogue == sample("a").dialogue
    assert shown.gold is None
    assert asked.name == f"python:{asked.settings['class']}"


def test_in_a_run_it_is_shown_no_id_of_the_data(tmp_path):
    noting = "open('seen.txt', 'a').write(sample.benchmark_id + chr(10))\n        return []"
    body = f"class Mine:\n    def predict(self, sample):\n        {noting}\n"
    (tmp_path / "mine.py").write_text(body)
    words = ("task=extraction", "limit=2", "model=python:mine:Mine", "out=out")
    assert run(tmp_path, "run", *words).returncode == 0
    seen = (tmp_path / "seen.txt").read_text().split()
    ids = {row["benchmark_id"] for row in rows(tmp_path / "out" / "predictions.jsonl")}
    assert (len(seen), len(ids)) == (2, 2)
    assert ids.isdisjoint(seen)


@pytest.mark.parametrize(
    "returned",
    [
        '[{"value": "likes tea"}]',
        '["likes tea"]',
        '({"value": "likes tea"},)',
        '[memory("likes tea")]',
        '{"memory_items": [{"value": "likes tea"}]}',
        '{"benchmark_id": "a", "memory_items": [{"value": "likes tea"}]}',
        '{"benchmark_id": "a", "memory_items": [memory("likes tea")]}',
        'MemoryList(memory_items=(memory("likes tea"),))',
        'heard(memory("likes tea"), benchmark_id="a")',
        'Prediction(benchmark_id="a", track="?", outcome="ok", prediction={"memories": [{"value": '
        '"likes tea"}]})',
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_what_it_may_return(make, kind, returned):
    prediction = ask(make(f"{kind} predict(self, sample): return {returned}"), "a")["a"]
    assert facts(prediction) == ["likes tea"]
    assert prediction.benchmark_id == "a"
    assert "likes tea" in str(prediction.raw)
    items = prediction.prediction["memory_items"]
    assert set(items[0]) == set(memory("x").model_dump())


def test_a_prediction_keeps_what_it_says_about_itself(make):
    returned = """Prediction(benchmark_id="a", track="task1", outcome="ok", \
repaired=True, raw="as it came",
        prediction={"memory_items": [{"value": "likes tea"}]}, notes=("a note",))"""
    prediction = ask(make(f"def predict(self, sample): return {returned}"), "a")["a"]
    assert (prediction.repaired, prediction.raw) == (True, "as it came")
    assert prediction.notes[0] == "a note"
    assert "missing type" in prediction.notes


def test_a_prediction_may_say_that_it_failed(make):
    returned = (
        'Prediction(benchmark_id="a", track="?", outcome="transport", prediction={"x": 1}, '
        'error="no network")'
    )
    prediction = ask(make(f"def predict(self, sample): return {returned}"), "a")["a"]
    assert (prediction.outcome, prediction.error) == ("transport", "no network")
    assert (prediction.track, prediction.prediction) == ("task1", None)


@pytest.mark.parametrize(
    ("returned", "complaint"),
    [
        ('"likes tea"', "got str"),
        ("17", "got int"),
        ("{}", "no list of memories"),
        ('{"memory_items": [{"label": "x"}]}', "none of the 1 items has a value"),
        ('{"benchmark_id": "b", "memory_items": []}', "the class answered record 'b' instead"),
        ('heard(benchmark_id="b")', "the class answered record 'b' instead"),
        ('Prediction(benchmark_id="a", track="task1", outcome="ok")', "got NoneType"),
        ("seen", "recursion"),
    ],
)
def test_what_can_not_be_read_is_invalid(make, returned, complaint):
    body = f"def predict(self, sample):\n    seen.append(seen)\n    return {returned}"
    prediction = ask(make(body), "a")["a"]
    assert (prediction.outcome, prediction.prediction) == ("invalid", None)
    assert complaint in str(prediction.error)
    assert prediction.benchmark_id == "a"


def test_none_is_empty(make):
    assert ask(make("def predict(self, sample): pass"), "a")["a"].outcome == "empty"


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (
            'ValueError("two\\nlines of sk-12345678901234")',
            "raised ValueError: two lines of [secret]",
        ),
        ("KeyError", "raised KeyError"),
        ("TimeoutError('of its own')", "raised TimeoutError: of its own"),
        ("StopIteration(1)", None),
        ("SystemExit(3)", "raised SystemExit: 3"),
        ("asyncio.CancelledError", "raised CancelledError"),
        ("Unspeakable", "raised Unspeakable"),
    ],
)
def test_what_it_raises_is_invalid(make, kind, raised, error):
    body = f"""
{kind} predict(self, sample):
    class Unspeakable(Exception):
        def __str__(self): raise self
    if sample.benchmark_id == "b": raise {raised}
    return [sample.benchmark_id]
"""
    predictions = ask(make(body), "a", "b", "c")
    assert [facts(predictions["a"]), facts(predictions["c"])] == [["a"], ["c"]]
    assert predictions["b"].outcome == "invalid"
    assert str(predictions["b"].error).startswith("raised ")
    assert error is None or predictions["b"].error == error


def test_a_plain_predict_runs_in_one_thread_that_is_not_the_loops(make):
    body = """
def __init__(self): self.busy = False
def predict(self, sample):
    assert not self.busy
    self.busy = True
    time.sleep(0.02)
    self.busy = False
    seen.append(threading.current_thread())
    return [sample.benchmark_id]
"""
    asked = make(body)
    names = [str(number) for number in range(8)]
    assert all(facts(found) == [name] for name, found in ask(asked, *names).items())
    threads = set(seen_by(asked))
    assert len(threads) == 1
    assert threading.main_thread() not in threads
    wait_for_threads()


def test_a_plain_predict_does_not_hold_up_the_event_loop(make):
    body = """
def predict(self, sample):
    seen.append(threading.Event())
    return [f"the loop was free: {seen[0].wait(300)}"]
"""
    asked = make(body)

    async def run():
        under_way = asyncio.create_task(asked.answer(TASK, sample("a")))
        while not seen_by(asked):
            await asyncio.sleep(0.01)
        seen_by(asked)[0].set()
        try:
            return await under_way
        finally:
            await asked.aclose()

    assert facts(asyncio.run(run())) == ["the loop was free: True"]


def test_an_async_predict_runs_as_often_at_once_as_allowed(make):
    body = """
busy = most = 0
async def predict(self, sample):
    self.busy += 1
    self.most = max(self.most, self.busy)
    seen.append(self.most)
    await asyncio.sleep(0.02)
    self.busy -= 1
    return [sample.benchmark_id]
"""
    asked = make(body, in_flight=3)
    names = [str(number) for number in range(8)]
    assert all(facts(found) == [name] for name, found in ask(asked, *names).items())
    assert max(seen_by(asked)) == 3


def test_an_awaitable_from_a_plain_predict_is_awaited(make):
    body = """
def predict(self, sample): return self.later(sample)
async def later(self, sample):
    await asyncio.sleep(0)
    return [sample.benchmark_id]
"""
    assert facts(ask(make(body), "a")["a"]) == ["a"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "pause",
    [
        "def predict(self, sample): time.sleep",
        "async def predict(self, sample): await asyncio.sleep",
    ],
)
def test_a_call_that_takes_too_long_is_empty_and_the_others_are_unaffected(make, pause):
    header, _, sleep = pause.partition(": ")
    body = f"""
{header}:
    for _ in range(60_000 if sample.benchmark_id == "b" else 0):
        if seen: break
        {sleep}(0.01)
    return [sample.benchmark_id]
"""
    asked = make(body, timeout=3.0)
    predictions = ask(asked, "a", "b", "c", "d")
    seen_by(asked).append("the end of the test")
    assert [facts(predictions[name]) for name in "acd"] == [["a"], ["c"], ["d"]]
    assert predictions["b"].outcome == "empty"
    assert predictions["b"].error == "no answer within 3 s"
    wait_for_threads()


@pytest.mark.release
def test_waiting_for_the_thread_is_not_held_against_a_sample(make):
    asked = make("def predict(self, sample):\n    time.sleep(0.5)\n    return []", timeout=2.0)
    assert all(facts(found) == [] for found in ask(asked, *"abcdef").values())


@pytest.mark.release
def test_a_call_that_never_ends_does_not_keep_the_process_from_ending(module):
    Path(f"{module}.py").write_text(
        "import time\nclass Mine:\n    def predict(self, sample): time.sleep(60)\n"
    )
    run = f"""
import asyncio
from alps.ext.adapters.python_class import PythonSystem
from tests.programs import TASK, sample
print(asyncio.run(PythonSystem("{module}:Mine", timeout=0.1).answer(TASK, sample("a"))).error)
"""
    root = str(ROOT)
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({root!r})\n{run}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("no answer within 0.1 s\n", "")


def test_a_cancelled_run_leaves_the_call(make):
    asked = make(
        "async def predict(self, sample):\n    seen.append('begun')\n"
        "    try: await asyncio.sleep(600)\n    finally: seen.append('left')"
    )

    async def run() -> None:
        call = asyncio.ensure_future(asked.answer(TASK, sample("a")))
        while not seen_by(asked):
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert seen_by(asked) == ["begun", "left"]

    asyncio.run(run())


def test_declared_settings_are_part_of_the_settings(make):
    body = (
        'settings = {"k": 5, "nested": {"key": ["sk-12345678901234"]}}\ndef predict(self, '
        "sample): pass"
    )
    asked = make(body)
    declared = {"k": 5, "nested": {"key": ["[secret]"]}}
    assert asked.settings == {"class": asked.settings["class"], "timeout": 20.0, **declared}
    assert json.dumps(asked.settings)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ("[1]", "must be a dict, got list"),
        ('{"x": object()}', "plain JSON"),
        ('{"x": float("nan")}', "plain JSON"),
    ],
)
def test_settings_that_can_not_be_written_down(make, settings, complaint):
    with pytest.raises(UsageError, match=complaint):
        make(f"settings = {settings}\ndef predict(self, sample): pass")


@pytest.mark.parametrize(
    "close",
    [
        "def close(self): seen.append('closed')",
        "async def close(self): seen.append('closed')",
        "async def aclose(self): seen.append('closed')",
        "async def aclose(self): seen.append('closed')\ndef close(self): seen.append('twice')",
        "def close(self):\n    seen.append('closed')\n    raise OSError('disk')",
    ],
)
def test_it_is_closed_once(make, close):
    asked = make(f"def predict(self, sample): return []\n{close}")
    assert facts(ask(asked, "a")["a"]) == []
    assert seen_by(asked) == ["closed"]


def test_it_can_be_used_in_another_event_loop(make):
    asked = make(
        "async def predict(self, sample):\n    await asyncio.sleep(0)\n    return "
        "[sample.benchmark_id]",
        in_flight=1,
    )
    for names in ("abc", "de"):
        assert all(facts(found) == [name] for name, found in ask(asked, *names).items())


def test_a_module_in_a_package_of_the_working_directory_is_found(module):
    Path(module).mkdir()
    Path(module, "__init__.py").touch()
    Path(module, "inner.py").write_text(
        "class Mine:\n    def predict(self, sample): return ['found']\n"
    )
    asked = PythonSystem(f"{module}.inner:Mine", timeout=20)
    assert facts(ask(asked, "a")["a"]) == ["found"]


def test_a_file_of_the_working_directory_does_not_stand_in_for_a_library(module):
    Path("colorsys.py").write_text("raise RuntimeError('not me')")
    Path(f"{module}.py").write_text(
        "import colorsys\nclass Mine:\n    def predict(self, sample): return []\n"
    )
    assert facts(ask(PythonSystem(f"{module}:Mine", timeout=20), "a")["a"]) == []


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("{module}", "expected python:package.module:Class"),
        ("{module}:", "expected python:package.module:Class"),
        (":Mine", "expected python:package.module:Class"),
        ("{module}x:Mine", "no module '{module}x'"),
        ("{module}.py:Mine", "{module}.py is a path; name the module, {module}, and run alps in"),
        ("./{module}.py:Mine", "./{module}.py is a path; name the module, {module}, and run"),
        ("no_such_thing_at_all.inner:Mine", "no module 'no_such_thing_at_all'"),
        ("{module}_package.iner:Mine", "no module '{module}_package.iner'"),
        ("{module}.inner:Mine", "no module '{module}.inner'"),
        ("{module}:Mime", "no class 'Mime' in {module} — did you mean 'Mine'?"),
        ("{module}:number", "no class 'number' in {module}"),
        ("{module}:Predicts", "Predicts has no method 'predict' — did you mean 'predicts'?"),
        ("{module}:Raises", "Raises() raised ValueError: no model"),
        (
            "{module}:predict",
            "predict() raised TypeError: predict() missing 1 required positional argument: "
            "'sample'; alps calls it without arguments",
        ),
        (
            "{module}_broken:Mine",
            "importing {module}_broken raised ModuleNotFoundError: No module named "
            "'no_such_dependency'",
        ),
        ("..relative:Mine", "importing ..relative raised TypeError"),
    ],
)
def test_what_is_missing_is_named_in_one_line(module, path, complaint):
    Path(f"{module}.py").write_text(
        "number = 5\n"
        "class Mine:\n    def predict(self, sample): return []\n"
        "class Predicts:\n    def predicts(self, sample): return []\n"
        "class Raises:\n    def __init__(self): raise ValueError('no\\nmodel')\n"
        "def predict(sample): return []\n"
    )
    Path(f"{module}_broken.py").write_text("import no_such_dependency")
    Path(f"{module}_package").mkdir()
    Path(f"{module}_package", "__init__.py").touch()
    Path(f"{module}_package", "inner.py").touch()
    with pytest.raises(UsageError) as error:
        PythonSystem(path.format(module=module), timeout=20)
    said = str(error.value)
    assert said.startswith("model=python:")
    assert complaint.format(module=module) in said
    assert "\n" not in said


METHODS = """
    def open(self, opening): pass
    def ingest(self, user, session): pass
    def settle(self, user, timeout): return "ready"
    def search(self, user, query, k, at): return []
    def reset(self, user): pass
    def predict(self, sample): return []
"""
RAISING = "    @property\n    def {}(self): raise RuntimeError('not\\nyet')\n"
SILENT = """
class Silent(Exception):
    def __str__(self): raise self
"""
LAZY = """
    def __getattr__(self, name):
        if name == "{}": raise RuntimeError("not yet")
        raise AttributeError(name)
"""
BAD_TRUTH = "    class Bad:\n        def __bool__(self): raise ValueError('neither')\n"
BAD_DICT = BAD_TRUTH.replace("Bad:", "Bad(dict):")
BAD_KEYS = """
    class Bad(dict):
        def keys(self): raise OSError('gone')
        def __iter__(self): raise OSError('gone')
"""
ODD = {
    **{
        name: (RAISING.format(name), f"'{name}' raised RuntimeError: not yet")
        for name in ("persistent", "memories", "settings", "search")
    },
    "exit": (
        "    @property\n    def settings(self): raise SystemExit(3)\n",
        "'settings' raised SystemExit: 3",
    ),
    "silent": (
        SILENT.replace("\n", "\n    ") + "\n    @property\n"
        "    def settings(self): raise self.Silent()\n",
        "'settings' raised Silent",
    ),
    "lazy-persistent": (LAZY.format("persistent"), "'persistent' raised RuntimeError: not yet"),
    "lazy-close": (LAZY.format("close"), "'close' raised RuntimeError: not yet"),
    "truth": (f"{BAD_TRUTH}    persistent = Bad()\n", "'persistent' raised ValueError: neither"),
    "truth-of-settings": (
        f"{BAD_DICT}    settings = Bad(a=1)\n",
        "'settings' raised ValueError: neither",
    ),
    "items-of-settings": (
        f"{BAD_KEYS}    settings = Bad(a=1)\n",
        "'settings' raised OSError: gone",
    ),
    "dir": (
        "    def __dir__(self): raise ValueError('no list')\n    search = predict = 3\n",
        "has no method",
    ),
}
MEMORY_ALONE = {"persistent", "memories", "search", "lazy-persistent", "lazy-close", "truth"}
MODELS = {name: case for name, case in ODD.items() if name not in MEMORY_ALONE}
MODELS["predict"] = RAISING.format("predict"), "'predict' raised RuntimeError: not yet"
# What is run with the class `Mine` of a module, and what its bodies make it say.
WAYS = {
    "memory": (("task=forgetting", "model=rules", "memory=python:mine:Mine"), ODD),
    "model": (("task=extraction", "model=python:mine:Mine", "judge=lexical"), MODELS),
}
RAISING_BODIES = [(way, name) for way, (_, bodies) in WAYS.items() for name in bodies]


def refused(module: str, text: str, *words: str) -> str:
    Path(f"{module}.py").write_text(text)
    said = alps_here("run", *(word.replace("mine", module) for word in words), "out=out").one_line
    assert not Path("out").exists()
    return said


@pytest.mark.parametrize(("way", "name"), RAISING_BODIES)
def test_an_attribute_that_raises_is_one_line(module, way, name):
    words, bodies = WAYS[way]
    body, said = bodies[name]
    assert said in refused(module, f"class Mine:\n{METHODS}\n{body}", *words, "limit=1")


MODULES = {
    "an attribute of the module": (
        "def __getattr__(name): raise RuntimeError('lazy\\nmodule')",
        "raised RuntimeError: lazy module",
    ),
    "an exception without words": (SILENT + "raise Silent()", "raised Silent"),
    "an exception on two lines": ("raise ValueError('one\\ntwo')", "raised ValueError: one two"),
    "an end": ("raise SystemExit(4)", "raised SystemExit: 4"),
    "no Python": ("class Mine(:", "raised SyntaxError"),
}


@pytest.mark.parametrize(
    "words",
    [
        ("task=python:mine", "model=rules"),
        ("task=extraction", "model=python:mine:Mine"),
        ("task=forgetting", "model=rules", "memory=python:mine:Mine"),
    ],
    ids=["task", "model", "memory"],
)
@pytest.mark.parametrize(("text", "said"), MODULES.values(), ids=MODULES)
def test_what_a_module_raises_is_one_line(module, words, text, said):
    if "task=python:mine" in words:
        where = "importing it"
    else:
        where = "its 'Mine'" if "__getattr__" in text else f"importing {module}"
    assert f"{where} {said}" in refused(module, text, *words, "limit=1")
