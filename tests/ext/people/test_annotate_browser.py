"""Labelling in a real browser, by keys alone."""

import shutil
import signal
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from alps.ext.people.annotate.labels import read_journal
from tests.annotate_work import NEEDED, made, opened, rated_run, related_run, served
from tests.few import few
from tests.pages import barriers, browser, tab_of

__all__ = ["browser"]  # a fixture

pytest.importorskip("starlette", reason=NEEDED)
pytest.importorskip("uvicorn", reason=NEEDED)

STATE = (
    "[...document.querySelectorAll('h1, [name=item], [name=rows]')]"
    ".map(part => part.value ?? part.textContent).join(' ')"
)
"""The item and how far its form is: another text with each step."""


@pytest.fixture(scope="module", autouse=True)
def works(tmp_path_factory):
    """Folders that nobody has labelled, by job; made before the browser, which holds the event loop
    of this thread.
    """
    folder = tmp_path_factory.mktemp("works")
    sources = {
        "rate": rated_run(folder / "rated"),
        "match": related_run(folder / "related"),
        "gold": "samples",
        "queries": "samples",
    }
    for job, source in sources.items():
        made(folder / job, job, str(source), n=2)
    return folder


@pytest.fixture
def work(works, tmp_path):
    """A copy of one of these folders."""
    return lambda job: Path(shutil.copytree(works / job, tmp_path / job))


@contextmanager
def tab(browser, address, **options):
    """Open the page; on leaving it nothing was complained of, and nothing asked for elsewhere."""
    with tab_of(browser, **options) as page:
        complaints, requests = [], []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        yield page
        # A page that was killed refuses connections, and its next start the address of the earlier
        # one: the browser reports both itself.
        known = ("ERR_CONNECTION", "status of 403")
        assert [text for text in complaints if not any(map(text.count, known))] == []
        host, _, _ = address.removeprefix("http://").partition("/")
        own = (f"http://{host}/", "data:,")
        elsewhere = [url for url in requests if not url.startswith(own)]
        assert elsewhere == []


def press(page, *keys):
    """Press keys, the last of which saves; wait until the page has gone on."""
    before = page.evaluate(STATE)
    for key in keys:
        page.keyboard.press(key)
    wait_until(page, lambda: page.evaluate(STATE) != before)


