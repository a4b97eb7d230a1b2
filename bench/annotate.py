"""Label by a script in Chromium: python bench/annotate.py [items=200] [kills=10] [write=yes].

A scripted person labels so many items of each job by the keyboard alone, on a dark phone; the page
is killed so often meanwhile, at moments that a seed draws, and started again. In the job `match` a
second person labels at once, on another port of the same folder. Of the job `rate` the person moves
every fifth label that differs from the judge's to what the judge says. Exits 1 where a bound is
missed; `write=yes` writes the section of docs/benchmarks.md.
"""

import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from document import Bound, Section, missed, terminal, write_section
from words import read_words, whole

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from alps.ext.people.annotate.export import export
from alps.ext.people.annotate.journal import read_journal
from tests.annotate_work import Served, made, rated_run, related_run, served
from tests.pages import CHROMIUM

JOBS = ("rate", "match", "gold", "queries")
PLANTED, POINTS, KEYS = 0.2, 0.05, 2.0
PHONE = {"viewport": {"width": 375, "height": 700}, "color_scheme": "dark"}
HEAD = ["job", "items", "labels", "kills", "lost", "doubled", "keys a label", "s", "axe"]
STATE = """() => ({
  item: document.querySelector('[name=item]')?.value ?? null,
  rows: document.querySelector('[name=rows]')?.value ?? null,
  title: document.querySelector('h1').textContent,
  wide: document.documentElement.scrollWidth,
  codes: [...document.querySelectorAll('main fieldset')].map(part => [
    part.querySelector('input').name,
    [...part.querySelectorAll('input')].map(input => input.dataset.code),
  ]),
  chosen: [...document.querySelectorAll('main input:checked')].map(input => input.value),
  shown: [...document.querySelectorAll('.shown dd')].map(part => part.textContent),
  done: Number(document.querySelector('progress').value),
})"""


@dataclass
class Person:
    """A scripted person at a page, and all that they sent.

    Attributes:
        sent: The item of each label, and which label of it that was.
        keys: How often a key that answers was pressed; letters of texts are not counted.
        fields: How many answers these gave.
        differing: How many labels differed from the judge's so far.
    """

    page: Any
    server: Served
    rng: random.Random
    sent: list[tuple[str, int]] = field(default_factory=list)
    keys: int = 0
    fields: int = 0
    differing: int = 0
    barriers: set[str] = field(default_factory=set)

    def state(self) -> dict[str, Any]:
        """Return what the page shows."""
        return self.page.evaluate(STATE)

    def label(self, kill: "Killing | None" = None) -> None:
        """Give one label; the page may be killed just before or after."""
        before = self.state()
        if before["wide"] > PHONE["viewport"]["width"]:
            self.barriers.add("wider than the phone")
        if kill is not None and kill.before:
            self.server.end(signal.SIGKILL)
        self._answer(before)
        if kill is not None:
            if not kill.before:
                self.server.end(signal.SIGKILL)
            self.server = served(kill.folder, kill.person, port=self.server.port)
        self.sent.append((before["item"], int(before["rows"])))
        self._wait(before)

    def _wait(self, before: dict[str, Any]) -> None:
        deadline = time.monotonic() + 120
        while (now := self.state()) and (now["item"], now["rows"], now["title"]) == (
            before["item"],
            before["rows"],
            before["title"],
        ):
            if time.monotonic() > deadline:
                sys.exit(f"the page does not go on from {before['item']}.")
            self.page.wait_for_timeout(5)

    def _press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.keys += len(keys)

    def _answer(self, state: dict[str, Any]) -> None:
        if not state["codes"]:
            self.page.keyboard.type(f"What shall I do on day {len(self.sent)}?")
            self.fields += 1
            self._press("Control+Enter")
        elif state["shown"]:
            self._again(state)
        elif len(state["codes"]) == 1:
            self.fields += 1
            self._press(self.rng.choice(state["codes"][0][1]))
        else:
            self._memory(state)

    def _again(self, state: dict[str, Any]) -> None:
        """Keep a label, or take what is shown of every fifth that differs."""
        said, codes = state["chosen"][0], state["codes"]
        shown = {"met": "1", "not met": "0"}.get(state["shown"][0], state["shown"][0])
        self.differing += len(codes) == 1 and said != shown
        if len(codes) == 1 and said != shown and self.differing % round(1 / PLANTED) == 0:
            value = self.page.locator(f"main input[name=label][value='{shown}']")
            self._press(value.get_attribute("data-code"))
        else:
            self._press("Enter")

    def _memory(self, state: dict[str, Any]) -> None:
        """Verify a memory, or add one."""
        (_, verdicts), *others = state["codes"]
        verdict = self.rng.choice(verdicts)
        if verdict == "a" and state["rows"] != "0":
            verdict = "n"
        self._press(verdict)
        self.fields += 1
        if verdict in "ea":
            self.page.keyboard.type(f" Likes day {len(self.sent)}")
            self._press("Escape")
        if verdict in "kea":
            for _, codes in others:
                self._press(*self.rng.choice(codes))
                self.fields += 1
        self._press("Enter")


