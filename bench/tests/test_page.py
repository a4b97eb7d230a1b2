"""The page of the benchmarks, and the command that runs them all; what they measure is not repeated
here.
"""

import importlib
import importlib.util
import subprocess
import sys

import pytest

from tests.conftest import ROOT

BENCH = ROOT / "bench"


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The module that writes the page, which is another file here."""
    # Last: a benchmark may be called as a package is.
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCH)])
    document = importlib.import_module("document")
    monkeypatch.setattr(document, "DOCUMENT", tmp_path / "page.md")
    return document


@pytest.fixture
def everything(page, tmp_path, monkeypatch):
    """bench/all.py, in a folder whose benchmarks a test writes: `startup`, `scale` and `fuzz`."""
    module = importlib.import_module("all")
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(sys, "stderr", sys.stdout)
    return module


def section(page, name, measured, *, held=True):
    bound = page.Bound("what it takes", "≤ 3 s", measured, held)
    table = [["what", "s"], ["all of it", measured]]
    return page.Section(
        name, name.capitalize(), "What was done.", [bound], f"python bench/{name}.py", table
    )


def test_a_section_that_is_written_again_takes_the_place_of_its_earlier_self(page):
    for name in ("leaderboard", "fuzz", "harness", "fuzz"):
        page.write_section(section(page, name, "1.0 s"))
    page.write_section(section(page, "fuzz", "2.0 s"))
    text = page.DOCUMENT.read_text(encoding="utf-8")
    places = [text.index(f"## {name}") for name in ("Every", "Harness", "Fuzz", "Leaderboard")]
    assert places == sorted(places)
    assert (text.count("## Fuzz"), text.count("2.0 s")) == (1, 3)
    assert page.every_bound(page.DOCUMENT, "fuzz") == [("what it takes", "≤ 3 s", "2.0 s", "held")]


def test_bounds_are_told_with_what_was_measured(page):
    held = page.at_most("memory", 150.0, 66.4, "{:.0f} MB"), page.at_least("kills", 200, 1_999)
    assert [(one.limit, one.measured, one.held) for one in held] == [
        ("≤ 150 MB", "66 MB", True),
        ("≥ 200", "1,999", True),
    ]


def test_a_missed_bound_is_shown_in_its_section_and_above_all(page):
    page.write_section(section(page, "startup", "9.0 s", held=False))
    text = page.DOCUMENT.read_text(encoding="utf-8")
    above, _, below = text.partition("## Startup")
    assert (
        "| **[Startup](#startup)** |  |  |  |\n| what it takes | ≤ 3 s | 9.0 s | **missed** |"
        in above
    )
    assert "| what it takes | ≤ 3 s | 9.0 s | **missed** |" in below
    assert text.count("**missed**") == 2
    assert page.missed(section(page, "startup", "9.0 s", held=False).bounds) == [
        "what it takes: 9.0 s (bound ≤ 3 s)."
    ]


def test_a_section_of_another_name_is_refused(page):
    with pytest.raises(ValueError, match="weather: not a section of the page"):
        page.write_section(section(page, "weather", "1.0 s"))
    assert not page.DOCUMENT.exists()


def test_every_section_of_the_page_has_its_benchmark(page):
    assert [name for name in page.ORDER if not (BENCH / f"{name}.py").is_file()] == []


BENCHMARK = """
import subprocess
import sys
sys.path.insert(0, {bench!r})
from document import Bound, Section, write_section
words = sys.argv[1:]
print("measuring", words)
if {held!r} is None:
    raise SystemExit("nothing to measure with")
write_section(Section({name!r}, {name!r}, "Done.", \
[Bound("words " + " ".join(words), "1", "1", {held!r})], "again"))
sys.exit(0 if {held!r} else 1)
"""


def write_benchmarks(folder, **held):
    for name, each in held.items():
        (folder / f"{name}.py").write_text(
            BENCHMARK.format(bench=str(BENCH), name=name, held=each), encoding="utf-8"
        )


def run_all(everything, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["all.py", *words])
    with pytest.raises(SystemExit) as ended:
        everything.main()
    return ended.value.code


def test_all_runs_what_is_named_and_writes_their_sections(
    everything, page, tmp_path, monkeypatch, capsys
):
    write_benchmarks(tmp_path, scale=True, fuzz=True)
    assert run_all(everything, monkeypatch, "only=fuzz,scale", "write=yes") == 0
    assert "Every benchmark that ran ended as promised." in capsys.readouterr().out
    assert page.every_bound(page.DOCUMENT, "scale")
    assert page.every_bound(page.DOCUMENT, "fuzz")


def test_all_names_missed_bounds_and_failures_goes_on_and_writes_nothing_unasked(
    everything, page, tmp_path, monkeypatch, capsys
):
    write_benchmarks(tmp_path, startup=False, scale=None, fuzz=True)
    assert run_all(everything, monkeypatch, "only=startup,scale,fuzz", "quick=yes", "demo=yes") == 1
    shown = capsys.readouterr().out
    said = (
        "exit 1   1 of 1 bounds missed",
        "    words demo=yes write=yes: 1 (bound 1)",
        "    nothing to measure with",
    )
    assert [
        each
        for each in (*said, "no section written", "exit 0   0 of 1 bounds missed")
        if each not in shown
    ] == []
    assert "    words inputs=" not in shown
    assert shown.endswith("Not as promised: startup, scale.\n")
    assert max(map(len, shown.splitlines())) <= 80
    assert not page.DOCUMENT.exists()


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (["onyl=scale"], "onyl: not a word of this benchmark"),
        (["only=weather"], "only=weather: no benchmark of this name"),
        (["quick=yes", "write=yes"], "quick=yes never writes"),
    ],
)
def test_a_word_that_can_not_be_heeded_ends_all_in_a_line(everything, monkeypatch, word, said):
    assert said in str(run_all(everything, monkeypatch, *word))


def test_short_samples_are_those_of_the_release_layout(page, tmp_path):
    track = importlib.import_module("short_samples").write_samples(tmp_path, 3, 2)
    rows = importlib.import_module("words").rows(track / "model_input.jsonl")
    assert [(row["benchmark_id"], len(row["input"]["dialogue"])) for row in rows] == [
        (f"short_{n}", 2) for n in range(3)
    ]


def test_the_house_counts_each_module_once_and_each_function_by_its_branches(tmp_path):
    pytest.importorskip("radon", reason="make install brings what counts branches")
    branches = "".join(f"    if x == {n}:\n        return {n}\n" for n in range(11))
    text = f"# why\nsquares = [n * n for n in range(9)]\n\n\ndef f(x):\n{branches}\n\nclass A:\n"
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "a.py").write_text(f"{text}    def g(self):\n        pass\n")
    (tmp_path / "link").symlink_to(tmp_path / "room")
    spec = importlib.util.spec_from_file_location("house", BENCH / "house.py")
    house = importlib.util.module_from_spec(spec)
    sys.modules["house"] = house
    spec.loader.exec_module(house)
    counted = house.count([tmp_path / "room", tmp_path / "link"])
    assert counted == house.Counts(1, 32, 1, 1, 0, functions=2, complex_=1)


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [("--help", 0, "python bench/house.py [FOLDER…]"), (".", 2, "no Python module in it")],
)
def test_the_house_says_how_it_is_asked_and_which_folder_has_nothing(tmp_path, word, code, said):
    pytest.importorskip("radon", reason="make install brings what counts branches")
    words = [sys.executable, str(BENCH / "house.py"), word]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == (code > 0)
