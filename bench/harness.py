"""Measure what a harness itself costs, with a model that answers at once.

    python bench/harness.py [samples=1000,5000] [inspect=PYTHON] [lm_eval=PYTHON] [write=yes]

`inspect=` and `lm_eval=` name the Python of an environment that has inspect-ai or lm-eval; a
harness that is not named is left out. Every harness reads the same dialogues, is a process of its
own, and writes its durable records: alps its run folder, Inspect AI its log, lm-evaluation-harness
its samples. Prints wall seconds (of three runs, taken in turn) and peak memory, and exits 1 where a
bound is missed. `write=yes` puts the figures into bench/RESULTS.md.
"""

import json
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from document import Bound, Section, at_least, at_most, finish
from processes import taken
from short_samples import TURNS, write_samples
from words import program, read_words, version, whole

from alps.data.release import GOLD, INPUT

RUNS = 3
INSPECT_TIMES, LM_EVAL_TIMES, MEGABYTES = 5.0, 1.0, 150.0
WORDS = {"samples": "1000,5000", "inspect": "", "lm_eval": ""}

ALPS = """
class Instant:
    settings = {"version": 1}

    async def predict(self, sample):
        return [{"value": "Lives in Lyon", "type": "direct"}]
"""
# Given usage keeps mockllm from counting tokens: its tokenizer would be fetched from the network,
# and be timed.
INSPECT = """
import sys
from inspect_ai import Task, eval
from inspect_ai.dataset import json_dataset
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate

def instant(input, tools, tool_choice, config):
    output = ModelOutput.from_content("mockllm/model", "Lives in Lyon")
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output

task = Task(dataset=json_dataset(sys.argv[1]), solver=generate(), scorer=includes())
model = get_model("mockllm/model", custom_outputs=instant)
(log,) = eval(task, model=model, log_dir=sys.argv[2], display="none")
sys.exit(log.status != "success")
"""
LM_EVAL = """
task: memories
dataset_path: json
dataset_kwargs:
  data_files:
    test: {file}
test_split: test
output_type: generate_until
doc_to_text: "{{{{input}}}}"
doc_to_target: "{{{{target}}}}"
generation_kwargs:
  until: ["\\n\\n"]
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
"""


@dataclass(frozen=True)
class Harness:
    """What is measured.

    Attributes:
        name: What the table calls it.
        package: Its distribution, whose version is printed.
        python: The interpreter of its environment.
        words: What is said to that interpreter, given the folder of the samples and the one to
            write into.
        records: How many records stand in the folder that was written.
        bound: How many times the seconds of alps it must take; None for alps itself.
    """

    name: str
    package: str
    python: str
    words: Callable[[Path, Path], list[str]]
    records: Callable[[Path], int]
    bound: float | None = None


@dataclass(frozen=True)
class Measured:
    """The figures of one harness over `samples` samples.

    Seconds in the order of the runs, the most megabytes.
    """

    harness: Harness
    samples: int
    seconds: tuple[float, ...]
    megabytes: float

    @property
    def best(self) -> float:
        """Seconds of the fastest run."""
        return min(self.seconds)


def lines(folder: Path, pattern: str) -> int:
    """Return how many lines the files of `folder` have whose names fit `pattern`."""
    return sum(len(path.read_bytes().splitlines()) for path in folder.rglob(pattern))


def logged(folder: Path) -> int:
    """Return how many samples stand in the logs of Inspect AI."""
    names = [name for path in folder.glob("*.eval") for name in zipfile.ZipFile(path).namelist()]
    return sum(name.startswith("samples/") for name in names)


def alps_words(data: Path, out: Path) -> list[str]:
    """Return the command of alps: an instant class, the lexical judge."""
    words = ["run", "task=extraction", "model=python:instant:Instant"]
    return ["-m", "alps", *words, f"data={data}", f"out={out}"]


def inspect_words(data: Path, out: Path) -> list[str]:
    """Return the command of Inspect AI: mockllm, and the cheapest of its scorers."""
    return ["instant_inspect.py", str(data / "plain.jsonl"), str(out)]


def lm_eval_words(data: Path, out: Path) -> list[str]:
    """Return the command of lm-evaluation-harness: its dummy model, exact match, samples logged."""
    task = ["--tasks", "memories", "--include_path", str(data / "lm_eval")]
    return ["-m", "lm_eval", "--model", "dummy", *task, "--log_samples", "--output_path", str(out)]


def harnesses(words: Mapping[str, str]) -> Iterator[Harness]:
    """Yield alps, and the harnesses whose interpreter is named."""
    own: Callable[[Path], int] = lambda out: lines(out, "scores.jsonl")  # noqa: E731
    yield Harness("alps", "alps-eval", sys.executable, alps_words, own)
    if words["inspect"]:
        named, python = ("Inspect AI", "inspect-ai"), program(words, "inspect")
        yield Harness(*named, python, inspect_words, logged, INSPECT_TIMES)
    if words["lm_eval"]:
        records: Callable[[Path], int] = lambda out: lines(out, "samples_*.jsonl")  # noqa: E731
        python = program(words, "lm_eval")
        yield Harness("lm-eval", "lm-eval", python, lm_eval_words, records, LM_EVAL_TIMES)