@dataclass(frozen=True)
class Killing:
    """A kill, before the label is sent or just after, in the page of a person."""

    folder: Path
    person: str
    before: bool


@dataclass(frozen=True)
class Done:
    """What came of a job."""

    job: str
    items: int
    labels: int
    kills: int
    lost: int
    doubled: int
    keys: float
    seconds: float
    barriers: tuple[str, ...]
    anchoring: float | None = None

    @property
    def cells(self) -> list[str]:
        """Its row of the table."""
        counts = (self.items, self.labels, self.kills, self.lost, self.doubled)
        figures = [f"{count:,}" for count in counts]
        return [
            self.job,
            *figures,
            f"{self.keys:.2f}",
            f"{self.seconds:.0f}",
            str(len(self.barriers)),
        ]


def labelled(browser: Any, folder: Path, job: str, *, items: int, kills: int) -> Done:
    """Have people label `items` items of a folder in a browser."""
    rng = random.Random(job)
    names = ("anna", "ben") if job == "match" else ("anna",)
    with ExitStack() as stack:
        people = [sit(browser, folder, name, stack) for name in names]
        last = items if job == "queries" else items * 3 // 2
        moments = {moment: rng.random() < 0.5 for moment in rng.sample(range(1, last), kills)}
        start, killed = time.perf_counter(), 0
        while people[0].state()["item"] is not None and people[0].state()["done"] < items:
            for number, person in enumerate(people):
                moment = len(person.sent)
                kill = None
                if number == 0 and moment in moments:
                    kill = Killing(folder, names[0], moments.pop(moment))
                    killed += 1
                if person.state()["item"] is not None:
                    person.label(kill)
                if moment in (0, 1):
                    person.barriers.update(barriers(person.page))
        seconds = time.perf_counter() - start
        for person in people:
            person.barriers.update(barriers(person.page))
            person.server.end()
    return _judge(folder, job, dict(zip(names, people, strict=True)), killed, seconds)


def sit(browser: Any, folder: Path, name: str, stack: ExitStack) -> Person:
    """Open the page of a person on a dark phone."""
    server = served(folder, name)
    page = stack.enter_context(browser.new_context(**PHONE)).new_page()
    page.goto(server.address)
    return Person(page, server, random.Random(name))


