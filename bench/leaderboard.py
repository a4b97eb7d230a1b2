"""Measure the site: python bench/leaderboard.py [systems=200] [keep=DIR] [write=yes].

Makes up so many submissions on every track of the samples, builds the site from them in a process
of its own, and prints seconds, peak memory and the bytes of the first page with what it loads; in
Chromium, where there is one, also how long the first page takes until it can be used. Seconds of
CPU stand below, as others may use the machine meanwhile. Exits 1 where a bound is exceeded. `keep`
is a folder for all of it, and `write=yes` writes the section of bench/RESULTS.md.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from document import Bound, Section, at_most, finish
from words import read_words, whole

sys.path.append(str(Path(__file__).resolve().parent.parent))

SECONDS, MEGABYTES, FIRST_PAGE, USABLE = 20.0, 500.0, 300.0, 0.5
TEXT = """What building the leaderboard takes, out of made-up submissions on every track of the
samples, and what its first page weighs with all that it loads. The site is built in a process of
its own; opened in Chromium, it is usable when its table has been sorted anew."""
_BUILD = """
import resource, sys, time
from pathlib import Path
start = time.perf_counter()
from alps.leaderboard.site import build
built = build(Path(sys.argv[1]), Path(sys.argv[2]))
print(time.perf_counter() - start, time.process_time(), \
resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, built.pages, built.bytes)
"""


def measure(folder: Path, count: int) -> tuple[list[Bound], str]:
    """Build the site from `count` made-up submissions in `folder`.

    Return the bounds, and what else there is to say.
    """
    from tests.made_submissions import synthesise

    synthesise(folder / "submissions", count)
    command = [sys.executable, "-c", _BUILD, str(folder / "submissions"), str(folder / "site")]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    took, processor, memory = map(float, said[:3])
    site = folder / "site"
    loaded = ("index.html", "assets/site.css", "assets/site.js")
    first = sum((site / name).stat().st_size for name in loaded)
    what = f"{count} systems: "
    bounds = [
        at_most(f"{what}built", SECONDS, took, "{:.1f} s"),
        at_most(f"{what}peak memory", MEGABYTES, memory, "{:.0f} MB"),
        at_most(f"{what}first page, uncompressed", FIRST_PAGE, first / 1000, "{:.0f} kB"),
    ]
    note = f"{said[3]} pages, {int(said[4]) / 1e6:.1f} MB; {processor:.1f} s of CPU"
    used = usable_after(site / "index.html")
    if used is None:
        return bounds, f"{note}; no Chromium here, so when it can be used was not measured"
    ready, thread = used
    bounds.append(at_most(f"{what}usable in Chromium", USABLE, ready, "{:.2f} s"))
    return bounds, f"{note}, and {thread:.2f} s of the first page's own thread until it is usable"


def usable_after(page: Path) -> tuple[float, float] | None:
    """Return the seconds from opening a page to its first sorted table, and those of CPU.

    The best of three, None without Chromium. CPU is that of the thread of scripts and layout.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if program is None:
        return None
    found = []
    with sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=program, args=flags)
        for _ in range(3):
            with browser.new_context() as context:
                tab = context.new_page()
                watch = context.new_cdp_session(tab)
                watch.send("Performance.enable", {"timeDomain": "threadTicks"})
                start = time.perf_counter()
                tab.goto(page.as_uri(), wait_until="commit")
                tab.locator("thead button").first.click()
                tab.locator("th[aria-sort=descending], th[aria-sort=ascending]").first.wait_for()
                seconds = time.perf_counter() - start
                rows = watch.send("Performance.getMetrics")["metrics"]
                found.append((seconds, {row["name"]: row["value"] for row in rows}["TaskDuration"]))
        browser.close()
    return min(found)


def main() -> None:
    """Measure as the arguments say."""
    words = read_words(sys.argv[1:], {"systems": "200", "keep": ""})
    count = whole(words, "systems")
    with tempfile.TemporaryDirectory() as folder:
        bounds, note = measure(Path(words["keep"] or folder), count)
    command = f"python bench/leaderboard.py systems={count} write=yes"
    section = Section("leaderboard", "The leaderboard", TEXT, bounds, command, notes=[note])
    finish(section, write=words["write"])


if __name__ == "__main__":
    main()
