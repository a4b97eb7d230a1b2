"""Whatever a class of the user's own raises when it is looked at is one line."""

import itertools
import sys
from pathlib import Path

import pytest

from tests.tracks import alps_here

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
ODD = {
    "persistent": (RAISING.format("persistent"), "'persistent' raised RuntimeError: not yet"),
    "memories": (RAISING.format("memories"), "'memories' raised RuntimeError: not yet"),
    "settings": (RAISING.format("settings"), "'settings' raised RuntimeError: not yet"),
    "search": (RAISING.format("search"), "'search' raised RuntimeError: not yet"),
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
    "truth": (
        "    class Bad:\n        def __bool__(self): raise ValueError('neither')\n"
        "    persistent = Bad()\n",
        "'persistent' raised ValueError: neither",
    ),
    "truth-of-settings": (
        "    class Bad(dict):\n        def __bool__(self): raise ValueError('neither')\n"
        "    settings = Bad(a=1)\n",
        "'settings' raised ValueError: neither",
    ),
    "items-of-settings": (
        "    class Bad(dict):\n        def keys(self): raise OSError('gone')\n"
        "        def __iter__(self): raise OSError('gone')\n"
        "    settings = Bad(a=1)\n",
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


_numbers = itertools.count()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that does not exist yet; its folder is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return f"odd_class_{next(_numbers)}"


def refused(module: str, text: str, *words: str) -> str:
    Path(f"{module}.py").write_text(text)
    said = alps_here("run", *(word.replace("mine", module) for word in words), "out=out").one_line
    assert not Path("out").exists()
    return said


@pytest.mark.parametrize(("body", "said"), ODD.values(), ids=ODD)
def test_an_attribute_of_a_memory_that_raises_is_one_line(module, body, said):
    words = ("task=forgetting", "model=rules", "limit=1", "memory=python:mine:Mine")
    assert said in refused(module, f"class Mine:\n{METHODS}\n{body}", *words)


@pytest.mark.parametrize(("body", "said"), MODELS.values(), ids=MODELS)
def test_an_attribute_of_a_model_that_raises_is_one_line(module, body, said):
    words = ("task=extraction", "model=python:mine:Mine", "limit=1", "judge=lexical")
    assert said in refused(module, f"class Mine:\n{METHODS}\n{body}", *words)


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
    assert said in refused(module, text, *words, "limit=1")
