"""The site in a real browser: what can be done with it by pointer, by keys alone, on a phone, and
without a script.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from alps.leaderboard.site import serve
from tests.endtoend import wait_until
from tests.few import few
from tests.loopback import running
from tests.pages import barriers, browser, tab_of

__all__ = ["browser"]  # a fixture

KINDS_OF_PAGES = (
    *("index.html", "extraction.html", "retrieval.html", "utilization.html", "update.html"),
    *("systems.html", "references.html", "judges.html", "changes.html", "about.html"),
    *("systems/system-003.html", "judges/0a1b2c3d4e5f.html", "records/index.html"),
    *("records/task1/alps_ext_002.html", "records/task4_ability1/alps_pa_001.html"),
)


@contextmanager
def opened(browser: Any, page: str, site: Path, **options: Any) -> Iterator[Any]:
    """Open a page; on leaving it, nothing was complained of and nothing asked for beyond the site's
    own folder.
    """
    with tab_of(browser, **options) as tab:
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


def comparison(site: Path) -> str:
    """A page on which two systems are compared."""
    return min(path.relative_to(site).as_posix() for path in site.glob("compare/*.html"))


def follow(tab: Any, link: Any) -> None:
    """Click on a link, and wait for the page: a click by itself waits for none."""
    with tab.expect_navigation():
        link.click()


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
        assert reported[-1] == "annotator_1 and annotator_2"  # sorted too, and still apart
        # A page hears that it went back in a task of its own.
        tab.go_back()
        wait_until(lambda: head(tab, "score").get_attribute("aria-sort") == "descending")
        assert names(tab) == first
        tab.go_forward()
        wait_until(lambda: names(tab) == first[::-1])
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
        wait_until(lambda: len(names(tab)) == 4)
        tab.go_forward()
        wait_until(lambda: names(tab) == ["Model 3"])
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
        wait_until(lambda: head(tab, "cost").is_visible())


def test_the_matrix_sorts_by_a_task_and_names_what_is_not_there_last(browser, site):
    with opened(browser, "index.html", site) as tab:
        first = names(tab)
        assert first[0] == "Model 4"
        head(tab, "task4_ability1").locator("button").click()
        assert query(tab) == "sort=t-matrix.task4_ability1.descending"
        shown = names(tab)
        assert shown[0] == "Model 4"
        # It was judged by another judge: it has no place on the leading board.
        assert shown[-1] == "Model 0"
        tab.go_back()
        wait_until(lambda: names(tab) == first)


@pytest.mark.parametrize("width", few([375, 1280, 768], plain=2))
def test_the_first_page_shows_scores_intervals_and_a_way_to_submit(browser, site, width):
    size = {"width": width, "height": 900}
    with opened(browser, "index.html", site, **size, java_script_enabled=False) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.locator("a.button").first.get_attribute("href") == "about.html#submit"
        cell = tab.locator("#t-matrix tbody.ranked td.cell").first
        for part in ("b data", ".interval", ".delta", ".place"):
            box = cell.locator(part).first.bounding_box()
            assert box is not None, part
            assert 0 <= box["x"] <= width - box["width"], part
        # Which task a score is of is said next to it where there is no head above it.
        label = cell.evaluate("cell => getComputedStyle(cell, '::before').content")
        assert label == ('"Retrieval@100"' if width < 1024 else "none")
        assert tab.locator(".chip").first.is_visible()
        assert tab.locator("svg .front").count() == 3


LEADS = {
    "index.html": "#t-matrix tbody.ranked td.cell b",
    "extraction.html": "table.board tbody.ranked td.lead",
}


@pytest.mark.parametrize(("width", "height"), [(375, 812), (1280, 800)])
@pytest.mark.parametrize(("page", "score"), LEADS.items())
def test_a_score_is_on_the_first_screen(browser, site, page, score, width, height):
    with opened(browser, page, site, width=width, height=height) as tab:
        box = tab.locator(score).first.bounding_box()
        assert 0 <= box["x"] <= width - box["width"]
        assert box["y"] + box["height"] <= height


@pytest.mark.parametrize("page", ["extraction", "update", "retrieval-100"])
def test_a_board_is_no_wider_than_a_page_of_1280(browser, site, page):
    with opened(browser, f"{page}.html", site, width=1280) as tab:
        board = tab.locator(".scroll:has(table.board)").first
        assert board.evaluate("at => at.scrollWidth <= at.clientWidth")


def test_no_column_of_the_first_page_is_empty(browser, site):
    with opened(browser, "index.html", site) as tab:
        for table in tab.locator("table.tasks-of").all():
            cells = []
            for row in table.locator("tbody tr:has(td.cell)").all():
                cells.append([text.strip() for text in row.locator("td.cell").all_text_contents()])
            assert all(map(any, zip(*cells, strict=True)))


@pytest.mark.parametrize("width", [375, 1280])
def test_the_chart_of_recall_shows_the_largest_pool_and_names_every_line(browser, site, width):
    with opened(browser, "retrieval.html", site, width=width, height=900) as tab:
        chart = tab.locator("svg.lines:visible")
        assert chart.count() == 1
        box = chart.bounding_box()
        assert 0 <= box["x"] <= width - box["width"]
        drawn, ends = chart.locator("path.drawn").count(), chart.locator("text.end")
        assert drawn == ends.count() == tab.locator(".legend.named li").count() > 5
        for end in ends.all():
            assert end.bounding_box()["x"] + end.bounding_box()["width"] <= width
            # What is above the drawing is cut off.
            assert end.bounding_box()["y"] >= box["y"]
        largest = chart.locator("circle.spot").last.bounding_box()
        assert largest["x"] + largest["width"] <= width


def test_a_page_of_a_system_shows_groups_of_records_and_a_rival(browser, site):
    with opened(browser, "systems/system-002.html", site, java_script_enabled=False) as tab:
        titles = tab.locator(".glance caption").all_inner_texts()
        for title in ("Tasks", "Pool size", "Extraction by script of the input"):
            assert title in titles
        assert any(title.startswith("Update by gold memories") for title in titles)
        caption = tab.locator(".beside-of caption").first
        assert caption.inner_text().endswith("compared with Model 4")
        follow(tab, tab.locator(".beside-of tbody a").first)
        assert tab.locator("h1.id").count() == 1


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


ANSWERS = {
    "what is this": ((), "alps measures how assistants extract"),
    "which system is best at update": (("Boards", "Update"), "is best"),
    "how far is the judge to be trusted": (
        ("agreement of judges with people", "openai/judge-2026-01-01"),
        "This judge has not been compared with human labels",
    ),
    "why did this one fail": (("Model 2", "alps_upd_021"), "matches no gold"),
    "how do I submit": (("Submit a system",), "alps leaderboard submit runs/mine"),
}


@pytest.mark.parametrize("asked", ANSWERS)
def test_a_stranger_finds_an_answer_by_clicks_on_visible_words(browser, site, asked):
    clicks, answer = ANSWERS[asked]
    with opened(browser, "index.html", site) as tab:
        for words in clicks:
            tab.get_by_text(words, exact=True).first.click()
        tab.wait_for_function(ON_SCREEN, arg=answer)


def test_two_systems_of_the_readers_choice_stand_side_by_side_without_a_script(browser, site):
    def compared():
        return tab.locator("thead th:not(.name):visible").all_inner_texts()

    with opened(browser, "extraction.html", site, java_script_enabled=False) as tab:
        follow(tab, tab.get_by_role("link", name="Two systems, record by record").first)
        assert compared() == ["Model 4", "Model 3"]
        tab.get_by_label("system").select_option(label="Model 1")
        assert compared() == ["Model 4", "Model 1"]
        tab.get_by_label("compared with").select_option(label="Model 2")
        assert compared() == ["Model 2", "Model 1"]
        # The page of a system leads there with this system chosen.
        tab.goto(f"{site.as_uri()}/systems/system-002.html")
        links = tab.get_by_role("link", name="compare all records with another system")
        follow(tab, links.nth(2))
        assert compared() == ["Model 4", "Model 2"]
        assert not tab.get_by_label("system").is_visible()
        tab.get_by_label("compared with").select_option(label="Model 3")
        assert compared() == ["Model 3", "Model 2"]
        # A score leads to its answer, which is unfolded among many folded ones.
        follow(tab, tab.locator("tbody tr").first.locator("td:visible a").last)
        assert tab.locator(".answer[open]").count() == 1
        assert "Model 2" in tab.locator(".answer[open]").inner_text()
        # The first of a board is no exception: it stands next to the second.
        tab.goto(f"{site.as_uri()}/systems/system-004.html")
        links = tab.get_by_role("link", name="compare all records with").all()
        for address in [link.get_attribute("href") for link in links]:
            tab.goto(f"{site.as_uri()}/{address.removeprefix('../')}")
            assert len(compared()) == 2
            assert "Model 4" in compared()


def test_keys_alone_are_enough(browser, site):
    with opened(browser, "extraction.html", site) as tab:
        first = names(tab)

        def reach(selector):
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
        assert tab.locator("#t-matrix tbody.ranked tr:visible").count() == 5
        assert tab.locator(".filters:visible, button:visible").count() == 0
        tab.goto(f"{site.as_uri()}/extraction.html")
        assert names(tab) == ["Model 4", "Model 3", "Model 2", "Model 1"]
        assert head(tab, "precision").is_visible()


def test_on_a_phone_the_page_fits_and_the_name_stays(browser, site):
    with opened(browser, "index.html", site, width=375, height=700) as tab:
        for page in (*KINDS_OF_PAGES, comparison(site)):
            tab.goto(f"{site.as_uri()}/{page}")
            assert tab.evaluate("document.documentElement.scrollWidth") <= 375, page
        tab.goto(f"{site.as_uri()}/extraction.html")
        for part in ("td.lead data", "td.bounds .interval"):
            box = tab.locator(f"tbody.ranked {part}").first.bounding_box()
            assert box["x"] + box["width"] <= 375, part
        scroll = tab.locator(".scroll").first
        assert scroll.evaluate("box => box.scrollWidth > box.clientWidth")
        scroll.evaluate("box => { box.scrollLeft = 400; }")
        name = tab.locator("tbody.ranked .name").first
        assert abs(name.bounding_box()["x"] - scroll.bounding_box()["x"]) < 2


GROUND = "getComputedStyle(document.body).backgroundColor"


def test_colours_follow_the_system_and_the_reader(browser, site):
    with opened(browser, "index.html", site, color_scheme="light") as tab:
        assert tab.evaluate(GROUND) == "rgb(255, 255, 255)"
    with opened(browser, "index.html", site, color_scheme="dark") as tab:
        dark = tab.evaluate(GROUND)
        assert dark != "rgb(255, 255, 255)"
        tab.click("button.theme")
        assert tab.evaluate(GROUND) == "rgb(255, 255, 255)"
        tab.goto(f"{site.as_uri()}/about.html")
        assert tab.evaluate(GROUND) == "rgb(255, 255, 255)"
        tab.emulate_media(media="print")
        assert not tab.locator(".bar nav").is_visible()


def test_a_served_site_asks_for_nothing_beyond_itself(browser, site):
    with running(serve(site)) as server, browser.new_context() as context:
        tab = context.new_page()
        requests, complaints = [], []
        tab.on("request", lambda request: requests.append(request.url))
        tab.on("console", lambda message: complaints.append(message.text))
        origin = f"http://127.0.0.1:{server.server_address[1]}"
        tab.goto(f"{origin}/index.html")
        head(tab, "system").locator("button").click()
        assert names(tab) == [f"Model {n}" for n in range(5)]
        assert complaints == []
        assert {url.removeprefix(origin).split("?")[0] for url in requests} == {
            *("/index.html", "/assets/site.css", "/assets/site.js", "/assets/icon.svg")
        }


def test_an_answer_in_arabic_begins_on_the_right(browser, site):
    page = "records/task4_ability1/alps_pa_001.html"
    with opened(browser, page, site) as tab:
        answer = tab.locator(".answer .prose").first
        answer.evaluate("(one, words) => { one.textContent = words; }", "أعيش في بيروت مع قطتي")
        assert answer.evaluate("one => getComputedStyle(one).direction") == "rtl"
        said = tab.locator(".said, blockquote").all()
        assert all(one.get_attribute("dir") == "auto" for one in said)


def test_a_dark_page_is_printed_light_with_what_is_folded_and_without_controls(browser, site):
    with opened(browser, "systems/system-002.html", site, color_scheme="dark") as tab:
        tab.click("button.theme")
        tab.click("button.theme")
        assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
        tab.locator("details.fold summary").first.click()
        assert not tab.locator("details.fold dl").first.is_visible()
        tab.emulate_media(media="print")
        assert tab.evaluate(GROUND) == "rgb(255, 255, 255)"
        assert tab.locator("details.fold dl").first.is_visible()
        assert not tab.locator("button.theme").is_visible()


def test_hostile_words_do_nothing(browser, site):
    with opened(browser, "systems/hostile.html", site) as tab:
        tab.on("dialog", lambda dialog: pytest.fail(dialog.message))
        assert tab.locator("h1").inner_text() == '=HYPERLINK("javascript") & «co»'
        tab.goto(f"{site.as_uri()}/records/task4_ability1/alps_pa_001.html")
        assert tab.locator("main img, main script").count() == 0
        assert tab.locator("text=alert(1)").count() == 1


@pytest.mark.parametrize(
    ("scheme", "pages"),
    [("light", KINDS_OF_PAGES), ("dark", ("index.html", "retrieval.html", KINDS_OF_PAGES[-2]))],
    ids=["light", "dark"],
)
def test_no_serious_barrier_is_found(browser, site, scheme, pages):
    options = {"preload": False} | ({} if scheme == "light" else {"runOnly": ["color-contrast"]})
    pages = (*pages, comparison(site))
    with opened(browser, "index.html", site, color_scheme=scheme) as tab:
        for page in pages:
            tab.goto(f"{site.as_uri()}/{page}")
            found = barriers(tab, **options)
            serious = [one for one in found if one["impact"] in ("serious", "critical")]
            shown = [(one["id"], [n["html"][:160] for n in one["nodes"][:3]]) for one in serious]
            assert not shown, page
