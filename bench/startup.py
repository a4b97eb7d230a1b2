"""Measure what a user waits for before anything is evaluated, and the memory it takes: python bench/startup.py.

Prints wall seconds (best of five) and peak memory of `alps --help`, and of an extraction run over 1,000 short samples
with an instant embedded system and the lexical judge; exits 1 where a bound is exceeded, or litellm was imported.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from alps.data.release import write_track

SAMPLES = 1_000
HELP_SECONDS, RUN_SECONDS, RUN_MEGABYTES = 0.25, 3.0, 150.0
PROBE = """
import sys
from alps.cli import main
try:
    main()
finally:
    sys.stderr.write(f"litellm={'litellm' in sys.modules}")
"""


def write_samples(folder: Path, count: int) -> None:
    """Write `count` short dialogues with two gold memories each."""
    towns, pets = ("Lyon", "Porto", "Graz", "Turku", "Cork"), ("beagle", "tabby cat", "parrot", "gecko")

    def rows(number: int) -> tuple[dict[str, object], dict[str, object]]:
        town, pet = towns[number % len(towns)], pets[number % len(pets)]
        ids = {"benchmark_id": f"short_{number}", "session_id": f"s_{number}", "task": "task1"}
        dialogue = [
            {"role": "user", "text": f"I live in {town}. I have a {pet}, it is {number} weeks old."},
            {"role": "assistant", "text": "How nice!"},
        ]
        values = (f"Lives in {town}", f"Has a {pet}")
        items = [
            {"memory_id": f"m{n}", "type": "direct", "label": "UNMAPPED", "value": value, "confidence": 0.95}
            for n, value in enumerate(values, start=1)
        ]
        return {**ids, "input": {"dialogue": dialogue}}, {**ids, "gold": {"memory_items": items}}

    write_track(folder / "dev" / "task1", (rows(number) for number in range(count)))


def timed(words: list[str], folder: Path) -> tuple[float, float, str]:
    """Run the command in a process of its own; return seconds, peak megabytes, and what the probe says."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", PROBE, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    _, errors = process.communicate()
    seconds = time.perf_counter() - started
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, errors


def main() -> None:
    """Measure, print, and compare with the bounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_samples(folder / "data", SAMPLES)
        help_seconds = min(timed(["--help"], folder)[0] for _ in range(5))
        run = ["run", "task=extraction", "model=rules", "data=data"]
        runs = [timed([*run, f"out=run{number}"], folder) for number in range(3)]
    seconds, megabytes = min(r[0] for r in runs), max(r[1] for r in runs)
    print(f"alps --help: {help_seconds:.3f} s (bound {HELP_SECONDS})")
    print(f"{SAMPLES:,} samples: {seconds:.2f} s (bound {RUN_SECONDS}), {megabytes:.0f} MB (bound {RUN_MEGABYTES:.0f})")
    clean = all("litellm=False" in errors for _, _, errors in runs)
    print("litellm not imported" if clean else f"litellm was imported, or the run failed: {runs[0][2]}")
    if help_seconds > HELP_SECONDS or seconds > RUN_SECONDS or megabytes > RUN_MEGABYTES or not clean:
        sys.exit(1)


if __name__ == "__main__":
    main()