def write_everywhere(folder: Path, count: int) -> None:
    """Write `count` samples in the release layout, and as rows for the other harnesses."""
    track = write_samples(folder, count)
    with (
        (track / INPUT).open(encoding="utf-8") as inputs,
        (track / GOLD).open(encoding="utf-8") as golds,
        (folder / "plain.jsonl").open("w", encoding="utf-8") as plain,
    ):
        for asked, gold in zip(map(json.loads, inputs), map(json.loads, golds), strict=True):
            turns = (f"{turn['role']}: {turn['text']}" for turn in asked["input"]["dialogue"])
            target = gold["gold"]["memory_items"][0]["value"]
            row = {"id": asked["benchmark_id"], "input": "\n\n".join(turns), "target": target}
            plain.write(json.dumps(row) + "\n")
    (folder / "lm_eval").mkdir()
    task = LM_EVAL.format(file=folder / "plain.jsonl")
    (folder / "lm_eval" / "memories.yaml").write_text(task, encoding="utf-8")


def timed(harness: Harness, data: Path, out: Path, count: int) -> tuple[float, float]:
    """Run `harness` once in a process of its own; return its wall seconds and peak megabytes.

    Raises:
        SystemExit: If it failed, or its durable records are not complete.
    """
    home = data.parent
    words, offline = harness.words(data, out), {"HF_HOME": str(home / "hf"), "HF_HUB_OFFLINE": "1"}
    took = taken(words, home, program=harness.python, **offline)
    if harness.records(out) != count:
        found = f"{harness.records(out):,} of {count:,} records"
        sys.exit(f"{harness.name}: {found}; it said:\n{took.complained[-1_500:]}")
    return took.seconds, took.megabytes


def measure(known: list[Harness], count: int, home: Path) -> Iterator[Measured]:
    """Yield the figures over `count` samples.

    The harnesses take turns, so that a busy minute meets all of them.
    """
    data = home / f"data{count}"
    write_everywhere(data, count)
    found: dict[str, list[tuple[float, float]]] = {harness.name: [] for harness in known}
    for number in range(RUNS):
        for harness in known:
            out = home / f"{harness.package}-{count}-{number}"
            found[harness.name].append(timed(harness, data, out, count))
    for harness in known:
        seconds, megabytes = zip(*found[harness.name], strict=True)
        yield Measured(harness, count, seconds, max(megabytes))


def own(found: Measured, figures: list[Measured]) -> Measured:
    """Return the figures of alps over as many samples."""
    of_alps = (other for other in figures if other.harness.bound is None)
    return next(other for other in of_alps if other.samples == found.samples)


def bounds(figures: list[Measured]) -> Iterator[Bound]:
    """Yield what is promised of each harness, and what came of it."""
    for found in figures:
        bound, ours, where = found.harness.bound, own(found, figures), f"{found.samples:,} samples"
        if bound is None:
            what = f"{where}: peak memory of alps"
            yield at_most(what, MEGABYTES, found.megabytes, "{:.0f} MB")
        else:
            what = f"{where}: wall of {found.harness.name} against alps"
            yield at_least(what, bound, found.best / ours.best, "{:.2f} ×")


def table(figures: list[Measured], versions: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the heading and the rows of the table."""
    yield ["harness", "samples", "best s", "all runs, s", "peak MB", "wall ×", "MB ×"]
    for found in figures:
        ours, name = own(found, figures), found.harness.name
        runs = " ".join(f"{seconds:.1f}" for seconds in found.seconds)
        ratios = f"{found.best / ours.best:.2f}", f"{found.megabytes / ours.megabytes:.2f}"
        measured = [f"{found.best:.2f}", runs, f"{found.megabytes:.0f}", *ratios]
        yield [f"{name} {versions[name]}", f"{found.samples:,}", *measured]


TEXT = f"""
What a harness itself costs, with a model that answers at once; one process a run, durable records
on. All read the same dialogues of {TURNS} turns. alps matches two gold memories a sample by the
lexical judge, scores three floors beside the system, and bootstraps; Inspect AI (`mockllm/model`,
its log on) looks for one text in another; lm-evaluation-harness (`--model dummy --log_samples`)
compares two texts. Wall seconds, the best of {RUNS} runs, and peak memory of the process; × is
against alps.
"""


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], WORDS)
    sizes = [whole({"samples": size}, "samples") for size in words["samples"].split(",")]
    known = list(harnesses(words))
    versions = {one.name: version(one.python, one.package) for one in known}
    missing = [name for name in ("inspect", "lm_eval") if not words[name]]
    skipped = [f"{name}= is not given: left out." for name in missing]
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "instant.py").write_text(ALPS, encoding="utf-8")
        (home / "instant_inspect.py").write_text(INSPECT, encoding="utf-8")
        figures = [found for count in sizes for found in measure(known, count, home)]
    cells, promised = list(table(figures, versions)), list(bounds(figures))
    command = f"python bench/harness.py samples={words['samples']} inspect=PYTHON lm_eval=PYTHON"
    named = ("harness", "Harness overhead", TEXT, promised)
    finish(Section(*named, f"{command} write=yes", cells, skipped), write=words["write"])


if __name__ == "__main__":
    main()
