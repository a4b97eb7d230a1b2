"""What commands print, held word for word in tests/printed/.

Each NAME.txt holds one command or several that belong together, in 80 columns: the words, stdout,
stderr where there is any, and the exit code where it is not 0. `make printed` writes the files
again; the change is read in the diff of the commit.
"""

import difflib
import os
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.conftest import ROOT
from tests.stories import STORIES, carried_out, printed_by

HELD = ROOT / "tests" / "printed"
WRITE = os.environ.get("ALPS_PRINTED") == "write"
CASES = [(name, story) for story, told in STORIES.items() for name in told.printed()]
OTHERS = (
    (r"http://127\.0\.0\.1:\d+", "ADDRESS"),
    (r"took [\d.]+ (ms|s|min \d+ s)", "took SECONDS"),
    (r"search [\d.]+ m?s \(median\)", "search SECONDS (median)"),
    (r" +(just now|\d+ \w+ ago)$", " WHEN"),
    (r"\b20\d\d-\d\d-\d\d\b", "DAY"),
    (r"^\d\d:\d\d:\d\d ", "HH:MM:SS "),
    (r"done in [\d.]+ s", "done in SECONDS"),
    (r"[\d.]+ m?s a query", "TIME a query"),
    (r"Mean time per query: [\d.]+ m?s", "Mean time per query: TIME"),
    (r"\s\(tried\sfor\s[^;]+;\sto\swait\slonger,\sset\spatience=\)", ""),
    # What a memory system took.
    (r"^( (open|ingest|settle|search|answer|delete|reset) +\d+)( +[\d.]+)+$", r"\1  SECONDS"),
    (r"^( [\d,]+ .*?) +[\d.]+ +(\$0|–)$", r"\1  SECONDS  \2"),
    (r"[\d.]+ s \((p50|p95|p99)\)", r"SECONDS (\1)"),
    (r"^( ok  .*?) +\d+\.\d\d$", r"\1  SECONDS"),
    (r"(passed|failed) in [\d.]+ s", r"\1 in SECONDS"),
    (r"(against seconds per question \(Pareto\)\n)(?s:.*?)\n\n", r"\1 by the clock\n\n"),
    # What holds such figures.
    (r" [\d,]+,\d{3} bytes", " BYTES bytes"),
    (r"^( (submission|memory-\d/memory)\.json\w?) +[\d,]+$", r"\1  BYTES"),
    # What is installed here.
    (r"\balps \d+\.\d+\.\d+\w*( on Python [\d.]+)?", "alps VERSION"),
    (r"^ok    aiohttp (?s:.*?)(?=^\w)", "ok    LIBRARIES\n"),
    (r"^(model=local|model=e5\b.*): .*", r"\1: STATE"),
)


def alike(text: str, folder: Path) -> str:
    """Return a printed text without what differs from day to day and from machine to machine."""
    text = text.replace(str(folder), "FOLDER")
    for pattern, name in OTHERS:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    text = re.sub(r"(?:^\d+/\d+ .*\n)+", in_order, text, flags=re.MULTILINE)
    return re.sub(r" +$", "", text, flags=re.MULTILINE)


def in_order(ended: re.Match[str]) -> str:
    """Return the lines of runs that end side by side in one order, whichever ends first."""
    lines = ended[0].splitlines(keepends=True)
    return "".join(sorted(f"N/{line.partition('/')[2]}" for line in lines))


@pytest.mark.parametrize(("name", "story"), CASES, ids=[name for name, _ in CASES])
def test_a_command_prints_what_is_held(name, story, tmp_path_factory):
    folder, held = carried_out(story, tmp_path_factory), HELD / f"{name}.txt"
    text = alike((printed_by(folder) / held.name).read_text("utf-8"), folder)
    as_held(held, text)


def as_held(held: Path, text: str) -> None:
    """Fail with the lines that differ, unless a file holds a text; write it where that is asked."""
    if WRITE:
        held.parent.mkdir(exist_ok=True)
        held.write_text(text, encoding="utf-8")
        pytest.skip(f"{held.name} was written")
    before = held.read_text("utf-8") if held.exists() else ""
    name = str(held.relative_to(ROOT))
    changed = difflib.unified_diff(before.splitlines(), text.splitlines(), name, "now", lineterm="")
    if before != text:
        pytest.fail("\n".join([*changed, "to accept this: make printed"]), pytrace=False)


def test_every_held_text_is_printed_by_a_command():
    assert {path.stem for path in HELD.glob("*.txt")} == {name for name, _ in CASES}


@pytest.mark.parametrize("name", [name for name, _ in CASES])
def test_all_but_paths_addresses_and_commands_fits_a_terminal(name):
    for said in (HELD / f"{name}.txt").read_text("utf-8").split("\n$ alps "):
        lines = said.partition("[stderr]")[0].splitlines()[1:]
        wide = [line for line in lines if cell_len(line) > 80]
        assert [line for line in wide if not re.search("[/=]|ADDRESS", line)] == []


ONE_TASK = ("run-extraction", "run-resumed", "run-utilization", "run-memory", "run-forgetting")
SEVERAL = ("run-tasks", "run-llm", "run-retrieval", "merge")


@pytest.mark.parametrize("name", [*ONE_TASK, "score", "score-corrected"])
def test_a_run_of_one_task_is_at_most_14_lines_and_its_score_is_on_the_first(name):
    told = (HELD / f"{name}.txt").read_text("utf-8").split("\n$ alps ")[0]
    first, *others = told.splitlines()[1:]
    assert re.search(r" (\.\d{3}|\d\.\d{3})( \[[^]]+\])?, ", first)
    others = [line for line in others if not line.startswith("People can check")]
    assert len(others) < 14


@pytest.mark.parametrize("name", SEVERAL)
def test_a_run_of_several_tasks_is_one_table_with_a_row_a_task(name):
    told = (HELD / f"{name}.txt").read_text("utf-8").split("\n$ alps ")[0]
    first, *others = told.splitlines()[1:]
    count = int(re.search(r" of (\d+) tasks, below on \d+$", first)[1])
    (rule,) = (n for n, line in enumerate(others) if line.startswith(" ──"))
    rows = others[rule + 1 : others.index("", rule)]
    assert len(rows) == count <= 14
    assert len(others) <= count + 17


@pytest.mark.parametrize("name", ["compare-two", "compare-three", "compare-sizes"])
def test_a_comparison_begins_with_its_sentence(name):
    first = (HELD / f"{name}.txt").read_text("utf-8").splitlines()[1]
    assert re.match(r"(extraction|PersonaMem 32k): \w+( is best,| \+\.\d{3} | and )", first)


def test_a_slip_leaves_no_run_folder_behind(tmp_path_factory):
    assert not (carried_out("slipped", tmp_path_factory) / "runs").exists()
