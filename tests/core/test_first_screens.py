"""What the first screen of each page says, held word for word in tests/printed/screens/.

A screen is 1280 × 800; the text is that of what begins on it. `make printed` writes the files.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.annotate_work import NEEDED, made, opened, related_run
from tests.core.test_printed import HELD, alike, as_held
from tests.few import few
from tests.pages import barriers, browser, tab_of
from tests.stories import STORIES, carried_out

__all__ = ["browser"]  # a fixture

SCREENS = HELD / "screens"
PAGES = {
    name: (name, story, page)
    for story, told in STORIES.items()
    for name, page in told.pages.items()
}
LARGE = ("report-two", "report-tasks", "view")
"""Pages whose parts the others have, too; a browser is busy with them for long."""
# Lines break where the font has them break.
FONT = "DejaVu Sans"
# The text of what is on the screen. What is below it is cut off, which moves nothing above. Axes
# and signs that are not read aloud are left out.
TEXT = """() => {
  const range = document.createRange();
  const ends = (node, length) => {
    range.setStart(node, 0), range.setEnd(node, length);
    return range.getBoundingClientRect().bottom;
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const cut = [];
  while (texts.nextNode()) {
    let length = texts.currentNode.length;
    while (length > 0 && ends(texts.currentNode, length) > innerHeight)
      length = texts.currentNode.data.slice(0, length).trimEnd().lastIndexOf(' ');
    if (length < texts.currentNode.length) cut.push([texts.currentNode, Math.max(0, length)]);
  }
  const hidden = [...document.querySelectorAll('[aria-hidden=true], .axis, option:not(:checked)')];
  for (const part of document.querySelectorAll('body *')) {
    const box = part.getBoundingClientRect();
    if (box.top >= innerHeight || box.bottom <= 0 || (box.width <= 1 && box.height <= 1))
      hidden.push(part);
  }
  for (const [text, length] of cut) text.data = text.data.slice(0, length);
  for (const part of hidden) part.style.display = 'none';
  return document.body.innerText;
}"""


def screen_of(browser: Any, address: str, folder: Path) -> str:
    """Return the text of a first screen, a block a line, without what differs by day."""
    with tab_of(browser, width=1280, reduced_motion="reduce", locale="en-GB") as tab:
        tab.goto(address)
        tab.wait_for_load_state("networkidle")
        lines = []
        for row in tab.evaluate(TEXT).replace("\n\t", "\t").replace("\t\n", "\t").splitlines():
            cells = [" ".join(cell.split()) for cell in row.split("\t")]
            lines.append("  ".join(filter(None, cells)))
    return alike("".join(f"{line}\n" for line in lines if line), folder)


@pytest.mark.parametrize(("name", "story", "page"), few(PAGES, plain=PAGES.keys() - {*LARGE}))
def test_a_page_begins_with_what_is_held(name, story, page, browser, tmp_path_factory):
    folder = carried_out(story, tmp_path_factory)
    file, _, part = page.partition("#")
    address = (folder / file).as_uri() + (part and f"#{part}")
    as_held(SCREENS / f"{name}.txt", screen_of(browser, address, folder))


@pytest.fixture(scope="module", autouse=True)
def font():
    """Skip where pages are drawn in another font."""
    asked = ("fc-match", "--format=%{family}", "system-ui")
    drawn = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    if not drawn.startswith(FONT):
        pytest.skip(f"pages are drawn in {drawn or 'an unknown font'} here, not in {FONT}")


DARK = "getComputedStyle(document.body).backgroundColor"
FOCUSABLE = "a[href], button, summary, input, select, [tabindex='0']"
FOCUS = """() => {
  const at = document.activeElement;
  return at !== document.body && getComputedStyle(at).outlineStyle !== 'none';
}"""


@pytest.mark.parametrize(("width", "scheme"), few([(1280, "light"), (375, "dark")], plain={1}))
@pytest.mark.parametrize(
    ("name", "story", "page"), few(PAGES, plain={"site", "sweep", "calibration"})
)
def test_a_page_has_no_barrier_and_fits_in_both_directions(
    name, story, page, width, scheme, browser, tmp_path_factory
):
    folder = carried_out(story, tmp_path_factory)
    with tab_of(browser, width=width, color_scheme=scheme, locale="en-GB") as tab:
        tab.goto((folder / page.partition("#")[0]).as_uri())
        tab.wait_for_load_state("networkidle")
        serious = [one for one in barriers(tab) if one["impact"] in ("serious", "critical")]
        assert [(one["id"], one["nodes"][0]["html"][:160]) for one in serious] == []
        assert (tab.evaluate(DARK) == "rgb(255, 255, 255)") == (scheme == "light")
        tab.keyboard.press("Tab")
        # A page of figures alone has nothing that takes the focus.
        if tab.locator(FOCUSABLE).count():
            assert tab.evaluate(FOCUS), "the focus is not visible"
        for direction in ("ltr", "rtl"):
            tab.evaluate("to => { document.documentElement.dir = to; }", direction)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, direction


def test_the_first_page_of_the_site_cuts_no_task_off_at_1280(browser, tmp_path_factory):
    _, story, page = PAGES["site"]
    with tab_of(browser, width=1280, locale="en-GB") as tab:
        tab.goto((carried_out(story, tmp_path_factory) / page).as_uri())
        table = tab.locator(".scroll", has=tab.locator(".tasks-of")).first
        assert "PersonaMem" in table.inner_text()
        assert table.evaluate("at => at.scrollWidth <= at.clientWidth")


@pytest.fixture(scope="module", autouse=True)
def work(tmp_path_factory):
    """A folder to annotate; made before the browser, which holds the event loop of this thread."""
    pytest.importorskip("starlette", reason=NEEDED)
    pytest.importorskip("uvicorn", reason=NEEDED)
    folder = tmp_path_factory.mktemp("work")
    return made(folder / "match", "match", str(related_run(folder / "run")), n=2)


def test_the_page_of_labels_begins_with_what_is_held(work, browser):
    with opened(work) as address:
        as_held(SCREENS / "annotate.txt", screen_of(browser, address, work.parent))


def test_every_held_screen_is_of_a_page():
    assert {path.stem for path in SCREENS.iterdir()} == {*PAGES, "annotate"}
