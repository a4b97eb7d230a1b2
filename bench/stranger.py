"""Try five tasks as a stranger: python bench/stranger.py [systems=20] [write=yes].

Builds the site from made-up submissions, opens its first page in Chromium, and looks for each
answer by clicking on words that can be seen: never by an address or a name in the page's source.
Writes down the clicks and the seconds until the answer stands on the screen, without scrolling.
Exits 1 where an answer takes more than three clicks; `write=yes` writes the section of
docs/benchmarks.md.
"""

import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from document import Bound, Section, missed, terminal, write_section

MOST_CLICKS = 3
TEXT = """Five questions that a stranger asks, each from the first page of a site of made-up
submissions, in Chromium: by clicks on visible words, until the answer stands on the screen. The
seconds are the browser's; a person reads in between."""

# Whether words stand on the screen, whole and unfolded; a page that just loads has no body yet.
ON_SCREEN = """words => {
  if (!document.body) return false;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (texts.nextNode()) {
    if (!texts.currentNode.data.includes(words)) continue;
    range.selectNodeContents(texts.currentNode);
    const box = range.getBoundingClientRect();
    if (box.height && box.top >= 0 && box.bottom <= innerHeight) return true;
  }
  return false;
}"""


@dataclass(frozen=True)
class Question:
    """A question, the words that are clicked on the way, and words of the answer."""

    question: str
    clicks: tuple[str, ...]
    answer: str


def questions(system: str, record: str, judge: str) -> tuple[Question, ...]:
    """Return the five questions, asked of a system, one of its records, and a judge."""
    return (
        Question("What is this?", (), "alps measures how assistants extract memories"),
        Question(
            "Which system is best at update, and is the difference real?",
            ("Boards", "Update"),
            "the best",
        ),
        Question(
            "How far can the judge be trusted?",
            ("how far the judges can be trusted", judge),
            "Nobody has compared it with people's labels",
        ),
        Question("Why did this system fail on this record?", (system, record), "matches no gold"),
        Question("How do I submit?", ("Submit a system",), "alps leaderboard submit runs/mine"),
    )


def seek(tab: Any, first_page: str, question: Question) -> float:
    """Click from the first page to an answer, and return the seconds until it is on the screen.

    Raises:
        playwright.sync_api.TimeoutError: If it does not stand there.
    """
    started = time.perf_counter()
    tab.goto(first_page)
    for words in question.clicks:
        tab.get_by_text(words, exact=True).first.click()
    tab.wait_for_function(ON_SCREEN, arg=question.answer)
    return time.perf_counter() - started


def main(words: list[str]) -> int:
    """Measure, print, and write the section where that is asked for."""
    # Imported here: a test asks the same questions of its own site.
    from browser import chromium

    from alps.leaderboard.site import build

    # By its name as a module: an import statement of this name is one of the room, and refused.
    synthesise = import_module("leaderboard").synthesise

    given = dict(word.split("=", 1) for word in words)
    count = int(given.get("systems", "20"))
    bounds = []
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        submissions = Path(folder) / "submissions"
        synthesise(submissions, count)
        site = build(submissions, Path(folder) / "site").out
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        for question in questions("Model 2", "alps_upd_021", "openai/judge-2026-01-01"):
            seconds = seek(tab, f"{site.as_uri()}/index.html", question)
            clicks = len(question.clicks)
            measured = f"{clicks} in {seconds:.1f} s"
            limit = f"≤ {MOST_CLICKS} clicks"
            bounds.append(Bound(question.question, limit, measured, clicks <= MOST_CLICKS))
    rows = []
    for bound in bounds:
        rows.append((bound.what, bound.limit, bound.measured))
    print(terminal([("question", "bound", "clicks and seconds"), *rows]))
    if given.get("write") == "yes":
        command = "python bench/stranger.py write=yes"
        write_section(Section("stranger", "Five tasks of a stranger", TEXT, bounds, command))
    return 1 if missed(bounds) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
