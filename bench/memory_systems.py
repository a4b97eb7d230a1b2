"""Measure seven real memory systems: python bench/memory_systems.py [systems=…] [write=yes].

Each remembers what one model once extracted from 654 real sessions, and finds it by BM25. One
command a system answers extraction and retrieval: the session is told, then the distractors of its
pool, and the query of the session is searched for. The right candidate is never told: it has to be
found among what was extracted, in words that the lexical judge takes for the same. Then `alps
compare` ranks the systems, with the letters of their ties, and the order stands beside that of the
paper's Table 2. Exits 1 where a bound is missed; `write=yes` writes the section of
docs/benchmarks.md. The sessions are not part of the repository: `ALPS_FULL` names their folder.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from document import Bound, Section, missed, terminal, write_section
from processes import Taken, taken
from words import read_words, some_of

PAPER = {
    "deepseek-v3.2": 0.6742,
    "gpt-5.2": 0.6720,
    "qwen3-max": 0.6570,
    "claude-sonnet-4.5": 0.6541,
    "gemini-3-flash": 0.6487,
    "gpt-4.1-mini": 0.5373,
    "llama-4-maverick": 0.3772,
}
"""F1 of extraction as the paper reports it, under its LLM judge, on all 2,330 sessions."""
SECONDS = 60.0
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "alpsbench_full"
SPLIT = Path("benchmark_data") / "dev"
INPUT, GOLD = "model_input.jsonl", "reference_output.jsonl"
HEAD = [
    *("system", "F1", "ties", "recall@1", "ties", "recall@10", "ties"),
    *("paper's F1", "unread", "ingest ms", "search ms", "run s"),
]
TRACKS = {"task1": ("f1",), "task3_d100": ("recall_at_1", "recall_at_10")}


class Run(NamedTuple):
    """What the run of a system took, and where it is."""

    name: str
    folder: Path
    took: Taken


class Place(NamedTuple):
    """What a system has of a metric: its value, and the letters of its ties."""

    value: float
    ties: str


def full_folder() -> Path:
    """Return the folder of the sessions; ends the process with a sentence where it is not there."""
    folder = Path(os.environ.get("ALPS_FULL") or BESIDE)
    if not (folder / "outputs").is_dir():
        sys.exit("the 654 real sessions are not here: set ALPS_FULL to their folder")
    return folder


def write_joined(full: Path, folder: Path) -> None:
    """Write extraction and retrieval with the session's own dialogue beside each query."""
    told: dict[str, Any] = {}
    for row in rows(full / SPLIT / "task1" / INPUT):
        told[row["session_id"]] = row["input"]["dialogue"]
    for track in ("task1", "task3/d100"):
        (folder / SPLIT / track).mkdir(parents=True)
        with (folder / SPLIT / track / INPUT).open("w", encoding="utf-8") as out:
            for row in rows(full / SPLIT / track / INPUT):
                row["input"]["dialogue"] = told[row["session_id"]]
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
        gold = (full / SPLIT / track / GOLD).read_bytes()
        (folder / SPLIT / track / GOLD).write_bytes(gold)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def measured(full: Path, home: Path, name: str) -> Run:
    """Run a system: one command."""
    data, out = home / "joined", home / name
    records = full / "outputs" / "task1" / name
    memory = (f"memory=recorded:{records}", f"memory.dialogues={data / SPLIT / 'task1' / INPUT}")
    asked = ("run", "task=extraction,retrieval", "model=rules", *memory, "k=10")
    words = (*asked, f"data={data}", f"out={out}", "max_failures=100%")
    return Run(name, out, taken(["-m", "alps", *words], home))


def compared(runs: Sequence[Run], home: Path) -> Mapping[str, Mapping[str, Place]]:
    """Return the places of the systems by metric, then by name, as `alps compare` gives them."""
    folders = [str(run.folder) for run in runs]
    said = json.loads(taken(["-m", "alps", "compare", *folders, "format=json"], home).said)
    names = {letter: Path(run["folder"]).name for letter, run in said["runs"].items()}
    places: dict[str, dict[str, Place]] = {}
    for track, metrics in TRACKS.items():
        for metric in metrics:
            places[metric] = {}
            for row in said["tracks"][track]["metrics"][metric]["ranked"]:
                place = Place(row["value"], "".join(row["ties"]))
                places[metric][names[row["run"]]] = place
    return places