def barriers(page: Any) -> set[str]:
    """Return what axe finds on a page."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return {one["id"] for one in found}


def _judge(folder: Path, job: str, people: dict[str, Person], kills: int, seconds: float) -> Done:
    """Compare what is on disk with what people sent."""
    lost = doubled = labels = items = 0
    for name, person in people.items():
        seen: dict[str, int] = {}
        kept: list[tuple[str, int]] = []
        for said in read_journal(folder / f"journal-{name}.jsonl"):
            kept.append((said.item_id, seen.get(said.item_id, 0)))
            seen[said.item_id] = seen.get(said.item_id, 0) + 1
        lost += len(set(person.sent) - set(kept))
        doubled += len(kept) - len(set(person.sent) & set(kept))
        labels, items = labels + len(kept), items + len(seen)
    keys = sum(person.keys for person in people.values())
    fields = sum(person.fields for person in people.values())
    found = tuple(sorted({one for person in people.values() for one in person.barriers}))
    moved = export(folder, folder.with_name(f"{job}-out")).anchoring if job == "rate" else {}
    towards = next(iter(moved.values())).towards.value if moved else None
    return Done(job, items, labels, kills, lost, doubled, keys / fields, seconds, found, towards)


def bounds(figures: Sequence[Done], items: int, kills: int) -> Iterator[Bound]:
    """Yield what is promised, and what came of it."""
    for one in figures:
        what = f"{one.job}: {one.items:,} items, {one.labels:,} labels, {one.kills} kills"
        held = one.lost == one.doubled == 0 and one.items >= items and one.kills == kills
        yield Bound(f"{what}, lost or doubled", "0", str(one.lost + one.doubled), held)
        measured = f"{one.keys:.2f}"
        yield Bound(f"{one.job}: keys a label", f"≤ {KEYS:g}", measured, one.keys <= KEYS)
        told = ", ".join(one.barriers) or "0"
        yield Bound(f"{one.job}: findings of axe, dark, 375 px", "0", told, not one.barriers)
        if one.anchoring is not None:
            points = abs(one.anchoring - PLANTED)
            limit = f"{PLANTED:g} ± {POINTS:g}"
            held = points <= POINTS
            yield Bound("anchoring that was planted", limit, f"{one.anchoring:.3f}", held)


def section(cells: list[list[str]], promised: list[Bound], command: str) -> Section:
    """Return the section of the page."""
    text = (
        "Items of each job of `alps annotate`, labelled by a script in Chromium: by keys alone, on "
        "a dark page of\n375 px. The server is killed (`kill -9`) before a label is sent or just "
        "after, and started again; the page\nsends the label again by itself. In `match` a second "
        "person labels at once on another port. `keys a label` counts\nthe keys that answer and "
        "save, over the answers given (in `gold` each field is one), without the letters of\n"
        "texts. In `rate` every fifth label that differs from the judge's is moved to what it "
        "says. `axe` counts its findings."
    )
    return Section("annotate", "Labelling in a page", text, promised, command, cells)


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], {"items": "200", "kills": "10", "jobs": ",".join(JOBS)})
    items, kills = whole(words, "items"), whole(words, "kills", least=0)
    jobs = [job for job in JOBS if job in words["jobs"].split(",")]
    figures: list[Done] = []
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        sources = {"gold": "samples", "queries": "samples"}
        sources["rate"] = str(rated_run(home / "rated", limit=99)) if "rate" in jobs else ""
        sources["match"] = str(related_run(home / "related", limit=60)) if "match" in jobs else ""
        for job in jobs:
            made(home / job, job, sources[job], n=items)
        from playwright.sync_api import sync_playwright

        if CHROMIUM is None:
            sys.exit("no chromium here: install it.")
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for job in jobs:
                figures.append(labelled(browser, home / job, job, items=items, kills=kills))
                print(json.dumps(vars(figures[-1])), file=sys.stderr, flush=True)
            browser.close()
    cells, promised = [HEAD, *(one.cells for one in figures)], [*bounds(figures, items, kills)]
    misses = missed(promised)
    print(terminal(cells))
    print(*(misses or ["Every bound that was measured is held."]), sep="\n")
    if words["write"]:
        command = f"python bench/annotate.py items={items} kills={kills} write=yes"
        write_section(section(cells, promised, command))
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
