"""Kill a run in batches between every two of its steps, and compare its end and its bill.

    python bench/batches.py [shapes=openai,anthropic] [records=2] [steps=all]

Each kill is a `kill -9` of a run of its own, against a loopback server that speaks both batch
interfaces (batch_server.py): right after each line of `batches.jsonl`, and while the server takes
an order, has taken it and has not said so, is asked after a batch, and sends results. The same
command then goes on. Printed is, for each kill, whether predictions, verdicts and scores are the
bytes of a run without batches, how many requests were answered twice, and whether the ledger says
what the server's bill does.

Exits 1 where any of it differs.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from batch_server import Batched, Troubles
from words import read_words, some_of, whole

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.loopback import running  # noqa: E402

MODELS = {"openai": "openai/gpt-4.1-mini", "anthropic": "anthropic/claude-sonnet-4-5"}
# US dollars a token, as litellm's table has them
PRICES = {"openai": (0.4e-6, 1.6e-6), "anthropic": (3e-6, 15e-6)}
# Lines of batches.jsonl for the answers and the judgements
LINES = {"openai": 6, "anthropic": 4}
AT_SERVER = ("create", "created", "poll", "results")
JOURNALS = ("predictions.jsonl", "verdicts.jsonl", "scores.jsonl")
_CENT = 1e-9


@dataclass(frozen=True)
class Ended:
    """What a run that was killed and went on ended with."""

    same: bool
    twice: int
    ledger: float
    bill: float

    @property
    def well(self) -> bool:
        """Whether nothing shows that it was killed."""
        return self.same and not self.twice and abs(self.ledger - self.bill) < _CENT


class Runs:
    """Runs of one shape, in folders of one scratch folder."""

    def __init__(self, server: Batched, shape: str, scratch: Path, records: int) -> None:
        self.server, self.shape, self.scratch = server, shape, scratch
        base = server.url if shape == "openai" else server.host
        model = MODELS[shape]
        self.words = ["run", "task=extraction", f"limit={records}", "baseline_records=0"]
        self.words += [f"model={model}", f"api_base={base}"]
        self.words += [f"judge={model}", f"judge_api_base={base}", "judge_check=no"]
        self.environment = {**os.environ, "ALPS_CACHE": "off"}
        self.environment |= {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}

    def start(self, out: str, *more: str, spec: dict[str, object] | None = None) -> int:
        """Run the command until it ends, or is killed; return its exit code."""
        program = ["-m", "alps"]
        if spec is not None:
            program = [str(HERE / "crash_child.py"), json.dumps(spec)]
        words = [sys.executable, *program, *self.words, f"out={out}", *more]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(words, cwd=self.scratch, env=self.environment, **quiet) as process:

            def at(step: str) -> None:
                if spec is not None and step == spec.get("step"):
                    os.kill(process.pid, signal.SIGKILL)

            self.server.troubles = Troubles(on=at)
            return process.wait()

    def journals(self, out: str) -> list[bytes]:
        """Return the journals of a run."""
        return [(self.scratch / out / name).read_bytes() for name in JOURNALS]

    def killed(self, name: str, spec: dict[str, object], expected: list[bytes]) -> Ended:
        """Kill a run, have the same command go on, and return what it ended with."""
        for kept in (self.server.bill, self.server.asked, self.server.batches):
            kept.clear()
        if self.start(name, "batch=yes", spec=spec) != -signal.SIGKILL:
            raise SystemExit(f"{name}: it was not killed")
        if self.start(name, "batch=yes") != 0:
            raise SystemExit(f"{name}: the same command did not go on")
        summary = json.loads((self.scratch / name / "summary.json").read_text(encoding="utf-8"))
        twice = sum(times > 1 for times in self.server.asked.values())
        bill = self.server.cost(*PRICES[self.shape])
        same = self.journals(name) == expected
        return Ended(same, twice, summary["calls"]["cost"], bill)


def kills(shape: str, steps: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield every place where a run of a shape is killed: its name, and what crash_child takes."""
    for number in range(1, LINES[shape] + 1):
        line = {"kind": "write", "file": "batches.jsonl", "n": number, "keep": 1.0}
        yield f"line {number}", line
    for step in AT_SERVER if steps == "all" else ():
        # never due in the process itself: the server kills it
        yield step, {"kind": "write", "file": "nothing", "n": 1, "keep": 1.0, "step": step}


def main() -> None:
    """Kill at every place, and print a row for each."""
    words = read_words(sys.argv[1:], {"shapes": ",".join(MODELS), "records": "2", "steps": "all"})
    records, failed = whole(words, "records"), 0
    print(f"{'shape':10} {'killed at':10} {'same end':>8} {'twice':>6} {'ledger':>12} {'bill':>12}")
    with tempfile.TemporaryDirectory() as name, running(Batched()) as server:
        for shape in some_of(words, "shapes", list(MODELS)):
            scratch = Path(name) / shape
            scratch.mkdir()
            runs = Runs(server, shape, scratch, records)
            runs.start("undisturbed")
            expected = runs.journals("undisturbed")
            for at, spec in kills(shape, words["steps"]):
                ended = runs.killed(f"killed at {at}", spec, expected)
                failed += not ended.well
                same = "yes" if ended.same else "NO"
                money = f"{ended.ledger:12.8f} {ended.bill:12.8f}"
                print(f"{shape:10} {at:10} {same:>8} {ended.twice:6} {money}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
