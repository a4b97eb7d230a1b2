"""Whatever a class of the user's own raises when it is looked at is one line."""

from pathlib import Path

import pytest

from tests.endtoend import one_line, run

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


def write(folder: Path, body: str) -> None:
    (folder / "mine.py").write_text(f"class Mine:\n{METHODS}\n{body}")


@pytest.mark.parametrize(("body", "said"), ODD.values(), ids=ODD)
def test_an_attribute_of_a_memory_that_raises_is_one_line(tmp_path, body, said):
    write(tmp_path, body)
    words = ("task=forgetting", "model=rules", "limit=1", "memory=python:mine:Mine")
    assert said in one_line(run(tmp_path, "run", *words, "out=out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("body", "said"), MODELS.values(), ids=MODELS)
def test_an_attribute_of_a_model_that_raises_is_one_line(tmp_path, body, said):
    write(tmp_path, body)
    words = ("task=extraction", "model=python:mine:Mine", "limit=1", "judge=lexical")
    assert said in one_line(run(tmp_path, "run", *words, "out=out"))
    assert not (tmp_path / "out").exists()


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
def test_what_a_module_raises_is_one_line(tmp_path, words, text, said):
    (tmp_path / "mine.py").write_text(text)
    assert said in one_line(run(tmp_path, "run", *words, "limit=1", "out=out"))
