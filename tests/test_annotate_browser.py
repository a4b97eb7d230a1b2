"""Labelling in a real browser, by keys alone."""

import re
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from alps.annotate.journal import read_journal
from tests.annotate_work import NEEDED, made, opened, rated_run
from tests.pages import browser

__all__ = ["browser"]  # a fixture

pytest.importorskip("starlette", reason=NEEDED)
pytest.importorskip("uvicorn", reason=NEEDED)


@pytest.fixture(scope="module", autouse=True)
def works(tmp_path_factory):
    """Folders that nobody has labelled, by job; made before the browser, which holds the event loop
    of this thread.
    """
    folder = tmp_path_factory.mktemp("works")
    run = rated_run(folder / "rated")
    return {"rate": made(folder / "rate", "rate", str(run), n=2)}


@pytest.fixture
def work(works, tmp_path):
    """A copy of one of these folders."""
    return lambda job: Path(shutil.copytree(works[job], tmp_path / job))


@contextmanager
def tab(browser, address, **options):
    """Open the page; on leaving it nothing was complained of, and nothing asked for elsewhere."""
    options = {"viewport": {"width": 1200, "height": 800}, **options}
    with browser.new_context(**options) as context:
        page = context.new_page()
        complaints, requests = [], []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        yield page
        assert complaints == []
        elsewhere = [url for url in requests if not url.startswith((f"{address}/", "data:,"))]
        assert elsewhere == []


def shown(page):
    """The item and how far its form is, as one text that changes with each step."""
    return page.evaluate(
        "[...document.querySelectorAll('h1, [name=item], [name=rows]')]"
        ".map(e => e.value ?? e.textContent).join(' ')"
    )


def press(page, *keys):
    """Press keys, the last of which saves; wait until the page has gone on."""
    before = shown(page)
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_function(
        "before => [...document.querySelectorAll('h1, [name=item], [name=rows]')]"
        ".map(e => e.value ?? e.textContent).join(' ') !== before",
        arg=before,
    )


def test_a_label_is_two_keys_and_the_end_is_told(browser, work):
    folder = work("rate")
    with opened(folder) as address, tab(browser, address) as page:
        count = int(re.search(r"of (\d+)", page.locator("h1").inner_text())[1])
        for _ in range(count):
            press(page, "1")
            assert page.locator(".shown h2").inner_text().startswith("The judge")
            press(page, "Enter")
        assert page.locator("h1").inner_text() == "All items are finished"
    said = [*read_journal(folder / "journal-anna.jsonl")]
    assert len(said) == 2 * count
    assert all(one.answer == {"label": 1} for one in said)
    assert len({one.item_id for one in said}) == count
