"""Measure `alps view` on many records: python bench/view.py [records=50000] [keep=DIR] [write=yes].

Runs the embedded system `floor/empty` on so many short dialogues, writes the page, and opens it in
Chromium from its file: the first paint, a search, a filter and a sort, and a record that is
fetched. Exits 1 where a bound is exceeded; `write=yes` writes the section of docs/benchmarks.md.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from browser import chromium
from document import Bound, Section, missed, write_section
from short_samples import write_samples

PAINT, FILTER = 1.0, 0.2
TIMED = """(() => {{
  document.getElementById({control!r}).value = {value!r};
  const from = performance.now();
  filter();
  return (performance.now() - from) / 1000;
}})()"""
STEPS = (("track", "task1"), ("order", "low"), ("search", "short_19"))
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def main(words: list[str]) -> int:
    """Measure, print, and write the section where that is asked for."""
    given = dict(word.split("=", 1) for word in words)
    count = int(given.get("records", "50000"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(given.get("keep", scratch)).resolve()
        page, seconds, megabytes = write_page(folder, count)
        figures = measure(page)
    paint, listed = figures["paint"], figures["listed"]
    filters = max(figures["search"], figures["track"], figures["order"])
    bounds = [
        Bound("first paint", f"≤ {PAINT:g} s", f"{paint:.2f} s", paint <= PAINT),
        Bound("the slowest filter", f"≤ {FILTER:g} s", f"{filters:.3f} s", filters <= FILTER),
    ]
    for bound in bounds:
        print(f"{bound.what}: {bound.measured} (bound {bound.limit})")
    notes = [
        f"{count:,} records written in {seconds:.0f} s, {megabytes:,.0f} MB; all are listed after "
        f"{listed:.2f} s, a record is shown {figures['record']:.2f} s after it is chosen",
        f"Search {figures['search']:.3f} s, track {figures['track']:.3f} s, order "
        f"{figures['order']:.3f} s",
    ]
    print("\n".join(notes))
    if given.get("write") == "yes":
        write_section(
            Section(
                "view",
                "Pages of records",
                TEXT,
                bounds,
                "python bench/view.py write=yes",
                (),
                notes,
            )
        )
    for sentence in missed(bounds):
        print(sentence, file=sys.stderr)
    return 1 if missed(bounds) else 0


TEXT = """`alps view` writes a page on which all records of runs are searched and filtered, read
from its files without a server. The run is of short dialogues; the page is opened in Chromium."""


def write_page(folder: Path, count: int) -> tuple[Path, float, float]:
    """Return the page of a run over `count` records, the seconds it took, and its megabytes."""
    write_samples(folder / "data", count, turns=2)
    alps = [sys.executable, "-m", "alps"]
    run = ["task=extraction", "model=floor/empty", "data=data", "out=run"]
    subprocess.run([*alps, "run", *run], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    started = time.perf_counter()
    view = [*alps, "view", "run", "out=view"]
    subprocess.run(view, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    written = sum(path.stat().st_size for path in (folder / "view").rglob("*") if path.is_file())
    return folder / "view" / "index.html", seconds, written / 1e6


def measure(page: Path) -> dict[str, float]:
    """Return how long the page takes for each step, in seconds."""
    with chromium() as browser:
        opened = browser.new_page(viewport={"width": 1280, "height": 800})
        started = time.perf_counter()
        opened.goto(page.as_uri(), wait_until="commit")
        opened.wait_for_selector("#list button")
        figures = {"listed": time.perf_counter() - started}
        figures["paint"] = opened.evaluate(PAINTED) / 1000
        for control, value in STEPS:
            figures[control] = opened.evaluate(TIMED.format(control=control, value=value))
        started = time.perf_counter()
        opened.click("#list button")
        opened.wait_for_selector("#shown details")
        figures["record"] = time.perf_counter() - started
    return figures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
