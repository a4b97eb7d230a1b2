"""What authors of extensions get wrong: each is told of in one line that names what is to mend."""

import pytest

from tests.conftest import ROOT
from tests.core.test_extensions import DECLARED, PARTLY, RUN, installed, python

PART = """from alps.run.parts import RunPart
class Part(RunPart):
    {method}:
        return None"""
METHODS = (
    "def narrow(self, data)",
    "def open(self, services, data, folder)",
    "def summarise(self, summary, course)",
    "def versions(self)",
)
MADE = "def made(*given): return {}"
AS_MADE = {
    "engine": (
        *({"part_if": ("limit",), "engine": "odd_late:made"}, "None", RUN),
        "odd_late:made returned None, which is no Finished: it lacks folder",
    ),
    "shown": ({"shown": "odd_late:made"}, "3", RUN, "returned 3, which is no ShownPart"),
    "systems": (
        *({"systems": {"o:": "odd_late:made"}}, "len"),
        *(("run", "extraction", "model=o:x", "limit=1"), "is no System: it lacks name"),
    ),
    "judges": (
        *({"judges": {"o:": "odd_late:made"}}, "None"),
        *((*RUN, "judge=o:x"), "odd_late:made returned None, which is no Judge"),
    ),
    "scorings": (
        *({"scorings": {"o": "odd_late:made"}}, "[3]"),
        *((*RUN, "scoring=o"), "extension's odd_late:made must return one or more alps.tasks.Task"),
    ),
    "tasks": (
        *({"tasks": {"o": "odd_late:made"}}, "None"),
        *(("run", "o", "model=rules"), "task=o: the extension's odd_late:made raised TypeError"),
    ),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("method", METHODS)
def test_what_a_wrong_value_of_its_breaks_later_names_it_above_the_traceback(tmp_path, method):
    files = {"odd.py": DECLARED.format(f"**{PARTLY!r}"), "odd_late.py": PART.format(method=method)}
    package = installed(tmp_path / "site", "odd", files, "odd:EXTENSION")
    done = python(tmp_path, package, "-m", "alps", *RUN)
    said = "alps: a fault of alps, or of what an extension returned: odd; to find out, uninstall"
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr


@pytest.mark.few(2)
@pytest.mark.parametrize(("fields", "value", "words", "why"), AS_MADE.values(), ids=AS_MADE)
def test_what_it_makes_and_is_none_of_its_kind_is_refused(tmp_path, fields, value, words, why):
    shows = "shows=lambda summary: True, " if "shown" in fields else ""
    declared = DECLARED.format(f"{shows}**{fields!r}")
    files = {"odd.py": declared, "odd_late.py": MADE.format(value)}
    package = installed(tmp_path / "site", "odd", files, "odd:EXTENSION")
    done = python(tmp_path, package, "-m", "alps", *words)
    assert (done.returncode, why in done.stderr.splitlines()[-1]) == (2, True), done.stderr


TASK = """
from dataclasses import replace
from alps.tasks import Scored, load_task
def tracks(options):
    task = load_task("extraction")
    return (replace(task, name="o", {}),)
"""
AS_TASK = {
    "score=lambda *_: None": "its score returned NoneType, expected alps.tasks.Scored",
    "score=lambda *_: Scored({'f1': float('nan')})": "its score returned nan for 'f1'",
    "score=lambda *_: {}['lost']": "its score raised KeyError: 'lost' (late.py, line 6)",
    "has_gold=lambda *_: {}['lost']": "its has_gold raised KeyError: 'lost' (late.py, line 6)",
    "read_sample=lambda *_: 3": "a sample of its lacks benchmark_id: 3",
    "judge=lambda *_: __import__('asyncio').sleep(0)": "its judge returned None, which has no",
}
TRACKS = {
    "metrics=task.metrics[:1] * 2": "track task1: two metrics have the same name; give each",
    "metrics=('f1',)": "track task1: a name is no text, or a metric no alps.tasks.Metric",
    "track=None": "track None: a name is no text, or a metric no alps.tasks.Metric",
}


@pytest.mark.few(2)
@pytest.mark.parametrize(("change", "why"), [*AS_TASK.items(), *TRACKS.items()])
def test_what_its_task_gives_is_checked_as_that_of_a_users_own(tmp_path, change, why):
    brings = DECLARED.format("tasks={'o': 'odd.late:tracks'}")
    files = {"odd/__init__.py": brings, "odd/late.py": TASK.replace("{}", change, 1)}
    package = installed(tmp_path / "site", "odd", files, "odd:EXTENSION")
    done = python(tmp_path, package, "-m", "alps", "run", "o", *RUN[2:])
    of = "" if change in TRACKS else " (extension odd)"
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"alps: task=o{of}: {why}")


CLAIMS = {
    "engine": ("part_if=('limit',), engine='m:f'", RUN, "alps run"),
    "run_words": ("takes_words=lambda words: True, run_words='m:f'", RUN, "alps run"),
    "rescore": ("rescores=lambda keys: True, rescore='m:f'", ("score", "out"), "alps score"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(("fields", "words", "what"), CLAIMS.values(), ids=CLAIMS)
def test_two_that_would_carry_out_one_command_are_both_named(tmp_path, fields, words, what):
    assert what == "alps run" or python(tmp_path, ROOT, "-m", "alps", *RUN).returncode == 0
    for name in ("one", "two"):
        declared = (
            f"from alps.extension import Extension\nEXTENSION = Extension('{name}', {fields})"
        )
        installed(tmp_path / "site", name, {f"{name}.py": declared}, f"{name}:EXTENSION")
    done = python(tmp_path, tmp_path / "site", "-m", "alps", *words)
    said = f"alps: the extensions one and two would all carry out this {what}; uninstall one"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, said), done.stderr
