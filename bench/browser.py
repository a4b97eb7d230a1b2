"""Chromium of this machine, for the benchmarks that look at pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a browser, as Playwright's synchronous API has it.

    Raises:
        SystemExit: If there is none.
    """
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        raise SystemExit(f"no browser here: install one of {', '.join(NAMES)}")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()