def agreement(places: Mapping[str, Place]) -> str:
    """Say in how many of the pairs a metric orders the systems as the paper does."""
    names = list(places)
    same = pairs = 0
    for at, first in enumerate(names):
        for second in names[at + 1 :]:
            pairs += 1
            same += PAPER[first] > PAPER[second]
    return f"{same} of {pairs} pairs"


def table(runs: Sequence[Run], places: Mapping[str, Mapping[str, Place]]) -> Iterator[list[str]]:
    """Yield the heading and a row a system, the best F1 first."""
    yield HEAD
    by_name = {run.name: run for run in runs}
    for name in places["f1"]:
        run = by_name[name]
        summary = json.loads((run.folder / "summary.json").read_text(encoding="utf-8"))
        failed = sum(summary["tracks"]["task1"]["failed_predictions"].values())
        cells = [name]
        for metric in places:
            cells += [f"{places[metric][name].value:.3f}", places[metric][name].ties]
        spent = [f"{1000 * median(run.folder, phase):.1f}" for phase in ("ingest", "search")]
        yield [*cells, f"{PAPER[name]:.3f}", str(failed), *spent, f"{run.took.seconds:.1f}"]


def median(folder: Path, phase: str) -> float:
    """Return the median of the seconds of the calls of a phase."""
    seconds = []
    for row in rows(folder / "memory.jsonl"):
        if row["phase"] == phase:
            seconds.append(row["seconds"])
    return sorted(seconds)[len(seconds) // 2]


def section(
    cells: list[list[str]], promised: list[Bound], places: Mapping[str, Mapping[str, Place]]
) -> Section:
    """Return the section of the page."""
    text = (
        "Seven memory systems on 654 real sessions: what a model once extracted from each, found "
        "by BM25. Each is one\n`alps run task=extraction,retrieval memory=recorded:FOLDER "
        "memory.dialogues=FILE k=10`.\n"
        "For retrieval the session and the distractors of its pool are told, and the right "
        "candidate is not: it has to be\nfound among what was extracted, in words that are alike. "
        "So recall is bounded by extraction. Systems that share\na letter do not differ "
        "significantly (Holm). The figures of the lexical judge are not those of the paper, which "
        "an LLM\njudged: it misses paraphrases, so that style may make differences. `unread` "
        "counts sessions of which the model's\nrecorded output can't be read."
    )
    notes = [
        f"Ordered as in the paper's Table 2: by F1 {agreement(places['f1'])}, by recall@10 "
        f"{agreement(places['recall_at_10'])}"
    ]
    command = "python bench/memory_systems.py write=yes"
    return Section("memory_systems", "Memory systems", text, promised, command, cells, notes)


def bounds(runs: Sequence[Run]) -> Iterator[Bound]:
    """Yield what is promised, and what came of it."""
    for run in runs:
        what = f"{run.name}: extraction and retrieval on 654 sessions"
        held = run.took.seconds <= SECONDS
        yield Bound(what, f"≤ {SECONDS:.0f} s", f"{run.took.seconds:.1f} s", held)


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], {"systems": ",".join(PAPER)})
    full = full_folder()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        write_joined(full, home / "joined")
        runs = [measured(full, home, one) for one in some_of(words, "systems", tuple(PAPER))]
        places = compared(runs, home)
        cells = list(table(runs, places))
    promised = list(bounds(runs))
    print(terminal(cells))
    for metric in places:
        print(f"{metric}: ordered as in the paper's Table 2 in {agreement(places[metric])}")
    if words["write"]:
        write_section(section(cells, promised, places))
    misses = missed(promised)
    print("\n".join(misses))
    if misses:
        sys.exit(1)


if __name__ == "__main__":
    main()
