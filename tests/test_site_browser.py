"""The site in a real browser: what can be done with it by pointer, by keys alone, on a phone, and
without a script.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from alps.leaderboard.site import build, serve
from alps.tasks import TASKS, load_task
from tests import site_made
from tests.pages import browser

__all__ = ["browser"]  # a fixture

KINDS_OF_PAGES = (
    *(
        "index.html",
        "extraction.html",
        "retrieval.html",
        "utilization.html",
        "update.html",
        "systems.html",
    ),
    *(
        "systems/system-003.html",
        "judges/0a1b2c3d4e5f.html",
        "records/index.html",
        "changes.html",
        "about.html",
    ),
    *("records/task1/alps_ext_002.html", "records/task4_ability1/alps_pa_001.html"),
)

SHOWN = [name for name in TASKS if not load_task(name).needs_memory]
"""The tasks that have a panel though nobody has submitted a memory system."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site_made.make_submissions(folder / "submissions")
    return build(folder / "submissions", folder / "site").out


@contextmanager
def opened(browser: Any, page: str, site: Path, **options: Any) -> Iterator[Any]:
    """Open a page; on leaving it, nothing was complained of and nothing asked for beyond the site's
    own folder.
    """
    options = {"viewport": {"width": 1200, "height": 800}, **options}
    with browser.new_context(**options) as context:
        tab = context.new_page()
        complaints: list[str] = []
        requests: list[str] = []
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(f"{site.as_uri()}/{page}")
        yield tab
        assert complaints == []
        assert [url for url in requests if not url.startswith(f"{site.as_uri()}/")] == []


def names(tab: Any, kind: str = "ranked") -> list[str]:
    """The systems that are shown in the first part of its kind of the first table, from top to
    bottom.
    """
    body = tab.locator("table[data-sortable]").first.locator(f"tbody.{kind}").first
    rows = body.locator("tr:not([hidden]):not(.divider) .name")
    return [text.split("\n")[0] for text in rows.all_inner_texts()]


def query(tab: Any) -> str:
    return str(urlsplit(tab.url).query)


def head(tab: Any, key: str) -> Any:
    return tab.locator("table[data-sortable]").first.locator(f"th[data-key={key}]")


def test_a_column_sorts_both_ways_and_back_and_the_address_remembers(browser, site):
    with opened(browser, "extraction.html", site) as tab:
        first = names(tab)
        assert first == ["Model 4", "Model 3", "Model 2", "Model 1"]
        assert head(tab, "score").get_attribute("aria-sort") == "none"
        head(tab, "score").locator("button").click()
        assert head(tab, "score").get_attribute("aria-sort") == "descending"
        assert names(tab) == first
        head(tab, "score").locator("button").click()
        assert head(tab, "score").get_attribute("aria-sort") == "ascending"
        assert names(tab) == first[::-1]
        assert ".score.ascending" in query(tab)
        reported = names(tab, "reported")
        assert reported[0] == "Llama-4 Maverick"  # sorted too, and still apart
        tab.go_back()
        assert head(tab, "score").get_attribute("aria-sort") == "descending"
        assert names(tab) == first
        tab.go_forward()
        assert names(tab) == first[::-1]
        tab.reload()
        assert names(tab) == first[::-1]
        head(tab, "score").locator("button").click()
        assert head(tab, "score").get_attribute("aria-sort") == "none"
        assert names(tab) == first


def test_what_is_unknown_is_sorted_last(browser, site):
    with opened(browser, "extraction.html", site) as tab:
        for way in ("ascending", "descending"):
            head(tab, "cost").locator("button").click()
            assert head(tab, "cost").get_attribute("aria-sort") == way
            assert names(tab)[-1] == "Model 4"  # its cost is not known


def test_search_and_filters_hide_rows_and_stand_in_the_address(browser, site):
    with opened(browser, "extraction.html", site) as tab:
        tab.fill("input[name=q]", "MODEL 2")
        assert names(tab) == ["Model 2"]
        assert "rows" in tab.locator(".filters output").inner_text()
        assert query(tab) == "q=MODEL+2"
        tab.fill("input[name=q]", "")
        tab.select_option("select[name=kind]", "memory")
        assert names(tab) == ["Model 3"]
        assert query(tab) == "kind=memory"
        tab.go_back()
        assert len(names(tab)) == 4
        tab.go_forward()
        assert names(tab) == ["Model 3"]
        assert tab.locator("select[name=kind]").input_value() == "memory"
        tab.click("button[type=reset]")
        assert len(names(tab)) == 4
        assert query(tab) == ""
        tab.select_option("select[name=status]", "re-scored")
        assert names(tab) == ["Model 3"]
        tab.goto(f"{site.as_uri()}/extraction.html?open=no&judge=openai%2Fjudge-2026-01-01")
        assert names(tab) == ["Model 4", "Model 1"]


def test_groups_of_columns_fold_away(browser, site):
    with opened(browser, "extraction.html", site) as tab:
        assert not head(tab, "precision").is_visible()
        assert head(tab, "cost").is_visible()
        tab.check("input[value=more]")
        tab.uncheck("input[value=cost]")
        assert head(tab, "precision").is_visible()
        assert not head(tab, "cost").is_visible()
        assert query(tab) == "cols=more,coverage"
        tab.go_back()
        assert head(tab, "cost").is_visible()


