"""A page as a test reads it, and as a browser shows it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    "--disable-background-networking",
)


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts = ""
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.text += data
        elif self._inside[-1] == "script":
            self.scripts += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def values(self) -> list[str | None]:
        return [attributes["value"] for attributes in self.all("data")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium here")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield browser
        _tabs.clear()
        browser.close()


_tabs: dict[tuple[tuple[str, Any], ...], Any] = {}
"""The tabs of the browser of this module, by what can't be changed of them."""
_FORGET = "() => { try { localStorage.clear(); sessionStorage.clear(); } catch {} }"


@contextmanager
def tab_of(
    browser: Any,
    *,
    width: int = 1200,
    height: int = 800,
    color_scheme: str = "light",
    reduced_motion: str = "no-preference",
    **options: Any,
) -> Iterator[Any]:
    """Give an empty tab that remembers nothing of the test before.

    A tab is a process of the browser, which takes longer to start than most pages to look at: the
    next test gets the same one, unless this one fails.
    """
    key = tuple(sorted(options.items()))
    if key not in _tabs:
        _tabs[key] = browser.new_context(**options).new_page()
        # Beside four busy processes, a page took longer than the 30 s that are usual.
        _tabs[key].set_default_timeout(120_000)
    tab = _tabs.pop(key)
    tab.set_viewport_size({"width": width, "height": height})
    tab.emulate_media(media="screen", color_scheme=color_scheme, reduced_motion=reduced_motion)
    try:
        yield tab
        for other in tab.context.pages[1:]:
            other.close()
        tab.evaluate(_FORGET)
        tab.context.clear_cookies()
        tab.goto("about:blank")
    except BaseException:
        tab.context.close()
        raise
    if key in _tabs:
        tab.context.close()
    else:
        _tabs[key] = tab


def barriers(tab: Any, **options: Any) -> list[dict[str, Any]]:
    """Return what axe finds wrong with the page of a tab; skip the test where axe is not here."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    )
    options = {"resultTypes": ["violations"], **options}
    return axe.Axe().run(tab, options=options).response["violations"]


def look(browser: Any, path: Path, *, width: int, scheme: str) -> None:
    """Open a page: it fits, follows the colour scheme, unfolds, complains of nothing and asks for
    nothing.
    """
    with tab_of(browser, width=width, color_scheme=scheme) as page:
        complaints: list[str] = []
        requests: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        for button in page.query_selector_all("button.toggle"):
            button.click()
        assert page.evaluate("document.querySelectorAll('details:not([open])').length") == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.title().endswith("alps report")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground != "rgb(255, 255, 255)") == (scheme == "dark")
        assert complaints == []
        assert requests == [path.as_uri()]