def wait_until(page, is_so):
    """Wait for something; the page's policy lets no expression be polled within it."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        page.wait_for_timeout(10)


def title(page):
    return page.locator("h1").inner_text()


def said(folder, person="anna"):
    return [*read_journal(folder / f"journal-{person}.jsonl")]


@pytest.mark.parametrize(("job", "label"), few([("match", "same"), ("rate", 1)]))
def test_a_label_is_two_keys_and_the_end_is_told(browser, work, job, label):
    folder = work(job)
    with opened(folder) as address, tab(browser, address) as page:
        while not title(page).startswith("All"):
            assert page.locator(".shown").count() == 0
            press(page, "1")
            assert page.locator(".shown h2").inner_text().startswith("The judge")
            press(page, "Enter")
        assert title(page) == "All items are finished"
    items = (folder / "items.jsonl").read_text().splitlines()
    assert len(said(folder)) == 2 * len(items)
    assert all(one.answer["label"] in (label, 1) for one in said(folder))
    assert [one.stage for one in said(folder)] == ["first", "revised"] * len(items)


def test_gold_is_kept_edited_rejected_and_added_by_keys(browser, work):
    folder = work("gold")
    with opened(folder) as address, tab(browser, address) as page:
        for key in ("k", "1", "1", "2", "1", "1"):
            page.keyboard.press(key)
        press(page, "1", "Enter")
        assert "The draft's label" in page.locator(".shown").inner_text()
        press(page, "Enter")
        page.keyboard.press("e")
        page.keyboard.type(" for sure")
        for key in ("Escape", "2", "4", "4", "1", "0"):
            page.keyboard.press(key)
        press(page, "0", "Enter")
        press(page, "Enter")
        while "missing" not in title(page):
            press(page, "r", "Enter")
            press(page, "Enter")
        page.keyboard.press("a")
        page.keyboard.type("Likes rye bread")
        for key in ("Escape", "1", "1", "1", "1", "4"):
            page.keyboard.press(key)
        press(page, "1", "Enter")
        press(page, "n", "Enter")
    first = [one for one in said(folder) if one.stage == "first"]
    kept, edited, *others = [one.answer for one in first]
    assert kept["verdict"] == "keep"
    assert (kept["type"], kept["time_scope"], kept["confidence"]) == ("direct", "long_term", 0.8)
    assert kept["label"] == "Personal_Background/Identity"
    assert edited["verdict"] == "edit"
    assert edited["value"].endswith(" for sure")
    assert edited["label"] == "UNMAPPED"
    added = [answer for answer in others if answer["verdict"] == "add"]
    assert [(one["value"], one["label"]) for one in added] == [
        ("Likes rye bread", "Preferences/Food")
    ]


def test_words_that_are_marked_in_the_dialogue_are_the_quote(browser, work):
    folder = work("gold")
    with opened(folder) as address, tab(browser, address) as page:
        page.keyboard.press("k")
        line = page.locator("li.user").nth(1)
        line.evaluate(
            "line => { const text = line.querySelector('.prose').firstChild;"
            "getSelection().setBaseAndExtent(text, 0, text, 9);"
            "line.dispatchEvent(new MouseEvent('click', {bubbles: true})); }"
        )
        quote = page.locator("textarea[name=quote]").input_value()
        assert quote == line.locator(".prose").inner_text()[:9].strip()
        assert page.locator("input[name=evidence]:checked").input_value() == line.get_attribute(
            "data-turn"
        )


def test_a_query_is_not_taken_that_is_long_or_gives_the_memory_away(browser, work):
    folder = work("queries")
    with opened(folder) as address, tab(browser, address) as page:
        value = page.locator(".part .prose").first.inner_text()
        for text, fault in ((value, "repeats the memory"), ("why " * 26, "use at most 25")):
            page.locator("textarea[name=query]").fill(text)
            page.keyboard.press("Control+Enter")
            # The fault before is shown until this one is: a busy machine takes its time.
            page.wait_for_selector(f".fault:has-text('{fault}')")
            assert page.locator("textarea[name=query]").input_value() == text.strip() or text
        assert said(folder) == []
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type("What shall I cook tonight?")
        press(page, "Control+Enter")
    assert said(folder)[0].answer == {"queries": ["What shall I cook tonight?"]}


def test_two_people_and_one_who_decides_between_them(browser, work):
    folder = work("match")
    with ExitStack() as stack:
        page = stack.enter_context(tab(browser, stack.enter_context(opened(folder))))
        second = stack.enter_context(tab(browser, stack.enter_context(opened(folder, "ben"))))
        while not title(page).startswith("All"):
            press(page, "1")
            press(page, "Enter")
            press(second, "7")
            press(second, "Enter")
        second.reload()
        assert "agreement between people .000" in second.locator(".far").inner_text()
        assert "Annotators differ on" in second.locator("main").inner_text()
    with opened(folder, "cleo", adjudicate=True) as address, tab(browser, address) as page:
        others = page.locator(".other").all_inner_texts()
        assert sorted(text.split()[1] for text in others) == ["same", "unrelated"]
        assert "anna" not in page.locator("main").inner_text()
        while not title(page).startswith("All"):
            press(page, "b")
    assert {one.stage for one in said(folder, "cleo")} == {"adjudicated"}


def test_a_page_that_is_killed_loses_and_doubles_nothing(browser, work):
    folder = work("rate")
    server = served(folder)
    try:
        with tab(browser, server.address) as page:
            press(page, "1")
            server.end(signal.SIGKILL)
            told = page.locator("#said")
            page.keyboard.press("1")
            wait_until(page, lambda: "Not saved yet" in told.inner_text())
            server = served(folder, port=server.port)
            # The page that waited has the address of an earlier start.
            wait_until(page, lambda: "full address" in told.inner_text())
            page.goto(server.address)
            press(page, "1")
            press(page, "1")
    finally:
        server.end()
    kept = [(one.item_id, one.stage) for one in said(folder)]
    assert len(kept) == len(set(kept)) == 3


def test_two_tabs_of_one_person_drop_no_label(browser, work):
    folder = work("rate")
    with opened(folder) as address, tab(browser, address) as page:
        other = page.context.new_page()
        other.goto(address)
        codes = [code.get_attribute("data-code") for code in page.locator("main input").all()]
        codes = [code for code in codes if code]
        press(page, codes[0])
        press(other, codes[-1])
        assert other.locator(".elsewhere h2").inner_text().endswith("in another tab")
        assert "in another tab" in other.get_by_role("status").inner_text()
        press(other, "Enter")
        assert other.locator(".elsewhere").count() == 0
    first = [one.answer["label"] for one in said(folder) if one.item_id == said(folder)[0].item_id]
    assert len(first) == 3
    assert first[0] != first[1] == first[2]


@pytest.mark.parametrize("job", few(["rate", "match", "gold", "queries"]))
def test_on_a_dark_phone_no_barrier_is_found(browser, work, job):
    options = {"width": 375, "height": 700, "color_scheme": "dark"}
    with opened(work(job)) as address, tab(browser, address, **options) as page:
        for _ in range(2):
            assert page.evaluate("document.documentElement.scrollWidth") <= 375
            faults = [(one["id"], one["nodes"][0]["html"][:120]) for one in barriers(page)]
            assert faults == []
            if job in ("rate", "match"):
                press(page, "1")
            elif job == "gold":
                press(page, "r", "Enter")
            else:
                page.keyboard.press("?")
                page.keyboard.press("Escape")
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert dark != "rgb(255, 255, 255)"


def test_keys_are_explained_and_every_answer_has_a_name_for_screen_readers(browser, work):
    with opened(work("rate")) as address, tab(browser, address) as page:
        page.keyboard.press("?")
        assert page.get_by_role("dialog", name="Keys").is_visible()
        page.keyboard.press("Escape")
        choices = page.get_by_role("group", name="Your label").get_by_role("radio")
        assert choices.count() in (2, 5)
        press(page, "1")
        assert page.get_by_role("status").inner_text().startswith("Saved.")
        assert page.evaluate("document.activeElement.id") == "work"


def test_text_from_right_to_left_stands_at_the_right(browser, works, tmp_path):
    folder = Path(shutil.copytree(works / "rate", tmp_path / "work"))
    path = folder / "items.jsonl"
    path.write_text(path.read_text().replace('"response":"', '"response":"أعيش في بيروت مع قطتي '))
    with opened(folder) as address, tab(browser, address) as page:
        response = page.locator(".part .prose", has_text="بيروت").first
        assert response.evaluate("part => getComputedStyle(part).direction") == "rtl"


def test_without_a_script_labels_are_forms(browser, work):
    folder = work("rate")
    with opened(folder) as address, tab(browser, address, java_script_enabled=False) as page:
        page.locator("input[name=label]").last.check(force=True)
        with page.expect_navigation():
            page.get_by_role("button", name="Save").click()
        assert "The judge" in page.locator("main").inner_text()
    assert len(said(folder)) == 1
