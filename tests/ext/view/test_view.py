"""The page of all records: from its files in Chromium, and served while a run goes on."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from alps.ext.view.loopback import HOST, listen, server_of
from tests.endtoend import rows, run, write_rows
from tests.few import few
from tests.pages import browser, tab_of
from tests.report_runs import RECORDS, make_hard_run, make_samples_run
from tests.tracks import alps_here

__all__ = ["browser"]  # a fixture
TOKEN = "a-token-of-the-tests"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("view")
    make_samples_run(folder)
    make_hard_run(folder)
    oracle = ("task=extraction", "model=oracle", "data=samples", "out=oracle-run")
    assert run(folder, "run", *oracle).returncode == 0
    for words in (("hard-run", "out=hard"), ("samples-run", "oracle-run", "out=both")):
        finished = run(folder, "view", *words)
        assert finished.returncode == 0, finished.stderr
    return folder


@contextmanager
def opened(browser: Any, address: str, *, width: int = 1280) -> Iterator[Any]:
    """Open a page that complains of nothing."""
    with tab_of(browser, width=width) as page:
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        page.wait_for_selector("#list button")
        yield page
        assert complaints == []


def ids(page: Any) -> list[str]:
    return [line.inner_text() for line in page.query_selector_all("#list .id")]


def test_records_are_searched_filtered_and_ordered_without_a_server(browser, place):
    with opened(browser, (place / "hard" / "index.html").as_uri()) as page:
        assert len(ids(page)) == len(RECORDS)
        page.select_option("#outcome", "refused")
        assert page.inner_text("#count") == f"1 of {len(RECORDS)} records"
        page.select_option("#outcome", "")
        page.fill("#search", "PERFECT")
        assert ids(page) == ["perfect"]
        page.fill("#search", "")
        page.select_option("#order", "high")
        assert ids(page)[0] == "perfect"
        page.select_option("#order", "low")
        assert "perfect" not in ids(page)[:2]


def test_a_record_is_shown_whole_and_hostile_text_stays_text(browser, place):
    with opened(browser, (place / "hard" / "index.html").as_uri()) as page:
        for _ in RECORDS:
            page.keyboard.press("j")
            page.wait_for_selector("#shown details")
        assert page.title() == "Records · alps view"
        assert page.query_selector("#shown img, #shown script") is None
        page.fill("#search", "perfect")
        page.click("#list button")
        page.wait_for_selector("#shown h2:has-text('perfect')")
        assert "I live in Graz" in page.inner_text("#shown")
        address = page.evaluate("location.hash")
    with opened(browser, (place / "hard" / "index.html").as_uri() + address) as page:
        page.wait_for_selector("#shown h2:has-text('perfect')")


@pytest.mark.parametrize("width", few([375, 1280]))
def test_two_runs_stand_side_by_side(browser, place, width):
    with opened(browser, (place / "both" / "index.html").as_uri(), width=width) as page:
        page.select_option("#order", "apart")
        page.click("#list button")
        page.wait_for_selector("#shown details")
        assert [whose.inner_text() for whose in page.query_selector_all(".whose")] == [
            "A\nrules",
            "B\noracle",
        ]
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_served_page_follows_a_run_that_goes_on(browser, place, tmp_path):
    from alps.ext.view.page import application

    folder = Path(shutil.copytree(place / "hard-run", tmp_path / "going-on"))
    (folder / "summary.json").unlink()
    whole = {}
    for name in ("predictions.jsonl", "verdicts.jsonl", "scores.jsonl"):
        whole[name] = (folder / name).read_bytes()
        (folder / name).write_bytes(b"".join(whole[name].splitlines(keepends=True)[:2]))
    bound = listen(0)
    server = server_of(application([folder], TOKEN))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        address = f"http://{HOST}:{bound.getsockname()[1]}/"
        with browser.new_context() as context:
            assert context.request.get(address).status == 403
        with opened(browser, f"{address}{TOKEN}/") as page:
            before = len(ids(page))
            page.click("#list button")
            page.wait_for_selector("#shown details")
            for name, content in whole.items():
                (folder / name).write_bytes(content)
            page.wait_for_selector(f"#list li:nth-child({before + 1})", timeout=60_000)
            assert len(ids(page)) == len(RECORDS)
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def test_the_first_record_is_open_and_rows_begin_with_its_words(browser, place):
    with opened(browser, (place / "both" / "index.html").as_uri()) as page:
        page.wait_for_selector("#shown details[open]")
        first = page.locator("#list button").first
        assert first.get_attribute("aria-current") == "true"
        assert first.locator(".words").inner_text().startswith("half a kilo of hazelnuts")
        assert page.input_value("#order") == "apart"
        assert "#" not in page.url  # nobody chose it
        tints = [one.get_attribute("class") for one in first.locator(".number").all()]
        assert tints == ["number tint-0", "number tint-4"]
        page.fill("#search", "hazelnuts")
        assert page.inner_text("#count").startswith("1 of ")


def test_an_empty_search_offers_to_clear_the_filters(browser, place):
    with opened(browser, (place / "hard" / "index.html").as_uri()) as page:
        assert not page.is_visible("#clear")
        page.fill("#search", "no such words")
        assert page.inner_text("#count") == "No record matches."
        page.click("text=Clear filters")
        assert len(ids(page)) == len(RECORDS)
        assert not page.is_visible("#clear")


@pytest.mark.release
def test_a_folder_that_holds_something_else_is_left_alone(place, tmp_path):
    assert alps_here("view", str(place / "hard-run"), f"out={place / 'hard'}").code == 0
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("chapter one", encoding="utf-8")
    refused = alps_here("view", str(place / "hard-run"), f"out={theirs}")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "has other files in it" in refused.err
    assert [path.name for path in theirs.iterdir()] == ["thesis.txt"]


def test_the_list_is_printed_whole_and_a_chosen_record_alone(browser, place):
    with opened(browser, (place / "hard" / "index.html").as_uri()) as page:
        page.emulate_media(media="print")
        section = page.locator(".columns > section").first
        assert section.evaluate("one => one.scrollHeight <= one.clientHeight")
        assert not page.locator("#filters").is_visible()
        page.emulate_media(media="screen")
        page.locator("#list button").first.click()
        page.wait_for_selector("#shown details")
        page.emulate_media(media="print")
        assert not section.is_visible()
        assert page.locator("#shown h2").is_visible()


def test_every_memory_of_an_answer_is_found_by_its_words(browser, place):
    wanted = {}
    for row in rows(place / "samples-run" / "predictions.jsonl"):
        for item in (row["prediction"] or {}).get("memory_items", ()):
            wanted[item["value"]] = row["benchmark_id"]
    address = (place / "both" / "index.html").as_uri()
    with opened(browser, f"{address}#100%") as page:
        for value, name in wanted.items():
            page.fill("#search", value)
            assert name in ids(page), value
        # The names of fields are no answers.
        page.fill("#search", "unmapped")
        assert ids(page) == []


def test_an_answer_in_another_form_ends_no_export(place, tmp_path):
    pytest.importorskip("inspect_ai", reason="pip install 'alps-eval[inspect]'")
    folder = Path(shutil.copytree(place / "samples-run", tmp_path / "odd"))
    path = folder / "predictions.jsonl"
    first, *others = rows(path)
    first["prediction"] = {"memory_items": "boo"}
    write_rows(path, (first, *others))
    done = alps_here("export", folder, "format=inspect", f"out={tmp_path / 'logs'}")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("words", [("port=8099",), ("serve=yes", "out=elsewhere")])
def test_a_setting_that_would_change_nothing_is_refused(place, words):
    refused = alps_here("view", str(place / "hard-run"), *words)
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "would change nothing with serve=" in refused.err