def test_tabs_of_the_tasks_stand_in_the_address(browser, site):
    with opened(browser, "index.html", site) as tab:
        assert tab.locator("section.panel:visible").count() == 1
        tab.click(".tabs a[href='#update']")
        assert tab.locator("section.panel:visible").get_attribute("id") == "update"
        assert query(tab) == "tab=update"
        tab.go_back()
        assert tab.locator("section.panel:visible").get_attribute("id") == "extraction"


def test_keys_alone_are_enough(browser, site):
    with opened(browser, "extraction.html", site) as tab:
        first = names(tab)

        def reach(selector: str) -> None:
            for _ in range(80):
                tab.keyboard.press("Tab")
                if tab.evaluate("selector => document.activeElement.matches(selector)", selector):
                    return
            raise AssertionError(f"{selector} is not reached by the Tab key")

        reach("a.skip")
        reach("input[name=q]")
        tab.keyboard.type("model 1")
        assert names(tab) == ["Model 1"]
        tab.keyboard.press("ControlOrMeta+a")
        tab.keyboard.press("Delete")
        reach("th[data-key=score] button")
        shown = "getComputedStyle(document.activeElement).outlineStyle"
        assert tab.evaluate(shown) != "none"
        tab.keyboard.press("Enter")
        tab.keyboard.press("Space")
        assert names(tab) == first[::-1]


def test_without_a_script_everything_is_there(browser, site):
    with opened(browser, "index.html", site, java_script_enabled=False) as tab:
        assert tab.locator("section.panel:visible").count() == len(SHOWN)
        assert tab.locator(".filters:visible, button:visible").count() == 0
        tab.goto(f"{site.as_uri()}/extraction.html")
        assert names(tab) == ["Model 4", "Model 3", "Model 2", "Model 1"]
        assert head(tab, "precision").is_visible()


def test_on_a_phone_the_page_fits_and_the_name_stays(browser, site):
    with opened(browser, "index.html", site, viewport={"width": 375, "height": 700}) as tab:
        for page in KINDS_OF_PAGES:
            tab.goto(f"{site.as_uri()}/{page}")
            assert tab.evaluate("document.documentElement.scrollWidth") <= 375, page
        tab.goto(f"{site.as_uri()}/extraction.html")
        scroll = tab.locator(".scroll").first
        assert scroll.evaluate("box => box.scrollWidth > box.clientWidth")
        scroll.evaluate("box => { box.scrollLeft = 400; }")
        name = tab.locator("tbody.ranked .name").first
        assert abs(name.bounding_box()["x"] - scroll.bounding_box()["x"]) < 2


def test_colours_follow_the_system_and_the_reader(browser, site):
    ground = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, "index.html", site, color_scheme="light") as tab:
        assert tab.evaluate(ground) == "rgb(255, 255, 255)"
    with opened(browser, "index.html", site, color_scheme="dark") as tab:
        dark = tab.evaluate(ground)
        assert dark != "rgb(255, 255, 255)"
        tab.click("button.theme")
        assert tab.evaluate(ground) == "rgb(255, 255, 255)"
        tab.goto(f"{site.as_uri()}/about.html")
        assert tab.evaluate(ground) == "rgb(255, 255, 255)"
        tab.emulate_media(media="print")
        assert not tab.locator(".bar nav").is_visible()


def test_a_served_site_asks_for_nothing_beyond_itself(browser, site):
    with serve(site) as server, browser.new_context() as context:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            tab = context.new_page()
            requests, complaints = [], []
            tab.on("request", lambda request: requests.append(request.url))
            tab.on("console", lambda message: complaints.append(message.text))
            origin = f"http://127.0.0.1:{server.server_address[1]}"
            tab.goto(f"{origin}/index.html")
            head(tab, "system").locator("button").click()
            assert names(tab) == ["Model 1", "Model 2", "Model 3", "Model 4"]
            assert complaints == []
            assert {url.removeprefix(origin).split("?")[0] for url in requests} == {
                *("/index.html", "/assets/site.css", "/assets/site.js", "/assets/icon.svg")
            }
        finally:
            server.shutdown()
            thread.join()


def test_hostile_words_do_nothing(browser, site):
    with opened(browser, "systems/hostile.html", site) as tab:
        tab.on("dialog", lambda dialog: pytest.fail(dialog.message))
        assert tab.locator("h1").inner_text() == '=HYPERLINK("javascript") & «co»'
        tab.goto(f"{site.as_uri()}/records/task4_ability1/alps_pa_001.html")
        assert tab.locator("main img, main script").count() == 0
        assert tab.locator("text=alert(1)").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_barrier_is_found(browser, site, scheme):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    )
    options = {"resultTypes": ["violations"], "preload": False}
    pages = (
        KINDS_OF_PAGES
        if scheme == "light"
        else ("index.html", "retrieval.html", "records/task1/alps_ext_002.html")
    )
    options |= {} if scheme == "light" else {"runOnly": ["color-contrast"]}
    with opened(browser, "index.html", site, color_scheme=scheme) as tab:
        for page in pages:
            tab.goto(f"{site.as_uri()}/{page}")
            found = axe.Axe().run(tab, options=options).response["violations"]
            serious = [one for one in found if one["impact"] in ("serious", "critical")]
            assert not serious, (
                page,
                [(one["id"], [n["html"][:160] for n in one["nodes"][:3]]) for one in serious],
            )
